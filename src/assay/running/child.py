"""A process that runs a workflow for a server: `python -m assay.running.child`.

The first line of standard input says what to run; the end of that stream means stop. Events go to
the original standard output, one JSON object a line; what a workflow prints goes to standard error.
A workflow may crash this process: earlier lines are already in the pipe, because every line is
written before the work goes on. If a workflow blocks this process, a timer that doesn't need the
interpreter kills it.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from assay.errors import AssayError, InputError
from assay.files.json_files import Document, parse_json
from assay.records.evidence import Step, ToolCall
from assay.records.reading import read_record
from assay.records.typed import convert
from assay.running.compatibility import prepare
from assay.running.dataset import LoadedDataset, from_rows, read_dataset
from assay.running.post_run import after_of, code_of
from assay.running.runner import (
    BACKOFF_S,
    END_FIELDS,
    Runner,
    RunSettings,
    SampleWork,
    keep_forbidden,
    utc_now,
    work_of,
)
from assay.running.scorer_results import Scorer
from assay.running.scorers import PlacedScorer
from assay.running.workflow import read_workflow
from assay.scoring.profile import ProfileCriterion
from assay.tracing.failures import describe

SPARE_S = 10
"""How long after a call's time limit this process may be silent before it counts as hung."""
AFTER_S = 900
"""How long the measurements after a run may take."""
GRACE_S = 2
"""How long the work may take to end after a request to stop."""
MAX_EVENT = 1024 * 1024
MAX_RUN = 64 * 1024 * 1024
"""Bytes of one line; larger evidence is refused."""
MAX_STEPS = 20_000
"""Events of one run that are passed on."""
FAULT = 5
_encode = msgspec.json.Encoder(decimal_format="number").encode


