"""What `assay tools grade` keeps between its stages: `state.json` and the scores of a grader."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any, NamedTuple

from assay.canon import time_of
from assay.cli import tools_input as inp
from assay.cli.parsing import Options
from assay.errors import Fault, InputError
from assay.files.atomic import write_file
from assay.files.json_files import read_json
from assay.families.tools import protocol
from assay.families.tools.ecma import document_bytes
from assay.families.tools.names import slug
from assay.families.tools.source import ToolSchema


def write_state(
    workdir: str, schema: ToolSchema, state: dict[str, Any], **phases: str | None
) -> None:
    """Write how far the grading of a schema has come."""
    document = {
        "schemaId": schema.schema_id,
        "schemaIdSlug": slug(schema.schema_id),
        "schemaHash": schema.file_sha256,
        **state,
        "phases": {
            "promptsEmitted": None,
            "scoresReceived": None,
            "gradeComputed": None,
            "reportWritten": None,
            **phases,
        },
    }
    path = os.path.join(workdir, slug(schema.schema_id), "state.json")
    write_file(path, document_bytes(document))


class ScoredSchema(NamedTuple):
    """The scores of one schema, and the state of its grading if its prompts were written here."""

    scores: dict[str, Any]
    state: dict[str, Any]

    @property
    def started(self) -> str | None:
        """When its prompts were written."""
        phases: dict[str, str | None] = self.state.get("phases", {})
        return phases.get("promptsEmitted")


def read_scores(
    options: Options, assessed: list[inp.Assessed], now: datetime
) -> list[ScoredSchema]:
    """The scores of every schema, or all faults at once."""
    scored: list[ScoredSchema] = []
    faults: list[Fault] = []
    for schema, _, _ in assessed:
        path = options.consume_scores
        if os.path.isdir(path):
            path = os.path.join(path, slug(schema.schema_id), "scores.json")
        try:
            scored.append(_scored(options, schema, path, now))
        except InputError as error:
            faults += error.listed(path)
    if faults:
        files = {fault.file for fault in faults}
        for fault in faults:
            fault.path = f"{fault.file}  {fault.path}".rstrip() if len(files) > 1 else fault.path
        raise InputError(
            faults[0].code,
            faults[0].message,
            where=faults[0].file if len(files) == 1 else "",
            faults=faults,
            fix="Nothing was written.",
        )
    return scored


def _scored(options: Options, schema: ToolSchema, path: str, now: datetime) -> ScoredSchema:
    state = _state(options.workdir, schema)
    when_to_use = options.when_to_use or state.get("whenToUse")
    prompts = protocol.prompts_document(schema, when_to_use=when_to_use)
    scores = protocol.check_scores(
        read_json(path, lone_surrogates=True).tree,
        expected_slug=slug(schema.schema_id),
        where=path,
        asked=protocol.prompts_digest(prompts),
        dimensions=protocol.dimensions_of(schema, when_to_use=when_to_use),
        emitted=time_of(state.get("phases", {}).get("promptsEmitted")),
        now=now,
    )
    document_bytes(scores, where=path)  # refuses a lone surrogate before anything is written
    if state and state.get("schemaHash") != schema.file_sha256:
        raise InputError(
            "PRO-006",
            "the schema has changed since its prompts were written.",
            where=path,
            fix="Write the prompts again and score them again."
            + (" Give the same --declare both times." if schema.kind == "mcp" else ""),
        )
    return ScoredSchema(scores, state)


def _state(workdir: str, schema: ToolSchema) -> dict[str, Any]:
    """The state of a grading; empty if its prompts were not written here."""
    path = os.path.join(workdir, slug(schema.schema_id), "state.json")
    if not os.path.exists(path):
        return {}
    state: Any = read_json(path).tree
    phases = state.get("phases") if isinstance(state, dict) else None
    if not isinstance(phases, dict) or (
        phases.get("promptsEmitted") is not None and time_of(phases["promptsEmitted"]) is None
    ):
        raise InputError(
            "PRO-002", "is not a grading state.", where=path, fix="Write the prompts again."
        )
    fields: dict[str, Any] = state
    return fields
