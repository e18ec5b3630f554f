"""A run recorded while a framework executes it: its spans become evidence as those of a file do.

An adapter reports each unit of work when it begins and when it ends, with its meaning. The code
that reads an imported trace (W-083) decides whether it is a step, an agent, a retry, a handoff or a
valid call; only the live events, when a step begins and ends, are decided here. Two things are only
known live: a workflow file may list its agents, and an interrupted run leaves its open steps to the
runner.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from assay.tracing.dialects import meaning
from assay.tracing.handoffs import handoffs
from assay.tracing.recorder import OpenStep, Recorder
from assay.tracing.rules import listed_tools, passages
from assay.tracing.spans import Kind, Meaning, Span
from assay.tracing.steps import TracedStep, traced_steps
from assay.tracing.tools import TracedCall, tool_calls
from assay.tracing.trace import Trace

_STEPS = ("step", "agent", "model")
"""The kinds of span that are a step unless they run inside one."""


class LiveRun:
    """One run of a workflow. Adapters report through `hear`, on any thread.

    >>> from assay.tracing.recorder import Recorder
    >>> from assay.tracing.spans import Meaning, Span
    >>> record = Recorder(clock=None)
    >>> live = LiveRun(record, agents=None)
    >>> span = Span("", "1", None, "calc", 0, None, {}, (), None, {})
    >>> with live.following():
    ...     live.begins(span, Meaning("agent", "calc"))
    ...     live.ends("1", error="lost")
    ...     live.begins(span._replace(span_id="2"), Meaning("agent", "calc"))
    ...     live.ends("2", model="m-1", total_tokens=12)
    >>> record.evidence()["steps"]
    [{'name': 'calc', 'status': 'success', 'agent': 'calc', 'retries': 1, 'model': 'm-1', 'tokens': 12}]
    """  # noqa: E501

    def __init__(self, record: Recorder, *, agents: Iterable[str] | None) -> None:
        self.fault: Exception | None = None
        self._record = record
        self._agents = agents
        self._lock = threading.RLock()
        self._closed = False
        self._moments = count()
        self._spans: dict[str, Span] = {}
        self._means: dict[str, Meaning] = {}
        self._step_of: dict[str, str] = {}
        """The step that a span belongs to, by the span it began with."""
        self._parts: dict[str, list[str]] = {}
        """The spans of each step."""
        self._steps: dict[str, OpenStep] = {}
        self._failed: dict[tuple[Any, ...], str] = {}
        """The step that failed in each place, where it may begin again."""
        self._endings: dict[str, tuple[str, str]] = {}
        """The status and the error of each of these."""
        self._asking: list[str] = []
        """The models that asked for tools."""
        record.watched("tool_calls")

    def hear(self, report: Callable[..., None], *what: Any, **more: Any) -> None:
        """Make a report. Its errors are raised at the end of the run: they must not break the
        workflow, and a run with missing evidence must not look complete.
        """
        with self._lock:
            try:
                if not self._closed:
                    report(*what, **more)
            except Exception as error:
                self.fault = self.fault or error

    @contextmanager
    def following(self) -> Iterator[None]:
        """Record the run for the length of a block."""
        interrupted = True
        try:
            yield
            interrupted = False
        except Exception:
            interrupted = False
            raise
        finally:
            self.hear(self._close, interrupted=interrupted)
        if self.fault is not None:
            raise self.fault

    def begins(self, span: Span, meant: Meaning) -> None:
        """A unit of work begins. `links` of the span are the spans that led to it."""
        key, step = span.span_id, self._step_of.get(span.parent_id or "")
        self._spans[key] = span._replace(start_ns=next(self._moments), end_ns=None)
        self._means[key] = meant
        if step is None and meant.kind in _STEPS:
            step = self._begin_step(key)
        if step is not None:
            self._step_of[key] = step
            self._parts.setdefault(step, []).append(key)

    def _begin_step(self, key: str) -> str:
        """Begin a step. The same unit after a failure is a retry of the same step."""
        meant, again = self._means[key], self._failed.pop(self._place(key), None)
        if again is not None:
            del self._endings[again]
            return again
        agent = meant.name if meant.kind == "agent" else None
        if self._agents is not None:
            agent = meant.name if meant.name in self._agents else None
        self._steps[key] = self._record.begin(meant.name, agent=agent)
        return key

    def _place(self, key: str) -> tuple[Any, ...]:
        meant = self._means[key]
        return self._spans[key].parent_id, meant.name, meant.execution

    def ends(self, key: str, *, cancelled: bool = False, **known: Any) -> None:
        """A unit of work has ended; `known` updates its meaning. A failed step stays open, because
        it may begin again.
        """
        if key not in self._spans:
            return
        self._spans[key] = self._spans[key]._replace(end_ns=next(self._moments))
        meant = self._means[key] = self._means[key]._replace(**known)
        if meant.kind == "model" and meant.calls:
            self._asking.append(key)
        step = self._step_of.get(key)
        if step is None or self._step_of.get(self._spans[key].parent_id or "") is not None:
            return
        if meant.error is None:
            self._end_step(step)
        else:
            self._failed[self._place(key)] = step
            self._endings[step] = ("cancelled" if cancelled else "error", meant.error)

    def _end_step(self, key: str) -> None:
        """End a step. Listeners get what is known of it so far; the evidence comes at the end."""
        step = self._steps[key]
        calls = None
        if self._record.has_listener:
            seen = dict.fromkeys([*self._parts[key], *self._asking])
            trace = Trace([self._spans[part] for part in seen], self._means)
            traced = traced_steps(trace)
            self._fill(step, next(traced_step for traced_step in traced if traced_step.key == key))
            calls = [
                self._checked(call)
                for call in tool_calls(trace, traced) or ()
                if call.step == step.name and not call.not_run
            ]
        step.end(tool_calls=calls)

    def _fill(self, step: OpenStep, traced: TracedStep) -> None:
        if self._agents is None:
            step.agent = traced.agent
        step.model = traced.models[-1] if traced.models else None
        step.retries = traced.retries
        step.tokens, step.cost_usd = (traced.used[name].amount for name in ("tokens", "cost_usd"))

    def _close(self, *, interrupted: bool) -> None:
        """Turn the spans of the finished run into evidence. A tool that is still running counts as
        cancelled; a step that failed and was not retried ends as failed.
        """
        for key, span in self._spans.items():
            if span.end_ns is None and self._means[key].kind == "tool":
                self._means[key] = self._means[key]._replace(error="CancelledError")
        trace = Trace(self._spans.values(), self._means)
        traced = traced_steps(trace)
        for step in traced:
            self._fill(self._steps[step.key], step)
        for call in tool_calls(trace, traced) or ():
            self._record.keep_call(self._checked(call))
        self._record.tools = listed_tools(trace.offered_to.values())
        for handoff in handoffs(trace, traced) or ():
            self._record.handoff(*handoff)
        searches = [meant for meant in trace.means.values() if meant.kind == "retrieval"]
        for passage in passages(meant.documents or () for meant in searches).found:
            self._record.retrieved(passage.id, passage.text, rank=passage.rank)
        for key, (status, error) in self._endings.items():
            if not (interrupted and status == "cancelled"):
                self._steps[key].end(status, error=error)
        self._closed = True

    def _checked(self, call: TracedCall) -> dict[str, Any]:
        """A call as evidence. One that ran without recorded arguments had none."""
        had_none = call.arguments is None and call.valid is not False
        return self._record.checked_call(
            call.name,
            {} if had_none else call.arguments,
            step=call.step,
            valid=call.valid,
            checked=call.checked,
            error=call.error,
        )


_KINDS: dict[str, Kind] = {
    "workflow.run": "workflow",
    "executor.process": "step",
    "invoke_agent": "agent",
    "chat": "model",
    "execute_tool": "tool",
}


class SpanFollower:
    """The spans of one run. Another instrumentation may report the same model call again, so only
    the framework's spans count (`own`), and searches that others report.
    """

    def __init__(self, live: LiveRun) -> None:
        self.live = live
        self.heard = False

    def begins(self, span: Span, *, own: bool) -> None:
        """A span begins."""
        word, _, name = span.name.partition(" ")
        self.heard = self.heard or own
        kind = _KINDS.get(word, "other") if own else "other"
        self.live.begins(span, Meaning(kind, str(span.attributes.get("executor.id", name))))

    def ends(self, span: Span, *, own: bool, cancelled: bool) -> None:
        """A span has ended, with all its attributes."""
        meant = meaning(span)
        if not own and meant.kind != "retrieval":
            meant = Meaning("other", span.name)
        if meant.kind == "tool" and not meant.refused:
            meant = meant._replace(valid=True)  # the framework accepted the arguments
        if cancelled:
            meant = meant._replace(error="CancelledError")
        self.live.ends(span.span_id, cancelled=cancelled, **meant._asdict())
