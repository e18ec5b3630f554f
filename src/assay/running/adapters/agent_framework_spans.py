"""Agent Framework's OpenTelemetry spans, handed to the run in whose context they began.

The adapter adds one span processor to the program's tracer provider. `assay.tracing` interprets the
spans.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from assay.errors import InputError
from assay.tracing.failures import error_of
from assay.tracing.live_spans import SpanFollower
from assay.tracing.spans import Span

SCOPE = "agent_framework"
"""The name under which the framework writes its spans."""

_following: ContextVar[SpanFollower | None] = ContextVar("assay_agent_framework", default=None)
_open_spans: WeakValueDictionary[tuple[int, int], SpanFollower] = WeakValueDictionary()
"""The run of each open span; a finished run has none."""
_heard_providers: WeakSet[Any] = WeakSet()
_own_providers: WeakSet[Any] = WeakSet()
_lock = threading.Lock()


@contextmanager
def following(follower: SpanFollower) -> Iterator[None]:
    """Give the spans that begin in here to a run."""
    token = _following.set(follower)
    try:
        yield
    finally:
        _following.reset(token)


def listen(*, content: bool, where: str) -> None:
    """Make sure that spans are written, contain content, and reach the adapter."""
    from agent_framework.observability import OBSERVABILITY_SETTINGS as settings  # noqa: N811
    from opentelemetry import trace
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

    class Processor(_Processor, SpanProcessor):
        pass

    if not settings.ENABLED or not settings.use_latest_experimental_gen_ai_semconv:
        raise InputError(
            "RUN-004",
            "Agent Framework's instrumentation is switched off or writes an older form, and the"
            " evidence comes from its spans.",
            where=where,
            fix=(
                "Unset ENABLE_INSTRUMENTATION and OTEL_SEMCONV_STABILITY_OPT_IN, and do not call"
                " disable_instrumentation()."
            ),
        )
    with _lock:
        provider: Any = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):  # nobody has set one
            provider = TracerProvider()
            trace.set_tracer_provider(provider)
            _own_providers.add(provider)
        if not hasattr(provider, "add_span_processor"):
            raise InputError(
                "RUN-004",
                f"the tracer provider of this program is {type(provider).__name__}, which takes no"
                " span processor.",
                where=where,
            )
        if not settings.SENSITIVE_DATA_ENABLED and not content and provider not in _own_providers:
            raise InputError(
                "RUN-004",
                "this program has its own tracer provider, and spans only contain the arguments of"
                " tools if content is written to all of them.",
                where=where,
                fix=(
                    "Allow it with adapter.content: true, or ENABLE_SENSITIVE_DATA=true; its"
                    " exporters then get prompts and arguments too."
                ),
            )
        settings.enable_sensitive_data = True
        if provider not in _heard_providers:
            provider.add_span_processor(Processor())
            _heard_providers.add(provider)


class _Processor:
    """What a span processor does with a span; it keeps nothing."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        follower = _following.get()
        if follower is not None:
            _open_spans[span.context.trace_id, span.context.span_id] = follower
            begun = _read(span)._replace(attributes=_GrowingAttributes(span))
            follower.live.hear(follower.begins, begun, own=_is_own(span))

    def on_end(self, span: Any) -> None:
        # it may end in another context than it began in
        follower = _open_spans.pop((span.context.trace_id, span.context.span_id), None)
        if follower is not None:
            cancelled = sys.exception() is not None and not isinstance(sys.exception(), Exception)
            follower.live.hear(follower.ends, _read(span), own=_is_own(span), cancelled=cancelled)


class _GrowingAttributes(Mapping[str, Any]):
    """The attributes of an open span, with their current values."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def __getitem__(self, key: str) -> Any:
        return (self._span.attributes or {})[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._span.attributes or ())

    def __len__(self) -> int:
        return len(self._span.attributes or ())


def _is_own(span: Any) -> bool:
    return getattr(span.instrumentation_scope, "name", None) == SCOPE


def _read(span: Any) -> Span:
    """A span of the SDK, as tracing knows it."""
    context, status = span.context, span.status
    attributes = span.attributes or {}
    return Span(
        trace_id=format(context.trace_id, "032x"),
        span_id=format(context.span_id, "016x"),
        parent_id=None if span.parent is None else format(span.parent.span_id, "016x"),
        name=span.name,
        start_ns=span.start_time or 0,
        end_ns=span.end_time,
        attributes=attributes,
        events=(),
        error=error_of(
            not (status.is_ok or status.status_code.name == "UNSET"),
            status.description,
            [(event.name, event.attributes or {}) for event in span.events],
            attributes,
        ),
        resource={},
        links=[format(link.context.span_id, "016x") for link in span.links],
    )
