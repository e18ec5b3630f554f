"""Why marks were lost: for each item and axis without a mark, what was expected and what was given,
in words.

Nothing is marked here: which marks are lost is in the result. The words come from the rule of each
axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from assay.families.exams.answers import Answer
from assay.families.exams.exam import Exam
from assay.families.exams.marking import Marking
from assay.families.exams.records import ExamResult, LostMark
from assay.families.exams.rules import parsed, wanted_by

MAX_TEXT = 1000
MAX_MARKS = 2000


def lost_marks(
    result: ExamResult, exam: Exam, answers: Mapping[str, Answer], marking: Marking
) -> list[LostMark]:
    """The lost marks of a result, item after item in its order; at most `MAX_MARKS`."""
    items = {item.id: (item, file) for file in exam.files for item in file.items}
    settings: dict[int, Any] = {}
    marks: list[LostMark] = []
    for marked in result.items:
        known = items.get(marked.item)
        if known is None or len(marks) >= MAX_MARKS:
            continue
        item, file = known
        setting = settings.setdefault(id(file), marking.setting(file.answer_schema))
        answer = answers.get(marked.item)
        response = (
            None
            if answer is None or answer.response is None
            else parsed(answer.response, answer.latency_ms)
        )
        for axis, rule in marking.rules.items():
            if axis in marked.lost:
                want = wanted_by(axis, rule, item.expectations)
                given = "" if response is None else rule.gives(response, setting)
                marks.append(
                    LostMark(
                        item=marked.item,
                        axis=axis,
                        expected="" if want is UNSET else rule.asks(want)[:MAX_TEXT],
                        given=given[:MAX_TEXT],
                    )
                )
    return marks
