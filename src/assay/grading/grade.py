"""Grade a scorecard by a policy: the deterministic algorithm of the scoring guide, section 5.1.

The score is computed even if a gate fails, for diagnosis; then gates, floors and threshold decide,
in that order. Nothing here measures: see `scoring`. Nothing here releases: see `release`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay import exact
from assay.errors import EvidenceError, FaultList, FormulaError, InputError
from assay.exact import NORM_ONE, SCORE_MAX
from assay.formulas import FORMULAS, check_params, floor_norm, normalise
from assay.grading import rules as rule
from assay.grading.plan import GradingPlan, GradingPlans, JudgesOf, NotGradable, is_slip
from assay.grading.policy import Rules
from assay.records.evidence import JudgeOn
from assay.records.grade import Grade, GradedCriterion
from assay.records.scorecard import ROLES, Criterion, Scorecard
from assay.registry import identifier_fault, near_miss


def grade(
    scorecard: Scorecard,
    rules: Rules,
    *,
    judges: Mapping[JudgeOn, str | None] | None = None,
    measured: frozenset[str] = frozenset(),
    calibrated: bool = False,
    both_orders: bool = False,
) -> Grade:
    """The grade of a scorecard. Raises `EvidenceError` with every fault of the card.

    `judges` has, for each judge by its whole identity, why it may not gate, or None if it may.
    `measured` are the criteria that Assay computed from the evidence, which a card can't claim.
    `calibrated` and `both_orders` are the profile's requirements on judges, whatever the policy.
    """
    plan = plan_of(scorecard, GradingPlans(rules), JudgesOf(measured, calibrated, both_orders))
    return grade_by(scorecard, plan, judges=judges or {})


def plan_of(scorecard: Scorecard, plans: GradingPlans, terms: JudgesOf) -> GradingPlan:
    """The plan for the criteria of a scorecard. Raises as `grade` does."""
    try:
        return plans.of(scorecard, terms)
    except NotGradable:
        raise _refused(scorecard) from None


def grade_by(
    scorecard: Scorecard,
    plan: GradingPlan,
    *,
    judges: Mapping[JudgeOn, str | None],
    norms: Sequence[int] | None = None,
) -> Grade:
    """The grade of a scorecard whose criteria the plan was compiled for. `norms` are those of its
    raw scores, 0 for a missing one, if scoring has computed them already.
    """
    rules = plan.rules
    bands, threshold, own = rules.bands, rules.threshold, scorecard.pass_threshold
    lowered = False
    if own is not None:
        try:
            stated = exact.reach(own, exact.SCORE_DIGITS)
            if not _is_threshold(own):
                raise _refused(scorecard)
        except ValueError:
            raise _refused(scorecard) from None
        # a card may raise its threshold, and lower it only if the policy allows that
        lowered = stated < threshold and not rules.cards.lower_threshold
        threshold = threshold if lowered else stated
    pull, total = rules.shrinkage, plan.total
    top = top_adjusted = 0
    graded: list[GradedCriterion] = []
    floor_failures: list[str] = []
    try:
        for index, (planned, criterion) in enumerate(
            zip(plan.criteria, scorecard.criteria, strict=True)
        ):
            raw, weight, floor = criterion.raw_score, planned.weight, planned.floor
            if raw is None:
                if criterion.missing is None:
                    raise _refused(scorecard)
                if norms is None:
                    check_params(criterion.formula_id, criterion.params)
                norm = adjusted = 0  # not shrunk: a missing score must not rise to the prior
            else:
                norm = planned.formula.apply(raw, planned.params) if norms is None else norms[index]
                adjusted = exact.shrink(norm, criterion.n, pull)
            judge_fault = None
            if planned.judged:
                judge_fault = rule.judge_fault(
                    criterion,
                    judges,
                    rules,
                    calibrated=plan.judges.calibrated,
                    both_orders=plan.judges.both_orders,
                )
            failed = floor is not None and (norm < floor or judge_fault is not None)
            if failed:
                floor_failures.append(planned.name)
            top += weight * norm
            top_adjusted += weight * adjusted
            graded.append(
                GradedCriterion(
                    criterion=criterion,
                    norm_units=norm,
                    adjusted_units=adjusted,
                    contribution_units=(2 * weight * norm + 10 * total) // (20 * total),
                    floor_units=floor,
                    floor_from=planned.floor_from,
                    floor_failed=failed,
                    judge_fault=judge_fault,
                    role_floor_units=planned.role_floor,
                    disagreement_units=(
                        None if criterion.disagreement is None else rule.disagreement(criterion)
                    ),
                    was_measured=planned.measured,
                )
            )
    except FormulaError:
        raise _refused(scorecard) from None
    half, denominator = total * NORM_ONE, 2 * total * NORM_ONE
    score = (2 * top * SCORE_MAX + half) // denominator
    adjusted_score = (2 * top_adjusted * SCORE_MAX + half) // denominator
    gate_failures = rule.failed_gates(scorecard)
    letter = provisional = rule.band(score, bands)
    if floor_failures:
        letter = rule.worse(provisional, rules.cap, bands)
    above = score >= threshold
    worst = bands[-1].grade
    if gate_failures:
        letter = worst
    reaches = letter != worst and (
        threshold >= rules.threshold
        or rule.worse(letter, rules.lowest_passing, bands) == rules.lowest_passing
    )
    if gate_failures:
        reason = "hard_gate_failure"
    elif floor_failures:
        reason = "critical_floor_failure"
    elif not above:
        reason = "below_pass_threshold"
    elif not reaches:
        reason = "below_passing_grade"
    elif not scorecard.hard_gates and not rules.cards.without_gates:
        reason = "no_hard_gates"
    else:
        reason = "passed"
    return Grade(
        run_id=scorecard.run_id,
        passed=reason == "passed",
        grade=letter,
        provisional_grade=provisional,
        score_units=score,
        adjusted_score_units=adjusted_score,
        threshold_units=threshold,
        threshold=rules.pass_threshold if own is None or lowered else own,
        reason=reason,
        hard_gate_failures=gate_failures,
        floor_failures=tuple(floor_failures),
        criteria=tuple(graded),
        weights=plan.weights,
        bands=bands,
        floor_cap=rules.cap,
        comfortable_margin=rules.comfortable_margin,
        floor_roles=plan.floor_roles,
        disagreement_limit=rules.disagreement_limit,
        scorecard=scorecard,
        policy=rules.policy,
        policy_digest=rules.digest,
        policy_threshold=rules.pass_threshold,
        may_lack_gates=rules.cards.without_gates,
        asks_of_judges=plan.asks_of_judges,
        grading_system=rules.grading_system,
    )


def _is_threshold(value: Any) -> bool:
    """Whether a threshold is in 0..100; None means the policy's."""
    if value is None:
        return True
    threshold = exact.ratio(value)
    return 0 <= threshold.num <= 100 * threshold.den


