"""Runs jobs in the background of every server, a page at a time; one server works on each job.

When a server shuts down, its job goes back into the queue with the place it had reached; when a
server is killed, another one takes its job over. An unchanged grade is the same record, so nothing
is stored twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any

from assay.archive.grades import links_draft, on_top
from assay.errors import AssayError
from assay.files.json_files import Document
from assay.records.contract import ContractEnding
from assay.server.background import Background, is_dead, own_name
from assay.server.evaluating import end_silent, internal_error, take_up
from assay.server.graded_by import check_rules, grader_of, library_digest
from assay.server.grading import make, make_again
from assay.server.problems import Problem
from assay.server.state import Services
from assay.store import jobs as stored_jobs
from assay.store import queue
from assay.store.database_errors import is_away
from assay.store.drafts import Draft, Item, Link, Page
from assay.store.jobs import Job
from assay.store.listing import grades_of, runs_behind

PAGE = 50
IDLE_S = 0.5
LOOK_S = 30.0
"""How often to look for runs whose evaluation was not finished."""
BEAT_S = 15.0
MAX_FAULTS = 100
"""How many faults of a job are listed; all are counted."""


class JobWorker:
    """The jobs of one server, and the runs that a dead server left without a grade."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._owner = own_name()
        self._since_ms: int | None = None
        self._jobs = Background("jobs", self._next, services.log, idle_s=IDLE_S)
        self._left = Background("take_up", self._take_up, services.log, idle_s=LOOK_S)

    def start(self) -> None:
        """Start looking for jobs, and for runs that a dead server left."""
        self._since_ms = queue.now_ms()
        self._jobs.start()
        self._left.start()

    async def close(self) -> None:
        """Finish the current page and return the job to the queue."""
        await asyncio.gather(self._jobs.close(), self._left.close())

    async def _take_up(self) -> bool:
        """Finish every waiting run when the server starts, later those that have waited too long.
        The server keeps answering requests.
        """
        since, self._since_ms = self._since_ms or 0, None
        await take_up(self._services, self._owner, since_ms=since)
        await end_silent(self._services)
        return False

    async def _next(self) -> bool:
        # this server has no current job: one still under its name was dropped while the database
        # was unavailable
        job = await asyncio.to_thread(
            stored_jobs.claim,
            self._services.ledger.database,
            stored_jobs.AGAIN,
            self._owner,
            is_dead=lambda owner: owner == self._owner or is_dead(owner),
        )
        if job is not None:
            await self._work(job)
        return job is not None

    async def _report(self, job: Job, progress: dict[str, Any], state: str | None = None) -> bool:
        """Record the progress of a job; False if another server has it now."""
        reported = await asyncio.to_thread(
            stored_jobs.report,
            self._services.ledger.database,
            job,
            self._owner,
            progress,
            state=state,
        )
        return reported is not None

    async def _work(self, job: Job) -> None:
        services, progress = self._services, dict(job.progress)
        try:
            while not self._jobs.ending:
                page = await self._page(job, progress["cursor"])
                then = dict(progress)
                drafts = await self._beating(
                    job,
                    progress,
                    services.in_turn(job.project, partial(self._again, job, page.items, then)),
                )
                if drafts is None:
                    return
                if drafts:
                    await services.writer.put(job.project, drafts)
                then["cursor"] = page.items[-1].seq if page.items else then["cursor"]
                progress = then
                state = stored_jobs.DONE if page.next_cursor is None else None
                ours = await self._report(job, progress, state)
                if state is not None or not ours:
                    services.log.write(
                        "job",
                        job=job.id,
                        state=state if ours else "lost",
                        **{key: progress[key] for key in ("seen", "written", "unchanged")},
                    )
                    return
            await self._report(job, progress, stored_jobs.QUEUED)
        except (AssayError, Problem) as error:
            if isinstance(error, Problem):
                if error.status == 503:  # the server is shutting down
                    await self._report(job, progress, stored_jobs.QUEUED)
                    return
            elif is_away(error):
                # if even this fails, this owner claims the job again
                await self._report(job, progress, stored_jobs.QUEUED)
                raise
            progress["faults"] = [*progress["faults"], _fault(error.where, error)][-MAX_FAULTS:]
            await self._report(job, progress, stored_jobs.FAILED)

    async def _page(self, job: Job, cursor: int | None) -> Page:
        request = job.request()
        return await asyncio.to_thread(
            self._services.ledger.find,
            "run" if request["kind"] == "rescore" else "scorecard",
            request.get("filters") or {},
            project=job.project,
            after=cursor,
            limit=PAGE,
        )

    async def _beating(
        self, job: Job, progress: dict[str, Any], work: Awaitable[list[Draft]]
    ) -> list[Draft] | None:
        """Work on a page and send heartbeats meanwhile: if a slow server looked dead, two servers
        would take the job from each other forever. None if another server took the job.
        """
        task = asyncio.ensure_future(work)
        while not (await asyncio.wait({task}, timeout=BEAT_S))[0]:
            if not await self._report(job, progress):
                task.cancel()
                return None
        return task.result()

    def _again(self, job: Job, items: tuple[Item, ...], progress: dict[str, Any]) -> list[Draft]:
        """Grade a page again; only differences are stored."""
        request = job.request()
        kinds = ("policy", "profile", "rubric")
        named = {name: request[name] for name in kinds if name in request}
        check_rules(request, library_digest(self._services, named), "job")
        grader = grader_of(self._services, job.project, named)
        ledger = self._services.ledger
        before = grades_of(ledger.database, job.project, [item.digest for item in items])
        behind = self._runs(job.project, items)
        why = request.get("reason") or f"{request['kind']} job {job.id}"
        drafts: list[Draft] = []
        again: list[Link] = []
        for item in items:
            progress["seen"] += 1
            if item.body is None:
                continue
            known = before.get(item.digest, [])
            if item.kind == "scorecard" and not known:
                continue  # the scorecard of a run under another profile, which has no grade
            notes: Any = {
                "author": job.author,
                "reason": why,
                "links": [Link("supersedes", known[-1].digest)] if known else [],
            }
            try:
                graded = (
                    make(Document(item.tree(), item.digest), grader, **notes)
                    if item.kind == "run"
                    else make_again(item, behind.get(item.digest), grader, **notes)
                )
            except ContractEnding:
                raise
            except Exception as error:  # the run is reported as a fault, and the job continues
                progress["failed"] = progress.get("failed", 0) + 1
                if len(progress["faults"]) < MAX_FAULTS:
                    fault = _fault(item.digest, internal_error(error))
                    progress["faults"] = [*progress["faults"], fault]
                continue
            if any(grade.digest == graded.grade.name for grade in known):
                progress["unchanged"] += 1
                own = behind.get(item.digest, item).digest
                again += on_top(ledger, own, graded.grade.name, known, project=job.project)
                continue
            drafts += graded.drafts
            progress["written"] += 1
        if again:  # earlier rules apply again, so their grades supersede the newer ones
            drafts.append(links_draft(again, author=job.author, reason=why, job=job.id))
        return drafts

    def _runs(self, project: str, items: tuple[Item, ...]) -> dict[str, Item]:
        """The run behind each scorecard that has one."""
        ledger = self._services.ledger
        digests = runs_behind(
            ledger.database, project, [item.digest for item in items if item.kind == "scorecard"]
        )
        runs_by_card = {card: ledger.get(run, project=project) for card, run in digests.items()}
        return {card: run for card, run in runs_by_card.items() if run is not None}


def _fault(where: str, error: AssayError | Problem) -> dict[str, str]:
    message = error.detail if isinstance(error, Problem) else error.message
    return {"where": where, "code": error.code, "message": message}
