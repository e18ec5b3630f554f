"""One batch from sources to a published output: grade, count, write the record, and publish last;
or only its SQL.

A folder with `key=value` subfolders, graded into a folder, is graded partition by partition. When
it is graded again, only partitions whose files are new or changed, by digest, are graded; the
others keep their grades, if these are the bytes that the record names.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import json

from assay.canon import digest
from assay.errors import InputError, NotEnoughEvidence, UsageError, few
from assay.families.batch.counting import (
    OutputTally,
    count_faults,
    count_output,
    count_rows,
    find_split_runs,
)
from assay.families.batch.digests import DigestedFile, check_unchanged, digest_files
from assay.families.batch.earlier import earlier_files, earlier_grades
from assay.families.batch.engine import BatchEngine
from assay.families.batch.evidence import sampled
from assay.families.batch.quoting import identifier, in_dialect, pretty
from assay.families.batch.records import (
    BatchCounts,
    BatchEngineUsed,
    BatchFile,
    BatchRecord,
    read_batch_record,
)
from assay.families.batch.sources import (
    LOGGED,
    BatchSource,
    Partition,
    find_partitions,
    find_sources,
    is_uri,
)
from assay.families.batch.targets import (
    GRADES,
    REJECTS,
    BatchTarget,
    Workplace,
    check_target,
    files_of,
    open_workplace,
)
from assay.families.batch.task import VIEW, BatchTask, Queries, graded_view
from assay.files.atomic import write_file
from assay.files.json_files import read_json

_TABLE = "a table, which has no file to digest"
_ELSEWHERE = "a file that only Spark reaches"
_SOURCE = "batch_source"
"""What was read, before text becomes numbers and norms become scores."""


class BatchOptions(NamedTuple):
    """How a batch runs."""

    overwrite: bool = False
    sample: int | None = None
    progress: Callable[[int, int], None] | None = None
    """Called with the number of bytes graded so far, and of all bytes."""


class BatchResult(NamedTuple):
    """The result of a batch."""

    record: BatchRecord
    tally: OutputTally
    graded: tuple[str, ...]
    """The partitions that were graded; empty if the input has none."""
    kept: tuple[str, ...]
    """The partitions whose grades are those of an earlier batch."""
    unused: tuple[str, ...] = ()
    """The input columns that the plan ignores."""


class _BatchPart(NamedTuple):
    """The part of the input that one query grades."""

    partition: str | None
    sources: tuple[BatchSource, ...]
    files: tuple[DigestedFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def run_batch(
    task: BatchTask,
    engine: BatchEngine,
    names: Sequence[str],
    target: BatchTarget,
    options: BatchOptions,
) -> BatchResult:
    """Grade sources into a target."""
    if task.earlier is not None:
        sources, partitions = earlier_grades(task.earlier)
    else:
        sources = find_sources(names)
        partitions = find_partitions(sources)
    if options.sample or not target.is_folder:
        partitions = []
    old = _earlier(task, target, partitions) if partitions and not options.overwrite else None
    inputs = [source.folder or file for source in sources for file in source.files]
    check_target(target, inputs, overwrite=options.overwrite or old is not None)
    with open_workplace(target) as work:
        parts = _parts(sources, partitions)
        kept = [part for part in parts if old is not None and _keep(part, old, target, work)]
        fresh = [part for part in parts if part not in kept]
        grading = _Grading(task, engine, work, options, sum(part.size for part in fresh))
        for part in fresh:
            grading.grade(part)
        files = [file for part in parts for file in part.files]
        check_unchanged(files)
        outputs, rejects = work.files()
        tally = count_output(engine, outputs, rejects)
        if partitions:
            _check_whole_runs(engine, outputs)
        if not tally.runs:
            raise NotEnoughEvidence(
                "FIL-005",
                "there is nothing to grade.",
                where=", ".join(source.name for source in sources),
                fix="An empty input never passes.",
            )
        rows = grading.rows + _rows_of(engine, kept)
        plan = task.plan
        record = BatchRecord(
            profile=plan.profile,
            policy=plan.policy,
            scoring_system=plan.scoring_system,
            grading_system=plan.grading_system,
            plan=plan.digest,
            digests=dict(plan.digests),
            engine=BatchEngineUsed(name=engine.name, version=engine.version),  # type: ignore[arg-type]
            sql=old.sql if old is not None and not fresh else digest(sorted(grading.sql)),
            columns=dict(task.names),
            keep=list(task.keep),
            sample=options.sample,
            inputs=_inputs(sources, parts),
            outputs=_written(work, outputs),
            rejects=_written(work, rejects),
            counts=BatchCounts(
                rows=rows,
                runs=tally.runs,
                passed=tally.passed,
                invalid=tally.invalid,
                grades=tally.grades,
                rejects=_by_code(tally),
            ),
        )
        write_file(work.record, json.format(json.encode(record), indent=2) + b"\n")
        work.publish(overwrite=options.overwrite)
    return BatchResult(
        record,
        tally,
        tuple(part.partition for part in fresh if part.partition is not None),
        tuple(part.partition for part in kept if part.partition is not None),
        tuple(grading.unused),
    )


class ExplainedBatch(NamedTuple):
    """The statements of a batch, in the dialect of its engine."""

    reading: tuple[str, ...]
    """Statements that define the view `batch_input`; none if SQL alone can't read the input."""
    grades: str
    rejects: str


