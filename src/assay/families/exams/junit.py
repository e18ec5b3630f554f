"""Graded exams and their gate as JUnit XML: one case for each item or rule."""

from __future__ import annotations

from assay.families.exams.records import ExamGate, ExamResult, ItemResult
from assay.families.exams.views import gate_rows, no_answer
from assay.views.junit import Case, clipped, document_xml, fault_cases


def exam(result: ExamResult) -> bytes:
    """A graded exam (`assay.exam/1`): one case for each item; one that lost an axis is a failure
    that names it.
    """
    cases = [_item_case(item, result) for item in result.items]
    cases += fault_cases(result.faults, {"faults": 0})
    return document_xml(
        "assay.exam", cases, {"score": result.score, "n": result.n, **_exam_versions(result)}
    )


def _exam_versions(record: ExamResult | ExamGate) -> dict[str, object]:
    return {
        "policy": record.policy,
        "rubric": record.rubric,
        "scoringSystem": record.scoring_system,
        "gradingSystem": record.grading_system,
    }


def _item_case(item: ItemResult, result: ExamResult) -> Case:
    if item.item in result.missing:
        reason = clipped(no_answer(result, item.item))
        return Case(item.item, "assay.exam", "failure", "no_answer", reason)
    if not item.lost:
        return Case(item.item, "assay.exam")
    lines = [
        f"score {float(item.score):g}",
        f"expected {', '.join(item.expected)}",
        f"got {'nothing' if item.got is None else clipped(item.got)}",
    ]
    lost = f"lost {', '.join(item.lost)}"
    return Case(item.item, "assay.exam", "failure", "lost_axes", lost, lines)


def exam_gate(gate: ExamGate) -> bytes:
    """The gate on graded exams (`assay.exam-gate/1`): what blocks can fail; a signal that does not
    block stays green and reports what it found.
    """
    cases = []
    names = ["capstone", *(["regression"] if gate.regression is not None else []), "target"]
    names += [soft.id for soft in gate.soft]
    for name, row in zip(names, gate_rows(gate), strict=True):
        closed = row.effect == "blocks" and row.state != "holds"
        text = row.text if row.effect == "blocks" else f"{row.state}, does not block: {row.text}"
        cases.append(
            Case(
                name,
                "assay.exam-gate",
                "failure" if closed else "",
                "gate_closed" if closed else "",
                row.text if row.effect == "blocks" else "",
                [text, *(gate.reasons if closed else ())],
            )
        )
    if gate.verify_rubric is not None:
        failed = not gate.verify_rubric.holds
        text = f"a rise of {gate.verify_rubric.rise} is more than {gate.verify_rubric.limit}"
        cases.append(
            Case(
                "verify_rubric",
                "assay.exam-gate",
                "failure" if failed else "",
                "rubric_fails" if failed else "",
                text,
                [text],
            )
        )
    if not gate.passed and not any(case.kind for case in cases):
        cases.append(
            Case(
                "outcome",
                "assay.exam-gate",
                "failure",
                "not_passed",
                "; ".join(gate.reasons) or "the gate did not pass",
            )
        )
    return document_xml("assay.exam-gate", cases, _exam_versions(gate))
