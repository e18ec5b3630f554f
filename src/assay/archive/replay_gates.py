"""Recomputes a stored gate on exams or tool schemas from the records it names and its recorded
versions. Missing records are reported: a gate that can't be recomputed never counts as the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from msgspec import ValidationError, to_builtins
from msgspec.structs import replace

from assay import exact
from assay.archive.records import (
    EXAM_EVIDENCE_SCHEMA,
    EXAM_ROLES,
    SCHEMA_LISTS,
    SCHEMA_SOURCE,
    source_data,
)
from assay.archive.replay import on_shelf
from assay.canon import canonical
from assay.errors import InputError, NotEnoughEvidence
from assay.exams.answers import Answer
from assay.exams.document import CheckedExam, check_result, exam_result, read_result
from assay.exams.exam import make_exam
from assay.exams.gate import decide, unchecked
from assay.exams.marking import Marking, grade_exam
from assay.exams.policy import ExamRules
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.records.exam import EXAM_GATE
from assay.records.tool_entry import NamespaceIndex
from assay.records.tool_gate import SCHEMA_GATE
from assay.records.typed import convert
from assay.store.drafts import Item
from assay.store.ledger import Ledger
from assay.tools import gate
from assay.tools.checks import ModuleLists, read_module_lists
from assay.tools.gate import GateEvidence, SchemaSource
from assay.tools.key_owners import registrable_domain
from assay.tools.policy import SchemaRules
from assay.tools.reading import MODULES, schema_of

Again = Callable[["Ledger", "Item", Mapping[str, Any], "Shelf", str], dict[str, Any]]


class _Evidence:
    """The records that a stored gate names."""

    def __init__(self, ledger: Ledger, item: Item, project: str) -> None:
        self._ledger = ledger
        self._project = project
        self.where = item.digest

    def behind(self, digest: str, schema: str) -> list[Item]:
        """The records of that schema that a record was made of, including those forgotten since."""
        sources = self._ledger.made_of(digest, project=self._project)
        items = self._ledger.get_many(sources, project=self._project)
        return [item for item in items.values() if item.schema == schema]

    def tree(self, digest: Any, what: str, kind: str, schema: str | None = None) -> Any:
        """The content of one record. A missing, changed or forgotten one is an error, and so is one
        of another kind.
        """
        if not isinstance(digest, str):
            raise self.unclear(what)
        item = self._ledger.get(digest, project=self._project)
        if item is None or item.body is None:
            state = "is not in the ledger" if item is None else "was forgotten"
            raise NotEnoughEvidence(
                "STO-008",
                f"{what} of this gate {state}: {digest}.",
                where=self.where,
                fix="Without it the decision can't be recomputed.",
            )
        tree = item.tree()
        if item.kind != kind or (schema is not None and tree.get("schema") != schema):
            raise InputError(
                "REL-008",
                f"{what} of this gate is a record of the kind '{item.kind}' and the schema"
                f" {tree.get('schema')!r}.",
                where=self.where,
            )
        return tree

    def unclear(self, what: str) -> InputError:
        """The error for a record that doesn't name its evidence."""
        return InputError("REL-008", f"the record has no digest of {what}.", where=self.where)


def _part(tree: Any, name: str, evidence: _Evidence) -> dict[str, Any]:
    part = tree.get(name) if isinstance(tree, dict) else None
    if not isinstance(part, dict):
        raise evidence.unclear(name)
    return part


# --- exams


def _exam_gate(
    ledger: Ledger, item: Item, stored: Mapping[str, Any], shelf: Shelf, project: str
) -> dict[str, Any]:
    evidence = _Evidence(ledger, item, project)
    named = _part(stored, "evidence", evidence)
    results = {
        role: (
            None
            if named.get(role) is None
            else _outcome(evidence, _part(named, role, evidence), role, shelf)
        )
        for role in EXAM_ROLES
    }
    capstone = results["capstone"]
    if capstone is None:
        raise evidence.unclear("the capstone")
    rules = ExamRules(shelf.policy_of("exam", on_shelf(stored.get("policy"), of="gate")))
    # the pass score and this note depend on what the command was given
    pass_score = _part(stored, "capstone", evidence).get("limit")
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


def _outcome(evidence: _Evidence, named: Mapping[str, Any], role: str, shelf: Shelf) -> CheckedExam:
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
    exam = make_exam([Document(file, where) for file in answered["exam"]])
    answers = {answer["item"]: Answer(**answer) for answer in answered["answers"]}
    rules = ExamRules(shelf.policy_of("exam", on_shelf(stored.get("policy"), of="exam")))
    made = exam_result(grade_exam(exam, answers, marking), rules, unknown=tuple(stored["unknown"]))
    return canonical(replace(made, faults=stored["faults"])) == canonical(stored)


# --- tool schemas


def _schema_gate(
    ledger: Ledger, item: Item, stored: Mapping[str, Any], shelf: Shelf, project: str
) -> dict[str, Any]:
    evidence = _Evidence(ledger, item, project)
    named = _part(stored, "evidence", evidence)
    held = _held(evidence, named)
    wanted = named.get("asked")
    if not isinstance(wanted, list) or not all(
        isinstance(name, str) and name.partition(".")[0] in held.indexes for name in wanted
    ):
        raise evidence.unclear("what was asked for")
    rules = SchemaRules(shelf.policy_of("flowmcp", on_shelf(stored.get("policy"), of="gate")))
    decided = to_builtins(gate.decide(wanted, held, rules))
    made = {"schema": SCHEMA_GATE, **decided, "evidence": {**named, "policy": rules.digest}}
    if canonical(made) != item.body:
        _need_readers(held)
    return made


def _held(evidence: _Evidence, named: Mapping[str, Any]) -> GateEvidence:
    indexes = {}
    for name, digest in _part(named, "indexes", evidence).items():
        tree = evidence.tree(digest, f"the index of {name}", "index")
        try:
            indexes[name] = convert(tree, NamespaceIndex)
        except ValidationError:
            raise evidence.unclear(f"the index of {name}") from None
    sources = {}
    for name, source in _part(named, "sources", evidence).items():
        if not isinstance(source, dict) or not isinstance(source.get("file"), str):
            raise evidence.unclear(f"the source of {name}")
        if "digest" not in source:
            sources[name] = SchemaSource(source["file"], None, str(source.get("unread")))
            continue
        record = evidence.tree(source["digest"], f"the source of {name}", "event", SCHEMA_SOURCE)
        sources[name] = SchemaSource(source["file"], source_data(record))
    lists = evidence.tree(named.get("lists"), "the lists of the checks", "event", SCHEMA_LISTS)
    modules = (
        ModuleLists()
        if lists.get("modules") is None
        else read_module_lists(lists["modules"], evidence.where)
    )
    try:
        stale = convert(named.get("stale", {}), dict[str, dict[str, list[str]]])
    except ValidationError:
        raise evidence.unclear("the stale answers") from None
    return GateEvidence(indexes, sources, modules, _part(lists, "aliases", evidence), stale)


def _need_readers(held: GateEvidence) -> None:
    """Check that the schema readers are installed. Without them, a difference would be due to this
    machine, not to the gate.
    """
    registrable_domain("example.org")
    if any(source.file.lower().endswith(MODULES) for source in held.sources.values()):
        schema_of("providers/a/a.mjs", b"export const main = { namespace: 'a', tools: {} }")


GATES: dict[str, Again] = {EXAM_GATE: _exam_gate, SCHEMA_GATE: _schema_gate}
"""How to recompute a stored gate, by its schema."""
