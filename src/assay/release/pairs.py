"""The same samples on both sides: those of the plan, else those of the baseline.

A sample that only the candidate has enters no rule, or easy samples would dilute a loss. Groups and
tags come from the baseline: a candidate can't regroup what it lost. Nothing here judges: see
`rules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from assay.errors import InputError, count
from assay.release.observations import Observed, Pair
from assay.release.sides import Sample, Side, Stratum
from assay.stats.clusters import MINIMUM

SLICES = ("tag", "group", "family")
"""What samples can be sliced by."""


def pair_up(
    candidate: Side,
    baseline: Side,
    *,
    planned: Iterable[str] | None = None,
    left_out: Collection[str] = (),
) -> list[Pair]:
    """Every sample of the plan, or of the baseline, in the order of their names. One that a side
    lacks is lost there.
    """
    names = sorted(set(baseline.samples if planned is None else planned) - set(left_out))
    before = [baseline.samples.get(name) for name in names]
    groups = clustered([None if sample is None else sample.group for sample in before])
    pairs = []
    for place, (name, theirs) in enumerate(zip(names, before, strict=True)):
        ours = candidate.samples.get(name)
        if ours is not None and theirs is not None:
            _check_judges(ours, theirs)
            check_strata(name, ours.stratum, theirs.stratum)
        pairs.append(
            Pair(
                name,
                _LOST if ours is None else ours.observed,
                _LOST if theirs is None else theirs.observed,
                None if groups is None else groups[place],
                frozenset[str]() if theirs is None else theirs.tags,
                next((side.title for side in (theirs, ours) if side and side.title), ""),
            )
        )
    return pairs


_LOST = Observed((), 1)


def slices_of(pairs: Sequence[Pair], baseline: Side, kinds: Iterable[str]) -> dict[str, list[Pair]]:
    """The pairs of each slice. Samples without a value are a slice too: a regression in them must
    show as well.
    """
    slices: dict[str, list[Pair]] = {}
    for pair in pairs:
        sample = baseline.samples.get(pair.sample)
        if sample is None:
            continue
        for kind in sorted(set(kinds)):
            for value in _values(sample, kind):
                slices.setdefault(f"{kind}: {value}" if value else f"no {kind}", []).append(pair)
    return dict(sorted(slices.items()))


def _values(sample: Sample, kind: str) -> Sequence[str | None]:
    if kind == "tag":
        return sorted(sample.tags) or [None]
    return [sample.group if kind == "group" else sample.family]


def check_strata(sample: str, ours: Stratum, theirs: Stratum) -> None:
    """Refuse a sample that the two sides scored by different criteria, weights or formulas. A
    criterion that the candidate lost is left to the rules.
    """
    if ours is theirs or ours == theirs or set(theirs.criteria) - set(ours.criteria):
        return
    added = sorted(set(ours.criteria) - set(theirs.criteria))
    if added:
        what = f"the candidate adds the criteria {', '.join(added)}"
    elif ours.profile != theirs.profile:
        what = (
            f"its profile is {ours.profile or 'none'} here and {theirs.profile or 'none'} in the"
            " baseline"
        )
    else:
        own, before = (
            dict(zip(side.criteria, zip(side.weights, side.formulas, strict=True), strict=True))
            for side in (ours, theirs)
        )
        other = [name for name in own if own[name] != before[name]]
        what = f"another weight, formula or parameter than in the baseline for {', '.join(other)}"
    raise InputError(
        "REL-002",
        f"the sample {sample!r} cannot be compared: {what}.",
        fix="Score both sides with the same criteria, weights and formulas.",
    )


def _check_judges(ours: Sample, theirs: Sample) -> None:
    """Refuse a sample with a score that another judge gave than in the baseline: another model,
    version, prompt or rubric, or none.
    """
    if ours.judges is theirs.judges or ours.judges == theirs.judges:
        return
    for name, judges in ours.judges.items():
        known = theirs.judges.get(name, judges)
        if other := sorted(judges - known):
            before = " or ".join(sorted(judge or "no judge" for judge in known))
            raise InputError(
                "REL-002",
                f"the sample {ours.sample!r} cannot be compared: {name} was scored by"
                f" {other[0] or 'no judge'} here, and by {before} in the baseline.",
                fix="Judge both sides with the same model, prompt and rubric.",
            )


def clustered(groups: list[str | None]) -> list[str | None] | None:
    """The group of each sample; None if no two samples share one, or if there are too few groups to
    estimate their spread.

    With fewer than five groups, no interval over groups reaches its level. The comparison is then
    one of these samples in these groups; `group_note` reports that.
    """
    return groups if shares_groups(groups) and cluster_count(groups) >= MINIMUM else None


def shares_groups(groups: Sequence[str | None]) -> bool:
    """Whether two samples are of one group."""
    return any(count > 1 for group, count in Counter(groups).items() if group is not None)


def cluster_count(groups: Sequence[str | None]) -> int:
    """How many groups there are; a sample without one is its own group."""
    return len({group for group in groups if group is not None}) + sum(
        group is None for group in groups
    )


def group_note(samples: Mapping[str, Sample]) -> str | None:
    """A warning if samples share groups, and there are too few groups; else None."""
    groups = [sample.group for sample in samples.values()]
    clusters = cluster_count(groups)
    if not shares_groups(groups) or clusters >= MINIMUM:
        return None
    return (
        f"the samples come from {count(clusters, 'group')}, too few to estimate how groups differ;"
        " samples are treated as independent, and other groups may score differently"
    )
