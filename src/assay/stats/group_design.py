"""How much an interval grows because rows come in groups: the design effect that they show."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import fsum
from typing import NamedTuple

from assay.errors import count
from assay.stats.intervals import normal_quantile, t_quantile

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
