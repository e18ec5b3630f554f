"""Charts of many runs: how many have each letter, how their scores are spread, and which gates
fail.

Counts come in as numbers; nothing here estimates anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    label,
    labels,
    nothing,
    number,
    percent,
    view,
)
from assay.views.pieces import points

BIN = 5
"""Points that one bar of the histogram spans."""
BINS = 100 // BIN


# --- letters


def grade_mix(counts: Mapping[str, int], policy: str) -> Chart:
    """How many runs have each letter. A letter with a count of 0 is drawn too."""
    name, title = "grade-mix", "Grades"
    total = sum(counts.values())
    by = f"under {clean(policy)}" if policy else "under a policy that is not stated"
    if not total:
        return nothing(name, title, f"No run was graded {by}, so there is no grade to show.")
    drawn = [
        {
            "name": text,
            "runs": n,
            "note": f"{n:,}, {percent(n / total)}",
            "colour": letter if letter in LETTER_COLOURS else "other",
        }
        for (letter, n), text in zip(counts.items(), labels(counts), strict=True)
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
        "scale": {"domain": [0, max(counts.values())], "nice": False},
        "axis": None,
    }
    spec = view(
        drawn,
        {"mark": {"type": "bar"}, "encoding": {"y": y, "x": {"field": "runs", **x}, "color": hue}},
        marks.aside(y, "note"),
    )
    each = ", ".join(f"{label(letter, MAX_NAME)} {n:,}" for letter, n in counts.items())
    sentence = f"{count(total, 'run')} {by}: {each}."
    rows = [(clean(letter), f"{n:,}", percent(n / total)) for letter, n in counts.items()]
    return Chart(name, title, sentence, spec, ("Grade", "Runs", "Share"), cut(rows, 3))


# --- scores


def bin_of(score: object) -> int | None:
    """The bar of a score, from 0 on; None if it is not a number. The last bar has 100 in it.

    >>> bin_of(4.99), bin_of(5), bin_of(100), bin_of(None)
    (0, 1, 19, None)
    """
    value = number(score)
    return None if value is None else min(BINS - 1, max(0, int(value // BIN)))


def score_histogram(
    bins: Sequence[int],
    *,
    bands: Sequence[Mapping[str, Any]] = (),
    threshold: object = None,
    policy: str = "",
) -> Chart:
    """How many runs have which score, counted by `bin_of`, against the bands and the threshold.
    Letters are only drawn with the policy they belong to.
    """
    name, title = "score-histogram", "Scores"
    total = sum(bins)
    if not total:
        return nothing(name, title, "No run has a score, so there is nothing to draw.")
    ranges = [f"{place * BIN} to {(place + 1) * BIN}" for place in range(len(bins))]
    drawn = [
        {
            "low": float(place * BIN),
            "high": float((place + 1) * BIN),
            "runs": n,
            "name": ranges[place],
            "note": f"{count(n, 'run')}, {percent(n / total)}",
        }
        for place, n in enumerate(bins)
    ]
    most = max(bins)
    y = {
        "field": "runs",
        "type": "quantitative",
        # no more ticks than runs: runs are whole
        "axis": {"title": "runs", "grid": True, "tickCount": min(4, most), "format": ",d"},
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
    spec = view(drawn, bars, *marks.band_layers(bands if policy else (), threshold), height=150)
    sentence = (
        f"Scores of {count(total, 'run')}. The most common range is {ranges[bins.index(most)]},"
        f" with {count(most, 'run')}."
    )
    if policy and bands:
        sentence += f" The letters are those of {clean(policy)}."
    if number(threshold) is not None:
        sentence += f" The passing score is {points(threshold)}."
    rows = [(name, f"{n:,}", percent(n / total)) for name, n in zip(ranges, bins, strict=True)]
    return Chart(
        name,
        title,
        sentence,
        spec,
        ("Score", "Runs", "Share"),
        cut(rows, 3),
    )


# --- gates


def gate_failures(gates: Mapping[str, int], n: int) -> Chart:
    """How many of n runs each gate fails, the most first."""
    name, title = "gate-failures", "Gates that fail"
    worst = sorted(gates.items(), key=lambda pair: -pair[1])
    if not worst or not n:
        return nothing(name, title, "No run has a gate, so none can fail.")
    drawn = [
        {"name": text, "runs": failed, "note": f"{failed:,} of {n:,}, {percent(failed / n)}"}
        for (_, failed), text in zip(worst, labels(gate for gate, _ in worst), strict=True)
    ][:MAX_ROWS]
    y = marks.rows_axis(drawn)
    x = {
        "field": "runs",
        "type": "quantitative",
        "scale": {"domain": [0, max(1, worst[0][1])], "nice": False},
        "axis": None,
    }
    spec = view(
        drawn,
        {"mark": {"type": "bar", "color": RED}, "encoding": {"y": y, "x": x}},
        marks.aside(y, "note"),
    )
    sentence = (
        f"{label(worst[0][0], MAX_NAME)} fails most often: in {worst[0][1]:,} of {count(n, 'run')}."
        if worst[0][1]
        else f"No gate fails in {count(n, 'run')}."
    )
    rows = [(clean(gate), f"{failed:,}", percent(failed / n)) for gate, failed in worst]
    return Chart(name, title, sentence, spec, ("Gate", "Failed", "Rate"), cut(rows, 3))
