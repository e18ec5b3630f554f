"""The side process itself: `python -m assay.server.side_main`. Frames in, frames out, until the process that answers closes the pipe or is gone."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress

import msgspec

from assay.errors import AssayError
from assay.library.shelf import Shelf
from assay.pipeline import Grader
from assay.server.grading import make_many
from assay.server.side import Answer, Asked, Setup, frame, frames

TOGETHER = 16
"""Bodies that are graded together, and answered in one frame."""
_PIPE = 1024 * 1024

Names = tuple[str, str | None, str | None]
"""Policy, profile and rubric."""


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
    graders: dict[Names, Grader] = {}
    shelf: Shelf | None = None
    waiting: list[Asked] = []
    while data := os.read(source, _PIPE):
        buffer += data
        for found in frames(buffer):
            if shelf is None:
                shelf = _shelf(msgspec.msgpack.decode(found, type=Setup))
                _write(sink, frame([]))
                continue
            waiting += _asked(found)
        while waiting:
            n = _alike(waiting)
            _write(sink, frame(_grade(waiting[:n], shelf, graders)))
            del waiting[:n]


_asked = msgspec.msgpack.Decoder(list[Asked]).decode


def _shelf(setup: Setup) -> Shelf:
    return Shelf(setup.library) if setup.library else Shelf()


def _alike(asked: list[Asked]) -> int:
    """How many at the start are to be graded in the same way for the same author."""
    first = asked[0][1:-1]
    return next((place for place, one in enumerate(asked[:TOGETHER]) if one[1:-1] != first), min(TOGETHER, len(asked)))


def _grade(asked: list[Asked], shelf: Shelf | None, graders: dict[Names, Grader]) -> list[Answer]:
    _, author, policy, profile, rubric, _ = asked[0]
    try:
        grader = graders.get((policy, profile, rubric))
        if grader is None:
            assert shelf is not None
            grader = graders[policy, profile, rubric] = Grader(shelf, policy=policy, profile=profile, rubric=rubric)
    except AssayError:  # the process that answers finds the same, and says it
        return [Answer(one.number, None) for one in asked]
    made = make_many([one.body for one in asked], grader, author=author)
    return [Answer(one.number, posted) for one, posted in zip(asked, made, strict=True)]


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
