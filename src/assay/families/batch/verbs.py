"""`assay batch`: millions of rows graded where they are, by DuckDB or Spark."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.configured import DEFAULT
from assay.cli.deciding import Decided
from assay.cli.frame import BARS, Bounds, Command, arg, flag, repeated
from assay.cli.grade import asked_profile, pass_bar
from assay.cli.hints import command
from assay.cli.parsing import Options
from assay.cli.progress import Progress
from assay.errors import AssayError, ExitCode, InputError, UsageError, count, few, printable
from assay.families.batch.batching import (
    BatchCheck,
    batch_task,
    earlier_batch,
    scoring_plan,
    verify_batch,
)
from assay.families.batch.compare import (
    BatchGrading,
    BatchOutput,
    FreshOutputs,
    compare_batches,
    read_batch_output,
    summarise_batch,
)
from assay.families.batch.duckdb_engine import DuckDBEngine
from assay.families.batch.engine import BatchEngine
from assay.families.batch.job import BatchOptions, BatchResult, explain_batch, run_batch
from assay.families.batch.plan import make_batch_plan
from assay.families.batch.row_faults import TWICE, WIDE_TWICE
from assay.families.batch.run_query import DECIDED
from assay.families.batch.targets import FORMS, BatchTarget, hidden_folder, target_of, tidy_up
from assay.files.inputs import no_such_file
from assay.files.own_files import is_batch_output
from assay.library.shelf import Shelf
from assay.records.summary import SummaryBlock
from assay.registry import is_path, near_miss
from assay.release.attestation import Subject
from assay.release.pass_rate import BarResult, check_pass_rate
from assay.release.policy import ReleaseRules
from assay.release.sides import SLICES
from assay.scoring.profile import ScoringPlan
from assay.services.compare import Asked
from assay.services.grading import DEFAULT_POLICY, Grader
from assay.views.text import fact_lines

if TYPE_CHECKING:
    from assay.families.batch.task import BatchTask


_SIZE = re.compile(r"(\d{1,9}) ?([MGT])(i?)B?", re.IGNORECASE | re.ASCII)
ENGINES = ("duckdb", "spark")
ENGINE = (
    arg(
        "--engine",
        heading="engine",
        choices=ENGINES,
        default="duckdb",
        help="for batches: duckdb on this machine, or spark (default: duckdb)",
    ),
    arg(
        "--threads",
        heading="engine",
        within=Bounds(least=1),
        type=int,
        metavar="N",
        help="threads of DuckDB (default: all cores)",
    ),
    arg(
        "--memory",
        heading="engine",
        kind="text",
        trust="freely",
        metavar="SIZE",
        help="memory of the engine, such as 8GB; DuckDB spills beyond it to disk",
    ),
    arg(
        "--master",
        heading="engine",
        kind="text",
        trust="trusted",
        metavar="URL",
        help="Spark's master, such as local[4]",
    ),
    arg(
        "--remote",
        heading="engine",
        kind="text",
        trust="trusted",
        metavar="URL",
        help="a Spark Connect server, such as sc://host:15002",
    ),
)
"""The options that choose an engine."""


def memory_of(size: str) -> int:
    """A size of memory in MiB, the same for each engine.

    >>> memory_of("8GB"), memory_of("512 MiB"), memory_of("4g")
    (7629, 512, 3814)
    """
    found = _SIZE.fullmatch(size)
    unit = (
        0 if found is None else (1024 if found[3] else 1000) ** ("MGT".index(found[2].upper()) + 2)
    )
    mib = 0 if found is None else int(found[1]) * unit // 2**20
    if not mib:
        raise UsageError(
            "CLI-001", f"--memory {size!r} is not a size.", fix="Write it like 8GB or 512MiB."
        )
    return mib


def engine_of(options: Options, *, scratch: str | None = None) -> BatchEngine:
    """The engine of the options; DuckDB spills into `scratch`."""
    memory = None if options.memory is None else memory_of(options.memory)
    if options.engine == "spark":
        if options.threads is not None:
            raise UsageError(
                "CLI-001",
                "--threads belongs to DuckDB.",
                fix=f"Write --master 'local[{options.threads}]' for Spark on this machine.",
            )
        if options.remote and memory is not None:
            raise UsageError(
                "CLI-001",
                "--memory is of a Spark that starts here, not of a server.",
                fix="Omit it; the server has its own settings.",
            )
        from assay.families.batch.spark_engine import SparkEngine
        from assay.families.batch.spark_session import SparkSource

        return SparkEngine(
            SparkSource(master=options.master, remote=options.remote, memory_mib=memory)
        )
    if options.master or options.remote:
        raise UsageError(
            "CLI-001", "--master and --remote belong to Spark.", fix="Add --engine spark."
        )

    return DuckDBEngine(threads=options.threads, memory_mib=memory, scratch=scratch)


@contextmanager
def reading_engine(options: Options) -> Iterator[BatchEngine]:
    """The engine of the options, for queries that write nothing."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as scratch:
        engine = engine_of(options, scratch=scratch)
        try:
            yield engine
        finally:
            engine.close()


