"""Exam files: YAML (or JSON) with items, each with a prompt and the forms that its answer must
hold.

Several files make one exam: their items stand one after another, and the mean is over all of them.
An item that expects nothing is refused, since every answer would meet it; so is an id that stands
twice. What an answer is worth is not known here: see `marking`.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct
from msgspec.json import Encoder

from assay.canon import canonical
from assay.errors import EvidenceError, Fault, InputError, NotEnoughEvidence
from assay.exams.rubric import Match, Text, compile_schema
from assay.files.json_files import Document, open_input, read_json, show_path
from assay.files.yaml_files import parse_yaml
from assay.records.exam import ExamSet
from assay.records.reading import read_record
from assay.registry import identifier_fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from assay.files.json_files import Path

CAPSTONE, REGRESSION = "capstone", "regression"
_encode = Encoder().encode


class ExamItem(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One question. `expected` is another name for `expected_contains`. `verb` and `tense` let a
    diagnosis say what the lost items share.
    """

    id: str
    prompt: Text
    gloss_contains: list[str]
    expected_contains: list[str] | None = None
    expected: list[str] | None = None
    match: Match | None = None
    verb: str | None = None
    tense: str | None = None

    @property
    def wanted(self) -> list[str]:
        """The forms that the English answer must hold."""
        return self.expected_contains if self.expected_contains is not None else self.expected or []


class ExamFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One exam file. Without `rubric` the policy's own is taken, without `answer_schema` the
    rubric's.
    """

    exam: Text
    items: list[ExamItem]
    version: int | str = 1
    rubric: str | None = None
    set: ExamSet = "capstone"
    answer_schema: Annotated[
        dict[str, Any] | None, Meta(description="JSON Schema (2020-12) of an answer")
    ] = None
    title: str | None = None
    description: str | None = None


class Exam(NamedTuple):
    """One exam, of one or more files."""

    files: tuple[ExamFile, ...]
    paths: tuple[str, ...]

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
        """The rubric that the files name, or None."""
        return self.files[0].rubric

    def item_digests(self, default_schema: dict[str, Any]) -> dict[str, str]:
        """What each item asks and expects, by its id: a result carries them, so that an item that
        was taken out of it is missed.
        """
        found = {}
        try:
            for file in self.files:
                schema = sha256(
                    canonical(
                        file.answer_schema if file.answer_schema is not None else default_schema
                    )
                ).hexdigest()
                for item in file.items:
                    # Texts and null have one spelling in JSON: a row is canonical as it is encoded.
                    row = _encode(
                        (item.id, item.prompt, item.wanted, item.gloss_contains, item.match, schema)
                    )
                    found[item.id] = sha256(row).hexdigest()[:32]
        except UnicodeEncodeError as error:
            raise InputError("API-001", f"what JSON cannot say has no digest: {error}.") from None
        return found

    def digest(self, default_schema: dict[str, Any]) -> str:
        """What was asked and expected."""
        return exam_digest(self.set, self.item_digests(default_schema))


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


class FilesRead(NamedTuple):
    """The files of one exam that have the right shape, with every fault of all of them."""

    files: list[tuple[ExamFile, Document]]
    faults: list[Fault]


def read_files(documents: Iterable[Document]) -> FilesRead:
    """Read the files of one exam, without refusing any."""
    files: list[tuple[ExamFile, Document]] = []
    faults: list[Fault] = []
    seen: dict[str, tuple[Document, Path]] = {}
    whole = True
    for document in documents:
        try:
            file = read_record(document, ExamFile, "EXM-001")
        except EvidenceError as error:
            faults += _located(error.faults, document)
            whole = False
            continue
        faults += file_faults(file, document, seen)
        files.append((file, document))
    return FilesRead(files, [*faults, *(_disagreements(files) if whole and files else ())])


def make_exam(documents: list[Document]) -> Exam:
    """One exam from parsed files, or an error with every fault and its line."""
    files, faults = read_files(documents)
    if faults:
        several = len({fault.file for fault in faults}) > 1
        for fault in faults:
            fault.path = f"{fault.file}  {fault.path}".rstrip() if several else fault.path
        raise InputError(
            faults[0].code,
            faults[0].message,
            where="" if several else faults[0].file,
            fix=faults[0].fix,
            faults=faults,
        )
    exam = Exam(tuple(file for file, _ in files), tuple(document.file for document in documents))
    if not exam.items:
        raise NotEnoughEvidence(
            "EXM-004",
            "the exam has no items.",
            where=", ".join(exam.paths),
            fix="Add items: an exam without any grades nothing.",
        )
    return exam


def _located(faults: Iterable[Fault], document: Document) -> list[Fault]:
    """Faults of a file's shape, each with its line where that is known."""
    lines = {show_path(path): line for path, line in (document.lines or {}).items()}
    found = []
    for fault in faults:
        at = fault.path
        while fault.line is None and at:
            fault.line = lines.get(at)
            at = at[: max(at.rfind("."), at.rfind("["), 0)]
        found.append(fault)
    return found


def line_of(document: Document, path: Path) -> int | None:
    """The line of a path in a file, or of the nearest part around it that has one."""
    lines = document.lines or {}
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path)


def file_faults(
    file: ExamFile, document: Document, seen: dict[str, tuple[Document, Path]]
) -> list[Fault]:
    """What is wrong with a file of the right shape. `seen` has the ids of the files before it and
    their places.
    """
    found: list[Fault] = []

    def add(path: Path, message: str, code: str = "EXM-001", fix: str = "") -> None:
        line = line_of(document, path)
        found.append(
            Fault(message, code=code, file=document.file, line=line, path=show_path(path), fix=fix)
        )

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
        for key, entries in (
            ("expected_contains", item.wanted),
            ("gloss_contains", item.gloss_contains),
        ):
            if not entries:
                message = "nothing is expected, so every answer would be right."
                add((*at, key), message, "EXM-003", "Name at least one form.")
            for place, entry in enumerate(entries):
                # only spaces and periods: nothing is left of it after normalisation
                if not entry.strip().strip(".").strip():
                    message = f"{entry!r} is found in every answer."
                    add((*at, key, place), message, "EXM-003", "Write the form that is expected.")
    return found


def _place(document: Document, at: Path) -> str:
    line = (document.lines or {}).get((*at, "id"))
    return f"{document.file}, line {line}" if line else f"{document.file}, {show_path(at)}"


def _disagreements(files: list[tuple[ExamFile, Document]]) -> Iterator[Fault]:
    """Where the files of one exam contradict each other."""
    first, first_document = files[0]
    for key in ("set", "rubric"):
        wanted = getattr(first, key)
        for file, document in files[1:]:
            value = getattr(file, key)
            if value != wanted:
                yield Fault(
                    f"'{key}' is {value!r} here and {wanted!r} in {first_document.file}.",
                    code="EXM-005",
                    file=document.file,
                    line=(document.lines or {}).get((key,)),
                    fix="One exam has one rubric and is of one set.",
                )


def left_out(files: list[str]) -> list[str]:
    """A second file of the exam that lies beside it and was not named: leaving it out may make the
    exam easier.
    """
    given = {os.path.realpath(path) for path in files}
    found = []
    for path in files:
        stem, ending = os.path.splitext(path)
        extra = f"{stem}-extra{ending}"
        if os.path.isfile(extra) and os.path.realpath(extra) not in given:
            found.append(
                f"{extra} lies beside the exam and was not graded; name it too if it is part of the"
                " exam"
            )
    return found
