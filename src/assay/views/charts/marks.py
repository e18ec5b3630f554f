"""Layers that several charts share: bands and threshold behind a score, lamps for verdicts, and
text in a separate column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.views.charts.chart import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    QUIET,
    RED,
    RULE,
    Spec,
    label,
    number,
    over,
    shown,
    view,
)

GOOD, BAD, OPEN, ASIDE = "circle", "cross", "triangle-up", "square"
_LAMPS = {GOOD: BLUE, BAD: RED, OPEN: ORANGE, ASIDE: GREY}


def scored(
    *,
    domain: tuple[float, float] = (0, 100),
    title: str | None = "points",
    grid: bool = False,
    **more: Any,
) -> Spec:
    """The horizontal axis of a score."""
    return {
        "type": "quantitative",
        "scale": {"domain": list(domain), "nice": False, "zero": False},
        "axis": {"title": title, "grid": grid, "tickCount": 10, **more},
    }


def rows_axis(rows: Sequence[Mapping[str, Any]]) -> Spec:
    """The vertical axis of named rows, in the order of the data."""
    names = [row["name"] for row in rows]
    return {
        "field": "name",
        "type": "nominal",
        "sort": None,
        "axis": {"title": None},
        "scale": {"domain": names, "paddingInner": 0.35, "paddingOuter": 0.2},
    }


def band_layers(bands: Sequence[Mapping[str, Any]], threshold: object) -> list[Spec]:
    """The letters above the plot with their edges as lines, and the threshold as a dashed line with
    its number.
    """
    edges = sorted(
        (
            (low, label(band.get("grade"), 4))
            for band in bands
            if (low := number(band.get("min"))) is not None
        ),
        key=lambda edge: edge[0],
    )
    layers: list[Spec] = []
    if edges:
        ends = [low for low, _ in edges[1:]] + [100.0]
        drawn = [
            {"at": low, "middle": (max(low, 0.0) + high) / 2, "letter": name}
            for (low, name), high in zip(edges, ends, strict=True)
        ]
        layers.append(
            over(
                [row for row, (low, _) in zip(drawn, edges, strict=True) if low > 0],
                {
                    "mark": {"type": "rule", "color": RULE},
                    "encoding": {"x": {"field": "at", **scored()}},
                },
            )
        )
        layers.append(
            over(
                drawn,
                {
                    "mark": {
                        "type": "text",
                        "color": QUIET,
                        "baseline": "bottom",
                        "fontWeight": "bold",
                    },
                    "encoding": {
                        "x": {"field": "middle", **scored()},
                        "y": {"value": -4},
                        "text": {"field": "letter"},
                    },
                },
            )
        )
    limit = number(threshold)
    if limit is not None:
        row = [{"at": limit, "note": f"passing score {shown(threshold)}"}]
        layers.append(
            over(
                row,
                {
                    "mark": {"type": "rule", "color": INK, "strokeDash": [5, 4]},
                    "encoding": {"x": {"field": "at", **scored()}},
                },
            )
        )
        layers.append(
            over(
                row,
                {
                    "mark": {"type": "text", "color": INK, "baseline": "bottom", "fontSize": 11},
                    "encoding": {
                        "x": {"field": "at", **scored()},
                        "y": {"value": -20},
                        "text": {"field": "note"},
                    },
                },
            )
        )
    return layers


def aside(y: Spec, field: str, *, at: float | None = None, **mark: Any) -> Spec:
    """Text in a column right of the plot, however wide that is drawn; with `at` within it."""
    return {
        "mark": {"type": "text", "align": "left", "baseline": "middle", **mark},
        "encoding": {
            "y": y,
            "x": {"value": {"expr": "width + 10"} if at is None else at},
            "text": {"field": field},
        },
    }


def lamps(rows: Sequence[Mapping[str, str]]) -> Spec:
    """One row for each verdict: a shape with its colour, the word next to it, and why. A row has
    `name`, `lamp`, `word` and `why`.
    """
    used = [kind for kind in _LAMPS if any(row["lamp"] == kind for row in rows)]
    y = rows_axis(rows)
    shape = {
        "mark": {"type": "point", "size": 110, "opacity": 1},
        "encoding": {
            "y": y,
            "x": {"value": 8},
            "shape": {
                "field": "lamp",
                "type": "nominal",
                "scale": {"domain": used, "range": used},
                "legend": None,
            },
            "color": {
                "field": "lamp",
                "type": "nominal",
                "scale": {"domain": used, "range": [_LAMPS[kind] for kind in used]},
                "legend": None,
            },
        },
    }
    return view(
        rows,
        shape,
        aside(y, "word", at=24, fontWeight="bold"),
        aside(y, "why", at=120, color=QUIET),
    )
