"""`assay batch`: millions of rows graded where they are, by DuckDB."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.bars import pass_bar
from assay.cli.frame import BARS, Command, arg, flag, policy_option, repeated
from assay.cli.progress import Progress
from assay.errors import ExitCode, UsageError, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from assay.batch.engine import BatchEngine
    from assay.batch.job import BatchResult, BatchTask
    from assay.batch.targets import Target
    from assay.release.pass_rate import BarResult

ENGINES = ("duckdb",)
SHOWN = 5
"""Gates, floors and partitions that the summary names."""


def run(options: argparse.Namespace) -> int:
    """Grade the rows of the options into their output, and show what came of it."""
    from assay.batch.job import BatchOptions, run_batch
    from assay.batch.targets import target_of
    from assay.pipeline.batch_tasks import batch_task
    from assay.release.pass_rate import check_pass_rate

    bar = pass_bar(options)
    _check_numbers(options)
    names, keep = _pairs(options.map), [name for text in options.keep for name in _split(text)]
    task = batch_task(
        opt.shelf_of(options),
        options.inputs,
        profile=options.profile,
        policy=options.policy,
        rubric=options.rubric,
        names=names,
        keep=keep,
    )
    if options.explain_sql:
        return _explain(options, task)
    if options.output is None:
        raise UsageError(
            "CLI-001",
            "-o is missing.",
            fix="Name a file, such as -o grades.parquet, or a folder, such as -o graded.",
        )
    target = target_of(options.output)
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
    code = _exit_code(result, checked)
    if options.json:
        opt.print_json(_document(result, target, checked))
    else:
        opt.print_lines(map(printable, _summary(result, target, options, checked)))
    return code


def _exit_code(result: BatchResult, checked: BarResult | None) -> ExitCode:
    """Rejected rows are malformed input, whatever the rest came to."""
    tally = result.tally
    if tally.faults:
        return ExitCode.MALFORMED
    holds = tally.passed == tally.runs if checked is None else checked.holds
    if holds is None:
        return ExitCode.NOT_ENOUGH
    return ExitCode.PASSED if holds else ExitCode.FAILED


def _engine(options: argparse.Namespace) -> BatchEngine:
    from assay.batch.duckdb_engine import DuckDBEngine

    place = os.path.dirname(os.path.abspath(options.output)) if options.output else None
    scratch = None if place is None else os.path.join(place, f".assay-spill-{os.getpid()}")
    return DuckDBEngine(threads=options.threads, memory=options.memory, scratch=scratch)


def _explain(options: argparse.Namespace, task: BatchTask) -> int:
    import tempfile

    from assay.batch.job import explain_batch
    from assay.batch.sources import find_sources
    from assay.batch.staging import stage_tables

    engine = _engine(options)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            sources = stage_tables(find_sources(options.inputs), scratch)
            queries = explain_batch(task, engine, sources)
    finally:
        engine.close()
    if options.json:
        opt.print_json(
            {"engine": engine.name, "grades": queries.grades, "rejects": queries.rejects}
        )
    else:
        opt.print_lines(
            [
                f"-- {engine.name} {engine.version}; batch_input is the input",
                f"{queries.grades};",
                "",
                "-- the rejected rows",
                f"{queries.rejects};",
            ]
        )
    return ExitCode.PASSED


def _check_numbers(options: argparse.Namespace) -> None:
    for name in ("sample", "threads"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError("CLI-001", f"--{name} must be 1 or more.")


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs(texts: Iterable[str]) -> dict[str, str]:
    """The columns that `--map` names, by what they mean."""
    found: dict[str, str] = {}
    for pair in (pair for text in texts for pair in _split(text)):
        role, mark, column = (part.strip() for part in pair.partition("="))
        if not (role and mark and column):
            raise UsageError(
                "CLI-001",
                f"--map has '{pair}'.",
                fix="Write what a column means, then its name: --map run=run_id,raw=value.",
            )
        if role in found:
            raise UsageError("CLI-001", f"--map names the column of '{role}' twice.")
        found[role] = column
    return found


# --- what people and programs get


def _document(result: BatchResult, target: Target, checked: BarResult | None) -> dict[str, Any]:
    from msgspec import to_builtins

    tally = result.tally
    made: dict[str, Any] = {
        "record": to_builtins(result.record),
        "output": target.grades,
        "rejects": target.rejects if result.record.rejects else None,
        "record_file": target.record,
        "failed": {
            "reasons": tally.reasons,
            "gates": tally.gates,
            "floors": tally.floors,
            "missing": tally.missing,
        },
        "rejected": [
            {"code": one.code, "reason": one.reason, "count": one.n, "examples": one.examples}
            for one in tally.rejects
        ],
        "partitions": {"graded": result.graded, "kept": result.kept},
    }
    if checked is not None:
        made["bar"] = checked.shown()
    return made


def _summary(
    result: BatchResult, target: Target, options: argparse.Namespace, checked: BarResult | None
) -> Iterable[str]:
    record, tally = result.record, result.tally
    counts = record.counts
    mark = "✓" if tally.passed == tally.runs else "✗"
    share = tally.passed / tally.runs
    yield f"passed      {mark} {tally.passed:,} of {tally.runs:,} runs passed ({_percent(share)})"
    if record.sample is not None:
        yield f"sample      {record.sample:,} runs were asked for; the rest was not graded"
    yield f"rows        {counts.rows:,}"
    yield f"grades      {'  '.join(f'{letter} {n:,}' for letter, n in tally.grades.items())}"
    for label, names in (
        ("gates", tally.gates),
        ("floors", tally.floors),
        ("no score", tally.missing),
    ):
        if names:
            yield f"{label:<12}{_most(names)}"
    if result.graded or result.kept:
        yield (
            f"partitions  {len(result.graded):,} graded, {len(result.kept):,} unchanged and kept"
        )
    if tally.rejects:
        rejected = sum(one.n for one in tally.rejects)
        yield f"rejected    {rejected:,} entries; {tally.invalid:,} runs have no grade for it"
        for one in tally.rejects:
            yield f"  {one.code}  {one.n:,}: {one.reason}; such as {'; '.join(one.examples)}"
    yield f"by          {_versions(record)}"
    if checked is not None:
        yield f"bar         {checked.reason}"
    yield f"wrote       {target.grades}"
    if record.rejects:
        yield f"rejects     {target.rejects}"
    yield f"record      {target.record}"
    if tally.rejects:
        yield "Fix or remove the rejected rows, then run this again with --overwrite."


def _versions(record: Any) -> str:
    profile = "" if record.profile is None else f"profile {record.profile} · "
    return (
        f"{profile}policy {record.policy} · {record.scoring_system} · {record.grading_system}"
        f" · {record.engine.name} {record.engine.version}"
    )


def _most(names: dict[str, int]) -> str:
    shown = [f"{name} {count:,}" for name, count in list(names.items())[:SHOWN]]
    more = len(names) - SHOWN
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _percent(share: float) -> str:
    """Rounded down, so that one failure in a million isn't shown as 100%."""
    return f"{int(share * 1000) / 10:.1f}%"


