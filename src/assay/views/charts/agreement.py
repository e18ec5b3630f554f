"""The agreement of a judge with people: every statistic with its interval, in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.errors import count
from assay.records.judge_card import AgreementBlock, Estimate
from assay.views.charts import marks
from assay.views.charts.chart import (
    BLUE,
    QUIET,
    SKY,
    Chart,
    cut,
    interval,
    nothing,
    number,
    over,
    three,
    view,
)

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