def explain_batch(task: BatchTask, engine: BatchEngine, names: Sequence[str]) -> ExplainedBatch:
    """The statements of a batch over the inputs that were named. Nothing is graded."""
    sources = find_sources(names) if task.earlier is None else earlier_grades(task.earlier)[0]
    attached = engine.attach(sources)
    view = graded_view(task, engine, attached)
    queries = task.queries(VIEW, engine.columns(view))
    evidence = task.evidence(_SOURCE, engine.columns(attached))
    reading = engine.reading_sql(sources)
    if reading:
        *before, select = reading
        made = evidence or f"SELECT * FROM {identifier(_SOURCE)}"
        reading = [
            *before,
            f"CREATE OR REPLACE TEMP VIEW {identifier(_SOURCE)} AS {select}",
            f"CREATE OR REPLACE TEMP VIEW {identifier(VIEW)} AS {in_dialect(made, engine.dialect)}",
        ]
    grades, rejects = (
        pretty(in_dialect(sql, engine.dialect), engine.dialect)
        for sql in (queries.grades, queries.rejects)
    )
    return ExplainedBatch(tuple(reading), grades, rejects)


class _Grading:
    """Grades the parts of a batch one after the other."""

    def __init__(
        self,
        task: BatchTask,
        engine: BatchEngine,
        work: Workplace,
        options: BatchOptions,
        total: int,
    ) -> None:
        self._task = task
        self._engine = engine
        self._work = work
        self._options = options
        self._total = total
        self._done = 0
        self.sql: set[str] = set()
        self.rows = 0
        self.unused: dict[str, None] = {}

    def grade(self, part: _BatchPart) -> None:
        """Write the grades of a part, and what was rejected."""
        engine, work, name = self._engine, self._work, part.partition or ""
        view = engine.attach(list(part.sources))
        self.rows += count_rows(engine, view)
        view = graded_view(self._task, engine, view)
        columns = engine.columns(view)
        if self._options.sample is not None:
            run = self._task.names.get("run", "run")
            drawn = sampled(view, run, self._options.sample)
            view = engine.define(in_dialect(drawn, engine.dialect))
        self.sql.add(in_dialect(self._task.queries(VIEW, columns).grades, engine.dialect))
        queries = self._task.queries(view, columns)
        keys = {step.partition("=")[0] for step in name.split("/")}
        self.unused |= dict.fromkeys(column for column in queries.unused if column not in keys)
        kind = work.target.form
        grades = in_dialect(queries.grades, engine.dialect)
        place = work.place(GRADES, name)
        engine.write(grades, place, kind=kind, progress=self._progress(part))
        if count_faults(engine, files_of(place)):
            rejects = in_dialect(self._rejects(part, queries), engine.dialect)
            engine.write(rejects, work.place(REJECTS, name), kind=kind)
        self._done += part.size

    def _rejects(self, part: _BatchPart, queries: Queries) -> str:
        """The query of rejected rows; for norms, those that were rejected when they were made."""
        earlier = self._task.earlier
        if earlier is None:
            return queries.rejects
        files = earlier_files(earlier, earlier.record.rejects, part.partition)
        view = self._engine.attach(files)
        return f"SELECT * FROM {identifier(view)}"

    def _progress(self, part: _BatchPart) -> Callable[[float], None] | None:
        report = self._options.progress
        if report is None:
            return None
        done, total = self._done, self._total
        return lambda share: report(done + int(share * part.size), total)


def _rows_of(engine: BatchEngine, parts: Sequence[_BatchPart]) -> int:
    sources = [source for part in parts for source in part.sources]
    return count_rows(engine, engine.attach(sources)) if sources else 0


