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

from bisect import bisect_right
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
    if len(set(sizes)) > 1:
        caps = _caps(rows, n)
    else:
        best = inf if fixed else _capped(rows, n, count, q)
        if _plain(rows, n, q, leans=leans) >= best or not (leans or fixed):
            return best
        capped = _Capped(rows, n, q, leans=leans)
        return _largest(capped.end, *capped.range)
    return _largest(lambda cap: _plain(_eased(rows, n, cap), n, q, leans=leans), *caps)


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


def _capped(rows: list[_Row], n: int, count: int, q: float) -> float:
    """The best end over all caps, for groups of one size: it rises with the cap as long as the cap
    is less than a certain number of standard deviations above the mean.
    """
    ordered = sorted(rows, key=lambda row: row.total)
    size = ordered[0].size
    z = (count - 1) / (q * sqrt(count)) if q > 0 else inf
    below, total, best = 0, 0.0, -inf
    squares = 0.0  # of deviations from the mean of those below the cap
    for place, row in enumerate(ordered):
        # all from here on are capped: first at this row's value, then at the best one beyond it
        above = count - below
        if below:
            centre = total / below
            steep = (below * below * (count - 1) - z * z * below * above * count) / count**2
            found = row.total
            if steep > 0:
                found = min(found, centre + sqrt(z * z * squares / steep))
            previous = ordered[place - 1].total
            cap = max(previous, found)
            mean = (total + above * cap) / count
            spread = squares + below * above / count * (cap - centre) ** 2
            best = max(best, mean - q * sqrt(max(0.0, spread) / (count - 1) / count))
        else:
            best = max(best, row.total)
        shift = row.total - (total / below if below else row.total)
        squares += shift * shift * below * row.times / (below + row.times)
        total += row.total * row.times
        below += row.times
    if below == count and len(ordered) > 1:
        best = max(best, total / count - q * sqrt(squares / (count - 1) / count))
    return best / size


class _Capped:
    """The end of totals that are cut at a cap, for groups of one size: each cap takes one look-up
    in sums of powers, of totals less their mean.
    """

    def __init__(self, rows: list[_Row], n: int, q: float, *, leans: bool) -> None:
        free = sorted((row.total, row.times) for row in rows if not row.fixed)
        self._n, self._q, self._leans = n, q, leans
        self._size = rows[0].size
        self._count = sum(row.times for row in rows)
        self._centre = fsum(total * times for total, times in free) / sum(
            times for _, times in free
        )
        self.range = free[0][0], free[-1][0]
        self._totals = [total for total, _ in free]
        centred = [(total - self._centre, times) for total, times in free]
        self._sums = [
            list(accumulate((value**power * times for value, times in centred), initial=0.0))
            for power in range(4)
        ]
        fixed = [(row.total - self._centre, row.times) for row in rows if row.fixed]
        self._fixed = [fsum(value**power * times for value, times in fixed) for power in range(4)]

    def end(self, cap: float) -> float:
        """The end if no total is above the cap."""
        place = bisect_right(self._totals, cap)
        above = self._sums[0][-1] - self._sums[0][place]
        at = cap - self._centre
        sums = [
            self._sums[power][place] + self._fixed[power] + above * at**power for power in range(4)
        ]
        shift, count = sums[1] / self._count, self._count
        mean = (self._centre + shift) / self._size
        spread = max(0.0, sums[2] - count * shift * shift)
        scale = 1 - self._size / self._n
        squares = spread / scale
        if squares <= 0:
            return mean
        moved = 0.0
        if self._leans:
            cubes = (sums[3] - 3 * shift * sums[2] + 2 * count * shift**3) / scale**1.5
            moved = max(0.0, -cubes / squares**1.5) * (2 * self._q * self._q + 1) / 6
        return mean - (self._q + moved) * sqrt(squares) / self._n


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
