"""The plan of a batch from names on the shelf. The family of the policy decides which rows a batch
reads: scorecards, answers about tools, or marks of exams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.batch.engine import SourceColumn
from assay.batch.exam_marks import ExamBatchPlan
from assay.batch.exam_query import ExamQuery
from assay.batch.plan import BatchPlan, make_batch_plan
from assay.batch.task import Queries
from assay.batch.tool_answers import ToolBatchPlan
from assay.batch.tool_query import ToolAnswersQuery
from assay.errors import UsageError
from assay.exams.policy import ExamPolicy, ExamRules
from assay.grading.policy import make_rules
from assay.library.shelf import Shelf
from assay.pipeline.batch_exams import plan_exams
from assay.pipeline.batch_tools import make_tool_plan
from assay.pipeline.grading import DEFAULT_POLICY
from assay.pipeline.selection import WORKFLOW, select_profile, select_rubric
from assay.scoring.profile import ScoringPlan, make_plan
from assay.tools.policy import SchemaPolicy, SchemaRules

FamilyPlan = BatchPlan | ToolBatchPlan | ExamBatchPlan


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


def plan_family(
    shelf: Shelf,
    *,
    policy: str = DEFAULT_POLICY,
    profile: str | None = None,
    rubric: str | None = None,
    exams: Sequence[str] = (),
    baseline: str | None = None,
) -> FamilyPlan:
    """The plan for the family of a policy. Scorecards need a profile; exams need their files, and a
    graded baseline if one of them is a regression set.
    """
    rules = shelf.load("policies", policy)
    if isinstance(rules, SchemaPolicy | ExamPolicy):
        _refuse(rules.id, profile=profile, rubric=rubric)
    if isinstance(rules, ExamPolicy):
        return plan_exams(shelf, ExamRules(rules), exams, baseline=baseline)
    _refuse(rules.id, exam=exams, baseline=baseline)
    if isinstance(rules, SchemaPolicy):
        return make_tool_plan(SchemaRules(rules))
    if profile is None:
        raise UsageError(
            "CLI-001",
            f"the policy {rules.id} grades scorecards, which need a profile.",
            fix="Name one with --profile; `assay library list profiles` shows them.",
        )
    return plan_batch(shelf, profile=profile, policy=policy, rubric=rubric)


def family_queries(
    plan: ToolBatchPlan | ExamBatchPlan,
    view: str,
    columns: Sequence[SourceColumn],
    *,
    names: Mapping[str, str],
    keep: Sequence[str] = (),
) -> Queries:
    """The queries of a plan over a view."""
    query: ToolAnswersQuery | ExamQuery
    if isinstance(plan, ToolBatchPlan):
        query = ToolAnswersQuery(plan, view, columns, names=names, keep=keep)
    else:
        query = ExamQuery(plan, view, columns, names=names, keep=keep)
    return Queries(query.grades(), query.rejects(), query.unused)


def _refuse(policy: str, **options: object) -> None:
    """Refuse options that the policy's family doesn't use: if ignored, they would seem to count."""
    for name, value in options.items():
        if value:
            raise UsageError(
                "CLI-001",
                f"the policy {policy} doesn't use --{name}.",
                fix=f"Omit --{name}, or choose another policy.",
            )
