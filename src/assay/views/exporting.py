"""Sends evaluation events over OTLP/HTTP with OpenTelemetry's own exporter, if an option or the
environment names an address.

The exporter reads the rest of its settings (headers, time limit, certificates, compression) from
the environment, as its specification says. Export is best effort: nothing that fails while events
are sent raises or changes a grade or an exit code. Headers contain secrets and never appear in a
message; of an address, only the host does. Redirects are not followed, and nothing is sent twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from assay.errors import UsageError
from assay.installing import import_extra, install_hint
from assay.records.grade import Payload
from assay.views.telemetry import EVENT, Origin, events, origin_of

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
