"""Grading in a process beside the one that answers: two cores work, and a large body holds up nobody's answer.

The side process reads, scores, grades and canonicalises; it stores nothing and knows no client. Whatever it cannot do (a faulty document, a policy whose
judges have cards, its own end) it leaves to the process that answers, which does the same with the same functions and finds the words for what is wrong. So
nothing depends on it but the pace.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.server.grading import Posted

if TYPE_CHECKING:
    from assay.server.logs import Log
    from assay.server.settings import Settings

HEAD = 4
"""Bytes that say how long a frame is."""
AGAIN_S = 1.0
"""How long after its end the process is started again."""


class Setup(NamedTuple):
    """What the process is told first."""

    library: str | None


class Asked(NamedTuple):
    """One body to grade."""

    body: bytes
    author: str | None
    policy: str
    profile: str | None
    rubric: str | None
    number: int = 0
    """Its own, and never used again: an answer that comes late, from a process that has ended, is nobody's."""


class Answer(NamedTuple):
    """What became of one body; None where the process that answers must do it itself."""

    number: int
    posted: Posted | None


_encode = msgspec.msgpack.Encoder(enc_hook=bytes).encode
_answers = msgspec.msgpack.Decoder(list[Answer]).decode


def frame(value: Any) -> bytes:
    """A value with its length before it. A body that is a kind of bytes goes as bytes."""
    data = _encode(value)
    return len(data).to_bytes(HEAD, "big") + data


def frames(buffer: bytearray) -> list[bytes]:
    r"""The whole frames at the start of a buffer, taken out of it.

    >>> frames(bytearray(frame("a") + frame("b") + b"\0"))
    [b'\xa1a', b'\xa1b']
    """
    found, start = [], 0
    while len(buffer) - start >= HEAD:
        end = start + HEAD + int.from_bytes(buffer[start : start + HEAD], "big")
        if end > len(buffer):
            break
        found.append(bytes(buffer[start + HEAD : end]))
        start = end
    del buffer[:start]
    return found


class SideGrader(asyncio.SubprocessProtocol):
    """The near end of the process."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._setup = Setup(settings.library)
        self._log = log
        self._buffer = bytearray()
        self._asked: list[Asked] = []
        self._waiting: dict[int, asyncio.Future[Posted | None]] = {}
        self._numbers = count(1)
        self._transport: asyncio.SubprocessTransport | None = None
        self._gone = asyncio.Event()
        self._ready = False
        self._ending = False

    async def start(self) -> None:
        """Start the process; until it says that it is ready, nothing is sent to it."""
        self._loop = asyncio.get_running_loop()
        if self._ending:
            return
        try:
            command = (sys.executable, "-m", "assay.server.side_main")
            await self._loop.subprocess_exec(lambda: self, *command, stderr=None)
        except OSError as error:
            self._log.fault("side", error)
            return
        self._write(frame(self._setup))

    def connection_made(self, transport: Any) -> None:
        """The process runs."""
        self._transport = transport
        self._gone.clear()

    async def close(self) -> None:
        """End it; whoever waits is told to do without."""
        self._ending = True
        if self._transport is not None:
            self._transport.close()
            await self._gone.wait()

    async def grade(self, asked: Asked) -> Posted | None:
        """A body, graded; None where this process must do it itself."""
        if not self._ready:
            return None
        told: asyncio.Future[Posted | None] = self._loop.create_future()
        if not self._asked:
            self._loop.call_soon(self._send)  # what comes in the same turn of the loop goes in one frame
        number = next(self._numbers)
        self._asked.append(asked._replace(number=number))
        self._waiting[number] = told
        return await told

    def _send(self) -> None:
        asked, self._asked = self._asked, []
        if self._ready:
            self._write(frame(asked))

    def _write(self, data: bytes) -> None:
        pipe: Any = None if self._transport is None else self._transport.get_pipe_transport(0)
        if pipe is not None and not pipe.is_closing():
            pipe.write(data)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Hand each answer to the one who asked for it."""
        if self._transport is None:
            return  # the last words of a process that has ended: whoever waited was told to do without
        self._buffer += data
        for found in frames(self._buffer):
            self._ready = True
            for answer in _answers(found):
                told = self._waiting.pop(answer.number, None)
                if told is not None and not told.done():
                    told.set_result(answer.posted)

    def process_exited(self) -> None:
        """The process has ended: whoever waits is told to do without, and it is started again."""
        self._ready = False
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        self._gone.set()
        self._buffer.clear()
        self._asked.clear()
        waiting, self._waiting = self._waiting, {}
        for told in waiting.values():
            if not told.done():
                told.set_result(None)
        if not self._ending:
            self._log.write("side", level="warning", message="the grading process ended; it is started again.")
            self._loop.call_later(AGAIN_S, lambda: self._loop.create_task(self.start()))
