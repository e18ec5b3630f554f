"""The task of a batch, from names on the shelf: a plan, and its queries over any view."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial

from assay.batch.earlier import Earlier
from assay.batch.evidence import norms_evidence, norms_plan, quoted_text, typed_text
from assay.batch.exam_marks import ExamBatchPlan
from assay.batch.layout import COUNTS, ROLES, mapped_columns
from assay.batch.plan import BatchPlan
from assay.batch.relational import batch_queries
from assay.batch.targets import record_of, target_at
from assay.batch.task import BatchTask
from assay.batch.tool_answers import ToolBatchPlan
from assay.batch.tool_query import NUMBERS as TOOL_NUMBERS
from assay.errors import InputError, UsageError
from assay.files.json_files import read_json
from assay.library.shelf import Shelf
from assay.pipeline.batching import FamilyPlan, family_queries, plan_family
from assay.records.batch import read_batch_record

WORKFLOW_FAMILY = "workflow"


def batch_task(
    shelf: Shelf,
    inputs: Sequence[str],
    *,
    profile: str | None,
    policy: str,
    rubric: str | None = None,
    exams: Sequence[str] = (),
    baseline: str | None = None,
    names: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
) -> BatchTask:
    """The task of grading the inputs by a policy, whose family decides what the rows are. If the
    input is the output of an earlier batch, its norms are graded again.
    """
    earlier = _earlier(inputs)
    if earlier is not None:
        if earlier.record.family != WORKFLOW_FAMILY:
            raise UsageError(
                "BAT-020",
                "is the output of a batch that has no norms, so it can't be graded again.",
                where=earlier.target.path,
                fix="Grade the evidence again.",
            )
        profile = profile or earlier.record.profile
    plan = plan_family(
        shelf, policy=policy, profile=profile, rubric=rubric, exams=exams, baseline=baseline
    )
    if earlier is not None and isinstance(plan, BatchPlan):
        return _regrading(plan, earlier, names or {}, keep)
    return plan_task(plan, names or {}, keep)


def plan_task(plan: FamilyPlan, names: Mapping[str, str], keep: Sequence[str]) -> BatchTask:
    """The task of a plan of any family."""
    if isinstance(plan, BatchPlan):
        return grading_task(plan, names, keep)
    return _family_task(plan, dict(names), tuple(keep))


def _family_task(
    plan: ToolBatchPlan | ExamBatchPlan, names: dict[str, str], keep: tuple[str, ...]
) -> BatchTask:
    """The task of grading answers about tools, or marks of exams."""
    tools = isinstance(plan, ToolBatchPlan)
    roles = (
        TOOL_NUMBERS
        if isinstance(plan, ToolBatchPlan)
        else ("mark", *(axis.name for axis in plan.axes))
    )

    return BatchTask(
        family="flowmcp" if tools else "exam",
        profile=None,
        policy=plan.policy,
        scoring_system=plan.scoring_system,
        grading_system=plan.grading_system,
        plan=plan.digest,
        digests=plan.digests,
        queries=partial(family_queries, plan, names=names, keep=keep),
        names=names,
        keep=keep,
        evidence=partial(quoted_text, numbers={names.get(role, role) for role in roles}),
        key="subject" if tools else "run",
        noun="subjects" if tools else "sittings",
    )


def grading_task(plan: BatchPlan, names: Mapping[str, str], keep: Sequence[str]) -> BatchTask:
    """The task of grading rows of scores and verdicts."""
    roles = mapped_columns(ROLES, names)
    numbers = {name for role, name in roles.items() if role not in _WORDS}
    for item in plan.criteria:
        ends = ("", "_n", *(f"_{key}" for key in COUNTS.get(item.formula, ())))
        numbers |= {f"{item.name}{end}" for end in ends}
    words = {name for role, name in roles.items() if role in _WORDS}
    numbers -= words
    sizes = numbers & {roles.get("n"), *(f"{item.name}_n" for item in plan.criteria)}
    verdicts = {*plan.gates, roles.get("verdict", "verdict")}
    return _task(plan, plan, dict(names), tuple(keep))._replace(
        names=dict(names),
        keep=tuple(keep),
        evidence=partial(
            typed_text, numbers=numbers, verdicts=verdicts, sizes=sizes, words=words - verdicts
        ),
    )


_WORDS = ("run", "criterion", "gate", "verdict")
"""The columns that are not numbers."""


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
    return _task(plan, norms, {}, kept)._replace(
        keep=kept,
        evidence=lambda view, columns: norms_evidence(view, columns, plan, kept),
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


def _task(
    plan: BatchPlan, queried: BatchPlan, names: dict[str, str], keep: tuple[str, ...]
) -> BatchTask:
    """The task of a plan, with the queries of the plan `queried`."""
    return BatchTask(
        family=WORKFLOW_FAMILY,
        profile=plan.profile,
        policy=plan.policy,
        scoring_system=plan.scoring_system,
        grading_system=plan.grading_system,
        plan=plan.digest,
        digests=plan.digests,
        queries=partial(batch_queries, queried, names=names, keep=keep),
    )
