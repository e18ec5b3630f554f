"""LangGraph and Agent Framework, each alone: what becomes evidence, and what happens when things go
wrong.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph.version", reason="the langgraph extra is not installed")
pytest.importorskip("agent_framework", reason="the agent-framework extra is not installed")
pytest.importorskip("opentelemetry.sdk.trace", reason="the agent-framework extra is not installed")

from agent_framework import Executor, WorkflowBuilder, WorkflowContext, handler

from assay.errors import InputError
from assay.installing import install_hint
from assay.running.adapters import WorkflowTask, agent_framework, langgraph, make_adapter
from assay.running.adapters.loading import load
from assay.running.adapters.targets import Target, framework
from assay.tracing.failures import CallFailed
from assay.tracing.recorder import Recorder
from assay.tracing.rules import BROKEN, UNKNOWN
from examples import repeats

FOLDER = Path(__file__).parent / "fixtures" / "parity"
KINDS = ("langgraph", "agent_framework")


def made_of(kind: str, target: Any, **spec: Any) -> Any:
    """The adapter of a kind for an object that is already here."""
    if kind == "langgraph":
        graph = Target(target, "test:target", "test", what="a graph", is_ready=langgraph.is_graph)
        return langgraph.LangGraphAdapter(
            graph, langgraph.LangGraphSpec(target="test:target", **spec)
        )
    runnable = Target(
        target, "test:target", "test", what="an agent", is_ready=agent_framework.is_runnable
    )
    return agent_framework.AgentFrameworkAdapter(
        runnable, agent_framework.AgentFrameworkSpec(target="test:target", **spec)
    )


def piece(name: str) -> Any:
    return load(name, FOLDER, "test")


def turn(text: str = "", *calls: Any, **more: Any) -> Any:
    return piece("script:Turn")(text, calls, tokens_in=3, tokens_out=2, **more)


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def lone(kind: str, turns: list[Any], *tools: Any) -> Any:
    """One agent with tools, in either framework, as a step named `calc`."""
    if kind == "agent_framework":
        return piece("flow:agent")("calc", turns, tools)
    return one_node("calc", turns, tools)


def one_node(name: str, turns: list[Any], tools: tuple[Any, ...]) -> Any:
    from langgraph.graph import END, START, MessagesState, StateGraph

    graph = StateGraph(MessagesState)
    graph.add_node(name, agent_graph(name, turns, tools))
    graph.add_edge(START, name)
    graph.add_edge(name, END)
    return graph.compile()


def agent_graph(name: str, turns: list[Any], tools: tuple[Any, ...]) -> Any:
    from langchain_core.tools import StructuredTool
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    made = [
        (
            StructuredTool.from_function(coroutine=one)
            if asyncio.iscoroutinefunction(one)
            else StructuredTool.from_function(one)
        )
        for one in tools
    ]
    model: Any = piece("graph:Scripted")(left=turns)
    model = model.bind_tools(made) if made else model

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_edge(START, "think")
    if made:
        graph.add_node("tools", ToolNode(made, handle_tool_errors=True))
        graph.add_conditional_edges(
            "think",
            lambda state: "tools" if state["messages"][-1].tool_calls else END,
            ["tools", END],
        )
        graph.add_edge("tools", "think")
    return graph.compile(name=name)


def adapter(kind: str, target: Any, **spec: Any) -> Any:
    more = (
        {"input": {"messages": "question"}, "output": {"answer": "messages.-1.content"}}
        if kind == "langgraph" and not spec
        else spec
    )
    allowed = (
        {"content": True} if kind == "agent_framework" else {}
    )  # another test in this process may have set a tracer provider
    return made_of(kind, target, **more, **allowed)


def called(made: Any, *, record: Recorder | None = None, **inputs: Any) -> tuple[Any, Recorder]:
    record = record or Recorder(clock=None)
    return asyncio.run(
        made.call(WorkflowTask("r-1", 1, inputs or {"question": "2+3?"}), record)
    ), record


# --- one agent


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_agent_with_a_tool_is_one_step_with_its_call_and_its_tokens(kind: str) -> None:
    made = adapter(
        kind, lambda: lone(kind, [turn("", ("c1", "add", {"a": 2, "b": 3})), turn("5")], add)
    )
    outputs, record = called(made)
    assert outputs == {"answer": "5"}
    evidence = record.evidence()
    [shown] = evidence.pop("tools")  # what the call was held to
    assert (shown["name"], shown["schema"]["required"]) == ("add", ["a", "b"])
    assert evidence == {
        "steps": [
            {"name": "calc", "status": "success", "agent": "calc", "model": "m-1", "tokens": 10}
        ],
        "tool_calls": [
            {
                "name": "add",
                "step": "calc",
                "arguments": {"a": 2, "b": 3},
                "valid": True,
                "checked": True,
            }
        ],
        "handoffs": [],
        "retries": 0,
        "tokens": 10,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_that_break_the_schema_of_the_tool_make_the_call_invalid(kind: str) -> None:
    made = adapter(
        kind, lambda: lone(kind, [turn("", ("c1", "add", {"a": "two"})), turn("no")], add)
    )
    _, record = called(made)
    assert record.evidence()["tool_calls"] == [
        {
            "name": "add",
            "step": "calc",
            "arguments": {"a": "two"},
            "valid": False,
            "checked": True,
            "error": BROKEN,
        }
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_that_only_the_lax_reading_of_a_framework_accepts_are_invalid(kind: str) -> None:
    made = adapter(
        kind, lambda: lone(kind, [turn("", ("c1", "add", {"a": "2", "b": 3})), turn("5")], add)
    )
    _, record = called(made)
    assert record.evidence()["tool_calls"] == [
        {
            "name": "add",
            "step": "calc",
            "arguments": {"a": "2", "b": 3},
            "valid": False,
            "checked": True,
        }
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_of_a_tool_that_does_not_exist_is_a_call_and_invalid(kind: str) -> None:
    made = adapter(
        kind, lambda: lone(kind, [turn("", ("c1", "rm", {"path": "/"})), turn("no")], add)
    )
    _, record = called(made)
    assert record.evidence()["tool_calls"] == [
        {
            "name": "rm",
            "step": "calc",
            "arguments": {"path": "/"},
            "valid": False,
            "checked": True,
            "error": UNKNOWN,
        }
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_the_workflow_declares_invalid_stays_so_whatever_the_framework_says(
    kind: str,
) -> None:
    made = adapter(
        kind, lambda: lone(kind, [turn("", ("c1", "add", {"a": 2, "b": 3})), turn("5")], add)
    )
    _, record = called(made, record=Recorder(clock=None, check=lambda name, arguments: False))
    assert record.evidence()["tool_calls"][0]["valid"] is False


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_told_as_they_happen(kind: str) -> None:
    events: list[Any] = []
    seen: list[int] = []

    def look(a: int, b: int) -> str:
        """Look what was told so far."""
        seen.append(len(events))
        return "5"

    made = adapter(
        kind, lambda: lone(kind, [turn("", ("c1", "look", {"a": 2, "b": 3})), turn("5")], look)
    )
    called(
        made, record=Recorder(clock=None, notify=lambda what, fields: events.append((what, fields)))
    )
    assert [what for what, _ in events] == ["step_start", "step_end"]
    assert seen == [1], "the step had begun and not ended when the tool ran"
    assert events[1][1]["tool_calls"][0]["name"] == "look"


# --- what goes wrong


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_that_raises_ends_its_step_with_the_error(kind: str) -> None:
    record = Recorder(clock=None)
    with pytest.raises(ConnectionError, match="gone"):
        called(adapter(kind, lambda: lone(kind, [turn(error="gone")])), record=record)
    assert record.evidence()["steps"] == [
        {"name": "calc", "status": "error", "agent": "calc", "error": "ConnectionError: gone"}
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_is_cancelled_leaves_the_steps_begun_so_far_open_for_the_runner(
    kind: str,
) -> None:
    async def cut() -> Recorder:
        record, begun = Recorder(clock=None), asyncio.Event()

        async def slow(a: int) -> str:
            """Take long."""
            begun.set()
            await asyncio.sleep(30)
            return str(a)

        made = adapter(
            kind, lambda: lone(kind, [turn("", ("c1", "slow", {"a": 1})), turn("1")], slow)
        )
        call = asyncio.create_task(made.call(WorkflowTask("r-1", 1, {"question": "?"}), record))
        await asyncio.wait_for(begun.wait(), 60)  # not a time: the first call loads the framework
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        record.close("timeout", "too late")
        await asyncio.sleep(0.05)
        return record

    evidence = asyncio.run(cut()).evidence()
    assert evidence["steps"] == [
        {
            "name": "calc",
            "status": "timeout",
            "agent": "calc",
            "model": "m-1",
            "tokens": 5,
            "error": "too late",
        }
    ]
    assert evidence["tool_calls"] == [
        {
            "name": "slow",
            "step": "calc",
            "arguments": {"a": 1},
            "valid": True,
            "checked": True,
            "error": "CancelledError",
        }
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_at_once_do_not_mix_their_evidence(kind: str) -> None:
    def target(number: int) -> Any:
        return lambda: lone(
            kind, [turn("", ("c1", "add", {"a": number, "b": 1})), turn(f"answer {number}")], late
        )

    async def late(a: int, b: int) -> str:
        """Add, later."""
        await asyncio.sleep(0.01 * (a % 5))
        return str(a + b)

    late.__name__ = "add"

    async def all_of_them() -> list[tuple[Any, Recorder]]:
        records = [Recorder(clock=None) for _ in range(repeats(10, 50))]
        calls = [
            adapter(kind, target(number)).call(
                WorkflowTask(f"r-{number}", 1, {"question": "?"}), records[number]
            )
            for number in range(len(records))
        ]
        return list(zip(await asyncio.gather(*calls), records, strict=True))

    for number, (outputs, record) in enumerate(asyncio.run(all_of_them())):
        assert outputs == {"answer": f"answer {number}"}
        evidence = record.evidence()
        assert evidence["tool_calls"] == [
            {
                "name": "add",
                "step": "calc",
                "arguments": {"a": number, "b": 1},
                "valid": True,
                "checked": True,
            }
        ]
        assert evidence["steps"] == [
            {"name": "calc", "status": "success", "agent": "calc", "model": "m-1", "tokens": 10}
        ]


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [
        ("langgraph", "langgraph.graph", "langgraph"),
        ("agent_framework", "agent_framework", "agent-framework"),
    ],
)
def test_a_framework_that_is_not_installed_is_named_with_its_install_line(
    kind: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError) as caught:
        make_adapter({"kind": kind, "target": "script:turns"}, FOLDER, where="w.yaml")
    assert caught.value.code == "RUN-004"
    assert install_hint(extra) in str(caught.value)


def test_without_the_opentelemetry_sdk_the_install_line_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(InputError, match="agent-framework"):
        framework("opentelemetry.sdk.trace", "agent-framework", "w.yaml")


@pytest.mark.parametrize("kind", KINDS)
def test_naming_an_adapter_does_not_import_its_framework(kind: str) -> None:
    heavy = ("langgraph", "langchain_core", "agent_framework", "opentelemetry")
    program = (
        f"import sys, assay.running.adapters.{kind}; print([name for name in {heavy!r} if name in"
        " sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_framework_reaches_stdout(
    kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    called(adapter(kind, lambda: lone(kind, [turn("", ("c1", "add", {"a": "x"})), turn("5")], add)))
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"outptu": "answer"}, "Did you mean 'output'"),
        ({"output": 3}, "adapter.output"),
        ({"agents": "planner"}, "adapter.agents"),
        ({"input": 3}, "adapter.input"),
    ],
)
def test_a_key_or_a_shape_that_the_adapter_does_not_know_is_refused(
    kind: str, spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as caught:
        make_adapter({"kind": kind, "target": "script:turns", **spec}, FOLDER, where="w.yaml")
    assert caught.value.code == "RUN-001"
    assert words in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_is_neither_is_refused(kind: str) -> None:
    with pytest.raises(InputError, match=r"it must be an? "):
        make_adapter({"kind": kind, "target": "script:ANSWER"}, FOLDER, where="w.yaml")
    with pytest.raises(InputError, match=r"it must return an? "):
        called(adapter(kind, lambda: 3))


@pytest.mark.parametrize("kind", KINDS)
def test_a_coroutine_function_may_build_the_target(kind: str) -> None:
    async def build() -> Any:
        return lone(kind, [turn("5")])

    assert called(adapter(kind, build))[0] == {"answer": "5"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_workflow_file_may_say_which_steps_are_agents(kind: str) -> None:
    more = (
        {"input": {"messages": "question"}, "output": {"answer": "messages.-1.content"}}
        if kind == "langgraph"
        else {}
    )
    _, record = called(adapter(kind, lambda: lone(kind, [turn("5")]), agents=["nobody"], **more))
    assert "agent" not in record.evidence()["steps"][0]


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_that_cannot_be_found_is_absent_not_empty(kind: str) -> None:
    more = {"input": {"messages": "question"}} if kind == "langgraph" else {}
    assert (
        called(
            adapter(kind, lambda: lone(kind, [turn("5")]), output={"lost": "nowhere.7"}, **more)
        )[0]
        == {}
    )


# --- LangGraph


def state_graph() -> Any:
    from langgraph.graph import MessagesState, StateGraph

    return StateGraph(MessagesState)


def speaker(text: str = "hi", then: Any = None) -> Any:
    """A node that asks a model once, through the blocking call."""
    model = piece("graph:Scripted")(left=[turn(text) for _ in range(9)])

    def node(state: Any) -> Any:
        answer = model.invoke(state["messages"])
        return then if then is not None else {"messages": [answer]}

    return node


def handoffs(record: Recorder) -> list[tuple[str, str]]:
    return sorted((one["from"], one["to"]) for one in record.evidence()["handoffs"])


def test_a_state_graph_need_not_be_compiled_and_blocking_nodes_are_followed() -> None:
    from langgraph.graph import END, START

    graph = state_graph()
    graph.add_node("one", speaker())
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    outputs, record = called(adapter("langgraph", graph))
    assert outputs == {"answer": "hi"}
    assert record.evidence()["steps"] == [
        {"name": "one", "status": "success", "agent": "one", "model": "m-1", "tokens": 5}
    ]


def test_the_tools_of_a_loop_are_no_agent_and_going_to_them_is_no_handoff() -> None:
    made = adapter(
        "langgraph",
        lambda: agent_graph("calc", [turn("", ("c1", "add", {"a": 2, "b": 3})), turn("5")], (add,)),
    )
    _, record = called(made)
    assert [(step.name, step.agent) for step in record.steps] == [
        ("think", "think"),
        ("tools", None),
        ("think", "think"),
    ]
    assert handoffs(record) == []
    assert record.evidence()["tool_calls"][0]["step"] == "tools"


def test_only_the_branch_that_a_condition_chose_is_a_handoff() -> None:
    from langgraph.graph import END, START

    graph = state_graph()
    for name in ("left", "right", "one", "two"):
        graph.add_node(name, speaker())
    graph.add_conditional_edges(START, lambda state: ["left", "right"], ["left", "right"])
    graph.add_conditional_edges("left", lambda state: "a", {"a": "one", "b": "two"})
    graph.add_conditional_edges("right", lambda state: "b", {"a": "one", "b": "two"})
    graph.add_edge("one", END)
    graph.add_edge("two", END)
    _, record = called(adapter("langgraph", graph.compile()))
    assert handoffs(record) == [("left", "one"), ("right", "two")]


def test_a_command_of_an_inner_graph_to_its_parent_is_a_handoff_and_no_error() -> None:
    from langgraph.graph import START
    from langgraph.types import Command

    inner = state_graph()
    inner.add_node("ask", speaker(then=Command(goto="writer", graph=Command.PARENT)))
    inner.add_edge(START, "ask")
    graph = state_graph()
    graph.add_node("planner", inner.compile(), destinations=("writer",))
    graph.add_node("writer", speaker("done"))
    graph.add_edge(START, "planner")
    outputs, record = called(adapter("langgraph", graph.compile()))
    assert outputs == {"answer": "done"}
    assert [(step.name, step.status) for step in record.steps] == [
        ("planner", "success"),
        ("writer", "success"),
    ]
    assert handoffs(record) == [("planner", "writer")]


def test_work_sent_to_many_copies_of_a_node_is_a_step_and_a_handoff_each() -> None:
    from langgraph.graph import END, START
    from langgraph.types import Send

    graph = state_graph()
    graph.add_node("planner", speaker())
    graph.add_node("worker", speaker())
    graph.add_edge(START, "planner")
    graph.add_conditional_edges(
        "planner", lambda state: [Send("worker", state) for _ in range(3)], ["worker"]
    )
    graph.add_edge("worker", END)
    _, record = called(adapter("langgraph", graph.compile()))
    assert sorted(step.name for step in record.steps) == ["planner", "worker", "worker", "worker"]
    assert handoffs(record) == [("planner", "worker")] * 3


def test_a_circle_hands_on_once_for_each_turn() -> None:
    from langgraph.graph import END, START

    rounds: list[int] = []

    def go_on(state: Any) -> str:
        rounds.append(1)
        return "writer" if len(rounds) < 2 else END

    graph = state_graph()
    graph.add_node("writer", speaker())
    graph.add_node("critic", speaker())
    graph.add_edge(START, "writer")
    graph.add_edge("writer", "critic")
    graph.add_conditional_edges("critic", go_on, ["writer", END])
    _, record = called(adapter("langgraph", graph.compile()))
    assert [step.name for step in record.steps] == ["writer", "critic", "writer", "critic"]
    assert handoffs(record) == [("critic", "writer"), ("writer", "critic"), ("writer", "critic")]


def test_a_model_that_is_asked_again_inside_a_node_is_a_retry_of_its_step() -> None:
    from langgraph.graph import END, START

    model = piece("graph:Scripted")(left=[turn(error="gone"), turn("hi")]).with_retry(
        stop_after_attempt=2, wait_exponential_jitter=False
    )

    async def node(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = state_graph()
    graph.add_node("one", node)
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    _, record = called(adapter("langgraph", graph.compile()))
    assert [(step.name, step.status, step.retries) for step in record.steps] == [
        ("one", "success", 1)
    ]


def test_a_node_beside_one_that_failed_is_cancelled_not_a_success() -> None:
    from langgraph.graph import START

    async def waits(state: Any) -> Any:
        await asyncio.sleep(30)

    async def breaks(state: Any) -> Any:
        await asyncio.sleep(0.05)
        raise RuntimeError("broken")

    graph = state_graph()
    graph.add_node("waits", waits)
    graph.add_node("breaks", breaks)
    graph.add_edge(START, "waits")
    graph.add_edge(START, "breaks")
    record = Recorder(clock=None)
    with pytest.raises(RuntimeError, match="broken"):
        called(adapter("langgraph", graph.compile()), record=record)
    assert {step.name: step.status for step in record.steps} == {
        "waits": "cancelled",
        "breaks": "error",
    }


def test_a_graph_that_waits_for_a_person_fails_and_is_not_tried_again() -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START
    from langgraph.types import interrupt

    graph = state_graph()
    graph.add_node("one", lambda state: interrupt("may I?"))
    graph.add_edge(START, "one")
    with pytest.raises(CallFailed, match="waits for a person") as caught:
        called(adapter("langgraph", graph.compile(checkpointer=InMemorySaver())))
    assert caught.value.again is False


def test_a_graph_with_a_memory_does_not_remember_the_sample_before() -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START

    graph = state_graph()
    graph.add_node("one", speaker())
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    made = adapter(
        "langgraph", graph.compile(checkpointer=InMemorySaver()), input={"messages": "question"}
    )
    assert len(called(made)[0]["messages"]) == len(called(made)[0]["messages"]) == 2


def test_langsmith_is_off_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from langgraph.graph import END, START
    from langsmith.utils import tracing_is_enabled

    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setenv("LANGCHAIN_TRACING_V2", "true")
    seen: list[Any] = []

    def node(state: Any) -> Any:
        seen.append(tracing_is_enabled())

    graph = state_graph()
    graph.add_node("one", node)
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    called(adapter("langgraph", graph.compile()))
    assert seen == [False]


def test_where_no_edge_is_known_to_lead_to_a_node_the_work_came_from_those_that_ended_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import assay.running.adapters.langgraph as module
    from assay.running.adapters.langgraph import Routes

    monkeypatch.setattr(module, "routes_of", lambda graph: Routes({}, {}))
    build = piece("graph:build")
    _, record = called(adapter("langgraph", build, output="answer"))
    found = handoffs(record)
    assert ("writer", "reviewer") in found
    assert {
        ("planner", "scout"),
        ("planner", "archivist"),
        ("scout", "writer"),
        ("archivist", "writer"),
    } <= set(found)


def test_a_graph_inside_a_node_gives_the_agent_its_name() -> None:
    from langgraph.graph import END, START

    graph = state_graph()
    graph.add_node("first", agent_graph("planner", [turn("a")], ()))
    graph.add_node("second", agent_graph("LangGraph", [turn("b")], ()))
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", END)
    _, record = called(adapter("langgraph", graph.compile()))
    assert [(step.name, step.agent) for step in record.steps] == [
        ("first", "planner"),
        ("second", "second"),
    ]
    assert handoffs(record) == [("planner", "second")]


def test_a_graph_without_edges_to_read_says_nothing_of_handoffs() -> None:
    from langgraph.func import entrypoint, task

    model = piece("graph:Scripted")(left=[turn("hi")])

    @task
    async def ask(text: str) -> str:
        return str((await model.ainvoke(text)).content)

    @entrypoint()
    async def flow(inputs: dict[str, str]) -> dict[str, str]:
        return {"answer": await ask(inputs["question"])}

    outputs, record = called(adapter("langgraph", flow, output="answer"))
    assert outputs == {"answer": "hi"}
    assert "handoffs" not in record.evidence()
    assert record.evidence()["tokens"] == 5
    assert [step.status for step in record.steps] == ["success"]


def test_cost_is_taken_where_the_provider_says_it() -> None:
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langgraph.graph import END, START

    class Priced(piece("graph:Scripted")):
        def _generate(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any
        ) -> Any:
            usage: Any = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
            metadata = {"model_name": "m-2", "token_usage": {"cost": 0.25}}
            return ChatResult(
                generations=[
                    ChatGeneration(
                        message=AIMessage(
                            content="hi", usage_metadata=usage, response_metadata=metadata
                        )
                    )
                ]
            )

    model = Priced(left=[])
    graph = state_graph()
    graph.add_node(
        "one",
        lambda state: {
            "messages": [model.invoke(state["messages"]), model.invoke(state["messages"])]
        },
    )
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    _, record = called(adapter("langgraph", graph.compile()))
    assert str(record.evidence()["cost_usd"]) == "0.50"
    assert record.evidence()["steps"][0]["model"] == "m-2"


# --- Agent Framework


def chain(*names: str) -> Any:
    """Agents one after the other, in the framework's own executors."""
    from agent_framework import AgentExecutor

    made = [AgentExecutor(piece("flow:agent")(name, [turn(f"{name} says")], ())) for name in names]
    return WorkflowBuilder(start_executor=made[0], output_from=[made[-1]]).add_chain(made).build()


