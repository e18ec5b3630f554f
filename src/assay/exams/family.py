"""The family of exams."""

from __future__ import annotations

from assay.exams.policy import load_exam_policy
from assay.exams.rubric import load_exam_rubric
from assay.exams.versions import CURRENT
from assay.library.families import Family, RuleSystem

_GRADING = "gate policy patterns diagnosis sm2 recalibration"
FAMILY = Family(
    "exam",
    "exams",
    (
        RuleSystem("scoring", CURRENT.scoring, ("assay.exams",), "assay.exams.behaviour:scoring"),
        RuleSystem(
            "grading",
            CURRENT.grading,
            tuple(f"assay.exams.{name}" for name in _GRADING.split()),
            "assay.exams.behaviour:grading",
        ),
    ),
    load_exam_policy,
    load_exam_rubric,
)
