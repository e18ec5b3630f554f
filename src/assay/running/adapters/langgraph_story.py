"""What LangChain's callbacks say of one run of a graph, told to a `Trail`.

A node run is a run right below the root that has the node's name; everything below it belongs to
it. Which node led to which is read off the edges of the graph, the choices of its conditional edges
and the commands that nodes return, because no callback says it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.running.adapters.langchain_answers import ModelCall, answer_of, is_refusal, passage, text
from assay.running.adapters.trail import Ran, Trail
from assay.running.checks import said
from assay.tracing.rules import offered_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

UNNAMED = "LangGraph"
"""The name of a graph that nobody named."""


# --- where a node leads


class Routes(NamedTuple):
    """The edges of a graph: those that always hold, and those that a function chooses, by the
    function's name; a lambda has none.
    """

    always: Mapping[str, set[str]]
    chosen: Mapping[str, Mapping[str | None, Mapping[Any, str] | None]]

    def after(self, node: str, outputs: Any, choices: Mapping[str | None, Any]) -> set[str]:
        """The nodes that a run of a node leads to: its edges, what its conditional edges chose, and
        where its `Command` goes.
        """
        found = set(self.always.get(node, ()))
        for name, ends in self.chosen.get(node, {}).items():
            if name in choices:
                found.update(_chosen(choices[name], ends or {}))
            else:
                found.update((ends or {}).values())  # nobody saw the choice: any of them may be
        for one in outputs if isinstance(outputs, list | tuple) else [outputs]:
            if hasattr(one, "goto"):
                found.update(_chosen(one.goto, {}))
        return found


def _chosen(given: Any, ends: Mapping[Any, str]) -> set[str]:
    """The nodes that a choice or a `goto` names: one or several, by name, by what stands for the
    name, or as `Send`.
    """
    several = given if isinstance(given, list | tuple) else [given]
    return {str(one.node) if hasattr(one, "node") else str(ends.get(one, one)) for one in several}


def routes_of(graph: Any) -> Routes | None:
    """The edges of a graph; None where it is not built from nodes and edges, so that nobody can
    tell who handed on to whom.
    """
    while not hasattr(graph, "builder") and hasattr(graph, "bound"):
        graph = graph.bound
    builder = getattr(graph, "builder", None)
    if builder is None or not hasattr(builder, "edges"):
        return None
    always: dict[str, set[str]] = {}
    for start, end in builder.edges:
        always.setdefault(start, set()).add(end)
    for starts, end in getattr(builder, "waiting_edges", ()):
        for start in starts:
            always.setdefault(start, set()).add(end)
    chosen = {
        node: {branch.path.name: branch.ends for branch in branches.values()}
        for node, branches in builder.branches.items()
    }
    return Routes(always, chosen)


# --- hearing what happens


class _Node:
    """A run of a node of the outermost graph."""

    __slots__ = ("choices", "key", "name", "superstep", "taken", "to")

    def __init__(self, key: str, name: str, superstep: int) -> None:
        self.key = key
        self.name = name
        self.superstep = superstep
        self.choices: dict[str | None, Any] = {}
        self.to: set[str] = set()
        self.taken: dict[str, int] = {}


class _Tool(NamedTuple):
    name: str
    arguments: Any
    call_id: str | None
    key: str | None
    began: int


class _Story:
    """What the callbacks said so far of one run of a graph."""

    def __init__(self, trail: Trail, routes: Routes) -> None:
        self.trail = trail
        self.routes = routes
        self.root: Any = None
        self.nodes: dict[Any, _Node] = {}
        self.done: list[_Node] = []
        self.keys: dict[Any, str] = {}
        self.parents: dict[Any, tuple[Any, str | None]] = {}
        """What a run is a part of, and its own name."""
        self.graphs: set[Any] = set()
        """The runs of graphs inside a node."""
        self.branches: dict[Any, tuple[_Node, str | None]] = {}
        self.models: dict[Any, ModelCall] = {}
        self.tools: dict[Any, _Tool] = {}

    def chain_start(
        self,
        name: str | None,
        tags: Sequence[str],
        metadata: Mapping[str, Any],
        run: Any,
        parent: Any,
    ) -> None:
        if parent is None and self.root is None:
            self.root = run
            return
        node, place = (
            metadata.get("langgraph_node"),
            str(metadata.get("langgraph_checkpoint_ns") or ""),
        )
        key = place.split("|")[0]
        self.parents[run] = (parent, name)
        if key:
            self.keys[run] = key
        if name == node and parent != self.root:
            self.graphs.add(parent)
        if (
            parent == self.root
            and name == node
            and isinstance(node, str)
            and not node.startswith("__")
            and key
        ):
            begun = self.nodes[run] = _Node(key, node, int(metadata.get("langgraph_step") or 0))
            self.trail.begins(key, node, sources=self._sources(begun))
        elif (
            parent in self.nodes
            and name in self.routes.chosen.get(self.nodes[parent].name, {})
            and _is_after_body(tags)
        ):
            self.branches[run] = (self.nodes[parent], name)

    def _sources(self, begun: _Node) -> list[str]:
        """The steps that led here and did not lead here before; where none is known to, all that
        ended last: a handoff left out would keep a rule.
        """
        before = [one for one in self.done if one.superstep < begun.superstep]
        found = [
            one
            for one in before
            if begun.name in one.to
            and one.taken.setdefault(begun.name, begun.superstep) == begun.superstep
        ]
        last = max((one.superstep for one in before), default=0)
        return [one.key for one in found or before if found or one.superstep == last]

    def chain_end(self, outputs: Any, run: Any) -> None:
        if run in self.branches:
            node, name = self.branches.pop(run)
            node.choices[name] = outputs
        elif run in self.nodes:
            node = self.nodes.pop(run)
            node.to = self.routes.after(node.name, outputs, node.choices)
            self.done.append(node)
            self.trail.ends(node.key)

    def chain_error(self, error: BaseException, run: Any) -> None:
        from langgraph.errors import GraphBubbleUp, ParentCommand

        if isinstance(
            error, ParentCommand
        ):  # not an error: a part of the node sends the work to another node
            self.chain_end(error.args[0], run)
        elif run in self.nodes:
            node = self.nodes.pop(run)
            if not isinstance(error, GraphBubbleUp):
                self.trail.fails(node.key, said(error), cancelled=not isinstance(error, Exception))

    def model_start(
        self, metadata: Mapping[str, Any], params: Mapping[str, Any], run: Any, parent: Any
    ) -> None:
        key = self._key(metadata, parent)
        if key is None:
            return
        unit = (parent, "model")
        self.models[run] = ModelCall(
            key,
            unit,
            metadata.get("ls_model_name"),
            offered_tools(params.get("tools")),
            "ls_structured_output_format" in metadata,
        )
        self.trail.speaks(key, text(metadata.get("lc_agent_name")) or self._graph_name(parent))
        self.trail.tries(key, unit)

    def _graph_name(self, run: Any) -> str | None:
        """The name of the outermost graph inside the node that a run belongs to: the agent that the
        node runs.
        """
        found = None
        while run in self.parents and run not in self.nodes:
            parent, name = self.parents[run]
            if run in self.graphs and name != UNNAMED:
                found = name
            run = parent
        return found

    def model_end(self, response: Any, run: Any) -> None:
        asked = self.models.pop(run, None)
        if asked is not None:
            self.trail.answers(asked.key, answer_of(response, asked))

    def model_error(self, error: BaseException, run: Any) -> None:
        asked = self.models.pop(run, None)
        if asked is not None and isinstance(error, Exception):
            self.trail.breaks(asked.key, asked.unit)

    def tool_start(
        self,
        name: str,
        arguments: Any,
        call_id: str | None,
        metadata: Mapping[str, Any],
        run: Any,
        parent: Any,
    ) -> None:
        self.tools[run] = _Tool(
            name, arguments, call_id, self._key(metadata, parent), self.trail.moment()
        )
        if self.tools[run].key is not None:
            self.keys[run] = str(self.tools[run].key)

    def tool_end(self, run: Any, error: str | None, refused: bool) -> None:
        tool = self.tools.pop(run, None)
        if tool is not None:
            self.trail.runs(
                tool.key, Ran(tool.name, tool.arguments, tool.call_id, error, refused, tool.began)
            )

    def finish(self) -> None:
        """The run is over: a tool that is still at work was cut off, and no callback says so."""
        for run in list(self.tools):
            self.tool_end(run, "CancelledError", False)

    def _key(self, metadata: Mapping[str, Any], parent: Any) -> str | None:
        place = str(metadata.get("langgraph_checkpoint_ns") or "")
        return place.split("|")[0] or self.keys.get(parent)


def _is_after_body(tags: Sequence[str]) -> bool:
    """Whether a run is a later part of a node: the first is what the node does, those after it
    write and choose.
    """
    return any(tag.startswith("seq:step:") and tag != "seq:step:1" for tag in tags)


def ears_for(trail: Trail, routes: Routes | None) -> Any:
    """A callback handler that tells a story. It runs in line, so that a step's end is never heard
    before its beginning.
    """
    from langchain_core.callbacks import BaseCallbackHandler

    story, lock = _Story(trail, routes or Routes({}, {})), threading.RLock()

    class Ears(BaseCallbackHandler):
        run_inline = True
        fault: Exception | None = None

        def hear(self, tell: Callable[..., None], *what: Any) -> None:
            try:
                with lock:
                    tell(*what)
            except (
                Exception
                # LangChain would only log it, and the run would look whole without its evidence
            ) as error:
                self.fault = self.fault or error

        def finish(self) -> None:
            self.hear(story.finish)

        def on_chain_start(
            self,
            serialized: Any,
            inputs: Any,
            *,
            run_id: Any,
            parent_run_id: Any = None,
            metadata: Any = None,
            **more: Any,
        ) -> None:
            self.hear(
                story.chain_start,
                more.get("name"),
                more.get("tags") or (),
                metadata or {},
                run_id,
                parent_run_id,
            )

        def on_chain_end(self, outputs: Any, *, run_id: Any, **more: Any) -> None:
            self.hear(story.chain_end, outputs, run_id)

        def on_chain_error(self, error: BaseException, *, run_id: Any, **more: Any) -> None:
            self.hear(story.chain_error, error, run_id)

        def on_chat_model_start(
            self,
            serialized: Any,
            messages: Any,
            *,
            run_id: Any,
            parent_run_id: Any = None,
            metadata: Any = None,
            **more: Any,
        ) -> None:
            self.hear(
                story.model_start,
                metadata or {},
                more.get("invocation_params") or {},
                run_id,
                parent_run_id,
            )

        def on_llm_start(
            self,
            serialized: Any,
            prompts: Any,
            *,
            run_id: Any,
            parent_run_id: Any = None,
            metadata: Any = None,
            **more: Any,
        ) -> None:
            self.hear(
                story.model_start,
                metadata or {},
                more.get("invocation_params") or {},
                run_id,
                parent_run_id,
            )

        def on_llm_end(self, response: Any, *, run_id: Any, **more: Any) -> None:
            self.hear(story.model_end, response, run_id)

        def on_llm_error(self, error: BaseException, *, run_id: Any, **more: Any) -> None:
            self.hear(story.model_error, error, run_id)

        def on_tool_start(
            self,
            serialized: Any,
            input_str: str,
            *,
            run_id: Any,
            parent_run_id: Any = None,
            metadata: Any = None,
            inputs: Any = None,
            **more: Any,
        ) -> None:
            name = more.get("name") or (serialized or {}).get("name") or "tool"
            self.hear(
                story.tool_start,
                name,
                input_str if inputs is None else inputs,
                more.get("tool_call_id"),
                metadata or {},
                run_id,
                parent_run_id,
            )

        def on_tool_end(self, output: Any, *, run_id: Any, **more: Any) -> None:
            failed = getattr(output, "status", None) == "error"
            self.hear(story.tool_end, run_id, str(output.content) if failed else None, False)

        def on_tool_error(self, error: BaseException, *, run_id: Any, **more: Any) -> None:
            self.hear(story.tool_end, run_id, said(error), is_refusal(error))

        def on_retriever_end(self, documents: Any, *, run_id: Any, **more: Any) -> None:
            self.hear(trail.finds, [passage(one) for one in documents])

    return Ears()
