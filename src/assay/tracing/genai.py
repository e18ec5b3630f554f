"""Evidence from spans: one trace as one run, with the keys of `assay.run/1`.

Importers of every trace format use `evidence`, so that the same spans always give the same run. An
absent key means unknown; a missing number never becomes 0. A run with known gaps in its spans is
not a success and has no sums: its status is `error`, and `metadata.otel.gaps` counts the gaps. The
scoring rules are in `scoring`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import to_builtins

from assay.canon import time_text
from assay.errors import InputError
from assay.tracing.content import inputs_of, outputs_of
from assay.tracing.dialects import meaning
from assay.tracing.handoffs import handoffs
from assay.tracing.rules import listed_tools, passages
from assay.tracing.spans import Span
from assay.tracing.steps import TracedStep, milliseconds, traced_steps, used
from assay.tracing.tools import tool_calls
from assay.tracing.trace import Trace

MAX_SPANS = 100_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES = frozenset({"assay.run_id", "assay.sample_id"})
_ORDER = ("success", "failed", "cancelled", "timeout", "error")


def evidence(spans: Sequence[Span], *, refused: int = 0) -> dict[str, Any]:
    """The parts of a run that its spans contain: status, steps, tool_calls, handoffs, retrieval,
    sums, times, inputs and outputs, metadata.

    All spans count as one trace, in any order. The result has only what is known. `refused` counts
    spans of the trace that could not be read; a single one makes the run incomplete.

    >>> from assay.tracing.spans import Span
    >>> model = {
    ...     "gen_ai.operation.name": "chat",
    ...     "gen_ai.response.model": "m-1",
    ...     "gen_ai.usage.input_tokens": 11,
    ...     "gen_ai.usage.output_tokens": 4,
    ... }
    >>> agent = {
    ...     "gen_ai.operation.name": "invoke_agent",
    ...     "gen_ai.agent.name": "calc",
    ...     "gen_ai.usage.input_tokens": 11,
    ...     "gen_ai.usage.output_tokens": 4,
    ... }
    >>> run = evidence(
    ...     [
    ...         Span("t", "b", "a", "chat", 10**6, 2 * 10**6, model, (), None, {}),
    ...         Span("t", "a", None, "calc", 0, 3 * 10**6, agent, (), None, {}),
    ...     ]
    ... )
    >>> run["status"], run["tokens"], run["latency_ms"], run["steps"]
    ('success', 15, 3, [{'name': 'calc', 'status': 'success', 'agent': 'calc', 'duration_ms': 3, 'retries': 0, 'model': 'm-1', 'tokens': 15}])
    """  # noqa: E501
    if not spans:
        raise InputError("FIL-005", "there are no spans.")
    if len(spans) > MAX_SPANS:
        raise InputError(
            "FIL-004", f"one trace has {len(spans):,} spans; the limit is {MAX_SPANS:,}."
        )
    trace = Trace(spans)
    if refused:
        trace.gaps["refused_spans"] = refused
    steps = traced_steps(trace)
    calls, passed = tool_calls(trace, steps), handoffs(trace, steps)
    whole = not trace.gaps
    run = {
        "status": _status(trace),
        "steps": [step.record() for step in steps] or None,
        "tool_calls": None if calls is None else [call.record() for call in calls],
        "handoffs": (
            None if passed is None else [{"from": source, "to": to} for source, to in passed]
        ),
        "retrieval": _retrieval(trace),
        "tokens": _sum(trace, steps, "tokens") if whole else None,
        "cost_usd": _sum(trace, steps, "cost_usd") if whole else None,
        "retries": sum(step.retries for step in steps) if whole and steps else None,
        **_times(trace),
        **_content(trace),
        "tools": listed_tools(trace.offered_to.values()) or None,
        "metadata": {"otel": _otel(trace)},
    }
    return {key: value for key, value in run.items() if value is not None}


def is_run(spans: Sequence[Span]) -> bool:
    """Whether a trace is a run: it has a step, an agent, a model, a tool or a retrieval, or a span
    that names the run or its sample, as that of a run that failed before its first step.
    """
    return any(
        not _NAMES.isdisjoint(span.attributes)
        or meaning(span).kind in ("agent", "step", "model", "tool", "retrieval")
        for span in spans
    )


def _status(trace: Trace) -> str:
    statuses = [trace.means[key].status for key in trace.roots]
    return "error" if trace.gaps or not statuses else max(statuses, key=_ORDER.index)


def _sum(trace: Trace, steps: list[TracedStep], name: str) -> Any:
    """The sum over the steps; None if a model did not report its part. A larger count that the
    workflow reports is used instead.
    """
    outermost = [
        key
        for key, kind in trace.kinds.items()
        if kind == "workflow" and trace.graph_of[key] is None and trace.within(key) is None
    ]
    declared = [
        value
        for value in (getattr(trace.means[key], name) for key in outermost)
        if value is not None
    ]
    return used((step.used[name] for step in steps), max(declared, default=None)).amount


def _times(trace: Trace) -> dict[str, Any]:
    """From the start of the first root to the end of the last; no duration if a clock ran
    backwards.
    """
    roots = [trace.spans[key] for key in trace.roots]
    trace.dropped["clock_skew"] += sum(
        span.end_ns is not None and span.end_ns < span.start_ns for span in trace.spans.values()
    )
    trace.dropped["unfinished_spans"] += sum(span.end_ns is None for span in trace.spans.values())
    if not roots:
        return {}
    started, ends = min(span.start_ns for span in roots), [span.end_ns for span in roots]
    ended = None if None in ends else max(end for end in ends if end is not None)
    backwards = any(
        end is not None and end < span.start_ns for span, end in zip(roots, ends, strict=True)
    )
    return {
        "latency_ms": (
            None if ended is None or backwards or trace.gaps else milliseconds(ended - started)
        ),
        "started_at": moment(started),
        "finished_at": None if ended is None else moment(ended),
    }


def moment(nanoseconds: int) -> str | None:
    """A time in ISO format, to the microsecond; None if it is out of range."""
    try:
        return time_text(_EPOCH + timedelta(microseconds=nanoseconds // 1000), "microseconds")
    except OverflowError:
        return None


def _content(trace: Trace) -> dict[str, Any]:
    """The inputs and outputs of the outermost span that has them: a root, a workflow below it, or
    the only step or agent.
    """
    outer = [
        key
        for key in trace.order
        if trace.kinds[key] in ("workflow", "agent", "step") and trace.step_of[key] is None
    ]
    places = [
        *trace.roots,
        *(key for key in outer if trace.kinds[key] == "workflow"),
        *(outer if len(outer) == 1 else ()),
    ]
    content: dict[str, Any] = {}
    for key in places:
        content["inputs"] = content.get("inputs") or inputs_of(trace.spans[key])
        content["outputs"] = content.get("outputs") or outputs_of(trace.spans[key])
    return content


def _retrieval(trace: Trace) -> list[dict[str, Any]] | None:
    """The retrieved passages, each once; ranked if one search found them all."""
    searches = [meant.documents for meant in trace.means.values() if meant.kind == "retrieval"]
    listed = [documents for documents in searches if documents is not None]
    trace.dropped["retrievals_without_documents"] += len(searches) - len(listed)
    if not searches or len(listed) < len(searches):
        return None
    retrieved = passages(listed)
    trace.dropped["passages_found_twice"] += retrieved.repeated
    trace.dropped["passages_without_id_and_text"] += retrieved.nameless
    return list(to_builtins(retrieved.found))


def _otel(trace: Trace) -> dict[str, Any]:
    """Where the run comes from, what was left out, and what is known to be missing."""
    trace.dropped["spans_without_meaning"] += sum(kind == "other" for kind in trace.kinds.values())
    trace.dropped["repeated_spans"] += sum(trace.is_nested(key) for key in trace.spans)
    unreadable = sorted({key for meant in trace.means.values() for key in meant.unreadable})
    answers = [
        trace.spans[key].attributes.get("gen_ai.response.id")
        for key, kind in trace.kinds.items()
        if kind == "model"
    ]
    last = next(
        (answer for answer in reversed(answers) if isinstance(answer, str) and answer), None
    )
    first = trace.spans[trace.roots[0]] if trace.roots else next(iter(trace.spans.values()))
    otel = {
        "trace_id": first.trace_id,
        "span_id": first.span_id if trace.roots else None,
        "spans": len(trace.spans),
        "response_id": last,
        "dropped": dict(sorted((+trace.dropped).items())) or None,
        "gaps": dict(sorted(trace.gaps.items())) or None,
        "unreadable": unreadable or None,
    }
    return {key: value for key, value in otel.items() if value is not None}
