"""Grades as JSON, as JSON Lines, and as CSV with nothing in it that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from assay.canon import encode as encode
from assay.records.grade import GRADES_SCHEMA, Payload
from assay.views.exporters import Exporter, Format


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

    def piece(self, result: Payload) -> bytes:
        """One result and the end of its line."""
        return encode(result) + b"\n"


EXPORTERS = (
    Exporter("json", "JSON: one document with all results", (".json",), JsonDocument),
    Exporter("jsonl", "JSON Lines: one result on each line", (".jsonl",), JsonLines),
)


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


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What makes a spreadsheet run a cell as a formula; the last four are the wide forms of the first,
which some take for them.
"""


def neutral(text: str) -> str:
    """Text that a spreadsheet shows and never runs: one that begins like a formula gets an
    apostrophe in front.

    >>> neutral("=1+1"), neutral("a=1")
    ("'=1+1", 'a=1')
    """
    return f"'{text}" if text.startswith(FORMULA) else text


class Csv(Format):
    """One row for each result."""

    def head(self) -> bytes:
        """The column names."""
        return (",".join(_COLUMNS) + "\r\n").encode()

    def piece(self, result: Payload) -> bytes:
        """One row."""
        row = []
        for column in _COLUMNS:
            value = result[column]
            text = _cell(value)
            row.append(neutral(text) if isinstance(value, str | list | tuple) else text)
        line = io.StringIO()
        csv.writer(line).writerow(row)
        return line.getvalue().encode()


EXPORTER = Exporter("csv", "CSV: one row for each result", (".csv",), Csv)
