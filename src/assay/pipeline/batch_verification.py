"""Verify the output of a batch against its record, and rows of it by recomputing them in Python."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from assay.errors import AssayError, InputError, UsageError, count
from assay.families.batch.counting import count_output, find_split_runs
from assay.families.batch.digests import digest_files
from assay.families.batch.engine import BatchEngine
from assay.families.batch.evidence import sampled
from assay.families.batch.layout import GRADE_COLUMNS
from assay.families.batch.plan import make_batch_plan
from assay.families.batch.quoting import in_dialect
from assay.families.batch.sources import find_sources
from assay.families.batch.targets import BatchTarget
from assay.families.batch.task import graded_view
from assay.families.batch.verification import (
    SHOWN,
    RowDifference,
    changed_files,
    row_differences,
    runs_without,
    sample_of_runs,
)
from assay.files.json_files import read_json
from assay.grading.policy import Rules, make_rules
from assay.library.shelf import Shelf
from assay.pipeline.batching import earlier_batch, grading_task, scoring_plan
from assay.records.batch import BatchFile, BatchRecord, read_batch_record
from assay.scoring.profile import ScoringPlan

SAMPLE = 100
"""How many runs are recomputed if none are named."""


class BatchCheck(NamedTuple):
    """One thing that was checked."""

    name: str
    faults: tuple[str, ...]
    """What differs from the record; empty if nothing does."""
    note: str
    """What was compared."""


def verify_batch(
    shelf: Shelf,
    engine: BatchEngine,
    inputs: Sequence[str],
    target: BatchTarget,
    *,
    profile: str | None = None,
    policy: str | None = None,
    rubric: str | None = None,
    runs: Sequence[str] = (),
) -> list[BatchCheck]:
    """Check the files, the plan and the counts of an output against its record, and recompute rows
    in Python: those of the named runs, or of a fixed sample.
    """
    record = _record(target, inputs)
    plan = scoring_plan(shelf, profile=profile or record.profile, rubric=rubric)
    rules = make_rules(shelf.policy(policy or record.policy))
    sources = find_sources(inputs)
    paths = [file for source in sources for file in source.files if os.path.isfile(file)]
    checks = [
        _outputs(record, target),
        _inputs(record, paths),
        _plan(record, plan, rules),
    ]
    task = grading_task(make_batch_plan(plan, rules), record.columns, record.keep)
    evidence = graded_view(task, engine, engine.attach(sources))
    try:
        folder = os.path.dirname(target.record)
        files, rejects = (
            [os.path.join(folder, file.name) for file in listed]
            for listed in (record.outputs, record.rejects)
        )
        grades = engine.attach(files)
        checks.append(_counts(engine, record, files, rejects))
        checks.append(_runs(engine, record, evidence, grades, files))
        if not checks[2].faults:
            checks.append(_rows(engine, record, evidence, grades, runs, plan, rules))
    except (AssayError, OSError) as error:
        checks.append(BatchCheck("rows", (f"the output can't be read: {error}",), ""))
    return checks


def _record(target: BatchTarget, inputs: Sequence[str]) -> BatchRecord:
    if not os.path.exists(target.record):
        raise InputError(
            "FIL-001",
            "there is no record of a batch next to this output.",
            where=target.path,
            fix=f"The batch wrote it to {target.record}. Without it, grade the evidence again.",
        )
    record = read_batch_record(read_json(target.record))
    for name in inputs:
        if earlier_batch(name) is not None:
            raise UsageError(
                "CLI-001",
                "is the output of a batch. --verify makes rows again from evidence, not norms.",
                where=name,
                fix="Verify that output with its own inputs.",
            )
    return record


def _outputs(record: BatchRecord, target: BatchTarget) -> BatchCheck:
    files = [*record.outputs, *record.rejects]
    changed = changed_files(files, os.path.dirname(target.record))
    faults = [f"{name} is missing, or isn't the file that the batch wrote" for name in changed]
    faults += [f"the record doesn't name {file}" for file in target.unrecorded(record)]
    return BatchCheck("output", tuple(faults), count(len(files), "file"))


def _inputs(record: BatchRecord, paths: Iterable[str]) -> BatchCheck:
    """Compare the files by digest: a copy in another folder is the same evidence."""
    left = Counter(file.digest for file in record.inputs if file.digest is not None)
    given = digest_files(paths)
    faults = []
    for file in given:
        if left[file.digest] > 0:
            left[file.digest] -= 1
        else:
            faults.append(f"{file.path} isn't a file that was graded, or was changed since")
    for recorded in record.inputs:
        if recorded.digest is not None and left[recorded.digest] > 0:
            left[recorded.digest] -= 1
            faults.append(f"{recorded.name} was graded, and no input has its bytes")
    tables = [recorded for recorded in record.inputs if recorded.digest is None]
    return BatchCheck("input", tuple(faults), count(len(given), "file") + _undigested(tables))


def _undigested(tables: Sequence[BatchFile]) -> str:
    if not tables:
        return ""
    names = ", ".join(table.name for table in tables)
    return f"; {names} has no digest, so only the recomputed rows verify it"


def _plan(record: BatchRecord, plan: ScoringPlan, rules: Rules) -> BatchCheck:
    now = make_batch_plan(plan, rules)
    note = f"profile {now.profile}, policy {now.policy}"
    if record.columns:  # chosen by the user who graded it, not by the one who verifies it
        note += f", columns {', '.join(f'{role}={name}' for role, name in record.columns.items())}"
    if now.digest == record.plan:
        return BatchCheck("plan", (), note)
    digests: Mapping[str, str] = now.digests
    faults = [
        f"the {what} isn't the one that the batch was graded by"
        for what in sorted({*digests, *record.digests})
        if digests.get(what) != record.digests.get(what)
    ]
    other = f"its rules aren't those of the batch: {record.scoring_system}, {record.grading_system}"
    return BatchCheck("plan", tuple(faults) or (other,), note)


def _counts(
    engine: BatchEngine, record: BatchRecord, files: Sequence[str], rejects: Sequence[str]
) -> BatchCheck:
    tally = count_output(engine, files, rejects)
    written = record.counts
    faults = [
        f"the record has {what} {before}, and the output {now}"
        for what, before, now in (
            ("runs", written.runs, tally.runs),
            ("passed", written.passed, tally.passed),
            ("invalid", written.invalid, tally.invalid),
            ("grades", _listed(written.grades), _listed(tally.grades)),
            ("rejects", written.rejected, sum(reject.n for reject in tally.rejects)),
        )
        if before != now
    ]
    return BatchCheck("counts", tuple(faults), f"{tally.passed:,} of {tally.runs:,} runs passed")


def _listed(grades: Mapping[str, int]) -> str:
    return ", ".join(f"{letter} {count:,}" for letter, count in sorted(grades.items()))


def _runs(
    engine: BatchEngine, record: BatchRecord, evidence: str, grades: str, files: Sequence[str]
) -> BatchCheck:
    """Check that each run of the input, or of the sample drawn from it, has one row, and no other
    run has any.
    """
    run = record.columns.get("run", "run")
    note = "every run of the input has a row"
    if record.sample is not None:
        drawn = sampled(evidence, run, record.sample)
        evidence = engine.define(in_dialect(drawn, engine.dialect))
        note = f"a sample of {count(record.sample, 'run')}"
    given, stored = (evidence, run), (grades, "run")
    whose = "the input" if record.sample is None else "the sample"
    faults = [f"'{run}' isn't a run of {whose}" for run in runs_without(engine, stored, given)]
    faults += [f"the run '{run}' has no row" for run in runs_without(engine, given, stored)]
    faults += [f"the run '{run}' has several rows" for run in find_split_runs(engine, files)]
    return BatchCheck("runs", tuple(faults), note)


def _rows(
    engine: BatchEngine,
    record: BatchRecord,
    evidence: str,
    grades: str,
    runs: Sequence[str],
    plan: ScoringPlan,
    rules: Rules,
) -> BatchCheck:
    there = {column.name for column in engine.columns(grades)}
    if lacking := [name for name in GRADE_COLUMNS if name not in there]:
        return BatchCheck("rows", (f"the output lacks the column '{lacking[0]}'",), "")
    size = SAMPLE if record.sample is None else min(SAMPLE, record.sample)
    chosen = list(dict.fromkeys(runs)) or sample_of_runs(
        engine, evidence, record.columns.get("run", "run"), size
    )
    differences = row_differences(
        engine, evidence, grades, chosen, plan, rules, names=record.columns, keep=record.keep
    )
    faults = [_difference_text(difference) for difference in differences[:SHOWN]]
    if len(differences) > SHOWN:
        faults.append(f"{count(len(differences) - SHOWN, 'more row')} with differences")
    return BatchCheck("rows", tuple(faults), f"{count(len(chosen), 'row')} recomputed in Python")


def _difference_text(difference: RowDifference) -> str:
    run, column, stored, recomputed = difference
    if not column:
        if not recomputed:
            return f"the input has no run '{run}'"
        return f"the run '{run}' has {stored} rows in the output"
    return f"{run}: {column} is {stored}, and Python makes it {recomputed}"
