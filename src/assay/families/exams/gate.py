"""The gates of exams: which of them block, and which only warn.

There are four separate checks. The hard gate on the capstone exam and the drop on the regression
set block. The production target and the soft gates are signals. A rise that is larger than a drop
may be is checked for a fault of the rubric. Every comparison is of exact quotients. Two results are
compared only if they answer the same questions under the same rubric.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from assay.errors import InputError, count
from assay.families.exams.document import CheckedExam
from assay.families.exams.exam import CAPSTONE, REGRESSION
from assay.families.exams.gate_reasons import axis_reasons, drop_reason, fell_alone
from assay.families.exams.held_results import check_baseline, shown_otherwise
from assay.families.exams.policy import ExamRules, fraction, shown, text
from assay.families.exams.records import (
    AxisDrop,
    DropCheck,
    ExamGate,
    ExamGateDigests,
    HardGate,
    RubricCheck,
    SoftGate,
    TargetCheck,
)
from assay.families.exams.selftest import self_test

MAX_NAMED = 20
"""Items that a result names for one axis; the marks of all are in the graded exams."""


def opens(score: Fraction, rules: ExamRules) -> bool:
    """Whether a score opens the hard gate: the limit itself does."""
    return score >= rules.hard_gate


def reaches(score: Fraction, rules: ExamRules) -> bool:
    """Whether a score reaches the production target: the target itself does."""
    return score >= rules.production_target


def drop_holds(baseline: Fraction, candidate: Fraction, max_drop: Fraction) -> bool:
    """Whether a candidate falls by no more than the limit, absolute and inclusive.

    >>> drop_holds(fraction(0.97), fraction(0.95), fraction(0.02)), 0.97 - 0.95 <= 0.02
    (True, False)
    """
    return baseline - candidate <= max_drop


def soft_latency(p50_ms: Any, rules: ExamRules, *, unmeasured: int = 0) -> SoftGate:
    """The median latency against its budget. Answers without a measured latency may be the slow
    ones, so they warn too.
    """
    limit, reason = rules.policy.soft.p50_latency_ms, ""
    slow = p50_ms is None or fraction(p50_ms) > rules.soft_latency_ms
    if p50_ms is None:
        reason = "no latency was measured"
    elif unmeasured > 0 and not slow:
        reason = f"{p50_ms} against {limit}, and {count(unmeasured, 'answer')} without a latency"
    return SoftGate(
        id="p50_latency_ms", warn=slow or bool(reason), value=p50_ms, limit=limit, reason=reason
    )


NO_REGRESSION = "no regression set was given"


def soft_schema(regression: CheckedExam | None, rules: ExamRules) -> SoftGate:
    """The answers of the regression set that break their schema."""
    if regression is None:
        return schema_failures(None, rules, reason=NO_REGRESSION)
    axis = regression.marking.axis_of_kind("schema")
    if axis is None:
        return schema_failures(None, rules, reason="the rubric checks no schema")
    return schema_failures(regression.zero(axis), rules)


def schema_failures(failures: int | None, rules: ExamRules, *, reason: str = "") -> SoftGate:
    """That many answers that break their schema, against the limit."""
    limit = rules.policy.soft.schema_failures
    return SoftGate(
        id="schema_failures",
        warn=None if failures is None else failures > limit,
        value=failures,
        limit=limit,
        reason=reason,
    )


def soft_score(score: Fraction | None, rules: ExamRules) -> SoftGate:
    """The score on the regression set. It warns; the gate that blocks there is the drop."""
    return SoftGate(
        id="regression_score",
        warn=None if score is None else score < rules.soft_score,
        value=None if score is None else shown(score),
        limit=rules.policy.soft.regression_score,
        reason=NO_REGRESSION if score is None else "",
    )


def comparable(candidate: CheckedExam, baseline: CheckedExam) -> None:
    """Refuse two results that do not answer the same questions under the same rubric and scoring
    system.
    """
    check_baseline(baseline)
    ours, theirs = candidate.result, baseline.result
    reason = fix = ""
    if theirs.set != REGRESSION:
        reason = f"it belongs to the set '{theirs.set}', not to the regression set"
        fix = "Grade the production tutor on the regression set."
    elif ours.rubric != theirs.rubric or ours.digests.rubric != theirs.digests.rubric:
        reason = f"it was graded with {theirs.rubric}, the candidate with {ours.rubric}"
        fix = (
            f"Recalibrate it first: assay exam recalibrate --history {baseline.where} --rubric"
            f" {ours.rubric} --write DIR"
        )
    elif ours.scoring_system != theirs.scoring_system:
        reason = (
            f"it was made under {theirs.scoring_system}, the candidate under {ours.scoring_system}"
        )
        fix = "Grade its answers again."
    elif ours.digests.exam != theirs.digests.exam:
        lost = len(baseline.bits.keys() - candidate.bits.keys())
        added = len(candidate.bits.keys() - baseline.bits.keys())
        reason = (
            f"it is for another exam ({lost} of its items are gone, {added} are new, or their"
            " expectations changed)"
        )
        fix = "Grade the production tutor on this exam and store that as the baseline."
    elif other := shown_otherwise(
        ours, {item.item: (item.prompt, item.expected) for item in theirs.items}
    ):
        # A result states its own digests; its marks were held against the prompts it shows.
        reason = (
            f"the candidate shows another prompt or another expectation for {', '.join(other[:5])}"
        )
        fix = "Grade the candidate's answers again."
    if reason:
        raise InputError(
            "EXM-012", f"the baseline cannot be compared: {reason}.", where=baseline.where, fix=fix
        )


UNCHECKED = (
    "the capstone result was not checked against its exam; name the exam's files with --exam to"
    " detect omitted items"
)
"""The note of a gate that took the result's word for which items the exam has."""


