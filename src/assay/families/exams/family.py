"""The family of exams."""

from __future__ import annotations

from assay.families.exams.policy import load_exam_policy
from assay.families.exams.rubric import load_exam_rubric
from assay.families.exams.versions import CURRENT
from assay.library.families import Family, RuleSystem

FAMILY = Family(
    "exam",
    "exams",
    (
        RuleSystem("scoring", CURRENT.scoring, "assay.families.exams.behaviour:scoring"),
        RuleSystem("grading", CURRENT.grading, "assay.families.exams.behaviour:grading"),
    ),
    load_exam_policy,
    load_exam_rubric,
)
