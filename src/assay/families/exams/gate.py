"""The gates of exams: which of them block, and which only warn.

There are four separate checks. The hard gate on the capstone exam and the drop on the regression
set block. The production target and the soft gates are signals. A rise that is larger than a drop
may be is checked for a fault of the rubric. Every comparison is of exact quotients. Two results are
compared only if they answer the same questions under the same rubric, all of them, and show answers
that can have earned their marks.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from assay.canon import number_text
from assay.errors import InputError, NotEnoughEvidence, count
from assay.families.exams.exam import CAPSTONE, REGRESSION, Exam, exam_digest
from assay.families.exams.marking import Marking, self_test
from assay.families.exams.policy import ExamRules, fraction, shown, text
from assay.families.exams.records import (
    AxisDrop,
    DropCheck,
    ExamGate,
    ExamGateDigests,
    ExamResult,
    HardGate,
    ItemResult,
    RubricCheck,
    SoftGate,
    TargetCheck,
)
from assay.families.exams.results import CheckedExam
from assay.families.exams.rules import ExamItem
from assay.files.json_files import parse_json


def axis_reasons(drop: DropCheck) -> Iterator[str]:
    """A reason for each axis that doesn't hold."""
    for axis, one in () if drop.by_axis is UNSET else drop.by_axis.items():
        if one.holds:
            continue
        what = (
            f"fell by {number_text(one.drop)}, more than the {number_text(one.limit)} it may fall"
        )
        if one.drop <= one.limit:
            what = f"moved: more than {number_text(one.lost_limit or 0)} of the items lost the mark"
        named = ", ".join(one.lost_items[:5])
        yield (
            f"{axis} {what}; {count(one.lost, 'item')} lost the mark, {one.gained} gained it:"
            f" {named}"
        )


def drop_reason(drop: DropCheck, *, holds: bool) -> str:
    """How the regression score moved; `holds` says whether that is within its limit."""
    size, before, now = map(number_text, (abs(drop.drop), drop.baseline, drop.candidate))
    if drop.drop == 0:
        return f"the regression score is {now}, as before"
    if drop.drop < 0:
        return f"the regression score rose by {size} from {before} to {now}"
    return (
        f"the regression score fell by {size} from {before} to {now}:"
        f" {'at most' if holds else 'more than'} the {number_text(drop.limit)} it may fall"
    )


def fell_alone(drop: DropCheck, marking: Marking) -> list[str]:
    """A note where an axis that the rubric watches for a trend is the only one that fell."""
    fell = [axis for axis, move in drop.axes.items() if move < 0]
    return [
        f"{pattern.axis} alone fell, by {number_text(-drop.axes[fell[0]])}"
        + (f": {pattern.cause}" if pattern.cause else "")
        for pattern in marking.rubric.pattern_rules
        if pattern.kind == "trend" and fell == [pattern.axis]
    ]


def check_whole(checked: CheckedExam) -> None:
    """Refuse a result that lacks items of its exam where it is to be a measure for others: counted
    as missing they would lower the bar.
    """
    if checked.removed:
        named = ", ".join(checked.removed[:5])
        raise InputError(
            "EXM-011",
            f"it lacks {count(len(checked.removed), 'item')} of its exam: {named}.",
            where=checked.where,
            fix="Grade its answers again.",
        )


def check_baseline(checked: CheckedExam) -> None:
    """Refuse a baseline that lacks items or answers, unless its tutor failed to give one and the
    result says why: what nobody knows of production would count as wrong, and lower the bar.
    """
    check_whole(checked)
    reasons = checked.result.missing_reasons
    unknown = [name for name in checked.result.missing if not reasons.get(name)]
    if unknown:
        raise NotEnoughEvidence(
            "EXM-014",
            f"the baseline lacks the answers to {count(len(unknown), 'item')}:"
            f" {', '.join(unknown[:5])}.",
            where=checked.where,
            fix=(
                "Ask the production tutor about them and grade again. If it gives no answer, write"
                ' why: {"item": ..., "response": null, "error": "timed out"}.'
            ),
        )


def shown_otherwise(ours: ExamResult, theirs: dict[str, tuple[str, list[str]]]) -> list[str]:
    """The items of a result whose prompt or expectation is not what another says it is."""
    return [
        item.item for item in ours.items if theirs.get(item.item) != (item.prompt, item.expected)
    ]


def hold_against(checked: CheckedExam, exam: Exam, marking: Marking) -> None:
    """Refuse a result of another exam than this one: shortened, longer, with other questions,
    expectations or set, or graded with another rubric.
    """
    digests = exam.item_digests(checked.marking.rubric.schema)
    result, own = checked.result, checked.result.digests.items
    reason = ""
    if exam_digest(exam.set, digests) != result.digests.exam:
        changes = {
            "it lacks": [name for name in digests if name not in own],
            "it adds": [name for name in own if name not in digests],
            "it changes": [
                name for name in digests if own.get(name, digests[name]) != digests[name]
            ],
        }
        reason = (
            "; ".join(f"{what} {', '.join(names[:5])}" for what, names in changes.items() if names)
            or f"its set is '{result.set}', and that of the exam is '{exam.set}'"
        )
    elif checked.marking.digest != marking.digest:
        reason = (
            f"it was graded with {checked.marking.id}, and the exam is graded with {marking.id}"
        )
    elif wrong := shown_otherwise(
        result, {item.id: (item.prompt, marking.expected(item)) for item in exam.items}
    ):
        reason = f"it shows another prompt or another expectation for {', '.join(wrong[:5])}"
    if reason:
        raise InputError(
            "EXM-012",
            f"is a result of another exam: {reason}.",
            where=checked.where,
            fix="Grade the answers again on this exam.",
        )
    shown_items = {item.item: item for item in result.items}
    if forged := [
        item.id for item in exam.items if not _earned(item, shown_items, checked, marking)
    ]:
        raise InputError(
            "EXM-011",
            f"the answers it shows for {', '.join(forged[:5])} don't earn the mark for"
            f" {marking.main}.",
            where=checked.where,
            fix="Grade the answers again on this exam.",
        )


def _earned(
    item: ExamItem, by_name: dict[str, ItemResult], checked: CheckedExam, marking: Marking
) -> bool:
    """Whether the answer that a result shows for an item can have earned the mark of the main axis.
    Code is not run again here.
    """
    rule = marking.rules[marking.main]
    shown_item = by_name.get(item.id)
    has_mark = checked.bits.get(item.id, 0) & marking.bit[marking.main]
    if not has_mark or shown_item is None or not rule.wants or rule.kind == "code":
        return True
    want = rule.wanted(marking.main, item.expectations)
    check = rule.prepare(want, item, marking.setting())
    if check(shown_item.got):
        return True
    try:  # a list or an object is shown as its JSON
        return check(parse_json((shown_item.got or "").encode()))
    except (ValueError, UnicodeEncodeError):
        return False


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
