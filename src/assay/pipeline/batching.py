"""From names on the shelf to the plan of a batch."""

from __future__ import annotations

from assay.batch.plan import BatchPlan, make_batch_plan
from assay.grading.policy import make_rules
from assay.library.shelf import Shelf
from assay.pipeline.grading import DEFAULT_POLICY
from assay.pipeline.selection import WORKFLOW, select_profile, select_rubric
from assay.scoring.profile import ScoringPlan, make_plan


def plan_batch(
    shelf: Shelf, *, profile: str, policy: str = DEFAULT_POLICY, rubric: str | None = None
) -> BatchPlan:
    """The plan of a profile, perhaps with a rubric over it, under a policy."""
    plan = scoring_plan(shelf, profile=profile, rubric=rubric)
    return make_batch_plan(plan, make_rules(shelf.policy(policy)))


def scoring_plan(shelf: Shelf, *, profile: str, rubric: str | None = None) -> ScoringPlan:
    """How a profile scores, perhaps with a rubric over it."""
    chosen, why = select_profile(shelf, profile, None, None, said_by=WORKFLOW)
    own, rubric_why = select_rubric(shelf, rubric, None, said_by=WORKFLOW)
    return make_plan(chosen, why=why, rubric=own, rubric_why=rubric_why)
