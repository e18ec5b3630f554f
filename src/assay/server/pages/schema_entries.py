"""Grading entries and reports of tool schemas, one by one: what was asked, what was answered, and
what that came to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from assay.server.pages.evidence import block
from assay.server.pages.evidence import text as as_text
from assay.server.pages.layout import (
    Column,
    address,
    facts,
    link,
    note,
    number,
    page,
    section,
    short,
    table,
    verdict,
    when,
)
from assay.server.pages.paging import mapped, rows_of, texts, words
from assay.server.pages.schema_nodes import Entry, graded, graded_at
from assay.views.markup import Html, join, say, tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from assay.server.state import Services
    from assay.store.drafts import Item

MAX_ENTRIES = 1000
MAX_ROWS = 200
LOOKED_AT = 200
MAX_TEXT = 2000
COLUMNS = (
    Column("Graded"),
    Column("Of"),
    Column("Grade"),
    Column("Mode"),
    Column("Tier and cap"),
    Column("Bound to"),
    Column("Why", "wide"),
)
ANSWERS = (
    Column("Question"),
    Column("Score", "n"),
    Column("Weight", "n"),
    Column("Kind"),
    Column("Grader"),
    Column("Answered"),
    Column("Reasoning and evidence", "wide"),
)


def entries_of(services: Services, project: str, index: Item) -> list[Entry]:
    """The entries that an index was made from, the newest first."""
    links = services.ledger.links_of(
        index.digest, project=project, relation="evidence_of", limit=MAX_ENTRIES
    )
    found = services.ledger.get_many(
        [one.source for one in links if one.source is not None and one.target == index.digest],
        project=project,
    )
    entries = [
        Entry(item, mapped(item.tree()))
        for item in found.values()
        if item.kind == "entry" and item.body is not None
    ]
    return sorted(
        entries,
        key=lambda one: (str(one.tree.get("gradingId")).partition("--")[2], one.item.seq),
        reverse=True,
    )


def subject(entry: dict[str, Any]) -> str:
    """What an entry grades."""
    persona = mapped(entry.get("persona"))
    more = [str(entry[key]) for key in ("skillId", "selectionId") if entry.get(key)]
    more += [" / ".join(str(part) for part in persona.values())] if persona else []
    return " · ".join([str(entry.get("schemaId")), *more])


def line(entry: Entry, system: Any) -> list[str]:
    """An entry in the history."""
    tree = entry.tree
    what = join([subject(tree), " ", tag("small", say(tree.get("area")))])
    raw = tree.get("rawGrade")
    letter = graded(tree.get("aggregateGrade"), tree.get("gradingSystem") or system)
    if raw not in (None, tree.get("aggregateGrade")):
        letter = join([letter, tag("span", tag("small", f"raw grade {raw}"), class_="line")])
    cap = tag("small", ", at best ", say(tree.get("maxAttainableGrade"), "not stated"))
    return [
        link(graded_at(tree), address("schemas", entry.item.digest)),
        what,
        letter,
        say(tree.get("gradingMode")),
        join([say(tree.get("gradingTier")), cap]),
        short(tree.get("schemaHash")),
        _why(tree),
    ]


def _why(tree: dict[str, Any]) -> Html:
    said: list[str] = []
    trigger, veto = mapped(tree.get("regradingTrigger")), mapped(tree.get("categoricalVeto"))
    if trigger:
        said.append(
            join(
                [
                    say(trigger.get("triggeredBy")),
                    ", supersedes ",
                    tag("code", say(trigger.get("previousGradingId"))),
                ]
            )
        )
        if trigger.get("reportedIssue"):
            said.append(
                join(
                    [
                        "reported by ",
                        say(trigger.get("requestedBy")),
                        ": ",
                        say(trigger.get("reportedIssue")),
                    ]
                )
            )
    if veto:
        said.append(
            join(
                [
                    verdict("veto"),
                    " ",
                    say(veto.get("triggeredBy")),
                    ": ",
                    say(veto.get("evidence")),
                ]
            )
        )
    if tree.get("blocked"):
        said.append(join([verdict("blocked"), " ", say(tree.get("blockedReason"))]))
    said += texts(tree.get("notes"))
    return (
        join(tag("span", one, class_="line") for one in said)
        if said
        else tag("span", "a first grading", class_="absent")
    )


def entry_page(request: Request, services: Services, project: str, item: Item) -> Response:
    """One entry, or one report of the file protocol."""
    tree = mapped(item.tree())
    if "dimensions" in tree:
        return _report_page(request, item, tree)
    body = [
        tag(
            "div",
            tag(
                "p", graded(tree.get("aggregateGrade"), tree.get("gradingSystem")), class_="outcome"
            ),
            tag("p", _why(tree), class_="verdict"),
            class_="decided",
        ),
        facts(
            [
                ("Area", say(tree.get("area"))),
                ("Tier", say(tree.get("gradingTier"))),
                ("At best", say(tree.get("maxAttainableGrade"))),
                ("Raw grade", say(tree.get("rawGrade"), "as the grade, or not stated")),
                ("Mode", say(tree.get("gradingMode"))),
                ("Graded", graded_at(tree)),
            ],
            kind="figures",
        ),
        section(
            "Answers",
            table(
                "Answers",
                ANSWERS,
                [_answer(one) for one in rows_of(tree.get("gradings"))[:MAX_ROWS]],
                absent="There are no answers.",
            ),
            id="answers",
        ),
        _record(
            item,
            tree,
            (
                "gradingId",
                "version",
                "schemaHash",
                "aboutHash",
                "harness",
                "scoringSystem",
                "gradingSystem",
                "form",
            ),
        ),
        _related(services, project, item),
    ]
    return page(request, f"Grading of {subject(tree)}"[:200], *body, nav="/schemas")


def _answer(one: dict[str, Any]) -> list[str]:
    grader = mapped(one.get("graderIdentity"))
    who = " ".join(str(grader[key]) for key in ("kind", "name", "version") if grader.get(key))
    score = join(
        [
            say(one.get("score")),
            *([tag("small", f" {one['naReason']}")] if one.get("naReason") else []),
        ]
    )
    said = [_cut(one["reasoning"])] if one.get("reasoning") else []
    said += (
        [join([tag("small", "evidence "), _cut(one["evidence"])])] if one.get("evidence") else []
    )
    return [
        tag("code", say(one.get("questionId"))),
        score,
        say(one.get("weight")),
        say(one.get("determinism")),
        join(
            [
                who or say(None),
                *([tag("small", f" {one['llmModel']}")] if one.get("llmModel") else []),
            ]
        ),
        when(one.get("timestamp")),
        (
            join(tag("span", part, class_="line") for part in said)
            if said
            else tag("span", "none", class_="absent")
        ),
    ]


def _cut(value: Any) -> str:
    found = as_text(value)
    return found if len(found) <= MAX_TEXT else f"{found[:MAX_TEXT]}… ({len(found):,} signs)"


def _record(item: Item, tree: dict[str, Any], keys: Sequence[str]) -> Html:
    pairs = [
        (words(key), short(tree[key]) if isinstance(tree[key], str) else say(tree[key]))
        for key in keys
        if tree.get(key) is not None
    ]
    whole = join(
        [
            short(item.digest),
            " ",
            link("the whole record", address("api", "v1", "records", item.digest)),
        ]
    )
    return section(
        "Record",
        facts(
            [
                *pairs,
                ("Record", whole),
                ("Stored", when(item.created_at)),
                ("By", say(item.author, "not stated")),
            ],
            kind="small",
        ),
        id="record",
    )


def _related(services: Services, project: str, item: Item) -> Html:
    told = {
        "supersedes": ("supersedes", "is superseded by"),
        "evidence_of": ("stands in the index", "was made from"),
    }
    rows = []
    for one in services.ledger.links_of(item.digest, project=project, limit=MAX_ROWS):
        if one.relation in told and one.source is not None:
            other = one.target if one.source == item.digest else one.source
            rows.append(
                [
                    told[one.relation][one.source != item.digest],
                    short(other, address("schemas", other)),
                ]
            )
    return section(
        "Stands with",
        table("What it stands with", ("It", "Record"), rows, absent="Nothing is linked to it."),
        id="related",
    )


# --- reports


def reports(services: Services, project: str, limit: int) -> list[Entry]:
    """The newest reports of the file protocol."""
    found = services.ledger.find("entry", project=project, limit=LOOKED_AT, newest_first=True).items
    made = [
        Entry(item, mapped(item.tree()))
        for item in found
        if item.body is not None and b'"dimensions"' in item.body
    ]
    return [one for one in made if "dimensions" in one.tree][:limit]


def report_table(found: Sequence[Entry]) -> Html:
    """Reports in a list."""
    rows = [
        [
            link(str(one.tree.get("schemaId")), address("schemas", one.item.digest)),
            _letter(one.tree),
            number(
                one.tree.get("score"),
                n=len(rows_of(one.tree.get("dimensions"))),
                digits=3,
                absent="no score",
            ),
            _valid(one.tree),
            when(mapped(one.tree.get("timestamps")).get("gradedAt")),
        ]
        for one in found
    ]
    return table(
        "Reports of the file protocol",
        ("Schema", "Grade", "Score, 1 to 5", "Validation", "Graded"),
        rows,
        kind="stack runs",
    )


def _letter(tree: dict[str, Any]) -> Html:
    raw = tree.get("rawGrade")
    found = graded(tree.get("grade"), tree.get("policy"))
    return (
        join([found, tag("span", tag("small", f"raw grade {raw}, capped"), class_="line")])
        if raw not in (None, tree.get("grade"))
        else found
    )


def _valid(tree: dict[str, Any]) -> Html:
    return (
        verdict("passed", "valid")
        if tree.get("validationPassed") is True
        else verdict("fails", "not valid")
    )


def _report_page(request: Request, item: Item, tree: dict[str, Any]) -> Response:
    rows = [
        [
            tag("code", say(one.get("dimension"))),
            say(one.get("score")),
            _cut(one["reasoning"]) if one.get("reasoning") else say(None, "none"),
        ]
        for one in rows_of(tree.get("dimensions"))
    ]
    checks = [
        [
            tag("code", say(one.get("id"))),
            verdict("passed" if one.get("outcome") == "clean" else one.get("outcome")),
            say(one.get("reason")),
        ]
        for one in rows_of(tree.get("checks"))
    ]
    errors = texts(tree.get("validationErrors"))
    veto = mapped(tree.get("categoricalVeto"))
    body = [
        tag(
            "div",
            tag("p", _letter(tree), " ", _valid(tree), class_="outcome"),
            tag("p", say(tree.get("reason"), "No reason is stated."), class_="verdict"),
            class_="decided",
        ),
        facts(
            [
                (
                    "Score, 1 to 5",
                    number(tree.get("score"), n=len(rows), digits=3, absent="no score"),
                ),
                ("Raw grade", say(tree.get("rawGrade"))),
                ("Tier", say(tree.get("gradingTier"))),
                ("At best", say(tree.get("maxAttainableGrade"))),
                ("Policy", say(tree.get("policy"))),
            ],
            kind="figures",
        ),
        *([note(join(["Veto: ", say(veto)]), kind="bad")] if veto else []),
        section(
            "Dimensions",
            table(
                "Dimensions",
                ("Dimension", Column("Score", "n"), Column("Reasoning", "wide")),
                rows,
                kind="stack",
            ),
            id="dimensions",
        ),
        section(
            "Validation",
            (
                tag("ul", *(tag("li", one) for one in errors))
                if errors
                else tag("p", "No errors.", class_="absent")
            ),
            id="validation",
        ),
        section(
            "Checks",
            table(
                "Checks",
                ("Check", "Outcome", Column("Why", "wide")),
                checks,
                absent="No check was made.",
                kind="stack",
            ),
            id="checks",
        ),
        (
            section(
                "Findings",
                block(
                    "What was found",
                    tree.get("findings"),
                    address("api", "v1", "records", item.digest),
                ),
                id="findings",
            )
            if tree.get("findings")
            else Html("")
        ),
        _record(
            item,
            tree,
            (
                "schemaId",
                "schemaPath",
                "schemaHash",
                "canonicalHash8",
                "scoringProtocol",
                "creator",
                "harness",
                "timestamps",
                "scoringSystem",
                "gradingSystem",
            ),
        ),
    ]
    return page(request, f"Report on {tree.get('schemaId')}"[:200], *body, nav="/schemas")
