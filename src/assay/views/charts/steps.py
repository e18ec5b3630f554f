"""The chart of a run's steps on an axis of time: what took how long, and which agent did it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.errors import count
from assay.views.charts import marks
from assay.views.charts.chart import (
    BLUE,
    GREY,
    MAX_ROWS,
    ORANGE,
    QUIET,
    RED,
    Chart,
    clean,
    cut,
    label,
    labels,
    nothing,
    number,
    over,
    shown,
    view,
)
from assay.views.times import duration

_STEPS = {"success": BLUE, "failed": RED, "error": RED, "skipped": GREY}


def timeline(run: Mapping[str, Any]) -> Chart:
    """The steps of a run or of its result on an axis of time, each with its agent.

    A step has a duration and a position. If every step has `start_ms`, each is drawn at its time;
    otherwise the steps are drawn one after another, and the sentence says so.
    """
    name, title = "timeline", "Steps and agents"
    steps = run.get("steps") or run.get("step_scores")
    if not steps:
        return nothing(name, title, "The run reports no step.")
    known = all(number(step.get("start_ms")) is not None for step in steps)
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    clock = 0.0
    agents = len({step.get("agent") for step in steps if step.get("agent")})
    for step, text in zip(steps, labels((step.get("name") for step in steps), 26), strict=True):
        took, status = number(step.get("duration_ms")), clean(step.get("status") or "no status")
        start = (number(step["start_ms"]) or 0.0) if known else clock
        clock = max(clock, start + (took or 0.0))
        named = label(step.get("agent") or "no agent", 18) if agents else ""
        note = ", ".join(
            filter(
                None,
                (named, duration(took) or "not timed", "" if status == "success" else status),
            )
        )
        drawn.append(
            {
                "name": text,
                "from": start,
                "to": start + (took or 0.0),
                "status": status if status in _STEPS else "other",
                "note": note,
                "timed": took is not None,
            }
        )
        rows.append(
            (
                clean(step.get("name") or "(no name)"),
                clean(step.get("agent") or "no agent"),
                status,
                shown(step.get("duration_ms"), "not reported"),
            )
        )
    timed = [row for row in drawn if row["timed"]]
    sentence = (
        f"{count(len(steps), 'step')} of {count(agents, 'agent')}"
        if agents
        else f"{count(len(steps), 'step')}, no agent is named"
    )
    if not timed:
        return Chart(
            name,
            title,
            f"{sentence}. No step reports how long it took, so no time is drawn.",
            None,
            ("Step", "Agent", "Status", "Duration, ms"),
            cut(rows, 4),
        )
    longest = max(timed, key=lambda row: row["to"] - row["from"])
    sentence += f"; {longest['name']} took longest, {duration(longest['to'] - longest['from'])}."
    sentence += (
        ""
        if known
        else " Start times are not reported: the steps are drawn one after another, in their order."
    )
    if len(timed) < len(steps):
        sentence += (
            f" {count(len(steps) - len(timed), 'step is', 'steps are')} not timed and drawn as a"
            " mark without length."
        )
    shown_rows = drawn
    if len(drawn) > MAX_ROWS:
        keep = {
            id(row) for row in sorted(drawn, key=lambda row: row["from"] - row["to"])[:MAX_ROWS]
        }
        shown_rows = [row for row in drawn if id(row) in keep]
        sentence += f" Only the {MAX_ROWS} longest are drawn."
    x = {
        "type": "quantitative",
        "scale": {"domain": [0, clock or 1], "nice": False},
        "axis": {"title": "milliseconds", "grid": True, "tickCount": 6},
    }
    hue = {
        "field": "status",
        "type": "nominal",
        "scale": {"domain": [*_STEPS, "other"], "range": [*_STEPS.values(), ORANGE]},
        "legend": None,
    }
    y = marks.rows_axis(shown_rows)
    spec = view(
        shown_rows,
        {
            "mark": {"type": "bar"},
            "encoding": {"y": y, "x": {"field": "from", **x}, "x2": {"field": "to"}, "color": hue},
        },
        over(
            [row for row in shown_rows if not row["timed"]],
            {
                "mark": {"type": "tick", "color": QUIET, "thickness": 2},
                "encoding": {"y": y, "x": {"field": "from", **x}},
            },
        ),
        marks.aside(y, "note"),
    )
    return Chart(
        name,
        title,
        sentence,
        spec,
        ("Step", "Agent", "Status", "Duration, ms"),
        cut(rows, 4),
    )
