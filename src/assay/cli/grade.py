"""`assay grade`: runs and scorecards to every output, in the order of the input and in
constant memory.

Large .jsonl files are cut into blocks of lines that worker processes grade; the parent keeps the
order, finds duplicate run ids by a 128-bit digest, and writes. Outputs go to temporary files and
take their names only when the whole stream was good (or `--keep-going` was asked for).
"""

from __future__ import annotations

import io
import os
import shlex
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, structs

from assay.canon import encode
from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.frame import BARS, CHOICES, STORE, Command
from assay.cli.hints import GRADED_BY, command, is_one_file, release_step
from assay.cli.ledger import stored_stream
from assay.cli.memory import uncollected
from assay.cli.parsing import Options
from assay.cli.progress import Progress
from assay.errors import (
    AssayError,
    ExitCode,
    Fault,
    InputError,
    NotEnoughEvidence,
    ShelfError,
    count,
    printable,
)
from assay.files.atomic import atomic_write
from assay.files.inputs import Source, listed, open_input
from assay.files.json_files import Document, Unread, parse_line, read_lines, stream_documents
from assay.records.grade import ENGINE, LETTERS, is_graded
from assay.records.grade_line import GradeLine, as_line
from assay.records.summary import ValueInterval, value_interval
from assay.sandbox.safe_path import safe_path
from assay.services.choice import Choice
from assay.services.given_grades import grades_of
from assay.services.grading import Graded
from assay.services.regraded import regraded_in
from assay.views.documents import JsonDocument, JsonLines
from assay.views.evaluation import import_notes, unchecked, versioned
from assay.views.exporters import EXPORTERS, FORMATS, ReportTitle, ResultSource, format_of
from assay.views.grade_line import bar_text, lines_table, totals_text, versions_text
from assay.views.otel_export import Outbox

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from assay.records.evaluation import Evaluation, VersionedName
    from assay.release.pass_rate import BarResult, PassBar
    from assay.services.storing import EvaluationBuilder
    from assay.views.exporters import Format


MAX_FAULTS = 200
"""Faults kept to be shown; all are counted."""


class GradedPiece(Struct, frozen=True):
    """One graded document: what each output gets, and what the parent counts."""

    digest: bytes
    run_id: str
    file: str
    line: int | None
    grade: str
    score: int
    """In the units of `exact`; only the order of scores counts here."""
    passed: bool
    scoring: str
    sample: bytes
    """A key for the sample, the same for all its repeats."""
    outputs: tuple[bytes, ...]


class Totals:
    """What was counted over the whole stream."""

    def __init__(
        self, policy: str, grading: str = ENGINE["gradingSystem"], *, bar: PassBar | None = None
    ) -> None:
        self.policy = policy
        self.grading = grading
        self.bar = bar
        self.samples: dict[bytes, bool] = {}
        """Whether every repeat of a sample passed; counted only where there is a bar."""
        self.scoring: set[str] = set()
        self.documents = 0
        self.empty: list[Fault] = []
        """The files without a single document. Nothing passes while there is one."""
        self.passed = 0
        self.worst_failed: GradedPiece | None = None
        self.letters: Counter[str] = Counter()
        self.shown: Counter[bool] = Counter()
        """How many that passed, and that failed, standard output shows."""
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

    def listed(self) -> list[dict[str, Any]]:
        """What documents list as faults: the kept ones, and the empty files."""
        return [fault.as_dict() for fault in (*self.faults, *self.empty)]

    def counts(self, *, stopped: bool = False) -> dict[str, Any]:
        """The counts in the form of `assay.grades/1`. A stream that failed as a whole has graded
        nothing.
        """
        graded, passed = (0, 0) if stopped else (self.graded, self.passed)
        result = None if stopped else self.check_bar()
        return {
            "documents": self.documents,
            "graded": graded,
            "passed": passed,
            "failed": graded - passed,
            "faults": self.fault_count + len(self.empty),
            "grades": {letter: 0 if stopped else self.letters.get(letter, 0) for letter in LETTERS},
            "policy": self.policy,
            "scoringSystem": ", ".join(sorted(self.scoring)) or ENGINE["scoringSystem"],
            "gradingSystem": self.grading,
            **({} if result is None else {"bar": result.shown()}),
        }

    def check_bar(self) -> BarResult | None:
        """Whether enough samples passed; None if no bar is set."""
        if self.bar is None:
            return None
        from assay.release.pass_rate import check_pass_rate  # only where a bar is set

        return check_pass_rate(sum(self.samples.values()), len(self.samples), self.bar)


