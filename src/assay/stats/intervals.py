"""Confidence intervals for a share, a mean and a count, and their distributions, in plain Python.

Every interval names its level and method. Where too little is known to give one, its ends are None
and the reason is given: the standard error of one sample is not zero. `student` takes the spread it
is given; `means` checks whether the samples show one at all.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from math import exp, inf, lgamma, log, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

from assay.errors import UsageError


class Interval(NamedTuple):
    """A value with the ends of its interval."""

    value: float | None
    low: float | None
    high: float | None
    level: float
    method: str
    reason: str | None = None

    @classmethod
    def unknown(
        cls, value: float | None, level: float, method: str, reason: str | None
    ) -> Interval:
        """A value without ends, and the reason why there are none."""
        return cls(value, None, None, level, method, reason)

    def shown(self) -> dict[str, Any]:
        """The interval as it appears in a JSON document."""
        shown = self._asdict()
        if self.reason is None:
            del shown["reason"]
        return shown


def wilson(successes: float, n: float, *, level: float = 0.95) -> Interval:
    """Wilson's score interval for a share.

    >>> round(wilson(8, 10).low, 9)
    0.490162472
    """
    if n == 0:
        return Interval.unknown(None, level, "wilson", "no samples")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # at the ends of the range the interval touches them exactly; rounding must not push it past
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(p, low, high, level, "wilson")


def student(mean: float | None, sd: float, n: int, *, level: float = 0.95) -> Interval:
    """Student's interval for a mean.

    >>> round(student(10.0, 2.0, 5).high, 6)
    12.483328
    """
    if mean is None or n == 0:
        return Interval.unknown(None, level, "student-t", "no samples")
    if n < 2:
        return Interval.unknown(
            mean, level, "student-t", "one sample has no spread to estimate from"
        )
    half = t_quantile(0.5 + level / 2, n - 1) * sd / sqrt(n)
    return Interval(mean, mean - half, mean + half, level, "student-t")


def normal_quantile(p: float) -> float:
    """The p-quantile of the standard normal distribution.

    >>> round(normal_quantile(0.975), 9)
    1.959963985
    """
    return NormalDist().inv_cdf(p)


def binomial_cdf(k: int, n: int, p: float) -> float:
    """The chance of at most k successes in n.

    >>> round(binomial_cdf(2, 4, 0.5), 12)
    0.6875
    """
    if k < 0:
        return 0.0
    return 1.0 if k >= n else beta_cdf(1 - p, n - k, k + 1)


def t_tail(t: float, df: float) -> float:
    """The chance that Student's t exceeds a value of either sign, accurate far into the tail.

    >>> round(t_tail(2.776445105, 4), 9)
    0.025
    """
    upper = 0.5 * beta_cdf(df / (df + t * t), df / 2, 0.5)
    return upper if t >= 0 else 1 - upper


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The p-quantile of Student's t, for p above one half.

    >>> round(t_quantile(0.975, 4), 9)
    2.776445105
    """
    low, high = 0.0, 2.0
    while 1 - t_tail(high, df) < p:
        high *= 2
        if high > 1e12:
            return inf
    while low < (middle := (low + high) / 2) < high:
        if 1 - t_tail(middle, df) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def beta_cdf(x: float, a: float, b: float) -> float:
    """The CDF of the beta distribution (the regularised incomplete beta), by continued fraction.

    >>> round(beta_cdf(0.5, 2, 2), 12)
    0.5
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    tiny = 1e-300
    c = 1.0
    d = 1 / _away_from_zero(1 - (a + b) * x / (a + 1), tiny)
    total = d
    for m in range(1, 20_000):  # about the root of the larger parameter is needed
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + numerator * d, tiny)
            c = _away_from_zero(1 + numerator / c, tiny)
            total *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return total


def _away_from_zero(value: float, tiny: float) -> float:
    return tiny if abs(value) < tiny else value


QUANTILES = (5, 25, 50, 75, 95)


class Counts:
    """A multiset of integers, each standing for a value of `unit`.

    >>> scores = Counts(0.01)
    >>> for score in (9000, 8000, 7000):
    ...     scores.add(score)
    >>> scores.mean(), scores.sd(), scores.quantile(50)
    (80.0, 10.0, 80.0)
    """

    def __init__(self, unit: float) -> None:
        self.scale = round(1 / unit)
        self.counts: Counter[int] = Counter()

    def add(self, value: int) -> None:
        """Count one value."""
        self.counts[value] += 1

    @property
    def n(self) -> int:
        """How many were counted."""
        return self.counts.total()

    @property
    def total(self) -> int:
        """Their sum."""
        return sum(value * count for value, count in self.counts.items())

    @property
    def squares(self) -> int:
        """The sum of their squares."""
        return sum(value * value * count for value, count in self.counts.items())

    def mean(self) -> float | None:
        """The mean, rounded once."""
        n = self.n
        return self.total / (n * self.scale) if n else None

    def sd(self) -> float | None:
        """The standard deviation with n - 1; None for fewer than two values, because one value
        shows no spread.
        """
        n = self.n
        if n < 2:
            return None
        total, squares = self.total, self.squares
        return sqrt((n * squares - total * total) / (n * (n - 1))) / self.scale

    def quantile(self, percent: int) -> float | None:
        """A percentile, interpolated linearly between neighbours."""
        n = self.n
        if not n:
            return None
        place, part = divmod((n - 1) * percent, 100)
        low = self.at(place)
        high = self.at(min(place + 1, n - 1))
        return (low * 100 + (high - low) * part) / (100 * self.scale)

    def quantiles(self) -> dict[str, float | None]:
        """The percentiles of the reporting bundle."""
        return {f"p{percent}": self.quantile(percent) for percent in QUANTILES}

    def at(self, place: int) -> int:
        """The value at a place in their order, from 0."""
        for value in sorted(self.counts):
            place -= self.counts[value]
            if place < 0:
                return value
        raise IndexError(place)

    def histogram(self, low: int, high: int, bins: int) -> list[dict[str, float | int]]:
        """Counts in equal bins; the last one includes its upper end."""
        bin_counts = [0] * bins
        for value, count in self.counts.items():
            bin_counts[min(bins - 1, (value - low) * bins // (high - low))] += count
        width = (high - low) / bins
        return [
            {
                "low": (low + index * width) / self.scale,
                "high": (low + (index + 1) * width) / self.scale,
                "count": count,
            }
            for index, count in enumerate(bin_counts)
        ]


def mcnemar(first: int, second: int) -> float:
    """The exact two-sided p-value of McNemar's test, from the number of pairs in which only the
    first and only the second of two things happened.

    >>> round(mcnemar(10, 2), 4)
    0.0386
    """
    return min(1.0, 2 * binomial_cdf(min(first, second), first + second, 0.5))


def rate_difference(
    first: int, first_n: int, second: int, second_n: int, *, level: float = 0.95
) -> Interval:
    """Newcombe's interval for the difference of two rates of different samples, first minus second.

    >>> found = rate_difference(56, 70, 48, 80)
    >>> round(found.low, 4), round(found.high, 4)
    (0.0524, 0.3339)

    Source: Newcombe, Interval estimation for the difference between independent proportions, 1998,
    method 10.
    """
    for count, n in ((first, first_n), (second, second_n)):
        if not 0 <= count <= n:
            raise UsageError(
                "STA-001", f"the count is {count} of {n}.", fix="A count is from 0 to n."
            )
    ours, theirs = wilson(first, first_n, level=level), wilson(second, second_n, level=level)
    if (
        ours.value is None
        or theirs.value is None
        or ours.low is None
        or ours.high is None
        or theirs.low is None
        or theirs.high is None
    ):
        return Interval.unknown(None, level, "newcombe", "no samples")
    value = ours.value - theirs.value
    if min(first_n, second_n) < 2:
        return Interval.unknown(
            value, level, "newcombe", "one sample has no spread to estimate from"
        )
    low = value - sqrt((ours.value - ours.low) ** 2 + (theirs.high - theirs.value) ** 2)
    high = value + sqrt((ours.high - ours.value) ** 2 + (theirs.value - theirs.low) ** 2)
    return Interval(value, max(-1.0, low), min(1.0, high), level, "newcombe")
