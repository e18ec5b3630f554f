"""Two processes beside the one that answers: one grades, one stores. So several cores work, and the
disk holds up nobody's answer.

A body goes from here to the process that grades, from there as drafts to the one that stores, and
what became of it comes back here:

    server --bodies--> side_grader --drafts--> side_keeper --answers--> server

Whatever they cannot do (a faulty document, a policy whose judges have cards, a database that is
away, their own end) they leave to the process that answers, which does the same with the same
functions and finds the words for what is wrong. So nothing depends on them but the pace: a record
is its digest, and what they had stored before they ended is found again and not stored twice.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.library.held import Held
from assay.server.frames import frame, frames
from assay.server.grading import Kept, Posted

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.server.logs import Log
    from assay.server.settings import Settings

AGAIN_S = 1.0
"""How long after their end the processes are started again."""
AGAIN_AT_MOST_S = 10.0
"""How long it may take after many starts in vain."""
PATIENT = 6
"""Starts in vain until the pause grows."""
STUCK_S = 20.0
"""How long no answer may come, while somebody waits, until the processes are held to be stuck and
are ended.
"""
MAX_WAITING = 10_000
"""Requests that may wait; then clients are asked to come again."""


class Setup(NamedTuple):
    """What the processes are told first."""

    library: Held | None
    """As the server found it when it started: whenever a process is started again, it grades by the
    same texts. The one that stores needs none.
    """
    db: str


class Asked(NamedTuple):
    """One body to grade and store."""

    project: str
    body: bytes
    author: str | None
    policy: str
    profile: str | None
    rubric: str | None
    rules: str
    """The digest of the policy as the process that answers has read it."""
    number: int = 0
    """Its own, and never used again: an answer that comes late, from processes that have ended, is
    nobody's.
    """


class Graded(NamedTuple):
    """One body, graded and not yet stored; None where the process that answers must do it
    itself.
    """

    number: int
    project: str
    posted: Posted | None


class Answer(NamedTuple):
    """What became of one body; None where the process that answers must do it itself."""

    number: int
    kept: Kept | None


class Lost(NamedTuple):
    """A body that went to the processes and ended with them: whether it was stored before is not
    known.
    """

    asked_at: datetime


_answers = msgspec.msgpack.Decoder(list[Answer]).decode


class Side:
    """The near end of both processes."""

    def __init__(self, settings: Settings, log: Log, library: Held) -> None:
        self._setup = Setup(library, settings.db)
        self._log = log
        self._numbers = count(1)
        self._line: _Line | None = None
        self._lines: list[_Line] = []
        """Those of which a process may still be there, the present one among them."""
        self._ending = False
        self._in_vain = 0
        self._starting: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether both run and have said so."""
        return self._line is not None and self._line.ready

    async def start(self) -> None:
        """Start the processes; until they say that they are ready, nothing is sent to them."""
        self._again()
        assert self._starting is not None
        await self._starting

    def _again(self) -> None:
        self._starting = asyncio.get_running_loop().create_task(self._begin())

    async def _begin(self) -> None:
        if self._ending:
            return
        line = self._line = _Line(self._ended)
        self._lines = [*(one for one in self._lines if not one.is_gone), line]
        try:
            await line.start(self._setup)
        except Exception as error:  # whatever it is, it is tried again
            self._log.fault("side", error)
            line.end()

    async def close(self) -> None:
        """End them; whoever waits is told to do without."""
        self._ending = True
        if self._line is not None:
            self._line.end()
        if self._starting is not None:
            await self._starting
        for line in self._lines:
            await line.gone()

    def hurry(self, within_s: float) -> None:
        """The server ends: what has not come back until then, this process does itself."""
        if self._line is not None:
            self._ending = True
            asyncio.get_running_loop().call_later(within_s, self._line.end)

    @property
    def is_full(self) -> bool:
        """Whether too many wait already."""
        return self._line is not None and self._line.waiting > MAX_WAITING

    async def ask(self, asked: Asked) -> Kept | Lost | None:
        """A body, graded and stored; None where this process must do it itself."""
        line = self._line
        if line is None or not line.ready:
            return None
        return await line.ask(asked._replace(number=next(self._numbers)))

    def _ended(self) -> None:
        line, self._line = self._line, None
        if not self._ending:
            self._in_vain = 0 if line is not None and line.was_ready else self._in_vain + 1
            pause_s = min(AGAIN_AT_MOST_S, AGAIN_S * 2 ** max(0, self._in_vain - PATIENT))
            self._log.write(
                "side",
                level="warning",
                message=(
                    f"a process beside this one ended; both are started again in {pause_s:g} s."
                ),
            )
            asyncio.get_running_loop().call_later(pause_s, self._again)


