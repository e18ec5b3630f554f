"""The four promotion rules, each on paired samples or on sets that share none.

A rule is violated where the evidence shows it; it may fail to hold without that, and it cannot be
judged where evidence is missing. Whatever the baseline has and the candidate lost violates a rule:
leaving something away must never help.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.records.decision import RuleResult
from assay.release.pass_rate import PassBar, check_pass_rate
from assay.release.required import lost_of, lost_said
from assay.stats.comparison import Comparison, compare_failures
from assay.stats.rates import rate_difference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from assay.release.pairs import Pair
    from assay.release.policy import ReleaseRules
    from assay.release.sides import Row

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
    """The lowest that the lower end could have been; None where there are too many to work it
    out.
    """


def rule(
    id: str, holds: bool | None, reason: str, evidence: Evidence, *, violated: bool | None = None
) -> RuleResult:
    """A rule with what it rests on; one that does not hold is violated unless stated otherwise."""
    return RuleResult(
        id=id,
        holds=holds,
        violated=holds is False if violated is None else violated,
        reason=reason,
        evidence=evidence,
    )


def _add_lost(evidence: Evidence, rows: Iterable[Row | None], *kinds: str) -> str:
    """What the candidate lost of these kinds, added to the evidence, and in words; empty where it
    lost nothing.
    """
    lost = lost_of(rows, *kinds)
    if not lost:
        return ""
    evidence.update(lost=lost[:SHOWN], lost_count=len(lost))
    return lost_said(lost)


def pass_rate(passed: Sequence[bool], bar: PassBar) -> RuleResult:
    """Enough of the candidate's samples must pass; one that it lost did not."""
    found = check_pass_rate(sum(passed), len(passed), bar)
    return rule(BAR_RULE, found.holds, found.reason, found.evidence)


# --- paired


def gate_failures(pairs: Sequence[Pair], rules: ReleaseRules, *, without_gates: bool) -> RuleResult:
    """The rate of samples that fail a gate may not rise by more than the policy allows."""
    ours = [pair.candidate is None or bool(pair.candidate.failed) for pair in pairs]
    theirs = [pair.baseline is not None and bool(pair.baseline.failed) for pair in pairs]
    if not ours:
        return rule(GATE_RULE, None, "there are no samples to compare", {})
    n = len(ours)
    allowed = Fraction(*rules.gate_failure_increase)
    compared = compare_failures(ours, theirs, allowed=float(allowed), level=rules.level)
    rise = Fraction(sum(ours) - sum(theirs), n)
    newly = [
        pair.sample
        for pair, mine, before in zip(pairs, ours, theirs, strict=True)
        if mine and not before
    ]
    evidence = {
        "candidate": {"failed": sum(ours), "rate": sum(ours) / n},
        "baseline": {"failed": sum(theirs), "rate": sum(theirs) / n},
        "n": n,
        "increase": float(rise),
        "allowed": float(allowed),
        "difference": compared.difference.shown(),
        "only_candidate": compared.only_candidate,
        "only_baseline": compared.only_baseline,
        "mcnemar_p": compared.mcnemar.p,
        "gates": _by_gate(pairs),
        "newly_failing": newly[:SHOWN],
        "newly_failing_count": len(newly),
    }
    counts = f"{sum(ours)} of {n} samples fail a gate, {sum(theirs)} before"
    lost = _add_lost(evidence, (pair.candidate for pair in pairs), "gate", "declaration")
    if lost:
        return rule(GATE_RULE, False, f"{lost}; {counts}", evidence)
    if rise > allowed:
        reason = f"{counts}; the rate rose by {float(rise):.4f}, and {float(allowed):g} is allowed"
        return rule(GATE_RULE, False, reason, evidence)
    ungated = [pair.sample for pair in pairs if pair.known is not None and not pair.known.gates]
    if ungated and not without_gates:
        evidence["without_gates"] = ungated[:SHOWN]
        reason = (
            f"{len(ungated)} of {n} samples have no hard gate on either side, for example"
            f" {ungated[0]}"
        )
        return rule(GATE_RULE, None, reason, evidence)
    reason = f"{counts}; the rate did not rise by more than {float(allowed):g}"
    return rule(GATE_RULE, True, reason, evidence)


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


