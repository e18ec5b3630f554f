"""The input and output of a run, as far as its spans contain them, and the token counts in
LangChain messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assay.tracing.spans import Span, count, mapping, text, tree

_GIVEN = (
    "assay.inputs",
    "gen_ai.input.messages",
    "input.value",
    "gen_ai.task.input",
    "traceloop.entity.input",
)
_MADE = (
    "assay.outputs",
    "gen_ai.output.messages",
    "output.value",
    "gen_ai.task.output",
    "traceloop.entity.output",
)
_ASKING = ("user", "human")
_ANSWERING = ("assistant", "ai")
_MAX_MESSAGES = 100_000


def inputs_of(span: Span) -> dict[str, Any] | None:
    """What a span was given: the keys of an object as they are; `input` is the last message of
    the user. None if it is not recorded.
    """
    return _side(span, _GIVEN, "input", _ASKING, "inputs")


def outputs_of(span: Span) -> dict[str, Any] | None:
    """What a span made: the keys of an object as they are; `answer` is the last text of a model.
    None if it is not recorded.
    """
    return _side(span, _MADE, "answer", _ANSWERING, "outputs")


def _side(
    span: Span, keys: tuple[str, ...], name: str, roles: tuple[str, ...], wrapping: str
) -> dict[str, Any] | None:
    key = next((key for key in keys if span.attributes.get(key) is not None), None)
    if key is None:
        return None
    value = tree(span.attributes[key])
    if (
        key.startswith(("traceloop.", "gen_ai.task."))
        and isinstance(value, dict)
        and wrapping in value
    ):
        value = value[wrapping]
    if isinstance(value, list) and key.endswith(".messages"):
        value = {"messages": value}
    if not isinstance(value, dict):
        return {name: value}
    last = _last(value.get("messages"), roles)
    return {name: last, **value} if last is not None else dict(value)


def _last(messages: Any, roles: tuple[str, ...]) -> str | None:
    """The last text of one of these roles."""
    for message in reversed(messages) if isinstance(messages, list) else ():
        fields = _fields(message)
        if fields.get("role", fields.get("type")) in roles:
            words = _text(fields)
            if words is not None:
                return words
    return None


def _fields(message: Any) -> Mapping[str, Any]:
    if not isinstance(message, dict):
        return {}
    inner = next(
        (message[key] for key in ("data", "kwargs") if isinstance(message.get(key), dict)), None
    )
    return inner if inner is not None else message


def _text(fields: Mapping[str, Any]) -> str | None:
    content = fields.get("content")
    if text(content) is not None:
        return str(content)
    parts = fields.get("parts", content)
    if not isinstance(parts, list):
        return None
    texts = [
        text(part.get("content")) or text(part.get("text"))
        for part in parts
        if isinstance(part, dict) and part.get("type") == "text"
    ]
    return "".join(part for part in texts if part is not None) or None


def reported_tokens(span: Span) -> int | None:
    """The reported tokens of the answers that are in a node's output but not in its input; None if
    there are none.

    A node that passes on an earlier answer doesn't count it again.
    """
    made = dict(_usages(_tree(span, _MADE[2:])))
    known = {key for key, _ in _usages(_tree(span, _GIVEN[2:]))}
    new = [tokens for key, tokens in made.items() if key is not None and key not in known]
    return sum(new) if new else None


def _tree(span: Span, keys: tuple[str, ...]) -> Any:
    return next(
        (tree(span.attributes[key]) for key in keys if span.attributes.get(key) is not None), None
    )


def _usages(value: Any) -> Iterator[tuple[str | None, int]]:
    """Each answer in a tree of messages: its id, and its tokens."""
    stack, seen = [value], 0
    while stack and seen < _MAX_MESSAGES:
        at = stack.pop()
        seen += 1
        if isinstance(at, list):
            stack += at
        elif isinstance(at, dict):
            usage = mapping(at.get("usage_metadata"))
            tokens = [count(usage.get(key)) for key in ("input_tokens", "output_tokens")]
            if usage and tokens[0] is not None and tokens[1] is not None:
                yield text(at.get("id")), tokens[0] + tokens[1]
            else:
                stack += [item for item in at.values() if isinstance(item, dict | list)]
