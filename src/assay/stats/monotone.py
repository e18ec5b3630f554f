"""Ends of an interval that never turn against an improvement.

Student's lower end of a mean difference can fall when one sample improves: the sample becomes an
outlier, and the spread grows by more than the mean. A rule that reads such an end would punish a
better version. The end that rules read is therefore the best one of any data that is nowhere
better: L*(d) = sup of L(d') over all d' <= d; U* likewise, from the other side.

L is the mean minus t standard errors, with the cluster-robust CR2 error over groups and degrees of
freedom that depend on the sizes of the groups only. It is then a concave function of the groups'
totals, and its supremum has the form min(total, size * m + (1 - size / n) * c): where all groups
have one size, it caps their means. The cap is found in closed form there, else by search.

`lean` widens the end by the first term of the expansion of Student's t in the skewness: where a few
samples lost much and most nothing, the observed spread understates how low the mean may be.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import fsum, inf, sqrt
from typing import NamedTuple

from assay.stats.clusters import Groups, freedom_of_sizes
from assay.stats.intervals import t_quantile

LEANS_FROM = 20
"""Groups from which measured skewness is more than noise."""
_STEPS = 40
_GOLDEN = (sqrt(5) - 1) / 2


class _Row(NamedTuple):
    """Groups that are alike."""

    size: int
    total: float
    times: int
    fixed: bool = False


def lower_end(
    groups: Groups, *, level: float, lean: bool = False, fixed: Sequence[float] = ()
) -> float | None:
    """The monotone one-sided lower end of the mean of all samples; None for fewer than two groups.
    The `fixed` values count as samples that nothing can improve.

    >>> round(lower_end(single(Counter({1.0: 10, 2.0: 10})), level=0.975), 4)
    1.2599
    >>> before = lower_end(single(Counter({1.0: 10, 2.0: 10})), level=0.975)
    >>> lower_end(single(Counter({1.0: 10, 2.0: 9, 900.0: 1})), level=0.975) >= before
    True
    """
    rows = [_Row(size, total, times) for size, total, _, times in groups.rows()]
    rows += [_Row(1, value, 1, fixed=True) for value in fixed]
    sizes, times = [row.size for row in rows], [row.times for row in rows]
    count, n = sum(times), sum(row.size * row.times for row in rows)
    if groups.number < 2:
        return None
    q = t_quantile(level, freedom_of_sizes(sizes, n, times=times))
    leans = lean and count >= LEANS_FROM
    ease = _cap
    if len(set(sizes)) > 1:
        ease, caps = _eased, _caps(rows, n)
    else:
        best = inf if fixed else _capped(rows, n, count, q)
        if _plain(rows, n, q, leans=leans) >= best or not (leans or fixed):
            return best
        totals = [row.total for row in rows if not row.fixed]
        caps = min(totals), max(totals)
        if all(row.times == 1 for row in rows):
            return _largest(_ends_at_caps(rows, n, q, leans=leans), *caps)
    return _largest(lambda cap: _plain(ease(rows, n, cap), n, q, leans=leans), *caps)


def upper_rate_end(groups: Groups, *, level: float) -> float | None:
    """The monotone one-sided upper end of a mean difference of shares, from -1 to 1, with one
    sample more at either end of the range: it keeps some width where no difference was seen.

    >>> round(upper_rate_end(single(Counter({0.0: 48})), level=0.95), 3)
    0.048

    Source: Bonett and Price, Adjusted Wald confidence interval for a difference of binomial
    proportions based on paired data, 2012; over groups, and so that no improvement raises it.
    """
    return upper_end(groups, level=level, fixed=(-1.0, 1.0))


def upper_end(
    groups: Groups, *, level: float, lean: bool = False, fixed: Sequence[float] = ()
) -> float | None:
    """The monotone one-sided upper end: raising a sample never lowers it, and neither does it fall
    because one that was low falls further.
    """
    mirrored = Groups.in_order(
        (size, -total, square, times) for size, total, square, times in groups.rows()
    )
    end = lower_end(mirrored, level=level, lean=lean, fixed=[-value for value in fixed])
    return None if end is None else -end


def single(counts: Counter[float]) -> Groups:
    """Samples that share no groups."""
    return Groups.of((), counts)


def _plain(rows: Iterable[_Row], n: int, q: float, *, leans: bool) -> float:
    """The end of these totals as they are."""
    listed = list(rows)
    mean = fsum(row.total * row.times for row in listed) / n
    residuals = [
        ((row.total - row.size * mean) / sqrt(1 - row.size / n), row.times) for row in listed
    ]
    squares = fsum(residual * residual * times for residual, times in residuals)
    if squares <= 0:
        return mean
    moved = 0.0
    if leans:
        cubes = fsum(residual**3 * times for residual, times in residuals)
        moved = max(0.0, -cubes / squares**1.5) * (2 * q * q + 1) / 6
    return mean - (q + moved) * sqrt(squares) / n


def _ends_at_caps(rows: list[_Row], n: int, q: float, *, leans: bool) -> Callable[[float], float]:
    """What `_plain` gives at any cap, to the last bit, for groups of one size: those with the same
    total are counted, and their sum is rounded only once.
    """
    size = rows[0].size
    scale = sqrt(1 - size / n)
    counted = Counter(row.total for row in rows if not row.fixed)
    totals = sorted(counted)
    times = [counted[total] for total in totals]
    above = list(accumulate(reversed(times), initial=0))[::-1]
    fixed = [row.total for row in rows if row.fixed]
    ones = [1] * len(fixed)

    def end(cap: float) -> float:
        place = bisect_left(totals, cap)
        values, counts = totals[:place], times[:place]
        if above[place]:
            values.append(cap)
            counts.append(above[place])
        values += fixed
        counts += ones
        mean = _sum_of(values, counts) / n
        middle = size * mean
        residuals = [(value - middle) / scale for value in values]
        squares = _sum_of([residual * residual for residual in residuals], counts)
        if squares <= 0:
            return mean
        moved = 0.0
        if leans:
            cubes = _sum_of([residual**3 for residual in residuals], counts)
            moved = max(0.0, -cubes / squares**1.5) * (2 * q * q + 1) / 6
        return mean - (q + moved) * sqrt(squares) / n

    return end


_SPLITTER = float(2**27 + 1)


def _sum_of(values: Sequence[float], counts: Sequence[int]) -> float:
    """The sum of values that come so many times, rounded once, as `fsum` of all of them: each is
    split into halves whose products with a count are exact.

    >>> _sum_of([0.1, 0.7], [10, 3]) == fsum([0.1] * 10 + [0.7] * 3)
    True
    """
    parts = []
    for value, many in zip(values, counts, strict=True):
        if many == 1:
            parts.append(value)
        else:
            high = _SPLITTER * value
            high -= high - value
            parts += (high * many, (value - high) * many)
    return fsum(parts)


def _capped(rows: list[_Row], n: int, count: int, q: float) -> float:
    """The best end over all caps, for groups of one size: it rises with the cap as long as the cap
    is less than a certain number of standard deviations above the mean.
    """
    ordered = sorted(rows, key=lambda row: row.total)
    size = ordered[0].size
    z = (count - 1) / (q * sqrt(count)) if q > 0 else inf
    below, total, best = 0, 0.0, -inf
    squares = 0.0  # of deviations from the mean of those below the cap
    previous = 0.0
    for _, value, times, _ in ordered:
        # all from here on are capped: first at this row's value, then at the best one beyond it
        above = count - below
        if below:
            centre = total / below
            steep = (below * below * (count - 1) - z * z * below * above * count) / count**2
            found = value
            if steep > 0:
                found = min(found, centre + sqrt(z * z * squares / steep))
            cap = max(previous, found)
            mean = (total + above * cap) / count
            spread = squares + below * above / count * (cap - centre) ** 2
            best = max(best, mean - q * sqrt(max(0.0, spread) / (count - 1) / count))
            shift = value - centre
        else:
            best = max(best, value)
            shift = 0.0
        squares += shift * shift * below * times / (below + times)
        total += value * times
        below += times
        previous = value
    if below == count and len(ordered) > 1:
        best = max(best, total / count - q * sqrt(squares / (count - 1) / count))
    return best / size


def _cap(rows: list[_Row], n: int, cap: float) -> list[_Row]:
    return [row if row.fixed else row._replace(total=min(row.total, cap)) for row in rows]


def _eased(rows: list[_Row], n: int, cap: float) -> list[_Row]:
    """The totals that are eased to size * m + (1 - size / n) * cap, where m is their own mean: by
    Newton's steps from above, which end, because the mean is piecewise linear in m and concave.
    """
    mean = fsum(row.total * row.times for row in rows) / n
    while True:
        limits = [inf if row.fixed else row.size * mean + (1 - row.size / n) * cap for row in rows]
        eased = [
            row._replace(total=min(row.total, limit))
            for row, limit in zip(rows, limits, strict=True)
        ]
        slope = sum(
            row.size * row.times
            for row, limit in zip(rows, limits, strict=True)
            if limit < row.total
        )
        excess = mean - fsum(row.total * row.times for row in eased) / n
        if slope >= n or excess <= 1e-12 * (abs(mean) + cap):
            return eased
        mean -= excess / (1 - slope / n)


def _caps(rows: list[_Row], n: int) -> tuple[float, float]:
    """From capping everything to capping nothing."""
    mean = fsum(row.total * row.times for row in rows) / n
    return 0.0, max(0.0, *((row.total - row.size * mean) / (1 - row.size / n) for row in rows))


def _largest(value: Callable[[float], float], low: float, high: float) -> float:
    """The largest value of a function that rises and then falls, by golden section."""
    a, b = low, high
    x, y = b - _GOLDEN * (b - a), a + _GOLDEN * (b - a)
    at_x, at_y = value(x), value(y)
    best = max(value(low), value(high), at_x, at_y)
    for _ in range(_STEPS):
        if at_x < at_y:
            a, x, at_x = x, y, at_y
            y = a + _GOLDEN * (b - a)
            at_y = value(y)
        else:
            b, y, at_y = y, x, at_x
            x = b - _GOLDEN * (b - a)
            at_x = value(x)
        best = max(best, at_x, at_y)
    return best
