"""An interval for the mean of values in a known range, valid even if hardly any spread was seen.

The bound is Gaffke's: the n values get one more at the worse end of the range, and all n + 1 get
random weights, as in a Bayesian bootstrap; the lower end is the 2.5% quantile of the weighted mean.
For values of 0 and 1 this is the exact interval of Clopper and Pearson, and for n equal values it
is the rule of three: something that was not seen in n samples may still happen in about 3.7 of n.
It does not depend on the order of the values.

Sources: Gaffke, Three test statistics for a nonparametric one-sided hypothesis on the mean of a
nonnegative variable, 2005; Learned-Miller and Thomas, A new confidence interval for the mean of a
bounded random variable, 2019; the tail by Lugannani and Rice, Saddle point approximation, 1980.
"""

from __future__ import annotations

from cmath import exp, log
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import cosh, log1p, pi, sinh, sqrt
from statistics import NormalDist
from typing import NamedTuple

from assay.stats.intervals import Interval, beta_cdf

METHOD = "gaffke"
_CELLS = 10_000
_EXACT = 40
"""Distinct values up to which the tail is integrated; beyond, it is approximated at its saddle
point, within some percent of itself and on the safe side.
"""
_STEP, _STEPS = 0.1, 300


class Mass(NamedTuple):
    """A value, how many samples or clusters have it, and how large each of them is."""

    value: float
    times: int
    size: float = 1.0


def bounded_mean(
    values: Iterable[float], *, lowest: float, highest: float, level: float = 0.95
) -> Interval:
    """The interval of a mean of values between `lowest` and `highest`; wide, and valid for any n of
    at least 2.

    >>> found = bounded_mean([100.0] * 30, lowest=0.0, highest=100.0)
    >>> round(found.low, 6), round(found.high, 6)
    (88.429669, 100.0)
    """
    counts = Counter(values)
    return bounded(
        [Mass(value, count) for value, count in counts.items()],
        lowest=lowest,
        highest=highest,
        level=level,
    )


def bounded(
    masses: Sequence[Mass], *, lowest: float, highest: float, level: float = 0.95
) -> Interval:
    """Like `bounded_mean`, of counted values, or of the means of clusters weighted by size."""
    n = sum(mass.times for mass in masses)
    if n == 0:
        return Interval.unknown(None, level, METHOD, "no samples")
    ordered = sorted(masses)
    value = sum(mass.value * mass.size * mass.times for mass in ordered) / sum(
        mass.size * mass.times for mass in ordered
    )
    if n < 2:
        return Interval.unknown(value, level, METHOD, "one sample has no spread to estimate from")
    tail = (1 - level) / 2
    low = _end(_coarse(ordered, lowest, highest), lowest, value, tail)
    high = -_end(
        _coarse(
            [mass._replace(value=-mass.value) for mass in reversed(ordered)], -highest, -lowest
        ),
        -highest,
        -value,
        tail,
    )
    return Interval(value, low, high, level, METHOD)


def chance_below(masses: Sequence[Mass], limit: float, *, lowest: float) -> float:
    """The one-sided p-value of "the mean is at most `limit`": how often the weighted mean, with one
    value more at `lowest`, stays at or below it.

    >>> round(chance_below([Mass(0.0, 368)], -1.0, lowest=-100), 4)
    0.0248
    """
    if not masses:
        return 1.0
    if limit < lowest:
        return 0.0
    ordered = _coarse(sorted(masses), lowest, max(mass.value for mass in masses))
    mean_size = sum(mass.size * mass.times for mass in ordered) / sum(
        mass.times for mass in ordered
    )
    return _chance(_spread([*ordered, Mass(lowest, 1, mean_size)]), limit)


def _end(ordered: Sequence[Mass], lowest: float, value: float, tail: float) -> float:
    """The lower end: where the chance of staying below it is `tail`."""
    if value <= lowest:
        return lowest
    mean_size = sum(mass.size * mass.times for mass in ordered) / sum(
        mass.times for mass in ordered
    )
    spread = _spread([*ordered, Mass(lowest, 1, mean_size)])
    normal = NormalDist()
    wanted = normal.inv_cdf(tail)

    def rising(limit: float) -> float:
        chance = _chance(spread, limit)
        # as a normal quantile it is almost a straight line, which false position solves quickly
        return (
            normal.inv_cdf(chance) if 1e-300 < chance < 1 else -37.0 if chance < 0.5 else 8.0
        ) - wanted

    return crossing(rising, lowest, value)


