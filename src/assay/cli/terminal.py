"""Views on a terminal: tables by rich where there is one; in a pipe, in CI or without the extra the
same words as plain text.

Colour is never the only sign. Text from a document is made printable and never read as rich's own
markup, so that no run id can paint or move the cursor. Nothing here words anything.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from assay import exact
from assay.errors import printable
from assay.views.blocks import Decided, Facts, Paragraph, Sentences, Table
from assay.views.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    from assay.views.blocks import Part

BAR = 24
LETTERS = {"A": "bold blue", "B": "cyan", "C": "white", "D": "yellow", "F": "bold red"}
GATES = {
    "pass": ("ok", "green"),
    "fail": ("FAIL", "bold red"),
    "undetermined": ("??", "bold yellow"),
}
_LINE = re.compile(
    r"(?P<grade>\S+)  (?P<score> *[\d.]+)  (?P<verdict>passed|FAILED)  (?P<run>.*?)(?: "
    r" (?P<why>(?:gates|below floor): .*|below [\d.]+))?$"
)


def console() -> Console | None:
    """Where to print, or None where plain text is due: no terminal, CI, a dumb terminal, or no
    rich.
    """
    if (
        not sys.stdout.isatty()
        or os.environ.get("CI")
        or os.environ.get("TERM") == "dumb"
        or find_spec("rich") is None
    ):
        return None
    # Tables on a terminal are an optional extra: pip install 'assay[terminal]'
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


def bar(value: object, whole: float = 100.0, *, width: int = BAR) -> str:
    """A bar of text. Something is never drawn as nothing, and less than all never as all.

    >>> bar(50, width=8), bar(0.1, width=8), bar(99.9, width=8), bar(None, width=8)
    ('████····', '█·······', '███████·', '(no num)')
    """
    if not exact.is_number(value):
        return "(no number)"[: width - 1].rstrip() + ")" if width < 11 else "(no number)"
    share = min(1.0, max(0.0, float(value) / whole))  # type: ignore[arg-type]
    full = int(share * width)
    full = max(1, full) if share > 0 else 0
    full = min(width - 1, full) if share < 1 else full
    return "█" * full + "·" * (width - full)


# --- views

STYLES = {
    "good": "green",
    "bad": "bold red",
    "open": "yellow",
    "hint": "dim",
    "title": "bold",
}
"""How a verdict and a paragraph look."""
_CODES = {"green": "32", "bold red": "1;31", "yellow": "33", "dim": "2", "bold": "1"}
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
        elif isinstance(part, Table):
            _plain_table(part)
        elif isinstance(part, Facts):
            for label, value in part.pairs:
                if value:
                    _print(f"{label:<{LABEL}}{value}", "", out)
        elif isinstance(part, Sentences):
            for sentence in part.sentences:
                _print(f"  {sentence}", "", out)
        elif isinstance(part, Paragraph):
            _print(f"\n{part.text}", STYLES.get(part.kind, ""), out)


def _style(text: object) -> str:
    """How a piece looks: that of a verdict within it."""
    if isinstance(text, Piece) and text.kind == "verdict":
        return STYLES.get(text.values[1], "")
    return ""


def _print(text: str, style: str, out: Console | None) -> None:
    lines = "\n".join(map(printable, text.split("\n")))
    if out is not None:
        out.print(_text(text, style) if "\n" not in text else _text(text.strip("\n"), style))
    elif text:
        sys.stdout.write(_painted(lines, style) + "\n")


def _painted(text: str, style: str) -> str:
    on = (
        style
        and sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and not os.environ.get("CI")
    )
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if on else text


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
            _painted(f"{text:<{width}}", _style(cell))
            for cell, text, width in zip(row, texts, widths, strict=False)
        ]
        sys.stdout.write("  " + "  ".join([*padded, texts[-1]]) + "\n")
    sys.stdout.write("\n")


def _rich_table(table: Table) -> RichTable:
    made = _table(
        *[head.title for head in table.heads],
        right=tuple(head.title for head in table.heads if head.kind == "n"),
    )
    for row in table.rows:
        made.add_row(*[_text(cell, _style(cell)) for cell in row])
    return made


# --- grades


def rows_of(lines: str) -> list[dict[str, Any]]:
    r"""The plain lines of `assay grade` as rows again.

    >>> rows_of("F   95.70  FAILED  r-1  gates: g\n")
    [{'grade': 'F', 'weighted_score': 95.7, 'passed': False, 'run_id': 'r-1', 'why': 'gates: g'}]
    """
    found: list[dict[str, Any]] = []
    for line in lines.splitlines():
        read = _LINE.fullmatch(line)
        if read is None:
            found.append(
                {"grade": None, "weighted_score": None, "passed": False, "run_id": line, "why": ""}
            )
            continue
        score, good = float(read["score"]), read["verdict"] == "passed"
        found.append(
            {
                "grade": read["grade"],
                "weighted_score": score,
                "passed": good,
                "run_id": read["run"],
                "why": read["why"] or "",
            }
        )
    return found


def show_grades(results: Iterable[Mapping[str, Any]]) -> bool:
    """A table of results, a row each. A row holds `run_id`, `grade`, `weighted_score`, `passed`,
    and `why` or `reason`.
    """
    out = console()
    if out is None:
        return False
    made = _table("grade", "score", "", "verdict", "run", "why", right=("score",))
    for one in results:
        good = one.get("passed") is True
        score = one.get("weighted_score")
        made.add_row(
            _text(one.get("grade") or "none", LETTERS.get(str(one.get("grade")), "")),
            _text(f"{float(score):.2f}" if exact.is_number(score) else "no score"),  # type: ignore[arg-type]
            _text(bar(score, width=16), "green" if good else "red"),
            _text("passed" if good else "FAILED", "green" if good else "bold red"),
            _text(one.get("run_id")),
            _text(one.get("why") or ("" if good else one.get("reason") or "")),
        )
    out.print(made)
    return True


# --- one run


def show_explanation(result: Mapping[str, Any]) -> bool:
    """Why a run got its grade: the verdict, the points of each criterion as bars with floors, the
    gates, and what would move it.
    """
    out = console()
    if out is None:
        return False
    good = result.get("passed") is True
    score = result.get("weighted_score")
    head = (
        f"{result.get('run_id')}: {result.get('grade')}, {float(score):.2f}, "  # type: ignore[arg-type]
        if exact.is_number(score)
        else f"{result.get('run_id')}: no score, "
    )
    out.print(
        _text(head + ("passed" if good else "not passed"), "bold green" if good else "bold red")
    )
    made = _table("criterion", "points", "", "of", "norm", "floor", right=("points", "of", "norm"))
    criteria = list(result.get("criteria") or ())
    most = (
        max(
            [float(one["maximum"]) for one in criteria if exact.is_number(one.get("maximum"))],
            default=100.0,
        )
        or 100.0
    )
    for one in criteria:
        made.add_row(
            _text(one.get("label") or one.get("name")),
            _text(_points(one.get("contribution"))),
            _contribution(one, most),
            _text(_points(one.get("maximum"))),
            _text(one.get("norm") if one.get("missing") is None else "missing"),
            _floor(one),
        )
    out.print(made)
    gates = _table("gate", "", "reason")
    for name, verdict in (result.get("hard_gates") or {}).items():
        word, style = GATES.get(str(verdict.get("status")), ("no verdict", "bold red"))
        gates.add_row(_text(name), _text(word, style), _text(verdict.get("reason") or ""))
    if gates.row_count:
        out.print(gates)
    for sentence in result.get("explanation") or ():
        out.print(_text(f"  {sentence}"))
    for note in (
        *((result.get("placement") or {}).get("notes") or ()),
        *(result.get("notes") or ()),
    ):
        out.print(_text(f"  note: {note}", "dim"))
    out.print(_text(_used(result), "dim"))
    return True


def _points(value: object) -> str:
    return f"{float(value):.2f}" if exact.is_number(value) else "not stated"  # type: ignore[arg-type]


def _contribution(one: Mapping[str, Any], most: float) -> Text:
    """Won points as full signs, lost ones as light ones; all bars of a run share a scale."""
    from rich.text import Text

    won, whole = one.get("contribution"), one.get("maximum")
    if not exact.is_number(won) or not exact.is_number(whole):
        return Text("")
    track = max(1, round(BAR * float(whole) / most))  # type: ignore[arg-type]
    full = bar(won, float(whole), width=track) if float(whole) > 0 else ""  # type: ignore[arg-type]
    lost = full.count("·")
    return (
        Text("")
        .append("█" * (len(full) - lost), style="red" if one.get("floor_failed") else "blue")
        .append("░" * lost, style="dim")
    )


def _floor(one: Mapping[str, Any]) -> Text:
    floor = one.get("critical_floor")
    if not floor:
        return _text("none", "dim")
    return (
        _text(f"{floor.get('norm')} missed", "bold red")
        if one.get("floor_failed")
        else _text(f"{floor.get('norm')} kept", "green")
    )


def _used(result: Mapping[str, Any]) -> str:
    """What graded it, in the words of the plain text."""
    parts = []
    for kind in ("profile", "rubric"):
        chosen = (result.get("selection") or {}).get(kind)
        if chosen is not None:
            name, why = (
                (chosen.get("id"), chosen.get("why"))
                if isinstance(chosen, dict)
                else (chosen.id, chosen.why)
            )
            parts.append(f"{kind} {name} ({why})")
    return "  " + " · ".join(
        [
            *parts,
            f"policy {result.get('policy')}",
            str(result.get("scoringSystem")),
            str(result.get("gradingSystem")),
        ]
    )
