"""Any text in Markdown without its meaning: a code span, in which no renderer sees markup."""

from __future__ import annotations

import re

from assay.errors import printable

MAX_TEXT = 200
_TICKS = re.compile("`+")


def code(text: object, *, most: int = MAX_TEXT) -> str:
    r"""Any text as a code span outside a table. Characters that would break the line or reverse the
    text are escaped.

    >>> code("a|b"), code("@all <b>\n")
    ('`a|b`', '`@all <b>\\n`')
    >>> code("`x`")
    '`` `x` ``'
    """
    shown = printable(str(text))
    if len(shown) > most:
        shown = f"{shown[:most]}…"
    if not shown.strip():
        return "(empty)"
    fence = "`" * (1 + max((len(ticks) for ticks in _TICKS.findall(shown)), default=0))
    # one blank on each side is taken off again by the renderer, and keeps a backtick at the edge
    # apart from the fence
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def cell_code(text: object) -> str:
    r"""The same in a cell of a table, where a pipe ends the cell unless it is escaped; elsewhere a
    reader would see the backslash.

    >>> cell_code("a|b")
    '`a\\|b`'
    """
    return code(text).replace("|", "\\|")
