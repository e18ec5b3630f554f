"""The family of exams."""

from __future__ import annotations

from assay.families.exams.policy import load_exam_policy
from assay.families.exams.rubric import CURRENT, load_exam_rubric
from assay.library.families import RuleFamily, RuleSystem
from assay.services.documents import DocumentKind

FAMILY = RuleFamily(
    "exam",
    "exams",
    (
        RuleSystem("scoring", CURRENT.scoring, "assay.families.exams.conform:scoring"),
        RuleSystem("grading", CURRENT.grading, "assay.families.exams.conform:grading"),
    ),
    load_exam_policy,
    load_exam_rubric,
)

DOCUMENTS = {
    "exam": DocumentKind(
        "assay.families.exams.exam:ExamFile",
        "The questions of an exam, and the expected answers.",
        "`assay exam grade` reads it.",
    ),
    "exam-rubric": DocumentKind(
        "assay.families.exams.rubric:ExamRubric",
        "How the answers of an exam are marked.",
        "An exam names it; `assay library check` runs its self-test.",
    ),
    "exam-policy": DocumentKind(
        "assay.families.exams.policy:ExamPolicy",
        "How marks open or close the gate on an exam.",
        "`assay exam gate --policy` takes one.",
    ),
    "exam-result": DocumentKind(
        "assay.families.exams.records:ExamResult",
        "A graded exam.",
        "`assay exam grade --json` writes it; `assay exam gate` reads it.",
        is_input=False,
    ),
}
"""The documents of this family, by the name that `assay schema-of` takes."""
