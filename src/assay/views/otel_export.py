"""Grades as OpenTelemetry events, and how they are sent.

Each grade is a `gen_ai.evaluation.result`, and so is each criterion. OpenTelemetry's own exporter
sends them over OTLP/HTTP, if an option or the environment names an address.

An event names the policy, the profile and both system versions, and hangs on the trace that the run
came from. A score that nobody gave is absent from its event, never the 0 that the grade counts it
as.

The exporter reads the rest of its settings (headers, time limit, certificates, compression) from
the environment, as its specification says. Export is best effort: nothing that fails while events
are sent raises or changes a grade or an exit code. Headers contain secrets and never appear in a
message; of an address, only the host does. Redirects are not followed, and nothing is sent twice.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from assay.canon import encode
from assay.errors import UsageError
from assay.files.json_files import member
from assay.installing import import_extra, install_hint
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
    file exporter and receiver. Events on the wire: `send`.
    """

    def piece_of(self, result: Payload, source: ResultSource) -> bytes:
        """The events of one result, on the trace that its run came from."""
        origin = origin_of(result if source.run is None else source.run)
        pairs = [(event, origin) for event in events(result, origin=origin)]
        return encode(document(pairs, now_ns=time.time_ns())) + b"\n"


EXPORTER = Exporter(
    "otel", "OpenTelemetry: evaluation events as lines of OTLP JSON", (".jsonl",), TelemetryFile
)


# --- sending


BATCH = 500
"""Events in one request."""
Event = tuple[Mapping[str, Any], Origin]
"""The attributes of an event, and the trace that it hangs on."""


class OtlpTarget(NamedTuple):
    """Where events go, and how long a request may take if the environment doesn't say it."""

    endpoint: str
    timeout: float | None = None

    def __repr__(self) -> str:  # an address can contain secrets
        return f"OtlpTarget({_shown(self.endpoint)})"


class Sent(NamedTuple):
    """What became of events: how many arrived, and a warning where some did not."""

    events: int
    warning: str | None


def configured(
    endpoint: str | None = None, *, environment: Mapping[str, str] | None = None
) -> OtlpTarget | None:
    """The receiver that an option or the environment names; None if neither does.

    >>> configured(environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318/"}).endpoint
    'http://localhost:4318/v1/logs'
    """
    settings = os.environ if environment is None else environment
    logs = settings.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
    base = settings.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    if endpoint is None and logs:
        return OtlpTarget(logs)
    address = endpoint or base
    if not address:
        return None
    if endpoint:
        _sdk()
    return OtlpTarget(address if address.endswith("/v1/logs") else f"{address.rstrip('/')}/v1/logs")


def send(found: Iterable[Event], target: OtlpTarget) -> Sent:
    """Send events. Never raises: what could not be sent is a warning."""
    left, sent = iter(found), 0
    try:
        with _Client(target) as client:
            while batch := list(islice(left, BATCH)):
                client.post(batch)
                sent += len(batch)
    except _Unsent as error:
        why = f"not sent to {_shown(target.endpoint)}: {error}. Grades are not affected."
        return Sent(sent, f"the evaluation events were {why}")
    return Sent(sent, None)


def events_of(grade: Payload, run: Any = None) -> Iterator[Event]:
    """The events of a grade, on the trace that its run came from."""
    origin = origin_of(grade if run is None else run)
    return ((event, origin) for event in events(grade, origin=origin))


class Outbox(NamedTuple):
    """A file in which grades wait until they are sent, and where to."""

    path: str
    target: OtlpTarget

    @classmethod
    def of(cls, endpoint: str | None, stack: ExitStack) -> Outbox | None:
        """What an option or the environment asks for; None if neither does. The file goes with the
        stack.
        """
        target = configured(endpoint)
        if target is None:
            return None
        from tempfile import TemporaryDirectory  # only where something is sent

        folder = stack.enter_context(TemporaryDirectory())
        return cls(os.path.join(folder, "grades.jsonl"), target)

    def send(self) -> Sent:
        """Send the grades in the file, one on each line."""
        with open(self.path, "rb") as stream:
            grades = map(msgspec.json.decode, stream)
            return send(chain.from_iterable(map(events_of, grades)), self.target)


