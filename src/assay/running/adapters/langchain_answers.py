"""Read what LangChain reports about a model's answer and about documents. Values that are not
reported are None, never 0.
"""

from __future__ import annotations

from typing import Any

from assay.tracing.rules import passage_id, reported_cost
from assay.tracing.spans import RequestedCall, RetrievedDocument, count, name


def answer_of(response: Any, model: str | None, *, is_form: bool) -> dict[str, Any]:
    """What a model answered and used, as fields of a `Meaning`. `is_form` says that the tool it was
    offered only gives its answer a structure.
    """
    message = next(
        (
            getattr(generation, "message", None)
            for several in response.generations
            for generation in several
        ),
        None,
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
    counts, given, made = (usage, "input", "output") if usage else (older, "prompt", "completion")
    return {
        "model": name(about.get("model_name")) or name(about.get("model")) or name(model),
        "input_tokens": count(counts.get(f"{given}_tokens")),
        "output_tokens": count(counts.get(f"{made}_tokens")),
        "total_tokens": count(counts.get("total_tokens")),
        "cost_usd": reported_cost([about, about.get("token_usage"), usage, older]),
        "calls": () if is_form else tuple(calls),
    }


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
