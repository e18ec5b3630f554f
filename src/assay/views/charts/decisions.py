"""Charts of a decision: candidate against baseline, the difference with its interval and margin,
and each promotion rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.views.charts import marks
from assay.views.charts.chart import (
    BLUE,
    GREY,
    INK,
    MAX_ROWS,
    QUIET,
    RED,
    Chart,
    clean,
    count,
    cut,
    interval,
    label,
    labels,
    listed,
    mapped,
    nothing,
    number,
    over,
    points,
    shown,
    signed,
    view,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_POINTS = 1000
SQUARE = 330


def paired_scatter(pairs: Sequence[Mapping[str, Any]], *, n_paired: object = None) -> Chart:
    """The candidate's score against the baseline's on each sample; below the diagonal it got worse.

    A pair holds `sample`, `candidate` and `baseline`; `worse` of a decision is such a list.
    `n_paired` says how many pairs there are in all, where the list is not all of them. A pair that
    lacks a side is not drawn, and counted in the sentence.
    """
    name, title = "paired-scatter", "Candidate against baseline, sample by sample"
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    lost = 0
    for pair in pairs:
        ours, theirs = number(pair.get("candidate")), number(pair.get("baseline"))
        change = f"{ours - theirs:+.2f}" if ours is not None and theirs is not None else "not known"
        rows.append(
            (
                clean(pair.get("sample")),
                points(pair.get("candidate"), "missing"),
                points(pair.get("baseline"), "missing"),
                change,
            )
        )
        if ours is None or theirs is None:
            lost += 1
            continue
        drawn.append(
            {
                "x": theirs,
                "y": ours,
                "turn": "worse" if ours < theirs else "better" if ours > theirs else "the same",
                "fell": ours - theirs,
            }
        )
    if not drawn:
        if not rows:
            return nothing(name, title, "No pair of samples is known, so there is nothing to draw.")
        return Chart(
            name,
            title,
            "Every pair lacks a side, so nothing can be drawn.",
            None,
            ("Sample", "Candidate", "Baseline", "Difference"),
            cut(rows, 4),
        )
    order = sorted(range(len(rows)), key=lambda place: _fall(pairs[place]))
    worse, better = (
        sum(row["turn"] == "worse" for row in drawn),
        sum(row["turn"] == "better" for row in drawn),
    )
    said = (
        f"{count(len(drawn), 'pair')}: {worse:,} got worse (below the line), {better:,} better,"
        f" {len(drawn) - worse - better:,} the same."
    )
    whole = number(n_paired)
    if whole is not None and whole > len(pairs):
        said += (
            f" These are not all: the decision rests on {shown(n_paired)} pairs, and names those"
            " that fell most."
        )
    if lost:
        said += (
            f" {count(lost, 'pair lacks', 'pairs lack')} a side and"
            f" {'is' if lost == 1 else 'are'} not drawn."
        )
    if len(drawn) > MAX_POINTS:
        said += f" Drawn are the {MAX_POINTS:,} that fell most."
        drawn = sorted(drawn, key=lambda row: row["fell"])[:MAX_POINTS]
    low = max(0.0, min(min(row["x"], row["y"]) for row in drawn) - 3)
    x = marks.scored(domain=(low, 100), title="baseline, points", grid=True, tickCount=6)
    y = marks.scored(domain=(low, 100), title="candidate, points", grid=True, tickCount=6)
    domain = ["better", "the same", "worse"]
    hue = {
        "field": "turn",
        "type": "nominal",
        "scale": {"domain": domain, "range": [BLUE, GREY, RED]},
        "legend": {"title": None},
    }
    shape = {
        "field": "turn",
        "type": "nominal",
        "scale": {"domain": domain, "range": ["circle", "square", "triangle-down"]},
    }
    layers: list[dict[str, Any]] = [
        over(
            [{"x": low, "y": low}, {"x": 100, "y": 100}],
            {
                "mark": {"type": "line", "color": QUIET, "strokeWidth": 1, "strokeDash": [5, 4]},
                "encoding": {"x": {"field": "x", **x}, "y": {"field": "y", **y}},
            },
        ),
        {
            "mark": {"type": "point", "size": 45, "opacity": 0.95},
            "encoding": {
                "x": {"field": "x", **x},
                "y": {"field": "y", **y},
                "color": hue,
                "shape": shape,
            },
        },
    ]
    spec = view(drawn, *layers, width=SQUARE, height=SQUARE)
    return Chart(
        name,
        title,
        said,
        spec,
        ("Sample", "Candidate", "Baseline", "Difference"),
        cut([rows[place] for place in order], 4),
    )


def _fall(pair: Mapping[str, Any]) -> tuple[int, float]:
    """A pair that lacks a side comes first, then the one that fell most."""
    ours, theirs = number(pair.get("candidate")), number(pair.get("baseline"))
    return (0, 0.0) if ours is None or theirs is None else (1, ours - theirs)


def difference(decision: Mapping[str, Any]) -> Chart:
    """Candidate minus baseline with its interval, zero and minus the margin drawn; below it the
    slices, where the decision has some.
    """
    name, title = "difference", "Difference, candidate minus baseline"
    comparison = mapped(decision.get("comparison"))
    found, margin = mapped(comparison.get("difference")), number(comparison.get("margin"))
    estimate = number(found.get("estimate", found.get("value")))
    if estimate is None:
        return nothing(
            name,
            title,
            "The decision states no difference, so there is nothing to draw; nothing was shown to"
            " be as good.",
        )
    whole = {
        "slice": "All samples",
        "n": comparison.get("n_paired"),
        "difference": found,
        "worse": None,
    }
    entries = [
        whole,
        *(
            one
            for one in listed(mapped(decision.get("slices")).get("slices"))
            if isinstance(one, dict)
        ),
    ]
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for one, text in zip(entries, labels(entry.get("slice") for entry in entries), strict=True):
        ends = mapped(one.get("difference"))
        value, low, high = (
            number(ends.get("estimate", ends.get("value"))),
            number(ends.get("low")),
            number(ends.get("high")),
        )
        kind = "whole" if one is whole else "worse" if one.get("worse") is True else "slice"
        rows.append(
            (
                clean(one.get("slice")),
                shown(one.get("n")),
                signed(value),
                interval(ends, form=signed),
                "yes" if kind == "worse" else "",
            )
        )
        if value is not None:
            said = f"{signed(value)}, {_ends(low, high)}" + (", worse" if kind == "worse" else "")
            drawn.append(
                {"name": text, "value": value, "low": low, "high": high, "kind": kind, "said": said}
            )
    spec = _interval_spec(drawn[:MAX_ROWS], margin)
    said = (
        f"{signed(estimate)} points of 100, {interval(found, form=signed)}, n"
        f" {shown(comparison.get('n_paired'))}"
    )
    said += (
        f"; it may fall by {shown(comparison['margin'])} at the most."
        if margin is not None
        else "; no margin is stated."
    )
    claims = [
        word.replace("_", "-")
        for word in ("superior", "non_inferior", "equivalent")
        if comparison.get(word) is True
    ]
    said += (
        f" The candidate is shown to be {', '.join(claims)}."
        if claims
        else " It is not shown to be as good."
    )
    return Chart(
        name,
        title,
        said,
        spec,
        ("Samples", "n", "Difference", "Interval", "Shown to be worse"),
        cut(rows, 5),
    )


def _ends(low: float | None, high: float | None) -> str:
    return f"{low:+.2f} to {high:+.2f}" if low is not None and high is not None else "no interval"


def _interval_spec(drawn: list[dict[str, Any]], margin: float | None) -> dict[str, Any]:
    numbers = [
        value
        for row in drawn
        for key in ("low", "high", "value")
        if (value := row[key]) is not None
    ]
    reach = 1.15 * max(*(abs(value) for value in numbers), 2 * (margin or 0.0), 0.5)
    x = {**marks.scored(domain=(-reach, reach), title="points of 100", grid=True), "field": "value"}
    x["axis"] = {**x["axis"], "format": "+.1~f", "tickCount": 7}
    y = marks.rows_axis(drawn)
    hue = {
        "field": "kind",
        "type": "nominal",
        "scale": {"domain": ["whole", "slice", "worse"], "range": [BLUE, GREY, RED]},
        "legend": None,
    }
    shape = {
        "field": "kind",
        "type": "nominal",
        "scale": {
            "domain": ["whole", "slice", "worse"],
            "range": ["circle", "circle", "triangle-down"],
        },
        "legend": None,
    }
    lines = [{"at": 0.0, "said": "no difference", "edge": "zero"}]
    if margin is not None:
        lines.append({"at": -margin, "said": f"minus the margin, {-margin:g}", "edge": "margin"})
    layers: list[dict[str, Any]] = [
        over(
            [lines[0]],
            {"mark": {"type": "rule", "color": QUIET}, "encoding": {"x": {**x, "field": "at"}}},
        ),
        over(
            lines[1:],
            {
                "mark": {"type": "rule", "color": RED, "strokeDash": [5, 4], "strokeWidth": 2},
                "encoding": {"x": {**x, "field": "at"}},
            },
        ),
        over(lines[:1], _edge_text(x, "left")),
        over(lines[1:], _edge_text(x, "right")),
        over(
            [row for row in drawn if row["low"] is not None and row["high"] is not None],
            {
                "mark": {"type": "rule", "strokeWidth": 3},
                "encoding": {
                    "y": y,
                    "x": {**x, "field": "low"},
                    "x2": {"field": "high"},
                    "color": hue,
                },
            },
        ),
        {
            "mark": {"type": "point", "size": 100, "opacity": 1},
            "encoding": {"y": y, "x": x, "color": hue, "shape": shape},
        },
        marks.aside(y, "said"),
    ]
    return view(drawn, *layers)


def _edge_text(x: dict[str, Any], align: str) -> dict[str, Any]:
    offset = 4 if align == "left" else -4
    mark = {
        "type": "text",
        "align": align,
        "dx": offset,
        "baseline": "bottom",
        "fontSize": 11,
        "color": INK,
    }
    return {
        "mark": mark,
        "encoding": {"x": {**x, "field": "at"}, "y": {"value": -3}, "text": {"field": "said"}},
    }


def rules(decision: Mapping[str, Any]) -> Chart:
    """Every promotion rule, whether it holds, and why; what does not hold comes first."""
    name, title = "rules", "Promotion rules"
    found = [rule for rule in listed(decision.get("rules")) if isinstance(rule, dict)]
    if not found:
        return nothing(name, title, "The decision names no rule, so none was shown to hold.")
    order = sorted(
        found, key=lambda rule: (rule.get("holds") is True, rule.get("violated") is not True)
    )
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for rule, text in zip(order, labels(rule.get("id") for rule in order), strict=True):
        lamp, word = _verdict(rule)
        reason = clean(rule.get("reason") or "no reason is given")
        drawn.append({"name": text, "lamp": lamp, "word": word, "why": label(reason, 72)})
        rows.append((clean(rule.get("id")), word, reason))
    held = sum(rule.get("holds") is True for rule in found)
    outcome = clean(decision.get("outcome") or "not stated").replace("_", " ")
    policy = f" under {clean(decision['policy'])}" if decision.get("policy") else ""
    return Chart(
        name,
        title,
        f"{held} of {count(len(found), 'rule')} hold; the outcome is {outcome}{policy}.",
        marks.lamps(drawn),
        ("Rule", "Holds", "Why"),
        cut(rows, 3),
    )


def _verdict(rule: Mapping[str, Any]) -> tuple[str, str]:
    if rule.get("holds") is True:
        return marks.GOOD, "holds"
    if rule.get("holds") is None:
        return marks.OPEN, "not known"
    return (
        (marks.BAD, "VIOLATED") if rule.get("violated") is not False else (marks.OPEN, "not shown")
    )
