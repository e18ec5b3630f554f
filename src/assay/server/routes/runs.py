"""Runs: posted one by one, as a list or as lines; listed, shown, graded."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from assay.errors import AssayError
from assay.files.json_files import Unread, parse_line
from assay.server import bodies, lookup, openapi
from assay.server.auth import READ, Principal, admit
from assay.server.grading import BasedGrader, Made, make
from assay.server.idempotency import answered_once
from assay.server.problems import Problem, problem_of
from assay.server.requests import ExecutionRequest
from assay.server.routes import executions
from assay.server.run_pages import run_page
from assay.server.state import LARGE
from assay.store.listing import grades_of

if TYPE_CHECKING:
    from assay.pipeline.grading import Grader
    from assay.server.state import Services

ADDRESS = "/api/v1/runs"
BRIEF = ("run_id", "grade", "passed", "weighted_score", "hard_gate_failures")
"""What the answer to a stream of lines has of each grade."""
BLOCK = 128
"""Lines that are graded and stored together."""
MAX_LIST = 5000
_EXECUTION = executions.SCHEMA.encode()
router = APIRouter(prefix="/runs", tags=["runs"], responses=openapi.EVERY)

Name = Annotated[str | None, Query(max_length=1000)]


def chosen(services: Services, principal: Principal, request: Request) -> BasedGrader:
    """The grader that the query asks for."""
    if not request.scope["query_string"]:
        return services.grader(principal.project)
    query = request.query_params
    return services.grader(
        principal.project,
        policy=query.get("policy"),
        profile=query.get("profile"),
        rubric=query.get("rubric"),
    )


_CHOICES = [
    {
        "name": name,
        "in": "query",
        "required": False,
        "schema": {"type": "string", "maxLength": 200},
        "description": f"a {name} by its name on the shelf",
    }
    for name in ("policy", "profile", "rubric")
]
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
    "description": (
        "the same key with the same body is answered once, and again with the same answer"
    ),
}
POSTING: dict[str, Any] = {"parameters": [*_CHOICES, _KEY]}


@router.post(
    "",
    status_code=201,
    summary="Post runs and get their grades",
    responses={
        200: {"description": "Every run was known already."},
        **executions.ACCEPTED,
        **openapi.POSTED,
    },
    openapi_extra={
        **openapi.body(
            {
                "oneOf": [
                    openapi.RUN,
                    {"type": "array", "items": openapi.RUN, "minItems": 1},
                    openapi.inlined(ExecutionRequest),
                ]
            },
            lines=True,
        ),
        **POSTING,
    },
)
async def post_runs(request: Request) -> Response:
    """One run, a list of runs, or a stream of lines: evidence. Answered when the runs and their
    grades are on the disk. The same run twice is one run.

    With the schema `assay.execution/1` it is the server that runs a workflow, one of those that its
    operator offers, and the answer is a 202.
    """
    services: Services = request.app.state.services
    principal = await admit(request, "write")
    if bodies.media_type(request, bodies.JSON, bodies.LINES) == bodies.LINES:
        return await _lines(request, services, principal)
    data = await bodies.whole(request, services.settings)
    if _EXECUTION in data:
        tree = bodies.parsed(data)
        if isinstance(tree, dict) and tree.get("schema") == executions.SCHEMA:
            return await answered_once(
                request,
                services,
                principal,
                data,
                lambda: executions.accept(request, services, principal, tree),
            )

    async def work() -> Response:
        grader = chosen(services, principal, request)
        large = len(data) > LARGE
        tree = await asyncio.to_thread(bodies.parsed, data) if large else bodies.parsed(data)
        if isinstance(tree, list):
            return await _list(request, services, principal, grader, tree)
        return await post_one(
            request,
            services,
            principal,
            grader,
            tree,
            kind="assay.run/1",
            address=ADDRESS,
            large=large,
        )

    return await answered_once(request, services, principal, data, work)


async def post_one(
    request: Request,
    services: Services,
    principal: Principal,
    grader: Grader,
    tree: Any,
    *,
    kind: str,
    address: str,
    large: bool = False,
) -> Response:
    """Grade and store one document of a kind; a large one in a thread, so that others are answered
    meanwhile.
    """
    compute = services.in_turn if large else services.at_once
    made = await compute(principal.project, lambda: _made(tree, grader, principal, kind))
    found = (await services.store(principal.project, [made]))[0].result(address=address)
    return bodies.answer(
        request, found, status=201 if found["new"] else 200, headers={"Location": found["location"]}
    )


def _made(tree: Any, grader: Grader, principal: Principal, kind: str, *, at: str = "") -> Made:
    if isinstance(tree, dict) and tree.get("schema") not in (None, kind):
        raise Problem(
            422,
            f"can't read the schema {str(tree['schema'])[:80]!r} here.",
            code="FIL-006",
            where="schema",
            fix=f'Write "schema": "{kind}".',
        )
    return make(bodies.document(tree, at=at), grader, author=principal.author)


async def _list(
    request: Request, services: Services, principal: Principal, grader: Grader, trees: list[Any]
) -> Response:
    """All of a list or nothing of it."""
    if not trees:
        raise Problem(422, "the list is empty.", code="FIL-005", where="body")
    if len(trees) > MAX_LIST:
        raise Problem(
            413,
            f"the list has {len(trees):,} runs; the limit is {MAX_LIST:,}.",
            fix="Send lines (application/x-ndjson).",
        )
    made, faults = [], []
    for index, tree in enumerate(trees):
        try:
            made.append(
                await services.at_once(
                    principal.project,
                    partial(_made, tree, grader, principal, "assay.run/1", at=f"[{index}]"),
                )
            )
        except (AssayError, Problem) as error:
            faults.append((index, error if isinstance(error, Problem) else problem_of(error)))
        if index % 32 == 31:
            await asyncio.sleep(0)  # others want to be answered too
    if faults:
        index, first = faults[0]
        listed = [
            fault
            for _, problem in faults
            for fault in (
                problem.faults or [{"path": "", "message": problem.detail, "code": problem.code}]
            )
        ]
        raise Problem(
            422,
            f"{len(faults)} of {len(trees)} runs are at fault, so none was stored: {first.detail}",
            code=first.code,
            where=f"[{index}]",
            faults=listed,
        )
    results = [kept.result() for kept in await services.store(principal.project, made)]
    new = sum(found["new"] for found in results)
    counts = {"received": len(trees), "stored": len(results), "new": new, "faults": 0}
    return bodies.answer(
        request, {"results": results, "faults": [], "counts": counts}, status=201 if new else 200
    )


async def _lines(request: Request, services: Services, principal: Principal) -> Response:
    """A stream of lines, stored block by block as it comes. Good lines are kept; where any was at
    fault the answer is a 422 that lists them.
    """
    grader = chosen(services, principal, request)
    results: list[dict[str, Any]] = []
    faults: list[dict[str, Any]] = []
    block: list[tuple[int, Made]] = []
    number, rest, limit = 0, b"", services.settings.max_body_bytes

    async def flush() -> None:
        kept = await services.store(principal.project, [made for _, made in block])
        for (line, made), one in zip(block, kept, strict=True):
            results.append(
                {
                    "line": line,
                    "digest": one.evidence.digest,
                    "grade_digest": one.grade.digest,
                    "new": one.evidence.new,
                    **{key: made.payload[key] for key in BRIEF},
                }
            )
        block.clear()

    async def take(line: bytes) -> None:
        parsed = parse_line(line, "body", number)
        if parsed is None:
            return
        try:
            if isinstance(parsed, Unread):
                faults.append(parsed.fault.as_dict())
                return
            if isinstance(parsed.tree, dict) and parsed.tree.get("schema") == "assay.scorecard/1":
                raise Problem(422, "this is a scorecard, not a run.", code="FIL-006")
            block.append(
                (
                    number,
                    await services.at_once(
                        principal.project, lambda: make(parsed, grader, author=principal.author)
                    ),
                )
            )
        except AssayError as error:
            problem = problem_of(error)
            faults.extend(
                dict(fault)
                for fault in problem.faults
                or [{"line": number, "message": problem.detail, "code": problem.code}]
            )
        except Problem as problem:
            faults.append({"line": number, "message": problem.detail, "code": problem.code})
        if len(block) >= BLOCK:
            await flush()

    async for part in bodies.chunks(
        request, services.settings, limit=services.settings.max_stream_bytes
    ):
        *lines, rest = (rest + part).split(b"\n")
        if len(rest) > limit:
            raise Problem(413, f"a line is longer than {limit:,} bytes.")
        for line in lines:
            number += 1
            await take(line)
        await asyncio.sleep(0)
    if rest:
        number += 1
        await take(rest)
    if block:
        await flush()
    new = sum(found["new"] for found in results)
    counts = {
        "received": len(results) + len({fault.get("line") for fault in faults}),
        "stored": len(results),
        "new": new,
        "faults": len(faults),
    }
    if faults or not results:
        words = (
            f"{counts['faults']} faults; {len(results)} lines were stored."
            if faults
            else "there is no line in the body."
        )
        raise Problem(
            422,
            words,
            code=str(faults[0]["code"]) if faults else "FIL-005",
            where="body",
            faults=faults,
            extra={"counts": counts, "results": results},
        )
    return bodies.answer(
        request, {"results": results, "faults": [], "counts": counts}, status=201 if new else 200
    )


@router.get("", summary="List runs")
def list_runs(
    request: Request,
    principal: Principal = READ,
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
        str | None, Query(max_length=20, description="the `next` of the page before")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    newest_first: bool = True,
) -> Response:
    """Runs with their newest grade, page by page. A page may be short although more follow: `next`
    says so.
    """
    services: Services = request.app.state.services
    found = {"workflow": workflow, "workflow_version": version, "dataset": dataset, "tag": tag}
    base = {name: value for name, value in found.items() if value is not None}
    run_only = {
        name: value
        for name, value in (
            ("status", status),
            ("started_from", began_from),
            ("started_before", began_to),
        )
        if value is not None
    }
    of_grade: dict[str, Any] = {
        name: value for name, value in (("grade", grade), ("passed", passed)) if value is not None
    }
    page = run_page(
        services,
        principal.project,
        base=base,
        run_only=run_only,
        of_grade=of_grade,
        gate=gate,
        after=lookup.cursor(after),
        limit=limit,
        newest_first=newest_first,
    )
    return bodies.answer(request, page)


@router.get("/{run_id}", summary="A run with the grades it has had")
def get_run(request: Request, run_id: str, principal: Principal = READ) -> Response:
    """A run by its digest, or the newest of that id."""
    services: Services = request.app.state.services
    item = lookup.run(services, principal.project, run_id)
    grades = grades_of(services.ledger.database, principal.project, [item.digest]).get(
        item.digest, []
    )
    return bodies.answer(request, lookup.shown(item, grades))


@router.get("/{run_id}/grade", summary="The newest grade of a run")
def get_grade(request: Request, run_id: str, principal: Principal = READ) -> Response:
    """The grade as it is stored, byte for byte."""
    services: Services = request.app.state.services
    found = lookup.newest_grade(
        services, principal.project, lookup.run(services, principal.project, run_id)
    )
    if found is None or found.body is None:
        raise lookup.absent("grade of the run", run_id)
    return bodies.reply(
        request,
        found.body,
        headers={"Assay-Digest": found.digest},
        tag=found.digest.removeprefix("sha256:"),
    )


@router.get("/{run_id}/history", summary="Everything about a run, the oldest first")
def get_history(
    request: Request,
    run_id: str,
    principal: Principal = READ,
    after: Annotated[str | None, Query(max_length=20)] = None,
) -> Response:
    """Runs, scorecards and grades of one run id."""
    services: Services = request.app.state.services
    page = services.ledger.history(run_id, project=principal.project, after=lookup.cursor(after))
    if not page.items and after is None:
        raise lookup.absent("run", run_id)
    next_cursor = None if page.next_cursor is None else str(page.next_cursor)
    return bodies.answer(
        request,
        {
            "items": [{**lookup.shown(item), "record": None} for item in page.items],
            "next": next_cursor,
        },
    )
