"""Whether two sets of verdicts on the same items differ: an exact test, and the change of kappa."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import fsum, sqrt

from assay.errors import count
from assay.stats.agreement import cohen_kappa, count_pairs
from assay.stats.intervals import Interval, binomial_cdf, t_quantile

LEAST_ITEMS = 20
"""The number of items that the jackknife of a difference of kappas needs."""

LEAST_CHANGED = 5
"""The number of changed verdicts it needs: seeing none doesn't mean that there are none."""


def more_than(count: int, n: int, share: float) -> float:
    """The exact one-sided p-value of "the true share is at most `share`", from `count` of n.

    >>> round(more_than(8, 30, 0.1), 4)
    0.0078
    """
    return 1 - binomial_cdf(count - 1, n, share)


def kappa_change(
    truth: Sequence[Hashable],
    before: Sequence[Hashable],
    now: Sequence[Hashable],
    *,
    level: float = 0.95,
) -> Interval:
    """How much Cohen's kappa with the truth has changed between two sets of verdicts on the same
    items, by the jackknife over items.

    >>> kappa_change([1, 0] * 15, [1, 0] * 15, [1, 0] * 14 + [0, 1]).value < 0
    True
    """
    method = "jackknife-t"
    n = len(truth)
    whole = _difference(truth, before, now)
    if whole is None:
        return Interval.unknown(
            None,
            level,
            method,
            "all labels and verdicts are the same: kappa is not defined",
        )
    if n < LEAST_ITEMS:
        return Interval.unknown(
            whole, level, method, f"{count(n, 'item')}; at least {LEAST_ITEMS} are needed"
        )
    changed = sum(earlier != other for earlier, other in zip(before, now, strict=True))
    if changed < LEAST_CHANGED:
        return Interval.unknown(
            whole,
            level,
            method,
            f"{count(changed, 'verdict')} changed; an interval needs at least {LEAST_CHANGED}",
        )
    parts: dict[tuple[Hashable, Hashable, Hashable], float | None] = {}
    pseudo = []
    for index, item in enumerate(zip(truth, before, now, strict=True)):
        if item not in parts:  # items that are alike leave the same rest
            parts[item] = _difference(
                *(
                    list(column[:index]) + list(column[index + 1 :])
                    for column in (truth, before, now)
                )
            )
        left = parts[item]
        if left is None:
            return Interval.unknown(
                whole, level, method, "without one of the items kappa is not defined"
            )
        pseudo.append(n * whole - (n - 1) * left)
    mean = fsum(pseudo) / n
    error = sqrt(fsum((value - mean) ** 2 for value in pseudo) / (n - 1) / n)
    half = t_quantile(0.5 + level / 2, n - 1) * error
    return Interval(whole, max(-2.0, whole - half), min(2.0, whole + half), level, method)


def _difference(
    truth: Sequence[Hashable], before: Sequence[Hashable], now: Sequence[Hashable]
) -> float | None:
    first, second = (cohen_kappa(count_pairs(truth, verdicts)).value for verdicts in (before, now))
    return None if first is None or second is None else second - first
