"""Tool calls: asked for by a model, carried out in a span of their own, and one call all the same.

A call and its span are matched by the call's id, else by the tool's name, each in its order. A call that nobody carried out is a call. Whether a call keeps its
schema is not known unless its span says so.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from assay.importers.spans import Call
    from assay.importers.stepping import Piece
    from assay.importers.trace import Trace


class _Asked(NamedTuple):
    place: tuple[int, str, int]
    step: str | None
    call: Call


def tool_calls(trace: Trace, steps: list[Piece]) -> list[dict[str, Any]] | None:
    """Every call in its order; empty where every model is known to have asked for none, None where nobody can tell."""
    names = {key: step.name for step in steps for key in step.keys}
    models = [key for key, kind in trace.kinds.items() if kind == "model" and not trace.is_nested(key)]
    speakers = models or [key for key, kind in trace.kinds.items() if kind == "agent"]
    asked = [
        _Asked((trace.spans[key].start_ns, key, index), names.get(trace.within(key) or ""), call)
        for key in speakers
        for index, call in enumerate(trace.means[key].calls or ())
    ]
    done = [key for key, kind in trace.kinds.items() if kind == "tool" and not trace.is_nested(key)]
    pairs = _paired(trace, asked, done)
    silent = sum(trace.means[key].asks_for_tools is True and trace.means[key].calls is None for key in speakers)
    if silent > len(done) - len(pairs):
        trace.gaps["tool_calls_not_seen"] += 1
        return None
    made = [(trace.spans[key].start_ns, key, 0, _carried_out(trace, key, asked[pairs[key]] if key in pairs else None, names)) for key in done]
    carried = set(pairs.values())
    made += [(*one.place, _only_asked(one)) for index, one in enumerate(asked) if index not in carried]
    if not made and not (speakers and all(trace.means[key].calls is not None or trace.means[key].asks_for_tools is False for key in speakers)):
        return None
    return [record for *_, record in sorted(made, key=lambda one: one[:3])]


def _paired(trace: Trace, asked: list[_Asked], done: list[str]) -> dict[str, int]:
    """Which span carries out which call, by its place among those asked for: by id first, then by name where one of the two has no id."""
    pairs: dict[str, int] = {}
    taken: set[int] = set()

    def match(keys: Iterable[str], of_span: Callable[[str], str | None], of_call: Callable[[Call], str | None]) -> None:
        waiting: dict[str, deque[int]] = {}
        for index in sorted((index for index in range(len(asked)) if index not in taken), key=lambda index: asked[index].place):
            mark = of_call(asked[index].call)
            if mark is not None:
                waiting.setdefault(mark, deque()).append(index)
        for key in keys:
            mark = of_span(key)
            if mark is not None and waiting.get(mark):
                pairs[key] = waiting[mark].popleft()
        taken.update(pairs.values())

    means = trace.means
    match(done, lambda key: means[key].call_id, lambda call: call.call_id)
    match([key for key in done if key not in pairs and means[key].call_id is None], lambda key: means[key].name, lambda call: call.name)
    match([key for key in done if key not in pairs], lambda key: means[key].name, lambda call: call.name if call.call_id is None else None)
    return pairs


def _carried_out(trace: Trace, key: str, asked: _Asked | None, names: Mapping[str, str]) -> dict[str, Any]:
    meant = trace.means[key]
    arguments = meant.arguments if meant.arguments is not None else None if asked is None else asked.call.arguments
    call_id = meant.call_id or (None if asked is None else asked.call.call_id)
    return _record(names.get(trace.within(key) or ""), meant.name, arguments, call_id, valid=meant.valid, error=meant.error)


def _only_asked(asked: _Asked) -> dict[str, Any]:
    call = asked.call
    return _record(asked.step, call.name, call.arguments, call.call_id, not_run=True)


def _record(
    step: str | None, name: str, arguments: Any, call_id: str | None, *, valid: bool | None = None, error: str | None = None, not_run: bool = False
) -> dict[str, Any]:
    told = {key: value for key, value in (("call_id", call_id), ("executed", False if not_run else None)) if value is not None}
    made = {"step": step, "name": name, "arguments": arguments, "valid": valid, "error": error, "metadata": told or None}
    return {key: value for key, value in made.items() if value is not None}
