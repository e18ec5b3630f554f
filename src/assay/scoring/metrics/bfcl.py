"""The matching rules of the Berkeley Function-Calling Leaderboard: its checker's verdicts and error
names.

Each argument has a list of possible answers; "" in it means that the argument is optional. Texts
are compared folded, types strictly. Two things differ from the leaderboard's code, neither on its
data: `true` never equals 1, and parallel calls are paired by the best assignment, where the
leaderboard takes the first fit and so fails some right answers because of their order. Source:
https://github.com/ShishirPatil/gorilla, berkeley-function-call-leaderboard, ast_checker (2024).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from assay.scoring.checks import is_among, same

UNREADABLE = "ast_decoder:decoder_failed"
_SIMPLE = "simple_function_checker"
_PARALLEL = "parallel_function_checker_no_order"

_KINDS = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "float",
    Decimal: "float",
    list: "array",
    tuple: "array",
    dict: "dict",
}
_DECLARED = {
    "string": "string",
    "boolean": "boolean",
    "integer": "integer",
    "float": "float",
    "number": "float",
    "array": "array",
    "tuple": "array",
    "dict": "dict",
    "object": "dict",
    "any": "string",
}
_FOLDING = str.maketrans("'", '"', " ,./-_*^")
_COPY = re.compile(r"[_ ]\d+")


def fold(text: str) -> str:
    """A text as the leaderboard compares it.

    >>> fold("April 1, 2024") == fold("april-1 2024"), fold("it's")
    (True, 'it"s')
    """
    return text.translate(_FOLDING).lower()


def tool_named(name: str, tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The tool of an expected call. The data numbers repeated calls ("play_1", "play 2"), and if
    there is only one tool, every call is of that tool.

    >>> tool_named("play_2", [{"name": "pause"}, {"name": "play"}])
    {'name': 'play'}
    """
    if len(tools) == 1:
        return tools[0]
    for tool in tools:
        if tool["name"] == name:
            return tool
    # the longest name first: "play" must not take the answers of "play_next"
    starts = [
        tool
        for tool in tools
        if name.startswith(tool["name"]) and _COPY.fullmatch(name[len(tool["name"]) :])
    ]
    inside = starts or [tool for tool in tools if tool["name"] in name]
    return max(inside, key=lambda tool: len(tool["name"]), default=None)


def called_name(name: str, tools: Iterable[Mapping[str, Any]]) -> str:
    """The tool that a call names. Some models can't write dots, so "a_b" calls "a.b" unless there
    is a tool "a_b".

    >>> called_name("math_hypot", [{"name": "math.hypot"}])
    'math.hypot'
    """
    undotted = ""
    for tool in tools:
        if tool["name"] == name:
            return name
        if not undotted and tool["name"].replace(".", "_") == name:
            undotted = tool["name"]
    return undotted or name


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "null")


def _declared(details: Any) -> str | None:
    """The leaderboard's name for the declared type of a parameter; None if it declares none."""
    declared = details.get("type") if isinstance(details, dict) else None
    if isinstance(declared, list):
        declared = next((name for name in declared if name != "null"), None)
    return _DECLARED.get(declared) if isinstance(declared, str) else None


def _answer_kind(possible: Any) -> str | None:
    """The type of the first possible answer besides ""."""
    if not isinstance(possible, list):
        return None
    for answer in possible:
        if answer != "":
            return _kind(answer)
    return None


def _folded(value: Any) -> Any:
    return fold(value) if isinstance(value, str) else value


def argument_fault(value: Any, details: Any, possible: Sequence[Any]) -> str | None:
    """The leaderboard's name for the error in one argument; None if it is right.

    >>> (
    ...     argument_fault("New York", {"type": "string"}, ["new-york", "NYC"]),
    ...     argument_fault(5, {"type": "float"}, [5.0]),
    ... )
    (None, None)
    >>> argument_fault([5], {"type": "array", "items": {"type": "float"}}, [[5.0]])
    'type_error:nested'
    """
    kind, declared, answers = _kind(value), _declared(details), _answer_kind(possible)
    if declared is None:
        declared = answers or kind
    if declared == "float" and kind == "integer":
        kind = "float"
    inner = (
        _declared(details.get("items"))
        if declared == "array" and isinstance(details, dict)
        else None
    )
    is_variable = answers is not None and answers != declared
    if kind == declared:
        if inner is not None and not any(_items_fit(value, inner, answer) for answer in possible):
            return "type_error:nested" if kind == answers else "type_error:simple"
    elif answers is not None and kind == answers:
        is_variable = True
    else:
        return "type_error:simple"
    if not is_variable:
        if declared == "dict":
            return _dict_fault(value, possible)
        if declared == "array" and inner == "dict":
            return _dicts_fault(value, possible)
        if declared == "string":
            return None if value in possible else _text_fault(value, possible)
        if declared == "array":
            return _list_fault(value, possible)
    return None if is_among(value, possible) else "value_error:others"


