"""A run in progress, step by step. The page tells what has happened; a small script goes on from
there over the stream of events.

Without the script the page says so and has a link that loads it anew. Only the last `SHOWN` steps
are shown: a run may have a hundred thousand events.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from assay.files.json_files import parse_json
from assay.server import lookup
from assay.server.auth import Principal
from assay.server.pages.layout import (
    Column,
    address,
    clip,
    facts,
    letter,
    link,
    note,
    page,
    section,
    table,
    verdict,
    when,
)
from assay.server.pages.routing import READER, PageRoute
from assay.server.pages.runs import workflow_of
from assay.store import events
from assay.store.facets import key
from assay.views.markup import Html, join, points, say, tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.server.state import Services
    from assay.store.events import Stored

router = APIRouter(route_class=PageRoute, include_in_schema=False)
LOOKED_AT = 1000
SHOWN = 300
STATES = {
    "queued": "It waits for its turn.",
    "running": "It runs.",
    "executing": "It runs on this server.",
    "evaluating": "It has ended and is being graded.",
    "done": "It has ended and is graded.",
    "failed": "It has ended in an error and has no grade.",
    "cancelled": "It was cancelled.",
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
async def live_run(request: Request, run_id: str, principal: Principal = READER) -> Response:
    """What has happened so far, and what happens now."""
    services: Services = request.app.state.services
    database = services.ledger.database
    found = await asyncio.to_thread(events.find, database, principal.project, key(run_id))
    if found is None:
        item = await asyncio.to_thread(lookup.run, services, principal.project, run_id)
        return RedirectResponse(
            address("runs", item.digest), 303
        )  # it is stored and was never watched
    told = await asyncio.to_thread(
        events.after,
        database,
        principal.project,
        found.run_id,
        max(0, found.events - LOOKED_AT),
        limit=LOOKED_AT,
    )
    head = parse_json(found.head)
    state = tag(
        "p",
        verdict(found.state, STATES.get(found.state, found.state)),
        id="state",
        role="status",
        aria_live="polite",
    )
    about = facts(
        [
            ("Workflow", workflow_of(head)),
            ("Dataset", _dataset(head)),
            ("Events", tag("span", f"{found.events:,}", id="count")),
        ]
    )
    steps = section(
        "Steps",
        _steps(told),
        id="steps",
        hint=f"The last {SHOWN} steps are shown." if found.events > LOOKED_AT else "",
    )
    parts = [
        state,
        tag("p", "", id="connection", role="status", class_="hint"),
        about,
        steps,
        section("Evaluation", _evaluation(told), id="evaluation"),
    ]
    if found.over:
        return page(
            request, f"Run {run_id}", *parts, nav="/runs", lead="Told as it happened; it is over."
        )
    said = tag(
        "noscript",
        note(
            join(
                [
                    "This page goes on by itself only with JavaScript. ",
                    link("Load it again", address("runs", run_id, "live")),
                    " to see what is new.",
                ]
            )
        ),
    )
    told_to = told[-1].position if told else found.events
    stream = tag(
        "div",
        said,
        *parts,
        id="live",
        data_stream=address("api", "v1", "runs", run_id, "events"),
        data_seen=str(told_to),
        data_runs=address("runs") + "/",
    )
    return page(
        request,
        f"Run {run_id}",
        stream,
        nav="/runs",
        lead="Live: it is told as it happens.",
        scripts=["live.js"],
    )


def _dataset(head: dict[str, Any]) -> str:
    found = head.get("dataset")
    return (
        join([say(found.get("id")), " ", tag("small", say(found.get("sample_id"), "no sample"))])
        if isinstance(found, dict)
        else say(None)
    )


def _steps(told: Sequence[Stored]) -> Html:
    """A row for each step, as the script adds them."""
    rows: dict[tuple[Any, Any], list[str]] = {}
    for one in told:
        if one.kind == "workflow_start":  # begun again: what was told before counts for nothing
            rows = {}
        elif one.kind in ("step_start", "step_end"):
            body = parse_json(one.body)
            step = body["step"]
            rows[step.get("index"), step.get("name")] = _row(
                step, body.get("tool_calls") or (), ended=one.kind == "step_end"
            )
    return table("Steps", COLUMNS, list(rows.values())[-SHOWN:], keep=True)


def _row(step: dict[str, Any], calls: Sequence[Any], *, ended: bool) -> list[str]:
    name, agent = clip(step.get("name")), clip(step.get("agent"), absent="none")
    if not ended:
        return [name, agent, verdict("running"), "", "", ""]
    invalid = sum(call.get("valid") is False for call in calls)
    count = f"{len(calls)}" + (f", {invalid} invalid" if invalid else "")
    return [
        name,
        agent,
        verdict(step.get("status")),
        say(step.get("duration_ms"), "not reported"),
        count,
        clip(step.get("error"), absent="none"),
    ]


def _evaluation(told: Sequence[Stored]) -> Html:
    last = told[-1] if told else None
    if last is None or last.kind not in ("evaluation_start", "evaluation_complete", "error"):
        return tag("p", "It comes when the run has ended.", class_="absent")
    body = parse_json(last.body)
    if last.kind == "evaluation_start":
        return tag("p", verdict("evaluating", "Being graded …"))
    if last.kind == "error":
        return tag("p", verdict("fail", say(body.get("message"), "no reason is stated")))
    sentence = say(next(iter(body.get("explanation") or ()), None), "No reason is stated.")
    score = facts([("Score", points(body.get("weighted_score"))), ("Ended", when(body.get("at")))])
    way = tag("p", link("The whole grade", address("runs", str(body.get("digest")))))
    return join(
        [
            tag(
                "div",
                letter(body.get("grade"), body.get("policy"), large=True),
                tag("p", sentence, class_="verdict"),
                class_="top",
            ),
            score,
            way,
        ]
    )
