"""Grading a stream: files in, results to every output, in the order of the input and in constant
memory.

Large .jsonl files are cut into blocks of lines that worker processes grade; the parent keeps the
order, finds duplicate run ids by a 128-bit digest, and writes. Outputs go to temporary files and
take their names only when the whole stream was good (or `--keep-going` was asked for).
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from hashlib import blake2b
from typing import IO, TYPE_CHECKING, Any

from msgspec import Struct, structs

from assay.cli.memory import uncollected
from assay.cli.progress import Progress
from assay.cli.totals import GradedPiece, Totals
from assay.errors import Fault, InputError, ShelfError
from assay.files.atomic import atomic_write
from assay.files.inputs import StoredInput
from assay.files.json_files import Document, Unread, parse_line, stream_documents
from assay.records.grade import is_graded
from assay.services.given_grades import grades_of
from assay.services.grading import Graded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from assay.cli.blocks import LineBlock
    from assay.release.pass_rate import PassBar
    from assay.services.choice import Choice
    from assay.views.exporters import Format

    _Make = Callable[[], Callable[[LineBlock], "BlockGrades"]]
    """Makes the function with which a worker process grades a block."""

LARGE = 4 * 1024 * 1024


class Output(Struct, frozen=True):
    """A file to write: its format, and the name of the exporter that makes the pieces for it."""

    path: str
    exporter: str
    form: Format


def output_of(path: str, exporter: str | None = None) -> Output:
    """A file to write, by the exporter of that name, else by the extension of the file."""
    from assay.views.exporters import EXPORTERS, FORMATS

    name = exporter or FORMATS[os.path.splitext(path)[1]]
    return Output(path, name, EXPORTERS[name].make())


class BlockGrades(Struct, frozen=True):
    """The results of a block of lines, and its size in bytes."""

    pieces: list[GradedPiece | list[Fault]]
    size: int


def run_id_digest(run_id: str) -> bytes:
    """128 bits that stand for a run id."""
    return blake2b(run_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def twice(run_id: str, file: str, line: int | None) -> Fault:
    """The fault of a run id that a stream has seen before."""
    return Fault(
        f"the run id {run_id!r} appears more than once.",
        code="FIL-007",
        file=file,
        line=line,
        path="run_id",
    )


class StreamWorker:
    """Grades documents and encodes the results for each output."""

    def __init__(self, choice: Choice, encoders: tuple[Callable[[Graded], bytes], ...]) -> None:
        self.grader = choice.grader()
        self.encoders = encoders
        self._settled: Callable[[Document], Document] = lambda document: document
        if choice.stored:
            from assay.services.storing import settled

            self._settled = settled

    def document(self, document: Document | Unread) -> GradedPiece | list[Fault]:
        """One run or scorecard, graded, or its faults."""
        if isinstance(document, Unread):
            return [document.fault]
        try:
            return self._piece(self.grader.grade(self._settled(document)), document)
        except InputError as error:
            return _faults_of(error, document)

    def pieces(self, document: Document | Unread) -> list[GradedPiece | list[Fault]]:
        """The results of one document; existing grades are recomputed one by one."""
        if isinstance(document, Unread) or not is_graded(document.tree):
            return [self.document(document)]
        try:
            return [
                self._piece(graded_run, document) for graded_run in grades_of(document, self.grader)
            ]
        except InputError as error:
            return [_faults_of(error, document)]

    def _piece(self, graded: Graded, document: Document) -> GradedPiece:
        grade, graded.document = graded.grade, document
        outputs = tuple([encoder(graded) for encoder in self.encoders])
        return GradedPiece(
            run_id_digest(grade.run_id),
            grade.run_id,
            document.file,
            document.line,
            grade.grade,
            grade.score_units,
            grade.passed,
            grade.scoring_system,
            run_id_digest(grade.sample),
            outputs,
        )

    def block(self, block: LineBlock) -> BlockGrades:
        """A block of lines, graded, and its size."""
        with uncollected():
            parsed = (parse_line(line, block.file, number) for number, line in block.lines)
            if not block.numbered:
                parsed = (
                    structs.replace(document, line=None)
                    if isinstance(document, Document)
                    else document
                    for document in parsed
                )
            pieces = [piece for document in parsed for piece in self.pieces(document)]
            return BlockGrades(pieces, block.size)


def _faults_of(error: InputError, document: Document) -> list[Fault]:
    """Why a document could not be graded. A fault of the shelf is not the document's, and ends
    everything.
    """
    if isinstance(error, ShelfError) and error.of_shelf:
        raise error
    return list(error.faults) or [
        Fault(error.message, code=error.code, file=document.file, line=document.line, fix=error.fix)
    ]


def _block_grader(choice: Choice, formats: tuple[str, ...]) -> Callable[[LineBlock], BlockGrades]:
    return StreamWorker(choice, encoders(formats)).block


def encoders(formats: tuple[str, ...]) -> tuple[Callable[[Graded], bytes], ...]:
    """One function for each output, by its exporter; `text` is what a line for a person shows."""
    from assay.canon import encode
    from assay.records.grade_line import as_line
    from assay.views.exporters import EXPORTERS, ResultSource

    # one payload serves all formats that need it
    cache: list[Any] = [None, None]

    def payload(graded: Graded) -> Any:
        if cache[0] is not graded:
            cache[0], cache[1] = graded, graded.payload()
        return cache[1]

    def of(name: str) -> Callable[[Graded], bytes]:
        if name == "text":
            return lambda graded: encode(as_line(graded.grade)) + b"\n"
        if name == "ledger":
            from assay.services.storing import ledger_line

            return lambda graded: ledger_line(graded, payload(graded))
        piece = EXPORTERS[name].make().piece_of
        return lambda graded: piece(payload(graded), ResultSource(graded.document, graded.run))

    return tuple([of(name) for name in formats])


def grade_stream(
    files: list[str],
    choice: Choice,
    outputs: list[Output],
    *,
    spool: IO[bytes],
    spool_format: str,
    spool_limit: int | None,
    keep_going: bool,
    jobs: int,
    found: Iterable[GradedPiece | list[Fault]] | None = None,
    bar: PassBar | None = None,
) -> Totals:
    """Grade every document of the files, or take what was `found` already. `spool` takes what
    standard output will show: of the documents that pass a fifth of `spool_limit`.
    """
    formats = (spool_format, *(output.exporter for output in outputs))
    worker = StreamWorker(choice, encoders(formats))
    rules = worker.grader.rules
    totals = Totals(rules.policy, rules.grading_system, bar=bar)
    seen: set[bytes] = set()
    spool_joint = b"" if spool_format == "text" else _joint(spool_format)
    with ExitStack() as stack:
        streams = []
        for output in outputs:
            form = output.form
            stack.callback(form.close)
            stream = stack.enter_context(atomic_write(output.path))
            stream.write(form.head())
            streams.append((stream, form, form.onto(stream)))
        make = partial(_block_grader, choice, formats)
        graded = _graded(files, worker, make, jobs, totals.empty) if found is None else found
        for piece in graded:
            totals.documents += 1
            if isinstance(piece, list):
                totals.add_faults(piece)
                continue
            if piece.digest in seen:
                totals.add_faults([twice(piece.run_id, piece.file, piece.line)])
                continue
            seen.add(piece.digest)
            first = totals.graded == 0
            totals.letters[piece.grade] += 1
            totals.scoring.add(piece.scoring)
            totals.passed += piece.passed
            if bar is not None:
                totals.samples[piece.sample] = piece.passed and totals.samples.get(
                    piece.sample, True
                )
            worst = totals.worst_failed
            if not piece.passed and (worst is None or piece.score < worst.score):
                totals.worst_failed = structs.replace(piece, outputs=())
            if totals.fault_count and not keep_going:
                continue  # the whole has failed: go on only to find the other faults
            shown = totals.shown[piece.passed] * (5 if piece.passed else 1)  # failures come first
            if spool_limit is None or shown < spool_limit:
                if not first and spool_joint:
                    spool.write(spool_joint)
                spool.write(piece.outputs[0])
                totals.shown[piece.passed] += 1
            for (_, form, sink), data in zip(streams, piece.outputs[1:], strict=True):
                if not first:
                    sink.write(form.joint())
                sink.write(data)
        if (totals.fault_count and not keep_going) or not totals.graded:
            raise Stopped(totals)
        for stream, form, _ in streams:
            form.finish(stream, totals.listed(), totals.counts())
    return totals


def _joint(exporter: str) -> bytes:
    from assay.views.exporters import EXPORTERS

    return EXPORTERS[exporter].make().joint()


class Stopped(Exception):
    """The stream was read to its end and has faults, or nothing in it could be graded. It has
    failed as a whole: no output may take its name.
    """

    def __init__(self, totals: Totals) -> None:
        super().__init__("stopped")
        self.totals = totals


def _graded(
    files: list[str], worker: StreamWorker, make: _Make, jobs: int, empty: list[Fault]
) -> Iterator[GradedPiece | list[Fault]]:
    """What each file gives; `empty` takes the files that give nothing."""
    for file in files:
        piece = None
        for piece in _graded_file(file, worker, make, jobs):
            yield piece
        if piece is None:
            empty.append(Fault("the file is empty.", code="FIL-005", file=file))


def _graded_file(
    file: str, worker: StreamWorker, make: _Make, jobs: int
) -> Iterator[GradedPiece | list[Fault]]:
    try:
        size = file_size(file)
        read_from = file.file if isinstance(file, StoredInput) else file
        if size >= LARGE and read_from.endswith((".jsonl", ".ndjson")):
            from assay.cli.blocks import graded_blocks, read_blocks

            progress = Progress(size, file)
            graded = (
                map(worker.block, read_blocks(file))
                if jobs == 1
                else graded_blocks(file, make, jobs)
            )
            for block in graded:
                yield from block.pieces
                progress.add(block.size)
            progress.end()
        else:
            for document in stream_documents(file):
                yield from worker.pieces(document)
    except ShelfError:
        raise
    except InputError as error:
        yield error.listed()
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}."
        yield [Fault(reason, code="FIL-001", file=file)]


def file_size(path: str) -> int:
    """The bytes of a file; 0 for standard input, and where nobody knows."""
    try:
        read_from = path.file if isinstance(path, StoredInput) else path
        return os.path.getsize(read_from) if path != "-" else 0
    except OSError:
        return 0
