"""The mean of samples that share groups: questions on one document, turns of one conversation,
repeats of one item.

Such samples repeat each other, and counting them as independent makes every interval too narrow.
The standard error is the cluster-robust one with the small-sample correction CR2; the degrees of
freedom follow Bell and McCaffrey, with the correlation inside groups as Imbens and Kolesár estimate
it. Groups of one size n give Student's t on the group means; groups of one sample give Student's t
on the samples. A sample without a group (None) is its own group.

Below `MINIMUM` groups there is no interval. Sources: Bell and McCaffrey, Bias reduction in standard
errors for linear regression with multi-stage samples, 2002; Imbens and Kolesár, Robust standard
errors in small samples, 2016; the closed forms for a mean are worked out here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from math import fsum, sqrt
from typing import NamedTuple

from assay.errors import count
from assay.grouping import grouped
from assay.stats.bounded import Mass
from assay.stats.estimate import (
    DIGITS,
    MeanEstimate,
    Moments,
    Range,
    by_bound,
    by_student,
    checked,
    counted_sum,
    hides_spread,
    none_of,
)
from assay.stats.intervals import Interval, normal_quantile, t_quantile, wilson

MINIMUM = 5
"""The minimum number of groups for an estimate of the spread between groups."""
METHOD = "cluster-robust t"


class Groups(NamedTuple):
    """The sums over the samples of each group."""

    sizes: list[int]
    totals: list[float]
    squares: list[float]
    times: list[int]
    """How many groups are alike in all three."""

    @classmethod
    def of(cls, members: Iterable[Counter[float]], singles: Mapping[float, int]) -> Groups:
        """Groups by the values that were counted in each; `singles` are groups of one sample."""
        rows = [
            (
                values.total(),
                counted_sum(values.items()),
                counted_sum((value * value, times) for value, times in values.items()),
                1,
            )
            for values in members
        ]
        rows += [(1, value, value * value, times) for value, times in singles.items()]
        return cls.in_order(rows)

    @classmethod
    def in_order(cls, sums: Iterable[tuple[int, float, float, int]]) -> Groups:
        """Groups sorted by size and sums, so that results do not depend on the order of input."""
        columns = [list(column) for column in zip(*sorted(sums), strict=True)]
        return cls(*columns) if columns else cls([], [], [], [])

    @property
    def number(self) -> int:
        """How many groups there are."""
        return sum(self.times)

    def rows(self) -> Iterator[tuple[int, float, float, int]]:
        """Size, sum, sum of squares and how many groups have these."""
        return zip(*self, strict=True)

    def with_others(self, others: Groups) -> Groups:
        """Both together."""
        return Groups.in_order([*self.rows(), *others.rows()])


def estimate_clustered_mean(
    values: Sequence[float],
    groups: Sequence[Hashable | None],
    *,
    range: Range | None = None,
    level: float = 0.95,
    guaranteed: bool = False,
    believed: bool = False,
) -> MeanEstimate:
    """The mean of all samples, equally weighted, with an interval for groups drawn at random.

    If hardly any group differs from the others, the interval is the bounded one over groups; if
    every group has one sample, the result is that of `estimate_mean`.

    >>> found = estimate_clustered_mean(
    ...     [1.0, 2, 2, 3, 5, 5, 4, 4, 7, 9], ["a", "a", "b", "b", "c", "c", "d", "d", "e", "e"]
    ... )
    >>> found.interval.method, found.df, found.clusters
    ('cluster-robust t', 4.0, 5)
    """
    values_checked = checked(values, range)
    return estimate_grouped_mean(
        Counter(values_checked),
        gather(values_checked, groups),
        range=range,
        level=level,
        guaranteed=guaranteed,
        believed=believed,
    )


def estimate_grouped_mean(
    counts: Counter[float],
    gathered: Groups,
    *,
    range: Range | None = None,
    level: float = 0.95,
    guaranteed: bool = False,
    believed: bool = False,
) -> MeanEstimate:
    """Like `estimate_clustered_mean`, of counted values, each rounded to `DIGITS` and within the
    range, and of the sums of each group.
    """
    n, count = counts.total(), gathered.number
    mean = counted_sum(zip(gathered.totals, gathered.times, strict=True)) / n if n else None
    if mean is None or count < MINIMUM:
        reason = (
            f"{count} groups; below {MINIMUM} the spread between groups is not known"
            if n
            else "no samples"
        )
        return none_of(mean, n, level=level, method=METHOD, reason=reason, clusters=count)
    squares = counted_sum(((value - mean) ** 2, times) for value, times in counts.items())
    sd = sqrt(max(0.0, squares / (n - 1)))
    means: Counter[tuple[float, int]] = Counter()
    for size, total, _, times in gathered.rows():
        means[round(total / size, DIGITS), size] += times
    values_only: Counter[float] = Counter()
    for (value, _), times in means.items():
        values_only[value] += times
    if guaranteed or (not believed and hides_spread(list(values_only.values()))):
        masses = [Mass(value, times, float(size)) for (value, size), times in means.items()]
        return by_bound(masses, level=level, n=n, sd=sd, clusters=count, range=range)
    moments = _moments(gathered, mean, n)
    return by_student(moments, level=level, method=METHOD, n=n, sd=sd, clusters=count, range=range)


def _name(group: Hashable | None, place: int) -> Hashable:
    """A sample without a group is its own group."""
    return (None, place) if group is None else (group,)


def gather(values: Sequence[float], groups: Sequence[Hashable | None]) -> Groups:
    """The size, the sum and the sum of squares of each group, the smallest first; groups that are
    alike are counted.
    """
    alone: Counter[float] = Counter()
    shared: list[tuple[Hashable, float]] = []
    for value, group in zip(values, groups, strict=True):
        if group is None:
            alone[value] += 1
        else:
            shared.append((group, value))
    alike = Counter(
        (len(members), fsum(members), fsum(value * value for value in members))
        for members in grouped(shared).values()
    )
    for value, times in alone.items():
        alike[1, value, value * value] += times
    return Groups.in_order((*sums, times) for sums, times in alike.items())


def _moments(groups: Groups, mean: float, n: int) -> Moments:
    """The CR2 standard error of the mean, and its degrees of freedom."""
    residuals = [
        ((total - size * mean) / sqrt(1 - size / n), times)
        for size, total, _, times in groups.rows()
    ]
    squares = counted_sum((residual * residual, times) for residual, times in residuals)
    cubes = counted_sum((residual**3, times) for residual, times in residuals)
    df = degrees_of_freedom(groups.sizes, n, _alikeness(groups, mean, n), times=groups.times)
    return Moments(
        mean, sqrt(squares) / n, df, cubes / squares**1.5 if squares else 0.0, groups.number
    )


def _alikeness(groups: Groups, mean: float, n: int) -> float:
    """The correlation inside groups, from 0 to 1, by the analysis of variance."""
    count = groups.number
    between = counted_sum(
        (size * (total / size - mean) ** 2, times) for size, total, _, times in groups.rows()
    ) / (count - 1)
    if n == count:
        return 0.0
    within = max(
        0.0,
        counted_sum(
            (square - total * total / size, times) for size, total, square, times in groups.rows()
        ),
    ) / (n - count)
    squared = sum(size * size * times for size, _, _, times in groups.rows())
    typical = (n - squared / n) / (count - 1)
    shared = (between - within) / typical
    return 0.0 if shared <= 0 else shared / (shared + within)


def degrees_of_freedom(
    sizes: Sequence[int], n: int, alikeness: float, *, times: Sequence[int] | None = None
) -> float:
    """Satterthwaite's degrees of freedom of the CR2 variance, for that correlation inside groups.

    The variance is a quadratic form; this is the square of its trace over the sum of its squared
    entries, in time that grows with the groups only.
    """
    counts = [1] * len(sizes) if times is None else times
    if len(set(sizes)) == 1:
        return float(sum(counts) - 1)
    squared = sum(size * size * count for size, count in zip(sizes, counts, strict=True))
    flat, tilt = (1 - alikeness) / n - alikeness * squared / n**2, alikeness / n
    trace = diagonal = zero = linear = two = 0.0
    # added one by one, so that counted groups give the same result as listed ones
    for size in chain.from_iterable(map(repeat, sizes, counts)):
        scale = 1 / (n * n * (1 - size / n))
        weight = scale * size * size
        entry = scale * size * (1 - alikeness + alikeness * size)
        shared = weight * (flat + 2 * tilt * size)
        trace += entry - shared
        diagonal += entry * (entry - 2 * shared)
        zero += weight
        linear += weight * size
        two += weight * size * size
    return (
        trace
        * trace
        / (
            diagonal
            + flat * flat * zero * zero
            + 2 * tilt * tilt * (two * zero + linear * linear)
            + 4 * flat * tilt * linear * zero
        )
    )


def sampled_share(samples: Mapping[tuple[int, int], int], *, level: float = 0.95) -> Interval:
    """The mean over samples of the share of their runs that pass, with Wilson's interval for
    samples drawn at random: repeats of a sample are not independent. `samples` counts them by
    passing runs and runs.

    The interval is that of the number of independent runs which would have the same variance: at
    least the number of samples, which is right if every sample agrees with itself, and at most that
    of the runs. With one run of each sample it is `wilson`.

    >>> six = sampled_share({(30, 30): 3, (0, 30): 3})
    >>> round(six.low, 3), round(six.high, 3)
    (0.188, 0.812)

    Source: Korn and Graubard, Confidence intervals for proportions with small expected number of
    positive counts estimated from survey data, 1998; with Wilson's interval in place of the exact
    one.
    """
    n = sum(samples.values())
    runs = sum(size * times for (_, size), times in samples.items())
    if runs == n:
        return wilson(sum(passed * times for (passed, _), times in samples.items()), n, level=level)
    shares = [(passed / size, times) for (passed, size), times in sorted(samples.items())]
    mean = counted_sum(shares) / n
    size = float(n)
    if n >= MINIMUM and 0 < mean < 1:
        spread = counted_sum(((share - mean) ** 2, times) for share, times in shares) / (n - 1)
        narrowed = (normal_quantile(0.5 + level / 2) / t_quantile(0.5 + level / 2, n - 1)) ** 2
        free = mean * (1 - mean) * n * narrowed / spread if spread else runs
        size = min(float(runs), max(size, free))
    found = wilson(mean * size, size, level=level)
    return found._replace(value=mean, method="wilson, over samples")


def freedom_of_sizes(sizes: Sequence[int], n: int, *, times: Sequence[int]) -> float:
    """The fewest degrees of freedom that groups of these sizes can have, whatever their values."""
    return min(
        degrees_of_freedom(sizes, n, alikeness, times=times) for alikeness in (0.0, 0.5, 1.0)
    )


LEAST_GROUPS = 10
"""Fewer groups with labels than this don't show how alike the rows of one group are."""