class _Waiting(NamedTuple):
    since: float
    told: asyncio.Future[Kept | Lost | None]


class _Line:
    """Both processes from their start to the end of either; with it the other ends too."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._processes: list[asyncio.SubprocessTransport] = []
        self._gone: list[asyncio.Event] = []
        self._buffer = bytearray()
        self._asked: list[Asked] = []
        self._waiting: dict[int, _Waiting] = {}
        self._watching: asyncio.TimerHandle | None = None
        self._heard_at = 0.0
        self._over = False
        self.was_ready = False

    @property
    def ready(self) -> bool:
        return self.was_ready and not self._over

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def start(self, setup: Setup) -> None:
        between = os.pipe()
        try:
            await self._start("side_keeper", stdin=between[0])
            if not self._over:
                await self._start("side_grader", stdout=between[1])
        finally:
            for end in between:
                os.close(end)
        if self._over:  # the end came while they were started
            for process in self._processes:
                process.close()
        else:
            self._write(frame(setup))

    async def _start(self, module: str, *, stdin: int = PIPE, stdout: int = PIPE) -> None:
        process = _Process(self)
        command = (
            sys.executable,
            "-P",
            "-m",
            f"assay.server.{module}",
        )  # what lies in the current folder is nobody's module
        transport, _ = await self._loop.subprocess_exec(
            lambda: process, *command, stdin=stdin, stdout=stdout, stderr=None
        )
        self._processes.append(transport)
        self._gone.append(process.gone)

    def pids(self) -> list[int]:
        return [process.get_pid() for process in self._processes]

    async def ask(self, asked: Asked) -> Kept | Lost | None:
        told: asyncio.Future[Kept | Lost | None] = self._loop.create_future()
        if not self._asked:
            self._loop.call_soon(
                self._send
            )  # what comes in the same turn of the loop goes in one frame
        self._asked.append(asked)
        self._waiting[asked.number] = _Waiting(self._loop.time(), told)
        if self._watching is None:
            self._watching = self._loop.call_later(STUCK_S / 4, self._watch)
        return await told

    def _watch(self) -> None:
        """End the processes where somebody waits and nothing has come for too long; look again
        where anybody waits.
        """
        self._watching = None
        oldest = next(iter(self._waiting.values()), None)
        if oldest is None or self._over:
            return
        if self._loop.time() - max(oldest.since, self._heard_at) > STUCK_S:
            self.end()
        else:
            self._watching = self._loop.call_later(STUCK_S / 4, self._watch)

    def _send(self) -> None:
        asked, self._asked = self._asked, []
        if asked and not self._over:
            self._write(frame(asked))

    def _write(self, data: bytes) -> None:
        pipe: Any = self._processes[1].get_pipe_transport(0)
        if pipe is not None and not pipe.is_closing():
            pipe.write(data)

    def heard(self, data: bytes) -> None:
        """Hand each answer to the one who asked for it."""
        if self._over:
            return  # last words: whoever waited was told to do without
        self._heard_at = self._loop.time()
        self._buffer += data
        for found in frames(self._buffer):
            self.was_ready = True
            for answer in _answers(found):
                waiting = self._waiting.pop(answer.number, None)
                if waiting is not None and not waiting.told.done():
                    waiting.told.set_result(answer.kept)

    def end(self) -> None:
        """One of the processes has ended, or shall: end both, and tell whoever waits to do
        without.
        """
        if self._over:
            return
        self._over = True
        for process in self._processes:
            process.close()
        unsent = {asked.number for asked in self._asked}
        self._asked.clear()
        if self._watching is not None:
            self._watching.cancel()
        left, self._waiting = self._waiting, {}
        began = datetime.now(UTC) - timedelta(seconds=self._loop.time())  # of the loop's clock
        for number, waiting in left.items():
            if not waiting.told.done():
                waiting.told.set_result(
                    None if number in unsent else Lost(began + timedelta(seconds=waiting.since))
                )
        self._ended()

    @property
    def is_gone(self) -> bool:
        return self._over and all(gone.is_set() for gone in self._gone)

    async def gone(self) -> None:
        for gone in self._gone:
            await gone.wait()


class _Process(asyncio.SubprocessProtocol):
    """One of the two, as the event loop sees it."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self.gone = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        try:
            self._line.heard(data)
        except Exception:  # what cannot be understood cannot be answered
            self._line.end()
            raise

    def process_exited(self) -> None:
        self.gone.set()
        self._line.end()
