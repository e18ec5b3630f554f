"""The four promotion rules, each on the tally of paired samples or on sets that share none.

A rule is violated where the evidence shows it; it may fail to hold without that, and it cannot be
judged where evidence is missing. Anything that the baseline has and the candidate lost violates a
rule: leaving something out must never help.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from assay.errors import count
from assay.grouping import grouped
from assay.records.decision import RuleResult
from assay.release.pair_tally import lost_things
from assay.release.pass_rate import PassBar, check_pass_rate
from assay.release.policy import ReleaseRules
from assay.release.sides import Row
from assay.release.tally import FloorTally, GateTally, LostThings, SevereTally
from assay.stats.comparison import Comparison
from assay.stats.rates import mcnemar, paired_rate_difference, rate_difference

SHOWN = 50
"""Items that a rule's evidence lists; all are counted."""
GATE_RULE, SCORE_RULE, FLOOR_RULE, SEVERE_RULE = (
    "gate_failure_rate",
    "score_non_inferiority",
    "floor_regression",
    "severe_failures",
)
BAR_RULE = "pass_rate"
"""Only where a bar is set."""
Evidence = dict[str, Any]


class LostRuns(NamedTuple):
    """What lost runs could have done to the lower end of the difference."""

    samples: int
    low: float | None
    """The lowest that the lower end could have been; None if there are too many to work it out."""
    first: str = ""
    """The sample that could change most, if some lack only scores."""


def rule(
    id: str, holds: bool | None, reason: str, evidence: Evidence, *, violated: bool | None = None
) -> RuleResult:
    """A rule with its evidence; one that doesn't hold is violated unless stated otherwise."""
    return RuleResult(
        id=id,
        holds=holds,
        violated=holds is False if violated is None else violated,
        reason=reason,
        evidence=evidence,
    )


def _add_lost(evidence: Evidence, lost: LostThings | None) -> str:
    """What the candidate lost, added to the evidence, and in words; empty if it lost nothing."""
    if lost is None:
        return ""
    evidence.update(lost=lost.items.first[:SHOWN], lost_count=lost.items.total)
    return lost.words


def pass_rate(passed: int, n: int, bar: PassBar) -> RuleResult:
    """Enough of the candidate's samples must pass; one that it lost did not."""
    checked = check_pass_rate(passed, n, bar)
    return rule(BAR_RULE, checked.holds, checked.reason, checked.evidence)


# --- paired


def gate_failures(tally: GateTally, rules: ReleaseRules, *, without_gates: bool) -> RuleResult:
    """The rate of samples that fail a gate may not rise by more than the policy allows."""
    n = tally.n
    if not n:
        return rule(GATE_RULE, None, "there are no samples to compare", {})
    ours, theirs, newly = tally.candidate, tally.baseline, tally.newly_failing
    allowed = Fraction(*rules.gate_failure_increase)
    only_ours, only_theirs = ours - tally.both, theirs - tally.both
    rise = Fraction(ours - theirs, n)
    evidence = {
        "candidate": {"failed": ours, "rate": ours / n},
        "baseline": {"failed": theirs, "rate": theirs / n},
        "n": n,
        "increase": float(rise),
        "allowed": float(allowed),
        "difference": paired_rate_difference(only_ours, only_theirs, n, level=rules.level).shown(),
        "only_candidate": only_ours,
        "only_baseline": only_theirs,
        "mcnemar_p": mcnemar(only_ours, only_theirs),
        "gates": dict(tally.gates),
        "newly_failing": newly.first[:SHOWN],
        "newly_failing_count": newly.total,
    }
    counts = f"{ours:,} of {n:,} samples fail a gate, {theirs:,} before"
    lost = _add_lost(evidence, tally.lost)
    if lost:
        return rule(GATE_RULE, False, f"{lost}; {counts}", evidence)
    if rise > allowed:
        reason = (
            f"{counts}; the rate rose by {float(rise):.4f}, more than the allowed"
            f" {float(allowed):g}"
        )
        return rule(GATE_RULE, False, reason, evidence)
    ungated = tally.ungated
    if ungated.total and not without_gates:
        evidence["without_gates"] = ungated.first[:SHOWN]
        reason = (
            f"{ungated.total:,} of {n:,} samples have no hard gate on either side, for example"
            f" {ungated.first[0]}"
        )
        return rule(GATE_RULE, None, reason, evidence)
    reason = f"{counts}; allowed rise of the rate: {float(allowed):g}"
    return rule(GATE_RULE, True, reason, evidence)


