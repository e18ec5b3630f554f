"""Runs: posted one by one, as a list or as lines; listed, shown, graded."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from assay.server import bodies, lookup, openapi
from assay.server.auth import READ, WRITE, Principal
from assay.server.grading import BasedGrader
from assay.server.posted_runs import grader_of, post_lines, post_list, post_one
from assay.server.requests import ExecutionRequest
from assay.server.routes import executions
from assay.server.routing import Route, reads
from assay.server.run_pages import run_page
from assay.server.state import SERVICES, Services
from assay.store.reading import grades_of
from assay.views.events import inlined

ADDRESS = "/api/v1/runs"
_EXECUTION = executions.SCHEMA.encode()
router = APIRouter(route_class=Route, prefix=ADDRESS, tags=["runs"], responses=openapi.EVERY)

Name = Annotated[str | None, Query(max_length=1000)]
_KINDS = ("policy", "profile", "rubric")


def chosen(services: Services, principal: Principal, request: Request) -> BasedGrader:
    """The grader that assay.yaml and the query ask for."""
    query = request.query_params if request.scope["query_string"] else {}
    return grader_of(services, principal.project, {name: query.get(name) for name in _KINDS})


POSTING = reads(**{name: f"a {name} by its name in the library" for name in _KINDS})


@router.post(
    "",
    status_code=201,
    summary="Post runs and get their grades",
    responses={
        200: {"description": "Every run was already stored."},
        **executions.ACCEPTED,
        **openapi.POSTED,
    },
    openapi_extra={
        **openapi.body(
            {
                "oneOf": [
                    openapi.RUN,
                    {"type": "array", "items": openapi.RUN, "minItems": 1},
                    inlined(ExecutionRequest),
                ]
            },
            lines=True,
        ),
        **POSTING,
    },
)
async def post_runs(request: Request, principal: Principal = WRITE) -> Response:
    """One run, a list of runs, or a stream of lines: evidence. The answer comes when the runs and
    their grades are on disk. A run posted twice is stored once.

    With the schema `assay.execution/1` the server runs a workflow that its operator offers, and the
    answer is a 202.
    """
    services: Services = request.app.state.services
    if bodies.media_type(request, bodies.JSON, bodies.LINES) == bodies.LINES:
        return await post_lines(request, services, principal, chosen(services, principal, request))
    data = await bodies.content(request, services.settings)
    if _EXECUTION in data:
        tree = await bodies.tree_of(data)
        if isinstance(tree, dict) and tree.get("schema") == executions.SCHEMA:
            return await executions.accept(request, services, principal, tree)
    grader = chosen(services, principal, request)
    if data.lstrip()[:1] == b"[":
        return await post_list(request, services, principal, grader, await bodies.tree_of(data))
    return await post_one(
        request, services, principal, grader, data, kind="assay.run/1", address=ADDRESS
    )


@router.get("", summary="List runs")
def list_runs(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    workflow: Name = None,
    version: Name = None,
    dataset: Name = None,
    grade: Annotated[str | None, Query(pattern="^[A-DF]$")] = None,
    passed: bool | None = None,
    gate: Annotated[
        str | None, Query(max_length=200, description="a hard gate that did not pass")
    ] = None,
    tag: Name = None,
    status: Name = None,
    began_from: Annotated[
        str | None,
        Query(alias="from", max_length=40, description="started at this moment or later"),
    ] = None,
    began_to: Annotated[
        str | None, Query(alias="to", max_length=40, description="started before this moment")
    ] = None,
    after: Annotated[
        str | None, Query(max_length=20, description="the `next` of the previous page")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    newest_first: bool = True,
) -> Response:
    """Runs with their newest grade, page by page. A page may be short although more follow: `next`
    says so.
    """
    filters = {
        "workflow": workflow,
        "workflow_version": version,
        "dataset": dataset,
        "tag": tag,
        "status": status,
        "started_from": began_from,
        "started_before": began_to,
        "grade": grade,
        "passed": passed,
    }
    page = run_page(
        services,
        principal.project,
        filters,
        gate=gate,
        after=lookup.cursor(after),
        limit=limit,
        newest_first=newest_first,
    )
    return bodies.answer(request, page)


@router.get("/{run_id}", summary="A run with the grades it has had")
def get_run(
    request: Request, run_id: str, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """A run by its digest, or the newest of that id."""
    item = lookup.run(services, principal.project, run_id)
    grades = grades_of(services.ledger.database, principal.project, [item.digest]).get(
        item.digest, []
    )
    shown = {**lookup.shown(item), "grades": [grade._asdict() for grade in grades]}
    return bodies.answer(request, shown)


@router.get("/{run_id}/grade", summary="The newest grade of a run")
def get_grade(
    request: Request, run_id: str, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """The grade as it is stored, byte for byte."""
    grade = lookup.newest_grade(
        services, principal.project, lookup.run(services, principal.project, run_id)
    )
    if grade is None or grade.body is None:
        raise lookup.absent("grade of the run", run_id)
    return bodies.reply(
        request,
        grade.checked(),
        headers={"Assay-Digest": grade.digest},
        tag=grade.digest.removeprefix("sha256:"),
    )


@router.get("/{run_id}/history", summary="Everything about a run, the oldest first")
def get_history(
    request: Request,
    run_id: str,
    principal: Principal = READ,
    services: Services = SERVICES,
    after: Annotated[str | None, Query(max_length=20)] = None,
) -> Response:
    """Runs, scorecards and grades of one run id."""
    page = services.ledger.history(run_id, project=principal.project, after=lookup.cursor(after))
    if not page.items and after is None:
        raise lookup.absent("run", run_id)
    next_cursor = None if page.next_cursor is None else str(page.next_cursor)
    return bodies.answer(
        request,
        {
            "items": [{**lookup.listed(item), "record": None} for item in page.items],
            "next": next_cursor,
        },
    )
