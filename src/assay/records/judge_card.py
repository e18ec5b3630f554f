"""The judge card, `assay.judge-card/1`: what was measured of one judge.

A missing figure was not measured. Reading ignores keys that nothing here needs; the digest of a
card covers the whole document, see `judging.card`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct

CARD_SCHEMA = "assay.judge-card/1"
Measure = int | float | Decimal


class Estimate(Struct, frozen=True):
    """A number with its interval, or the reason why it has none."""

    value: Measure | None = None
    """The value."""
    low: Measure | None = None
    """The lower end of its interval."""
    high: Measure | None = None
    """The upper end of its interval."""
    level: Measure | None = None
    """The confidence level."""
    reason: str | None = None
    """Why there is no interval."""


class Probe(Estimate, frozen=True):
    """One bias, as an audit measured it."""

    items: int | None = None
    """How many pairs or texts it was measured on."""
    answers: int = 0
    """How many answers the judge was asked for."""
    lost: int = 0
    """How many of these have no verdict."""
    sentence: str = ""
    """The finding, in a sentence."""


class WeightedKappas(Struct, frozen=True):
    """Kappa with weights by the distance of two values."""

    linear: Estimate | None = None
    """Weighted by the distance."""
    quadratic: Estimate | None = None
    """Weighted by the square of the distance."""


class Confusion(Struct, frozen=True):
    """How often each verdict of the judge met each label of people."""

    human: list[Any]
    """The values of the rows: what people gave."""
    judge: list[Any]
    """The values of the columns: what the judge gave."""
    counts: list[list[int]]
    """How often each pair occurred: a list for each value of `human`."""


class AgreementBlock(Struct, frozen=True):
    """The statistics of agreement with people."""

    agreement: Estimate | None = None
    """The share of items on which judge and people agree."""
    cohen_kappa: Estimate | None = None
    """Cohen's kappa: agreement beyond chance."""
    weighted_kappa: WeightedKappas = WeightedKappas()
    """Cohen's kappa with weights, for an ordered scale."""
    krippendorff_alpha: Estimate | None = None
    """Krippendorff's alpha."""
    spearman: Estimate | None = None
    """Spearman's rank correlation."""
    kendall_tau_b: Estimate | None = None
    """Kendall's tau-b."""
    pearson: Estimate | None = None
    """Pearson's linear correlation."""
    confusion: Confusion | None = None
    """Verdicts against labels, as a table."""

    @property
    def kappa(self) -> Estimate | None:
        """The kappa that fits the scale: weighted where the labels are ordered, plain otherwise."""
        weighted = self.weighted_kappa.quadratic
        return weighted if weighted is not None and weighted.low is not None else self.cohen_kappa


class CalibrationSet(Struct, frozen=True):
    """The items and labels of a calibration."""

    id: str | None = None
    """The name of the set, from `--set`."""
    version: str | None = None
    """Its version."""
    digest: str | None = None
    """The digest of items and labels."""


class Corrected(Struct, frozen=True):
    """Three estimates of the true mean."""

    naive: Estimate | None = None
    """The mean of the judge's verdicts, uncorrected."""
    ppi: Estimate | None = None
    """Corrected by prediction-powered inference."""
    misclassification: Estimate | None = None
    """Corrected by the judge's error rates."""


class MeanDifference(Struct, frozen=True):
    """How much higher the judge scores than people, on average."""

    mean_difference: Estimate = Estimate()
    """Judge minus people, with its interval."""


class LabelScale(Struct, frozen=True):
    """The scale of labels and verdicts."""

    name: str = ""
    """`binary`, `ordinal`, `continuous`, `categories` or `comparison`."""
    positive: str | None = None
    """The label whose rate is estimated, on a scale of two."""


class LabelSelection(Struct, frozen=True):
    """How the judge scored the items that people labelled, and the others."""

    judge_on_labelled: Measure | None
    """The judge's mean on labelled items; null if it gave a verdict on fewer than two, or on fewer
    than two others.
    """
    judge_on_others: Measure | None
    """The judge's mean on the others."""
    looks_random: bool
    """Whether the labelled items may be a random sample of all items."""
    unread_on_labelled: Measure = 0
    """The share of labelled items without a verdict that could be read."""
    unread_on_others: Measure = 0
    """The same share of the others."""


class LabelSource(Struct, frozen=True):
    """Who gave the labels, where they come from a set in a ledger."""

    draw: str | None = None
    """How the labelled items were drawn, such as `random`."""
    items: int | None = None
    """How many were drawn."""
    labelled: int | None = None
    """How many of them have a label on this criterion."""
    raters: list[str] = []
    """The people who gave the labels."""
    typed_raters: int = 0
    """How many of these are only a name that somebody typed. One person may have typed all of them.
    """
    changed_after_others: int = 0
    """Labels that were changed when others' labels could be seen; those changes don't count."""


