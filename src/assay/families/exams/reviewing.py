"""A review: the due items of a schedule, graded, and the schedule moved on.

Only items that are due on the day are graded. One of them without an answer is a failed review: an
item can't be put off by not answering it. A card whose item the exam doesn't have is refused, since
leaving out a file of the exam would skip what is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.canon import digest
from assay.errors import InputError
from assay.families.exams.answers import Answer
from assay.families.exams.exam import Exam
from assay.families.exams.marking import MarkedExam, Marking, grade_exam, mean
from assay.families.exams.policy import ExamRules, shown
from assay.families.exams.sm2 import Card, check_qualities, quality_of, review
from assay.records.systems import Systems

REVIEW_SCHEMA = "assay.exam-review/1"


class DueItems(NamedTuple):
    """What a day asks for: the part of the exam that is due, and the items that no card names."""

    exam: Exam
    names: tuple[str, ...]
    new: tuple[str, ...]
    """Items of the exam without a card."""


def due_items(
    exam: Exam, state: Mapping[str, Card], *, on: date, where: str, with_new: bool = False
) -> DueItems:
    """The items of an exam that are due on a day; on request also those never reviewed."""
    known = [item.id for item in exam.items]
    gone = [name for name in state if name not in set(known)]
    if gone:
        raise InputError(
            "EXM-016",
            f"the exam has no item '{gone[0]}', which the schedule names"
            f"{f' ({len(gone)} such items)' if len(gone) > 1 else ''}.",
            where=where,
            fix="Name every file of the exam, or drop the card from the schedule.",
        )
    new = tuple(name for name in known if name not in state)
    names = tuple(
        name for name in known if (with_new if name not in state else state[name].due <= on)
    )
    files = tuple(
        replace(file, items=[item for item in file.items if item.id in set(names)])
        for file in exam.files
    )
    return DueItems(exam._replace(files=files), names, new)


def hold_review(
    due: DueItems,
    answers: Mapping[str, Answer],
    marking: Marking,
    rules: ExamRules,
    *,
    on: date,
    state: Mapping[str, Card],
) -> tuple[MarkedExam | None, list[Card]]:
    """Grade what is due and move its cards; the other cards stay as they are. None is graded where
    nothing is due.
    """
    check_qualities(marking, rules)
    cards = dict(state)
    if not due.names:
        return None, list(cards.values())
    graded = grade_exam(due.exam, answers, marking)
    sm2 = rules.policy.sm2
    for item in graded.marked:
        quality = quality_of(item.bits, marking, sm2)
        name = item.item.id
        cards[name] = review(name, quality, sm2, on=on, before=state.get(name))
    return graded, list(cards.values())


def review_document(
    graded: MarkedExam | None,
    cards: list[Card],
    due: DueItems,
    state: Mapping[str, Card],
    marking: Marking,
    rules: ExamRules,
    *,
    on: date,
    schedule: bytes,
) -> dict[str, Any]:
    """A review as JSON: what was due, how each item did, and where its card moved."""
    after = {card.item: card for card in cards}
    rows = []
    for item in graded.marked if graded is not None else ():
        name = item.item.id
        before = state.get(name)
        rows.append(
            {
                "item": name,
                "quality": after[name].quality,
                "passed": after[name].quality >= rules.policy.sm2.passes_from,
                "score": shown(mean(item.units, 1)),
                "breakdown": {axis: float(mark) for axis, mark in marking.marks(item.bits).items()},
                "expected": marking.expected(item.item),
                "got": marking.got(item),
                "due_before": before.due.isoformat() if before is not None else None,
                "due": after[name].due.isoformat(),
            }
        )
    missing = graded.missing if graded is not None else {}
    coming = min((card.due for card in cards), default=None)
    return {
        "schema": REVIEW_SCHEMA,
        "date": on.isoformat(),
        "due": list(due.names),
        "items": rows,
        "missing": list(missing),
        "missing_reasons": {name: why for name, why in missing.items() if why},
        "score": None if graded is None else shown(graded.score),
        "counts": {
            "due": len(rows),
            "passed": sum(row["passed"] for row in rows),
            "failed": sum(not row["passed"] for row in rows),
            "missing": len(missing),
            "not_due": len(cards) - len(rows),
            "new": len([name for name in due.new if name not in due.names]),
        },
        "next_due": coming.isoformat() if coming is not None else None,
        "schedule_digest": digest(schedule.decode()),
        "rubric": marking.id,
        "policy": rules.id,
        **Systems(marking.scoring_system, rules.grading_system).document(),
    }
