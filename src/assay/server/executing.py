"""Runs workflows for those who ask: takes executions from the queue, runs each in a process of its
own, and tells its runs' watchers what happens.

An execution that its server leaves, by its end or its death, is taken up by another: what is
finished is not repeated, and a run that was under way begins again with another `workflow_start`,
before its one evaluation. A run that had begun always ends as evidence: one that took its process
down with it is recorded as an error. Where several were under way when that happened, each is run
again alone, so that the one at fault is known.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import AssayError, InputError
from assay.files.json_files import Document, parse_json
from assay.running.catalogue import Offered
from assay.server.bodies import encode
from assay.server.child import Child, Ended
from assay.server.evaluating import evaluate
from assay.server.grading import make
from assay.server.owners import is_dead, own_name
from assay.server.problems import Problem
from assay.store import events as stored_events
from assay.store import executions as stored
from assay.store.events import CANCELLED, DONE, EVALUATING, EXECUTING, FAILED, QUEUED
from assay.store.facets import key as index_key
from assay.store.serving import now_text
from assay.views import events

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.server.grading import Made
    from assay.server.state import Services
    from assay.store.executions import Execution, Placed, Told

AT_ONCE = 2
"""Executions that one process of the server works on at the same time."""
WAITING = 64
"""Runs of one execution that may wait to be graded; then the workflow waits too."""
TOGETHER = 8 * 1024 * 1024
"""Bytes of evidence that are graded and stored together."""
IDLE_S = 0.5
BEAT_S = 1.0
IDLE_CRASHES = 2
"""How often the process may die before any run has begun."""
_PART = 200


class Lost(Exception):  # no error: it ends our part of the work
    """Somebody else has taken the execution over."""


class Over(NamedTuple):
    """A run that has ended and is to be graded."""

    key: str
    run: dict[str, Any]
    told: int
    """How many events it has by now."""
    size: int


class Executor:
    """The executions of one server. One that offers no workflows still ends what is cancelled."""

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self.offered = (
            None if settings.workflows is None else Offered(settings.workflows, settings.datasets)
        )
        self._services = services
        self._owner = own_name()
        self._works: dict[asyncio.Task[None], Work] = {}
        self._task: asyncio.Task[None] | None = None
        self._ending = False
        self._woken = asyncio.Event()

    def start(self) -> None:
        """Begin to look for executions."""
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Look now."""
        self._woken.set()

    async def close(self) -> None:
        """End the processes and give the executions back."""
        self._ending = True
        self.wake()
        for work in self._works.values():
            work.ask("ending")
        if self._task is not None:
            await self._task
        if self._works:
            await asyncio.wait(self._works, timeout=self._services.settings.shutdown_s)

    async def _run(self) -> None:
        while not self._ending:
            self._woken.clear()
            try:
                while (
                    len(self._works) < AT_ONCE and not self._ending and not self._services.stopping
                ):
                    found = await asyncio.to_thread(
                        stored.claim,
                        self._services.ledger.database,
                        self._owner,
                        able=self.offered is not None,
                        is_dead=is_dead,
                    )
                    if found is None:
                        break
                    self._begin(found)
            except (
                Exception
            ) as error:  # a database that is away comes back; somebody must still be there then
                self._services.log.fault("executions", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), IDLE_S)

    def _begin(self, execution: Execution) -> None:
        work = Work(self._services, self.offered, execution, self._owner)
        task = asyncio.create_task(work.run())
        self._works[task] = work
        if self._ending:
            work.ask("ending")

        def over(done: asyncio.Task[None]) -> None:
            del self._works[done]
            self.wake()

        task.add_done_callback(over)


