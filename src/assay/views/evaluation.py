"""The view of an evaluation: how many runs passed, how they scored, what failed or is missing, and
the worst runs with question and answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.errors import count
from assay.records.evaluation import Evaluation, EvaluationTotals
from assay.views.blocks import Column, Facts, Paragraph, Part, Sentences, Table
from assay.views.evaluations import import_notes, unchecked, versioned
from assay.views.pieces import number, phrase, verdict
from assay.views.worst_samples import WorstSample, worst_facts


def evaluation_view(
    evaluation: Evaluation,
    *,
    worst: Sequence[WorstSample] = (),
    notes: Sequence[str] = (),
    floors: Mapping[str, int] | None = None,
    commands: Sequence[tuple[str, str]] = (),
) -> list[Part]:
    """An evaluation with its worst runs. `notes` are sentences about it; `floors` counts the runs
    that miss each floor; `commands` are what to run next and what each shows.
    """
    totals = evaluation.totals
    subject = f"{versioned(evaluation.workflow)} on {versioned(evaluation.dataset)}"
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
        *map(worst_facts, worst),
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
