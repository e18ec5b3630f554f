"""The gates of a stored exam, decided again from its marks by what is on the shelf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.errors import AssayError
from assay.exams.document import CheckedExam, check_result
from assay.exams.exam import CAPSTONE
from assay.exams.gate import decide, drop_check, soft_schema, soft_score
from assay.exams.marking import Marking
from assay.exams.policy import ExamPolicy, ExamRules
from assay.exams.rubric import ExamRubric
from assay.views.exam import CheckRow, GateView, check_row, gates_of

if TYPE_CHECKING:
    from assay.records.exam import ExamResult
    from assay.server.pages.exam_history import StoredExam
    from assay.server.state import Services


def on_shelf(services: Services, kind: str, name: Any, digest: Any, record: type) -> Any:
    """A policy or rubric that a result names, if the shelf has exactly that one; else a sentence.
    Only names on the shelf are looked up: no file is opened.
    """
    known = {entry.id for entry in services.shelf.entries(kind)}
    loaded = services.shelf.load(kind, name) if name in known else None
    if not isinstance(loaded, record):
        return f"{name} is not on the shelf of this server; `assay serve --library DIR` adds yours"
    made = ExamRules(loaded) if isinstance(loaded, ExamPolicy) else Marking(loaded)  # type: ignore[arg-type]
    return (
        made
        if made.digest == digest
        else f"{name} on the shelf is not the one that the result was made with"
    )


def checked(services: Services, result: ExamResult, where: str) -> CheckedExam | str:
    """A result with every number recomputed from its marks; a sentence if that can't be done."""
    marking = on_shelf(services, "rubrics", result.rubric, result.digests.rubric, ExamRubric)
    if isinstance(marking, str):
        return marking
    try:
        return check_result(result, marking, where=where)
    except AssayError as error:
        return error.message


def gates(
    services: Services, result: ExamResult, where: str, stored: StoredExam | None
) -> GateView:
    """The gates that a result can be held to by itself, and for a regression set the drop against
    the stored baseline.
    """
    name = "hard gate" if result.set == CAPSTONE else "regression gate"
    rules = on_shelf(services, "policies", result.policy, result.digests.policy, ExamPolicy)
    exam = checked(services, result, where)
    if isinstance(rules, str) or isinstance(exam, str):
        why_not = exam if isinstance(exam, str) else str(rules)
        return GateView(name, [], None, f"{why_not}.", why_not=why_not)
    if result.set == CAPSTONE:
        verdict = decide(exam, rules)
        rows = [check_row(one) for one in (verdict.capstone, verdict.target, verdict.soft[0])]
        return gates_of(name, rows, limit=rules.policy.hard_gate)
    soft = (soft_schema(exam, rules), soft_score(exam.score, rules))
    return gates_of(name, [_drop(services, exam, rules, stored), *map(check_row, soft)])


def _drop(
    services: Services, exam: CheckedExam, rules: ExamRules, stored: StoredExam | None
) -> CheckRow:
    before = (
        checked(services, stored.result, stored.digest)
        if stored is not None
        else "no baseline of this exam is stored: assay baseline set NAME result.json --store"
    )
    if not isinstance(before, str):
        try:
            return check_row(drop_check(exam, before, rules))
        except AssayError as error:
            before = error.message
    return CheckRow("Drop against the baseline", "undetermined", "blocks", before)
