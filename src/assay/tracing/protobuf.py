"""Reads spans in OTLP protobuf, turned into OTLP JSON: `wire` has the limits and the messages."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from assay.errors import Fault, InputError, UsageError
from assay.installing import install_hint
from assay.tracing.spans import Span
from assay.tracing.wire import from_json

_IDS = ("traceId", "spanId", "parentSpanId")


def from_protobuf(data: bytes, *, file: str = "") -> Iterator[Span | Fault]:
    """The spans of an `ExportTraceServiceRequest` as protobuf."""
    try:
        from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )
    except ModuleNotFoundError as error:
        raise UsageError(
            "CLI-001",
            f"{error.name} is not installed.",
            where=file,
            fix=f"{install_hint('otel')}, or send JSON.",
        ) from None
    try:
        request = ExportTraceServiceRequest.FromString(data)
    except (DecodeError, RecursionError) as error:
        raise InputError(
            "FIL-002",
            f"can't be read as OTLP protobuf: {str(error)[:120] or 'decoding failed'}.",
            where=file,
            fix="The file may be cut off.",
        ) from None
    tree = MessageToDict(request)
    for group in tree.get("resourceSpans", ()):
        for scope in group.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                _write_hex(span)
    yield from from_json(tree, file=file)


def _write_hex(span: dict[str, Any]) -> None:
    """Write the ids of a span in hex, as OTLP does; protobuf's own JSON has them in base64."""
    for one in (span, *span.get("links", ())):
        one.update({key: b64decode(one[key]).hex() for key in _IDS if key in one})
