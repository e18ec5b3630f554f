"""What a graded exam says, part by part: its score and gates first, then where the points went,
what that looks like, and every item with its answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay import exact
from assay.errors import AssayError
from assay.exams.document import check_result, read_result
from assay.exams.gate import (
    comparable,
    drop_holds,
    opens,
    reaches,
    soft_latency,
    soft_schema,
    soft_score,
)
from assay.exams.marking import Marking
from assay.exams.policy import ExamPolicy, ExamRules, text
from assay.exams.rubric import AXES, ExamRubric
from assay.files.json_files import Document, parse_json
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
from assay.server.pages.paging import mapped, rows_of, texts, words
from assay.views.charts import exams as charts
from assay.views.markup import Html, join, say, tag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.exams.document import Outcome
    from assay.exams.gate import Soft
    from assay.server.pages.exam_history import History
    from assay.server.state import Services

Exam = dict[str, Any]
MAX_ROWS = 200
MAX_TEXT = 2000
MAX_PARTS = 20
RAW = "raw"
"""In the address: bars with the same length for each axis."""
PARTS = ("correction", "gloss", "explanation")


class Gates(NamedTuple):
    """Whether an exam keeps its limits. `why_not` says why that cannot be told."""

    rows: list[list[str]]
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


def ordered(exam: Exam) -> Exam:
    """A result with its axes in the order of the rubric: a ledger keeps keys in the order of their
    letters.
    """

    def sort(found: Any) -> Any:
        known = mapped(found)
        return {axis: known[axis] for axis in (*AXES, *known) if axis in known} if known else found

    items = [
        {**one, "breakdown": sort(one.get("breakdown")), "weighted": sort(one.get("weighted"))}
        for one in rows_of(exam.get("items"))
    ]
    return {**exam, "items": items, "axes": sort(exam.get("axes"))}


def checked(services: Services, exam: Exam, where: str) -> Outcome | str:
    """A result whose every number was made again from its marks; a sentence where that cannot be
    done.
    """
    marking = on_shelf(
        services,
        "rubrics",
        exam.get("rubric"),
        mapped(exam.get("digests")).get("rubric"),
        ExamRubric,
    )
    if isinstance(marking, str):
        return marking
    try:
        return check_result(read_result(Document(exam, where)), marking, where=where)
    except AssayError as error:
        return error.message


def gates(services: Services, exam: Exam, where: str, baseline: tuple[Exam, str] | None) -> Gates:
    """The gates that a result can be held to by itself, and for a regression set the drop against
    the stored baseline.
    """
    rules = on_shelf(
        services,
        "policies",
        exam.get("policy"),
        mapped(exam.get("digests")).get("policy"),
        ExamPolicy,
    )
    outcome = checked(services, exam, where)
    if isinstance(rules, str) or isinstance(outcome, str):
        return Gates(
            [], None, why_not=next(one for one in (outcome, rules) if isinstance(one, str))
        )
    said = f"score {text(outcome.score)}, at least "
    if outcome.document.set == "capstone":
        hard = opens(outcome.score, rules)
        rows = [
            [
                "Hard gate on the capstone exam",
                _held(hard),
                "blocks",
                f"{said}{text(rules.hard_gate)}",
            ],
            [
                "Production target",
                _held(reaches(outcome.score, rules)),
                "only tells",
                f"{said}{text(rules.production_target)}",
            ],
            _soft(soft_latency(outcome.p50_ms, rules)),
        ]
        return Gates(rows, hard, rules.policy.hard_gate)
    drop, held = _drop(services, outcome, rules, baseline)
    return Gates(
        [
            drop,
            _soft(soft_schema(outcome.zero("schema"), rules)),
            _soft(soft_score(outcome.score, rules)),
        ],
        held,
    )


def _held(holds: bool) -> Html:
    return verdict("holds") if holds else verdict("fails", "does not hold")


def _soft(soft: Soft) -> list[str]:
    said = (
        verdict("undetermined", "not measured")
        if soft.warn is None
        else verdict("stale", "warns")
        if soft.warn
        else verdict("holds")
    )
    value = join(
        [
            "value ",
            say(soft.value, "none"),
            ", limit ",
            say(soft.limit),
            *([": ", soft.reason] if soft.reason else []),
        ]
    )
    return [join(["Soft gate ", tag("code", soft.id)]), said, "only warns", value]


def _drop(
    services: Services, outcome: Outcome, rules: ExamRules, baseline: tuple[Exam, str] | None
) -> tuple[list[str], bool | None]:
    name = "Drop against the stored distribution"
    stored = (
        checked(services, *baseline)
        if baseline is not None
        else "no baseline of this exam is stored: assay baseline set NAME result.json --store"
    )
    if not isinstance(stored, str):
        try:
            comparable(outcome, stored)
        except AssayError as error:
            stored = error.message
    if isinstance(stored, str):
        return [name, verdict("undetermined", "cannot be told"), "blocks", stored], None
    held = drop_holds(stored.score, outcome.score, rules.max_drop)
    fell = stored.score - outcome.score
    return [
        name,
        _held(held),
        "blocks",
        (
            f"from {text(stored.score)} to {text(outcome.score)}, a drop of {text(fell)}, at most"
            f" {text(rules.max_drop)}"
        ),
    ], held


# --- parts


def head(exam: Exam, found: Gates) -> Html:
    """The score with its n, and whether the gate opens."""
    what = "hard gate" if exam.get("set") != "regression" else "regression gate"
    if found.holds is None:
        said = verdict("undetermined", f"The {what} cannot be judged")
    else:
        said = (
            verdict("holds", f"The {what} holds")
            if found.holds
            else verdict("fails", f"The {what} does not hold")
        )
    reason = found.why_not or _gate_reason(found)
    n = exam.get("n")
    missing = texts(exam.get("missing"))
    latency = mapped(exam.get("latency"))
    figures = [
        (
            "Score, 0 to 1",
            number(
                exam.get("score"), n=n if isinstance(n, int) else None, digits=4, absent="no score"
            ),
        ),
        ("Items without an answer", f"{len(missing):,}" if missing else "none"),
        (
            "Median latency",
            number(
                latency.get("p50_ms"),
                n=latency.get("n") if isinstance(latency.get("n"), int) else None,
                digits=0,
                unit="ms",
                absent="not measured",
            ),
        ),
        ("Rubric", say(exam.get("rubric"))),
        ("Set", say(exam.get("set"))),
    ]
    under = tag("small", "under ", say(exam.get("policy"), "no policy"))
    return join(
        [
            tag(
                "div",
                tag("p", said, " ", under, class_="outcome"),
                tag("p", reason, class_="verdict"),
                class_="decided",
            ),
            facts(figures, kind="figures"),
        ]
    )


def _gate_reason(found: Gates) -> str:
    row = found.rows[0] if found.rows else None
    return f"{row[0]}: {row[3]}." if row is not None else "No gate is known for it."


def gate_table(found: Gates) -> Html:
    """Every gate with its verdict; which block and which only warn."""
    if found.why_not:
        return section(
            "Gates",
            note(join(["No gate can be judged: ", found.why_not, "."]), kind="bad"),
            id="gates",
        )
    listed = table(
        "Gates of the exam",
        ("Gate", "Verdict", "It", Column("Found", "wide")),
        found.rows,
        kind="stack",
    )
    return section(
        "Gates",
        listed,
        id="gates",
        hint="Made again from the marks of every item, and compared exactly.",
    )


def axes(exam: Exam, url: str, here: str, *, raw: bool) -> Html:
    """The four axes of each item as a stacked bar; a link takes the other lengths."""
    found = charts.axes(exam, weighted=not raw)
    other = (
        link("Show them weighted, as long as the score", here)
        if raw
        else link("Show them raw, each axis with the same length", f"{here}?bars={RAW}")
    )
    said = (
        "Raw: every axis has the same length."
        if raw
        else "Weighted: a full bar is the whole score of its item."
    )
    means = mapped(exam.get("axes"))
    n = exam.get("n")
    rows = [
        [
            tag("b", words(name)),
            number(one.get("mean"), n=n if isinstance(n, int) else None, digits=3),
            say(one.get("zero_items")),
            number(one.get("lost"), digits=4),
        ]
        for name, one in ((name, mapped(one)) for name, one in means.items())
    ]
    columns = (
        "Axis",
        Column("Items with the mark", "n"),
        Column("Items without it", "n"),
        Column("Score lost", "n"),
    )
    numbers = table("Axes", columns, rows, absent="No axis is stated.", kind="stack")
    return section(
        "Where the points went",
        tag("p", said, " ", other),
        chart(found, f"{url}/{found.name}"),
        numbers,
        id="axes",
    )


def shape(exam: Exam, url: str) -> Html:
    """Item by axis, the four patterns, and the diagnosis in sentences."""
    heat = charts.heatmap(exam)
    told = [tag("li", one) for one in texts(exam.get("diagnosis"))]
    diagnosis = (
        tag("ul", *told)
        if told
        else tag("p", "Nothing is lost, so there is nothing to say.", class_="absent")
    )
    return join(
        [
            section("Diagnosis", diagnosis, id="diagnosis"),
            section(
                "Patterns",
                _patterns(exam),
                chart(heat, f"{url}/{heat.name}"),
                id="patterns",
                hint=charts.patterns(exam).sentence,
            ),
        ]
    )


def _patterns(exam: Exam) -> Html:
    """The four patterns by name, each marked as seen or not, with what was seen."""
    found = rows_of(exam.get("patterns"))
    rows = []
    for kind, meaning in charts.PATTERNS.items():
        mine = [one for one in found if one.get("kind") == kind]
        mark = (
            tag("span", tag("span", "▲", aria_hidden="true", class_="sign"), " seen", class_="open")
            if mine
            else verdict("none", "not seen")
        )
        told = (
            join(
                tag(
                    "span",
                    say(one.get("hint")),
                    tag("small", " ", say(one.get("evidence"))),
                    class_="line",
                )
                for one in mine
            )
            if mine
            else tag("span", meaning, class_="absent")
        )
        rows.append([tag("b", tag("code", kind)), mark, told])
    return table(
        "The four patterns",
        ("Pattern", "Seen", Column("What it means", "wide")),
        rows,
        kind="stack rules",
    )


def history(found: History, limit: Any, url: str) -> Html:
    """The results of this very exam over time, against the stored distribution."""
    made = charts.history(found.points, found.distribution, limit=limit)
    rows = [
        [
            link(short(one["digest"]), address("exams", one["digest"])),
            say(one["score"]),
            say(one["n"]),
            say(one["rubric"]),
            say(one["at"]),
        ]
        for one in reversed(found.points)
    ]
    columns = ("Result", Column("Score", "n"), Column("Items", "n"), "Rubric", "Stored")
    others = tag(
        "details",
        tag("summary", "Every result of this exam"),
        table("Results of this exam", columns, rows),
    )
    stored = (
        [
            tag("p", "The stored distribution is that of the baseline ", tag("b", found.name), "."),
        ]
        if found.name
        else []
    )
    return section(
        "History", chart(made, f"{url}/{made.name}"), *stored, others, id="history", hint=found.said
    )


def items(exam: Exam, answers: Mapping[str, Any], whole: str) -> Html:
    """Every item with its marks and the parts of its answer, the lowest score first. All of it is
    text.
    """
    found = sorted(
        rows_of(exam.get("items")),
        key=lambda one: float(one["score"]) if exact.is_number(one.get("score")) else 0.0,
    )
    missing = mapped(exam.get("missing_reasons"))
    rows = []
    for one in found[:MAX_ROWS]:
        name = str(one.get("item"))
        marks = mapped(one.get("breakdown"))
        lost = [
            verdict(
                "holds" if marks.get(axis) == 1 else "fails", "1" if marks.get(axis) == 1 else "0"
            )
            for axis in AXES
        ]
        response = (
            join(["no answer: ", str(missing[name])])
            if name in missing
            else _answer(answers.get(name), one.get("got"))
        )
        rows.append(
            [
                tag("b", name),
                say(one.get("score")),
                *lost,
                _cut(one.get("prompt")),
                _cut(say(one.get("expected"))),
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
    listed = table(
        "Items, the lowest score first",
        columns,
        rows,
        absent="The exam has no items.",
        kind="stack",
    )
    more = (
        f"The {MAX_ROWS} lowest of {len(found):,}; the record has them all."
        if len(found) > MAX_ROWS
        else ""
    )
    return section(
        "Items", listed, tag("p", link("The whole record", whole)), id="items", hint=more
    )


def _answer(response: Any, got: Any) -> str:
    tree = _tree(response)
    if tree is not None:
        rest = [name for name in tree if name not in PARTS][:MAX_PARTS]
        told = [
            (
                name,
                (
                    _cut(tree[name])
                    if tree.get(name) not in (None, "")
                    else tag(
                        "span", "empty" if tree.get(name) == "" else "not there", class_="absent"
                    )
                ),
            )
            for name in (*PARTS, *rest)
        ]
        return join(
            tag("span", tag("small", f"{name} "), value, class_="line") for name, value in told
        )
    if response is not None:
        return join([tag("small", "one text, no parts "), _cut(response)])
    return _cut(got) if got is not None else tag("span", "no answer is stored", class_="absent")


def _tree(response: Any) -> dict[str, Any] | None:
    if isinstance(response, str):
        try:
            response = parse_json(response.encode())
        except (ValueError, RecursionError):
            return None
    return response if isinstance(response, dict) else None


def _cut(value: Any) -> str:
    """A value as text, cut where it is long."""
    if value is None:
        return say(None)
    if isinstance(value, Html):
        return value
    found = as_text(value)
    more = f"… ({len(found):,} signs)" if len(found) > MAX_TEXT else ""
    return (
        tag("span", found[:MAX_TEXT] + more, class_="cut", tabindex="0")
        if len(found) > 200
        else found
    )


def origin(exam: Exam) -> Html:
    """What the result was made of."""
    files = [
        f"{one.get('exam')} version {one.get('version')} ({one.get('items')} items)"
        for one in rows_of(exam.get("exams"))
    ]
    pairs = [
        ("Exam files", say(files)),
        ("Scoring system", say(exam.get("scoringSystem"))),
        ("Grading system", say(exam.get("gradingSystem"))),
    ]
    pairs += [(words(key), short(value)) for key, value in mapped(exam.get("digests")).items()]
    if exam.get("recalibrated_from"):
        pairs.append(("Recalibrated from", say(exam.get("recalibrated_from"))))
    told = [f"{one.get('code')}: {one.get('message')}" for one in rows_of(exam.get("faults"))] + [
        f"answered, but not in the exam: {one}" for one in texts(exam.get("unknown"))
    ]
    faults = (
        [
            tag("h3", "Faults of the answers"),
            tag("ul", *(tag("li", one) for one in told[:MAX_ROWS])),
        ]
        if told
        else []
    )
    return section("What it rests on", facts(pairs, kind="small"), *faults, id="origin")
