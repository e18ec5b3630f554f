"""Exam files: YAML (or JSON) with items, each with a prompt and what its answer is compared with.

Several files make one exam: their items follow one another, and the mean is over all of them. An
item that expects nothing is refused, since every answer would meet it; so is an id that appears
twice. `marking` scores the answers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Any, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.json import Encoder

from assay import exact
from assay.canon import canonical
from assay.errors import EvidenceError, Fault, InputError, NotEnoughEvidence, raise_faults
from assay.families.exams.records import ExamSet
from assay.families.exams.rubric import compile_schema
from assay.families.exams.rules import ExamItem, matches_everything
from assay.files.inputs import open_input
from assay.files.json_files import Document, Path, read_json, show_path
from assay.files.yaml_files import parse_yaml
from assay.records.evidence import Number
from assay.records.reading import read_record
from assay.records.shape import Text
from assay.registry import identifier_fault, is_path

CAPSTONE, REGRESSION = "capstone", "regression"
_encode = Encoder().encode


class ExamFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One exam file. Without `rubric` the policy's own is taken, without `answer_schema` the
    rubric's. `rubric` may be a file, by its path from this one.
    """

    exam: Text
    """The exam's id."""
    items: list[ExamItem]
    """The questions."""
    version: int | str = 1
    """Its version."""
    rubric: str | None = None
    """The rubric that marks it; without one, the policy's."""
    set: ExamSet = "capstone"
    """Capstone or regression set."""
    answer_schema: Annotated[
        dict[str, Any] | None, Meta(description="JSON Schema (2020-12) of an answer")
    ] = None
    """The JSON Schema of an answer; without one, the rubric's."""
    title: str | None = None
    """The name that people see."""
    description: str | None = None
    """What it is for."""
    pass_score: Annotated[
        Number | UnsetType, Meta(description="the least score of a pass, from 0 to 1")
    ] = UNSET
    """The lowest score of a pass, from 0 to 1."""


class Exam(NamedTuple):
    """One exam, of one or more files."""

    files: tuple[ExamFile, ...]
    documents: tuple[Document, ...]
    """The files as they were read, so that a fault finds its line."""

    @property
    def items(self) -> list[ExamItem]:
        """Every item, file after file."""
        return [item for file in self.files for item in file.items]

    @property
    def set(self) -> ExamSet:
        """Which set it is: capstone or regression."""
        return self.files[0].set

    @property
    def rubric(self) -> str | None:
        """The rubric that the files name, or None; a file by its path from the exam's."""
        return _rubric_from(self.files[0].rubric, self.documents[0].file)

    @property
    def pass_score(self) -> Any:
        """The lowest passing score, or None if the exam names none."""
        named = self.files[0].pass_score
        return None if named is UNSET else named

    def item_digests(self, default_schema: dict[str, Any] | None) -> dict[str, str]:
        """What each item asks and expects, by its id: a result carries them, so that an item that
        was taken out of it is missed.
        """
        digests = {}
        try:
            for file in self.files:
                schema = sha256(
                    canonical(
                        file.answer_schema if file.answer_schema is not None else default_schema
                    )
                ).hexdigest()
                for item in file.items:
                    digests[item.id] = sha256(_row(item, schema)).hexdigest()[:32]
        except UnicodeEncodeError as error:
            raise InputError(
                "API-001", f"a value that JSON can't express has no digest: {error}."
            ) from None
        return digests

    def digest(self, default_schema: dict[str, Any] | None) -> str:
        """What was asked and expected."""
        return exam_digest(self.set, self.item_digests(default_schema))


def _rubric_from(named: str | None, path: str) -> str | None:
    """A rubric as an exam file names it; a file is found from there."""
    if named is None or not is_path(named):
        return named
    return os.path.join(os.path.dirname(path), named)


def named_rubric(paths: list[str]) -> str | None:
    """The rubric that the first file of an exam names, before anything else of it is checked; None
    if it names none.
    """
    tree = read_document(paths[0]).tree
    named = tree.get("rubric") if isinstance(tree, dict) else None
    return _rubric_from(named, paths[0]) if isinstance(named, str) else None


def _row(item: ExamItem, schema: str) -> bytes:
    """What an item asks and expects, as one canonical text."""
    if item.expect is UNSET:
        # Texts and null have one spelling in JSON: a row is canonical as it is encoded.
        return _encode((item.id, item.prompt, item.wanted, item.gloss_contains, item.match, schema))
    options = None if item.options is UNSET else item.options
    return canonical([item.id, item.prompt, item.expect, options, item.match, schema])


def exam_digest(which: str, items: Mapping[str, str]) -> str:
    """The digest of an exam: which set it is, and the digests of its items, whatever the order of
    files and items. Two results with the same digest answer the same questions.
    """
    return f"sha256:{sha256(_encode([which, sorted(items.items())])).hexdigest()}"


def read_document(path: str) -> Document:
    """An exam file as a tree: JSON by its extension, else YAML."""
    if path.endswith(".json"):
        return read_json(path)
    with open_input(path) as stream:
        return parse_yaml(stream.read(), path)


def read_exam(paths: Iterable[str]) -> Exam:
    """One exam from its files, or an error with every fault and its line."""
    return make_exam([read_document(path) for path in paths])


