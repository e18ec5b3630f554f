"""The rubric's own test: answers whose marks are known, marked by the evaluator that marks exams.

An unexpected rise is either a better tutor or a rubric that has begun to accept what it should not.
These cases tell the two apart: half of them must not get a mark.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from assay.families.exams.exam import ExamItem
from assay.families.exams.marking import Marking, mark_item


def self_test(marking: Marking) -> list[dict[str, Any]]:
    """Mark every case of the rubric; the cases whose marks are others, as a gate shows them."""
    failures = []
    for case in marking.rubric.self_test:
        item = ExamItem(
            id="self-test",
            prompt=case.name,
            expected_contains=None if case.expected_contains is UNSET else case.expected_contains,
            gloss_contains=None if case.gloss_contains is UNSET else case.gloss_contains,
            expect=case.expect,
            options=case.options,
            match=case.match,
        )
        latency = None if case.latency_ms is UNSET else case.latency_ms
        actual = marking.marks(mark_item(item, case.response, marking, latency_ms=latency).bits)
        if actual != case.breakdown:
            failures.append({"name": case.name, "expected": case.breakdown, "actual": actual})
    return failures
