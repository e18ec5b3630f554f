"""Decide whether the candidate may replace the baseline: four rules on paired samples, and the
outcome that follows from them.

The sample set is the plan's, else the union of both sides. A sample that the candidate lost counts
as score 0 with every gate failed and every floor missed; one that the baseline lost counts as 100
with every gate passed, and only against the candidate: so forgetting evidence never helps. An
outlier that is lost can still make an interval of Student's narrower; so where anything is missing,
the score rule holds only if it would hold whatever the lost runs came to. Outcomes, in this order:
`reject` where a rule is shown to be violated, whatever n; `not_enough_evidence` where there are too
few pairs, or a rule could not be judged; `hold` where the interval straddles minus the margin; else
`promote`.

These are two guards against a regression: the scores together (non-inferiority), and each sample by
itself (gates, floors, severe failures), so that neither a slow decline of all nor the loss of one
hides behind the other. Nothing here reads files or grades, and nothing but counts and sums of the
pairs reaches a rule: see `tally`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay import exact
from assay.errors import count
from assay.exact import NORM_ONE
from assay.records.decision import MissingSamples, Outcome, RuleResult
from assay.release.advice import Seen, decidable_margin, would_change
from assay.release.pair_tally import tally_of
from assay.release.pairs import Pair
from assay.release.policy import ReleaseRules
from assay.release.promotion_rules import (
    SCORE_RULE,
    LostRuns,
    floors,
    gate_failures,
    pass_rate,
    scores,
    severe_failures,
)
from assay.release.sides import Row
from assay.release.tally import MAX_MISSING, ComparedSides, PairTally, ScoreTally
from assay.stats.comparison import Comparison


class Promotion(NamedTuple):
    """The outcome with its rules and numbers."""

    outcome: Outcome
    reason: str
    rules: tuple[RuleResult, ...]
    comparison: Comparison
    adjusted_difference: float | None
    missing: MissingSamples
    pairs: tuple[Pair, ...]
    """Empty if they were counted elsewhere."""
    n_paired: int
    would_change: tuple[str, ...]
    decidable_margin: float | None = None
    """The margin that these samples could decide, where the policy's would need thousands."""
    tally: PairTally | None = None
    """What the rules were judged on; None if the sides are not paired."""


def promote(
    pairs: Sequence[Pair],
    rules: ReleaseRules,
    *,
    shrinkage: exact.Pull,
    quarantined: Sequence[str] = (),
    without_gates: bool = False,
    new: Sequence[Row] = (),
) -> Promotion:
    """Decide. `quarantined` samples, which the user named, take no part and are listed. With
    `without_gates` a sample may have no gate at all. `new` are samples that the baseline lacks:
    only the minimum pass rate counts them.
    """
    out = frozenset(quarantined)
    used = [pair for pair in pairs if pair.sample not in out]
    fresh = [row.passed for row in new if row.sample not in out]
    return promote_tally(
        tally_of(used, rules),
        rules,
        shrinkage=shrinkage,
        quarantined=sorted(out & {pair.sample for pair in pairs}),
        without_gates=without_gates,
        new=(sum(fresh), len(fresh)),
    )._replace(pairs=tuple(used))


def promote_tally(
    tally: PairTally,
    rules: ReleaseRules,
    *,
    shrinkage: exact.Pull,
    quarantined: Sequence[str] = (),
    without_gates: bool = False,
    new: tuple[int, int] = (0, 0),
) -> Promotion:
    """Decide on pairs that were counted. `new`: of the samples that the baseline lacks, how many
    pass, and how many there are.
    """
    compared, passes = tally.compared, tally.passes
    missing = MissingSamples(
        candidate=tally.missing_candidate.first,
        baseline=tally.missing_baseline.first,
        quarantined=list(quarantined),
        candidate_total=tally.missing_candidate.cut,
        baseline_total=tally.missing_baseline.cut,
    )
    comparison = compared.scores.compare(rules)
    adjusted = adjusted_difference(compared, shrinkage) if tally.n_paired else None
    lost = lost_could(compared.scores, rules) if comparison.claims.non_inferior else None
    results: tuple[RuleResult, ...] = (
        gate_failures(tally.gates, rules, without_gates=without_gates),
        scores(compared.lost, comparison, adjusted, rules, lost=lost),
        floors(tally.floors, rules),
        severe_failures(tally.severe, rules),
    )
    if rules.bar is not None:
        bar_rule = pass_rate(passes.candidate + new[0], passes.n + new[1], rules.bar)
        if passes.alone or new[1]:
            passed, n = passes.candidate - passes.alone, passes.n - passes.alone
            bar_rule = _worse_rule(bar_rule, pass_rate(passed, n, rules.bar))
        results = (*results, bar_rule)
    return _decided(
        Promotion(
            "hold",
            "",
            results,
            comparison,
            adjusted,
            missing,
            (),
            tally.n_paired,
            (),
            tally=tally,
        ),
        rules,
    )


def _worse_rule(whole: RuleResult, part: RuleResult) -> RuleResult:
    """The worse of a rule on all samples and without passes that only the candidate has, which
    dilute it; from worst to best: violated, undetermined, not shown, holds.
    """
    order = [(rule.violated, rule.holds is None, rule.holds is False) for rule in (whole, part)]
    if order[1] <= order[0]:
        return whole
    return replace(part, reason=f"without passes that only the candidate has: {part.reason}")