def _refused(scorecard: Scorecard) -> InputError:
    """The error with every fault of a scorecard that can't be graded."""
    faults = FaultList(code="GRD-101", limit=len(scorecard.criteria) * 8 + 3)
    if not scorecard.criteria:
        faults.add(
            "there are no criteria, so there is nothing to grade.", code="GRD-106", path="criteria"
        )
    seen: set[str] = set()
    weighed = not scorecard.criteria
    for index, criterion in enumerate(scorecard.criteria):
        at = f"criteria[{index}]"
        problem = identifier_fault(criterion.name)
        if problem is not None:
            faults.add(f"the name {problem}.", code="SCO-013", path=f"{at}.name")
        if criterion.name in seen:
            faults.add(
                f"a second criterion is named '{criterion.name}'.",
                code="GRD-102",
                path=f"{at}.name",
            )
        seen.add(criterion.name)
        try:
            weight = exact.ratio(criterion.weight).num
            if weight < 0:
                faults.add(
                    f"the weight is {criterion.weight}, below zero.",
                    code="SCO-004",
                    path=f"{at}.weight",
                )
            weighed = weighed or weight > 0
        except ValueError as error:
            weighed = True
            faults.add(
                f"the weight must be a number; {error}.", code="SCO-004", path=f"{at}.weight"
            )
        _find_faults(criterion, at, faults)
    if not weighed:
        faults.add(
            "all weights are zero, so there is nothing to weigh.", code="SCO-004", path="criteria"
        )
    try:
        if not _is_threshold(scorecard.pass_threshold):
            faults.add(
                f"is {scorecard.pass_threshold}, outside 0..100.",
                code="GRD-105",
                path="pass_threshold",
            )
    except ValueError as error:
        faults.add(f"must be a number; {error}.", code="GRD-105", path="pass_threshold")
    if not faults.kept:
        faults.add("it cannot be graded.")
    refused = faults.error(EvidenceError)
    refused.where = scorecard.run_id
    return refused


def _find_faults(criterion: Criterion, at: str, faults: FaultList) -> None:
    """Add the faults of one criterion besides its name and weight."""
    role, raw, params = criterion.role, criterion.raw_score, criterion.params
    if role is not None and is_slip(role):
        faults.add(
            f"there is no role '{role}'.{near_miss(role, ROLES)}", code="GRD-108", path=f"{at}.role"
        )
    if raw is None and criterion.missing is None:
        faults.add(
            "the raw score is missing.",
            code="GRD-103",
            path=f"{at}.raw_score",
            fix="A scorecard states every score, or why there is none in `missing`.",
        )

    def check(key: str, takes: Callable[..., object], *given: Any) -> None:
        try:
            takes(*given)
        except FormulaError as error:
            faults.add(error.message, code=error.code, path=f"{at}.{key}", fix=error.fix)

    if raw is None:
        check("raw_score", check_params, criterion.formula_id, params)
    else:
        check("raw_score", normalise, raw, criterion.formula_id, params)
    check("disagreement", rule.disagreement, criterion)
    override = criterion.floor_override
    floors = (
        ("critical_floor", criterion.critical_floor),
        ("floor_override", override and override.value),
    )
    for key, floor in floors if criterion.formula_id in FORMULAS else ():
        if floor is not None:
            check(key, floor_norm, floor, criterion.formula_id, params)
