"""The view of a judge's card: whether it may gate, how well it agrees with people, its biases, and
its drift.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import asdict

from assay.errors import count
from assay.families.judges import charts
from assay.families.judges.charts import reliability
from assay.judging.card import WITHOUT_TERMS
from assay.records.judge_card import (
    AgreementBlock,
    CalibrationRecord,
    CardAdmission,
    Estimate,
    JudgeCard,
    Probe,
)
from assay.views.blocks import (
    Column,
    Decided,
    Facts,
    Note,
    Paragraph,
    Part,
    Section,
    Table,
    contents,
    figure,
    parts_of,
    section,
    stated,
)
from assay.views.charts import Chart
from assay.views.pieces import (
    code,
    link,
    moment,
    number,
    phrase,
    sentence,
    short_digest,
    shown,
    small,
    verdict,
    words,
)
from assay.views.render import report

CORRECTED = {
    "naive": "Uncorrected",
    "ppi": "Prediction-powered",
    "misclassification": "Corrected for misclassification",
}
MEAN = "The mean verdict, corrected for the judge"
NO_TERMS = f"No policy here has terms for judges. {WITHOUT_TERMS}"


class DriftView(NamedTuple):
    """The drift of a judge: a sentence on whether it drifted, and its cards over time."""

    outcome: str
    reason: str
    chart: Chart
    cards: Sequence[Sequence[str]]


def judge_page(card: JudgeCard) -> str:
    """The card as one self-contained page, with its admission."""
    admissions = [] if card.admission is None else [card.admission]
    return report(f"Judge {card.model}", *judge_view(card, admissions))


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
    ('less than a day', '1 day', '40 days', 'unknown')
    """
    if days is None:
        return "unknown"
    if days < 0:
        return "from the future"
    return "less than a day" if days < 1 else count(round(days), "day")


def estimate(measured: Estimate | None, n: int | None = None, *, percent: bool = False) -> str:
    """A measured number with its interval and n."""
    value = None if measured is None else measured.value
    return number(
        value, interval=measured, n=n, digits=3, percent=percent, absent_as="not measured"
    )


def judge_charts(card: JudgeCard) -> list[Chart]:
    """Every chart of a card."""
    return [
        reliability(card.agreement, card.n_labelled),
        charts.calibration(card),
        charts.confusion(card.agreement),
        charts.bias(card.biases),
    ]


def judge_view(
    card: JudgeCard,
    admissions: Sequence[CardAdmission],
    *,
    age: str = "",
    url: str = "",
    notes: Sequence[Part] = (),
    drift: DriftView | None = None,
    used: Sequence[Section] = (),
    label_page: str = "",
    more: Sequence[tuple[str, str]] = (),
) -> list[Part]:
    """The whole of a card, the verdict first. `url` is where its charts are served, `used` says
    where it was used, `label_page` is where people label samples, `more` what is known of its
    record.
    """
    sections = parts_of(
        _terms(card, admissions),
        agreement_section(card.agreement, card.calibration, card, url=url),
        bias_section(card.biases, url=url),
        None if drift is None else _drift(drift, url),
        *used,
        _calibration_set(card.calibration, label_page),
        _origin(card, more),
    )
    heads: list[Part] = [
        Decided(
            gate_word(admission, "May gate", "May not gate"),
            admission.policy,
            sentence(admission.reason),
            _why(admission),
        )
        for admission in admissions
    ]
    n_pairs = None if card.audit_items is None else card.audit_items.n
    facts = [
        ("Agreement with people (kappa)", estimate(card.kappa, card.n_labelled)),
        (
            "Pairs decided by order",
            estimate(card.inconsistency_rate, n_pairs, percent=True),
        ),
        *([("Age of its oldest answer", age)] if age else []),
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
        False: verdict("fails", "does not hold"),
        None: verdict("undetermined", "not measured"),
        True: verdict("holds"),
    }
    order = list(states)
    before = card.admission
    could = "could gate" if before and before.may_gate else "could not gate"
    return section(
        "Policy terms",
        *(
            Table(
                f"Terms of {admission.policy}",
                ("Term", "Verdict", Column("Result", "wide")),
                [
                    [code(term.id), states[term.holds], sentence(term.sentence)]
                    for term in sorted(admission.terms, key=lambda term: order.index(term.holds))
                ],
                kind="stack rules",
            )
            for admission in admissions
        ),
        None
        if before is None or before in admissions
        else Paragraph(
            f"When the card was made, it {could} under {before.policy}: {before.reason}.", "hint"
        ),
        None if admissions or before else Paragraph("No policy sets terms.", "absent"),
        id="terms",
        hint="Terms that do not hold come first. Cards expire, so the answer can change over time.",
    )


