"""A view as plain text: what `print` shows of a result, and a terminal without tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

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
    Verbatim,
    drawn,
)
from assay.views.pieces import Piece

LABEL = 12


def text_view(parts: Iterable[Part]) -> str:
    """A view as lines of text; text of a document is made printable."""
    return "\n".join(plain_lines(parts)).strip("\n")


Line = tuple[str, str]
"""A line and its look."""
Lines = Iterator[Line | Table]
"""Lines, and the tables between them."""


def plain_lines(
    parts: Iterable[Part], paint: Callable[[str, str], str] = lambda text, look: text
) -> Iterator[str]:
    """A view as lines, without an empty first one and never two in a row; `paint` gives a text its
    look.
    """
    last = ""
    for item in lines_of(parts):
        for line in (
            _table(item, paint) if isinstance(item, Table) else [paint(printable(item[0]), item[1])]
        ):
            if line or last != "":
                yield line
            last = line


def lines_of(parts: Iterable[Part]) -> Lines:
    """A view as lines and tables."""
    return chain.from_iterable(drawn(parts, _WAYS))


def _decided(block: Decided) -> Lines:
    yield (
        f"{block.outcome.split(' ', 1)[1].upper()}: {block.reason}",
        look_of(block.outcome),
    )
    if block.confidence:
        yield block.confidence, ""


def _entries(block: Entries) -> Lines:
    for place, entry in enumerate(block.entries):
        if place:
            yield "", ""
        yield f"  {entry.head}", look_of(entry.head)
        for item in lines_of(entry.parts):
            yield item if isinstance(item, Table) else (f"    {item[0]}", item[1])


def _paragraph(block: Paragraph) -> Lines:
    if block.text:
        yield from (("", ""), (block.text, block.kind))


def _indented(lines: Iterable[str]) -> Lines:
    return ((f"  {line}", "") for line in lines)


_WAYS: dict[type, Callable[[Any], Lines]] = {
    Decided: _decided,
    Entries: _entries,
    Facts: lambda block: ((line, "") for line in fact_lines(*block.pairs)),
    Heading: lambda block: iter([("", ""), (block.text, "title")]),
    Note: lambda block: iter([(block.text, block.kind)] if block.text else []),
    Paragraph: _paragraph,
    Sentences: lambda block: _indented(block.sentences),
    Table: lambda block: iter([block]),
    Verbatim: lambda block: _indented(block.text.splitlines()),
    str: lambda text: iter([(text, look_of(text))] if text else []),
}


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
