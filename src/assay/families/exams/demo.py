"""The part of the demo with an exam."""

from __future__ import annotations

import os
from collections.abc import Iterator

from assay.canon import plain, pretty
from assay.cli import options as opt
from assay.cli.demo import EXAMPLES, DemoPart
from assay.families.exams.answers import read_answers
from assay.families.exams.exam import read_exam
from assay.families.exams.gate import decide
from assay.families.exams.marking import Marking, grade_exam
from assay.families.exams.policy import ExamRules
from assay.families.exams.records import ExamGate, ExamResult
from assay.families.exams.results import check_result, exam_result
from assay.library.shelf import Shelf


def part(_folder: str) -> DemoPart:
    """The bundled exam with the verdict of its gate."""
    exam, gate = _graded_exam()
    document = {**plain(exam), "gate": plain(gate)}
    return DemoPart(
        20, {"exam": document}, _exam_lines(exam, gate), {"exam.json": pretty(document)}
    )


def _graded_exam() -> tuple[ExamResult, ExamGate]:
    """The bundled exam with its bundled answers, and the verdict of the hard gate."""
    folder = os.path.join(EXAMPLES, "exams")
    shelf = Shelf()
    rules = ExamRules(shelf.policy_of("exam", "exam@1"))
    exam = read_exam([os.path.join(folder, name) for name in ("verbs.yaml", "verbs-extra.yaml")])
    marking = Marking(shelf.rubric_of("exam", exam.rubric or rules.policy.default_rubric))
    answers = read_answers(os.path.join(folder, "answers.jsonl"), [item.id for item in exam.items])
    result = exam_result(grade_exam(exam, answers.by_item, marking), rules)
    return result, decide(check_result(result, marking, where="exam.json"), rules)


def _exam_lines(exam: ExamResult, gate: ExamGate) -> Iterator[str]:
    yield opt.paint("\nAn exam: a tutor corrects English verbs and glosses them in Spanish", "bold")
    head = (
        f"  {exam.score}  {'passes' if gate.passed else 'FAILS'} the hard gate of"
        f" {gate.capstone.limit}, {exam.n} items"
    )
    yield opt.paint(head, "green" if gate.passed else "red")
    yield from (f"       {line}" for line in exam.diagnosis[:4])
    yield (
        f"  rubric {exam.rubric} · policy {exam.policy} · {exam.scoring_system} ·"
        f" {exam.grading_system} (of this family)"
    )
