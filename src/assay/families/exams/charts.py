"""Charts of exams."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from assay import exact
from assay.errors import count
from assay.families.exams.records import (
    AxisNumbers,
    ExamResult,
    ItemResult,
    PatternSeen,
    ScoreCount,
)
from assay.families.exams.views import ExamPoint, exam_view
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
    Spec,
    clean,
    cut,
    label,
    labels,
    nothing,
    number,
    over,
    percent,
    shown,
    view,
)
from assay.views.charts.trends import time_axis

COLOURS = [BLUE, ORANGE, SKY, GREEN, PINK, GREY]
"""By axis; from the seventh on they begin again, and the number tells two axes apart."""
MAX_COLUMNS = 300
"""Items that the heatmap has room for."""


def _names_of(exam: ExamResult) -> list[str]:
    """The axes, each with its number."""
    return [f"{place} {label(axis)}" for place, axis in enumerate(exam.axis_names, 1)]


def _kinds(exam: ExamResult, item: ItemResult) -> list[str]:
    """The patterns that name an item."""
    return list(dict.fromkeys(pattern.kind for pattern in exam.patterns if _names(pattern, item)))


def _names(pattern: PatternSeen, item: ItemResult) -> bool:
    evidence = pattern.evidence
    if "zero_items" in evidence:
        return evidence["axis"] in item.lost
    items = evidence.get("items")  # of some patterns their number
    return item.item == evidence.get("item") or (isinstance(items, list) and item.item in items)


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
    names, axis_names = _names_of(exam), exam.axis_names
    whole = 1.0 if weighted else float(len(names))
    for item, text in zip(items, labels(item.item for item in items), strict=True):
        at = 0.0
        parts = _parts(item, weighted)
        for axis, place in zip(axis_names, names, strict=True):
            part = float(parts[axis])
            if part > 0:
                segments.append(
                    {
                        "name": text,
                        "from": at,
                        "to": at + part,
                        "middle": at + part / 2,
                        "axis": place,
                        "sign": place.partition(" ")[0],
                    }
                )
            at += part
        sums.append({"name": text, "to": at, "end": whole, "note": _bar_note(exam, item)})
    sentence = (
        f"{count(exam.n, 'item')} by rubric {clean(exam.rubric)}, exam score {shown(exam.score)}; "
        + _axes_lost(exam)
    )
    if len(items) < exam.n:
        sentence += (
            f" Only the {len(items)} that lost most are drawn."
            if items
            else " No item lost anything, so none is drawn."
        )
    return Chart(
        name,
        title,
        sentence,
        _stacked(segments, sums, whole, names) if sums else None,
        ("Item", "Score", *map(clean, axis_names), "Lost", "Pattern"),
        _item_rows(exam, weighted),
    )


def _parts(item: ItemResult, weighted: bool) -> AxisNumbers:
    return item.weighted if weighted else item.breakdown


def _bar_note(exam: ExamResult, item: ItemResult) -> str:
    """The text next to a bar: the score, what was lost, and the patterns of the item."""
    lost = [place for place, axis in enumerate(exam.axis_names, 1) if axis in item.lost]
    text = shown(item.score) + (f", lost {', '.join(map(str, lost))}" if lost else "")
    if item.item in exam.missing:
        text += ", no answer"
    return " · ".join([text, *(label(kind) for kind in _kinds(exam, item) if kind != "axis_zero")])


def _axes_lost(exam: ExamResult) -> str:
    zero = {axis: sum(axis in item.lost for item in exam.items) for axis in exam.axis_names}
    parts = [f"{clean(axis)} on {count(n, 'item')}" for axis, n in zero.items() if n]
    sentence = f"marks lost for {', '.join(parts)}." if parts else "no mark was lost."
    kinds = list(dict.fromkeys(clean(pattern.kind) for pattern in exam.patterns))
    return sentence + (f" Patterns found: {', '.join(kinds)}." if kinds else " No pattern found.")


def _item_rows(exam: ExamResult, weighted: bool) -> tuple[tuple[str, ...], ...]:
    names = exam.axis_names
    rows = [
        (
            clean(item.item),
            shown(item.score),
            *(shown(_parts(item, weighted)[axis]) for axis in names),
            ", ".join(clean(axis) for axis in names if axis in item.lost) or "nothing",
            ", ".join(map(clean, _kinds(exam, item))) or "none",
        )
        for item in sorted(exam.items, key=lambda item: item.score)
    ]
    return cut(rows, 4 + len(names))


def _stacked(
    segments: list[dict[str, Any]], sums: list[dict[str, Any]], whole: float, names: list[str]
) -> dict[str, Any]:
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    y = marks.rows_axis(sums)
    x = marks.scored(domain=(0, whole), title="score" if whole == 1 else "marks")
    x["axis"]["tickCount"] = 5
    hue = {
        "field": "axis",
        "type": "nominal",
        "scale": {"domain": names, "range": colours},
        "legend": {"title": None, "columns": 4, "symbolType": "square"},
    }
    ink = {
        "field": "axis",
        "type": "nominal",
        "scale": {
            "domain": names,
            "range": [WHITE if colour == BLUE else BLACK for colour in colours],
        },
        "legend": None,
    }
    spec = view(
        [],
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
        over(sums, marks.aside(y, "note")),
        resolve={"scale": {"color": "independent"}},
    )
    spec["height"] = {"step": 22}
    return spec


def heatmap(exam: ExamResult) -> Chart:
    """Every axis across the items in their order: a full cell is a lost mark. A systematic loss
    shows as a line, a decline shows on the right (C-017).
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
        for axis, text in zip(exam.axis_names, _names_of(exam), strict=True)
    ]
    sides: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for axis, text in zip(exam.axis_names, _names_of(exam), strict=True):
        zero = sum(axis in item.lost for item in exam.items)
        kinds = list(
            dict.fromkeys(
                clean(pattern.kind)
                for pattern in exam.patterns
                if pattern.evidence.get("axis") == axis
            )
        )
        sides.append({"name": text, "note": " · ".join([f"{zero} of {exam.n} lost", *kinds])})
        rows.append(
            (
                clean(axis),
                str(zero),
                str(exam.n),
                percent(zero / exam.n),
                ", ".join(kinds) or "none",
            )
        )
    sentence = f"{count(exam.n, 'item')} in the order of the exam; " + _axes_lost(exam)
    if len(kept) < exam.n:
        sentence += f" Only {len(kept)} items that lost points are drawn."
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
        "tickCount": min(6, columns),
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
    return view([], over(cells, cell), over(sides, marks.aside(y, "note")))


