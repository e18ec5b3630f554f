"""Why an exam scored what it did, in words: the axis that lost, on how many items, and what those
items share.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from assay.exams.marking import mean
from assay.exams.policy import ExamRules, text
from assay.exams.rubric import BIT
from assay.records.exam import AXES

if TYPE_CHECKING:
    from assay.exams.marking import Marked, MarkedExam


def diagnose(graded: MarkedExam, rules: ExamRules) -> list[str]:
    """One sentence for each axis that lost, the largest loss first; then what the gap is made of,
    and how many items have no answer.

    A sentence reads `spanish_gloss lost 0.25 on 12 of 40 items; all past-simple`.
    """
    n = len(graded.marked)
    if graded.score == 1:
        return ["nothing was lost: every item has all four marks"]
    weights = graded.marking.weights
    lost = {axis: [one for one in graded.marked if not one.bits & BIT[axis]] for axis in AXES}
    order = sorted(
        (axis for axis in AXES if lost[axis] and weights[axis]),
        key=lambda axis: -weights[axis] * len(lost[axis]),
    )
    found = []
    for axis in order:
        shared = shared_by(lost[axis], rules)
        found.append(
            f"{axis} lost {text(mean(weights[axis], 1))} on {len(lost[axis])} of"
            f" {n} items{f'; {shared}' if shared else ''}"
        )
    gap = text(1 - graded.score)
    if len(order) == 1:
        found.append(f"the gap of {gap} to 1.0 is entirely {order[0]}")
    else:
        parts = ", ".join(
            f"{axis} {text(mean(weights[axis] * len(lost[axis]), n))}" for axis in order
        )
        found.append(f"the gap of {gap} to 1.0 is made of {parts}")
    if graded.missing:
        found.append(
            f"{len(graded.missing)} of {n} items have no answer; each has no marks:"
            f" {_named(list(graded.missing))}"
        )
    return found


def shared_by(rows: list[Marked], rules: ExamRules) -> str:
    """What items share: a tense or a verb that all or most of them have; empty where there is
    none.
    """
    if not rows:
        return ""
    best = ""
    share = Fraction(0)
    for kind in ("tense", "verb"):
        counts = Counter(getattr(one.item, kind) for one in rows)
        counts.pop(None, None)
        if not counts:
            continue
        name, count = min(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        label = name if kind == "tense" else f"of the verb '{name}'"
        if count == len(rows):
            return f"all {label}" if count > 1 else str(label)
        if count > 1 and Fraction(count, len(rows)) >= max(rules.group_share, share):
            best, share = f"{count} of them {label}", Fraction(count, len(rows))
    return best


def _named(names: list[str], limit: int = 10) -> str:
    return ", ".join(names[:limit]) + (
        f" and {len(names) - limit} more" if len(names) > limit else ""
    )
