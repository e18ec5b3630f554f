"""Reads files of JSON lines, and collects the faults of all lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from assay.errors import Fault, InputError
from assay.files.inputs import Source
from assay.files.json_files import Document, Unread, stream_documents
from assay.records.grade import is_graded

T = TypeVar("T")
MAX_FAULTS = 20


def read_lines(
    paths: Iterable[str | Source], take: Callable[[Document], T], *, absent: str
) -> list[T]:
    """What `take` makes of each line of files; `absent` is the error if they have no lines."""
    made = take_all((line for path in paths for line in _ungraded(path)), take)
    if not made:
        raise InputError("FIL-005", absent, where=", ".join(map(str, paths)))
    return made


def _ungraded(path: str | Source) -> Iterator[Document | Unread]:
    """The documents of a file. Grades are refused at once: no judge reads them."""
    for document in stream_documents(path):
        if isinstance(document, Document) and is_graded(document.tree):
            raise InputError(
                "JDG-005",
                "contains grades, which don't include the texts to judge.",
                where=str(path),
                fix="Pass the runs that were graded; `assay run` leaves them in runs.jsonl of its"
                " work folder.",
            )
        yield document


def take_all(
    documents: Iterable[Document | Unread], take: Callable[[Document], T], *, where: str = ""
) -> list[T]:
    """What `take` makes of each document. It raises an InputError for one that is at fault; all of
    them become one error, each fault with its file and line.
    """
    taken: list[T] = []
    faults: list[Fault] = []
    for document in documents:
        if isinstance(document, Unread):
            faults.append(document.fault)
            continue
        try:
            taken.append(take(document))
        except InputError as error:
            line_faults = error.faults or [Fault(error.message, code=error.code, fix=error.fix)]
            for fault in line_faults:
                fault.file = fault.file or document.file
                fault.line = fault.line or document.line
                fault.path = f"{document.at}.{fault.path}".strip(".")
            faults += line_faults
    refuse(faults, where=where)
    return taken


def refuse(faults: list[Fault], *, where: str = "", fix: str = "") -> None:
    """Raise one error with the first faults and the count of all, if there are any."""
    if faults:
        first = faults[0]
        error = InputError(
            first.code,
            first.message,
            where=where or first.file,
            fix=fix or first.fix,
            faults=faults[:MAX_FAULTS],
        )
        error.fault_count = len(faults)
        error.advice = fix
        raise error


def check_unique(ids: Iterable[str]) -> None:
    """Refuse an id that appears twice."""
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise InputError(
                "FIL-007", f"the id {name!r} appears twice.", fix="Give each item its own id."
            )
        seen.add(name)
