"""Answers to an exam: read from a file, or asked of a tutor.

A file has one JSON object on each line, or a row of CSV: the item, the response and how long it
took. Nothing is dropped silently: a line that cannot be read, an answer to an item that the exam
does not have and a second answer to one item are faults, each with its line. An item without an
answer is missing: it is counted and scores nothing. `marking` decides what a response is worth.

A tutor is a command or an HTTP endpoint, and untrusted: the size and the time of its answers are
limited, and a command's whole process group is ended after its turn. A tutor that fails on an item
leaves that item without an answer, with the reason; a tutor that cannot be started at all is a
mistake in the command line. One prompt at a time: a tutor that shares its machine with other
prompts would look slower than it is.
"""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay import exact
from assay.errors import EvidenceError, Fault, UsageError, raise_faults
from assay.families.exams.rules import ExamItem
from assay.files.json_files import Document, Unread, parse_json, stream_documents
from assay.files.redirects import staying_opener
from assay.files.tables import csv_rows, line_of
from assay.records.evidence import OptionalNumber
from assay.records.reading import read_record
from assay.registry import near_miss
from assay.sandbox.commands import NoAnswerError, ask_command, split_command


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


MAX_REPLY = 16 * 1024 * 1024
"""Bytes of one answer. An honest one has a few hundred."""
_CHUNK = 64 * 1024


Tutor = Callable[[str], Any]
"""Answers one prompt in each call: with a text, or with an object. Raises NoAnswerError if there is
no answer.
"""


def command_tutor(command: str, *, timeout_s: float) -> Tutor:
    """A tutor that is a command: the prompt on its standard input, the response on its standard
    output.
    """
    words = split_command(command, "--command", "a response")

    def ask(prompt: str) -> str:
        reply = ask_command(words, prompt, timeout_s=timeout_s, max_reply=MAX_REPLY)
        return reply.decode("utf-8", "replace")

    return ask


def http_tutor(url: str, *, timeout_s: float, headers: dict[str, str]) -> Tutor:
    """A tutor behind an endpoint: POST `{"prompt": ...}`, JSON back; `{"response": ...}` is
    unwrapped, anything else is the response itself.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError("CLI-001", f"--url {url!r} is not an http or https address.")
    headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    opener = staying_opener()

    def ask(prompt: str) -> Any:
        deadline, late = time.monotonic() + timeout_s, f"no answer within {timeout_s:g} s"
        request = urllib.request.Request(  # noqa: S310
            url, data=msgspec.json.encode({"prompt": prompt}), headers=headers, method="POST"
        )  # http or https only
        reply = bytearray()
        try:
            with opener.open(request, timeout=timeout_s) as stream:
                while data := stream.read1(_CHUNK):
                    reply += data
                    if len(reply) > MAX_REPLY:
                        raise NoAnswerError(f"the answer is longer than {MAX_REPLY // 2**20} MiB")
                    if time.monotonic() > deadline:
                        raise NoAnswerError(late)
        except urllib.error.HTTPError as error:
            error.close()
            raise NoAnswerError(f"the endpoint answered with status {error.code}") from None
        except (OSError, ValueError) as error:  # a URLError has a reason; or a broken reply
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise NoAnswerError(late) from None
            text = getattr(reason, "strerror", None) or reason
            raise NoAnswerError(f"the endpoint cannot be asked: {text}") from None
        try:
            tree = parse_json(bytes(reply))
        except ValueError:
            return reply.decode("utf-8", "replace")
        return tree["response"] if isinstance(tree, dict) and set(tree) == {"response"} else tree

    return ask


def read_headers(given: Iterable[str]) -> dict[str, str]:
    """Headers from `NAME: VALUE`; `$NAME` in a value is taken from the environment, so that no
    secret is on a command line.
    """
    made = {}
    for text in given:
        name, colon, value = text.partition(":")
        if not colon or not name.strip() or not text.isprintable():
            raise UsageError("CLI-001", "a header is 'NAME: VALUE'.")
        made[name.strip()] = os.path.expandvars(value.strip())
    return made


def ask_all(
    items: Iterable[ExamItem], tutor: Tutor, *, progress: Callable[[str], None] | None = None
) -> dict[str, Answer]:
    """Every item asked, one after another. A failure is an answer that is missing, with the
    reason.
    """
    answers_by_item = {}
    for item in items:
        started = time.monotonic_ns()
        try:
            response, error = tutor(item.prompt), ""
        except NoAnswerError as reason:
            response, error = None, str(reason)
        took = Decimal((time.monotonic_ns() - started) // 1000).scaleb(-3)
        answers_by_item[item.id] = Answer(
            item.id,
            response,
            took,
            error or ("the tutor answered null" if response is None else ""),
        )
        if progress is not None:
            progress(item.id)
    return answers_by_item


def answer_lines(answers: Iterable[Answer]) -> bytes:
    """Answers as the file that `--answers` reads."""
    encode = msgspec.json.Encoder(decimal_format="number").encode
    lines = []
    for answer in answers:
        line: dict[str, Any] = {
            "item": answer.item,
            "response": answer.response,
            "latency_ms": answer.latency_ms,
        }
        lines.append(encode({**line, "error": answer.error} if answer.error else line))
    return b"".join(line + b"\n" for line in lines)
