"""A view as Markdown, for a pull-request comment or a job summary.

Only our own words are Markdown: see `markdown`. A page is bounded; beyond its rows it says how many
more there are.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from assay.views.markdown import ROWS
from assay.views.markdown_code import MAX_TEXT, cell_code, code
from assay.views.pieces import Piece

_OURS = ("verdict", "number", "absent")
ENTRY_TEXT = 400
"""Characters of a text of an entry."""
SENTENCE = 600
"""Characters of a sentence in a list."""


def inert(text: str, *, most: int = MAX_TEXT) -> str:
    """A piece of our own words as it is; anything else in a code span."""
    if isinstance(text, Piece):
        if text.kind in _OURS:
            return str(text)
        if text.kind == "phrase":
            return "".join(part if not part.strip() else inert(part) for part in text.values[0])
    return code(text, most=most)


def view(title: str, parts: Sequence[Part]) -> str:
    """A view as a page; the title is in our own words."""
    return "\n".join(filter(None, [f"## Assay: {title}\n", *map(_block, parts)]))


def _block(part: Part) -> str:
    if isinstance(part, Decided):
        sure = f"{part.confidence}\n\n" if part.confidence else ""
        return f"**{part.meaning}**\n\n{sure}{code(part.reason, most=ENTRY_TEXT)}\n"
    if isinstance(part, Heading):
        return f"### {part.text}\n"
    if isinstance(part, Note):
        return f"{code(part.text)}\n"
    if isinstance(part, Entries):
        return "".join(
            f"- {inert(entry.head)}\n{_inner(entry.parts)}" for entry in part.entries[:ROWS]
        )
    if isinstance(part, Paragraph):
        return f"{inert(part.text)}\n" if part.text else ""
    if isinstance(part, Sentences):
        return "".join(
            f"- {inert(sentence, most=SENTENCE)}\n" for sentence in part.sentences[:ROWS]
        )
    if isinstance(part, Facts):
        drawn = [value for label, value in part.pairs if not label and value]
        lines = [f"- {label}: {inert(value)}\n" for label, value in part.pairs if label]
        more = f"- … and {len(lines) - ROWS:,} more\n" if len(lines) > ROWS else ""
        fence = "\n```text\n" + "\n".join(drawn) + "\n```\n" if drawn else ""
        return "".join(lines[:ROWS]) + more + fence
    if isinstance(part, Table):
        heads = "| " + " | ".join(head.title for head in part.heads) + " |\n"
        rule = "|" + "|".join("---:" if head.kind == "n" else "---" for head in part.heads) + "|\n"
        rows = ["| " + " | ".join(map(cell_code, row)) + " |\n" for row in part.rows]
        return heads + rule + "".join(rows[:ROWS])
    return ""


def _inner(parts: Sequence[Part]) -> str:
    """The facts of an entry, as a list in a list."""
    return "".join(
        f"  - {label}: {inert(value, most=ENTRY_TEXT)}\n"
        for part in parts
        if isinstance(part, Facts)
        for label, value in part.pairs
    )
