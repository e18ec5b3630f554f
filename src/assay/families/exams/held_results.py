"""Whether a graded exam may be compared: it answers the exam it is held against, with all items."""

from __future__ import annotations

from assay.errors import InputError, NotEnoughEvidence, count
from assay.families.exams.document import CheckedExam
from assay.families.exams.exam import Exam, ExamItem, exam_digest
from assay.families.exams.marking import Marking
from assay.families.exams.records import ExamResult, ItemResult
from assay.families.exams.rules import wanted_by
from assay.files.json_files import parse_json


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
    want = wanted_by(marking.main, rule, item.expectations)
    check = rule.prepare(want, item, marking.setting())
    if check(shown_item.got):
        return True
    try:  # a list or an object is shown as its JSON
        return check(parse_json((shown_item.got or "").encode()))
    except (ValueError, UnicodeEncodeError):
        return False
