"""`assay batch`: millions of rows graded where they are, by DuckDB or Spark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from assay.cli import options as opt
from assay.cli.batch_engine import ENGINE, engine_of
from assay.cli.frame import BARS, Bounds, Command, Options, arg, flag, repeated
from assay.cli.progress import Progress
from assay.cli.totals import pass_bar
from assay.errors import ExitCode, UsageError, printable
from assay.registry import near_miss

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assay.batch.engine import BatchEngine
    from assay.batch.job import BatchResult
    from assay.batch.task import BatchTask
    from assay.release.pass_rate import BarResult

_UNSUPPORTED = (
    *(".json", ".ndjson", ".tsv", ".txt", ".gz", ".arrow", ".feather", ".ipc", ".orc", ".avro"),
    *(".xlsx", ".xls", ".html", ".md", ".xml", ".yaml", ".yml", ".db", ".duckdb", ".sqlite"),
)
"""Extensions of files that a batch doesn't write."""


def run(options: Options) -> int:
    """Grade the rows that the options name, and show the result."""
    from assay.batch.job import BatchOptions, run_batch
    from assay.batch.targets import target_of, tidy_up
    from assay.cli.batch_plan import required
    from assay.cli.batch_summary import batch_document, batch_summary
    from assay.pipeline.batching import batch_task
    from assay.release.pass_rate import check_pass_rate

    bar = pass_bar(options)
    if options.verify or options.run_ids:
        return _verify(options)
    names, keep = _pairs(options.map), [name for text in options.keep for name in _split(text)]
    task = batch_task(
        opt.shelf_of(options),
        options.inputs,
        profile=required(options, options.profile or _earlier_profile(options)),
        policy=options.policy,
        rubric=options.rubric,
        names=names,
        keep=keep,
    )
    if options.explain_sql:
        return _explain(options, task)
    target = target_of(_output(options))
    for text in tidy_up(target):
        opt.note(f"{text}.")
    bars = Progress(0, "batch")

    def report(done: int, total: int) -> None:
        bars.total = total
        bars.add(max(0, done - bars.done))

    engine = _engine(options)
    try:
        result = run_batch(
            task,
            engine,
            options.inputs,
            target,
            BatchOptions(options.overwrite, options.sample, report if bars.on else None),
        )
    finally:
        bars.end()
        engine.close()
    tally = result.tally
    checked = None if bar is None else check_pass_rate(tally.passed, tally.runs, bar)
    earlier = None if task.earlier is None else task.earlier.target.path
    lines = batch_summary(result, target, checked, earlier=earlier)
    document = batch_document(result, target, checked)
    return opt.give(options, document, map(printable, lines), _exit_code(result, checked))


def _earlier_profile(options: Options) -> str | None:
    """The profile that an output of a batch names, where the input is one."""
    from assay.cli.batch_plan import from_record
    from assay.pipeline.batching import earlier_batch

    made = next(filter(None, map(earlier_batch, options.inputs)), None)
    if made is None:
        return None
    profile = made.record.profile
    if not options.profile:
        output = () if options.output is None else ("-o", options.output)
        with from_record(options, profile, made.target.path, ("batch", *options.inputs, *output)):
            opt.shelf_of(options).profile(profile)
    return profile


def _exit_code(result: BatchResult, checked: BarResult | None) -> ExitCode:
    """Rejected rows are malformed input, whatever the other results."""
    tally = result.tally
    if tally.faults:
        return ExitCode.MALFORMED
    return ExitCode.of(tally.passed == tally.runs if checked is None else checked.holds)


def _engine(options: Options) -> BatchEngine:
    """DuckDB spills next to the output, where there is room for it."""
    from assay.batch.targets import hidden_folder, target_of

    scratch = hidden_folder(target_of(options.output)) if options.output else None
    return engine_of(options, scratch=scratch)


def _output(options: Options) -> str:
    from assay.batch.targets import FORMS

    if options.output is None:
        raise UsageError(
            "CLI-001",
            "-o is missing.",
            fix="Name a file, such as -o grades.parquet, or a folder, such as -o graded.",
        )
    output = str(options.output)
    extension = os.path.splitext(output)[1].lower()
    meant = extension in _UNSUPPORTED or (near_miss(extension, FORMS) and extension not in FORMS)
    if meant and not os.path.isdir(output):  # any other name is that of a folder
        raise UsageError(
            "CLI-001",
            f"can't write {output!r}: {extension} is not supported.",
            fix="It writes .parquet, .csv, .jsonl, or a folder of Parquet files without an"
            " extension.",
        )
    return output