def test_agents_in_the_frameworks_own_executors_are_steps_that_hand_on() -> None:
    outputs, record = called(
        adapter("agent_framework", lambda: chain("planner", "writer", "critic"))
    )
    assert outputs == {"answer": "critic says"}
    assert [(step.name, step.agent, step.tokens) for step in record.steps] == [
        ("planner", "planner", 5),
        ("writer", "writer", 5),
        ("critic", "critic", 5),
    ]
    assert handoffs(record) == [("planner", "writer"), ("writer", "critic")]


def test_an_agent_that_is_run_again_after_a_failure_is_one_step_with_a_retry() -> None:
    made = adapter(
        "agent_framework",
        lambda: piece("flow:agent")("calc", [turn(error="gone"), turn("5")], (), retry=True),
    )
    outputs, record = called(made)
    assert outputs == {"answer": "5"}
    assert record.evidence()["steps"] == [
        {
            "name": "calc",
            "status": "success",
            "agent": "calc",
            "retries": 1,
            "model": "m-1",
            "tokens": 5,
        }
    ]


def test_a_workflow_that_is_no_function_is_copied_for_each_call() -> None:
    made = adapter("agent_framework", chain("planner", "writer"))
    for _ in range(2):
        outputs, record = called(made)
        assert outputs == {"answer": "writer says"}, "each call finds the script as it was"
        assert len(record.steps) == 2


