"""Reads spans in OTLP protobuf, with the limits and error messages of `wire`."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping
from typing import Any

from assay.errors import Fault, InputError, UsageError
from assay.installing import install_hint
from assay.tracing.failures import error_of
from assay.tracing.spans import Span
from assay.tracing.wire import (
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    MAX_EVENTS,
    REMOTE,
    REMOTE_KNOWN,
    SPAN_ID,
    TRACE_ID,
    Refused,
    Wrong,
    id_of,
    same_trace,
    text_of,
)


def from_protobuf(data: bytes, *, file: str = "") -> Iterator[Span | Fault]:
    """The spans of an `ExportTraceServiceRequest` as protobuf."""
    try:
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
    for at, group in enumerate(request.resource_spans):
        place = f"resource_spans[{at}]"
        resource: dict[str, Any] | Wrong
        try:
            resource = _pb_attributes(group.resource.attributes)
        except Wrong as wrong:
            resource = wrong
        for number, scope in enumerate(group.scope_spans):
            for index, span in enumerate(scope.spans):
                try:
                    if isinstance(resource, Wrong):
                        raise resource
                    yield _pb_span(span, resource)
                except Wrong as wrong:
                    trace = span.trace_id.hex() if len(span.trace_id) == 16 else None
                    yield Refused(
                        wrong,
                        trace,
                        file=file,
                        line=None,
                        path=f"{place}.scope_spans[{number}].spans[{index}]",
                    )


def _pb_span(given: Any, resource: Mapping[str, Any]) -> Span:
    if len(given.events) > MAX_EVENTS or len(given.links) > MAX_EVENTS:
        raise Wrong(f"events or links have more than {MAX_EVENTS:,}")
    if given.status.code not in (0, 1, 2):
        raise Wrong(f"unknown status {given.status.code}")
    trace_id = id_of(given.trace_id.hex(), TRACE_ID, "trace_id")
    events = [
        (text_of(one.name, "an event's name"), _pb_attributes(one.attributes))
        for one in given.events
    ]
    attributes = _pb_attributes(given.attributes)
    return Span(
        trace_id=trace_id,
        span_id=id_of(given.span_id.hex(), SPAN_ID, "span_id"),
        parent_id=(
            id_of(given.parent_span_id.hex(), SPAN_ID, "parent_span_id")
            if given.parent_span_id
            else None
        ),
        name=text_of(given.name, "name"),
        start_ns=given.start_time_unix_nano,
        end_ns=given.end_time_unix_nano or None,
        attributes=attributes,
        events=events,
        error=error_of(given.status.code == 2, given.status.message, events, attributes),
        resource=resource,
        links=same_trace(
            [(one.trace_id.hex(), one.span_id.hex()) for one in given.links], trace_id
        ),
        remote_parent=bool(given.flags & REMOTE_KNOWN and given.flags & REMOTE),
        dropped=given.dropped_attributes_count + given.dropped_links_count,
    )


def _pb_attributes(given: Any) -> dict[str, Any]:
    if len(given) > MAX_ATTRIBUTES:
        raise Wrong(f"there are {len(given):,} attributes; the limit is {MAX_ATTRIBUTES:,}")
    attributes: dict[str, Any] = {}
    for pair in given:
        attributes.setdefault(
            text_of(pair.key, "the key of an attribute"), _pb_value(pair.value, pair.key, 0)
        )
    return attributes


def _pb_value(given: Any, key: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise Wrong(f"the attribute {key[:80]!r} nests more than {MAX_DEPTH} deep")
    kind = given.WhichOneof("value")
    if kind is None:
        return None
    value = getattr(given, kind)
    if kind == "array_value":
        return [_pb_value(one, key, depth + 1) for one in value.values]
    if kind == "kvlist_value":
        return {one.key: _pb_value(one.value, key, depth + 1) for one in value.values}
    if kind == "bytes_value":
        return text_of(base64.b64encode(value).decode(), f"the attribute {key[:80]!r}")
    if kind == "double_value" and not math.isfinite(value):
        return str(value)
    return (
        text_of(value, f"the attribute {key[:80]!r}")
        if kind == "string_value"
        else value
        if isinstance(value, bool | int | float)
        else None
    )