def scores(
    criteria_lost: LostThings | None,
    comparison: Comparison,
    adjusted: float | None,
    rules: ReleaseRules,
    *,
    lost: LostRuns | None,
) -> RuleResult:
    """The scores may not be worse by the margin or more, and must be shown not to be."""
    difference, claims = comparison.difference, comparison.claims
    evidence: Evidence = {
        "difference": difference.shown(),
        "margin": rules.margin,
        "adjusted_difference": adjusted,
        "wins": comparison.wins,
        "losses": comparison.losses,
        "ties": comparison.ties,
    }

    def unshown(reason: str) -> RuleResult:
        return rule(SCORE_RULE, False, reason, evidence, violated=False)

    criteria = _add_lost(evidence, criteria_lost)
    if criteria:
        reason = f"{criteria}, so its scores omit something that the baseline's include"
        return rule(SCORE_RULE, False, reason, evidence)
    if difference.low is None or difference.high is None or adjusted is None:
        why = difference.reason or "there are no pairs"
        return rule(SCORE_RULE, None, f"the difference has no interval: {why}", evidence)
    ends = f"{difference.value:+.2f} points, {difference.low:+.2f} to {difference.high:+.2f}"
    if claims.inferior:
        reason = f"shown to be worse by more than {rules.margin:g}: {ends}"
        return rule(SCORE_RULE, False, reason, evidence)
    if not claims.non_inferior:
        return unshown(f"a drop of {rules.margin:g} or more cannot be excluded: {ends}")
    if adjusted <= -rules.margin:
        return unshown(
            f"the adjusted difference is {adjusted:+.2f}, not above -{rules.margin:g}; {ends}"
        )
    if lost is not None:
        evidence["lost_runs"] = {"samples": lost.samples, "low": lost.low}
        if lost.low is None or lost.low <= -rules.margin:
            low = (
                "the lower end is unknown"
                if lost.low is None
                else f"the lower end could have been {lost.low:+.2f}"
            )
            gone = f"runs of {count(lost.samples, 'sample')} are missing"
            if lost.first:
                samples = f"{lost.samples:,} samples lack" if lost.samples > 1 else "a sample lacks"
                gone = f"{samples} a run or score on one side, for example {lost.first}"
                ends += ". Evaluate that side again with all of its evidence"
            return unshown(f"{gone}; with them, {low}; as counted, {ends}")
    better = ", and better" if claims.superior else ""
    reason = f"not worse by {rules.margin:g} or more{better}: {ends}; adjusted {adjusted:+.2f}"
    if difference.low == difference.high:
        # the interval has no width because no difference was seen, which doesn't prove that there
        # is none
        unseen = 1 - ((1 - rules.level) / 2) ** (1 / (comparison.clusters or comparison.n_paired))
        evidence["unseen_loss_rate"] = unseen
        reason += (
            "; all differences are equal, and a total loss in up to"
            f" {max(0.1, 100 * unseen):.1f}% of samples could have gone unnoticed"
        )
    return rule(SCORE_RULE, True, reason, evidence)


def floors(tally: FloorTally, rules: ReleaseRules) -> RuleResult:
    """No sample may miss a critical floor that it met before."""
    fresh = tally.new
    evidence = {
        "new": fresh.first[:SHOWN],
        "new_count": fresh.total,
        "mended_count": tally.mended,
        "allowed": rules.new_floor_failures,
    }
    lost = _add_lost(evidence, tally.lost)
    if lost:
        return rule(FLOOR_RULE, False, lost, evidence)
    if not fresh.total:
        reason = "no sample misses a critical floor that it met before"
        return rule(FLOOR_RULE, True, reason, evidence)
    if fresh.total <= rules.new_floor_failures:
        reason = (
            f"{count(fresh.total, 'new miss', 'new misses')} of a critical floor"
            f" (allowed: {rules.new_floor_failures})"
        )
        return rule(FLOOR_RULE, True, reason, evidence)
    first = fresh.first[0]
    more = f" (and {fresh.total - 1:,} more)" if fresh.total > 1 else ""
    reason = (
        f"{first['sample']} misses the floor of {first['criterion']}, which it met before{more}"
    )
    return rule(FLOOR_RULE, False, reason, evidence)


def severe_failures(tally: SevereTally, rules: ReleaseRules) -> RuleResult:
    """The number of failures that the policy calls severe may not rise."""
    (first, ours), theirs = tally.candidate, tally.baseline
    evidence = {
        "candidate": ours,
        "baseline": theirs,
        "allowed_increase": rules.severe_increase,
        "items": first[:SHOWN],
        "severe_gates": sorted(rules.severe_gates),
    }
    counts = f"{count(ours, 'severe failure')}, {theirs:,} before"
    if ours - theirs <= rules.severe_increase:
        return rule(SEVERE_RULE, True, counts, evidence)
    reason = f"{counts}; for example {first[0]['what']} in {first[0]['sample']}"
    return rule(SEVERE_RULE, False, reason, evidence)


