"""Charts of a graded exam: the four axes of each item, the axes across the items, the patterns in
them, and the exam's history.

An axis has a number, a colour and a place in the bar, so that it can be told without its colour. Of
a long exam only the items that lost something are drawn, and the sentence says so; the table and
the document have the others.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from assay import exact
from assay.views.charts import marks
from assay.views.charts.chart import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    INK,
    MAX_ROWS,
    ORANGE,
    PINK,
    QUIET,
    RED,
    SKY,
    TRACK,
    WHITE,
    WIDTH,
    Chart,
    clean,
    count,
    cut,
    label,
    labels,
    listed,
    mapped,
    nothing,
    number,
    over,
    percent,
    shown,
    view,
)
from assay.views.charts.summaries import moment, time_axis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COLOURS = (BLUE, ORANGE, SKY, GREEN, PINK, GREY)
MAX_COLUMNS = 300
"""Items that the heatmap has room for."""
PATTERNS = {
    "axis_zero": "an axis without marks across the items",
    "verb_zero": "every item of a verb is wrong",
    "conciseness_trend": "conciseness alone falls over the exam",
    "outlier_item": "one item alone without its mark",
}
"""The four patterns, and what each means."""


class _Exam:
    """What the charts read of a graded exam: its items and axes, as far as they are there."""

    def __init__(self, exam: Mapping[str, Any]) -> None:
        self.items = [
            item
            for item in listed(exam.get("items"))
            if isinstance(item, dict) and mapped(item.get("breakdown"))
        ]
        self.axes = list(dict.fromkeys(axis for item in self.items for axis in item["breakdown"]))
        self.names = [f"{place} {label(axis, 24)}" for place, axis in enumerate(self.axes, 1)]
        self.missing = set(map(str, listed(exam.get("missing"))))
        self.found = [
            pattern for pattern in listed(exam.get("patterns")) if isinstance(pattern, dict)
        ]
        self.by = (
            f"rubric {clean(exam['rubric'])}"
            if exam.get("rubric")
            else "a rubric that is not stated"
        )
        self.score = exam.get("score")
        self.n = len(self.items)

    def colours(self) -> list[str]:
        """A colour for each axis."""
        return [COLOURS[place % len(COLOURS)] for place in range(len(self.axes))]

    def lost(self, item: Mapping[str, Any]) -> list[int]:
        """The numbers of the axes on which an item has no full mark."""
        return [
            place
            for place, axis in enumerate(self.axes, 1)
            if (number(item["breakdown"].get(axis)) or 0.0) < 1
        ]

    def marked(self, item: Mapping[str, Any]) -> list[str]:
        """The patterns that name an item."""
        return list(
            dict.fromkeys(
                str(pattern.get("kind")) for pattern in self.found if _names(pattern, item)
            )
        )


def _names(pattern: Mapping[str, Any], item: Mapping[str, Any]) -> bool:
    evidence = mapped(pattern.get("evidence"))
    if pattern.get("kind") == "axis_zero":
        return number(item["breakdown"].get(evidence.get("axis"))) == 0
    return item.get("item") is not None and (
        item["item"] == evidence.get("item") or item["item"] in listed(evidence.get("items"))
    )


# --- the four axes of each item


def axes(exam: Mapping[str, Any], *, weighted: bool = True) -> Chart:
    """A stacked bar of the axes for each item: weighted, so that a bar is as long as its score, or
    raw, with the same length for each axis (C-016, X-94).
    """
    name, title = (
        ("axes", "Items by axis, weighted")
        if weighted
        else ("axes-raw", "Items by axis, each with the same length")
    )
    read = _Exam(exam)
    if not read.items:
        return nothing(
            name, title, "The exam has no item with its marks, so there is nothing to draw."
        )
    kept = read.items
    if len(kept) > MAX_ROWS:
        kept = sorted(
            (item for item in kept if read.lost(item)),
            key=lambda item: number(item.get("score")) or 0.0,
        )[:MAX_ROWS]
    whole = 1.0 if weighted else float(len(read.axes))
    segments: list[dict[str, Any]] = []
    sums: list[dict[str, Any]] = []
    for item, text in zip(kept, labels(item.get("item") for item in kept), strict=True):
        at = 0.0
        for place, axis in enumerate(read.axes):
            part = (
                number(mapped(item.get("weighted" if weighted else "breakdown")).get(axis)) or 0.0
            )
            if part > 0:
                segments.append(
                    {
                        "name": text,
                        "from": at,
                        "to": at + part,
                        "middle": at + part / 2,
                        "axis": read.names[place],
                        "sign": str(place + 1),
                    }
                )
            at += part
        sums.append({"name": text, "to": at, "end": whole, "said": _said(read, item)})
    said = f"{count(read.n, 'item')} by {read.by}, exam score {shown(read.score)}; " + _axes_lost(
        read
    )
    if len(kept) < read.n:
        said += (
            f" Drawn are the {len(kept)} that lost most."
            if kept
            else " No item lost anything, so none is drawn."
        )
    spec = _stacked(read, segments, sums, whole) if sums else None
    return Chart(
        name,
        title,
        said,
        spec,
        ("Item", "Score", *map(clean, read.axes), "Lost", "Pattern"),
        _item_rows(read, weighted),
    )


def _said(read: _Exam, item: Mapping[str, Any]) -> str:
    lost = read.lost(item)
    said = shown(item.get("score"), "no score") + (
        f", lost {', '.join(map(str, lost))}" if lost else ""
    )
    if str(item.get("item")) in read.missing:
        said += ", no answer"
    return " · ".join([said, *(label(kind) for kind in read.marked(item) if kind != "axis_zero")])


def _axes_lost(read: _Exam) -> str:
    parts = [
        f"{clean(axis)} on {zero}"
        for axis in read.axes
        if (zero := sum((number(item["breakdown"].get(axis)) or 0.0) < 1 for item in read.items))
    ]
    said = f"marks are lost for {', '.join(parts)}." if parts else "no mark is lost."
    kinds = list(dict.fromkeys(clean(pattern.get("kind")) for pattern in read.found))
    return said + (
        f" Patterns seen: {', '.join(kinds)}." if kinds else " None of the four patterns is seen."
    )


def _item_rows(read: _Exam, weighted: bool) -> tuple[tuple[str, ...], ...]:
    part = "weighted" if weighted else "breakdown"
    rows = []
    for item in sorted(read.items, key=lambda item: number(item.get("score")) or 0.0):
        lost = ", ".join(clean(read.axes[place - 1]) for place in read.lost(item)) or "nothing"
        numbers = (shown(mapped(item.get(part)).get(axis)) for axis in read.axes)
        rows.append(
            (
                clean(item.get("item")),
                shown(item.get("score"), "no score"),
                *numbers,
                lost,
                ", ".join(read.marked(item)) or "none",
            )
        )
    return cut(rows, 4 + len(read.axes))


def _stacked(
    read: _Exam, segments: list[dict[str, Any]], sums: list[dict[str, Any]], whole: float
) -> dict[str, Any]:
    y = marks.rows_axis(sums)
    x = marks.scored(domain=(0, whole), title="score" if whole == 1 else "marks")
    x["axis"]["tickCount"] = 5
    colours = read.colours()
    hue = {
        "field": "axis",
        "type": "nominal",
        "scale": {"domain": read.names, "range": colours},
        "legend": {"title": None, "columns": 4, "symbolType": "square"},
    }
    ink = {
        "field": "axis",
        "type": "nominal",
        "scale": {
            "domain": read.names,
            "range": [WHITE if one == BLUE else BLACK for one in colours],
        },
        "legend": None,
    }
    layers: list[dict[str, Any]] = [
        over(
            sums,
            {
                "mark": {"type": "bar", "color": TRACK},
                "encoding": {"y": y, "x": {"field": "to", **x}, "x2": {"field": "end"}},
            },
        ),
        over(
            segments,
            {
                "mark": {"type": "bar"},
                "encoding": {
                    "y": y,
                    "x": {"field": "from", **x},
                    "x2": {"field": "to"},
                    "color": hue,
                },
            },
        ),
        over(
            segments,
            {
                "mark": {"type": "text", "fontSize": 11},
                "encoding": {
                    "y": y,
                    "x": {"field": "middle", **x},
                    "text": {"field": "sign"},
                    "color": ink,
                },
            },
        ),
        over(sums, marks.aside(y, "said")),
    ]
    spec = view([], *layers, resolve={"scale": {"color": "independent"}})
    spec["height"] = {"step": 22}
    return spec


# --- axis by item


def heatmap(exam: Mapping[str, Any]) -> Chart:
    """Every axis across the items in their order: a full cell is a lost mark. What is systematic
    shows as a line, what falls shows on the right (C-017).
    """
    name, title = "heatmap", "Lost marks, axis by item"
    read = _Exam(exam)
    if not read.items:
        return nothing(
            name, title, "The exam has no item with its marks, so there is nothing to draw."
        )
    kept = [
        (place, item)
        for place, item in enumerate(read.items)
        if len(read.items) <= MAX_COLUMNS or read.lost(item)
    ][:MAX_COLUMNS]
    cells: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for column, (_, item) in enumerate(kept):
        for axis, text in zip(read.axes, read.names, strict=True):
            mark = number(item["breakdown"].get(axis))
            cells.append(
                {
                    "name": text,
                    "from": column,
                    "to": column + 1,
                    "mark": "lost" if not mark else "kept" if mark >= 1 else "in part",
                }
            )
    sides = []
    for axis, text in zip(read.axes, read.names, strict=True):
        zero = sum((number(item["breakdown"].get(axis)) or 0.0) < 1 for item in read.items)
        kinds = [
            clean(pattern.get("kind"))
            for pattern in read.found
            if mapped(pattern.get("evidence")).get("axis") == axis
        ]
        sides.append(
            {"name": text, "said": " · ".join([f"{zero} of {read.n} lost", *dict.fromkeys(kinds)])}
        )
        rows.append(
            (
                clean(axis),
                str(zero),
                str(read.n),
                percent(zero / read.n),
                ", ".join(dict.fromkeys(kinds)) or "none",
            )
        )
    said = f"{count(read.n, 'item')} in the order of the exam; " + _axes_lost(read)
    if len(kept) < read.n:
        said += f" Drawn are {len(kept)} items that lost something."
    spec = _cells(cells, sides, len(kept)) if kept else None
    return Chart(
        name,
        title,
        said,
        spec,
        ("Axis", "Items that lost it", "Items", "Share", "Pattern"),
        tuple(rows),
    )


def _cells(
    cells: list[dict[str, Any]], sides: list[dict[str, Any]], columns: int
) -> dict[str, Any]:
    y = {
        **marks.rows_axis(sides),
        "scale": {"domain": [row["name"] for row in sides], "paddingInner": 0.15},
    }
    axis = {
        "title": "items, in their order",
        "ticks": False,
        "tickCount": 6,
        "format": "d",
        "tickMinStep": 1,
        "grid": False,
    }
    x = {"type": "quantitative", "scale": {"domain": [0, columns], "nice": False}, "axis": axis}
    domain = ["kept", "in part", "lost"]
    hue = {
        "field": "mark",
        "type": "nominal",
        "scale": {"domain": domain, "range": [TRACK, ORANGE, RED]},
        "legend": {"title": None, "symbolType": "square"},
    }
    stroke = {"stroke": QUIET, "strokeWidth": 0.3} if columns <= 120 else {}
    cell = {
        "mark": {"type": "rect", **stroke},
        "encoding": {"y": y, "x": {"field": "from", **x}, "x2": {"field": "to"}, "color": hue},
    }
    return view([], over(cells, cell), over(sides, marks.aside(y, "said")))


def patterns(exam: Mapping[str, Any]) -> Chart:
    """The four patterns by name: which of them are seen, and what was seen (C-017)."""
    name, title = "patterns", "Patterns"
    read = _Exam(exam)
    if not read.items:
        return nothing(
            name, title, "The exam has no item with its marks, so no pattern can be looked for."
        )
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    kinds = list(dict.fromkeys([*PATTERNS, *(str(pattern.get("kind")) for pattern in read.found)]))
    for kind in kinds:
        seen = [pattern for pattern in read.found if pattern.get("kind") == kind]
        for pattern in seen:
            hint = clean(pattern.get("hint") or "no hint is given")
            drawn.append(
                {
                    "lamp": marks.OPEN,
                    "word": "SEEN",
                    "why": label(f"{_subject(pattern)}: {hint}", 72),
                    "name": kind,
                }
            )
            rows.append((clean(kind), "seen", _subject(pattern), hint))
        if not seen:
            drawn.append(
                {
                    "lamp": marks.ASIDE,
                    "word": "not seen",
                    "why": PATTERNS.get(kind, ""),
                    "name": kind,
                }
            )
            rows.append((clean(kind), "not seen", "", PATTERNS.get(kind, "")))
    for row, text in zip(drawn, labels(row["name"] for row in drawn), strict=True):
        row["name"] = text
    found = list(dict.fromkeys(row[0] for row in rows if row[1] == "seen"))
    said = (
        f"Of the four patterns {len(found)} {'is' if len(found) == 1 else 'are'} seen in"
        f" {count(read.n, 'item')}: {', '.join(found)}."
        if found
        else f"None of the four patterns is seen in {count(read.n, 'item')}."
    )
    return Chart(
        name,
        title,
        said,
        marks.lamps(drawn[:MAX_ROWS]),
        ("Pattern", "Seen", "Where", "What it means"),
        cut(rows, 4),
    )


def _subject(pattern: Mapping[str, Any]) -> str:
    evidence = mapped(pattern.get("evidence"))
    return clean(evidence.get("verb") or evidence.get("item") or evidence.get("axis") or "the exam")


# --- history


def history(
    points: Sequence[Mapping[str, Any]],
    distribution: Sequence[Mapping[str, Any]] | None,
    *,
    limit: object = None,
) -> Chart:
    """The exam's scores over time, beside the stored distribution of item scores.

    A point holds `at` (a moment as ISO text), `score` and `n`. `distribution` is that of the stored
    result, `[{score, items}]`, or None where none is stored. `limit` is the score of the hard gate.
    """
    name, title = "exam-history", "Exam scores over time"
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for point in points:
        at, score = moment(point.get("at")), number(point.get("score"))
        rows.append(
            (
                clean(point.get("at") or "no moment"),
                shown(point.get("score"), "no score"),
                shown(point.get("n")),
                clean(point.get("rubric") or "not stated"),
            )
        )
        if at is not None and score is not None:
            drawn.append(
                {
                    "at": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "score": score,
                    "said": shown(point["score"]),
                }
            )
    spread = [
        (score, items)
        for one in distribution or ()
        if (score := number(one.get("score"))) is not None and (items := number(one.get("items")))
    ]
    columns = ("At", "Score", "Items", "Rubric")
    if not drawn:
        if not rows:
            return nothing(name, title, "No exam is stored yet, so there is no history to show.")
        return Chart(
            name,
            title,
            "No stored exam has a moment and a score, so nothing can be drawn.",
            None,
            columns,
            cut(rows, 4),
        )
    drawn.sort(key=lambda row: str(row["at"]))
    total = sum(items for _, items in spread)
    stored = sum(score * items for score, items in spread) / total if total else None
    mean = (
        sum((Fraction(str(score)) * Fraction(str(items)) for score, items in spread), Fraction())
        / Fraction(str(total))
        if total
        else None
    )
    gate = number(limit)
    said = f"{count(len(drawn), 'exam')}; the last scored {drawn[-1]['said']}."
    said += (
        f" The stored distribution has {count(int(total), 'item')} with a mean of"
        f" {_thousandths(mean)}."
        if mean is not None
        else " No distribution is stored to hold it against."
    )
    said += f" The hard gate is {shown(limit)}." if gate is not None else ""
    for score, items in spread:
        rows.append((f"stored: items with score {score:g}", f"{score:g}", f"{items:g}", ""))
    return Chart(
        name, title, said, _history_spec(drawn, spread, stored, gate), columns, cut(rows, 4)
    )


def _thousandths(value: Fraction) -> str:
    """Three decimals, halves up, from the exact value.

    >>> _thousandths(Fraction("0.9875"))
    '0.988'
    """
    return f"{exact.quantise(value.numerator, value.denominator, 3) / 1000:.3f}"


def _history_spec(
    drawn: list[dict[str, Any]],
    spread: list[tuple[float, float]],
    stored: float | None,
    gate: float | None,
) -> dict[str, Any]:
    lowest = min(
        *(row["score"] for row in drawn),
        *(score for score, _ in spread),
        1.0 if gate is None else gate,
    )
    y = {
        "type": "quantitative",
        "scale": {"domain": [max(0.0, lowest - 0.05), 1], "nice": False, "zero": False},
    }
    y["axis"] = {"title": "score", "grid": True, "tickCount": 5}
    x = time_axis()
    lines = sorted(
        (
            (value, text)
            for value, text in ((gate, "hard gate"), (stored, "mean of the stored"))
            if value is not None
        ),
        reverse=True,
    )
    ruled = [{"at": value, "said": text} for value, text in lines]
    layers: list[dict[str, Any]] = [
        over(
            ruled,
            {
                "mark": {"type": "rule", "color": INK, "strokeDash": [5, 4]},
                "encoding": {"y": {"field": "at", **y}},
            },
        ),
        *(
            over([row], _line_text(y, above=place == 0 and len(ruled) > 1))
            for place, row in enumerate(ruled)
        ),
        over(
            drawn,
            {
                "mark": {"type": "line", "color": BLUE},
                "encoding": {"x": x, "y": {"field": "score", **y}},
            },
        ),
        over(
            drawn,
            {
                "mark": {"type": "point", "color": BLUE, "opacity": 1},
                "encoding": {"x": x, "y": {"field": "score", **y}},
            },
        ),
    ]
    made = view([], *layers, height=190, width=WIDTH)
    if not spread:
        return made
    bars = [{"score": score, "items": items} for score, items in spread]
    side = {
        "data": {"values": bars},
        "width": 110,
        "height": 190,
        "mark": {"type": "bar", "color": SKY, "size": 6, "orient": "horizontal"},
        "encoding": {
            "y": {"field": "score", **y, "axis": None},
            "x": {
                "field": "items",
                "type": "quantitative",
                "axis": {"title": "items, stored", "tickCount": 2, "grid": False, "format": "d"},
            },
        },
    }
    main = {key: made.pop(key) for key in ("layer", "height", "width")}
    return {**made, "hconcat": [main, side], "spacing": 14}


def _line_text(y: dict[str, Any], *, above: bool) -> dict[str, Any]:
    """The name of a line: of two lines the upper one's stands above it at the right, the lower
    one's below it at the left, so that they never meet.
    """
    place = (
        {"align": "right", "baseline": "bottom", "dy": -3}
        if above
        else {"align": "left", "baseline": "top", "dy": 4}
    )
    mark = {"type": "text", "fontSize": 11, "color": INK, **place}
    return {
        "mark": mark,
        "encoding": {
            "x": {"value": WIDTH - 4 if above else 4},
            "y": {"field": "at", **y},
            "text": {"field": "said"},
        },
    }
