"""The reporting bundle over any number of grades: the summary block of a report and of each side of
a decision.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field

IntervalParts = tuple[float | None, float | None, float | None, float, str, str | None]
"""Value, low, high, level, method and reason, as `stats` gives them."""


class ValueInterval(Struct, frozen=True, kw_only=True):
    """A value with the ends of its interval; without ends there is a reason."""

    value: float | None
    low: float | None
    high: float | None
    level: float
    method: str
    reason: str | UnsetType = UNSET


def value_interval(interval: IntervalParts) -> ValueInterval:
    """An interval as it is written in a document."""
    value, low, high, level, method, reason = interval
    return ValueInterval(
        value=value,
        low=low,
        high=high,
        level=level,
        method=method,
        reason=UNSET if reason is None else reason,
    )


class Distribution(Struct, frozen=True, kw_only=True):
    """A mean with its interval, the spread and the quantiles."""

    mean: ValueInterval
    sd: float | None
    quantiles: dict[str, float | None]


class GateSummary(Struct, frozen=True, kw_only=True):
    """How often one gate failed."""

    failed: int
    undetermined: int
    n: int
    rate: ValueInterval


class HistogramBin(Struct, frozen=True, kw_only=True):
    """How many values lie between two."""

    low: float
    high: float
    count: int


class CriterionSummary(Struct, frozen=True, kw_only=True):
    """The norms of one criterion."""

    n: int
    mean: ValueInterval
    sd: float | None
    quantiles: dict[str, float | None]
    histogram: list[HistogramBin]
    floor_failures: int
    missing: int


class SliceSummary(Struct, frozen=True, kw_only=True):
    """Some of the runs."""

    n: int
    coverage: dict[str, int]
    pass_rate: ValueInterval
    weighted_score: Distribution


class FailureReason(Struct, frozen=True, kw_only=True):
    """Why runs do not pass, and one that does not for this reason."""

    reason: str
    count: int
    example: str


class SummaryBlock(Struct, frozen=True, kw_only=True):
    """What grades come to. A side of a decision has a name."""

    name: str | UnsetType = UNSET
    n: int
    coverage: dict[str, int]
    pass_rate: ValueInterval
    weighted_score: Distribution
    gates: dict[str, GateSummary]
    criteria: dict[str, CriterionSummary]
    slices: dict[str, dict[str, SliceSummary]]
    grades: dict[str, int]
    top_failure_reasons: list[FailureReason]
    operations: dict[str, dict[str, float | None]]
    policies: list[str]
    profiles: list[str]
    scoring_system: str = field(name="scoringSystem")
    grading_system: str = field(name="gradingSystem")
