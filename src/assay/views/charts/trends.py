"""The agreement of a judge with people over time, with its interval, and what charts over time
share.

Values and intervals come in as numbers; nothing here estimates anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from assay.canon import time_of, time_text
from assay.errors import count
from assay.records.judge_card import JudgeCard
from assay.views.charts.chart import (
    BLUE,
    SKY,
    WIDTH,
    Chart,
    Spec,
    clean,
    cut,
    interval,
    nothing,
    number,
    over,
    shown,
    three,
    view,
)


def time_axis() -> Spec:
    """The horizontal axis of time, in UTC on every machine."""
    axis = {
        "title": None,
        "labelOverlap": "greedy",
        "labelSeparation": 14,
        "tickCount": 5,
        "format": "%-d %b %Y",
        "grid": False,
    }
    return {
        "field": "at",
        "type": "temporal",
        "scale": {"type": "utc", "padding": 12, "nice": False},
        "axis": axis,
    }


def drift(cards: Sequence[JudgeCard]) -> Chart:
    """The judge's agreement with people over time, from its cards; one without a kappa is left out.
    A card without a moment or a value is in the table and not in the picture, and is counted in the
    sentence.
    """
    name, title = "drift", "Agreement with people over time"
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    timed: list[tuple[datetime, tuple[str, ...]]] = []
    for card in cards:
        kappa = card.kappa
        if kappa is None:
            continue
        at, value = time_of(card.made_at, UTC), number(kappa.value)
        row = (
            clean(card.made_at or "no moment"),
            three(kappa.value),
            interval(kappa, form=three),
            shown(card.n_labelled),
        )
        rows.append(row)
        if at is None or value is None:
            continue
        low, high = number(kappa.low), number(kappa.high)
        ends = {"low": low, "high": high} if low is not None and high is not None else {}
        timed.append((at, row))
        drawn.append(
            {
                "at": time_text(at),
                "value": value,
                **ends,
                "name": at.strftime("%Y-%m-%d %H:%M:%S UTC"),
                "note": ", ".join([*row[1:3], f"n {row[3]}"]),
            }
        )
    lost = len(rows) - len(drawn)
    columns = ("At", "Agreement", "Interval", "n")
    if not drawn:
        if not rows:
            absent = "This judge has no card with labels yet, so there is no agreement to show."
            return nothing(name, title, absent)
        return Chart(
            name,
            title,
            f"{count(lost, 'point')} without a time or a value: nothing can be drawn.",
            None,
            columns,
            cut(rows, 4),
        )
    drawn.sort(key=lambda row: str(row["at"]))
    x = time_axis()
    reach = [
        value
        for row in drawn
        for key in ("value", "low", "high")
        if (value := row.get(key)) is not None
    ]
    room = 0.1 * (max(reach) - min(reach)) or 0.1
    scale = {
        "domain": [min(reach) - room, max(reach) + room],
        "nice": False,
        "zero": False,
    }
    axis = {"title": "agreement", "grid": True, "tickCount": 5}
    y = {"field": "value", "type": "quantitative", "scale": scale, "axis": axis}
    ended = [row for row in drawn if "low" in row]
    spec = view(
        drawn,
        over(
            ended,
            {
                "mark": {"type": "rule", "color": SKY, "strokeWidth": 3},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
        ),
        {"mark": {"type": "line", "color": BLUE}, "encoding": {"x": x, "y": y}},
        {"mark": {"type": "point", "color": BLUE, "opacity": 1}, "encoding": {"x": x, "y": y}},
        height=170,
        width=WIDTH + 120,
    )
    _, (when, value_text, ends_text, n) = max(timed, key=lambda pair: pair[0])
    sentence = (
        f"{count(len(drawn), 'point')}; at {when} agreement was {value_text}, {ends_text}, n {n}."
    )
    if lost:
        sentence += (
            f" {count(lost, 'point has', 'points have')} no time or no value and"
            f" {'is' if lost == 1 else 'are'} not drawn."
        )
    return Chart(
        name,
        title,
        sentence,
        spec,
        columns,
        cut(rows, 4),
    )
