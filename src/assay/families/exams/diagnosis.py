"""Explains an exam's score: the axis that lost points, on how many items, and what those items
share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from assay.errors import few
from assay.families.exams.marking import Marked, MarkedExam, mean
from assay.families.exams.pattern_rules import TagGroup
from assay.families.exams.policy import ExamRules, text


def diagnose(graded: MarkedExam, rules: ExamRules) -> list[str]:
    """One sentence for each axis that lost, the largest loss first; then what the gap is made of,
    and how many items have no answer.

    A sentence reads `spanish_gloss lost 0.25 on 12 of 40 items; all past-simple`.
    """
    n, marking = len(graded.marked), graded.marking
    if graded.score == 1:
        return [f"nothing was lost: every item has {_all(len(marking.axes))}"]
    weights = marking.weights
    lost = {
        axis: [item for item in graded.marked if not item.bits & bit]
        for axis, bit in marking.bit.items()
    }
    order = sorted(
        (axis for axis in marking.axes if lost[axis] and weights[axis]),
        key=lambda axis: -weights[axis] * len(lost[axis]),
    )
    sentences = []
    for axis in order:
        shared = shared_by(lost[axis], rules, marking.rubric.tag_groups)
        sentences.append(
            f"{axis} lost {text(mean(weights[axis], 1))} on {len(lost[axis])} of"
            f" {n} items{f'; {shared}' if shared else ''}"
        )
    gap = text(1 - graded.score)
    if len(order) == 1:
        sentences.append(f"the gap of {gap} to 1.0 is entirely {order[0]}")
    else:
        parts = ", ".join(
            f"{axis} {text(mean(weights[axis] * len(lost[axis]), n))}" for axis in order
        )
        sentences.append(f"the gap of {gap} to 1.0 is made of {parts}")
    if graded.missing:
        sentences.append(
            f"{len(graded.missing)} of {n} items have no answer; each has no marks:"
            f" {few(list(graded.missing), 10)}"
        )
    return sentences


def _all(axes: int) -> str:
    """All marks, counted.

    >>> _all(1), _all(4), _all(12)
    ('its mark', 'all four marks', 'all 12 marks')
    """
    words = ("", "", "both", "all three", "all four", "all five", "all six")
    if axes == 1:
        return "its mark"
    return f"{words[axes] if axes < len(words) else f'all {axes}'} marks"


def shared_by(
    rows: list[Marked], rules: ExamRules, groups: Iterable[TagGroup] | None = None
) -> str:
    """What items share: a tag, such as a tense or a topic, that all or most of them have; empty if
    there is none. Without groups every tag of the items is tried.
    """
    if not rows:
        return ""
    best = ""
    share = Fraction(0)
    if groups is None:
        groups = [TagGroup(tag=tag) for row in rows for tag in row.item.labels]
    for group in {group.tag: group for group in groups}.values():
        counts = Counter(row.item.labels.get(group.tag, "") for row in rows)
        counts.pop("", None)
        if not counts:
            continue
        name, count = min(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        label = group.says(name)
        if count == len(rows):
            return f"all {label}" if count > 1 else str(label)
        if count > 1 and Fraction(count, len(rows)) >= max(rules.group_share, share):
            best, share = f"{count} of them {label}", Fraction(count, len(rows))
    return best
