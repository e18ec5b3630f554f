"""Two failure rates: of the same samples, or of different ones.

Only the pairs that differ show anything about a difference of paired rates. The p-values are exact
at every sample size, and the intervals are score intervals: they keep some width even if no
difference was seen.
"""

from __future__ import annotations

from math import inf, sqrt

from assay.errors import UsageError
from assay.stats.bounded import crossing
from assay.stats.intervals import Interval, binomial_cdf, normal_quantile, wilson


def mcnemar(first: int, second: int) -> float:
    """The exact two-sided p-value of McNemar's test, from the number of pairs in which only the
    first and only the second of two things happened.

    >>> round(mcnemar(10, 2), 4)
    0.0386
    """
    return min(1.0, 2 * binomial_cdf(min(first, second), first + second, 0.5))


def paired_rate_difference(first: int, second: int, n: int, *, level: float = 0.95) -> Interval:
    """Tango's interval for the difference of two rates of the same n samples, (first - second) / n.

    >>> found = paired_rate_difference(0, 0, 30)
    >>> found.value, round(found.high, 4)
    (0.0, 0.1135)
    """
    if n == 0:
        return Interval.unknown(None, level, "tango", "no samples")
    if n == 1:
        return Interval.unknown(
            float(first - second),
            level,
            "tango",
            "one sample has no spread to estimate from",
        )
    value = (first - second) / n
    z = normal_quantile(0.5 + level / 2)
    low = (
        -1.0
        if second == n
        else crossing(lambda supposed: z - tango_statistic(first, second, n, supposed), -1.0, value)
    )
    high = (
        1.0
        if first == n
        else crossing(lambda supposed: -z - tango_statistic(first, second, n, supposed), value, 1.0)
    )
    return Interval(value, low, high, level, "tango")


def tango_statistic(gains: int, losses: int, n: int, difference: float) -> float:
    """Tango's score statistic: how many standard errors the seen difference is above a supposed
    one, the error taken as if the supposed one were true.

    Source: Tango, Equivalence test and confidence interval for the difference in proportions for
    the paired-sample design, 1998.
    """
    a = 2.0 * n
    b = -gains - losses + (2 * n - gains + losses) * difference
    c = -losses * difference * (1 - difference)
    shared = (sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = n * (2 * shared + difference * (1 - difference))
    distance = gains - losses - n * difference
    if variance <= 1e-12 * n:
        return 0.0 if abs(distance) < 1e-9 else inf if distance > 0 else -inf
    return distance / sqrt(variance)


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
