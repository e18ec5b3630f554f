"""Reading what LangChain says of a model's answer, of the tools it was shown and of documents. What
it does not say is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.running.adapters.trail import Answer, Asked
from assay.tracing.rules import passage_id

if TYPE_CHECKING:
    from collections.abc import Iterable

_COSTS = ("cost_usd", "total_cost", "cost")


class ModelCall(NamedTuple):
    """A model that is being asked."""

    key: str
    unit: tuple[Any, str]
    model: str | None
    offered: Mapping[str, Any] | None
    is_form: bool
    """Whether the tool it is shown is only the form of its answer."""


def answer_of(response: Any, asked: ModelCall) -> Answer:
    """What a model answered and used."""
    message = next(
        (getattr(one, "message", None) for several in response.generations for one in several), None
    )
    told = getattr(message, "response_metadata", None) or {}
    usage = getattr(message, "usage_metadata", None) or {}
    older = (
        (response.llm_output or {}).get("token_usage") or {}
        if isinstance(response.llm_output, Mapping)
        else {}
    )
    calls = [
        Asked(one["name"], one.get("args"), one.get("id"))
        for one in getattr(message, "tool_calls", None) or ()
    ]
    calls += [
        Asked(one["name"], str(one.get("args")), one.get("id"))
        for one in getattr(message, "invalid_tool_calls", None) or ()
        if one.get("name")
    ]
    return Answer(
        model=text(told.get("model_name")) or text(told.get("model")) or text(asked.model),
        tokens=(
            _total(usage)
            if usage
            else _total(
                {
                    **older,
                    "input_tokens": older.get("prompt_tokens"),
                    "output_tokens": older.get("completion_tokens"),
                }
            )
        ),
        cost_usd=_cost([told, told.get("token_usage"), usage, older]),
        calls=() if asked.is_form else calls,
        offered=asked.offered,
    )


def _total(usage: Mapping[str, Any]) -> int | None:
    parts = (usage.get("input_tokens"), usage.get("output_tokens"))
    if all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in parts):
        return int(parts[0] or 0) + int(parts[1] or 0)
    total = usage.get("total_tokens")
    return total if isinstance(total, int) and not isinstance(total, bool) and total >= 0 else None


def _cost(places: Iterable[Any]) -> Any:
    """What the call cost, where the provider says so."""
    for place in places:
        for name in _COSTS if isinstance(place, Mapping) else ():
            value = place.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
                return value
    return None


def is_refusal(error: BaseException) -> bool:
    """Whether the tool was never reached because its own schema refused the arguments."""
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_name == "_parse_input":
            return True
        at = at.tb_next
    return False


def passage(document: Any) -> tuple[str | None, str | None]:
    """The id and the text of a document."""
    return passage_id(getattr(document, "id", None), getattr(document, "metadata", None)), text(
        getattr(document, "page_content", None)
    )


def text(value: Any) -> str | None:
    """A text that is not empty, else None."""
    return value if isinstance(value, str) and value else None
