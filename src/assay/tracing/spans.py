"""Spans, their meaning in Assay's terms, and checked reading of single attributes.

Attributes are untrusted. A number that is text, NaN or out of range becomes None and is listed in
`unreadable`, so that it counts as missing evidence. `dialects` reads the dialects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from assay.exact import is_amount
from assay.files.json_files import parse_json
from assay.tracing.failures import failure

Kind = Literal["workflow", "agent", "step", "model", "tool", "retrieval", "handoff", "other"]

MAX_COUNT = 10**15
MAX_NAME = 500
"""The longest name that is kept, in characters."""


class Span(NamedTuple):
    """One span."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int
    end_ns: int | None
    """None if it never ended."""
    attributes: Mapping[str, Any]
    events: Sequence[tuple[str, Mapping[str, Any]]]
    error: str | None
    """The exception or the status message; None if the span didn't fail."""
    resource: Mapping[str, Any]
    links: Sequence[str] = ()
    """Ids of spans that caused this one without containing it, as in a handoff."""
    remote_parent: bool = False
    """Whether the parent is known to be in another program: it may be absent from the trace."""
    dropped: int = 0
    """Attributes and links that the exporter left out, as the span states. No event is needed."""


class RetrievedDocument(NamedTuple):
    """One retrieved passage in a span."""

    id: str | None
    text: str | None


class RequestedCall(NamedTuple):
    """A tool call that a model asked for."""

    name: str
    arguments: Any
    """An object, or the text if it isn't one; None if they were not recorded."""
    call_id: str | None


class Meaning(NamedTuple):
    """What a span means in Assay's terms; None for what it doesn't state."""

    kind: Kind
    name: str
    agent: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: int | Decimal | None = None
    arguments: Any = None
    call_id: str | None = None
    error: str | None = None
    documents: tuple[RetrievedDocument, ...] | None = None
    total_tokens: int | None = None
    """The sum that the span states, for spans that don't state both parts."""
    calls: tuple[RequestedCall, ...] | None = None
    """The tool calls that a model's answer asks for; None if the answer is not recorded."""
    asks_for_tools: bool | None = None
    """Whether a model's answer ended in order to call tools, by its finish reason."""
    offered: Mapping[str, Any] | None = None
    """The tools that a model or agent was shown, each with its JSON Schema; None if unknown."""
    valid: bool | None = None
    refused: bool = False
    """Whether a tool was not called because its schema refused the arguments."""
    refusals: tuple[str, ...] = ()
    """Ids of an agent's calls that were refused like this, where only the model saw the refusal."""
    execution: str | None = None
    """Which execution of a node it belongs to: a LangGraph checkpoint namespace."""
    superstep: int | None = None
    sources: tuple[str, ...] | None = None
    """The nodes that triggered this one, where it names them."""
    unreadable: tuple[str, ...] = ()
    """Attributes with an invalid value."""
    is_task_status: bool = False
    """Whether the error is only the status that a task reports."""

    @property
    def status(self) -> str:
        """The status of a step or a run for this span."""
        if self.error is None:
            return "success"
        return "failed" if self.is_task_status else failure(self.error)

    @property
    def tokens(self) -> int | None:
        """Input and output tokens together; None if unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return self.total_tokens
        return self.input_tokens + self.output_tokens


def text(value: Any) -> str | None:
    """A text that is not empty, else None.

    >>> [text(x) for x in ("a", " ", 3, None)]
    ['a', None, None, None]
    """
    return value if isinstance(value, str) and value.strip() else None


def name(value: Any) -> str | None:
    """A text short enough to be a name."""
    label = text(value)
    return None if label is None else label[:MAX_NAME]


def count(value: Any) -> int | None:
    """A whole number of at least 0, else None. A numeric text is not a number.

    >>> [count(x) for x in (3, 3.0, "3", True, -1, 1.5, float("nan"), 10**30)]
    [3, 3, None, None, None, None, None, None]
    """
    if not is_amount(value) or value > MAX_COUNT or value != int(value):
        return None
    return int(value)


def amount(value: Any) -> int | Decimal | None:
    """A number of at least 0, exact, else None.

    >>> [amount(x) for x in (0, 0.25, "0.25", float("inf"), -1)]
    [0, Decimal('0.25'), None, None, None]
    """
    if not is_amount(value):
        return None
    return Decimal(repr(value)) if isinstance(value, float) else value


def tree(value: Any) -> Any:
    """An attribute that contains JSON as text, or is already structured; other text stays text.

    >>> tree('{"a": 2}'), tree("plain"), tree({"a": 2})
    ({'a': 2}, 'plain', {'a': 2})
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
        return value
    try:
        return parse_json(value.encode("utf-8", "replace"))
    except ValueError:
        return value


def mapping(value: Any) -> Mapping[str, Any]:
    """An object, as JSON text or already structured; empty for anything else."""
    value_read = tree(value)
    return value_read if isinstance(value_read, dict) else {}
