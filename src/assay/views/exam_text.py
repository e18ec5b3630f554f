"""A graded exam and its gate as lines of a terminal and as Markdown: one stacked bar of the four
axes for each item, the diagnosis, the patterns, and what a missing step costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay import exact
from assay.canon import number_text
from assay.errors import printable
from assay.records.exam import AXES
from assay.views.exam import exam_view, gate_rows, plural
from assay.views.markdown import code
from assay.views.pieces import bar as share_bar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from assay.records.exam import AxisNumbers, ExamGate, ExamResult

WIDTH = 20
MARKS = dict(zip(AXES, "█▓▒░", strict=True))
MAX_ITEMS = 120
"""Items that are drawn; of a longer exam only those that lost something, the lowest first."""
MAX_ROWS = 20
MAX_FLIPS = 20


def bar(parts: AxisNumbers) -> str:
    """The stacked bar of one item: as long as its score, each axis with its own character.

    The lengths are cut from the running total, so that rounding never adds up to more than the bar.
    """
    total = 0
    made = ""
    for axis, part in parts.items():
        total += exact.scaled(part, exact.NORM_DIGITS)
        made += MARKS[axis] * (exact.quantise(total * WIDTH, exact.NORM_ONE, 0) - len(made))
    return made + "·" * (WIDTH - len(made))


def raw_bar(marks: AxisNumbers) -> str:
    """The same with one length for every axis."""
    each = WIDTH // len(AXES)
    made = "".join(MARKS[axis] * each for axis, mark in marks.items() if mark == 1)
    return f"{made:·<{WIDTH}}"


def exam_lines(result: ExamResult, *, raw: bool = False) -> Iterator[str]:
    """A graded exam, line by line; `raw` gives every axis of a bar the same length."""
    view = exam_view(result)
    weights = [f"{MARKS[axis]} {axis} {number_text(x)}" for axis, x in view.weights.items()]
    yield "  ".join([*weights, "· lost"])
    of_item = {row.result.item: row for row in view.items}
    rows = [of_item[item.item] for item in result.items]
    if len(rows) > MAX_ITEMS:
        rows = view.lost[:MAX_ITEMS]
        yield f"the lowest {len(rows)} of {plural(result.n, 'item')}"
    width = min(40, max((len(row.result.item) for row in rows), default=0))
    for row in rows:
        drawn = raw_bar(row.result.breakdown) if raw else bar(row.result.weighted)
        name = printable(row.result.item)
        yield f"{name:<{width}}  {drawn}  {row.score:<4}  {printable(row.why)[:160]}".rstrip()
    yield view.headline
    yield from (f"  {printable(sentence)}" for sentence in result.diagnosis)
    for pattern in view.patterns:
        if pattern.seen:
            yield f"pattern {printable(pattern.kind)}: {printable(pattern.meaning)}"
    if view.latency:
        yield view.latency
    yield printable(view.systems)


def gate_lines(gate: ExamGate) -> Iterator[str]:
    """Why a gate is open or closed, line by line."""
    yield from (f"  {printable(reason)}" for reason in gate.reasons)
    for row in gate_rows(gate):
        if row.effect != "blocks":
            yield f"  {row.name}: {row.state}, {row.text} (does not block)"
    yield from (f"  note: {printable(note)}" for note in gate.notes)
    yield (
        f"rubric {gate.rubric} · policy {gate.policy} · {gate.scoring_system} ·"
        f" {gate.grading_system}"
    )


def cascade_lines(cascade: Mapping[str, Any]) -> Iterator[str]:
    """What leaving a step out costs, line by line."""
    score, gate = cascade["score"], cascade["hard_gate"]
    state = {True: "open", False: "closed"}
    yield (
        f"without {cascade['step']} ({cascade['title']}): score {score['before']} ->"
        f" {score['after']}, hard gate {state[gate['before']]} -> {state[gate['after']]}"
    )
    for kind, word in (("false_negatives", "lost"), ("false_positives", "gained")):
        for flip in cascade[kind][:MAX_FLIPS]:
            yield (
                f"  {word:<6}  {flip['item']}  {flip['axis']}  got {printable(repr(flip['got']))},"
                f" expected {printable(', '.join(flip['expected']))}"
            )
        if len(cascade[kind]) > MAX_FLIPS:
            yield f"  ... and {len(cascade[kind]) - MAX_FLIPS:,} more {word}"
    if cascade["false_negatives"]:
        yield from (f"  {printable(sentence)}" for sentence in cascade["diagnosis"])
    else:
        yield "  no mark falls: no answer here needs this step"


def recalibration_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What other weights would have done, line by line."""
    for row in document["history"]:
        gate = row["hard_gate"]
        turned = f"  the hard gate {'opens' if gate['after'] else 'closes'}"
        yield (
            f"{printable(row['file'])}  {row['rubric']} {row['score']} ->"
            f" {document['rubric']} {row['recalibrated']}  ({row['change']:+})"
            f"{turned if gate['before'] != gate['after'] else ''}"
        )
    yield (
        f"mean change {document['mean_change']:+}, largest {document['largest_change']:+};"
        f" {document['gates_turned']} gates and {len(document['orders_turned'])} orders turn"
    )


def exam_markdown(result: ExamResult, *, rows: int = MAX_ROWS) -> str:
    """A graded exam as a page: the score, what each axis kept as a bar, the diagnosis, the
    patterns, and the items that lost most.
    """
    view, n = exam_view(result), result.n
    parts = [f"## Assay: exam {view.headline}\n"]
    if result.axes is not None:
        width = max(map(len, AXES))
        parts.append(
            "```text\n"
            + "".join(
                f"{axis:<{width}}  {share_bar(n - one.zero_items, n)}  {n - one.zero_items:,} of"
                f" {n:,}, lost {number_text(one.lost)}\n"
                for axis, one in result.axes.items()
            )
            + "```\n"
        )
    parts.append("".join(f"- {code(sentence)}\n" for sentence in result.diagnosis))
    seen = [one for one in view.patterns if one.seen]
    parts.append(
        "".join(f"- pattern {code(one.kind)}: {code(one.meaning)}\n" for one in seen)
        or f"{view.patterns_sentence}\n"
    )
    if view.lost:
        shown = [
            f"| {code(row.result.item)} | {row.score} | {', '.join(map(code, row.lost))} |"
            f" {code(row.got)} |\n"
            for row in view.lost[:rows]
        ]
        more = len(view.lost) - rows
        parts.append(
            "| item | score | lost | got |\n|---|---:|---|---|\n"
            + "".join(shown)
            + (f"\n… and {more:,} more that lost something.\n" if more > 0 else "")
        )
    return "\n".join([*filter(None, parts), f"{code(view.systems)}\n"])
