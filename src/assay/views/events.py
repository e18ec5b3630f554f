"""The events of a run, in order: made from a stored run, or from what a runner posts while it runs.

A stored run is replayed in order: its start, each step, its end, then the evaluation with the whole
grade. The position of an event is its id, so a client that lost the stream sends the last id it saw
and gets the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from assay.canon import encode
from assay.errors import AssayError
from assay.grouping import grouped
from assay.records.evidence import Dataset, Run, Step, ToolCall, Workflow
from assay.records.grade import ENGINE
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


# --- a stream


HEARTBEAT = b": still here\n\n"


def plain(value: Any) -> Any:
    """A record as plain values, every number exact."""
    return msgspec.to_builtins(value, builtin_types=(Decimal,))


def event(
    kind: str, run_id: str, at: str | None, fields: Mapping[str, Any]
) -> Callable[[int], bytes]:
    """The body of an event, for whichever place it gets."""

    def body(position: int) -> bytes:
        head = {"schema": EVENT_SCHEMA, "event": kind, "id": position, "run_id": run_id, "at": at}
        return encode({**ENGINE, **fields, **head})

    return body


def frame(position: int, kind: str, body: bytes) -> bytes:
    """An event as it goes over the wire. JSON has no line end outside its texts, and there it is
    escaped: one `data` line is enough.
    """
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (position, kind.encode(), body)


def start_fields(run: Run) -> dict[str, Any]:
    """The fields of `workflow_start`."""
    return {"workflow": plain(run.workflow), "dataset": plain(run.dataset)}


def step_head(step: Mapping[str, Any], index: int) -> dict[str, Any]:
    """The fields of `step_start`."""
    return {"step": {"name": step["name"], "agent": step.get("agent"), "index": index}}


def step_fields(step: Mapping[str, Any], index: int, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The fields of `step_end`."""
    return {"step": {**step, "index": index}, "tool_calls": calls}


def end_fields(run: Run) -> dict[str, Any]:
    """The fields of `workflow_end`."""
    return {
        "status": run.status,
        "latency_ms": run.latency_ms,
        "cost_usd": run.cost_usd,
        "tokens": run.tokens,
        "retries": run.retries,
    }


def error_fields(error: AssayError) -> dict[str, Any]:
    """The fields of `error`."""
    return {"message": error.message, "code": error.code, "where": error.where, "fix": error.fix}


def begin_fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `evaluation_start`: what the run is graded by."""
    return {
        key: payload.get(key) for key in ("policy", "profile", "scoringSystem", "gradingSystem")
    }


def evaluation_fields(payload: Mapping[str, Any], digest: str) -> dict[str, Any]:
    """The fields of `evaluation_complete`: the whole grade, and the digest it is stored under."""
    return {**plain(payload), "digest": digest}


def replay(run: Run, grade: Mapping[str, Any] | None, digest: str | None) -> Iterator[bytes]:
    """The events of a stored run. A run without a grade ends in `error`: without an event, it would
    seem that a grade is still to come.
    """
    for position, (kind, at, fields) in enumerate(_story(run, grade, digest), 1):
        yield frame(position, kind, event(kind, run.run_id, at, fields)(position))


def _story(
    run: Run, grade: Mapping[str, Any] | None, digest: str | None
) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    yield "workflow_start", run.started_at, start_fields(run)
    calls = grouped((call.step, plain(call)) for call in run.tool_calls or ())
    for index, step in enumerate(run.steps or ()):
        shown = {**plain(step), "name": step.name, "status": step.status}
        yield "step_start", None, step_head(shown, index)
        yield "step_end", None, step_fields(shown, index, calls.pop(step.name, []))
    of_no_step = [call for listed in calls.values() for call in listed]
    more = {"tool_calls": of_no_step} if of_no_step else {}
    yield "workflow_end", run.finished_at, {**end_fields(run), **more}
    if grade is None or digest is None:
        fields = {
            "message": "this run has no grade in the ledger.",
            "code": "REL-003",
            "where": run.run_id,
            "fix": "Post it again, or ask for a regrade job.",
        }
        yield "error", None, fields
        return
    yield "evaluation_start", None, begin_fields(grade)
    yield "evaluation_complete", None, evaluation_fields(grade, digest)
