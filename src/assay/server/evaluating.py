"""Evaluates a run that was posted while it ran: assembles it from its events, grades it, stores it,
and notifies its watchers.

A server that dies in between leaves the run as `evaluating`; the next one to start finishes it.
Only the first server to finish a run sends its last event.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Any

from assay.canon import encode
from assay.errors import AssayError
from assay.files.json_files import Document, parse_json
from assay.records.contract import ContractEnding, NotPlain
from assay.server.background import Background
from assay.server.grading import DraftedGrade, make
from assay.server.posted_runs import grader_of
from assay.server.problems import Problem
from assay.server.state import Services
from assay.server.streams import Key
from assay.services.grading import Grader
from assay.store import events as stored_events
from assay.store import queue
from assay.store.databases import Database, is_away
from assay.store.events import Event, Live, RunUpdate
from assay.store.tables import now_text
from assay.views import events

STALE_MS = 30_000
"""An evaluation that takes longer than this is assumed to be left by a dead server."""
AT_ONCE = 1000
LOOK_S = 30.0
"""How often to look for runs whose evaluation was not finished."""


class Leftovers:
    """The runs that a dead server or a silent runner left without a grade: every waiting one when
    the server starts, later those that have waited too long.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._owner = services.owner.name
        self._since_ms = 0
        self._background = Background("take_up", self._take_up, services.log, idle_s=LOOK_S)
        self.close = self._background.close

    def start(self) -> None:
        """Start looking for them. The server keeps answering requests."""
        self._since_ms = queue.now_ms()
        self._background.start()

    async def _take_up(self) -> bool:
        since, self._since_ms = self._since_ms, 0
        await take_up(self._services, self._owner, since_ms=since)
        await end_silent(self._services)
        return False


def assembled(database: Database, project: str, live: Live) -> dict[str, Any]:
    """The whole run: its head, which includes what was reported at its end, and its steps. A step
    that began and never ended is `cancelled`, as in every adapter: without it the run would look
    complete. A run that a server executed has its own steps.
    """
    run: dict[str, Any] = parse_json(live.head)
    if "steps" in run:
        return run
    begun: defaultdict[str, list[tuple[int, int, dict[str, Any]]]] = defaultdict(list)
    steps: list[tuple[int, int, dict[str, Any]]] = []
    calls: list[dict[str, Any]] = []
    position = 0
    while page := stored_events.after(database, project, live.run_id, position):
        for event in page:
            position = event.position
            body = parse_json(event.body)
            if event.kind == "workflow_start":  # started again: earlier events don't count
                steps, calls = [], []
                begun.clear()
            elif event.kind == "step_start":
                step = {**body["step"], "status": "cancelled", "error": "the step never ended"}
                begun[step["name"]].append((step.pop("index"), event.position, step))
            elif event.kind == "step_end":
                step = dict(body["step"])
                steps.append((step.pop("index"), event.position, step))
                calls += body["tool_calls"]
            elif event.kind == "workflow_end":
                run.setdefault("finished_at", body["at"])
    ended = Counter(step["name"] for _, _, step in steps)
    for name, starts in begun.items():
        steps += starts[ended[name] :]
    run["steps"] = [step for _, _, step in sorted(steps, key=lambda page: page[:2])]
    if calls:
        run["tool_calls"] = calls
    return run


async def end_unfinished(
    services: Services,
    project: str,
    live: Live,
    status: str,
    reason: str,
    *,
    after: int | None = None,
) -> None:
    """Grade and store a run that won't end by itself, unless it ended first; with `after`, only
    if it still has that many events.
    """
    run_id = str(parse_json(live.head)["run_id"])
    update = unfinished(live, run_id, status, reason)._replace(after=after)
    database = services.ledger.database
    total = await asyncio.to_thread(stored_events.add, database, project, update)
    if total is not None:
        services.hub.update((project, live.run_id), total)
        await evaluate(services, project, live.run_id)


def unfinished(live: Live, run_id: str, status: str, reason: str) -> RunUpdate:
    """Evidence of a run that began and won't end by itself: its status and its steps so far. It is
    graded like any other, so stopping a run doesn't hide it.
    """
    run = stopped(parse_json(live.head), status, reason)
    now = run["finished_at"]
    unknown = dict.fromkeys(("latency_ms", "cost_usd", "tokens", "retries"))
    end = events.event("workflow_end", run_id, now, {"status": status, **unknown})
    return RunUpdate(
        live.run_id,
        [("workflow_end", end)],
        (live.state,),
        stored_events.EVALUATING,
        encode(run),
    )


def stopped(run: dict[str, Any], status: str, reason: str) -> dict[str, Any]:
    """A run that ended early, and why."""
    metadata = {**(run.get("metadata") or {}), "error": reason}
    return {**run, "status": status, "finished_at": now_text(), "metadata": metadata}


