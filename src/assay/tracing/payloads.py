"""The content of spans apart from numbers and names: the arguments and results of tools, the calls
that a model asks for, retrieved passages.

Both dialects are read, and unclear values are None. Text that Python printed is parsed as a
literal, never executed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from assay.tracing.rules import offered_tools, passage_id
from assay.tracing.spans import RequestedCall, RetrievedDocument, Span, amount, name, text, tree

_MAX_LITERAL = 20_000
_CALL = re.compile(
    r"llm\.output_messages\.(\d{1,6})\.message\.tool_calls\.(\d{1,6})\.tool_call\.(id|function\.name|function\.arguments)"
)
_DOCUMENT = re.compile(r"retrieval\.documents\.(\d{1,6})\.document\.(id|content|metadata)")
_TOOL = re.compile(r"llm\.tools\.(\d{1,6})\.tool\.json_schema")
_REFUSED = "Error: Argument parsing failed"
"""What Agent Framework replies to a model whose arguments it refused; no tool span contains it."""


class Reader:
    """Returns the first attribute that can be read, and collects those that can't."""

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        self.attributes = attributes
        self.unreadable: list[str] = []

    def first(self, read: Callable[[Any], Any], keys: Iterable[str]) -> Any:
        """The value of the first of these attributes that has one."""
        for key in keys:
            attribute = self.attributes.get(key)
            if attribute is None:
                continue
            value = read(attribute)
            if value is not None:
                return value
            self.unreadable.append(key)
        return None


def tool_of(span: Span, read: Reader) -> dict[str, Any]:
    """The tool that ran, its arguments, and how it ended, as fields of a `Meaning`."""
    attributes = span.attributes
    keys = ("gen_ai.tool.name", "tool.name", "tool_call.function.name", "traceloop.entity.name")
    given = next(
        (
            tree(attributes[key])
            for key in ("gen_ai.tool.call.arguments", "tool_call.function.arguments", "input.value")
            if key in attributes
        ),
        None,
    )
    if given is None:
        given = tree(attributes.get("traceloop.entity.input"))
    result = next(
        (
            tree(attributes[key])
            for key in ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output")
            if key in attributes
        ),
        None,
    )
    answer = _message(result)
    failed = (
        text(answer.get("content")) or "the tool answered with an error"
        if answer.get("status") == "error"
        else None
    )
    call_id = read.first(name, ("gen_ai.tool.call.id", "tool_call.id", "tool.id")) or name(
        answer.get("tool_call_id")
    )
    valid = attributes.get("assay.tool.valid")
    return {
        "name": read.first(name, keys)
        or name(span.name.removeprefix("execute_tool").strip())
        or "",
        "arguments": _arguments(given),
        "call_id": call_id,
        "error": failed,
        "valid": valid if isinstance(valid, bool) else None,
        "refused": _is_refused(span),
    }


def _is_refused(span: Span) -> bool:
    """Whether LangChain raised while parsing the arguments, before it called the tool."""
    stacks = (more.get("exception.stacktrace") for kind, more in span.events if kind == "exception")
    return any(isinstance(stack, str) and ", in _parse_input\n" in stack for stack in stacks)


def _message(value: Any) -> Mapping[str, Any]:
    """The fields of a LangChain message, however deep it is wrapped."""
    for key in ("output", "data", "kwargs"):
        if isinstance(value, dict) and isinstance(value.get(key), dict):
            value = value[key]
            if "tool_call_id" in value:
                break
    return value if isinstance(value, dict) else {}


def _arguments(given: Any) -> dict[str, Any] | None:
    """The arguments of a call as an object; None if they are unclear.

    >>> _arguments({"input_str": "{'a': 2}", "tags": []}), _arguments("two")
    ({'a': 2}, None)
    """
    if (
        isinstance(given, dict)
        and isinstance(given.get("input_str"), str)
        and {"tags", "metadata", "kwargs", "inputs"} & given.keys()
    ):
        if isinstance(given.get("inputs"), dict):
            return dict(given["inputs"])
        given = given["input_str"]
    if isinstance(given, str) and len(given) <= _MAX_LITERAL:
        # LangChain writes a tool's arguments as a Python literal
        try:
            given = ast.literal_eval(given)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return None
        return given if isinstance(given, dict) and _is_plain(given, 0) else None
    return dict(given) if isinstance(given, dict) else None


def _is_plain(value: Any, depth: int) -> bool:
    """Whether JSON can represent it."""
    if depth > 50:
        return False
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(
            _is_plain(item, depth + 1) for item in value.values()
        )
    if isinstance(value, list | tuple):
        return all(_is_plain(item, depth + 1) for item in value)
    return (
        value is None
        or isinstance(value, str | bool)
        or amount(abs(value) if isinstance(value, int | float) else value) is not None
    )


