"""What an exam would have scored under other rules: with a step of normalisation left out, or with
the weights of another rubric.

A mark that is lost without a step although the answer did not change is a false negative. It
affects the mean of the axis, the exam's score and the gate in turn.

Results under different rubrics can't be compared. If two rubrics mark alike and differ only in
weights, a past result can be reweighed and then compared. If they mark differently, the answers
must be graded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import combinations
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from assay import exact
from assay.errors import InputError
from assay.families.exams.answers import Answer
from assay.families.exams.exam import Exam
from assay.families.exams.gate import check_whole, opens, reaches
from assay.families.exams.marking import Marking, grade_exam, made_by, mean
from assay.families.exams.policy import ExamRules, shown
from assay.families.exams.records import ExamResult
from assay.families.exams.results import (
    CheckedExam,
    diagnose,
    find_patterns,
    outcomes_of,
    pass_line,
    shortened,
    totals_of,
)
from assay.records.systems import Systems
from assay.scoring.checks import STEPS

Reweighed = tuple[CheckedExam, Fraction]
"""A past result, and its score under another rubric."""


def reweigh(past: CheckedExam, marking: Marking) -> Reweighed:
    """A past result under the weights of another rubric, which must mark alike."""
    check_whole(past)
    if past.marking.rubric.marks_digest != marking.rubric.marks_digest:
        raise InputError(
            "EXM-015",
            f"{marking.id} marks differently from {past.marking.id}: its word budget,"
            " normalisation, match or answer schema differs.",
            where=past.where,
            fix=(
                "Marks cannot be weighed into other marks: grade the answers again with `assay exam"
                " grade --rubric`."
            ),
        )
    units = sum(marking.units[bits] for bits in past.bits.values())
    return past, mean(units, len(past.bits))


def recalibration_document(
    results: Iterable[Reweighed], marking: Marking, rules: ExamRules
) -> dict[str, Any]:
    """What the new weights would have done: each past exam, the gates that turn, and the pairs
    whose order turns.
    """
    listed = list(results)
    history: list[dict[str, Any]] = []
    for past, new in listed:
        old = past.score
        history.append(
            {
                "file": past.where,
                "set": past.result.set,
                "rubric": past.marking.id,
                "n": len(past.bits),
                "score": shown(old),
                "recalibrated": shown(new),
                "change": shown(new - old),
                "hard_gate": {"before": opens(old, rules), "after": opens(new, rules)},
                "target": {"before": reaches(old, rules), "after": reaches(new, rules)},
            }
        )
    changes = [new - past.score for past, new in listed]
    return {
        "rubric": marking.id,
        "weights": {
            axis: exact.shown(weight, exact.NORM_DIGITS) for axis, weight in marking.weights.items()
        },
        "history": history,
        "mean_change": shown(sum(changes, Fraction(0)) / len(changes)),
        "largest_change": shown(max(changes, key=abs)),
        "gates_turned": sum(
            row["hard_gate"]["before"] != row["hard_gate"]["after"] for row in history
        ),
        "orders_turned": _turned(listed),
        "policy": rules.id,
        **Systems(marking.scoring_system, rules.grading_system).document(),
    }


def _turned(listed: list[Reweighed]) -> list[dict[str, str]]:
    """Pairs of past results of one exam that swap places."""
    turned = []
    for (result, new), (other, other_new) in combinations(listed, 2):
        before = result.score - other.score
        if (
            result.result.digests.exam == other.result.digests.exam
            and before * (new - other_new) < 0
        ):
            better, worse = (result, other) if before > 0 else (other, result)
            turned.append({"was_better": better.where, "is_better": worse.where})
    return turned


def recalibrated(past: CheckedExam, score: Fraction, marking: Marking) -> ExamResult:
    """A past result under the new rubric: marks as they were, every number that the weights
    change, and where it came from.
    """
    result, outcomes = past.result, outcomes_of(marking)
    axes, distribution = totals_of(past.bits.values(), marking)
    items = [
        replace(
            item,
            score=outcomes[past.bits[item.item]].score,
            weighted=outcomes[past.bits[item.item]].weighted,
        )
        for item in result.items
    ]
    return replace(
        result,
        rubric=marking.id,
        score=shown(score),
        items=items,
        axes=axes,
        distribution=distribution,
        pass_line=pass_line(None if result.pass_line is UNSET else result.pass_line.limit, score),
        # sentences that name the old weights would be untrue under the new ones
        diagnosis=[
            f"recalibrated from {past.marking.id} (score {shown(past.score)}) to {marking.id}"
        ],
        digests=replace(result.digests, rubric=marking.digest),
        recalibrated_from=past.marking.id,
        scoring_system=marking.scoring_system,
    )


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
        **made_by(marking, rules),
    }
