"""Texts of documents within a row: cut, on one line, with what a search found marked."""

from __future__ import annotations

import re
from typing import NamedTuple
from unicodedata import combining, normalize

from assay.views.pieces import Piece, absent, piece

LENGTH = 240
_BEFORE = 60
"""Characters that are shown before the first match."""
_MARKS_KEPT = 8
_LOOKED_AT = 20_000


class Stretch(NamedTuple):
    """A part of an excerpt."""

    text: str
    found: bool = False


def excerpt(text: str, *, find: str = "", most: int = LENGTH, absent_as: str = "none") -> Piece:
    """The beginning of a text, or the place around the first match of `find`.

    >>> excerpt("a long answer", most=6), excerpt("")
    ('a long…', 'none')
    >>> excerpt("one two three", find="TWO").values[0]
    [Stretch(text='one ', found=False), Stretch(text='two', found=True), Stretch(text=' three', found=False)]
    """  # noqa: E501
    flat = " ".join(normalize("NFC", text[:_LOOKED_AT]).split())
    if not flat:
        return absent(absent_as)
    wanted = " ".join(normalize("NFC", find).split())
    pattern = re.compile(re.escape(wanted), re.IGNORECASE) if wanted else None
    first = pattern.search(flat) if pattern else None
    start = max(0, first.start() - _BEFORE) if first and first.end() > most else 0
    end = _end(flat, start + most)
    shown = f"{'…' if start else ''}{flat[start:end]}{'…' if end < len(flat) else ''}"
    return piece("excerpt", shown, _stretches(shown, pattern))


def _end(text: str, end: int) -> int:
    """A place to cut that leaves no letter without its marks."""
    for _ in range(_MARKS_KEPT):
        if end >= len(text) or not combining(text[end]):
            break
        end += 1
    return end


def _stretches(text: str, pattern: re.Pattern[str] | None) -> list[Stretch]:
    found: list[Stretch] = []
    place = 0
    for match in pattern.finditer(text) if pattern else ():
        found += [Stretch(text[place : match.start()]), Stretch(match[0], True)]
        place = match.end()
    found.append(Stretch(text[place:]))
    return [one for one in found if one.text]
