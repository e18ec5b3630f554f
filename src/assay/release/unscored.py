"""What the baseline never measured: runs that succeeded without a score for a criterion, or with an
undetermined gate.

A missing score counts as 0, and an undetermined gate as failed. On the baseline's side that would
help the candidate, so a rule that holds only because of it doesn't hold: forgetting evidence never
helps. A criterion that the candidate has no score for either is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from assay.records.summary import SummaryBlock
from assay.release.policy import ReleaseRules
from assay.release.promotion import Promotion, with_finding
from assay.release.promotion_rules import FLOOR_RULE, GATE_RULE, SCORE_RULE
from assay.release.sides import Stratum
from assay.stats.comparison import Comparison

AGAIN = "Evaluate the baseline again with all of its evidence."


def hold_unscored(
    promotion: Promotion, candidate: SummaryBlock, baseline: SummaryBlock, rules: ReleaseRules
) -> Promotion:
    """The decision, with every rule that the missing evidence of the baseline leaves open."""
    strata = promotion.tally.compared.strata if promotion.tally is not None else ()
    found = unscored_baseline(candidate, baseline, promotion.comparison, strata, rules)
    for rule, reason in found.items():
        promotion = with_finding(promotion, reason, {}, rules, violated=False, id=rule)
    return promotion


def unscored_baseline(
    candidate: SummaryBlock,
    baseline: SummaryBlock,
    comparison: Comparison,
    strata: Iterable[Stratum],
    rules: ReleaseRules,
) -> dict[str, str]:
    """Why a rule doesn't hold though it does as counted, by its id."""
    inconclusive = baseline.coverage["inconclusive"]
    if not inconclusive:
        return {}
    found = {
        SCORE_RULE: _scores(candidate, baseline, comparison, strata, rules),
        FLOOR_RULE: _floors(candidate, baseline, rules),
        GATE_RULE: _gates(candidate, baseline, rules),
    }
    return {rule: f"{reason}. {AGAIN}" for rule, reason in found.items() if reason}


def _scores(
    candidate: SummaryBlock,
    baseline: SummaryBlock,
    comparison: Comparison,
    strata: Iterable[Stratum],
    rules: ReleaseRules,
) -> str:
    """Whether the missing scores could hide a drop of the margin."""
    shares: dict[str, Fraction] = {}
    for stratum in strata:
        for name, weight in zip(stratum.criteria, stratum.weights, strict=True):
            share = Fraction(weight, sum(stratum.weights))
            shares[name] = max(share, shares.get(name, share))
    missing = {
        name: least
        for name, one in baseline.criteria.items()
        if (least := min(one.missing, baseline.coverage["inconclusive"]))
        and (ours := candidate.criteria.get(name)) is not None
        and ours.missing < ours.n
    }
    points = sum(
        (100 * shares.get(name, Fraction(0)) * times for name, times in missing.items()),
        Fraction(0),
    )
    off, low = float(points / baseline.n), comparison.difference.low
    if not off or low is None or low - off > -rules.margin:
        return ""
    listed = ", ".join(f"{name} in {times} of {baseline.n}" for name, times in missing.items())
    return (
        f"runs of the baseline have no score for {listed}; with one, the difference could be"
        f" {off:.2f} points lower, and as counted its lower end is {low:+.2f}"
    )


def _floors(candidate: SummaryBlock, baseline: SummaryBlock, rules: ReleaseRules) -> str:
    """Whether the candidate misses a floor where the baseline may have kept it."""
    for name, theirs in baseline.criteria.items():
        ours = candidate.criteria.get(name)
        missing = min(theirs.missing, baseline.coverage["inconclusive"])
        if ours is None or not missing:
            continue
        misses, before = (max(0, one.floor_failures - one.missing) for one in (ours, theirs))
        if misses - before > rules.new_floor_failures:
            return (
                f"{misses} scores of the candidate for {name} miss its floor, {before} of the"
                f" baseline, which has no score in {missing} of {baseline.n} runs"
            )
    return ""


def _gates(candidate: SummaryBlock, baseline: SummaryBlock, rules: ReleaseRules) -> str:
    """Whether the candidate fails a gate that the baseline may have passed."""
    allowed = Fraction(*rules.gate_failure_increase)
    for name, theirs in baseline.gates.items():
        ours = candidate.gates.get(name)
        unknown = min(theirs.undetermined, baseline.coverage["inconclusive"])
        if ours is None or not unknown:
            continue
        failures, before = (one.failed - one.undetermined for one in (ours, theirs))
        if Fraction(failures, ours.n) - Fraction(before, theirs.n) > allowed:
            return (
                f"{name} fails in {failures} of {ours.n} runs of the candidate and in {before} of"
                f" the baseline, where it is undetermined in {unknown} of {theirs.n}"
            )
    return ""
