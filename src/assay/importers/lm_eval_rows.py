"""The rows of a samples file of lm-evaluation-harness, by the document that they belong to."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import IO, Any

from assay.errors import InputError
from assay.files.json_stream import stream_json
from assay.files.line_groups import JsonLine, LineGroups
from assay.importers.parts import file_stem, head_of, name_of, shaped
from assay.importers.spool import json_line

_FILE = re.compile(r"samples_(.+?)(?:_\d{4}-\d\d-\d\dT[\d.:\-]+)?")


def sample_rows(path: str) -> Iterator[list[JsonLine]]:
    """The rows of each document: one for each filter."""
    with ExitStack() as stack:
        lines: IO[bytes] | None = None
        if head_of(path).text.startswith("["):  # older versions write one list
            lines = stack.enter_context(tempfile.TemporaryFile())
            for _, row in stream_json(path, [()]):
                sample = shaped(row, dict, "a sample", path)
                name_of(sample.get("doc_id"), "`doc_id`", path)
                lines.write(json_line({"doc_id": sample.pop("doc_id"), **sample}))
        groups = stack.enter_context(LineGroups(path, "doc_id", opened=lines))
        if groups.loose:
            where = f"{path}:{groups.loose[0].number}"
            raise InputError("SCO-011", "this line has no `doc_id`.", where=where)
        yield from groups


def inputs_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The prompt, where the row has it; otherwise the document."""
    given = row.get("arguments")
    first: Any = next(iter(given.values()), None) if isinstance(given, dict) else given
    while isinstance(first, list) and first:
        first = first[0]
    prompt = first.get("arg_0") if isinstance(first, dict) else first
    return {"prompt": prompt} if isinstance(prompt, str) else {"doc": row.get("doc")}


def answer_of(row: Mapping[str, Any]) -> Any:
    """What the model answered, as the filter left it; None if there is nothing."""
    given = row.get("filtered_resps", row.get("resps"))
    while isinstance(given, list) and len(given) == 1:
        given = given[0]
    return None if given == [] else given


def task_of(path: str) -> str:
    """The task, which only the name of a samples file contains.

    >>> task_of("out/samples_arc_easy_2026-11-15T01-06-32.295209.jsonl")
    'arc_easy'
    """
    match = _FILE.fullmatch(file_stem(os.path.basename(path)))
    return match[1] if match else file_stem(path)
