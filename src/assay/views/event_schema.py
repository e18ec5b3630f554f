"""The published JSON Schema of the events of a run: `assay.event/1`. Every kind has its own closed
form, `error` too.

Nothing of the server is imported here, so that printing the schema stays cheap.
"""

from __future__ import annotations

from typing import Any

from assay.records.evidence import Dataset, Step, ToolCall, Workflow
from assay.records.schemas import json_schema
from assay.records.systems import GRADING_PATTERN, SCORING_PATTERN
from assay.views.schemas import SCHEMAS

EVENT_SCHEMA = "assay.event/1"
MEANINGS = {
    "workflow_start": "The workflow starts on a sample.",
    "step_start": "A step starts.",
    "step_end": "A step has ended; its measurements and tool calls are included.",
    "workflow_end": "The workflow has ended. It is not graded yet. Calls of no step are included.",
    "evaluation_start": "Grading starts, by this profile and policy.",
    "evaluation_complete": "The whole grade, and the digest it is stored under. The stream ends.",
    "error": "The run could not be graded. The stream ends, and nothing has passed.",
}
"""Every kind of event in the order of a run, and what it reports."""
LAST = ("evaluation_complete", "error")
"""The kinds of event that end a stream."""

_GRADE: dict[str, Any] = SCHEMAS["grades"]["properties"]["results"]["items"]
_TEXT_OR_NULL = {"type": ["string", "null"]}
_NUMBER_OR_NULL = {"type": ["number", "null"]}
_INDEX = {"type": "integer", "minimum": 0}
_STEP_HEAD: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "agent": _TEXT_OR_NULL, "index": _INDEX},
    "required": ["name", "agent", "index"],
    "additionalProperties": False,
}


def inlined(kind: type) -> dict[str, Any]:
    """The schema of a record without references, to embed in another document."""
    schema = json_schema(kind)
    definitions = schema.get("$defs", {})

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return walk(definitions[str(value["$ref"]).rsplit("/", 1)[-1]])
            return {
                key: walk(item) for key, item in value.items() if key not in ("$schema", "$defs")
            }
        return [walk(item) for item in value] if isinstance(value, list) else value

    schema_inlined: dict[str, Any] = walk(schema)
    return schema_inlined


def _event(
    kind: str, properties: dict[str, Any], optional: dict[str, Any] | None = None
) -> dict[str, Any]:
    head = {
        "schema": {"const": EVENT_SCHEMA},
        "event": {"const": kind},
        "id": {"type": "integer", "minimum": 1},
        "run_id": {"type": "string"},
        "at": _TEXT_OR_NULL,
        "scoringSystem": {"type": "string", "pattern": SCORING_PATTERN},
        "gradingSystem": {"type": "string", "pattern": GRADING_PATTERN},
    }
    every = {**head, **properties}
    return {
        "type": "object",
        "properties": {**every, **(optional or {})},
        "required": sorted(every),
        "additionalProperties": False,
    }


_STEP = {
    **_STEP_HEAD,
    "properties": {**inlined(Step)["properties"], "index": _INDEX},
    "required": ["name", "status", "index"],
}

_CALLS = {"type": "array", "items": inlined(ToolCall)}

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": EVENT_SCHEMA,
    "oneOf": [
        _event("workflow_start", {"workflow": inlined(Workflow), "dataset": inlined(Dataset)}),
        _event("step_start", {"step": _STEP_HEAD}),
        _event("step_end", {"step": _STEP, "tool_calls": _CALLS}),
        _event(
            "workflow_end",
            {
                "status": {"enum": ["success", "failed", "error", "cancelled", "timeout"]},
                **dict.fromkeys(("latency_ms", "cost_usd", "tokens", "retries"), _NUMBER_OR_NULL),
            },
            {"tool_calls": _CALLS},
        ),
        _event("evaluation_start", {"policy": {"type": "string"}, "profile": _TEXT_OR_NULL}),
        _event(
            "evaluation_complete",
            {
                **{name: _GRADE["properties"][name] for name in _GRADE["required"]},
                "digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
            },
            _GRADE["properties"],
        ),
        _event(
            "error",
            {
                "message": {"type": "string"},
                "code": {"type": "string"},
                "where": {"type": "string"},
                "fix": {"type": "string"},
            },
        ),
    ],
}
"""Each event of a stream is one of these, whole: an unknown key is a fault."""
