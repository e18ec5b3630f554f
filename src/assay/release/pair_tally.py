"""Reduces a list of pairs to a tally. `pairs` defines how a lost sample counts; `promotion` decides
from the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from assay.exact import NORM_ONE
from assay.records.decision import WorseSample
from assay.release.pairs import Pair, cluster_count, shares_groups
from assay.release.policy import ReleaseRules
from assay.release.required import lost_of, lost_sentence
from assay.release.sides import Row, Stratum
from assay.release.tally import (
    MAX_WORSE,
    CertainFailures,
    ComparedSides,
    FloorTally,
    GateTally,
    LostPair,
    LostThings,
    NameList,
    NormSums,
    PairTally,
    PassTally,
    ScoreTally,
    SevereTally,
    SidePoints,
    difference,
    kept_lost,
)
from assay.stats.clusters import MINIMUM, Groups


def tally_of(pairs: Sequence[Pair], rules: ReleaseRules) -> PairTally:
    """The tally of these pairs."""
    return PairTally(
        n_paired=sum(pair.candidate is not None and pair.baseline is not None for pair in pairs),
        missing_candidate=_all(
            pair.sample for pair in pairs if pair.candidate is None or pair.candidate.unknown
        ),
        missing_baseline=_all(
            pair.sample for pair in pairs if pair.baseline is None or pair.baseline.unknown
        ),
        compared=_compared(pairs, rules),
        gates=_gates(pairs),
        floors=_floors(pairs),
        severe=_severe(pairs, rules),
        passes=_passes(pairs),
        worse=_worse(pairs),
    )


def counted(pairs: Sequence[Pair], rules: ReleaseRules) -> list[Pair]:
    """The pairs whose scores count. A sample that only the candidate has counts as 100 for the
    baseline, and only if it is worse than that by the margin: good ones would thin out a drop.
    """
    return [pair for pair in pairs if _is_counted(pair, rules)]


def _is_counted(pair: Pair, rules: ReleaseRules) -> bool:
    return not _is_alone(pair) or difference(pair.ours, pair.theirs) <= -rules.margin


def _is_alone(pair: Pair) -> bool:
    return pair.baseline is None and pair.candidate is not None


def _all(items: Iterable[Any]) -> NameList:
    listed = list(items)
    return NameList(listed, len(listed))


def lost_things(rows: Iterable[Row | None], *kinds: str) -> LostThings | None:
    """What the candidate's samples lost of these kinds; None if that is nothing."""
    lost = lost_of(rows, *kinds)
    return LostThings(NameList(lost, len(lost)), lost_sentence(lost)) if lost else None


def _lost(pairs: Sequence[Pair], *kinds: str) -> LostThings | None:
    return lost_things((pair.candidate for pair in pairs), *kinds)


def _compared(pairs: Sequence[Pair], rules: ReleaseRules) -> ComparedSides:
    strata: dict[Stratum, NormSums] = {}
    nobody, used = 0, counted(pairs, rules)
    for pair in used:
        if pair.known is None:
            nobody += 1
            continue
        stratum = pair.known.stratum
        width = len(stratum.criteria)
        ours, theirs, count = strata.get(stratum) or NormSums([0] * width, [0] * width, 0)
        for index in range(width):
            # a side that was scored by other criteria has none of these: it counts as if it were
            # missing
            ours[index] += (
                pair.candidate.norms[index]
                if pair.candidate is not None and pair.candidate.stratum == stratum
                else 0
            )
            theirs[index] += (
                pair.baseline.norms[index]
                if pair.baseline is not None and pair.baseline.stratum == stratum
                else NORM_ONE
            )
        strata[stratum] = NormSums(ours, theirs, count + 1)
    scores = _scores(pairs, used, rules)
    return ComparedSides(len(used), scores, strata, nobody, _lost(pairs, "criterion"))


def _scores(pairs: Sequence[Pair], used: Sequence[Pair], rules: ReleaseRules) -> ScoreTally:
    differences = [difference(pair.ours, pair.theirs) for pair in used]
    groups = [pair.group for pair in used]
    gone = sum(not pair.is_whole for pair in pairs)
    lacking = [lost_pair(pair, rules) for pair in pairs if not pair.is_whole or any(pair.unscored)]
    lost = kept_lost(lacking, gone)
    shared, clusters = shares_groups(groups), cluster_count(groups)
    members: dict[tuple[str | None, str], Counter[float]] = {}
    opened: dict[tuple[str | None, str], Counter[float]] = {}
    sums = None
    if shared and clusters >= MINIMUM:
        for pair, value in zip(used, differences, strict=True):
            cluster = (None, pair.sample) if pair.group is None else (pair.group, "")
            members.setdefault(cluster, Counter())[value] += 1
        opened = {
            cluster: members.pop(cluster, Counter()) for cluster in {pair.cluster for pair in lost}
        }
        sums = Groups.of(members.values(), {})
    return ScoreTally(
        Counter(differences), shared, clusters, sums, gone, len(lacking), lost, opened
    )


def lost_pair(pair: Pair, rules: ReleaseRules) -> LostPair:
    """A pair with what its lost runs and missing scores could have come to."""
    return LostPair.of(
        pair.sample,
        pair.group,
        _points(pair.candidate, pair.ours, pair.unscored[0]),
        _points(pair.baseline, pair.theirs, pair.unscored[1]),
        is_counted=_is_counted(pair, rules),
    )


