"""The runs of one execution while this server works on it: records their events, wakes their
watchers, and grades the runs that have ended.

A run that had begun always ends as evidence: one that took its process down with it is recorded as
an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from assay.canon import encode
from assay.errors import AssayError, InputError
from assay.files.json_files import Document, parse_json
from assay.server.evaluating import evaluate, problem_events, unfinished
from assay.server.graded_by import grader_of
from assay.server.grading import DraftedGrade, make
from assay.server.problems import Problem
from assay.server.state import Services
from assay.store import events as stored_events
from assay.store import executions
from assay.store.drafts import key as index_key
from assay.store.events import CANCELLED, DONE, EVALUATING, EXECUTING, FAILED, QUEUED, RunUpdate
from assay.store.executions import Job, Placed
from assay.store.tables import now_text
from assay.views import events

WAITING = 64
"""Runs of one execution that may wait to be graded; beyond that, the workflow waits too."""
TOGETHER = 8 * 1024 * 1024
"""Bytes of evidence that are graded and stored together."""
RETRY_S = 1.0
_PART = 200


class ExecutionLost(Exception):  # not an error: it ends our part of the work
    """Another server has taken the execution over."""


class EndedRun(NamedTuple):
    """A run that has ended and is to be graded."""

    key: str
    run: dict[str, Any]
    events: int
    """How many events it has so far."""
    size: int


class ExecutionRuns:
    """The runs of one execution."""

    def __init__(self, services: Services, job: Job, owner: str) -> None:
        self._services = services
        self._database = services.ledger.database
        self._job = job
        self._owner = owner
        self._ended: asyncio.Queue[EndedRun] = asyncio.Queue(WAITING)

    async def take(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Record what the workflow's process reported, and grade the runs that have ended."""
        updates = await asyncio.to_thread(_updates, messages)
        counts = await self._record(updates)
        sizes = {update.key: len(update.head or b"") for update in updates}
        for message in messages:
            key = index_key(message["run_id"])
            if message["kind"] == "workflow_end" and key in counts:
                await self._ended.put(EndedRun(key, message["run"], counts[key], sizes[key]))

    async def in_states(self, *states: str) -> list[Placed]:
        """The runs in one of these states, in order."""
        return await asyncio.to_thread(executions.runs, self._database, self._job.id, states=states)

    async def tried_calls(self) -> dict[str, list[Any]]:
        """The tool calls that runs reported before their process or server ended, by the run."""
        return {
            run.run_id: await asyncio.to_thread(self._calls, run.key)
            for run in await self.in_states(EXECUTING)
        }

    def _calls(self, key: str) -> list[Any]:
        calls: list[Any] = []
        position = 0
        while page := stored_events.after(self._database, self._job.project, key, position):
            position = page[-1].position
            ended = (event.body for event in page if event.kind == "step_end")
            calls += [call for body in ended for call in parse_json(body)["tool_calls"]]
        return calls

    async def _record(self, updates: Sequence[RunUpdate]) -> dict[str, int]:
        """Record updates and wake the watchers. Returns each updated run's number of events."""
        totals: dict[str, int] = {}
        for start in range(0, len(updates), _PART):
            part = updates[start : start + _PART]
            counts = await asyncio.to_thread(
                executions.record, self._database, self._job, self._owner, part
            )
            if counts is None:
                raise ExecutionLost
            for key, count in counts.items():
                self._services.hub.update((self._job.project, key), count)
            totals |= counts
        return totals

    async def _end(self, of: tuple[str, ...], fault: AssayError, state: str) -> None:
        """End the runs in these states without evidence."""
        await self._record(
            [
                RunUpdate(run.key, problem_events(run.run_id, fault), of, state)
                for run in await self.in_states(*of)
            ]
        )

    # --- grading

    async def grade(self) -> None:
        """Grade runs as they end, in batches of whatever has arrived, until cancelled."""
        while True:
            batch = [await self._ended.get()]
            while (
                not self._ended.empty() and sum(graded_run.size for graded_run in batch) < TOGETHER
            ):
                batch.append(self._ended.get_nowait())
            try:
                await self._grade(batch)
            except ExecutionLost:  # the new owner grades them
                pass
            except Exception as error:
                # one at a time, so that a run that can't be graded doesn't affect the others
                self._warn(message=str(error))
                for ended_run in batch:
                    await self._evaluate(ended_run.key)
            finally:
                for _ in batch:
                    self._ended.task_done()

    async def settle(self) -> None:
        """Wait until every run that ended is graded."""
        await self._ended.join()

    async def _grade(self, batch: Sequence[EndedRun]) -> None:
        services, project = self._services, self._job.project
        made = await services.in_turn(project, lambda: self._made(batch))
        updates = []
        for ended, kept in zip(batch, await services.store(project, made), strict=True):
            payload, digest = kept.made.payload, kept.evidence.digest
            fields = {
                "evaluation_start": {key: payload[key] for key in ("policy", "profile")},
                "evaluation_complete": events.evaluation_fields(payload, kept.grade.digest),
            }
            pair = [
                (kind, events.event(kind, payload["run_id"], now_text(), fields_found))
                for kind, fields_found in fields.items()
            ]
            updates.append(
                RunUpdate(ended.key, pair, (EVALUATING,), DONE, digest=digest, after=ended.events)
            )
        await self._record(updates)

    def _made(self, batch: Sequence[EndedRun]) -> list[DraftedGrade]:
        grader = grader_of(self._services, self._job.project)
        return [
            make(Document(graded_run.run, "run"), grader, author=self._job.author)
            for graded_run in batch
        ]

    async def _evaluate(self, key: str) -> None:
        """Grade one run. If that fails, notify its watchers or try again at the end."""
        try:
            await evaluate(self._services, self._job.project, key)
        except (AssayError, Problem) as error:
            self._warn(run=key, message=str(error))
        except Exception as error:
            self._services.log.fault("evaluation", error, execution=self._job.id, run=key)

    def _warn(self, **fields: Any) -> None:
        self._services.log.write("evaluation", level="warning", execution=self._job.id, **fields)

    async def evaluate_rest(self) -> None:
        """Grade what a dead server or an unavailable database left over. A run that can't be graded
        fails, so no watcher waits forever.
        """
        for _ in range(3):
            for run in await self.in_states(EVALUATING):
                await self._evaluate(run.key)
            if not await self.in_states(EVALUATING):
                return
            await asyncio.sleep(RETRY_S)
        fault = AssayError(
            "ERR-001",
            "the run could not be graded.",
            where="server",
            fix="Its evidence was not stored: run it again.",
        )
        await self._end((EVALUATING,), fault, FAILED)

    # --- runs whose end the workflow did not report

    async def record_unfinished(self, run_ids: Sequence[str], status: str, reason: str) -> None:
        """Record runs that began and won't end: their status, with the steps so far."""
        updates = []
        for run_id in run_ids:
            key = index_key(run_id)
            live = await asyncio.to_thread(
                stored_events.find, self._database, self._job.project, key
            )
            if live is None or live.state != EXECUTING:
                continue
            updates.append(unfinished(live, run_id, status, reason))
        await self._record(updates)
        await self.evaluate_rest()

    async def cancel(self) -> None:
        """Record the runs that had begun as cancelled; the others are only counted."""
        begun = [run.run_id for run in await self.in_states(EXECUTING)]
        await self.record_unfinished(begun, "cancelled", "the execution was cancelled")
        fault = InputError(
            "RUN-003",
            "the execution was cancelled before this run began.",
            fix="Start a new execution.",
        )
        await self._end((QUEUED, EXECUTING), fault, CANCELLED)

    async def fail(self, fault: AssayError) -> None:
        """Mark the remaining runs as failed: nothing more can run."""
        await self._end((QUEUED, EXECUTING), fault, FAILED)


def _updates(messages: Sequence[Mapping[str, Any]]) -> list[RunUpdate]:
    """The reports of a process as one update for each run."""
    updates: dict[str, RunUpdate] = {}
    for message in messages:
        kind, run_id = message["kind"], message["run_id"]
        key = index_key(run_id)
        event = (kind, events.event(kind, run_id, message["at"], message["fields"]))
        begins = kind == "workflow_start"
        known = updates.get(key) or RunUpdate(
            key, [], (QUEUED, EXECUTING) if begins else (EXECUTING,)
        )
        known = known._replace(events=[*known.events, event])
        if begins:
            known = known._replace(state=EXECUTING, head=encode(message["head"]))
        elif kind == "workflow_end":
            known = known._replace(state=EVALUATING, head=encode(message["run"]))
        updates[key] = known
    return list(updates.values())
