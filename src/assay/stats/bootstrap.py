"""Bootstrap intervals of a mean: percentile and BCa, seeded. Needs numpy, the extra `stats`.

Graded data has few distinct values; a resample of it is then one multinomial draw of their counts,
which is equivalent and much faster. Otherwise places are drawn in blocks that stay in the cache.
Groups are drawn whole, as sums and sizes. Values are sorted first: their order changes nothing.

A resample contains only values of the sample. With few samples, or with hardly any that differ, the
interval is too narrow and is refused: see `means` for intervals that are valid there. Source:
Efron, Better bootstrap confidence intervals, 1987.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import Any, Literal

from assay.errors import UsageError
from assay.installing import import_extra
from assay.stats.clusters import gather
from assay.stats.estimate import SEEN, checked, hides_spread
from assay.stats.intervals import Interval

MINIMUM = 30
"""Samples, or groups, below which no bootstrap interval is given."""
_FEW = 50
"""Samples to one distinct value, from which counts are drawn."""
_BLOCK = 1 << 16
"""Indices drawn at once."""

Method = Literal["percentile", "bca"]


def bootstrap_mean(
    values: Sequence[float],
    *,
    seed: int,
    method: Method = "bca",
    groups: Sequence[Hashable | None] | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
) -> Interval:
    """The interval of a mean; whole groups are drawn where there are groups.

    >>> found = bootstrap_mean([1.0, 2.0, 3.0, 4.0] * 25, seed=1)
    >>> found.value, 2.2 < found.low < 2.4, found.method
    (2.5, True, 'bootstrap-bca')
    """
    samples = checked(values, None)
    name = f"bootstrap-{method}" if groups is None else f"cluster bootstrap-{method}"
    if not samples:
        return Interval.unknown(None, level, name, "no samples")
    np = import_extra(
        "numpy",
        "stats",
        "a bootstrap interval needs numpy, which is not installed.",
        code="STA-001",
    )
    if groups is None:
        sums, sizes = np.sort(np.asarray(samples)), None
    else:
        gathered = sorted(zip(*gather(samples, groups)[:2], strict=True))
        sizes, sums = (
            np.array([size for size, _ in gathered], float),
            np.array([total for _, total in gathered]),
        )
    mean = float(np.sum(sums) / (len(sums) if sizes is None else np.sum(sizes)))
    what = "samples" if groups is None else "groups"
    if len(sums) < MINIMUM:
        return Interval.unknown(
            mean,
            level,
            name,
            f"{len(sums)} {what}; a bootstrap interval needs {MINIMUM}",
        )
    if hides_spread(
        list(Counter((sums if sizes is None else np.round(sums / sizes, 9)).tolist()).values())
    ):
        return Interval.unknown(
            mean,
            level,
            name,
            f"fewer than {SEEN} {what} differ from the commonest value, so the spread is not known",
        )
    random = np.random.Generator(np.random.PCG64(seed))
    means = (
        _means(np, random, sums, resamples)
        if sizes is None
        else _ratios(np, random, sums, sizes, resamples)
    )
    shares = [(1 - level) / 2, (1 + level) / 2]
    if method == "bca":
        shares = _corrected(np, means, sums, sizes, mean, shares)
    low, high = np.quantile(means, shares).tolist()
    return Interval(mean, low, high, level, name)


def _means(np: Any, random: Any, values: Any, resamples: int) -> Any:
    """The mean of each resample."""
    n = len(values)
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) * _FEW <= n:
        return _counted(np, random, n, counts / n, distinct[:, None], resamples)[:, 0] / n
    return _drawn(np, random, [values], resamples)[0] / n


def _ratios(np: Any, random: Any, sums: Any, sizes: Any, resamples: int) -> Any:
    """The mean of each resample of whole groups: the total of their sums over the total of their
    sizes.
    """
    totals, counted = _drawn(np, random, [sums, sizes], resamples)
    return totals / counted


def _counted(np: Any, random: Any, n: int, chances: Any, columns: Any, resamples: int) -> Any:
    """Weighted sums of the columns by the counts of each resample."""
    rows = max(1, _BLOCK // len(chances))
    parts = [
        random.multinomial(n, chances, size=min(rows, resamples - start)) @ columns
        for start in range(0, resamples, rows)
    ]
    return np.concatenate(parts)


def _drawn(np: Any, random: Any, columns: list[Any], resamples: int) -> list[Any]:
    """The sum of each column over each resample.

    A place is a random 32-bit number times n, shifted down by 32 bits: off its fair chance by less
    than n in 2**32.
    """
    n = len(columns[0])
    if n >= 1 << 24:
        raise UsageError(
            "STA-001",
            f"{n:,} distinct samples are too many to draw from.",
            fix="With so many, Student's interval is the same.",
        )
    rows = max(1, _BLOCK // n)
    totals = [np.empty(resamples) for _ in columns]
    wide, drawn = np.empty(rows * n, np.uint64), np.empty(rows * n)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        size = count * n
        raw = random.bit_generator.random_raw((size + 1) // 2).view(np.uint32)[:size]
        np.multiply(raw, np.uint64(n), out=wide[:size])
        np.right_shift(wide[:size], np.uint64(32), out=wide[:size])
        for column, sums in zip(columns, totals, strict=True):
            # every place is below n: "clip" only skips numpy's check
            np.take(column, wide[:size].view(np.int64), out=drawn[:size], mode="clip")
            np.sum(drawn[:size].reshape(count, n), axis=1, out=sums[start : start + count])
    return totals


def _corrected(
    np: Any, means: Any, sums: Any, sizes: Any, mean: float, shares: list[float]
) -> list[float]:
    """The shares whose quantiles are the BCa ends: corrected for the median bias of the resamples,
    and for how the standard error changes with the mean.
    """
    normal = NormalDist()
    below = (float(np.mean(means < mean)) + float(np.mean(means <= mean))) / 2
    bias = normal.inv_cdf(min(max(below, 1 / len(means)), 1 - 1 / len(means)))
    if sizes is None:
        pulls = sums - mean  # leaving one out moves the mean by this, over n - 1
    else:
        left_out = (np.sum(sums) - sums) / (np.sum(sizes) - sizes)
        pulls = np.mean(left_out) - left_out
    squares = float(np.sum(pulls**2))
    acceleration = float(np.sum(pulls**3)) / (6 * squares**1.5)
    ends = []
    for share in shares:
        z = bias + normal.inv_cdf(share)
        ends.append(normal.cdf(bias + z / (1 - acceleration * z)))
    return ends
