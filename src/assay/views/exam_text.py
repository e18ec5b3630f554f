"""A graded exam and its gate as lines of a terminal and as Markdown: one stacked bar of the axes
for each item, the diagnosis, the patterns, and what a missing step costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET

from assay import exact
from assay.canon import number_text
from assay.errors import count, printable
from assay.records.exam import AxisNumbers, ExamGate, ExamResult
from assay.views.exam import exam_view, gate_rows
from assay.views.markdown import cell_code, code
from assay.views.pieces import bar as share_bar

WIDTH = 20
MARKS = "█▓▒░▚▞▙▟▛▜▌▐"
"""One character for each axis, in the rubric's order."""
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
    for mark, part in zip(MARKS, parts.values(), strict=False):
        total += exact.scaled(part, exact.NORM_DIGITS)
        made += mark * (exact.quantise(total * WIDTH, exact.NORM_ONE, 0) - len(made))
    return made + "·" * (WIDTH - len(made))


def raw_bar(marks: AxisNumbers) -> str:
    """The same with one length for every axis."""
    each = WIDTH // len(marks)
    kept = zip(MARKS, marks.values(), strict=False)
    return f"{''.join(mark * each for mark, value in kept if value == 1):·<{WIDTH}}"


def exam_lines(result: ExamResult, *, raw: bool = False) -> Iterator[str]:
    """A graded exam, line by line; `raw` gives every axis of a bar the same length."""
    view = exam_view(result)
    names = result.axis_names
    weights = [
        f"{mark} {axis} {number_text(x)}"
        for mark, (axis, x) in zip(MARKS, view.weights.items(), strict=False)
    ]
    yield "  ".join([*weights, "· lost"])
    of_item = {row.result.item: row for row in view.items}
    rows = [of_item[item.item] for item in result.items]
    if len(rows) > MAX_ITEMS:
        rows = view.lost[:MAX_ITEMS]
        yield f"the lowest {len(rows)} of {count(result.n, 'item')}"
    width = min(40, max((len(row.result.item) for row in rows), default=0))
    for row in rows:
        parts = row.result.breakdown if raw else row.result.weighted
        drawn = (raw_bar if raw else bar)({axis: parts[axis] for axis in names})
        name = printable(row.result.item)
        yield f"{name:<{width}}  {drawn}  {row.score:<4}  {printable(row.why)[:160]}".rstrip()
    yield view.headline + pass_text(result)
    yield from (f"  {printable(sentence)}" for sentence in result.diagnosis)
    for pattern in view.patterns:
        if pattern.seen:
            yield f"pattern {printable(pattern.kind)}: {printable(pattern.meaning)}"
    if view.latency:
        yield view.latency
    yield printable(view.systems)


def pass_text(result: ExamResult) -> str:
    """Whether the pass score is reached, where there is one."""
    if result.pass_line is UNSET:
        return ""
    word = "passes" if result.pass_line.holds else "FAILS"
    return f"; {word} the pass score of {number_text(result.pass_line.limit)}"


def gate_lines(gate: ExamGate) -> Iterator[str]:
    """Why a gate is open or closed, line by line."""
    yield from (f"  {printable(reason)}" for reason in gate.reasons)
    for row in gate_rows(gate):
        if row.effect != "blocks":
            yield f"  {row.name}: {row.state}, {row.text} (does not block)"
    yield from (f"  note: {printable(note)}" for note in gate.notes)
    yield (
        f"rubric {gate.rubric} · decided under {gate.policy} · {gate.scoring_system} ·"
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
        yield "  no marks are lost: no answer here needs this step"


def review_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """A review, line by line."""
    for row in document["items"]:
        state = "passed" if row["passed"] else "FAILED"
        got = "no answer" if row["item"] in document["missing"] else printable(str(row["got"])[:60])
        yield (
            f"{state}  {printable(row['item'])}  quality {row['quality']}  due {row['due']}  {got}"
        )
    counts = document["counts"]
    if not document["items"]:
        yield f"Nothing is due on {document['date']}."
    else:
        yield (
            f"{count(counts['due'], 'item')} reviewed: {counts['passed']} passed,"
            f" {counts['failed']} failed, {counts['missing']} of them without an answer"
        )
    if counts["new"]:
        yield f"{count(counts['new'], 'item')} never reviewed; add --new to include them"
    if document["next_due"]:
        yield f"next review due {document['next_due']}"
    yield (
        f"rubric {document['rubric']} · policy {document['policy']} · {document['scoringSystem']} ·"
        f" {document['gradingSystem']}"
    )


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
        f" {document['gates_turned']} gates and {len(document['orders_turned'])} rankings change"
    )


def exam_markdown(result: ExamResult, *, rows: int = MAX_ROWS) -> str:
    """A graded exam as a page: the score, what each axis kept as a bar, the diagnosis, the
    patterns, and the items that lost most.
    """
    view, n = exam_view(result), result.n
    names = result.axis_names if result.axes is not None else ()
    width = max(map(len, names), default=0)
    kept = "".join(
        f"{axis:<{width}}  {share_bar(n - sums.zero_items, n)}  {n - sums.zero_items:,} of"
        f" {n:,}, lost {number_text(sums.lost)}\n"
        for axis, sums in ((axis, (result.axes or {})[axis]) for axis in names)
    )
    seen = [pattern for pattern in view.patterns if pattern.seen]
    shown = [
        f"| {cell_code(row.result.item)} | {row.score} |"
        f" {', '.join(map(cell_code, row.lost))} | {cell_code(row.got)} |\n"
        for row in view.lost[:rows]
    ]
    more = len(view.lost) - rows
    parts = [
        f"## Assay: exam {view.headline}{pass_text(result)}\n",
        f"```text\n{kept}```\n" if result.axes is not None else "",
        "".join(f"- {code(sentence)}\n" for sentence in result.diagnosis),
        "".join(f"- pattern {code(pattern.kind)}: {code(pattern.meaning)}\n" for pattern in seen)
        or f"{view.patterns_sentence}\n",
        "| item | score | lost | got |\n|---|---:|---|---|\n"
        + "".join(shown)
        + (f"\n… and {more:,} more that lost something.\n" if more > 0 else "")
        if view.lost
        else "",
    ]
    return "\n".join([*filter(None, parts), f"{code(view.systems)}\n"])
