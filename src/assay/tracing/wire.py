"""Reads spans in OTLP JSON and OTLP protobuf, and from the output of the Python SDK's console
exporter.

The bytes are untrusted. A malformed span becomes a `Fault` in its place, and the rest is read; a
malformed document is an error. Nothing else is raised. `dialects` interprets the spans.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from assay.errors import Fault, InputError, UsageError
from assay.installing import install_hint
from assay.tracing.failures import error_of
from assay.tracing.spans import Span

MAX_TEXT = 4 * 1024 * 1024
"""Characters of one text, in an attribute or elsewhere."""
MAX_ATTRIBUTES = 20_000
MAX_EVENTS = 10_000
MAX_DEPTH = 60
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
TRACE_ID = re.compile(r"(?:0x)?([0-9a-fA-F]{32})")
SPAN_ID = re.compile(r"(?:0x)?([0-9a-fA-F]{16})")
_LAST_NS = 2**64
REMOTE_KNOWN, REMOTE = 0x100, 0x200
"""Bits of a span's flags: whether the location of its parent is known, and whether the parent is in
another program.
"""


class Wrong(Exception):
    """What is wrong with one span; it never leaves this package."""


class Refused(Fault):
    """A span that can't be read, and the id of its trace if that can."""

    __slots__ = ("trace_id",)

    def __init__(
        self, wrong: object, trace_id: str | None, *, file: str, line: int | None, path: str
    ) -> None:
        super().__init__(f"{wrong}.", file=file, line=line, path=path)
        self.trace_id = trace_id


def is_otlp(tree: Any) -> bool:
    """Whether a JSON tree is an export of spans."""
    return isinstance(tree, dict) and "resourceSpans" in tree


def is_console(tree: Any) -> bool:
    """Whether a JSON tree is a span as the Python SDK prints it."""
    return (
        isinstance(tree, dict)
        and isinstance(tree.get("context"), dict)
        and "trace_id" in tree["context"]
        and "start_time" in tree
    )


def from_json(tree: Any, *, file: str = "", line: int | None = None) -> Iterator[Span | Fault]:
    """The spans of an `ExportTraceServiceRequest` as JSON. Content of another shape is refused:
    skipping it would lose evidence.
    """
    for part in _items(tree, "resourceSpans", ""):
        if isinstance(part, _JsonPart):
            yield from _resource(part, file, line)
        else:
            yield Refused(part, None, file=file, line=line, path="resourceSpans")


class _JsonPart(NamedTuple):
    """A part of a document, and where it is."""

    value: Any
    path: str


def _items(value: Any, key: str, path: str) -> Iterator[_JsonPart | Wrong]:
    try:
        listed = _list(_object(value, path or "the whole"), key)
    except Wrong as wrong:
        yield wrong
        return
    for index, item in enumerate(listed):
        yield _JsonPart(item, f"{path}.{key}[{index}]".lstrip("."))


def _resource(part: _JsonPart, file: str, line: int | None) -> Iterator[Span | Fault]:
    resource: dict[str, Any] | Wrong
    try:
        resource = _attributes(
            _object(_object(part.value, part.path).get("resource"), "resource").get("attributes")
        )
    except Wrong as wrong:
        resource = wrong
        if not isinstance(part.value, dict):
            yield Refused(wrong, None, file=file, line=line, path=part.path)
            return
    for key in ("scopeSpans", "instrumentationLibrarySpans"):
        for scope in _items(part.value, key, part.path):
            for span in (
                _items(scope.value, "spans", scope.path)
                if isinstance(scope, _JsonPart)
                else [scope]
            ):
                yield (
                    _span(span, resource, file, line)
                    if isinstance(span, _JsonPart)
                    else Refused(span, None, file=file, line=line, path=part.path)
                )


def _span(
    given: _JsonPart, resource: dict[str, Any] | Wrong, file: str, line: int | None
) -> Span | Fault:
    try:
        if isinstance(resource, Wrong):
            raise resource
        return _json_span(_object(given.value, "a span"), resource)
    except Wrong as wrong:
        trace = (
            TRACE_ID.fullmatch(str(given.value.get("traceId")))
            if isinstance(given.value, dict)
            else None
        )
        return Refused(
            wrong,
            None if trace is None else trace[1].lower(),
            file=file,
            line=line,
            path=given.path,
        )


