"""A graded exam on the terminal: one stacked bar of the four axes for each item, the diagnosis, the
patterns, and what a missing step costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay import exact
from assay.errors import printable
from assay.exams.diagnosis import gap_of
from assay.exams.marking import FULL
from assay.exams.policy import text
from assay.exams.rubric import AXES, BIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.exams.marking import Graded, Marked, Marking

WIDTH = 20
SIGNS = {"correctness": "█", "spanish_gloss": "▓", "schema": "▒", "conciseness": "░"}
SHOWN = 120
"""Items that are drawn; of a longer exam only those that lost something, the lowest first."""


def bar(bits: int, marking: Marking, *, raw: bool = False) -> str:
    """The stacked bar of one item: as long as its score, each axis with its own sign; `raw` gives
    every axis the same length.

    The lengths are cut from the running total, so that rounding never adds up to more than the bar.
    """
    total = 0
    made = ""
    for axis in AXES:
        if bits & BIT[axis]:
            total += exact.NORM_ONE // len(AXES) if raw else marking.weights[axis]
            made += SIGNS[axis] * (exact.quantise(total * WIDTH, exact.NORM_ONE, 0) - len(made))
    return made + "·" * (WIDTH - len(made))


def draw(graded: Graded, *, raw: bool = False) -> Iterator[str]:
    """The lines of the picture."""
    marking = graded.marking
    rows = list(graded.marked)
    yield (
        "  ".join(f"{SIGNS[axis]} {axis} {exact.norm_text(marking.weights[axis])}" for axis in AXES)
        + "  · lost"
    )
    if len(rows) > SHOWN:
        rows = sorted([one for one in rows if one.bits != FULL], key=lambda one: one.units)[:SHOWN]
        yield f"the lowest {len(rows)} of {len(graded.marked):,} items"
    width = min(40, max((len(one.item.id) for one in rows), default=0))
    for one in rows:
        yield (
            f"{printable(one.item.id):<{width}}  {bar(one.bits, marking, raw=raw)} "
            f" {exact.norm_text(one.units):<4}  {_why(one, graded)}".rstrip()
        )


def _why(one: Marked, graded: Graded) -> str:
    reason = graded.missing.get(one.item.id)
    if reason is not None:
        return f"no answer: {printable(reason)[:80]}" if reason != "no answer" else reason
    gap = gap_of(one, graded.marking)
    if not gap:
        return ""
    got = printable(one.got[:40]) if one.got is not None else "nothing"
    return f"-{gap.replace(', ', ', -')}" + (
        f"  (expected {', '.join(one.item.wanted)}; got {got})"
        if not one.bits & BIT["correctness"]
        else ""
    )


def summary(graded: Graded, document: dict[str, Any]) -> Iterator[str]:
    """The lines under the picture."""
    n = len(graded.marked)
    yield (
        f"score {text(graded.score)} over {n:,} item{'s' if n != 1 else ''},"
        f" {len(graded.missing)} without an answer"
    )
    for sentence in document["diagnosis"]:
        yield f"  {printable(sentence)}"
    for pattern in document["patterns"]:
        yield f"pattern {pattern['kind']}: {printable(pattern['hint'])}"
    p50 = document["latency"]["p50_ms"]
    if p50 is not None:
        yield f"median latency {p50} ms over {document['latency']['n']:,} answers"
    yield (
        f"rubric {document['rubric']} · policy {document['policy']} · {document['scoringSystem']} ·"
        f" {document['gradingSystem']}"
    )


def cascade(found: dict[str, Any]) -> list[str]:
    """What leaving a step out costs, line by line."""
    score, gate = found["score"], found["hard_gate"]
    said = {True: "open", False: "closed"}
    lines = [
        (
            f"without {found['step']} ({found['title']}): score {score['before']} -> {score['after']},"  # noqa: E501
            f" hard gate {said[gate['before']]} -> {said[gate['after']]}"
        )
    ]
    for kind, word in (("false_negatives", "lost"), ("false_positives", "gained")):
        for flip in found[kind][:20]:
            expected = ", ".join(flip["expected"])
            lines.append(
                f"  {word:<6}  {flip['item']}  {flip['axis']}  got {printable(repr(flip['got']))},"
                f" expected {printable(expected)}"
            )
        if len(found[kind]) > 20:
            lines.append(f"  ... and {len(found[kind]) - 20:,} more {word}")
    if found["false_negatives"]:
        lines += [f"  {printable(sentence)}" for sentence in found["diagnosis"]]
    else:
        lines.append("  no mark falls: no answer here needs this step")
    return lines


def verdict(found: dict[str, Any]) -> list[str]:
    """Why a gate is open or closed, line by line."""
    target = found["target"]
    lines = [f"  {printable(reason)}" for reason in found["reasons"]]
    lines.append(
        f"  the production target of {target['limit']} is"
        f" {'reached' if target['holds'] else 'not reached'} (it does not block)"
    )
    for soft in found["soft"]:
        state = {True: "WARNING", False: "fine", None: "not judged"}[soft["warn"]]
        lines.append(
            f"  soft {soft['id']}: {state}, "
            + (soft["reason"] or f"{soft['value']} against {soft['limit']}")
        )
    lines += [f"  note: {printable(note)}" for note in found["notes"]]
    return [
        *lines,
        (
            f"rubric {found['rubric']} · policy {found['policy']} · {found['scoringSystem']} ·"
            f" {found['gradingSystem']}"
        ),
    ]


def recalibration(found: dict[str, Any]) -> list[str]:
    """What other weights would have done, line by line."""
    lines = []
    for row in found["history"]:
        gate = row["hard_gate"]
        turned = (
            ""
            if gate["before"] == gate["after"]
            else f"  the hard gate {'opens' if gate['after'] else 'closes'}"
        )
        lines.append(
            f"{printable(row['file'])}  {row['rubric']} {row['score']} ->"
            f" {found['rubric']} {row['recalibrated']}  ({row['change']:+}){turned}"
        )
    moved = f"mean change {found['mean_change']:+}, largest {found['largest_change']:+}"
    return [
        *lines,
        f"{moved}; {found['gates_turned']} gates and {len(found['orders_turned'])} orders turn",
    ]
