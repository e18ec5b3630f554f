"""What one span means: the GenAI semantic conventions and OpenInference, with the additions of
LangGraph, Agent Framework and Traceloop.

`meaning` looks at one span alone and guesses nothing: a span of an unknown kind is `other`. If a
span uses two dialects, the more detailed one wins. `genai` computes sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from assay.tracing.payloads import (
    Reader,
    asks_for_tools,
    calls_of,
    documents_of,
    offered_of,
    refusals_of,
    response_metadata,
    tool_of,
)
from assay.tracing.rules import reported_cost
from assay.tracing.spans import Kind, Meaning, Span, amount, count, mapping, name, text, tree

_OPERATIONS: dict[str, Kind] = {
    **dict.fromkeys(
        ("chat", "text_completion", "generate_content", "completion", "embeddings"), "model"
    ),
    **dict.fromkeys(("invoke_agent",), "agent"),
    "execute_tool": "tool",
    "retrieval": "retrieval",
    "invoke_workflow": "workflow",
    "execute_task": "step",
    "create_agent": "other",
    "handoff": "handoff",
}
_OPENINFERENCE: dict[str, Kind] = {
    "LLM": "model",
    "EMBEDDING": "model",
    "TOOL": "tool",
    "AGENT": "agent",
    "RETRIEVER": "retrieval",
    "CHAIN": "step",
}
_TRACELOOP: dict[str, Kind] = {
    "workflow": "workflow",
    "agent": "agent",
    "task": "step",
    "tool": "tool",
}
_FRAMEWORK: tuple[tuple[str, Kind], ...] = (
    ("executor.process", "step"),
    ("workflow.run", "workflow"),
    ("workflow.build", "other"),
    ("message.send", "handoff"),
    ("edge_group.process", "handoff"),
)
_TOKENS_IN = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_TOKENS_OUT = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
)
_TOKENS = ("gen_ai.usage.total_tokens", "llm.token_count.total", "llm.usage.total_tokens")
_COST = ("llm.cost.total", "gen_ai.usage.cost", "gen_ai.cost.total", "operation.cost")
_PARTS = ("llm.cost.prompt", "llm.cost.completion")
_FAILED = ("failure", "failed", "error")
_COMMANDS = ("ParentCommand:", "ParentCommand(", "langgraph.errors.ParentCommand")
_ASSOCIATED = "traceloop.association.properties."


def meaning(span: Span) -> Meaning:
    """The meaning of a span.

    >>> chat = meaning(
    ...     Span(
    ...         "t",
    ...         "s",
    ...         None,
    ...         "chat m-1",
    ...         0,
    ...         9,
    ...         {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 3},
    ...         (),
    ...         None,
    ...         {},
    ...     )
    ... )
    >>> chat.kind, chat.input_tokens, chat.tokens
    ('model', 3, None)
    """
    read = Reader(span.attributes)
    graph = _graph(span.attributes)
    kind = _kind(span, graph)
    node = name(graph.get("langgraph_node"))
    own: dict[str, Any] = (
        tool_of(span, read) if kind == "tool" else {"name": _name(span, kind, node)}
    )
    error, is_task_status = _error(span)
    own["error"] = error or own.get("error")
    speaks = kind in ("model", "agent")
    answer = response_metadata(span.attributes) if kind == "model" else {}
    # structured output: the only tool that the model is shown is the format of its answer
    is_form = "ls_structured_output_format" in graph
    return Meaning(
        kind=kind,
        agent=read.first(name, ("gen_ai.agent.name", "agent.name"))
        or (name(graph.get("lc_agent_name")) if kind == "model" else None),
        model=_model(read, answer) if speaks else None,
        input_tokens=read.first(count, _TOKENS_IN),
        output_tokens=read.first(count, _TOKENS_OUT),
        total_tokens=read.first(count, _TOKENS),
        cost_usd=_cost(read, answer),
        documents=documents_of(span.attributes) if kind == "retrieval" else None,
        calls=None if not speaks else () if is_form else calls_of(span.attributes),
        asks_for_tools=(
            None if not speaks else False if is_form else asks_for_tools(span.attributes)
        ),
        offered=offered_of(span.attributes) if speaks else None,
        refusals=refusals_of(span.attributes) if kind == "agent" else (),
        execution=name(graph.get("langgraph_checkpoint_ns")),
        superstep=count(graph.get("langgraph_step")),
        sources=_sources(graph.get("langgraph_triggers")),
        unreadable=tuple(read.unreadable),
        is_task_status=is_task_status,
        **own,
    )


# --- kinds and names


def _graph(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """LangGraph's metadata of a span, wherever the dialect keeps it."""
    metadata = mapping(attributes.get("metadata"))
    if any(key.startswith("langgraph_") for key in metadata) or "ls_integration" in metadata:
        return metadata
    return {
        key[len(prefix) :]: value
        for prefix in (_ASSOCIATED, "metadata.")
        for key, value in attributes.items()
        if key.startswith(prefix)
    }


