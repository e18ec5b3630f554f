"""The batch plan of an exam: its items, its rubric's weights and the policy's limits as counts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any

from msgspec import UNSET

from assay.batch.exam_marks import MAX_ITEMS, BatchAxis, BatchRegression, ExamBatchPlan
from assay.errors import InputError
from assay.exact import NORM_ONE
from assay.exams.document import CheckedExam, check_result, read_result
from assay.exams.exam import CAPSTONE, REGRESSION, Exam, read_exam
from assay.exams.held_results import check_baseline, hold_against
from assay.exams.marking import Marking, check_exam
from assay.exams.policy import ExamRules, fraction
from assay.exams.selftest import self_test
from assay.files.json_files import read_json
from assay.library.shelf import Shelf


def plan_exams(
    shelf: Shelf, rules: ExamRules, exams: Sequence[str], *, baseline: str | None = None
) -> ExamBatchPlan:
    """The plan for a capstone exam and, with a graded baseline, a regression set."""
    by_set: dict[str, list[str]] = {}
    for path in exams:
        by_set.setdefault(read_exam([path]).set, []).append(path)
    if CAPSTONE not in by_set:
        raise InputError(
            "BAT-075",
            "a batch of exams needs the capstone exam: it lists the items, and the hard gate"
            " applies to it.",
            fix=f"Give its file with --exam; its `set` is {CAPSTONE}.",
        )
    if (REGRESSION in by_set) != (baseline is not None):
        raise InputError(
            "BAT-075",
            "a regression set is judged against a baseline, and only one of the two was given.",
            fix="Give the regression set with --exam, and its graded baseline with --baseline.",
        )
    read = {name: read_exam(paths) for name, paths in by_set.items()}
    marking = _marking(shelf, rules, list(read.values()))
    for exam in read.values():
        check_exam(exam, marking)
    checked = None
    if baseline is not None:
        document = read_json(baseline)
        checked = check_result(read_result(document), marking, where=document.file)
        hold_against(checked, read[REGRESSION], marking)
        check_baseline(checked)
        if checked.result.scoring_system != marking.scoring_system:
            raise InputError(
                "EXM-012",
                f"was made under {checked.result.scoring_system}, and this batch marks under"
                f" {marking.scoring_system}.",
                where=document.file,
                fix="Grade its answers again.",
            )
    return make_exam_plan(
        read[CAPSTONE], marking, rules, baseline=checked, regression=read.get(REGRESSION)
    )


def make_exam_plan(
    capstone: Exam,
    marking: Marking,
    rules: ExamRules,
    *,
    baseline: CheckedExam | None = None,
    regression: Exam | None = None,
) -> ExamBatchPlan:
    """The plan for a parsed capstone exam and the checked baseline of its regression set. A pass
    score of either exam raises the bar of its set.
    """
    least = (regression and regression.pass_score) or 0
    items = tuple(item.id for item in capstone.items)
    if len(items) + (len(baseline.bits) if baseline else 0) > MAX_ITEMS:
        raise InputError(
            "BAT-075",
            f"the exams have more than {MAX_ITEMS} items, too many for one query.",
            fix="Split the exam, or grade it with `assay exam grade`.",
        )
    whole = len(items) * NORM_ONE
    return ExamBatchPlan(
        policy=rules.id,
        rubric=marking.id,
        axes=tuple(BatchAxis(name, marking.weights[name]) for name in marking.axes),
        capstone=items,
        sets=(CAPSTONE, REGRESSION),
        hard_gate=ceil(max(rules.hard_gate, fraction(capstone.pass_score or 0)) * whole),
        target=ceil(rules.production_target * whole),
        regression=None if baseline is None else _regression(baseline, marking, rules, least),
        scoring_system=marking.scoring_system,
        grading_system=rules.grading_system,
        digests={
            "policy": rules.digest,
            "rubric": marking.digest,
            "exam": capstone.digest(marking.rubric.schema),
            **({} if baseline is None else {"regression": baseline.result.digests.exam}),
        },
    )


def _marking(shelf: Shelf, rules: ExamRules, exams: list[Exam]) -> Marking:
    named = {exam.rubric or rules.policy.default_rubric for exam in exams}
    if len(named) > 1:
        raise InputError(
            "BAT-075",
            f"the exams are marked by different rubrics: {', '.join(sorted(named))}.",
            fix="Grade them in separate batches.",
        )
    return Marking(shelf.rubric_of("exam", named.pop()))


def _regression(
    baseline: CheckedExam, marking: Marking, rules: ExamRules, least: Any
) -> BatchRegression:
    n = len(baseline.bits)
    whole = n * NORM_ONE
    limits = rules.policy.regression_axes
    drops: tuple[int, ...] = ()
    lost = None
    if limits is not UNSET:
        allowed = rules.axis_limits(marking.axes, marking.id)
        drops = tuple(floor(fraction(limit) * n) for limit in allowed.values())
        lost = None if limits.max_lost is None else floor(fraction(limits.max_lost) * n)
    schema = marking.axis_of_kind("schema")
    places = {axis: place for place, axis in enumerate(marking.axes)}
    units = sum(marking.units[bits] for bits in baseline.bits.values())
    fall = floor(rules.max_drop * whole)
    if least:  # a sum that falls no further reaches the pass score too
        fall = min(fall, units - ceil(fraction(least) * whole))
    return BatchRegression(
        items={
            item: sum(1 << places[axis] for axis, mark in marking.marks(bits).items() if mark)
            for item, bits in baseline.bits.items()
        },
        units=units,
        marks=tuple(n - baseline.zero(axis) for axis in marking.axes),
        max_drop=fall,
        axis_drops=drops,
        max_lost=lost,
        verify_above=floor(rules.verify_rise_above * whole),
        rubric_passes=not self_test(marking),
        warn_below=ceil(rules.soft_score * Fraction(whole)),
        schema_axis=None if schema is None else places[schema],
        schema_failures=rules.policy.soft.schema_failures,
    )
