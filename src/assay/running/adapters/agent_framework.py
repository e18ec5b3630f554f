"""An agent or a workflow of Microsoft Agent Framework: `target` is one of them, or a function that
builds one.

The evidence comes from the framework's own OpenTelemetry spans: a span processor gives each span to
the run in whose context it began, so that concurrent runs don't mix. A tracer provider that the
program has set stays in place and keeps its exporters; if there is none, one without exporters is
set. Spans contain tool arguments only if the framework records content; a program with its own
exporters must allow that with `content: true`.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from assay.canon import canonical
from assay.errors import InputError
from assay.running.adapters import Adapter, WorkflowTask, read_spec
from assay.running.adapters.targets import Target, TargetSpec, framework, outputs_of, plain
from assay.tracing.failures import CallFailed, describe, error_of
from assay.tracing.live import LiveRun, SpanFollower
from assay.tracing.recorder import Recorder
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


class AgentFrameworkSpec(TargetSpec, frozen=True, kw_only=True):
    """The keys of an agent_framework adapter."""

    input: str | None = None
    """The input that is the message."""
    content: bool = False


def make(given: Mapping[str, Any], folder: Path, where: str) -> AgentFrameworkAdapter:
    """An agent or a workflow of Microsoft Agent Framework."""
    spec = read_spec(given, AgentFrameworkSpec, where)
    framework("agent_framework", "agent-framework", where)
    framework("opentelemetry.sdk.trace", "agent-framework", where)
    return AgentFrameworkAdapter(
        Target.load(
            spec.target, folder, where, what="an agent or a workflow", is_ready=is_runnable
        ),
        spec,
    )


def is_runnable(target: Any) -> bool:
    """Whether this is an agent or a workflow."""
    return not isinstance(target, type) and callable(getattr(target, "run", None))


class AgentFrameworkAdapter(Adapter):
    """An agent or a workflow, called with a message made of the inputs of a task."""

    def __init__(self, target: Target, spec: AgentFrameworkSpec) -> None:
        self._target = target
        self._spec = spec

    async def call(self, task: WorkflowTask, record: Recorder) -> Mapping[str, Any]:
        """The agent's answer, or the outputs of the workflow."""
        from agent_framework import FunctionalWorkflow, Workflow

        runnable = await self._target.get()
        is_workflow = isinstance(runnable, Workflow | FunctionalWorkflow)
        if is_workflow and not self._target.is_built:
            runnable = self._fresh(runnable)
        listen(content=self._spec.content, where=self._target.where)
        live = LiveRun(record, agents=self._spec.agents)
        follower = SpanFollower(live)
        record.watched("handoffs")
        message = self._message(task.inputs, is_workflow)
        with live.following(), following(follower):
            result = await runnable.run(message)
        if not follower.heard:
            raise CallFailed(
                "no span of the run was recorded, so there is no evidence: a sampler or"
                " OTEL_SDK_DISABLED leaves them out.",
                again=False,
            )
        return outputs_of(plain(_result(result), _known), self._spec.output)

    def _fresh(self, workflow: Any) -> Any:
        """A copy: a workflow keeps its state and its conversations, and the next sample must not
        see them.
        """
        try:
            return copy.deepcopy(workflow)
        except Exception as error:
            raise InputError(
                "RUN-004",
                f"{self._target.name!r} is a workflow, which remembers samples, and cannot be"
                f" copied: {describe(error)}.",
                where=self._target.where,
                fix="Name a function that builds it; it is called for every sample.",
            ) from None

    def _message(self, inputs: Mapping[str, Any], is_workflow: bool) -> Any:
        """One input is the message itself. Several are given together: to a workflow by name, to an
        agent as JSON.
        """
        name = self._spec.input
        if name is not None and name not in inputs:
            raise CallFailed(f"the sample has no input {name!r} for the message.", again=False)
        chosen = inputs if name is None else {name: inputs[name]}
        message = next(iter(chosen.values())) if len(chosen) == 1 else dict(chosen)
        return message if is_workflow or isinstance(message, str) else canonical(message).decode()


def _result(result: Any) -> Any:
    """The answer of an agent, or the outputs of a workflow: the only one, or a list of several."""
    if hasattr(result, "get_outputs"):
        from agent_framework import WorkflowRunState

        if result.get_final_state() == WorkflowRunState.IDLE_WITH_PENDING_REQUESTS:
            raise CallFailed(
                "the workflow waits for a person (request_info), who can't answer here.",
                again=False,
            )
        outputs = result.get_outputs()
        return outputs[0] if len(outputs) == 1 else outputs
    if getattr(result, "user_input_requests", None):
        raise CallFailed(
            "the agent waits for a person's approval, which nobody can give here.", again=False
        )
    return result


def _known(value: Any) -> Any:
    """An answer or a message as its text; a structured answer as its value."""
    from agent_framework import AgentExecutorResponse, AgentResponse, Message

    if isinstance(value, AgentExecutorResponse):
        value = value.agent_response
    if isinstance(value, AgentResponse):
        return value.text if value.value is None else value.value
    return value.text if isinstance(value, Message) else value
