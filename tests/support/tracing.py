"""Spans to start a test from, in our form and in each form they come in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.importers.otlp import read_spans
from assay.tracing.spans import Span

T = "4bf92f3577b34da6a3ce929d0e0e4736"
MS = 10**6
REAL = ("langgraph_openinference", "langgraph_traceloop", "maf_default", "maf_sensitive")


def span(
    key: int,
    parent: int | None = None,
    name: str = "x",
    begin: int = 0,
    end: int | None = 10,
    error: str | None = None,
    **more: Any,
) -> Span:
    """A span with the id `key`, in milliseconds; `more` are attributes, with two underscores for a
    dot.
    """
    links, remote, resource = (
        more.pop("links", ()),
        more.pop("remote", False),
        more.pop("resource", {}),
    )
    attributes = {
        **{label.replace("__", "."): value for label, value in more.pop("attributes", {}).items()},
        **more,
    }
    attributes = {label.replace("__", "."): value for label, value in attributes.items()}
    ids = [f"{link:016x}" for link in links]
    up = None if parent is None else f"{parent:016x}"
    return Span(
        T,
        f"{key:016x}",
        up,
        name,
        begin * MS,
        None if end is None else end * MS,
        attributes,
        [],
        error,
        resource,
        ids,
        remote,
    )


def agent(key: int, parent: int | None = None, who: str = "calc", **more: Any) -> Span:
    return span(
        key,
        parent,
        f"invoke_agent {who}",
        gen_ai__operation__name="invoke_agent",
        gen_ai__agent__name=who,
        **more,
    )


def chat(
    key: int,
    parent: int | None = None,
    tokens: tuple[int, int] | None = (11, 4),
    model: str = "m-1",
    **more: Any,
) -> Span:
    usage = (
        {}
        if tokens is None
        else {"gen_ai__usage__input_tokens": tokens[0], "gen_ai__usage__output_tokens": tokens[1]}
    )
    return span(
        key,
        parent,
        f"chat {model}",
        gen_ai__operation__name="chat",
        gen_ai__response__model=model,
        **usage,
        **more,
    )


def tool(key: int, parent: int | None = None, what: str = "add", **more: Any) -> Span:
    return span(
        key,
        parent,
        f"execute_tool {what}",
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name=what,
        **more,
    )


def executor(key: int, parent: int | None = None, what: str = "plan", **more: Any) -> Span:
    return span(key, parent, f"executor.process {what}", executor__id=what, **more)


def node(
    key: int,
    parent: int | None = None,
    what: str = "plan",
    step: int = 1,
    triggers: list[str] | None = None,
    run: str = "1",
    **more: Any,
) -> Span:
    """A LangGraph node as OpenInference tells of it."""
    metadata = {
        "langgraph_node": what,
        "langgraph_step": step,
        "langgraph_triggers": triggers or [f"branch:to:{what}"],
        "langgraph_checkpoint_ns": f"{what}:{run}",
    }
    return span(
        key,
        parent,
        what,
        attributes={"openinference__span__kind": "CHAIN", "metadata": metadata},
        **more,
    )


def real(shared: Path, name: str) -> list[Span]:
    """The spans of one of the real files."""
    return list(read_spans(str(shared / "data" / "peer_results" / "otel" / f"{name}.jsonl")))


def by_trace(spans: list[Span]) -> list[list[Span]]:
    found: dict[str, list[Span]] = {}
    for one in spans:
        found.setdefault(one.trace_id, []).append(one)
    return list(found.values())


# --- the forms they come in


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _attributes(value)}}
    return {} if value is None else {"doubleValue": float(value)}


def _attributes(held: Any) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in held.items()]


def otlp(spans: list[Span]) -> dict[str, Any]:
    """The spans as OTLP's JSON."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(one.resource)},
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": one.trace_id,
                                "spanId": one.span_id,
                                "parentSpanId": one.parent_id or "",
                                "name": one.name,
                                "startTimeUnixNano": str(one.start_ns),
                                "endTimeUnixNano": str(one.end_ns or 0),
                                "attributes": _attributes(one.attributes),
                                "events": [
                                    {"name": name, "attributes": _attributes(more)}
                                    for name, more in one.events
                                ],
                                "links": [
                                    {"traceId": one.trace_id, "spanId": link} for link in one.links
                                ],
                                "status": (
                                    {} if one.error is None else {"code": 2, "message": one.error}
                                ),
                                "flags": 0x300 if one.remote_parent else 0x100,
                                "droppedAttributesCount": one.dropped,
                            }
                        ]
                    }
                ],
            }
            for one in spans
        ]
    }


def protobuf(spans: list[Span]) -> bytes:
    """The spans as OTLP's protobuf, by opentelemetry-proto."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    for one in spans:
        held = request.resource_spans.add()
        _fill(held.resource.attributes, one.resource)
        made = held.scope_spans.add().spans.add(
            trace_id=bytes.fromhex(one.trace_id),
            span_id=bytes.fromhex(one.span_id),
            parent_span_id=bytes.fromhex(one.parent_id or ""),
            name=one.name,
            start_time_unix_nano=one.start_ns,
            end_time_unix_nano=one.end_ns or 0,
            flags=0x300 if one.remote_parent else 0x100,
            dropped_attributes_count=one.dropped,
        )
        _fill(made.attributes, one.attributes)
        for name, more in one.events:
            _fill(made.events.add(name=name).attributes, more)
        for link in one.links:
            made.links.add(trace_id=bytes.fromhex(one.trace_id), span_id=bytes.fromhex(link))
        if one.error is not None:
            made.status.code, made.status.message = 2, one.error
    return request.SerializeToString()


def _fill(target: Any, held: Any) -> None:
    for key, value in held.items():
        _set(target.add(key=key).value, value)


def _set(target: Any, value: Any) -> None:
    if isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int):
        target.int_value = value
    elif isinstance(value, str):
        target.string_value = value
    elif isinstance(value, list | tuple):
        target.array_value.SetInParent()
        for one in value:
            _set(target.array_value.values.add(), one)
    elif isinstance(value, dict):
        target.kvlist_value.SetInParent()
        _fill(target.kvlist_value.values, value)
    elif value is not None:
        target.double_value = float(value)