def _list(holder: Mapping[str, Any], key: str) -> list[Any]:
    value = holder.get(key)
    if value is not None and not isinstance(value, list):
        raise Wrong(f"{key} must be a list")
    return value or []


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise Wrong(f"{what} must be an object")
    return value or {}


def _json_span(given: Mapping[str, Any], resource: Mapping[str, Any]) -> Span:
    trace_id = id_of(given.get("traceId"), TRACE_ID, "traceId")
    events = [
        (text_of(one.get("name", ""), "an event's name"), _attributes(one.get("attributes")))
        for one in _limited(given, "events", MAX_EVENTS)
    ]
    attributes = _attributes(given.get("attributes"))
    links = _limited(given, "links", MAX_EVENTS)
    status = _object(given.get("status"), "status")
    flags = _whole(given.get("flags", 0), "flags")
    return Span(
        trace_id=trace_id,
        span_id=id_of(given.get("spanId"), SPAN_ID, "spanId"),
        parent_id=(
            None
            if given.get("parentSpanId") in (None, "")
            else id_of(given["parentSpanId"], SPAN_ID, "parentSpanId")
        ),
        name=text_of(given.get("name", ""), "name"),
        start_ns=_whole(given.get("startTimeUnixNano", 0), "startTimeUnixNano"),
        end_ns=_whole(given.get("endTimeUnixNano", 0), "endTimeUnixNano") or None,
        attributes=attributes,
        events=events,
        error=error_of(_failed(status.get("code", 0)), status.get("message"), events, attributes),
        resource=resource,
        links=same_trace([(link.get("traceId"), link.get("spanId")) for link in links], trace_id),
        remote_parent=bool(flags & REMOTE_KNOWN and flags & REMOTE),
        dropped=sum(_whole(given.get(key, 0), key) for key in _DROPPED),
    )


def _limited(given: Mapping[str, Any], key: str, limit: int) -> list[Mapping[str, Any]]:
    items = _list(given, key)
    if len(items) > limit:
        raise Wrong(f"{key} has {len(items):,}; the limit is {limit:,}")
    return [_object(item, f"one of {key}") for item in items]


_DROPPED = ("droppedAttributesCount", "droppedLinksCount")
_STATUS = {0: False, 1: False, 2: True, "UNSET": False, "OK": False, "ERROR": True}
_STATUS.update(
    {f"STATUS_CODE_{name}": failed for name, failed in _STATUS.items() if isinstance(name, str)}
)


def _failed(code: Any) -> bool:
    """Whether a status code means failure. Raises for an unknown one, which must not pass."""
    failed = (
        _STATUS.get(code) if isinstance(code, int | str) and not isinstance(code, bool) else None
    )
    if failed is None:
        raise Wrong(f"unknown status {str(code)[:60]!r}")
    return failed


def id_of(value: Any, shape: re.Pattern[str], what: str) -> str:
    """The id of a trace or a span in lower case."""
    matched = shape.fullmatch(value) if isinstance(value, str) else None
    if matched is None:
        raise Wrong(
            f"{what} is {str(value)[:60]!r}; it must be"
            f" {'32' if shape is TRACE_ID else '16'} hexadecimal digits"
        )
    if not matched[1].strip("0"):
        raise Wrong(f"{what} is all zeros, which is not an id")
    return matched[1].lower()


def text_of(value: Any, what: str) -> str:
    """The value if it is a text within the limit."""
    if not isinstance(value, str):
        raise Wrong(f"{what} must be a string")
    if len(value) > MAX_TEXT:
        raise Wrong(f"{what} has {len(value):,} characters; the limit is {MAX_TEXT:,}")
    return value


