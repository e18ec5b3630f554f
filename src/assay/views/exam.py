"""What a reader sees of a graded exam and its gate: every number and sentence, as text.

Terminal, Markdown, report and page lay this out and add no words. Nothing here
decides; see `exams.gate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from assay.canon import number_text
from assay.errors import count, few
from assay.records.exam import (
    AxisNumbers,
    DropCheck,
    ExamFileCount,
    ExamGate,
    ExamResult,
    HardGate,
    ItemResult,
    PatternSeen,
    RubricCheck,
    SoftGate,
    TargetCheck,
)


class PatternRow(NamedTuple):
    """One pattern: whether it is seen, where, and what that means."""

    kind: str
    seen: bool
    where: str
    meaning: str
    evidence: dict[str, Any]


class ItemRow(NamedTuple):
    """One item: its result, and what it lost with the reason."""

    result: ItemResult
    score: str
    lost: list[str]
    got: str
    why: str


class ExamPoint(NamedTuple):
    """One stored result of an exam in its history."""

    at: str
    score: Any
    n: int
    rubric: str
    digest: str = ""


class CheckRow(NamedTuple):
    """One gate: its verdict, whether it blocks, and what was found."""

    name: str
    state: str
    """holds, fails, warns or undetermined."""
    effect: str
    text: str


class ExamView(NamedTuple):
    """A graded exam for people."""

    result: ExamResult
    title: str
    score: str
    headline: str
    weights: AxisNumbers
    latency: str
    systems: str
    patterns: list[PatternRow]
    patterns_title: str
    patterns_sentence: str
    items: list[ItemRow]
    """The lowest score first."""
    lost: list[ItemRow]
    """Those that lost something."""
    rest: str
    files: list[str]
    faults: list[str]


def exam_name(files: Sequence[ExamFileCount]) -> str:
    """An exam by its files."""
    names = [f"{file.exam} {file.version}" for file in files]
    return few(names, 3) or "an exam without a name"


def exam_view(result: ExamResult) -> ExamView:
    """The view of a graded exam."""
    weights = _weights(result)
    known = result.looked_for
    rows = [_item(item, result, weights) for item in result.items]
    items = sorted(rows, key=lambda row: row.result.score)
    score = number_text(result.score)
    patterns = [
        row
        for kind in dict.fromkeys([*known, *(pattern.kind for pattern in result.patterns)])
        for row in _patterns(
            kind, [pattern for pattern in result.patterns if pattern.kind == kind], known
        )
    ]
    kinds = list(dict.fromkeys(pattern.kind for pattern in result.patterns))
    lost = [row for row in items if row.lost]
    p50 = result.latency.p50_ms
    return ExamView(
        result,
        exam_name(result.exams),
        score,
        f"score {score} over {count(result.n, 'item')}, {len(result.missing)} without an answer",
        weights,
        ""
        if p50 is None
        else f"median latency {number_text(p50)} ms over {count(result.latency.n, 'answer')}",
        f"rubric {result.rubric} · marked under {result.policy} · {result.scoring_system} ·"
        f" {result.grading_system}",
        patterns,
        "Patterns looked for",
        (
            f"{len(kinds)} of {count(len(known), 'pattern')} found in {count(result.n, 'item')}:"
            f" {', '.join(kinds)}."
            if kinds
            else f"No pattern found in {count(result.n, 'item')}."
        ),
        items,
        lost,
        f"{count(len(items) - len(lost), 'item has', 'items have')} every mark",
        [
            f"{file.exam} version {file.version} ({count(file.items, 'item')})"
            for file in result.exams
        ],
        [
            *(f"{fault.get('code')}: {fault.get('message')}" for fault in result.faults),
            *(f"answered, but not in the exam: {name}" for name in result.unknown),
        ],
    )


def _weights(result: ExamResult) -> AxisNumbers:
    """What each mark is worth. Where no item has it, all of it was lost."""
    weights = {}
    for axis in result.axis_names:
        kept = (item.weighted[axis] for item in result.items if item.breakdown[axis] == 1)
        lost = 0 if result.axes is None else result.axes[axis].lost
        weights[axis] = next(kept, lost)
    return weights


def no_answer(result: ExamResult, item: str) -> str:
    """That an item has no answer, and why if that is known."""
    reason = result.missing_reasons.get(item)
    return f"no answer: {reason}" if reason else "no answer"


def _item(item: ItemResult, result: ExamResult, weights: AxisNumbers) -> ItemRow:
    got = "nothing" if item.got is None else item.got
    if item.item in result.missing:
        got = why = no_answer(result, item.item)
    else:
        lost = [axis for axis in weights if axis in item.lost]
        why = ", ".join(f"-{number_text(weights[axis])} {axis}" for axis in lost)
        if next(iter(weights)) in lost and item.expected:
            why += f"  (expected {', '.join(item.expected)}; got {got[:40]})"
    return ItemRow(
        item,
        number_text(item.score),
        [weight for weight in weights if weight in item.lost],
        got,
        why,
    )


_NOT_A_TAG = [
    "axis",
    "items",
    "got",
    "share",
    "zero_items",
    "first_half",
    "second_half",
    "other_axes",
    "chi_square",
    "expected",
    "would_match_without",
]


def _where(evidence: dict[str, Any]) -> str:
    """Where a pattern was seen: at an item, a tag such as a verb, or an axis."""
    tags = [key for key in evidence if key not in _NOT_A_TAG]
    named = "item" if "item" in evidence else tags[0] if tags else "axis"
    return str(evidence.get(named, "the exam"))


def _patterns(kind: str, seen: list[PatternSeen], known: dict[str, str]) -> list[PatternRow]:
    if not seen:
        return [PatternRow(kind, False, "", known[kind], {})]
    return [
        PatternRow(
            kind,
            True,
            _where(pattern.evidence),
            pattern.hint,
            pattern.evidence,
        )
        for pattern in seen
    ]


Check = HardGate | TargetCheck | DropCheck | SoftGate | RubricCheck


def check_row(check: Check) -> CheckRow:
    """One gate, with its verdict in words."""
    limit = number_text(check.limit)
    if isinstance(check, SoftGate):
        state = {True: "warns", False: "holds", None: "undetermined"}[check.warn]
        text = (
            check.reason
            if check.value is None
            else ": ".join(
                filter(None, [f"value {number_text(check.value)}, limit {limit}", check.reason])
            )
        )
        return CheckRow(f"Soft gate {check.id}", state, "warning", text)
    state = "holds" if check.holds else "fails"
    if isinstance(check, RubricCheck):
        text = f"rise {number_text(check.rise)}, checked above {limit}"
        return CheckRow("Rise, checked for a fault of the rubric", state, "blocks", text)
    if isinstance(check, DropCheck):
        text = (
            f"from {number_text(check.baseline)} to {number_text(check.candidate)}, a drop of"
            f" {number_text(check.drop)}, at most {limit}"
        )
        return CheckRow("Drop against the baseline", state, "blocks", text + _by_axis(check))
    text = f"score {number_text(check.score)}, at least {limit}"
    if isinstance(check, HardGate):
        return CheckRow("Hard gate on the capstone exam", state, "blocks", text)
    return CheckRow("Production target", state, "informational", text)


def _by_axis(check: DropCheck) -> str:
    """The axes that fell too far, after the sentence about the total."""
    if check.by_axis is UNSET:
        return ""
    fell = [
        f"{axis} by {number_text(drop.drop)} ({drop.lost} lost, {drop.gained} gained; at most"
        f" {number_text(drop.limit)})"
        for axis, drop in check.by_axis.items()
        if not drop.holds
    ]
    return f"; axes that fell too far: {', '.join(fell)}" if fell else "; every axis holds"


def gate_rows(gate: ExamGate) -> list[CheckRow]:
    """Every gate that was judged, those that block first."""
    checks: list[Check] = [gate.capstone, gate.target, *gate.soft]
    if gate.regression is not None:
        checks.insert(1, gate.regression)
    return list(map(check_row, checks))


class GateView(NamedTuple):
    """Whether an exam keeps its limits. `why_not` is why that cannot be judged."""

    name: str
    rows: list[CheckRow]
    holds: bool | None
    reason: str
    limit: Any = None
    why_not: str = ""


def gates_of(name: str, rows: list[CheckRow], *, limit: Any = None) -> GateView:
    """The view of gates, the first of which decides."""
    first = rows[0]
    holds = {"holds": True, "fails": False}.get(first.state)
    return GateView(name, rows, holds, f"{first.name}: {first.text}.", limit)
