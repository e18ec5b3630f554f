"""Charts of a judge: its verdicts against people's labels, its biases with their intervals; and of
raters. Its agreement over time is in `trends`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import count
from assay.records.judge_card import AgreementBlock, Estimate, JudgeCard, Probe
from assay.views.charts import marks
from assay.views.charts.chart import (
    BLUE,
    GREY,
    ORANGE,
    QUIET,
    RED,
    SKY,
    WIDTH,
    Chart,
    clean,
    cut,
    interval,
    label,
    labels,
    nothing,
    number,
    over,
    shown,
    three,
    view,
)

NAMES = {
    "position": "Position",
    "verbosity": "Length",
    "padding": "Padding",
    "self_preference": "Own family",
    "self_agreement": "Repeats",
    "sycophancy": "Stated scores",
    "injection": "Injections obeyed",
}
SHARES = ("self_agreement", "injection")
"""Numbers on 0 to 1; the others are on -1 to 1 with 0 for none."""
WIDE, HIGH = WIDTH + 120, 180


def _ends(measured: Estimate) -> str:
    return interval(measured, form=three)


def calibration(card: JudgeCard) -> Chart:
    """People's label against the judge's verdict on each labelled item, where both are numbers; a
    larger mark stands for more items.
    """
    name, title = "calibration", "Judge and people compared"
    measured = card.calibration
    if measured is None or not measured.labels:
        return nothing(name, title, "This judge was never compared with human labels.")
    pairs: Counter[tuple[float, float]] = Counter()
    unread = others = 0
    for key, human in measured.labels.items():
        ours, theirs = _worth(human), _worth(card.verdicts.get(key))
        if card.verdicts.get(key) is None:
            unread += 1
        elif ours is None or theirs is None:
            others += 1
        else:
            pairs[ours, theirs] += 1
    if not pairs:
        return nothing(
            name,
            title,
            f"{count(len(measured.labels), 'label')}, none of them a number with a numeric verdict:"
            " see the confusion table.",
        )
    drawn = [
        {
            "x": by_people,
            "y": other,
            "items": n,
            "name": f"people {by_people:g}, judge {other:g}",
            "note": count(n, "item"),
        }
        for (by_people, other), n in sorted(pairs.items())
    ]
    low, high = min(map(min, pairs)), max(map(max, pairs))
    pad = (high - low or 1.0) * 0.08
    x, y = (
        marks.scored(domain=(low - pad, high + pad), title=who, grid=True)
        for who in ("people", "judge")
    )
    for axis_spec in (x, y):
        axis_spec["axis"]["tickCount"] = 5
    most = max(pairs.values())
    legend = {
        "title": "items",
        "values": sorted({1, (most + 1) // 2, most}),
        "format": "d",
        "symbolFillColor": BLUE,
        "symbolStrokeColor": BLUE,
        "symbolOpacity": 0.9,
    }
    size = {
        "field": "items",
        "type": "quantitative",
        "scale": {"range": [40, 700], "domain": [1, most]},
        "legend": legend,
    }
    spec = view(
        drawn,
        over(
            [{"x": low - pad, "y": low - pad}, {"x": high + pad, "y": high + pad}],
            {
                "mark": {"type": "line", "color": QUIET, "strokeWidth": 1, "strokeDash": [5, 4]},
                "encoding": {"x": {"field": "x", **x}, "y": {"field": "y", **y}},
            },
        ),
        {
            "mark": {"type": "point", "color": BLUE, "opacity": 0.9},
            "encoding": {"x": {"field": "x", **x}, "y": {"field": "y", **y}, "size": size},
        },
        width=WIDE,
        height=HIGH,
    )
    bias = measured.bias.mean_difference
    same = sum(n for (by_people, other), n in pairs.items() if by_people == other)
    total = sum(pairs.values())
    sentence = f"The judge agrees with people on {same:,} of {count(total, 'labelled item')}."
    sentence += f" {_lean(bias)}"
    if unread or others:
        sentence += (
            f" Not drawn: {count(unread, 'verdict')} that could not be read, {others} without a"
            " number."
        )
    rows = [
        (f"{by_people:g}", f"{other:g}", f"{n:,}")
        for (by_people, other), n in sorted(pairs.items())
    ]
    return Chart(
        name,
        title,
        sentence,
        spec,
        ("People", "Judge", "Items"),
        cut(rows, 3),
    )


def _lean(bias: Estimate) -> str:
    """How the judge differs from people on average, in words."""
    value = number(bias.value)
    if value is None:
        return "How far it is above or below them was not measured."
    if not value:
        return f"On average it is neither above nor below them, {_ends(bias)}."
    side = "above" if value > 0 else "below"
    return f"On average it is {abs(value):.3f} {side} them; difference {_ends(bias)}."


def _worth(value: object) -> float | None:
    """A label as a number: yes is 1 and no is 0; a word is none."""
    return float(value) if isinstance(value, bool) else number(value)


def confusion(agreement: AgreementBlock | None) -> Chart:
    """How often the judge gave which verdict where people gave which label."""
    name, title = "confusion", "Labels and verdicts"
    table = None if agreement is None else agreement.confusion
    if agreement is None or table is None or not table.human or not table.judge:
        return nothing(
            name,
            title,
            "The card has no table of verdicts against labels: the judge was not compared with"
            " people, or its scores are continuous.",
        )
    human, judge, whole = table.human, table.judge, table.counts
    down, across = labels(human, 20), labels(judge, 14)
    most = max((cell for line in whole for cell in line), default=0) or 1
    drawn = [
        {
            "human": row,
            "judge": column,
            "n": cell,
            "kind": "same" if str(label) == str(other) else "other",
            "share": cell / most,
            "note": f"{cell:,}",
            "name": f"people {row}, judge {column}",
        }
        for row, label, line in zip(down, human, whole, strict=True)
        for column, other, cell in zip(across, judge, line, strict=True)
    ]
    y = {"field": "human", "type": "nominal", "sort": None, "axis": {"title": "people"}}
    x = {
        "field": "judge",
        "type": "nominal",
        "sort": None,
        "axis": {"title": "judge", "labelAngle": 0, "orient": "top"},
    }
    hue = {
        "field": "kind",
        "type": "nominal",
        "scale": {"domain": ["same", "other"], "range": [BLUE, ORANGE]},
        "legend": None,
    }
    # never quite full: the number on it must be read on a light and on a dark ground
    shade = {
        "field": "share",
        "type": "quantitative",
        "scale": {"domain": [0, 1], "range": [0.08, 0.55]},
        "legend": None,
    }
    spec = view(
        drawn,
        {"mark": {"type": "rect"}, "encoding": {"x": x, "y": y, "color": hue, "opacity": shade}},
        {
            "mark": {"type": "text", "fontSize": 13},
            "encoding": {"x": x, "y": y, "text": {"field": "note"}},
        },
        width=WIDE,
        height={"step": 34},
    )
    total = sum(map(sum, whole))
    same = sum(
        cell
        for label, line in zip(human, whole, strict=True)
        for other, cell in zip(judge, line, strict=True)
        if str(label) == str(other)
    )
    kappa = agreement.cohen_kappa or Estimate()
    sentence = (
        f"The judge gave {same:,} of {count(total, 'label')} as people did; the others are off the"
        f" diagonal. Cohen's kappa {three(kappa.value)}, {_ends(kappa)}."
    )
    rows = [
        (clean(label), *(f"{cell:,}" for cell in line))
        for label, line in zip(human, whole, strict=True)
    ]
    return Chart(
        name,
        title,
        sentence,
        spec,
        ("People", *(f"judge: {clean(label)}" for label in judge)),
        cut(rows, 1 + len(judge)),
    )


def bias(biases: Mapping[str, Probe | None]) -> Chart:
    """Every bias that was probed with its interval; 0 is none. One that was not measured is named,
    not drawn.
    """
    name, title = "bias", "Biases"
    kinds = list(dict.fromkeys([*NAMES, *biases]))
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for kind in kinds:
        probe = biases.get(kind)
        text = NAMES.get(kind, clean(kind))
        if probe is None or probe.value is None:
            sentence = "" if probe is None else clean(probe.sentence)
            rows.append((text, "not measured", "not measured", "none", sentence))
            continue
        rows.append(
            (
                text,
                three(probe.value),
                _ends(probe),
                shown(probe.items, "none"),
                clean(probe.sentence),
            )
        )
        value, low, high = (number(part) for part in (probe.value, probe.low, probe.high))
        ends = {"low": low, "high": high} if low is not None and high is not None else {}
        leans = low is not None and high is not None and (low > 0 or high < 0)
        drawn.append(
            {
                "name": label(text),
                "value": value,
                "kind": "a rate" if kind in SHARES else "shown" if leans else "not shown",
                **ends,
                "note": (
                    f"{value:+.3f}, {f'{low:+.3f} to {high:+.3f}' if ends else 'no interval'}, n"
                    f" {shown(probe.items)}"
                ),
            }
        )
    columns = ("Probe", "Value", "Interval", "Items", "In words")
    if not drawn:
        return Chart(
            name, title, "No bias of this judge was measured.", None, columns, cut(rows, 5)
        )
    for row, text in zip(drawn, labels(row["name"] for row in drawn), strict=True):
        row["name"] = text
    x = marks.scored(domain=(-1, 1), title="bias; for repeats and injections a rate", grid=True)
    x["axis"]["tickCount"] = 5
    y = marks.rows_axis(drawn)
    domain = ["shown", "not shown", "a rate"]
    hue = {
        "field": "kind",
        "type": "nominal",
        "scale": {"domain": domain, "range": [RED, BLUE, GREY]},
        "legend": {"title": None},
    }
    shape = {
        "field": "kind",
        "type": "nominal",
        "scale": {"domain": domain, "range": ["diamond", "circle", "square"]},
    }
    spec = view(
        drawn,
        over(
            [{"at": 0.0}],
            {"mark": {"type": "rule", "color": QUIET}, "encoding": {"x": {"field": "at", **x}}},
        ),
        over(
            [row for row in drawn if "low" in row],
            {
                "mark": {"type": "rule", "strokeWidth": 3},
                "encoding": {
                    "y": y,
                    "x": {"field": "low", **x},
                    "x2": {"field": "high"},
                    "color": hue,
                },
            },
        ),
        {
            "mark": {"type": "point", "size": 100, "opacity": 1},
            "encoding": {"y": y, "x": {"field": "value", **x}, "color": hue, "shape": shape},
        },
        marks.aside(y, "note"),
    )
    shown_ones = [row["name"] for row in drawn if row["kind"] == "shown"]
    sentence = (
        f"Biased by {', '.join(map(str.lower, shown_ones))}: the interval excludes 0."
        if shown_ones
        else "No bias is shown: every interval contains 0."
    )
    sentence += f" {len(drawn)} of {len(kinds)} probes were run."
    return Chart(name, title, sentence, spec, columns, cut(rows, 5))


STATISTICS = {
    "agreement": "Share of equal verdicts",
    "cohen_kappa": "Cohen's kappa",
    "krippendorff_alpha": "Krippendorff's alpha",
    "spearman": "Spearman's rank correlation",
    "kendall_tau_b": "Kendall's tau-b",
    "pearson": "Pearson's correlation",
}
NAME, TITLE = "reliability", "Agreement with people"


def statistics(agreement: AgreementBlock) -> list[tuple[str, Estimate | None]]:
    """Every statistic of agreement, by what people call it."""
    rows = [(text, getattr(agreement, key)) for key, text in STATISTICS.items()]
    kappas = agreement.weighted_kappa
    rows.insert(2, ("Weighted kappa, linear", kappas.linear))
    rows.insert(3, ("Weighted kappa, quadratic", kappas.quadratic))
    return rows


def reliability(agreement: AgreementBlock | None, n: int | None = None) -> Chart:
    """Every statistic that was measured, with its interval: 1 is full agreement, 0 is chance for a
    kappa or alpha, and no relation for a correlation.
    """
    if agreement is None:
        return nothing(NAME, TITLE, "This judge was never compared with human labels.")
    drawn: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for name, statistic in statistics(agreement):
        value = None if statistic is None else number(statistic.value)
        if statistic is None or value is None:
            rows.append((name, "not measured", (statistic.reason if statistic else None) or "none"))
            continue
        ends = interval(statistic, form=three)
        rows.append((name, three(value), ends))
        low, high = number(statistic.low), number(statistic.high)
        known = {"low": low, "high": high} if low is not None and high is not None else {}
        drawn.append({"name": name, "value": value, **known, "note": _aside(value, known)})
    columns = ("Statistic", "Value", "Interval")
    if not drawn:
        sentence = "No statistic of agreement with people was measured."
        return Chart(NAME, TITLE, sentence, None, columns, cut(rows, 3))
    return Chart(NAME, TITLE, _sentence(agreement, n), _spec(drawn), columns, cut(rows, 3))


def _spec(drawn: Sequence[dict[str, Any]]) -> dict[str, Any]:
    least = min(row.get("low", row["value"]) for row in drawn)
    x = marks.scored(domain=(min(0.0, least), 1), title="1 is full agreement", grid=True)
    x["axis"]["tickCount"] = 5
    y = marks.rows_axis(drawn)
    return view(
        drawn,
        over(
            [{"at": 0.0}],
            {"mark": {"type": "rule", "color": QUIET}, "encoding": {"x": {"field": "at", **x}}},
        ),
        over(
            [row for row in drawn if "low" in row],
            {
                "mark": {"type": "rule", "strokeWidth": 3, "color": SKY},
                "encoding": {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}},
            },
        ),
        {
            "mark": {"type": "point", "size": 100, "opacity": 1, "color": BLUE},
            "encoding": {"y": y, "x": {"field": "value", **x}},
        },
        marks.aside(y, "note"),
    )


def _sentence(agreement: AgreementBlock, n: int | None) -> str:
    share = agreement.agreement
    value = None if share is None else number(share.value)
    labels = "" if n is None else f" on {count(n, 'labelled item')}"
    same = "" if value is None else f"The judge and people agree {value:.0%} of the time{labels}."
    kappa = agreement.kappa
    chance = None if kappa is None else number(kappa.value)
    if kappa is None or chance is None:
        return f"{same} No kappa was measured.".strip()
    ends = interval(kappa, form=three)
    return f"{same} Beyond chance: kappa {three(chance)}, {ends}.".strip()


def _aside(value: float, ends: dict[str, float]) -> str:
    return f"{value:.3f}, {ends['low']:.3f} to {ends['high']:.3f}" if ends else f"{value:.3f}"
