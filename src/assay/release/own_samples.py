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
        yield number, _without(whole, known, alone - kept)


def below_margin(values: Counter[float], margin: float) -> Counter[float]:
    """The differences that are drops of the margin or more."""
    return Counter({value: times for value, times in values.items() if value <= -margin})


def _without(whole: ScoreTally, known: ScoreTally, dropped: Counter[float]) -> ScoreTally:
    left, names = Counter(dropped), {pair.sample for pair in known.lost}
    lost, members = list(whole.lost), dict(whole.members)
    for pair in whole.lost:
        if pair.sample not in names and left[pair.value]:
            left[pair.value] -= 1
            lost.remove(pair)
            members.pop(pair.cluster, None)
    clusters, groups = whole.clusters - dropped.total(), whole.groups
    if groups is not None and clusters >= MINIMUM:
        groups = _without_singles(groups, left)
    else:
        groups, members = None, {}
    return whole._replace(
        values=whole.values - dropped,
        clusters=clusters,
        groups=groups,
        lost_count=whole.lost_count - dropped.total(),
        lost=tuple(lost),
        members=members,
    )


def _without_singles(groups: Groups, dropped: Counter[float]) -> Groups:
    """Without the samples of which nothing was listed; each is its own group."""
    left, rows = Counter(dropped), []
    for size, total, square, times in groups.rows():
        gone = min(times, left[total]) if size == 1 else 0
        left[total] -= gone
        if times > gone:
            rows.append((size, total, square, times - gone))
    return Groups.in_order(rows)
