"""Two failure rates: of the same samples, or of different ones.

Only the pairs that differ show anything about a difference of paired rates, and its p-value is
exact at every sample size. The interval for different samples is made of score intervals: it keeps
some width even if no difference was seen.
"""

from __future__ import annotations

from math import sqrt

from assay.errors import UsageError
from assay.stats.intervals import Interval, binomial_cdf, wilson


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
