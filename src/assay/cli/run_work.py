"""The work of `assay run`: each sample executed, judged where there is a judge, and graded; and its
events as a file that grows, one `assay.event/1` a line, each run numbered from 1.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from io import RawIOBase
from typing import Any

from msgspec import structs

from assay.canon import digest, encode, time_text
from assay.cli.grade import Grading
from assay.cli.parsing import Options
from assay.cli.progress import Progress
from assay.cli.run_judge import Judging, RunJudge, judge_runs
from assay.cli.totals import GradedPiece
from assay.errors import Fault, InputError, UsageError
from assay.files.atomic import refuse_links_out
from assay.files.json_files import Document, parse_json
from assay.running.dataset import LoadedDataset
from assay.running.journal import RunJournal
from assay.running.post_run import after_of, idle_scorers, scorer_warnings
from assay.running.runner import Runner, RunSettings, SampleWork
from assay.running.scorers import PlacedScorer
from assay.running.workflow import LoadedWorkflow
from assay.scoring.profile import Profile, ProfileCriterion
from assay.services.grading import Graded
from assay.views import events
from assay.views.evaluation import RunReasons, WorstSample, keep_worst

IN_MEMORY = 256 * 1024 * 1024

"""Bytes of grades that wait in memory for the end of the run."""

Piece = GradedPiece | list["Fault"]


class RunWork:
    """The runs of an evaluation. Making it loads the workflow's code; nothing is run yet."""

    def __init__(
        self,
        options: Options,
        workflow: LoadedWorkflow,
        dataset: LoadedDataset,
        settings: RunSettings,
        work: list[SampleWork],
        judge: RunJudge | None,
        scorers: Sequence[PlacedScorer],
        criteria: Sequence[ProfileCriterion],
    ) -> None:
        self.options = options
        self.name = workflow.id
        self.work = work
        self.judge = judge
        self.judging: Judging | None = None
        """How judging went."""
        self.judged = 0
        self.worst: list[WorstSample] = []
        self.reasons = RunReasons()
        self.passes: dict[str, dict[str, bool]] = {}
        """By sample and run, whether it passed."""
        self._raised: RuntimeError | None = None
        """What the runner raised itself; any other is the loop's, which somebody stopped."""
        self._events: EventFile | None = None
        self._ready: dict[str, Piece] = {}
        self._kept = 0
        self._runner = Runner(
            workflow,
            dataset,
            settings,
            keep=lambda made: self._keep(made),
            notify=None if options.events is None else self._tell,
            after=after_of(workflow, criteria=criteria, scorers=scorers),
        )

    async def _run(self, left: Sequence[SampleWork]) -> None:
        try:
            await self._runner.run(left)
        except RuntimeError as error:
            self._raised = error
            raise

    def execute(
        self, journal: RunJournal, lines: JudgedLines, grading: Grading, folder: str
    ) -> Iterator[Piece]:
        """Run what is left, judge all, and give the grades in the order of the work. Without a
        judge each run is graded when it is over, while others still wait for their models.
        """
        self._journal = journal
        self._lines = lines
        self._worker = grading.worker(self._noted)
        left = [item for item in self.work if item.run_id not in journal]
        with _events(self.options) as file:
            self._events = file
            self._progress = Progress(len(left), self.name, unit="runs")
            try:
                with _stdout_is_ours():
                    asyncio.run(self._run(left))
            except (asyncio.CancelledError, RuntimeError) as error:
                if error is self._raised:
                    raise
                raise InputError(
                    "RUN-006",
                    "the workflow stopped the event loop, or cancelled tasks that it didn't start.",
                    where=self._runner.workflow.where,
                    fix="Cancel only the workflow's tasks, and leave the loop running.",
                ) from error
            finally:
                self._progress.end()
            if self.judge is not None:
                self.judging = asyncio.run(
                    judge_runs(
                        self.judge,
                        folder,
                        self.work,
                        lambda run_id: parse_json(journal.run(run_id)),
                        self._keep_judged,
                        again=bool(self.options.resume),
                    )
                )
        self._events = None
        return self._pieces()

    def evidence(self) -> Iterator[bytes]:
        """Every run as it was graded, in the order of the work."""
        return (self._line(item.run_id) for item in self.work)

    def scorer_warnings(self, profile: Profile, scorers: Sequence[PlacedScorer]) -> list[str]:
        """The scorers that gave no result, or none that counts, one sentence each."""
        failed = (
            run.get("metadata", {}).get("scorer_errors", {})
            for line in self.evidence()
            if b'"scorer_errors"' in line and (run := parse_json(line)).get("outputs") is not None
        )
        warnings = scorer_warnings(failed, scorers, total=len(self.work))
        runs = (parse_json(line) for line in self.evidence())
        return warnings + idle_scorers(profile, scorers, runs)

    def _tell(self, run_id: str, kind: str, fields: dict[str, Any]) -> None:
        if self._events is not None:
            self._events.tell(run_id, kind, fields)

    def _keep(self, made: dict[str, Any]) -> None:
        self._journal.put(made)
        if self.judge is None:
            self._grade(made)
        self._progress.add(1)

    def _keep_judged(self, made: dict[str, Any]) -> None:
        self._lines.put(made["run_id"], encode(made))
        self.judged += 1
        self._grade(made)

    def _grade(self, made: dict[str, Any]) -> None:
        piece = self._graded(Document(made, self.options.files[0]))
        if isinstance(piece, list) and self._events is not None:
            self._events.refused(made["run_id"], piece)
        self._kept += sum(map(len, piece.outputs)) if isinstance(piece, GradedPiece) else 0
        if self._kept < IN_MEMORY:  # what does not fit is graded again at the end
            self._ready[made["run_id"]] = piece

    def _graded(self, document: Document) -> Piece:
        piece = self._worker.document(document)
        if isinstance(piece, list):
            return piece
        return structs.replace(piece, outputs=piece.outputs[:-1])

    def _noted(self, graded: Graded) -> bytes:
        """Note what a grade adds to the evaluation, each run once."""
        grade, sample = graded.grade, graded.grade.scorecard.sample_id or ""
        marks = self.passes.setdefault(sample, {})
        if grade.run_id not in marks:
            marks[grade.run_id] = grade.passed
            if self._events is not None:
                self._events.judged(graded)
            self.reasons.add(grade)
            if not grade.passed:
                keep_worst(self.worst, graded.payload(), graded.run)
        return b""

    def _pieces(self) -> Iterator[Piece]:
        for number, item in enumerate(self.work, 1):
            piece = self._ready.pop(item.run_id, None)
            if piece is None:
                tree = parse_json(self._line(item.run_id))
                piece = self._graded(Document(tree, self.options.files[0], number))
            yield piece

    def _line(self, run_id: str) -> bytes:
        return self._journal.run(run_id) if self.judge is None else self._lines.get(run_id)


