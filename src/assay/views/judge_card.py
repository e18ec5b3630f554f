"""The view of a judge's card: whether it may gate, how it agrees with people, its biases, and how
it moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from assay.views.blocks import (
    Column,
    Decided,
    Facts,
    Figure,
    Group,
    Note,
    Paragraph,
    Part,
    Section,
    Table,
    contents,
    section,
)
from assay.views.charts import Chart
from assay.views.charts import judges as charts
from assay.views.pieces import code, digest, moment, number, phrase, shown, small, verdict, words

if TYPE_CHECKING:
    from assay.records.judge_card import (
        AgreementBlock,
        CalibrationRecord,
        CardAdmission,
        Estimate,
        JudgeCard,
        Probe,
    )

STATISTICS = {
    "agreement": "Share of equal verdicts",
    "cohen_kappa": "Cohen's kappa",
    "krippendorff_alpha": "Krippendorff's alpha",
    "spearman": "Spearman's rank correlation",
    "kendall_tau_b": "Kendall's tau-b",
    "pearson": "Pearson's correlation",
}
CORRECTED = {
    "naive": "As the judge says",
    "ppi": "Prediction-powered",
    "misclassification": "Corrected for its mistakes",
}
MEAN = "The mean verdict, corrected for the judge"
NO_TERMS = (
    "No policy on this shelf has terms for judges, so no judge gates here. `judge.gate` in a"
    " policy states them; workflow-judged has them."
)


class DriftView(NamedTuple):
    """How a judge moved: whether it drifted, in words, and its cards over time."""

    outcome: str
    reason: str
    chart: Chart
    cards: Sequence[Sequence[str]]


def gate_word(admission: CardAdmission, yes: str = "may gate", no: str = "may not gate") -> str:
    """Whether a judge may gate, as a verdict."""
    return verdict("passed", yes) if admission.may_gate else verdict("fails", no)


def admission_lines(admissions: Iterable[CardAdmission]) -> str:
    """The verdict of each policy in one cell, with what is missing."""
    parts = []
    for admission in admissions:
        why = "" if admission.may_gate else f": {admission.reason}"
        parts += [gate_word(admission), " ", small(f"under {admission.policy}{why}"), " "]
    return phrase(*parts) if parts else verdict("none", "no policy asks")


def age_text(days: float | None) -> str:
    """The age of a card in words.

    >>> age_text(0.5), age_text(1.2), age_text(40), age_text(None)
    ('less than a day', '1 day', '40 days', 'its card has no date')
    """
    if days is None:
        return "its card has no date"
    if days < 0:
        return "from the future"
    return "less than a day" if days < 1 else f"{days:.0f} day{'' if round(days) == 1 else 's'}"


def estimate(found: Estimate | None, n: int | None = None, *, percent: bool = False) -> str:
    """A measured number with its interval and n."""
    value = None if found is None else found.value
    return number(value, interval=found, n=n, digits=3, percent=percent, absent_as="not measured")


def judge_charts(card: JudgeCard) -> list[Chart]:
    """Every chart of a card."""
    return [charts.bias(card.biases), charts.calibration(card), charts.confusion(card.agreement)]


def judge_view(
    card: JudgeCard,
    admissions: Sequence[CardAdmission],
    *,
    age: str = "",
    url: str = "",
    draw: bool = True,
    notes: Sequence[Part] = (),
    drift: DriftView | None = None,
    more: Sequence[tuple[str, str]] = (),
) -> list[Part]:
    """The whole of a card, the verdict first. `url` is where its charts are served, `more` what is
    known of its record.
    """
    sections = [
        _terms(card, admissions),
        agreement_section(card.agreement, card.calibration, card, url=url, draw=draw),
        bias_section(card.biases, url=url, draw=draw),
    ]
    if drift is not None:
        sections.append(_drift(drift, url))
    sections.append(_origin(card, more))
    heads: list[Part] = [
        Decided(
            gate_word(one, "May gate", "May not gate"),
            one.policy,
            f"{one.reason[:1].upper()}{one.reason[1:]}.",
        )
        for one in admissions
    ]
    n_pairs = None if card.audit_items is None else card.audit_items.n
    facts = [
        ("Kappa with people", estimate(card.kappa, card.n_labelled)),
        (
            "Pairs judged by their order",
            estimate(card.inconsistency_rate, n_pairs, percent=True),
        ),
        *([("Age of the card", age)] if age else []),
        ("Family", shown(card.family)),
    ]
    return [
        *(heads or [Note(NO_TERMS)]),
        *notes,
        Facts(facts, "figures"),
        contents(sections),
        *sections,
    ]


def _terms(card: JudgeCard, admissions: Sequence[CardAdmission]) -> Section:
    states = {
        True: verdict("holds"),
        False: verdict("fails", "does not hold"),
        None: verdict("undetermined", "not measured"),
    }
    parts: list[Part] = [
        Table(
            f"Terms of {one.policy}",
            ("Term", "Verdict", Column("Found", "wide")),
            [[code(term.id), states[term.holds], term.sentence] for term in one.terms],
            kind="stack rules",
        )
        for one in admissions
    ]
    before = card.admission
    if before is not None:
        might = "might gate" if before.may_gate else "might not gate"
        text = f"When the card was made, it {might} under {before.policy}: {before.reason}."
        parts.append(Paragraph(text, "hint"))
    return section(
        "What a policy asks of it",
        *(parts or [Paragraph("Nothing is asked.", "absent")]),
        id="terms",
        hint="As of now: a card grows old.",
    )


def agreement_section(
    found: AgreementBlock | None,
    calibration: CalibrationRecord | None,
    card: JudgeCard | None = None,
    *,
    url: str = "",
    draw: bool = True,
) -> Section:
    """Against people: the scatter, the confusion, every statistic with its interval."""
    n = None if calibration is None else calibration.n_labelled
    pictures = [charts.confusion(found)]
    if card is not None:
        pictures.insert(0, charts.calibration(card))
    rows: list[Sequence[str]] = []
    if found is not None:
        rows = [[text, estimate(getattr(found, key), n)] for key, text in STATISTICS.items()]
        for key in ("linear", "quadratic"):
            kappa = getattr(found.weighted_kappa, key)
            rows.append([f"Weighted kappa, {key}", estimate(kappa, n)])
    corrected = (
        []
        if calibration is None
        else [
            [text, estimate(getattr(calibration.corrected, key))] for key, text in CORRECTED.items()
        ]
    )
    rates: list[Part] = (
        [section(MEAN, Table(MEAN, ("How", "Value"), corrected), level=3)] if corrected else []
    )
    return section(
        "Agreement with people",
        Group([_figure(one, url, draw) for one in pictures], "columns"),
        Table(
            "Agreement with people",
            ("Statistic", "Value"),
            rows,
            absent="No agreement with people was measured.",
        ),
        *rates,
        id="agreement",
    )


def bias_section(
    biases: Mapping[str, Probe | None], *, url: str = "", draw: bool = True
) -> Section:
    """Every bias with its interval."""
    return section("Biases", _figure(charts.bias(biases), url, draw), id="biases")


def _figure(chart: Chart, url: str, draw: bool) -> Figure:
    return Figure(chart, f"{url}/{chart.name}" if url else "", draw=draw)


def _drift(drift: DriftView, url: str) -> Section:
    columns = ("Card", "Made", "Kappa with people", "Wording")
    return section(
        "Drift",
        Paragraph(phrase(drift.outcome, f": {drift.reason}") if drift.outcome else drift.reason),
        _figure(drift.chart, url, draw=True),
        Table("Cards of this judge", columns, drift.cards),
        id="drift",
    )


def _origin(card: JudgeCard, more: Sequence[tuple[str, str]]) -> Section:
    price = card.price
    items = card.audit_items
    facts = [
        ("Model", card.model),
        ("Wording of the questions", shown(card.prompt_version)),
        ("Made", moment(card.made_at)),
        (
            "Price for a million tokens, in and out",
            shown(None)
            if price is None
            else f"{price['input_per_million']} and {price['output_per_million']} US dollars",
        ),
        ("Usage of the audit", shown(card.usage)),
        ("Audited on", "no items" if items is None else f"{shown(items.n)} pairs ({items.source})"),
        ("Digest of the card", digest(card.digest)),
        *more,
        *((words(key), shown(value)) for key, value in card.identity.items()),
    ]
    return section("What it is about", Facts(facts, "small"), id="origin")
