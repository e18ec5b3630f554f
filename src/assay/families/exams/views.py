"""What people see of exams: a result, its items and axes, and gates, as page and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple
from urllib.parse import quote

from msgspec import UNSET

from assay import exact
from assay.canon import number_text
from assay.errors import count, few, printable
from assay.families.exams.records import (
    AxisNumbers,
    DropCheck,
    ExamFileCount,
    ExamGate,
    ExamResult,
    HardGate,
    ItemResult,
    LostMark,
    PatternSeen,
    RubricCheck,
    ScoreCount,
    SoftGate,
    TargetCheck,
)
from assay.views.blocks import (
    Chip,
    Chips,
    Column,
    Decided,
    Details,
    Facts,
    Figure,
    Note,
    Paragraph,
    Part,
    Region,
    Section,
    Sentences,
    Table,
    contents,
    figure,
    parts_of,
    section,
    stated,
)
from assay.views.charts import Chart, marks
from assay.views.charts.chart import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    INK,
    MAX_ROWS,
    ORANGE,
    PINK,
    QUIET,
    RED,
    SKY,
    TRACK,
    WHITE,
    WIDTH,
    Spec,
    clean,
    cut,
    label,
    labels,
    nothing,
    number,
    over,
    percent,
    shown,
    view,
)
from assay.views.charts.trends import time_axis
from assay.views.junit import Case, clipped, document_xml, fault_cases
from assay.views.markdown import cell_code
from assay.views.markdown import code as markdown_code
from assay.views.pieces import (
    absent,
    address,
    clip,
    code,
    line,
    link,
    listed,
    moment,
    phrase,
    short_digest,
    small,
    strong,
    verdict,
    words,
)
from assay.views.pieces import bar as share_bar
from assay.views.pieces import number as number_piece
from assay.views.pieces import shown as shown_piece
from assay.views.render import report

COLOURS = [BLUE, ORANGE, SKY, GREEN, PINK, GREY]
"""By axis; from the seventh on they begin again, and the number tells two axes apart."""
MAX_COLUMNS = 300
"""Items that the heatmap has room for."""


def _names_of(exam: ExamResult) -> list[str]:
    """The axes, each with its number."""
    return [f"{place} {label(axis)}" for place, axis in enumerate(exam.axis_names, 1)]


def _kinds(exam: ExamResult, item: ItemResult) -> list[str]:
    """The patterns that name an item."""
    return list(dict.fromkeys(pattern.kind for pattern in exam.patterns if _names(pattern, item)))


def _names(pattern: PatternSeen, item: ItemResult) -> bool:
    evidence = pattern.evidence
    if "zero_items" in evidence:
        return evidence["axis"] in item.lost
    items = evidence.get("items")  # of some patterns their number
    return item.item == evidence.get("item") or (isinstance(items, list) and item.item in items)


def axes(exam: ExamResult, *, weighted: bool = True) -> Chart:
    """A stacked bar of the axes for each item: weighted, so that a bar is as long as its score, or
    raw, with the same length for each axis (C-016, X-94).
    """
    name, title = (
        ("axes", "Items by axis, weighted")
        if weighted
        else ("axes-raw", "Items by axis, each with the same length")
    )
    items = exam.items
    if len(items) > MAX_ROWS:
        lost = sorted((item for item in items if item.lost), key=lambda item: item.score)
        items = lost[:MAX_ROWS]
    segments: list[dict[str, Any]] = []
    sums: list[dict[str, Any]] = []
    names, axis_names = _names_of(exam), exam.axis_names
    whole = 1.0 if weighted else float(len(names))
    for item, text in zip(items, labels(item.item for item in items), strict=True):
        at = 0.0
        parts = _parts(item, weighted)
        for axis, place in zip(axis_names, names, strict=True):
            part = float(parts[axis])
            if part > 0:
                segments.append(
                    {
                        "name": text,
                        "from": at,
                        "to": at + part,
                        "middle": at + part / 2,
                        "axis": place,
                        "sign": place.partition(" ")[0],
                    }
                )
            at += part
        sums.append({"name": text, "to": at, "end": whole, "note": _bar_note(exam, item)})
    sentence = (
        f"{count(exam.n, 'item')} by rubric {clean(exam.rubric)}, exam score {shown(exam.score)}; "
        + _axes_lost(exam)
    )
    if len(items) < exam.n:
        sentence += (
            f" Only the {len(items)} that lost most are drawn."
            if items
            else " No item lost anything, so none is drawn."
        )
    return Chart(
        name,
        title,
        sentence,
        _stacked(segments, sums, whole, names) if sums else None,
        ("Item", "Score", *map(clean, axis_names), "Lost", "Pattern"),
        _item_rows(exam, weighted),
    )


def _parts(item: ItemResult, weighted: bool) -> AxisNumbers:
    return item.weighted if weighted else item.breakdown


def _bar_note(exam: ExamResult, item: ItemResult) -> str:
    """The text next to a bar: the score, what was lost, and the patterns of the item."""
    lost = [place for place, axis in enumerate(exam.axis_names, 1) if axis in item.lost]
    text = shown(item.score) + (f", lost {', '.join(map(str, lost))}" if lost else "")
    if item.item in exam.missing:
        text += ", no answer"
    return " · ".join([text, *(label(kind) for kind in _kinds(exam, item) if kind != "axis_zero")])


def _axes_lost(exam: ExamResult) -> str:
    zero = {axis: sum(axis in item.lost for item in exam.items) for axis in exam.axis_names}
    parts = [f"{clean(axis)} on {count(n, 'item')}" for axis, n in zero.items() if n]
    sentence = f"marks lost for {', '.join(parts)}." if parts else "no mark was lost."
    kinds = list(dict.fromkeys(clean(pattern.kind) for pattern in exam.patterns))
    return sentence + (f" Patterns found: {', '.join(kinds)}." if kinds else " No pattern found.")


def _item_rows(exam: ExamResult, weighted: bool) -> tuple[tuple[str, ...], ...]:
    names = exam.axis_names
    rows = [
        (
            clean(item.item),
            shown(item.score),
            *(shown(_parts(item, weighted)[axis]) for axis in names),
            ", ".join(clean(axis) for axis in names if axis in item.lost) or "nothing",
            ", ".join(map(clean, _kinds(exam, item))) or "none",
        )
        for item in sorted(exam.items, key=lambda item: item.score)
    ]
    return cut(rows, 4 + len(names))


def _stacked(
    segments: list[dict[str, Any]], sums: list[dict[str, Any]], whole: float, names: list[str]
) -> dict[str, Any]:
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    y = marks.rows_axis(sums)
    x = marks.scored(domain=(0, whole), title="score" if whole == 1 else "marks")
    x["axis"]["tickCount"] = 5
    hue = {
        "field": "axis",
        "type": "nominal",
        "scale": {"domain": names, "range": colours},
        "legend": {"title": None, "columns": 4, "symbolType": "square"},
    }
    ink = {
        "field": "axis",
        "type": "nominal",
        "scale": {
            "domain": names,
            "range": [WHITE if colour == BLUE else BLACK for colour in colours],
        },
        "legend": None,
    }
    spec = view(
        [],
        over(
            sums,
            {
                "mark": {"type": "bar", "color": TRACK},
                "encoding": {"y": y, "x": {"field": "to", **x}, "x2": {"field": "end"}},
            },
        ),
        over(
            segments,
            {
                "mark": {"type": "bar"},
                "encoding": {
                    "y": y,
                    "x": {"field": "from", **x},
                    "x2": {"field": "to"},
                    "color": hue,
                },
            },
        ),
        over(
            segments,
            {
                "mark": {"type": "text", "fontSize": 11},
                "encoding": {
                    "y": y,
                    "x": {"field": "middle", **x},
                    "text": {"field": "sign"},
                    "color": ink,
                },
            },
        ),
        over(sums, marks.aside(y, "note")),
        resolve={"scale": {"color": "independent"}},
    )
    spec["height"] = {"step": 22}
    return spec


def heatmap(exam: ExamResult) -> Chart:
    """Every axis across the items in their order: a full cell is a lost mark. A systematic loss
    shows as a line, a decline shows on the right (C-017).
    """
    kept = [item for item in exam.items if len(exam.items) <= MAX_COLUMNS or item.lost]
    kept = kept[:MAX_COLUMNS]
    cells: list[dict[str, Any]] = [
        {
            "name": text,
            "from": column,
            "to": column + 1,
            "mark": "lost" if axis in item.lost else "kept",
        }
        for column, item in enumerate(kept)
        for axis, text in zip(exam.axis_names, _names_of(exam), strict=True)
    ]
    sides: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for axis, text in zip(exam.axis_names, _names_of(exam), strict=True):
        zero = sum(axis in item.lost for item in exam.items)
        kinds = list(
            dict.fromkeys(
                clean(pattern.kind)
                for pattern in exam.patterns
                if pattern.evidence.get("axis") == axis
            )
        )
        sides.append({"name": text, "note": " · ".join([f"{zero} of {exam.n} lost", *kinds])})
        rows.append(
            (
                clean(axis),
                str(zero),
                str(exam.n),
                percent(zero / exam.n),
                ", ".join(kinds) or "none",
            )
        )
    sentence = f"{count(exam.n, 'item')} in the order of the exam; " + _axes_lost(exam)
    if len(kept) < exam.n:
        sentence += f" Only {len(kept)} items that lost points are drawn."
    return Chart(
        "heatmap",
        "Lost marks, axis by item",
        sentence,
        _cells(cells, sides, len(kept)) if kept else None,
        ("Axis", "Items that lost it", "Items", "Share", "Pattern"),
        tuple(rows),
    )


def _cells(
    cells: list[dict[str, Any]], sides: list[dict[str, Any]], columns: int
) -> dict[str, Any]:
    y = {
        **marks.rows_axis(sides),
        "scale": {"domain": [row["name"] for row in sides], "paddingInner": 0.15},
    }
    axis = {
        "title": "items, in their order",
        "ticks": False,
        "tickCount": min(6, columns),
        "format": "d",
        "tickMinStep": 1,
        "grid": False,
    }
    x = {"type": "quantitative", "scale": {"domain": [0, columns], "nice": False}, "axis": axis}
    hue = {
        "field": "mark",
        "type": "nominal",
        "scale": {"domain": ["kept", "lost"], "range": [TRACK, RED]},
        "legend": {"title": None, "symbolType": "square"},
    }
    stroke = {"stroke": QUIET, "strokeWidth": 0.3} if columns <= 120 else {}
    cell = {
        "mark": {"type": "rect", **stroke},
        "encoding": {"y": y, "x": {"field": "from", **x}, "x2": {"field": "to"}, "color": hue},
    }
    return view([], over(cells, cell), over(sides, marks.aside(y, "note")))


def patterns(exam: ExamResult) -> Chart:
    """The patterns by name: which of them are seen, and what was seen (C-017)."""
    view = exam_view(exam)
    names = labels(row.kind for row in view.patterns)
    drawn = [
        {
            "lamp": marks.OPEN if row.seen else marks.ASIDE,
            "word": "FOUND" if row.seen else "not found",
            "why": label(f"{row.where}: {row.meaning}", 72) if row.seen else row.meaning,
            "name": name,
        }
        for row, name in zip(view.patterns, names, strict=True)
    ]
    rows = [
        (
            clean(row.kind),
            "found" if row.seen else "not found",
            clean(row.where),
            clean(row.meaning),
        )
        for row in view.patterns
    ]
    return Chart(
        "patterns",
        "Patterns",
        clean(view.patterns_sentence),
        marks.lamps(drawn[:MAX_ROWS]),
        ("Pattern", "Found", "Where", "What it means"),
        cut(rows, 4),
    )


def exam_history_chart(
    points: Sequence[ExamPoint],
    distribution: Sequence[ScoreCount] | None,
    *,
    limit: object = None,
) -> Chart:
    """The exam's scores over time, next to the stored distribution of item scores.

    `distribution` is that of the stored result, or None if none is stored. `limit` is the score of
    the hard gate.
    """
    name, title = "exam-history", "Exam scores over time"
    if not points:
        return nothing(name, title, "No exam is stored yet, so there is no history to show.")
    exams = sorted(points, key=lambda point: point.at)
    rows = [
        (clean(point.at), shown(point.score), shown(point.n), clean(point.rubric))
        for point in points
    ]
    spread = [(float(share.score), share.items) for share in distribution or ()]
    total = sum(items for _, items in spread)
    stored = (
        sum(Fraction(str(share.score)) * share.items for share in distribution or ())
        / Fraction(total)
        if total
        else None
    )
    gate = number(limit)
    sentence = f"{count(len(exams), 'exam')}; the last scored {shown(float(exams[-1].score))}."
    sentence += (
        f" The stored distribution has {count(total, 'item')} with a mean of"
        f" {_thousandths(stored)}."
        if stored is not None
        else " No distribution is stored to compare it with."
    )
    sentence += f" The hard gate is {shown(limit)}." if gate is not None else ""
    for score, items in spread:
        rows.append((f"stored: items with score {score:g}", f"{score:g}", f"{items:g}", ""))
    lines = None if stored is None else float(stored)
    return Chart(
        name,
        title,
        sentence,
        _history_spec(exams, spread, lines, gate),
        ("At", "Score", "Items", "Rubric"),
        cut(rows, 4),
    )


def _thousandths(value: Fraction) -> str:
    """Three decimals, halves up, from the exact value.

    >>> _thousandths(Fraction("0.9875"))
    '0.988'
    """
    return f"{exact.quantise(value.numerator, value.denominator, 3) / 1000:.3f}"


def _history_spec(
    exams: Sequence[ExamPoint],
    spread: list[tuple[float, int]],
    stored: float | None,
    gate: float | None,
) -> Spec:
    drawn = [
        {
            "at": exam.at,
            "score": float(exam.score),
            "name": clean(exam.at),
            "note": f"score {shown(exam.score)}, {shown(exam.n)} items",
        }
        for exam in exams
    ]
    lowest = min(
        *(float(exam.score) for exam in exams),
        *(score for score, _ in spread),
        1.0 if gate is None else gate,
    )
    y = {
        "type": "quantitative",
        "scale": {"domain": [max(0.0, lowest - 0.05), 1], "nice": False, "zero": False},
    }
    y["axis"] = {"title": "score", "grid": True, "tickCount": 5}
    x = time_axis()
    lines = sorted(
        (
            (value, text)
            for value, text in ((gate, "hard gate"), (stored, "stored mean"))
            if value is not None
        ),
        reverse=True,
    )
    ruled = [{"at": value, "note": text} for value, text in lines]
    made = view(
        [],
        over(
            ruled,
            {
                "mark": {"type": "rule", "color": INK, "strokeDash": [5, 4]},
                "encoding": {"y": {"field": "at", **y}},
            },
        ),
        *(
            over([row], _line_text(y, above=place == 0 and len(ruled) > 1))
            for place, row in enumerate(ruled)
        ),
        over(
            drawn,
            {
                "mark": {"type": "line", "color": BLUE},
                "encoding": {"x": x, "y": {"field": "score", **y}},
            },
        ),
        over(
            drawn,
            {
                "mark": {"type": "point", "color": BLUE, "opacity": 1},
                "encoding": {"x": x, "y": {"field": "score", **y}},
            },
        ),
        height=190,
        width=WIDTH,
    )
    if not spread:
        return made
    bars = [{"score": score, "items": items} for score, items in spread]
    side = {
        "data": {"values": bars},
        "width": 110,
        "height": 190,
        "mark": {"type": "bar", "color": SKY, "size": 6, "orient": "horizontal"},
        "encoding": {
            "y": {"field": "score", **y, "axis": None},
            "x": {
                "field": "items",
                "type": "quantitative",
                "axis": {"title": "items, stored", "tickCount": 2, "grid": False, "format": "d"},
            },
        },
    }
    main = {key: made.pop(key) for key in ("layer", "height", "width")}
    return {**made, "hconcat": [main, side], "spacing": 14}


def _line_text(y: Spec, *, above: bool) -> Spec:
    """The name of a line. Of two lines, the upper one is named above it at the right, the lower one
    below it at the left, so that the names never overlap.
    """
    place = (
        {"align": "right", "baseline": "bottom", "dy": -3}
        if above
        else {"align": "left", "baseline": "top", "dy": 4}
    )
    mark = {"type": "text", "fontSize": 11, "color": INK, **place}
    return {
        "mark": mark,
        "encoding": {
            "x": {"value": WIDTH - 4 if above else 4},
            "y": {"field": "at", **y},
            "text": {"field": "note"},
        },
    }


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
    id: str = ""


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
    kinds = list(dict.fromkeys(pattern.kind for pattern in result.patterns))
    patterns = [
        row for kind in dict.fromkeys([*known, *kinds]) for row in _pattern_rows(kind, result)
    ]
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
    lost = [axis for axis in weights if axis in item.lost]
    got = "nothing" if item.got is None else item.got
    if item.item in result.missing:
        got = why = no_answer(result, item.item)
    else:
        why = ", ".join(f"-{number_text(weights[axis])} {axis}" for axis in lost)
        if next(iter(weights)) in lost and item.expected:
            why += f"  (expected {', '.join(item.expected)}; got {got[:40]})"
    return ItemRow(
        item,
        number_text(item.score),
        lost,
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


def _pattern_rows(kind: str, result: ExamResult) -> list[PatternRow]:
    return [
        PatternRow(kind, True, _where(pattern.evidence), pattern.hint, pattern.evidence)
        for pattern in result.patterns
        if pattern.kind == kind
    ] or [PatternRow(kind, False, "", result.looked_for[kind], {})]


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
        return CheckRow(f"Soft gate {check.id}", state, "warning", text, check.id)
    state = "holds" if check.holds else "fails"
    if isinstance(check, RubricCheck):
        text = f"rise {number_text(check.rise)}, checked above {limit}"
        return CheckRow("Rise, checked for a fault of the rubric", state, "blocks", text)
    if isinstance(check, DropCheck):
        text = (
            f"from {number_text(check.baseline)} to {number_text(check.candidate)}, a drop of"
            f" {number_text(check.drop)}, at most {limit}"
        )
        return CheckRow(
            "Drop against the baseline", state, "blocks", text + _by_axis(check), "regression"
        )
    text = f"score {number_text(check.score)}, at least {limit}"
    if isinstance(check, HardGate):
        return CheckRow("Hard gate on the capstone exam", state, "blocks", text, "capstone")
    return CheckRow("Production target", state, "informational", text, "target")


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


MAX_VIEW_ROWS = 200
MAX_TEXT = 2000
MAX_PARTS = 20
PARTS = ("correction", "gloss", "explanation")
_LOST = (
    Column("Item"),
    Column("Axis"),
    Column("Lost", "n"),
    Column("Expected", "wide"),
    Column("Given", "wide"),
)


def lost_section(
    view: ExamView, lost: Sequence[LostMark], *, here: str = "", axis: str = ""
) -> Section:
    """Every lost mark, the lowest item first. `here` is the address of the page, which an axis
    narrows down.
    """
    known = {(mark.item, mark.axis): mark for mark in lost}
    marks = [
        (row.result, each, known.get((row.result.item, each)))
        for row in view.items
        for each in row.lost
    ]
    chosen = [mark for mark in marks if axis in ("", mark[1])]
    rows = []
    for item, each, mark in chosen[:MAX_VIEW_ROWS]:
        missing = item.item in view.result.missing
        rows.append(
            [
                phrase(strong(item.item), line(small(clip(item.prompt, 160)))),
                words(each),
                f"−{number_text(view.weights[each])}",
                *_words(view, item, each, mark, missing=missing),
            ]
        )
    axes = [each for _, each, _ in marks]
    more = f"The first {MAX_VIEW_ROWS} of {count(len(chosen), 'lost mark')}."
    parts = parts_of(
        _chips(view, axes, here, axis) if here and len(view.weights) > 1 and marks else None,
        Table("Lost marks", _LOST, rows, absent="No mark was lost.", kind="stack lost"),
        Paragraph(more, "hint") if len(chosen) > MAX_VIEW_ROWS else None,
    )
    return section("Lost marks", *([Region("lost-marks", parts)] if here else parts), id="lost")


def _words(
    view: ExamView, item: ItemResult, axis: str, mark: LostMark | None, *, missing: bool
) -> tuple[str, str]:
    """What was expected and what was given. Without the answers, the result has them only for its
    main axis.
    """
    main = axis == next(iter(view.weights))
    expected = mark.expected if mark else ", ".join(item.expected) if main else ""
    given = mark.given if mark else (item.got or "") if main else None
    if missing:
        shown: str = absent(no_answer(view.result, item.item))
    elif given is None:
        shown = absent("the answers are not stored")
    else:
        shown = clip(given, MAX_TEXT, absent_as="nothing")
    return clip(expected, MAX_TEXT, absent_as="see the rubric"), shown


def _chips(view: ExamView, axes: Sequence[str], here: str, chosen: str) -> Chips:
    chips = [Chip("All axes", f"{here}#lost", len(axes), not chosen)]
    for axis in view.weights:
        if axis in axes or axis == chosen:
            own = axis == chosen
            href = f"{here}#lost" if own else f"{here}?axis={quote(axis)}#lost"
            chips.append(Chip(words(axis), href, axes.count(axis), own))
    return Chips("Which axis", chips)


def items_section(view: ExamView, answers: Mapping[str, Any]) -> Section:
    """Every item with its marks and the parts of its answer, the lowest score first."""
    rows = []
    axes = view.result.axis_names
    for row in view.items[:MAX_VIEW_ROWS]:
        item = row.result
        marks = [
            verdict("fails", "0") if axis in row.lost else verdict("holds", "1") for axis in axes
        ]
        answered = item.item not in view.result.missing
        rows.append(
            [
                strong(item.item),
                row.score,
                *marks,
                clip(item.prompt, MAX_TEXT),
                clip(", ".join(item.expected), MAX_TEXT),
                _answer(answers.get(item.item), item) if answered else row.got,
            ]
        )
    columns: tuple[str | Column, ...] = (
        "Item",
        Column("Score", "n"),
        *map(words, axes),
        Column("Prompt", "wide"),
        "Expected",
        Column("Answer", "wide"),
    )
    n = len(view.items)
    more = (
        f"The {MAX_VIEW_ROWS} lowest of {n:,}; the record has them all."
        if n > MAX_VIEW_ROWS
        else ""
    )
    table = Table("Items, the lowest score first", columns, rows, kind="stack")
    folded = Details(f"Every item with its answer ({n:,})", [table])
    return section("Items", folded, id="items", hint=more or f"{view.rest}.")


def _answer(answer: Any, item: ItemResult) -> str:
    """What was answered, part by part; of an exam without its answers what counted as English."""
    if isinstance(answer, Mapping):
        rest = [name for name in answer if name not in PARTS][:MAX_PARTS]
        known = PARTS if any(name in answer for name in PARTS) else ()
        return phrase(
            *(line(small(f"{name} "), _part(answer.get(name))) for name in (*known, *rest))
        )
    if answer is not None:
        return phrase(small("one text, no parts "), clip(answer, MAX_TEXT))
    return absent("no answer is stored") if item.got is None else clip(item.got, MAX_TEXT)


def _part(value: Any) -> str:
    if value in (None, ""):
        return absent("empty" if value == "" else "not there")
    return clip(value, MAX_TEXT)


RAW = "raw"
"""In the address: bars with the same length for each axis."""
STATES = {
    "holds": verdict("holds"),
    "fails": verdict("fails", "does not hold"),
    "warns": verdict("stale", "warns"),
    "undetermined": verdict("undetermined", "cannot be judged"),
}


class HistoryView(NamedTuple):
    """The results of one exam, the oldest first, and the stored distribution, if there is one."""

    points: list[ExamPoint]
    distribution: list[ScoreCount] | None
    name: str
    hint: str
    others: int = 0
    """Results of the same name and set that have other questions."""


class PageLinks(NamedTuple):
    """Where a page is served, where its charts are, and whether its bars are raw."""

    here: str
    charts: str
    raw: bool


def exam_charts(result: ExamResult) -> list[Chart]:
    """Every chart of a graded exam."""
    return [
        axes(result),
        axes(result, weighted=False),
        heatmap(result),
        patterns(result),
    ]


def exam_page(result: ExamResult, *, lost: Sequence[LostMark] | None = None) -> str:
    """The graded exam as a self-contained page."""
    view = exam_view(result)
    return report("Assay exam", *exam_parts(view, None, lost=lost), heading=f"Exam: {view.title}")


def exam_parts(
    view: ExamView,
    gates: GateView | None,
    *,
    links: PageLinks | None = None,
    history: HistoryView | None = None,
    answers: Mapping[str, Any] | None = None,
    lost: Sequence[LostMark] | None = None,
    axis: str = "",
    more: str = "",
) -> list[Part]:
    """The whole of a graded exam. `answers` has what was answered to each item, `lost` what was
    expected and given where a mark was lost, of which only an `axis` may be asked for; `more` is
    about its record.
    """
    url = links.charts if links else ""
    sections = [
        *([] if gates is None else [_gates(gates)]),
        lost_section(view, lost or [], here=links.here if links else "", axis=axis),
        _axes(view, links),
        section(
            "Diagnosis", Sentences([*view.result.diagnosis, *view.result.notes]), id="diagnosis"
        ),
        _pattern_facts(view, figure(heatmap(view.result), url)),
        *([] if history is None else [_history(history, gates, url)]),
        items_section(view, answers or {}),
        _origin(view, more),
    ]
    others = history.others if history is not None else 0
    return [_head(view, gates, others), _figures(view), contents(sections), *sections]


def _head(view: ExamView, gates: GateView | None, others: int) -> Part:
    sentence = f"{view.headline.capitalize()}."
    if others:
        have = "has" if others == 1 else "have"
        sentence += f" {count(others, 'result')} of this name {have} other questions."
    if gates is None:
        decides = (" Grading is not a gate: ", code("assay exam gate"), " decides.")
        return Paragraph(phrase(sentence, *decides), "verdict")
    outcome = {
        True: verdict("passed", f"The {gates.name} passed"),
        False: verdict("failed", f"The {gates.name} failed"),
        None: verdict("undetermined", f"The {gates.name} can't be judged"),
    }
    policy = view.result.policy or "no policy"
    return Decided(outcome[gates.holds], policy, f"{gates.reason} {sentence}")


def _figures(view: ExamView) -> Facts:
    result = view.result
    missing = result.missing
    named = f"{len(missing):,}: {', '.join(missing[:10])}" if missing else "none"
    latency = number_piece(
        result.latency.p50_ms,
        n=result.latency.n,
        digits=0,
        unit="ms",
        absent_as="not measured",
    )
    return Facts(
        [
            ("Score, 0 to 1", number_piece(result.score, n=result.n, digits=4)),
            ("Items without an answer", named),
            ("Median latency", latency),
            ("Rubric", result.rubric),
            ("Set", result.set),
        ],
        "figures",
    )


def _gates(gates: GateView) -> Section:
    """Every gate with its verdict; which block and which only warn."""
    if gates.why_not:
        reason = Note(f"No gate can be judged: {gates.why_not}.", "bad")
        return section("Gates", reason, id="gates")
    return section(
        "Gates",
        gate_table(gates.rows),
        id="gates",
        hint="Recomputed from the marks of every item and compared exactly.",
    )


def gate_table(rows: Sequence[CheckRow]) -> Table:
    """Gates with their verdicts, effects and results."""
    cells = [[row.name, STATES[row.state], row.effect, row.text] for row in rows]
    columns = ("Gate", "Verdict", "Effect", Column("Result", "wide"))
    return Table("Gates of the exam", columns, cells, kind="stack")


def _axes(view: ExamView, links: PageLinks | None) -> Section:
    """The axes of each item as stacked bars: weighted, or raw."""
    result = view.result
    rows = [
        [
            strong(words(axis)),
            number_piece(axis_result.mean, n=result.n, digits=3),
            f"{axis_result.zero_items:,}",
            number_piece(axis_result.lost, digits=4),
        ]
        for axis, axis_result in (
            [(axis, result.axes[axis]) for axis in result.axis_names] if result.axes else ()
        )
    ]
    columns = (
        "Axis",
        Column("Share with the mark", "n"),
        Column("Items without it", "n"),
        Column("Score lost", "n"),
    )
    url = links.charts if links else ""
    weighted, raw = (figure(axes(result, weighted=each), url) for each in (True, False))
    bars: list[Part]
    if links is None:
        bars = [weighted, Details("Unweighted: every axis has the same length", [raw])]
    elif links.raw:
        other = link("Show weighted bars, as long as the score", links.here)
        bars = [Paragraph(phrase("Raw: every axis has the same length. ", other)), raw]
    else:
        other = link("Show raw bars, each axis with the same length", f"{links.here}?bars={RAW}")
        text = "Weighted: a full bar is the whole score of its item. "
        bars = [Paragraph(phrase(text, other)), weighted]
    table = Table("Axes", columns, rows, absent="No axis is stated.", kind="stack")
    return section("Where the points went", *bars, table, id="axes")


def _pattern_facts(view: ExamView, heatmap: Figure) -> Section:
    """The patterns, each seen or not, and the lost marks item by axis."""
    rows = [
        [
            strong(code(row.kind)),
            verdict("hold", "found") if row.seen else verdict("none", "not found"),
            phrase(row.meaning, small(" ", _evidence(row.evidence)))
            if row.seen
            else absent(row.meaning),
        ]
        for row in view.patterns
    ]
    columns = ("Pattern", "Found", Column("What it means", "wide"))
    return section(
        "Patterns",
        Table("Patterns looked for", columns, rows, kind="stack rules"),
        heatmap,
        id="patterns",
        hint=view.patterns_sentence,
    )


def _evidence(evidence: Mapping[str, Any]) -> str:
    return listed(
        phrase(f"{words(key).lower()} ", shown_piece(value)) for key, value in evidence.items()
    )


def _history(history: HistoryView, gates: GateView | None, url: str) -> Section:
    """The results of this exam over time, against the stored distribution."""
    limit = None if gates is None else gates.limit
    rows = [
        [
            link(short_digest(point.digest), address("exams", point.digest)),
            shown_piece(point.score),
            shown_piece(point.n),
            point.rubric,
            moment(point.at),
        ]
        for point in reversed(history.points)
    ]
    columns = ("Result", Column("Score", "n"), Column("Items", "n"), "Rubric", "Stored")
    text = phrase("The stored distribution is that of the baseline ", strong(history.name), ".")
    return section(
        "History",
        figure(exam_history_chart(history.points, history.distribution, limit=limit), url),
        *([Paragraph(text)] if history.name else []),
        Details("Every result of this exam", [Table("Results of this exam", columns, rows)]),
        id="history",
        hint=history.hint,
    )


def _origin(view: ExamView, more: str) -> Section:
    """What the result was made of."""
    result = view.result
    pairs = stated(
        ("Exam files", ", ".join(view.files) or absent()),
        ("Policy", shown_piece(result.policy)),
        ("Scoring system", result.scoring_system),
        ("Grading system", result.grading_system),
        *((f"Digest of the {key}", short_digest(getattr(result.digests, key))) for key in DIGESTS),
        ("Recalibrated from", result.recalibrated_from or ""),
    )
    return section(
        "Provenance",
        Facts(pairs, "small"),
        Sentences(view.faults, "Faults in the answers"),
        *([Paragraph(more)] if more else []),
        id="origin",
    )


DIGESTS = ("exam", "rubric", "policy")


MARKS_WIDTH = 20
MARKS = "█▓▒░▚▞▙▟▛▜▌▐"
"""One character for each axis, in the rubric's order."""
MAX_ITEMS = 120
"""Items that are drawn; of a longer exam only those that lost something, the lowest first."""
MAX_TEXT_ROWS = 20
MAX_FLIPS = 20


