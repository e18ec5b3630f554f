"""Inputs and outputs in the spans of a run, and the token counts in LangChain messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assay.tracing.spans import Span, count, mapping, text, tree

_INPUT_KEYS = (
    "assay.inputs",
    "gen_ai.input.messages",
    "input.value",
    "gen_ai.task.input",
    "traceloop.entity.input",
)
_OUTPUT_KEYS = (
    "assay.outputs",
    "gen_ai.output.messages",
    "output.value",
    "gen_ai.task.output",
    "traceloop.entity.output",
)
_USER_ROLES = ("user", "human")
_MODEL_ROLES = ("assistant", "ai")
_MAX_MESSAGES = 100_000


def inputs_of(span: Span) -> dict[str, Any] | None:
    """The inputs of a span by name, where `input` is the user's last message; None if they are not
    recorded.
    """
    return _named_values(span, _INPUT_KEYS, "input", _USER_ROLES, "inputs")


def outputs_of(span: Span) -> dict[str, Any] | None:
    """The outputs of a span by name, where `answer` is the model's last text; None if they are not
    recorded.
    """
    return _named_values(span, _OUTPUT_KEYS, "answer", _MODEL_ROLES, "outputs")


def _named_values(
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
    last = _last_text(value.get("messages"), roles)
    return {name: last, **value} if last is not None else dict(value)


def _last_text(messages: Any, roles: tuple[str, ...]) -> str | None:
    """The last text from one of these roles."""
    for message in reversed(messages) if isinstance(messages, list) else ():
        fields = _fields(message)
        if fields.get("role", fields.get("type")) in roles:
            content = _text(fields)
            if content is not None:
                return content
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
    output = dict(_usages(_tree(span, _OUTPUT_KEYS[2:])))
    earlier = {key for key, _ in _usages(_tree(span, _INPUT_KEYS[2:]))}
    new = [tokens for key, tokens in output.items() if key is not None and key not in earlier]
    return sum(new) if new else None


def _tree(span: Span, keys: tuple[str, ...]) -> Any:
    return next(
        (tree(span.attributes[key]) for key in keys if span.attributes.get(key) is not None), None
    )


def _usages(value: Any) -> Iterator[tuple[str | None, int]]:
    """The id and the tokens of each answer in a tree of messages."""
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
