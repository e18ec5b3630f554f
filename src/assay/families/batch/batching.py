"""A batch from names on the shelf: the plan of a profile and a policy, and the task of grading
inputs by it. If the input is the output of an earlier batch, its norms are graded again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from assay.errors import AssayError, InputError, UsageError, count
from assay.families.batch.counting import count_output, find_split_runs
from assay.families.batch.digests import digest_files
from assay.families.batch.earlier import Earlier
from assay.families.batch.engine import BatchEngine
from assay.families.batch.evidence import norms_evidence, norms_plan, sampled, typed_text
from assay.families.batch.layout import COUNTS, GRADE_COLUMNS, mapped_columns
from assay.families.batch.plan import BatchPlan, make_batch_plan
from assay.families.batch.quoting import in_dialect
from assay.families.batch.records import BatchFile, BatchRecord, read_batch_record
from assay.families.batch.relational import batch_queries
from assay.families.batch.sources import find_sources
from assay.families.batch.targets import BatchTarget, record_of, target_at
from assay.families.batch.task import BatchTask, graded_view
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
from assay.scoring.profile import ScoringPlan, make_plan
from assay.services.grading import DEFAULT_POLICY
from assay.services.selection import WORKFLOW, select_profile, select_rubric

_WORDS = ("run", "criterion", "gate", "verdict")
"""The columns that are not numbers."""


def plan_batch(
    shelf: Shelf, *, profile: str, policy: str = DEFAULT_POLICY, rubric: str | None = None
) -> BatchPlan:
    """The plan of a profile and a policy; a rubric overrides criteria of the profile."""
    plan = scoring_plan(shelf, profile=profile, rubric=rubric)
    return make_batch_plan(plan, make_rules(shelf.policy(policy)))


def scoring_plan(shelf: Shelf, *, profile: str, rubric: str | None = None) -> ScoringPlan:
    """The scoring plan of a profile; a rubric overrides its criteria."""
    chosen, why = select_profile(shelf, profile, None, None, named_by=WORKFLOW)
    over, rubric_why = select_rubric(shelf, rubric, None, named_by=WORKFLOW)
    return make_plan(chosen, why=why, rubric=over, rubric_why=rubric_why)


def batch_task(
    shelf: Shelf,
    inputs: Sequence[str],
    *,
    profile: str | None,
    policy: str,
    rubric: str | None = None,
    names: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
) -> BatchTask:
    """The task of grading the inputs. The output of an earlier batch names its own profile."""
    earlier = _earlier(inputs)
    if earlier is not None:
        profile = profile or earlier.record.profile
    if profile is None:
        raise UsageError(
            "CLI-001",
            "a batch needs a profile.",
            fix="Name one with --profile; `assay library list profiles` shows them.",
        )
    plan = plan_batch(shelf, profile=profile, policy=policy, rubric=rubric)
    if earlier is not None:
        return _regrading(plan, earlier, names or {}, keep)
    return grading_task(plan, names or {}, keep)


def grading_task(plan: BatchPlan, names: Mapping[str, str], keep: Sequence[str]) -> BatchTask:
    """The task of grading rows of scores and verdicts."""
    roles = mapped_columns(names)
    numbers = {name for role, name in roles.items() if role not in _WORDS}
    for item in plan.criteria:
        ends = ("", "_n", *(f"_{key}" for key in COUNTS.get(item.formula, ())))
        numbers |= {f"{item.name}{end}" for end in ends}
    words = {name for role, name in roles.items() if role in _WORDS}
    numbers -= words
    sizes = numbers & {roles.get("n"), *(f"{item.name}_n" for item in plan.criteria)}
    verdicts = {*plan.gates, roles.get("verdict", "verdict")}
    return BatchTask(
        plan,
        partial(batch_queries, plan, names=names, keep=keep),
        partial(
            typed_text, numbers=numbers, verdicts=verdicts, sizes=sizes, words=words - verdicts
        ),
        names=dict(names),
        keep=tuple(keep),
    )


def _regrading(
    plan: BatchPlan, earlier: Earlier, names: Mapping[str, str], keep: Sequence[str]
) -> BatchTask:
    """The task of grading the norms of an earlier batch again. The plan must have the profile that
    made them.
    """
    record = earlier.record
    if names or keep:
        raise UsageError(
            "CLI-001",
            "--map and --keep can't be used on the output of an earlier batch.",
            fix="Omit them: the output keeps the columns that it has.",
        )
    before = {name: value for name, value in record.digests.items() if name != "policy"}
    now = {name: value for name, value in plan.digests.items() if name != "policy"}
    if before != now or record.scoring_system != plan.scoring_system:
        raise InputError(
            "BAT-027",
            f"its norms are those of {record.profile}, {record.scoring_system}, and not of"
            f" {plan.profile}, {plan.scoring_system}, as it is now.",
            where=earlier.target.path,
            fix="Grade the evidence again, or name the profile that made them with --profile.",
        )
    if record.sample is not None:
        raise UsageError(
            "CLI-001",
            "is only a sample of its input.",
            where=earlier.target.path,
            fix="Grade the evidence again.",
        )
    norms, kept = norms_plan(plan), tuple(record.keep)
    return BatchTask(
        plan,
        partial(batch_queries, norms, names={}, keep=kept),
        lambda view, columns: norms_evidence(view, columns, plan, kept),
        keep=kept,
        earlier=earlier,
    )


def _earlier(inputs: Sequence[str]) -> Earlier | None:
    """The earlier batch whose output the input is; None for evidence."""
    batches = {name: batch for name in inputs if (batch := earlier_batch(name)) is not None}
    if not batches:
        return None
    name, batch = next(iter(batches.items()))
    if len(inputs) > 1:
        raise UsageError(
            "CLI-001",
            f"'{name}' is the output of a batch.",
            fix="Grade it again by itself, without other inputs.",
        )
    return batch


def earlier_batch(name: str) -> Earlier | None:
    """The batch that wrote the named output; None for anything else, such as evidence that only
    shares the name of an output, without its extension.
    """
    path = record_of(name)
    if not os.path.exists(path):
        return None
    record = read_batch_record(read_json(path))
    if not record.outputs:
        return None
    target = target_at(path, record)
    own = {os.path.realpath(path), os.path.realpath(target.path)}
    return Earlier(target, record) if os.path.realpath(name) in own else None


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
