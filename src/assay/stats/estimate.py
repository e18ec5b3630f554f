"""An estimated mean with its interval, and the rule for whether enough spread was observed.

Student's interval relies on the observed spread. If all values are equal, or all but a few, that
spread is too small or zero, and the interval claims a certainty that isn't there: thirty equal
results don't show that the next one will be equal. So if at least half of the samples have the
commonest value and fewer than `SEEN` differ from it, the interval is that of `bounded`, which needs
the range of the values; without a range there is none. If the values are so skewed that the truth
would be beyond Student's end on one side about twice as often as it should, that end is moved
outwards.

Values are compared after rounding to `DIGITS` decimals: 80.3 - 80.2 and 70.3 - 70.2 are one
difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum, inf, isfinite, sqrt
from typing import NamedTuple

from assay.errors import UsageError
from assay.stats.bounded import Mass, bounded, chance_below
from assay.stats.intervals import Interval, t_quantile, t_tail

DIGITS = 9
SEEN = 8
"""The number of values that must differ from the commonest one before the sample variance is
used.
"""
LEANING = 0.2
"""Skewness over the root of n, from which an end is moved outwards."""
LEANING_FROM = 20
"""Samples from which measured skewness is more than noise."""


class Range(NamedTuple):
    """The values that are possible at all."""

    lowest: float
    highest: float


SCORES = Range(0.0, 100.0)
DIFFERENCES = Range(-100.0, 100.0)


class MeanEstimate(NamedTuple):
    """A mean with its interval, and what is needed to test it against a limit."""

    interval: Interval
    n: int
    sd: float | None = None
    standard_error: float | None = None
    df: float | None = None
    clusters: int | None = None
    widened: tuple[float, float] = (0.0, 0.0)
    """By how many standard errors the lower and the upper end were moved outwards for skew."""
    masses: tuple[Mass, ...] = ()
    """The counted values, where the interval is the bounded one."""
    range: Range | None = None

    def p_above(self, limit: float) -> float | None:
        """The one-sided p-value of "the mean is at most the limit"; below half of 1 - level exactly
        where the lower end is above the limit.
        """
        return self._p(limit, 1)

    def p_below(self, limit: float) -> float | None:
        """The one-sided p-value of "the mean is at least the limit"."""
        return self._p(limit, -1)

    def _p(self, limit: float, side: int) -> float | None:
        value = self.interval.value
        if value is None or self.interval.low is None or self.interval.high is None:
            return None
        if self.masses and self.range is not None:
            lowest = self.range.lowest if side > 0 else -self.range.highest
            masses = [mass._replace(value=side * mass.value) for mass in self.masses]
            return chance_below(masses, side * limit, lowest=lowest)
        if not self.standard_error or self.df is None:
            return None
        widened = self.widened[0 if side > 0 else 1]
        return t_tail(side * (value - limit) / self.standard_error - widened, self.df)


class Moments(NamedTuple):
    """What Student's interval is made of."""

    value: float
    standard_error: float
    df: float
    leaning: float
    """The sum of cubed deviations over the 3/2 power of the sum of squared ones: skewness over the
    root of n.
    """
    units: int
    """How many independent samples or clusters there are."""


def on_scale(interval: Interval, range: Range) -> Interval:
    """The interval of a mean, cut at the ends of the scale, which Student's t may exceed."""
    if interval.low is None or interval.high is None:
        return interval
    low, high = max(interval.low, range.lowest), min(interval.high, range.highest)
    return interval._replace(low=low, high=high)


def hides_spread(counts: Sequence[int]) -> bool:
    """Whether at least half of the samples have the commonest value and fewer than `SEEN` differ
    from it.

    >>> hides_spread([28, 1, 1]), hides_spread([2, 1, 1, 1]), hides_spread([100, 20])
    (True, False, False)
    """
    total, most = sum(counts), max(counts)
    return most > 1 and 2 * most >= total and total - most < SEEN


