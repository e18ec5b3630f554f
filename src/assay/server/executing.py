"""Runs workflows on request: takes executions from the queue and runs each in its own process.

When a server stops or dies, another one takes its executions over: finished runs are not repeated,
and a run that was under way begins again with another `workflow_start`, before its one evaluation.
If several runs were in progress when their process died, each is run again alone to find the one at
fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from assay.canon import encode
from assay.errors import AssayError, InputError
from assay.files.json_files import Document, parse_json
from assay.records.evidence import Workflow
from assay.running.catalogue import Offered
from assay.running.workflow import read_workflow
from assay.server.background import Background, is_dead
from assay.server.child import Ended, WorkflowProcess
from assay.server.evaluating import evaluate, problem_events, unfinished
from assay.server.grading import DraftedGrade, make
from assay.server.posted_runs import check_rules, grader_of, own_profile, rules_digest
from assay.server.problems import Problem
from assay.server.state import Services
from assay.services.storing import EvaluationBuilder, run_groups
from assay.store import events as stored_events
from assay.store import executions
from assay.store.drafts import Draft
from assay.store.drafts import key as index_key
from assay.store.events import CANCELLED, DONE, EVALUATING, EXECUTING, FAILED, QUEUED, RunUpdate
from assay.store.executions import STATES, Job, Placed
from assay.store.reading import grades_of
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


AT_ONCE = 2
"""Executions that one process of the server works on at the same time."""
IDLE_S = 0.5
LOOK_S = 0.1
"""How often a waiting request checks whether the execution has ended."""
BEAT_S = 1.0
IDLE_CRASHES = 2
"""How often the process may die before any run has begun."""


async def ended(services: Services, find: Callable[[], Job], wait_s: float) -> Job:
    """The execution once it has ended, or its state after `wait_s` seconds."""
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    while True:
        job = await asyncio.to_thread(find)
        left = until - loop.time()
        if left <= 0 or services.stopping or job.state not in executions.OPEN:
            return job
        await asyncio.sleep(min(LOOK_S, left))


class Executor:
    """The executions of one server. A server that offers no workflows still ends cancelled
    executions.
    """

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self.offered = (
            None if settings.workflows is None else Offered(settings.workflows, settings.datasets)
        )
        self._services = services
        self._owner = services.owner.name
        self._works: dict[asyncio.Task[None], ExecutionWork] = {}
        self._background = Background("executions", self._next, services.log, idle_s=IDLE_S)
        self.start, self.wake = self._background.start, self._background.wake

    async def close(self) -> None:
        """End the processes and return the executions to the queue."""
        for work in self._works.values():
            work.stop("ending")
        await self._background.close()
        for work in self._works.values():
            work.stop("ending")
        if self._works:
            await asyncio.wait(self._works, timeout=self._services.settings.shutdown_s)

    async def _next(self) -> bool:
        if len(self._works) >= AT_ONCE or self._services.stopping:
            return False
        job = await asyncio.to_thread(
            executions.claim,
            self._services.ledger.database,
            self._owner,
            able=self.offered is not None,
            is_dead=is_dead,
        )
        if job is None:
            return False
        work = ExecutionWork(self._services, self.offered, job, self._owner)
        task = asyncio.create_task(work.run())
        self._works[task] = work
        task.add_done_callback(self._forget)
        return True

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._works[task]
        self.wake()


class ExecutionWork:
    """One execution while this server works on it."""

    def __init__(self, services: Services, offered: Offered | None, job: Job, owner: str) -> None:
        self._services = services
        self._offered = offered
        self._job = job
        self._owner = owner
        self._why = "cancel" if job.state == executions.CANCELLING else ""
        self._child: WorkflowProcess | None = None
        self._runs = ExecutionRuns(services, job, owner)

    def _is_stopped(self) -> bool:
        return bool(self._why)

    def stop(self, why: str) -> None:
        """Stop work: the execution was cancelled or taken over, or the server shuts down."""
        self._why = self._why or why
        if self._child is not None:
            self._child.stop()

    async def run(self) -> None:
        """Work on the execution until it is over or must go back into the queue."""
        tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._runs.grade())]
        state = "left"
        try:
            fault = None if self._why else await self._execute()
            if self._why == "lost":
                raise ExecutionLost
            if self._why == "ending":
                await self._runs.settle()
                await self._report(state=stored_events.QUEUED)
                return
            if fault is not None:
                state = stored_events.FAILED
                await self._runs.fail(fault)
            elif self._why == "cancel":
                state = stored_events.CANCELLED
                await self._runs.cancel()
            else:
                state = stored_events.DONE
            await self._runs.settle()
            await self._runs.evaluate_rest()
            if state == stored_events.DONE:
                await self._evaluation()
            faults = [*self._job.progress["faults"]]
            if fault is not None:
                faults.append(events.error_fields(fault))
            await self._report({"faults": faults}, state=state)
        except ExecutionLost:
            state = "lost"
        except Exception as error:  # the server that takes over the stale execution tries again
            self._services.log.fault("execution", error, execution=self._job.id)
        finally:
            await self._runs.settle()
            for task in tasks:
                task.cancel()
            self._services.log.write("execution", execution=self._job.id, state=state)

    async def _evaluation(self) -> None:
        """Store the evaluation of the runs. A server that takes over this execution makes the same
        evaluation.
        """
        placed = await self._runs.in_states(*STATES)
        drafted = await asyncio.to_thread(_evaluation_draft, self._services, self._job, placed)
        if drafted is None:
            self._services.log.write(
                "evaluation", level="warning", execution=self._job.id, message="runs are missing"
            )
            return
        await self._services.writer.put(self._job.project, [drafted])

    async def _report(
        self, progress: Mapping[str, Any] | None = None, *, state: str | None = None
    ) -> str | None:
        return await asyncio.to_thread(
            executions.report,
            self._services.ledger.database,
            self._job,
            self._owner,
            progress,
            state=state,
        )

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                state = await self._report()
            except AssayError as error:  # the database is briefly unavailable
                self._services.log.write(
                    "beat", level="warning", execution=self._job.id, message=error.message
                )
                continue
            if state != stored_events.RUNNING:
                self.stop("lost" if state is None else "cancel")

    async def _execute(self) -> AssayError | None:
        """Run the remaining samples. Returns the fault that stopped the execution, if any."""
        accepted = self._job.request()
        try:
            request = await asyncio.to_thread(self._request, accepted)
        except AssayError as error:
            return error
        suspects: dict[str, str] = {}
        idle = 0
        while not self._is_stopped():
            left = {run.run_id for run in await self._runs.in_states(QUEUED, EXECUTING)}
            if not left:
                return None
            alone = sorted(left & suspects.keys())
            chosen, width = (alone, 1) if alone else (sorted(left), accepted["concurrency"])
            crashed = {name: suspects[name] for name in alone}
            ended = await self._in_child(
                {
                    **request,
                    "left": chosen,
                    "concurrency": width,
                    "crashed": crashed,
                    "tried": await self._runs.tried_calls(),
                },
                frozenset(chosen),
            )
            if self._is_stopped():
                return None
            if ended.refused is not None:
                return ended.refused
            idle = 0 if ended.begun else idle + 1
            if idle >= IDLE_CRASHES:
                return InputError(
                    "RUN-004",
                    f"the process that runs the workflow {ended.how} before any run began.",
                    where=accepted["workflow"]["id"],
                )
            reason = f"the process that ran it {ended.how}"
            if len(ended.under_way) == 1 or width == 1:
                await self._runs.record_unfinished(sorted(ended.under_way), ended.status, reason)
            else:
                suspects.update(dict.fromkeys(ended.under_way, reason))
        return None

    def _request(self, accepted: Mapping[str, Any]) -> dict[str, Any]:
        """The instructions for the process. Files are looked up here, by the ids that were
        accepted.
        """
        assert self._offered is not None
        workflow, dataset = accepted["workflow"], accepted["dataset"]
        path = self._offered.workflow_file(workflow["id"], workflow["version"])
        subject = Workflow(**read_workflow(path).subject())
        grader = grader_of(self._services, self._job.project)
        planned, own = grader.plan_for(subject), self._services.settings.release
        check_rules(accepted, rules_digest(grader, subject))
        source: dict[str, Any] = {
            "id": dataset["id"],
            "version": dataset["version"],
            "samples": dataset.get("samples"),
        }
        if source["samples"] is None:
            source = {"path": self._offered.dataset(dataset["id"], dataset["version"]).where}
        return {
            "execution": self._job.id,
            "workflow": path,
            "workflow_digest": workflow["digest"],
            "criteria": planned.criteria,
            "profile": planned.profile.id if own.profile or own.extended else None,
            "scorers": [
                {"scorer": scorer.scorer, "folder": str(scorer.folder), "where": scorer.where}
                for scorer in self._services.settings.release.placed_scorers
            ],
            "dataset": source,
            "dataset_digest": dataset["digest"],
            "code_digest": accepted.get("code"),
            "memory_bytes": self._services.settings.run_memory_bytes,
            **{name: accepted[name] for name in ("name", "repeat", "timeout_s", "retries")},
        }

    async def _in_child(self, request: dict[str, Any], chosen: frozenset[str]) -> Ended:
        self._child = WorkflowProcess(chosen)
        try:
            return await self._child.run(encode(request), self._runs.take, stopped=self._is_stopped)
        except ExecutionLost:
            self.stop("lost")
            raise
        finally:
            self._child = None


def _evaluation_draft(services: Services, job: Job, placed: Sequence[Placed]) -> Draft | None:
    """The evaluation of the runs of an execution; None if one of them left no evidence, because the
    totals would be better than they should be.
    """
    digests = [run.digest for run in placed if run.digest is not None]
    if not digests or len(digests) < len(placed):
        return None
    ledger, accepted = services.ledger, job.request()
    listed = grades_of(ledger.database, job.project, digests)
    newest = {
        name: grades_found[-1].digest for name, grades_found in listed.items() if grades_found
    }
    items = ledger.get_many({*digests, *newest.values()}, project=job.project)
    runs = [items[name] for name in digests if name in items and items[name].body is not None]
    if len(runs) < len(digests):
        return None
    (group, *others) = run_groups(item.tree() for item in runs)
    if others:
        return None
    started, finished = group.span(datetime.now(UTC))
    builder = EvaluationBuilder(
        name=accepted["name"],
        workflow=group.workflow,
        dataset=group.dataset,
        settings={
            "execution": job.id,
            "workflow": accepted["workflow"]["digest"],
            "dataset": accepted["dataset"]["digest"],
            "policy": services.settings.policy,
            **services.settings.release.graded_by,
            **own_profile(services),
            **{name: accepted[name] for name in ("repeat", "timeout_s", "retries")},
        },
        started=started,
    )
    for item in runs:
        grade = items.get(newest.get(item.digest, ""))
        builder.add_stored(item.body or b"", None if grade is None else grade.body)
    return builder.drafted(finished, author=job.author)[1]
