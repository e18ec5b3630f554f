"""What every chart is made of: the record, the palette, the theme, and how text and numbers enter
it.

A chart is a Vega-Lite specification, a sentence that says what it shows, and the table behind it.
All three come from one document and nothing is made up: missing values are stated in words. Field
names in a specification are ours and never taken from a document, because Vega reads dots and
brackets in them; text from a document enters as data only, cleaned and cut by `label`. Nothing here
draws: see `assay.views.drawing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from assay import exact
from assay.canon import number_text
from assay.records.decision import Difference
from assay.records.judge_card import Estimate
from assay.records.summary import ValueInterval
from assay.views import palette

Spec = dict[str, Any]

_NEUTRAL = ("ink", "quiet", "rule", "ground", "track")
INK, QUIET, RULE, GROUND, TRACK = (palette.LIGHT[name] for name in _NEUTRAL)
DARK = {palette.LIGHT[name]: palette.DARK[name] for name in _NEUTRAL}
"""The colours that change on a dark background; the others stay."""
LETTER_COLOURS = palette.GRADES
BLUE, SKY, GREY, ORANGE = palette.BLUE, palette.SKY, palette.GREY, palette.ORANGE
RED, GREEN, PINK = palette.RED, palette.GREEN, palette.PINK
BLACK, WHITE = palette.BLACK, palette.WHITE
PALETTE = frozenset(
    {INK, QUIET, RULE, GROUND, TRACK, BLUE, SKY, GREY, ORANGE, RED, GREEN, PINK, BLACK, WHITE}
)

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
"""The first ships with the renderer, so that text has the same width on every machine; a browser
without it takes one of the same width.
"""
WIDTH = 430
"""Width of the plot in pixels, without the labels."""
MAX_LABEL = 34
MAX_NAME = 80
"""Characters of a name in a sentence; next to a mark it is shorter."""
MAX_ROWS = 40
"""Rows of one picture; the table has all of them up to `MAX_TABLE`."""
MAX_TABLE = 200

THEME: Spec = {
    "background": None,
    "font": FONT,
    "aria": False,
    "padding": 6,
    "view": {"stroke": None, "discreteHeight": {"step": 26}},
    "axis": {
        "labelColor": INK,
        "labelFontSize": 12,
        "labelLimit": 220,
        "titleColor": QUIET,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "domainColor": QUIET,
        "tickColor": QUIET,
        "gridColor": RULE,
        "domain": False,
        "ticks": False,
        "labelPadding": 6,
    },
    "axisY": {"grid": False},
    "legend": {
        "labelColor": INK,
        "labelFontSize": 12,
        "titleColor": QUIET,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "orient": "top",
        "symbolSize": 120,
    },
    "text": {"color": INK, "fontSize": 12},
    "bar": {"color": BLUE},
    "rule": {"color": QUIET},
    "point": {"color": BLUE, "filled": True, "size": 60},
    "line": {"color": BLUE, "strokeWidth": 2},
}
"""The look of every chart. Fonts, colours and sizes are set only here, except where a mark's
meaning determines its colour.
"""


class Chart(NamedTuple):
    """One chart: its name, its sentence, its specification, and the table behind it."""

    name: str
    """Fit for a file name: lower-case letters and hyphens."""
    title: str
    sentence: str
    """What it shows, with its numbers; also its alternative text."""
    spec: Spec | None
    """Vega-Lite; None if there is nothing to draw, and then the sentence says why."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The table, in words and numbers as a reader sees them; a missing value is stated in words."""


def nothing(name: str, title: str, sentence: str) -> Chart:
    """A chart without a picture, with the reason."""
    return Chart(name, title, sentence, None, ("What",), ((sentence,),))


