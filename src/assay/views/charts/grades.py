"""Charts of one graded run: where its points went, how far it is from its floors, what its gates
say, and what took how long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.views.charts import marks
from assay.views.charts.chart import (
    BLUE,
    GREY,
    INK,
    MAX_NAME,
    MAX_ROWS,
    ORANGE,
    QUIET,
    RED,
    SKY,
    Chart,
    clean,
    count,
    cut,
    label,
    labels,
    listed,
    mapped,
    nothing,
    number,
    over,
    points,
    shown,
    view,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def _criteria(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one for one in listed(result.get("criteria")) if isinstance(one, dict)]


def _named(one: Mapping[str, Any]) -> object:
    return one.get("label") or one.get("name")


def _letter(result: Mapping[str, Any]) -> str:
    """The letter with the policy that gave it; a letter alone says nothing."""
    if not result.get("grade"):
        return "no grade is stated"
    policy = (
        f"under {clean(result['policy'])}"
        if result.get("policy")
        else "under a policy that is not stated"
    )
    return f"grade {clean(result['grade'])} {policy}"


# --- contributions


def contributions(result: Mapping[str, Any]) -> Chart:
    """A waterfall of the points that each criterion brought, the lost ones beside them as a thin
    bar, against the bands and the threshold.
    """
    name, title = "contributions", "Where the points came from and where they went"
    criteria = _criteria(result)
    known = [one for one in criteria if number(one.get("contribution")) is not None]
    score = number(result.get("weighted_score"))
    if not known:
        return nothing(
            name, title, "The result names no criterion with points, so there is nothing to draw."
        )
    drawn: list[dict[str, Any]] = []
    total = 0.0
    for one, text in zip(known, labels(map(_named, known)), strict=True):
        won, most = number(one["contribution"]) or 0.0, number(one.get("maximum"))
        lost = max(0.0, most - won) if most is not None else 0.0
        said = f"{points(one['contribution'])} of {points(one.get('maximum'))}" + (
            ", no score" if one.get("missing") else ""
        )
        drawn.append(
            {
                "name": text,
                "from": total,
                "to": total + won,
                "end": total + won + lost,
                "said": said,
            }
        )
        total += won
    rows = [
        (
            clean(_named(one)),
            points(one.get("contribution")),
            points(one.get("maximum")),
            _lost(one),
            shown(one.get("norm")),
            _raw(one),
        )
        for one in criteria
    ]
    last = (
        [{"name": "Score", "from": 0.0, "to": score, "said": f"{points(score)}, {_letter(result)}"}]
        if score is not None
        else []
    )
    reach = max(100.0, *(row["end"] for row in drawn))
    x = marks.scored(domain=(0, reach))
    whole = [{"name": row["name"]} for row in [*drawn, *last]]
    y = marks.rows_axis(whole)
    layers: list[dict[str, Any]] = [
        *marks.band_layers(marks.bands_of(result), result.get("pass_threshold")),
        over(
            drawn,
            {
                "mark": {"type": "bar", "color": RED, "height": {"band": 0.3}},
                "encoding": {"y": y, "x": {"field": "to", **x}, "x2": {"field": "end"}},
            },
        ),
        over(
            drawn,
            {
                "mark": {"type": "bar", "color": SKY},
                "encoding": {"y": y, "x": {"field": "from", **x}, "x2": {"field": "to"}},
            },
        ),
        over(
            last,
            {
                "mark": {"type": "bar", "color": BLUE},
                "encoding": {"y": y, "x": {"field": "from", **x}, "x2": {"field": "to"}},
            },
        ),
        over([*drawn, *last], marks.aside(y, "said")),
    ]
    return Chart(
        name,
        title,
        _where_points_went(result, known),
        view(whole, *layers),
        ("Criterion", "Points", "Of", "Lost", "Norm", "Raw score"),
        cut(rows, 6),
    )


def _lost(one: Mapping[str, Any]) -> str:
    won, most = number(one.get("contribution")), number(one.get("maximum"))
    return points(round(most - won, 9)) if won is not None and most is not None else "not known"


def _raw(one: Mapping[str, Any]) -> str:
    raw = one.get("raw_score")
    if raw is None:
        return f"none: {clean(one.get('missing') or 'no reason is stated')}"
    if isinstance(raw, dict):
        return ", ".join(f"{clean(key)} {shown(value)}" for key, value in raw.items())
    return shown(raw)


def _where_points_went(result: Mapping[str, Any], known: Sequence[Mapping[str, Any]]) -> str:
    said = [
        (
            f"{count(len(known), 'criterion', 'criteria')} bring"
            f" {points(result.get('weighted_score'), 'no stated score')} of 100 points"
        )
    ]
    said[0] += f", {_letter(result)}, threshold {points(result.get('pass_threshold'))}."
    losses = [
        (lost, one)
        for one in known
        if (lost := (number(one.get("maximum")) or 0.0) - (number(one.get("contribution")) or 0.0))
        > 0
    ]
    if losses and all(number(one.get("maximum")) is not None for one in known):
        _, most = max(losses, key=lambda pair: pair[0])
        said.append(f"{label(_named(most), MAX_NAME)} lost most, {_lost(most)} points.")
    elif all(number(one.get("maximum")) is not None for one in known):
        said.append("No point was lost.")
    failed = listed(result.get("hard_gate_failures"))
    if failed:
        said.append(f"{count(len(failed), 'gate')} failed, which no score opens.")
    return " ".join(said)


# --- floors


def floors(result: Mapping[str, Any]) -> Chart:
    """Each criterion's norm on 0 to 1, its floor, and the margin between them."""
    name, title = "floors", "Norms and their floors"
    criteria = [one for one in _criteria(result) if number(one.get("norm")) is not None]
    if not criteria:
        return nothing(
            name, title, "The result names no criterion with a norm, so there is nothing to draw."
        )
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    missed: list[str] = []
    floored = 0
    for one, text in zip(criteria, labels(map(_named, criteria)), strict=True):
        norm, floor = (
            number(one["norm"]) or 0.0,
            number(mapped(one.get("critical_floor")).get("norm")),
        )
        row: dict[str, Any] = {
            "name": text,
            "norm": norm,
            "kept": "no floor",
            "said": shown(one["norm"]),
        }
        margin = "no floor"
        if floor is not None:
            floored += 1
            failed = bool(one.get("floor_failed"))
            missed += [text] if failed else []
            margin = f"{norm - floor:+.3g}" if norm != floor else "exactly on it"
            row.update(
                floor=floor,
                kept="missed" if failed else "kept",
                said=(
                    f"{shown(one['norm'])}, floor"
                    f" {floor:g} {'missed' if failed else 'kept'} ({margin})"
                ),
            )
        drawn.append(row)
        rows.append(
            (
                clean(_named(one)),
                shown(one["norm"]),
                "none" if floor is None else shown(one["critical_floor"]["norm"]),
                margin,
                str(row["kept"]),
            )
        )
    domain, colours = ["kept", "missed", "no floor"], [BLUE, RED, GREY]
    x = marks.scored(
        domain=(
            min(0.0, *(row["norm"] for row in drawn)),
            max(1.0, *(row["norm"] for row in drawn)),
        ),
        title="norm",
        grid=True,
    )
    hue = {
        "field": "kept",
        "type": "nominal",
        "scale": {"domain": domain, "range": colours},
        "legend": None,
    }
    shape = {
        "field": "kept",
        "type": "nominal",
        "scale": {"domain": domain, "range": [marks.GOOD, marks.BAD, "circle"]},
        "legend": None,
    }
    under = [row for row in drawn if "floor" in row]
    y = marks.rows_axis(drawn)
    layers: list[dict[str, Any]] = [
        over(
            under,
            {
                "mark": {"type": "rule", "strokeWidth": 4, "opacity": 0.5},
                "encoding": {
                    "y": y,
                    "x": {"field": "floor", **x},
                    "x2": {"field": "norm"},
                    "color": hue,
                },
            },
        ),
        over(
            under,
            {
                "mark": {"type": "tick", "color": INK, "thickness": 3, "size": 20, "opacity": 1},
                "encoding": {"y": y, "x": {"field": "floor", **x}},
            },
        ),
        {
            "mark": {"type": "point", "size": 100, "opacity": 1},
            "encoding": {"y": y, "x": {"field": "norm", **x}, "color": hue, "shape": shape},
        },
        marks.aside(y, "said"),
    ]
    said = f"{count(floored, 'criterion has', 'criteria have')} a floor (the upright mark); "
    said += (
        "so none can be missed."
        if not floored
        else f"missed: {', '.join(missed)}."
        if missed
        else "every one is kept."
    )
    return Chart(
        name,
        title,
        said,
        view(drawn, *layers),
        ("Criterion", "Norm", "Floor", "Margin", "Verdict"),
        cut(rows, 5),
    )


