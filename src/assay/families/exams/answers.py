"""Answers to an exam: one JSON object on each line, or a row of CSV, with the item, the response
and how long it took.

Nothing is dropped silently: a line that cannot be read, an answer to an item that the exam does not
have and a second answer to one item are faults, each with its line. An item without an answer is
missing: it is counted and scores nothing. `marking` decides what a response is worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec import UNSET, Struct, UnsetType

from assay import exact
from assay.errors import EvidenceError, Fault, raise_faults
from assay.files.json_files import Document, Unread, parse_json, stream_documents
from assay.files.tables import csv_rows, line_of
from assay.records.evidence import OptionalNumber
from assay.records.reading import read_record
from assay.registry import near_miss


class Answer(NamedTuple):
    """What a tutor answered: text or object. `response` None means that there is no answer, and
    `error` says why.
    """

    item: str
    response: Any
    latency_ms: Any = None
    error: str = ""


class AnswerLine(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A line of a file of answers."""

    item: str
    response: Any = UNSET
    latency_ms: OptionalNumber = None
    error: str | UnsetType | None = UNSET
    metadata: Any = None


class Answers(NamedTuple):
    """The answers to one exam by item, and what was wrong with their file."""

    by_item: dict[str, Answer]
    unknown: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


def read_answers(path: str, ids: Iterable[str], *, keep_going: bool = False) -> Answers:
    """The answers of a file. Every fault is raised at once; with `keep_going` they are listed and
    the rest is kept.
    """
    documents = _table_documents(path) if path.endswith(".csv") else stream_documents(path)
    return collect(documents, ids, where=path, keep_going=keep_going)


def _table_documents(path: str) -> Iterator[Document]:
    """The rows of a CSV file as lines of answers. An empty cell counts as missing. Without a column
    `response`, the other columns are the fields of the response.
    """
    for row, place in csv_rows(path):
        line = {name: cell or None for name, cell in row.items()}
        with suppress(ValueError):
            line["latency_ms"] = parse_json((row.get("latency_ms") or "null").encode())
        if "response" not in row:
            fields = [name for name in row if name not in AnswerLine.__struct_fields__]
            answered = {name: line.pop(name) for name in fields}
            line["response"] = answered if any(answered.values()) else None
        yield Document(line, path, line_of(place))


def collect(
    documents: Iterable[Document | Unread],
    ids: Iterable[str],
    *,
    where: str,
    keep_going: bool = False,
) -> Answers:
    """Answers from parsed lines, held against the ids of the exam."""
    known = dict.fromkeys(ids)
    by_item: dict[str, Answer] = {}
    unknown: list[str] = []
    faults: list[Fault] = []
    twice: set[str] = set()
    for document in documents:
        if isinstance(document, Unread):
            faults.append(document.fault)
            continue
        try:
            line = read_record(document, AnswerLine, "EXM-006")
        except EvidenceError as error:
            faults += [_placed(fault, document) for fault in error.faults]
            continue
        fault = _fault(line, known, by_item)
        if fault is None:
            by_item[line.item] = Answer(
                line.item,
                None if line.response is UNSET else line.response,
                line.latency_ms,
                line.error or "",
            )
            continue
        if fault.code == "EXM-008":
            unknown.append(line.item)
        elif fault.code == "EXM-007":
            twice.add(line.item)
        faults.append(_placed(fault, document))
    if not keep_going:
        raise_faults(faults, where=where)
    for item in twice:
        # with two answers none is the answer: otherwise the better one could be put first
        by_item[item] = Answer(item, None)
    return Answers(by_item, tuple(unknown), tuple(faults))


def _placed(fault: Fault, document: Document) -> Fault:
    fault.file, fault.line = document.file, document.line
    fault.path = f"{document.at}.{fault.path}".strip(".") if document.at else fault.path
    return fault


def _fault(line: AnswerLine, known: Iterable[str], by_item: dict[str, Answer]) -> Fault | None:
    """What is wrong with a well-formed line, if anything."""
    if line.response is UNSET and line.error is UNSET:
        return Fault(
            "the key 'response' is missing.",
            code="EXM-006",
            path="response",
            fix="Write null where there was no answer.",
        )
    if line.latency_ms is not None and not exact.is_amount(line.latency_ms):
        return Fault(
            f"must be a number of milliseconds, at least 0, not {str(line.latency_ms)[:40]!r}.",
            code="EXM-006",
            path="latency_ms",
            fix="Write null where none was taken.",
        )
    if line.item not in known:
        message = f"the exam has no item '{line.item[:80]}'.{near_miss(line.item, known)}"
        return Fault(message, code="EXM-008", path="item")
    if line.item in by_item:
        return Fault(
            f"the item '{line.item}' is answered twice.",
            code="EXM-007",
            path="item",
            fix="Which answer counts? Keep one.",
        )
    return None
