"""A LangGraph graph as a workflow: `target` is a compiled graph, a `StateGraph`, or a function that
builds one.

The evidence comes from LangChain's own callbacks, by the rules of `trail`. A run of a node of the
outermost graph is a step; a rerun of the same task under a retry policy is the same step. LangSmith
never hears of it: a gate must not send a team's samples anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from assay.errors import InputError
from assay.running.adapters import CallFailed
from assay.running.adapters.langgraph_story import ears_for, routes_of
from assay.running.adapters.loading import load
from assay.running.adapters.targets import (
    agents_of,
    built,
    check_keys,
    framework,
    outputs_of,
    plain,
    renamed,
)
from assay.running.adapters.trail import Trail

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from assay.running.adapters import Task
    from assay.running.recorder import Recorder

KEYS = ("target", "input", "output", "agents", "config")


def make(spec: Mapping[str, Any], folder: Path, where: str) -> LangGraph:
    """The adapter for a graph."""
    check_keys(spec, KEYS, "a langgraph adapter", where)
    if not isinstance(spec.get("config", {}), Mapping):
        raise InputError(
            "RUN-001",
            f"adapter.config is {spec['config']!r}; it is what LangGraph calls a config.",
            where=where,
        )
    renamed(spec.get("input"), {}, where)
    framework("langgraph.graph", "langgraph", where)
    framework("langchain_core.callbacks", "langgraph", where)
    target = load(spec.get("target"), folder, where)
    if not (_is_graph(target) or callable(target)):
        raise InputError(
            "RUN-004",
            f"{spec['target']!r} is {type(target).__name__}; it is a graph or a function that"
            " builds one.",
            where=where,
        )
    return LangGraph(target, spec, where)


def _is_graph(target: Any) -> bool:
    return not isinstance(target, type) and (
        hasattr(target, "ainvoke") or hasattr(target, "compile")
    )


class LangGraph:
    """A graph, called with the inputs of a task as its state."""

    def __init__(self, target: Any, spec: Mapping[str, Any], where: str) -> None:
        self._target = target
        self._spec = spec
        self._where = where
        self._agents = agents_of(spec)

    async def call(self, task: Task, record: Recorder) -> Mapping[str, Any]:
        """The state at the end, or the parts of it that the workflow file asks for."""
        graph = await self._graph()
        trail = Trail(record, agents=self._agents)
        routes = routes_of(graph)
        if routes is not None:
            record.watched("handoffs")
        ears = ears_for(trail, routes)
        state = renamed(self._spec.get("input"), task.inputs, self._where)
        interrupted = True
        try:
            with _no_tracing():
                result = await graph.ainvoke(state, self._config(ears))
            interrupted = False
        except Exception:
            interrupted = False
            raise
        finally:
            ears.finish()
            trail.close(interrupted=interrupted)
        if ears.fault is not None:
            raise ears.fault
        if isinstance(result, Mapping) and result.get("__interrupt__"):
            raise CallFailed(
                "the graph waits for a person (interrupt), and there is none.", again=False
            )
        return outputs_of(plain(result, _message), self._spec.get("output"))

    async def close(self) -> None:
        """Nothing to let go of."""

    async def _graph(self) -> Any:
        found = await built(self._target, _is_graph)
        if hasattr(found, "compile") and not hasattr(found, "ainvoke"):
            found = found.compile()
        if not hasattr(found, "ainvoke"):
            raise InputError(
                "RUN-004",
                f"{self._spec['target']!r} gives {type(found).__name__}; it gives a graph.",
                where=self._where,
            )
        return found

    def _config(self, ears: Any) -> dict[str, Any]:
        """A thread of its own for each call: a graph with a memory must not remember the sample
        before.
        """
        config = dict(self._spec.get("config", {}))
        config["configurable"] = {"thread_id": str(uuid4()), **config.get("configurable", {})}
        config["callbacks"] = [ears]
        return config


@contextmanager
def _no_tracing() -> Iterator[None]:
    """LangSmith off, whatever the environment says."""
    from langsmith.run_helpers import tracing_context

    with tracing_context(enabled=False):
        yield


def _message(value: Any) -> Any:
    """A message as its role and its text."""
    from langchain_core.messages import BaseMessage

    if not isinstance(value, BaseMessage):
        return value
    return {
        "role": value.type,
        "content": value.content if isinstance(value.content, str) else str(value.text),
    }
