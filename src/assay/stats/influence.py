"""An interval for a statistic from the influence of each item on it.

The ends are found on Fisher's z scale with Student's t, so that they stay between -1 and 1 and may
be further from the value on one side. Four imagined items are added for the interval only, never
for the value: two by chance and two in agreement, as Agresti and Coull add two failures and two
successes to a share. Without them a sample that shows no disagreement, or no rare category twice,
would claim to be certain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from math import atanh, sqrt, tanh
from statistics import NormalDist
from typing import NamedTuple

from assay.stats.intervals import Interval, t_quantile

IMAGINED = 4.0
"""Items added for the interval. A simulation chose the number: with fewer, rare categories are
covered too seldom.
"""
MIN_ITEMS = 5
"""With fewer items the coverage is not reached in simulation, so there is no interval."""
POINTS = 40
"""The most categories that imagined items fall on. If there are more, this many quantiles represent
all, so that their table stays small.
"""
MOST = 0.9
"""The largest leverage that is used: with more, a single item would make the interval as wide as
possible.
"""
_EDGE = 1 - 1e-12


class CategoryMass(NamedTuple):
    """A category by its place, and how much weight is on it."""

    place: int
    weight: float


def thin(masses: Sequence[float], *, ordered: bool) -> list[CategoryMass]:
    """At most `POINTS` categories that stand for all of them: all, or their quantiles; the heaviest
    first where they have no order.

    >>> thin([1.0, 0.0, 3.0], ordered=True)
    [CategoryMass(place=0, weight=1.0), CategoryMass(place=2, weight=3.0)]
    """
    places = [place for place, mass in enumerate(masses) if mass]
    if len(places) <= POINTS:
        return [CategoryMass(place, masses[place]) for place in places]
    if not ordered:
        places.sort(key=masses.__getitem__, reverse=True)
    up_to = list(accumulate([masses[place] for place in places]))
    share = up_to[-1] / POINTS
    kept = Counter(places[bisect_right(up_to, share * (step + 0.5))] for step in range(POINTS))
    return [CategoryMass(place, share * times) for place, times in kept.items()]


def few(n: int) -> str:
    """Why there is no interval for n items; empty if there is one."""
    return (
        f"{n} item{'s' if n != 1 else ''}; an interval needs at least {MIN_ITEMS}"
        if n < MIN_ITEMS
        else ""
    )


def z_interval(
    value: float, centre: float, error: float, n: int, *, level: float, method: str
) -> Interval:
    """The interval of a statistic between -1 and 1 around `centre`, with a standard error from n
    items; it always contains the value.

    >>> found = z_interval(0.6, 0.6, 0.1, 50, level=0.95, method="delta-z-t")
    >>> round(found.low, 3), round(found.high, 3)
    (0.362, 0.765)
    """
    reason = few(n)
    if reason:
        return Interval.unknown(value, level, method, reason)
    centre = min(max(centre, -_EDGE), _EDGE)
    middle, half = atanh(centre), t_quantile(0.5 + level / 2, n - 1) * error / (1 - centre * centre)
    return Interval(
        value, min(value, tanh(middle - half)), max(value, tanh(middle + half)), level, method
    )


def tails(at: Sequence[float]) -> list[float]:
    """For each place, the sum over the places above it and half of its value."""
    made = [0.0] * len(at)
    above = 0.0
    for place in range(len(at) - 1, -1, -1):
        made[place] = above + at[place] / 2
        above += at[place]
    return made


def leverage(x: float, y: float, value: float, n: float) -> float:
    """The share of n items that one item makes up by itself, from its two standardised ratings and
    their correlation: far from the others it is nearly 1.

    >>> round(leverage(0.0, 0.0, 0.5, 40), 3), round(leverage(-4.0, -4.0, 0.5, 40), 3)
    (0.025, 0.558)
    """
    return min(MOST, (1 + (x * x + y * y - 2 * value * x * y) / max(1 - value * value, 1e-12)) / n)


def wider_z_interval(
    value: float,
    centre: float,
    variance_z: float,
    error: float,
    n: int,
    *,
    level: float,
    method: str,
) -> Interval:
    """Fisher's interval with the theoretical variance of z, or with the standard error that the
    items show, whichever is wider; it always contains the value.

    The theory alone assumes normal values: on skewed five-point ratings its 95% interval contains
    the truth 65 to 85 times in 100.
    """
    reason = few(n)
    if not reason and abs(value) > _EDGE:
        reason = "the ratings lie on one line, so they show no spread around it to estimate from"
    if reason:
        return Interval.unknown(value, level, method, reason)
    theory = NormalDist().inv_cdf(0.5 + level / 2) * sqrt(variance_z)
    half = max(theory, t_quantile(0.5 + level / 2, n - 1) * error / (1 - centre * centre))
    middle = atanh(centre)
    return Interval(
        value, min(value, tanh(middle - half)), max(value, tanh(middle + half)), level, method
    )
