"""What promotion needs of all pairs, as counts and sums: nothing else about them reaches a rule.

`pair_tally` reduces lists to a tally; an engine counts the same over rows that stay where they are
(see `batch`). Everything in it is exact, so both give the same decision, to the last digit. A list
of names may be cut, and then its count says how many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from assay.grouping import grouped
from assay.records.decision import WorseSample
from assay.release.policy import ReleaseRules
from assay.release.sides import Stratum
from assay.stats.clusters import Groups
from assay.stats.comparison import Comparison, compare_differences
from assay.stats.estimate import DIGITS

MAX_MISSING = 24
"""Up to this many samples with lost runs, we work out what those runs could have scored; with more,
the score rule does not hold. Scores may be missing in more samples, and these many are raised: the
lower end of Student's interval falls only with values that are far above the mean, and there can't
be more of those than the square of its factor t.
"""
MAX_WORSE = 20
"""Samples that a decision names among those that got worse."""


class NameList(NamedTuple):
    """The first of some things, in the order of their names, and how many there are."""

    first: list[Any]
    total: int

    @property
    def cut(self) -> int | UnsetType:
        """How many there are, where not all are listed."""
        return UNSET if self.total == len(self.first) else self.total


class LostThings(NamedTuple):
    """What the baseline has and the candidate lost."""

    items: NameList
    words: str


class SidePoints(NamedTuple):
    """The points of a side of a pair, and by how many they could be off."""

    points: float
    unknown: float
    """Because of lost runs."""
    unscored: float
    """Because of scores that only the other side has, to the next cent."""

    @classmethod
    def of(cls, points: float, unknown: int | Fraction, unscored: Fraction) -> SidePoints:
        """From the shares of the points that are unknown."""
        return cls(points, 100 * float(unknown), ceil(10_000 * unscored) / 100)


class LostPair(NamedTuple):
    """A pair of which a side lost runs or scores."""

    sample: str
    group: str | None
    value: float | None
    """The difference as it is counted: lost runs as the worst for the candidate, a missing score as
    0 on either side. None if it is not: see `pair_tally.counted`.
    """
    lowest: float
    """The difference if what was lost were the worst there is for the candidate."""
    raised: float
    """The difference if what was lost were the best there is for the candidate."""

    @classmethod
    def of(
        cls,
        sample: str,
        group: str | None,
        ours: SidePoints,
        theirs: SidePoints,
        *,
        is_counted: bool,
    ) -> LostPair:
        """From what both sides have and lack."""
        return cls(
            sample,
            group,
            difference(ours.points, theirs.points) if is_counted else None,
            difference(ours.points, theirs.points + theirs.unscored),
            difference(ours.points + ours.unknown + ours.unscored, theirs.points - theirs.unknown),
        )

    @property
    def could_fall(self) -> bool:
        """Whether it could be less than what is counted."""
        return self.value is not None and self.lowest < self.value

    @property
    def order(self) -> tuple[float, str]:
        """The pairs whose range has its middle furthest above come first."""
        return -round(self.raised + self.lowest, 6), self.sample

    @property
    def cluster(self) -> tuple[str | None, str]:
        """The group, or the sample itself where it has none."""
        return (self.group, "") if self.group is not None else (None, self.sample)


class ScoreTally(NamedTuple):
    """The differences of the scores, in points."""

    values: Counter[float]
    """How many pairs have each difference."""
    shares_groups: bool
    clusters: int
    """How many groups there are; a sample without one is its own group."""
    groups: Groups | None
    """The sums of each group, without those in `members`; None if samples don't share groups, or if
    there are too few groups.
    """
    lost_count: int
    """Pairs of which runs were lost."""
    lacking: int
    """Pairs of which runs were lost, or that lack a score on one side."""
    lost: tuple[LostPair, ...] = ()
    """Those that could have come to something else: see `kept_lost`."""
    members: Mapping[tuple[str | None, str], Counter[float]] = {}
    """The differences in each group of which something was lost."""

    def compare(
        self, rules: ReleaseRules, *, moved: Sequence[tuple[LostPair, float]] = ()
    ) -> Comparison:
        """Compare the scores of both sides, with other differences for some pairs that lost
        something.
        """
        values, groups = moved_values(self.values, moved) if moved else self.values, self.groups
        members = dict(self.members)
        for cluster, pairs in grouped((pair[0].cluster, pair) for pair in moved).items():
            if cluster in members:
                members[cluster] = moved_values(members[cluster], pairs)
        if groups is not None and members:
            groups = groups.with_others(Groups.of(filter(None, members.values()), {}))
        return compare_differences(
            values,
            margin=rules.margin,
            groups=groups,
            level=rules.level,
            power=rules.power,
            guaranteed=rules.guaranteed,
            believed=not rules.guaranteed,
        )


def kept_lost(pairs: Iterable[LostPair], lost_count: int) -> tuple[LostPair, ...]:
    """The first `MAX_MISSING` pairs in their order, or none if more than that lost runs; then all
    others that could have come to less than is counted.
    """
    ordered = sorted(pairs, key=lambda pair: pair.order)
    raised = MAX_MISSING if lost_count <= MAX_MISSING else 0
    return (*ordered[:raised], *(pair for pair in ordered[raised:] if pair.could_fall))


def moved_values(values: Counter[float], pairs: Iterable[tuple[LostPair, float]]) -> Counter[float]:
    """The differences, with others for some pairs that lost something."""
    moved = Counter(values)
    for pair, value in pairs:
        if pair.value is not None:
            moved[pair.value] -= 1
        moved[value] += 1
    return +moved


class NormSums(NamedTuple):
    """The norms of samples that were scored alike, in billionths, added up by criterion."""

    candidate: list[int | Fraction]
    baseline: list[int | Fraction]
    n: int


class ComparedSides(NamedTuple):
    """The scores and norms of the pairs that count."""

    n: int
    scores: ScoreTally
    strata: Mapping[Stratum, NormSums]
    nobody: int
    """Planned samples that no side has."""
    lost: LostThings | None
    """Criteria that the candidate lost."""


class CertainFailures(NamedTuple):
    """How often a gate fails, on the baseline's side without what it lacks evidence for."""

    candidate: int
    baseline: int
    undetermined: int
    """How often the baseline lacks evidence for a gate."""


