"""A view as plain text: what `print` shows of a result, and a terminal without colours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from assay.errors import printable
from assay.views.blocks import Decided, Facts, Note, Paragraph, Part, Sentences, Table

LABEL = 12


def text_view(parts: Iterable[Part]) -> str:
    """A view as lines of text; text of a document is made printable."""
    return "\n".join(line for part in parts for line in _lines(part)).strip("\n")


def _lines(part: Part) -> Iterator[str]:
    if isinstance(part, Decided):
        yield printable(f"{part.outcome.split(' ', 1)[1].upper()}: {part.reason}")
    elif isinstance(part, Table):
        yield from _table(part)
    elif isinstance(part, Facts):
        yield from (printable(f"{label:<{LABEL}}{value}") for label, value in part.pairs if value)
    elif isinstance(part, Sentences):
        yield from (printable(f"  {sentence}") for sentence in part.sentences)
    elif isinstance(part, Paragraph):
        yield from ("", printable(part.text)) if part.text else ()
    elif isinstance(part, Note):
        yield from (printable(part.text),) if part.text else ()
    elif isinstance(part, str) and part:
        yield printable(part)


def _table(table: Table) -> Iterator[str]:
    if not table.rows or table.kind == "drawn":
        return
    rows = [[head.title.lower() for head in table.heads], *table.rows]
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in list(zip(*cells, strict=True))[:-1]]
    yield ""
    for row in cells:
        padded = [f"{text:<{width}}" for text, width in zip(row, widths, strict=False)]
        yield "  " + "  ".join([*padded, row[-1]])
    yield ""
