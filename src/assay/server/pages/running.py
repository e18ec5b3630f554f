"""What runs now: evaluations with their progress and pass rate so far, and runs that are posted
live. With the `write` scope, they can be cancelled here.

The section refreshes every few seconds, and the whole page when something begins or ends, so that a
finished evaluation appears on its card.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from assay.errors import count
from assay.files.json_files import parse_json
from assay.server import lookup
from assay.server.auth import READ, WRITE, Principal
from assay.server.background import is_dead
from assay.server.evaluating import end_unfinished
from assay.server.pages.layout import SENT, PageRoute, page
from assay.server.pages.run import sample_of, workflow_of
from assay.server.problems import Problem
from assay.server.routes import executions as execution_routes
from assay.server.state import SERVICES, Services
from assay.stats.intervals import wilson
from assay.store import events, executions, reading
from assay.store.drafts import key
from assay.store.events import StoredEvent
from assay.store.executions import Job
from assay.store.queue import now_ms
from assay.store.reading import LiveBrief
from assay.views.blocks import Column, Facts, Group, Paragraph, Part, Polled, Table, section
from assay.views.pieces import (
    absent,
    address,
    clip,
    letter,
    link,
    meter,
    moment,
    number,
    phrase,
    points,
    post,
    shown,
    small,
    verdict,
)

router = APIRouter(route_class=PageRoute, include_in_schema=False)
SHOWN = 8
LOOKED_AT = 50
COLUMNS = ("Evaluation", "State", "Progress", "Pass rate so far", "Started", "Cancel")
LONG = 80


class RunningNow(NamedTuple):
    """What runs now. `mark` changes when something begins or ends."""

    rows: list[list[str]]
    more: bool
    mark: str


def running_section(services: Services, principal: Principal) -> Part | None:
    """The section about what runs now; None if nothing does."""
    now = _running(services, principal)
    return _section(now) if now.rows else None


def _section(now: RunningNow) -> Part:
    hint = f"The newest {SHOWN} of each kind are shown." if now.more else ""
    listed = Table("Running now", COLUMNS, now.rows, absent="Nothing is running.", kind="stack")
    return Polled(
        "running", address("running", mark=now.mark), [section("Running now", listed, hint=hint)]
    )


@router.get("/running")
def list_running(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    mark: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """What runs now. A page that has missed a change reloads."""
    now = _running(services, principal)
    missed = mark is not None and mark != now.mark and "hx-request" in request.headers
    headers = {"HX-Refresh": "true"} if missed else None
    return page(request, "Running now", _section(now), nav="/", headers=headers)


@router.post("/running/evaluations/{execution}/cancel", dependencies=[SENT])
async def cancel_evaluation(
    request: Request, execution: str, principal: Principal = WRITE
) -> Response:
    """Cancel an evaluation that this server runs, and go back. Cancelling it twice has no further
    effect.
    """
    await execution_routes.cancel(request, principal, execution)
    return RedirectResponse("/#running", 303)


@router.post("/running/runs/{run_id:path}/cancel", dependencies=[SENT])
async def cancel_run(
    request: Request, run_id: str, principal: Principal = WRITE, services: Services = SERVICES
) -> Response:
    """Record a run that is posted live as cancelled, with its steps so far: what its runner posts
    afterwards is refused. A finished run stays unchanged.
    """
    database, project = services.ledger.database, principal.project
    live = await asyncio.to_thread(events.find, database, project, key(run_id))
    if live is None:
        raise lookup.absent("run in progress", run_id)
    if live.state == events.EXECUTING:
        raise Problem(
            409,
            "this run belongs to an evaluation that the server runs.",
            where="run_id",
            fix="Cancel the evaluation.",
        )
    if live.state == events.RUNNING:
        why = f"cancelled by {principal.author}"
        await end_unfinished(services, project, live, "cancelled", why)
    return RedirectResponse("/#running", 303)


def _running(services: Services, principal: Principal) -> RunningNow:
    database, project = services.ledger.database, principal.project
    may_cancel = "write" in principal.scopes
    busy = [
        job
        for job in executions.newest(database, project, limit=LOOKED_AT)
        if job.state in executions.OPEN
    ]
    live = list(reading.live(database, project, (events.RUNNING,), limit=LOOKED_AT))
    rows = [
        *(_evaluation(services, job, may_cancel=may_cancel) for job in busy[:SHOWN]),
        *(_posted(run, may_cancel=may_cancel) for run in live[:SHOWN]),
    ]
    known = [*(job.id for job in busy), *(run.run_id for run in live)]
    mark = sha256("\n".join(known).encode("utf-8", "replace")).hexdigest()[:16]
    return RunningNow(rows, any(len(listed) > SHOWN for listed in (busy, live)), mark)


def _evaluation(services: Services, job: Job, *, may_cancel: bool) -> list[str]:
    """An evaluation that a server runs. A run that ended without a grade counts as not passed."""
    database, request = services.ledger.database, job.request()
    counts = executions.counts(database, job.id)
    total, ended = sum(counts.values()), counts.get("done", 0) + counts.get("failed", 0)
    over = ended + counts.get("cancelled", 0)
    passed = executions.passed(database, job)
    rate = wilson(min(passed, ended), ended)
    workflow, dataset = request["workflow"], request["dataset"]
    named = f"{workflow['id']} {workflow['version']} on {dataset['id']}"
    return [
        phrase(
            link(clip(request["name"], LONG), address("runs", workflow=request["workflow"]["id"])),
            small(f" {clip(named, LONG)}"),
        ),
        state_text(job),
        meter(over, whole=total, digits=0, unit=f" of {count(total, 'run')}"),
        number(rate.value, interval=rate, n=ended, percent=True, absent_as="no run has ended"),
        moment(job.created_at),
        post("Cancel", address("running", "evaluations", job.id, "cancel"), request["name"])
        if may_cancel and job.state in (events.QUEUED, events.RUNNING)
        else "",
    ]


def state_text(job: Job) -> str:
    """The state of a job, or that its server is gone."""
    silent = now_ms() - job.beat_ms > executions.STALE_MS
    if job.state == events.RUNNING and (silent or is_dead(job.owner or "")):
        return verdict("stale", "Stopped: its server is gone, and another server must take over")
    return verdict(job.state)


def _posted(run: LiveBrief, *, may_cancel: bool) -> list[str]:
    """A run that is posted while it runs elsewhere."""
    head = parse_json(run.head)
    run_id = str(head.get("run_id", run.run_id))
    workflow, dataset = (_names(head.get(name)) for name in ("workflow", "dataset"))
    return [
        phrase(
            link(clip(run_id, LONG), address("runs", run_id, "live")),
            small(f" run of {clip(workflow, LONG)} on {clip(dataset, LONG)}"),
        ),
        verdict(run.state),
        count(run.events, "event"),
        absent("when it ends"),
        moment(run.created_at),
        post("Cancel", address("running", "runs", run_id, "cancel"), run_id) if may_cancel else "",
    ]


def _names(named: Any) -> str:
    named = named if isinstance(named, dict) else {}
    return " ".join(str(named[name]) for name in ("id", "version") if named.get(name))


LIVE_LOOKED_AT = 1000
LIVE_SHOWN = 300
STATES = {
    "queued": "Queued",
    "running": "Running",
    "executing": "Running on this server",
    "evaluating": "Finished; being graded",
    "done": "Finished and graded",
    "failed": "Failed with an error; it has no grade",
    "cancelled": "Cancelled",
}
LIVE_COLUMNS = (
    Column("Step"),
    Column("Agent"),
    Column("Status"),
    Column("Duration, ms", "n"),
    Column("Tool calls", "n"),
    Column("Error", "wide"),
)


@router.get("/runs/{run_id:path}/live")
async def live_run(
    request: Request, run_id: str, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """What has happened so far, and what is happening now."""
    database = services.ledger.database
    live = await asyncio.to_thread(events.find, database, principal.project, key(run_id))
    if live is None:
        item = await asyncio.to_thread(lookup.run, services, principal.project, run_id)
        return RedirectResponse(address("runs", item.digest), 303)  # it was not posted live
    recent = await asyncio.to_thread(
        events.after,
        database,
        principal.project,
        live.run_id,
        max(0, live.events - LIVE_LOOKED_AT),
        limit=LIVE_LOOKED_AT,
    )
    head = parse_json(live.head)
    steps = section(
        "Steps",
        _steps(recent),
        id="steps",
        hint=f"The last {LIVE_SHOWN} steps are shown." if live.events > LIVE_LOOKED_AT else "",
    )
    evaluation = section("Evaluation", *_live_evaluation(recent), id="evaluation")
    return page(
        request,
        f"Run {run_id}",
        steps,
        evaluation,
        nav="/runs",
        lead="Recorded live; finished." if live.over else "Live",
        scripts=[] if live.over else ["live.js"],
        template="live.html",
        over=live.over,
        state=verdict(live.state, STATES.get(live.state, live.state)),
        workflow=workflow_of(head),
        dataset=sample_of(head),
        events=live.events,
        stream=address("api", "v1", "runs", run_id, "events"),
        seen=recent[-1].position if recent else live.events,
        again=address("runs", run_id, "live"),
    )


def _steps(recent: Sequence[StoredEvent]) -> Part:
    """A row for each step, in the form that the script adds them."""
    rows: dict[tuple[Any, Any], list[str]] = {}
    for event in recent:
        if event.kind == "workflow_start":  # started again: earlier events don't count
            rows = {}
        elif event.kind in ("step_start", "step_end"):
            body = parse_json(event.body)
            step = body["step"]
            rows[step.get("index"), step.get("name")] = _row(
                step, body.get("tool_calls") or (), ended=event.kind == "step_end"
            )
    return Table("Steps", LIVE_COLUMNS, list(rows.values())[-LIVE_SHOWN:], keep=True)


def _row(step: dict[str, Any], calls: Sequence[Any], *, ended: bool) -> list[str]:
    name, agent = clip(step.get("name")), clip(step.get("agent"), absent_as="none")
    if not ended:
        return [name, agent, verdict("running"), "", "", ""]
    invalid = sum(call.get("valid") is False for call in calls)
    count = f"{len(calls)}" + (f", {invalid} invalid" if invalid else "")
    return [
        name,
        agent,
        verdict(step.get("status")),
        shown(step.get("duration_ms"), "not reported"),
        count,
        clip(step.get("error"), absent_as="none"),
    ]


def _live_evaluation(recent: Sequence[StoredEvent]) -> list[Part]:
    last = recent[-1] if recent else None
    if last is None or last.kind not in ("evaluation_start", "evaluation_complete", "error"):
        return [Paragraph("Available when the run finishes.", "absent")]
    body = parse_json(last.body)
    if last.kind == "evaluation_start":
        return [Paragraph(verdict("evaluating", "Being graded …"))]
    if last.kind == "error":
        return [Paragraph(verdict("fail", shown(body.get("message"), "no reason given")))]
    sentence = shown(next(iter(body.get("explanation") or ()), None), "No reason given.")
    mark = letter(body.get("grade"), body.get("policy"), large=True)
    return [
        Group([mark, Paragraph(sentence, "verdict")], "top"),
        Facts([("Score", points(body.get("weighted_score"))), ("Ended", moment(body.get("at")))]),
        Paragraph(link("The whole grade", address("runs", str(body.get("digest"))))),
    ]
