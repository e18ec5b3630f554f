"""The policy of exams: gates, the size of a regression, what counts as a pattern, spaced
repetition. Every number is a field; none is hard-coded.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from assay import exact
from assay.canon import digest
from assay.errors import InputError
from assay.families.exams.rubric import FAMILY, GRADING_SYSTEM
from assay.files.json_files import Document, Path
from assay.records.evidence import Count, Number, OptionalNumber
from assay.records.shape import Faults, ShelfPart, Text, read_shelf_record
from assay.records.systems import FIRST, Version, is_published, system_of
from assay.registry import near_miss


class SoftLimits(ShelfPart, frozen=True):
    """The limits that warn and never block."""

    p50_latency_ms: Number
    """The median time of an answer, in milliseconds."""
    schema_failures: Count
    """How many answers may break their schema."""
    regression_score: Number
    """The score of the regression set below which it warns."""


class AxisZero(ShelfPart, frozen=True):
    """When an axis counts as missing across the items."""

    min_items: Count
    """The minimum number of items."""
    min_share: Number
    """The share of items with a mark of 0."""


class VerbZero(ShelfPart, frozen=True):
    """How many items of one verb make a row."""

    min_items: Count
    """The minimum number of items."""


class Trend(ShelfPart, frozen=True):
    """When an axis counts as falling from the first half of the items to the second, and the others
    as not falling.
    """

    min_items: Count
    """The minimum number of items."""
    min_drop: Number
    """How far the axis must fall."""
    max_other_drop: Number
    """How far the other axes may fall."""
    min_chi_square: Number
    """The minimum chi-square of the fall."""


class Outlier(ShelfPart, frozen=True):
    """How many items there must be for one of them to stand out."""

    min_items: Count
    """The minimum number of items."""


class Patterns(ShelfPart, frozen=True):
    """What the four detectors look for."""

    axis_zero: AxisZero
    """When an axis counts as missing."""
    verb_zero: VerbZero
    """When a verb counts as missing."""
    conciseness_trend: Trend
    """When answers count as getting longer."""
    outlier_item: Outlier
    """When one item stands out."""

    def of(self, kind: str) -> AxisZero | VerbZero | Trend | Outlier:
        """The limits for a kind of pattern, where a rubric's pattern states none."""
        limits: dict[str, AxisZero | VerbZero | Trend | Outlier] = {
            "axis_zero": self.axis_zero,
            "tag_zero": self.verb_zero,
            "trend": self.conciseness_trend,
            "outlier": self.outlier_item,
        }
        return limits[kind]


class Diagnosis(ShelfPart, frozen=True):
    """From which share of the losses on a group of items is named."""

    group_share: Number
    """The share of the losses from which a group is named."""


class Quality(ShelfPart, frozen=True):
    """A row of the mapping from a breakdown to a quality: the axis that must be 1, or the rubric's
    main axis, and the score from which the row applies.
    """

    quality: Annotated[int, Meta(ge=0, le=5)]
    """The quality, from 0 to 5."""
    axis: str | None = None
    """The axis that must have its mark."""
    score_from: OptionalNumber = None
    """The lowest score of the row."""
    main: bool | UnsetType = UNSET
    """Whether the rubric's first axis must have its mark."""


class AxisLimits(ShelfPart, frozen=True):
    """How far a single axis may fall on the regression set though the total holds: its mean, and
    the share of items that lose the mark whatever others gain.
    """

    max_drop: Number
    """How far the mean of an axis may fall."""
    max_lost: OptionalNumber = None
    """The largest share of items that may lose the mark."""
    axes: dict[str, Number] | None = None
    """Other limits for the drop of single axes, by name."""


class Sm2(ShelfPart, frozen=True):
    """The numbers of the SM-2 algorithm, and how marks become its qualities."""

    qualities: Annotated[list[Quality], Meta(min_length=1)]
    """How marks become a quality; the first row that applies counts."""
    passes_from: int
    """The quality from which an answer counts as known."""
    first_interval_days: Annotated[int, Meta(ge=1)]
    """Days until the second review."""
    second_interval_days: Annotated[int, Meta(ge=1)]
    """Days until the third review."""
    start_ease: Number
    """The ease factor of a new item."""
    least_ease: Number
    """The lowest ease factor."""
    ease_gain: Number
    """How much a perfect answer adds to the ease factor."""
    ease_loss: Number
    """How much each lost point of quality takes off."""
    ease_loss_growth: Number
    """How much more each further lost point takes off."""


class ExamPolicy(ShelfPart, frozen=True):
    """How the marks of an exam open or close a gate."""

    policy: Text
    """The policy's name."""
    version: int | str
    """Its version. A published version never changes."""
    title: Text
    """The name that people see."""
    family: Text
    """Always `exam`."""
    default_rubric: Text
    """The rubric of exams that name none."""
    hard_gate: Number
    """The score below which the gate fails."""
    production_target: Number
    """The score to aim for; it does not block."""
    max_drop: Number
    """How far the regression set may fall below its baseline."""
    verify_rise_above: Number
    """The rise from which the rubric is tested too."""
    soft: SoftLimits
    """Limits that warn and never block."""
    patterns: Patterns
    """What the detectors look for."""
    diagnosis: Diagnosis
    """When a diagnosis names a group of items."""
    sm2: Sm2
    """The numbers of spaced repetition."""
    grading_system: Version = FIRST
    """The version of the grading system that it needs."""
    description: str | None = None
    """What it is for."""
    regression_axes: AxisLimits | UnsetType = UNSET
    """How far a single axis of the regression set may fall."""

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.policy}@{self.version}"


