"""Large .jsonl files in blocks of lines, graded by worker processes in the order of the input."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from assay.errors import AssayError
from assay.files.json_files import MAX_LINE, StoredInput, open_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK = 512 * 1024
R = TypeVar("R")


class LineBlock(NamedTuple):
    """Lines of one file."""

    file: str
    first: int
    lines: list[bytes]
    size: int
    numbered: bool = True
    """Whether the numbers of the lines mean something to people."""


def read_blocks(file: str) -> Iterator[LineBlock]:
    """Blocks of whole lines. An endless line is cut at the limit, and ends the file."""
    first, size = 1, 0
    lines: list[bytes] = []
    numbered = not isinstance(file, StoredInput)
    with open_input(file) as stream:
        while line := stream.readline(MAX_LINE + 1):
            lines.append(line)
            size += len(line)
            if size >= BLOCK:
                yield LineBlock(str(file), first, lines, size, numbered)
                first, lines, size = first + len(lines), [], 0
            if len(line) > MAX_LINE:
                break
    if lines:
        yield LineBlock(str(file), first, lines, size, numbered)


def graded_blocks(
    file: str, make: Callable[[], Callable[[LineBlock], R]], jobs: int
) -> Iterator[R]:
    """What each block comes to, in order. `make` gives a worker process the function that grades.
    No more blocks are in memory than there are workers, and one that waits.
    """
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    blocks = read_blocks(file)
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_start, initargs=(make,)
    ) as pool:
        # a worker ignores an interrupt, which is the parent's to handle, but not from its first
        # moment
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            busy = deque(pool.submit(_grade, block) for block in islice(blocks, jobs + 1))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            while busy:
                graded = busy.popleft().result()
                busy.extend(pool.submit(_grade, block) for block in islice(blocks, 1))
                yield graded
        except BrokenProcessPool:
            raise AssayError(
                "ERR-002",
                "a worker process died, perhaps for lack of memory; nothing was written.",
                where=file,
                fix="Try again with --jobs 1.",
            ) from None
        finally:
            for future in busy:
                future.cancel()


# --- in a worker process

_grade_block: Callable[[LineBlock], Any]


def _start(make: Callable[[], Callable[[LineBlock], Any]]) -> None:
    global _grade_block
    parent = multiprocessing.parent_process()
    if parent is not None:  # a parent that is killed takes its workers along
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _grade_block = make()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _grade(block: LineBlock) -> Any:
    return _grade_block(block)
