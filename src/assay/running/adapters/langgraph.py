"""A LangGraph graph as a workflow: `target` is a compiled graph, a `StateGraph`, or a function that
builds one.

The evidence comes from LangChain's own callbacks. A run of a node of the outermost graph is a step;
a rerun of the same task under a retry policy is the same step. LangSmith is switched off: a gate
must not send a team's samples anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from assay.running.adapters import Adapter, WorkflowTask, read_spec
from assay.running.adapters.langgraph_callbacks import callbacks_for, routes_of
from assay.running.adapters.targets import Target, TargetSpec, framework, outputs_of, plain
from assay.tracing.failures import CallFailed
from assay.tracing.live import LiveRun
from assay.tracing.recorder import Recorder


class LangGraphSpec(TargetSpec, frozen=True, kw_only=True):
    """The keys of a langgraph adapter."""

    input: dict[str, str] | None = None
    """The input for each key of the state."""
    config: dict[str, Any] = {}
    """What LangGraph calls a config."""


def make(given: Mapping[str, Any], folder: Path, where: str) -> LangGraphAdapter:
    """A LangGraph graph."""
    spec = read_spec(given, LangGraphSpec, where)
    framework("langgraph.graph", "langgraph", where)
    framework("langchain_core.callbacks", "langgraph", where)
    return LangGraphAdapter(
        Target.load(spec.target, folder, where, what="a graph", is_ready=is_graph), spec
    )


def is_graph(target: Any) -> bool:
    """Whether this is a graph, compiled or not."""
    return not isinstance(target, type) and (
        hasattr(target, "ainvoke") or hasattr(target, "compile")
    )


class LangGraphAdapter(Adapter):
    """A graph, called with the inputs of a task as its state."""

    def __init__(self, target: Target, spec: LangGraphSpec) -> None:
        self._target = target
        self._spec = spec

    async def call(self, task: WorkflowTask, record: Recorder) -> Mapping[str, Any]:
        """The state at the end, or the parts of it that the workflow file asks for."""
        from langsmith.run_helpers import tracing_context

        graph = await self._target.get()
        graph = graph if hasattr(graph, "ainvoke") else graph.compile()
        live = LiveRun(record, agents=self._spec.agents)
        routes = routes_of(graph)
        if routes is not None:
            record.watched("handoffs")
        callbacks = callbacks_for(live, routes)
        with live.following(), tracing_context(enabled=False):
            result = await graph.ainvoke(self._state(task.inputs), self._config(callbacks))
        if isinstance(result, Mapping) and result.get("__interrupt__"):
            raise CallFailed(
                "the graph waits for a person (interrupt), who can't answer here.", again=False
            )
        return outputs_of(plain(result, _message), self._spec.output)

    def _state(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs under the names of the state. An optional input that a sample lacks stays
        absent.
        """
        if self._spec.input is None:
            return dict(inputs)
        return {key: inputs[name] for key, name in self._spec.input.items() if name in inputs}

    def _config(self, callbacks: Any) -> dict[str, Any]:
        """Each call has its own thread: a graph with a memory must not remember the sample
        before.
        """
        config = dict(self._spec.config)
        config["configurable"] = {"thread_id": str(uuid4()), **config.get("configurable", {})}
        config["callbacks"] = [callbacks]
        return config


def _message(value: Any) -> Any:
    """A message as its role and its text."""
    from langchain_core.messages import BaseMessage

    if not isinstance(value, BaseMessage):
        return value
    return {
        "role": value.type,
        "content": value.content if isinstance(value.content, str) else str(value.text),
    }
