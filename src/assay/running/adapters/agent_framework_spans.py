"""Agent Framework's OpenTelemetry spans, heard as they begin and end, and told to a `Trail`.

A span processor is added to the tracer provider of the program once. Each span goes to the run in
whose context it began. The framework ends the span of something that was cancelled as if all were
well: the exception on its way out tells the difference.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary

from assay.errors import InputError
from assay.running.adapters.trail import Answer, Ran, Trail
from assay.tracing.dialects import meaning
from assay.tracing.failures import error_of
from assay.tracing.payloads import offered_of
from assay.tracing.spans import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from assay.tracing.spans import Meaning

SCOPE = "agent_framework"
"""The name under which the framework writes its spans. Another instrumentation may write the same
model call once more: it is not counted twice.
"""

_watching: ContextVar[Watch | None] = ContextVar("assay_agent_framework", default=None)
_spans: WeakValueDictionary[tuple[int, int], Watch] = WeakValueDictionary()
"""The run of each open span; a run that is over keeps nothing."""
_heard: WeakSet[Any] = WeakSet()
_own: WeakSet[Any] = WeakSet()
_lock = threading.Lock()


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Give the spans that begin in here to a run."""
    token = _watching.set(watch)
    try:
        yield
    finally:
        _watching.reset(token)


def listen(*, content: bool, where: str) -> None:
    """See to it that spans are written, hold content, and come to us."""
    from agent_framework.observability import OBSERVABILITY_SETTINGS as settings  # noqa: N811
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

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
            _own.add(provider)
        if not hasattr(provider, "add_span_processor"):
            raise InputError(
                "RUN-004",
                f"the tracer provider of this program is {type(provider).__name__}, which takes no"
                " span processor.",
                where=where,
            )
        if not settings.SENSITIVE_DATA_ENABLED and not content and provider not in _own:
            raise InputError(
                "RUN-004",
                "this program has a tracer provider of its own, and the arguments of tools are in"
                " no span unless content is written to all of them.",
                where=where,
                fix=(
                    "Allow it with adapter.content: true, or ENABLE_SENSITIVE_DATA=true; its"
                    " exporters then get prompts and arguments too."
                ),
            )
        settings.enable_sensitive_data = True
        if provider not in _heard:
            provider.add_span_processor(_Ears())
            _heard.add(provider)


class _Ears:
    """A span processor. Each span goes to the run in whose context it began."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        watch = _watching.get()
        if watch is not None:
            _spans[span.context.trace_id, span.context.span_id] = watch
            watch.hear(watch.starts, span)

    def _on_ending(self, span: Any) -> None:
        """Nothing to add to a span."""

    def on_end(self, span: Any) -> None:
        watch = _spans.pop(
            (span.context.trace_id, span.context.span_id), None
        )  # it may end in another context than it began in
        if watch is not None:
            watch.hear(watch.ends, span)

    def shutdown(self) -> None:
        """Nothing is kept."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is kept."""
        return True


