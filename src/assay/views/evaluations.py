"""Evaluations in brief: one line each, and the list of them."""

from __future__ import annotations

from collections.abc import Sequence

from assay.records.evaluation import Evaluation, VersionedName
from assay.views.blocks import Column, Table
from assay.views.pieces import absent, count, number

_HEAD = (
    "Name",
    "Workflow",
    "Dataset",
    Column("Runs", "n"),
    "Pass rate",
    "Mean score",
    "Started",
)


def evaluation_line(evaluation: Evaluation) -> str:
    """What an evaluation came to, in a line."""
    totals = evaluation.totals
    passed = (
        "not graded"
        if totals.ungraded == totals.n
        else f"{totals.passed:,} of {count(totals.n, 'run')} passed"
    )
    subject = f"{versioned(evaluation.workflow)} on {versioned(evaluation.dataset)}"
    return f"{evaluation.name}: {subject}, {passed}"


def evaluations_table(evaluations: Sequence[Evaluation]) -> Table:
    """A list of evaluations, in the order given."""
    rows = []
    for one in evaluations:
        totals = one.totals
        graded = totals.ungraded < totals.n
        rows.append(
            [
                one.name,
                versioned(one.workflow),
                versioned(one.dataset),
                f"{totals.n:,}",
                number(totals.pass_rate.value, interval=totals.pass_rate, percent=True)
                if graded
                else absent("not graded"),
                number(totals.score.value, interval=totals.score) if graded else "",
                one.started[:16].replace("T", " "),
            ]
        )
    return Table("Evaluations", _HEAD, rows)


def versioned(name: VersionedName) -> str:
    """A name with its version.

    >>> versioned(VersionedName(id="triage", version="3"))
    'triage@3'
    """
    return name.id if name.version is None else f"{name.id}@{name.version}"
