"""The tools of `assay mcp` that show evaluations, grades and samples."""

from __future__ import annotations

import os
from bisect import insort
from collections.abc import Mapping
from typing import Any

from assay.canon import plain
from assay.cli.evals import find_page
from assay.cli.ledger import url_of
from assay.cli.mcp_bounds import TEXT, fenced
from assay.cli.mcp_project import (
    DATA,
    LIMIT,
    PageRange,
    ServedProject,
    ToolAnswer,
    more_text,
    page_of,
)
from assay.cli.mcp_samples import GradedRuns, GradedSample, graded_runs, nothing_graded
from assay.errors import NotEnoughEvidence, printable
from assay.records.grade_line import as_line
from assay.release.baseline import names as baseline_names
from assay.services.evaluations import StoredEvaluation
from assay.views.evaluation import RunReasons, evaluation_view, evaluations_table
from assay.views.grade_line import change_text, explanation, passed_word
from assay.views.pieces import points
from assay.views.text import text_view


def list_evaluations(project: ServedProject, given: Mapping[str, Any]) -> ToolAnswer:
    """The newest evaluations of the ledger."""
    rows = page_of(given)
    words = [f"--{name}={given[name]}" for name in ("workflow", "dataset") if name in given]
    options = project.options("evals", f"--limit={rows.limit + 1}", *words)
    where = url_of(options.db).removeprefix("sqlite:///")
    if "://" not in where and not os.path.exists(where):
        raise NotEnoughEvidence(
            "STO-012",
            "there is no ledger here yet.",
            where=where,
            fix="The other tools take the path of a result file in the project as `evaluation`.",
        )
    page, total, where = find_page(options, start=rows.start)
    shown = page[: rows.limit]
    folder = project.options("gate").baselines
    document: dict[str, Any] = {
        "evaluations": [_brief(evaluation) for evaluation in shown],
        "in_project": total,
        "next_offset": rows.next_offset(rows.start + len(page)),
        "baselines": baseline_names(folder),
        "ledger": where,
    }
    if not shown:
        text = f"No evaluations match. The project {options.project!r} has {total:,} in all."
        return ToolAnswer(document, text)
    text = text_view([evaluations_table([evaluation.evaluation for evaluation in shown])])
    return ToolAnswer(document, text + more_text(document["next_offset"]))


def _brief(stored: StoredEvaluation) -> dict[str, Any]:
    """An evaluation without the digests and without the counts that are zero."""
    totals = stored.evaluation.totals
    kept = ("id", "name", "source", "workflow", "dataset", "labels", "started", "finished")
    return {
        **{key: getattr(stored.evaluation, key) for key in kept},
        "all_passed": totals.n > 0 and totals.passed == totals.n,
        "n": totals.n,
        "passed": totals.passed,
        "not_graded": totals.ungraded,
        "pass_rate": totals.pass_rate,
        "score": totals.score,
        "gate_failures": {name: n for name, n in totals.gate_failures.items() if n},
        "missing_scores": {name: n for name, n in totals.missing.items() if n},
    }


# --- grades


def explain_grade(project: ServedProject, given: Mapping[str, Any]) -> ToolAnswer:
    """Why an evaluation, or one sample of it, got its grade."""
    with graded_runs(project, given["evaluation"]) as runs:
        if "sample" in given:
            return _explain_sample(runs, given["sample"])
        return _explain_all(runs, page_of(given))


def _explain_sample(runs: GradedRuns, name: str) -> ToolAnswer:
    sample_found = runs.find(name)
    grade = sample_found.sample.grade
    if grade is None:
        raise nothing_graded(f"{runs.name}, {sample_found.sample.run_id}")
    kept = ("run_id", "sample_id", "grade", "passed", "weighted_score", "pass_threshold", "reason")
    document = {
        "of": runs.name,
        **{key: grade.get(key) for key in kept},
        "explanation": grade["explanation"],
        "smallest_change": change_text(grade) or None,
        "smallest_gain": grade["placement"].get("smallest_gain"),
        "smallest_loss": grade["placement"].get("smallest_loss"),
        "gates": grade["hard_gates"],
        "criteria": [_criterion(criterion) for criterion in grade["criteria"]],
        "graded_by": _graded_by(grade),
        "other_runs_of_the_sample": sample_found.others,
    }
    return ToolAnswer(document, text_view(explanation(grade)))