def by_student(
    moments: Moments,
    *,
    level: float,
    method: str,
    n: int,
    sd: float | None,
    clusters: int | None = None,
    range: Range | None = None,
) -> MeanEstimate:
    """Student's interval with the ends moved outwards where the values lean, and cut at the ends of
    the range.
    """
    t = t_quantile(0.5 + level / 2, moments.df)
    low = high = 0.0
    if moments.units >= LEANING_FROM and abs(moments.leaning) > LEANING:
        # the first term of the expansion of Student's t in the skewness
        moved = abs(moments.leaning) * (2 * t * t + 1) / 6
        low, high = (moved, 0.0) if moments.leaning < 0 else (0.0, moved)
        method += ", widened for skew"
    lower = moments.value - (t + low) * moments.standard_error
    upper = moments.value + (t + high) * moments.standard_error
    if range is not None:
        lower, upper = max(lower, range.lowest), min(upper, range.highest)
    interval = Interval(moments.value, lower, upper, level, method)
    return MeanEstimate(interval, n, sd, moments.standard_error, moments.df, clusters, (low, high))


def by_bound(
    masses: Iterable[Mass],
    *,
    level: float,
    n: int,
    sd: float | None,
    clusters: int | None = None,
    range: Range | None = None,
) -> MeanEstimate:
    """The bounded interval; none if the range is not known."""
    counted = tuple(sorted(masses))
    if range is None:
        value = sum(mass.value * mass.size * mass.times for mass in counted) / sum(
            mass.size * mass.times for mass in counted
        )
        reason = (
            f"fewer than {SEEN} {'samples' if clusters is None else 'groups'} differ from the"
            " commonest value, so the spread is not known"
        )
        return MeanEstimate(
            Interval.unknown(value, level, "student-t", reason), n, sd, None, None, clusters
        )
    return MeanEstimate(
        bounded(counted, lowest=range.lowest, highest=range.highest, level=level),
        n,
        sd,
        None,
        None,
        clusters,
        masses=counted,
        range=range,
    )


def none_of(
    value: float | None,
    n: int,
    *,
    level: float,
    method: str,
    reason: str,
    clusters: int | None = None,
) -> MeanEstimate:
    """An estimate without an interval, and the reason."""
    return MeanEstimate(Interval.unknown(value, level, method, reason), n, clusters=clusters)


def checked(values: Iterable[float], range: Range | None, *, what: str = "a value") -> list[float]:
    """The values rounded to `DIGITS`; each finite and in its range, or STA-001."""
    numbers = [round(value, DIGITS) for value in map(float, values)]
    lowest, highest = (-inf, inf) if range is None else range
    # NaN compares false with everything, so the sum shows it; finite values of a range can't make
    # the sum overflow
    if numbers and (min(numbers) < lowest or max(numbers) > highest or not isfinite(sum(numbers))):
        wrong = next(
            (value for value in numbers if not (isfinite(value) and lowest <= value <= highest)),
            None,
        )
        if wrong is not None:
            span = "a finite number" if range is None else f"from {lowest:g} to {highest:g}"
            raise UsageError(
                "STA-001",
                f"{what} is {wrong}; it must be {span}.",
                fix="Missing evidence is None with a reason, or counted as the worst value.",
            )
    return numbers


def counted_sum(terms: Iterable[tuple[float, int]]) -> float:
    """The sum of counted values, rounded once: the same as `fsum` over the list of all values.

    >>> counted_sum([(0.1, 10)]) == 1.0
    True
    """
    # a value times a power of two is exact, so every count is split into powers of two
    return fsum(
        value if count == 1 else value * (1 << place)
        for value, count in terms
        for place in range(count.bit_length())
        if count >> place & 1
    )


def root_of(variance: float) -> float:
    """The root of a variance that rounding may have pushed below zero."""
    return sqrt(max(0.0, variance))
