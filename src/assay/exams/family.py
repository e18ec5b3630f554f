"""The family of exams."""

from __future__ import annotations

from assay.exams.policy import load_exam_policy
from assay.exams.rubric import load_exam_rubric
from assay.exams.versions import CURRENT
from assay.library.families import Family, RuleSystem

FAMILY = Family(
    "exam",
    "exams",
    (
        RuleSystem("scoring", CURRENT.scoring, "assay.exams.behaviour:scoring"),
        RuleSystem("grading", CURRENT.grading, "assay.exams.behaviour:grading"),
    ),
    load_exam_policy,
    load_exam_rubric,
)
