"""The server's side of the process in which a workflow runs: starts it, reads what it reports, and
ends it with all its children.

The other side is `running.child`. Closing its standard input asks it to end; it reports in lines.
Every wait has a time limit, and the whole process group is killed at the end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from assay.errors import AssayError, InputError
from assay.files.json_files import parse_json
from assay.running.child import GRACE_S, MAX_RUN
from assay.sandbox.commands import how_ended, kill_group
from assay.server.settings import VARIABLE

Message = dict[str, Any]
Take = Callable[[Sequence[Message]], Awaitable[None]]

COMMAND = (sys.executable, "-P", "-m", "assay.running.child")
LEDGER_VARIABLES = (
    *(VARIABLE, "ASSAY_DB", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER"),
    *("PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE", "PGSSLCERT", "PGSSLKEY"),
)
"""They contain the address of the ledger and how to log in, which a workflow must not get."""
KINDS = ("workflow_start", "step_start", "step_end", "workflow_end")
MAX_LINE = 2 * MAX_RUN
"""Bytes in one line: evidence has its own limit, and a head may contain a large sample."""
AT_ONCE = 200
"""Messages that are recorded together."""
WAITING = 2000
"""Messages that may wait to be recorded; beyond that, the process waits."""
ROOM = 64 * 1024 * 1024
"""Bytes of messages that may wait."""
KEPT = 2000
"""Bytes kept from the end of its standard error."""


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    begun: int
    """Runs that began in it."""
    under_way: frozenset[str]
    """Runs that had begun and were not finished."""
    refused: AssayError | None
    frozen: bool
    errors: bytes
    """The end of its standard error."""

    @property
    def status(self) -> str:
        """The status of a run that took the process down with it."""
        return "timeout" if self.frozen else "error"

    @property
    def how(self) -> str:
        """A sentence on how it ended."""
        if self.frozen:
            return "stopped answering and was killed"
        return f"ended with {how_ended(self.code, self.errors)}"


class WorkflowProcess:
    """One process. `chosen` are the runs that it may report on."""

    def __init__(self, chosen: frozenset[str]) -> None:
        self._chosen = chosen
        self._process: asyncio.subprocess.Process | None = None
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING)
        self._waiting = 0
        self._room = asyncio.Event()
        self._under_way: set[str] = set()
        self._begun = 0
        self._refused: AssayError | None = None
        self._errors = b""
        self._frozen = False

    def stop(self) -> None:
        """Ask the process to end; `run` makes sure that it does."""
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()

    async def run(self, request: bytes, take: Take, *, stopped: Callable[[], bool]) -> Ended:
        """Start it, pass on its messages in order, and return how it ended."""
        environment = {
            name: value for name, value in os.environ.items() if name not in LEDGER_VARIABLES
        }
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
            env=environment,
            limit=MAX_LINE,
        )
        self._process = process
        tasks = [
            asyncio.create_task(work)
            for work in (
                self._send(process, request),
                self._lines(process),
                self._listen(process),
                self._end(process, stopped),
            )
        ]
        try:
            if stopped():
                self.stop()
            await self._pump(take)
            await self._gone(process)
        finally:
            for task in tasks:
                task.cancel()
            kill_group(process.pid)
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), GRACE_S)
        code = process.returncode if process.returncode is not None else -signal.SIGKILL
        return Ended(
            code,
            self._begun,
            frozenset(self._under_way),
            self._refused,
            self._frozen and code == 1,
            self._errors,
        )

    async def _send(self, process: asyncio.subprocess.Process, request: bytes) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(request + b"\n")
            await process.stdin.drain()

    async def _lines(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                self._waiting += len(line)
                await self._queue.put(line)
                while self._waiting > ROOM:
                    self._room.clear()
                    await self._room.wait()
        except ValueError:  # a line beyond the limit: the lines after it can't be found
            kill_group(process.pid)
        await self._queue.put(None)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while block := await process.stderr.read(65536):
            self._frozen = self._frozen or b"Timeout (" in block
            self._errors = (self._errors + block)[-KEPT:]

    async def _end(self, process: asyncio.subprocess.Process, stopped: Callable[[], bool]) -> None:
        """Kill a process that doesn't end when asked to, and any children that a dead process left
        behind.
        """
        while process.returncode is None and not stopped():
            await asyncio.sleep(0.1)
        if process.returncode is None:
            self.stop()
            await self._gone(process, GRACE_S + 1)
        kill_group(process.pid)
        await asyncio.sleep(GRACE_S)
        # A process that left the group may still have the pipe open; its output is not awaited.
        with suppress(asyncio.QueueFull):
            self._queue.put_nowait(None)

    async def _gone(self, process: asyncio.subprocess.Process, seconds: float = GRACE_S) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while process.returncode is None:
                    await asyncio.sleep(0.02)

    async def _pump(self, take: Take) -> None:
        over = False
        while not over:
            lines = [await self._queue.get()]
            while len(lines) < AT_ONCE and not self._queue.empty():
                lines.append(self._queue.get_nowait())
            over = None in lines
            messages = await asyncio.to_thread(
                _parsed, [line for line in lines if line is not None]
            )
            reports = [message for message in messages if self._counts(message)]
            if reports:
                await take(reports)
            self._waiting -= sum(len(line) for line in lines if line is not None)
            self._room.set()

    def _counts(self, message: Message) -> bool:
        """Whether a message is about a run that this process may report on. Updates the runs in
        progress.
        """
        kind, run_id = message.get("kind"), message.get("run_id")
        if kind == "refused":
            self._refused = InputError(
                str(message["code"]), str(message["message"]), fix=str(message["fix"])
            )
        if kind not in KINDS or run_id not in self._chosen:
            return False
        if kind == "workflow_start":
            self._under_way.add(str(run_id))
            self._begun += 1
        elif run_id not in self._under_way:
            return False
        elif kind == "workflow_end":
            self._under_way.discard(str(run_id))
        return True


def _parsed(lines: Sequence[bytes]) -> list[Message]:
    messages = []
    for line in lines:
        with suppress(ValueError):  # a line that was cut off when the process died
            tree = parse_json(line)
            if isinstance(tree, dict):
                messages.append(tree)
    return messages
