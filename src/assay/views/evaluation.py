"""The view of an evaluation: how many runs passed, how they scored, what failed or is missing, and
the worst runs with question and answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import count
from assay.records.evaluation import Evaluation, EvaluationTotals
from assay.records.grade import Grade
from assay.records.grade_line import as_line, unscored
from assay.views.blocks import Column, Facts, Paragraph, Part, Sentences, Table, parts_of
from assay.views.evaluations import import_notes, on_dataset, unchecked, versioned
from assay.views.pieces import number, phrase, verdict
from assay.views.worst_samples import WorstSample, worst_facts


class RunReasons:
    """What the grades of an evaluation show besides its totals: how many runs miss each floor, and
    why a criterion has no score in the first run that lacks it.
    """

    def __init__(self) -> None:
        self.floors: Counter[str] = Counter()
        self.unscored: dict[str, str] = {}

    def add(self, grade: Grade | Mapping[str, Any]) -> None:
        """Count a grade."""
        self.floors.update(as_line(grade).floor_failures)
        self.unscored = unscored(grade) | self.unscored


def evaluation_view(
    evaluation: Evaluation,
    *,
    worst: Sequence[WorstSample] = (),
    notes: Sequence[str] = (),
    reasons: RunReasons | None = None,
    commands: Sequence[tuple[str, str]] = (),
) -> list[Part]:
    """An evaluation with its worst runs. `notes` are sentences about it; `commands` are
    what to run next and what each shows.
    """
    totals = evaluation.totals
    subject = f"{versioned(evaluation.workflow)} on {on_dataset(evaluation)}"
    whole = totals.passed == totals.n and totals.n > 0
    outcome = verdict(
        ("undetermined" if unchecked(evaluation.settings) else "passed") if whole else "failed",
        f"{totals.passed:,} of {count(totals.n, 'run')} passed",
    )
    notes = [*notes, *(f"From the import: {note}." for note in import_notes(evaluation.settings))]
    width = max((len(command) for command, _ in commands), default=0)
    more = [f"{command:<{width}}  # {what}" for command, what in commands]
    return parts_of(
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
        *_counts(totals, reasons or RunReasons()),
        Paragraph("Worst runs:", "title") if worst else None,
        *map(worst_facts, worst),
        Sentences(notes, "Notes") if notes else None,
        *([Paragraph("More:", "hint"), Sentences(more)] if more else []),
    )


def _counts(totals: EvaluationTotals, reasons: RunReasons) -> list[Part]:
    """What fails and what is missing, most often first; nothing if nothing does."""
    columns = ("Gate that fails", Column("Runs", "n"), Column("Of", "n"))
    absent = ("Criterion without a score", Column("Runs", "n"), Column("Of", "n"), "Why")
    below = ("Criterion below its floor", Column("Runs", "n"), Column("Of", "n"))
    missing = _rows(totals.missing, totals.n)
    missing = [[*row, reasons.unscored.get(row[0], "")] for row in missing]
    tables = [
        Table("Gates that fail", columns, _rows(totals.gate_failures, totals.n)),
        Table("Missed floors", below, _rows(reasons.floors, totals.n)),
        Table("Missing scores", absent, missing),
    ]
    return [table for table in tables if table.rows]


def _rows(counts: Mapping[str, int], n: int) -> list[list[str]]:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [[name, f"{failed:,}", f"{n:,}"] for name, failed in ordered if failed]