COMMANDS = {
    "batch": Command(
        run,
        "Grade millions of rows where they are: scores and verdicts in files or tables, one row of"
        " output for each run. Exit 0 only if all runs passed, or as many as --min-pass-rate asks"
        " for; exit 3 if rows were rejected.",
        "assay batch scores.parquet -o grades.parquet --profile rag",
        (
            arg(
                "inputs",
                nargs="+",
                metavar="IN",
                help=(
                    ".parquet, .csv, .jsonl, .arrow, a folder of them, FILE.duckdb#TABLE,"
                    " postgresql://HOST/DATABASE#TABLE, or the output of an earlier batch, which is"
                    " graded again from its norms"
                ),
            ),
            arg(
                "-o",
                "--output",
                metavar="OUT",
                help="a file (.parquet .csv .jsonl), or a folder of Parquet files",
            ),
            "--profile",
            policy_option("workflow"),
            "--rubric",
            "--library",
            arg(
                "--engine",
                choices=ENGINES,
                default="duckdb",
                help="the engine that grades (default: duckdb)",
            ),
            repeated(
                "--map",
                "ROLE=COLUMN,...",
                "what the columns are called, such as run=run_id,raw=value (default: run,"
                " criterion, raw, n, gate, verdict, wins, losses, ties, passed, total)",
            ),
            repeated(
                "--keep", "COLUMN,...", "columns to carry through, with one value for each run"
            ),
            flag("--overwrite", "replace an output that exists"),
            arg(
                "--sample",
                type=int,
                metavar="N",
                help="grade only N runs, always the same ones",
            ),
            *BARS,
            arg("--threads", type=int, metavar="N", help="threads of DuckDB (default: all cores)"),
            arg(
                "--memory",
                metavar="SIZE",
                help="memory of the engine, such as 8GB; DuckDB spills beyond it to disk",
            ),
            flag("--explain-sql", "print the queries and stop"),
        ),
    )
}