def _parts(sources: Sequence[BatchSource], partitions: Sequence[Partition]) -> list[_BatchPart]:
    """The parts of the input, each graded by one query, with their digests."""
    if not partitions:
        files = [
            file
            for source in sources
            for file in source.files
            if source.kind not in LOGGED and os.path.isfile(file)
        ]
        return [_BatchPart(None, tuple(sources), tuple(digest_files(files)))]
    digests = iter(
        digest_files(file for partition in partitions for file in partition.source.files)
    )
    return [
        _BatchPart(
            partition.name,
            (partition.source,),
            tuple(next(digests) for _ in partition.source.files),
        )
        for partition in partitions
    ]


# --- an earlier output


def _earlier(
    task: BatchTask, target: BatchTarget, partitions: Sequence[Partition]
) -> BatchRecord | None:
    """The record of an output that this batch may bring up to date; None if there is none."""
    if not os.path.exists(target.record):
        return None
    old = read_batch_record(read_json(target.record))
    differences = [
        f"{what} ({before} before, {now} now)"
        for what, before, now in (
            ("the profile", old.profile, task.plan.profile),
            ("the policy", old.policy, task.plan.policy),
            ("the columns", old.columns, dict(task.names)),
            ("the kept columns", old.keep, list(task.keep)),
            ("the sample", old.sample, None),
        )
        if before != now
    ]
    if not differences and old.plan != task.plan.digest:
        differences = ["the rules of its profile or policy"]
    if differences:
        raise UsageError(
            "BAT-021",
            f"was graded in another way: {'; '.join(differences)}.",
            where=target.path,
            fix="Grade all of it again with --overwrite, or write to another -o.",
        )
    before = {file.partition for file in old.inputs if file.partition is not None}
    gone = sorted(before - {partition.name for partition in partitions})
    if gone:  # runs that fail could be forgotten, and what is left would pass
        raise UsageError(
            "BAT-021",
            f"has grades of {few(gone, 1)}, which the input no longer has.",
            where=target.path,
            fix="Restore it, or grade what is left with --overwrite.",
        )
    return old


def _keep(part: _BatchPart, old: BatchRecord, target: BatchTarget, work: Workplace) -> bool:
    """Take over the grades of a partition, if its files are those that were graded and the grades
    are those that were written. Returns whether they were.
    """
    before = {
        (os.path.basename(file.name), file.digest)
        for file in old.inputs
        if file.partition == part.partition
    }
    if before != {(os.path.basename(file.path), file.digest) for file in part.files}:
        return False
    files = [file for file in (*old.outputs, *old.rejects) if file.partition == part.partition]
    paths = [os.path.join(target.path, file.name) for file in files]
    if (
        not files
        or not all(file.is_inside for file in files)
        or not all(map(os.path.isfile, paths))
    ):
        return False
    for file, there in zip(files, digest_files(paths), strict=True):
        if file.digest != there.digest:
            return False
    for file, path in zip(files, paths, strict=True):
        copy = os.path.join(work.folder, file.name)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        try:
            os.link(path, copy)
        except OSError:  # a file system without links
            shutil.copy2(path, copy)
    return True


def _check_whole_runs(engine: BatchEngine, outputs: Sequence[str]) -> None:
    """Refuse runs whose rows are in several partitions: each would be graded without the rest."""
    split = find_split_runs(engine, outputs)
    if split:
        raise InputError(
            "BAT-024",
            f"the run '{split[0]}' has rows in several partitions, so none has all of it.",
            fix="Keep all its rows in one partition, or grade the folder as a whole into one"
            " file: -o grades.parquet.",
        )


# --- the record


def _inputs(sources: Sequence[BatchSource], parts: Sequence[_BatchPart]) -> list[BatchFile]:
    files = [
        BatchFile(name=file.path, size=file.size, digest=file.digest, partition=part.partition)
        for part in parts
        for file in part.files
    ]
    kinds = ("table", *LOGGED)
    return files + [
        BatchFile(name=source.name, undigested=_TABLE if source.kind in kinds else _ELSEWHERE)
        for source in sources
        if source.kind in kinds or any(map(is_uri, source.files))
    ]


def _by_code(tally: OutputTally) -> dict[str, int]:
    """Rejected rows by code; several reasons may share one."""
    counted: Counter[str] = Counter()
    for reject in tally.rejects:
        counted[reject.code] += reject.n
    return dict(counted)


def _written(work: Workplace, paths: Sequence[str]) -> list[BatchFile]:
    return [
        BatchFile(
            name=work.final_name(file.path),
            size=file.size,
            digest=file.digest,
            partition=work.partition_of(file.path),
        )
        for file in digest_files(paths)
    ]
