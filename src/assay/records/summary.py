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
    """The value; null if there is none."""
    low: float | None
    """The lower end of the interval."""
    high: float | None
    """The upper end of the interval."""
    level: float
    """The confidence level."""
    method: str
    """How the interval was computed."""
    reason: str | UnsetType = UNSET
    """Why there is no interval."""


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
    """The mean, with its interval."""
    sd: float | None
    """The standard deviation."""
    quantiles: dict[str, float | None]
    """The quantiles, by name: `p5` to `p95`."""


class GateSummary(Struct, frozen=True, kw_only=True):
    """How often one gate failed."""

    failed: int
    """Runs that fail the gate."""
    undetermined: int
    """Runs whose evidence does not decide it; they count as failed."""
    n: int
    """Runs that have the gate."""
    rate: ValueInterval
    """The share of failures, with its interval."""


class HistogramBin(Struct, frozen=True, kw_only=True):
    """How many values lie between two."""

    low: float
    """The lower edge."""
    high: float
    """The upper edge."""
    count: int
    """Values between the two."""


class CriterionSummary(Struct, frozen=True, kw_only=True):
    """The norms of one criterion."""

    n: int
    """Runs that have the criterion."""
    mean: ValueInterval
    """The mean norm, with its interval."""
    sd: float | None
    """The standard deviation of the norms."""
    quantiles: dict[str, float | None]
    """The quantiles of the norms, by name."""
    histogram: list[HistogramBin]
    """The norms in bins."""
    floor_failures: int
    """Runs below the criterion's floor."""
    missing: int
    """Runs without a score; they count as 0."""


class SliceSummary(Struct, frozen=True, kw_only=True):
    """Some of the runs."""

    n: int
    """Runs in the slice."""
    coverage: dict[str, int]
    """Runs by what became of them."""
    pass_rate: ValueInterval
    """The share that passed, with its interval."""
    weighted_score: Distribution
    """The distribution of the weighted scores."""


class FailureReason(Struct, frozen=True, kw_only=True):
    """Why runs do not pass, and one that does not for this reason."""

    reason: str
    """Why runs fail."""
    count: int
    """How many runs fail for this reason."""
    example: str
    """One of them."""


class SummaryBlock(Struct, frozen=True, kw_only=True):
    """What grades come to. A side of a decision has a name."""

    name: str | UnsetType = UNSET
    """The side of a decision."""
    n: int
    """How many runs there are."""
    coverage: dict[str, int]
    """Runs by what became of them: scored, failed, inconclusive, errored, not applicable."""
    pass_rate: ValueInterval
    """The share that passed, with its interval."""
    weighted_score: Distribution
    """The distribution of the weighted scores, from 0 to 100."""
    gates: dict[str, GateSummary]
    """How often each gate failed."""
    criteria: dict[str, CriterionSummary]
    """The norms of each criterion."""
    slices: dict[str, dict[str, SliceSummary]]
    """The same by tag, group and family."""
    grades: dict[str, int]
    """Runs by letter."""
    top_failure_reasons: list[FailureReason]
    """The most frequent reasons for failures."""
    operations: dict[str, dict[str, float | None]]
    """Latency, cost, tokens and retries."""
    policies: list[str]
    """The policies that graded the runs."""
    profiles: list[str]
    """The profiles that scored the runs."""
    scoring_system: str = field(name="scoringSystem")
    """The version of the scoring system."""
    grading_system: str = field(name="gradingSystem")
    """The version of the grading system."""
