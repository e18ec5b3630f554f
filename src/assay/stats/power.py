"""How small a difference an estimate could have shown, by the noncentral t, integrated.

A difference is shown if its lower end is above minus the margin (margin 0: superiority). `effect`
is the true difference, candidate minus baseline.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import erfc, exp, lgamma, log, sqrt

from assay.stats.bounded import crossing
from assay.stats.intervals import t_quantile

_STEPS = 400


def power_given(
    standard_error: float,
    df: float,
    *,
    effect: float,
    margin: float = 0.0,
    level: float = 0.95,
) -> float:
    """The chance that an estimate with this standard error and these degrees of freedom shows the
    effect; from 0 to 1.

    >>> round(power_given(10 / 34**0.5, 33.0, effect=5.0), 3)
    0.808
    """
    t = t_quantile(0.5 + level / 2, df)
    above = (effect + margin) / standard_error
    return min(1.0, _expected(lambda spread: _phi(above - t * spread), df))


def detectable_given(
    standard_error: float, df: float, *, power: float = 0.8, level: float = 0.95
) -> float:
    """The smallest difference that an estimate with this standard error shows to be above 0, with
    that power.

    >>> round(detectable_given(10 / 34**0.5, 33.0), 2)
    4.95
    """
    return standard_error * _unit_effect(df, power, level)


@lru_cache(maxsize=1024)
def _unit_effect(df: float, power: float, level: float) -> float:
    reach = 10 * (t_quantile(0.5 + level / 2, df) + t_quantile(max(power, 0.6), df))
    return crossing(
        lambda effect: power_given(1.0, df, effect=effect, level=level) - power, 0.0, reach
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
