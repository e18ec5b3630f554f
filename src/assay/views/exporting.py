"""Sends evaluation events over OTLP/HTTP, if an option or the environment names an exporter.

Export is best effort: nothing here raises, and a failed export changes no grade and no exit code.
Headers contain secrets and never appear in a message; of an address, only the host does. Redirects
are not followed: they would send the headers to another host.
"""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from http.client import HTTPException
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from assay.files.redirects import staying_opener
from assay.records.grade import Payload
from assay.views.telemetry import Origin, document, events, origin_of, refusal

BATCH = 500
"""Events in one request."""
TIMEOUT_S = 10.0
_encode = msgspec.json.Encoder(decimal_format="number").encode


class OtlpTarget(NamedTuple):
    """Where events go."""

    endpoint: str
    headers: Mapping[str, str] = {}
    timeout: float = TIMEOUT_S

    def __repr__(self) -> str:  # headers hold secrets
        return f"OtlpTarget({_shown(self.endpoint)})"


class Sent(NamedTuple):
    """What became of events: how many arrived, and a warning where some did not."""

    events: int
    warning: str | None


def configured(
    endpoint: str | None = None, *, environment: Mapping[str, str] | None = None
) -> OtlpTarget | None:
    """The exporter that an option or the environment names; None if neither does.

    >>> configured(environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318/"}).endpoint
    'http://localhost:4318/v1/logs'
    """
    told = os.environ if environment is None else environment
    base = endpoint or told.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    exact = None if endpoint else told.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
    address = exact or (
        None if not base else base if base.endswith("/v1/logs") else f"{base.rstrip('/')}/v1/logs"
    )
    if not address:
        return None
    headers: dict[str, str] = {}
    for key in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_LOGS_HEADERS"):
        for pair in told.get(key, "").split(","):
            name, equals, value = pair.partition("=")
            if equals and name.strip():
                headers[name.strip()] = unquote(value.strip())
    milliseconds = (
        told.get("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT") or told.get("OTEL_EXPORTER_OTLP_TIMEOUT") or ""
    )
    timeout = (
        int(milliseconds) / 1000
        if milliseconds.isascii() and milliseconds.isdigit() and 0 < int(milliseconds) < 10**7
        else TIMEOUT_S
    )
    return OtlpTarget(address, headers, timeout)


def send(
    grades: Iterable[Payload],
    *,
    endpoint: str,
    headers: Mapping[str, str],
    timeout: float,
    now_ns: int | None = None,
    origins: Mapping[str, Origin] | None = None,
) -> Sent:
    """Send the events of grades. Never raises: what could not be sent is a warning. `origins` says
    by run id where runs came from.
    """
    now_ns = time.time_ns() if now_ns is None else now_ns
    sent = 0
    batch: list[tuple[Mapping[str, Any], Origin]] = []
    try:
        for grade in grades:
            origin = (origins or {}).get(grade["run_id"]) or origin_of(grade)
            batch += [(event, origin) for event in events(grade, origin=origin)]
            while len(batch) >= BATCH:
                post(
                    document(batch[:BATCH], now_ns=now_ns),
                    endpoint=endpoint,
                    headers=headers,
                    timeout=timeout,
                )
                sent, batch = sent + BATCH, batch[BATCH:]
        if batch:
            post(
                document(batch, now_ns=now_ns), endpoint=endpoint, headers=headers, timeout=timeout
            )
            sent += len(batch)
    except _Unsent as error:
        return Sent(
            sent,
            f"the evaluation events were not sent to {_shown(endpoint)}: {error}. Grades are not"
            " affected.",
        )
    return Sent(sent, None)


def send_refusal(run_id: str, code: str, message: str, *, exporter: OtlpTarget) -> str | None:
    """Send the event of a run that could not be graded; a warning where it did not arrive."""
    origin = origin_of({"run_id": run_id})
    made = document(
        [(refusal(run_id, code, message, origin=origin), origin)], now_ns=time.time_ns()
    )
    try:
        post(made, endpoint=exporter.endpoint, headers=exporter.headers, timeout=exporter.timeout)
    except _Unsent as error:
        return f"the evaluation event was not sent to {_shown(exporter.endpoint)}: {error}."
    return None


