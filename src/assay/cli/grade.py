"""`assay grade`, and grading for the verbs that make their evidence first."""

from __future__ import annotations

import io
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.frame import BARS, CHOICES, STORE, Command, Options
from assay.cli.hints import GRADED_BY, command, is_one_file, release_step
from assay.cli.ledger import stored_stream
from assay.cli.stream import (
    Output,
    Stopped,
    StreamWorker,
    encoders,
    file_size,
    grade_stream,
    output_of,
)
from assay.cli.totals import GradedPiece, Totals, exit_code, faults_error, pass_bar
from assay.errors import Fault, NotEnoughEvidence, ShelfError, printable
from assay.records.grade_line import GradeLine
from assay.services.choice import Choice
from assay.views.documents import JsonDocument, JsonLines
from assay.views.exporters import FORMATS, format_of
from assay.views.grade_line import bar_text, lines_table, totals_text, versions_text
from assay.views.otel_export import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from assay.records.evaluation import Evaluation
    from assay.services.grading import Graded
    from assay.services.storing import EvaluationBuilder

SMALL = 256 * 1024
SHOWN = 50
"""Lines of failures that a terminal gets; the rest go to files."""
_line = msgspec.json.Decoder(GradeLine).decode


def choice_of(options: Options) -> Choice:
    """The choice of profile, policy, rubric and library that the options make."""
    choice = Choice(
        options.grading_policy if "grading_policy" in options else options.policy,
        asked_profile(options, options.profile),
        options.rubric,
        options.library or os.environ.get("ASSAY_LIBRARY"),
        tuple(options.judge_card),
        opt.moment(options.now),
    )
    if getattr(options, "stored", None):
        from assay.cli.regraded import warn_of_regrading

        warn_of_regrading(options, choice)
    return choice


def asked_profile(options: Options, profile: str | None) -> str | None:
    """The profile that is asked for; where `assay.yaml` declares scorers, with what they add.
    Another tool's results are graded by what that tool measured.
    """
    config = options.config
    if (
        "made_profile" in options
        or config is None
        or not (config.spec.scorers or config.spec.gates)
    ):
        return profile
    from assay.cli.run_profile import configured_profile  # only where scorers are declared

    return configured_profile(options, config, profile)


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
        from assay.cli.report_title import report_title  # only where a report is written

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
                where=", ".join(options.files),
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
        "-" not in options.files and sum(map(file_size, options.files)) < SMALL
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
    named = all(map(is_one_file, options.files))
    if passed and named and (step := release_step(options, *options.files, passed=True)):
        sys.stdout.write("{}  # {}\n".format(*step))


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
