"""The view of an evaluation: what it shows of totals, failures and the worst runs, on a terminal and
as Markdown.
"""

from __future__ import annotations

from typing import Any

import pytest

from assay.cli import terminal
from assay.files.json_files import Document
from assay.records.evaluation import Evaluation, VersionedName
from assay.records.evidence import Run
from assay.records.reading import read_run
from assay.release.summary import EvaluationTally
from assay.views.evaluation import (
    RunReasons,
    WorstSample,
    evaluation_view,
    keep_worst,
    sample_facts,
    worst_sample,
)
from assay.views.markdown import view
from cards import graded
from documents import run as make_run


def evaluated(*runs: dict[str, Any]) -> tuple[Evaluation, list[Any]]:
    found = [graded(run) for run in runs]
    tally = EvaluationTally()
    for one in found:
        tally.add(one.payload())
    evaluation = Evaluation(
        id="e-1",
        name="faq-1",
        source="run",
        settings={},
        workflow=VersionedName(id="faq", version="3"),
        dataset=VersionedName(id="d"),
        configuration="sha256:0",
        started="2026-11-15T10:00:00Z",
        finished=None,
        totals=tally.totals(),
        runs=[],
    )
    results = [
        (one.payload(), read_run(Document(run, "x"))) for one, run in zip(found, runs, strict=True)
    ]
    worst: list[WorstSample] = []
    for result, run in results:
        keep_worst(worst, result, run)
    return evaluation, worst


def failed(name: str, **more: Any) -> dict[str, Any]:
    made = make_run("rag")
    own = {"run_id": name, "dataset": {**made["dataset"], "sample_id": f"s-{name}"}}
    return {**made, **own, "status": "failed", **more}


def of_run(**keys: Any) -> Run:
    """A run that states little else."""
    made = make_run("rag")
    head = {name: made[name] for name in ("schema", "run_id", "workflow", "dataset", "status")}
    return read_run(Document({**head, **keys}, "x"))


def test_totals_failures_and_the_worst_three_are_shown_with_question_and_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = [
        failed(f"r-{index}", inputs={"question": f"Q{index}?"}, outputs={"answer": f"A{index}."})
        for index in range(4)
    ]
    broken = failed("r-9", status="error", outputs=None, metadata={"error": "boom"}, scores={})
    evaluation, worst = evaluated(*runs, broken, make_run("rag"))
    terminal.show(evaluation_view(evaluation, worst=worst, commands=[("assay evals", "lists")]))
    out = capsys.readouterr().out
    assert "\n\n\n" not in out
    lines = out.splitlines()
    assert lines[0] == "evaluation  faq-1: faq@3 on d"
    assert lines[1] == "passed      ✗ 1 of 6 runs passed"
    assert lines[2].startswith("pass rate   16.7% [")
    assert lines[3].startswith("mean score  ")
    assert ["overall_status_success", "5", "6"] in [line.split() for line in lines]
    shown = [line for line in lines if line.startswith("sample ")]
    assert len(shown) == 3
    assert [line.split()[1] for line in shown] == ["s-r-9:", "s-r-0:", "s-r-1:"]
    assert "answer      no answer; status error: boom" in lines
    assert "question    Q0?" in lines
    assert "answer      A0." in lines
    assert "  assay evals  # lists" in lines


def test_one_gate_that_fails_a_sample_comes_with_its_reason() -> None:
    gates = {"no_pii": {"status": "fail", "reason": "reported with the run: it has\nan address"}}
    grade = {"run_id": "r", "grade": "F", "hard_gate_failures": ["no_pii"], "hard_gates": gates}
    said = "gate no_pii does not pass"
    assert worst_sample(grade, None).why == f"{said}: reported with the run: it has an address"
    gates["no_pii"]["reason"] = ""
    assert worst_sample(grade, None).why == said
    two = {**grade, "hard_gate_failures": ["no_pii", "signed"]}
    assert worst_sample(two, None).why == "gates no_pii, signed do not pass"


def test_an_evaluation_whose_runs_all_passed_has_no_failures_to_show(
    capsys: pytest.CaptureFixture[str],
) -> None:
    evaluation, worst = evaluated(make_run("rag"))
    assert worst == []
    terminal.show(evaluation_view(evaluation, worst=worst))
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_a_run_without_an_answer_is_explained_with_its_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = {"inputs": {"question": "Q?"}, "expected": {"answer": "A."}}
    broken = {**asked, "status": "error", "metadata": {"error": "KeyError:\n  999"}}
    terminal.show([sample_facts(of_run(**broken))])
    assert capsys.readouterr().out.splitlines() == [
        "question    Q?",
        "answer      no answer; status error: KeyError: 999",
        "expected    A.",
    ]
    for metadata in ({}, {"error": ""}):  # nothing was recorded: nothing to add
        terminal.show([sample_facts(of_run(**asked, outputs={}, metadata=metadata))])
        assert capsys.readouterr().out.splitlines() == ["question    Q?", "expected    A."]
    terminal.show([sample_facts(of_run(**broken, outputs={"answer": "B."}))])
    assert "answer      B." in capsys.readouterr().out


def test_a_judges_score_is_explained_with_its_name_and_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scores = {
        "clear": {"raw": 4, "source": {"kind": "llm", "name": "m-1"}},
        "brief": {"raw": 2, "source": {"kind": "llm", "name": "m-1"}},
        "lost": {"raw": None, "source": {"kind": "llm", "name": "m-1"}},
        "short": {"raw": 1, "source": {"kind": "script", "name": "count.py"}},
    }
    reasons = {"clear": "Plain\nwords.", "short": "not a judge's"}
    terminal.show([sample_facts(of_run(scores=scores, metadata={"judge_reasons": reasons}))])
    assert capsys.readouterr().out.splitlines() == [
        "judge       clear 4 by m-1: Plain words.",
        "judge       brief 2 by m-1",
    ]


def test_an_evaluation_without_runs_does_not_look_passed() -> None:
    evaluation, _ = evaluated()
    assert "✗ 0 of 0 runs passed" in view("evaluation", evaluation_view(evaluation))


def test_text_of_a_run_is_inert_in_markdown() -> None:
    evaluation, worst = evaluated(failed("r", inputs={"question": "<b>x</b>\n# [y](z)"}))
    text = view("evaluation", evaluation_view(evaluation, worst=worst))
    assert "- question: `<b>x</b> # [y](z)`" in text


def test_a_long_answer_is_cut() -> None:
    evaluation, worst = evaluated(failed("r", outputs={"a": "x" * 100_000, "b": ["y"] * 1000}))
    assert len(view("evaluation", evaluation_view(evaluation, worst=worst))) < 3000


def test_missed_floors_are_counted_and_a_missing_score_has_its_reason() -> None:
    runs = [failed("r"), failed("s", scores={}, claims=None), failed("t", scores={}, claims=None)]
    reasons = RunReasons()
    for number, one in enumerate(map(graded, runs)):
        reasons.add(one.payload() if number % 2 else one.grade)
    evaluation, worst = evaluated(*runs)
    text = view("evaluation", evaluation_view(evaluation, worst=worst, reasons=reasons))
    assert "Criterion below its floor" in text
    assert reasons.floors["faithfulness"] == 2
    assert "safety | 2 | 3 | the run has no score 'safety'" in text.replace("`", "")
