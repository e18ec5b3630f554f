"""Runs that Assay wrote elsewhere (`assay.run/1`): from another machine, another work folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from assay.errors import UsageError
from assay.files.json_files import parse_json, read_documents
from assay.importers.head import Head
from assay.importers.importer import Importer, Wanted
from assay.importers.tally import ImportTally
from assay.records.evidence import RUN_SCHEMA
from assay.records.reading import read_run


def _fits(start: Head) -> bool:
    head = start.data
    if RUN_SCHEMA.encode() not in head:
        return False
    try:
        tree = parse_json(head.lstrip().split(b"\n", 1)[0])
    except ValueError:  # a document over several lines, or the beginning of a long one
        return head.lstrip().startswith((b"{", b"["))
    first = tree[0] if isinstance(tree, list) and tree else tree
    return isinstance(first, dict) and first.get("schema") == RUN_SCHEMA


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    if wanted != Wanted():
        raise UsageError(
            "CLI-001",
            "each of these runs names its workflow and its dataset already.",
            where=", ".join(paths),
            fix="Leave out --workflow, --family and --dataset.",
        )
    for path in paths:
        for document in read_documents(path):
            read_run(document)
            tally.read["documents"] += 1
            yield document.tree


IMPORTER = Importer("assay", "runs that Assay wrote (assay.run/1)", _fits, _read)