def view(values: Sequence[Mapping[str, Any]], *layers: Spec, **more: Any) -> Spec:
    """A specification: its data, its layers, and what belongs to the whole."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"values": [dict(value) for value in values]},
        "width": WIDTH,
        "layer": list(layers),
        **more,
        "config": THEME,
    }


def over(values: Sequence[Mapping[str, Any]], layer: Spec) -> Spec:
    """A layer with its own data."""
    return {"data": {"values": [dict(value) for value in values]}, **layer}


# --- text

# Controls, half a surrogate pair, what makes text run backwards, and what XML forbids: no reader
# sees them, and one name could pose as another.
UNSEEN = dict.fromkeys(
    [
        *range(32),
        *range(127, 160),
        0x00AD,
        0x061C,
        0x180E,
        0x200B,
        0x200E,
        0x200F,
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        0x3164,
        *range(0xD800, 0xE000),
        0xFEFF,
        0xFFA0,
        *range(0xFFF9, 0xFFFC),
        0xFFFE,
        0xFFFF,
    ],
    0xFFFD,
)


def clean(value: object) -> str:
    """Any text on one line, with nothing in it that cannot be seen."""
    return str(value).translate(UNSEEN)


def label(value: object, most: int = MAX_LABEL) -> str:
    r"""Text of a document, short enough to fit next to a mark.

    >>> label("tone"), label("a\nb"), label("x" * 40, most=8)
    ('tone', 'a\ufffdb', 'xxxxxxx…')
    """
    text = clean(value) if value not in (None, "") else "(no name)"
    return text if len(text) <= most else f"{text[: most - 1]}…"


def labels(values: Iterable[object], most: int = MAX_LABEL) -> list[str]:
    """Labels that differ from each other, so that two rows never fall into one.

    >>> labels(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    seen: dict[str, int] = {}
    made_labels = []
    for value in values:
        text = label(value, most)
        seen[text] = seen.get(text, 0) + 1
        count = seen[text]
        made = text if count == 1 else f"{text} ({count})"
        seen.setdefault(made, 1)
        made_labels.append(made)
    return made_labels


# --- numbers


def number(value: object) -> float | None:
    """A number to draw, or None if it is none.

    >>> number(2), number(True), number("2"), number(float("nan"))
    (2.0, None, None, None)
    """
    return float(value) if exact.is_number(value) else None  # type: ignore[arg-type]


def shown(value: object, absent: str = "not stated") -> str:
    """A number as in the document, or `absent`."""
    return number_text(value) if exact.is_number(value) else absent  # type: ignore[arg-type]


def percent(value: object, absent: str = "not known") -> str:
    """A share of one, in percent.

    >>> percent(0.9166), percent(None)
    ('91.7%', 'not known')
    """
    made = number(value)
    return absent if made is None else f"{100 * made:.1f}%"


def three(value: object) -> str:
    """A statistic with three decimals."""
    made = number(value)
    return "not measured" if made is None else f"{made:.3f}"


def interval(
    measured: ValueInterval | Estimate | Difference, *, form: Callable[[object], str]
) -> str:
    """An interval in words: its level and ends, or why there is none.

    >>> interval(Estimate(value=0.5, low=0.25, high=0.75, level=0.95), form=shown)
    '95% interval 0.25 to 0.75'
    >>> interval(Estimate(value=0.5, reason="one sample"), form=shown)
    'no interval: one sample'
    """
    if measured.low is None or measured.high is None:
        return f"no interval: {clean(measured.reason)}" if measured.reason else "no interval"
    name = "interval" if measured.level is None else f"{100 * float(measured.level):g}% interval"
    return f"{name} {form(measured.low)} to {form(measured.high)}"


def cut(rows: Sequence[tuple[str, ...]], columns: int) -> tuple[tuple[str, ...], ...]:
    """The rows of a table up to the limit; beyond it the last row says how many more there are."""
    if len(rows) <= MAX_TABLE:
        return tuple(rows)
    return (
        *rows[:MAX_TABLE],
        (f"… and {len(rows) - MAX_TABLE:,} more, left out here", *[""] * (columns - 1)),
    )