# --- gates

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
        return nothing(name, title, "No hard gate was asked of this run.")
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
        reason = clean(verdict.get("reason") or "no reason is stated")
        drawn.append({"name": text, "lamp": lamp, "word": word, "why": label(reason, 60)})
        rows.append((clean(gate), word, reason))
    passed = sum(row["lamp"] == marks.GOOD for row in drawn)
    said = (
        f"All {len(drawn)} hard gates pass."
        if passed == len(drawn)
        else (
            f"{len(drawn) - passed} of {count(len(drawn), 'hard gate')} do not pass; no score opens"
            " them."
        )
    )
    return Chart(
        name,
        title,
        said,
        marks.lamps(drawn[:MAX_ROWS]),
        ("Gate", "Verdict", "Reason"),
        cut(rows, 3),
    )


# --- timeline

_STEPS = {"success": BLUE, "failed": RED, "error": RED, "skipped": GREY}


def timeline(run: Mapping[str, Any]) -> Chart:
    """The steps of a run or of its result on an axis of time, each with its agent.

    A step says how long it took and in which order it came. Where a step also has `start_ms`, it
    stands there; where not all have one, the steps are drawn one after another, and the sentence
    says so.
    """
    name, title = "timeline", "Steps and agents"
    steps = [
        step
        for step in listed(run.get("steps")) or listed(run.get("step_scores"))
        if isinstance(step, dict)
    ]
    if not steps:
        return nothing(name, title, "The run reports no step.")
    known = all(number(step.get("start_ms")) is not None for step in steps)
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    clock = 0.0
    for step, text in zip(steps, labels((step.get("name") for step in steps), 26), strict=True):
        took, status = number(step.get("duration_ms")), clean(step.get("status") or "no status")
        start = (number(step["start_ms"]) or 0.0) if known else clock
        clock = max(clock, start + (took or 0.0))
        said = (
            f"{label(step.get('agent') or 'no agent', 18)},"
            f" {f'{took:,.0f} ms' if took is not None else 'not timed'}"
            + ("" if status == "success" else f", {status}")
        )
        drawn.append(
            {
                "name": text,
                "from": start,
                "to": start + (took or 0.0),
                "status": status if status in _STEPS else "other",
                "said": said,
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
    agents = len({step.get("agent") for step in steps if step.get("agent")})
    said = (
        f"{count(len(steps), 'step')} of {count(agents, 'agent')}"
        if agents
        else f"{count(len(steps), 'step')}, no agent is named"
    )
    if not timed:
        return Chart(
            name,
            title,
            f"{said}. No step reports how long it took, so no time is drawn.",
            None,
            ("Step", "Agent", "Status", "Duration, ms"),
            cut(rows, 4),
        )
    longest = max(timed, key=lambda row: row["to"] - row["from"])
    said += f"; {longest['name']} took longest, {longest['to'] - longest['from']:,.0f} ms."
    said += (
        ""
        if known
        else " Start times are not reported: the steps are drawn one after another, in their order."
    )
    if len(timed) < len(steps):
        said += (
            f" {count(len(steps) - len(timed), 'step is', 'steps are')} not timed and drawn as a"
            " mark without length."
        )
    shown_rows = drawn
    if len(drawn) > MAX_ROWS:
        keep = {
            id(row) for row in sorted(drawn, key=lambda row: row["from"] - row["to"])[:MAX_ROWS]
        }
        shown_rows = [row for row in drawn if id(row) in keep]
        said += f" Drawn are the {MAX_ROWS} longest."
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
    layers: list[dict[str, Any]] = [
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
        marks.aside(y, "said"),
    ]
    return Chart(
        name,
        title,
        said,
        view(shown_rows, *layers),
        ("Step", "Agent", "Status", "Duration, ms"),
        cut(rows, 4),
    )