def _verify(options: Options) -> int:
    from assay.batch.targets import target_of
    from assay.cli.batch_summary import run_verification

    if not options.verify:
        raise UsageError("CLI-001", "--run needs --verify.", fix="Add --verify.")
    for name in ("map", "keep", "sample", "overwrite", "explain_sql"):
        if getattr(options, name):
            raise UsageError(
                "CLI-001",
                f"--{name.replace('_', '-')} can't be combined with --verify.",
                fix="The record of the batch shows how it was graded.",
            )
    return run_verification(options, _engine(options), target_of(_output(options)))


def _explain(options: Options, task: BatchTask) -> int:
    from assay.batch.job import explain_batch

    if options.sample is not None:
        raise UsageError(
            "CLI-001",
            "--sample can't be combined with --explain-sql.",
            fix="Print the queries of the whole batch, or grade the sample.",
        )
    engine = _engine(options)
    try:
        explained = explain_batch(task, engine, options.inputs)
    finally:
        engine.close()
    reading = [f"{statement};" for statement in explained.reading]
    lines = [
        f"-- {engine.name} {engine.version}",
        *(reading or ["-- Make a view of the input first, named batch_input."]),
        "",
        "-- the grades",
        f"{explained.grades};",
        "",
        "-- the rejected rows",
        f"{explained.rejects};",
    ]
    return opt.give(options, {"engine": engine.name, **explained._asdict()}, lines)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs(texts: Iterable[str]) -> dict[str, str]:
    """The columns that `--map` names, by what they mean."""
    columns: dict[str, str] = {}
    for pair in (pair for text in texts for pair in _split(text)):
        role, mark, column = (part.strip() for part in pair.partition("="))
        if not (role and mark and column):
            raise UsageError(
                "CLI-001",
                f"--map has '{pair}'.",
                fix="Write what a column means, then its name: --map run=run_id,raw=value.",
            )
        if role in columns:
            raise UsageError("CLI-001", f"--map names the column of '{role}' twice.")
        columns[role] = column
    return columns


COMMANDS = {
    "batch": Command(
        run,
        "Grade millions of rows where they are: scores and verdicts in files, one row of"
        " output for each run. Exit 0 only if all runs passed, or as many as --min-pass-rate asks"
        " for; exit 3 if rows were rejected.",
        "assay batch scores.parquet -o grades.parquet --profile rag",
        (
            arg(
                "inputs",
                nargs="+",
                metavar="IN",
                help=(
                    ".parquet, .csv, .jsonl (or .csv.gz, .jsonl.gz), .arrow, a folder of them, or"
                    " the output of an earlier batch, which is graded again from its norms"
                ),
            ),
            arg(
                "-o",
                "--output",
                kind="path",
                metavar="OUT",
                help="a file (.parquet .csv .jsonl), or a folder of Parquet files",
            ),
            arg(
                "--profile",
                heading="grading",
                offers="profiles",
                kind="name",
                key="profile",
                metavar="P",
                help=(
                    "profile by name, letter A-D, name@version or YAML file; needed unless IN is"
                    " the output of a batch, which names its own"
                ),
            ),
            arg(
                "--policy",
                heading="grading",
                offers="policies",
                kind="name",
                key="policy",
                metavar="Q",
                default="workflow",
                help="policy by name, name@version or YAML file (default: workflow)",
            ),
            "--rubric",
            "--library",
            repeated(
                "--map",
                "ROLE=COLUMN,...",
                "what the columns are called, such as run=run_id,raw=value (default: run,"
                " criterion, raw, n, gate, verdict, wins, losses, ties, passed, total)",
                heading="other tools' files",
                kind="text",
                trust="freely",
            ),
            repeated(
                "--keep",
                "COLUMN,...",
                "columns to carry through, with one value for each run",
                kind="text",
                trust="freely",
            ),
            flag("--overwrite", "replace an output that exists"),
            arg(
                "--sample",
                within=Bounds(least=1),
                type=int,
                metavar="N",
                help="grade only N runs, always the same ones",
            ),
            *BARS,
            *ENGINE,
            flag("--explain-sql", "print the SQL, ready for a duckdb shell, and stop"),
            flag(
                "--verify",
                "grade nothing: check -o against its record and IN, and recompute rows in Python;"
                " exit 1 if anything differs",
            ),
            repeated(
                "--run",
                "ID",
                "with --verify, a run whose row to recompute (default: 100 runs, always the same"
                " ones)",
                kind="text",
                trust="freely",
                dest="run_ids",
            ),
        ),
    )
}