class JudgedLines:
    """Runs with their verdicts, each as a line, in a file without a name."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
        self._places: dict[str, tuple[int, int]] = {}

    def put(self, run_id: str, line: bytes) -> None:
        """Keep a run."""
        self._places[run_id] = (self._file.seek(0, os.SEEK_END), len(line))
        self._file.write(line)

    def get(self, run_id: str) -> bytes:
        """A run that was kept."""
        start, size = self._places[run_id]
        self._file.seek(start)
        return self._file.read(size)

    def close(self) -> None:
        """Delete all of them."""
        self._file.close()


@contextmanager
def _events(options: Options) -> Iterator[EventFile | None]:
    """Where the events of each run go as they happen, if --events asks for it."""
    if options.events is None:
        yield None
        return
    refuse_links_out(options.events, follow=True)
    try:
        stream = open(options.events, "ab", buffering=0)  # noqa: SIM115  closed below
    except OSError as error:
        raise UsageError(
            "FIL-008", f"cannot be written: {error.strerror}.", where=options.events
        ) from None
    with stream:
        yield EventFile(stream)


@contextmanager
def _stdout_is_ours() -> Iterator[None]:
    """While workflows run, what they print goes to standard error: standard output is for
    results.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


class EventFile:
    """Writes every event as it happens, and each run's evaluation when the run is over. A killed
    run leaves complete lines and at most one torn line.
    """

    def __init__(self, stream: RawIOBase) -> None:
        self._stream = stream
        self._positions: dict[str, int] = {}
        self._lock = threading.Lock()

    def tell(self, run_id: str, kind: str, fields: dict[str, Any]) -> None:
        """One event."""
        with self._lock:
            position = self._positions[run_id] = (
                1 if kind == "workflow_start" else self._positions.get(run_id, 0) + 1
            )
            at = time_text(datetime.now(UTC), "microseconds")
            if not self._stream.closed:
                self._stream.write(events.event(kind, run_id, at, fields)(position) + b"\n")

    def judged(self, graded: Graded) -> None:
        """The evaluation of a finished run."""
        payload = graded.payload()
        run_id = payload["run_id"]
        self.tell(
            run_id,
            "evaluation_start",
            {"policy": payload["policy"], "profile": payload.get("profile")},
        )
        self.tell(run_id, "evaluation_complete", {**payload, "digest": digest(payload)})
        self._positions.pop(run_id, None)

    def refused(self, run_id: str, faults: list[Fault]) -> None:
        """A run that could not be evaluated."""
        first = faults[0]
        self.tell(
            run_id,
            "error",
            {"message": first.message, "code": first.code, "where": first.path, "fix": first.fix},
        )
