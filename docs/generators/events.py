"""Events: the stream of a run (`assay.event/1`), and grades as OpenTelemetry events."""

from __future__ import annotations

import json
from typing import Any

from assay.views import otel_export as telemetry
from assay.views.events import EVENT_SCHEMA, MEANINGS, SCHEMA, replay
from generators.examples import graded_example
from generators.markdown import block, code, json_block, page, shortened, table

_HEAD = ("schema", "event", "id", "run_id", "at", "scoringSystem", "gradingSystem")


def pages() -> dict[str, str]:
    """The page of events."""
    run, grade, digest = graded_example()
    frames = [part.decode() for part in replay(run, grade, digest)]
    sent = {_data(part)["event"]: _data(part) for part in reversed(frames)}
    forms = {one["properties"]["event"]["const"]: one for one in SCHEMA["oneOf"]}
    parts = [
        "Assay reports what happens in a run as events, and grades as OpenTelemetry log records.",
        "## The events of a run",
        (
            f"Events have the schema `{EVENT_SCHEMA}` (`assay schema-of event`)."
            " `GET /api/v1/runs/{id}/events` streams them as server-sent events; `assay run --events"
            " FILE` writes them to a file, one JSON object per line. A stream ends after"
            " `evaluation_complete` or `error`, never before. The `id` counts from 1 within a run; a"
            " client that lost the stream sends the last one as `Last-Event-ID` and gets the rest."
        ),
        "On the wire, an event is three lines:",
        block(shortened(frames[1], text=400)),
        "Every event has these keys:",
        table(
            ("key", "meaning"),
            [
                ("`schema`", f"`{EVENT_SCHEMA}`"),
                ("`event`", "the kind of event, one of those below"),
                ("`id`", "its place in the run, from 1"),
                ("`run_id`", "the run"),
                ("`at`", "when it happened, in UTC; null where the evidence does not state it"),
                ("`scoringSystem`, `gradingSystem`", "the versions of both systems"),
            ],
        ),
    ]
    for kind, meaning in MEANINGS.items():
        own = [name for name in forms[kind]["properties"] if name not in _HEAD]
        shown = {key: value for key, value in sent.get(kind, _error()).items() if key not in _HEAD}
        parts += [
            f"### {kind}",
            f"{meaning} Its keys: {', '.join(map(code, own))}."
            if kind != "evaluation_complete"
            else f"{meaning} Its keys are those of a [grade](documents/grades.md), and `digest`.",
            json_block(shortened(shown, items=1, text=80)) if kind != "evaluation_complete" else "",
        ]
    attributes = next(iter(telemetry.events(grade)))
    parts += [
        "## OpenTelemetry",
        (
            f"With `--otlp-endpoint` each grade is sent as log records named `{telemetry.EVENT}`: one"
            " for the whole grade, one for each criterion. [OpenTelemetry](../how-to/opentelemetry.md)"
            " describes how to receive them, and how spans become evidence."
        ),
        table(
            ("attribute", "meaning"),
            [(code(name), meaning) for name, meaning in telemetry.ATTRIBUTES.items()],
        ),
        "The attributes of one grade:",
        json_block(shortened(attributes)),
    ]
    return {"events.md": page("Events", *parts)}


def _data(frame: str) -> dict[str, Any]:
    text = next(line for line in frame.splitlines() if line.startswith("data: "))
    found: dict[str, Any] = json.loads(text.removeprefix("data: "))
    return found


def _error() -> dict[str, Any]:
    """What a stream of a run without a grade ends in."""
    run, _, _ = graded_example()
    return _data([part.decode() for part in replay(run, None, None)][-1])