def exit_code(totals: Totals) -> int:
    """PASSED if all runs pass, or as many samples as the bar requires."""
    result = totals.check_bar()
    return ExitCode.of(totals.passed == totals.graded if result is None else result.holds)


def pass_bar(options: Options) -> PassBar | None:
    """The bar on the pass rate that the options set; None if there is none."""
    least, confidence = (getattr(options, name, None) for name in ("min_pass_rate", "confidence"))
    if least is None and confidence is None:
        return None
    from assay.release.pass_rate import PassBar

    return PassBar.of(least, confidence)


def faults_error(totals: Totals, *, stopped: bool) -> InputError:
    """One error for all the faults of the stream; the first twenty are shown, all are counted."""
    files = list(dict.fromkeys(fault.file for fault in totals.faults))
    first = totals.faults[0]
    shown = totals.faults[:20]
    if len(files) > 1:
        for fault in shown:
            fault.path = f"{fault.file} {fault.path}".rstrip()
    error = InputError(
        first.code,
        first.text(),
        where=files[0] if len(files) == 1 else f"{len(files)} files",
        fix=first.fix,
        faults=shown,
    )
    error.fault_count = totals.fault_count
    profile = f"{os.path.splitext(files[0] or '')[0]}.profile.yaml"
    if first.code == "SCO-010" and len(files) == 1 and os.path.isfile(profile):
        error.advice = (
            f"There is a profile next to the runs: give --profile {shlex.quote(profile)}."
        )
        return error
    if stopped and totals.graded:
        error.advice = "Nothing was graded; --keep-going grades the rest and still exits 3."
    elif totals.graded:
        error.advice = "The rest was graded."
    return error


if TYPE_CHECKING:
    _Make = Callable[[], Callable[["LineBlock"], "BlockGrades"]]
    """Makes the function with which a worker process grades a block."""


LARGE = 4 * 1024 * 1024


class Output(Struct, frozen=True):
    """A file to write: its format, and the name of the exporter that makes the pieces for it."""

    path: str
    exporter: str
    form: Format


