"""Decide on two batches: an engine counts their pairs, and the rules are those of every other
decision. Also the summary of one batch.

The plan on the shelf decides how a batch was graded; a record that claims something else is
refused.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType, structs

from assay.batch.engine import BatchEngine, ask
from assay.batch.pair_query import PairQuery, extra_gates
from assay.batch.pair_sums import count_pairs_of, stratum_of
from assay.batch.plan import BatchPlan
from assay.batch.quoting import identifier, text
from assay.batch.run_query import (
    DATASET_VERSION,
    GROUP,
    JUDGE,
    BatchRunQuery,
    BatchView,
    count_if,
    decided_name,
    extra_gate_names,
)
from assay.batch.side_sums import SideSums, side_sums, unscored_runs
from assay.batch.slice_sums import slice_pairs, slice_sums
from assay.batch.targets import BatchTarget
from assay.canon import digest
from assay.errors import InputError, NotEnoughEvidence, UsageError, count
from assay.files.inputs import file_digest
from assay.files.json_files import read_json
from assay.grading.policy import Rules
from assay.pipeline.deciding import declared
from assay.pipeline.notes import policy_note, shared_groups
from assay.records.batch import BatchRecord, read_batch_record
from assay.records.decision import Decision, SliceComparisons
from assay.records.summary import SummaryBlock
from assay.registry import near_miss
from assay.release.comparability import mismatch_error, mismatches, same_note
from assay.release.decision import decision
from assay.release.flaky import flaky_records
from assay.release.looks import compare_slices, with_counted_looks, with_slices
from assay.release.policy import ReleaseRules
from assay.release.promotion import promote_tally, with_finding
from assay.release.sides import Side
from assay.release.unscored import hold_unscored

COMPARED = (DATASET_VERSION, JUDGE)
"""The kept columns that must have the same values on both sides, if the baseline kept them."""
_MAX_VALUES = 100


class BatchSide(NamedTuple):
    """A batch output whose files match its record."""

    path: str
    record: BatchRecord
    files: tuple[tuple[str, str], ...]
    """Each file and the SHA-256 of its bytes."""

    @property
    def kept(self) -> set[str]:
        """The kept columns, by the names that a decision looks for."""
        return set(map(decided_name, self.record.keep))


def _target(path: str) -> BatchTarget:
    folder = os.path.isdir(path)
    form = "parquet" if folder or path.endswith(".parquet") else ""
    return BatchTarget(path.rstrip("/") if folder else path, form, folder)


def read_batch_side(path: str) -> BatchSide:
    """The batch at a path. Raises an error if a file was changed after the batch wrote it."""
    target = _target(path)
    if not os.path.isfile(target.record):
        raise InputError(
            "BAT-060",
            f"has no record {target.record}, so it is unknown what graded it.",
            where=path,
            fix="Give an output of `assay batch`, with its record next to it.",
        )
    record = read_batch_record(read_json(target.record))
    if record.sample is not None:
        raise InputError(
            "BAT-060",
            f"has {record.sample:,} runs that were drawn with --sample; the others are missing.",
            where=path,
            fix="Grade all runs: `assay batch` without --sample.",
        )
    folder, files = os.path.dirname(target.record), []
    for output in record.outputs:
        if not output.is_inside or output.digest is None:
            raise InputError(
                "BAT-060",
                f"the record names {output.name!r}, which isn't a file next to it with a digest.",
                where=target.record,
            )
        file = os.path.join(folder, output.name)
        sha256 = file_digest(file)
        if f"sha256:{sha256}" != output.digest:
            raise InputError(
                "BAT-060",
                "isn't the file that the batch wrote: its digest is not the record's.",
                where=file,
                fix="Grade again with `assay batch`.",
            )
        files.append((file, sha256))
    if other := target.unrecorded(record):
        raise InputError(
            "BAT-060",
            f"isn't a file of the batch: the record {target.record} names others.",
            where=other[0],
            fix="Grade again with `assay batch`.",
        )
    if not files or not record.counts.runs:
        raise NotEnoughEvidence("REL-003", "the batch has no runs.", where=path)
    return BatchSide(path, record, tuple(files))


def fingerprint_of(record: BatchRecord) -> dict[str, list[str]]:
    """What two batches must share to be compared."""
    return {
        "profile": [record.profile or ""],
        "profile_digest": [record.digests.get("profile", "")],
        "rubric_digest": [record.digests.get("rubric", "")],
        "policy": [record.policy],
        "policy_digest": [record.digests.get("policy", "")],
        "plan": [record.plan],
        "scoringSystem": [record.scoring_system],
        "gradingSystem": [record.grading_system],
    }


def check_plan(plan: BatchPlan, side: BatchSide) -> None:
    """Refuse a batch that was graded by a plan with other numbers."""
    if plan.digest != side.record.plan:
        raise InputError(
            "BAT-060",
            f"was graded by {side.record.profile} and {side.record.policy} with other numbers than"
            f" {plan.profile} and {plan.policy} have here.",
            where=side.path,
            fix="Grade again with `assay batch`, or pass what graded it, such as `--profile FILE`.",
        )


def check_slices(side: BatchSide, columns: Sequence[str]) -> None:
    """Refuse to slice by a column that the batch didn't keep."""
    for column in columns:
        if column not in {*side.kept, *side.record.keep}:
            kept = ", ".join(side.record.keep) or "none"
            raise UsageError(
                "BAT-061",
                f"{side.path} has no kept column '{column}'.{near_miss(column, side.record.keep)}",
                fix=f"It kept: {kept}. Grade again with `assay batch ... --keep {column}`.",
            )


