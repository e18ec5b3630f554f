"""Graded exams in the ledger: their drafts, and a gate recomputed from the records it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from assay import exact
from assay.canon import canonical
from assay.errors import InputError, NotEnoughEvidence
from assay.families.exams.answers import Answer
from assay.families.exams.exam import Exam, make_exam
from assay.families.exams.gate import decide, unchecked
from assay.families.exams.marking import Marking, grade_exam
from assay.families.exams.policy import ExamRules
from assay.families.exams.records import ExamGate, ExamResult
from assay.families.exams.results import CheckedExam, check_result, exam_result, read_result
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.services.replay import StoredEvidence, StoredGate, on_shelf, part_of
from assay.store.drafts import Draft, Item, draft
from assay.store.ledger import Ledger

EXAM_EVIDENCE_SCHEMA = "assay.exam-evidence/1"


EXAM_ROLES = {"capstone": "candidate_of", "regression": "candidate_of", "baseline": "baseline_of"}
"""The graded exams that a gate may be given, and how each is linked to the decision."""


def exam_record(document: Mapping[str, Any]) -> dict[str, Any]:
    """A graded exam without what a command adds: its notes, what a broken step would have done, and
    the pass score it was held to.
    """
    kept = {key: value for key, value in document.items() if key not in ("broken", "pass_line")}
    return {**kept, "notes": []}


def exam_drafts(
    result: ExamResult, exam: Exam, answers: Iterable[Answer], *, author: str | None = None
) -> list[Draft]:
    """A graded exam, after the questions and the answers that it was made of."""
    listed = sorted(
        (answer._asdict() for answer in answers), key=lambda answer: str(answer["item"])
    )
    evidence = draft(
        {"schema": EXAM_EVIDENCE_SCHEMA, "exam": list(exam.files), "answers": listed},
        kind="event",
        author=author,
    )
    made = draft(
        replace(result, broken=UNSET, pass_line=UNSET, notes=[]), kind="exam", author=author
    )
    return [evidence, made.linked("evidence_of", [evidence.name])]


def answered_exam(evidence: Mapping[str, Any], where: str) -> tuple[Exam, dict[str, Answer]]:
    """The questions and answers that are stored as the evidence of a result."""
    exam = make_exam([Document(file, where) for file in evidence["exam"]])
    return exam, {answer["item"]: Answer(**answer) for answer in evidence["answers"]}


def exam_gate_drafts(
    gate: ExamGate, results: Mapping[str, Document | None], *, pass_score: Any = 0
) -> list[Draft]:
    """The decision of an exam gate, after the results it decides on, which `results` has by their
    role. `pass_score` is that of the regression set.

    The decision names them by digest, so that a replay knows which was which, and so that the same
    verdict on other results is another record. It names no file: the same gate is the same record
    wherever its files are.
    """
    kept = {
        role: draft(exam_record(result.tree), kind="exam")
        for role, result in results.items()
        if result is not None
    }
    evidence: dict[str, dict[str, Any] | None] = {
        role: None if result is None else {"digest": kept[role].name}
        for role, result in results.items()
    }
    if pass_score and evidence["regression"] is not None:
        evidence["regression"]["pass_score"] = pass_score
    document = to_builtins(gate, builtin_types=(Decimal,))
    decision = draft({**document, "evidence": evidence}, kind="decision")
    for role, one in kept.items():
        decision = decision.linked(EXAM_ROLES[role], [one.name])
    return [*kept.values(), decision]


def exam_baseline_drafts(record: Mapping[str, Any], result: Mapping[str, Any]) -> list[Draft]:
    """A graded exam as a baseline. Like a baseline of runs, it names its evidence by digest."""
    evidence = draft(exam_record(result), kind="exam")
    shared = {
        name: record[name]
        for name in ("schema", "name", "made_at", "runs", "samples", "fingerprint", "summary")
    }
    made = draft({**shared, "kind": "exam", "evidence_digests": [evidence.name]}, kind="baseline")
    return [evidence, made.linked("baseline_of", [evidence.name])]


def _exam_gate(
    ledger: Ledger, item: Item, stored: Mapping[str, Any], shelf: Shelf, project: str
) -> dict[str, Any]:
    evidence = StoredEvidence(ledger, item, project)
    named = part_of(stored, "evidence", evidence)
    results = {
        role: (
            None
            if named.get(role) is None
            else _outcome(evidence, part_of(named, role, evidence), role, shelf)
        )
        for role in EXAM_ROLES
    }
    capstone = results["capstone"]
    if capstone is None:
        raise evidence.unclear("the capstone")
    rules = ExamRules(shelf.policy_of("exam", on_shelf(stored.get("policy"), of="gate")))
    # the pass score and this note depend on what the command was given
    pass_score = part_of(stored, "capstone", evidence).get("limit")
    verdict = decide(
        capstone,
        rules,
        regression=results["regression"],
        baseline=results["baseline"],
        pass_score=pass_score if exact.is_amount(pass_score) else 0,
    )
    if stored.get("unchecked") is True:
        verdict = unchecked(verdict)
    return {**to_builtins(verdict, builtin_types=(Decimal,)), "evidence": named}


def _outcome(
    evidence: StoredEvidence, named: Mapping[str, Any], role: str, shelf: Shelf
) -> CheckedExam:
    """A graded exam: marked again if its answers are in the ledger, with every number recomputed
    from its marks by the rubric that it names.
    """
    digest = named.get("digest")
    document = Document(evidence.tree(digest, f"the {role}", "exam"), str(digest))
    result = read_result(document)
    marking = Marking(shelf.rubric_of("exam", on_shelf(result.rubric, of="exam")))
    answered = evidence.behind(str(digest), EXAM_EVIDENCE_SCHEMA)
    there = [item.tree() for item in answered if item.body is not None]
    if answered and not any(
        _follows(document.tree, answers, marking, shelf, str(digest)) for answers in there
    ):
        if len(there) < len(answered):
            raise NotEnoughEvidence(
                "STO-008",
                f"the answers of the {role} of this gate were forgotten.",
                where=evidence.where,
            )
        raise InputError(
            "EXM-011",
            f"the {role} of this gate is marked differently now, from its stored answers:"
            f" {digest}.",
            where=evidence.where,
        )
    checked = check_result(result, marking, where=document.file)
    least = named.get("pass_score")
    return checked.held_to(least) if exact.is_amount(least) else checked


def _follows(
    stored: Mapping[str, Any],
    answered: Mapping[str, Any],
    marking: Marking,
    shelf: Shelf,
    where: str,
) -> bool:
    """Whether marking the stored answers again gives the stored result. Faults of the answers file
    are taken from the stored result.
    """
    exam, answers = answered_exam(answered, where)
    rules = ExamRules(shelf.policy_of("exam", on_shelf(stored.get("policy"), of="exam")))
    made = exam_result(grade_exam(exam, answers, marking), rules, unknown=tuple(stored["unknown"]))
    return canonical(replace(made, faults=stored["faults"])) == canonical(stored)


GATE = StoredGate("exam gate", _exam_gate)
