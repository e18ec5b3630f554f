"""Grades as JSON and JSON Lines, and how any result or record becomes JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assay.canon import encode as encode
from assay.records.grade import GRADES_SCHEMA, Payload
from assay.views.exporters import Exporter, Format


def names_of(result: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a person may call a run or its grade: its id, or its sample, alone or as a decision
    calls it, with its dataset. The sample of a run is in its dataset.

    >>> names_of({"run_id": "r-1", "sample_id": "s-1", "dataset": {"id": "faq"}})
    ('r-1', 's-1', 'faq/s-1')
    """
    dataset = result.get("dataset")
    of = dataset if isinstance(dataset, dict) else {"id": getattr(dataset, "id", None)}
    name, sample = of.get("id"), of.get("sample_id") or result.get("sample_id")
    within = (f"{name}/{sample}",) if name and sample else ()
    return result.get("run_id"), sample, *within


def plain(value: Any) -> Any:
    """A payload as the tree that a reader of its JSON would get."""
    return msgspec.json.decode(encode(value))


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