def _kind(span: Span, graph: Mapping[str, Any]) -> Kind:
    attributes = span.attributes
    for start, kind in _FRAMEWORK:
        if span.name == start or span.name.startswith(start + " "):
            return kind
    if "gen_ai.handoff.to_agent" in attributes:
        return "handoff"
    if attributes.get("traceloop.span.kind") == "workflow" or "gen_ai.workflow.nodes" in attributes:
        return "workflow"
    operation, stated = (
        attributes.get("gen_ai.operation.name"),
        attributes.get("openinference.span.kind"),
    )
    kind_found = _OPERATIONS.get(operation) if isinstance(operation, str) else None
    if kind_found is None and isinstance(stated, str):
        kind_found = _OPENINFERENCE.get(stated.upper(), "other")
    if kind_found is None:
        looped = attributes.get("traceloop.span.kind")
        kind_found = _TRACELOOP.get(looped) if isinstance(looped, str) else None
    if kind_found is None:
        kind_found = _plain_kind(attributes)
    return _placed(span, kind_found, graph) if kind_found in ("step", "agent") else kind_found


def _plain_kind(attributes: Mapping[str, Any]) -> Kind:
    """The kind of a span that names no operation: older conventions, and MCP."""
    if attributes.get("mcp.method.name") == "tools/call":
        return "tool"
    if attributes.get("llm.request.type") in ("chat", "completion", "embedding") or (
        "gen_ai.request.model" in attributes and "gen_ai.system" in attributes
    ):
        return "model"
    return "other"


def _placed(span: Span, kind: Kind, graph: Mapping[str, Any]) -> Kind:
    """The kind of a step or an agent within LangGraph: a span with its node's name is the node;
    anything else that runs inside a node is part of it.
    """
    node, stated = graph.get("langgraph_node"), span.attributes.get("openinference.span.kind")
    if isinstance(node, str):
        if node.startswith("__"):  # the start and the end of the graph
            return "other"
        own = name(span.attributes.get("traceloop.entity.name")) or span.name
        return "step" if own == node else kind if kind == "agent" else "other"
    if kind == "step" and isinstance(stated, str) and stated.upper() == "CHAIN":
        if "graph.node.id" in span.attributes:
            return "step"
        return (
            "workflow"
            if span.parent_id is None or graph.get("ls_integration") == "langgraph"
            else "other"
        )
    if kind == "agent" and graph.get("ls_integration") == "langgraph":
        return "workflow"
    return kind


def _name(span: Span, kind: Kind, node: str | None) -> str:
    attributes = span.attributes
    if kind == "step":
        keys = (
            "executor.id",
            "graph.node.name",
            "graph.node.id",
            "traceloop.entity.name",
            "gen_ai.task.name",
        )
        label = node or next(
            (label for label in (name(attributes.get(key)) for key in keys) if label is not None),
            None,
        )
    elif kind == "agent":
        label = (
            name(attributes.get("gen_ai.agent.name"))
            or name(attributes.get("agent.name"))
            or name(attributes.get("graph.node.id"))
        )
    else:
        label = None
    return label or name(span.name) or "unnamed"


def _sources(triggers: Any) -> tuple[str, ...] | None:
    """The nodes that a join waited for: `join:a+b:c`."""
    listed = tree(triggers)
    joins = (
        [
            trigger.split(":")
            for trigger in listed
            if isinstance(trigger, str) and trigger.startswith("join:")
        ]
        if isinstance(listed, list | tuple)
        else []
    )
    return tuple(joins[0][1].split("+")) if len(joins) == 1 and len(joins[0]) == 3 else None


# --- numbers and errors


def _model(read: Reader, answer: Mapping[str, Any]) -> str | None:
    """The model that answered, as named in the answer, else in the request."""
    names = (
        name(answer.get("model_name")) or name(answer.get("model")),
        *(
            name(read.attributes.get(key))
            for key in (
                "gen_ai.response.model",
                "gen_ai.request.model",
                "llm.model_name",
                "embedding.model_name",
            )
        ),
    )
    return next(
        (model for model in names if model is not None and model.lower() != "unknown"), None
    )


def _cost(read: Reader, answer: Mapping[str, Any]) -> int | Decimal | None:
    whole: int | Decimal | None = read.first(amount, _COST)
    parts = [read.first(amount, (key,)) for key in _PARTS]
    if whole is None and None not in parts:
        whole = sum(parts)
    if whole is not None:
        return whole
    return reported_cost([answer, mapping(answer.get("token_usage"))])


def _error(span: Span) -> tuple[str | None, bool]:
    """The error of a span, and whether it is only the status that a task reports. LangGraph raises
    an inner graph's command to its parent as an exception, which isn't a failure.
    """
    error = span.error or text(span.attributes.get("error.type"))
    if error is not None:
        return None if error.startswith(_COMMANDS) else error, False
    status = span.attributes.get("gen_ai.task.status")
    if isinstance(status, str) and status.lower() in _FAILED:
        return f"the task ended with status '{status}'", True
    return None, False
