"""A view as Markdown, for a pull-request comment or a job summary.

Only our own words are Markdown: see `markdown`. A page is bounded; beyond its rows it says how many
more there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.views.blocks import Decided, Facts, Paragraph, Part, Sentences, Table
from assay.views.markdown import ROWS
from assay.views.markdown_code import cell_code, code
from assay.views.pieces import Piece

_OURS = ("verdict", "number", "absent")


def inert(text: str) -> str:
    """A piece of our own words as it is; anything else in a code span."""
    return str(text) if isinstance(text, Piece) and text.kind in _OURS else code(text)


def view(title: str, parts: Sequence[Part]) -> str:
    """A view as a page; the title is in our own words."""
    return "\n".join(filter(None, [f"## Assay: {title}\n", *map(_block, parts)]))


def _block(part: Part) -> str:
    if isinstance(part, Decided):
        return f"**{part.meaning}**\n\n{code(part.reason)}\n"
    if isinstance(part, Paragraph):
        return f"{inert(part.text)}\n"
    if isinstance(part, Sentences):
        return "".join(f"- {inert(sentence)}\n" for sentence in part.sentences[:ROWS])
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
