"""What a graded exam says, part by part: its score and gates first, then where the points went,
what that looks like, and every item with its answer.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import AssayError
from assay.exams.document import check_result
from assay.exams.exam import CAPSTONE
from assay.exams.gate import decide, drop_check, soft_schema, soft_score
from assay.exams.marking import Marking
from assay.exams.policy import ExamPolicy, ExamRules
from assay.exams.rubric import ExamRubric
from assay.files.json_files import parse_json
from assay.records.exam import AXES
from assay.server.pages.evidence import text as as_text
from assay.server.pages.layout import (
    Column,
    address,
    chart,
    facts,
    link,
    note,
    number,
    section,
    short,
    table,
    verdict,
)
from assay.server.pages.paging import words
from assay.views.charts import exams as charts
from assay.views.exam import CheckRow, check_row
from assay.views.markup import Html, join, say, tag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.exams.document import CheckedExam
    from assay.records.exam import ExamResult
    from assay.server.pages.exam_history import History, StoredExam
    from assay.server.state import Services
    from assay.views.exam import ExamView

MAX_ROWS = 200
MAX_TEXT = 2000
MAX_PARTS = 20
RAW = "raw"
"""In the address: bars with the same length for each axis."""
DIGESTS = ("exam", "rubric", "policy")
PARTS = ("correction", "gloss", "explanation")


class Gates(NamedTuple):
    """Whether an exam keeps its limits. `why_not` says why that cannot be told."""

    rows: list[CheckRow]
    holds: bool | None
    limit: Any = None
    why_not: str = ""


def on_shelf(services: Services, kind: str, name: Any, digest: Any, record: type) -> Any:
    """A policy or rubric that a result names, if the shelf has that very one; else a sentence. Only
    names on the shelf are looked up: no file is opened.
    """
    known = {entry.id for entry in services.shelf.entries(kind)}
    loaded = services.shelf.load(kind, name) if name in known else None
    if not isinstance(loaded, record):
        return f"{name} is not on the shelf of this server"
    made = ExamRules(loaded) if isinstance(loaded, ExamPolicy) else Marking(loaded)  # type: ignore[arg-type]
    return (
        made
        if made.digest == digest
        else f"{name} on the shelf is not the one that the result was made with"
    )


def checked(services: Services, result: ExamResult, where: str) -> CheckedExam | str:
    """A result whose every number was made again from its marks; a sentence where that cannot be
    done.
    """
    marking = on_shelf(services, "rubrics", result.rubric, result.digests.rubric, ExamRubric)
    if isinstance(marking, str):
        return marking
    try:
        return check_result(result, marking, where=where)
    except AssayError as error:
        return error.message


def gates(services: Services, result: ExamResult, where: str, stored: StoredExam | None) -> Gates:
    """The gates that a result can be held to by itself, and for a regression set the drop against
    the stored baseline.
    """
    rules = on_shelf(services, "policies", result.policy, result.digests.policy, ExamPolicy)
    exam = checked(services, result, where)
    if isinstance(rules, str) or isinstance(exam, str):
        return Gates([], None, why_not=exam if isinstance(exam, str) else str(rules))
    if result.set == CAPSTONE:
        verdict = decide(exam, rules)
        rows = [check_row(one) for one in (verdict.capstone, verdict.target, verdict.soft[0])]
        return Gates(rows, verdict.capstone.holds, rules.policy.hard_gate)
    drop = _drop(services, exam, rules, stored)
    soft = (soft_schema(exam.zero("schema"), rules), soft_score(exam.score, rules))
    holds = {"holds": True, "fails": False}.get(drop.state)
    return Gates([drop, *map(check_row, soft)], holds)


def _drop(
    services: Services, exam: CheckedExam, rules: ExamRules, stored: StoredExam | None
) -> CheckRow:
    before = (
        checked(services, stored.result, stored.digest)
        if stored is not None
        else "no baseline of this exam is stored: assay baseline set NAME result.json --store"
    )
    if not isinstance(before, str):
        try:
            return check_row(drop_check(exam, before, rules))
        except AssayError as error:
            before = error.message
    return CheckRow("Drop against the baseline", "undetermined", "blocks", before)


# --- parts


def head(view: ExamView, found: Gates) -> Html:
    """The score with its n, and whether the gate opens."""
    result = view.result
    what = "hard gate" if result.set == CAPSTONE else "regression gate"
    outcome = {
        True: verdict("holds", f"The {what} holds"),
        False: verdict("fails", f"The {what} does not hold"),
        None: verdict("undetermined", f"The {what} cannot be judged"),
    }
    reason = found.why_not or f"{found.rows[0].name}: {found.rows[0].text}."
    figures = [
        ("Score, 0 to 1", number(result.score, n=result.n, digits=4)),
        ("Items without an answer", f"{len(result.missing):,}" if result.missing else "none"),
        (
            "Median latency",
            number(
                result.latency.p50_ms,
                n=result.latency.n,
                digits=0,
                unit="ms",
                absent="not measured",
            ),
        ),
        ("Rubric", result.rubric),
        ("Set", result.set),
    ]
    under = tag("small", f"under {result.policy or 'no policy'}")
    return join(
        [
            tag(
                "div",
                tag("p", outcome[found.holds], " ", under, class_="outcome"),
                tag("p", reason, class_="verdict"),
                class_="decided",
            ),
            facts(figures, kind="figures"),
        ]
    )


_STATES = {
    "holds": verdict("holds"),
    "fails": verdict("fails", "does not hold"),
    "warns": verdict("stale", "warns"),
    "undetermined": verdict("undetermined", "cannot be judged"),
}


def gate_table(found: Gates) -> Html:
    """Every gate with its verdict; which block and which only warn."""
    if found.why_not:
        reason = note(f"No gate can be judged: {found.why_not}.", kind="bad")
        return section("Gates", reason, id="gates")
    rows = [[row.name, _STATES[row.state], row.effect, row.text] for row in found.rows]
    columns = ("Gate", "Verdict", "Effect", Column("Found", "wide"))
    return section(
        "Gates",
        table("Gates of the exam", columns, rows, kind="stack"),
        id="gates",
        hint="Made again from the marks of every item, and compared exactly.",
    )


def axes(result: ExamResult, url: str, here: str, *, raw: bool) -> Html:
    """The four axes of each item as a stacked bar; a link takes the other lengths."""
    made = charts.axes(result, weighted=not raw)
    lengths, other = (
        (
            "Raw: every axis has the same length.",
            link("Show them weighted, as long as the score", here),
        )
        if raw
        else (
            "Weighted: a full bar is the whole score of its item.",
            link("Show them raw, each axis with the same length", f"{here}?bars={RAW}"),
        )
    )
    rows = [
        [
            tag("b", words(axis)),
            number(one.mean, n=result.n, digits=3),
            f"{one.zero_items:,}",
            number(one.lost, digits=4),
        ]
        for axis, one in (result.axes.items() if result.axes is not None else ())
    ]
    columns = (
        "Axis",
        Column("Items with the mark", "n"),
        Column("Items without it", "n"),
        Column("Score lost", "n"),
    )
    return section(
        "Where the points went",
        tag("p", lengths, " ", other),
        chart(made, f"{url}/{made.name}"),
        table("Axes", columns, rows, absent="No axis is stated.", kind="stack"),
        id="axes",
    )


def shape(view: ExamView, url: str) -> Html:
    """Item by axis, the four patterns, and the diagnosis in sentences."""
    heat = charts.heatmap(view.result)
    diagnosis = tag("ul", *(tag("li", sentence) for sentence in view.result.diagnosis))
    seen = tag("span", tag("span", "▲", aria_hidden="true", class_="sign"), " seen", class_="open")
    rows = [
        [
            tag("b", tag("code", row.kind)),
            seen if row.seen else verdict("none", "not seen"),
            tag("span", row.meaning, tag("small", " ", say(row.evidence)), class_="line")
            if row.seen
            else tag("span", row.meaning, class_="absent"),
        ]
        for row in view.patterns
    ]
    columns = ("Pattern", "Seen", Column("What it means", "wide"))
    return join(
        [
            section("Diagnosis", diagnosis, id="diagnosis"),
            section(
                "Patterns",
                table("The four patterns", columns, rows, kind="stack rules"),
                chart(heat, f"{url}/{heat.name}"),
                id="patterns",
                hint=view.patterns_sentence,
            ),
        ]
    )


def history(found: History, limit: Any, url: str) -> Html:
    """The results of this very exam over time, against the stored distribution."""
    made = charts.history(found.points, found.distribution, limit=limit)
    rows = [
        [
            link(short(point.digest), address("exams", point.digest)),
            say(point.score),
            say(point.n),
            point.rubric,
            point.at,
        ]
        for point in reversed(found.points)
    ]
    columns = ("Result", Column("Score", "n"), Column("Items", "n"), "Rubric", "Stored")
    others = tag(
        "details",
        tag("summary", "Every result of this exam"),
        table("Results of this exam", columns, rows),
    )
    text = ("The stored distribution is that of the baseline ", tag("b", found.name), ".")
    stored = [tag("p", *text)] if found.name else []
    return section(
        "History", chart(made, f"{url}/{made.name}"), *stored, others, id="history", hint=found.hint
    )


def items(view: ExamView, answers: Mapping[str, Any], whole: str) -> Html:
    """Every item with its marks and the parts of its answer, the lowest score first. All of it is
    text.
    """
    rows = []
    for row in view.items[:MAX_ROWS]:
        item = row.result
        marks = [
            verdict("fails", "0") if axis in row.lost else verdict("holds", "1") for axis in AXES
        ]
        response = (
            row.got
            if item.item in view.result.missing_reasons
            else _answer(answers.get(item.item), item.got)
        )
        rows.append(
            [
                tag("b", item.item),
                row.score,
                *marks,
                _cut(item.prompt),
                _cut(", ".join(item.expected)),
                response,
            ]
        )
    columns = (
        Column("Item"),
        Column("Score", "n"),
        *(Column(words(axis)) for axis in AXES),
        Column("Prompt", "wide"),
        Column("Expected"),
        Column("Answer", "wide"),
    )
    n = len(view.items)
    more = f"The {MAX_ROWS} lowest of {n:,}; the record has them all." if n > MAX_ROWS else ""
    return section(
        "Items",
        table("Items, the lowest score first", columns, rows, kind="stack"),
        tag("p", link("The whole record", whole)),
        id="items",
        hint=more,
    )


def _answer(response: Any, got: str | None) -> str:
    if isinstance(response, str):
        with suppress(ValueError, RecursionError):
            response = parse_json(response.encode())
    if isinstance(response, dict):
        rest = [name for name in response if name not in PARTS][:MAX_PARTS]
        return join(
            tag("span", tag("small", f"{name} "), _part(response.get(name)), class_="line")
            for name in (*PARTS, *rest)
        )
    if response is not None:
        return join([tag("small", "one text, no parts "), _cut(response)])
    return _cut(got) if got is not None else tag("span", "no answer is stored", class_="absent")


def _part(value: Any) -> str:
    if value in (None, ""):
        return tag("span", "empty" if value == "" else "not there", class_="absent")
    return _cut(value)


def _cut(value: Any) -> str:
    """A value as text, cut where it is long."""
    found = as_text(value)
    more = f"… ({len(found):,} characters)" if len(found) > MAX_TEXT else ""
    return (
        tag("span", found[:MAX_TEXT] + more, class_="cut", tabindex="0")
        if len(found) > 200
        else found
    )


def origin(view: ExamView) -> Html:
    """What the result was made of."""
    result = view.result
    pairs = [
        ("Exam files", ", ".join(view.files) or "not stated"),
        ("Scoring system", result.scoring_system),
        ("Grading system", result.grading_system),
        *((words(key), short(getattr(result.digests, key))) for key in DIGESTS),
    ]
    if result.recalibrated_from:
        pairs.append(("Recalibrated from", result.recalibrated_from))
    faults = (
        [
            tag("h3", "Faults of the answers"),
            tag("ul", *(tag("li", fault) for fault in view.faults[:MAX_ROWS])),
        ]
        if view.faults
        else []
    )
    return section("What it rests on", facts(pairs, kind="small"), *faults, id="origin")