class Work:
    """One execution while this server works on it."""

    def __init__(
        self, services: Services, offered: Offered | None, execution: Execution, owner: str
    ) -> None:
        self._services = services
        self._offered = offered
        self._execution = execution
        self._owner = owner
        self._why = "cancel" if execution.state == stored.CANCELLING else ""
        self._child: Child | None = None
        self._ended: asyncio.Queue[Over] = asyncio.Queue(WAITING)

    def _is_left(self) -> bool:
        """Whether it is to be left off."""
        return bool(self._why)

    def ask(self, why: str) -> None:
        """Stop: the execution was cancelled, is somebody else's, or the server ends."""
        self._why = self._why or why
        if self._child is not None:
            self._child.stop()

    async def run(self) -> None:
        """Work on it until it is over or has to be left."""
        services, execution = self._services, self._execution
        database = services.ledger.database
        tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._grade())]
        state = "left"
        try:
            fault = None if self._why else await self._execute()
            if self._why == "lost":
                raise Lost
            if self._why == "ending":
                await self._settle()
                await asyncio.to_thread(stored.give_back, database, execution, self._owner)
                return
            state = CANCELLED if self._why == "cancel" else FAILED if fault is not None else DONE
            if fault is not None:
                await self._end_all(fault, FAILED)
            elif self._why == "cancel":
                await self._cancel()
            await self._settle()
            await self._evaluate_rest()
            faults = [
                *execution.progress["faults"],
                *([] if fault is None else [events.error_fields(fault)]),
            ]
            await asyncio.to_thread(
                stored.finish,
                database,
                execution,
                self._owner,
                state=state,
                progress={"faults": faults},
            )
        except Lost:
            state = "lost"
        except (
            Exception
        ) as error:  # whoever takes it up when it has gone stale tries again, this server too
            services.log.fault("execution", error, execution=execution.id)
        finally:
            await self._settle()
            for task in tasks:
                task.cancel()
            services.log.write("execution", execution=execution.id, state=state)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                state = await asyncio.to_thread(
                    stored.beat, self._services.ledger.database, self._execution, self._owner
                )
            except AssayError as error:  # the database is away for a moment
                self._services.log.write(
                    "beat", level="warning", execution=self._execution.id, message=error.message
                )
                continue
            if state != stored.RUNNING:
                self.ask("lost" if state is None else "cancel")

    # --- the work itself

    async def _execute(self) -> AssayError | None:
        """Run what is left. The fault that made all of it impossible, where there is one."""
        asked: dict[str, Any] = parse_json(self._execution.asked)
        try:
            request = await asyncio.to_thread(self._request, asked)
        except AssayError as error:
            return error
        suspects: dict[str, str] = {}
        idle = 0
        while not self._is_left():
            left = {one.run_id for one in await self._in(QUEUED, EXECUTING)}
            alone = sorted(left & suspects.keys())
            if not left:
                return None
            chosen, width = (alone, 1) if alone else (sorted(left), asked["concurrency"])
            mine = {name: suspects[name] for name in alone}
            ended = await self._in_child(
                {**request, "left": chosen, "concurrency": width, "crashed": mine},
                frozenset(chosen),
            )
            if self._is_left():
                return None
            if ended.refused is not None:
                return ended.refused
            idle = 0 if ended.begun else idle + 1
            if idle >= IDLE_CRASHES:
                return InputError(
                    "RUN-004",
                    f"the process that runs the workflow {ended.how} before any run began.",
                    where=asked["workflow"]["id"],
                )
            if len(ended.under_way) == 1 or width == 1:
                await self._record(
                    sorted(ended.under_way), ended.status, f"the process that ran it {ended.how}"
                )
            else:
                suspects.update(
                    dict.fromkeys(ended.under_way, f"the process that ran it {ended.how}")
                )
        return None

    def _request(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What the process is told. Files are looked up here, by the ids that were accepted."""
        assert self._offered is not None
        workflow, dataset = asked["workflow"], asked["dataset"]
        samples = dataset.get("samples")
        where: dict[str, Any] = {
            "id": dataset["id"],
            "version": dataset["version"],
            "samples": samples,
        }
        if samples is None:
            where = {"path": self._offered.dataset_file(dataset["id"], dataset["version"])}
        return {
            "execution": self._execution.id,
            "workflow": self._offered.workflow_file(workflow["id"], workflow["version"]),
            "workflow_digest": workflow["digest"],
            "dataset": where,
            "dataset_digest": dataset["digest"],
            "memory_bytes": self._services.settings.run_memory_bytes,
            **{name: asked[name] for name in ("name", "repeat", "timeout_s", "retries")},
        }

    async def _in_child(self, request: dict[str, Any], chosen: frozenset[str]) -> Ended:
        self._child = Child(chosen)
        try:
            return await self._child.run(encode(request), self._take, stopped=self._is_left)
        finally:
            self._child = None

    async def _take(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Write down what the process told, wake the watchers, grade what has ended."""
        told = await asyncio.to_thread(_told, messages)
        counts = await self._tell(told)
        sizes = {one.key: len(one.head or b"") for one in told}
        for one in messages:
            key = index_key(one["run_id"])
            if one["kind"] == "workflow_end" and key in counts:
                await self._ended.put(Over(key, one["run"], counts[key], sizes[key]))

    async def _tell(self, told: Sequence[Told]) -> dict[str, int]:
        """Write it down and wake the watchers. The number of events of each run that took part."""
        services, project = self._services, self._execution.project
        found: dict[str, int] = {}
        for start in range(0, len(told), _PART):
            part = told[start : start + _PART]
            counts = await asyncio.to_thread(
                stored.tell, services.ledger.database, self._execution, self._owner, part
            )
            if counts is None:
                self.ask("lost")
                raise Lost
            for key, count in counts.items():
                services.hub.told((project, key), count)
            found |= counts
        return found

    async def _in(self, *states: str) -> list[Placed]:
        return await asyncio.to_thread(
            stored.runs, self._services.ledger.database, self._execution.id, states=states
        )

    # --- grading

    async def _grade(self) -> None:
        """Grade runs as they end, as many together as have come."""
        while True:
            batch = [await self._ended.get()]
            while not self._ended.empty() and sum(one.size for one in batch) < TOGETHER:
                batch.append(self._ended.get_nowait())
            try:
                await self._graded(batch)
            except Lost:  # whoever has it now grades them
                pass
            except (
                Exception
            ) as error:  # one at a time, so that one that cannot be graded costs no other its grade
                self._services.log.write(
                    "evaluation", level="warning", execution=self._execution.id, message=str(error)
                )
                for one in batch:
                    with suppress(Exception):
                        await self._evaluate(one.key)
            finally:
                for _ in batch:
                    self._ended.task_done()

    async def _graded(self, batch: Sequence[Over]) -> None:
        services, project = self._services, self._execution.project
        made = await services.in_turn(project, lambda: self._made(batch))
        told = []
        for over, kept in zip(batch, await services.store(project, made), strict=True):
            payload, digest = kept.made.payload, kept.evidence.digest
            fields = {
                "evaluation_start": {key: payload[key] for key in ("policy", "profile")},
                "evaluation_complete": events.evaluation_fields(payload, kept.grade.digest),
            }
            pair = [
                (kind, events.event(kind, payload["run_id"], now_text(), found))
                for kind, found in fields.items()
            ]
            told.append(
                stored.Told(over.key, pair, (EVALUATING,), DONE, digest=digest, after=over.told)
            )
        await self._tell(told)

    def _made(self, batch: Sequence[Over]) -> list[Made]:
        grader = self._services.grader(self._execution.project)
        return [
            make(Document(one.run, "run"), grader, author=self._execution.author) for one in batch
        ]

    async def _evaluate(self, key: str) -> None:
        try:
            await evaluate(self._services, self._execution.project, key)
        except (
            AssayError,
            Problem,
        ) as error:  # its watchers know; where nothing was written it is tried again at the end
            self._services.log.write(
                "evaluation",
                level="warning",
                execution=self._execution.id,
                run=key,
                message=str(error),
            )

    async def _settle(self) -> None:
        await self._ended.join()

    async def _evaluate_rest(self) -> None:
        """Grade what was left over: by a server that died, or because the database was away. What
        cannot be graded is said to be so; nobody waits for ever.
        """
        for _ in range(3):
            for one in await self._in(EVALUATING):
                with suppress(Exception):  # it is tried again, and in the end it is told
                    await self._evaluate(one.key)
            rest = await self._in(EVALUATING)
            if not rest:
                return
            await asyncio.sleep(BEAT_S)
        fields = {
            "message": "the run could not be graded.",
            "code": "ERR-001",
            "where": "server",
            "fix": "Its evidence was not stored: run it again.",
        }
        await self._tell(
            [
                stored.Told(
                    one.key,
                    [("error", events.event("error", one.run_id, now_text(), fields))],
                    (EVALUATING,),
                    FAILED,
                )
                for one in rest
            ]
        )

    # --- ends that no workflow told

    async def _record(self, run_ids: Sequence[str], status: str, reason: str) -> None:
        """Runs that had begun and will not end: evidence of their status, with the steps that were
        told.
        """
        told = []
        for run_id in run_ids:
            key = index_key(run_id)
            live = await asyncio.to_thread(
                stored_events.find, self._services.ledger.database, self._execution.project, key
            )
            if live is None or live.state != EXECUTING:
                continue
            head = parse_json(live.head)
            now = now_text()
            run = {
                **head,
                "status": status,
                "finished_at": now,
                "metadata": {**head.get("metadata", {}), "error": reason},
            }
            fields = {
                "status": status,
                **dict.fromkeys(("latency_ms", "cost_usd", "tokens", "retries")),
            }
            end = events.event("workflow_end", run_id, now, fields)
            told.append(
                stored.Told(key, [("workflow_end", end)], (EXECUTING,), EVALUATING, encode(run))
            )
        await self._tell(told)
        await self._evaluate_rest()

    async def _cancel(self) -> None:
        """Runs that had begun are recorded as cancelled; the others never were, and are only
        counted.
        """
        await self._record(
            [one.run_id for one in await self._in(EXECUTING)],
            "cancelled",
            "the execution was cancelled",
        )
        await self._end_all(
            InputError(
                "RUN-003",
                "the execution was cancelled before this run began.",
                fix="Ask for a new execution.",
            ),
            CANCELLED,
        )

    async def _end_all(self, fault: AssayError, state: str) -> None:
        rows = await self._in(QUEUED, EXECUTING)
        fields = events.error_fields(fault)
        await self._tell(
            [
                stored.Told(
                    one.key,
                    [("error", events.event("error", one.run_id, now_text(), fields))],
                    (QUEUED, EXECUTING),
                    state,
                )
                for one in rows
            ]
        )


def _told(messages: Sequence[Mapping[str, Any]]) -> list[Told]:
    """What a process said, as it is written down: all that comes of one run at once."""
    found: dict[str, Told] = {}
    for one in messages:
        kind, run_id = one["kind"], one["run_id"]
        key, event = index_key(run_id), (kind, events.event(kind, run_id, one["at"], one["fields"]))
        state, head = None, None
        if kind == "workflow_start":
            state, head = EXECUTING, encode(one["head"])
        elif kind == "workflow_end":
            state, head = EVALUATING, encode(one["run"])
        known = found.get(key) or stored.Told(
            key, [], (QUEUED, EXECUTING) if kind == "workflow_start" else (EXECUTING,)
        )
        found[key] = known._replace(
            events=[*known.events, event], state=state or known.state, head=head or known.head
        )
    return list(found.values())
