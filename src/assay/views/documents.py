"""Grades as files: JSON, JSON lines and CSV, and the table of all formats. Each is written as a
stream, so that a million results need no memory.

A format has a head, one piece for each result, and a foot with the counts and faults. What a result
holds is decided elsewhere.
"""

from __future__ import annotations

import csv
import io
import os
from typing import IO, TYPE_CHECKING, Any, Protocol

import msgspec

from assay.records.grade import GRADES_SCHEMA
from assay.views.junit import JUnit
from assay.views.markdown import Markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assay.records.grade import Payload

_encoder = msgspec.json.Encoder(decimal_format="number")
encode = _encoder.encode
"""Any result, record or plain tree as JSON, numbers as numbers."""


def pretty(document: Any) -> bytes:
    """JSON for people: two spaces, one final newline."""
    return msgspec.json.format(_encoder.encode(document), indent=2) + b"\n"


def names_of(result: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a person may call a run or its grade: its id, or its sample, alone or as a decision
    calls it, with its dataset.

    >>> names_of({"run_id": "r-1", "sample_id": "s-1", "dataset": {"id": "faq"}})
    ('r-1', 's-1', 'faq/s-1')
    """
    dataset, sample = result.get("dataset"), result.get("sample_id")
    name = dataset.get("id") if isinstance(dataset, dict) else getattr(dataset, "id", None)
    within = (f"{name}/{sample}",) if name and sample else ()
    return result.get("run_id"), sample, *within


def plain(value: Any) -> Any:
    """A payload as the tree that a reader of its JSON would get."""
    return msgspec.json.decode(_encoder.encode(value))


class Sink(Protocol):
    """What takes the pieces of a format: a file, or the format itself where it must know all of
    them first.
    """

    def write(self, data: bytes, /) -> object:
        """Take one piece."""


class Format(Protocol):
    """How grades are written in one format."""

    def head(self) -> bytes:
        """What stands before the first result."""

    def piece(self, result: Payload) -> bytes:
        """One result."""

    def joint(self) -> bytes:
        """What stands between two results."""

    def foot(self, faults: Sequence[dict[str, Any]], counts: dict[str, Any]) -> bytes:
        """What stands after the last result."""

    def onto(self, stream: IO[bytes]) -> Sink:
        """Where pieces and joints go."""
        return stream

    def finish(
        self, stream: IO[bytes], faults: Sequence[dict[str, Any]], counts: dict[str, Any]
    ) -> None:
        """Write what remains once the last result is known."""
        stream.write(self.foot(faults, counts))


class JsonDocument(Format):
    """`assay.grades/1`: one document with all results."""

    def head(self) -> bytes:
        """The opening."""
        return b'{"schema":"' + GRADES_SCHEMA.encode() + b'","results":[\n'

    def piece(self, result: Payload) -> bytes:
        """One result on one line."""
        return encode(result)

    def joint(self) -> bytes:
        """A comma."""
        return b",\n"

    def foot(self, faults: Sequence[dict[str, Any]], counts: dict[str, Any]) -> bytes:
        """Faults and counts."""
        return b'\n],"faults":' + encode(list(faults)) + b',"counts":' + encode(counts) + b"}\n"


class JsonLines(Format):
    """One result on each line."""

    def head(self) -> bytes:
        """Nothing."""
        return b""

    def piece(self, result: Payload) -> bytes:
        """One result and the end of its line."""
        return encode(result) + b"\n"

    def joint(self) -> bytes:
        """Nothing."""
        return b""

    def foot(self, faults: Sequence[dict[str, Any]], counts: dict[str, Any]) -> bytes:
        """Nothing."""
        return b""


_COLUMNS = (
    "run_id",
    "passed",
    "grade",
    "provisional_grade",
    "weighted_score",
    "weighted_score_adjusted",
    "pass_threshold",
    "reason",
    "hard_gate_failures",
    "floor_failures",
    "sample_id",
    "group",
    "profile",
    "policy",
    "scoringSystem",
    "gradingSystem",
)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ";".join(map(str, value))
    return str(value)


class Csv(Format):
    """One row for each result. A cell that a spreadsheet would run as a formula gets an apostrophe
    in front.
    """

    def head(self) -> bytes:
        """The column names."""
        return (",".join(_COLUMNS) + "\r\n").encode()

    def piece(self, result: Payload) -> bytes:
        """One row."""
        row = []
        for column in _COLUMNS:
            text = _cell(result[column])
            row.append(
                f"'{text}"
                if isinstance(result[column], str) and text[:1] in ("=", "+", "-", "@", "\t", "\r")
                else text
            )
        line = io.StringIO()
        csv.writer(line).writerow(row)
        return line.getvalue().encode()

    def joint(self) -> bytes:
        """Nothing."""
        return b""

    def foot(self, faults: Sequence[dict[str, Any]], counts: dict[str, Any]) -> bytes:
        """Nothing."""
        return b""


def _report() -> Format:
    """The page that stands alone. It brings the charts along, so it is loaded only where it is
    asked for.
    """
    from assay.views.html import Report

    return Report()


FORMATS: dict[str, Callable[[], Format]] = {
    ".json": JsonDocument,
    ".jsonl": JsonLines,
    ".csv": Csv,
    ".md": Markdown,
    ".xml": JUnit,
    ".html": _report,
}


def format_of(path: str) -> Format:
    """The format that a file's extension picks."""
    return FORMATS[os.path.splitext(path)[1]]()
