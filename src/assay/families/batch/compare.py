"""An output of `assay batch` as a side of a decision, its summary, and the decision between two.

The plan on the shelf decides how a batch was graded; a record that claims something else is
refused, and so are files that are not what the record names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from assay.canon import canonical, digest
from assay.errors import InputError, NotEnoughEvidence, UsageError, count
from assay.families.batch.duckdb_engine import DuckDBEngine
from assay.families.batch.engine import BatchEngine, ask
from assay.families.batch.plan import BatchPlan
from assay.families.batch.quoting import identifier
from assay.families.batch.records import BatchRecord, read_batch_record
from assay.families.batch.run_query import (
    DATASET_VERSION,
    GROUP,
    JUDGE,
    SAMPLE,
    BatchRunQuery,
    BatchView,
    decided_name,
    extra_gate_names,
)
from assay.families.batch.summary import summarise, summarise_slices
from assay.families.batch.targets import BatchTarget
from assay.files.inputs import file_digest
from assay.files.json_files import read_json
from assay.records.decision import Decision
from assay.records.summary import SummaryBlock
from assay.registry import near_miss
from assay.release.comparability import mismatch_error, mismatches
from assay.release.observations import Attempt
from assay.release.policy import ReleaseRules
from assay.release.sides import (
    SLICES,
    Attempts,
    Sample,
    ScoredCriterion,
    SevereKinds,
    Side,
    SideBuilder,
    Stratum,
)
from assay.services.compare import Asked, FreshRuns, compare
from assay.services.grading import Grader
from assay.services.sides import Rereadable, severe_of

COMPARED = (DATASET_VERSION, JUDGE)
"""The kept columns that must have the same values on both sides, if the baseline kept them."""
_MAX_VALUES = 100


class BatchOutput(NamedTuple):
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


def read_batch_output(path: str) -> BatchOutput:
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
    return BatchOutput(path, record, tuple(files))


def check_plan(plan: BatchPlan, output: BatchOutput) -> None:
    """Refuse a batch that was graded by a plan with other numbers."""
    if plan.digest != output.record.plan:
        raise InputError(
            "BAT-060",
            f"was graded by {output.record.profile} and {output.record.policy} with other numbers"
            f" than {plan.profile} and {plan.policy} have here.",
            where=output.path,
            fix="Grade again with `assay batch`, or pass what graded it, such as `--profile FILE`.",
        )


def check_slices(output: BatchOutput, columns: Sequence[str]) -> None:
    """Refuse to slice by a column that the batch didn't keep."""
    for column in columns:
        if column not in {*output.kept, *output.record.keep}:
            kept = ", ".join(output.record.keep) or "none"
            raise UsageError(
                "BAT-061",
                f"{output.path} has no kept column '{column}'."
                f"{near_miss(column, output.record.keep)}",
                fix=f"It kept: {kept}. Grade again with `assay batch ... --keep {column}`.",
            )


def view_of(engine: BatchEngine, output: BatchOutput) -> BatchView:
    """The rows of a batch as a view of the engine."""
    view = engine.attach([file for file, _ in output.files])
    return BatchView(view, {decided_name(name): kind for name, kind in engine.columns(view)})


def summarise_batch(
    engine: BatchEngine, output: BatchOutput, plan: BatchPlan, *, slices: Sequence[str] = ()
) -> SummaryBlock:
    """The summary of a batch, also by each kept column in `slices`. `plan` is that of its profile
    and policy on the shelf.
    """
    check_plan(plan, output)
    check_slices(output, slices)
    view = view_of(engine, output)
    query = BatchRunQuery(plan, extra_gates=extra_gate_names(engine, plan, view))
    block = summarise(engine, query, view, where=output.path, name="batch")
    return structs.replace(
        block,
        slices={
            **block.slices,
            **{
                column: summarise_slices(engine, query, view, column)
                for column in dict.fromkeys(slices)
            },
        },
    )


def fingerprint_of(
    engine: BatchEngine, output: BatchOutput, compared: Sequence[str]
) -> dict[str, list[str]]:
    """What two batches must share to be compared, with the values of these kept columns."""
    record, view = output.record, view_of(engine, output)
    return {
        "profile": [record.profile],
        "profile_digest": [record.digests.get("profile", "")],
        "rubric_digest": [record.digests.get("rubric", "")],
        "policy": [record.policy],
        "policy_digest": [record.digests.get("policy", "")],
        "plan": [record.plan],
        "scoringSystem": [record.scoring_system],
        "gradingSystem": [record.grading_system],
        **{column: _values(engine, view, column) for column in compared},
    }


def _values(engine: BatchEngine, view: BatchView, column: str) -> list[str]:
    """The values of a kept column; empty if the batch didn't keep it."""
    if column not in view.columns:
        return []
    rows = ask(
        engine,
        f"SELECT DISTINCT COALESCE(CAST({identifier(column)} AS VARCHAR), '') AS kept"
        f" FROM {identifier(view.view)} ORDER BY kept LIMIT {_MAX_VALUES + 1}",
    )
    if len(rows) > _MAX_VALUES:
        raise UsageError("BAT-061", f"the column '{column}' has more than {_MAX_VALUES} values.")
    values = [str(row[0]) for row in rows]
    # a run without a judge's score has no judge; if no run has one, the side has none
    return list(filter(None, values)) or values if column == JUDGE else values


