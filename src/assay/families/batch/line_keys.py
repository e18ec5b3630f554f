"""The keys of JSON Lines, which are the columns of a batch, from the shapes of its lines, and the
numbers under them with every digit that was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from json import dumps

from assay.errors import InputError, NotEnoughEvidence
from assay.families.batch.layout import IN_QUOTES, WRITTEN
from assay.families.batch.sources import BatchSource

MAX_COLUMNS = 10_000
"""Columns of a file, and shapes of its lines."""

_LONG_NUMBER = r"-?[0-9][0-9.]{15,}(?:[eE][+-]?[0-9]+)?|-?[0-9][0-9.]*[eE][+-]?[0-9]+"
"""A number that may have more digits than a double, or be too large or small: parsers would round
it, or write it with more digits.
"""


def long_numbers(name: str) -> str:
    """A regular expression for the long numbers under a key, however it is escaped. The same key
    inside a nested value matches too: the caller takes only texts of the same number, and of
    several the longest, which is rejected first.
    """
    return rf'"{"".join(map(_spelled, name))}"\s*:\s*({_LONG_NUMBER})'


def _spelled(char: str) -> str:
    """A character of a JSON string, by itself or escaped."""
    units = char.encode("utf-16-be").hex()
    escaped = "".join(rf"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
    short = in_pattern("\\/" if char == "/" else dumps(char, ensure_ascii=False)[1:-1])
    spellings = dict.fromkeys((in_pattern(char), short, f"(?i:{escaped})"))
    return f"(?:{'|'.join(spellings)})"


def in_pattern(name: str) -> str:
    """A text in a regular expression."""
    return "".join(char if char.isalnum() or char == "_" else "\\" + char for char in name)


def line_keys(
    shapes: Iterable[tuple[list[str] | None, int]], source: BatchSource, *, engine: str
) -> list[str]:
    """Every key of the lines. A shape is the keys of a line, None for one that isn't an object, and
    how many lines have it. Raises `InputError` if the lines are not a table.
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
    reserved = next((name for name in names if name.lower().startswith((IN_QUOTES, WRITTEN))), None)
    if reserved is not None:
        raise InputError(
            "BAT-020",
            f"the key '{reserved}' is reserved for Assay's notes about a value.",
            where=source.name,
            fix="Rename it.",
        )
    if len({name.lower() for name in names}) < len(names):
        raise InputError(
            "BAT-020",
            f"some of its keys differ only in case, and {engine} can't tell them apart.",
            where=source.name,
            fix="Spell each key in one way.",
        )
    return list(names)
