"""Grades as files: JSON, JSON lines, CSV and Markdown, each written as a stream so that a million results need no memory.

A format has a head, one piece for each result, and a foot with the counts and faults. What a result holds is decided elsewhere.
"""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from assay.records.grade import GRADES_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.records.grade import Payload

_encoder = msgspec.json.Encoder(decimal_format="number")
encode = _encoder.encode
"""Any result, record or plain tree as JSON, numbers as numbers."""


def pretty(document: Any) -> bytes:
    """JSON for people: two spaces, one final newline."""
    return msgspec.json.format(_encoder.encode(document), indent=2) + b"\n"


def plain(value: Any) -> Any:
    """A payload as the tree that a reader of its JSON would get."""
    return msgspec.json.decode(_encoder.encode(value))


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


class JsonDocument:
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


class JsonLines:
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


class Csv:
    """One row for each result. A cell that a spreadsheet would run as a formula gets an apostrophe in front."""

    def head(self) -> bytes:
        """The column names."""
        return (",".join(_COLUMNS) + "\r\n").encode()

    def piece(self, result: Payload) -> bytes:
        """One row."""
        row = []
        for column in _COLUMNS:
            text = _cell(result[column])
            row.append(f"'{text}" if isinstance(result[column], str) and text[:1] in ("=", "+", "-", "@", "\t", "\r") else text)
        line = io.StringIO()
        csv.writer(line).writerow(row)
        return line.getvalue().encode()

    def joint(self) -> bytes:
        """Nothing."""
        return b""

    def foot(self, faults: Sequence[dict[str, Any]], counts: dict[str, Any]) -> bytes:
        """Nothing."""
        return b""


def markdown_cell(text: str) -> str:
    """Text that cannot break out of a Markdown table cell."""
    flat = " ".join(text.split())
    for sign in "\\`*_[]<>|~":
        flat = flat.replace(sign, f"\\{sign}")
    return flat


class Markdown:
    """A table of results, with the reason of each."""

    def head(self) -> bytes:
        """The title and the table's head."""
        return b"# Grades\n\n| run | grade | score | passed | why |\n|---|---|---:|---|---|\n"

    def piece(self, result: Payload) -> bytes:
        """One row; the reason is the first sentence of the explanation."""
        why = " ".join(result["explanation"][: 1 + len(result["hard_gate_failures"])])
        passed = "yes" if result["passed"] else "no"
        return f"| {markdown_cell(result['run_id'])} | {result['grade']} | {result['weighted_score']:.2f} | {passed} | {markdown_cell(why)} |\n".encode()

    def joint(self) -> bytes:
        """Nothing."""
        return b""

    def foot(self, faults: Sequence[dict[str, Any]], counts: dict[str, Any]) -> bytes:
        """Counts, versions and faults."""
        verdict = "All passed." if counts["passed"] == counts["graded"] and not counts["faults"] else "The gate is closed."
        lines = [f"\n**{verdict}** Graded: {counts['graded']}, passed: {counts['passed']}, not passed: {counts['failed']}, faults: {counts['faults']}."]
        lines += [f"\n- {markdown_cell(str(fault['file']))} line {fault['line']}: {markdown_cell(str(fault['message']))}" for fault in faults]
        lines.append(f"\nPolicy {counts['policy']}, {counts['scoringSystem']}, {counts['gradingSystem']}.\n")
        return "\n".join(lines).encode()


FORMATS: dict[str, type[Format]] = {".json": JsonDocument, ".jsonl": JsonLines, ".csv": Csv, ".md": Markdown}


def format_of(path: str) -> Format:
    """The format that a file's extension picks."""
    return FORMATS[os.path.splitext(path)[1]]()
