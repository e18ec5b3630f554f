"""The process that grades beside a server: `python -m assay.server.side_grader`. Bodies in; drafts
out, to the process that stores (`side_keeper`).
"""

from __future__ import annotations

import gc
from contextlib import suppress

import msgspec

from assay.errors import AssayError
from assay.library.shelf import Shelf
from assay.pipeline.grading import Grader
from assay.records.contract import cheap_only
from assay.server.frames import own_ends
from assay.server.grading import make_many
from assay.server.side import Asked, Graded, Setup

TOGETHER = 8
"""Bodies that are graded together, and go on in one frame."""
TOGETHER_BYTES = 256 * 1024
"""How large they may be in all: whoever waits for the first does not wait for a large one behind
it.
"""
MAX_GRADERS = 64

Names = tuple[str, str | None, str | None]
"""Policy, profile and rubric."""

_asked = msgspec.msgpack.Decoder(list[Asked]).decode


def main() -> None:
    """Grade what comes."""
    ends = own_ends()
    # What was loaded stays for good, and a grade leaves no circles behind: looking through it all
    # for garbage again and again would be work for nothing.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    shelf: Shelf | None = None
    graders: dict[Names, Grader] = {}
    for found in ends.read():
        waiting: list[Asked] = []
        for one in found:
            if shelf is None:
                setup = msgspec.msgpack.decode(one, type=Setup)
                shelf = Shelf(held=setup.library)
                ends.write(setup._replace(library=None))
            else:
                waiting += _asked(one)
        while waiting:
            assert shelf is not None
            n = _alike(waiting)
            ends.write(_grade(waiting[:n], shelf, graders))
            del waiting[:n]


def _alike(asked: list[Asked]) -> int:
    """How many at the start are to be graded in the same way for the same author."""
    first, size = asked[0][2:-1], 0
    for place, one in enumerate(asked[:TOGETHER]):
        size += len(one.body)
        if one[2:-1] != first or (place and size > TOGETHER_BYTES):
            return place
    return min(TOGETHER, len(asked))


def _grade(asked: list[Asked], shelf: Shelf, graders: dict[Names, Grader]) -> list[Graded]:
    first = asked[0]
    names = (first.policy, first.profile, first.rubric)
    try:
        grader = graders.get(names)
        if grader is None:
            if len(graders) >= MAX_GRADERS:
                graders.clear()
            grader = graders[names] = Grader(
                shelf, policy=first.policy, profile=first.profile, rubric=first.rubric
            )
    except AssayError:  # the process that answers finds the same, and says it
        grader = None
    if (
        grader is None or grader.rules.digest != first.rules
    ):  # or it has read another text under the same name
        return [Graded(one.number, one.project, None) for one in asked]
    with (
        cheap_only()
        # all else the process that answers grades in a thread: here every other run would wait for
        # it
    ):
        made = make_many([one.body for one in asked], grader, author=first.author)
    return [
        Graded(one.number, one.project, posted) for one, posted in zip(asked, made, strict=True)
    ]


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main()
