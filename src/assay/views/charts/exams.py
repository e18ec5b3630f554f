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
from assay.records.exam import AXES
from assay.views.charts import marks
from assay.views.charts.chart import (
    BLACK,
    BLUE,
    GREEN,
    INK,
    MAX_ROWS,
    ORANGE,
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
    nothing,
    number,
    over,
    percent,
    shown,
    view,
)
from assay.views.charts.trends import time_axis
from assay.views.exam import exam_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.records.exam import AxisNumbers, ExamResult, ItemResult, PatternSeen, ScoreCount
    from assay.views.exam import ExamPoint

COLOURS = [BLUE, ORANGE, SKY, GREEN]
MAX_COLUMNS = 300
"""Items that the heatmap has room for."""
NAMES = [f"{place} {axis}" for place, axis in enumerate(AXES, 1)]


def _lost(item: ItemResult) -> list[int]:
    """The numbers of the axes on which an item has no mark."""
    return [place for place, axis in enumerate(AXES, 1) if axis in item.lost]


def _kinds(exam: ExamResult, item: ItemResult) -> list[str]:
    """The patterns that name an item."""
    return list(dict.fromkeys(one.kind for one in exam.patterns if _names(one, item)))


def _names(pattern: PatternSeen, item: ItemResult) -> bool:
    evidence = pattern.evidence
    if pattern.kind == "axis_zero":
        return evidence["axis"] in item.lost
    return item.item == evidence.get("item") or item.item in listed(evidence.get("items"))


# --- the four axes of each item


def axes(exam: ExamResult, *, weighted: bool = True) -> Chart:
    """A stacked bar of the axes for each item: weighted, so that a bar is as long as its score, or
    raw, with the same length for each axis (C-016, X-94).
    """
    name, title = (
        ("axes", "Items by axis, weighted")
        if weighted
        else ("axes-raw", "Items by axis, each with the same length")
    )
    items = exam.items
    if len(items) > MAX_ROWS:
        lost = sorted((item for item in items if item.lost), key=lambda item: item.score)
        items = lost[:MAX_ROWS]
    segments: list[dict[str, Any]] = []
    sums: list[dict[str, Any]] = []
    whole = 1.0 if weighted else float(len(AXES))
    for item, text in zip(items, labels(item.item for item in items), strict=True):
        at = 0.0
        for (_, value), place in zip(_parts(item, weighted).items(), NAMES, strict=True):
            part = float(value)
            if part > 0:
                segments.append(
                    {
                        "name": text,
                        "from": at,
                        "to": at + part,
                        "middle": at + part / 2,
                        "axis": place,
                        "sign": place[0],
                    }
                )
            at += part
        sums.append({"name": text, "to": at, "end": whole, "said": _beside(exam, item)})
    sentence = (
        f"{count(exam.n, 'item')} by rubric {clean(exam.rubric)}, exam score {shown(exam.score)}; "
        + _axes_lost(exam)
    )
    if len(items) < exam.n:
        sentence += (
            f" Drawn are the {len(items)} that lost most."
            if items
            else " No item lost anything, so none is drawn."
        )
    return Chart(
        name,
        title,
        sentence,
        _stacked(segments, sums, whole) if sums else None,
        ("Item", "Score", *AXES, "Lost", "Pattern"),
        _item_rows(exam, weighted),
    )


def _parts(item: ItemResult, weighted: bool) -> AxisNumbers:
    return item.weighted if weighted else item.breakdown


def _beside(exam: ExamResult, item: ItemResult) -> str:
    """The text beside a bar: the score, what was lost, and the patterns of the item."""
    lost = _lost(item)
    text = shown(item.score) + (f", lost {', '.join(map(str, lost))}" if lost else "")
    if item.item in exam.missing:
        text += ", no answer"
    return " · ".join([text, *(label(kind) for kind in _kinds(exam, item) if kind != "axis_zero")])


def _axes_lost(exam: ExamResult) -> str:
    zero = {axis: sum(axis in item.lost for item in exam.items) for axis in AXES}
    parts = [f"{axis} on {n}" for axis, n in zero.items() if n]
    sentence = f"marks are lost for {', '.join(parts)}." if parts else "no mark is lost."
    kinds = list(dict.fromkeys(clean(pattern.kind) for pattern in exam.patterns))
    return sentence + (
        f" Patterns seen: {', '.join(kinds)}." if kinds else " None of the four patterns is seen."
    )


def _item_rows(exam: ExamResult, weighted: bool) -> tuple[tuple[str, ...], ...]:
    rows = [
        (
            clean(item.item),
            shown(item.score),
            *(shown(part) for _, part in _parts(item, weighted).items()),
            ", ".join(item.lost) or "nothing",
            ", ".join(map(clean, _kinds(exam, item))) or "none",
        )
        for item in sorted(exam.items, key=lambda item: item.score)
    ]
    return cut(rows, 4 + len(AXES))