def _criterion(criterion: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("name", "label", "raw_score", "norm", "weight", "contribution", "maximum", "missing")
    return {
        **{key: criterion.get(key) for key in kept},
        "floor": criterion.get("critical_floor"),
        "floor_failed": criterion.get("floor_failed"),
    }


def _graded_by(grade: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("profile", "rubric", "policy", "scoringSystem", "gradingSystem")
    return {key: grade.get(key) for key in kept}


def _explain_all(runs: GradedRuns, rows: PageRange) -> ToolAnswer:
    n = passed = 0
    reasons = RunReasons()
    failing: list[tuple[float, str, dict[str, Any]]] = []
    for grade in runs.grades():
        n += 1
        reasons.add(grade)
        if grade["passed"] is True:
            passed += 1
            continue
        row = (float(grade["weighted_score"]), str(grade["run_id"]))
        if len(failing) < rows.end or row < failing[-1][:2]:
            insort(failing, (*row, _failing(grade)), key=lambda row: row[:2])
            del failing[rows.end :]
    if not n:
        raise nothing_graded(runs.name)
    shown = [row for _, _, row in failing[rows.start : rows.end]]
    failed, ungraded = n - passed, 0
    notes = []
    if runs.stored is not None and (ungraded := runs.stored.evaluation.totals.ungraded):
        notes.append(f"{ungraded:,} of {n + ungraded:,} runs could not be graded.")
    document: dict[str, Any] = {
        "of": runs.name,
        "evaluation": None if runs.stored is None else _brief(runs.stored),
        "graded": n,
        "not_graded": ungraded,
        "passed": passed,
        "not_passed": failed,
        "worst_first": shown,
        "next_offset": rows.next_offset(failed),
    }
    head = (
        f"{runs.name}: {passed:,} of {n:,} runs passed"
        if runs.stored is None
        else text_view(evaluation_view(runs.stored.evaluation, notes=notes, reasons=reasons))
    )
    lines = [
        printable(
            f"{row['sample']}: {row['grade']} {points(row['score'])}, {row['why']}."
            f" {row['smallest_change']}".rstrip()
        )
        for row in shown
    ]
    return ToolAnswer(
        document, "\n".join([head, "", *lines]).strip() + more_text(document["next_offset"])
    )


def _failing(grade: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sample": str(grade.get("sample_id") or grade["run_id"]),
        "run_id": grade["run_id"],
        "grade": grade["grade"],
        "score": float(grade["weighted_score"]),
        "why": as_line(grade).why,
        "smallest_change": change_text(grade),
    }


# --- samples

_EVIDENCE = ("inputs", "outputs", "expected", "expected_claims", "claims", "retrieval", "tests")
_WORK = ("steps", "tool_calls", "handoffs")
_SPENT = ("latency_ms", "cost_usd", "tokens", "retries", "started_at", "finished_at")


BLOCKS = 20_000
"""Characters of evidence in the text of an answer."""


def show_sample(project: ServedProject, given: Mapping[str, Any]) -> ToolAnswer:
    """One sample: what went in, what came out, what was expected, and how it was graded."""
    most = given.get("max_chars", TEXT)
    with graded_runs(project, given["evaluation"]) as runs:
        sample_found = runs.find(given["sample"])
    run, grade = sample_found.sample.run or {}, sample_found.sample.grade
    document = {
        "of": runs.name,
        "run_id": sample_found.sample.run_id,
        "sample": (run.get("dataset") or {}).get("sample_id") or (grade or {}).get("sample_id"),
        "workflow": run.get("workflow") or (grade or {}).get("workflow"),
        "dataset": run.get("dataset") or (grade or {}).get("dataset"),
        "status": run.get("status"),
        "grade": None if grade is None else _short_grade(grade),
        **{key: run[key] for key in _WORK if run.get(key)},
        "spent": {key: run[key] for key in _SPENT if run.get(key) is not None},
        "stated_scores": run.get("scores") or {},
        "stated_gates": run.get("gates") or {},
        "data": {
            "about": DATA,
            **{key: run[key] for key in _EVIDENCE if run.get(key) is not None},
            **_error(run),
        },
        "other_runs_of_the_sample": sample_found.others,
    }
    return ToolAnswer(document, _sample_text(runs.name, sample_found.sample, most), most)


def _short_grade(grade: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "grade": grade["grade"],
        "passed": grade["passed"],
        "score": grade["weighted_score"],
        "why": as_line(grade).why,
        "smallest_change": change_text(grade) or None,
        "gates": grade["hard_gates"],
        "criteria": [_criterion(criterion) for criterion in grade["criteria"]],
    }


def _error(run: Mapping[str, Any]) -> dict[str, Any]:
    stated = run.get("metadata") or {}
    error = stated.get("error")
    if error is None and run.get("status") != "success":
        error = stated.get("reason")
    return {} if error is None else {"error": error}


def _score_text(item: Mapping[str, Any]) -> str:
    return f"{item['name']} {'missing' if item.get('raw_score') is None else item['norm']}"


def _graded_lines(name: str, grade: Mapping[str, Any] | None) -> list[str]:
    if grade is None:
        return [f"{name}: not graded"]
    score = f"{grade['grade']}, {points(grade['weighted_score'])}"
    why = as_line(grade).why
    return [
        f"{name}: {score}, {passed_word(grade['passed'])}",
        *([f"Why: {why}. {change_text(grade)}".rstrip()] if why else []),
        *(
            f"Gate {name} {gate['status']}: {gate['reason']}"
            for name, gate in grade["hard_gates"].items()
            if gate["status"] != "pass"
        ),
        f"Scores: {', '.join(map(_score_text, grade['criteria'])) or 'none'}",
    ]


def _sample_text(of: str, sample: GradedSample, most: int) -> str:
    run = sample.run or {}
    steps = [f"{step.get('name')} {step.get('status')}" for step in run.get("steps") or ()]
    told = [
        *_graded_lines(f"{sample.run_id} of {of}", sample.grade),
        *([f"Steps: {', '.join(steps[:LIMIT])}"] if steps else []),
    ]
    lines = [*(printable(line)[:TEXT] for line in told), DATA]
    left = BLOCKS
    for title, value in (
        ("ERROR", _error(run).get("error")),
        ("INPUTS", run.get("inputs")),
        ("ANSWER", run.get("outputs")),
        ("EXPECTED", run.get("expected")),
    ):
        if value is not None:
            block = fenced(title, plain(value), most=min(most, max(left, 0)))
            left -= len(block)
            lines.append(block)
    return "\n".join(lines)
