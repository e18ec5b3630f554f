"""Other weights on past exams: what a new rubric version would have said.

Weights are a one-way door: a result under one rubric says nothing under another. But marks are
marks: where two rubrics mark alike and only weigh differently, a past result can be weighed again,
and from then on be compared. Where they mark differently the answers must be graded again.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from assay import exact
from assay.errors import InputError
from assay.exams.document import check_whole
from assay.exams.gate import opens, reaches
from assay.exams.marking import mean
from assay.exams.policy import ExamRules, shown
from assay.exams.rubric import AXES, BIT
from assay.exams.versions import Systems

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assay.exams.document import Outcome
    from assay.exams.marking import Marking


class Reweighed(NamedTuple):
    """A past result, and its score under another rubric."""

    past: Outcome
    marking: Marking
    score: Fraction


def reweigh(past: Outcome, marking: Marking) -> Reweighed:
    """A past result under the weights of another rubric, which must mark alike."""
    check_whole(past)
    if past.marking.rubric.marks_digest != marking.rubric.marks_digest:
        raise InputError(
            "EXM-015",
            f"{marking.id} marks otherwise than {past.marking.id}: its word budget, normalisation,"
            " match or answer schema differs.",
            where=past.where,
            fix=(
                "Marks cannot be weighed into other marks: grade the answers again with `assay exam"
                " grade --rubric`."
            ),
        )
    return Reweighed(
        past, marking, mean(sum(marking.units[bits] for bits in past.bits.values()), len(past.bits))
    )


def recalibration_document(
    results: Iterable[Reweighed], marking: Marking, rules: ExamRules
) -> dict[str, Any]:
    """What the new weights would have done: each past exam, the gates that turn, and the pairs
    whose order turns.
    """
    listed = list(results)
    history: list[dict[str, Any]] = []
    for one in listed:
        old, new = one.past.score, one.score
        history.append(
            {
                "file": one.past.where,
                "set": one.past.document.set,
                "rubric": one.past.marking.id,
                "n": len(one.past.bits),
                "score": shown(old),
                "recalibrated": shown(new),
                "change": shown(new - old),
                "hard_gate": {"before": opens(old, rules), "after": opens(new, rules)},
                "target": {"before": reaches(old, rules), "after": reaches(new, rules)},
            }
        )
    changes = [one.score - one.past.score for one in listed]
    return {
        "rubric": marking.id,
        "weights": {axis: exact.shown(marking.weights[axis], exact.NORM_DIGITS) for axis in AXES},
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
    found = []
    for index, one in enumerate(listed):
        for other in listed[index + 1 :]:
            if one.past.document.digests.exam != other.past.document.digests.exam:
                continue
            before, after = one.past.score - other.past.score, one.score - other.score
            if before * after < 0:
                better, worse = (one, other) if before > 0 else (other, one)
                found.append({"was_better": better.past.where, "is_better": worse.past.where})
    return found


def recalibrated(tree: dict[str, Any], one: Reweighed) -> dict[str, Any]:
    """A past document under the new rubric: marks as they were, every number that the weights make
    anew, and where it came from.
    """
    marking = one.marking
    items = []
    for item in tree["items"]:
        bits = one.past.bits[item["item"]]
        weighted = {
            axis: exact.shown(marking.weights[axis] if bits & BIT[axis] else 0, exact.NORM_DIGITS)
            for axis in AXES
        }
        items.append(
            {
                **item,
                "score": exact.shown(marking.units[bits], exact.NORM_DIGITS),
                "weighted": weighted,
            }
        )
    n = len(one.past.bits)
    axes = {
        axis: {
            "mean": shown(one.past.axis_mean(axis)),
            "lost": shown(mean(marking.weights[axis] * one.past.zero(axis), n)),
            "zero_items": one.past.zero(axis),
        }
        for axis in AXES
    }
    made = {
        **tree,
        "rubric": marking.id,
        "score": shown(one.score),
        "items": items,
        "axes": axes,
        "recalibrated_from": one.past.marking.id,
        "scoringSystem": marking.scoring_system,
    }
    made["digests"] = {**tree["digests"], "rubric": marking.digest}
    made["distribution"] = _distribution(one)
    # words that name the old weights would be untrue under the new ones
    made["diagnosis"] = [
        f"recalibrated from {one.past.marking.id} (score {shown(one.past.score)}) to {marking.id}"
    ]
    return made


def _distribution(one: Reweighed) -> list[dict[str, Any]]:
    counts: dict[int, int] = {}
    for bits in one.past.bits.values():
        units = one.marking.units[bits]
        counts[units] = counts.get(units, 0) + 1
    return [
        {"score": exact.shown(units, exact.NORM_DIGITS), "items": count}
        for units, count in sorted(counts.items(), reverse=True)
    ]