def bar(parts: AxisNumbers) -> str:
    """The stacked bar of one item: as long as its score, each axis with its own character.

    The lengths are cut from the running total, so that rounding never adds up to more than the bar.
    """
    total = 0
    made = ""
    for mark, part in zip(MARKS, parts.values(), strict=False):
        total += exact.scaled(part, exact.NORM_DIGITS)
        made += mark * (exact.quantise(total * MARKS_WIDTH, exact.NORM_ONE, 0) - len(made))
    return made + "·" * (MARKS_WIDTH - len(made))


def raw_bar(marks: AxisNumbers) -> str:
    """The same with one length for every axis."""
    each = MARKS_WIDTH // len(marks)
    kept = zip(MARKS, marks.values(), strict=False)
    return f"{''.join(mark * each for mark, value in kept if value == 1):·<{MARKS_WIDTH}}"


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


def exam_markdown(result: ExamResult, *, rows: int = MAX_TEXT_ROWS) -> str:
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
        "".join(f"- {markdown_code(sentence)}\n" for sentence in result.diagnosis),
        "".join(
            f"- pattern {markdown_code(pattern.kind)}: {markdown_code(pattern.meaning)}\n"
            for pattern in seen
        )
        or f"{view.patterns_sentence}\n",
        "| item | score | lost | got |\n|---|---:|---|---|\n"
        + "".join(shown)
        + (f"\n… and {more:,} more that lost something.\n" if more > 0 else "")
        if view.lost
        else "",
    ]
    return "\n".join([*filter(None, parts), f"{markdown_code(view.systems)}\n"])