class Watch:
    """The spans of one run, as they begin and end."""

    def __init__(self, trail: Trail) -> None:
        self.trail = trail
        self.heard = False
        self.fault: Exception | None = None
        self._steps: dict[int, str] = {}
        """The step that a span belongs to."""
        self._opened: set[int] = set()
        """The spans that are a step themselves."""
        self._failed: dict[tuple[int, str], str] = {}
        """The step that failed in a place, by the name of its span."""
        self._sent: dict[int, str] = {}
        """The step that sent a message."""
        self._agents: dict[int, Any] = {}
        """The agent that runs above a span."""
        self._answered: set[int] = set()
        """The agents whose model was heard."""
        self._began: dict[int, int] = {}
        """When the span of a tool began."""

    def hear(self, tell: Callable[[Any], None], span: Any) -> None:
        """Tell of a span, and keep what goes wrong with that for the end of the call."""
        try:
            tell(span)
        except Exception as error:  # it must not break the workflow, and it must not be lost
            self.fault = self.fault or error

    def starts(self, span: Any) -> None:
        """A span begins. Most of its attributes are not there yet, so its name tells what it is."""
        own, parent = span.context.span_id, span.parent.span_id if span.parent is not None else 0
        step = self._steps.get(parent)
        if parent in self._agents:
            self._agents[own] = self._agents[parent]
        kind, _, name = span.name.partition(" ")
        if _is_framework(span):
            self.heard = True
            if kind in ("executor.process", "invoke_agent", "chat") and step is None:
                step = self._begin(own, parent, kind, name, span)
            if kind == "invoke_agent" and step is not None:
                self._agents[own] = span
                self.trail.speaks(step, name)
                self.trail.tries(step, (parent, kind, name))
            elif kind == "chat" and step is not None:
                self.trail.speaks(step, None)
                self.trail.tries(step, (parent, kind))
            elif kind == "message.send" and step is not None:
                self._sent[own] = step
            elif kind == "execute_tool":
                self._began[own] = self.trail.moment()
        if step is not None:
            self._steps[own] = step

    def _begin(self, own: int, parent: int, kind: str, name: str, span: Any) -> str:
        key = self._failed.pop((parent, span.name), None) or format(
            own, "016x"
        )  # the same again after a failure is the same step
        sources = [
            self._sent[link.context.span_id]
            for link in span.links
            if link.context.span_id in self._sent
        ]
        self._opened.add(own)
        self.trail.begins(
            key,
            str(span.attributes.get("executor.id", name)),
            sources=sources,
            agent=name if kind == "invoke_agent" else None,
        )
        return key

    def ends(self, span: Any) -> None:
        """A span has ended, with all its attributes."""
        own, parent = span.context.span_id, span.parent.span_id if span.parent is not None else 0
        step = self._steps.get(own)
        kind = span.name.partition(" ")[0]
        if not _is_framework(span):
            self._other_ends(span)
            return
        if own not in self._opened and kind not in ("chat", "invoke_agent", "execute_tool"):
            return
        meant = meaning(_read(span))
        cancelled = sys.exception() is not None and not isinstance(sys.exception(), Exception)
        if step is not None and kind == "chat":
            self._model_ends(own, parent, step, meant, cancelled)
        elif step is not None and kind == "invoke_agent":
            self._agent_ends(span, parent, step, meant, cancelled)
        elif kind == "execute_tool":
            error = "CancelledError" if cancelled else meant.error
            self.trail.runs(
                step,
                Ran(
                    meant.name,
                    meant.arguments,
                    meant.call_id,
                    error,
                    began=self._began.pop(own, None),
                ),
            )
        if own in self._opened and step is not None:
            if cancelled:  # the framework ends such a span as if all were well
                self.trail.fails(step, "CancelledError", cancelled=True)
            elif meant.error is not None:
                self.trail.fails(step, meant.error)
                self._failed[parent, span.name] = step
            else:
                self.trail.ends(step)

    def _other_ends(self, span: Any) -> None:
        """A span that somebody else wrote: a search says there what it found."""
        meant = meaning(_read(span))
        if meant.kind == "retrieval":
            self.trail.finds(meant.documents or ())

    def _model_ends(
        self, own: int, parent: int, step: str, meant: Meaning, cancelled: bool
    ) -> None:
        agent = self._agents.get(own)
        if meant.error is not None:
            self.trail.breaks(step, (parent, "chat"))
        elif not cancelled:
            if agent is not None:
                self._answered.add(agent.context.span_id)
            self.trail.answers(
                step,
                Answer(
                    meant.model,
                    meant.tokens,
                    meant.cost_usd,
                    meant.calls or (),
                    None if agent is None else offered_of(agent.attributes or {}),
                ),
            )

    def _agent_ends(
        self, span: Any, parent: int, step: str, meant: Meaning, cancelled: bool
    ) -> None:
        if meant.error is not None:
            self.trail.breaks(step, (parent, "invoke_agent", meant.name))
        elif (
            not cancelled and span.context.span_id not in self._answered
        ):  # an agent that runs elsewhere: it speaks for its model
            self.trail.answers(step, Answer(meant.model, meant.tokens, meant.cost_usd))
        if self.trail.waits:
            for call_id in meant.refusals:
                self.trail.refuses(step, call_id)


def _is_framework(span: Any) -> bool:
    scope = span.instrumentation_scope
    return scope is not None and scope.name == SCOPE


def _read(span: Any) -> Span:
    """A span of the SDK as the importers know it."""
    context = span.context
    return Span(
        trace_id=format(context.trace_id, "032x"),
        span_id=format(context.span_id, "016x"),
        name=span.name,
        start_ns=span.start_time or 0,
        end_ns=span.end_time,
        parent_id=None if span.parent is None else format(span.parent.span_id, "016x"),
        attributes=span.attributes or {},
        events=(),
        error=_error(span),
        resource={},
    )


def _error(span: Any) -> str | None:
    """What went wrong, in the words every adapter uses for an exception."""
    failed = not (span.status.is_ok or span.status.status_code.name == "UNSET")
    return error_of(
        failed,
        span.status.description,
        [(event.name, event.attributes or {}) for event in span.events],
        span.attributes or {},
    )