def refuse_batch_options(options: Options) -> None:
    """Refuse what only an output of `assay batch` has, where none was given."""
    given = ["--engine"] if options.engine != "duckdb" else []
    given += [
        f"--{name}" for name in ("threads", "memory", "master", "remote") if vars(options)[name]
    ]
    if given:
        raise UsageError(
            "CLI-001",
            f"{given[0]} is for outputs of `assay batch`, and none was given.",
            fix="Omit it, or grade with `assay batch` first.",
        )
    if other := [kind for kind in options.slice if kind not in SLICES]:
        raise UsageError(
            "CLI-001",
            f"--slice {other[0]} is not a kind of slice.{near_miss(other[0], SLICES)}",
            fix=f"Runs have {', '.join(SLICES)}; a batch has the columns that it kept. To compare"
            " by a column of a table of results, map it:"
            f" --map {shlex.quote(f'group={other[0]}')}.",
        )


_UNSUPPORTED = (
    *(".json", ".ndjson", ".tsv", ".txt", ".gz", ".arrow", ".feather", ".ipc", ".orc", ".avro"),
    *(".xlsx", ".xls", ".html", ".md", ".xml", ".yaml", ".yml", ".db", ".duckdb", ".sqlite"),
)
"""Extensions of files that a batch doesn't write."""


def run(options: Options) -> int:
    """Grade the rows that the options name, and show the result."""
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
    scratch = hidden_folder(target_of(options.output)) if options.output else None
    return engine_of(options, scratch=scratch)


def _output(options: Options) -> str:
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


def asks_to_store(options: Options) -> bool:
    """Whether the command line has `--store`, also without a URL."""
    sources = options.sources
    return options.store is not None and (not sources or sources["store"] == "command line")


def required(options: Options, profile: str | None) -> str | None:
    """A profile with what the scorers and gates of `assay.yaml` add to it: a batch needs them as
    columns or rows.
    """
    return None if profile is None else asked_profile(options, profile)


def chosen_policy(options: Options, option: str = "policy") -> str | None:
    """The policy that the command line or `assay.yaml` names; None if neither does."""
    named: str = getattr(options, option)
    chosen = options.sources.get(option, DEFAULT) != DEFAULT or named != DEFAULT_POLICY
    return named if chosen else None


def graded_by(options: Options, output: BatchOutput, *, policy: str) -> BatchGrading:
    """What the options name, from the command line or `assay.yaml`, else what the record of a batch
    names; `policy` is the name of the option with the policy.
    """
    shelf = opt.shelf_of(options)
    scoring = _scoring(options, output, shelf)
    grader = Grader(shelf, policy=chosen_policy(options, policy) or output.record.policy)
    roles = {
        planned.spec.id: planned.spec.role
        for planned in scoring.criteria
        if planned.spec.role is not None
    }
    return BatchGrading(make_batch_plan(scoring, grader.rules), grader, roles)


def _scoring(options: Options, output: BatchOutput, shelf: Shelf) -> ScoringPlan:
    named = options.profile or output.record.profile
    sides = getattr(options, "baseline", ())
    against = [word for side in sides for word in ("--baseline", side.name)]
    files = (side.name for side in options.files)
    words = (*(["gate"] if against else ["report", "summary"]), *files, *against)
    with from_record(options, named, output.path, words):
        return scoring_plan(shelf, profile=required(options, named) or named, rubric=options.rubric)