def patterns(exam: ExamResult) -> Chart:
    """The patterns by name: which of them are seen, and what was seen (C-017)."""
    view = exam_view(exam)
    names = labels(row.kind for row in view.patterns)
    drawn = [
        {
            "lamp": marks.OPEN if row.seen else marks.ASIDE,
            "word": "FOUND" if row.seen else "not found",
            "why": label(f"{row.where}: {row.meaning}", 72) if row.seen else row.meaning,
            "name": name,
        }
        for row, name in zip(view.patterns, names, strict=True)
    ]
    rows = [
        (
            clean(row.kind),
            "found" if row.seen else "not found",
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
        ("Pattern", "Found", "Where", "What it means"),
        cut(rows, 4),
    )


def history(
    points: Sequence[ExamPoint],
    distribution: Sequence[ScoreCount] | None,
    *,
    limit: object = None,
) -> Chart:
    """The exam's scores over time, next to the stored distribution of item scores.

    `distribution` is that of the stored result, or None if none is stored. `limit` is the score of
    the hard gate.
    """
    name, title = "exam-history", "Exam scores over time"
    if not points:
        return nothing(name, title, "No exam is stored yet, so there is no history to show.")
    exams = sorted(points, key=lambda point: point.at)
    rows = [
        (clean(point.at), shown(point.score), shown(point.n), clean(point.rubric))
        for point in points
    ]
    spread = [(float(share.score), share.items) for share in distribution or ()]
    total = sum(items for _, items in spread)
    stored = (
        sum(Fraction(str(share.score)) * share.items for share in distribution or ())
        / Fraction(total)
        if total
        else None
    )
    gate = number(limit)
    sentence = f"{count(len(exams), 'exam')}; the last scored {shown(float(exams[-1].score))}."
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
        _history_spec(exams, spread, lines, gate),
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
    exams: Sequence[ExamPoint],
    spread: list[tuple[float, int]],
    stored: float | None,
    gate: float | None,
) -> Spec:
    drawn = [
        {
            "at": exam.at,
            "score": float(exam.score),
            "name": clean(exam.at),
            "note": f"score {shown(exam.score)}, {shown(exam.n)} items",
        }
        for exam in exams
    ]
    lowest = min(
        *(float(exam.score) for exam in exams),
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
            for value, text in ((gate, "hard gate"), (stored, "stored mean"))
            if value is not None
        ),
        reverse=True,
    )
    ruled = [{"at": value, "note": text} for value, text in lines]
    made = view(
        [],
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
        height=190,
        width=WIDTH,
    )
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


def _line_text(y: Spec, *, above: bool) -> Spec:
    """The name of a line. Of two lines, the upper one is named above it at the right, the lower one
    below it at the left, so that the names never overlap.
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
            "text": {"field": "note"},
        },
    }
