"""A run in progress, step by step. The page shows what has happened so far; a small script follows
the event stream from there, and without it there is a link to reload the page. Only the last
`SHOWN` steps are shown: a run may have a hundred thousand events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from assay.files.json_files import parse_json
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages.layout import page
from assay.server.pages.routing import PageRoute
from assay.server.pages.run_rows import sample_of, workflow_of
from assay.server.state import SERVICES, Services
from assay.store import events
from assay.store.drafts import key
from assay.store.events import StoredEvent
from assay.views.blocks import Column, Facts, Group, Paragraph, Part, Table, section
from assay.views.pieces import (
    address,
    clip,
    letter,
    link,
    moment,
    points,
    shown,
    verdict,
)

router = APIRouter(route_class=PageRoute, include_in_schema=False)
LOOKED_AT = 1000
SHOWN = 300
STATES = {
    "queued": "Queued",
    "running": "Running",
    "executing": "Running on this server",
    "evaluating": "Finished; being graded",
    "done": "Finished and graded",
    "failed": "Failed with an error; it has no grade",
    "cancelled": "Cancelled",
}
COLUMNS = (
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
        max(0, live.events - LOOKED_AT),
        limit=LOOKED_AT,
    )
    head = parse_json(live.head)
    steps = section(
        "Steps",
        _steps(recent),
        id="steps",
        hint=f"The last {SHOWN} steps are shown." if live.events > LOOKED_AT else "",
    )
    evaluation = section("Evaluation", *_evaluation(recent), id="evaluation")
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
    return Table("Steps", COLUMNS, list(rows.values())[-SHOWN:], keep=True)


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


def _evaluation(recent: Sequence[StoredEvent]) -> list[Part]:
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