@contextmanager
def from_record(options: Options, profile: str, where: str, words: Sequence[str]) -> Iterator[None]:
    """Ask for the file of a profile that only the record of a batch names, if the library lacks it;
    `words` are the command to repeat.
    """
    try:
        yield
    except AssayError as error:
        if options.profile or not error.code.startswith("LIB-"):
            raise
        again = command(*words, "--profile", "FILE", options=options)
        raise InputError(
            "BAT-060",
            f"was graded by {profile}, which the library lacks.",
            where=where,
            fix=f"Name the file of that profile: `{again}`. Or name the folder that it is in with"
            " `--library DIR`.",
        ) from None


MOST_UNUSED = 12
"""Columns that the summary names."""

_REPEATED = (TWICE.reason, WIDE_TWICE.reason)


def batch_document(
    result: BatchResult, target: BatchTarget, checked: BarResult | None
) -> dict[str, Any]:
    """The result of a batch, for programs."""
    from msgspec import to_builtins

    tally = result.tally
    return {
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
            {
                "code": reject.code,
                "reason": reject.reason,
                "count": reject.n,
                "examples": reject.examples,
            }
            for reject in tally.rejects
        ],
        "unused": result.unused,
        "partitions": {"graded": result.graded, "kept": result.kept},
        **({} if checked is None else {"bar": checked.shown()}),
    }


def batch_summary(
    result: BatchResult,
    target: BatchTarget,
    checked: BarResult | None,
    *,
    earlier: str | None = None,
) -> Iterable[str]:
    """The same for people; `earlier` is the output that was graded again."""
    record, tally = result.record, result.tally
    holds = tally.passed == tally.runs if checked is None else checked.holds
    mark = "✓" if holds and not tally.rejects else "✗"
    graded = count(tally.runs, "run")
    decided = [name for name in result.unused if name.lower() in DECIDED]
    rejected = sum(reject.n for reject in tally.rejects)
    failed = {
        "failed": tally.reasons,
        "gates": tally.gates,
        "floors": tally.floors,
        "no score": tally.missing,
    }
    yield from fact_lines(
        (
            "passed",
            f"{mark} {tally.passed:,} of {graded} passed ({_percent(tally.passed / tally.runs)})",
        ),
        (
            "sample",
            ""
            if record.sample is None
            else f"{record.sample:,} runs were drawn; the others weren't graded",
        ),
        ("from", "" if earlier is None else f"the norms in {earlier}, not the evidence"),
        ("rows", f"{record.counts.rows:,}"),
        ("grades", "  ".join(f"{letter} {n:,}" for letter, n in tally.grades.items())),
        *(
            (label, few([f"{name} {n:,}" for name, n in names.items()]))
            for label, names in failed.items()
        ),
        (
            "partitions",
            f"{len(result.graded):,} graded, {len(result.kept):,} unchanged and kept"
            if result.graded or result.kept
            else "",
        ),
        ("not used", few(result.unused, MOST_UNUSED)),
        (
            "not kept",
            f"{', '.join(decided)}, which `assay gate` reads: --keep {','.join(decided)}"
            if decided
            else "",
        ),
        (
            "rejected",
            f"{count(rejected, 'entry', 'entries')}; runs not graded: {tally.invalid:,}"
            if tally.rejects
            else "",
        ),
    )
    for row in tally.rejects:
        yield f"  {row.code}  {row.n:,}: {row.reason}; such as {'; '.join(row.examples)}"
    yield from fact_lines(
        ("by", _versions(record)),
        ("bar", "" if checked is None else checked.reason),
        ("wrote", target.grades),
        ("rejects", target.rejects if record.rejects else ""),
        ("record", target.record),
    )
    if tally.rejects:
        yield "Fix or remove the rejected rows, then run this again with --overwrite."
    if len(record.inputs) > 1 and any(reject.reason in _REPEATED for reject in tally.rejects):
        yield (
            f"If the {len(record.inputs):,} inputs are versions of the same runs, grade each into"
            " its own output; `assay gate` compares two of them."
        )
    failing = [name for name, count in tally.gates.items() if count == tally.runs - tally.invalid]
    if failing:
        yield (
            f"No run passes {_listed(failing)}. A gate without a verdict fails: give each gate a"
            " column of true and false, or rows with `gate` and `verdict`."
        )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {count(len(names) - 1, 'more gate')}"


def _versions(record: Any) -> str:
    return (
        f"profile {record.profile} · policy {record.policy} · {record.scoring_system}"
        f" · {record.grading_system} · {record.engine.name} {record.engine.version}"
    )


