"""The pass rates of a workflow's evaluations, each with its interval, in the order in which they
were made, and a mark where the version or the rules of grading change.

Values and intervals come in as numbers; nothing here estimates anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any, NamedTuple

from assay.canon import time_of
from assay.errors import count
from assay.records.summary import ValueInterval
from assay.views.charts.chart import (
    BLUE,
    ORANGE,
    QUIET,
    SKY,
    WIDTH,
    Chart,
    Spec,
    clean,
    cut,
    interval,
    label,
    labels,
    nothing,
    over,
    percent,
    view,
)

NAME, TITLE = "pass-rates", "Pass rate by evaluation"
COLUMNS = ("Evaluation", "Version", "Dataset", "Graded by", "Pass rate", "Interval", "n")


class EvaluationPoint(NamedTuple):
    """An evaluation in the chart."""

    name: str
    at: str
    version: str
    dataset: str
    rate: ValueInterval
    n: int
    is_baseline: bool = False
    graded_by: str = ""


def pass_rates(points: Sequence[EvaluationPoint]) -> Chart:
    """Evaluations from the oldest to the newest. One that has no pass rate is in the table only; a
    line joins evaluations on the same dataset by the same rules, because others can't be compared.
    """
    if not points:
        return nothing(NAME, TITLE, "There is no evaluation to show.")
    minutes = [_time(point.at, "%-d %b %H:%M") for point in points]
    is_clear = len(set(minutes)) == len(points)
    names = (
        minutes if is_clear else labels([_time(point.at, "%-d %b %H:%M:%S") for point in points])
    )
    rows = [
        (
            clean(point.name) + (" (baseline)" if point.is_baseline else ""),
            clean(point.version),
            clean(point.dataset),
            clean(point.graded_by),
            percent(point.rate.value, "not graded"),
            interval(point.rate, form=percent),
            f"{point.n:,}",
        )
        for point in points
    ]
    drawn = []
    for place, evaluated in enumerate(points):
        rate = evaluated.rate
        if rate.value is None:
            continue
        ended = rate.low is not None and rate.high is not None
        drawn.append(
            {
                "place": names[place],
                "name": label(evaluated.name),
                "version": label(evaluated.version),
                "value": rate.value,
                "group": clean(f"{evaluated.dataset} {evaluated.graded_by}"),
                "note": f"version {', '.join(rows[place][1:6])}, n {rows[place][6]}",
                "mark": "baseline" if evaluated.is_baseline else "evaluation",
                **({"low": rate.low, "high": rate.high} if ended else {}),
            }
        )
    if not drawn:
        return Chart(NAME, TITLE, "None of them has a graded run.", None, COLUMNS, cut(rows, 7))
    newest = points[-1]
    starts = [point.at for point in points]
    order = "oldest first" if starts == sorted(starts) else "in the order they were stored"
    sentence = (
        f"{count(len(points), 'evaluation')}, {order}; the newest has"
        f" {percent(newest.rate.value, 'no graded run')}."
    )
    breaks = [
        names[place]
        for place, point in enumerate(points)
        if place and point.graded_by != points[place - 1].graded_by
    ]
    if breaks:
        sentence += (
            " The rules of grading changed at the dashed line: pass rates on either side of it"
            " can't be compared."
        )
    lost = len(points) - len(drawn)
    if lost:
        are = "is" if lost == 1 else "are"
        sentence += f" {count(lost, 'evaluation')} without a graded run {are} not drawn."
    return Chart(NAME, TITLE, sentence, _spec(points, names, drawn, breaks), COLUMNS, cut(rows, 7))


def _time(at: str, form: str) -> str:
    moment = time_of(at, UTC)
    return moment.strftime(form) if moment is not None else "no time"


def _spec(
    points: Sequence[EvaluationPoint],
    names: Sequence[str],
    drawn: Sequence[dict[str, Any]],
    breaks: Sequence[str],
) -> Spec:
    x = {
        "field": "place",
        "type": "nominal",
        "sort": list(names),
        "scale": {"domain": list(names)},
        "axis": {"title": None, "labelAngle": -30, "labelLimit": 110, "labelOverlap": "greedy"},
    }
    y = {
        "field": "value",
        "type": "quantitative",
        "scale": {"domain": [0, 1], "nice": False},
        "axis": {"title": None, "grid": True, "tickCount": 5, "format": ".0%"},
    }
    group = {"field": "group", "type": "nominal"}
    ended = [row for row in drawn if "low" in row]
    return view(
        drawn,
        over(
            [{"place": name} for name in breaks],
            {
                "mark": {"type": "rule", "color": QUIET, "strokeDash": [4, 4], "xOffset": -12},
                "encoding": {"x": x},
            },
        ),
        over(
            ended,
            {
                "mark": {"type": "rule", "color": SKY, "strokeWidth": 3},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
        ),
        {"mark": {"type": "line", "color": BLUE}, "encoding": {"x": x, "y": y, "detail": group}},
        {
            "mark": {"type": "point", "opacity": 1},
            "encoding": {
                "x": x,
                "y": y,
                "color": {
                    "field": "mark",
                    "type": "nominal",
                    "scale": {"domain": ["evaluation", "baseline"], "range": [BLUE, ORANGE]},
                    "legend": None,
                },
            },
        },
        _versions(points, names, x),
        height=150,
        width=WIDTH + 120,
    )


def _versions(points: Sequence[EvaluationPoint], names: Sequence[str], x: Spec) -> Spec:
    """The version over the first evaluation that has it."""
    marks = [
        {"place": names[place], "version": label(point.version, 20)}
        for place, point in enumerate(points)
        if place == 0 or point.version != points[place - 1].version
    ]
    return over(
        marks,
        {
            "mark": {
                "type": "text",
                "color": QUIET,
                "dy": -8,
                "fontSize": 11,
                "baseline": "bottom",
            },
            "encoding": {
                "x": x,
                "y": {"value": 0},
                "text": {"field": "version", "type": "nominal"},
            },
        },
    )
