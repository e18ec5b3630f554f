"""Read what LangChain reports about a model's answer and about documents. Values that are not
reported are None, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from assay.tracing.rules import passage_id
from assay.tracing.spans import RequestedCall, RetrievedDocument, amount, count, name

_COSTS = ("cost_usd", "total_cost", "cost")


class AskedModel(NamedTuple):
    """A model whose answer is awaited."""

    model: str | None
    is_form: bool
    """Whether the tool it is offered only gives its answer a structure."""


def answer_of(response: Any, asked: AskedModel) -> dict[str, Any]:
    """What a model answered and used, as fields of a `Meaning`."""
    message = next(
        (getattr(one, "message", None) for several in response.generations for one in several), None
    )
    about = getattr(message, "response_metadata", None) or {}
    usage = getattr(message, "usage_metadata", None) or {}
    older = (response.llm_output or {}).get("token_usage") or {}
    calls = [
        RequestedCall(call["name"], call.get("args"), call.get("id"))
        for call in getattr(message, "tool_calls", None) or ()
    ] + [
        RequestedCall(call["name"], str(call.get("args")), call.get("id"))
        for call in getattr(message, "invalid_tool_calls", None) or ()
        if call.get("name")
    ]
    total = _total(usage, "input", "output") if usage else _total(older, "prompt", "completion")
    return {
        "model": name(about.get("model_name")) or name(about.get("model")) or name(asked.model),
        "total_tokens": total,
        "cost_usd": _cost([about, about.get("token_usage"), usage, older]),
        "calls": () if asked.is_form else tuple(calls),
    }


def _total(usage: Mapping[str, Any], given: str, made: str) -> int | None:
    parts = [count(usage.get(f"{part}_tokens")) for part in (given, made)]
    if parts[0] is None or parts[1] is None:
        return count(usage.get("total_tokens"))
    return parts[0] + parts[1]


def _cost(places: Iterable[Any]) -> Any:
    """What the call cost, where the provider reports it."""
    costs = (
        amount(place.get(key)) for place in places if isinstance(place, Mapping) for key in _COSTS
    )
    return next((cost for cost in costs if cost is not None), None)


def is_refusal(error: BaseException) -> bool:
    """Whether the tool was never reached because its own schema refused the arguments."""
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_name == "_parse_input":
            return True
        at = at.tb_next
    return False


def passage(document: Any) -> RetrievedDocument:
    """The id and the text of a document."""
    content = getattr(document, "page_content", None)
    return RetrievedDocument(
        passage_id(getattr(document, "id", None), getattr(document, "metadata", None)),
        content if isinstance(content, str) and content else None,
    )