class ExamRules:
    """A policy with its numbers exact."""

    def __init__(self, policy: ExamPolicy) -> None:
        self.policy = policy
        self.id = policy.id
        self.digest = digest(policy)
        self.grading_system = system_of(
            GRADING_SYSTEM, policy.grading_system, self.digest, published=is_published(self.digest)
        )
        self.hard_gate = fraction(policy.hard_gate)
        self.production_target = fraction(policy.production_target)
        self.max_drop = fraction(policy.max_drop)
        self.verify_rise_above = fraction(policy.verify_rise_above)
        self.soft_latency_ms = fraction(policy.soft.p50_latency_ms)
        self.soft_score = fraction(policy.soft.regression_score)
        self.group_share = fraction(policy.diagnosis.group_share)

    def axis_limits(self, axes: Collection[str], rubric: str) -> dict[str, Any]:
        """How far each axis of a rubric may fall; empty if the policy has no such limits. Refuse a
        limit for an axis that the rubric doesn't have: it would never count.
        """
        limits = self.policy.regression_axes
        if isinstance(limits, UnsetType):
            return {}
        named = limits.axes or {}
        if unknown := next((axis for axis in named if axis not in axes), None):
            raise InputError(
                "EXM-015",
                f"{self.id} limits the drop of the axis '{unknown}', which {rubric} doesn't"
                f" have.{near_miss(unknown, axes)}",
                fix=f"Name one of its axes: {', '.join(axes)}.",
            )
        return {axis: named.get(axis, limits.max_drop) for axis in axes}


def fraction(value: object) -> Fraction:
    """The exact value of a number."""
    return Fraction(*exact.ratio(value))


_DIGITS = 9


def shown(value: Fraction) -> float:
    """An exact value for people and JSON: nine decimals, half-up. Nothing is compared with it."""
    return exact.shown(exact.quantise(value.numerator, value.denominator, _DIGITS), _DIGITS)


def text(value: Fraction) -> str:
    """The same as people write it.

    >>> text(Fraction(3, 40)), text(Fraction(2, 3)), text(Fraction(-1, 50)), text(Fraction(1))
    ('0.075', '0.666666667', '-0.02', '1')
    """
    units = exact.quantise(value.numerator, value.denominator, _DIGITS)
    return f"{'-' if units < 0 else ''}{exact.norm_text(abs(units))}"


LIMITS: dict[str, int | None] = {
    "hard_gate": 1,
    "production_target": 1,
    "max_drop": 1,
    "verify_rise_above": 1,
    "soft.regression_score": 1,
    "patterns.axis_zero.min_share": 1,
    "patterns.conciseness_trend.min_drop": 1,
    "patterns.conciseness_trend.max_other_drop": 1,
    "diagnosis.group_share": 1,
    "soft.p50_latency_ms": None,
    "patterns.conciseness_trend.min_chi_square": None,
    "sm2.start_ease": None,
    "sm2.least_ease": None,
    "sm2.ease_gain": None,
    "sm2.ease_loss": None,
    "sm2.ease_loss_growth": None,
}
"""The numbers of a policy: each is at least 0, and at most this where it has a limit."""


def load_exam_policy(document: Document) -> ExamPolicy:
    """A policy of this family from its file, or an error with every fault and its line."""
    faults = Faults(document)
    policy = read_shelf_record(document, ExamPolicy, faults)
    for path, most in LIMITS.items():
        value: Any = policy
        for part in path.split("."):
            value = getattr(value, part)
        faults.number(tuple(path.split(".")), value, high=most)
    hard, target = policy.hard_gate, policy.production_target
    if exact.is_number(hard) and exact.is_number(target):
        if fraction(hard) > fraction(target):
            faults.add(("hard_gate",), "the hard gate is above the production target.")
        if fraction(hard) == 0:
            faults.add(("hard_gate",), "a hard gate of 0 lets every score pass.")
    _check_axis_limits(policy.regression_axes, faults)
    _check_qualities(policy.sm2, faults)
    if policy.family != FAMILY:
        faults.add(("family",), f"a policy of this shape belongs to the family '{FAMILY}'.")
    faults.raise_if_any()
    return policy


def _check_axis_limits(limits: AxisLimits | UnsetType, faults: Faults) -> None:
    if isinstance(limits, UnsetType):
        return
    named: dict[Path, Any] = {("max_drop",): limits.max_drop}
    if limits.max_lost is not None:
        named[("max_lost",)] = limits.max_lost
    named |= {("axes", axis): value for axis, value in (limits.axes or {}).items()}
    for path, value in named.items():
        faults.number(("regression_axes", *path), value, high=1)


def _check_qualities(sm2: Sm2, faults: Faults) -> None:
    for index, row in enumerate(sm2.qualities):
        at = ("sm2", "qualities", index)
        if row.axis is not None and row.main is True:
            faults.add((*at, "axis"), "a row has an `axis` or `main: true`.", "Keep one.")
        if row.score_from is not None and not exact.is_number(row.score_from):
            faults.add((*at, "score_from"), "must be a number.")
    last = sm2.qualities[-1]
    if last.axis is not None or last.score_from is not None or last.main is True:
        faults.add(
            ("sm2", "qualities"), "the last row applies to every answer that no row before it took."
        )
