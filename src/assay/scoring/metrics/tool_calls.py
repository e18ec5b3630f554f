"""Compare the tool calls in a file with the expected calls, for `assay measure tool-calls`.

An unreadable call of a model is a wrong call, not a fault of the file. A malformed expectation is a
fault: it is reported with its line, and nothing is scored. The measures of a run are in `tool_use`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from assay.errors import FaultList, InputError, UsageError
from assay.files.json_files import parse_json
from assay.registry import near_miss
from assay.scoring.checks import is_among
from assay.scoring.metrics import bfcl
from assay.scoring.metrics.calls import (
    BFCL,
    RULES,
    Expected,
    Matching,
    MatchingRules,
    WrittenCall,
    match,
)

KEPT_FAULTS = 100


def read_call(item: Any) -> WrittenCall:
    """A call as a model wrote it; the arguments may be JSON text. The arguments of an unreadable
    call are None, which matches nothing.

    >>> (
    ...     read_call({"name": "add", "arguments": '{"a": 1}'}),
    ...     read_call({"name": "add", "arguments": "{a"}),
    ... )
    (WrittenCall(name='add', arguments={'a': 1}), WrittenCall(name='add', arguments=None))
    """
    if type(item) is not dict:
        return WrittenCall("", None)
    name, arguments = item.get("name"), item.get("arguments", {})
    if type(arguments) is str:
        try:
            arguments = parse_json(arguments.encode("utf-8", "surrogatepass"))
        except ValueError:
            arguments = None
    return WrittenCall(
        name if type(name) is str else "", arguments if type(arguments) is dict else None
    )


def _tools(listed: Any, add: Callable[..., None]) -> list[dict[str, Any]]:
    """The tools of a line, without the wrapper that some APIs use (`{"type": "function",
    "function": {...}}`).
    """
    if listed is None:
        return []
    if type(listed) is not list:
        add("tools", "is not a list of functions.", 'Give [{"name", "description", "parameters"}].')
        return []
    tools = []
    for index, tool in enumerate(listed):
        inner = tool.get("function", tool) if type(tool) is dict else None
        if type(inner) is not dict or type(inner.get("name")) is not str or not inner["name"]:
            add(
                f"tools[{index}]",
                "is not a function with a name.",
                'Give {"name", "description", "parameters"}.',
            )
        else:
            tools.append(inner)
    return tools


def _named(item: Any, at: str, values: str, add: Callable[..., None]) -> str:
    name = item.get("name") if type(item) is dict else None
    if type(name) is str and name:
        return name
    fix = f'Give {{"name", "arguments": {{argument: [{values}]}}}}.'
    add(at, "is not an expected call with a name.", fix)
    return ""


def _plain_expected(item: Any, at: str, add: Callable[..., None]) -> Expected | None:
    name = _named(item, at, "acceptable values", add)
    if not name:
        return None
    accepted = item.get("arguments", {})
    if type(accepted) is not dict:
        add(
            f"{at}.arguments",
            "is not an object of acceptable values.",
            "Give {argument: [acceptable values]}.",
        )
        return None
    for argument, values in accepted.items():
        if type(values) is not list or not values:
            add(
                f"{at}.arguments.{argument}",
                "is not a list of acceptable values.",
                "One value is a list of one.",
            )
            return None
    return Expected(name, accepted, len(accepted))


def _bfcl_expected(
    item: Any, tools: Sequence[Mapping[str, Any]], at: str, add: Callable[..., None]
) -> Expected | None:
    name = _named(item, at, "possible answers", add)
    if not name:
        return None
    tool, accepted = bfcl.tool_named(name, tools), item.get("arguments", {})
    # The leaderboard's data contains such mistakes and counts them as calls that nobody made.
    if (
        tool is None
        or type(accepted) is not dict
        or any(type(values) is not list for values in accepted.values())
    ):
        return Expected(name, None, 1)
    declared, named = bfcl.parameters(tool)
    required = sum(
        "" not in values and argument not in named for argument, values in accepted.items()
    ) + len(named)
    return Expected(tool["name"], accepted, required, declared, named)


class _Item(NamedTuple):
    """One parsed line. `calls` is None if the answer could not be read."""

    id: str
    tools: list[dict[str, Any]]
    calls: list[WrittenCall] | None
    expected: list[Expected]


def _item(line: Any, rules: MatchingRules, add: Callable[..., None]) -> _Item | None:
    if type(line) is not dict or type(line.get("id")) is not str or not line["id"]:
        add("", "is not an object with an id.", 'Give {"id", "tools", "calls", "expected"}.')
        return None
    listed, wished, tools = line.get("calls", _MISSING), line.get("expected"), []
    if listed is not None and type(listed) is not list:
        add(
            "calls",
            "is missing." if listed is _MISSING else "is not a list.",
            "Give [] for no call, and null for an answer that could not be read.",
        )
    if type(wished) is not list:
        add("expected", "is not a list of expected calls.", "Give [] where no call is right.")
        return None
    if rules is BFCL:
        tools = _tools(line.get("tools"), add)
        if wished and not line.get("tools"):
            add(
                "tools",
                "contains no function.",
                "The leaderboard's rules read the types of arguments there.",
            )
        read = [
            _bfcl_expected(wish, tools, f"expected[{index}]", add)
            for index, wish in enumerate(wished)
        ]
    else:
        read = [
            _plain_expected(wish, f"expected[{index}]", add) for index, wish in enumerate(wished)
        ]
    calls = [read_call(call) for call in listed] if type(listed) is list else None
    if calls is not None and tools:
        calls = [WrittenCall(bfcl.called_name(call.name, tools), call.arguments) for call in calls]
    return _Item(line["id"], tools, calls, [wish for wish in read if wish is not None])


def _verdict(item: _Item, rules: MatchingRules) -> dict[str, Any]:
    if item.calls is None:
        nothing = 0.0 if item.expected else None
        return {
            "correct": False,
            "error": bfcl.UNREADABLE if rules is BFCL else "unreadable_calls",
            "selection": nothing,
            "argument_f1": nothing,
        }
    matching = match(item.calls, item.expected, rules=rules)
    error = None
    if not matching.is_correct:
        error = (
            _bfcl_error(matching, item)
            if rules is BFCL
            else _plain_error(matching, item.calls, item.expected)
        )
    selection, f1 = matching.selection, matching.argument_f1
    return {
        "correct": error is None,
        "error": error,
        "selection": selection.num / selection.den,
        "argument_f1": f1.num / f1.den,
    }


def measure_tool_calls(lines: Iterable[Any], rules: str = "plain") -> dict[str, Any]:
    """Right and wrong calls of a file of `{"id", "tools", "calls", "expected"}`. `calls` is null if
    the answer could not be read.

    All faults of the file are raised at once. An id that appears twice is a fault, because the
    second line could hide a failure. Without lines, `accuracy` is null.

    >>> line = {
    ...     "id": "a",
    ...     "tools": [],
    ...     "calls": [{"name": "f", "arguments": {"x": 2}}],
    ...     "expected": [{"name": "f", "arguments": {"x": [1, 3]}}],
    ... }
    >>> measure_tool_calls([line])["items"]["a"]
    {'correct': False, 'error': 'wrong_value: x of f', 'selection': 1.0, 'argument_f1': 0.0}
    """
    chosen = RULES.get(rules)
    if chosen is None:
        raise UsageError(
            "CLI-001",
            f"no matching rules are named {rules!r}.{near_miss(rules, RULES)}",
            fix=f"Choose one of {', '.join(RULES)}.",
        )
    items: dict[str, dict[str, Any]] = {}
    faults = FaultList(limit=KEPT_FAULTS)
    for at, line in enumerate(lines, 1):
        add = partial(_add, faults, at)
        item = _item(line, chosen, add)
        if item is None:
            continue
        if item.id in items:
            add("id", f"{item.id!r} appears twice.", "Every line has its own id.", code="FIL-007")
            continue
        items[item.id] = {}
        if not faults.kept:
            try:
                items[item.id] = _verdict(item, chosen)
            except InputError as error:
                add("calls", error.message, "Split the item.", code=error.code)
    if faults.kept:
        raised = InputError(
            faults.kept[0].code,
            f"{faults.count} faults: nothing was measured.",
            faults=faults.kept,
        )
        raised.fault_count = faults.count
        raise raised
    correct = sum(item["correct"] for item in items.values())
    return {"items": items, "accuracy": correct / len(items) if items else None, "n": len(items)}


def _add(
    faults: FaultList, line: int, path: str, message: str, fix: str, *, code: str = ""
) -> None:
    faults.add(message, line=line, path=path, fix=fix, code=code)


_MISSING = object()


def _bfcl_error(matching: Matching, item: _Item) -> str:
    calls, expected = item.calls or (), item.expected
    if any(call.arguments is None for call in calls):
        return bfcl.UNREADABLE
    fault = None
    if len(calls) == len(expected) == 1 and matching.pairs:
        call, wish = calls[0], expected[0]
        if call.arguments is not None and wish.accepted is not None and wish.declared is not None:
            fault = bfcl.call_fault(call.arguments, wish.declared, wish.named, wish.accepted)
    return bfcl.item_fault(
        len(calls), len(expected), len(item.tools), right_tool=bool(matching.pairs), fault=fault
    )


def _plain_error(
    matching: Matching, calls: Sequence[WrittenCall], expected: Sequence[Expected]
) -> str:
    """The first error, as `kind: where`."""
    unread = next((call.name for call in calls if call.arguments is None), None)
    if unread is not None:
        return f"unreadable_arguments: {unread or 'a call without a name'}"
    if len(calls) != len(expected):
        return f"wrong_count: {len(calls)} called, {len(expected)} expected"
    if matching.selected < len(calls):
        met = {pair.expected for pair in matching.pairs}
        paired = {pair.call for pair in matching.pairs}
        missed = next(wish.name for index, wish in enumerate(expected) if index not in met)
        extra = next(call.name for index, call in enumerate(calls) if index not in paired)
        return f"wrong_tool: {extra or 'no name'} called, {missed} expected"
    for index, at, pair in matching.pairs:
        if not pair.is_whole:
            call, wish = calls[index], expected[at]
            return _first_wrong(call.name, call.arguments or {}, wish.accepted or {})
    raise AssertionError("unreachable: an item is wrong by its count, its tools or its arguments")


def _first_wrong(name: str, given: Mapping[str, Any], accepted: Mapping[str, Any]) -> str:
    """The first error in the arguments of a call of the right tool, which has at least one."""
    for kind, names in (
        ("missing_argument", accepted.keys() - given.keys()),
        ("unexpected_argument", given.keys() - accepted.keys()),
    ):
        if names:
            return f"{kind}: {min(names)} of {name}"
    wrong = next(
        argument for argument, value in given.items() if not is_among(value, accepted[argument])
    )
    return f"wrong_value: {wrong} of {name}"
