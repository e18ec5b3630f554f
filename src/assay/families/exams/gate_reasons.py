"""The sentences of an exam gate about the regression set and its baseline."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from assay.canon import number_text
from assay.errors import count
from assay.families.exams.marking import Marking
from assay.families.exams.records import DropCheck


def axis_reasons(drop: DropCheck) -> Iterator[str]:
    """A reason for each axis that doesn't hold."""
    for axis, one in () if drop.by_axis is UNSET else drop.by_axis.items():
        if one.holds:
            continue
        what = (
            f"fell by {number_text(one.drop)}, more than the {number_text(one.limit)} it may fall"
        )
        if one.drop <= one.limit:
            what = f"moved: more than {number_text(one.lost_limit or 0)} of the items lost the mark"
        named = ", ".join(one.lost_items[:5])
        yield (
            f"{axis} {what}; {count(one.lost, 'item')} lost the mark, {one.gained} gained it:"
            f" {named}"
        )


def drop_reason(drop: DropCheck, *, holds: bool) -> str:
    """How the regression score moved; `holds` says whether that is within its limit."""
    size, before, now = map(number_text, (abs(drop.drop), drop.baseline, drop.candidate))
    if drop.drop == 0:
        return f"the regression score is {now}, as before"
    if drop.drop < 0:
        return f"the regression score rose by {size} from {before} to {now}"
    return (
        f"the regression score fell by {size} from {before} to {now}:"
        f" {'at most' if holds else 'more than'} the {number_text(drop.limit)} it may fall"
    )


def fell_alone(drop: DropCheck, marking: Marking) -> list[str]:
    """A note where an axis that the rubric watches for a trend is the only one that fell."""
    fell = [axis for axis, move in drop.axes.items() if move < 0]
    return [
        f"{pattern.axis} alone fell, by {number_text(-drop.axes[fell[0]])}"
        + (f": {pattern.cause}" if pattern.cause else "")
        for pattern in marking.rubric.pattern_rules
        if pattern.kind == "trend" and fell == [pattern.axis]
    ]