def _stacked(
    segments: list[dict[str, Any]], sums: list[dict[str, Any]], whole: float
) -> dict[str, Any]:
    y = marks.rows_axis(sums)
    x = marks.scored(domain=(0, whole), title="score" if whole == 1 else "marks")
    x["axis"]["tickCount"] = 5
    hue = {
        "field": "axis",
        "type": "nominal",
        "scale": {"domain": NAMES, "range": COLOURS},
        "legend": {"title": None, "columns": 4, "symbolType": "square"},
    }
    ink = {
        "field": "axis",
        "type": "nominal",
        "scale": {
            "domain": NAMES,
            "range": [WHITE if one == BLUE else BLACK for one in COLOURS],
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


def heatmap(exam: ExamResult) -> Chart:
    """Every axis across the items in their order: a full cell is a lost mark. What is systematic
    shows as a line, what falls shows on the right (C-017).
    """
    kept = [item for item in exam.items if len(exam.items) <= MAX_COLUMNS or item.lost]
    kept = kept[:MAX_COLUMNS]
    cells: list[dict[str, Any]] = [
        {
            "name": text,
            "from": column,
            "to": column + 1,
            "mark": "lost" if axis in item.lost else "kept",
        }
        for column, item in enumerate(kept)
        for axis, text in zip(AXES, NAMES, strict=True)
    ]
    sides: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for axis, text in zip(AXES, NAMES, strict=True):
        zero = sum(axis in item.lost for item in exam.items)
        kinds = list(
            dict.fromkeys(
                clean(one.kind) for one in exam.patterns if one.evidence.get("axis") == axis
            )
        )
        sides.append({"name": text, "said": " · ".join([f"{zero} of {exam.n} lost", *kinds])})
        rows.append(
            (axis, str(zero), str(exam.n), percent(zero / exam.n), ", ".join(kinds) or "none")
        )
    sentence = f"{count(exam.n, 'item')} in the order of the exam; " + _axes_lost(exam)
    if len(kept) < exam.n:
        sentence += f" Drawn are {len(kept)} items that lost something."
    return Chart(
        "heatmap",
        "Lost marks, axis by item",
        sentence,
        _cells(cells, sides, len(kept)) if kept else None,
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
    hue = {
        "field": "mark",
        "type": "nominal",
        "scale": {"domain": ["kept", "lost"], "range": [TRACK, RED]},
        "legend": {"title": None, "symbolType": "square"},
    }
    stroke = {"stroke": QUIET, "strokeWidth": 0.3} if columns <= 120 else {}
    cell = {
        "mark": {"type": "rect", **stroke},
        "encoding": {"y": y, "x": {"field": "from", **x}, "x2": {"field": "to"}, "color": hue},
    }
    return view([], over(cells, cell), over(sides, marks.aside(y, "said")))


def patterns(exam: ExamResult) -> Chart:
    """The four patterns by name: which of them are seen, and what was seen (C-017)."""
    view = exam_view(exam)
    names = labels(row.kind for row in view.patterns)
    drawn = [
        {
            "lamp": marks.OPEN if row.seen else marks.ASIDE,
            "word": "SEEN" if row.seen else "not seen",
            "why": label(f"{row.where}: {row.meaning}", 72) if row.seen else row.meaning,
            "name": name,
        }
        for row, name in zip(view.patterns, names, strict=True)
    ]
    rows = [
        (
            clean(row.kind),
            "seen" if row.seen else "not seen",
            clean(row.where),
            clean(row.meaning),
        )
        for row in view.patterns
    ]
    return Chart(
        "patterns",
        "Patterns",
        clean(view.patterns_sentence),
        marks.lamps(drawn[:MAX_ROWS]),
        ("Pattern", "Seen", "Where", "What it means"),
        cut(rows, 4),
    )


# --- history


def history(
    points: Sequence[ExamPoint],
    distribution: Sequence[ScoreCount] | None,
    *,
    limit: object = None,
) -> Chart:
    """The exam's scores over time, beside the stored distribution of item scores.

    `distribution` is that of the stored result, or None where none is stored. `limit` is the score
    of the hard gate.
    """
    name, title = "exam-history", "Exam scores over time"
    if not points:
        return nothing(name, title, "No exam is stored yet, so there is no history to show.")
    drawn: list[dict[str, Any]] = [
        {"at": point.at, "score": float(point.score)}
        for point in sorted(points, key=lambda point: point.at)
    ]
    rows = [
        (clean(point.at), shown(point.score), shown(point.n), clean(point.rubric))
        for point in points
    ]
    spread = [(float(one.score), one.items) for one in distribution or ()]
    total = sum(items for _, items in spread)
    stored = (
        sum(Fraction(str(one.score)) * one.items for one in distribution or ()) / Fraction(total)
        if total
        else None
    )
    gate = number(limit)
    sentence = f"{count(len(drawn), 'exam')}; the last scored {shown(drawn[-1]['score'])}."
    sentence += (
        f" The stored distribution has {count(total, 'item')} with a mean of"
        f" {_thousandths(stored)}."
        if stored is not None
        else " No distribution is stored to compare it with."
    )
    sentence += f" The hard gate is {shown(limit)}." if gate is not None else ""
    for score, items in spread:
        rows.append((f"stored: items with score {score:g}", f"{score:g}", f"{items:g}", ""))
    lines = None if stored is None else float(stored)
    return Chart(
        name,
        title,
        sentence,
        _history_spec(drawn, spread, lines, gate),
        ("At", "Score", "Items", "Rubric"),
        cut(rows, 4),
    )


def _thousandths(value: Fraction) -> str:
    """Three decimals, halves up, from the exact value.

    >>> _thousandths(Fraction("0.9875"))
    '0.988'
    """
    return f"{exact.quantise(value.numerator, value.denominator, 3) / 1000:.3f}"


def _history_spec(
    drawn: list[dict[str, Any]],
    spread: list[tuple[float, int]],
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
