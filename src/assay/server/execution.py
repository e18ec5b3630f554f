"""One execution: its workflow runs in a process of its own, and its runs' watchers hear of it.

A run that had begun always ends as evidence: one that took its process down with it is recorded as
an error. Where several were under way when that happened, each is run again alone, so that the one
at fault is known.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from assay.errors import AssayError, InputError
from assay.files.json_files import parse_json
from assay.server.bodies import encode
from assay.server.child import Ended, WorkflowProcess
from assay.server.evaluating import evaluate
from assay.server.problems import Problem
from assay.store import events as stored_events
from assay.store import executions as stored
from assay.store.events import CANCELLED, DONE, EVALUATING, EXECUTING, FAILED, QUEUED
from assay.store.facets import key as index_key
from assay.store.serving import now_text
from assay.views import events

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.running.catalogue import Offered
    from assay.server.state import Services
    from assay.store.executions import Execution, Placed, Told

WAITING = 64
"""Runs of one execution that may wait to be graded; then the workflow waits too."""
BEAT_S = 1.0
IDLE_CRASHES = 2
"""How often the process may die before any run has begun."""
_PART = 200


class ExecutionLost(Exception):  # no error: it ends our part of the work
    """Somebody else has taken the execution over."""


class ExecutionWork:
    """One execution while this server works on it."""

    def __init__(
        self, services: Services, offered: Offered | None, execution: Execution, owner: str
    ) -> None:
        self._services = services
        self._offered = offered
        self._execution = execution
        self._owner = owner
        self._why = "cancel" if execution.state == stored.CANCELLING else ""
        self._child: WorkflowProcess | None = None
        self._ended: asyncio.Queue[str] = asyncio.Queue(WAITING)

    def _is_left(self) -> bool:
        """Whether it is to be left off."""
        return bool(self._why)

    def ask(self, why: str) -> None:
        """Stop: the execution was cancelled, is somebody else's, or the server ends."""
        self._why = self._why or why
        if self._child is not None:
            self._child.stop()

    async def run(self) -> None:
        """ExecutionWork on it until it is over or has to be left."""
        services, execution = self._services, self._execution
        database = services.ledger.database
        tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._grade())]
        state = "left"
        try:
            fault = None if self._why else await self._execute()
            if self._why == "lost":
                raise ExecutionLost
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
        except ExecutionLost:
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
        self._child = WorkflowProcess(chosen)
        try:
            return await self._child.run(encode(request), self._take, stopped=self._is_left)
        finally:
            self._child = None

    async def _take(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Write down what the process told, wake the watchers, grade what has ended."""
        counts = await self._tell(await asyncio.to_thread(_told, messages))
        for one in messages:
            key = index_key(one["run_id"])
            if one["kind"] == "workflow_end" and key in counts:
                await self._ended.put(key)

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
                raise ExecutionLost
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
        """Grade runs as they end."""
        while True:
            key = await self._ended.get()
            with suppress(Exception):  # it is tried again at the end, and then it is told
                await self._evaluate(key)
            self._ended.task_done()

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
        fault = AssayError(
            "ERR-001",
            "the run could not be graded.",
            where="server",
            fix="Its evidence was not stored: run it again.",
        )
        await self._fail(rest, fault, (EVALUATING,), FAILED)

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
        states = (QUEUED, EXECUTING)
        await self._fail(await self._in(*states), fault, states, state)

    async def _fail(
        self, rows: Sequence[Placed], fault: AssayError, of: tuple[str, ...], state: str
    ) -> None:
        fields = events.error_fields(fault)
        await self._tell(
            [
                stored.Told(
                    one.key,
                    [("error", events.event("error", one.run_id, now_text(), fields))],
                    of,
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
