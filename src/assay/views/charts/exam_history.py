"""The chart of an exam's scores over time, next to the distribution of its items' scores."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from assay import exact
from assay.errors import count
from assay.records.exam import ScoreCount
from assay.views.charts.chart import (
    BLUE,
    INK,
    SKY,
    WIDTH,
    Chart,
    Spec,
    clean,
    cut,
    nothing,
    number,
    over,
    shown,
    view,
)
from assay.views.charts.trends import time_axis
from assay.views.exam import ExamPoint


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
