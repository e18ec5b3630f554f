"""The usual lines of tool calls, judged at a glance: right ones, and one call against one expected
call. Nothing here decides what is right.

Every verdict here is the one that `tool_calls` reaches by reading the line, pairing and comparing;
None says that it has to. An item is right exactly where its calls can be paired with the expected
ones so that every pair is whole; which pairing that is does not matter, so the first one found will
do. Where no such pairing is found at once, the best one is sought by assignment, and not here. A
line with a fault of its author is never judged here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.scoring.metrics.bfcl import (
    argument_fault,
    call_fault,
    called_name,
    item_fault,
    parameters,
    tool_named,
)
from assay.scoring.metrics.calls import BFCL, Call, Expected
from assay.scoring.metrics.equality import is_among, same

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MANY = 16
"""Calls of one item that are tried against each other; beyond it the keys of `calls` are
quicker.
"""
_RIGHT = {"correct": True, "error": None, "selection": 1.0, "argument_f1": 1.0}
_WRONG_TOOL = {"correct": False, "error": None, "selection": 0.0, "argument_f1": 0.0}


def plain_verdict(line: dict[str, Any]) -> dict[str, Any] | None:
    """The verdict on a line by the plain rules, or None.

    >>> plain_verdict(
    ...     {
    ...         "calls": [{"name": "f", "arguments": {"x": 2}}],
    ...         "expected": [{"name": "f", "arguments": {"x": [2.0, 3]}}],
    ...     }
    ... )["correct"]
    True
    >>> plain_verdict(
    ...     {
    ...         "calls": [{"name": "f", "arguments": "{}"}],
    ...         "expected": [{"name": "f", "arguments": {}}],
    ...     }
    ... ) is None
    True
    """
    calls, expected = line.get("calls"), line.get("expected")
    if type(calls) is not list or type(expected) is not list:
        return None
    if len(calls) != 1 or len(expected) != 1:
        return (
            _RIGHT.copy()
            if len(calls) == len(expected) <= MANY and _plain_pairs(calls, expected)
            else None
        )
    call, wish = calls[0], expected[0]
    if type(call) is not dict or type(wish) is not dict:
        return None
    name, given, accepted = call.get("name"), call.get("arguments"), wish.get("arguments")
    if not name or type(name) is not str or type(given) is not dict or type(accepted) is not dict:
        return None
    if name != wish.get("name"):
        return _wrong_tool(name, wish.get("name"), accepted)
    right = 0
    for argument, value in given.items():
        listed = accepted.get(argument)
        if type(listed) is not list:
            if argument in accepted:
                return None
        elif type(value) is str:
            right += value in listed  # a text equals nothing but itself
        elif type(value) is int and listed and type(listed[0]) is int and listed[0] == value:
            right += 1
        else:
            for other in listed:
                if same(value, other):
                    right += 1
                    break
    if right == len(given) == len(accepted):
        return _RIGHT.copy()
    return _wrong_arguments(name, given, accepted, right)


def _wrong_tool(name: str, wanted: Any, accepted: dict[str, Any]) -> dict[str, Any] | None:
    if type(wanted) is not str or not wanted or not _is_well_formed(accepted):
        return None
    return {**_WRONG_TOOL, "error": f"wrong_tool: {name} called, {wanted} expected"}


def _is_well_formed(accepted: dict[str, Any]) -> bool:
    for values in (  # noqa: SIM110
        accepted.values()
    ):  # every line passes through; a generator would cost as much as the check
        if type(values) is not list or not values:
            return False
    return True


def _wrong_arguments(
    name: str, given: dict[str, Any], accepted: dict[str, Any], right: int
) -> dict[str, Any] | None:
    if not _is_well_formed(accepted):
        return None
    f1 = 2 * right / ((len(given) or 1) + (len(accepted) or 1))
    return {
        "correct": False,
        "error": first_wrong(name, given, accepted),
        "selection": 1.0,
        "argument_f1": f1,
    }


def first_wrong(name: str, given: Mapping[str, Any], accepted: Mapping[str, Any]) -> str:
    """The first thing wrong with the arguments of a call of the right tool, as `kind: where`. One
    is wrong.

    >>> (
    ...     first_wrong("f", {"x": 1, "z": 2}, {"x": [1], "y": [2]}),
    ...     first_wrong("f", {"x": 1}, {"x": [2]}),
    ... )
    ('missing_argument: y of f', 'wrong_value: x of f')
    """
    if given.keys() != accepted.keys():
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


def _plain_pairs(calls: list[Any], expected: list[Any]) -> bool:
    """Whether each expected call takes one that is wholly right. False says nothing yet."""
    open_calls = []
    for call in calls:
        given = call.get("arguments") if type(call) is dict else None
        if type(given) is not dict:
            return False
        open_calls.append((call.get("name"), given))
    for wish in expected:
        name, accepted = (
            (wish.get("name"), wish.get("arguments")) if type(wish) is dict else (None, None)
        )
        if type(name) is not str or not name or type(accepted) is not dict:
            return False
        for place, (called, given) in enumerate(open_calls):
            if called == name and len(given) == len(accepted) and _all_right(given, accepted):
                del open_calls[place]
                break
        else:
            return False
    return True


def _all_right(given: dict[str, Any], accepted: dict[str, Any]) -> bool:
    for argument, value in given.items():
        listed = accepted.get(argument)
        if type(listed) is not list:
            return False
        if type(value) is str:
            if value not in listed:
                return False
        elif not (
            type(value) is int and listed and type(listed[0]) is int and listed[0] == value
        ) and not is_among(value, listed):
            return False
    return True


# --- the leaderboard's rules


def bfcl_verdict(line: dict[str, Any]) -> dict[str, Any] | None:
    """The verdict on a line by the leaderboard's rules, or None.

    >>> tool = {
    ...     "name": "f",
    ...     "parameters": {
    ...         "type": "dict",
    ...         "properties": {"x": {"type": "integer"}},
    ...         "required": ["x"],
    ...     },
    ... }
    >>> line = {
    ...     "tools": [tool],
    ...     "calls": [{"name": "f", "arguments": {"x": 2}}],
    ...     "expected": [{"name": "f", "arguments": {"x": [3]}}],
    ... }
    >>> bfcl_verdict(line)["error"]
    'value_error:others'
    """
    calls, expected, tools = line.get("calls"), line.get("expected"), line.get("tools")
    if (
        type(calls) is not list
        or type(expected) is not list
        or type(tools) is not list
        or not len(calls) == len(expected) <= MANY
        or not tools
    ):
        return None
    for tool in tools:
        # what some APIs wrap is read the whole way
        if (
            type(tool) is not dict
            or type(tool.get("name")) is not str
            or not tool["name"]
            or "function" in tool
        ):
            return None
    open_calls: list[Call] = []
    for call in calls:
        name, given = (
            (call.get("name"), call.get("arguments")) if type(call) is dict else (None, None)
        )
        if type(name) is not str or type(given) is not dict:
            return None
        open_calls.append(Call(called_name(name, tools), given))
    known: dict[str, tuple[Mapping[str, Any], frozenset[str]]] = {}
    for wish in expected:
        ready = _bfcl_wish(wish, tools, known)
        if ready is None:
            return None
        for place, (called, given) in enumerate(open_calls):
            if called == ready.name and _is_whole(given or {}, ready):
                del open_calls[place]
                break
        else:
            return _bfcl_wrong(open_calls[0], ready, len(tools)) if len(calls) == 1 else None
    return _RIGHT.copy()


def _bfcl_wish(
    wish: Any,
    tools: Sequence[Mapping[str, Any]],
    known: dict[str, tuple[Mapping[str, Any], frozenset[str]]],
) -> Expected | None:
    name, accepted = (
        (wish.get("name"), wish.get("arguments", {})) if type(wish) is dict else (None, None)
    )
    if type(name) is not str or not name or type(accepted) is not dict:
        return None
    tool = tool_named(name, tools)
    if tool is None:
        return None
    title = tool["name"]
    if title not in known:
        known[title] = parameters(tool)
    declared, named = known[title]
    required = len(named)
    for argument, values in accepted.items():
        if type(values) is not list:
            return None
        required += "" not in values and argument not in named
    return Expected(title, accepted, required, declared, named)


def _is_whole(given: dict[str, Any], wish: Expected) -> bool:
    """Whether every argument is right and none is missing: as many as may not be left out, beside
    those that may.
    """
    accepted, declared, named = wish.accepted or {}, wish.declared or {}, wish.named
    left = len(given) - wish.required
    for argument, value in given.items():
        listed = accepted.get(argument)
        if (
            listed is None
            or argument not in declared
            or argument_fault(value, declared[argument], listed) is not None
        ):
            return False
        left -= "" in listed and argument not in named
    return left == 0


def _bfcl_wrong(call: Call, wish: Expected, tools: int) -> dict[str, Any]:
    """The verdict on one call that is not the one expected."""
    if call.name != wish.name:
        return {**_WRONG_TOOL, "error": item_fault(1, 1, tools, right_tool=False, fault=None)}
    pair = BFCL.compare(call, wish)
    fault = call_fault(call.arguments or {}, wish.declared or {}, wish.named, wish.accepted or {})
    f1 = 2 * pair.right / ((len(call.arguments or ()) or 1) + pair.wanted)
    return {
        "correct": False,
        "error": item_fault(1, 1, tools, right_tool=True, fault=fault),
        "selection": 1.0,
        "argument_f1": f1,
    }
