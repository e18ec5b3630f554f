"""The keys of JSON Lines, which are the columns of a batch, out of the shapes of its lines."""

from __future__ import annotations

from collections.abc import Iterable

from assay.batch.sources import BatchSource
from assay.errors import InputError, NotEnoughEvidence

MAX_COLUMNS = 10_000
"""Columns of a file, and shapes of its lines."""


def line_keys(
    shapes: Iterable[tuple[list[str] | None, int]], source: BatchSource, *, engine: str
) -> list[str]:
    """Every key of the lines. A shape is the keys of a line, None for one that isn't an object, and
    how many lines have it. Raises `InputError` for what isn't a table.
    """
    names: dict[str, None] = {}
    for place, (keys, count) in enumerate(shapes):
        many = count > 1
        if place >= MAX_COLUMNS:
            raise InputError(
                "FIL-004", f"has lines of more than {MAX_COLUMNS:,} shapes.", where=source.name
            )
        if keys is None:
            raise InputError(
                "FIL-006",
                f"{count:,} line{'s are' if many else ' is'} not one JSON object.",
                where=source.name,
                fix='Each line is one row: {"run": "r-1", "criterion": "correctness", "raw": 4}.',
            )
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise InputError(
                "FIL-003",
                f"{count:,} line{'s have' if many else ' has'} the key '{twice}' twice.",
                where=source.name,
            )
        names |= dict.fromkeys(keys)
    if not names:
        raise NotEnoughEvidence(
            "FIL-005",
            "there is nothing to grade.",
            where=source.name,
            fix="An empty input never passes.",
        )
    if len({name.lower() for name in names}) < len(names):
        raise InputError(
            "BAT-020",
            f"some of its keys differ only in case, and {engine} can't tell them apart.",
            where=source.name,
            fix="Spell each key in one way.",
        )
    return list(names)