def _percent(share: float) -> str:
    """Rounded, but one failure in a million isn't shown as 100%."""
    return f"{share if share == 1 else min(share, 0.999):.1%}"


def run_verification(options: Options, engine: BatchEngine, target: BatchTarget) -> int:
    """Verify the output of the options and show each check."""
    try:
        checks = verify_batch(
            opt.shelf_of(options),
            engine,
            options.inputs,
            target,
            profile=required(options, options.profile),
            policy=chosen_policy(options),
            rubric=options.rubric,
            runs=options.run_ids,
        )
    finally:
        engine.close()
    holds = not any(check.faults for check in checks)
    document = {
        "verified": holds,
        "checks": [
            {
                "name": check.name,
                "holds": not check.faults,
                "checked": check.note,
                "faults": list(check.faults),
            }
            for check in checks
        ],
    }
    lines = map(printable, _lines(checks, target))
    return opt.give(options, document, lines, ExitCode.of(holds))


def _lines(checks: Sequence[BatchCheck], target: BatchTarget) -> Iterable[str]:
    for check in checks:
        yield f"{check.name:<12}{'✗' if check.faults else '✓'} {check.note}".rstrip()
        for fault in check.faults:
            yield f"  {fault}"
    failed = ", ".join(check.name for check in checks if check.faults)
    state = (
        f"✗ {target.path} differs in: {failed}" if failed else f"✓ {target.path} matches its record"
    )
    yield from fact_lines(("verified", state))


def decide_on_batches(options: Options, rules: ReleaseRules, asked: Asked) -> Decided:
    """The decision between two batches, and the files that each side was read from."""
    _check(options)
    candidate, baseline = (
        read_batch_output(side.path) for side in (options.files[0], options.baseline[0])
    )
    fresh = FreshOutputs(
        *(
            read_batch_output(paths[0].path) if paths else None
            for paths in (options.fresh, options.fresh_baseline)
        )
    )
    graded = graded_by(options, baseline, policy="grading_policy")
    with TemporaryDirectory() as scratch:
        engine = DuckDBEngine(scratch=scratch)
        try:
            made = compare_batches(engine, candidate, baseline, graded, rules, asked, fresh)
        finally:
            engine.close()
    return Decided(made, _files(candidate, fresh.candidate), _files(baseline, fresh.baseline))


def summarise_batch_output(options: Options) -> SummaryBlock:
    """The summary of one output of `assay batch`."""
    if len(options.files) > 1:
        raise UsageError("BAT-061", "a summary takes one output of `assay batch`.")
    if asks_to_store(options):
        raise UsageError("BAT-061", "--store can't be used on a batch.", fix="Omit --store.")
    output = read_batch_output(options.files[0].path)
    plan = graded_by(options, output, policy="policy").plan
    with reading_engine(options) as engine:
        return summarise_batch(engine, output, plan, slices=options.slice)


def _files(*outputs: BatchOutput | None) -> list[Subject]:
    """The files of these batches."""
    return [Subject(file, sha256) for output in outputs if output for file, sha256 in output.files]


def _check(options: Options) -> None:
    """Refuse what can't be worked out over batches."""
    sides = (options.files, options.baseline, options.fresh, options.fresh_baseline)
    inputs = (side for sources in sides for side in sources)
    if other := [side.name for side in inputs if not is_batch_output(side.path)]:
        if is_path(other[0]) and not os.path.exists(other[0]):
            raise no_such_file(other[0])
        raise UsageError(
            "BAT-061",
            f"{other[0]} isn't an output of `assay batch`, and another input is.",
            fix="Grade all of them with `assay batch`, or give runs or scorecards.",
        )
    if any(len(paths) > 1 for paths in sides):
        raise UsageError("BAT-061", "a decision over batches takes one batch on each side.")
    if options.fresh_baseline and not options.fresh:
        raise UsageError(
            "CLI-001", "--fresh-baseline needs --fresh, the fresh runs of the candidate."
        )
    given = {
        "--charts": options.charts,
        "--store": asks_to_store(options),
        "-o FILE.sarif": any(path.endswith(".sarif") for path in options.output),
    }
    if refused := [name for name, value in given.items() if value]:
        raise UsageError(
            "BAT-061",
            f"{', '.join(refused)} can't be used over batches.",
            fix="Omit it, or decide over runs or scorecards.",
        )


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
    ),
}