def decide(
    capstone: CheckedExam,
    rules: ExamRules,
    *,
    regression: CheckedExam | None = None,
    baseline: CheckedExam | None = None,
    pass_score: Any = 0,
) -> ExamGate:
    """The verdict on a capstone result, with the regression set and its baseline where they are
    given. A regression set without its baseline is not judged, and then the gate does not pass. A
    `pass_score` of the capstone exam raises the hard gate and never lowers it; the regression set
    must reach its own too.
    """
    _check_set(
        capstone, CAPSTONE, "the hard gate is on the capstone exam", "Pass it with --regression."
    )
    if regression is not None:
        fix = "Grade the regression set, or a copy of the exam with `set: regression`; pass that."
        _check_set(regression, REGRESSION, "the drop is measured on the regression set", fix)
    notes = _notes(capstone, regression, baseline)
    score, policy = capstone.score, rules.policy
    pass_score = max(pass_score, capstone.pass_score)
    raised = fraction(pass_score) > rules.hard_gate
    limit = pass_score if raised else policy.hard_gate
    holds = score >= fraction(limit)
    bar = f"{'pass score' if raised else 'hard gate'} of {text(fraction(limit))}"
    reasons = [
        f"the capstone score {text(score)} {'reaches' if holds else 'is below'} the {bar}",
    ]
    drop = verify = None
    if regression is not None and baseline is not None:
        drop = drop_check(regression, baseline, rules)
        total = drop_holds(baseline.score, regression.score, rules.max_drop)
        reasons += [drop_reason(drop, holds=total), *axis_reasons(drop)]
        if not regression.passes:
            reasons.append(
                f"the regression score {text(regression.score)} is below the pass score of"
                f" {text(fraction(regression.pass_score))}"
            )
        notes += fell_alone(drop, capstone.marking)
        verify = _verify(regression, baseline, rules, reasons)
    elif regression is not None:
        reasons.append("the regression set was not judged: it has no baseline to compare with")
    return ExamGate(
        passed=holds
        and (regression is None or (drop is not None and drop.holds))
        and (verify is None or verify.holds),
        capstone=HardGate(holds=holds, score=shown(score), limit=limit, n=len(capstone.bits)),
        target=TargetCheck(
            holds=reaches(score, rules), score=shown(score), limit=policy.production_target
        ),
        regression=drop,
        soft=[
            soft_latency(capstone.result.latency.p50_ms, rules, unmeasured=capstone.unmeasured),
            soft_schema(regression, rules),
            soft_score(regression.score if regression is not None else None, rules),
        ],
        verify_rubric=verify,
        reasons=reasons,
        notes=notes,
        rubric=capstone.marking.id,
        policy=rules.id,
        digests=ExamGateDigests(
            rubric=capstone.marking.digest,
            policy=rules.digest,
            exam=capstone.result.digests.exam,
        ),
        scoring_system=capstone.marking.scoring_system,
        grading_system=rules.grading_system,
    )


def unchecked(gate: ExamGate) -> ExamGate:
    """The verdict of a gate that was not given the exam itself."""
    return replace(gate, unchecked=True, notes=[*gate.notes, UNCHECKED])


def _check_set(checked: CheckedExam, wanted: str, rule: str, fix: str) -> None:
    if checked.result.set != wanted:
        raise InputError(
            "EXM-013",
            f"belongs to the set '{checked.result.set}', but {rule}.",
            where=checked.where,
            fix=fix,
        )