def read_files(
    documents: Iterable[Document],
) -> tuple[list[tuple[ExamFile, Document]], list[Fault]]:
    """The files of one exam that have the right shape, and every fault of all of them."""
    files: list[tuple[ExamFile, Document]] = []
    faults: list[Fault] = []
    seen: dict[str, tuple[Document, Path]] = {}
    whole = True
    for document in documents:
        try:
            file = read_record(document, ExamFile, "EXM-001")
        except EvidenceError as error:
            keys = document.tree if isinstance(document.tree, dict) else {}
            is_rubric = "axes" in keys and "items" not in keys
            faults += [_rubric_fault(document)] if is_rubric else error.faults
            whole = False
            continue
        faults += file_faults(file, document, seen)
        files.append((file, document))
    return files, [*faults, *(_disagreements(files) if whole and files else ())]


def _rubric_fault(document: Document) -> Fault:
    return Fault(
        "is a rubric, not an exam.",
        code="EXM-001",
        file=document.file,
        fix="Name the file with the items, whose `rubric` names this one.",
    )


def exam_of(files: list[tuple[ExamFile, Document]]) -> Exam:
    """One exam of files that were read without a fault."""
    return Exam(
        tuple(file for file, _ in files),
        tuple(document for _, document in files),
    )


def make_exam(documents: list[Document]) -> Exam:
    """One exam from parsed files, or an error with every fault and its line."""
    files, faults = read_files(documents)
    if faults:
        several = len({fault.file for fault in faults}) > 1
        for fault in faults:
            fault.path = f"{fault.file}  {fault.path}".rstrip() if several else fault.path
        raise_faults(faults, where="" if several else faults[0].file)
    exam = exam_of(files)
    if not exam.items:
        raise NotEnoughEvidence(
            "EXM-004",
            "the exam has no items.",
            where=", ".join(document.file for document in exam.documents),
            fix="Add items: an exam without any grades nothing.",
        )
    return exam


def file_faults(
    file: ExamFile, document: Document, seen: dict[str, tuple[Document, Path]]
) -> list[Fault]:
    """What is wrong with a file of the right shape. `seen` has the ids of the files before it and
    their places.
    """
    faults: list[Fault] = []

    def add(path: Path, message: str, code: str = "EXM-001", fix: str = "") -> None:
        faults.append(document.fault(message, path, code=code, fix=fix))

    if file.answer_schema is not None:
        try:
            compile_schema(file.answer_schema)
        except ValueError as error:
            add(("answer_schema",), f"is not a usable JSON Schema: {error}.")
    for index, item in enumerate(file.items):
        at: Path = ("items", index)
        problem = identifier_fault(item.id)
        if problem is not None:
            add((*at, "id"), f"the id {problem}.")
        if item.id in seen:
            message = f"the id '{item.id}' appears twice; first at {_place(*seen[item.id])}."
            add((*at, "id"), message, "EXM-002", "Give each item its own id.")
        seen.setdefault(item.id, (document, at))
        if item.expected_contains is not None and item.expected is not None:
            message = "`expected` and `expected_contains` are two names of one list."
            add((*at, "expected"), message, fix="Keep one.")
        short = item.wanted is not None or item.gloss_contains is not None
        if item.expect is not UNSET:
            if short:
                message = "`expect` replaces the keys of the verb exam; give one or the other."
                add((*at, "expect"), message, fix="Keep one.")
            continue
        if short and item.gloss_contains is None:
            fix = "For a subject without glosses, name your own `rubric` and write `expect`."
            add(at, "the key 'gloss_contains' is missing.", fix=fix)
        for key, entries in (
            ("expected_contains", item.wanted or []),
            ("gloss_contains", item.gloss_contains),
        ):
            if short and entries == []:
                message = "nothing is expected, so every answer would be right."
                add((*at, key), message, "EXM-003", "Name at least one form.")
            for place, entry in enumerate(entries or ()):
                if matches_everything(entry):
                    message = f"{entry!r} is found in every answer."
                    add((*at, key, place), message, "EXM-003", "Write the form that is expected.")
    if file.pass_score is not UNSET and not (
        exact.is_amount(file.pass_score) and file.pass_score <= 1
    ):
        add(("pass_score",), f"is {str(file.pass_score)[:40]}; a score is a number from 0 to 1.")
    return faults


def _place(document: Document, at: Path) -> str:
    line = (document.lines or {}).get((*at, "id"))
    return f"{document.file}, line {line}" if line else f"{document.file}, {show_path(at)}"


def _disagreements(files: list[tuple[ExamFile, Document]]) -> Iterator[Fault]:
    """Where the files of one exam contradict each other."""
    first, first_document = files[0]
    for key in ("set", "rubric", "pass_score"):
        wanted = getattr(first, key)
        for file, document in files[1:]:
            value = getattr(file, key)
            if value != wanted:
                here, there = (
                    "absent" if value_shown is None or value_shown is UNSET else value_shown
                    for value_shown in (value, wanted)
                )
                yield Fault(
                    f"'{key}' is {here} here and {there} in {first_document.file}.",
                    code="EXM-005",
                    file=document.file,
                    line=(document.lines or {}).get((key,)),
                    fix="One exam has one rubric, one pass score and is of one set.",
                )


def left_out(files: list[str]) -> list[str]:
    """A second file of the exam that lies next to it and was not named: leaving it out may make the
    exam easier.
    """
    given = {os.path.realpath(path) for path in files}
    reasons = []
    for path in files:
        stem, ending = os.path.splitext(path)
        extra = f"{stem}-extra{ending}"
        if os.path.isfile(extra) and os.path.realpath(extra) not in given:
            reasons.append(
                f"{extra} is next to the exam and was not graded; name it too if it is part of"
                " the exam"
            )
    return reasons