def problem_events(run_id: str, error: AssayError) -> list[Event]:
    """The last event of a run that can't be graded."""
    return [("error", events.event("error", run_id, now_text(), events.error_fields(error)))]


def internal_error(error: Exception) -> AssayError:
    """The error to report; an unexpected exception becomes an internal error."""
    if isinstance(error, AssayError):
        return error
    return AssayError("ERR-001", f"internal error: {type(error).__name__}: {error}.")


def _graded(tree: dict[str, Any], grader: Grader, author: str | None) -> DraftedGrade:
    """The grade. An unexpected error is reported too, so a run that can't be graded isn't retried
    forever.
    """
    try:
        return make(Document(tree, "run"), grader, author=author)
    except (AssayError, NotPlain, ContractEnding):
        raise
    except Exception as error:
        raise internal_error(error) from error


async def evaluate(services: Services, project: str, key: str) -> dict[str, Any]:
    """Grade and store a run that has ended. Its watchers get `evaluation_start`, then
    `evaluation_complete` or `error`. If its runner reported an error, that was the last event: the
    run is stored all the same, because a version that breaks must not look better.
    """
    database = services.ledger.database
    live = await asyncio.to_thread(stored_events.find, database, project, key)
    if live is None:
        raise Problem(404, "there is no such run in progress.", where=key)
    tree = await asyncio.to_thread(assembled, database, project, live)
    run_id = str(tree["run_id"])
    last = await asyncio.to_thread(stored_events.after, database, project, key, live.events - 1)
    broke = bool(last) and last[-1].kind == "error"
    still = (stored_events.EVALUATING,)

    async def add(new_events: list[Event], **changes: Any) -> None:
        update = RunUpdate(key, new_events, still, **changes)
        count = await asyncio.to_thread(stored_events.add, database, project, update)
        if count is not None:
            services.hub.update((project, key), count)

    try:
        grader = grader_of(services, project)
        graded = await services.at_once(project, lambda: _graded(tree, grader, live.author))
        begun = events.begin_fields(graded.payload)
        # a dead server may have sent it
        if not broke and (not last or last[-1].kind != "evaluation_start"):
            await add(
                [("evaluation_start", events.event("evaluation_start", run_id, now_text(), begun))],
                after=live.events,
            )
        kept = (await services.store(project, [graded]))[0]
    except AssayError as error:
        if not is_away(error):  # otherwise it is graded when the database is back
            problem = [] if broke else problem_events(run_id, error)
            await add(problem, state=stored_events.FAILED)
        raise
    complete = events.evaluation_fields(graded.payload, kept.grade.digest)
    end: list[Event] = [
        ("evaluation_complete", events.event("evaluation_complete", run_id, now_text(), complete))
    ]
    state = stored_events.FAILED if broke else stored_events.DONE
    await add([] if broke else end, state=state, digest=kept.evidence.digest)
    return kept.result()


async def end_silent(services: Services) -> None:
    """End the runs whose runners are gone: a run that stays in progress is never counted."""
    database, limit_s = services.ledger.database, services.settings.live_limit_s
    reason = f"its runner reported nothing for {limit_s / 3600:g} hours"
    for project, key in await asyncio.to_thread(stored_events.silent, database, since_s=limit_s):
        live = await asyncio.to_thread(stored_events.find, database, project, key)
        if services.stopping:
            return
        if live is None:
            continue
        try:
            await end_unfinished(services, project, live, "error", reason, after=live.events)
        except (AssayError, Problem) as error:
            services.log.write("take_up", level="warning", run=key, message=str(error))


async def take_up(services: Services, owner: str, *, since_ms: int = 0) -> int:
    """Finish what a dead server left behind: runs whose evaluation began before `since_ms`, or too
    long ago. Returns how many there were.
    """
    claimed: list[Key] = []
    while len(claimed) < AT_ONCE:
        key = await asyncio.to_thread(
            stored_events.claim_evaluation,
            services.ledger.database,
            owner,
            stale_ms=STALE_MS,
            since_ms=since_ms,
        )
        if key is None:
            break
        claimed.append(key)

    async def of_project(project: str) -> None:
        for _, key in (claim for claim in claimed if claim[0] == project):
            if services.stopping:
                return
            try:
                await evaluate(services, project, key)
            except (AssayError, Problem) as error:
                services.log.write("take_up", level="warning", run=key, message=str(error))
            except Exception as error:  # one run must not stop the others from being graded
                services.log.fault("take_up", error, run=key)

    # all projects at the same time, so that none waits for another
    await asyncio.gather(*map(of_project, {project for project, _ in claimed}))
    return len(claimed)
