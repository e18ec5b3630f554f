"""The decision document with everything behind it: `assay.decision/1`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict, replace

from assay.canon import digest
from assay.errors import count
from assay.exact import Ratio
from assay.records.decision import (
    LOUD,
    SIDES,
    ComparisonRecord,
    Decision,
    Difference,
    Fingerprint,
    MissingSamples,
)
from assay.records.summary import value_interval
from assay.release.comparability import (
    UNADMITTED,
    mismatches,
    own_expectations,
    unadmitted_floors,
)
from assay.release.pair_tally import severe_criteria
from assay.release.pairs import clustered
from assay.release.policy import ReleaseRules
from assay.release.promotion import Promotion, outcome_of
from assay.release.promotion_rules import SCORE_RULE, is_severe, pass_rate, unpaired_rules
from assay.release.required import (
    check_judges,
    check_strata,
    closest,
    held_alike,
    lost_altogether,
    requirements,
)
from assay.release.sides import Row, Side
from assay.release.tally import CertainFailures
from assay.release.unscored import AGAIN, unscored_baseline, unscored_runs
from assay.stats.clusters import MINIMUM
from assay.stats.comparison import Comparison, compare_unpaired
from assay.stats.rates import mcnemar

EXITS = {"promote": 0, "hold": 1, "reject": 1, "not_enough_evidence": 4}
"""The exit code of each outcome."""
_IN_PAIRS = (
    "If it doesn't apply to those samples, compare the same samples: in pairs, a score that both"
    " sides lack is left out."
)
_UNGROUPED = (
    "the baseline's samples share groups, and the candidate's share none or too few, so the"
    f" interval may be too narrow. Name the group of each sample on both sides, at least {MINIMUM}"
    " groups on each, or compare the same samples."
)


def comparison_record(
    comparison: Comparison,
    *,
    n_candidate: int,
    n_baseline: int,
    n_paired: int,
    mcnemar_p: float | None,
    adjusted: float | None,
) -> ComparisonRecord:
    """The numbers of a comparison, on 0..100."""
    interval = asdict(value_interval(comparison.difference))
    return ComparisonRecord(
        n_candidate=n_candidate,
        n_baseline=n_baseline,
        n_paired=n_paired,
        difference=Difference(estimate=interval.pop("value"), **interval),
        adjusted_difference=adjusted,
        margin=comparison.margin,
        non_inferior=comparison.claims.non_inferior,
        superior=comparison.claims.superior,
        equivalent=comparison.claims.equivalent,
        p={
            "non_inferior": comparison.p_non_inferior,
            "superior": comparison.p_superior,
            "equivalent": comparison.p_equivalent,
        },
        mcnemar_p=mcnemar_p,
        minimum_detectable_effect=comparison.minimum_detectable_effect,
        wins=comparison.wins,
        losses=comparison.losses,
        ties=comparison.ties,
        sd=comparison.sd,
        clusters=comparison.clusters,
    )


def decision(
    promotion: Promotion,
    candidate: Side,
    baseline: Side,
    rules: ReleaseRules,
    *,
    plan: Mapping[str, Any],
    paired: bool = True,
    **more: Any,
) -> Decision:
    """The record of a promotion; `more` are its fields that not every decision has."""
    systems_of = systems(candidate, rules)
    if rules.overrides:
        more["overrides"] = list(rules.overrides)
    if promotion.decidable_margin is not None:
        more["decidable_margin"] = promotion.decidable_margin
    notes = more.get("notes", UNSET)
    loud = [note for note in (() if notes is UNSET else notes) if note.startswith(LOUD)]
    if loud:
        more["loud"] = loud
    record = Decision(
        outcome=promotion.outcome,
        reason=promotion.reason,
        rules=list(promotion.rules),
        comparison=comparison_record(
            promotion.comparison,
            n_candidate=candidate.size,
            n_baseline=baseline.size,
            n_paired=promotion.n_paired,
            mcnemar_p=_passes(promotion),
            adjusted=promotion.adjusted_difference,
        ),
        would_change=list(promotion.would_change),
        missing=promotion.missing,
        worse=[] if promotion.tally is None else promotion.tally.worse,
        paired=paired,
        candidate=replace(candidate.summary, name=candidate.name),
        baseline=replace(baseline.summary, name=baseline.name),
        fingerprint=Fingerprint(
            digest=candidate.fingerprint_digest, fields=dict(candidate.fingerprint)
        ),
        plan=dict(plan),
        policy=rules.policy,
        scoring_system=systems_of["scoringSystem"],
        grading_system=systems_of["gradingSystem"],
        digests={},
        **more,
    )
    content = {key: value for key, value in record.tree().items() if key != "digests"}
    return replace(
        record,
        digests={
            "policy": rules.digest,
            **{
                name: side.digests["evidence"]
                for name, side in zip(SIDES, (candidate, baseline), strict=True)
            },
            "decision": digest(content),
        },
    )


def _passes(promotion: Promotion) -> float | None:
    """The exact two-sided p-value of McNemar's test on which samples pass: whether one side passes
    samples that the other fails more often than the reverse.
    """
    tally = promotion.tally
    if tally is None or not tally.compared.n:
        return None
    return mcnemar(tally.passes.gained, tally.passes.lost)


def systems(side: Side, rules: ReleaseRules) -> dict[str, str]:
    """The systems that a decision on this side is made under: those of its grades, and the release
    policy if it is not the published default.
    """
    scoring, grading = (
        ", ".join(side.fingerprint[name]) for name in ("scoringSystem", "gradingSystem")
    )
    return {"scoringSystem": scoring, "gradingSystem": rules.grading_system(grading)}


def unpaired_decision(
    candidate: Side,
    baseline: Side,
    rules: ReleaseRules,
    *,
    plan: Mapping[str, Any],
    without_gates: bool = False,
    **more: Any,
) -> Decision:
    """A decision on sets that share no samples, if the user asked for that. Nothing is compared
    sample by sample, so floors are compared by their rate.
    """
    rows = _in_order(candidate), _in_order(baseline)
    strata = {row.stratum for row in rows[1]}
    like = {row.sample: closest(row.stratum, strata) for row in rows[0]}
    check_strata((row.sample, row.stratum, like[row.sample]) for row in rows[0])
    check_judges(*rows)
    required, before = requirements(*rows), requirements(rows[1])
    ours = [held_alike(row, required, like=like[row.sample]) for row in rows[0]]
    # a gate or a floor that only the candidate has must not count against the baseline
    theirs = [held_alike(row, before) for row in rows[1]]
    lost = {*ours[0].lost, *lost_altogether(*rows, like)}
    ours[0] = ours[0]._replace(lost=tuple(sorted(lost)))
    groups = [clustered([row.group for row in side]) for side in rows]
    comparison = compare_unpaired(
        [float(row.score) / 100 for row in ours],
        [float(row.score) / 100 for row in theirs],
        margin=rules.margin,
        groups=groups,
        level=rules.level,
        power=rules.power,
        guaranteed=rules.guaranteed,
    )
    results = unpaired_rules(ours, theirs, comparison, rules, own=rows, without_gates=without_gates)
    unscored = unscored_baseline(
        candidate,
        baseline,
        unscored_runs(candidate, baseline),
        comparison.difference.low,
        strata,
        # without pairs no rate may rise at all: what a policy allows is for pairs
        rules._replace(gate_failure_increase=Ratio(0, 1), new_floor_failures=0, severe_increase=0),
        certain=_certain(lambda row, without: bool(row.failed - without), (ours, theirs), rows),
        severe=_certain(partial(is_severe, rules), (ours, theirs), rows),
        severe_criteria=frozenset().union(*(severe_criteria(row, rules) for row in rows[0])),
        sizes=(len(rows[0]), len(rows[1])),
        alone=0,
    )
    open_rules = {
        rule: f"{reason} {_IN_PAIRS}" if reason.endswith(AGAIN) else reason
        for rule, reason in unscored.items()
    }
    if groups[0] is None and groups[1] is not None:
        open_rules[SCORE_RULE] = _UNGROUPED
    if own := own_expectations(candidate, baseline, paired=False):
        open_rules[SCORE_RULE] = own
    if unadmitted_floors(candidate) is not None:
        open_rules[SCORE_RULE] = UNADMITTED
    results = tuple(
        replace(rule, holds=False, reason=open_rules[rule.id])
        if rule.holds and rule.id in open_rules
        else rule
        for rule in results
    )
    if rules.bar is not None:
        results = (*results, pass_rate(sum(row.passed for row in ours), len(ours), rules.bar))
    n = min(len(ours), len(theirs))
    outcome, reason = outcome_of(
        results,
        too_few="" if n >= rules.min_pairs else f"{count(n, 'sample')} on the smaller side",
        rules=rules,
        promoted="every rule holds, on sets that share no samples",
    )
    advice = "Compare on the same samples: a paired comparison sees far smaller differences."
    nothing = MissingSamples(candidate=[], baseline=[], quarantined=[])
    return decision(
        Promotion(outcome, reason, results, comparison, None, nothing, (), 0, (advice,)),
        candidate,
        baseline,
        rules,
        plan=plan,
        paired=False,
        mismatches=[mismatch.sentence() for mismatch in mismatches(candidate, baseline)],
        **more,
    )


def _in_order(side: Side) -> list[Row]:
    return [side.rows[name] for name in sorted(side.rows)]


def _certain(
    fails: Callable[[Row, frozenset[str]], bool], *sides: tuple[Sequence[Row], Sequence[Row]]
) -> CertainFailures:
    """How many samples fail, and how many of the baseline's without gates that lack evidence: as
    they are held or by their own gates, whichever is worse for the candidate.
    """
    found = []
    for ours, theirs in sides:
        failed, before = (sum(fails(row, frozenset()) for row in side) for side in (ours, theirs))
        sure = sum(fails(row, row.undetermined) for row in theirs)
        found.append(CertainFailures(failed, sure, before - sure))
    n, size = map(len, sides[0])
    return max(found, key=lambda one: one.candidate * size - one.baseline * n)


def exit_code(made: Decision) -> int:
    """The exit code of a decision."""
    return EXITS[made.outcome]
