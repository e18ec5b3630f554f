"""A process that runs a workflow for a server: `python -m assay.running.child`.

Its first line of standard input says what to run; the end of that stream says to stop. What happens
goes to what was its standard output, one JSON object a line; whatever a workflow prints goes to
standard error. A workflow may crash this process: what it had told is already in the pipe, because
every line is written before the work goes on. A workflow that stops this process from answering is
ended by a clock that needs no interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec

from assay.errors import AssayError, InputError
from assay.files.json_files import Document, parse_json
from assay.records.evidence import Step, ToolCall
from assay.records.reading import read_record
from assay.running.checks import said
from assay.running.compatibility import prepare
from assay.running.dataset import from_rows, read_dataset
from assay.running.post_run import after_of
from assay.running.runner import BACKOFF_S, Runner, Settings, work_of
from assay.running.workflow import read_workflow

if TYPE_CHECKING:
    from typing import BinaryIO

    from assay.running.dataset import Dataset
    from assay.running.runner import Work

SPARE_S = 10
"""How long after the time of a call this process may be without an answer before it is taken to
hang.
"""
AFTER_S = 900
"""How long what is measured after a run may take."""
GRACE_S = 2
"""How long the work may take to end when it is told to."""
MAX_EVENT = 1024 * 1024
MAX_RUN = 64 * 1024 * 1024
"""Bytes of one line; evidence that is larger is refused."""
MAX_STEPS = 20_000
"""Events of one run that are told."""
FAULT = 5
_encode = msgspec.json.Encoder(decimal_format="number").encode


class Wire:
    """What goes to the server. Several threads may write."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._lock = threading.Lock()

    def send(self, line: bytes) -> None:
        """One line, written whole before anything goes on."""
        left = memoryview(line + b"\n")
        with self._lock:
            try:
                while left:
                    left = left[os.write(self._handle, left) :]
            except (
                BrokenPipeError
            ):  # the server is gone, and so is the reason for this process: see `_hear_the_end`
                return


class Teller(Runner):
    """A runner that tells a server what happens."""

    def __init__(
        self, *arguments: Any, wire: Wire, execution: str, crashed: dict[str, str], **more: Any
    ) -> None:
        super().__init__(*arguments, keep=self.finished, tell=self.happened, **more)
        self._wire = wire
        self._execution = execution
        self._crashed = crashed
        self._heads: dict[str, dict[str, Any]] = {}
        self._counts: dict[str, int] = {}
        waits = sum(BACKOFF_S * 2**number for number in range(self._tries - 1))
        self.answer_s = self._timeout + SPARE_S
        self._whole_s = self._tries * self._timeout + waits + AFTER_S

    def _head(self, work: Work, started: str) -> dict[str, Any]:
        head = super()._head(work, started)
        head["metadata"] = {**head["metadata"], "execution": self._execution}
        self._heads[work.run_id] = head
        return head

    async def one(self, work: Work) -> dict[str, Any]:
        """The evidence of one run. What is measured after it may hang too, and then has its time as
        well.
        """
        try:
            async with asyncio.timeout(self._whole_s):
                run = await super().one(work)
        except TimeoutError:
            run = self._instead(
                work.run_id,
                "timeout",
                f"the run and what is measured after it were not done after {self._whole_s:g} s",
            )
        reason = self._crashed.get(work.run_id)
        if reason is not None:  # the process died once while this ran: that it did is evidence
            run = {
                **run,
                "retries": (run.get("retries") or 0) + 1,
                "metadata": {**run.get("metadata", {}), "begun_again": reason},
            }
        return run

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
        if kind == "workflow_end":
            return
        number = self._counts[run_id] = self._counts.get(run_id, 0) + 1
        if kind == "workflow_start":
            self._send(
                {"kind": kind, "run_id": run_id, "fields": fields, "head": self._heads[run_id]}
            )
        elif number <= MAX_STEPS:
            self._wire.send(_step(run_id, kind, fields))

    def finished(self, run: dict[str, Any]) -> None:
        """The evidence of a run."""
        run_id = run["run_id"]
        self._counts.pop(run_id, None)
        line = _ended(run)
        if len(line) > MAX_RUN:
            line = _ended(
                self._instead(
                    run_id,
                    "error",
                    f"the evidence is {len(line):,} bytes; the limit is {MAX_RUN:,}",
                )
            )
        self._wire.send(line)
        self._heads.pop(run_id, None)

    def _send(self, message: dict[str, Any]) -> None:
        self._wire.send(_encode({**message, "at": now()}))


