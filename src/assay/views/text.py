"""A view as plain text: what `print` shows of a result, and a terminal without tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from assay.errors import printable
from assay.views.blocks import (
    Decided,
    Entries,
    Facts,
    Heading,
    Note,
    Paragraph,
    Part,
    Sentences,
    Table,
)
from assay.views.pieces import Piece

LABEL = 12


def text_view(parts: Iterable[Part]) -> str:
    """A view as lines of text; text of a document is made printable."""
    return "\n".join(plain_lines(parts)).strip("\n")


def plain_lines(
    parts: Iterable[Part], paint: Callable[[str, str], str] = lambda text, look: text
) -> Iterator[str]:
    """A view as lines, without an empty first one and never two in a row; `paint` gives a text its
    look.
    """
    last = ""
    for part in parts:
        for line in (
            _table(part, paint)
            if isinstance(part, Table)
            else (paint(printable(text), look) for text, look in text_lines(part))
        ):
            if line or last != "":
                yield line
            last = line


def text_lines(part: Part) -> Iterator[tuple[str, str]]:
    """The lines of anything but a table, each with its look."""
    if isinstance(part, Decided):
        text = f"{part.outcome.split(' ', 1)[1].upper()}: {part.reason}"
        yield text, look_of(part.outcome)
        if part.confidence:
            yield part.confidence, ""
    elif isinstance(part, Facts):
        yield from ((line, "") for line in fact_lines(*part.pairs))
    elif isinstance(part, Sentences):
        yield from ((f"  {sentence}", "") for sentence in part.sentences)
    elif isinstance(part, Heading):
        yield from (("", ""), (part.text, "title"))
    elif isinstance(part, Entries):
        for place, entry in enumerate(part.entries):
            yield from (("", ""),) if place else ()
            yield f"  {entry.head}", look_of(entry.head)
            for inner in entry.parts:
                yield from ((f"    {line}", look) for line, look in text_lines(inner))
    elif isinstance(part, Paragraph):
        yield from (("", ""), (part.text, part.kind)) if part.text else ()
    elif isinstance(part, Note):
        yield from ((part.text, part.kind),) if part.text else ()
    elif isinstance(part, str) and part:
        yield part, look_of(part)


def fact_lines(*facts: tuple[str, str], width: int = LABEL) -> list[str]:
    """Facts as lines, their texts one below the other; a fact without a text is left out.

    >>> fact_lines(("wrote", "a.json"), ("kept", ""), width=6)
    ['wrote a.json']
    """
    return [f"{label:<{width}}{text}" for label, text in facts if text]


def look_of(text: str) -> str:
    """How a piece looks: `hint` for an aside, or like the first verdict within it."""
    if not isinstance(text, Piece):
        return ""
    if text.kind == "phrase":
        return next(filter(None, map(look_of, text.values[0])), "")
    if text.kind in ("small", "absent"):
        return "hint"
    return str(text.values[1]) if text.kind == "verdict" else ""


def _table(table: Table, paint: Callable[[str, str], str]) -> Iterator[str]:
    """Columns as wide as their longest cell; the last one is not padded."""
    if not table.rows or table.kind == "drawn":
        return
    rows = [[head.title.lower() for head in table.heads], *table.rows]
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in list(zip(*cells, strict=True))[:-1]]
    yield ""
    for row, texts in zip(rows, cells, strict=True):
        padded = [
            paint(f"{text:<{width}}", look_of(cell))
            for cell, text, width in zip(row, texts, widths, strict=False)
        ]
        yield "  " + "  ".join([*padded, texts[-1]])
    yield ""