class _Unsent(Exception):
    """Why a request did not arrive."""


def _sdk() -> Any:
    """The module of OpenTelemetry's exporter, which comes with an extra."""
    return import_extra(
        "opentelemetry.exporter.otlp.proto.http._log_exporter",
        "otel",
        "OpenTelemetry's exporter is not installed, so events can't be sent.",
        where="--otlp-endpoint",
    )


class _Client:
    """OpenTelemetry's exporter with a session of ours, which says why a request failed."""

    def __init__(self, target: OtlpTarget) -> None:
        if not target.endpoint.lower().startswith(("http://", "https://")):
            raise _Unsent("the address is neither http nor https")
        try:
            module = _sdk()
        except UsageError:
            raise _Unsent(
                f"OpenTelemetry's exporter is not installed ({install_hint('otel')})"
            ) from None
        import logging  # with the SDK, which loads it

        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        # What it logs contains addresses, and what we raise says the same.
        logging.getLogger(module.__name__).setLevel(logging.CRITICAL + 1)
        self._failures: list[str] = []
        self._resource = Resource({"service.name": "assay"})
        self._scope = InstrumentationScope("assay")
        try:
            self._exporter = module.OTLPLogExporter(
                target.endpoint, timeout=target.timeout, session=_session(self._failures)
            )
        except Exception as error:  # a setting of the environment that it can't read
            raise _Unsent(f"its settings can't be used: {type(error).__name__}") from None

    def __enter__(self) -> _Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._exporter.shutdown()

    def post(self, batch: Iterable[Event]) -> None:
        """Send events in one request."""
        now_ns = time.time_ns()
        result = self._exporter.export([self._record(*event, now_ns) for event in batch])
        if self._failures or result.name != "SUCCESS":
            raise _Unsent(self._failures[0] if self._failures else "the request can't be made")

    def _record(self, attributes: Mapping[str, Any], origin: Origin, now_ns: int) -> Any:
        from opentelemetry import trace
        from opentelemetry._logs import LogRecord, SeverityNumber
        from opentelemetry.sdk._logs import ReadableLogRecord

        span = trace.SpanContext(
            int(origin.trace_id or "0", 16), int(origin.span_id or "0", 16), is_remote=True
        )
        record = LogRecord(
            timestamp=now_ns,
            observed_timestamp=now_ns,
            context=trace.set_span_in_context(trace.NonRecordingSpan(span)),
            severity_number=SeverityNumber.INFO,
            severity_text="INFO",
            event_name=EVENT,
            attributes={
                name: value if isinstance(value, bool | str | list) else float(value)
                for name, value in attributes.items()
            },
        )
        return ReadableLogRecord(record, self._resource, self._scope)


def _session(failures: list[str]) -> Any:
    """An HTTP session that notes why a request failed, in words without secrets. What it raises the
    exporter doesn't try again, so nobody waits for a receiver that is not there.
    """
    import requests

    class Session(requests.Session):
        def request(self, *arguments: Any, **options: Any) -> requests.Response:
            try:
                answer = super().request(*arguments, **options)
            except Exception as error:
                failures.append(
                    "it took too long"
                    if isinstance(error, requests.Timeout)
                    else "it cannot be reached"
                    if isinstance(error, requests.ConnectionError)
                    else type(error).__name__
                )
                raise _Unsent(failures[-1]) from None
            if answer.status_code >= 300:
                failures.append(f"it answered with status {answer.status_code}")
                raise _Unsent(failures[-1])
            return answer

    return Session()


def _shown(endpoint: str) -> str:
    """An address without what may be secret in it.

    >>> _shown("https://me:hunter2@collector:4318/v1/logs?key=1")
    'https://collector:4318'
    """
    from urllib.parse import urlsplit  # only for a message

    try:
        parts = urlsplit(endpoint)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
    except ValueError:
        return "the configured address"
