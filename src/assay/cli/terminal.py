"""Views on a terminal: tables by rich where there is one; in a pipe, in CI or without the extra the
same words as plain text.

Colour is never the only sign. Text from a document is made printable and never read as rich's own
markup, so that no run id can paint or move the cursor. The texts come from the callers.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from assay.cli.options import paint
from assay.errors import printable
from assay.views.blocks import Part, Table
from assay.views.text import lines_of, look_of, plain_lines

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


STYLES = {
    "good": "green",
    "bad": "bold red",
    "open": "yellow",
    "hint": "dim",
    "title": "bold",
}
"""How a verdict and a paragraph look."""


def show(parts: Iterable[Part]) -> None:
    """Print a view."""
    out = console()
    if out is None:
        sys.stdout.writelines(f"{line}\n" for line in plain_lines(parts, _painted))
        return
    last = ""
    for item in lines_of(parts):
        if isinstance(item, Table):
            out.print(_rich_table(item))
            last = ""  # a table ends with an empty line
            continue
        text, look = item
        if text or last != "":
            out.print(_text(text, STYLES.get(look, "")))
        last = text


def _painted(text: str, look: str) -> str:
    return paint(text, *STYLES.get(look, "").split())


def show_table(table: Table) -> bool:
    """Print a table where there is a screen for it; False if plain text is due."""
    out = console()
    if out is not None:
        out.print(_rich_table(table))
    return out is not None


def _rich_table(table: Table) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable

    made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for head in table.heads:
        right = head.kind == "n"
        justify: Any = "right" if right else "left"
        made.add_column(head.title, justify=justify, overflow="fold", no_wrap=right)
    for row in table.rows:
        made.add_row(*[_text(cell, STYLES.get(look_of(cell), "")) for cell in row])
    return made
