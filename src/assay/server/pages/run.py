"""The page of one sample: the verdict in one line, what was asked, answered and expected, then
everything behind it, down to digests; and a button that recomputes the grade.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.archive.labels import labels_of_run
from assay.archive.replay import replay
from assay.errors import AssayError, count
from assay.files.json_files import Document
from assay.records.evidence import title_of
from assay.records.reading import read_run
from assay.server.auth import READ, Principal
from assay.server.lookup import RunWithGrades, run_with_grades
from assay.server.pages.label_override import people_table
from assay.server.pages.layout import page
from assay.server.pages.lineage import SHOWN, lineage
from assay.server.pages.routing import SENT, PageRoute
from assay.server.pages.sample_context import (
    READS,
    SampleContext,
    around,
    elsewhere,
    opened,
    placed,
)
from assay.server.problems import Problem
from assay.server.state import SERVICES, Services
from assay.store import events
from assay.store.drafts import Item, key
from assay.views.blocks import (
    Details,
    Facts,
    Group,
    Note,
    Paragraph,
    Part,
    contents,
    parts_of,
    section,
)
from assay.views.grounding import grounding
from assay.views.pieces import (
    absent,
    address,
    clip,
    code,
    letter,
    link,
    listed,
    moment,
    phrase,
    short_digest,
    shown,
    small,
    verdict,
)
from assay.views.sample import grade_section, texts, verdict_line
from assay.views.trace import timeline, tool_calls
from assay.views.values import json_text

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.post("/runs/{run_id:path}/replay", dependencies=[SENT], openapi_extra=READS)
async def replay_grade(
    request: Request, run_id: str, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """Recompute the stored grade from its stored evidence, and show whether it is the same, byte
    for byte. Nothing is stored.
    """
    graded_run = await asyncio.to_thread(run_with_grades, services, principal.project, run_id)
    if graded_run.grade is None:
        raise Problem(404, "this run has no grade to recompute.", where=run_id[:100])
    grade = graded_run.grade
    replayed = await services.in_turn(
        principal.project, lambda: _replayed(services, principal.project, grade)
    )
    _, context = opened(services, principal.project, request, run_id)
    return await asyncio.to_thread(
        _page, request, services, principal.project, graded_run, context, replayed
    )


def _replayed(services: Services, project: str, grade: Item) -> Part:
    try:
        replayed = replay(services.ledger, grade, services.shelf, project=project)
    except AssayError as error:
        text = f"Replay: this grade cannot be recomputed. {error.message} {error.fix or ''}".strip()
        return Note(text, "bad")
    if replayed.same:
        same = "Replay: recomputed from the stored evidence, the grade is the same, byte for byte. "
        return Note(phrase(same, short_digest(grade.digest)), "good")
    gap = replayed.difference
    failed = Note(verdict("fail", "Replay: recomputed, the grade is not the same."), "bad")
    if gap is None:
        return failed
    where = [
        ("First difference at", code(gap.path or "the whole")),
        ("Stored", code(json_text(gap.stored)[:2000])),
        ("Recomputed", code(json_text(gap.recomputed)[:2000])),
    ]
    return Group([failed, Facts(where, "pairs")])


@router.get("/runs/{run_id:path}", openapi_extra=READS)
def show_run(
    request: Request, run_id: str, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """A run, in the evaluation that `?in=` names or in the newest that has it."""
    graded_run, context = opened(services, principal.project, request, run_id)
    if graded_run is None:
        graded_run = _or_live(services, principal.project, run_id)
    return _page(request, services, principal.project, graded_run, context)


def _or_live(services: Services, project: str, run_id: str) -> RunWithGrades:
    try:
        return run_with_grades(services, project, run_id)
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


def _page(
    request: Request,
    services: Services,
    project: str,
    graded_run: RunWithGrades,
    context: SampleContext,
    replayed: Part = "",
) -> Response:
    run_tree = (
        graded_run.item.tree()
        if graded_run.item.body is not None and graded_run.item.kind == "run"
        else None
    )
    run = None if run_tree is None else read_run(Document(run_tree, graded_run.item.digest))
    result = (
        graded_run.grade.tree()
        if graded_run.grade is not None and graded_run.grade.body is not None
        else None
    )
    tree = run_tree or result or {}
    url = (
        address("charts", "grades", graded_run.grade.digest) if graded_run.grade is not None else ""
    )
    context = placed(services, project, graded_run, context)
    walk, neighbours = around(services, project, graded_run, context)
    digest = graded_run.item.digest
    sections = parts_of(
        *([] if run is None else [*grounding(run, digest), *tool_calls(run, digest)]),
        *timeline(run, result, url),
        None if result is None else grade_section(result, url, {} if run is None else run.metadata),
        None if run is None else _people(services, project, digest, context),
        *([] if run is None else elsewhere(services, project, graded_run, run, context)),
        section(
            "Provenance",
            _about(graded_run, run_tree, result),
            Details(
                "Grades, linked records, digests and replay",
                [lineage(services, project, graded_run, result)],
                opened=replayed != "",
            ),
            id="provenance",
        ),
    )
    sample = (result or {}).get("sample_id") or (tree.get("dataset") or {}).get("sample_id")
    title = title_of(run.metadata) if run is not None else ""
    return page(
        request,
        str((context.stored and (title or sample)) or tree.get("run_id") or digest),
        walk,
        *verdict_line(run, result),
        replayed,
        *_warnings(graded_run),
        *neighbours,
        None if run is None else texts(run, digest),
        contents(sections),
        *sections,
        nav="/evaluations" if context.stored else "/runs",
    )


def _people(services: Services, project: str, digest: str, context: SampleContext) -> Part:
    """People's verdicts, which no gate reads. Labels are only counted: a rater who has yet to label
    this sample must not see other labels.
    """
    labels = labels_of_run(services.ledger, digest, project=project)
    within = context.stored.evaluation.id if context.stored else None
    href = address("label", "override", run=digest, in_=within)
    raters = len({stored.label.rater for stored in labels.labels})
    text = f"{count(len(labels.labels), 'label')} by {count(raters, 'rater')}. "
    counted = Paragraph(phrase(text, link("Sets of labels", address("label"))))
    nothing = Paragraph("No verdicts on this run yet.", "absent")
    return section(
        "People's verdicts",
        people_table(labels._replace(labels=())) if labels.overrides else None,
        counted if labels.labels else None if labels.overrides else nothing,
        Paragraph(link("Give your own verdict, with the reason", href)),
        id="people",
    )


def _warnings(graded_run: RunWithGrades) -> list[Part]:
    grade, newest = graded_run.grade, next(reversed(graded_run.grades), None)
    is_earlier = grade and newest and grade.digest != newest.digest
    return parts_of(
        Note("The content of this record was forgotten; only its digest is left.", kind="bad")
        if graded_run.item.body is None
        else None,
        Note(
            "No grade of this run is stored, so there is no verdict. That is not a pass.",
            kind="bad",
        )
        if grade is None
        else None,
        Note(
            phrase(
                "This is an earlier grade. The newest is ",
                letter(newest.grade, newest.policy),
                " ",
                link("show it", address("runs", newest.digest)),
            )
        )
        if newest and is_earlier
        else None,
    )


def _about(
    graded_run: RunWithGrades, run: dict[str, Any] | None, result: dict[str, Any] | None
) -> Part:
    tree = run or result or {}
    workflow, dataset = tree.get("workflow") or {}, tree.get("dataset") or {}
    moments = (
        [("Started", moment(tree.get("started_at"))), ("Finished", moment(tree.get("finished_at")))]
        if run is not None
        else []
    )
    pairs = [
        ("Run", clip(tree.get("run_id"), absent_as="forgotten")),
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
        ("Status of the run", verdict(tree["status"]) if tree.get("status") else shown(None)),
        *moments,
        ("Stored", moment(graded_run.item.created_at)),
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
