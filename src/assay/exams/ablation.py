"""What a missing step of normalisation costs: the same answers, marked again with one step left
out, and every mark that falls with it.

A mark that is lost although the answer did not change is a false negative. It affects the mean of
the axis, the exam's score and the gate in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay.exams.diagnosis import diagnose
from assay.exams.gate import opens
from assay.exams.marking import MarkedExam, Marking, grade_exam
from assay.exams.normal import STEPS
from assay.exams.patterns import find_patterns, shortened
from assay.exams.policy import ExamRules, shown
from assay.records.systems import Systems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.exams.answers import Answer
    from assay.exams.exam import Exam


class Flip(NamedTuple):
    """A mark that changed although the answer did not."""

    item: str
    axis: str
    expected: list[str]
    got: str | None


class Cascade(NamedTuple):
    """An exam before and after a step was left out."""

    step: str
    before: MarkedExam
    after: MarkedExam
    false_negatives: tuple[Flip, ...]
    false_positives: tuple[Flip, ...]


def break_step(exam: Exam, answers: Mapping[str, Answer], marking: Marking, step: str) -> Cascade:
    """Mark the answers with all steps and with one left out."""
    before, after = (
        grade_exam(exam, answers, marking),
        grade_exam(exam, answers, marking.without(step)),
    )
    fell: list[Flip] = []
    rose: list[Flip] = []
    for old, new in zip(before.marked, after.marked, strict=True):
        for axis in marking.text_axes:
            bit = marking.bit[axis]
            if (old.bits ^ new.bits) & bit:
                expected, got = marking.expected(old.item, axis), marking.got(old, axis)
                (fell if old.bits & bit else rose).append(Flip(old.item.id, axis, expected, got))
    return Cascade(step, before, after, tuple(fell), tuple(rose))


def cascade_document(cascade: Cascade, rules: ExamRules) -> dict[str, Any]:
    """The cascade as JSON."""
    before, after = cascade.before, cascade.after
    n = len(before.marked)
    return {
        "step": cascade.step,
        "title": STEPS[cascade.step].title,
        "score": {
            "before": shown(before.score),
            "after": shown(after.score),
            "lost": shown(before.score - after.score),
        },
        "items_hit": len({flip.item for flip in cascade.false_negatives}),
        "false_negatives": [_flip(flip) for flip in cascade.false_negatives],
        "false_positives": [_flip(flip) for flip in cascade.false_positives],
        "axes": {
            axis: {"before": n - before.zero(axis), "after": n - after.zero(axis)}
            for axis in before.marking.axes
        },
        "hard_gate": {
            "before": opens(before.score, rules),
            "after": opens(after.score, rules),
            "limit": rules.policy.hard_gate,
        },
        "patterns": find_patterns(after, rules),
        "diagnosis": diagnose(after, rules),
        "rubric": before.marking.id,
        "policy": rules.id,
        **Systems(before.marking.scoring_system, rules.grading_system).document(),
    }


def _flip(flip: Flip) -> dict[str, Any]:
    return {**flip._asdict(), "got": shortened(flip.got)}