def side_of_batch(
    engine: DuckDBEngine,
    output: BatchOutput,
    plan: BatchPlan,
    *,
    name: str,
    fingerprint: Mapping[str, Any],
    severe: SevereKinds,
    roles: Mapping[str, str],
) -> Side:
    """A batch as a side of a decision; refuses one that can't be trusted. `roles` has the role of
    each criterion that has one.
    """
    view = view_of(engine, output)
    query = BatchRunQuery(plan, extra_gates=extra_gate_names(engine, plan, view))
    summary = summarise(engine, query, view, where=output.path, name=name)
    builder, rows = SideBuilder(name), _Rows(plan, severe, roles)
    runs = 0
    for sample in rows.samples(engine.stream(query.listed(view))):
        builder.add_sample(sample)
        runs += 1
    return builder.side(summary)._replace(
        fingerprint=fingerprint,
        digests={"evidence": digest([file.digest for file in output.record.outputs])},
        runs=runs,
    )


class _Rows:
    """Makes samples of rows. Most rows have the verdicts of others, which are worked out once."""

    def __init__(self, plan: BatchPlan, severe: SevereKinds, roles: Mapping[str, str]) -> None:
        self._plan = plan
        self._made = Attempts(severe)
        self._severe = {name for name, role in roles.items() if role in severe.roles}
        self._places = sorted(range(len(plan.criteria)), key=lambda at: plan.criteria[at].name)
        ordered = [plan.criteria[at] for at in self._places]
        self._stratum = Stratum(
            plan.profile,
            tuple([item.name for item in ordered]),
            tuple([item.weight for item in ordered]),
            tuple(
                [
                    f"{item.formula} {canonical(item.params).decode()}"
                    if item.params
                    else item.formula
                    for item in ordered
                ]
            ),
        )
        self._floors = {item.name: item.floor for item in plan.criteria if item.floor is not None}
        self._verdicts: dict[tuple[Any, ...], Attempt] = {}
        self._attempts: dict[tuple[Any, ...], tuple[Attempt]] = {}
        self._numbers: dict[int, int] = {}
        self._shared: dict[Any, Any] = {}

    def samples(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[Sample]:
        """Each row as a sample of one run."""
        same = self._shared.setdefault
        end = 6 + len(self._places)
        for row in rows:
            run, name, number, group, passed, score = row[:6]
            norms, lists = row[6:end], tuple([tuple(names or ()) for names in row[end : end + 5]])
            tag, family = row[end + 5 :]
            lists = same(lists, lists)
            numbers, tags = (number or 1,), frozenset(() if tag is None else (tag,))
            yield Sample(
                name,
                self._attempt(lists, passed == 1, score, norms),
                same(numbers, numbers),
                1,
                passed,
                self._stratum,
                group if group is None else same(group, group),
                same(tags, tags),
                family if family is None else same(family, family),
                (name if run == name else run,),
                self._floors,
                _NO_JUDGES,
                _UNKNOWN,
                _UNKNOWN,
                (hash((lists, score, norms)).to_bytes(8, "big", signed=True),),
            )

    def _attempt(
        self,
        lists: tuple[tuple[str, ...], ...],
        passed: bool,
        score: int,
        norms: tuple[int, ...],
    ) -> tuple[Attempt]:
        """The attempt of a row: that of an equal row, if there was one among the first."""
        key = (lists, passed, score, norms)
        known = self._attempts.get(key)
        if known is None:
            known = (self._made_of(lists, passed, score, norms),)
            if len(self._attempts) < _MOST_SHARED:
                self._attempts[key] = known
        return known

    def _made_of(
        self,
        lists: tuple[tuple[str, ...], ...],
        passed: bool,
        score: int,
        norms: tuple[int, ...],
    ) -> Attempt:
        failed, undetermined, extra, floors, missing = lists
        # the score decides about passing only where nothing else does
        key = (lists, passed, None if passed or failed or floors else score)
        known = self._verdicts.get(key)
        if known is None:
            gates = {
                gate: None if gate in undetermined else gate not in failed
                for gate in (*self._plan.gates, *extra)
            }
            known = self._verdicts[key] = self._made.made(
                gates,
                [
                    ScoredCriterion(
                        item.name,
                        item.weight,
                        None if item.name in missing else 0,
                        None if item.floor is None else item.name in floors,
                        item.name in self._severe,
                    )
                    for item in self._plan.criteria
                ],
                score=score,
                threshold=self._plan.threshold,
                passed=passed,
            )
        ordered = tuple(
            [
                None if gap is None else self._number(norms[at])
                for at, gap in zip(self._places, known.norms, strict=True)
            ]
        )
        return known._replace(score=self._number(score), norms=ordered)

    def _number(self, value: int) -> int:
        """The same number as one object."""
        known = self._numbers.get(value)
        if known is not None:
            return known
        if len(self._numbers) < _MOST_SHARED:
            self._numbers[value] = value
        return value


_MOST_SHARED = 10_000
"""Rows and numbers that are kept to be shared by equal ones: where few are equal, keeping more of
them would cost more memory than it saves.
"""
_NO_JUDGES: Mapping[str, frozenset[str]] = {}
_UNKNOWN: frozenset[Any] = frozenset((None,))


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
