"""Charts of one graded run: where its points went, and how far its norms are from their floors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import count
from assay.views.charts import marks
from assay.views.charts.chart import (
    BLUE,
    GREY,
    INK,
    MAX_NAME,
    RED,
    SKY,
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
from assay.views.pieces import points


def _named(criterion: Mapping[str, Any]) -> object:
    return criterion.get("label") or criterion.get("name")


def _letter(result: Mapping[str, Any]) -> str:
    """The letter with its policy, because a letter alone is meaningless."""
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
    """A waterfall of the points that each criterion earned, with lost points as a thin bar next to
    them, against the bands and the threshold.
    """
    name, title = "contributions", "Where the points came from and where they went"
    criteria = result.get("criteria") or ()
    known = [
        criterion for criterion in criteria if number(criterion.get("contribution")) is not None
    ]
    score = number(result.get("weighted_score"))
    if not known:
        return nothing(
            name, title, "The result names no criterion with points, so there is nothing to draw."
        )
    drawn = []
    total, reach = 0.0, 100.0
    for item, text in zip(known, labels(map(_named, known)), strict=True):
        won, most = number(item["contribution"]) or 0.0, number(item.get("maximum"))
        lost = max(0.0, most - won) if most is not None else 0.0
        note = (
            f"{points(item['contribution'])} of {points(item.get('maximum'), 'not stated')}"
            f"{', no score' if item.get('missing') else ''}"
        )
        drawn.append(
            {
                "name": text,
                "from": total,
                "to": total + won,
                "end": total + won + lost,
                "note": note,
            }
        )
        reach = max(reach, total + won + lost)
        total += won
    rows = [
        (
            clean(_named(criterion)),
            points(criterion.get("contribution"), "not stated"),
            points(criterion.get("maximum"), "not stated"),
            _lost(criterion),
            shown(criterion.get("norm")),
            _raw(criterion),
        )
        for criterion in criteria
    ]
    last = (
        [{"name": "Score", "from": 0.0, "to": score, "note": f"{points(score)}, {_letter(result)}"}]
        if score is not None
        else []
    )
    x = marks.scored(domain=(0, reach))
    whole = [{"name": row["name"]} for row in [*drawn, *last]]
    y = marks.rows_axis(whole)
    spec = view(
        whole,
        *marks.band_layers(result.get("bands") or (), result.get("pass_threshold")),
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
        over([*drawn, *last], marks.aside(y, "note")),
    )
    return Chart(
        name,
        title,
        _where_points_went(result, known),
        spec,
        ("Criterion", "Points", "Of", "Lost", "Norm", "Raw score"),
        cut(rows, 6),
    )


def _lost(criterion: Mapping[str, Any]) -> str:
    won, most = number(criterion.get("contribution")), number(criterion.get("maximum"))
    return points(round(most - won, 9)) if won is not None and most is not None else "not known"


def _raw(criterion: Mapping[str, Any]) -> str:
    raw = criterion.get("raw_score")
    if raw is None:
        return f"none: {clean(criterion.get('missing') or 'no reason given')}"
    if isinstance(raw, dict):
        return ", ".join(f"{clean(key)} {shown(value)}" for key, value in raw.items())
    return shown(raw)


def _where_points_went(result: Mapping[str, Any], known: Sequence[Mapping[str, Any]]) -> str:
    sentences = [
        (
            f"{count(len(known), 'criterion earns', 'criteria earn')}"
            f" {points(result.get('weighted_score'), 'no stated score')} of 100 points"
        )
    ]
    sentences[0] += (
        f", {_letter(result)}, threshold {points(result.get('pass_threshold'), 'not stated')}."
    )
    losses = [
        (lost, criterion)
        for criterion in known
        if (
            lost := (number(criterion.get("maximum")) or 0.0)
            - (number(criterion.get("contribution")) or 0.0)
        )
        > 0
    ]
    if losses and all(number(criterion.get("maximum")) is not None for criterion in known):
        _, most = max(losses, key=lambda pair: pair[0])
        sentences.append(f"{label(_named(most), MAX_NAME)} lost most, {_lost(most)} points.")
    elif all(number(criterion.get("maximum")) is not None for criterion in known):
        sentences.append("No points were lost.")
    failed = result.get("hard_gate_failures")
    if failed:
        sentences.append(f"{count(len(failed), 'gate')} failed; no score makes up for that.")
    return " ".join(sentences)


# --- floors


def floors(result: Mapping[str, Any]) -> Chart:
    """Each criterion's norm on 0 to 1, its floor, and the margin between them."""
    name, title = "floors", "Norms and their floors"
    criteria = [
        criterion
        for criterion in result.get("criteria") or ()
        if number(criterion.get("norm")) is not None
    ]
    if not criteria:
        return nothing(
            name, title, "The result names no criterion with a norm, so there is nothing to draw."
        )
    drawn, norms = [], [0.0, 1.0]
    rows: list[tuple[str, ...]] = []
    missed: list[str] = []
    floored = 0
    for criterion, text in zip(criteria, labels(map(_named, criteria)), strict=True):
        norm, floor = (
            number(criterion["norm"]) or 0.0,
            number((criterion.get("critical_floor") or {}).get("norm")),
        )
        norms.append(norm)
        met = margin = "no floor"
        note, floored_at = shown(criterion["norm"]), {}
        if floor is not None:
            floored += 1
            failed = bool(criterion.get("floor_failed"))
            missed += [text] if failed else []
            margin = f"{norm - floor:+.3g}" if norm != floor else "exactly on it"
            met = "missed" if failed else "met"
            note += f", floor {floor:g} {met} ({margin})"
            floored_at = {"floor": floor}
        drawn.append({"name": text, "norm": norm, "met": met, "note": note, **floored_at})
        rows.append(
            (
                clean(_named(criterion)),
                shown(criterion["norm"]),
                "none" if floor is None else shown(criterion["critical_floor"]["norm"]),
                margin,
                met,
            )
        )
    domain, colours = ["met", "missed", "no floor"], [BLUE, RED, GREY]
    x = marks.scored(
        domain=(min(norms), max(norms)),
        title="norm",
        grid=True,
    )
    hue = {
        "field": "met",
        "type": "nominal",
        "scale": {"domain": domain, "range": colours},
        "legend": None,
    }
    shape = {
        "field": "met",
        "type": "nominal",
        "scale": {"domain": domain, "range": [marks.GOOD, marks.BAD, "circle"]},
        "legend": None,
    }
    under = [row for row in drawn if "floor" in row]
    y = marks.rows_axis(drawn)
    spec = view(
        drawn,
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
        marks.aside(y, "note"),
    )
    sentence = f"{count(floored, 'criterion has', 'criteria have')} a floor (the upright mark); "
    sentence += (
        "so none can be missed."
        if not floored
        else f"missed: {', '.join(missed)}."
        if missed
        else "every one is met."
    )
    return Chart(
        name,
        title,
        sentence,
        spec,
        ("Criterion", "Norm", "Floor", "Margin", "Verdict"),
        cut(rows, 5),
    )
