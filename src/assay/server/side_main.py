"""The side process itself: `python -m assay.server.side_main`. Frames in, frames out, until the process that answers closes the pipe or is gone."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress

import msgspec

from assay.library.shelf import Shelf
from assay.pipeline import Grader
from assay.server.grading import Posted, make, read_body
from assay.server.side import Answer, Asked, Setup, frame, frames

TOGETHER = 8
"""Answers that go back in one frame."""
_PIPE = 1024 * 1024


def main() -> None:
    """Grade what comes."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # meant for the process that answers; when that is gone, the pipe ends
    source, sink = sys.stdin.fileno(), os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints, prints into the log and not between the frames
    _widen(source, sink)
    # What was loaded stays for good, and a grade leaves no circles behind: looking through it all for garbage again and again would be work for nothing.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    buffer = bytearray()
    graders: dict[tuple[str, str | None, str | None], Grader] = {}
    shelf: Shelf | None = None
    while data := os.read(source, _PIPE):
        buffer += data
        for found in frames(buffer):
            if shelf is None:
                shelf = _shelf(msgspec.msgpack.decode(found, type=Setup))
                _write(sink, frame([]))
                continue
            made: list[Answer] = []
            for one in _asked(found):
                made.append(Answer(one.number, _grade(one, shelf, graders)))
                if len(made) == TOGETHER:
                    _write(sink, frame(made))
                    made = []
            if made:
                _write(sink, frame(made))


_asked = msgspec.msgpack.Decoder(list[Asked]).decode


def _shelf(setup: Setup) -> Shelf:
    return Shelf(setup.library) if setup.library else Shelf()


def _grade(asked: Asked, shelf: Shelf, graders: dict[tuple[str, str | None, str | None], Grader]) -> Posted | None:
    names = (asked.policy, asked.profile, asked.rubric)
    try:
        grader = graders.get(names)
        if grader is None:
            grader = graders[names] = Grader(shelf, policy=asked.policy, profile=asked.profile, rubric=asked.rubric)
        return make(read_body(asked.body), grader, author=asked.author).posted
    except Exception:  # the process that answers does it again, and says what is wrong
        return None


def _write(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


def _widen(*pipes: int) -> None:
    """More room in the pipes, where the system gives it: fewer turns for the same bytes."""
    with suppress(ImportError, AttributeError, OSError):
        import fcntl

        for pipe in pipes:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main()