def exam_xml(result: ExamResult) -> bytes:
    """A graded exam (`assay.exam/1`): one case for each item; one that lost an axis is a failure
    that names it.
    """
    cases = [_item_case(item, result) for item in result.items]
    cases += fault_cases(result.faults, {"faults": 0})
    return document_xml(
        "assay.exam", cases, {"score": result.score, "n": result.n, **_exam_versions(result)}
    )


def _exam_versions(record: ExamResult | ExamGate) -> dict[str, object]:
    return {
        "policy": record.policy,
        "rubric": record.rubric,
        "scoringSystem": record.scoring_system,
        "gradingSystem": record.grading_system,
    }


def _item_case(item: ItemResult, result: ExamResult) -> Case:
    if item.item in result.missing:
        reason = clipped(no_answer(result, item.item))
        return Case(item.item, "assay.exam", "failure", "no_answer", reason)
    if not item.lost:
        return Case(item.item, "assay.exam")
    lines = [
        f"score {float(item.score):g}",
        f"expected {', '.join(item.expected)}",
        f"got {'nothing' if item.got is None else clipped(item.got)}",
    ]
    lost = f"lost {', '.join(item.lost)}"
    return Case(item.item, "assay.exam", "failure", "lost_axes", lost, lines)


def gate_xml(gate: ExamGate) -> bytes:
    """The gate on graded exams (`assay.exam-gate/1`): what blocks can fail; a signal that does not
    block stays green and reports what it found.
    """
    cases = []
    for row in gate_rows(gate):
        blocks = row.effect == "blocks"
        closed = blocks and row.state != "holds"
        text = row.text if blocks else f"{row.state}, does not block: {row.text}"
        cases.append(
            Case(
                row.id,
                "assay.exam-gate",
                "failure" if closed else "",
                "gate_closed" if closed else "",
                row.text if blocks else "",
                [text, *(gate.reasons if closed else ())],
            )
        )
    if gate.verify_rubric is not None:
        failed = not gate.verify_rubric.holds
        text = f"a rise of {gate.verify_rubric.rise} is more than {gate.verify_rubric.limit}"
        cases.append(
            Case(
                "verify_rubric",
                "assay.exam-gate",
                "failure" if failed else "",
                "rubric_fails" if failed else "",
                text,
                [text],
            )
        )
    if not gate.passed and not any(case.kind for case in cases):
        cases.append(
            Case(
                "outcome",
                "assay.exam-gate",
                "failure",
                "not_passed",
                "; ".join(gate.reasons) or "the gate did not pass",
            )
        )
    return document_xml("assay.exam-gate", cases, _exam_versions(gate))
