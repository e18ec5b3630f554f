"""The family of runs and scorecards."""

from __future__ import annotations

from assay.grading.policy import load_policy
from assay.library.families import WORKFLOW, RuleFamily, RuleSystem
from assay.records.grade import GRADING_SYSTEM
from assay.records.scorecard import SCORING_SYSTEM

FAMILY = RuleFamily(
    WORKFLOW,
    "runs and scorecards",
    (
        RuleSystem("scoring", SCORING_SYSTEM, "assay.library.behaviour:workflow_scoring"),
        RuleSystem("grading", GRADING_SYSTEM, "assay.library.behaviour:workflow_grading"),
    ),
    load_policy,
)