class Wire:
    """The pipe to the server. Several threads may write."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._lock = threading.Lock()

    def send(self, **message: Any) -> None:
        """One message."""
        self.write(_encode(message))

    def write(self, line: bytes) -> None:
        """One line, written whole before anything goes on."""
        left = memoryview(line + b"\n")
        # without a server this process ends: see `_watch_for_end`
        with self._lock, contextlib.suppress(BrokenPipeError):
            while left:
                left = left[os.write(self._handle, left) :]


class ReportingRunner(Runner):
    """A runner that reports to a server."""

    def __init__(
        self,
        *arguments: Any,
        wire: Wire,
        execution: str,
        crashed: dict[str, str],
        tried: dict[str, list[dict[str, Any]]],
        **more: Any,
    ) -> None:
        """`tried` has the tool calls of runs that began in an earlier process."""
        super().__init__(*arguments, keep=self.finished, notify=self.happened, **more)
        self._wire = wire
        self._execution = execution
        self._crashed = crashed
        self._tried = tried
        self._heads: dict[str, dict[str, Any]] = {}
        self._counts: dict[str, int] = {}
        waits = sum(BACKOFF_S * 2**number for number in range(self._tries - 1))
        self.answer_s = self._timeout + SPARE_S
        self._whole_s = self._tries * self._timeout + waits + AFTER_S

    def _head(self, work: SampleWork, started: str) -> dict[str, Any]:
        head = super()._head(work, started)
        head["metadata"] = {**head["metadata"], "execution": self._execution}
        self._heads[work.run_id] = head
        return head

    async def run_sample(self, work: SampleWork) -> dict[str, Any]:
        """The evidence of one run. Measurements after it may hang too, so they share a limit."""
        try:
            async with asyncio.timeout(self._whole_s):
                run = await super().run_sample(work)
        except TimeoutError:
            run = self._instead(
                work.run_id,
                "timeout",
                f"the run and its measurements did not finish within {self._whole_s:g} s",
            )
        keep_forbidden(run, [{"tool_calls": self._tried.get(work.run_id, ())}])
        reason = self._crashed.get(work.run_id)
        if reason is None:
            return run
        # the process died once during this run, which is evidence too
        return {
            **run,
            "retries": (run.get("retries") or 0) + 1,
            "metadata": {**run.get("metadata", {}), "begun_again": reason},
        }

    def _instead(self, run_id: str, status: str, error: str) -> dict[str, Any]:
        head = self._heads[run_id]
        return {
            **head,
            "status": status,
            "finished_at": self._wall(),
            "metadata": {**head["metadata"], "error": error},
        }

    def happened(self, run_id: str, kind: str, fields: dict[str, Any]) -> None:
        """An event. The end of a run goes out with its evidence."""
        number = self._counts[run_id] = self._counts.get(run_id, 0) + 1
        if kind == "workflow_start":
            head = self._heads[run_id]
            self._wire.send(kind=kind, run_id=run_id, fields=fields, head=head, at=utc_now())
        elif kind != "workflow_end" and number <= MAX_STEPS:
            self._wire.write(_step_line(run_id, kind, fields))

    def finished(self, run: dict[str, Any]) -> None:
        """The evidence of a run."""
        run_id = run["run_id"]
        line = _end_line(run)
        if len(line) > MAX_RUN:
            size = f"the evidence is {len(line):,} bytes; the limit is {MAX_RUN:,}"
            line = _end_line(self._instead(run_id, "error", size))
        self._wire.write(line)
        self._heads.pop(run_id, None)
        self._counts.pop(run_id, None)


def _line(kind: str, run_id: str, fields: dict[str, Any], **more: Any) -> bytes:
    return _encode({"kind": kind, "run_id": run_id, "fields": fields, **more, "at": utc_now()})


def _end_line(run: dict[str, Any]) -> bytes:
    # an empty list of steps is written too, so that no reader falls back to the events
    return _line(
        "workflow_end",
        run["run_id"],
        {name: run.get(name) for name in END_FIELDS},
        run={**run, "steps": run.get("steps", [])},
    )


def _step_line(run_id: str, kind: str, fields: dict[str, Any]) -> bytes:
    """An event of a step. If a workflow's report of a step is nonsense or huge, only its name and
    how it ended are passed on.
    """
    step = fields["step"]
    try:
        if kind == "step_end":
            known = {key: value for key, value in step.items() if key != "index"}
            read_record(Document(known, "step"), Step, "RUN-006")
            for call in fields["tool_calls"]:
                read_record(Document(call, "call"), ToolCall, "RUN-006")
        line = _line(kind, run_id, fields)
        if len(line) <= MAX_EVENT:
            return line
    except (AssayError, TypeError, ValueError, OverflowError, RecursionError):
        pass
    brief = {"name": str(step["name"])[:200], "index": step["index"]}
    if kind == "step_start":
        return _line(kind, run_id, {"step": {**brief, "agent": None}})
    status = step.get("status") or "cancelled"
    return _line(kind, run_id, {"step": {**brief, "status": status}, "tool_calls": []})


# --- the process


def main() -> None:
    """Run what the first line says. The process ends without waiting for threads that a workflow
    left behind.
    """
    wire = Wire(os.dup(1))
    os.dup2(2, 1)
    stream = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    code = FAULT
    try:
        order = parse_json(stream.readline())
        _limit(order["memory_bytes"])
        faulthandler.enable()
        asyncio.run(_run(order, wire, stream))
    except AssayError as error:
        wire.send(kind="refused", message=error.message, code=error.code, fix=error.fix)
        code = 0
    except BaseException as error:
        sys.stderr.write(f"{describe(error)}\n")
    finally:
        _leave(code)


def _leave(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def _run(order: dict[str, Any], wire: Wire, stream: BinaryIO) -> None:
    _watch_for_end(stream, asyncio.current_task())
    workflow = read_workflow(order["workflow"])
    workflow.profile = order["profile"] or workflow.profile
    dataset = _dataset(order["dataset"])
    scorers = [
        PlacedScorer(convert(placed["scorer"], Scorer), Path(placed["folder"]), placed["where"])
        for placed in order["scorers"]
    ]
    code = code_of(workflow, scorers)
    digests = {"workflow": workflow.digest, "dataset": dataset.digest, "code": code}
    for what, digest in digests.items():
        accepted = order[f"{what}_digest"]
        if digest != accepted:
            raise InputError(
                "RUN-005",
                f"the {what} is not the one that this execution was accepted with: it is {digest},"
                f" and was {accepted}.",
                fix=f"Ask for a new execution, or restore the {what}.",
            )
    settings = RunSettings(
        order["name"],
        concurrency=order["concurrency"],
        repeat=order["repeat"],
        timeout_s=None if order["timeout_s"] is None else float(order["timeout_s"]),
        retries=order["retries"],
    )
    left = set(order["left"])
    runner = ReportingRunner(
        workflow,
        dataset,
        settings,
        after=after_of(
            workflow,
            criteria=convert(order["criteria"], list[ProfileCriterion]),
            scorers=scorers,
        ),
        wire=wire,
        execution=order["execution"],
        crashed=dict(order["crashed"]),
        tried=dict(order["tried"]),
    )
    alive = asyncio.create_task(_keep_alive(runner.answer_s))
    try:
        all_work = work_of(prepare(workflow, dataset), settings)
        await runner.run([work for work in all_work if work.run_id in left])
    finally:
        alive.cancel()
        faulthandler.cancel_dump_traceback_later()
    wire.send(kind="done")
    _leave(0)  # from within the loop, which would otherwise wait for a scorer that hangs


def _dataset(order: dict[str, Any]) -> LoadedDataset:
    if order.get("path") is not None:
        return read_dataset(order["path"])
    return from_rows(
        order["samples"], id=order["id"], version=order["version"], where="dataset.samples"
    )


async def _keep_alive(seconds: float) -> None:
    """Reset the timer that ends this process when it expires; neither the interpreter lock nor a
    blocked event loop stops it.
    """
    while True:
        faulthandler.dump_traceback_later(seconds, exit=True)
        await asyncio.sleep(min(1.0, seconds / 4))


def _watch_for_end(stream: BinaryIO, task: asyncio.Task[Any] | None) -> None:
    """End the work when the server closes its end of the pipe, or dies: first by cancelling, so
    that commands are ended too, then by force.
    """
    loop = asyncio.get_running_loop()

    def wait() -> None:
        with contextlib.suppress(OSError, ValueError):
            stream.read()
        if task is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
        time.sleep(GRACE_S)
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os._exit(FAULT)

    threading.Thread(target=wait, daemon=True, name="assay-end").start()


def _limit(memory: int | None) -> None:
    """Forbid core files, and limit the memory to what the operator allows."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory is not None:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        bound = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))


if __name__ == "__main__":
    main()