def _ended(run: dict[str, Any]) -> bytes:
    fields = {
        name: run.get(name) for name in ("status", "latency_ms", "cost_usd", "tokens", "retries")
    }
    run = {
        **run,
        "steps": run.get("steps", []),
    }  # the evidence is whole: nobody is to look for steps among the events
    return _encode(
        {"kind": "workflow_end", "run_id": run["run_id"], "fields": fields, "run": run, "at": now()}
    )


def _step(run_id: str, kind: str, fields: dict[str, Any]) -> bytes:
    """An event of a step. What a workflow says of a step may be nonsense or huge: then only its
    name and how it ended are told.
    """
    step = fields["step"]
    try:
        if kind == "step_end":
            read_record(
                Document({key: value for key, value in step.items() if key != "index"}, "step"),
                Step,
                "RUN-006",
            )
            for call in fields["tool_calls"]:
                read_record(Document(call, "call"), ToolCall, "RUN-006")
        line = _encode({"kind": kind, "run_id": run_id, "fields": fields, "at": now()})
        if len(line) <= MAX_EVENT:
            return line
    except (AssayError, TypeError, ValueError, OverflowError, RecursionError):
        pass
    brief = {"name": str(step["name"])[:200], "index": step["index"]}
    brief.update(
        {"agent": None} if kind == "step_start" else {"status": step.get("status") or "cancelled"}
    )
    return _encode(
        {
            "kind": kind,
            "run_id": run_id,
            "fields": {"step": brief, **({"tool_calls": []} if kind == "step_end" else {})},
            "at": now(),
        }
    )


def now() -> str:
    """The moment it is, in UTC, to the millisecond."""
    seconds = time.time()
    return (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        + f".{int(seconds * 1000) % 1000:03d}Z"
    )


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
        asked = parse_json(stream.readline())
        _limit(asked["memory_bytes"])
        faulthandler.enable()
        asyncio.run(_run(asked, wire, stream))
    except AssayError as error:
        wire.send(
            _encode(
                {"kind": "refused", "message": error.message, "code": error.code, "fix": error.fix}
            )
        )
        code = 0
    except BaseException as error:
        sys.stderr.write(f"{said(error)}\n")
    finally:
        _leave(code)


def _leave(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def _run(asked: dict[str, Any], wire: Wire, stream: BinaryIO) -> None:
    _hear_the_end(stream, asyncio.current_task())
    workflow = read_workflow(asked["workflow"])
    dataset = _dataset(asked["dataset"])
    for what, found, wanted in (
        ("workflow", workflow.digest, asked["workflow_digest"]),
        ("dataset", dataset.digest, asked["dataset_digest"]),
    ):
        if found != wanted:
            fix = f"Ask for a new execution, or restore the {what}."
            raise InputError(
                "RUN-005",
                f"the {what} is not the one that this execution was accepted with: it is {found},"
                f" and was {wanted}.",
                fix=fix,
            )
    timeout = None if asked["timeout_s"] is None else float(asked["timeout_s"])
    settings = Settings(
        asked["name"],
        concurrency=asked["concurrency"],
        repeat=asked["repeat"],
        timeout_s=timeout,
        retries=asked["retries"],
    )
    wanted_ids = set(asked["left"])
    work = [
        one for one in work_of(prepare(workflow, dataset), settings) if one.run_id in wanted_ids
    ]
    crashed = dict(asked["crashed"])
    runner = Teller(
        workflow,
        dataset,
        settings,
        after=after_of(workflow),
        wire=wire,
        execution=asked["execution"],
        crashed=crashed,
    )
    alive = asyncio.create_task(_answer(runner.answer_s))
    try:
        await runner.run(work)
    finally:
        alive.cancel()
        faulthandler.cancel_dump_traceback_later()
    wire.send(_encode({"kind": "done"}))
    _leave(0)  # from within the loop, which would else wait for a scorer that hangs


def _dataset(asked: dict[str, Any]) -> Dataset:
    if asked.get("path") is not None:
        return read_dataset(asked["path"])
    return from_rows(
        asked["samples"], id=asked["id"], version=asked["version"], where="dataset.samples"
    )


async def _answer(seconds: float) -> None:
    """Wind up a clock that ends this process unless it is wound up again: neither a lock of the
    interpreter nor a blocked loop stops it.
    """
    while True:
        faulthandler.dump_traceback_later(seconds, exit=True)
        await asyncio.sleep(min(1.0, seconds / 4))


def _hear_the_end(stream: BinaryIO, task: asyncio.Task[Any] | None) -> None:
    """End the work when the server closes its end, by its will or its death: first in order, so
    that commands are ended too, then at once.
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
    """No core files, and no more memory than the operator gives."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory is not None:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, wanted))


if __name__ == "__main__":
    main()