def _text_fault(value: str, possible: Sequence[Any]) -> str | None:
    """The error in a text that is not literally a possible answer; None if it is one after folding.
    It is not folded if the answers are not texts.
    """
    if _answer_kind(possible) not in (None, "string"):
        return "value_error:others"
    given = fold(value)
    for answer in possible:
        if isinstance(answer, str) and fold(answer) == given:
            return None
    return "value_error:string"


def _items_fit(value: Sequence[Any], inner: str, answer: Any) -> bool:
    """Whether the types in a list are those of the schema or of the answer. An int is not a float
    here.
    """
    if not isinstance(answer, list):
        return True
    of_answer = _answer_kind(answer)
    return all(_kind(item) in (inner, of_answer) for item in value)


def _list_fault(value: Sequence[Any], possible: Sequence[Any]) -> str | None:
    given = [_folded(item) for item in value]
    for answer in possible:
        # "" means that the argument is optional, and an empty list counts as leaving it out
        if (isinstance(answer, list) and same(given, [_folded(item) for item in answer])) or (
            answer == "" and not given
        ):
            return None
    return "value_error:list/tuple"


def _dict_fault(value: Any, possible: Sequence[Any]) -> str | None:
    fault = "dict_checker:unclear"
    for answer in possible:
        if not isinstance(value, dict) or not isinstance(answer, dict):
            continue
        fault_found = _against(value, answer)
        if fault_found is None:
            return None
        fault = fault_found
    return fault


def _against(value: Mapping[str, Any], answer: Mapping[str, Any]) -> str | None:
    fault = None
    for name, item in value.items():
        if name not in answer:
            fault = "value_error:dict_key"
            break
        if not is_among(
            _folded(item),
            [_folded(choice) for choice in answer[name]] if isinstance(answer[name], list) else (),
        ):
            fault = "value_error:dict_value"
            break
    if any(
        name not in value and not (isinstance(listed, list) and "" in listed)
        for name, listed in answer.items()
    ):
        return "value_error:dict_key"
    return fault


def _dicts_fault(value: Sequence[Any], possible: Sequence[Any]) -> str | None:
    fault = "list_dict_checker:unclear"
    for answer in possible:
        if not isinstance(answer, list | str) or len(value) != len(answer):
            fault = "value_error:list_dict_count"
            continue
        fault_found = next(
            (
                fault_found
                for item, wanted_item in zip(value, answer, strict=True)
                if (fault_found := _dict_fault(item, [wanted_item])) is not None
            ),
            None,
        )
        if fault_found is None:
            return None
        fault = fault_found
    return fault


def parameters(tool: Mapping[str, Any]) -> tuple[Mapping[str, Any], frozenset[str]]:
    """The declared parameters of a tool, and the names of the required ones."""
    schema = tool.get("parameters")
    schema = schema if isinstance(schema, dict) else {}
    declared, required = schema.get("properties"), schema.get("required")
    named = (
        frozenset([name for name in required if isinstance(name, str)])
        if isinstance(required, list)
        else frozenset()
    )
    return (declared if isinstance(declared, dict) else {}), named


def call_fault(
    arguments: Mapping[str, Any],
    declared: Mapping[str, Any],
    required: frozenset[str],
    possible: Mapping[str, Sequence[Any]],
) -> str | None:
    """The error in a call of the right tool; None if it is right."""
    if not required <= arguments.keys():
        return f"{_SIMPLE}:missing_required"
    for name, value in arguments.items():
        if name not in declared or name not in possible:
            return f"{_SIMPLE}:unexpected_param"
        fault = argument_fault(value, declared[name], possible[name])
        if fault is not None:
            return fault
    if any(name not in arguments and "" not in listed for name, listed in possible.items()):
        return f"{_SIMPLE}:missing_optional"
    return None


def item_fault(
    calls: int, expected: int, tools: int, *, right_tool: bool, fault: str | None
) -> str:
    """The leaderboard's name for the error in an item: it checks a single call of a single tool by
    itself, and anything else as parallel calls.
    """
    family = _SIMPLE if tools == 1 and expected == 1 else _PARALLEL
    if calls != expected:
        return f"{family}:wrong_count"
    if family == _PARALLEL:
        return f"{_PARALLEL}:cannot_find_match"
    return fault or f"{_SIMPLE}:unclear" if right_tool else f"{_SIMPLE}:wrong_func_name"
