"""Charts of hard gates: the verdicts of one run, and in how many of many runs each gate fails."""

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
    mapped,
    nothing,
    percent,
    view,
    whole,
)

_GATES = {
    "pass": (marks.GOOD, "pass"),
    "fail": (marks.BAD, "FAIL"),
    "undetermined": (marks.OPEN, "undetermined"),
}


def gates(result: Mapping[str, Any]) -> Chart:
    """Every hard gate with its verdict and reason; what fails comes first."""
    name, title = "gates", "Hard gates"
    found = mapped(result.get("hard_gates"))
    if not found:
        return nothing(name, title, "This run has no hard gates.")
    order = ["fail", "undetermined", "pass"]
    pairs = [(gate, mapped(verdict)) for gate, verdict in found.items()]
    pairs.sort(
        key=lambda pair: (
            order.index(status) if (status := str(pair[1].get("status"))) in order else 0
        )
    )
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for (gate, verdict), text in zip(pairs, labels(gate for gate, _ in pairs), strict=True):
        lamp, word = _GATES.get(str(verdict.get("status")), (marks.BAD, "no verdict"))
        reason = clean(verdict.get("reason") or "no reason given")
        drawn.append({"name": text, "lamp": lamp, "word": word, "why": label(reason, 60)})
        rows.append((clean(gate), word, reason))
    passed = sum(row["lamp"] == marks.GOOD for row in drawn)
    sentence = (
        f"All {len(drawn)} hard gates pass."
        if passed == len(drawn)
        else (
            f"{len(drawn) - passed} of {count(len(drawn), 'hard gate')} do not pass; no score"
            " makes up for that."
        )
    )
    return Chart(
        name,
        title,
        sentence,
        marks.lamps(drawn[:MAX_ROWS]),
        ("Gate", "Verdict", "Reason"),
        cut(rows, 3),
    )


def gate_failures(gates: Mapping[str, Any], n: int) -> Chart:
    """How many of n runs each gate fails, the most first. Takes counts by gate, or `gates` of the
    summary block, whose rates have intervals.
    """
    name, title = "gate-failures", "Gates that fail"
    found = []
    for gate, value in gates.items():
        failed = whole(mapped(value).get("failed")) if isinstance(value, dict) else whole(value)
        if failed is not None:
            found.append((gate, failed, mapped(mapped(value).get("rate"))))
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