def scores(
    pairs: Sequence[Pair],
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

    criteria = _add_lost(evidence, (pair.candidate for pair in pairs), "criterion")
    if criteria:
        reason = f"{criteria}, so its scores leave out what the baseline's count"
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
                "no bound on it is known"
                if lost.low is None
                else f"the lower end could have been {lost.low:+.2f}"
            )
            return unshown(
                f"runs of {lost.samples} samples are missing, and with what they held {low}; as"
                f" counted {ends}"
            )
    better = ", and better" if claims.superior else ""
    reason = f"not worse by {rules.margin:g} or more{better}: {ends}; adjusted {adjusted:+.2f}"
    if difference.low == difference.high:
        # the interval has no width because no difference was seen, which is not the same as that
        # there is none
        unseen = 1 - ((1 - rules.level) / 2) ** (1 / (comparison.clusters or comparison.n_paired))
        evidence["unseen_loss_rate"] = unseen
        reason += (
            f"; all differences are equal, and a total loss in up to {100 * unseen:.1f}% of samples"
            " could have gone unseen"
        )
    return rule(SCORE_RULE, True, reason, evidence)


def floors(pairs: Sequence[Pair], rules: ReleaseRules) -> RuleResult:
    """No sample may miss a critical floor that it kept before."""
    fresh: list[dict[str, str]] = []
    mended = 0
    for pair in pairs:
        if pair.known is None:
            continue
        mine = frozenset(pair.known.floors) if pair.candidate is None else pair.candidate.missed
        before = pair.baseline.missed if pair.baseline is not None else frozenset()
        fresh += [{"sample": pair.sample, "criterion": name} for name in sorted(mine - before)]
        mended += len(before - mine)
    evidence = {
        "new": fresh[:SHOWN],
        "new_count": len(fresh),
        "mended_count": mended,
        "allowed": rules.new_floor_failures,
    }
    lost = _add_lost(evidence, (pair.candidate for pair in pairs), "role", "floor")
    if lost:
        return rule(FLOOR_RULE, False, lost, evidence)
    if not fresh:
        reason = "no sample misses a critical floor that it kept before"
        return rule(FLOOR_RULE, True, reason, evidence)
    if len(fresh) <= rules.new_floor_failures:
        reason = f"{len(fresh)} new misses of a critical floor, within what is allowed"
        return rule(FLOOR_RULE, True, reason, evidence)
    first = fresh[0]
    more = f" (and {len(fresh) - 1} more)" if len(fresh) > 1 else ""
    reason = (
        f"{first['sample']} misses the floor of {first['criterion']}, which it kept before{more}"
    )
    return rule(FLOOR_RULE, False, reason, evidence)


def severe_failures(pairs: Sequence[Pair], rules: ReleaseRules) -> RuleResult:
    """Failures that the policy calls severe may not become more."""
    ours: list[dict[str, str]] = []
    theirs = 0
    for pair in pairs:
        if pair.known is None:
            continue
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
    evidence = {
        "candidate": len(ours),
        "baseline": theirs,
        "allowed_increase": rules.severe_increase,
        "items": ours[:SHOWN],
        "severe_gates": sorted(rules.severe_gates),
    }
    counts = f"{len(ours)} severe failure{'' if len(ours) == 1 else 's'}, {theirs} before"
    if len(ours) - theirs <= rules.severe_increase:
        return rule(SEVERE_RULE, True, counts, evidence)
    reason = f"{counts}; for example {ours[0]['what']} in {ours[0]['sample']}"
    return rule(SEVERE_RULE, False, reason, evidence)


# --- unpaired


def unpaired_rules(
    ours: Sequence[Row],
    theirs: Sequence[Row],
    comparison: Comparison,
    rules: ReleaseRules,
    *,
    without_gates: bool,
) -> tuple[RuleResult, ...]:
    """The four rules on sets that share no samples: gates, floors and severe failures go by their
    rate.
    """

    def is_severe(row: Row) -> bool:
        return bool(row.failed & rules.severe_gates or row.missed_roles & rules.severe_roles)

    made = [
        _rate(GATE_RULE, ours, theirs, lambda row: bool(row.failed), rules),
        _unpaired_scores(comparison, rules),
        _rate(FLOOR_RULE, ours, theirs, lambda row: bool(row.missed), rules),
        _rate(SEVERE_RULE, ours, theirs, is_severe, rules),
    ]
    for place, kinds in enumerate((("gate",), ("criterion",), ("role", "floor"))):
        evidence = dict(made[place].evidence)
        lost = _add_lost(evidence, ours, *kinds)
        if lost:
            made[place] = rule(made[place].id, False, lost, evidence)
    ungated = sum(not row.gates for row in ours)
    if ungated and made[0].holds and not without_gates:
        reason = f"{ungated} of {len(ours)} samples have no hard gate on either side"
        made[0] = rule(GATE_RULE, None, reason, made[0].evidence)
    return tuple(made)


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