def calls_of(attributes: Mapping[str, Any]) -> tuple[RequestedCall, ...] | None:
    """The tool calls in a model's answer; None if the answer is not recorded."""
    messages = tree(attributes.get("gen_ai.output.messages"))
    if isinstance(messages, list):
        return tuple(
            RequestedCall(
                str(part["name"])[:500], _written(part.get("arguments")), name(part.get("id"))
            )
            for part in _parts(messages)
            if part.get("type") == "tool_call" and name(part.get("name"))
        )
    calls: dict[tuple[int, int], dict[str, Any]] = {}
    for key, value in attributes.items():
        place = _CALL.fullmatch(key)
        if place is not None:
            calls.setdefault((int(place[1]), int(place[2])), {})[place[3]] = value
    if not calls and not any(key.startswith("llm.output_messages.") for key in attributes):
        return None
    return tuple(
        RequestedCall(
            str(call["function.name"])[:500],
            _written(call.get("function.arguments")),
            name(call.get("id")),
        )
        for _, call in sorted(calls.items())
        if name(call.get("function.name"))
    )


def _parts(messages: list[Any]) -> list[dict[str, Any]]:
    """The parts of all messages; anything of another shape is left out."""
    lists = [message.get("parts") for message in messages if isinstance(message, dict)]
    return [
        part
        for listed in lists
        if isinstance(listed, list)
        for part in listed
        if isinstance(part, dict)
    ]


def _written(given: Any) -> Any:
    """The arguments as a model wrote them: an object, or text that isn't one and so breaks every
    schema. No text means no arguments.

    >>> _written('{"a": 2}'), _written(""), _written('{"a": ')
    ({'a': 2}, {}, '{"a": ')
    """
    if given is None or given == "":
        return {}
    parsed = tree(given)
    arguments = _arguments(parsed)
    return arguments if arguments is not None else parsed


def offered_of(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """The tools that a model or an agent was shown, with the JSON Schema of each; None if the span
    doesn't list them.
    """
    listed = tree(attributes.get("gen_ai.tool.definitions"))
    if listed is None:
        places = sorted(
            (int(match[1]), key)
            for match, key in ((_TOOL.fullmatch(key), key) for key in attributes)
            if match is not None
        )
        listed = [tree(attributes[key]) for _, key in places] or None
    return offered_tools(listed)


def refusals_of(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids of calls whose arguments Agent Framework refused, from its replies to the agent."""
    given = attributes.get("gen_ai.output.messages")
    messages = tree(given) if not isinstance(given, str) or _REFUSED in given else None
    return tuple(
        str(part.get("id"))
        for part in _parts(messages if isinstance(messages, list) else [])
        if part.get("type") == "tool_call_response"
        and str(part.get("response")).startswith(_REFUSED)
    )


def response_metadata(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The provider's metadata of an answer, for answers in LangChain's format."""
    output = attributes.get("output.value")
    if not isinstance(output, str) or '"response_metadata"' not in output:
        return {}
    value = tree(output)
    for key in ("generations", 0, 0, "message"):
        present = (
            isinstance(value, list) and value
            if key == 0
            else isinstance(value, dict) and key in value
        )
        value = value[key] if present else None
    metadata = _message(value).get("response_metadata")
    return metadata if isinstance(metadata, dict) else {}


def asks_for_tools(attributes: Mapping[str, Any]) -> bool | None:
    """Whether a model ended its answer in order to call tools; None without a finish reason."""
    reasons = tree(attributes.get("gen_ai.response.finish_reasons"))
    if isinstance(reasons, str):
        reasons = [reasons]
    if not isinstance(reasons, list | tuple) or not reasons:
        return None
    return any(
        isinstance(reason, str)
        and reason.lower() in ("tool_call", "tool_calls", "tool_use", "function_call")
        for reason in reasons
    )


# --- retrieval


def documents_of(attributes: Mapping[str, Any]) -> tuple[RetrievedDocument, ...] | None:
    """The retrieved documents, best first; None if the span doesn't list them."""
    listed = tree(attributes.get("gen_ai.retrieval.documents"))
    if isinstance(listed, list):
        return tuple(
            RetrievedDocument(
                _id(item.get("id")), text(item.get("content")) or text(item.get("text"))
            )
            for item in listed
            if isinstance(item, dict)
        )
    by_index: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        place = _DOCUMENT.fullmatch(key)
        if place is not None:
            by_index.setdefault(int(place[1]), {})[place[2]] = value
    output = _documents(attributes.get("output.value"))
    if output is not None and len(by_index) in (0, len(output)):  # the output has the ids too
        return output
    if not by_index:
        return None
    return tuple(
        RetrievedDocument(
            passage_id(_id(item.get("id")), tree(item.get("metadata"))), text(item.get("content"))
        )
        for _, item in sorted(by_index.items())
    )


def _documents(value: Any) -> tuple[RetrievedDocument, ...] | None:
    """The LangChain documents in a retriever's output; None if it is something else."""
    output = tree(value)
    listed = output.get("documents") if isinstance(output, dict) else None
    if not isinstance(listed, list) or not all(
        isinstance(item, dict) and "page_content" in item for item in listed
    ):
        return None
    return tuple(
        RetrievedDocument(
            passage_id(_id(item.get("id")), item.get("metadata")), text(item.get("page_content"))
        )
        for item in listed
    )


def _id(value: Any) -> str | None:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else name(value)
