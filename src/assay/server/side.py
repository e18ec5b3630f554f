"""Two processes beside the one that answers: one grades, one stores. So several cores work, and neither a large body nor the disk holds up anybody's answer.

A body goes from here to the process that grades, from there as drafts to the one that stores, and what became of it comes back here:

    server --bodies--> side_grader --drafts--> side_keeper --answers--> server

Whatever they cannot do (a faulty document, a policy whose judges have cards, a database that is away, their own end) they leave to the process that answers,
which does the same with the same functions and finds the words for what is wrong. So nothing depends on them but the pace: a record is its digest, and what
they had stored before they ended is found again and not stored twice.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.server.frames import frame, frames
from assay.server.grading import Kept, Posted

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.server.logs import Log
    from assay.server.settings import Settings

AGAIN_S = 1.0
"""How long after their end the processes are started again."""
STUCK_S = 20.0
"""How long an answer may take until the processes are held to be stuck, and are ended."""


class Setup(NamedTuple):
    """What the processes are told first."""

    library: str | None
    db: str


class Asked(NamedTuple):
    """One body to grade and store."""

    project: str
    body: bytes
    author: str | None
    policy: str
    profile: str | None
    rubric: str | None
    number: int = 0
    """Its own, and never used again: an answer that comes late, from processes that have ended, is nobody's."""


class Graded(NamedTuple):
    """One body, graded and not yet stored; None where the process that answers must do it itself."""

    number: int
    project: str
    posted: Posted | None


class Answer(NamedTuple):
    """What became of one body; None where the process that answers must do it itself."""

    number: int
    kept: Kept | None


_answers = msgspec.msgpack.Decoder(list[Answer]).decode


class Side:
    """The near end of both processes."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._setup = Setup(settings.library, settings.db)
        self._log = log
        self._numbers = count(1)
        self._line: _Line | None = None
        self._ending = False

    @property
    def ready(self) -> bool:
        """Whether both run and have said so."""
        return self._line is not None and self._line.ready

    async def start(self) -> None:
        """Start the processes; until they say that they are ready, nothing is sent to them."""
        if self._ending:
            return
        line = _Line(self._ended)
        try:
            await line.start(self._setup)
        except OSError as error:
            self._log.fault("side", error)
            line.end()
            return
        self._line = line

    async def close(self) -> None:
        """End them; whoever waits is told to do without."""
        self._ending = True
        if self._line is not None:
            line, self._line = self._line, None
            await line.close()

    async def ask(self, asked: Asked) -> Kept | None:
        """A body, graded and stored; None where this process must do it itself."""
        line = self._line
        if line is None or not line.ready:
            return None
        return await line.ask(asked._replace(number=next(self._numbers)))

    def _ended(self) -> None:
        self._line = None
        if not self._ending:
            self._log.write("side", level="warning", message="a process beside this one ended; both are started again.")
            loop = asyncio.get_running_loop()
            loop.call_later(AGAIN_S, lambda: loop.create_task(self.start()))


class _Waiting(NamedTuple):
    since: float
    told: asyncio.Future[Kept | None]


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
        self._over = False
        self.ready = False

    async def start(self, setup: Setup) -> None:
        between = os.pipe()
        try:
            await self._start("side_keeper", stdin=between[0])
            await self._start("side_grader", stdout=between[1])
        finally:
            for end in between:
                os.close(end)
        self._write(frame(setup))

    async def _start(self, module: str, *, stdin: int = PIPE, stdout: int = PIPE) -> None:
        process = _Process(self)
        command = (sys.executable, "-m", f"assay.server.{module}")
        transport, _ = await self._loop.subprocess_exec(lambda: process, *command, stdin=stdin, stdout=stdout, stderr=None)
        self._processes.append(transport)
        self._gone.append(process.gone)

    def pids(self) -> list[int]:
        return [process.get_pid() for process in self._processes]

    async def ask(self, asked: Asked) -> Kept | None:
        told: asyncio.Future[Kept | None] = self._loop.create_future()
        if not self._asked:
            self._loop.call_soon(self._send)  # what comes in the same turn of the loop goes in one frame
        self._asked.append(asked)
        self._waiting[asked.number] = _Waiting(self._loop.time(), told)
        if self._watching is None:
            self._watching = self._loop.call_later(STUCK_S / 4, self._watch)
        return await told

    def _watch(self) -> None:
        """End the processes where the oldest question has waited too long; look again where anybody waits."""
        self._watching = None
        oldest = next(iter(self._waiting.values()), None)
        if oldest is None or self._over:
            return
        if self._loop.time() - oldest.since > STUCK_S:
            self.end()
        else:
            self._watching = self._loop.call_later(STUCK_S / 4, self._watch)

    def _send(self) -> None:
        asked, self._asked = self._asked, []
        if asked:
            self._write(frame(asked))

    def _write(self, data: bytes) -> None:
        pipe: Any = self._processes[1].get_pipe_transport(0)
        if pipe is not None and not pipe.is_closing():
            pipe.write(data)

    def heard(self, data: bytes) -> None:
        """Hand each answer to the one who asked for it."""
        if self._over:
            return  # last words: whoever waited was told to do without
        self._buffer += data
        for found in frames(self._buffer):
            self.ready = True
            for answer in _answers(found):
                waiting = self._waiting.pop(answer.number, None)
                if waiting is not None and not waiting.told.done():
                    waiting.told.set_result(answer.kept)

    def end(self) -> None:
        """One of the processes has ended, or shall: end both, and tell whoever waits to do without."""
        if self._over:
            return
        self._over, self.ready = True, False
        for process in self._processes:
            process.close()
        self._asked.clear()
        if self._watching is not None:
            self._watching.cancel()
        left, self._waiting = self._waiting, {}
        for waiting in left.values():
            if not waiting.told.done():
                waiting.told.set_result(None)
        self._ended()

    async def close(self) -> None:
        self.end()
        for gone in self._gone:
            await gone.wait()


class _Process(asyncio.SubprocessProtocol):
    """One of the two, as the event loop sees it."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self.gone = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._line.heard(data)

    def process_exited(self) -> None:
        self.gone.set()
        self._line.end()
