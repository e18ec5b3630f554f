"""Runs that Assay wrote elsewhere (`assay.run/1`): from another machine, another work folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.errors import UsageError
from assay.files.json_files import parse_json, read_documents
from assay.importers.importer import Imported, Importer, Wanted
from assay.records.evidence import RUN_SCHEMA
from assay.records.reading import read_run

if TYPE_CHECKING:
    from collections.abc import Sequence


def _fits(head: bytes) -> bool:
    if RUN_SCHEMA.encode() not in head:
        return False
    try:
        tree = parse_json(head.lstrip().split(b"\n", 1)[0])
    except ValueError:  # a document over several lines, or the beginning of a long one
        return head.lstrip().startswith((b"{", b"["))
    first = tree[0] if isinstance(tree, list) and tree else tree
    return isinstance(first, dict) and first.get("schema") == RUN_SCHEMA


def _read(paths: Sequence[str], wanted: Wanted) -> Imported:
    if wanted != Wanted():
        raise UsageError(
            "CLI-001",
            "each of these runs names its workflow and its dataset already.",
            where=", ".join(paths),
            fix="Leave out --workflow, --family and --dataset.",
        )
    runs = []
    for path in paths:
        for document in read_documents(path):
            read_run(document)
            runs.append(document.tree)
    return Imported(runs, {"documents": len(runs)}, {})


IMPORTER = Importer("assay", "runs that Assay wrote (assay.run/1)", _fits, _read)
