"""Tool calls: the model's request and the span of its execution, matched into one call.

A call and its span are matched by the call's id and the tool's name, else by one of them, each in
its order, those of one step first. The arguments are those that the model wrote: a framework may
have filled some in. A call is held to the schema that its model was shown; where no span shows one,
the call's validity is unknown. A call that was never run counts too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from assay.tracing.rules import BROKEN, CallVerdict, keeps, made_at, not_carried_out
from assay.tracing.spans import Meaning, RequestedCall
from assay.tracing.steps import TracedStep
from assay.tracing.trace import Trace


class _Asked(NamedTuple):
    speaker: str
    place: tuple[int, str, int]
    """Calls are matched in the order in which they were requested."""
    within: str | None
    call: RequestedCall
    offered: Mapping[str, Any] | None


def tool_calls(trace: Trace, steps: list[TracedStep]) -> list[dict[str, Any]] | None:
    """Every call in its order; empty if every model is known to have asked for none, None if nobody
    can tell.
    """
    names = {key: step.name for step in steps for key in step.keys}
    speakers = trace.speakers
    asked = [
        _Asked(
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
    pairs = _paired(trace, asked, done)
    silent = sum(
        trace.means[key].asks_for_tools is True and trace.means[key].calls is None
        for key in speakers
    )
    if silent > len(done) - len(pairs):
        trace.gaps["tool_calls_not_seen"] += 1
        return None
    carried = {index: key for key, index in pairs.items()}
    places = _places(trace, asked, carried)
    made = [
        ((trace.spans[key].start_ns, 0), key, _carried_out(trace, key, None, names))
        for key in done
        if key not in pairs
    ]
    refused = {
        (trace.within(key), call_id)
        for key, meant in trace.means.items()
        for call_id in meant.refusals
    }
    for index, one in enumerate(asked):
        record = (
            _carried_out(trace, carried[index], one, names)
            if index in carried
            else _only_asked(one, names, refused)
        )
        made.append((places[index], one.speaker, record))
    if not made and not (speakers and all(_asked_for_none(trace.means[key]) for key in speakers)):
        return None
    return [
        record
        for *_, record in sorted(
            made, key=lambda one: (one[0][0], trace.spans[one[1]].start_ns, one[1], one[0][1])
        )
    ]


def _places(trace: Trace, asked: list[_Asked], carried: Mapping[int, str]) -> list[tuple[int, int]]:
    """When each call was made. `asked` lists the calls of one answer together, in their order."""
    found: list[tuple[int, int]] = []
    for key, calls in groupby(range(len(asked)), key=lambda index: asked[index].speaker):
        speaker = trace.spans[key]
        began = [
            trace.spans[carried[index]].start_ns if index in carried else None for index in calls
        ]
        found += made_at(speaker.start_ns if speaker.end_ns is None else speaker.end_ns, began)
    return found


def _asked_for_none(meant: Meaning) -> bool:
    """Whether a model that asked for no call is known to: its answer is there, it says how it
    ended, or it failed before it answered.
    """
    return meant.calls is not None or meant.asks_for_tools is False or meant.error is not None


def _paired(trace: Trace, asked: list[_Asked], done: list[str]) -> dict[str, int]:
    """Which span carries out which call, by its place among those asked for: by id first, then by
    name where one of the two has no id.
    """
    pairs: dict[str, int] = {}
    taken: set[int] = set()

    def match(
        keys: Iterable[str],
        of_span: Callable[[str], Hashable],
        of_call: Callable[[_Asked], Hashable],
    ) -> None:
        waiting: dict[Hashable, deque[int]] = {}
        for index in sorted(
            (index for index in range(len(asked)) if index not in taken),
            key=lambda index: asked[index].place,
        ):
            mark = of_call(asked[index])
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
        lambda one: (one.within, (one.call.call_id, one.call.name)),
    )
    match(done, lambda key: named[key], lambda one: (one.call.call_id, one.call.name))
    match(done, lambda key: means[key].call_id, lambda one: one.call.call_id)
    match(
        [key for key in done if means[key].call_id is None],
        lambda key: means[key].name,
        lambda one: one.call.name,
    )
    match(
        done,
        lambda key: means[key].name,
        lambda one: one.call.name if one.call.call_id is None else None,
    )
    return pairs


def _carried_out(
    trace: Trace, key: str, asked: _Asked | None, names: Mapping[str, str]
) -> dict[str, Any]:
    meant = trace.means[key]
    arguments = (
        meant.arguments if asked is None or asked.call.arguments is None else asked.call.arguments
    )
    offered = trace.offered_to[key] if asked is None else asked.offered
    call_id = meant.call_id or (None if asked is None else asked.call.call_id)
    kept = (
        None
        if offered is None or arguments is None
        else keeps(offered.get(meant.name), arguments, otherwise=None)
    )
    # what its caller found invalid stays so, and so does what breaks its schema
    valid = (
        False
        if meant.refused or False in (kept, meant.valid)
        else kept
        if meant.valid is None
        else meant.valid
    )
    return _record(
        names.get(trace.within(key) or ""),
        meant.name,
        arguments,
        call_id,
        CallVerdict(valid, BROKEN if meant.refused else meant.error),
    )


def _only_asked(
    asked: _Asked, names: Mapping[str, str], refused: set[tuple[str | None, str]]
) -> dict[str, Any]:
    call = asked.call
    judged = (
        CallVerdict(False, BROKEN)
        if call.call_id is not None and (asked.within, call.call_id) in refused
        else not_carried_out(call, asked.offered)
    )
    return _record(
        names.get(asked.within or ""), call.name, call.arguments, call.call_id, judged, not_run=True
    )


def _record(
    step: str | None,
    name: str,
    arguments: Any,
    call_id: str | None,
    judged: CallVerdict,
    *,
    not_run: bool = False,
) -> dict[str, Any]:
    metadata = {
        key: value
        for key, value in (("call_id", call_id), ("executed", False if not_run else None))
        if value is not None
    }
    made = {
        "step": step,
        "name": name,
        "arguments": arguments,
        "valid": judged.valid,
        "error": judged.error,
        "metadata": metadata or None,
    }
    return {key: value for key, value in made.items() if value is not None}
