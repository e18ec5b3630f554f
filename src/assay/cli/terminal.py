"""Views on a terminal: tables by rich where there is one; in a pipe, in CI or without the extra the
same words as plain text.

Colour is never the only sign. Text from a document is made printable and never read as rich's own
markup, so that no run id can paint or move the cursor. The texts come from the callers.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from assay.cli.options import paint
from assay.errors import printable
from assay.views.blocks import Decided, Facts, Note, Paragraph, Part, Sentences, Table
from assay.views.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text


def console() -> Console | None:
    """The console, or None for plain text: no terminal, CI, a dumb terminal, or no rich."""
    if (
        not sys.stdout.isatty()
        or os.environ.get("CI")
        or os.environ.get("TERM") == "dumb"
        or find_spec("rich") is None
    ):
        return None
    # Tables on a terminal are an optional, the extra `terminal`
    from rich.console import Console

    return Console(
        file=sys.stdout,
        markup=False,
        highlight=False,
        emoji=False,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )


def _text(value: object, style: str = "") -> Text:
    from rich.text import Text

    return Text(printable(str(value)), style=style)


def _table(*columns: str, right: tuple[str, ...] = ()) -> RichTable:
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for name in columns:
        made.add_column(
            name,
            justify="right" if name in right else "left",
            overflow="fold",
            no_wrap=name in right,
        )
    return made


# --- views

STYLES = {
    "good": "green",
    "bad": "bold red",
    "open": "yellow",
    "hint": "dim",
    "title": "bold",
}
"""How a verdict and a paragraph look."""
LABEL = 12


def show(parts: Iterable[Part]) -> None:
    """Print a view."""
    out = console()
    for part in parts:
        if isinstance(part, Decided):
            text = f"{part.outcome.split(' ', 1)[1].upper()}: {part.reason}"
            _print(text, _style(part.outcome), out)
        elif isinstance(part, Table) and out is not None:
            out.print(_rich_table(part))
        elif isinstance(part, Table) and part.kind != "drawn":
            _plain_table(part)
        elif isinstance(part, Facts):
            for label, value in part.pairs:
                if value:
                    _print(f"{label:<{LABEL}}{value}", "", out)
        elif isinstance(part, Sentences):
            for sentence in part.sentences:
                _print(f"  {sentence}", "", out)
        elif isinstance(part, Paragraph):
            _print(part.text, STYLES.get(part.kind, ""), out, before="\n")
        elif isinstance(part, Note):
            _print(part.text, STYLES.get(part.kind, ""), out)
        elif isinstance(part, str):
            _print(part, _style(part), out)


def _style(text: object) -> str:
    """How a piece looks: an aside, or like the first verdict within it."""
    if not isinstance(text, Piece):
        return ""
    if text.kind == "phrase":
        return next(filter(None, map(_style, text.values[0])), "")
    if text.kind in ("small", "absent"):
        return STYLES["hint"]
    return STYLES.get(text.values[1], "") if text.kind == "verdict" else ""


def _print(text: str, style: str, out: Console | None, *, before: str = "") -> None:
    if out is not None:
        out.print(_text(text, style))
    elif text:
        sys.stdout.write(before + paint(printable(text), *style.split()) + "\n")


def _plain_table(table: Table) -> None:
    """Columns of the width of their longest cell; the last one is as long as it is."""
    if not table.rows:
        return
    rows = [[head.title.lower() for head in table.heads], *table.rows]
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in list(zip(*cells, strict=True))[:-1]]
    sys.stdout.write("\n")
    for row, texts in zip(rows, cells, strict=True):
        padded = [
            paint(f"{text:<{width}}", *_style(cell).split())
            for cell, text, width in zip(row, texts, widths, strict=False)
        ]
        sys.stdout.write("  " + "  ".join([*padded, texts[-1]]) + "\n")
    sys.stdout.write("\n")


def show_table(table: Table) -> bool:
    """Print a table where there is a screen for it; False if plain text is due."""
    out = console()
    if out is not None:
        out.print(_rich_table(table))
    return out is not None


def _rich_table(table: Table) -> RichTable:
    made = _table(
        *[head.title for head in table.heads],
        right=tuple(head.title for head in table.heads if head.kind == "n"),
    )
    for row in table.rows:
        made.add_row(*[_text(cell, _style(cell)) for cell in row])
    return made