def _coarse(ordered: Sequence[Mass], lowest: float, highest: float) -> Sequence[Mass]:
    """Many distinct values, each moved to the next lower of `_CELLS` places: this never raises a
    lower end, and keeps the computation fast.
    """
    if len(ordered) <= _CELLS:
        return ordered
    width = (highest - lowest) / _CELLS
    return [
        mass._replace(value=lowest + int((mass.value - lowest) / width) * width) for mass in ordered
    ]


def _spread(masses: Iterable[Mass]) -> list[Mass]:
    counts: Counter[tuple[float, float]] = Counter()
    for value, count, size in masses:
        counts[value, size] += count
    return [Mass(value, count, size) for (value, size), count in sorted(counts.items())]


def _chance(masses: Sequence[Mass], limit: float) -> float:
    """The chance that the randomly weighted mean is at most `limit`."""
    if limit >= masses[-1].value:
        return 1.0
    if limit < masses[0].value:
        return 0.0
    if len(masses) == 2 and masses[0].size == masses[1].size:
        below, above = masses
        return beta_cdf(
            (limit - below.value) / (above.value - below.value), above.times, below.times
        )
    return _saddle(
        [((mass.value - limit) * mass.size, mass.times) for mass in masses if mass.value != limit]
    )


def _saddle(terms: Sequence[tuple[float, int]]) -> float:
    """The chance that a sum of c * Gamma(count) is at most 0, by its saddle point."""
    lowest, highest = min(terms)[0], max(terms)[0]
    if lowest >= 0 or highest <= 0:
        return 0.0 if lowest >= 0 else 1.0

    s = 0.0
    # damped Newton steps: they never leave the interval between the poles, because the cumulant is
    # self-concordant
    for _ in range(100):
        parts = [c / (1 - c * s) for c, _ in terms]
        slope = sum(part * count for part, (_, count) in zip(parts, terms, strict=True))
        curvature = sum(part * part * count for part, (_, count) in zip(parts, terms, strict=True))
        decrement = abs(slope) / sqrt(curvature)
        s -= slope / curvature / (1 + decrement if decrement > 0.25 else 1)
        if decrement < 1e-9:
            break
    cumulant = -sum(count * log1p(-c * s) for c, count in terms)
    curvature = sum(count * (c / (1 - c * s)) ** 2 for c, count in terms)
    w = sqrt(max(0.0, -2 * cumulant)) * (1 if s > 0 else -1)
    u = s * sqrt(curvature)
    normal = NormalDist()
    if len(terms) <= _EXACT and w < -0.5:
        return _inverted(terms, s, curvature)
    if abs(w) < 1e-3:
        third = 2 * sum(count * (c / (1 - c * s)) ** 3 for c, count in terms)
        return 0.5 + third / (6 * sqrt(2 * pi) * curvature * sqrt(curvature))
    # 1/w - 1/u as one quotient keeps its digits where both are large
    return min(1.0, max(0.0, normal.cdf(w) + normal.pdf(w) * (u - w) / (u * w)))


def _inverted(terms: Sequence[tuple[float, int]], saddle: float, curvature: float) -> float:
    """Like `_saddle`, without approximation: the transform of the sum, integrated along a curve
    through its saddle point that bends as the steepest descent does.
    """
    scale = 1 / sqrt(curvature)
    bend = (
        2
        * sum(count * (c / (1 - c * saddle)) ** 3 for c, count in terms)
        / (3 * curvature * sqrt(curvature))
    )
    total = 0.0
    for step in range(_STEPS):
        u = step * _STEP
        s = saddle + scale * complex(bend * (cosh(u) - 1), sinh(u))
        grown = exp(-sum(count * log(1 - c * s) for c, count in terms)) / -s
        part = (grown * complex(bend * sinh(u), cosh(u))).imag
        total += part / 2 if step == 0 else part
        if abs(grown) * cosh(u) < 1e-13 * abs(total):
            break
    return min(1.0, max(0.0, total * _STEP * scale / pi))


def crossing(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function crosses zero: false position that halves the end it keeps (Illinois),
    and bisection where that stalls.
    """
    at_low, at_high = rising(low), rising(high)
    if at_low >= 0:
        return low
    if at_high <= 0:
        return high
    tolerance = 1e-12 * (high - low)
    kept = 0
    for _ in range(200):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        if abs(kept) >= 4 or not low < middle < high:
            middle, kept = (low + high) / 2, 0
        at_middle = rising(middle)
        if at_middle == 0:
            return middle
        if at_middle < 0:
            step, low, at_low = middle - low, middle, at_middle
            kept = max(kept, 0) + 1
            at_high /= 2 if kept > 1 else 1
        else:
            step, high, at_high = high - middle, middle, at_middle
            kept = min(kept, 0) - 1
            at_low /= 2 if kept < -1 else 1
        if step <= tolerance or high - low <= tolerance:
            return middle
    return (low + high) / 2
