"""Grades as OpenTelemetry events: `gen_ai.evaluation.result`, one for the whole grade and one for
each criterion.

An event names the policy, the profile and both system versions, and hangs on the trace that the run
came from. A score that nobody gave is absent from its event, never the 0 that the grade counts it
as. How events are sent: `exporting`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from assay.canon import encode
from assay.files.json_files import member
from assay.records.grade import Payload
from assay.views.exporters import Exporter, Format, ResultSource

EVENT = "gen_ai.evaluation.result"
ATTRIBUTES = {
    "gen_ai.evaluation.name": "`assay` for the whole grade, else the name of the criterion",
    "gen_ai.evaluation.score.value": (
        "the weighted score from 0 to 100, or the criterion's norm from 0 to 1; absent where nobody"
        " gave a score"
    ),
    "gen_ai.evaluation.score.label": (
        "the letter of the grade; of a criterion `pass` or `floor_failed`"
    ),
    "gen_ai.evaluation.explanation": "why, in sentences; at most 4,000 characters",
    "gen_ai.response.id": "the model's answer that is evaluated, where it is known",
    "error.type": "`missing_score`, or the error code of a run that could not be graded",
    "assay.run_id": "the run",
    "assay.policy": "the policy, as name@version",
    "assay.profile": "the profile, as name@version",
    "assay.scoring_system": "the version of the scoring system",
    "assay.grading_system": "the version of the grading system",
    "assay.passed": "whether the run passed; only on the event of the whole grade",
    "assay.failures": "failed gates and floors; only on the event of the whole grade",
}
"""Every attribute that an event can have, and its meaning."""
MAX_EXPLANATION = 4000
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_SPAN_ID = re.compile(r"[0-9a-f]{16}")


class Origin(NamedTuple):
    """The trace that a run came from, and the answer that is evaluated."""

    trace_id: str | None = None
    span_id: str | None = None
    response_id: str | None = None


def origin_of(run: Any) -> Origin:
    """Where a run came from, by its `metadata.otel`, or by its id where that is a trace's."""
    metadata, run_id = (
        run.get(name) if isinstance(run, dict) else getattr(run, name, None)
        for name in ("metadata", "run_id")
    )
    trace, span, response = (
        member(metadata, "otel", name) for name in ("trace_id", "span_id", "response_id")
    )
    return Origin(
        _matching(_TRACE_ID, trace) or _matching(_TRACE_ID, run_id),
        _matching(_SPAN_ID, span),
        response if isinstance(response, str) else None,
    )


def _matching(shape: re.Pattern[str], value: Any) -> str | None:
    return value if isinstance(value, str) and shape.fullmatch(value) and value.strip("0") else None


def events(grade: Payload, *, origin: Origin | None = None) -> Iterator[dict[str, Any]]:
    """The events of one grade as attributes: first the whole, then each criterion in its order."""
    source = origin if origin is not None else origin_of(grade)
    shared = {
        "gen_ai.response.id": source.response_id,
        "assay.run_id": grade["run_id"],
        "assay.policy": grade["policy"],
        "assay.profile": grade.get("profile"),
        "assay.scoring_system": grade["scoringSystem"],
        "assay.grading_system": grade["gradingSystem"],
    }
    failed = [*grade["hard_gate_failures"], *grade["floor_failures"]]
    yield _known(
        {
            "gen_ai.evaluation.name": "assay",
            "gen_ai.evaluation.score.value": grade["weighted_score"],
            "gen_ai.evaluation.score.label": grade["grade"],
            "gen_ai.evaluation.explanation": " ".join(
                grade.get("explanation") or [grade["reason"]]
            )[:MAX_EXPLANATION],
            **shared,
            "assay.passed": grade["passed"],
            "assay.failures": failed or None,
        }
    )
    for criterion in grade["criteria"]:
        missing = criterion["raw_score"] is None
        label = None if missing else "floor_failed" if criterion["floor_failed"] else "pass"
        yield _known(
            {
                "gen_ai.evaluation.name": criterion["name"],
                "gen_ai.evaluation.score.value": None if missing else criterion["norm"],
                "gen_ai.evaluation.score.label": label,
                "gen_ai.evaluation.explanation": _why(criterion),
                **shared,
                "error.type": "missing_score" if missing else None,
            }
        )


def refusal(
    run_id: str, code: str, message: str, *, origin: Origin | None = None
) -> dict[str, Any]:
    """The event of a run that could not be graded."""
    return _known(
        {
            "gen_ai.evaluation.name": "assay",
            "error.type": code,
            "gen_ai.evaluation.explanation": message[:MAX_EXPLANATION],
            "gen_ai.response.id": None if origin is None else origin.response_id,
            "assay.run_id": run_id,
        }
    )


def _why(criterion: Mapping[str, Any]) -> str:
    weight = f"weight {criterion['weight']}"
    if criterion["raw_score"] is None:
        return f"no score, which counts as 0: {criterion.get('missing') or 'none was given'}; {weight}"[  # noqa: E501
            :MAX_EXPLANATION
        ]
    floor = criterion.get("critical_floor")
    limit = (
        f"; floor {floor['norm']}{' missed' if criterion['floor_failed'] else ''}"
        if isinstance(floor, dict) and floor.get("norm") is not None
        else ""
    )
    raw = encode(criterion["raw_score"]).decode()[:200]
    return f"raw {raw} by {criterion['formula_id']}{limit}; {weight}"


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if value is not None}


def document(pairs: Iterable[tuple[Mapping[str, Any], Origin]], *, now_ns: int) -> dict[str, Any]:
    """Events as an `ExportLogsServiceRequest` in its JSON form."""
    records = []
    for attributes, origin in pairs:
        record: dict[str, Any] = {
            "timeUnixNano": str(now_ns),
            "observedTimeUnixNano": str(now_ns),
            "severityNumber": 9,
            "severityText": "INFO",
            "eventName": EVENT,
            "attributes": [
                {"key": key, "value": _value(value)} for key, value in attributes.items()
            ],
        }
        if origin.trace_id is not None:
            record["traceId"] = origin.trace_id
            if origin.span_id is not None:
                record["spanId"] = origin.span_id
        records.append(record)
    about = [{"key": "service.name", "value": {"stringValue": "assay"}}]
    return {
        "resourceLogs": [
            {
                "resource": {"attributes": about},
                "scopeLogs": [{"scope": {"name": "assay"}, "logRecords": records}],
            }
        ]
    }


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"doubleValue": float(value)}


class TelemetryFile(Format):
    """The events in a file: one OTLP log request in JSON on each line, the form of the Collector's
    file exporter and receiver. Events on the wire: `exporting`.
    """

    def piece_of(self, result: Payload, source: ResultSource) -> bytes:
        """The events of one result, on the trace that its run came from."""
        origin = origin_of(result if source.run is None else source.run)
        pairs = [(event, origin) for event in events(result, origin=origin)]
        return encode(document(pairs, now_ns=time.time_ns())) + b"\n"


EXPORTER = Exporter(
    "otel", "OpenTelemetry: evaluation events as lines of OTLP JSON", (".jsonl",), TelemetryFile
)
