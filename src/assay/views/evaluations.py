"""Evaluations in brief: one line each, and the list of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import count
from assay.records.evaluation import Evaluation, VersionedName
from assay.records.summary import ValueInterval
from assay.views.blocks import Column, Table
from assay.views.pieces import (
    absent,
    badge,
    clip,
    line,
    link,
    meter,
    moment,
    number,
    phrase,
    points,
    small,
)

_HEAD = ("Name", "Workflow", "Dataset", Column("Runs", "n"), "Pass rate", "Mean score", "Started")


def unchecked(settings: Mapping[str, Any]) -> str:
    """How many answers the tool of an import passed without a check; empty if it did not."""
    noted = settings.get("unchecked")
    if not isinstance(noted, dict) or not isinstance(noted.get("n"), int):
        return ""
    n, of = noted["n"], noted.get("of")
    share = f"{n:,} of {of:,} answers" if isinstance(of, int) and of != n else count(n, "answer")
    was = "was" if share == "1 answer" else "were"
    return f"{share} {was} passed unchecked"


def chosen_part(evaluation: Evaluation) -> str:
    """How much of the dataset ran, where samples were chosen; empty if all of it was to run."""
    only = evaluation.only
    return f"{len(only.samples):,} of {count(only.of, 'sample')}, chosen" if only else ""


def on_dataset(evaluation: Evaluation) -> str:
    """The dataset of an evaluation, and how much of it ran, where samples were chosen."""
    part = chosen_part(evaluation)
    return f"{versioned(evaluation.dataset)}{f' ({part})' if part else ''}"


def import_notes(settings: Mapping[str, Any]) -> list[str]:
    """What the import of an evaluation noted: what was left out, unchecked or not graded."""
    notes = settings.get("notes")
    notes = notes if isinstance(notes, list) else []
    return [note.rstrip(".") for note in notes if isinstance(note, str)]


def evaluation_line(evaluation: Evaluation) -> str:
    """The result of an evaluation, in one line."""
    totals = evaluation.totals
    passed = (
        "not graded"
        if totals.ungraded == totals.n
        else f"{totals.passed:,} of {count(totals.n, 'run')} passed"
    )
    subject = f"{versioned(evaluation.workflow)} on {on_dataset(evaluation)}"
    warning = unchecked(evaluation.settings)
    return f"{evaluation.name}: {subject}, {passed}{f'; {warning}' if warning else ''}"


def evaluations_table(evaluations: Sequence[Evaluation]) -> Table:
    """A list of evaluations, in the order given."""
    rows = []
    for evaluation in evaluations:
        totals = evaluation.totals
        graded = totals.ungraded < totals.n
        rows.append(
            [
                evaluation.name,
                versioned(evaluation.workflow),
                on_dataset(evaluation),
                f"{totals.n:,}",
                phrase(
                    number(totals.pass_rate.value, interval=totals.pass_rate, percent=True),
                    f"; {unchecked(evaluation.settings)}" if unchecked(evaluation.settings) else "",
                )
                if graded
                else absent("not graded"),
                number(totals.score.value, interval=totals.score) if graded else "",
                evaluation.started[:16].replace("T", " "),
            ]
        )
    return Table("Evaluations", _HEAD, rows)


_LIST = (
    "Evaluation",
    "Workflow",
    "Dataset",
    Column("Runs", "n"),
    Column("Pass rate", "tight"),
    Column("Mean score", "tight"),
    "Started",
)


def evaluations_list(evaluations: Sequence[tuple[Evaluation, str]]) -> Table:
    """Evaluations with the addresses of their pages, in the order given."""
    rows = []
    for evaluation, href in evaluations:
        totals = evaluation.totals
        graded = totals.ungraded < totals.n
        warned = unchecked(evaluation.settings)
        labels = [" ", *(badge(clip(label, 40)) for label in evaluation.labels[:10])]
        rows.append(
            [
                phrase(link(evaluation.name, href), *(labels if evaluation.labels else ())),
                clip(versioned(evaluation.workflow), 80),
                clip(on_dataset(evaluation), 120),
                f"{totals.n:,}",
                phrase(
                    meter(100 * (totals.pass_rate.value or 0), whole=100, digits=1, unit="%"),
                    line(small(_ends(totals.pass_rate, percent=True))),
                    *([line(small(warned))] if warned else []),
                )
                if graded
                else absent("not graded"),
                phrase(meter(totals.score.value, whole=100), line(small(_ends(totals.score))))
                if graded
                else "",
                moment(evaluation.started),
            ]
        )
    nothing = "No evaluation matches this filter."
    return Table("Evaluations", _LIST, rows, absent=nothing, kind="stack evaluations")


def _ends(interval: ValueInterval, *, percent: bool = False) -> str:
    if interval.low is None or interval.high is None:
        return "no interval"
    if percent:
        return f"{interval.low:.1%} to {interval.high:.1%}"
    return f"{points(interval.low)} to {points(interval.high)}"


def versioned(name: VersionedName) -> str:
    """A name with its version.

    >>> versioned(VersionedName(id="triage", version="3"))
    'triage@3'
    """
    return name.id if name.version is None else f"{name.id}@{name.version}"
