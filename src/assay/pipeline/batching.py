"""A batch from names on the shelf: the plan of a profile and a policy, and the task of grading
inputs by it. If the input is the output of an earlier batch, its norms are graded again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial

from assay.errors import InputError, UsageError
from assay.families.batch.earlier import Earlier
from assay.families.batch.evidence import norms_evidence, norms_plan, typed_text
from assay.families.batch.layout import COUNTS, mapped_columns
from assay.families.batch.plan import BatchPlan, make_batch_plan
from assay.families.batch.relational import batch_queries
from assay.families.batch.targets import record_of, target_at
from assay.families.batch.task import BatchTask
from assay.files.json_files import read_json
from assay.grading.policy import make_rules
from assay.library.shelf import Shelf
from assay.pipeline.grading import DEFAULT_POLICY
from assay.pipeline.selection import WORKFLOW, select_profile, select_rubric
from assay.records.batch import read_batch_record
from assay.scoring.profile import ScoringPlan, make_plan

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
