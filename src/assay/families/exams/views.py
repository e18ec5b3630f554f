"""What people see of exams: a result, its items and axes, and gates, as page and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from msgspec import UNSET

from assay import exact
from assay.canon import number_text
from assay.errors import count, few, printable
from assay.families.exams import charts as exam_history
from assay.families.exams import charts as exams
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
from assay.views.charts import Chart
from assay.views.markdown_code import cell_code
from assay.views.markdown_code import code as markdown_code
from assay.views.pieces import (
    absent,
    address,
    clip,
    code,
    line,
    link,
    listed,
    moment,
    number,
    phrase,
    short_digest,
    shown,
    small,
    strong,
    verdict,
    words,
)
from assay.views.pieces import bar as share_bar
from assay.views.render import report


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


MAX_ROWS = 200
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
    for item, each, mark in chosen[:MAX_ROWS]:
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
    more = f"The first {MAX_ROWS} of {count(len(chosen), 'lost mark')}."
    parts = parts_of(
        _chips(view, axes, here, axis) if here and len(view.weights) > 1 and marks else None,
        Table("Lost marks", _LOST, rows, absent="No mark was lost.", kind="stack lost"),
        Paragraph(more, "hint") if len(chosen) > MAX_ROWS else None,
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
    for row in view.items[:MAX_ROWS]:
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
    more = f"The {MAX_ROWS} lowest of {n:,}; the record has them all." if n > MAX_ROWS else ""
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
        exams.axes(result),
        exams.axes(result, weighted=False),
        exams.heatmap(result),
        exams.patterns(result),
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
        _pattern_facts(view, figure(exams.heatmap(view.result), url)),
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
    latency = number(
        result.latency.p50_ms,
        n=result.latency.n,
        digits=0,
        unit="ms",
        absent_as="not measured",
    )
    return Facts(
        [
            ("Score, 0 to 1", number(result.score, n=result.n, digits=4)),
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
            number(axis_result.mean, n=result.n, digits=3),
            f"{axis_result.zero_items:,}",
            number(axis_result.lost, digits=4),
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
    weighted, raw = (figure(exams.axes(result, weighted=each), url) for each in (True, False))
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
        Table(view.patterns_title, columns, rows, kind="stack rules"),
        heatmap,
        id="patterns",
        hint=view.patterns_sentence,
    )


def _evidence(evidence: Mapping[str, Any]) -> str:
    return listed(phrase(f"{words(key).lower()} ", shown(value)) for key, value in evidence.items())


def _history(history: HistoryView, gates: GateView | None, url: str) -> Section:
    """The results of this exam over time, against the stored distribution."""
    limit = None if gates is None else gates.limit
    rows = [
        [
            link(short_digest(point.digest), address("exams", point.digest)),
            shown(point.score),
            shown(point.n),
            point.rubric,
            moment(point.at),
        ]
        for point in reversed(history.points)
    ]
    columns = ("Result", Column("Score", "n"), Column("Items", "n"), "Rubric", "Stored")
    text = phrase("The stored distribution is that of the baseline ", strong(history.name), ".")
    return section(
        "History",
        figure(exam_history.history(history.points, history.distribution, limit=limit), url),
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
        ("Policy", shown(result.policy)),
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


WIDTH = 20
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
