"""The mean of independent samples with an interval that is valid for few samples, ties, and values
at the end of their range.

Samples that share a group are not independent: see `clusters`. The interval of a share is in
`intervals`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import fsum

from assay.stats.bounded import Mass
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


def _sums(counts: Counter[float], n: int) -> tuple[float, float, float]:
    """The mean, and the sums of squared and of cubed deviations; the same whatever the order."""
    mean = fsum(value * count for value, count in counts.items()) / n
    deviations = [(value - mean, count) for value, count in counts.items()]
    return (
        mean,
        fsum(d * d * count for d, count in deviations),
        fsum(d * d * d * count for d, count in deviations),
    )
