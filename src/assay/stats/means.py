"""The mean of independent samples with an interval that is valid for few samples, ties, and values
at the end of their range.

Samples that share a group are not independent: see `clusters`. The interval of a share is in
`intervals`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import fsum
from typing import Any

from assay.stats.bounded import Mass
from assay.stats.clusters import estimate_clustered_mean
from assay.stats.estimate import (
    MeanEstimate,
    Moments,
    Range,
    by_bound,
    by_student,
    checked,
    hides_spread,
    none_of,
    root_of,
)
from assay.stats.intervals import Interval


def estimate_mean(
    values: Sequence[float],
    *,
    range: Range | None = None,
    level: float = 0.95,
    guaranteed: bool = False,
    believed: bool = False,
) -> MeanEstimate:
    """The mean of some values, with its interval.

    Student's t if the values show their spread, else the bounded interval. With `guaranteed` it is
    always the bounded interval, which is valid for every n and every distribution within the range,
    and wider. With `believed` it is always Student's t: if all values are equal, an interval
    without width, which is wrong whenever something rare was missed. One sample has no interval.
    The order of the values changes nothing.

    >>> estimate_mean([10.0, 12.0, 11.0, 15.0, 9.0]).interval.method
    'student-t'
    >>> estimate_mean([0.0] * 30).interval.reason
    'fewer than 8 samples differ from the commonest value, so the spread is not known'
    >>> round(estimate_mean([0.0] * 30, range=Range(-100, 100)).interval.low, 2)
    -11.57
    """
    return estimate_counted_mean(
        Counter(checked(values, range)),
        range=range,
        level=level,
        guaranteed=guaranteed,
        believed=believed,
    )


def estimate_counted_mean(
    counts: Counter[float],
    *,
    range: Range | None = None,
    level: float = 0.95,
    guaranteed: bool = False,
    believed: bool = False,
) -> MeanEstimate:
    """Like `estimate_mean`, of counted values, each rounded to `DIGITS` and within the range."""
    n = counts.total()
    if n < 2:
        reason = "one sample has no spread to estimate from" if n else "no samples"
        value = next(iter(counts.elements()), None)
        return none_of(value, n, level=level, method="student-t", reason=reason)
    mean, squares, cubes = _sums(counts, n)
    sd = root_of(squares / (n - 1))
    if guaranteed or (not believed and hides_spread(list(counts.values()))):
        return by_bound(
            (Mass(value, count) for value, count in counts.items()),
            level=level,
            n=n,
            sd=sd,
            range=range,
        )
    moments = Moments(mean, sd / n**0.5, n - 1, cubes / squares**1.5 if squares else 0.0, n)
    return by_student(moments, level=level, method="student-t", n=n, sd=sd, range=range)


def estimate_difference(
    candidate: Sequence[float],
    baseline: Sequence[float],
    *,
    groups: Sequence[Sequence[Hashable | None] | None],
    range: Range | None = None,
    level: float = 0.95,
    guaranteed: bool = False,
) -> MeanEstimate:
    """The difference of the means of two independent sets of samples, candidate minus baseline.

    Welch's t if both sides show their spread and have no `groups` (None); else the two intervals
    are combined end by end (Zou and Donner, the construction behind Newcombe's interval).

    >>> found = estimate_difference([80.0, 85, 90, 95], [70.0, 72, 74, 79], groups=(None, None))
    >>> round(found.interval.value, 2), found.interval.method
    (13.75, 'welch')
    """
    sides = [checked(candidate, range), checked(baseline, range)]
    terms: Any = {"range": range, "level": level, "guaranteed": guaranteed}
    parts = [
        estimate_mean(side, **terms)
        if names is None
        else estimate_clustered_mean(side, names, **terms)
        for side, names in zip(sides, groups, strict=True)
    ]
    ours, theirs = (part.interval for part in parts)
    n = len(sides[0]) + len(sides[1])
    value = (
        ours.value - theirs.value if ours.value is not None and theirs.value is not None else None
    )
    if (
        value is None
        or ours.low is None
        or ours.high is None
        or theirs.low is None
        or theirs.high is None
    ):
        whose = "candidate" if ours.low is None else "baseline"
        return none_of(
            value,
            n,
            level=level,
            method="welch",
            reason=f"{whose}: {ours.reason if ours.low is None else theirs.reason}",
        )
    spread = (
        None if range is None else Range(range.lowest - range.highest, range.highest - range.lowest)
    )
    if all(part.standard_error and part.clusters is None for part in parts):
        return by_student(
            _welch(sides, value), level=level, method="welch", n=n, sd=None, range=spread
        )
    low = value - ((ours.value - ours.low) ** 2 + (theirs.high - theirs.value) ** 2) ** 0.5  # type: ignore[operator]
    high = value + ((ours.high - ours.value) ** 2 + (theirs.value - theirs.low) ** 2) ** 0.5  # type: ignore[operator]
    return MeanEstimate(Interval(value, low, high, level, "combined ends"), n)


def _sums(counts: Counter[float], n: int) -> tuple[float, float, float]:
    """The mean, and the sums of squared and of cubed deviations; the same whatever the order."""
    mean = fsum(value * count for value, count in counts.items()) / n
    deviations = [(value - mean, count) for value, count in counts.items()]
    return (
        mean,
        fsum(d * d * count for d, count in deviations),
        fsum(d * d * d * count for d, count in deviations),
    )


def _welch(sides: Sequence[list[float]], value: float) -> Moments:
    variance = cubes = bottom = 0.0
    for sign, side in zip((1, -1), sides, strict=True):
        n = len(side)
        _, squares, third = _sums(Counter(side), n)
        part = squares / (n - 1) / n
        variance += part
        bottom += part * part / (n - 1)
        cubes += sign * third / n**3
    return Moments(
        value,
        variance**0.5,
        variance * variance / bottom,
        cubes / variance**1.5,
        min(map(len, sides)),
    )
