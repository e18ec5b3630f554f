"""Exams: answers marked on four axes, with a diagnosis and gates."""

from __future__ import annotations

from assay.family import Family, Inputs, Verb

_VERBS = "assay.families.exams.verbs"
_EXAM = {
    "grade": (_VERBS, "mark the answers on the rubric's axes, with a score and a diagnosis"),
    "gate": (
        _VERBS,
        "decide on graded exams: the hard gate, the regression check and the soft gates",
    ),
    "lint": (
        _VERBS,
        "find mistakes in exam files, such as wrong forms that would be accepted",
    ),
    "break": (
        _VERBS,
        "mark again without one step of normalisation, and show the marks that are lost",
    ),
    "recalibrate": (
        _VERBS,
        "show what another rubric's weights would have done to past exams",
    ),
    "export-sm2": (
        _VERBS,
        "write items, qualities and due dates for a spaced-repetition scheduler",
    ),
    "review": (
        _VERBS,
        "grade the items that are due in a schedule, and update the schedule",
    ),
}

_WHOLE_FILES = "every file that was written is complete, the rest was not started"

FAMILY = Family(
    "exams",
    "Answers to exams, marked on four axes",
    verbs={
        "exams": {
            "exam": Verb(
                _VERBS,
                "grade exams, gate a release on them, and check their normalisation",
                actions=_EXAM,
                description="Grade the answers to an exam of any subject, and gate a release on"
                " them.",
                example="assay exam grade exam.yaml --answers answers.jsonl -o result.json",
                left=_WHOLE_FILES,
            ),
        }
    },
    systems={"exam": "assay.families.exams.family:FAMILY"},
    served="assay.families.exams.pages:SERVED",
    results={"assay.exam-gate/1": "assay.families.exams.stored:GATE"},
    documents="assay.families.exams.family:DOCUMENTS",
    conform="assay.families.exams.conform:OPS",
    demo="assay.families.exams.demo:part",
    inputs={
        "baseline set": Inputs(
            "assay.families.exams.records:is_graded_exam", "assay.families.exams.verbs:set_exam"
        ),
    },
)