class Outbox(NamedTuple):
    """A file in which grades wait until they are sent, and where to."""

    path: str
    exporter: OtlpTarget

    @classmethod
    def of(cls, endpoint: str | None, stack: ExitStack) -> Outbox | None:
        """What an option or the environment asks for; None if neither does. The file goes with the
        stack.
        """
        found = configured(endpoint)
        return (
            None
            if found is None
            else cls(os.path.join(stack.enter_context(TemporaryDirectory()), "grades.jsonl"), found)
        )

    def send(self) -> Sent:
        """Send the grades in the file, one on each line."""
        with open(self.path, "rb") as stream:
            return send(
                map(msgspec.json.decode, stream),
                endpoint=self.exporter.endpoint,
                headers=self.exporter.headers,
                timeout=self.exporter.timeout,
            )


class _Unsent(Exception):
    """Why a request did not arrive."""


def post(
    made: Mapping[str, Any], *, endpoint: str, headers: Mapping[str, str], timeout: float
) -> None:
    """Send one document, as protobuf where opentelemetry-proto is installed, else as JSON."""
    if not endpoint.lower().startswith(("http://", "https://")):
        raise _Unsent("the address is neither http nor https")
    media, data = _packed(made)
    try:
        request = urllib.request.Request(  # noqa: S310
            endpoint, data=data, headers={**headers, "Content-Type": media}
        )  # the scheme was looked at
        with staying_opener().open(request, timeout=timeout) as answer:
            answer.read(64 * 1024)
    except urllib.error.HTTPError as error:
        error.close()
        raise _Unsent(f"it answered with status {error.code}") from None
    except urllib.error.URLError as error:
        reason = error.reason
        raise _Unsent(
            reason.strerror or type(reason).__name__
            if isinstance(reason, OSError)
            else "it cannot be reached"
        ) from None
    except (OSError, ValueError, HTTPException) as error:
        raise _Unsent(type(error).__name__) from None


def _packed(made: Mapping[str, Any]) -> tuple[str, bytes]:
    if (
        os.environ.get(
            "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
        )
        != "http/json"
    ):
        try:
            from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
                ExportLogsServiceRequest,
            )
        except ModuleNotFoundError:
            return "application/json", _encode(made)
        return (
            "application/x-protobuf",
            _message(ExportLogsServiceRequest(), made).SerializeToString(),
        )
    return "application/json", _encode(made)


def _message(request: Any, made: Mapping[str, Any]) -> Any:
    """The same document as protobuf."""
    for held in made["resourceLogs"]:
        resource = request.resource_logs.add()
        _fill(resource.resource.attributes, held["resource"]["attributes"])
        for told in held["scopeLogs"]:
            scope = resource.scope_logs.add()
            scope.scope.name = told["scope"]["name"]
            for one in told["logRecords"]:
                record = scope.log_records.add(
                    time_unix_nano=int(one["timeUnixNano"]),
                    observed_time_unix_nano=int(one["observedTimeUnixNano"]),
                    severity_number=one["severityNumber"],
                    severity_text=one["severityText"],
                    event_name=one["eventName"],
                    trace_id=bytes.fromhex(one.get("traceId", "")),
                    span_id=bytes.fromhex(one.get("spanId", "")),
                )
                _fill(record.attributes, one["attributes"])
    return request


def _fill(target: Any, attributes: Iterable[Mapping[str, Any]]) -> None:
    for one in attributes:
        _set(target.add(key=one["key"]).value, one["value"])


def _set(target: Any, value: Mapping[str, Any]) -> None:
    kind, held = next(iter(value.items()))
    if kind == "arrayValue":
        for one in held["values"]:
            _set(target.array_value.values.add(), one)
    else:
        setattr(
            target,
            {
                "stringValue": "string_value",
                "boolValue": "bool_value",
                "doubleValue": "double_value",
            }[kind],
            held,
        )


def _shown(endpoint: str) -> str:
    """An address without what may be secret in it.

    >>> _shown("https://me:hunter2@collector:4318/v1/logs?key=1")
    'https://collector:4318'
    """
    try:
        parts = urlsplit(endpoint)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
    except ValueError:
        return "the configured address"
