"""Works off jobs, a page at a time, in the background of every server; one job is worked on by one
server.

A job that is interrupted by the end of its server goes back into the queue with the place it had
reached; one whose server was killed is taken up by another when it has been silent for a minute. A
grade that comes out the same is the same record, so nothing is stored twice.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from assay.errors import AssayError
from assay.files.json_files import Document
from assay.records.contract import ContractEnding
from assay.server.background import Background
from assay.server.evaluating import take_up
from assay.server.grading import make, make_again
from assay.server.owners import is_dead, own_name
from assay.server.problems import Problem
from assay.store import jobs as stored_jobs
from assay.store.databases import is_away
from assay.store.drafts import Link
from assay.store.listing import grades_of, runs_behind

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from assay.server.state import Services
    from assay.server.streams import Key
    from assay.store.drafts import Draft, Item
    from assay.store.jobs import Job

PAGE = 50
IDLE_S = 0.5
LOOK_S = 30.0
"""How often runs are looked for whose evaluation nobody finished. What is found twice has waited
for at least that long, and is taken up.
"""
MAX_FAULTS = 100


class JobWorker:
    """The background of one server."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._owner = own_name()
        self._waiting: frozenset[Key] | None = None
        self._jobs = Background("jobs", self._next, services.log, idle_s=IDLE_S)
        self._runs_left = Background("take_up", self._take_up, services.log, idle_s=LOOK_S)

    def start(self) -> None:
        """Begin to look for jobs, and for runs that a dead server left."""
        self._jobs.start()
        self._runs_left.start()

    async def close(self) -> None:
        """Finish the page at hand and give the job back."""
        await asyncio.gather(self._jobs.close(), self._runs_left.close())

    async def _take_up(self) -> bool:
        """All that waits when the server starts, then what is found waiting twice. The server
        answers meanwhile.
        """
        self._waiting = await take_up(self._services, since=self._waiting)
        return False

    async def _next(self) -> bool:
        job = await asyncio.to_thread(
            stored_jobs.claim, self._services.ledger.database, self._owner, is_dead=is_dead
        )
        if job is not None:
            await self._work(job)
        return job is not None

    async def _work(self, job: Job) -> None:
        services, progress = self._services, dict(job.progress)
        database = services.ledger.database
        kind = "run" if job.asked["kind"] == "rescore" else "scorecard"
        try:
            while True:
                if self._jobs.ending:
                    await asyncio.to_thread(
                        stored_jobs.report,
                        database,
                        job,
                        self._owner,
                        progress,
                        state=stored_jobs.QUEUED,
                    )
                    return
                page = await asyncio.to_thread(
                    services.ledger.find,
                    kind,
                    job.asked.get("filters") or {},
                    project=job.project,
                    after=progress["cursor"],
                    limit=PAGE,
                )
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
                over = page.next_cursor is None
                state = stored_jobs.DONE if over else stored_jobs.RUNNING
                ours = await asyncio.to_thread(
                    stored_jobs.report, database, job, self._owner, progress, state=state
                )
                if over or not ours:
                    services.log.write(
                        "job",
                        job=job.id,
                        state=state if ours else "lost",
                        **{key: progress[key] for key in ("seen", "written", "unchanged")},
                    )
                    return
        except Problem:  # the server ends
            await asyncio.to_thread(
                stored_jobs.report, database, job, self._owner, progress, state=stored_jobs.QUEUED
            )
        except AssayError as error:
            if is_away(
                error
                # back into the queue, as far as it was; where even that fails, this owner claims it
                # again
            ):
                await asyncio.to_thread(
                    stored_jobs.report,
                    database,
                    job,
                    self._owner,
                    progress,
                    state=stored_jobs.QUEUED,
                )
                raise
            progress["faults"] = [
                *progress["faults"],
                {"where": error.where, "code": error.code, "message": error.message},
            ][-MAX_FAULTS:]
            await asyncio.to_thread(
                stored_jobs.report, database, job, self._owner, progress, state=stored_jobs.FAILED
            )

    async def _beating(
        self, job: Job, progress: dict[str, Any], work: Awaitable[list[Draft]]
    ) -> list[Draft] | None:
        """A page, with a beat now and then: one that takes long must not look dead, or two servers
        would take it from each other for ever. None: lost.
        """
        task = asyncio.ensure_future(work)
        while not (await asyncio.wait({task}, timeout=stored_jobs.STALE_S / 4))[0]:
            if not await asyncio.to_thread(
                stored_jobs.report, self._services.ledger.database, job, self._owner, progress
            ):
                task.cancel()
                return None
        return task.result()

    def _again(self, job: Job, items: tuple[Item, ...], progress: dict[str, Any]) -> list[Draft]:
        """What a page comes to now; only what differs from before is written."""
        asked = job.asked
        grader = self._services.grader(
            job.project,
            policy=asked.get("policy"),
            profile=asked.get("profile"),
            rubric=asked.get("rubric"),
        )
        before = grades_of(
            self._services.ledger.database, job.project, [item.digest for item in items]
        )
        behind = self._runs(job.project, items)
        why = asked.get("reason") or f"{asked['kind']} job {job.id}"
        found: list[Draft] = []
        for item in items:
            progress["seen"] += 1
            if item.body is None:
                continue
            known = before.get(item.digest, [])
            if item.kind == "scorecard" and not known:
                continue  # the scorecard of a run under another profile, which nobody graded
            links = [Link("supersedes", known[-1].digest)] if known else []
            try:
                if item.kind == "run":
                    made = make(
                        Document(item.tree(), item.digest),
                        grader,
                        author=job.author,
                        reason=why,
                        links=links,
                    )
                else:
                    made = make_again(
                        item,
                        behind.get(item.digest),
                        grader,
                        author=job.author,
                        reason=why,
                        links=links,
                    )
            except ContractEnding:
                raise
            except (
                Exception
            ) as error:  # also one of ours: what cannot be graded is said, and the job goes on
                known_error = (
                    error
                    if isinstance(error, AssayError)
                    else AssayError("ERR-001", f"internal error: {type(error).__name__}: {error}.")
                )
                if len(progress["faults"]) < MAX_FAULTS:
                    progress["faults"] = [
                        *progress["faults"],
                        {
                            "where": item.digest,
                            "code": known_error.code,
                            "message": known_error.message,
                        },
                    ]
                continue
            if any(one.digest == made.grade.name for one in known):
                progress["unchanged"] += 1
                continue
            found += made.drafts
            progress["written"] += 1
        return found

    def _runs(self, project: str, items: tuple[Item, ...]) -> dict[str, Item]:
        """The run behind each scorecard that has one."""
        ledger = self._services.ledger
        digests = runs_behind(
            ledger.database, project, [item.digest for item in items if item.kind == "scorecard"]
        )
        found = {card: ledger.get(run, project=project) for card, run in digests.items()}
        return {card: run for card, run in found.items() if run is not None}
