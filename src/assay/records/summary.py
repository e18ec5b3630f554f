"""The summary of any number of grades, for a report and for each side of a decision."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field

IntervalParts = tuple[float | None, float | None, float | None, float, str, str | None]
"""Value, low, high, level, method and reason, as `stats` gives them."""


class ValueInterval(Struct, frozen=True, kw_only=True):
    """A value with its interval, or the reason why it has none."""

    value: float | None
    """The value; null if there is none."""
    low: float | None
    """The lower end of the interval."""
    high: float | None
    """The upper end of the interval."""
    level: float
    """The confidence level, such as 0.95."""
    method: str
    """How the interval was computed, such as `wilson` or `student-t`."""
    reason: str | UnsetType = UNSET
    """Why there is no interval."""


def value_interval(interval: IntervalParts) -> ValueInterval:
    """The record of an interval from `stats`."""
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
    """The mean, with its interval. Repeats of a sample count as one value, their mean."""
    sd: float | None
    """The standard deviation."""
    quantiles: dict[str, float | None]
    """The quantiles `p5`, `p25`, `p50`, `p75` and `p95`."""


class GateSummary(Struct, frozen=True, kw_only=True):
    """How often one gate failed."""

    failed: int
    """Runs that don't pass the gate, including undetermined ones."""
    undetermined: int
    """How many of these are undetermined: their evidence doesn't decide the gate."""
    n: int
    """Runs that have the gate."""
    rate: ValueInterval
    """`failed` as a share of `n`, with its interval; over samples where they are repeated."""


class HistogramBin(Struct, frozen=True, kw_only=True):
    """How many values lie in one bin."""

    low: float
    """The lower edge."""
    high: float
    """The upper edge."""
    count: int
    """Values in the bin."""


class CriterionSummary(Struct, frozen=True, kw_only=True):
    """The norms of one criterion."""

    n: int
    """Runs that have the criterion, with or without a score."""
    mean: ValueInterval
    """The mean norm, with its interval; a missing score counts as 0."""
    sd: float | None
    """The standard deviation of the norms."""
    quantiles: dict[str, float | None]
    """The quantiles of the norms, `p5` to `p95`."""
    histogram: list[HistogramBin]
    """The norms from 0 to 1 in ten bins."""
    floor_failures: int
    """Runs below the criterion's floor."""
    missing: int
    """Runs without a score; they count as 0."""


class SliceSummary(Struct, frozen=True, kw_only=True):
    """Some of the runs."""

    n: int
    """Runs in the slice."""
    coverage: dict[str, int]
    """Runs by outcome, as for all runs."""
    pass_rate: ValueInterval
    """The share that passed, with its interval. Repeats of a sample count as one: the share of
    them that passed.
    """
    weighted_score: Distribution
    """The distribution of the weighted scores."""


class FailureReason(Struct, frozen=True, kw_only=True):
    """A reason why runs don't pass, with an example."""

    reason: str
    """A gate that failed or is undetermined, a missed floor, a missing score, or a score below the
    threshold.
    """
    count: int
    """Runs with this reason. A run can have several."""
    example: str
    """The id of the first such run, in the order of ids."""


class SummaryBlock(Struct, frozen=True, kw_only=True):
    """The summary of any number of grades."""

    name: str | UnsetType = UNSET
    """What the side of a decision is called: its file, evaluation or baseline."""
    n: int
    """How many runs there are."""
    coverage: dict[str, int]
    """Each run once, by the worst that applies: `errored` (status error, timeout or cancelled),
    `failed` (status failed), `inconclusive` (an undetermined gate or a missing score), `scored`.
    """
    pass_rate: ValueInterval
    """The share that passed, with its interval. Repeats of a sample count as one: the share of
    them that passed.
    """
    weighted_score: Distribution
    """The distribution of the weighted scores, from 0 to 100."""
    gates: dict[str, GateSummary]
    """How often each gate failed."""
    criteria: dict[str, CriterionSummary]
    """The distribution of each criterion's norms."""
    slices: dict[str, dict[str, SliceSummary]]
    """Count, coverage, pass rate and score of the runs of each `family`, `tag` and `group`."""
    grades: dict[str, int]
    """Runs by letter."""
    top_failure_reasons: list[FailureReason]
    """The ten most frequent reasons why runs fail."""
    operations: dict[str, dict[str, float | None]]
    """`latency_ms` with its quantiles and `cost_usd` with total and mean, each with the numbers of
    runs that do and don't report it.
    """
    policies: list[str]
    """The policies that graded the runs."""
    profiles: list[str]
    """The profiles that scored the runs."""
    scoring_system: str = field(name="scoringSystem")
    """The versions of the scoring system that the runs were scored under."""
    grading_system: str = field(name="gradingSystem")
    """The versions of the grading system that they were graded under."""
