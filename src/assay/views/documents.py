"""Grades as JSON and JSON Lines, and how any result or record becomes JSON."""

from __future__ import annotations

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
