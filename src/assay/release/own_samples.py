"""The scores with only some of the samples that the candidate has alone.

Such a sample counts as 100 for the baseline. A bad one counts against the candidate, and good ones
next to it would dilute that, as they would dilute what a run that the baseline lost could have
scored. So the score rule must hold with the worst of them alone, however many those are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from assay.release.policy import ReleaseRules
from assay.release.tally import MAX_MISSING, ScoreTally
from assay.stats.clusters import MINIMUM, Groups


def with_worst_alone(
    whole: ScoreTally, known: ScoreTally, rules: ReleaseRules
) -> Iterator[tuple[int, ScoreTally]]:
    """How many of the samples that `whole` has and `known` lacks are left, and the scores with
    those, the worst. An interval that assumes nothing is lowest with all that are worse by the
    margin; Student's could be with any number, and does not hold with more than `MAX_MISSING`.
    """
    alone = whole.values - known.values
    ordered = sorted(alone.elements()) if alone.total() <= MAX_MISSING else []
    numbers = {below_margin(alone, rules.margin).total()}
    if not rules.guaranteed:
        numbers |= set(range(len(ordered)))
    for number in sorted(numbers - {0, alone.total()}):
        kept = Counter(ordered[:number]) if ordered else below_margin(alone, rules.margin)
        yield number, _with(whole, known, kept, alone)


def below_margin(values: Counter[float], margin: float) -> Counter[float]:
    """The differences that are drops of the margin or more."""
    return Counter({value: times for value, times in values.items() if value <= -margin})


def _with(
    whole: ScoreTally, known: ScoreTally, kept: Counter[float], alone: Counter[float]
) -> ScoreTally:
    """The scores of the baseline's samples and of the `kept` ones among those `alone`."""
    names = {pair.sample for pair in known.lost}
    own = [pair for pair in whole.lost if pair.sample not in names]
    left, listed = Counter(kept), []
    for pair in own:
        if left[pair.value]:
            left[pair.value] -= 1
            listed.append(pair)
    clusters, groups, members = known.clusters + kept.total(), known.groups, dict(known.members)
    if groups is None and whole.groups is not None and clusters >= MINIMUM:
        # the baseline's groups alone are too few, so only `whole` has their sums
        unlisted = alone - Counter(pair.value for pair in own)
        groups, members = _without_singles(whole.groups, unlisted), dict(whole.members)
        for pair in own:
            del members[pair.cluster]
    if groups is not None:
        groups = groups.with_others(Groups.of((), +left))
        members |= {pair.cluster: Counter([pair.value]) for pair in listed}
    lost = sorted((*known.lost, *listed), key=lambda pair: pair.order)
    return known._replace(
        values=known.values + kept,
        shares_groups=whole.shares_groups,
        clusters=clusters,
        groups=groups,
        lost_count=known.lost_count + kept.total(),
        lacking=known.lacking + kept.total(),
        lost=tuple(lost[:MAX_MISSING]),
        members=members,
    )


def _without_singles(groups: Groups, dropped: Counter[float]) -> Groups:
    """Without some samples that are groups of their own."""
    left, rows = Counter(dropped), []
    for size, total, square, times in groups.rows():
        gone = min(times, left[total]) if size == 1 else 0
        left[total] -= gone
        if times > gone:
            rows.append((size, total, square, times - gone))
    return Groups.in_order(rows)