def output_of(path: str, exporter: str | None = None) -> Output:
    """A file to write, by the exporter of that name, else by the extension of the file."""
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
            parsed = (
                parse_line(line, block.file, number if block.numbered else None)
                for number, line in block.lines
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
    files: Sequence[Source],
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
    return EXPORTERS[exporter].make().joint()


class Stopped(Exception):
    """The stream was read to its end and has faults, or nothing in it could be graded. It has
    failed as a whole: no output may take its name.
    """

    def __init__(self, totals: Totals) -> None:
        super().__init__("stopped")
        self.totals = totals


def _graded(
    files: Sequence[Source], worker: StreamWorker, make: _Make, jobs: int, empty: list[Fault]
) -> Iterator[GradedPiece | list[Fault]]:
    """What each file gives; `empty` takes the files that give nothing."""
    for file in files:
        piece = None
        for piece in _graded_file(file, worker, make, jobs):
            yield piece
        if piece is None:
            empty.append(Fault("the file is empty.", code="FIL-005", file=file.name))


def _graded_file(
    file: Source, worker: StreamWorker, make: _Make, jobs: int
) -> Iterator[GradedPiece | list[Fault]]:
    try:
        size = file_size(file)
        if size >= LARGE and file.path.endswith((".jsonl", ".ndjson")):
            progress = Progress(size, file.name)
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
        yield [Fault(reason, code="FIL-001", file=file.name)]


def file_size(source: Source) -> int:
    """The bytes of a file; 0 for standard input, and where nobody knows."""
    try:
        return os.path.getsize(source.path) if source.path != "-" else 0
    except OSError:
        return 0


SMALL = 256 * 1024
SHOWN = 50
"""Lines of failures that a terminal gets; the rest go to files."""
_line = msgspec.json.Decoder(GradeLine).decode


class GradedChoice(NamedTuple):
    """What the options choose to grade by."""

    choice: Choice
    warned: Sequence[str] = ()
    """The sentences on evaluations that were graded by other rules, as they were printed."""


def choice_of(options: Options) -> Choice:
    """The choice of profile, policy, rubric and library that the options make. Evaluations that
    were graded by other rules are named on standard error.
    """
    return graded_choice(options).choice


def graded_choice(options: Options, *, of_tool: bool = False) -> GradedChoice:
    """The same with what was printed. `of_tool` says that another tool's metrics make the profile,
    which what a team's scorers add does not belong to.
    """
    choice = Choice(
        options.grading_policy if "grading_policy" in options else options.policy,
        options.profile if of_tool else asked_profile(options, options.profile),
        options.rubric,
        options.library or os.environ.get("ASSAY_LIBRARY"),
        tuple(options.judge_card),
        opt.moment(options.now),
    )
    if not options.resolved.stored:
        return GradedChoice(choice)

    return GradedChoice(choice, warn_of_regrading(options, choice))


def asked_profile(options: Options, profile: str | None) -> str | None:
    """The profile that is asked for; where `assay.yaml` declares scorers, with what they add.
    Another tool's results are graded by what that tool measured.
    """
    config = options.config
    if (
        options.resolved.made is not None
        or config is None
        or not (config.spec.scorers or config.spec.gates)
    ):
        return profile
    from assay.project.settings import required_by  # only where scorers are declared

    return required_by(config, profile, opt.shelf_of(options), scratch=options.scratch)


def run(options: Options) -> int:
    """Grade the files that the options name, write the outputs, and report the result."""
    with Grading(options) as grading:
        return grading.finish()


class Grading:
    """Everything that grading into outputs needs, made ready before it: a verb that first makes its
    evidence can grade each run as it comes.

    `finish` takes pieces that were graded already, else it reads the files. With a `builder` an
    evaluation is made of the runs, which `show` prints instead of the grades. Use it as a context.
    """

    def __init__(
        self,
        options: Options,
        *,
        builder: EvaluationBuilder | None = None,
        show: Callable[[Evaluation], None] | None = None,
    ) -> None:
        self._options = options
        self._show = show
        self._builder = builder
        self._stack = ExitStack()
        self._bar = pass_bar(options)
        self._sinks = [output_of(path) for path in opt.outputs(options)]
        self._spool_format = "json" if options.json else "text"

    def __enter__(self) -> Grading:
        with ExitStack() as stack:
            self._spool = stack.enter_context(_spool(self._options))
            self._summary = opt.step_summary(self._options)
            if self._summary is not None:
                import tempfile

                path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "page.md")
                self._page = Output(path, "markdown", format_of(path))
                self._sinks.append(self._page)
            self._report = self._charting(stack)
            self._choice = choice_of(self._options)
            self._title_reports()
            self._stored = stored_stream(self._options, self._choice, stack, builder=self._builder)
            if self._stored is not None:
                self._choice = self._stored.choice
                self._sinks.append(Output(self._stored.path, "ledger", JsonLines()))
            self._outbox = Outbox.of(self._options.otlp_endpoint, stack)
            if self._outbox is not None:
                self._sinks.append(Output(self._outbox.path, "jsonl", JsonLines()))
            self._stack = stack.pop_all()
        return self

    def _charting(self, stack: ExitStack) -> Any:
        """The report whose charts are asked for: the one that is written anyway, else one that is
        thrown away; None if none are.
        """
        if not getattr(self._options, "charts", None):
            return None
        written = next((sink.form for sink in self._sinks if sink.exporter == "html"), None)
        if written is None:
            import tempfile

            written = format_of("charts.html")
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            self._sinks.append(Output(os.path.join(folder, "charts.html"), "html", written))
        return written

    def _title_reports(self) -> None:
        """Give every report its title."""
        reports = [sink.form for sink in self._sinks if sink.exporter in ("html", "markdown")]
        if not reports:
            return

        title = report_title(self._options, self._builder)
        for form in reports:
            form.about(title)

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def worker(self, *more: Callable[[Graded], bytes]) -> StreamWorker:
        """Grades documents into pieces for `finish`; `more` are called with each grade too, and
        their results come last in its outputs.
        """
        formats = (self._spool_format, *(sink.exporter for sink in self._sinks))
        return StreamWorker(self._choice, (*encoders(formats), *more))

    @property
    def stored(self) -> bool:
        """Whether the grades are in a ledger, after `finish`."""
        return self._stored is not None and self._stored.stored

    @property
    def evaluation(self) -> Evaluation | None:
        """The evaluation of the runs, after `finish`; None if no builder was given for it, or if
        nothing was graded.
        """
        return None if self._stored is None else self._stored.evaluation

    def finish(
        self,
        found: Iterable[GradedPiece | list[Fault]] | None = None,
        *,
        finished: datetime | None = None,
    ) -> int:
        """Write the outputs, report the result, and return the exit code. `finished` is when the
        evaluation ended, if one is made.
        """
        options, bar = self._options, self._bar
        try:
            totals = grade_stream(
                options.files,
                self._choice,
                list(self._sinks),
                spool=self._spool,
                spool_format=self._spool_format,
                spool_limit=None if options.json else SHOWN,
                keep_going=options.keep_going,
                jobs=options.jobs,
                found=found,
                bar=bar,
            )
            stopped = False
        except Stopped as end:
            totals, stopped = end.totals, True
        except ShelfError as error:
            totals = Totals(options.policy)
            totals.add_faults(error.listed())
            if options.json:
                _print_document(None, totals)
            self._append_summary(totals, stopped=True)
            raise
        if self._stored is not None and not stopped:
            self._stored.put(finished=finished)
        if self._outbox is not None and not stopped and (warning := self._outbox.send().warning):
            opt.note(warning)
        if self._report is not None and not stopped:
            from assay.views.drawing import write_charts

            write_charts(self._report.charts(), options.charts)
        if options.json:
            _print_document(self._spool if not stopped else None, totals)
        elif self._show is not None and self.evaluation is not None:
            sys.stdout.flush()
            self._show(self.evaluation)
            if (result := totals.check_bar()) is not None:
                sys.stdout.write(f"{bar_text(result.shown())}\n")
        elif not stopped:
            self._spool.seek(0)
            sys.stdout.flush()
            _print_lines(self._spool.read())
            _print_totals(totals, options)
        if not stopped:
            opt.report_written(options, options.output)
        self._append_summary(totals, stopped=stopped)
        if totals.fault_count:
            raise faults_error(totals, stopped=stopped)
        if not totals.graded:
            raise NotEnoughEvidence(
                "FIL-005",
                "there is nothing to grade.",
                where=listed(options.files),
                fix="An empty input never passes.",
            )
        code = exit_code(totals)
        if not code and totals.empty:  # the job that was to fill it did not run
            raise NotEnoughEvidence(
                "FIL-005",
                totals.empty[0].message,
                where=totals.empty[0].file,
                fix="An empty input never passes. Leave it out if nothing belongs in it.",
            )
        return code

    def _append_summary(self, totals: Totals, *, stopped: bool) -> None:
        """Add to what other steps wrote; even if nothing was graded, so that an empty page isn't
        mistaken for a pass.
        """
        if self._summary is None:
            return
        if stopped:
            page = self._page.form.foot(totals.listed(), totals.counts(stopped=True))
        else:
            with open(self._page.path, "rb") as stream:
                page = stream.read()
        opt.append_summary(self._summary, page + b"\n")


