"""A graded exam as blocks, for a page and for a self-contained report: the score and its gates
first, where the points were lost, the patterns, and every item with its answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from assay.errors import count
from assay.records.exam import ExamResult, LostMark, ScoreCount
from assay.views.blocks import (
    Column,
    Decided,
    Details,
    Facts,
    Figure,
    Note,
    Paragraph,
    Part,
    Section,
    Sentences,
    Table,
    contents,
    figure,
    section,
    stated,
)
from assay.views.charts import Chart, exam_history, exams
from assay.views.exam import CheckRow, ExamPoint, ExamView, GateView, exam_view
from assay.views.exam_items import items_section, lost_section
from assay.views.pieces import (
    absent,
    address,
    code,
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
from assay.views.render import report

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
        _patterns(view, figure(exams.heatmap(view.result), url)),
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


def _patterns(view: ExamView, heatmap: Figure) -> Section:
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