def drop_check(regression: CheckedExam, baseline: CheckedExam, rules: ExamRules) -> DropCheck:
    """The regression set against its baseline and against the pass score of its exam."""
    comparable(regression, baseline)
    before, after = baseline.score, regression.score
    marking = regression.marking
    moves = {axis: regression.axis_mean(axis) - baseline.axis_mean(axis) for axis in marking.axes}
    by_axis = axis_drops(regression, baseline, rules)
    return DropCheck(
        holds=drop_holds(before, after, rules.max_drop)
        and all(drop.holds for drop in by_axis.values())
        and regression.passes,
        drop=shown(before - after),
        limit=rules.policy.max_drop,
        baseline=shown(before),
        candidate=shown(after),
        axes={axis: shown(move) for axis, move in moves.items()},
        by_axis=by_axis or UNSET,
    )


def axis_drops(
    regression: CheckedExam, baseline: CheckedExam, rules: ExamRules
) -> dict[str, AxisDrop]:
    """Each axis against its limits, item by item: a small axis that collapses hardly moves the
    total, and marks that move from some items to others don't move the mean. Empty if the policy
    has no limits for axes.
    """
    limits = rules.policy.regression_axes
    if limits is UNSET:
        return {}
    allowed = rules.axis_limits(regression.marking.axes, regression.marking.id)
    drops = {}
    for axis, bit in regression.marking.bit.items():
        pairs = [(baseline.bits[name] & bit, bits & bit) for name, bits in regression.bits.items()]
        lost = [
            name
            for name, (before, after) in zip(regression.bits, pairs, strict=True)
            if before and not after
        ]
        gained = sum(1 for before, after in pairs if after and not before)
        drop = baseline.axis_mean(axis) - regression.axis_mean(axis)
        limit = allowed[axis]
        share = Fraction(len(lost), len(pairs))
        drops[axis] = AxisDrop(
            holds=drop <= fraction(limit)
            and (limits.max_lost is None or share <= fraction(limits.max_lost)),
            drop=shown(drop),
            limit=limit,
            lost=len(lost),
            gained=gained,
            lost_limit=limits.max_lost,
            lost_items=lost[:MAX_NAMED],
        )
    return drops


def _verify(
    regression: CheckedExam, baseline: CheckedExam, rules: ExamRules, reasons: list[str]
) -> RubricCheck | None:
    """The rubric's own test, where the score rose so far that the rubric may be at fault. A score
    from a rubric that fails its own test doesn't count, however high.
    """
    rise = regression.score - baseline.score
    if rise <= rules.verify_rise_above:
        return None
    cases, failures = len(regression.marking.rubric.self_test), self_test(regression.marking)
    result = (
        f"the rubric fails {len(failures)} of the {cases} cases it contains"
        if failures
        else "the rubric passes its own test"
    )
    reasons.append(
        f"verify_rubric: a rise of {text(rise)} is more than {text(rules.verify_rise_above)};"
        f" {result}"
    )
    return RubricCheck(
        rise=shown(rise),
        limit=rules.policy.verify_rise_above,
        self_test={
            "passed": not failures,
            "cases": cases,
            "failures": failures,
        },
    )


def _notes(
    capstone: CheckedExam, regression: CheckedExam | None, baseline: CheckedExam | None
) -> list[str]:
    notes = []
    given = (("capstone", capstone), ("regression set", regression), ("baseline", baseline))
    for role, checked in given:
        if checked is None:
            continue
        result = checked.result
        if result.faults:
            notes.append(f"the {role}: graded despite {count(len(result.faults), 'faulty answer')}")
        if result.missing:
            notes.append(
                f"the {role}: {len(result.missing)} of {len(checked.bits)} items have no answer"
            )
        if checked.removed:
            notes.append(
                f"the {role}: it lacks {count(len(checked.removed), 'item')} of its exam,"
                f" counted as missing: {', '.join(checked.removed[:5])}"
            )
    if regression is not None and baseline is not None:
        ours, theirs = _versions(regression), _versions(baseline)
        if ours and theirs and ours != theirs:
            notes.append(
                f"the regression set: a result of {ours}, compared with one of {theirs}; their"
                " items are the same"
            )
        if regression.result.items == baseline.result.items:
            notes.append(
                "the regression set: its result and its baseline are the same, so nothing was"
                " compared"
            )
    return notes


def _versions(checked: CheckedExam) -> str:
    """The exams that a result is for, with their versions."""
    return ", ".join(sorted(f"{exam.exam}@{exam.version}" for exam in checked.result.exams))