# --- unpaired


def is_severe(rules: ReleaseRules, row: Row, without: frozenset[str] = frozenset()) -> bool:
    """Whether a sample has a severe failure, apart from the gates in `without`."""
    failed = (row.failed - without) & rules.severe_gates
    return bool(failed or row.missed_roles & rules.severe_roles)


def unpaired_rules(
    ours: Sequence[Row],
    theirs: Sequence[Row],
    comparison: Comparison,
    rules: ReleaseRules,
    *,
    own: tuple[Sequence[Row], Sequence[Row]],
    without_gates: bool,
) -> tuple[RuleResult, ...]:
    """The four rules on sets that share no samples: gates, floors and severe failures go by their
    rate, among the samples as they are held and as their `own` gates and floors have it. Where
    samples have different gates, each lacks some, and only its own show what fails.
    """

    def rate(id: str, is_bad: Callable[[Row], bool]) -> RuleResult:
        held, plain = (_rate(id, *sides, is_bad, rules) for sides in ((ours, theirs), own))
        return plain if plain.violated and not held.violated else held

    results = [
        rate(GATE_RULE, lambda row: bool(row.failed)),
        _unpaired_scores(comparison, rules),
        rate(FLOOR_RULE, lambda row: bool(row.missed)),
        rate(SEVERE_RULE, lambda row: is_severe(rules, row)),
    ]
    if results[0].holds and (gone := _left_out(*own)):
        results[0] = rule(GATE_RULE, False, gone, results[0].evidence, violated=False)
    for place, kinds in enumerate((("gate", "declaration"), ("criterion",), ("role", "floor"))):
        evidence = dict(results[place].evidence)
        lost = _add_lost(evidence, lost_things(ours, *kinds))
        if lost:
            results[place] = rule(results[place].id, False, lost, evidence)
    ungated = sum(not row.gates for row in ours)
    if ungated and results[0].holds and not without_gates:
        reason = f"{ungated:,} of {len(ours):,} samples have no hard gate on either side"
        results[0] = rule(GATE_RULE, None, reason, results[0].evidence)
    return tuple(results)


def _left_out(ours: Sequence[Row], theirs: Sequence[Row]) -> str:
    """The first gate that a smaller share of the candidate's samples has, among those that are
    scored alike: leaving it out of the samples that fail it must not help.
    """
    mine, before = (grouped((row.stratum, row.gates) for row in side) for side in (ours, theirs))
    reasons = []
    for stratum in mine.keys() & before.keys():
        sides = mine[stratum], before[stratum]
        for name in frozenset().union(*sides[1]):
            have, had = (sum(name in gates for gates in side) for side in sides)
            n, size = map(len, sides)
            if have * size < had * n:
                reasons.append(
                    (name, f"{have:,} of {n:,} samples have {name}, {had:,} of {size:,} before")
                )
    return min(reasons, default=("", ""))[1]


def _rate(
    id: str,
    rows: Sequence[Row],
    baseline: Sequence[Row],
    is_bad: Callable[[Row], bool],
    rules: ReleaseRules,
) -> RuleResult:
    """The rate of something bad may not rise at all."""
    ours, n = sum(map(is_bad, rows)), len(rows)
    theirs, before = sum(map(is_bad, baseline)), len(baseline)
    evidence: Evidence = {
        "candidate": {"failed": ours, "n": n},
        "baseline": {"failed": theirs, "n": before},
        "difference": None,
    }
    if not n or not before:
        return rule(id, None, "a side has no samples", evidence)
    difference = rate_difference(ours, n, theirs, before, level=rules.level)
    evidence["difference"] = difference.shown()
    counts = f"{ours} of {n}, {theirs} of {before} before"
    return rule(id, ours * before <= theirs * n, counts, evidence)


def _unpaired_scores(comparison: Comparison, rules: ReleaseRules) -> RuleResult:
    difference, claims = comparison.difference, comparison.claims
    evidence = {"difference": difference.shown(), "margin": rules.margin}
    if difference.low is None or difference.high is None:
        return rule(SCORE_RULE, None, f"no interval: {difference.reason}", evidence)
    reason = (
        f"{difference.value:+.2f} points, {difference.low:+.2f} to {difference.high:+.2f}, margin"
        f" {rules.margin:g}"
    )
    holds, violated = bool(claims.non_inferior), bool(claims.inferior)
    return rule(SCORE_RULE, holds, reason, evidence, violated=violated)