def _points(row: Row | None, points: float, unscored: Fraction) -> SidePoints:
    return SidePoints.of(points, 1 if row is None else row.unknown, unscored)


def _gates(pairs: Sequence[Pair]) -> GateTally:
    ours = [pair.candidate is None or bool(pair.candidate.failed) for pair in pairs]
    theirs = [pair.baseline is not None and bool(pair.baseline.failed) for pair in pairs]
    verdicts = list(zip(pairs, ours, theirs, strict=True))
    return GateTally(
        sum(mine or not _is_alone(pair) for pair, mine in zip(pairs, ours, strict=True)),
        sum(ours),
        sum(theirs),
        sum(mine and before for _, mine, before in verdicts),
        _by_gate(pairs),
        _all(pair.sample for pair, mine, before in verdicts if mine and not before),
        _all(pair.sample for pair in pairs if pair.known is not None and not pair.known.gates),
        _lost(pairs, "gate", "declaration"),
        _certain(pairs, sum(ours)),
    )


def _certain(pairs: Sequence[Pair], ours: int) -> CertainFailures:
    rows = [pair.baseline for pair in pairs if pair.baseline is not None]
    sure = sum(bool(row.failed - row.undetermined) for row in rows)
    return CertainFailures(ours, sure, sum(bool(row.undetermined) for row in rows))


def _by_gate(pairs: Sequence[Pair]) -> dict[str, dict[str, int]]:
    """How many samples fail each gate, on each side."""
    counts: dict[str, dict[str, int]] = {}
    for pair in pairs:
        ours, theirs = pair.candidate, pair.baseline
        for name in pair.known.gates if pair.known is not None else ():
            count = counts.setdefault(name, {"candidate": 0, "baseline": 0})
            count["candidate"] += ours is None or name in ours.failed or name not in ours.gates
            count["baseline"] += theirs is not None and name in theirs.failed
    return dict(sorted(counts.items()))


def _floors(pairs: Sequence[Pair]) -> FloorTally:
    fresh: list[dict[str, str]] = []
    mended = 0
    for pair in pairs:
        if pair.known is None:
            continue
        mine = frozenset(pair.known.floors) if pair.candidate is None else pair.candidate.missed
        before = pair.baseline.missed if pair.baseline is not None else frozenset()
        fresh += [{"sample": pair.sample, "criterion": name} for name in sorted(mine - before)]
        mended += len(before - mine)
    return FloorTally(_all(fresh), mended, _lost(pairs, "role", "floor"))


def _severe(pairs: Sequence[Pair], rules: ReleaseRules) -> SevereTally:
    ours: list[dict[str, str]] = []
    criteria: set[str] = set()
    theirs = unknown = 0
    for pair in pairs:
        if pair.known is None:
            continue
        criteria |= severe_criteria(pair.known, rules)
        gates, roles = (
            (pair.known.gates, pair.known.floor_roles)
            if pair.candidate is None
            else (pair.candidate.failed, pair.candidate.missed_roles)
        )
        names = sorted(gates & rules.severe_gates)
        names += [f"floor of the role {role}" for role in sorted(roles & rules.severe_roles)]
        ours += [{"sample": pair.sample, "what": name} for name in names]
        if pair.baseline is not None:
            theirs += len(pair.baseline.failed & rules.severe_gates)
            theirs += len(pair.baseline.missed_roles & rules.severe_roles)
            unknown += len(pair.baseline.undetermined & rules.severe_gates)
    certain = CertainFailures(len(ours), theirs - unknown, unknown)
    return SevereTally(_all(ours), theirs, certain, frozenset(criteria))


def severe_criteria(row: Row, rules: ReleaseRules) -> frozenset[str]:
    """The criteria of a sample with a role of which a missed floor is severe."""
    return frozenset(name for name, role in row.roles.items() if role in rules.severe_roles)


def _passes(pairs: Sequence[Pair]) -> PassTally:
    ours = [pair.candidate is not None and pair.candidate.passed for pair in pairs]
    theirs = [pair.baseline is None or pair.baseline.passed for pair in pairs]
    return PassTally(
        len(pairs),
        sum(ours),
        sum(mine and not before for mine, before in zip(ours, theirs, strict=True)),
        sum(before and not mine for mine, before in zip(ours, theirs, strict=True)),
        sum(mine and _is_alone(pair) for pair, mine in zip(pairs, ours, strict=True)),
    )


def _worse(pairs: Sequence[Pair]) -> list[WorseSample]:
    """The samples that lost most, worst first."""
    both = [pair for pair in pairs if pair.candidate and pair.baseline]
    both.sort(key=lambda pair: (pair.ours - pair.theirs, pair.sample))
    return [
        WorseSample(
            sample=pair.sample,
            difference=round(pair.ours - pair.theirs, 4),
            candidate=pair.ours,
            baseline=pair.theirs,
            newly_failed_gates=sorted(pair.candidate.failed - pair.baseline.failed),
        )
        for pair in both[:MAX_WORSE]
        if pair.candidate and pair.baseline and pair.ours < pair.theirs
    ]
