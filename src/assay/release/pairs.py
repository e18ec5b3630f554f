"""The same sample on both sides, and how a lost sample counts.

A lost sample is not left out: it counts as the worst there is for the candidate, and as the best
for the baseline. Nothing here judges: see `promotion`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from assay.errors import count
from assay.release.required import (
    check_judges,
    check_strata,
    held,
    held_alike,
    requirements,
    schemas_of,
)
from assay.release.sides import Row, Side, without
from assay.stats.clusters import MINIMUM


class Pair(NamedTuple):
    """One sample on both sides. A side that lost it is None, and counts as the worst or the best
    there is.
    """

    sample: str
    candidate: Row | None
    baseline: Row | None
    unscored: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))
    """The share of its points that each side has no score for, of criteria that a side has."""

    @property
    def known(self) -> Row | None:
        """The side that is there; None for a planned sample that nobody has."""
        return self.candidate if self.candidate is not None else self.baseline

    @property
    def group(self) -> str | None:
        """The group that the baseline names: a candidate cannot regroup what it lost."""
        return None if self.baseline is None else self.baseline.group

    @property
    def ours(self) -> float:
        """The candidate's points on 0..100; a lost sample counts as 0."""
        return 0.0 if self.candidate is None else float(self.candidate.score) / 100

    @property
    def theirs(self) -> float:
        """The baseline's points; a lost sample counts as 100."""
        return 100.0 if self.baseline is None else float(self.baseline.score) / 100

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it was lost."""
        return (
            self.candidate is not None
            and self.baseline is not None
            and not self.candidate.unknown
            and not self.baseline.unknown
        )


def pair_up(candidate: Side, baseline: Side, *, planned: Sequence[str] | None = None) -> list[Pair]:
    """Every sample of the plan, or of both sides, in the order of their names. A planned sample
    that nobody has is missing on both sides.

    The candidate's samples are held to what the baseline has for them. A repeat that only one side
    has was lost by the other.
    """
    names = sorted(
        set(planned) if planned is not None else candidate.rows.keys() | baseline.rows.keys()
    )
    required = requirements(candidate.rows.values(), baseline.rows.values())
    schemas = schemas_of(baseline.rows.values())
    pairs = []
    for name in names:
        ours, theirs = candidate.rows.get(name), baseline.rows.get(name)
        if ours is not None and theirs is not None:
            check_judges([ours], [theirs])
        if ours is not None:
            ours = held_alike(ours, required) if theirs is None else held(ours, theirs, schemas)
        if (
            ours is not None
            and theirs is not None
            and (name in candidate.repeats or name in baseline.repeats)
        ):
            mine, before = (
                _attempts(candidate, baseline, name),
                _attempts(baseline, candidate, name),
            )
            if before - mine:
                ours = without(ours, len(mine), len(before - mine), candidate=True)
            if mine - before:
                theirs = without(theirs, len(before), len(mine - before), candidate=False)
        pair = Pair(name, ours, theirs)
        if ours is not None and theirs is not None and (candidate.unscored or baseline.unscored):
            pair = pair._replace(
                unscored=(_unscored(candidate, ours, theirs), _unscored(baseline, theirs, ours))
            )
        pairs.append(pair)
    check_strata(
        (pair.sample, pair.candidate.stratum, pair.baseline.stratum)
        for pair in pairs
        if pair.candidate is not None and pair.baseline is not None
    )
    return pairs


def _unscored(side: Side, row: Row, other: Row) -> Fraction:
    """The share of a sample's points that nobody scored, where another repeat or the other side
    has a score.
    """
    stratum = row.stratum
    runs = sum(
        weight * side.unscored.get((name, row.sample), 0)
        for name, weight in zip(stratum.criteria, stratum.weights, strict=True)
        if name in other.judges or name in row.judges
    )
    return Fraction(runs, sum(stratum.weights) * len(row.runs)) * (1 - row.unknown)


def _attempts(side: Side, other: Side, name: str) -> frozenset[int]:
    """The numbers of a sample's repeats. A single run without a number counts as the first repeat
    of the other side: omitting the number must not help.
    """
    repeats = side.repeats.get(name)
    return frozenset(
        [repeat.attempt for repeat in repeats]
        if repeats is not None
        else [min(repeat.attempt for repeat in other.repeats[name])]
    )


def repeats_note(candidate: Side, baseline: Side) -> str | None:
    """A note if one side lacks repeats that the other has; else None."""
    return _lacks(candidate, baseline, "the candidate", "the baseline", "failed") or _lacks(
        baseline, candidate, "the baseline", "the candidate", "its best"
    )


def _lacks(side: Side, other: Side, name: str, other_name: str, worth: str) -> str | None:
    shared = other.repeats.keys() & side.rows.keys()
    most = max((len(other.repeats[sample]) for sample in shared), default=0)
    lacking = [
        sample
        for sample in shared
        if _attempts(other, side, sample) - _attempts(side, other, sample)
    ]
    if not lacking:
        return None
    return (
        f"{name} lacks repeats that {other_name} has, in {count(len(lacking), 'sample')};"
        f" they count as {worth}. Evaluate it with {most} repeats too (`assay run --repeat"
        f" {most}`)"
    )


def groups_of(pairs: Sequence[Pair]) -> list[str | None] | None:
    """The group of each pair, as `clustered` has them."""
    return clustered([pair.group for pair in pairs])


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


def group_note(shared: bool, clusters: int) -> str | None:
    """A warning if samples share groups, and there are too few groups; else None."""
    if not shared or clusters >= MINIMUM:
        return None
    return (
        f"the samples come from {count(clusters, 'group')}, too few to estimate how groups differ;"
        " samples are treated as independent, and other groups may score differently"
    )


def few_groups(side: Side) -> str | None:
    """The warning of `group_note` on the samples of one side."""
    groups = [row.group for row in side.rows.values()]
    return group_note(shares_groups(groups), cluster_count(groups))
