"""A judge's card -> one page that stands alone: the verdict first, then every number with its
interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay import exact
from assay.views.charts import Chart, judges
from assay.views.figures import Pictures
from assay.views.markup import Html, join, page, say, tag

if TYPE_CHECKING:
    from collections.abc import Mapping


def judge_page(card: Mapping[str, Any], *, draw: bool = True) -> str:
    """The card as a page."""
    admission = card.get("admission") or {}
    may = admission.get("may_gate") is True
    title = f"Judge {card.get('model')}"
    pictures = Pictures(draw=draw)
    bias, *agreement = judge_charts(card)
    body = [
        tag("h1", title),
        tag(
            "p",
            tag("strong", "may gate" if may else "may not gate", class_="good" if may else "bad"),
            f" under {admission.get('policy', 'no policy')}",
            class_="verdict",
        ),
        _terms(admission.get("terms") or []),
        tag("h2", "Biases"),
        pictures.figure(bias),
        tag("h2", "Agreement with people"),
        *(pictures.figure(chart) for chart in agreement if chart.spec is not None),
        _agreement(card),
        tag("h2", "What this card is about"),
        _facts(card),
    ]
    return page(title, join(body), styles=pictures.styles)


def judge_charts(card: Mapping[str, Any]) -> list[Chart]:
    """Every chart of the page."""
    return [judges.bias(card), judges.calibration(card), judges.confusion(card)]


def _row(*cells: str, head: bool = False) -> Html:
    return tag("tr", *(tag("th" if head else "td", cell) for cell in cells))


def _table(head: tuple[str, ...], rows: list[Html], caption: str) -> Html:
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag("thead", _row(*head, head=True)),
            tag("tbody", *rows),
        ),
        class_="scroll",
    )


def _terms(terms: list[Any]) -> Html:
    words = {True: "✓ holds", False: "✗ fails", None: "? not measured"}
    rows = [
        _row(
            tag(
                "span",
                words.get(term.get("holds"), "✗"),
                class_="good" if term.get("holds") is True else "bad",
            ),
            str(term.get("sentence", "")),
        )
        for term in terms
    ]
    return _table(
        ("Term", "What was found"), rows, "What the policy asks of a judge that is to gate"
    )


def number(value: Any) -> str:
    """A number with three decimals, or words.

    >>> number(0.25), number(None)
    ('0.250', 'not measured')
    """
    return f"{float(value):.3f}" if exact.is_number(value) else "not measured"


def _agreement(card: Mapping[str, Any]) -> Html:
    calibration = card.get("calibration")
    if not isinstance(calibration, dict):
        return tag("p", "It was never held against human labels.", class_="absent")
    agreement = calibration.get("agreement") or {}
    rows = []
    for name, label in (
        ("agreement", "Share of equal verdicts"),
        ("cohen_kappa", "Cohen's kappa"),
        ("krippendorff_alpha", "Krippendorff's alpha"),
        ("spearman", "Spearman"),
        ("kendall_tau_b", "Kendall's tau-b"),
    ):
        found = agreement.get(name)
        if isinstance(found, dict):
            ends = (
                f"{number(found.get('low'))} to {number(found.get('high'))}"
                if found.get("low") is not None
                else str(found.get("reason") or "no interval")
            )
            rows.append(_row(label, number(found.get("value")), ends))
    text = f"{calibration.get('n_labelled')} labelled, {calibration.get('n_unlabelled')} not"
    return _table(("Statistic", "Value", "95% interval"), rows, text)


def _facts(card: Mapping[str, Any]) -> Html:
    price = card.get("price") or {}
    rows = [
        ("Model", card.get("model")),
        ("Family", card.get("family")),
        ("Wording of the questions", card.get("prompt_version")),
        ("Made at", card.get("made_at")),
        (
            "Price for a million tokens, in and out",
            (
                f"{price['input_per_million']} and {price['output_per_million']} US dollars"
                if price
                else None
            ),
        ),
        (
            "Pairs judged by their order",
            number((card.get("inconsistency_rate") or {}).get("value")),
        ),
        ("Digest", card.get("digest")),
    ]
    return tag(
        "dl", *(part for label, value in rows for part in (tag("dt", label), tag("dd", say(value))))
    )
