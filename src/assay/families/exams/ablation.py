"""What a missing step of normalisation costs: the same answers, marked again with one step left
out, and every mark that falls with it.

A mark that is lost although the answer did not change is a false negative. It affects the mean of
the axis, the exam's score and the gate in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.families.exams.answers import Answer
from assay.families.exams.diagnosis import diagnose
from assay.families.exams.exam import Exam
from assay.families.exams.gate import opens
from assay.families.exams.marking import Marking, grade_exam
from assay.families.exams.patterns import find_patterns, shortened
from assay.families.exams.policy import ExamRules, shown
from assay.records.systems import Systems
from assay.scoring.checks import STEPS


def break_step(
    exam: Exam, answers: Mapping[str, Answer], marking: Marking, step: str, rules: ExamRules
) -> dict[str, Any]:
    """The answers marked with all steps and with one left out, as JSON: every mark that changed
    although the answer did not, and what follows.
    """
    before, after = (
        grade_exam(exam, answers, marking),
        grade_exam(exam, answers, marking.without(step)),
    )
    n = len(before.marked)
    fell: list[dict[str, Any]] = []
    rose: list[dict[str, Any]] = []
    for old, new in zip(before.marked, after.marked, strict=True):
        for axis in marking.text_axes:
            bit = marking.bit[axis]
            if (old.bits ^ new.bits) & bit:
                (fell if old.bits & bit else rose).append(
                    {
                        "item": old.item.id,
                        "axis": axis,
                        "expected": marking.expected(old.item, axis),
                        "got": shortened(marking.got(old, axis)),
                    }
                )
    return {
        "step": step,
        "title": STEPS[step].title,
        "score": {
            "before": shown(before.score),
            "after": shown(after.score),
            "lost": shown(before.score - after.score),
        },
        "items_hit": len({flip["item"] for flip in fell}),
        "false_negatives": fell,
        "false_positives": rose,
        "axes": {
            axis: {"before": n - before.zero(axis), "after": n - after.zero(axis)}
            for axis in marking.axes
        },
        "hard_gate": {
            "before": opens(before.score, rules),
            "after": opens(after.score, rules),
            "limit": rules.policy.hard_gate,
        },
        "patterns": find_patterns(after, rules),
        "diagnosis": diagnose(after, rules),
        "rubric": marking.id,
        "policy": rules.id,
        **Systems(marking.scoring_system, rules.grading_system).document(),
    }
