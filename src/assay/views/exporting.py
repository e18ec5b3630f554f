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
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from http.client import HTTPException
from itertools import chain, islice
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from assay.canon import encode
from assay.files.redirects import staying_opener
from assay.records.grade import Payload
from assay.views.telemetry import Origin, document, events, origin_of

BATCH = 500
"""Events in one request."""
TIMEOUT_S = 10.0
Event = tuple[Mapping[str, Any], Origin]
"""The attributes of an event, and the trace that it hangs on."""


class OtlpTarget(NamedTuple):
    """Where events go."""

    endpoint: str
    headers: Mapping[str, str] = {}
    timeout: float = TIMEOUT_S

    def __repr__(self) -> str:  # headers contain secrets
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
    settings = os.environ if environment is None else environment
    base = endpoint or settings.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    exact = None if endpoint else settings.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
    address = exact or (
        None if not base else base if base.endswith("/v1/logs") else f"{base.rstrip('/')}/v1/logs"
    )
    if not address:
        return None
    headers: dict[str, str] = {}
    for key in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_LOGS_HEADERS"):
        for pair in settings.get(key, "").split(","):
            name, equals, value = pair.partition("=")
            if equals and name.strip():
                headers[name.strip()] = unquote(value.strip())
    milliseconds = (
        settings.get("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT")
        or settings.get("OTEL_EXPORTER_OTLP_TIMEOUT")
        or ""
    )
    timeout = (
        int(milliseconds) / 1000
        if milliseconds.isascii() and milliseconds.isdigit() and 0 < int(milliseconds) < 10**7
        else TIMEOUT_S
    )
    return OtlpTarget(address, headers, timeout)


def send(found: Iterable[Event], target: OtlpTarget) -> Sent:
    """Send events. Never raises: what could not be sent is a warning."""
    left, now_ns, sent = iter(found), time.time_ns(), 0
    try:
        while batch := list(islice(left, BATCH)):
            post(document(batch, now_ns=now_ns), target)
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
        folder = stack.enter_context(TemporaryDirectory())
        return cls(os.path.join(folder, "grades.jsonl"), target)

    def send(self) -> Sent:
        """Send the grades in the file, one on each line."""
        with open(self.path, "rb") as stream:
            grades = map(msgspec.json.decode, stream)
            return send(chain.from_iterable(map(events_of, grades)), self.target)


class _Unsent(Exception):
    """Why a request did not arrive."""


def post(events_document: Mapping[str, Any], target: OtlpTarget) -> None:
    """Send one document, as protobuf where opentelemetry-proto is installed, else as JSON."""
    if not target.endpoint.lower().startswith(("http://", "https://")):
        raise _Unsent("the address is neither http nor https")
    media, data = _packed(events_document)
    try:
        request = urllib.request.Request(  # noqa: S310 - http or https only
            target.endpoint, data=data, headers={**target.headers, "Content-Type": media}
        )
        with staying_opener().open(request, timeout=target.timeout) as answer:
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


def _packed(events_document: Mapping[str, Any]) -> tuple[str, bytes]:
    protocol = os.environ.get(
        "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    )
    if protocol != "http/json":
        try:
            from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
            from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
                ExportLogsServiceRequest,
            )
        except ModuleNotFoundError:
            return "application/json", encode(events_document)
        message: Any = ParseDict(_with_base64_ids(events_document), ExportLogsServiceRequest())
        return "application/x-protobuf", message.SerializeToString()
    return "application/json", encode(events_document)


def _with_base64_ids(tree: Any) -> Any:
    """The document as protobuf reads it: OTLP writes ids in hex, protobuf's JSON in base64."""
    if isinstance(tree, list):
        return [_with_base64_ids(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        key: b64encode(bytes.fromhex(item)).decode()
        if key in ("traceId", "spanId")
        else _with_base64_ids(item)
        for key, item in tree.items()
    }


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