def view_of(engine: BatchEngine, side: BatchSide) -> BatchView:
    """The rows of a batch as a view of the engine."""
    view = engine.attach([file for file, _ in side.files])
    return BatchView(view, {decided_name(name): kind for name, kind in engine.columns(view)})


def decide_batches(
    engine: BatchEngine,
    candidate: BatchSide,
    baseline: BatchSide,
    plan: BatchPlan,
    rules: ReleaseRules,
    grading: Rules,
    *,
    roles: dict[str, str],
    quarantine: Sequence[str] = (),
    looks: int = 1,
    slices: Sequence[str] = (),
) -> Decision:
    """The decision on two batches, as `assay.decision/1`. `plan` is that of the baseline's profile
    and policy on the shelf, `roles` has the role of each criterion that has one, and `slices` are
    columns that the baseline kept.
    """
    views = [view_of(engine, side) for side in (candidate, baseline)]
    compared = [name for name in COMPARED if name in baseline.kept]
    prints = [
        fingerprint_of(side.record) | {name: _values(engine, view, name) for name in compared}
        for side, view in zip((candidate, baseline), views, strict=True)
    ]
    empty: Any = None
    sides = [
        Side(name, {}, fields, empty, {}, 0, {})
        for name, fields in zip(("candidate", "baseline"), prints, strict=True)
    ]
    if different := mismatches(*sides):
        raise mismatch_error(different)
    _check_columns(candidate, baseline)
    check_plan(plan, baseline)
    check_slices(baseline, slices)
    gates = extra_gates(engine, plan, *views)
    paired = partial(PairQuery, plan, *views, extra_gates=gates, left_out=quarantine, slices=slices)
    query = paired()
    summed = [
        side_sums(engine, query, view, where=side.path, name=name, level=rules.level)
        for view, side, name in zip(
            views, (candidate, baseline), ("candidate", "baseline"), strict=True
        )
    ]
    lacks = [
        any(criterion.missing for criterion in sums.summary.criteria.values()) for sums in summed
    ]
    if any(lacks):
        query = paired(unscored=True)
    query.materialise(engine)
    _check_names(engine, query, quarantine)
    summarised = [
        bare._replace(
            summary=sums.summary,
            digests={"evidence": digest([file.digest for file in side.record.outputs])},
            runs=sums.runs,
            counted=sums.samples,
        )
        for bare, sums, side in zip(sides, summed, (candidate, baseline), strict=True)
    ]
    tally = count_pairs_of(engine, query, rules, stratum=stratum_of(query), roles=roles)
    if not tally.n_paired:
        raise InputError(
            "REL-002",
            "the two batches share no sample, so nothing can be paired.",
            fix="Carry the sample's name through both batches with `--keep sample`; without it runs"
            " are paired by their id.",
        )
    promotion = promote_tally(
        tally,
        rules,
        shrinkage=grading.shrinkage,
        quarantined=sorted(quarantine),
        without_gates=grading.cards.without_gates,
    )
    if looks > 1:
        if tally.compared.scores.shares_groups:
            raise UsageError(
                "BAT-061",
                "--looks can't be used over batches whose samples share groups: the interval needs"
                " each group's mean.",
                fix="Decide over runs or scorecards, or omit --looks.",
            )
        promotion = with_counted_looks(promotion, rules, looks=looks)
    sliced: SliceComparisons | UnsetType = UNSET
    if slices:
        members = slice_pairs(engine, query, rules)
        sliced = compare_slices(members, rules, slices, looks=looks)
        promotion = with_slices(promotion, sliced, rules)
    if any(criterion.distrusted and criterion.floor is not None for criterion in plan.criteria):
        promotion = with_finding(
            promotion,
            f"rows don't show which judge gave a score, so under {plan.policy} none reaches its"
            " floor; decide over runs or scorecards",
            {},
            rules,
            violated=False,
        )
    unscored = unscored_runs(engine, query, *views) if lacks[1] else {}
    promotion = hold_unscored(promotion, summarised[0], summarised[1], unscored, rules)
    notes = [policy_note(rules), _same(engine, query), shared_groups(promotion)]
    notes.append(_flaky_note(summed))
    notes.append(_groups_note(candidate, baseline))
    notes += [
        _rejects_note(bare.name, side.record)
        for bare, side in zip(sides, (candidate, baseline), strict=True)
    ]
    return decision(
        promotion,
        summarised[0],
        summarised[1],
        rules,
        plan=declared(None, rules, looks=looks, slices=slices).plan,
        looks=looks,
        flaky=flaky_records(*(sums.flaky for sums in summed), quarantined=quarantine),
        notes=list(filter(None, notes)),
        slices=sliced,
    )


