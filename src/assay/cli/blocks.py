"""Large .jsonl files in blocks of lines, graded by worker processes in the order of the input."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from assay.errors import AssayError
from assay.files.inputs import Source, open_input
from assay.files.json_files import read_lines
from assay.sandbox.safe_path import safe_path

BLOCK = 512 * 1024
R = TypeVar("R")


class LineBlock(NamedTuple):
    """Lines of one file that aren't blank, with their numbers."""

    file: str
    lines: list[tuple[int, bytes]]
    size: int
    numbered: bool = True
    """Whether the numbers of the lines mean something to people."""


def read_blocks(source: Source) -> Iterator[LineBlock]:
    """Blocks of whole lines. An endless line is cut at the limit, and ends the file."""
    lines, size = list[tuple[int, bytes]](), 0
    with open_input(source) as stream:
        for number, line in read_lines(stream):
            lines.append((number, line))
            size += len(line) + 1
            if size >= BLOCK:
                yield LineBlock(source.name, lines, size, source.numbered)
                lines, size = [], 0
    if lines:
        yield LineBlock(source.name, lines, size, source.numbered)


def graded_blocks(
    source: Source, make: Callable[[], Callable[[LineBlock], R]], jobs: int
) -> Iterator[R]:
    """The result of each block, in order. `make` gives a worker process the function that grades.
    No more blocks are in memory than there are workers.
    """
    blocks = read_blocks(source)
    workers: list[BlockWorker[R]] = []
    busy: deque[BlockWorker[R]] = deque()
    try:
        # a worker ignores an interrupt, which is the parent's to handle, but not from its first
        # moment
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            workers.extend(BlockWorker(make) for _ in range(jobs))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for worker, block in zip(workers, blocks, strict=False):
            worker.send(block)
            busy.append(worker)
        while busy:
            worker = busy.popleft()
            graded = worker.receive(source.name)
            for block in islice(blocks, 1):
                worker.send(block)
                busy.append(worker)
            yield graded
    finally:
        for worker in workers:
            worker.end()


class BlockWorker(Generic[R]):
    """A process that grades one block at a time.

    Each has its own pipe. In a shared queue, a worker that is killed while it writes would keep the
    lock, and the command would wait forever.
    """

    def __init__(self, make: Callable[[], Callable[[LineBlock], R]]) -> None:
        context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        self._link, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(make, theirs), daemon=True)
        with safe_path():
            self._process.start()
        theirs.close()  # now a worker that dies is the end of its pipe

    def send(self, block: LineBlock) -> None:
        """Give it a block, once it has answered for the last one."""
        with suppress(OSError):  # it died, and `receive` reports that
            self._link.send(block)

    def receive(self, file: str) -> R:
        """What it made of its block."""
        try:
            error, graded = self._link.recv()
        except (EOFError, OSError):
            raise AssayError(
                "ERR-002",
                "a worker process died, perhaps for lack of memory; nothing was written.",
                where=file,
                fix="Try again with --jobs 1.",
            ) from None
        if error is not None:
            raise error
        made: R = graded
        return made

    def end(self) -> None:
        """End the process."""
        self._link.close()
        self._process.terminate()
        self._process.join()


# --- in a worker process


def _serve(make: Callable[[], Callable[[LineBlock], Any]], link: Any) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:  # a parent that is killed takes its workers along
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    grade = make()
    with suppress(EOFError, OSError):  # the parent closed the pipe
        while True:
            link.send(_graded(grade, link.recv()))


def _graded(grade: Callable[[LineBlock], Any], block: LineBlock) -> tuple[Exception | None, Any]:
    try:
        return None, grade(block)
    except Exception as error:
        return error, None


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
