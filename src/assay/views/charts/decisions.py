"""Charts of a decision: candidate against baseline, the difference with its interval and margin,
and each promotion rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from assay.errors import count
from assay.records.decision import Decision, RuleResult, WorseSample
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
    cut,
    interval,
    label,
    labels,
    nothing,
    over,
    view,
)
from assay.views.pieces import points, signed

MAX_POINTS = 1000
SQUARE = 330


class ScorePair(NamedTuple):
    """The score of one sample on each side; None if a side lacks it."""

    sample: str
    candidate: float | None
    baseline: float | None
    title: str = ""
    """What the tool that made the sample calls it."""


def paired_scatter(
    pairs: Sequence[ScorePair | WorseSample], *, n_paired: int | None = None
) -> Chart:
    """The candidate's score against the baseline's on each sample; below the diagonal it got worse.

    `n_paired` says how many pairs there are in all, where the list is not all of them. A pair that
    lacks a side is not drawn, and counted in the sentence.
    """
    name, title = "paired-scatter", "Candidate against baseline, sample by sample"
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    lost = 0
    for pair in pairs:
        ours, theirs = pair.candidate, pair.baseline
        change = f"{ours - theirs:+.2f}" if ours is not None and theirs is not None else "not known"
        rows.append(
            (clean(_name(pair)), points(ours, "missing"), points(theirs, "missing"), change)
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
                "name": label(_name(pair)),
                "note": f"candidate {rows[-1][1]}, baseline {rows[-1][2]}, {change}",
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
    sentence = (
        f"{count(len(drawn), 'pair')}: {worse:,} got worse (below the line), {better:,} better,"
        f" {len(drawn) - worse - better:,} the same."
    )
    if n_paired is not None and n_paired > len(pairs):
        sentence += (
            f" This is not all: the decision is based on {n_paired:,} pairs, and names those that"
            " fell most."
        )
    if lost:
        sentence += (
            f" {count(lost, 'pair lacks', 'pairs lack')} a side and"
            f" {'is' if lost == 1 else 'are'} not drawn."
        )
    if len(drawn) > MAX_POINTS:
        sentence += f" Only the {MAX_POINTS:,} that fell most are drawn."
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
    spec = view(
        drawn,
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
        width=SQUARE,
        height=SQUARE,
    )
    return Chart(
        name,
        title,
        sentence,
        spec,
        ("Sample", "Candidate", "Baseline", "Difference"),
        cut([rows[place] for place in order], 4),
    )


def _name(pair: ScorePair | WorseSample) -> str:
    title = pair.title if isinstance(pair, ScorePair) else ""
    return title or pair.sample


def _fall(pair: ScorePair | WorseSample) -> tuple[int, float]:
    """A pair that lacks a side comes first, then the one that fell most."""
    if pair.candidate is None or pair.baseline is None:
        return (0, 0.0)
    return (1, pair.candidate - pair.baseline)


def difference(decision: Decision) -> Chart:
    """Candidate minus baseline with its interval, zero and minus the margin drawn; below it the
    slices, where the decision has some.
    """
    name, title = "difference", "Difference, candidate minus baseline"
    compared = decision.comparison
    overall = compared.difference
    if overall.estimate is None:
        return nothing(
            name,
            title,
            "The decision states no difference, so there is nothing to draw.",
        )
    entries: list[tuple[str, int, Any, str]] = [
        ("All samples", compared.n_paired, overall, "whole"),
        *(
            (item.slice, item.n, item.difference, "worse" if item.worse else "slice")
            for item in (decision.slices if decision.slices else ())
        ),
    ]
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    texts = labels(entry[0] for entry in entries)
    for (slice_name, n, ends, kind), text in zip(entries, texts, strict=True):
        value = ends.estimate if kind == "whole" else ends.value
        between = interval(ends, form=signed)
        worse = kind == "worse"
        rows.append((clean(slice_name), f"{n:,}", signed(value), between, "yes" if worse else "no"))
        if value is not None:
            aside = f"{signed(value)}, {_ends(ends.low, ends.high)}" + (", worse" if worse else "")
            drawn.append(
                {
                    "name": text,
                    "value": value,
                    "low": ends.low,
                    "high": ends.high,
                    "kind": kind,
                    "note": aside,
                }
            )
    claims = claims_of(decision)
    shown_to_be = (
        f"The candidate has been shown to be {', '.join(claims)}."
        if claims
        else "The candidate has been shown to be worse."
        if overall.high is not None and overall.high < 0
        else "It has not been shown to be as good."
    )
    sentence = (
        f"{signed(overall.estimate)} points of 100, {interval(overall, form=signed)}, n"
        f" {compared.n_paired:,}; margin {compared.margin:g}. {shown_to_be}"
    )
    return Chart(
        name,
        title,
        sentence,
        _interval_spec(drawn[:MAX_ROWS], compared.margin),
        ("Samples", "n", "Difference", "Interval", "Shown to be worse"),
        cut(rows, 5),
    )


def _ends(low: float | None, high: float | None) -> str:
    return f"{low:+.2f} to {high:+.2f}" if low is not None and high is not None else "no interval"


def _interval_spec(drawn: list[dict[str, Any]], margin: float) -> dict[str, Any]:
    numbers = [
        value
        for row in drawn
        for key in ("low", "high", "value")
        if (value := row[key]) is not None
    ]
    reach = 1.15 * max(*(abs(value) for value in numbers), 2 * margin, 0.5)
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
    lines = [
        {"at": 0.0, "note": "no difference", "edge": "zero"},
        {"at": -margin, "note": f"minus the margin, {-margin:g}", "edge": "margin"},
    ]
    return view(
        drawn,
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
        marks.aside(y, "note"),
    )


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
        "encoding": {"x": {**x, "field": "at"}, "y": {"value": -3}, "text": {"field": "note"}},
    }


def rules(decision: Decision) -> Chart:
    """Every promotion rule, whether it holds, and why; what does not hold comes first."""
    name, title = "rules", "Promotion rules"
    checked = decision.rules
    if not checked:
        return nothing(name, title, "The decision names no rule, so none was shown to hold.")
    order = sorted(checked, key=lambda rule: (rule.holds is True, not rule.violated))
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for rule, text in zip(order, labels(rule.id for rule in order), strict=True):
        word = rule_word(rule)
        drawn.append(
            {"name": text, "lamp": LAMPS[word], "word": word, "why": label(rule.reason, 72)}
        )
        rows.append((clean(rule.id), word, clean(rule.reason)))
    held = sum(rule.holds is True for rule in checked)
    return Chart(
        name,
        title,
        f"{held} of {count(len(checked), 'rule')} hold; the outcome is"
        f" {decision.outcome.replace('_', ' ')} under {clean(decision.policy)}.",
        marks.lamps(drawn),
        ("Rule", "Holds", "Why"),
        cut(rows, 3),
    )


LAMPS = {
    "holds": marks.GOOD,
    "open": marks.OPEN,
    "violated": marks.BAD,
}


CLAIMS = {
    "superior": "better",
    "non_inferior": "no worse than the margin allows",
    "equivalent": "equivalent",
}


def claims_of(decision: Decision) -> list[str]:
    """What the candidate has been shown to be."""
    return [text for name, text in CLAIMS.items() if getattr(decision.comparison, name)]


def rule_word(rule: RuleResult) -> str:
    """Whether a rule holds, in one word."""
    return "violated" if rule.violated else "holds" if rule.holds else "open"
