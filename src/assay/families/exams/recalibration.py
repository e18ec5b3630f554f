"""Applies new weights to past exams: what a new rubric version would have given.

Results under different rubrics can't be compared. If two rubrics mark alike and differ only in
weights, a past result can be reweighed and then compared. If they mark differently, the answers
must be graded again.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from assay import exact
from assay.errors import InputError
from assay.families.exams.document import CheckedExam, outcomes_of, totals_of
from assay.families.exams.gate import opens, reaches
from assay.families.exams.held_results import check_whole
from assay.families.exams.marking import Marking, mean
from assay.families.exams.policy import ExamRules, fraction, shown
from assay.families.exams.records import ExamResult
from assay.records.systems import Systems

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
        pass_line=(
            UNSET
            if result.pass_line is UNSET
            else replace(result.pass_line, holds=score >= fraction(result.pass_line.limit))
        ),
        # sentences that name the old weights would be untrue under the new ones
        diagnosis=[
            f"recalibrated from {past.marking.id} (score {shown(past.score)}) to {marking.id}"
        ],
        digests=replace(result.digests, rubric=marking.digest),
        recalibrated_from=past.marking.id,
        scoring_system=marking.scoring_system,
    )
