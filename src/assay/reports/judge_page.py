"""A judge's card -> one page that stands alone: the verdict first, then every number with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay import exact
from assay.reports.html import Html, join, page, say, tag

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = {
    "position": "Position",
    "verbosity": "Length",
    "padding": "Padding",
    "self_preference": "Own family",
    "self_agreement": "Repeats",
    "sycophancy": "Stated scores",
    "injection": "Injections obeyed",
}
_SHARES = ("self_agreement", "injection")
"""Numbers on 0..1; the others are on -1..1 with 0 for none."""


def judge_page(card: Mapping[str, Any]) -> str:
    """The card as a page."""
    admission = card.get("admission") or {}
    may = admission.get("may_gate") is True
    title = f"Judge {card.get('model')}"
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
        _biases(card.get("biases") or {}),
        tag("h2", "Agreement with people"),
        _agreement(card),
        tag("h2", "What this card is about"),
        _facts(card),
    ]
    return page(title, join(body))


def _row(*cells: str, head: bool = False) -> Html:
    return tag("tr", *(tag("th" if head else "td", cell) for cell in cells))


def _table(head: tuple[str, ...], rows: list[Html], caption: str) -> Html:
    return tag("div", tag("table", tag("caption", caption), tag("thead", _row(*head, head=True)), tag("tbody", *rows)), class_="scroll")


def _terms(terms: list[Any]) -> Html:
    words = {True: "✓ holds", False: "✗ fails", None: "? not measured"}
    rows = [
        _row(tag("span", words.get(term.get("holds"), "✗"), class_="good" if term.get("holds") is True else "bad"), str(term.get("sentence", "")))
        for term in terms
    ]
    return _table(("Term", "What was found"), rows, "What the policy asks of a judge that is to gate")


def number(value: Any) -> str:
    """A number with three decimals, or words.

    >>> number(0.25), number(None)
    ('0.250', 'not measured')
    """
    return f"{float(value):.3f}" if exact.is_number(value) else "not measured"


def _biases(biases: Mapping[str, Any]) -> Html:
    rows = []
    for name, label in _NAMES.items():
        found = biases.get(name)
        if not isinstance(found, dict):
            rows.append(_row(label, "not measured", "", "", ""))
            continue
        ends = f"{number(found['low'])} to {number(found['high'])}" if found.get("low") is not None else str(found.get("reason") or "no interval")
        rows.append(_row(label, number(found.get("value")), ends, _bar(found, share=name in _SHARES), str(found.get("sentence", ""))))
    return _table(("Probe", "Value", "95% interval", "Drawn", "In words"), rows, "Each value is a mean over items; the interval is taken over items")


def _bar(found: Mapping[str, Any], *, share: bool) -> Html:
    """The interval as a line on its range, with the value as a dot."""
    if not all(exact.is_number(found.get(name)) for name in ("value", "low", "high")):
        return tag("span", "–", class_="absent")
    low, high, value = (_place(found[name], share=share) for name in ("low", "high", "value"))
    zero = 0.0 if share else 50.0
    title = f"{number(found['value'])}, {number(found['low'])} to {number(found['high'])}"
    return Html(
        f'<svg viewBox="0 0 100 12" width="160" height="20" role="img" aria-label="{title}">'
        f'<line x1="0" y1="6" x2="100" y2="6" stroke="currentColor" stroke-opacity=".25"/>'
        f'<line x1="{zero}" y1="0" x2="{zero}" y2="12" stroke="currentColor" stroke-opacity=".5"/>'
        f'<line x1="{low:.2f}" y1="6" x2="{high:.2f}" y2="6" stroke="currentColor" stroke-width="3"/>'
        f'<circle cx="{value:.2f}" cy="6" r="3.2" fill="currentColor"/></svg>'
    )


def _place(value: Any, *, share: bool) -> float:
    at = 100 * float(value) if share else 50 + 50 * float(value)
    return min(100.0, max(0.0, at))


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
            ends = f"{number(found.get('low'))} to {number(found.get('high'))}" if found.get("low") is not None else str(found.get("reason") or "no interval")
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
        ("Price for a million tokens, in and out", f"{price['input_per_million']} and {price['output_per_million']} US dollars" if price else None),
        ("Pairs judged by their order", number((card.get("inconsistency_rate") or {}).get("value"))),
        ("Digest", card.get("digest")),
    ]
    return tag("dl", *(part for label, value in rows for part in (tag("dt", label), tag("dd", say(value)))))
