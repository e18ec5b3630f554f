"""A graded exam on the terminal: one stacked bar of the four axes for each item, the diagnosis, the patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay import exact
from assay.errors import printable
from assay.exams.diagnosis import gap_of
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
    """The stacked bar of one item: as long as its score, each axis with its own sign; `raw` gives every axis the same length.

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
    yield "  ".join(f"{SIGNS[axis]} {axis} {exact.norm_text(marking.weights[axis])}" for axis in AXES) + "  · lost"
    if len(rows) > SHOWN:
        rows = sorted((one for one in rows if gap_of(one, marking)), key=lambda one: one.units)[:SHOWN]
        yield f"the lowest {len(rows)} of {len(graded.marked):,} items"
    width = min(40, max((len(one.item.id) for one in rows), default=0))
    for one in rows:
        yield f"{printable(one.item.id):<{width}}  {bar(one.bits, marking, raw=raw)}  {exact.norm_text(one.units):<4}  {_why(one, graded)}".rstrip()


def _why(one: Marked, graded: Graded) -> str:
    reason = graded.missing.get(one.item.id)
    if reason is not None:
        return f"no answer: {printable(reason)[:80]}" if reason != "no answer" else reason
    gap = gap_of(one, graded.marking)
    if not gap:
        return ""
    got = printable(one.got[:40]) if one.got is not None else "nothing"
    return f"-{gap.replace(', ', ', -')}" + (f"  (expected {', '.join(one.item.wanted)}; got {got})" if not one.bits & BIT["correctness"] else "")


def summary(graded: Graded, document: dict[str, Any]) -> Iterator[str]:
    """The lines under the picture."""
    n = len(graded.marked)
    yield f"score {text(graded.score)} over {n:,} item{'s' if n != 1 else ''}, {len(graded.missing)} without an answer"
    for sentence in document["diagnosis"]:
        yield f"  {printable(sentence)}"
    for pattern in document["patterns"]:
        yield f"pattern {pattern['kind']}: {printable(pattern['hint'])}"
    p50 = document["latency"]["p50_ms"]
    if p50 is not None:
        yield f"median latency {p50} ms over {document['latency']['n']:,} answers"
    yield f"rubric {document['rubric']} · policy {document['policy']} · {document['scoringSystem']} · {document['gradingSystem']}"
