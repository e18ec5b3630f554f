"""The view of an evaluation: how many runs passed, how they scored, what failed or is missing, and
the worst runs with question and answer.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from assay.errors import count
from assay.records.evaluation import Evaluation, EvaluationTotals
from assay.records.evidence import Run
from assay.views.blocks import Column, Facts, Paragraph, Part, Sentences, Table
from assay.views.evaluations import import_notes, unchecked
from assay.views.grade_line import as_line
from assay.views.pieces import clip, number, phrase, points, verdict
from assay.views.samples import ANSWERS, QUESTIONS, main_text

WORST = 3
SHORT = 160
"""Characters of a question or an answer that are shown."""


class WorstRun(NamedTuple):
    """A run that did not pass, among the worst of them."""

    score: float
    run_id: str
    result: Mapping[str, Any]
    """Its grade, as in `results[]` of `assay.grades/1`."""
    run: Run | None
    """Its evidence, where that is at hand."""

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return self[:2] < other[:2]


def keep_worst(
    found: list[WorstRun], result: Mapping[str, Any], run: Run | None, *, most: int = WORST
) -> None:
    """Put a run in its place among the worst, and drop what is then one too many. A run that passed
    has no place there; of the repeats of a sample the worst has it.
    """
    if result.get("passed") is True:
        return
    made = WorstRun(float(result.get("weighted_score") or 0), str(result["run_id"]), result, run)
    same = next((one for one in found if _sample(one.result) == _sample(result)), None)
    if same is not None:
        if not made < same:
            return
        found.remove(same)
    if len(found) < most or made < found[-1]:
        insort(found, made)
        del found[most:]


def _sample(result: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the repeats of a sample share; a run without one stands for itself."""
    sample = result.get("sample_id")
    return (
        ("run", result["run_id"]) if sample is None else ("sample", result.get("dataset"), sample)
    )


def evaluation_view(
    evaluation: Evaluation,
    *,
    worst: Sequence[WorstRun] = (),
    notes: Sequence[str] = (),
    floors: Mapping[str, int] | None = None,
    commands: Sequence[tuple[str, str]] = (),
) -> list[Part]:
    """An evaluation with its worst runs. `notes` are sentences about it; `floors` counts the runs
    that miss each floor; `commands` are what to run next and what each shows.
    """
    totals = evaluation.totals
    subject = f"{_versioned(evaluation.workflow)} on {_versioned(evaluation.dataset)}"
    whole = totals.passed == totals.n and totals.n > 0
    outcome = verdict(
        ("undetermined" if unchecked(evaluation) else "passed") if whole else "failed",
        f"{totals.passed:,} of {count(totals.n, 'run')} passed",
    )
    notes = [*notes, *(f"From the import: {one}." for one in import_notes(evaluation))]
    parts: list[Part] = [
        Facts(
            [
                ("evaluation", phrase(evaluation.name, ": ", subject)),
                ("passed", outcome),
                (
                    "pass rate",
                    number(totals.pass_rate.value, interval=totals.pass_rate, percent=True),
                ),
                ("mean score", number(totals.score.value, interval=totals.score)),
            ]
        ),
        *_counts(totals, floors or {}),
        *([Paragraph("Worst runs:", "title")] if worst else []),
        *(_worst(one) for one in worst),
    ]
    if notes:
        parts.append(Sentences(notes, "Notes"))
    if commands:
        width = max(len(command) for command, _ in commands)
        parts.append(Paragraph("More:", "hint"))
        parts.append(Sentences([f"{command:<{width}}  # {what}" for command, what in commands]))
    return parts


def _counts(totals: EvaluationTotals, floors: Mapping[str, int]) -> list[Part]:
    """What fails and what is missing, most often first; nothing if nothing does."""
    columns = ("Gate that fails", Column("Runs", "n"), Column("Of", "n"))
    absent = ("Criterion without a score", Column("Runs", "n"), Column("Of", "n"))
    below = ("Criterion below its floor", Column("Runs", "n"), Column("Of", "n"))
    found = [
        Table("Gates that fail", columns, _rows(totals.gate_failures, totals.n)),
        Table("Missed floors", below, _rows(floors, totals.n)),
        Table("Missing scores", absent, _rows(totals.missing, totals.n)),
    ]
    return [table for table in found if table.rows]


def _rows(counts: Mapping[str, int], n: int) -> list[list[str]]:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [[name, f"{failed:,}", f"{n:,}"] for name, failed in ordered if failed]


def _worst(one: WorstRun) -> Facts:
    sample = one.result.get("sample_id") or one.run_id
    head = f"{clip(sample, 80)}: {one.result.get('grade')} {points(one.score)}, "
    run = one.run
    return Facts(
        [
            ("sample", phrase(head, clip(as_line(one.result).why, 2 * SHORT))),
            ("question", "" if run is None else _short(run.inputs, QUESTIONS)),
            ("answer", "" if run is None else _answer(run)),
        ]
    )


def sample_facts(run: Mapping[str, Any]) -> Facts:
    """What a run was asked, what it answered or why not, and what was expected, each in short."""
    metadata = run.get("metadata")
    error = metadata.get("error") if isinstance(metadata, Mapping) else None
    no_answer = _no_answer(run.get("status"), error) if error else ""
    return Facts(
        [
            (label, _short(values, names) if isinstance(values, Mapping) and values else otherwise)
            for label, values, names, otherwise in (
                ("question", run.get("inputs"), QUESTIONS, ""),
                ("answer", run.get("outputs"), ANSWERS, no_answer),
                ("expected", run.get("expected"), ANSWERS, ""),
            )
        ]
    )


def _answer(run: Run) -> str:
    if run.outputs:
        return _short(run.outputs, ANSWERS)
    return _no_answer(run.status, (run.metadata or {}).get("error"))


def _no_answer(status: object, error: object) -> str:
    why = clip(" ".join(str(error)[: 4 * SHORT].split()), SHORT) if error else ""
    return f"none; status {status}" + (f": {why}" if why else "")


def _short(values: Mapping[str, Any] | None, names: Sequence[str]) -> str:
    return clip(" ".join(main_text(values, names)[: 4 * SHORT].split()), SHORT) if values else ""


def _versioned(name: Any) -> str:
    return f"{name.id}@{name.version}" if name.version is not None else str(name.id)
