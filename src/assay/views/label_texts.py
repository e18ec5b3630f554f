"""What a rater reads of a run: what was asked, what was retrieved, what was answered; never a
score, a grade, a version or an id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from assay.records.samples import ANSWERS, MAX_TEXT, QUESTIONS, main_text
from assay.views.values import read_media

PASSAGES = 20
MAX_PICTURE = 2_000_000


class ShownText(Struct, frozen=True):
    """A text, or a picture, and what is left out of it."""

    text: str = ""
    picture: str = ""
    note: str = ""
    whole: str = ""
    """All inputs or outputs as JSON, where `text` is one of several."""


class ShownRun(Struct, frozen=True):
    """A run as a rater sees it."""

    question: ShownText
    answer: ShownText
    expected: ShownText
    passages: Sequence[tuple[str, str]] = ()
    """Ids and texts."""
    more_passages: int = 0


class _RatedPassage(Struct):
    id: str = ""
    text: Any = None


class _RatedRun(Struct):
    inputs: Any = None
    outputs: Any = None
    expected: Any = None
    retrieval: list[_RatedPassage] | None = None


_read = msgspec.json.Decoder(_RatedRun).decode


def shown_run(body: bytes) -> ShownRun:
    """A stored run as a rater sees it."""
    run = _read(body)
    passages = [passage for passage in run.retrieval or () if passage.text]
    return ShownRun(
        shown_text(run.inputs, QUESTIONS),
        shown_text(run.outputs, ANSWERS),
        shown_text(run.expected, ANSWERS),
        [(passage.id, cut(str(passage.text), 3000)) for passage in passages[:PASSAGES]],
        max(0, len(passages) - PASSAGES),
    )


def shown_text(values: Any, names: Sequence[str]) -> ShownText:
    """The value that a person looks for, and all of them where there are several."""
    only = next(iter(values.values())) if isinstance(values, Mapping) and len(values) == 1 else None
    data = only if isinstance(only, str) and only.startswith("data:") else ""
    if data and (media := read_media(data)) is not None:
        if len(data) <= MAX_PICTURE and media.is_picture:
            return ShownText(picture=f"data:{media.media_type};base64,{media.encoded}")
        return ShownText(
            note=f"{media.media_type}, {len(data):,} characters; it can't be shown here."
        )
    text = main_text(values, names)
    note = f"The first {MAX_TEXT:,} characters are shown." if len(text) >= MAX_TEXT else ""
    whole = ""
    if isinstance(values, Mapping) and len(values) > 1:
        whole = main_text(values, ())
        whole = "" if whole == text else cut(whole, MAX_TEXT)
    return ShownText(text=text, note=note, whole=whole)


def cut(text: str, most: int) -> str:
    """A text cut to a maximum length.

    >>> cut("abcdef", 3), cut("abc", 3)
    ('abc …', 'abc')
    """
    return text if len(text) <= most else f"{text[:most]} …"
