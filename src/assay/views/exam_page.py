"""A graded exam -> one page that stands alone: the score first, where the points were lost, the
patterns, and every item that lost something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.views.charts import Chart, exams
from assay.views.charts.chart import listed, mapped, number
from assay.views.figures import Pictures
from assay.views.markup import Html, facts, fields, join, page, say, table, tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SYSTEMS = {
    "rubric": "Rubric",
    "policy": "Policy",
    "scoringSystem": "Scoring system",
    "gradingSystem": "Grading system",
}
MOST = 200
"""Items of the table at the most; the result itself has the others."""


def exam_charts(document: Mapping[str, Any]) -> list[Chart]:
    """Every chart of the page."""
    return [
        exams.axes(document),
        exams.axes(document, weighted=False),
        exams.heatmap(document),
        exams.patterns(document),
    ]


def exam_page(document: Mapping[str, Any], *, draw: bool = True) -> str:
    """The graded exam as a page; with `gate` in it, what the gate says stands first."""
    pictures = Pictures(draw=draw)
    weighted, raw, heatmap, patterns = [pictures.figure(chart) for chart in exam_charts(document)]
    names = [say(one.get("exam")) for one in listed(document.get("exams")) if isinstance(one, dict)]
    title = (
        join(["Exam: ", join([part for name in names for part in (name, ", ")][:-1])])
        if names
        else Html("Exam")
    )
    body = [
        tag(
            "header",
            tag("h1", title),
            _verdict(document),
            facts([*_numbers(document), *fields(document, SYSTEMS)]),
        ),
        tag(
            "section",
            tag("h2", "Where the points were lost"),
            _diagnosis(document),
            weighted,
            tag("details", tag("summary", "Raw, each axis alike"), raw),
            id="axes",
        ),
        tag("section", tag("h2", "Across the items"), heatmap, patterns, id="patterns"),
        tag("section", tag("h2", "Items that lost something"), *_items(document), id="items"),
        tag("section", tag("h2", "What this result is about"), *_about(document), id="about"),
    ]
    return page("Assay exam", join(body), styles=pictures.styles)


def _verdict(document: Mapping[str, Any]) -> Html:
    gate, score = mapped(document.get("gate")), say(document.get("score"), "no score")
    said = join(["Score ", score, " over ", say(document.get("n")), " items."])
    if not gate:
        return tag(
            "p",
            said,
            " Grading is no gate: ",
            tag("code", "assay exam gate"),
            " decides.",
            class_="verdict",
        )
    opens = gate.get("passed") is True
    reasons = [
        part for reason in listed(gate.get("reasons")) for part in (" Why: ", say(reason), ".")
    ]
    return tag(
        "p",
        tag(
            "strong",
            "Passes the gate." if opens else "Does not pass the gate.",
            class_="good" if opens else "bad",
        ),
        " ",
        said,
        *reasons,
        class_="verdict",
    )


def _numbers(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    latency = mapped(document.get("latency"))
    missing = listed(document.get("missing"))
    return [
        (
            "Items without an answer",
            join([f"{len(missing):,}: ", say(missing[:10])]) if missing else say(None, "none"),
        ),
        (
            "Median latency, ms",
            join([say(latency.get("p50_ms"), "not measured"), f", n {say(latency.get('n'))}"]),
        ),
    ]


def _diagnosis(document: Mapping[str, Any]) -> Html:
    lines = listed(document.get("diagnosis"))
    return (
        tag("ul", *(tag("li", say(line)) for line in lines), class_="sentences")
        if lines
        else tag("p", say(None, "No diagnosis is stated."))
    )


def _items(document: Mapping[str, Any]) -> Iterator[Html]:
    items = [item for item in listed(document.get("items")) if isinstance(item, dict)]
    lost = sorted(
        (item for item in items if number(item.get("score")) != 1),
        key=lambda item: number(item.get("score")) or 0.0,
    )
    if not lost:
        yield tag("p", "No item lost anything." if items else "The result names no item.")
        return
    columns = {
        "item": "Item",
        "score": "Score",
        "axes": "Lost",
        "prompt": "Prompt",
        "expected": "Expected",
        "got": "Got",
    }
    rows = [
        [
            say(item.get("item")),
            say(item.get("score"), "no score"),
            say(
                [
                    axis
                    for axis, mark in mapped(item.get("breakdown")).items()
                    if (number(mark) or 0.0) < 1
                ],
                "not stated",
            ),
            say(item.get("prompt")),
            say(item.get("expected")),
            say(item.get("got"), "no answer"),
        ]
        for item in lost[:MOST]
    ]
    yield table("The lowest score comes first.", columns, rows, kind="stack items")
    rest = len(items) - len(lost[:MOST])
    if rest:
        yield tag(
            "p",
            f"{rest:,} more items are in the result, which -o result.json writes:"
            f" {len(items) - len(lost):,} of them have every mark.",
            class_="hint",
        )


def _about(document: Mapping[str, Any]) -> list[Html]:
    exam_files = [
        (
            join([say(one.get("exam"))]),
            join(["version ", say(one.get("version")), ", ", say(one.get("items")), " items"]),
        )
        for one in listed(document.get("exams"))
        if isinstance(one, dict)
    ]
    digests = [
        (f"Digest of the {name}", tag("code", say(value)))
        for name, value in mapped(document.get("digests")).items()
        if isinstance(value, str)
    ]
    return [facts(exam_files), facts(digests, kind="facts small")]
