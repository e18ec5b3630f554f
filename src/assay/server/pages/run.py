"""One run: the verdict first with its reason, then everything behind it, down to digests; and a
button that makes the grade again.

A run is asked for by its id (the newest of it), or by a digest: of the run, of a scorecard, or of
one of its grades, which is then the one that is shown.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.archive.replay import replay
from assay.errors import AssayError
from assay.server import lookup
from assay.server.auth import Principal, admit
from assay.server.pages import evidence
from assay.server.pages.layout import page
from assay.server.pages.routing import READER, PageRoute, form
from assay.server.problems import Problem
from assay.store import events
from assay.store.facets import key
from assay.store.listing import evidence_of, grades_of
from assay.views.blocks import (
    Button,
    Facts,
    Group,
    Heading,
    Note,
    Paragraph,
    Part,
    Table,
    contents,
    section,
)
from assay.views.grade import grade_head, grade_sections
from assay.views.pieces import (
    Piece,
    absent,
    address,
    clip,
    code,
    letter,
    link,
    listed,
    moment,
    phrase,
    small,
    verdict,
)
from assay.views.pieces import digest as short
from assay.views.pieces import shown as say

if TYPE_CHECKING:
    from assay.server.state import Services
    from assay.store.drafts import Item, Link
    from assay.store.listing import GradeOf

router = APIRouter(route_class=PageRoute, include_in_schema=False)
SHOWN = 20
PAGE_OF = {
    "run": "runs",
    "scorecard": "runs",
    "grade": "runs",
    "decision": "decisions",
    "exam": "exams",
    "card": "judges",
    "audit": "judges",
    "calibration": "judges",
    "index": "schemas",
    "entry": "schemas",
    "result": "results",
}
"""Where records of a kind are shown; others are shown by the API."""
RELATIONS = {
    ("evidence_of", True): "is the evidence of",
    ("evidence_of", False): "was made from",
    ("graded_from", True): "was graded from",
    ("graded_from", False): "was graded as",
    ("decides", True): "decides on",
    ("decides", False): "was decided on by",
    ("supersedes", True): "supersedes",
    ("supersedes", False): "is superseded by",
    ("corrects", True): "corrects",
    ("corrects", False): "is corrected by",
    ("candidate_of", True): "is of the candidate in",
    ("candidate_of", False): "has for its candidate",
    ("baseline_of", True): "is of the baseline in",
    ("baseline_of", False): "has for its baseline",
}


class Shown(NamedTuple):
    """A run or scorecard, all its grades, and the one that is shown."""

    item: Item
    grades: list[GradeOf]
    grade: Item | None


def found_run(services: Services, project: str, name: str) -> Shown:
    """What an address leads to."""
    if not lookup.DIGEST.fullmatch(name):
        item = lookup.run(services, project, name)
        chosen = None
    else:
        item = lookup.record(services, project, None, name)
        chosen = item if item.kind == "grade" else None
        if chosen is not None:
            behind = evidence_of(services.ledger.database, project, [name]).get(name)
            item = lookup.record(services, project, None, behind) if behind is not None else chosen
        if item.kind not in ("run", "scorecard", "grade"):
            raise lookup.absent("run", name)
    grades = grades_of(services.ledger.database, project, [item.digest]).get(item.digest, [])
    if chosen is None and grades:
        chosen = services.ledger.get(grades[-1].digest, project=project)
    return Shown(item, grades, chosen)


@router.post("/runs/{run_id:path}/replay")
async def replay_grade(request: Request, run_id: str) -> Response:
    """Make the stored grade again from its stored evidence, and say whether it is the same to the
    byte. Nothing is stored.
    """
    await form(request)
    principal = await admit(request, "read")
    services: Services = request.app.state.services
    found = await asyncio.to_thread(found_run, services, principal.project, run_id)
    if found.grade is None:
        raise Problem(404, "this run has no grade that could be made again.", where=run_id[:100])
    grade = found.grade
    said = await services.in_turn(
        principal.project, lambda: _replayed(services, principal.project, grade)
    )
    return await asyncio.to_thread(_page, request, services, principal.project, found, said)


def _replayed(services: Services, project: str, grade: Item) -> Part:
    try:
        made = replay(services.ledger, grade, services.shelf, project=project)
    except AssayError as error:
        text = f"Replay: this grade cannot be recomputed. {error.message} {error.fix or ''}".strip()
        return Note(text, "bad")
    if made.same:
        same = "Replay: recomputed from the stored evidence, the grade is the same, byte for byte. "
        return Note(phrase(same, short(grade.digest)), "good")
    gap = made.difference
    failed = Note(verdict("fail", "Replay: recomputed, the grade is not the same."), "bad")
    if gap is None:
        return failed
    where = [
        ("First difference at", code(gap.path or "the whole")),
        ("Stored", code(evidence.text(gap.stored)[:2000])),
        ("Recomputed", code(evidence.text(gap.recomputed)[:2000])),
    ]
    return Group([failed, Facts(where, "pairs")])


@router.get("/runs/{run_id:path}")
def show_run(request: Request, run_id: str, principal: Principal = READER) -> Response:
    """A run."""
    services: Services = request.app.state.services
    return _page(
        request,
        services,
        principal.project,
        _or_live(services, principal.project, run_id),
        "",
    )


def _or_live(services: Services, project: str, run_id: str) -> Shown:
    try:
        return found_run(services, project, run_id)
    except Problem as problem:
        if (
            problem.status != 404
            or events.find(services.ledger.database, project, key(run_id)) is None
        ):
            raise
    raise Problem(
        404,
        "this run is not stored yet: it is in progress.",
        where=run_id[:100],
        fix=f"Watch it at {address('runs', run_id, 'live')}",
    )


def _page(request: Request, services: Services, project: str, found: Shown, said: Part) -> Response:
    run = found.item.tree() if found.item.body is not None and found.item.kind == "run" else None
    result = (
        found.grade.tree() if found.grade is not None and found.grade.body is not None else None
    )
    name = str((run or result or {}).get("run_id") or found.item.digest)
    url = address("charts", "grades", found.grade.digest) if found.grade is not None else ""
    sections: list[Part] = list(grade_sections(result, url=url)) if result is not None else []
    sections.append(evidence.steps(run, result, url))
    if run is not None:
        sections += [evidence.tool_calls(run), evidence.evidence(run, found.item.digest)]
    sections.append(_lineage(services, project, found, result))
    return page(
        request,
        name,
        said,
        *_warnings(found),
        *(grade_head(result) if result is not None else []),
        _about(found, run, result),
        contents(sections),
        *sections,
        nav="/runs",
    )


def _warnings(found: Shown) -> list[Part]:
    made: list[Part] = []
    if found.item.body is None:
        made.append(
            Note("The content of this record was forgotten; only its digest is left.", kind="bad")
        )
    if found.grade is None:
        made.append(
            Note(
                "No grade of this run is stored, so there is no verdict. That is not a pass.",
                kind="bad",
            )
        )
    elif found.grades and found.grade.digest != found.grades[-1].digest:
        newest = found.grades[-1]
        made.append(
            Note(
                phrase(
                    *[
                        "This is an earlier grade. The newest is ",
                        letter(newest.grade, newest.policy),
                        " ",
                        link("show it", address("runs", newest.digest)),
                    ]
                )
            )
        )
    return made


def _about(found: Shown, run: dict[str, Any] | None, result: dict[str, Any] | None) -> Part:
    tree = run or result or {}
    workflow, dataset = tree.get("workflow") or {}, tree.get("dataset") or {}
    moments = (
        [("Started", moment(tree.get("started_at"))), ("Finished", moment(tree.get("finished_at")))]
        if run is not None
        else []
    )
    pairs = [
        (
            "Workflow",
            phrase(
                *[
                    clip(workflow.get("id"), absent_as="a bare scorecard"),
                    *([" ", small("version ", clip(workflow.get("version")))] if workflow else []),
                ]
            ),
        ),
        ("Family", clip(workflow.get("family"), absent_as="none")),
        (
            "Dataset",
            phrase(
                *[
                    clip(dataset.get("id")),
                    *([" ", small("version ", clip(dataset.get("version")))] if dataset else []),
                ]
            ),
        ),
        (
            "Sample",
            clip((result or {}).get("sample_id") or dataset.get("sample_id"), absent_as="none"),
        ),
        ("Status of the run", verdict(tree["status"]) if tree.get("status") else say(None)),
        *moments,
        ("Stored", moment(found.item.created_at)),
        ("Tags", _tags(tree)),
    ]
    return Facts(pairs)


def _tags(tree: dict[str, Any]) -> str:
    names = [str(name) for name in tree.get("tags") or ()][:SHOWN]
    return listed(
        (
            link(name, address("runs", tag=name)) if len(name) <= 500 else clip(name)
            for name in names
        ),
        " ",
    ) or absent("none")


# --- lineage


def _lineage(services: Services, project: str, found: Shown, result: dict[str, Any] | None) -> Part:
    grades = [
        [
            link(
                short(one.digest),
                address("runs", one.digest),
                aria_current=(
                    "true" if found.grade is not None and one.digest == found.grade.digest else ""
                ),
            ),
            letter(one.grade, one.policy),
            verdict("passed" if one.passed is True else "not passed"),
            say(one.profile, "none"),
            (
                "shown here"
                if found.grade is not None and one.digest == found.grade.digest
                else "the newest"
                if one is found.grades[-1]
                else "earlier"
            ),
        ]
        for one in found.grades[::-1][:SHOWN]
    ]
    parts: list[Part] = [
        Heading("Grades of this evidence"),
        Table(
            "Grades of this evidence",
            ("Grade record", "Grade", "Verdict", "Profile", "Which"),
            grades,
            absent="None is stored.",
        ),
    ]
    parts += [
        Heading("Linked records"),
        _links(services, project, found),
        *_same_id(services, project, found),
    ]
    if result is not None:
        made_by = [
            (name, say(result.get(key)))
            for key, name in (
                ("policy", "Policy"),
                ("profile", "Profile"),
                ("rubric", "Rubric"),
                ("scoringSystem", "Scoring system"),
                ("gradingSystem", "Grading system"),
            )
        ]
        why = [
            (f"Why this {kind}", say((chosen or {}).get("why")))
            for kind, chosen in (result.get("selection") or {}).items()
            if chosen
        ]
        digests = [
            (f"Digest of the {name}", code(say(value)))
            for name, value in (result.get("digests") or {}).items()
        ]
        parts += [
            Heading("Made by"),
            Facts([*_shelf(made_by), *why]),
            Heading("Digests"),
            Facts(digests, kind="small"),
        ]
    records = [
        (
            f"Record of the {item.kind}",
            phrase(
                *[
                    code(item.digest),
                    " ",
                    link("JSON", address("api", "v1", "records", item.digest)),
                ]
            ),
        )
        for item in (found.item, found.grade)
        if item is not None
    ]
    return section("Lineage", *parts, Facts(records, kind="small"), *_button(found), id="lineage")


def _shelf(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    kinds = {"Policy": "policies", "Profile": "profiles", "Rubric": "rubrics"}
    return [
        (
            name,
            (
                link(value, address("library", kinds[name], value))
                if name in kinds and not isinstance(value, Piece)
                else value
            ),
        )
        for name, value in pairs
    ]


def _button(found: Shown) -> list[Part]:
    if found.grade is None or found.grade.body is None:
        return []
    text = (
        "Replay recomputes this grade from the stored evidence, with the versions recorded in it,"
        " and compares the bytes. Nothing is stored."
    )
    action = address("runs", found.grade.digest, "replay")
    return [
        Heading("Replay"),
        Paragraph(text, "hint"),
        Button("Replay this grade", action, {"grade": found.grade.digest}),
    ]


def _links(services: Services, project: str, found: Shown) -> Part:
    """What the run and its grade are linked to, in words."""
    own = [item.digest for item in (found.item, found.grade) if item is not None]
    listed: list[tuple[str, Link]] = []
    for digest in dict.fromkeys(own):
        listed += [
            (digest, one) for one in services.ledger.links_of(digest, project=project, limit=SHOWN)
        ]
    others = {one.target if one.source == digest else str(one.source) for digest, one in listed}
    kinds = {
        digest: item.kind
        for digest, item in services.ledger.get_many(others, project=project).items()
    }
    rows = []
    for digest, one in listed[: 2 * SHOWN]:
        other = one.target if one.source == digest else str(one.source)
        kind = kinds.get(
            digest,
            (
                found.grade.kind
                if found.grade is not None and digest == found.grade.digest
                else found.item.kind
            ),
        )
        where = PAGE_OF.get(kinds.get(other, ""), "")
        href = address(where, other) if where else address("api", "v1", "records", other)
        rows.append(
            [
                f"This {kind}",
                RELATIONS.get((one.relation, one.source == digest), one.relation),
                phrase(*[kinds.get(other, "record"), " ", short(other, href)]),
            ]
        )
    return Table(
        "Linked records",
        ("Record", "Relation", "Other record"),
        rows,
        absent="This run is linked to nothing.",
    )


def _same_id(services: Services, project: str, found: Shown) -> list[Part]:
    """Other runs of the same id: an id may be given twice."""
    tree = (found.item if found.item.body is not None else found.grade) or found.item
    if tree.body is None:
        return []
    run_id = str(tree.tree().get("run_id"))
    runs = services.ledger.find(
        "run", {"run_id": run_id}, project=project, limit=SHOWN, newest_first=True
    ).items
    rows = [
        [
            short(item.digest, address("runs", item.digest)),
            moment(item.created_at),
            say(item.author, "not stated"),
            say(item.reason, "none"),
        ]
        for item in runs
        if item.digest != found.item.digest
    ]
    return (
        [
            Heading("Other runs of this id"),
            Table("Other runs of this id", ("Run", "Stored", "By", "Reason"), rows),
        ]
        if rows
        else []
    )