class CalibrationRecord(Struct, frozen=True):
    """A judge compared with human labels."""

    agreement: AgreementBlock
    """How the judge agrees with people."""
    n_labelled: int
    """Items with a human label."""
    n_unlabelled: int = 0
    """Items that the judge scored and nobody labelled."""
    labels: dict[str, Any] = {}
    """The label that people gave each item, by the item's id."""
    set: CalibrationSet = CalibrationSet()
    """Which labels these are."""
    scale: LabelScale = LabelScale()
    """The scale of the labels."""
    bias: MeanDifference = MeanDifference()
    """How much higher the judge scores than people, on average."""
    corrected: Corrected = Corrected()
    """The true mean, estimated from judge and labels."""
    label_set: LabelSource | None = None
    """Who gave the labels."""
    scorer: dict[str, Any] | None = None
    """The source that the judge's scores name; null if unknown."""
    selection: LabelSelection | None = None
    """The judge on labelled and on other items; null if every item is labelled."""
    answered_at: str | None = None
    """The time of the oldest verdict; null if unknown."""


class AuditItems(Struct, frozen=True):
    """The pairs that a judge was audited on."""

    n: int | None = None
    """How many pairs there are."""
    source: str | None = None
    """Where they come from."""
    digest: str | None = None
    """The digest of the pairs."""
    injections: int | None = None
    """Texts with an injected instruction."""


class AuditRecord(Struct, frozen=True):
    """The part of an audit that is shown without a card."""

    judge: dict[str, Any]
    biases: dict[str, Probe | None]
    prompt_versions: list[str] = []
    usage: dict[str, Any] | None = None


class CardTerm(Struct, frozen=True):
    """One requirement of a policy on a judge."""

    id: str
    """The term of the policy."""
    holds: bool | None
    """Whether the judge meets it; null where it was not measured."""
    sentence: str
    """What was measured, and what the policy requires."""


class CardAdmission(Struct, frozen=True):
    """Whether a judge may gate under a policy, and why or why not."""

    may_gate: bool
    """Whether its scores may pass a critical floor."""
    policy: str = "no policy"
    """The policy whose terms were applied, as name@version."""
    reason: str = "no reason given"
    """The terms that don't hold, or that all do."""
    terms: list[CardTerm] = []
    """Each term of the policy."""


class JudgeCard(Struct, frozen=True, kw_only=True):
    """One judge and its measurements."""

    schema: Literal["assay.judge-card/1"]
    """The kind and version of this document."""
    model: str
    """The model that judges."""
    made_at: str
    """When the card was made."""
    digest: str = ""
    """The digest of the card without `digest` and `admission`."""
    judge: str | None = None
    """The judge's name in its description."""
    family: str | None = None
    """The model's family, for the probe of self-preference."""
    identity: dict[str, Any] = {}
    """The judge as it was audited: name, family, API, model, version and settings, and their
    digest.
    """
    scorer: dict[str, Any] | None = None
    """The source that its calibrated scores name. The card counts for scores with the same source.
    """
    answered_by: dict[str, int] | None = None
    """The models that the endpoint named in its replies to the audit, with counts."""
    prompt_version: str | None = None
    """The versions of the prompts in the audit."""
    agreement: AgreementBlock | None = None
    """How it agrees with people."""
    biases: dict[str, Probe | None] = {}
    """Each bias that the audit measured, by the name of its probe."""
    inconsistency_rate: Estimate | None = None
    """The share of pairs that come out differently in the two orders; from the probe `position`."""
    injection: Probe | None = None
    """How often it follows an injected instruction; the same as `biases.injection`."""
    price: dict[str, Any] | None = None
    """What a million tokens cost, as the judge's description has it."""
    usage: dict[str, Any] | None = None
    """Calls, tokens and cost of the audit; `answered_at`, the time of the oldest answer behind the
    card, from which its age counts; and `audit_answered_at`, that of the audit alone.
    """
    calibration: CalibrationRecord | None = None
    """The whole comparison with human labels, as `assay judge calibrate` wrote it."""
    verdicts: dict[str, Any]
    """The judge's verdict on each item of the calibration, by the item's id; to measure drift
    later.
    """
    audit_items: AuditItems | None = None
    """The pairs that it was audited on."""
    admission: CardAdmission | None = None
    """Whether it could gate under a policy when the card was made. `assay grade` decides again."""

    @property
    def kappa(self) -> Estimate | None:
        """Its kappa with people; None if it was not measured."""
        return None if self.agreement is None else self.agreement.kappa

    @property
    def n_labelled(self) -> int | None:
        """How many human labels it was compared with; None without a calibration."""
        return None if self.calibration is None else self.calibration.n_labelled
