"""The dialects of model endpoints: how a request is written and how a reply is read. A new dialect
is one more class here.

Replies are untrusted: nothing is assumed except that they may be JSON, and missing parts are None.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from assay.errors import InputError
from assay.judging.config import JudgeSpec

DROPPABLE = ("temperature", "response_format", "seed", "max_tokens")
"""Parts of a request that some models refuse. Each is left out once a refusal names it, and the
result lists it.
"""


class Reply(NamedTuple):
    """What an endpoint replied."""

    text: str | None
    refusal: str | None
    finish: str | None
    input_tokens: int | None
    output_tokens: int | None
    model: str | None


class Prompt(NamedTuple):
    """What a model is asked, in its final words."""

    messages: list[dict[str, str]]
    schema: dict[str, Any] | None = None
    """The JSON Schema that the answer must meet."""
    sample: int = 0
    """Which draw of the same words."""


class Dialect(Protocol):
    """How one kind of endpoint is spoken to."""

    path: str

    def headers(self, key: str | None) -> dict[str, str]:
        """The headers, with the key where there is one."""

    def body(
        self,
        spec: JudgeSpec,
        messages: list[dict[str, str]],
        schema: dict[str, Any] | None,
        *,
        without: frozenset[str],
        sample: int,
    ) -> dict[str, Any]:
        """The request."""

    def read(self, tree: Any) -> Reply:
        """What a reply contains. Raises `InputError` where it is not of this dialect."""


class JudgeRequest(NamedTuple):
    """One question to a model."""

    model: str
    messages: list[dict[str, str]]
    schema: dict[str, Any] | None
    """The JSON Schema that the answer must meet."""
    base_url: str
    key: str | None
    temperature: float | None
    max_tokens: int
    seed: int | None
    timeout_s: float


class JudgeApi(NamedTuple):
    """One way to ask a model. A plugin provides one in the group `assay.judges`, with a `dialect`
    or with an `answer`.
    """

    id: str
    title: str
    dialect: Dialect | None = None
    """How requests to an HTTP endpoint are written and its replies read."""
    answer: Callable[[JudgeRequest], Awaitable[str | Reply]] | None = None
    """Gets the answer to a request. `OSError` and `TimeoutError` are tried again; any other
    exception too, up to the judge's limits, and then the question has no verdict.
    """


class OpenAI:
    """Chat completions, which most servers offer."""

    path = "/chat/completions"

    def headers(self, key: str | None) -> dict[str, str]:
        """A bearer token."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(
        self,
        spec: JudgeSpec,
        messages: list[dict[str, str]],
        schema: dict[str, Any] | None,
        *,
        without: frozenset[str],
        sample: int,
    ) -> dict[str, Any]:
        """Model, messages, and a JSON Schema that the reply must meet."""
        form = (
            {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "strict": True, "schema": schema},
            }
            if spec.structured == "json_schema"
            else {"type": "json_object"}
        )
        parts = {
            "temperature": spec.temperature,
            "seed": None if spec.seed is None else spec.seed + sample,
            "response_format": None if schema is None or spec.structured == "none" else form,
        }
        return {
            "model": spec.model,
            "messages": messages,
            "max_completion_tokens" if "max_tokens" in without else "max_tokens": spec.max_tokens,
            **_wanted(parts, without),
        }

    def read(self, tree: Any) -> Reply:
        """The first choice's message."""
        choices = tree.get("choices") if isinstance(tree, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise _foreign("chat completion", tree)
        message = choices[0].get("message")
        if not isinstance(message, dict):
            raise _foreign("chat completion", tree)
        usage = tree.get("usage") if isinstance(tree.get("usage"), dict) else {}
        content = message.get("content")
        if isinstance(content, list):  # parts
            content = "".join(
                part["text"]
                for part in content
                if isinstance(part, dict) and isinstance(part.get("text"), str)
            )
        return Reply(
            content if isinstance(content, str) else None,
            _text(message.get("refusal")),
            _text(choices[0].get("finish_reason")),
            _count(usage.get("prompt_tokens")),
            _count(usage.get("completion_tokens")),
            _text(tree.get("model")),
        )


class Anthropic:
    """Messages, where the verdict comes as the input of a tool."""

    path = "/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        """A key header and the version of the interface."""
        return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}

    def body(
        self,
        spec: JudgeSpec,
        messages: list[dict[str, str]],
        schema: dict[str, Any] | None,
        *,
        without: frozenset[str],
        sample: int,
    ) -> dict[str, Any]:
        """System text in its own field, and one tool whose input is the verdict."""
        tool = {"name": "verdict", "description": "Give the verdict.", "input_schema": schema}
        choice = {"type": "tool", "name": "verdict"}
        is_strict = spec.structured == "json_schema" and "response_format" not in without
        return {
            "model": spec.model,
            "max_tokens": spec.max_tokens,
            "system": "\n".join(
                message["content"] for message in messages if message["role"] == "system"
            ),
            "messages": [message for message in messages if message["role"] != "system"],
            **_wanted({"temperature": spec.temperature}, without),
            **({} if schema is None or not is_strict else {"tools": [tool], "tool_choice": choice}),
        }

    def read(self, tree: Any) -> Reply:
        """The input of the tool, or the text."""
        content = tree.get("content") if isinstance(tree, dict) else None
        if not isinstance(content, list):
            raise _foreign("message", tree)
        usage = tree.get("usage") if isinstance(tree.get("usage"), dict) else {}
        tools = [
            part["input"]
            for part in content
            if isinstance(part, dict) and part.get("type") == "tool_use" and "input" in part
        ]
        texts = [
            part["text"]
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        ]
        text = encode(tools[0]) if len(tools) == 1 else "".join(texts) if texts else None
        finish = _text(tree.get("stop_reason"))
        return Reply(
            text,
            "the model refused" if finish == "refusal" else None,
            finish,
            _count(usage.get("input_tokens")),
            _count(usage.get("output_tokens")),
            _text(tree.get("model")),
        )


def _wanted(parts: Mapping[str, Any], without: frozenset[str]) -> dict[str, Any]:
    """The parts that are stated, and that the model did not refuse."""
    return {
        name: value for name, value in parts.items() if value is not None and name not in without
    }


def encode(tree: Any) -> str:
    """A tree as JSON text."""
    return json.dumps(tree, ensure_ascii=False, default=float)  # `default` is for Decimals


def as_bytes(body: dict[str, Any]) -> bytes:
    """A request as bytes; a lone surrogate, which UTF-8 can't encode, becomes a question mark."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return encode(body).encode("utf-8", "replace")


DIALECTS: dict[str, Dialect] = {"openai": OpenAI(), "anthropic": Anthropic()}
JUDGES = (
    JudgeApi("openai", "Chat completions over HTTP, as most servers offer", DIALECTS["openai"]),
    JudgeApi("anthropic", "Messages over HTTP", DIALECTS["anthropic"]),
    JudgeApi("litellm", "Any provider that litellm knows"),
)


def refused_parameter(message: str, sent: dict[str, Any]) -> str | None:
    """The droppable part of a request that an error message names.

    >>> refused_parameter("Unsupported value: 'temperature' does not support 0", {"temperature": 0})
    'temperature'
    """
    lowered = message.lower()
    for name in DROPPABLE:
        words = {
            "response_format": ("response_format", "json_schema", "tool_choice"),
            "max_tokens": ("max_tokens",),
        }.get(name, (name,))
        carried = name in sent or (name == "response_format" and "tools" in sent)
        if carried and any(word in lowered for word in words):
            return name
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _foreign(what: str, tree: Any) -> InputError:
    return InputError("JDG-003", f"the reply is not a {what}: {str(tree)[:200]!r}.")
