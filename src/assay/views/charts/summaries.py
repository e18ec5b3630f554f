"""Charts of many runs: how many have each letter, how their scores are spread, and which gates
fail.

Counts come in as numbers; nothing here estimates anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.errors import count
from assay.views.charts import marks
from assay.views.charts.chart import (
    BLUE,
    LETTER_COLOURS,
    MAX_NAME,
    MAX_ROWS,
    QUIET,
    RED,
    Chart,
    clean,
    cut,
    interval,
    label,
    labels,
    nothing,
    number,
    percent,
    points,
    view,
    whole,
)

BIN = 5
"""Points that one bar of the histogram spans."""


# --- letters


def grade_mix(counts: Mapping[str, Any], policy: str) -> Chart:
    """How many runs have each letter. A letter with a count of 0 is drawn too."""
    name, title = "grade-mix", "Grades"
    found = {letter: n for letter, value in counts.items() if (n := whole(value)) is not None}
    total = sum(found.values())
    by = f"under {clean(policy)}" if policy else "under a policy that is not stated"
    if not total:
        return nothing(name, title, f"No run was graded {by}, so there is no grade to show.")
    drawn: list[dict[str, Any]] = [
        {
            "name": text,
            "runs": n,
            "note": f"{n:,}, {percent(n / total)}",
            "colour": letter if letter in LETTER_COLOURS else "other",
        }
        for (letter, n), text in zip(found.items(), labels(found), strict=True)
    ]
    y = marks.rows_axis(drawn)
    hue = {
        "field": "colour",
        "type": "nominal",
        "scale": {"domain": [*LETTER_COLOURS, "other"], "range": [*LETTER_COLOURS.values(), QUIET]},
        "legend": None,
    }
    x = {
        "type": "quantitative",
        "scale": {"domain": [0, max(found.values())], "nice": False},
        "axis": None,
    }
    layers = [
        {"mark": {"type": "bar"}, "encoding": {"y": y, "x": {"field": "runs", **x}, "color": hue}},
        marks.aside(y, "note"),
    ]
    each = ", ".join(f"{label(letter, MAX_NAME)} {n:,}" for letter, n in found.items())
    sentence = f"{count(total, 'run')} {by}: {each}."
    rows = [(clean(letter), f"{n:,}", percent(n / total)) for letter, n in found.items()]
    return Chart(
        name, title, sentence, view(drawn, *layers), ("Grade", "Runs", "Share"), cut(rows, 3)
    )


# --- scores


def score_bins(scores: Iterable[object]) -> list[dict[str, Any]]:
    """Scores on 0 to 100 counted by steps of 5; the last step has 100 in it. Anything else is not
    counted.

    >>> [row for row in score_bins([0, 4.99, 5, 100, None]) if row["count"]]
    [{'low': 0, 'high': 5, 'count': 2}, {'low': 5, 'high': 10, 'count': 1}, {'low': 95, 'high': 100, 'count': 1}]
    """  # noqa: E501
    found = [0] * (100 // BIN)
    for place in map(bin_of, scores):
        if place is not None:
            found[place] += 1
    return [
        {"low": place * BIN, "high": (place + 1) * BIN, "count": n} for place, n in enumerate(found)
    ]


def bin_of(score: object) -> int | None:
    """The bar of a score, from 0 on; None if it is not a number."""
    value = number(score)
    return None if value is None else min(100 // BIN - 1, max(0, int(value // BIN)))


def score_histogram(
    bins: Sequence[Mapping[str, Any]],
    *,
    bands: Sequence[Mapping[str, Any]] = (),
    threshold: object = None,
    policy: str = "",
) -> Chart:
    """How many runs have which score, against the bands and the threshold. Letters are only drawn
    with the policy they belong to.
    """
    name, title = "score-histogram", "Scores"
    drawn: list[dict[str, Any]] = []
    for row in bins:
        low, high, n = number(row.get("low")), number(row.get("high")), whole(row.get("count"))
        if low is not None and high is not None and n is not None:
            drawn.append({"low": low, "high": high, "runs": n, "name": f"{low:g} to {high:g}"})
    total = sum(row["runs"] for row in drawn)
    if not total:
        return nothing(name, title, "No run has a score, so there is nothing to draw.")
    for row in drawn:
        row["note"] = f"{count(row['runs'], 'run')}, {percent(row['runs'] / total)}"
    top = max(drawn, key=lambda row: row["runs"])
    y = {
        "field": "runs",
        "type": "quantitative",
        # no more ticks than runs: runs are whole
        "axis": {"title": "runs", "grid": True, "tickCount": min(4, top["runs"]), "format": ",d"},
    }
    bars = {
        "mark": {"type": "bar", "color": BLUE, "binSpacing": 1},
        "encoding": {
            "x": {"field": "low", **marks.scored()},
            "x2": {"field": "high"},
            "y": y,
            "y2": {"datum": 0},
        },
    }
    layers = [bars, *marks.band_layers(bands if policy else (), threshold)]
    sentence = (
        f"Scores of {count(total, 'run')}. The most common range is {top['low']:g} to"
        f" {top['high']:g}, with {count(top['runs'], 'run')}."
    )
    if policy and bands:
        sentence += f" The letters are those of {clean(policy)}."
    if number(threshold) is not None:
        sentence += f" The dashed line is the passing score, {points(threshold)}."
    rows = [(row["name"], f"{row['runs']:,}", percent(row["runs"] / total)) for row in drawn]
    return Chart(
        name,
        title,
        sentence,
        view(drawn, *layers, height=150),
        ("Score", "Runs", "Share"),
        cut(rows, 3),
    )


# --- gates


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
