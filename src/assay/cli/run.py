"""`assay run`: a workflow on a dataset, its evidence, its grades.

Everything of one run lies in its work folder: `run.json` (what was asked for), `journal.jsonl`
(each finished sample, from which a killed run goes on), `runs.jsonl` (the evidence, once all of it
is there) and, with --repeat, `repeats.json`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.frame import CHOICES, STORE, Command, arg
from assay.cli.grade import Grading
from assay.cli.progress import Progress
from assay.cli.run_settings import DEFAULT_WORKFLOW, recall, remember, settings_of
from assay.cli.stream import GradedPiece
from assay.errors import UsageError
from assay.files.atomic import atomic_write, write_file
from assay.files.json_files import Document, parse_json
from assay.views.documents import FORMATS, pretty

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from assay.cli.events import EventFile
    from assay.cli.stream import StreamWorker
    from assay.errors import Fault
    from assay.running.dataset import LoadedDataset
    from assay.running.journal import RunJournal
    from assay.running.runner import RunSettings, SampleWork
    from assay.running.workflow import LoadedWorkflow

DEFAULT_FOLDER = "assay-runs"
IN_MEMORY = 256 * 1024 * 1024
"""Bytes of grades that wait in memory for the end of the run."""


def run(options: argparse.Namespace) -> int:
    """Run the verb."""
    recall(options)
    sinks = opt.outputs(options)
    from assay.running.compatibility import prepare
    from assay.running.dataset import read_dataset
    from assay.running.journal import Header, RunJournal
    from assay.running.runner import work_of
    from assay.running.workflow import read_workflow

    workflow = read_workflow(options.workflow)
    settings = settings_of(options, workflow)
    dataset = read_dataset(options.dataset)
    work = work_of(prepare(workflow, dataset)[: options.limit], settings)
    choice_is_sound(options, workflow)
    folder = options.work or os.path.join(DEFAULT_FOLDER, settings.name)
    path = os.path.join(folder, "journal.jsonl")
    if not options.resume and os.path.exists(path):
        raise UsageError(
            "RUN-005",
            "a run was begun in this folder before.",
            where=folder,
            fix=f"`assay run --resume {folder}` goes on with it.",
        )
    if not options.resume:
        _folder(folder)
        remember(
            options, settings, folder
        )  # before the journal: a journal is never without the settings to resume by
    evidence = os.path.join(folder, "runs.jsonl")
    options.files, options.output = [evidence], sinks
    with (
        Grading(options) as grading,
        RunJournal(path, Header.of(workflow, dataset, settings)) as journal,
    ):
        _say(
            f"{workflow.id}@{workflow.version} on {dataset.id}@{dataset.version}:"
            f" {len(work):,} runs, {workflow.profile_why}; work folder {folder}"
        )
        if len(journal):
            _say(f"{len(journal):,} of them are finished and not repeated")
        try:
            graded = _execute(options, workflow, dataset, settings, work, journal, grading)
        except KeyboardInterrupt:
            _say(
                f"{len(journal):,} of {len(work):,} runs are finished and kept; `assay run --resume"
                f" {folder}` goes on"
            )
            raise
        with atomic_write(evidence) as stream:
            for one in work:
                stream.write(journal.run(one.run_id) + b"\n")
        code = grading.finish(graded)
    if settings.repeat > 1:
        _repeats(options, evidence, folder)
    return code


def _folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise UsageError(
            "FIL-008", f"the work folder cannot be made: {error.strerror}.", where=path
        ) from None


def choice_is_sound(options: argparse.Namespace, workflow: LoadedWorkflow) -> None:
    """Find profile, policy and rubric before anything runs: a slip in a name must not cost a night
    of calls.
    """
    from assay.cli.grade import choice_of
    from assay.records.evidence import Dataset, Run
    from assay.records.evidence import Workflow as Subject

    grader = choice_of(options).grader()
    empty = Run(
        schema="assay.run/1",
        run_id="x",
        workflow=Subject(**workflow.subject()),
        dataset=Dataset(id="x", version="1", sample_id="x"),
        status="cancelled",
    )
    grader.scorecard(empty)


def _execute(
    options: argparse.Namespace,
    workflow: LoadedWorkflow,
    dataset: LoadedDataset,
    settings: RunSettings,
    work: list[SampleWork],
    journal: RunJournal,
    grading: Grading,
) -> Iterator[GradedPiece | list[Fault]]:
    """Run what is left, and give the grades of all in the order of the work. Each run is graded
    when it is over, while others still wait for their models.
    """
    from assay.running.post_run import after_of
    from assay.running.runner import Runner

    left = [one for one in work if one.run_id not in journal]
    ready: dict[str, GradedPiece | list[Fault]] = {}
    kept = 0
    with _events(options) as file:
        worker = grading.worker() if file is None else grading.worker(file.judged)
        runner = Runner(
            workflow,
            dataset,
            settings,
            keep=lambda made: keep(made),
            tell=None if file is None else file.tell,
            after=after_of(workflow),
        )
        progress = Progress(len(left), workflow.id, unit="runs")

        def keep(made: dict[str, Any]) -> None:
            nonlocal kept
            journal.put(made)
            piece = worker.document(Document(made, options.files[0]))
            if file is not None:
                if isinstance(piece, list):
                    file.refused(made["run_id"], piece)
                else:
                    piece = piece._replace(outputs=piece.outputs[:-1])
            kept += sum(map(len, piece.outputs)) if isinstance(piece, GradedPiece) else 0
            if kept < IN_MEMORY:  # what does not fit is graded again at the end, from the journal
                ready[made["run_id"]] = piece
            progress.add(1)

        try:
            with _stdout_is_ours():
                asyncio.run(runner.run(left))
        finally:
            progress.end()
    return _graded(work, journal, ready, grading.worker(), options.files[0])


def _graded(
    work: list[SampleWork],
    journal: RunJournal,
    ready: dict[str, GradedPiece | list[Fault]],
    worker: StreamWorker,
    evidence: str,
) -> Iterator[GradedPiece | list[Fault]]:
    for number, one in enumerate(work, 1):
        piece = ready.pop(one.run_id, None)
        if piece is None:
            piece = worker.document(Document(parse_json(journal.run(one.run_id)), evidence, number))
        yield piece


def _events(options: argparse.Namespace) -> AbstractContextManager[EventFile | None]:
    """Where the events of each run go as they happen, if --events asks for it."""
    if options.events is None:
        return nullcontext()
    from assay.cli.events import EventFile

    return EventFile(options.events)


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


def _repeats(options: argparse.Namespace, evidence: str, folder: str) -> None:
    """How stable the passes are: pass@k, pass^k, and the samples that sometimes pass."""
    from assay.cli.grade import choice_of
    from assay.files.json_files import read_documents
    from assay.scoring.metrics.passk import AttemptedTask, report

    grader = choice_of(options).grader()
    passed: dict[str, list[bool]] = {}
    for document in read_documents(evidence):
        passed.setdefault(document.tree["dataset"]["sample_id"], []).append(
            grader.grade(document).grade.passed
        )
    ks = sorted({1, options.repeat})
    found = report(
        [AttemptedTask(name, len(marks), sum(marks)) for name, marks in passed.items()], ks
    )
    flaky = sorted(name for name, marks in passed.items() if len(set(marks)) > 1)
    document_ = {
        "schema": "assay.repeats/1",
        "repeat": options.repeat,
        **found,
        "flaky": flaky,
        "samples": len(passed),
    }
    write_file(os.path.join(folder, "repeats.json"), pretty(document_))
    words = " · ".join(
        f"{name} {value:.3f}" for name, value in found.items() if isinstance(value, float)
    )
    _say(
        f"{words} · {len(flaky)} of {len(passed)} samples sometimes"
        f" pass{': ' + ', '.join(flaky[:5]) if flaky else ''}"
    )


def _say(words: str) -> None:
    from assay.errors import printable

    sys.stderr.write(f"{printable(words)}\n")


COMMANDS = {
    "run": Command(
        run,
        "Run a workflow on every sample of a dataset, write down what happened as evidence, and"
        " grade it. Exit 0 only if all runs passed.",
        "assay run workflow.yaml --dataset samples.jsonl -o grades.json",
        (
            arg(
                "workflow",
                nargs="?",
                metavar="WORKFLOW",
                help=(
                    "the workflow's YAML file, or its name in assay.yaml (default: the one in"
                    f" assay.yaml, else {DEFAULT_WORKFLOW})"
                ),
            ),
            arg(
                "--dataset",
                metavar="D",
                help=(
                    "samples as .jsonl, .json, .csv or .parquet, a .yaml file that describes them,"
                    " or a dataset's name in assay.yaml (default: the one in assay.yaml)"
                ),
            ),
            arg(
                "--concurrency",
                type=int,
                metavar="N",
                default=8,
                help="runs at the same time (default: 8)",
            ),
            arg(
                "--timeout",
                type=float,
                metavar="S",
                help="seconds that a call may take (default: the workflow's limits.timeout_s)",
            ),
            arg(
                "--retries",
                type=int,
                metavar="N",
                help=(
                    "how often a failed call is made again; each is counted (default: the"
                    " workflow's limits.retries)"
                ),
            ),
            arg(
                "--repeat",
                type=int,
                metavar="K",
                default=1,
                help="run each sample K times: pass@k and flakiness (default: 1)",
            ),
            arg("--limit", type=int, metavar="N", help="only the first N samples"),
            arg(
                "--name",
                metavar="NAME",
                help=(
                    "the name of this run, the first part of every run id (default: the workflow"
                    " and the time)"
                ),
            ),
            arg(
                "--work",
                metavar="DIR",
                help=f"the folder of this run (default: {DEFAULT_FOLDER}/NAME)",
            ),
            arg(
                "--resume",
                metavar="DIR",
                help="go on with a run that was interrupted; finished samples are not repeated",
            ),
            arg(
                "--events",
                metavar="FILE",
                help=(
                    "write every event as it happens, one JSON object a line (`assay schema-of"
                    " event`)"
                ),
            ),
            "--trust",
            *CHOICES,
            *STORE,
            "--otlp-endpoint",
            "--step-summary",
        ),
        formats=tuple(FORMATS),
        defaults={"keep_going": False, "jobs": 1},
    ),
}
