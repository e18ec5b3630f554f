"""The chart of hard gates: in how many of many runs each gate fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.errors import count
from assay.views.charts import marks
from assay.views.charts.chart import (
    MAX_NAME,
    MAX_ROWS,
    RED,
    Chart,
    clean,
    cut,
    interval,
    label,
    labels,
    nothing,
    percent,
    view,
    whole,
)


def gate_failures(gates: Mapping[str, Any], n: int) -> Chart:
    """How many of n runs each gate fails, the most first. Takes counts by gate, or `gates` of the
    summary block, whose rates have intervals.
    """
    name, title = "gate-failures", "Gates that fail"
    blocks = {gate: n if isinstance(n, dict) else {"failed": n} for gate, n in gates.items()}
    counts = ((gate, whole(one.get("failed")), one.get("rate")) for gate, one in blocks.items())
    found = [(gate, failed, rate) for gate, failed, rate in counts if failed is not None]
    found.sort(key=lambda row: -row[1])
    if not found or not n:
        return nothing(name, title, "No run has a gate, so none can fail.")
    drawn: list[dict[str, Any]] = [
        {"name": text, "runs": failed, "note": f"{failed:,} of {n:,}, {percent(failed / n)}"}
        for (_, failed, _), text in zip(found, labels(gate for gate, _, _ in found), strict=True)
    ][:MAX_ROWS]
    y = marks.rows_axis(drawn)
    x = {
        "field": "runs",
        "type": "quantitative",
        "scale": {"domain": [0, max(1, found[0][1])], "nice": False},
        "axis": None,
    }
    spec = view(
        drawn,
        {"mark": {"type": "bar", "color": RED}, "encoding": {"y": y, "x": x}},
        marks.aside(y, "note"),
    )
    sentence = (
        f"{label(found[0][0], MAX_NAME)} fails most often: in {found[0][1]:,} of {count(n, 'run')}."
        if found[0][1]
        else f"No gate fails in {count(n, 'run')}."
    )
    columns: tuple[str, ...] = ("Gate", "Failed", "Rate", "Interval")
    rows: list[tuple[str, ...]] = [
        (
            clean(gate),
            f"{failed:,}",
            percent(failed / n),
            interval(rate, form=percent) if rate else "not stated",
        )
        for gate, failed, rate in found
    ]
    if not any(rate for _, _, rate in found):  # counts alone: an empty column says nothing
        columns, rows = columns[:3], [row[:3] for row in rows]
    return Chart(name, title, sentence, spec, columns, cut(rows, len(columns)))