class GateTally(NamedTuple):
    """How many samples fail a gate."""

    n: int
    """Samples, without those that pass and that only the candidate has: they would thin out the
    failures of others.
    """
    candidate: int
    baseline: int
    both: int
    gates: Mapping[str, dict[str, int]]
    """By gate and side."""
    newly_failing: NameList
    ungated: NameList
    """Samples without a gate."""
    lost: LostThings | None
    """Gates and declarations that the candidate lost."""
    certain: CertainFailures


class FloorTally(NamedTuple):
    """Critical floors that were kept before and are missed now, and the reverse."""

    new: NameList
    mended: int
    lost: LostThings | None
    """Roles and floors that the candidate lost."""


class SevereTally(NamedTuple):
    """Failures that the policy calls severe."""

    candidate: NameList
    baseline: int
    certain: CertainFailures
    """By gate and sample; a floor that is missed counts as certain."""
    criteria: frozenset[str]
    """The criteria with a role of which a missed floor is severe."""


class PassTally(NamedTuple):
    """How many samples pass."""

    n: int
    candidate: int
    gained: int
    """Only the candidate passes."""
    lost: int
    """Only the baseline passes."""
    alone: int
    """Only the candidate has the sample, and it passes."""


class PairTally(NamedTuple):
    """Two sides, counted."""

    n_paired: int
    """Samples that both sides have."""
    missing_candidate: NameList
    missing_baseline: NameList
    compared: ComparedSides
    gates: GateTally
    floors: FloorTally
    severe: SevereTally
    passes: PassTally
    worse: list[WorseSample]


def difference(ours: float, theirs: float) -> float:
    """The points of the candidate minus those of the baseline, without the error of floats."""
    return round(round(ours, DIGITS) - round(theirs, DIGITS), DIGITS)
