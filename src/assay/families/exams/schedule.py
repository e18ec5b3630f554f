"""Spaced repetition: the marks of an exam as reviews, scheduled by SM-2, so that a portal can
replay the items; and a review, which grades the due items and moves the schedule on.

The signal is the exam's own: an answer is right exactly if its mark for correctness is 1. How marks
become a quality from 0 to 5 is in the policy. The algorithm is the published one: intervals of
one day, six days, then the last interval times the ease, rounded up; a failed review starts again
and leaves the ease alone. The date is passed in. Arithmetic is exact.

Only items that are due on the day are reviewed. One of them without an answer is a failed review:
an item can't be put off by not answering it. A card whose item the exam doesn't have is refused,
since leaving out a file of the exam would skip what is due.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from datetime import date, timedelta
from math import ceil
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, ValidationError
from msgspec.structs import asdict, replace

from assay import exact
from assay.canon import digest
from assay.errors import InputError
from assay.families.exams.answers import Answer
from assay.families.exams.exam import Exam
from assay.families.exams.marking import MarkedExam, Marking, grade_exam, made_by, mean
from assay.families.exams.policy import ExamRules, Sm2, fraction, shown
from assay.files.json_files import Document
from assay.records.evidence import Number
from assay.records.typed import convert
from assay.registry import near_miss
from assay.views.documents import neutral

SM2_SCHEMA = "assay.sm2/1"
COLUMNS = ("item", "quality", "repetitions", "ease", "interval_days", "reviewed_on", "due")
MAX_INTERVAL_DAYS = 36_500
"""A hundred years; a later date would be meaningless, and the calendar ends."""


_Count = Annotated[int, Meta(ge=0, le=MAX_INTERVAL_DAYS)]


class Card(Struct, frozen=True):
    """Where an item is in its schedule after a review."""

    item: str
    quality: _Count
    repetitions: _Count
    ease: Number
    interval_days: _Count
    reviewed_on: date
    due: date

    def document(self) -> dict[str, Any]:
        """A row of the table."""
        return {
            **asdict(self),
            "ease": shown(self.ease),
            "reviewed_on": self.reviewed_on.isoformat(),
            "due": self.due.isoformat(),
        }


def quality_of(bits: int, marking: Marking, sm2: Sm2) -> int:
    """The quality of a review, from 0 to 5: the first row of the policy's table that applies. A row
    for an axis that the rubric doesn't have applies to no answer.
    """
    score = mean(marking.units[bits], 1)
    for row in sm2.qualities:
        axis = marking.main if row.main is True else row.axis
        if (axis is None or bits & marking.bit.get(axis, 0)) and (
            row.score_from is None or score >= fraction(row.score_from)
        ):
            return row.quality
    raise ValueError("the last row applies to every answer")  # the policy's reader sees to it


def check_qualities(marking: Marking, rules: ExamRules) -> None:
    """Refuse a policy that misspells an axis of the rubric, or under which no answer of the rubric
    counts as right: every review would fail.
    """
    rows = rules.policy.sm2.qualities
    for name in (row.axis for row in rows if row.axis is not None):
        if name not in marking.bit and (hint := near_miss(name, marking.axes)):
            raise InputError("EXM-015", f"no axis of {marking.id} is named '{name}'.{hint}")
    passing = [row for row in rows if row.quality >= rules.policy.sm2.passes_from]
    if any(row.main is True or row.axis is None or row.axis in marking.bit for row in passing):
        return
    raise InputError(
        "EXM-015",
        f"{rules.id} schedules by the axis '{passing[0].axis if passing else ''}', which"
        f" {marking.id} doesn't have.",
        fix="Use `--policy exam@1`, which goes by the rubric's main axis.",
    )


def review(item: str, quality: int, sm2: Sm2, *, on: date, before: Card | None = None) -> Card:
    """The card of an item after one review; `before` is where it was, None for an item that was
    never reviewed.
    """
    ease = before.ease if before is not None else fraction(sm2.start_ease)
    if quality < sm2.passes_from:
        repetitions, interval = 0, sm2.first_interval_days
    else:
        short = 5 - quality
        ease = max(
            fraction(sm2.least_ease),
            ease
            + fraction(sm2.ease_gain)
            - short * (fraction(sm2.ease_loss) + short * fraction(sm2.ease_loss_growth)),
        )
        repetitions = (before.repetitions if before is not None else 0) + 1
        if repetitions == 1:
            interval = sm2.first_interval_days
        elif repetitions == 2 or before is None:
            interval = sm2.second_interval_days
        else:
            interval = min(MAX_INTERVAL_DAYS, ceil(before.interval_days * ease))
    try:
        due = on + timedelta(days=interval)
    except OverflowError:
        raise InputError(
            "EXM-016",
            f"{on} is too close to the end of the calendar to schedule {interval} days on.",
        ) from None
    return Card(item, quality, repetitions, ease, interval, on, due)


def schedule(
    bits: Mapping[str, int], marking: Marking, sm2: Sm2, *, on: date, state: Mapping[str, Card]
) -> list[Card]:
    """Every item of an exam reviewed on a day, continuing from `state` where it has the item."""
    return [
        review(item, quality_of(marks, marking, sm2), sm2, on=on, before=state.get(item))
        for item, marks in bits.items()
    ]


def table(cards: list[Card], versions: Mapping[str, str]) -> bytes:
    """The cards as CSV, each row with the versions it was made under. No cell is a formula."""
    made = io.StringIO()
    rows = csv.DictWriter(made, (*COLUMNS, *versions))
    rows.writeheader()
    rows.writerows(
        {
            name: neutral(cell) if isinstance(cell, str) else cell
            for name, cell in {**card.document(), **versions}.items()
        }
        for card in cards
    )
    return made.getvalue().encode()


def sm2_document(cards: list[Card], marking: Marking, rules: ExamRules) -> dict[str, Any]:
    """The cards as JSON, with the table that made the qualities."""
    mapping = [
        {
            "quality": row.quality,
            "axis": marking.main if row.main is True else row.axis,
            "score_from": row.score_from,
        }
        for row in rules.policy.sm2.qualities
    ]
    return {
        "schema": SM2_SCHEMA,
        **made_by(marking, rules),
        "qualities": mapping,
        "cards": [card.document() for card in cards],
    }


class SavedSchedule(Struct, frozen=True):
    """What an earlier export wrote."""

    schema: Literal["assay.sm2/1"]
    cards: list[Card]


def read_state(document: Document) -> dict[str, Card]:
    """Where an earlier export left each item."""
    try:
        rows = convert(document.tree, SavedSchedule).cards
    except ValidationError as error:
        raise InputError(
            "EXM-016",
            f"is not a schedule: {error}.",
            where=document.file,
            fix="`assay exam export-sm2 ... -o schedule.json` writes one.",
        ) from None
    cards: dict[str, Card] = {}
    for index, row in enumerate(rows):
        if not exact.is_amount(row.ease):
            raise InputError(
                "EXM-016",
                f"cards[{index}] is not a card: ease is a number of at least 0.",
                where=document.file,
            )
        if row.item in cards:
            raise InputError(
                "EXM-016", f"the item '{row.item}' appears twice.", where=document.file
            )
        cards[row.item] = replace(row, ease=fraction(row.ease))
    return cards


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
    if not due.names:
        return None, list(state.values())
    graded = grade_exam(due.exam, answers, marking)
    bits = {item.item.id: item.bits for item in graded.marked}
    moved = schedule(bits, marking, rules.policy.sm2, on=on, state=state)
    return graded, list({**state, **{card.item: card for card in moved}}.values())


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
        **made_by(marking, rules),
    }
