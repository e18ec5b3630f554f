"""A candidate against a baseline: the difference, what it shows, and what it could have shown.

Scores are on 0..100 and a difference is candidate minus baseline. A claim is shown where the whole
95% interval supports it: not worse than the margin, better, within the margin on both sides, worse
than the margin. Each end errs in at most 2.5%. A claim that isn't shown isn't refuted:
`non_inferior` false and `inferior` false together mean that the interval straddles the margin.
Where there is no interval every claim is None, and that never promotes.

`release` decides; it also chooses the samples and how a missing one counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from assay.stats.clusters import Groups, estimate_grouped_mean
from assay.stats.estimate import DIFFERENCES, MeanEstimate, on_scale
from assay.stats.intervals import Interval
from assay.stats.means import estimate_counted_mean
from assay.stats.power import detectable_given


class Claims(NamedTuple):
    """What an interval shows against a margin; all None if it has no ends."""

    non_inferior: bool | None
    """The lower end is above minus the margin."""
    inferior: bool | None
    """The upper end is below minus the margin: shown to be worse than allowed."""
    superior: bool | None
    """The lower end is above 0."""
    equivalent: bool | None
    """Both ends are within the margin."""


class Comparison(NamedTuple):
    """Two sides compared on their scores."""

    n_candidate: int
    n_baseline: int
    n_paired: int
    difference: Interval
    margin: float
    claims: Claims
    p_non_inferior: float | None
    """One-sided; None if there is no interval."""
    p_superior: float | None
    p_equivalent: float | None
    """The larger of the two one-sided p-values (TOST)."""
    wins: int
    """Pairs in which the candidate is higher."""
    losses: int
    ties: int
    sd: float | None
    clusters: int | None
    minimum_detectable_effect: float | None
    """The smallest improvement that would be shown with the given power; None if the spread is not
    known.
    """


def claims(interval: Interval, margin: float) -> Claims:
    """What any interval of a difference shows.

    >>> claims(Interval(0.2, -0.5, 0.9, 0.95, "student-t"), 1.0)
    Claims(non_inferior=True, inferior=False, superior=False, equivalent=True)
    """
    low, high = interval.low, interval.high
    if low is None or high is None:
        return Claims(None, None, None, None)
    return Claims(low > -margin, high < -margin, low > 0, -margin < low and high < margin)


def compare_differences(
    counts: Counter[float],
    *,
    margin: float,
    groups: Groups | None = None,
    level: float = 0.95,
    power: float = 0.8,
    guaranteed: bool = False,
    believed: bool = False,
) -> Comparison:
    """Scores of the same samples on two sides, by their counted differences, each rounded to
    `DIGITS`; `groups` has the sums of each group.

    Student's t on the differences, cluster-robust if there are groups. If (nearly) all differences
    are equal, the bounded interval: n pairs without a difference leave room for a rare total loss,
    about 370 / n points. With `guaranteed` it is always the bounded interval, with `believed`
    never.

    >>> found = compare_differences(Counter({2.0: 1, 1.0: 2, -1.0: 1, 4.0: 1, 3.0: 1}), margin=1.0)
    >>> found.difference.value, found.claims.non_inferior, (found.wins, found.losses, found.ties)
    (1.6666666666666667, True, (5, 1, 0))
    >>> compare_differences(Counter({0.0: 30}), margin=1.0).claims.non_inferior
    False
    """
    how: Any = {
        "range": DIFFERENCES,
        "level": level,
        "guaranteed": guaranteed,
        "believed": believed,
    }
    estimate = (
        estimate_counted_mean(counts, **how)
        if groups is None
        else estimate_grouped_mean(counts, groups, **how)
    )
    n = counts.total()
    wins = sum(count for difference, count in counts.items() if difference > 0)
    losses = sum(count for difference, count in counts.items() if difference < 0)
    return _comparison(
        estimate,
        (n, n, n),
        margin=margin,
        level=level,
        power=power,
        counts=(wins, losses, n - wins - losses),
    )


def holm(p_values: Mapping[str, float | None]) -> dict[str, float | None]:
    """P-values corrected for multiple tests by Holm's step-down: the chance of any false claim
    stays below the level.

    A p-value that is unknown (None) stays None, and counts as a test that was made.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    adjusted: dict[str, float | None] = dict.fromkeys(p_values)
    highest, left = 0.0, len(p_values)
    for p, name in sorted((p, name) for name, p in p_values.items() if p is not None):
        highest = max(highest, min(1.0, left * p))
        adjusted[name] = highest
        left -= 1
    return adjusted


def _comparison(
    estimate: MeanEstimate,
    sizes: tuple[int, int, int],
    *,
    margin: float,
    level: float,
    power: float,
    counts: tuple[int, int, int],
) -> Comparison:
    shown = claims(estimate.interval, margin)
    below = estimate.p_below(margin)
    above = estimate.p_above(-margin)
    effect = None
    if estimate.standard_error and estimate.df is not None:
        effect = detectable_given(estimate.standard_error, estimate.df, power=power, level=level)
    return Comparison(
        n_candidate=sizes[0],
        n_baseline=sizes[1],
        n_paired=sizes[2],
        difference=on_scale(estimate.interval, DIFFERENCES),
        margin=margin,
        claims=shown,
        p_non_inferior=above,
        p_superior=estimate.p_above(0.0),
        p_equivalent=None if above is None or below is None else max(above, below),
        wins=counts[0],
        losses=counts[1],
        ties=counts[2],
        sd=estimate.sd,
        clusters=estimate.clusters,
        minimum_detectable_effect=effect,
    )
