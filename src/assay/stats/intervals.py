"""Confidence intervals for a share and for a mean, and their distributions, in plain Python.

Every interval names its level and method. Where too little is known to give one, its ends are None
and the reason is given: the standard error of one sample is not zero. `student` takes the spread it
is given; `means` checks whether the samples show one at all.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, lgamma, log, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple


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