def _values(engine: BatchEngine, view: BatchView, column: str) -> list[str]:
    """The values of a kept column; empty if the batch didn't keep it."""
    if column not in view.columns:
        return []
    rows = ask(
        engine,
        f"SELECT DISTINCT COALESCE(CAST({identifier(column)} AS VARCHAR), '') AS kept"  # noqa: S608
        f" FROM {identifier(view.view)} ORDER BY kept LIMIT {_MAX_VALUES + 1}",
    )
    if len(rows) > _MAX_VALUES:
        raise UsageError("BAT-061", f"the column '{column}' has more than {_MAX_VALUES} values.")
    values = [str(row[0]) for row in rows]
    # a run without a judge's score has no judge; if no run has one, the side has none
    return list(filter(None, values)) or values if column == JUDGE else values


def _check_names(engine: BatchEngine, query: PairQuery, quarantine: Sequence[str]) -> None:
    for name in quarantine:
        (row,) = ask(
            engine,
            query.over_pairs(f"SELECT COUNT(*) FROM joined WHERE sample = {text(name)}"),  # noqa: S608
        )
        if not row[0]:
            raise UsageError("CLI-001", f"there is no sample '{name}' to leave out.")


def _same(engine: BatchEngine, query: PairQuery) -> str | None:
    """A warning if both sides have equal results: a comparison with itself shows nothing."""
    columns = ["score", *(f"n{index}" for index in range(len(query.plan.criteria)))]
    columns += [f"g{index}" for index, _ in query.gates]
    columns += [f"h{index}" for index, _ in query.extra]
    other = " OR ".join(f"o_{column} <> t_{column}" for column in columns)
    (row,) = ask(
        engine,
        query.over_pairs(f"SELECT COUNT(*), {count_if(other)} FROM joined WHERE has_o AND has_t"),  # noqa: S608
    )
    if row[1]:
        return None
    return same_note(row[0], "the same scores and verdicts")


def _check_columns(candidate: BatchSide, baseline: BatchSide) -> None:
    """Refuse a candidate whose scores or verdicts come from other columns than the baseline's."""
    ours, theirs = candidate.record.columns, baseline.record.columns
    for role in sorted({*ours, *theirs} - {"run"}):
        now, before = ours.get(role, role), theirs.get(role, role)
        if now.lower() != before.lower():
            raise InputError(
                "REL-002",
                f"{role} is the column {before!r} in the baseline's batch, and {now!r} in the"
                " candidate's.",
                where=candidate.path,
                fix="Grade both with the same --map. A column that was only renamed needs its"
                " earlier name.",
            )


def _groups_note(candidate: BatchSide, baseline: BatchSide) -> str | None:
    """A note that samples count as independent although the candidate's have groups."""
    if GROUP in baseline.kept or GROUP not in candidate.kept:
        return None
    return (
        "The candidate's batch kept `group` and the baseline's didn't, so samples of one group"
        " count as independent. Grade the baseline again with `--keep group`."
    )


def _rejects_note(name: str, record: BatchRecord) -> str | None:
    """A note that rows of a batch were rejected while its runs were graded."""
    rejects = record.counts.rejects
    if not rejects:
        return None
    codes = ", ".join(f"{code} {n:,}" for code, n in sorted(rejects.items()))
    entries = count(sum(rejects.values()), "entry", "entries")
    return (
        f"`assay batch` rejected {entries} of the {name} and graded its runs without them: {codes}."
    )


def _flaky_note(summed: Sequence[SideSums]) -> str | None:
    cut = [sums for sums in summed if sums.flaky_total > len(sums.flaky)]
    if not cut:
        return None
    n = sum(sums.flaky_total for sums in summed)
    return f"The repeats of {n:,} samples disagree on passing; the first of them are listed."


def summarise_batch(
    engine: BatchEngine, side: BatchSide, plan: BatchPlan, *, slices: Sequence[str] = ()
) -> SummaryBlock:
    """The summary of a batch, also by each kept column in `slices`. `plan` is that of its profile
    and policy on the shelf.
    """
    check_plan(plan, side)
    check_slices(side, slices)
    view = view_of(engine, side)
    query = BatchRunQuery(plan, extra_gates=extra_gate_names(engine, plan, view))
    block = side_sums(engine, query, view, where=side.path, name="batch").summary
    return structs.replace(
        block,
        slices={
            **block.slices,
            **{column: slice_sums(engine, query, view, column) for column in dict.fromkeys(slices)},
        },
    )
