"""Before the run: how many samples, how much power, how small an effect. After it: what this n
could have seen.

Everything is about what is *shown*: a difference of the candidate over the baseline whose lower 95%
end is above minus the margin (margin 0: superiority). Means go by the noncentral t, integrated;
rates by counting every outcome of Tango's test. `effect` is the true difference, candidate minus
baseline.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from math import ceil, erfc, exp, lgamma, log, sqrt

from assay.errors import UsageError
from assay.stats.bounded import crossing
from assay.stats.intervals import binomial_cdf, normal_quantile, t_quantile
from assay.stats.rates import tango_statistic

_STEPS = 400
MAX_SAMPLES = 10_000_000


def power_of_mean(
    n: int, *, effect: float, sd: float, margin: float = 0.0, level: float = 0.95
) -> float:
    """The chance that n pairs show the effect; from 0 to 1. `sd` is that of the differences. Fewer
    than two pairs show nothing.

    >>> round(power_of_mean(34, effect=5.0, sd=10.0), 3)
    0.808
    """
    if n < 2:
        return 0.0
    return power_given(sd / sqrt(n), n - 1.0, effect=effect, margin=margin, level=level)


def samples_for_mean(
    *, effect: float, sd: float, margin: float = 0.0, power: float = 0.8, level: float = 0.95
) -> int | None:
    """How many pairs show the effect with that power; None if no number does, because the effect
    does not exceed the margin.

    >>> samples_for_mean(effect=5.0, sd=10.0)
    34
    >>> samples_for_mean(effect=0.0, sd=10.0, margin=1.0)
    787
    >>> samples_for_mean(effect=-2.0, sd=10.0, margin=1.0) is None
    True
    """
    if effect + margin <= 0:
        return None

    def reached(n: int) -> bool:
        return power_of_mean(n, effect=effect, sd=sd, margin=margin, level=level) >= power

    return smallest(reached, start=2, most=MAX_SAMPLES)


def detectable_mean(
    n: int, *, sd: float, margin: float = 0.0, power: float = 0.8, level: float = 0.95
) -> float | None:
    """The smallest true difference that n pairs show with that power; with a margin it may be below
    0. None for fewer than two pairs.

    >>> round(detectable_mean(34, sd=10.0), 2)
    4.95
    """
    if n < 2:
        return None
    return detectable_given(sd / sqrt(n), n - 1.0, power=power, level=level) - margin


def power_given(
    standard_error: float,
    df: float,
    *,
    effect: float,
    margin: float = 0.0,
    level: float = 0.95,
) -> float:
    """Like `power_of_mean`, from a standard error and its degrees of freedom."""
    t = t_quantile(0.5 + level / 2, df)
    above = (effect + margin) / standard_error
    return min(1.0, _expected(lambda spread: _phi(above - t * spread), df))


def detectable_given(
    standard_error: float, df: float, *, power: float = 0.8, level: float = 0.95
) -> float:
    """The smallest difference that an estimate with this standard error shows to be above 0, with
    that power.
    """
    return standard_error * _unit_effect(df, power, level)


@lru_cache(maxsize=1024)
def _unit_effect(df: float, power: float, level: float) -> float:
    reach = 10 * (t_quantile(0.5 + level / 2, df) + t_quantile(max(power, 0.6), df))
    return crossing(
        lambda effect: power_given(1.0, df, effect=effect, level=level) - power, 0.0, reach
    )


def samples_if_all_equal(margin: float, *, reach: float = 100.0, level: float = 0.95) -> int:
    """How many pairs without any difference show that the mean is not lower by the margin, when one
    pair can lose `reach` points.

    >>> samples_if_all_equal(1.0), samples_if_all_equal(5.0)
    (368, 72)
    """
    if not 0 < margin < reach:
        raise UsageError(
            "STA-001",
            f"the margin is {margin}; it must be above 0 and below {reach:g}.",
            fix="Give the margin in points of the score.",
        )
    return max(2, ceil(log((1 - level) / 2) / log(1 - margin / reach)))


# --- rates


def power_of_rates(
    n: int, *, gains: float, losses: float, margin: float = 0.0, level: float = 0.95
) -> float:
    """The chance that n pairs show a difference of two rates above minus the margin, by Tango's
    interval.

    `gains` is the share of pairs where only the candidate succeeds, `losses` where only the
    baseline does: the true difference is gains - losses. Every outcome is counted; nothing is
    approximated.

    >>> round(power_of_rates(200, gains=0.15, losses=0.05), 3)
    0.905
    """
    differ = gains + losses
    z = normal_quantile(0.5 + level / 2)
    if n < 1 or differ == 0:
        return float(n >= 1 and tango_statistic(0, 0, n, -margin) > z)
    reach = 9 * sqrt(n * differ * (1 - differ)) + 20
    total = 0.0
    for discordant in range(max(0, int(n * differ - reach)), min(n, int(n * differ + reach)) + 1):
        weight = _binomial_pmf(discordant, n, differ)
        if weight > 1e-14:
            least = _least_gains(discordant, n, margin, z)
            if least <= discordant:
                total += weight * (1 - binomial_cdf(least - 1, discordant, gains / differ))
    return min(1.0, total)


def detectable_rate(
    n: int, *, discordant: float, margin: float = 0.0, power: float = 0.8, level: float = 0.95
) -> float | None:
    """The smallest true difference of two rates that n pairs show, when this share of pairs
    differs; None if even the largest is not shown.

    >>> round(detectable_rate(200, discordant=0.2), 3)
    0.087
    """

    def lacking(effect: float) -> float:
        return (
            power_of_rates(
                n,
                gains=(discordant + effect) / 2,
                losses=(discordant - effect) / 2,
                margin=margin,
                level=level,
            )
            - power
        )

    return crossing(lacking, -discordant, discordant) if lacking(discordant) >= 0 else None


@lru_cache(maxsize=65536)
def _least_gains(discordant: int, n: int, margin: float, z: float) -> int:
    """The fewest gains among the discordant pairs with which the test shows the difference; one
    more than there are pairs if no number does.
    """
    return bisect_left(
        range(discordant + 1),
        True,
        key=lambda gains: tango_statistic(gains, discordant - gains, n, -margin) > z,
    )


def _binomial_pmf(k: int, n: int, p: float) -> float:
    if p >= 1:
        return float(k == n)
    return exp(
        lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) + (n - k) * log(1 - p)
    )


def _phi(z: float) -> float:
    return 0.5 * erfc(-z / sqrt(2))


def _expected(function: Callable[[float], float], df: float) -> float:
    """The mean of a function of the estimated over the true standard deviation, by Simpson's
    rule.
    """
    width = 9 / sqrt(2 * df)
    low, high = max(0.0, 1 - width), 1 + width
    step = (high - low) / _STEPS
    front = log(2) + df / 2 * log(df / 2) - lgamma(df / 2)
    total = 0.0
    for index in range(_STEPS + 1):
        spread = low + index * step
        density = (
            exp(front + (df - 1) * log(spread) - df * spread * spread / 2)
            if spread > 0
            else exp(front)
            if df == 1
            else 0.0
        )
        total += (1 if index in (0, _STEPS) else 4 if index % 2 else 2) * density * function(spread)
    return total * step / 3


def smallest(reached: Callable[[int], bool], *, start: int, most: int) -> int | None:
    """The smallest number from `start` on that reaches something; None if none up to `most` does.

    >>> smallest(lambda n: n * n >= 30, start=1, most=100)
    6
    """
    high = start
    while not reached(high):
        if high >= most:
            return None
        high = min(most, high * 2)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
