"""The chart of the criteria over many runs: how the norms of each are spread, and their mean.

Quantiles and intervals come in as numbers; nothing here estimates anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.views.charts import marks
from assay.views.charts.chart import (
    BLUE,
    GREY,
    INK,
    MAX_ROWS,
    SKY,
    Chart,
    clean,
    count,
    cut,
    interval,
    labels,
    mapped,
    nothing,
    number,
    over,
    shown,
    view,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def criterion_distribution(criteria: Mapping[str, Any]) -> Chart:
    """Each criterion's norms: the middle half as a box, 90% of them as a line, the median as a tick
    and the mean as a diamond with its interval.

    Takes `criteria` of the summary block.
    """
    name, title = "criterion-distribution", "Criteria"
    found = {key: mapped(value) for key, value in mapped(criteria).items()}
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for (key, one), text in zip(found.items(), labels(found), strict=True):
        spread, mean = mapped(one.get("quantiles")), mapped(one.get("mean"))
        row: dict[str, Any] = {
            "name": text,
            **{part: number(spread.get(part)) for part in ("p5", "p25", "p50", "p75", "p95")},
        }
        row.update(
            mean=number(mean.get("value")),
            low=number(mean.get("low")),
            high=number(mean.get("high")),
        )
        floors = (
            f", floor missed {one['floor_failures']:,}" if whole(one.get("floor_failures")) else ""
        )
        row["said"] = (
            f"mean {number(mean.get('value')):.3f}, n {shown(one.get('n'))}{floors}"
            if row["mean"] is not None
            else "no mean is stated"
        )
        if all(row[part] is not None for part in ("p5", "p25", "p50", "p75", "p95", "mean")):
            drawn.append(row)
        numbers = (shown(spread.get(part)) for part in ("p5", "p50", "p95"))
        rows.append(
            (
                clean(key),
                shown(one.get("n")),
                shown(mean.get("value")),
                interval(mean),
                *numbers,
                shown(one.get("floor_failures")),
                shown(one.get("missing")),
            )
        )
    columns = (
        "Criterion",
        "n",
        "Mean",
        "Interval of the mean",
        "5%",
        "Median",
        "95%",
        "Floor missed",
        "Missing",
    )
    if not rows:
        return nothing(name, title, "No criterion was scored, so there is nothing to draw.")
    if not drawn:
        return Chart(
            name,
            title,
            "The quantiles of the criteria are not stated, so nothing can be drawn.",
            None,
            columns,
            cut(rows, 9),
        )
    kept = drawn[:MAX_ROWS]
    x = marks.scored(
        domain=(min(0.0, *(row["p5"] for row in kept)), max(1.0, *(row["p95"] for row in kept))),
        title="norm",
        grid=True,
    )
    y = marks.rows_axis(kept)
    left, right = x["scale"]["domain"]
    ended = [
        {**row, "low": max(left, row["low"]), "high": min(right, row["high"])}
        for row in kept
        if row["low"] is not None and row["high"] is not None
    ]
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "rule", "color": GREY},
            "encoding": {"y": y, "x": {"field": "p5", **x}, "x2": {"field": "p95"}},
        },
        {
            "mark": {"type": "bar", "color": SKY, "height": {"band": 0.75}},
            "encoding": {"y": y, "x": {"field": "p25", **x}, "x2": {"field": "p75"}},
        },
        {
            "mark": {"type": "tick", "color": BLUE, "thickness": 3, "size": 16, "opacity": 1},
            "encoding": {"y": y, "x": {"field": "p50", **x}},
        },
        over(
            ended,
            {
                "mark": {"type": "rule", "color": INK, "strokeWidth": 1.5},
                "encoding": {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}},
            },
        ),
        {
            "mark": {"type": "point", "shape": "diamond", "color": INK, "size": 50, "opacity": 1},
            "encoding": {"y": y, "x": {"field": "mean", **x}},
        },
        marks.aside(y, "said"),
    ]
    lowest = min(kept, key=lambda row: row["mean"])
    said = (
        f"{count(len(rows), 'criterion', 'criteria')}; {lowest['name']} has the lowest mean,"
        f" {lowest['mean']:.3f}. "
    )
    said += (
        "A box is the middle half of the runs, the line 90% of them, the tick the median; the"
        " diamond is the mean with its interval."
    )
    said += (
        " Intervals are cut at the edge of the picture."
        if any(row["low"] < left or row["high"] > right for row in kept if row["low"] is not None)
        else ""
    )
    return Chart(name, title, said, view(kept, *layers), columns, cut(rows, 9))