class Design(NamedTuple):
    """How much an interval grows because rows come in groups."""

    effect: float
    z: float
    reason: str | None = None


def design(
    influence: Sequence[float],
    groups: Sequence[Hashable] | None,
    *,
    level: float,
    labelled: Sequence[int] | None = None,
) -> Design:
    """The design effect of groups, at least 1, and the quantile to use: the normal one without
    groups, else Student's t with the number of groups that have labels.
    """
    z = quantile(level, None)
    if groups is None:
        return Design(1.0, z)
    telling = {groups[index] for index in labelled} if labelled is not None else set(groups)
    if len(telling) < LEAST_GROUPS:
        return Design(
            1.0,
            z,
            f"{count(len(telling), 'group')}; at least {LEAST_GROUPS} are needed to see how alike"
            " the rows of one group are",
        )
    sums: dict[Hashable, float] = {}
    for part, group in zip(influence, groups, strict=True):
        sums[group] = sums.get(group, 0.0) + part
    alone = fsum(part * part for part in influence)
    n, rows = len(sums), len(influence)
    mean_size = (len(labelled) if labelled is not None else rows) / len(telling)
    # rows that are all alike show no design effect; then each group counts as one row, the worst
    # case
    together = fsum(part * part for part in sums.values()) * n / (n - 1) * (rows - 1) / rows
    effect = max(1.0, together / alone) if alone > 0 else mean_size
    return Design(effect, quantile(level, len(telling) - 1))


def quantile(level: float, df: float | None) -> float:
    """The two-sided quantile of Student's t, or of the normal distribution for `df` None."""
    return normal_quantile(0.5 + level / 2) if df is None else t_quantile(0.5 + level / 2, df)
