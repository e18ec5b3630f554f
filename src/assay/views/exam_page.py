"""A graded exam -> one page that stands alone: the score first, where the points were lost, the
patterns, and every item that lost something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.views.charts import Chart, exams
from assay.views.exam import exam_view
from assay.views.figures import Pictures
from assay.views.markup import Html, facts, join, page, table, tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.records.exam import ExamGate, ExamResult
    from assay.views.exam import ExamView

MOST = 200
"""Items of the table at the most; the result itself has the others."""


def exam_charts(result: ExamResult) -> list[Chart]:
    """Every chart of the page."""
    return [
        exams.axes(result),
        exams.axes(result, weighted=False),
        exams.heatmap(result),
        exams.patterns(result),
    ]


def exam_page(result: ExamResult, gate: ExamGate | None = None, *, draw: bool = True) -> str:
    """The graded exam as a page; with the verdict of its gate first, where there is one."""
    view = exam_view(result)
    pictures = Pictures(draw=draw)
    weighted, raw, heatmap, patterns = [pictures.figure(chart) for chart in exam_charts(result)]
    missing = result.missing
    numbers = [
        (
            "Items without an answer",
            f"{len(missing):,}: {', '.join(missing[:10])}" if missing else "none",
        ),
        ("Latency", view.latency or "not measured"),
        ("Rubric", result.rubric),
        ("Policy", result.policy),
        ("Scoring system", result.scoring_system),
        ("Grading system", result.grading_system),
    ]
    diagnosis = [tag("li", sentence) for sentence in result.diagnosis]
    digests = [
        (f"Digest of the {name}", tag("code", getattr(result.digests, name)))
        for name in ("exam", "rubric", "policy")
    ]
    body = [
        tag(
            "header",
            tag("h1", f"Exam: {view.title}"),
            _verdict(view, gate),
            facts(numbers),
        ),
        tag(
            "section",
            tag("h2", "Where the points were lost"),
            tag("ul", *diagnosis, class_="sentences"),
            weighted,
            tag("details", tag("summary", "Raw, each axis alike"), raw),
            id="axes",
        ),
        tag("section", tag("h2", "Across the items"), heatmap, patterns, id="patterns"),
        tag("section", tag("h2", "Items that lost something"), *_items(view), id="items"),
        tag(
            "section",
            tag("h2", "What this result is about"),
            tag("ul", *(tag("li", file) for file in view.files)),
            facts(digests, kind="facts small"),
            id="about",
        ),
    ]
    return page("Assay exam", join(body), styles=pictures.styles)


def _verdict(view: ExamView, gate: ExamGate | None) -> Html:
    if gate is None:
        decides = (" Grading is not a gate: ", tag("code", "assay exam gate"), " decides.")
        return tag("p", f"{view.headline.capitalize()}.", *decides, class_="verdict")
    word = tag(
        "strong",
        "Passes the gate." if gate.passed else "Does not pass the gate.",
        class_="good" if gate.passed else "bad",
    )
    reasons = "".join(f" Why: {reason}." for reason in gate.reasons)
    return tag("p", word, f" {view.headline.capitalize()}.{reasons}", class_="verdict")


def _items(view: ExamView) -> Iterator[Html]:
    if not view.lost:
        yield tag("p", "No item lost anything.")
        return
    columns = {
        name.lower(): name for name in ("Item", "Score", "Lost", "Prompt", "Expected", "Got")
    }
    rows = [
        [
            row.result.item,
            row.score,
            ", ".join(row.lost),
            row.result.prompt,
            ", ".join(row.result.expected),
            row.got,
        ]
        for row in view.lost[:MOST]
    ]
    yield table("The lowest score comes first.", columns, rows, kind="stack items")
    more = len(view.lost) - MOST
    yield tag(
        "p",
        f"{f'{more:,} more lost something; ' if more > 0 else ''}{view.rest}; the result, which -o"
        " result.json writes, has them all.",
        class_="hint",
    )