def test_a_workflow_that_cannot_be_copied_asks_for_a_function() -> None:
    import threading

    flow = chain("planner", "writer")
    flow.executors["planner"].held = threading.Lock()
    with pytest.raises(InputError, match="Name a function that builds it"):
        called(adapter("agent_framework", flow))


def test_a_workflow_inside_a_workflow_is_one_step() -> None:
    from agent_framework import WorkflowExecutor

    def build() -> Any:
        inner = WorkflowExecutor(chain("planner", "writer"), id="team")
        return WorkflowBuilder(start_executor=inner).build()

    _, record = called(adapter("agent_framework", build))
    assert [(step.name, step.tokens) for step in record.steps] == [("team", 10)]


def test_an_executor_that_raises_ends_as_an_error_and_its_neighbour_as_cancelled() -> None:
    class Start(Executor):
        @handler
        async def run(self, text: str, ctx: WorkflowContext[str]) -> None:
            await ctx.send_message(text)

    class Waits(Executor):
        @handler
        async def run(self, text: str, ctx: WorkflowContext[str]) -> None:
            await asyncio.sleep(30)

    class Breaks(Executor):
        @handler
        async def run(self, text: str, ctx: WorkflowContext[str]) -> None:
            await asyncio.sleep(0.05)
            raise RuntimeError("broken")

    def build() -> Any:
        start, waits, breaks = Start(id="start"), Waits(id="waits"), Breaks(id="breaks")
        return (
            WorkflowBuilder(start_executor=start).add_fan_out_edges(start, [waits, breaks]).build()
        )

    record = Recorder(clock=None)
    with pytest.raises(RuntimeError, match="broken"):
        called(adapter("agent_framework", build), record=record)
    assert {step.name: step.status for step in record.steps} == {
        "start": "success",
        "waits": "cancelled",
        "breaks": "error",
    }


