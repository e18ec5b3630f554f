"""What a command says of an import: what came from it, and what was left out."""

from __future__ import annotations

from typing import Any

from assay.cli import options as opt
from assay.errors import count
from assay.importers.tally import ImportTally
from assay.services.importing import ImportedRuns
from assay.views.pieces import clip

MAX_NOTES = 20
MAX_NOTE = 500
"""Limits of what is kept of an import's notes."""
MADE = "the metrics of the results"
"""Where the value of `--profile` comes from that was made from metrics."""


def report_import(imported: ImportedRuns) -> None:
    """Print on standard error what was imported and what was left out."""
    tally = imported.tally
    text = f"{', '.join(imported.files)}: {count(imported.n, 'run')} from {imported.importer.title}"
    opt.note(text + (f", {tally.errors:,} with errors" if tally.errors else ""))
    if tally.mapping:
        columns = ", ".join(f"{key}={column}" for key, column in tally.mapping.items())
        opt.note(f"  {'columns' if imported.importer.name == 'table' else 'scales'}: {columns}")
    for line in left_out(tally):
        opt.note(f"  {line}")


def left_out(tally: ImportTally) -> list[str]:
    """What was not taken over, and what else a reader should know."""
    return [*_dropped(tally), *(f"note: {note}" for note in tally.notes)]


def _dropped(tally: ImportTally) -> list[str]:
    return [
        f"left out: {reason.replace('_', ' ')} ({n:,})"
        for reason, n in sorted(tally.dropped.items())
    ]


def noted(tally: ImportTally) -> dict[str, Any]:
    """What a reader of the evaluations should know of their import; empty if nothing is."""
    listed = [*_dropped(tally), *tally.notes]
    notes = [clip(note, MAX_NOTE) for note in listed[:MAX_NOTES]]
    noted: dict[str, Any] = {"notes": notes} if notes else {}
    if tally.mapping:
        noted["map"] = dict(tally.mapping)
    if tally.unchecked:
        noted["unchecked"] = {"n": tally.unchecked, "of": tally.samples}
    return noted
