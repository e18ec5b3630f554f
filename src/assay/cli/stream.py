"""Grading a stream: files in, results to every output, in the order of the input and in constant
memory.

Large .jsonl files are cut into blocks of lines that worker processes grade; the parent keeps the
order, finds duplicate run ids by a 128-bit digest, and writes. Outputs go to temporary files and
take their names only when the whole stream was good (or `--keep-going` was asked for).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter, deque
from contextlib import ExitStack
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from assay.cli.progress import Progress
from assay.errors import AssayError, Fault, InputError, ShelfError, printable
from assay.files.atomic import atomic_write
from assay.files.json_files import (
    MAX_LINE,
    Document,
    Unread,
    open_input,
    parse_line,
    read_json,
    stream_documents,
)
from assay.library.shelf import Shelf
from assay.pipeline.grading import Graded, Grader
from assay.records.grade import ENGINE, LETTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from assay.views.documents import Format

BLOCK = 512 * 1024
LARGE = 4 * 1024 * 1024
MAX_FAULTS = 200
"""Faults kept to be shown; all are counted."""


class Choice(NamedTuple):
    """Which profile, policy, rubric and library to grade with; small, so that it can be sent to a
    worker.
    """

    policy: str
    profile: str | None
    rubric: str | None
    library: str | None
    cards: tuple[str, ...] = ()
    """Files with the cards of judges."""
    now: datetime | None = None

    def grader(self) -> Grader:
        """A grader for this choice."""
        shelf = Shelf(self.library) if self.library else Shelf()
        return Grader(
            shelf,
            policy=self.policy,
            profile=self.profile,
            rubric=self.rubric,
            cards=read_cards(self.cards, now=self.now),
            now=self.now,
        )


def read_cards(paths: Iterable[str], *, now: datetime | None = None) -> list[dict[str, Any]]:
    """The cards of judges, each checked to be whole, and not to be made after `now`."""
    if not paths:
        return []
    from assay.judging.card import check_card

    return [
        check_card(read_json(path).tree, where=path, now=now or datetime.now(UTC)) for path in paths
    ]


class Piece(NamedTuple):
    """One graded document: what each output gets, and what the parent counts."""

    digest: bytes
    run_id: str
    file: str
    line: int | None
    grade: str
    passed: bool
    scoring: str
    outputs: tuple[bytes, ...]


class Block(NamedTuple):
    """Lines of one file."""

    file: str
    first: int
    lines: list[bytes]
    size: int


def run_id_digest(run_id: str) -> bytes:
    """128 bits that stand for a run id."""
    return blake2b(run_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Worker:
    """Grades documents and encodes the results for each output."""

    def __init__(self, choice: Choice, encoders: tuple[Callable[[Graded], bytes], ...]) -> None:
        self.grader = choice.grader()
        self.encoders = encoders

    def document(self, document: Document | Unread) -> Piece | list[Fault]:
        """One document, graded, or its faults."""
        if isinstance(document, Unread):
            return [document.fault]
        try:
            graded = self.grader.grade(document)
            grade = graded.grade
            outputs = tuple([encoder(graded) for encoder in self.encoders])
        except InputError as error:
            if isinstance(error, ShelfError) and error.of_shelf:
                raise
            return list(error.faults) or [
                Fault(
                    error.message,
                    code=error.code,
                    file=document.file,
                    line=document.line,
                    fix=error.fix,
                )
            ]
        return Piece(
            run_id_digest(grade.run_id),
            grade.run_id,
            document.file,
            document.line,
            grade.grade,
            grade.passed,
            grade.scoring_system,
            outputs,
        )

    def block(self, block: Block) -> list[Piece | list[Fault]]:
        """A block of lines, graded."""
        found = []
        # records hold no circles, and the collector would walk every one of them again and again
        gc.disable()
        try:
            for number, line in enumerate(block.lines, block.first):
                parsed = parse_line(line, block.file, number)
                if parsed is not None:
                    found.append(self.document(parsed))
        finally:
            gc.enable()
        return found


def _serve(pipe: Any, choice: Choice, formats: tuple[str, ...]) -> None:
    """A worker process: blocks in, results out, until the parent closes the pipe. An interrupt is
    the parent's to handle.
    """
    import multiprocessing
    import threading

    parent = multiprocessing.parent_process()
    if parent is not None:  # a parent that is killed takes its workers along
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    worker = Worker(choice, encoders(formats))
    while True:
        try:
            block = pipe.recv()
        except EOFError:
            return
        try:
            found: Any = worker.block(block)
        except Exception as error:  # the parent says what a fault of ours looks like
            found = error
        pipe.send(found)


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def encoders(formats: tuple[str, ...]) -> tuple[Callable[[Graded], bytes], ...]:
    """One function for each output, by its format; `text` is the line for a person."""
    from assay.views.documents import FORMATS

    # one payload serves all formats that need it
    cache: list[Any] = [None, None]

    def payload(graded: Graded) -> Any:
        if cache[0] is not graded:
            cache[0], cache[1] = graded, graded.payload()
        return cache[1]

    def of(name: str) -> Callable[[Graded], bytes]:
        if name == "text":
            return text_line
        piece = FORMATS[name]().piece
        return lambda graded: piece(payload(graded))

    return tuple([of(name) for name in formats])


def text_line(graded: Graded) -> bytes:
    """One line for a person: letter, score, verdict, run, and what went wrong."""
    grade = graded.grade
    why = ""
    if grade.hard_gate_failures:
        why = f"  gates: {', '.join(grade.hard_gate_failures)}"
    elif grade.floor_failures:
        why = f"  below floor: {', '.join(grade.floor_failures)}"
    elif not grade.passed:
        why = (
            "  no hard gate"
            if grade.reason == "no_hard_gates"
            else f"  below {grade.pass_threshold:g}"
        )
    return (
        f"{grade.grade}  {grade.score_units / 100:6.2f}  {'passed' if grade.passed else 'FAILED'} "
        f" {printable(grade.run_id)}{why}\n".encode("utf-8", "replace")
    )


class Totals:
    """What was counted over the whole stream."""

    def __init__(self, policy: str, grading: str = ENGINE["gradingSystem"]) -> None:
        self.policy = policy
        self.grading = grading
        self.scoring: set[str] = set()
        self.documents = 0
        self.passed = 0
        self.first_failed: str | None = None
        self.letters: Counter[str] = Counter()
        self.fault_count = 0
        self.faults: list[Fault] = []

    def add_faults(self, faults: Iterable[Fault]) -> None:
        """Count faults and keep the first of them."""
        for fault in faults:
            self.fault_count += 1
            if len(self.faults) < MAX_FAULTS:
                self.faults.append(fault)

    @property
    def graded(self) -> int:
        """How many documents have a grade."""
        return sum(self.letters.values())

    def counts(self, *, stopped: bool = False) -> dict[str, Any]:
        """The counts as they stand in `assay.grades/1`. A stream that failed as a whole has graded
        nothing.
        """
        graded, passed = (0, 0) if stopped else (self.graded, self.passed)
        return {
            "documents": self.documents,
            "graded": graded,
            "passed": passed,
            "failed": graded - passed,
            "faults": self.fault_count,
            "grades": {letter: 0 if stopped else self.letters.get(letter, 0) for letter in LETTERS},
            "policy": self.policy,
            "scoringSystem": ", ".join(sorted(self.scoring)) or ENGINE["scoringSystem"],
            "gradingSystem": self.grading,
        }


def grade_stream(
    files: list[str],
    choice: Choice,
    sinks: list[tuple[str, Format]],
    *,
    spool: IO[bytes],
    spool_format: str,
    spool_limit: int | None,
    keep_going: bool,
    jobs: int,
    found: Iterable[Piece | list[Fault]] | None = None,
) -> Totals:
    """Grade every document of the files, or take what was `found` already. Each sink is a path and
    its format; `spool` takes what standard output will show.
    """
    from assay.views.documents import FORMATS

    rules = choice.grader().rules
    totals = Totals(rules.policy, rules.grading_system)
    seen: set[bytes] = set()
    formats = (spool_format, *(os.path.splitext(path)[1] for path, _ in sinks))
    spooled = 0
    spool_joint = FORMATS[spool_format]().joint() if spool_format in FORMATS else b""
    with ExitStack() as stack:
        streams = []
        for path, form in sinks:
            stream = stack.enter_context(atomic_write(path))
            stream.write(form.head())
            streams.append((stream, form, form.onto(stream)))
        for piece in _graded(files, choice, formats, jobs) if found is None else found:
            totals.documents += 1
            if isinstance(piece, list):
                totals.add_faults(piece)
                continue
            if piece.digest in seen:
                fault = Fault(
                    f"the run id {piece.run_id!r} appears more than once.",
                    code="FIL-007",
                    file=piece.file,
                    line=piece.line,
                    path="run_id",
                )
                totals.add_faults([fault])
                continue
            seen.add(piece.digest)
            first = totals.graded == 0
            totals.letters[piece.grade] += 1
            totals.scoring.add(piece.scoring)
            totals.passed += piece.passed
            if not piece.passed and totals.first_failed is None:
                totals.first_failed = piece.run_id
            if totals.fault_count and not keep_going:
                continue  # the whole has failed: go on only to find the other faults
            if spool_limit is None or spooled < spool_limit:
                if not first and spool_joint:
                    spool.write(spool_joint)
                spool.write(piece.outputs[0])
                spooled += 1
            for (_, form, sink), data in zip(streams, piece.outputs[1:], strict=True):
                if not first:
                    sink.write(form.joint())
                sink.write(data)
        if (totals.fault_count and not keep_going) or not totals.graded:
            raise Stopped(totals)
        for stream, form, _ in streams:
            form.finish(stream, [fault.as_dict() for fault in totals.faults], totals.counts())
    return totals


class Stopped(
    Exception
):  # not an error: the stream has failed as a whole, and no output may take its name
    """The stream was read to its end and has faults, or nothing in it could be graded."""

    def __init__(self, totals: Totals) -> None:
        super().__init__("stopped")
        self.totals = totals


def _graded(
    files: list[str], choice: Choice, formats: tuple[str, ...], jobs: int
) -> Iterator[Piece | list[Fault]]:
    worker = Worker(choice, encoders(formats))
    for file in files:
        try:
            size = os.path.getsize(file) if file != "-" else 0
            if size >= LARGE and file.endswith((".jsonl", ".ndjson")):
                yield from (
                    _large(file, size, worker)
                    if jobs == 1
                    else _parallel(file, size, choice, formats, jobs)
                )
            else:
                for document in stream_documents(file):
                    yield worker.document(document)
        except ShelfError:
            raise
        except InputError as error:
            yield list(error.faults) or [
                Fault(error.message, code=error.code, file=error.where, fix=error.fix)
            ]
        except OSError as error:
            yield list(_unreadable(file, error))


def _unreadable(file: str, error: OSError) -> Iterator[Fault]:
    try:
        with open_input(file):
            yield Fault(f"cannot be read: {error.strerror or error}.", code="FIL-001", file=file)
    except InputError as worded:
        yield Fault(worded.message, code=worded.code, file=file, fix=worded.fix)


def _blocks(stream: IO[bytes], file: str) -> Iterator[Block]:
    """Blocks of whole lines. An endless line is cut at the limit, and ends the file."""
    first = number = 1
    lines: list[bytes] = []
    size = 0
    while line := stream.readline(MAX_LINE + 1):
        lines.append(line)
        size += len(line)
        number += 1
        if size >= BLOCK:
            yield Block(file, first, lines, size)
            lines, size, first = [], 0, number
        if len(line) > MAX_LINE:
            break
    if lines:
        yield Block(file, first, lines, size)


def _large(file: str, size: int, worker: Worker) -> Iterator[Piece | list[Fault]]:
    progress = Progress(size, file)
    with open_input(file) as stream:
        for block in _blocks(stream, file):
            yield from worker.block(block)
            progress.add(block.size)
    progress.end()


def _parallel(
    file: str, size: int, choice: Choice, formats: tuple[str, ...], jobs: int
) -> Iterator[Piece | list[Fault]]:
    """Blocks of lines through worker processes. Each worker has one block at a time, so memory
    stays bounded and no pipe can fill up from both ends.
    """
    import multiprocessing

    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    progress = Progress(size, file)
    workers: list[Any] = []
    busy: deque[tuple[Any, int]] = deque()
    try:
        with open_input(file) as stream:
            blocks = _blocks(stream, file)
            for block in islice(blocks, jobs):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_serve, args=(theirs, choice, formats), daemon=True
                )
                before = signal.pthread_sigmask(
                    signal.SIG_BLOCK, {signal.SIGINT}
                )  # which the worker ignores, but not from its first moment
                try:
                    process.start()
                    workers.append((process, ours))
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
                theirs.close()  # so that a worker that dies is seen as the end of its pipe
                _hand(ours, block, file)
                busy.append((ours, block.size))
            while busy:
                ours, done = busy.popleft()
                found = _take(ours, file)
                for block in islice(blocks, 1):
                    _hand(ours, block, file)
                    busy.append((ours, block.size))
                yield from found
                progress.add(done)
    finally:
        for process, ours in workers:
            process.kill()
            process.join()
            ours.close()
    progress.end()


def _hand(pipe: Any, block: Block, file: str) -> None:
    try:
        pipe.send(block)
    except OSError:
        raise _dead(file) from None


def _take(pipe: Any, file: str) -> list[Piece | list[Fault]]:
    try:
        found = pipe.recv()
    except (EOFError, OSError):
        raise _dead(file) from None
    if isinstance(found, Exception):
        raise found
    graded: list[Piece | list[Fault]] = found
    return graded


def _dead(file: str) -> AssayError:
    return AssayError(
        "ERR-002",
        "a worker process died, perhaps for lack of memory; nothing was written.",
        where=file,
        fix="Try again with --jobs 1.",
    )
