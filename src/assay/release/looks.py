"""Several questions about the same results: repeated looks at an evaluation in progress, and slices
of one dataset.

Repeated looks and many slices produce differences by chance. So with more than one look the
interval is a confidence sequence, which errs in at most 5% over all looks together; and the
p-values of slices are corrected by Holm for being several, and by the number of looks.

A slice that is shown to be worse than the margin rejects the candidate, however good the whole is;
a slice that shows nothing has no effect. A kind of slice that no sample has keeps the rule open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from assay.errors import count
from assay.grouping import grouped
from assay.records.decision import SliceComparison, SliceComparisons
from assay.records.summary import value_interval
from assay.release.pair_tally import counted, lost_pair
from assay.release.pairs import Pair, groups_of
from assay.release.policy import ReleaseRules
from assay.release.promotion import Promotion, with_comparison, with_finding
from assay.release.promotion_rules import LostRuns
from assay.release.tally import moved_values
from assay.stats.clusters import Groups, estimate_clustered_mean, estimate_grouped_mean
from assay.stats.comparison import claims, holm
from assay.stats.estimate import DIFFERENCES, MeanEstimate, on_scale
from assay.stats.intervals import Interval
from assay.stats.means import estimate_counted_mean, estimate_mean
from assay.stats.sequential import anytime_counted_mean, anytime_mean

KINDS = ("tag", "group", "family")


def with_looks(promotion: Promotion, rules: ReleaseRules, *, looks: int) -> Promotion:
    """The decision by an interval that holds at every look. It does not depend on the number of
    earlier looks or on the order of the samples.
    """
    pairs = counted(promotion.pairs, rules)
    interval = sequence_interval(pairs, {}, level=rules.level)
    lacking = {pair.sample: lost_pair(pair, rules).lowest for pair in pairs if pair.unscored[1]}
    low = sequence_interval(pairs, lacking, level=rules.level).low if lacking else None
    return _with_interval(promotion, rules, interval, looks, lacking, low)


def with_counted_looks(promotion: Promotion, rules: ReleaseRules, *, looks: int) -> Promotion:
    """Like `with_looks`, from a tally whose samples share no groups: all that the sequence needs is
    how often each difference occurs.
    """
    tally = promotion.tally
    assert tally is not None
    assert not tally.compared.scores.shares_groups
    scores = tally.compared.scores
    interval = anytime_counted_mean(scores.values, DIFFERENCES, level=rules.level)
    lower = [pair for pair in scores.lost if pair.could_fall]
    values = moved_values(scores.values, [(pair, pair.lowest) for pair in lower])
    low = anytime_counted_mean(values, DIFFERENCES, level=rules.level).low if lower else None
    return _with_interval(promotion, rules, interval, looks, [pair.sample for pair in lower], low)


def _with_interval(
    promotion: Promotion,
    rules: ReleaseRules,
    interval: Interval,
    looks: int,
    lacking: Collection[str],
    low: float | None,
) -> Promotion:
    """`low` is the lower end if the scores that the baseline lacks, in the samples `lacking`, were
    the best there are.
    """
    lost = LostRuns(len(lacking), low, min(lacking)) if lacking else None
    comparison = promotion.comparison._replace(
        difference=interval._replace(method=f"{interval.method}, holds at each of {looks} looks"),
        claims=claims(interval, rules.margin),
        p_non_inferior=None,
        p_superior=None,
        p_equivalent=None,
        minimum_detectable_effect=None,
    )
    return with_comparison(promotion, comparison, rules, lost=lost)


def sequence_interval(
    pairs: Sequence[Pair], lowest: Mapping[str, float], *, level: float
) -> Interval:
    """The confidence sequence of the mean difference, at its present length; with the `lowest`
    difference of some samples.

    Samples that share a group are one value, their mean, with the size of the group as its weight.
    """
    values = [max(-100.0, lowest.get(pair.sample, pair.ours - pair.theirs)) for pair in pairs]
    groups = groups_of(pairs)
    if groups is None:
        return anytime_mean(values, DIFFERENCES, level=level)
    names = [group if group is not None else (place,) for place, group in enumerate(groups)]
    sizes = Counter(names)
    totals: dict[str | tuple[int], float] = {}
    for name, value in zip(names, values, strict=True):
        totals[name] = totals.get(name, 0.0) + value / sizes[name]
    return anytime_mean(
        [min(100.0, max(-100.0, total)) for total in totals.values()],
        DIFFERENCES,
        weights=[sizes[name] / max(sizes.values()) for name in totals],
        level=level,
    )


def slices_of(
    promotion: Promotion, rules: ReleaseRules, kinds: Sequence[str], *, looks: int = 1
) -> SliceComparisons:
    """The difference in each slice, with the corrected p-value of "this slice is not worse than the
    margin".

    The interval of a slice is an ordinary one, at the policy's level and not corrected; `worse`
    goes by the corrected p-value. A slice with fewer samples than the policy asks for, and hardly
    any spread, has an interval that assumes nothing but the range of scores: two equal drops prove
    nothing.
    """
    members = grouped(
        (slice_name(kind, name), pair)
        for pair in promotion.pairs
        for kind in dict.fromkeys(kinds)
        for name in _names(pair, kind)
    )
    slices: dict[str, CountedSlice] = {}
    for name, pairs in members.items():
        differences, groups = [pair.ours - pair.theirs for pair in pairs], groups_of(pairs)
        terms = _terms(len(pairs), rules)
        slices[name] = CountedSlice(
            estimate_mean(differences, **terms)
            if groups is None
            else estimate_clustered_mean(differences, groups, **terms),
            len(pairs),
            sum(not pair.is_whole for pair in pairs),
        )
    return compare_slices(slices, rules, kinds, looks=looks)


def slice_name(kind: str, value: str | None) -> str:
    """The name of a slice. Samples without a value are a slice too: a regression in them must
    show as well.
    """
    return f"{kind}: {value}" if value else f"no {kind}"


class CountedSlice(NamedTuple):
    """The totals of one slice."""

    estimate: MeanEstimate
    """Of the mean difference."""
    n: int
    missing: int
    """Samples of which something was lost."""


def count_slice(
    differences: Counter[float], missing: int, rules: ReleaseRules, *, groups: Groups | None
) -> CountedSlice:
    """A slice whose differences were counted. `groups` is None if samples share no groups, or if
    there are too few groups to estimate their spread.
    """
    n = differences.total()
    terms = _terms(n, rules)
    estimate = (
        estimate_counted_mean(differences, **terms)
        if groups is None
        else estimate_grouped_mean(differences, groups, **terms)
    )
    return CountedSlice(estimate, n, missing)


def _terms(n: int, rules: ReleaseRules) -> Any:
    return {
        "range": DIFFERENCES,
        "level": rules.level,
        "guaranteed": rules.guaranteed,
        "believed": not rules.guaranteed and n >= rules.min_pairs,
    }


def compare_slices(
    members: Mapping[str, CountedSlice],
    rules: ReleaseRules,
    kinds: Sequence[str],
    *,
    looks: int = 1,
) -> SliceComparisons:
    """The slices together: each p-value is corrected for the others."""
    members = dict(sorted(members.items()))
    chances = {name: _chance(item.estimate, -rules.margin) for name, item in members.items()}
    corrected = holm({name: p and min(1.0, p * looks) for name, p in chances.items()})
    limit = (1 - rules.level) / 2
    comparisons = [
        SliceComparison(
            slice=name,
            n=item.n,
            missing=item.missing,
            difference=value_interval(on_scale(item.estimate.interval, DIFFERENCES)),
            p_worse=chances[name],
            p_worse_corrected=p,
            worse=None if p is None else p <= limit,
        )
        for (name, item), p in zip(members.items(), corrected.values(), strict=True)
    ]
    return SliceComparisons(
        kinds=sorted(set(kinds)),
        correction="holm" if looks == 1 else f"holm, and {looks} looks",
        limit=limit,
        slices=comparisons,
        violated=[item.slice for item in comparisons if item.worse],
        # a lost run that fell far can blur a slice that was shown to be worse; its mean as counted
        # is never above the true one
        open=[
            item.slice
            for item in comparisons
            if item.missing and not item.worse and _mean(item) <= -rules.margin
        ],
    )


def _mean(item: SliceComparison) -> float:
    assert item.difference.value is not None  # a slice has at least one sample
    return item.difference.value


def _chance(estimate: MeanEstimate, limit: float) -> float | None:
    """The one-sided p-value of "the mean is at least the limit"; 0 or 1 if all differences are
    equal.
    """
    high = estimate.interval.high
    if high is not None and estimate.standard_error == 0:
        return 0.0 if high < limit else 1.0
    return estimate.p_below(limit)


def with_slices(promotion: Promotion, slices: SliceComparisons, rules: ReleaseRules) -> Promotion:
    """The decision with its slices: one that is shown to be worse than the margin violates the
    score rule; one that may be keeps it from holding.
    """
    if slices.violated:
        worst = min(
            (item for item in slices.slices if item.worse),
            key=lambda item: (_mean(item), item.slice),
        )
        more = len(slices.violated) - 1
        reason = (
            f"the slice {worst.slice} is shown to be worse by more than {rules.margin:g}:"
            f" {_mean(worst):+.2f} points in {count(worst.n, 'sample')}, p"
            f" {worst.p_worse_corrected:.2g} corrected for {count(len(slices.slices), 'slice')}"
            + (f" (and {more} more)" if more else "")
        )
        evidence = {"slices_violated": slices.violated}
        return with_finding(promotion, reason, evidence, rules, violated=True)
    if slices.open:
        reason = (
            f"runs of the slice {slices.open[0]} are missing, and with them it is worse by"
            f" {rules.margin:g} or more"
        )
        return with_finding(promotion, reason, {"slices_open": slices.open}, rules, violated=False)
    names = [item.slice for item in slices.slices]
    empty = [
        kind for kind in slices.kinds if not any(name.startswith(f"{kind}: ") for name in names)
    ]
    if empty:
        reason = f"no sample of the baseline has a {empty[0]}, so slices by it show nothing"
        return with_finding(promotion, reason, {"slices_empty": empty}, rules, violated=False)
    return promotion


def _names(pair: Pair, kind: str) -> Sequence[str | None]:
    """The values of one kind that a sample has in the baseline; None if it has none."""
    row = pair.baseline
    if row is None:
        # a sample that only the candidate has could thin out a slice, or make many of them
        return []
    if kind == "tag":
        return sorted(row.tags) or [None]
    return [row.group if kind == "group" else row.family]