def _spool(options: Options) -> Any:
    """The buffer for standard output until the whole stream was read: memory for a few lines, a
    file for a large document.
    """
    if not options.json or (
        all(source.path != "-" for source in options.files)
        and sum(map(file_size, options.files)) < SMALL
    ):
        return io.BytesIO()
    import tempfile

    return tempfile.TemporaryFile()


def _print_document(spool: Any, totals: Totals) -> None:
    form = JsonDocument()
    out = sys.stdout.buffer
    out.write(form.head())
    if spool is not None:
        spool.seek(0)
        while block := spool.read(1024 * 1024):
            out.write(block)
    out.write(form.foot(totals.listed(), totals.counts(stopped=spool is None)))
    out.flush()


def _print_lines(data: bytes) -> None:
    lines = [_line(line) for line in data.splitlines()]
    if terminal.show_table(lines_table(lines)):
        return
    opt.print_lines(
        opt.paint(printable(line.text), "green" if line.passed else "red") for line in lines
    )


def _print_totals(totals: Totals, options: Options) -> None:
    counts = totals.counts()
    more = totals.graded - totals.shown.total()
    if more > 0:
        sys.stdout.write(f"... and {more:,} more; -o grades.jsonl writes them all.\n")
    sys.stdout.write(f"\n{totals_text(counts)}\n{versions_text(counts)}\n")
    if "bar" in counts:
        sys.stdout.write(f"{bar_text(counts['bar'])}\n")
    failed = totals.worst_failed
    if failed is not None and is_one_file(failed.file):
        why = ("explain", failed.file, "--run", failed.run_id)
        sys.stdout.write(f"{command(*why, options=options, carry=GRADED_BY)}  # why\n")
    passed = totals.graded > 1 and not (totals.fault_count or totals.empty or exit_code(totals))
    names = [source.name for source in options.files]
    named = all(map(is_one_file, names))
    if passed and named and (step := release_step(options, *names, passed=True)):
        sys.stdout.write("{}  # {}\n".format(*step))


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
        import multiprocessing  # only where a stream is cut into blocks

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


