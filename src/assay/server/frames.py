"""What processes beside each other say through their pipes: values as MessagePack, each with its
length before it.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = 4
"""Bytes that say how long a frame is."""
PIPE = 1024 * 1024
"""Bytes that are read at once, and that a pipe holds where the system gives it that much room."""

_encode = msgspec.msgpack.Encoder(enc_hook=bytes).encode


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


class Ends(NamedTuple):
    """The two ends of a process: what it reads and what it writes."""

    source: int
    sink: int

    def read(self) -> Iterator[list[bytes]]:
        """The frames that have come, again and again, until nobody is left to send any."""
        buffer = bytearray()
        while data := os.read(self.source, PIPE):
            buffer += data
            yield frames(buffer)

    def write(self, value: Any) -> None:
        """Send a value."""
        view = memoryview(frame(value))
        while view:
            view = view[os.write(self.sink, view) :]


def own_ends() -> Ends:
    """The ends of this process, which is ended by the end of what it reads and by nothing else."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(
            number, signal.SIG_IGN
        )  # meant for the process that answers; when that is gone, the pipe ends
    found = Ends(sys.stdin.fileno(), os.dup(sys.stdout.fileno()))
    os.dup2(
        sys.stderr.fileno(), sys.stdout.fileno()
    )  # whatever prints, prints into the log and not between the frames
    for pipe in found:
        with suppress(
            ImportError, AttributeError, OSError
        ):  # more room in the pipes: fewer turns for the same bytes; not every end is a pipe
            import fcntl

            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE)
    return found
