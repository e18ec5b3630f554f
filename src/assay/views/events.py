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
from assay.records.evidence import Run
from assay.records.grade import ENGINE
from assay.views.event_schema import EVENT_SCHEMA

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
