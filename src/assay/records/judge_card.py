"""The card of a judge, `assay.judge-card/1`, as it is read: what was measured of one judge.

A figure that is missing was not measured. Keys that nothing here needs are let through: the digest
of a card is taken of the whole document, see `judging.card`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct

CARD_SCHEMA = "assay.judge-card/1"
Measure = int | float | Decimal


class Estimate(Struct, frozen=True):
    """A number with its interval; without ends there may be a reason."""

    value: Measure | None = None
    low: Measure | None = None
    high: Measure | None = None
    level: Measure | None = None
    reason: str | None = None


class Probe(Estimate, frozen=True):
    """One bias, as an audit measured it."""

    items: int | None = None
    answers: int = 0
    lost: int = 0
    sentence: str = ""


class WeightedKappas(Struct, frozen=True):
    """Kappa with weights by the distance of two values."""

    linear: Estimate | None = None
    quadratic: Estimate | None = None


class Confusion(Struct, frozen=True):
    """How often the judge gave which verdict where people gave which label."""

    human: list[Any]
    judge: list[Any]
    counts: list[list[int]]


class AgreementBlock(Struct, frozen=True):
    """Every statistic of agreement with people."""

    agreement: Estimate | None = None
    cohen_kappa: Estimate | None = None
    weighted_kappa: WeightedKappas = WeightedKappas()
    krippendorff_alpha: Estimate | None = None
    spearman: Estimate | None = None
    kendall_tau_b: Estimate | None = None
    pearson: Estimate | None = None
    confusion: Confusion | None = None

    @property
    def kappa(self) -> Estimate | None:
        """The kappa that fits the scale: weighted where the labels are ordered, plain otherwise."""
        weighted = self.weighted_kappa.quadratic
        return weighted if weighted is not None and weighted.low is not None else self.cohen_kappa


class CalibrationSet(Struct, frozen=True):
    """The items and labels of a calibration."""

    id: str | None = None
    version: str | None = None
    digest: str | None = None


class Corrected(Struct, frozen=True):
    """The true mean, by three estimates."""

    naive: Estimate | None = None
    ppi: Estimate | None = None
    misclassification: Estimate | None = None


class MeanDifference(Struct, frozen=True):
    """How far the judge is above people on average."""

    mean_difference: Estimate = Estimate()


class LabelScale(Struct, frozen=True):
    """The scale of labels and verdicts."""

    name: str = ""
    positive: str | None = None


class LabelSource(Struct, frozen=True):
    """Who gave the labels, where they come from a set in a ledger."""

    raters: list[str] = []
    typed_raters: int = 0
    """Of these, only a name that somebody typed. One person may have typed all of them."""
    changed_after_others: int = 0
    """Labels that were changed once others' could be seen; the first one counts."""


class CalibrationRecord(Struct, frozen=True):
    """A judge compared with human labels."""

    agreement: AgreementBlock
    n_labelled: int
    n_unlabelled: int = 0
    labels: dict[str, Any] = {}
    set: CalibrationSet = CalibrationSet()
    scale: LabelScale = LabelScale()
    bias: MeanDifference = MeanDifference()
    corrected: Corrected = Corrected()
    label_set: LabelSource | None = None


class AuditItems(Struct, frozen=True):
    """The pairs that a judge was audited on."""

    n: int | None = None
    source: str | None = None
    digest: str | None = None
    injections: int | None = None


class AuditRecord(Struct, frozen=True):
    """The audit of a judge, as far as people look at it by itself."""

    judge: dict[str, Any]
    biases: dict[str, Probe | None]


class CardTerm(Struct, frozen=True):
    """One thing that a policy asks of a judge. `holds` is None where it was not measured."""

    id: str
    holds: bool | None
    sentence: str


class CardAdmission(Struct, frozen=True):
    """Whether a judge may gate under a policy, and why or why not."""

    may_gate: bool
    policy: str = "no policy"
    reason: str = "no reason is stated"
    terms: list[CardTerm] = []


class JudgeCard(Struct, frozen=True, kw_only=True):
    """One judge and what was measured of it."""

    schema: Literal["assay.judge-card/1"]
    model: str
    made_at: str
    digest: str = ""
    judge: str | None = None
    family: str | None = None
    identity: dict[str, Any] = {}
    scorer: dict[str, Any] | None = None
    answered_by: dict[str, int] | None = None
    prompt_version: str | None = None
    agreement: AgreementBlock | None = None
    biases: dict[str, Probe | None] = {}
    inconsistency_rate: Estimate | None = None
    injection: Probe | None = None
    price: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    calibration: CalibrationRecord | None = None
    verdicts: dict[str, Any]
    audit_items: AuditItems | None = None
    admission: CardAdmission | None = None

    @property
    def kappa(self) -> Estimate | None:
        """Its kappa with people, if that was measured."""
        return None if self.agreement is None else self.agreement.kappa

    @property
    def n_labelled(self) -> int | None:
        """How many human labels it was compared with."""
        return None if self.calibration is None else self.calibration.n_labelled
