"""Answers to an exam: one JSON object on each line, with the item, the response and how long it
took.

Nothing is dropped silently: a line that cannot be read, an answer to an item that the exam does not
have and a second answer to one item are faults, each with its line. An item without an answer is
missing, which is counted and scores nothing. What a response is worth is not known here: see
`marking`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay import exact
from assay.errors import Fault, InputError
from assay.files.json_files import Document, Unread, stream_documents
from assay.registry import near_miss

if TYPE_CHECKING:
    from collections.abc import Iterable

_KEYS = ("item", "response", "latency_ms", "error", "metadata")
_KNOWN = frozenset(_KEYS)


class Answer(NamedTuple):
    """What a tutor answered: text or object. `response` None means that there is no answer, and
    `error` says why.
    """

    item: str
    response: Any
    latency_ms: Any = None
    error: str = ""


class Answers(NamedTuple):
    """The answers to one exam by item, and what was wrong with their file."""

    found: dict[str, Answer]
    unknown: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


def read_answers(path: str, ids: Iterable[str], *, keep_going: bool = False) -> Answers:
    """The answers of a file. Every fault is raised at once; with `keep_going` they are listed and
    the rest is kept.
    """
    return collect(stream_documents(path), ids, where=path, keep_going=keep_going)


def collect(
    documents: Iterable[Document | Unread],
    ids: Iterable[str],
    *,
    where: str,
    keep_going: bool = False,
) -> Answers:
    """Answers from parsed lines, held against the ids of the exam."""
    known = dict.fromkeys(ids)
    found: dict[str, Answer] = {}
    unknown: list[str] = []
    faults: list[Fault] = []
    twice: set[str] = set()
    for document in documents:
        if isinstance(document, Unread):
            faults.append(document.fault)
            continue
        answer = _answer(document, faults)
        if answer is None:
            continue
        if answer.item not in known:
            unknown.append(answer.item)
            faults.append(
                _fault(
                    document,
                    "item",
                    f"the exam has no item '{answer.item[:80]}'.{near_miss(answer.item, known)}",
                    "EXM-008",
                )
            )
        elif answer.item in found:
            twice.add(answer.item)
            faults.append(
                _fault(
                    document,
                    "item",
                    f"the item '{answer.item}' is answered twice.",
                    "EXM-007",
                    "Which answer counts? Keep one.",
                )
            )
        else:
            found[answer.item] = answer
    if faults and not keep_going:
        raise InputError(
            faults[0].code, faults[0].message, where=where, fix=faults[0].fix, faults=faults
        )
    for item in twice:
        # with two answers none is the answer: otherwise the better one could be put first
        found[item] = Answer(item, None, error="answered twice")
    return Answers(found, tuple(unknown), tuple(faults))


def _fault(
    document: Document, path: str, message: str, code: str = "EXM-006", fix: str = ""
) -> Fault:
    at = f"{document.at}.{path}".strip(".") if document.at else path
    return Fault(message, code=code, file=document.file, line=document.line, path=at, fix=fix)


def _answer(document: Document, faults: list[Fault]) -> Answer | None:
    tree = document.tree
    if type(tree) is dict and tree.keys() <= _KNOWN and "response" in tree:  # the usual line
        item, latency, error = tree.get("item"), tree.get("latency_ms"), tree.get("error")
        if (
            type(item) is str
            and (latency is None or exact.is_amount(latency))
            and (error is None or type(error) is str)
        ):
            return Answer(item, tree["response"], latency, error or "")
    if not isinstance(tree, dict):
        faults.append(_fault(document, "", "an answer is an object with `item` and `response`."))
        return None
    before = len(faults)
    if not isinstance(tree.get("item"), str):
        faults.append(
            _fault(
                document,
                "item",
                "must be the id of an item." if "item" in tree else "the key 'item' is missing.",
            )
        )
    if "response" not in tree and "error" not in tree:
        faults.append(
            _fault(
                document,
                "response",
                "the key 'response' is missing.",
                fix="Write null where there was no answer.",
            )
        )
    for key in tree:
        if key not in _KEYS:
            faults.append(_fault(document, key, f"unknown key '{key}'.{near_miss(key, _KEYS)}"))
    latency = tree.get("latency_ms")
    if latency is not None and not exact.is_amount(latency):
        faults.append(
            _fault(
                document,
                "latency_ms",
                f"must be a number of milliseconds from 0 on, not {str(latency)[:40]!r}.",
                fix="Write null where none was taken.",
            )
        )
    if not isinstance(tree.get("error", ""), str | None):
        faults.append(_fault(document, "error", "must be a text."))
    if len(faults) > before:
        return None
    return Answer(tree["item"], tree.get("response"), latency, tree.get("error") or "")