def _serve(make: Callable[[], Callable[[LineBlock], Any]], link: Any) -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:  # a parent that is killed takes its workers along
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    grade = make()
    with suppress(EOFError, OSError):  # the parent closed the pipe
        while True:
            link.send(_graded_block(grade, link.recv()))


def _graded_block(
    grade: Callable[[LineBlock], Any], block: LineBlock
) -> tuple[Exception | None, Any]:
    try:
        return None, grade(block)
    except Exception as error:
        return error, None


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def warn_of_regrading(options: Options, choice: Choice) -> list[str]:
    """Print on standard error which evaluations were graded by other rules when they were stored,
    and return the sentences. Evaluations that can't be graded at all are refused by the command
    itself.
    """
    word = "decision" if "quarantine" in options else "command"
    graded = [each for each in options.resolved.stored if each.graded is not None]
    try:
        grader = choice.grader()
        notes = (
            regraded_in(source.name, source.graded, stream_documents(source), grader, word)
            for source in graded
        )
        sentences = list(filter(None, notes))
    except AssayError:
        return []
    for sentence in sentences:
        opt.warn(sentence)
    return sentences


def report_title(options: Options, builder: EvaluationBuilder | None) -> ReportTitle:
    """The title of a report on the files of a command, or on the evaluation that is being made."""
    if builder is not None:
        lead = _lead(builder.workflow, builder.dataset, builder.started.isoformat())
        return ReportTitle(builder.name, lead, _rate)
    files: Sequence[Source] = options.files
    stored = [file for file in files if not file.numbered]
    noted = partial(ReportTitle, rate=_rate)
    if stored:
        noted = partial(noted, **_import_notes(stored, options))
    evaluation = getattr(files[0], "evaluation", None) if len(files) == 1 else None
    if evaluation is not None:
        made = evaluation.evaluation
        return noted(made.name, _lead(made.workflow, made.dataset, made.started))
    named = [os.path.basename(file.name) if file.numbered else file.name for file in files]
    if len(named) > 3:
        named = [*named[:3], f"and {count(len(named) - 3, 'other file')}"]
    return noted("", "" if files[0].path == "-" and len(files) == 1 else ", ".join(named))


def _import_notes(files: Sequence[Source], options: Options) -> dict[str, Any]:
    """What was noted when the files were imported, and whether answers passed without a check."""
    from assay.cli.imported_inputs import MADE, noted  # not for runs of our own
    from assay.project.imports import ToolRuns
    from assay.project.inputs import StoredRuns

    notes: dict[str, None] = {}
    warned = False
    for file in files:
        settings: Mapping[str, Any] = {}
        if isinstance(file, ToolRuns):
            tally = file.imported.tally
            settings = noted(tally)
            if tally.errors:
                notes[f"{tally.errors:,} of {count(tally.samples, 'sample')} errored"] = None
        elif isinstance(file, StoredRuns):
            settings = file.settings
        notes |= dict.fromkeys(import_notes(settings))
        warned = warned or bool(unchecked(settings))
    if options.sources.get("profile") == MADE:
        notes[f"the profile is made from {MADE}: equal weights, no floors"] = None
    return {"notes": list(notes), "unchecked": warned}


def _lead(workflow: VersionedName, dataset: VersionedName, started: str) -> str:
    when = f"{started[:16].replace('T', ' ')} UTC"
    return f"{versioned(workflow)} on {versioned(dataset)}, {when}"


def _rate(passed: int, n: int) -> ValueInterval:
    from assay.stats.intervals import wilson  # only where an evaluation is shown

    return value_interval(wilson(passed, n))


COMMANDS = {
    "grade": Command(
        run,
        "Grade runs (assay.run/1) or scorecards (assay.scorecard/1). Exit 0 only if all of them"
        " passed, or as many as --min-pass-rate asks for.",
        "assay grade runs.jsonl -o grades.json",
        (
            "files",
            *CHOICES,
            *BARS,
            "--charts",
            "--step-summary",
            "--keep-going",
            *STORE,
            "--otlp-endpoint",
            "--jobs",
        ),
        formats=tuple(FORMATS),
    ),
}
