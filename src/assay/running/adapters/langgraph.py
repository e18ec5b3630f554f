"""A LangGraph graph as a workflow: `target` is a compiled graph, a `StateGraph`, or a function that
builds one.

The evidence comes from LangChain's own callbacks. A run of a node of the outermost graph is a step;
a rerun of the same task under a retry policy is the same step. LangSmith is switched off: a gate
must not send a team's samples anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from assay.running.adapters import Adapter, WorkflowTask, read_spec
from assay.running.adapters.targets import Target, TargetSpec, framework, outputs_of, plain
from assay.tracing.failures import CallFailed, describe
from assay.tracing.live import LiveRun
from assay.tracing.recorder import Recorder
from assay.tracing.rules import offered_tools, passage_id, reported_cost
from assay.tracing.spans import (
    Kind,
    Meaning,
    RequestedCall,
    RetrievedDocument,
    Span,
    count,
    name,
    text,
)


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
        led = set(self.always.get(node, ()))
        for source, ends in self.chosen.get(node, {}).items():
            # if the choice was not observed, each end is possible
            led |= (
                _chosen(choices[source], ends) if source in choices else set((ends or {}).values())
            )
        for output in outputs if isinstance(outputs, list | tuple) else [outputs]:
            if hasattr(output, "goto"):
                led |= _chosen(output.goto, None)
        return led


def _chosen(choice: Any, ends: Mapping[Any, str] | None) -> set[str]:
    """The nodes that a choice or a `goto` names: one or several, by name, by an alias, or as
    `Send`.
    """
    several = choice if isinstance(choice, list | tuple) else [choice]
    return {
        str(node.node) if hasattr(node, "node") else str((ends or {}).get(node, node))
        for node in several
    }


def routes_of(graph: Any) -> Routes | None:
    """The edges of a graph; None if it is not built from nodes and edges, so that it is unknown
    which node led to which.
    """
    while not hasattr(graph, "builder") and hasattr(graph, "bound"):
        graph = graph.bound
    builder = getattr(graph, "builder", None)
    if builder is None or not hasattr(builder, "edges"):
        return None
    joins = [
        (start, end) for starts, end in getattr(builder, "waiting_edges", ()) for start in starts
    ]
    always: dict[str, set[str]] = {}
    for start, end in [*builder.edges, *joins]:
        always.setdefault(start, set()).add(end)
    chosen = {
        node: {branch.path.name: branch.ends for branch in branches.values()}
        for node, branches in builder.branches.items()
    }
    return Routes(always, chosen)


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


def _heard(report: Callable[..., None]) -> Callable[..., None]:
    """A callback whose errors are kept until the run ends: LangChain would only log them."""

    @wraps(report)
    def callback(self: _Callbacks, *what: Any, **more: Any) -> None:
        self.live.hear(report, self, *what, **more)

    return callback


class _Callbacks:
    """The callbacks of one run of a graph, in LangChain's names: each run that begins is a span."""

    run_inline = True  # so that the end of a step is never reported before its beginning

    def __init__(self, live: LiveRun, routes: Routes) -> None:
        self.live = live
        self.routes = routes
        self.root: Any = None
        self.nodes: dict[Any, _Node] = {}
        self.done: list[_Node] = []
        self.branches: dict[Any, tuple[_Node, str | None]] = {}
        self.models: dict[Any, tuple[str | None, bool]] = {}
        """The name of each model whose answer is awaited, and whether that is structured output."""

    def _begin(
        self, run_id: Any, parent_run_id: Any, meant: Meaning, *, sources: Sequence[str] = ()
    ) -> None:
        parent = None if parent_run_id is None else str(parent_run_id)
        # it is known which nodes led to a node, if any: see `tracing.handoffs`
        known = {"executor.id": meant.name} if run_id in self.nodes else {}
        span = Span("", str(run_id), parent, meant.name, 0, None, known, (), None, {}, sources)
        self.live.begins(span, meant)

    # --- nodes

    @_heard
    def on_chain_start(
        self,
        serialized: Any,
        inputs: Any,
        *,
        run_id: Any,
        parent_run_id: Any = None,
        metadata: Any = None,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        **more: Any,
    ) -> None:
        metadata = metadata or {}
        kind: Kind = "other"
        sources: list[str] = []
        node, task = metadata.get("langgraph_node"), metadata.get("langgraph_checkpoint_ns")
        if parent_run_id is None and self.root is None:
            self.root, kind = run_id, "workflow"
        elif name == node and task and not str(node).startswith("__"):
            kind = "step"
            if parent_run_id == self.root:
                superstep = int(metadata.get("langgraph_step") or 0)
                begun = self.nodes[run_id] = _Node(str(run_id), str(node), superstep)
                sources = self._sources(begun)
        elif parent_run_id in self.nodes:
            parent = self.nodes[parent_run_id]
            # the first part of a node is what it does; those after it write and choose
            later = any(tag.startswith("seq:step:") and tag != "seq:step:1" for tag in tags or ())
            if later and name in self.routes.chosen.get(parent.name, {}):
                self.branches[run_id] = (parent, name)
        meant = Meaning(kind, str(name), execution=task if kind == "step" else None)
        self._begin(run_id, parent_run_id, meant, sources=sources)

    def _sources(self, begun: _Node) -> list[str]:
        """The steps that led here and have not led here before; if none is known, all that ended
        last, because a missing handoff could hide a broken rule.
        """
        before = [node for node in self.done if node.superstep < begun.superstep]
        led = [
            node
            for node in before
            if begun.name in node.to
            and node.taken.setdefault(begun.name, begun.superstep) == begun.superstep
        ]
        last = max((node.superstep for node in before), default=0)
        return [node.key for node in led or before if led or node.superstep == last]

    @_heard
    def on_chain_end(self, outputs: Any, *, run_id: Any, **more: Any) -> None:
        self._chain_ends(outputs, run_id)

    def _chain_ends(self, outputs: Any, run_id: Any) -> None:
        if run_id in self.branches:
            node, name = self.branches.pop(run_id)
            node.choices[name] = outputs
        elif run_id in self.nodes:
            node = self.nodes.pop(run_id)
            node.to = self.routes.after(node.name, outputs, node.choices)
            self.done.append(node)
        self.live.ends(str(run_id))

    @_heard
    def on_chain_error(self, error: BaseException, *, run_id: Any, **more: Any) -> None:
        from langgraph.errors import GraphBubbleUp, ParentCommand

        if isinstance(error, ParentCommand):  # a part of the node sends the work to another node
            self._chain_ends(error.args[0], run_id)
        elif not isinstance(error, GraphBubbleUp):
            self.nodes.pop(run_id, None)
            cancelled = not isinstance(error, Exception)
            self.live.ends(str(run_id), error=describe(error), cancelled=cancelled)

    # --- models

    @_heard
    def on_chat_model_start(
        self,
        serialized: Any,
        messages: Any,
        *,
        run_id: Any,
        parent_run_id: Any = None,
        metadata: Any = None,
        invocation_params: Any = None,
        **more: Any,
    ) -> None:
        metadata = metadata or {}
        self.models[run_id] = (
            metadata.get("ls_model_name"),
            "ls_structured_output_format" in metadata,
        )
        meant = Meaning(
            "model",
            "model",
            agent=text(metadata.get("lc_agent_name")),
            offered=offered_tools((invocation_params or {}).get("tools")),
        )
        self._begin(run_id, parent_run_id, meant)

    on_llm_start = on_chat_model_start

    @_heard
    def on_llm_end(self, response: Any, *, run_id: Any, **more: Any) -> None:
        model, is_form = self.models.pop(run_id)
        self.live.ends(str(run_id), **answer_of(response, model, is_form=is_form))

    @_heard
    def on_llm_error(self, error: BaseException, *, run_id: Any, **more: Any) -> None:
        self.live.ends(str(run_id), error=describe(error))

    # --- tools and searches

    @_heard
    def on_tool_start(
        self,
        serialized: Any,
        input_str: str,
        *,
        run_id: Any,
        parent_run_id: Any = None,
        inputs: Any = None,
        name: str | None = None,
        tool_call_id: str | None = None,
        **more: Any,
    ) -> None:
        meant = Meaning(
            "tool",
            name or (serialized or {}).get("name") or "tool",
            arguments=input_str if inputs is None else inputs,
            call_id=tool_call_id,
            valid=True,  # the framework accepted the arguments, unless it says otherwise
        )
        self._begin(run_id, parent_run_id, meant)

    @_heard
    def on_tool_end(self, output: Any, *, run_id: Any, **more: Any) -> None:
        failed = getattr(output, "status", None) == "error"
        self.live.ends(str(run_id), error=str(output.content) if failed else None)

    @_heard
    def on_tool_error(self, error: BaseException, *, run_id: Any, **more: Any) -> None:
        self.live.ends(str(run_id), error=describe(error), refused=is_refusal(error))

    @_heard
    def on_retriever_end(
        self, documents: Any, *, run_id: Any, parent_run_id: Any = None, **more: Any
    ) -> None:
        documents_read = tuple(passage(document) for document in documents)
        self._begin(
            run_id, parent_run_id, Meaning("retrieval", "retrieval", documents=documents_read)
        )
        self.live.ends(str(run_id))


def callbacks_for(live: LiveRun, routes: Routes | None) -> Any:
    """A callback handler that reports to a run."""
    from langchain_core.callbacks import BaseCallbackHandler

    class Handler(_Callbacks, BaseCallbackHandler):
        pass

    return Handler(live, routes or Routes({}, {}))


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
