"""The sides of a decision over batches: outputs whose files match their records, and what two of
them must share.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from assay.batch.plan import BatchPlan
from assay.batch.run_query import GROUP
from assay.batch.targets import BatchTarget
from assay.errors import InputError, NotEnoughEvidence, UsageError
from assay.files.json_files import file_digest, read_json
from assay.records.batch import BatchRecord, read_batch_record
from assay.registry import near_miss


class BatchSide(NamedTuple):
    """A batch output whose files match its record."""

    path: str
    record: BatchRecord
    files: tuple[tuple[str, str], ...]
    """Each file and the SHA-256 of its bytes."""


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
    if record.family != "workflow":
        raise InputError(
            "BAT-060",
            f"was graded by {record.policy}, and a decision over batches is about workflows.",
            where=path,
        )
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
        if column not in side.record.keep:
            kept = ", ".join(side.record.keep) or "none"
            raise UsageError(
                "BAT-061",
                f"{side.path} has no kept column '{column}'.{near_miss(column, side.record.keep)}",
                fix=f"It kept: {kept}. Grade again with `assay batch ... --keep {column}`.",
            )


def check_groups(baseline: BatchSide) -> None:
    """Refuse a baseline that dropped the groups of its samples: they would count as independent,
    and the interval would be too narrow.
    """
    if GROUP in baseline.record.keep:
        return
    if any(name.lower() == GROUP for name in baseline.record.unused):
        raise InputError(
            "BAT-060",
            f"didn't keep the column '{GROUP}' of its input, so samples of one group would count as"
            " independent.",
            where=baseline.path,
            fix=f"Grade it again with `assay batch ... --keep {GROUP}`.",
        )


def check_columns(candidate: BatchSide, baseline: BatchSide) -> None:
    """Refuse a candidate whose scores, verdicts or ids come from another column although its input
    has the baseline's: it would choose what it is measured by.
    """
    ours, theirs = candidate.record.columns, baseline.record.columns
    for role in sorted({*ours, *theirs}):
        name, other = ours.get(role, role), theirs.get(role, role)
        if name != other and other in candidate.record.unused:
            raise InputError(
                "BAT-060",
                f"has {role!r} from the column {name!r} and left out {other!r}, where the baseline"
                " has it from.",
                where=candidate.path,
                fix=f"Grade it again with `assay batch ... --map {role}={other}`.",
            )
