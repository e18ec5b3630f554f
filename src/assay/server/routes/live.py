"""Events: those of a stored run, made from its steps, and those of a run in progress as they
happen.

A runner begins with `POST /runs/live`, posts what happens, and ends with `workflow_end`; then the
run is graded, stored and its stream ends.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from assay.canon import encode
from assay.files.json_files import parse_json
from assay.records.evidence import Run, Step, ToolCall
from assay.records.reading import read_record, read_run
from assay.server import bodies, lookup, openapi
from assay.server.auth import READ, WRITE, Principal, still_admitted
from assay.server.evaluating import evaluate, stopped
from assay.server.posted_runs import grader_of
from assay.server.problems import Problem, misfit
from assay.server.requests import EventRequest, StepStart
from assay.server.routing import Route
from assay.server.state import SERVICES, Services
from assay.server.streams import LiveStream
from assay.store import events as stored_events
from assay.store.drafts import key as index_key
from assay.store.events import Event, RunUpdate
from assay.store.tables import now_text
from assay.views import events
from assay.views.events import inlined

router = APIRouter(
    route_class=Route, prefix="/api/v1/runs", tags=["events"], responses=openapi.EVERY
)
MAX_EVENTS = 1000
"""How many events one request may have."""
_POSTED = inlined(EventRequest)
_AT_END = ("schema", "run_id", "workflow", "dataset", "steps", "tool_calls")
"""Fields that are posted at the start or step by step, and not again at the end."""
_HEAD = {
    **{key: value for key, value in openapi.RUN.items() if key != "required"},
    "properties": {
        key: value
        for key, value in openapi.RUN["properties"].items()
        if key not in ("status", "steps", "tool_calls")
    },
    "required": ["schema", "run_id", "workflow", "dataset"],
}


@router.post(
    "/live",
    status_code=201,
    summary="Start a run that can be watched live",
    responses=openapi.POSTED,
    openapi_extra=openapi.body(_HEAD),
)
async def start_live(
    request: Request, principal: Principal = WRITE, services: Services = SERVICES
) -> Response:
    """The head of a run: all that is known before its first step. A missing input is a 422."""
    tree = await bodies.tree(request, services.settings)
    if not isinstance(tree, dict):
        raise Problem(422, "the head of a run is a JSON object.", where="body")
    for name in ("status", "steps", "tool_calls"):
        if name in tree:
            raise Problem(
                422, f"'{name}' is reported during the run, not at its start.", where=name
            )
    run = read_run(bodies.document({**tree, "status": "success"}))
    missing = [name for name in run.required_inputs or () if (run.inputs or {}).get(name) is None]
    if missing:
        raise misfit([f"missing: {name}" for name in missing])
    grader = grader_of(services, principal.project)
    # A family that no profile serves is reported now, not at the end.
    await services.at_once(principal.project, lambda: grader.scorecard(run))
    key = index_key(run.run_id)
    first: list[Event] = [
        (
            "workflow_start",
            events.event(
                "workflow_start", run.run_id, run.started_at or now_text(), events.start_fields(run)
            ),
        )
    ]
    head, author = encode(tree), principal.author
    began = await asyncio.to_thread(
        stored_events.start,
        services.ledger.database,
        principal.project,
        key,
        head=head,
        author=author,
        events=first,
    )
    if not began:
        raise Problem(
            409,
            f"a run {run.run_id[:80]!r} was started before.",
            where="run_id",
            fix="Give each run a unique id.",
        )
    services.hub.update((principal.project, key), 1)
    address = f"/api/v1/runs/{run.run_id}/events"
    return bodies.answer(
        request,
        {"run_id": run.run_id, "state": "running", "events": address},
        status=201,
        headers={"Location": quote(address, safe="/:@")},
    )


@router.post(
    "/{run_id:path}/events",
    status_code=202,
    summary="Post events of a run in progress",
    responses={201: {"description": "The run has ended and is graded."}, **openapi.POSTED},
    openapi_extra=openapi.body(
        {"anyOf": [_POSTED, {"type": "array", "items": _POSTED, "minItems": 1}]}
    ),
)
async def post_events(
    request: Request, run_id: str, principal: Principal = WRITE, services: Services = SERVICES
) -> Response:
    """One event or a list of them, in order. `workflow_end` carries the rest of the run under `run`
    and is the last; it is answered with the grade.
    """
    tree = await bodies.tree(request, services.settings)
    listed = tree if isinstance(tree, list) else [tree]
    if not 0 < len(listed) <= MAX_EVENTS:
        raise Problem(422, f"a request has 1 to {MAX_EVENTS} events.", where="body")
    posted = bodies.shaped(listed, list[EventRequest])
    database, key = services.ledger.database, index_key(run_id)
    live = await asyncio.to_thread(stored_events.find, database, principal.project, key)
    if live is None:
        raise lookup.absent("run in progress", run_id)
    if live.over or live.state != stored_events.RUNNING:
        raise _over()
    # the run is stored under the name of its author; an admin may end it after a token was replaced
    if live.author != principal.author and "admin" not in principal.scopes:
        raise Problem(
            403,
            "this run was started with another token.",
            where="Authorization",
            fix="Post them with the token that started it, or with one that also has the `admin`"
            " scope; or start the run again with another id.",
        )
    new_events: list[Event] = []
    ended = ""
    for index, event in enumerate(posted):
        if ended:
            raise Problem(422, f"nothing follows '{ended}'.", where=f"[{index}]")
        kind, fields = event.event, _checked(event, live.head, index)
        new_events.append((kind, events.event(kind, run_id, event.at or now_text(), fields)))
        ended = kind if kind in ("workflow_end", "error") else ""
    # The rest of the run is stored with the head in the same transaction: if the server dies now,
    # nothing is lost.
    begun = parse_json(live.head)
    whole = (
        stopped(begun, "error", fields["message"])
        if ended == "error"
        else {**begun, **(posted[-1].run or {})}
    )
    update = RunUpdate(
        key,
        new_events,
        state=stored_events.EVALUATING if ended else None,
        head=encode(whole) if ended else None,
    )
    count = await asyncio.to_thread(stored_events.add, database, principal.project, update)
    if count is None:
        raise _over()
    services.hub.update((principal.project, key), count)
    result = await evaluate(services, principal.project, key) if ended else {}
    if ended != "workflow_end":
        state = stored_events.FAILED if ended else stored_events.RUNNING
        return bodies.answer(
            request, {"run_id": run_id, "state": state, "events": count}, status=202
        )
    return bodies.answer(request, result, status=201, headers={"Location": result["location"]})


def _over() -> Problem:
    return Problem(
        409, "this run has ended.", where="run_id", fix="Start a run with another id to post more."
    )


def _checked(posted: EventRequest, head: bytes, index: int) -> dict[str, Any]:
    """The fields of one event, checked before anything is stored."""
    if posted.event == "error":
        message = (posted.message or "the workflow failed.")[:2000]
        return {"message": message, "code": "ERR-002", "where": "workflow", "fix": ""}
    if posted.event == "workflow_end":
        return events.end_fields(_ended(posted.run or {}, head))
    step = dict(posted.step or {})
    place = step.pop("index", index)
    if not isinstance(place, int) or isinstance(place, bool) or place < 0:
        raise Problem(
            422, "the index of a step is a whole number from 0.", where=f"[{index}].step.index"
        )
    if posted.event == "step_start":
        bodies.shaped(step, StepStart)
        return events.step_head(step, place)
    read_record(bodies.document(step, at=f"[{index}].step"), Step, "SCO-011")
    calls = posted.tool_calls or []
    for number, call in enumerate(calls):
        read_record(
            bodies.document(call, at=f"[{index}].tool_calls[{number}]"), ToolCall, "SCO-011"
        )
    return events.step_fields(
        step, place, [{**call, "step": call.get("step") or step["name"]} for call in calls]
    )


def _ended(end: dict[str, Any], head: bytes) -> Run:
    """The finished run without its steps, to check that it is valid; it must have a status. It must
    agree with the start: a run can't lower its requirements once its outcome is known.
    """
    begun = parse_json(head)
    for name, value in end.items():
        if name in _AT_END or begun.get(name, value) != value:
            raise Problem(
                422, f"'{name}' can't be changed at the end of the run.", where=f"run.{name}"
            )
    return read_run(bodies.document({**begun, **end}))


@router.get(
    "/{run_id:path}/events",
    summary="The events of a run (SSE)",
    response_class=Response,
    responses={
        200: {
            "description": "Events in their order, until evaluation_complete or error.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def get_events(
    request: Request,
    run_id: str,
    principal: Principal = READ,
    services: Services = SERVICES,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
    last: Annotated[
        str | None,
        Query(alias="last_event_id", max_length=20, description="as the header Last-Event-ID"),
    ] = None,
) -> Response:
    """Every event has an id; `Last-Event-ID` resumes after it. The stream ends after
    `evaluation_complete` or `error`, never before.
    """
    seen = lookup.cursor(last_event_id if last_event_id is not None else last) or 0
    key = index_key(run_id)
    live = None
    if not lookup.DIGEST.fullmatch(run_id):
        live = await asyncio.to_thread(
            stored_events.find, services.ledger.database, principal.project, key
        )
    if live is not None:
        return LiveStream(
            services.hub,
            (principal.project, key),
            min(seen, live.events - 1 if live.over else seen),
            is_allowed=partial(still_admitted, request, "read"),
        )
    data = await asyncio.to_thread(_stored_frames, services, principal.project, run_id, seen)
    return Response(data, headers={"Cache-Control": "no-cache"}, media_type="text/event-stream")


def _stored_frames(services: Services, project: str, run_id: str, seen: int) -> bytes:
    """The events of a stored run. A client that has seen the last one gets it again, so that no
    stream is empty.
    """
    item = lookup.run(services, project, run_id)
    if item.body is None:
        raise Problem(404, "this run was forgotten; only its digest is left.", where=item.digest)
    run = read_run(bodies.document(item.tree()))
    grade = lookup.newest_grade(services, project, item)
    payload = None if grade is None or grade.body is None else parse_json(grade.body)
    frames = list(events.replay(run, payload, None if grade is None else grade.digest))
    return b"".join(frames[min(seen, len(frames) - 1) :])
