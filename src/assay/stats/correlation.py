"""Correlation of two raters: Pearson, Spearman, Kendall's tau-b, each in at most n log n steps.

Each interval is Fisher's, with the textbook variance of z or with the standard error that the items
themselves show, whichever is wider: the textbook variance is valid for normal values only. In the
second, an item far from the others has more weight, as in MacKinnon and White's HC3: on skewed
ratings a few rare ones decide. If a rater gave one rating to all items, the correlation is None
with the reason, never 0 and never NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from math import fsum, isqrt, sqrt
from operator import itemgetter
from typing import NamedTuple

from assay.stats.influence import IMAGINED, leverage, tails, wider_z_interval
from assay.stats.intervals import Interval

Number = int | float
_CONSTANT = "a rater gave one and the same rating to every item"
_NONE = "no item was rated by both"


def _paired(
    first: Sequence[Number | None], second: Sequence[Number | None]
) -> tuple[list[Number], list[Number], str]:
    """The items that both rated, and why they have no correlation; empty if they have one."""
    both = [
        (x, other)
        for x, other in zip(first, second, strict=True)
        if x is not None and other is not None
    ]
    xs, ys = [x for x, _ in both], [other for _, other in both]
    reason = _NONE if not both else _CONSTANT if len(set(xs)) < 2 or len(set(ys)) < 2 else ""
    return xs, ys, reason


def pearson(
    first: Sequence[Number | None], second: Sequence[Number | None], *, level: float = 0.95
) -> Interval:
    """Pearson's correlation of values, from -1 to 1; items that either did not rate (None) are left
    out.

    >>> round(pearson([1, 2, 3, 4], [1, 3, 2, 4]).value, 12)
    0.8

    Source: the interval of Fisher, 1921, with variance 1 / (n - 3).
    """
    method = "fisher-z"
    xs, ys, reason = _paired(first, second)
    if reason:
        return Interval.unknown(None, level, method, reason)
    n = len(xs)
    x, y = _ranked(xs), _ranked(ys)
    a, b = _standard(x), _standard(y)
    if a is None or b is None:
        return Interval.unknown(
            None,
            level,
            method,
            "the ratings differ by less than numbers of this size can show",
        )
    cells = Counter(zip(x.places, y.places, strict=True))
    value = _within(fsum(times * a[i] * b[j] for (i, j), times in cells.items()) / n)
    # imagined items, in the same and in the opposite order in the proportion that the correlation
    # gives: they leave means and variances as they are
    imagined = [
        (
            IMAGINED * share / n,
            [(i, j, times) for i, j, times in _together(x.counts, y.counts, turned=turned)],
        )
        for turned, share in ((False, (1 + value) / 2), (True, (1 - value) / 2))
    ]
    total = n + IMAGINED
    centre = (
        n * value
        + sum(
            weight * fsum(times * a[i] * b[j] for i, j, times in pairs)
            for weight, pairs in imagined
        )
    ) / total
    squares = 0.0
    for weight, pairs in ((1.0, [(i, j, times) for (i, j), times in cells.items()]), *imagined):
        squares += weight * fsum(
            times
            * (
                (a[i] * b[j] - centre * (a[i] ** 2 + b[j] ** 2) / 2)
                / (1 - weight * leverage(a[i], b[j], centre, total))
            )
            ** 2
            for i, j, times in pairs
        )
    return wider_z_interval(
        value,
        centre,
        1 / max(1, n - 3),
        sqrt(squares / (total * max(1, n - 1))),
        n,
        level=level,
        method=method,
    )


def _together(
    first: Sequence[int], second: Sequence[int], *, turned: bool
) -> Iterator[tuple[int, int, int]]:
    """The items of both raters side by side in the order of their ratings, or of the one against
    that of the other: places and how many items.

    >>> list(_together([1, 2], [2, 1], turned=False)), list(_together([1, 2], [2, 1], turned=True))
    ([(0, 0, 1), (1, 0, 1), (1, 1, 1)], [(0, 1, 1), (1, 0, 2)])
    """
    places = range(len(second) - 1, -1, -1) if turned else range(len(second))
    other = iter([(j, second[j]) for j in places])
    j, left = next(other)
    for i, count in enumerate(first):
        while count:
            taken = min(count, left)
            yield i, j, taken
            count, left = count - taken, left - taken
            if not left:
                j, left = next(other, (j, 0))


def _within(value: float) -> float:
    return max(-1.0, min(1.0, value))


class _Ranks(NamedTuple):
    """The distinct values in order, how many items have each, and the place of every item's value
    among them.
    """

    values: list[Number]
    counts: list[int]
    places: list[int]


def _ranked(values: Sequence[Number]) -> _Ranks:
    counts = Counter(values)
    order = sorted(counts)
    place = {value: index for index, value in enumerate(order)}
    return _Ranks(order, [counts[value] for value in order], [place[value] for value in values])


def _standard(ranked: _Ranks) -> list[float] | None:
    """The distinct values, moved and scaled so that the items have mean 0 and mean square 1; None
    if they are too close to tell apart.
    """
    n = sum(ranked.counts)
    values = [float(value) for value in ranked.values]
    mean = fsum(times * value for times, value in zip(ranked.counts, values, strict=True)) / n
    widest = max(abs(value - mean) for value in values)
    if not widest:
        return None
    relative = [(value - mean) / widest for value in values]
    spread = sqrt(
        fsum(times * value * value for times, value in zip(ranked.counts, relative, strict=True))
        / n
    )
    return [value / spread for value in relative]


def spearman(
    first: Sequence[Number | None], second: Sequence[Number | None], *, level: float = 0.95
) -> Interval:
    """Spearman's rank correlation, with mid-ranks for ties; items that either did not rate (None)
    are left out.

    >>> round(spearman([1, 2, 3, 4], [10, 30, 20, 400]).value, 12)
    0.8

    Source: the interval of Bonett and Wright, 2000, with variance (1 + r * r / 2) / (n - 3).
    """
    method = "fisher-z-bonett-wright"
    xs, ys, reason = _paired(first, second)
    if reason:
        return Interval.unknown(None, level, method, reason)
    n = len(xs)
    x, y = _ranked(xs), _ranked(ys)
    ranks_x, ranks_y = _doubled(x.counts, n), _doubled(y.counts, n)
    square_x, square_y = _squares(ranks_x, x.counts), _squares(ranks_y, y.counts)
    cells = Counter(zip(x.places, y.places, strict=True))
    product = sum(times * ranks_x[i] * ranks_y[j] for (i, j), times in cells.items())
    value = _within(_over_root(product, square_x, square_y))
    unit_x, unit_y = sqrt(square_x / n), sqrt(square_y / n)
    a, b = [rank / unit_x for rank in ranks_x], [rank / unit_y for rank in ranks_y]
    # one more item also moves the ranks of all others, and so the covariance and both variances
    other_x, other_y = [0.0] * len(a), [0.0] * len(b)
    for (i, j), times in cells.items():
        other_x[i] += times * (b[j] - value * a[i])
        other_y[j] += times * (a[i] - value * b[j])
    by_x, by_y = tails(other_x), tails(other_y)
    moves = {
        (i, j): (
            a[i] * b[j]
            - value * (a[i] ** 2 + b[j] ** 2) / 2
            + 2 * (by_x[i] / unit_x + by_y[j] / unit_y)
        )
        for i, j in cells
    }
    middle = fsum(times * moves[cell] for cell, times in cells.items()) / n
    shown = fsum(
        times * ((moves[i, j] - middle) / (1 - leverage(a[i], b[j], value, n))) ** 2
        for (i, j), times in cells.items()
    )
    return wider_z_interval(
        value,
        value,
        (1 + value * value / 2) / max(1, n - 3),
        sqrt(shown / (n * max(1, n - 1))),
        n,
        level=level,
        method=method,
    )


def _doubled(counts: Sequence[int], n: int) -> list[int]:
    """Twice the mid-rank of each distinct value, less its mean: whole numbers, so nothing is
    rounded.
    """
    up_to = accumulate(counts)
    return [2 * below_or_at - count - n for count, below_or_at in zip(counts, up_to, strict=True)]


def _squares(ranks: Sequence[int], counts: Sequence[int]) -> int:
    return sum(count * rank * rank for count, rank in zip(counts, ranks, strict=True))


def _unit(ranks: Sequence[int], counts: Sequence[int]) -> list[float]:
    """Ranks scaled so that the items have mean square 1."""
    unit = sqrt(_squares(ranks, counts) / sum(counts))
    return [rank / unit for rank in ranks]


def _over_root(product: int, square_x: int, square_y: int) -> float:
    """The product over the root of two squares, of whole numbers of any size."""
    both = square_x * square_y
    return product / (isqrt(both) if both.bit_length() > 1000 else sqrt(both))


def kendall_tau_b(
    first: Sequence[Number | None], second: Sequence[Number | None], *, level: float = 0.95
) -> Interval:
    """Kendall's tau-b: pairs of items in the same order less pairs in opposite order, with ties
    allowed for; from -1 to 1.

    >>> round(kendall_tau_b([1, 2, 3, 4], [1, 3, 2, 4]).value, 12)
    0.666666666667

    Source: Kendall, 1945; the interval of Fieller, Hartley and Pearson, 1957, with variance 0.437 /
    (n - 4).
    """
    method = "fisher-z-fieller"
    xs, ys, reason = _paired(first, second)
    if reason:
        return Interval.unknown(None, level, method, reason)
    n = len(xs)
    x, y = _ranked(xs), _ranked(ys)
    cells = Counter(zip(x.places, y.places, strict=True))
    order = _concordance(cells, x.counts, y.counts)
    score = sum(times * order[cell] for cell, times in cells.items())
    apart_x, apart_y = (
        n * n - sum(count * count for count in x.counts),
        n * n - sum(count * count for count in y.counts),
    )
    root = _over_root(1, apart_x, apart_y)
    value = _within(_over_root(score, apart_x, apart_y))
    a, b = _unit(_doubled(x.counts, n), x.counts), _unit(_doubled(y.counts, n), y.counts)
    along = _within(fsum(times * a[i] * b[j] for (i, j), times in cells.items()) / n)
    moves = {
        (i, j): (
            n
            * (
                2 * order[i, j] * root
                - value * ((n - x.counts[i]) / apart_x + (n - y.counts[j]) / apart_y)
            )
        )
        for i, j in cells
    }
    shown = fsum(
        times * (moves[i, j] / (1 - leverage(a[i], b[j], along, n))) ** 2
        for (i, j), times in cells.items()
    )
    return wider_z_interval(
        value,
        value,
        0.437 / max(1, n - 4),
        sqrt(shown / (n * max(1, n - 1))),
        n,
        level=level,
        method=method,
    )


def _concordance(
    cells: Counter[tuple[int, int]], counts_x: Sequence[int], counts_y: Sequence[int]
) -> dict[tuple[int, int], int]:
    """For an item of each cell: items in the same order with it less items in opposite order, by a
    tree of sums over the second rater's places.
    """
    n, size = sum(counts_x), len(counts_y)
    up_to_y = list(accumulate(counts_y))
    tree = [0] * (size + 1)
    order: dict[tuple[int, int], int] = {}
    below_x = 0
    for i, group in groupby(sorted(cells), key=itemgetter(0)):
        row = list(group)
        same_row = 0  # items of the same first rating and a lower second one
        for cell in row:
            j = cell[1]
            below, step = 0, j
            while step:
                below += tree[step]
                step &= step - 1
            up_to, step = 0, j + 1
            while step:
                up_to += tree[step]
                step &= step - 1
            here = cells[cell]
            lower_y = up_to_y[j] - counts_y[j]
            above = n - below_x - counts_x[i] - (up_to_y[j] - up_to - same_row - here)
            order[cell] = (below + above) - (below_x - up_to) - (lower_y - below - same_row)
            same_row += here
        for cell in row:
            here, step = cells[cell], cell[1] + 1
            while step <= size:
                tree[step] += here
                step += step & -step
        below_x += counts_x[i]
    return order
