"""Grade a scorecard by a policy: the deterministic algorithm of the scoring guide, section 5.1.

The score is computed even if a gate fails, for diagnosis; then gates, floors and threshold decide,
in that order. Nothing here measures: see `scoring`. Nothing here releases: see `release`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from assay import exact
from assay.canon import number_text
from assay.errors import EvidenceError, FaultList, FormulaError, InputError
from assay.exact import NORM_ONE, SCORE_MAX
from assay.formulas import FORMULAS, check_params, floor_norm, formula, normalise
from assay.grading import rules as rule
from assay.grading.policy import Rules
from assay.records.evidence import JudgeOn
from assay.records.grade import Finding, Grade, GradedCriterion
from assay.records.scorecard import ROLES, Criterion, Scorecard
from assay.registry import identifier_fault, near_miss


@lru_cache(maxsize=256, typed=True)
def _whole(*weights: Any) -> tuple[int, ...]:
    """The weights as integers. The cache is typed: 1 equals true, which is not a weight."""
    ratios = []
    for weight in weights:
        value = exact.ratio(weight)
        if value.num < 0:
            raise ValueError(f"{weight} is below zero")
        ratios.append(value)
    return exact.whole_weights(ratios)


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
    criteria = scorecard.criteria
    bands = rules.bands
    try:
        weights = _whole(*[criterion.weight for criterion in criteria])
        total = sum(weights)
        stated = (
            rules.threshold
            if scorecard.pass_threshold is None
            else exact.reach(scorecard.pass_threshold, exact.SCORE_DIGITS)
        )
    except (ValueError, TypeError):
        raise _refused(scorecard) from None
    if (
        total <= 0
        or not _is_threshold(scorecard.pass_threshold)
        or len({criterion.name for criterion in criteria}) != len(criteria)
    ):
        raise _refused(scorecard)
    # a card may raise its threshold, and lower it only if the policy allows that
    lowered = stated < rules.threshold and not rules.cards.lower_threshold
    threshold = rules.threshold if lowered else stated
    overrides = scorecard.profile is not None or rules.cards.floor_override
    pull = rules.shrinkage
    top = top_adjusted = 0
    graded: list[GradedCriterion] = []
    floor_failures: list[str] = []
    has_terms = calibrated or both_orders or rules.judge_terms is not None
    try:
        for criterion, weight in zip(criteria, weights, strict=True):
            raw = criterion.raw_score
            if raw is None:
                if criterion.missing is None:
                    raise _refused(scorecard)
                check_params(criterion.formula_id, criterion.params)
                norm = adjusted = 0  # not shrunk: a missing score must not rise to the prior
            else:
                norm = formula(criterion.formula_id).apply(raw, criterion.params)
                adjusted = exact.shrink(norm, criterion.n, pull)
            judge_fault = None
            if has_terms and criterion.name not in measured:
                judge_fault = rule.judge_fault(
                    criterion, judges or {}, rules, calibrated=calibrated, both_orders=both_orders
                )
            role = criterion.role
            by_role = None if role is None else rules.role_floors.get(role)
            if role is not None and by_role is None and _is_slip(role):
                raise _refused(scorecard)
            floor, origin = rule.effective_floor(criterion, rules, overrides=overrides)
            failed = floor is not None and (norm < floor or judge_fault is not None)
            if failed:
                floor_failures.append(criterion.name)
            top += weight * norm
            top_adjusted += weight * adjusted
            graded.append(
                GradedCriterion(
                    criterion=criterion,
                    norm_units=norm,
                    adjusted_units=adjusted,
                    contribution_units=(2 * weight * norm + 10 * total) // (20 * total),
                    floor_units=floor,
                    floor_from=origin,
                    floor_failed=failed,
                    judge_fault=judge_fault,
                    role_floor_units=by_role,
                    disagreement_units=rule.disagreement(criterion),
                    was_measured=criterion.name in measured,
                )
            )
    except FormulaError:
        raise _refused(scorecard) from None
    denominator = 2 * total * NORM_ONE
    score = (2 * top * SCORE_MAX + total * NORM_ONE) // denominator
    adjusted_score = (2 * top_adjusted * SCORE_MAX + total * NORM_ONE) // denominator
    gate_failures = rule.failed_gates(scorecard)
    provisional = rule.band(score, bands)
    listed = tuple(graded)
    findings = rule.gate_findings(scorecard, gate_failures, rules)
    findings += rule.score_findings(listed) + rule.floor_findings(listed)
    if has_terms:
        findings += rule.judge_findings(listed)
    letter = provisional
    if floor_failures:
        letter = rule.worse(provisional, rules.cap, bands)
        findings.append(
            Finding(
                "floor_cap",
                letter != provisional,
                "",
                f"a missed floor caps the grade at {rules.cap}",
            )
        )
    above = score >= threshold
    findings.append(_ABOVE if above else _BELOW)
    if gate_failures:
        letter = bands[-1].grade
    ungated = not scorecard.hard_gates and not rules.cards.without_gates
    reaches = letter != bands[-1].grade and (
        threshold >= rules.threshold
        or rule.worse(letter, rules.lowest_passing, bands) == rules.lowest_passing
    )
    passed = above and reaches and not ungated and not gate_failures and not floor_failures
    if passed:
        reason = "passed"
    elif gate_failures:
        reason = "hard_gate_failure"
    elif floor_failures:
        reason = "critical_floor_failure"
    elif not above:
        reason = "below_pass_threshold"
    else:
        reason = "no_hard_gates" if reaches else "below_passing_grade"
    if stated != rules.threshold:
        card, policy = number_text(scorecard.pass_threshold), number_text(rules.pass_threshold)
        text = f"the scorecard sets the threshold to {card}; the policy's is {policy}"
        if lowered:
            text = (
                f"the scorecard asks for a threshold of {card}; the policy's {policy} holds,"
                " because a card may only raise it"
            )
        findings.append(Finding("pass_threshold", True, "", text))
    return Grade(
        run_id=scorecard.run_id,
        passed=passed,
        grade=letter,
        provisional_grade=provisional,
        score_units=score,
        adjusted_score_units=adjusted_score,
        threshold_units=threshold,
        threshold=(
            rules.pass_threshold
            if scorecard.pass_threshold is None or lowered
            else scorecard.pass_threshold
        ),
        reason=reason,
        hard_gate_failures=gate_failures,
        floor_failures=tuple(floor_failures),
        criteria=listed,
        weights=weights,
        bands=bands,
        floor_cap=rules.cap,
        comfortable_margin=rules.comfortable_margin,
        floor_roles=tuple(rules.role_floors),
        disagreement_limit=rules.disagreement_limit,
        scorecard=scorecard,
        policy=rules.policy,
        policy_digest=rules.digest,
        findings=tuple(findings),
        grading_system=rules.grading_system,
    )


_ABOVE = Finding("pass_threshold", False, "", "the score reaches the threshold")
_BELOW = Finding("pass_threshold", True, "", "the score is below the threshold")


def _is_threshold(value: Any) -> bool:
    """Whether a threshold is in 0..100; None means the policy's."""
    if value is None:
        return True
    threshold = exact.ratio(value)
    return 0 <= threshold.num <= 100 * threshold.den


def _is_slip(role: str) -> bool:
    """Whether a role is misspelt and would lose the floor of the intended one."""
    return role not in ROLES and bool(near_miss(role, ROLES))


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
    if role is not None and _is_slip(role):
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