def _whole(value: Any, what: str) -> int:
    """A whole number of 64 bits, which JSON writes as a number or as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LAST_NS:
        raise Wrong(f"{what} is {str(value)[:60]!r}; it must be a 64-bit whole number")
    return value


def _attributes(given: Any) -> dict[str, Any]:
    """A list of keys and values as an object. The first of two equal keys counts; the specification
    forbids the second.
    """
    listed = _list({"attributes": given}, "attributes")
    if len(listed) > MAX_ATTRIBUTES:
        raise Wrong(f"there are {len(listed):,} attributes; the limit is {MAX_ATTRIBUTES:,}")
    attributes: dict[str, Any] = {}
    for item in listed:
        pair = _object(item, "an attribute")
        key = text_of(pair.get("key", ""), "the key of an attribute")
        attributes.setdefault(key, _value(pair.get("value"), key, 0))
    return attributes


def _value(given: Any, key: str, depth: int) -> Any:
    """One `AnyValue`. NaN and infinities stay the text that JSON writes them as."""
    if depth > MAX_DEPTH:
        raise Wrong(f"the attribute {key[:80]!r} nests more than {MAX_DEPTH} deep")
    if not isinstance(given, dict) or not given:
        return None
    kind, value = next(iter(given.items()))
    if kind in ("stringValue", "bytesValue"):
        return text_of(value, f"the attribute {key[:80]!r}")
    if kind == "intValue":
        return (
            int(value)
            if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value)
            else value
        )
    if kind == "arrayValue":
        return [_value(item, key, depth + 1) for item in _list(_object(value, kind), "values")]
    if kind == "kvlistValue":
        pairs = [_object(pair, "a pair") for pair in _list(_object(value, kind), "values")]
        return {
            text_of(one.get("key", ""), "a key"): _value(one.get("value"), key, depth + 1)
            for one in pairs
        }
    return value if isinstance(value, bool | int) or kind == "doubleValue" else None


def same_trace(links: list[tuple[Any, Any]], trace_id: str) -> tuple[str, ...]:
    """The ids of the linked spans in the same trace; links to other traces are left out."""
    return tuple(
        id_of(span, SPAN_ID, "a link's spanId")
        for trace, span in links
        if isinstance(trace, str) and trace.lower().removeprefix("0x") == trace_id
    )


def from_console(given: Mapping[str, Any]) -> Span:
    """One span as `ConsoleSpanExporter` prints it. Raises ValueError with what is wrong."""
    try:
        return _console_span(given)
    except Wrong as wrong:
        raise ValueError(f"{wrong}.") from None


def _console_span(given: Mapping[str, Any]) -> Span:
    context = _object(given.get("context"), "context")
    trace_id = id_of(context.get("trace_id"), TRACE_ID, "context.trace_id")
    attributes = _checked(given.get("attributes"))
    events = [
        (text_of(event.get("name"), "an event's name"), _checked(event.get("attributes")))
        for event in _limited(given, "events", MAX_EVENTS)
    ]
    status = _object(given.get("status"), "status")
    links = [
        _object(link.get("context"), "a link's context")
        for link in _limited(given, "links", MAX_EVENTS)
    ]
    return Span(
        trace_id=trace_id,
        span_id=id_of(context.get("span_id"), SPAN_ID, "context.span_id"),
        parent_id=(
            None
            if given.get("parent_id") is None
            else id_of(given["parent_id"], SPAN_ID, "parent_id")
        ),
        name=text_of(given.get("name", ""), "name"),
        start_ns=_moment(given.get("start_time"), "start_time"),
        end_ns=None if given.get("end_time") is None else _moment(given["end_time"], "end_time"),
        attributes=attributes,
        events=events,
        error=error_of(
            _failed(status.get("status_code", "UNSET")),
            status.get("description"),
            events,
            attributes,
        ),
        resource=_checked(_object(given.get("resource"), "resource").get("attributes")),
        links=same_trace([(link.get("trace_id"), link.get("span_id")) for link in links], trace_id),
    )


def _checked(given: Any) -> dict[str, Any]:
    attributes = dict(_object(given, "attributes"))
    if len(attributes) > MAX_ATTRIBUTES:
        raise Wrong(f"there are {len(attributes):,} attributes; the limit is {MAX_ATTRIBUTES:,}")
    for key, value in attributes.items():
        if isinstance(value, str):
            text_of(value, f"the attribute {key[:80]!r}")
    return attributes


def _moment(value: Any, what: str) -> int:
    try:
        moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
    except (TypeError, ValueError, OverflowError):
        raise Wrong(
            f"{what} is {str(value)[:60]!r}; it must be a time such as 2026-11-15T10:00:00.000000Z"
        ) from None


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