def test_several_inputs_are_given_to_an_agent_as_one_text_and_one_may_be_named() -> None:
    heard: list[str] = []

    class Heard(piece("flow:Scripted")):
        def _inner_get_response(self, *, messages: Any, **more: Any) -> Any:
            heard.append(messages[-1].text)
            return super()._inner_get_response(messages=messages, **more)

    from agent_framework import Agent

    for spec in ({}, {"input": "b"}):
        called(
            adapter("agent_framework", lambda: Agent(Heard([turn("hi")]), name="calc"), **spec),
            b="two",
            a=1,
        )
    assert heard == ['{"a":1,"b":"two"}', "two"]
    with pytest.raises(CallFailed, match="no input 'c'"):
        called(adapter("agent_framework", lambda: lone("agent_framework", [turn("hi")]), input="c"))


def program(folder: Path, body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program of its own: a tracer provider can be set once in a process."""
    start = f"""
        import asyncio, sys
        from pathlib import Path
        from assay.errors import InputError
        from assay.running.adapters import WorkflowTask
        from assay.running.adapters.agent_framework import AgentFrameworkAdapter, AgentFrameworkSpec, is_runnable
        from assay.running.adapters.loading import load
        from assay.running.adapters.targets import Target
        from assay.tracing.failures import CallFailed
        from assay.tracing.recorder import Recorder
        FOLDER = Path({str(FOLDER)!r})
        flow, Turn = load("flow:agent", FOLDER, "t"), load("script:Turn", FOLDER, "t")
        def call(**spec):
            record = Recorder(clock=None)
            build = lambda: flow("calc", [Turn("hi", tokens_in=1, tokens_out=1)], ())
            try:
                target = Target(build, "t:t", "w.yaml", what="an agent", is_ready=is_runnable)
                made = AgentFrameworkAdapter(target, AgentFrameworkSpec(target="t:t", **spec))
                outputs = asyncio.run(made.call(WorkflowTask("r", 1, {{"q": "?"}}), record))
            except (InputError, CallFailed) as error:
                return str(error)
            return outputs, [step.name for step in record.steps]
    """
    (folder / "program.py").write_text(textwrap.dedent(start) + textwrap.dedent(body))
    return subprocess.run(
        [sys.executable, str(folder / "program.py")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_a_tracer_provider_of_the_program_keeps_its_exporters_and_must_allow_content(
    tmp_path: Path,
) -> None:
    done = program(
        tmp_path,
        """
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        theirs, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(theirs))
        trace.set_tracer_provider(provider)
        assert "adapter.content: true" in call(), call()
        assert not theirs.get_finished_spans(), "nothing ran, so nothing was sent"
        assert call(content=True) == ({"answer": "hi"}, ["calc"]), call(content=True)
        assert trace.get_tracer_provider() is provider
        assert [span.name for span in theirs.get_finished_spans()][:2] == ["chat m-1", "invoke_agent calc"]
        """,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_where_no_span_is_recorded_the_call_fails_instead_of_looking_empty(tmp_path: Path) -> None:
    done = program(
        tmp_path,
        """
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
        trace.set_tracer_provider(TracerProvider(sampler=ALWAYS_OFF))
        assert "no span of the run was recorded" in call(content=True), call(content=True)
        """,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_instrumentation_that_is_switched_off_is_said_before_anything_runs(tmp_path: Path) -> None:
    done = program(
        tmp_path, "assert 'switched off' in call(), call()", ENABLE_INSTRUMENTATION="false"
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_fault_in_reading_a_span_is_raised_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    import assay.tracing.live as module

    def broken(span: Any) -> Any:
        raise ValueError("cannot read it")

    monkeypatch.setattr(module, "meaning", broken)
    with pytest.raises(ValueError, match="cannot read it"):
        called(adapter("agent_framework", lambda: lone("agent_framework", [turn("hi")])))


def test_a_fault_in_hearing_a_callback_is_raised_not_swallowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import assay.running.adapters.langgraph as module

    def broken(*_: Any, is_form: bool) -> Any:
        raise ValueError("cannot read it")

    monkeypatch.setattr(module, "answer_of", broken)
    with pytest.raises(ValueError, match="cannot read it"):
        called(adapter("langgraph", lambda: lone("langgraph", [turn("hi")])))
