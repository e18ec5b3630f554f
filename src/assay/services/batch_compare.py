"""A release decision on two outputs of `assay batch`: their graded rows, decided on by the rules of
every other decision.

Rows don't carry what their runs were asked, so both sides are judged as they were graded: by one
plan, from columns of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from assay.errors import InputError, UsageError, count
from assay.families.batch.duckdb_engine import DuckDBEngine
from assay.families.batch.plan import BatchPlan
from assay.families.batch.run_query import GROUP, SAMPLE
from assay.pipeline.batch_sides import (
    COMPARED,
    BatchOutput,
    check_plan,
    check_slices,
    fingerprint_of,
    side_of_batch,
)
from assay.pipeline.grading import Grader
from assay.pipeline.sides import Rereadable, severe_of
from assay.records.decision import Decision
from assay.release.comparability import mismatch_error, mismatches
from assay.release.pairs import SLICES
from assay.release.policy import ReleaseRules
from assay.release.sides import Side
from assay.services.compare import Asked, FreshRuns, compare


class BatchGrading(NamedTuple):
    """What graded both batches, as the shelf has it."""

    plan: BatchPlan
    """That of the baseline's profile and policy."""
    grader: Grader
    """With that policy."""
    roles: Mapping[str, str]
    """The role of each criterion that has one."""


class FreshOutputs(NamedTuple):
    """Runs that were made again, as batches."""

    candidate: BatchOutput | None = None
    baseline: BatchOutput | None = None


def compare_batches(
    engine: DuckDBEngine,
    candidate: BatchOutput,
    baseline: BatchOutput,
    graded: BatchGrading,
    rules: ReleaseRules,
    asked_for: Asked,
    fresh: FreshOutputs = FreshOutputs(),  # noqa: B008
) -> Decision:
    """The decision on two batches."""
    named = {"candidate": candidate, "baseline": baseline}
    named |= {
        f"fresh {name}": output for name, output in fresh._asdict().items() if output is not None
    }
    compared = [column for column in COMPARED if column in baseline.kept]
    fingerprints = {
        name: fingerprint_of(engine, output, compared) for name, output in named.items()
    }
    bar = _bare("baseline", fingerprints["baseline"])
    for name, output in named.items():
        if different := mismatches(_bare(name, fingerprints[name]), bar):
            raise mismatch_error(different)
        _check_columns(name, output, baseline)
    check_plan(graded.plan, baseline)
    _check_judges(graded.plan, baseline)
    _check_slices(baseline, asked_for.slices)
    read = {
        name: Rereadable(
            side_of_batch(
                engine,
                output,
                graded.plan,
                name=name,
                fingerprint=fingerprints[name],
                severe=severe_of(rules),
                roles=graded.roles,
            ),
            lambda: (),
        )
        for name, output in named.items()
    }
    again = FreshRuns(read.get("fresh candidate"), read.get("fresh baseline"))
    notes = [
        _groups_note(candidate, baseline),
        _samples_note(read["candidate"].side, read["baseline"].side, baseline),
        *(_rejects_note(name, output) for name, output in named.items()),
    ]
    return compare(
        read["candidate"],
        read["baseline"],
        rules,
        graded.grader,
        asked_for._replace(fresh=again, notes=tuple(note for note in notes if note)),
    )


def _bare(name: str, fingerprint: Mapping[str, list[str]]) -> Side:
    """A side before its rows are read."""
    unread: Any = None
    return Side(name, {}, fingerprint, unread, {}, 0, {})


def _check_columns(name: str, output: BatchOutput, baseline: BatchOutput) -> None:
    """Refuse a batch whose scores or verdicts come from other columns than the baseline's."""
    ours, theirs = output.record.columns, baseline.record.columns
    for role in sorted({*ours, *theirs} - {"run"}):
        now, before = ours.get(role, role), theirs.get(role, role)
        if now.lower() != before.lower():
            raise InputError(
                "REL-002",
                f"{role} is the column {before!r} in the baseline's batch, and {now!r} in the"
                f" {name}'s.",
                where=output.path,
                fix="Grade both with the same --map. A column that was only renamed needs its"
                " earlier name.",
            )


def _check_judges(plan: BatchPlan, baseline: BatchOutput) -> None:
    """Refuse batches whose scores pass no floor because rows don't show which judge gave them: both
    sides would fail alike.
    """
    if any(item.distrusted and item.floor is not None for item in plan.criteria):
        raise InputError(
            "BAT-060",
            f"rows don't show which judge gave a score, so under {plan.policy} none reaches its"
            " floor.",
            where=baseline.path,
            fix="Decide over runs or scorecards.",
        )


def _check_slices(baseline: BatchOutput, kinds: tuple[str, ...]) -> None:
    for kind in kinds:
        if kind not in SLICES and kind in baseline.record.keep:
            raise UsageError(
                "BAT-061",
                f"a decision over batches can't be sliced by the column '{kind}'.",
                fix=f"It is sliced by the kept columns {', '.join(SLICES)}.",
            )
    check_slices(baseline, kinds)


def _groups_note(candidate: BatchOutput, baseline: BatchOutput) -> str | None:
    """A note that samples count as independent although the candidate's have groups."""
    if GROUP in baseline.kept or GROUP not in candidate.kept:
        return None
    return (
        "The candidate's batch kept `group` and the baseline's didn't, so samples of one group"
        " count as independent. Grade the baseline again with `--keep group`."
    )


def _samples_note(candidate: Side, baseline: Side, output: BatchOutput) -> str | None:
    """A note that runs may share no sample because their samples were not kept."""
    if SAMPLE in output.kept or candidate.samples.keys() & baseline.samples.keys():
        return None
    return (
        "The baseline's batch didn't keep `sample`, so runs are paired by their id. Grade both"
        " again with `--keep sample`."
    )


def _rejects_note(name: str, output: BatchOutput) -> str | None:
    """A note that rows of a batch were rejected while its runs were graded."""
    rejects = output.record.counts.rejects
    if not rejects:
        return None
    codes = ", ".join(f"{code} {n:,}" for code, n in sorted(rejects.items()))
    entries = count(sum(rejects.values()), "entry", "entries")
    return (
        f"`assay batch` rejected {entries} of the {name} and graded its runs without them: {codes}."
    )