def agreement_section(
    block: AgreementBlock | None,
    calibration: CalibrationRecord | None,
    card: JudgeCard | None = None,
    *,
    url: str = "",
) -> Section:
    """Reliability against people: every statistic with its interval, the scatter, the confusion."""
    if block is None and calibration is None:
        text = "This judge was never compared with human labels."
        return section("Reliability", Paragraph(text, "absent"), id="agreement")
    n = None if calibration is None else calibration.n_labelled
    pictures = [reliability(block, n), charts.confusion(block)]
    if card is not None:
        pictures.insert(1, charts.calibration(card))
    means = {} if calibration is None else asdict(calibration.corrected)
    corrected = [[text, estimate(means.get(key))] for key, text in CORRECTED.items()]
    rates: list[Part] = (
        [section(MEAN, Table(MEAN, ("How", "Value"), corrected, kind="stack"), level=3)]
        if any(means.values())
        else []
    )
    return section(
        "Reliability",
        *(figure(picture, url) for picture in pictures),
        *rates,
        id="agreement",
    )


def bias_section(biases: Mapping[str, Probe | None], *, url: str = "") -> Section:
    """Every bias with its interval."""
    return section("Biases", figure(charts.bias(biases), url), id="biases")


def _why(admission: CardAdmission) -> str:
    """What a judge that may not gate lacks, or what one that may gate rests on."""
    lacks = [term for term in admission.terms if not term.holds]
    if admission.may_gate or not lacks:
        return "It may decide a gate until its card expires or a newer card replaces it."
    n = len(lacks)
    return (
        f"{n} of {len(admission.terms)} terms do{'es' if n == 1 else ''} not hold or"
        f" {'was' if n == 1 else 'were'} not measured. Its verdicts count as evidence, but open no"
        " gate."
    )


def _calibration_set(calibration: CalibrationRecord | None, label_page: str) -> Section:
    """The labels behind the card, and how to get more of them."""
    labels = link("Label samples", label_page) if label_page else "Label samples"
    command = code("assay judge calibrate --from-ledger SET")
    return section(
        "Calibration set",
        Paragraph("It was never compared with human labels.", "absent")
        if calibration is None
        else _labelled(calibration),
        Paragraph(phrase(labels, ", then calibrate with them: ", command), "hint"),
        id="calibration",
    )


def _labelled(calibration: CalibrationRecord) -> Facts:
    own, source = calibration.set, calibration.label_set
    name = f"{own.id or 'a set without a name'}{f'@{own.version}' if own.version else ''}"
    typed = source and source.typed_raters
    only = f"; {typed:,} only typed names, which count as one rater" if typed else ""
    return Facts(
        stated(
            ("Set", name),
            ("Labelled by people", f"{calibration.n_labelled:,}"),
            ("Raters", "" if source is None else f"{len(source.raters):,}{only}"),
            ("Not labelled", f"{calibration.n_unlabelled:,}"),
            ("Scale", shown(calibration.scale.name)),
            ("Digest of the set", short_digest(own.digest)),
        )
    )


def _drift(drift: DriftView, url: str) -> Section:
    columns = ("Card", "Made", "Agreement with people (kappa)", "Prompt version")
    return section(
        "Drift",
        Paragraph(phrase(drift.outcome, f": {drift.reason}") if drift.outcome else drift.reason),
        figure(drift.chart, url),
        Table("Cards of this judge", columns, drift.cards, kind="stack"),
        id="drift",
    )


def _origin(card: JudgeCard, more: Sequence[tuple[str, str]]) -> Section:
    price = card.price
    items = card.audit_items
    facts = [
        ("Model", card.model),
        ("Prompt version", shown(card.prompt_version)),
        ("Made", moment(card.made_at)),
        ("Oldest answer", moment((card.usage or {}).get("answered_at"))),
        (
            "Price per million tokens",
            shown(None)
            if not price or not {"input_per_million", "output_per_million"} <= price.keys()
            else f"${price['input_per_million']} input, ${price['output_per_million']} output",
        ),
        ("Usage", shown({k: v for k, v in (card.usage or {}).items() if v is not None})),
        ("Audited on", "no items" if items is None else f"{shown(items.n)} pairs ({items.source})"),
        ("Digest of the card", short_digest(card.digest)),
        *more,
        *(
            (words(key), shown(value))
            for key, value in card.identity.items()
            if value not in (card.model, card.family)
        ),
    ]
    return section("About this card", Facts(facts, "small"), id="origin")
