"""Tool calls: the model's request and the span of its execution, matched into one call.

A call and its span are matched by the call's id and the tool's name, first within a step, else by
one of the two, in order. The arguments are those that the model wrote: a framework may have added
some. A call is checked against the schema that its model was shown; if no span shows one, the
call's validity is unknown. A call that was never run counts too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from assay.tracing.rules import BROKEN, keeps, made_at, verdict_if_not_run
from assay.tracing.spans import RequestedCall
from assay.tracing.steps import TracedStep
from assay.tracing.trace import Trace


class _Request(NamedTuple):
    """A call that a model requested, and where."""

    speaker: str
    place: tuple[int, str, int]
    """The sort key: calls are matched in the order in which they were requested."""
    within: str | None
    call: RequestedCall
    offered: Mapping[str, Any] | None


class TracedCall(NamedTuple):
    """A tool call of a trace."""

    step: str | None
    name: str
    arguments: Any
    call_id: str | None
    valid: bool | None
    checked: bool
    """Whether the arguments were held to the schema that the model was shown."""
    error: str | None
    not_run: bool = False

    def record(self) -> dict[str, Any]:
        """The call as evidence, without unknown values."""
        metadata = {
            **({} if self.call_id is None else {"call_id": self.call_id}),
            **({"executed": False} if self.not_run else {}),
        }
        fields = {
            "step": self.step,
            "name": self.name,
            "arguments": self.arguments,
            "valid": self.valid,
            "checked": self.checked or None,
            "error": self.error,
            "metadata": metadata or None,
        }
        return {key: value for key, value in fields.items() if value is not None}


def tool_calls(trace: Trace, steps: list[TracedStep]) -> list[TracedCall] | None:
    """Every call in order; empty if every model is known to have requested none, None if that is
    unknown.
    """
    names = {key: step.name for step in steps for key in step.keys}
    speakers = trace.speakers
    requests = [
        _Request(
            key,
            (trace.spans[key].start_ns, key, index),
            trace.within(key),
            call,
            trace.offered_to[key],
        )
        for key in speakers
        for index, call in enumerate(trace.means[key].calls or ())
    ]
    done = [key for key, kind in trace.kinds.items() if kind == "tool" and not trace.is_nested(key)]
    pairs = _paired(trace, requests, done)
    silent = sum(
        trace.means[key].asks_for_tools is True and trace.means[key].calls is None
        for key in speakers
    )
    if silent > len(done) - len(pairs):
        trace.gaps["tool_calls_not_seen"] += 1
        return None
    span_of = {index: key for key, index in pairs.items()}
    places = _places(trace, requests, span_of)
    calls = [
        ((trace.spans[key].start_ns, 0), key, _executed(trace, key, None, names))
        for key in done
        if key not in pairs
    ]
    refused = {
        (trace.within(key), call_id)
        for key, meant in trace.means.items()
        for call_id in meant.refusals
    }
    for index, request in enumerate(requests):
        record = (
            _executed(trace, span_of[index], request, names)
            if index in span_of
            else _not_executed(request, names, refused)
        )
        calls.append((places[index], request.speaker, record))
    # a model is known to have requested none if its answer or its finish reason is recorded, or if
    # it failed before it answered
    meanings = [trace.means[key] for key in speakers]
    if not calls and not (
        meanings
        and all(
            meant.calls is not None or meant.asks_for_tools is False or meant.error is not None
            for meant in meanings
        )
    ):
        return None
    return [
        record
        for *_, record in sorted(
            calls, key=lambda call: (call[0][0], trace.spans[call[1]].start_ns, call[1], call[0][1])
        )
    ]


def _places(
    trace: Trace, requests: list[_Request], span_of: Mapping[int, str]
) -> list[tuple[int, int]]:
    """When each call was made. `requests` lists the calls of one answer together, in order."""
    places: list[tuple[int, int]] = []
    for key, calls in groupby(range(len(requests)), key=lambda index: requests[index].speaker):
        speaker = trace.spans[key]
        began = [
            trace.spans[span_of[index]].start_ns if index in span_of else None for index in calls
        ]
        places += made_at(speaker.start_ns if speaker.end_ns is None else speaker.end_ns, began)
    return places


def _paired(trace: Trace, requests: list[_Request], done: list[str]) -> dict[str, int]:
    """The index of the request that each tool span executes: by id first, then by name if one of
    the two has no id.
    """
    pairs: dict[str, int] = {}
    taken: set[int] = set()

    def match(
        keys: Iterable[str],
        of_span: Callable[[str], Hashable],
        of_call: Callable[[_Request], Hashable],
    ) -> None:
        waiting: dict[Hashable, deque[int]] = {}
        for index in sorted(
            (index for index in range(len(requests)) if index not in taken),
            key=lambda index: requests[index].place,
        ):
            mark = of_call(requests[index])
            if mark is not None:
                waiting.setdefault(mark, deque()).append(index)
        for key in keys:
            mark = of_span(key)
            if key not in pairs and mark is not None and waiting.get(mark):
                pairs[key] = waiting[mark].popleft()
        taken.update(pairs.values())

    means = trace.means
    named = {
        key: (means[key].call_id, means[key].name) if means[key].call_id is not None else None
        for key in done
    }
    match(
        done,
        lambda key: named[key] and (trace.within(key), named[key]),
        lambda request: (request.within, (request.call.call_id, request.call.name)),
    )
    match(done, lambda key: named[key], lambda request: (request.call.call_id, request.call.name))
    match(done, lambda key: means[key].call_id, lambda request: request.call.call_id)
    match(
        [key for key in done if means[key].call_id is None],
        lambda key: means[key].name,
        lambda request: request.call.name,
    )
    match(
        done,
        lambda key: means[key].name,
        lambda request: request.call.name if request.call.call_id is None else None,
    )
    return pairs


def _executed(
    trace: Trace, key: str, request: _Request | None, names: Mapping[str, str]
) -> TracedCall:
    meant = trace.means[key]
    arguments = (
        meant.arguments
        if request is None or request.call.arguments is None
        else request.call.arguments
    )
    offered = trace.offered_to[key] if request is None else request.offered
    call_id = meant.call_id or (None if request is None else request.call.call_id)
    kept = (
        None if offered is None or arguments is None else keeps(offered.get(meant.name), arguments)
    )
    # a call that the framework or the schema found invalid stays invalid
    valid = (
        False
        if meant.refused or False in (kept, meant.valid)
        else kept
        if meant.valid is None
        else meant.valid
    )
    return TracedCall(
        names.get(trace.within(key) or ""),
        meant.name,
        arguments,
        call_id,
        valid,
        kept is not None,
        BROKEN if meant.refused else trace.error(key),
    )


def _not_executed(
    request: _Request, names: Mapping[str, str], refused: set[tuple[str | None, str]]
) -> TracedCall:
    call, step = request.call, names.get(request.within or "")
    was_refused = call.call_id is not None and (request.within, call.call_id) in refused
    valid, error = verdict_if_not_run(call, request.offered)
    checked = request.offered is not None and valid is not None
    if was_refused:
        valid, error = False, BROKEN
    return TracedCall(
        step, call.name, call.arguments, call.call_id, valid, checked, error, not_run=True
    )