def with_comparison(
    promotion: Promotion, comparison: Comparison, rules: ReleaseRules, *, lost: LostRuns | None
) -> Promotion:
    """The same decision with another comparison of the scores, and what missing scores could do to
    it: the score rule and the outcome are worked out again.
    """
    adjusted = promotion.adjusted_difference
    criteria = None if promotion.tally is None else promotion.tally.compared.lost
    rule = scores(criteria, comparison, adjusted, rules, lost=lost)
    return _with_rule(promotion._replace(comparison=comparison), rule, rules)


def with_finding(
    promotion: Promotion,
    reason: str,
    evidence: Mapping[str, Any],
    rules: ReleaseRules,
    *,
    violated: bool,
    id: str = SCORE_RULE,
    names_lost: bool = False,
) -> Promotion:
    """The same decision with a rule that is violated, or does not hold, for a reason that the
    counts and the overall interval do not show. If it `names_lost` evidence, it says more than the
    rule, which only counts that.
    """
    rule = next(rule for rule in promotion.rules if rule.id == id)
    only_counted = names_lost and "lost_runs" in rule.evidence
    if not violated and not rule.holds and not only_counted:
        return promotion
    shown = replace(
        rule,
        holds=False,
        violated=violated,
        reason=reason,
        evidence={**rule.evidence, **evidence},
    )
    return _with_rule(promotion, shown, rules)


def _with_rule(promotion: Promotion, rule: RuleResult, rules: ReleaseRules) -> Promotion:
    return _decided(
        promotion._replace(
            rules=tuple(rule if known.id == rule.id else known for known in promotion.rules)
        ),
        rules,
    )


def _decided(promotion: Promotion, rules: ReleaseRules) -> Promotion:
    """The outcome that follows from the rules."""
    paired, claims = promotion.n_paired, promotion.comparison.claims
    better = (
        "; the candidate is better"
        if claims.superior
        else "; the two are equivalent"
        if claims.equivalent
        else ""
    )
    outcome, reason = outcome_of(
        promotion.rules,
        too_few="" if paired >= rules.min_pairs else count(paired, "paired sample"),
        rules=rules,
        promoted=f"every rule holds{better}",
    )
    seen = Seen(promotion.rules, promotion.comparison, promotion.n_paired, promotion.missing)
    changes = would_change(seen, outcome, rules)
    margin = decidable_margin(seen, rules)
    if margin is not None:
        changes.append(f"These samples could decide a margin of {margin:g} points today.")
    return promotion._replace(
        outcome=outcome,
        reason=reason,
        would_change=tuple(changes),
        decidable_margin=margin,
    )


def lost_could(tally: ScoreTally, rules: ReleaseRules) -> LostRuns | None:
    """How low the lower end could have been, whatever the lost runs scored and the missing scores
    were; None if nothing is missing, or if that can't raise the lower end.

    The end is lowest where each of them is at one end of its range: Student's interval falls with
    the mean and with the spread, so those whose range has its middle furthest above come first. The
    interval that assumes nothing only falls when a value falls.
    """
    if not tally.lacking:
        return None
    if tally.lost_count > MAX_MISSING and not rules.guaranteed:
        return LostRuns(tally.lost_count, None)
    ends = []
    raised = 0 if rules.guaranteed else min(len(tally.lost), MAX_MISSING)
    for n in range(raised + 1):
        moved = [(pair, pair.raised) for pair in tally.lost[:n]]
        moved += [(pair, pair.lowest) for pair in tally.lost[n:] if pair.value is not None]
        ends.append(tally.compare(rules, moved=moved).difference.low)
    low = None if None in ends else min(end for end in ends if end is not None)
    first = tally.lost[0].sample if tally.lost and tally.lacking > tally.lost_count else ""
    return LostRuns(tally.lacking, low, first)


def adjusted_difference(compared: ComparedSides, shrinkage: exact.Pull) -> float | None:
    """The difference of the adjusted scores, formed once for each side and criterion, with n the
    samples that are paired.

    Formed for each run, the pull towards the prior would hide a drop of twenty points. A lost
    sample stays in n: were n smaller for it, the pull would be stronger, and a loss would make a
    drop look smaller. A sample that nobody has is a drop of 100 points.
    """
    if not compared.n:
        return None
    difference = Fraction(-compared.nobody * NORM_ONE, compared.n)
    for stratum, (ours, theirs, n) in compared.strata.items():
        weight_sum = sum(stratum.weights)
        for weight, our, their in zip(stratum.weights, ours, theirs, strict=True):
            mine, other = (
                exact.shrink(_rounded(Fraction(total, n)), n, shrinkage) for total in (our, their)
            )
            difference += Fraction(weight * (mine - other) * n, weight_sum * compared.n)
    return float(difference * 100 / NORM_ONE)


def _rounded(value: Fraction) -> int:
    return exact.quantise(value.numerator, value.denominator, 0)


def outcome_of(
    results: Sequence[RuleResult], *, too_few: str, rules: ReleaseRules, promoted: str
) -> tuple[Outcome, str]:
    """The outcome of the rules and its reason. `too_few` names the samples where they are fewer
    than the policy asks for.
    """
    violated = [rule for rule in results if rule.violated]
    if violated:
        more = f" (and {len(violated) - 1} more)" if len(violated) > 1 else ""
        return "reject", f"{violated[0].id}: {violated[0].reason}{more}"
    if too_few:
        reason = f"{too_few}; the policy asks for at least {rules.min_pairs}"
        return "not_enough_evidence", reason
    for rule in results:
        if rule.holds is None:
            return "not_enough_evidence", f"{rule.id}: {rule.reason}"
    for rule in results:
        if not rule.holds:
            return "hold", f"{rule.id}: {rule.reason}"
    return "promote", promoted
