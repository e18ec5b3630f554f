"""Followed by an adapter, or told by spans and imported: one workflow, one scorecard.

The same rules stand behind both (`tracing.rules`). What spans cannot hold is listed here by name,
so that the list can only grow in the open.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph.version", reason="the langgraph extra is not installed")
pytest.importorskip("agent_framework", reason="the agent-framework extra is not installed")
pytest.importorskip("opentelemetry.sdk.trace", reason="the agent-framework extra is not installed")
pytest.importorskip(
    "opentelemetry.exporter.otlp.proto.common",
    reason="opentelemetry-exporter-otlp-proto-http is not installed",
)
pytest.importorskip(
    "openinference.instrumentation.langchain",
    reason="openinference-instrumentation-langchain is not installed",
)

from agent_framework import Executor, WorkflowBuilder, WorkflowContext, WorkflowExecutor, handler
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from assay.tracing.genai import evidence, is_run
from assay.tracing.recorder import Recorder
from assay.tracing.spans import Span
from assay.tracing.wire import from_protobuf
from once import once
from test_adapter_parity import FOLDER, LISTS, PASSED, TARGETS, followed, judged, run_of
from test_adapters_frameworks import (
    adapter,
    add,
    agent_graph,
    called,
    chain,
    lone,
    piece,
    speaker,
    state_graph,
    turn,
)

CLOCK = ("latency_ms", "started_at", "finished_at")
"""What no two programs have in common: how long they take, and when."""
GIVEN = (
    "inputs",
    "outputs",
    "required_inputs",
    "required_outputs",
    "output_schema",
    "expected",
    "forbidden_tools",
    "handoff_rules",
)
"""What no span of a framework shows: its maker says it, as `assay.*` attributes of a span around
the run.
"""
ONLY_SPANS = ("metadata",)
"""Where the run came from, which an adapter has no need to say."""

# --- the parity workflow, exported by the SDK and imported by the command

PROGRAM = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
kind, folder, given = sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

provider, exporter = TracerProvider(), ConsoleSpanExporter()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
if kind == "agent_framework":
    from agent_framework.observability import enable_instrumentation
    enable_instrumentation(enable_sensitive_data=True)
    import flow
else:
    from openinference.instrumentation.langchain import LangChainInstrumentor
    LangChainInstrumentor().instrument()
    import graph

async def main(retry):
    with trace.get_tracer("app").start_as_current_span("answer a question") as span:
        for name, value in given.items():
            span.set_attribute("assay." + name, value if isinstance(value, str) else json.dumps(value))
        if kind == "agent_framework":
            found = (await flow.build(retry=retry).run(given["inputs"]["question"])).get_outputs()[0]
        else:
            found = await graph.build(retry=retry).ainvoke(given["inputs"])
        span.set_attribute("assay.outputs", json.dumps({"answer": found["answer"]}))

for way in ("retry", "once"):
    with open(f"{folder}/{way}.txt", "w") as exporter.out:
        try:
            asyncio.run(main(way == "retry"))
        except ConnectionError:
            pass
provider.shutdown()
"""


def exported(folder: Path, kind: str, *, retry: bool = True) -> Path:
    """A program that knows nothing of Assay runs the parity workflow with and without retries, once
    in a test run; a real exporter writes the spans of each to a file.
    """
    whole = run_of({}, None, "success")
    given = {name: whole[name] for name in GIVEN if name in whole}
    given |= {"workflow.id": "bridge", "workflow.version": "1", "workflow.family": "tool-use"}
    given |= {"dataset.id": "bridges", "dataset.version": "1", "sample_id": "s-1", "run_id": "r-1"}

    def make(made: Path) -> None:
        arguments = [str(FOLDER), kind, str(made), json.dumps(given)]
        subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments],
            check=True,
            capture_output=True,
            timeout=120,
        )

    path = folder / f"{kind}.txt"
    shutil.copy(once(f"spans-{kind}", make) / ("retry.txt" if retry else "once.txt"), path)
    return path


def imported(assay: Any, path: Path) -> dict[str, Any]:
    """The run that `assay import` makes of a file of spans, with the time that the parity tests
    fix.
    """
    result = assay("import", path.name, "-o", "runs.jsonl")
    assert result.code == 0, result.err
    (line,) = (path.parent / "runs.jsonl").read_text().splitlines()
    return {**json.loads(line), "latency_ms": 900}


def listed(run: dict[str, Any]) -> dict[str, Any]:
    """The lists of a run as multisets, without the clock's part and without what only spans say; a
    list that is absent stays so.
    """
    hidden = ("metadata", "duration_ms")
    return {
        name: (
            sorted(
                json.dumps(
                    {
                        key: value
                        for key, value in one.items()
                        if key not in hidden and value not in (None, 0)
                    },
                    sort_keys=True,
                )
                for one in run[name]
            )
            if name in run
            else None
        )
        for name in LISTS
    }


@pytest.mark.req("W-083")
@pytest.mark.parametrize("kind", TARGETS)
def test_a_workflow_whose_spans_are_imported_has_the_scorecard_and_grade_that_its_adapter_gives_it(
    assay: Any, tmp_path: Path, kind: str
) -> None:
    one, other = followed(kind), imported(assay, exported(tmp_path, kind))
    assert listed(other) == listed(one)
    left = {*LISTS, *CLOCK, *ONLY_SPANS}
    assert {name: value for name, value in other.items() if name not in left} == {
        name: value for name, value in one.items() if name not in left
    }
    assert sorted((handoff["from"], handoff["to"]) for handoff in other["handoffs"]) == sorted(
        PASSED
    )
    assert judged(other) == judged(one)
    assert judged(other)[1] == "A"


@pytest.mark.req("W-083")
@pytest.mark.parametrize("kind", TARGETS)
def test_a_run_that_fails_fails_alike_whether_it_is_followed_or_imported(
    assay: Any, tmp_path: Path, kind: str
) -> None:
    one, other = followed(kind, retry=False), imported(assay, exported(tmp_path, kind, retry=False))
    assert (one["status"], other["status"]) == ("error", "error")
    # scout, beside the one that fails, is cut off at a moment that is never the same
    steps = [
        {
            (step["name"], step["status"], step.get("error"))
            for step in run["steps"]
            if step["name"] != "scout"
        }
        for run in (one, other)
    ]
    assert steps[0] == steps[1]
    assert judged(one)[3] is judged(other)[3] is False


@pytest.mark.req("W-083")
def test_both_frameworks_spans_give_one_scorecard(assay: Any, tmp_path: Path) -> None:
    runs = {kind: imported(assay, exported(tmp_path, kind)) for kind in TARGETS}
    assert listed(runs["langgraph"]) == listed(runs["agent_framework"])
    assert judged(runs["langgraph"]) == judged(runs["agent_framework"])


# --- one run, heard and exported at the same time


class Tape:
    """The spans of what runs, as protobuf on its way out of the SDK."""

    def __init__(self, memory: InMemorySpanExporter) -> None:
        self._memory = memory

    def runs(self) -> list[dict[str, Any]]:
        """What the spans so far tell, trace by trace."""
        sent = encode_spans(self._memory.get_finished_spans()).SerializeToString()
        traces: dict[str, list[Span]] = {}
        for one in from_protobuf(sent):
            assert isinstance(one, Span), one
            traces.setdefault(one.trace_id, []).append(one)
        return [evidence(found) for found in traces.values() if is_run(found)]


@pytest.fixture
def tape() -> Iterator[Tape]:
    memory, provider = InMemorySpanExporter(), trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    processor = SimpleSpanProcessor(memory)
    provider.add_span_processor(processor)
    LangChainInstrumentor().instrument(tracer_provider=provider)
    yield Tape(memory)
    LangChainInstrumentor().uninstrument()
    memory.shutdown()


def line(*names: str, **nodes: Any) -> Any:
    """A graph whose nodes follow each other; one that is not given asks a model once."""
    from langgraph.graph import END, START

    graph = state_graph()
    for name in names:
        graph.add_node(name, nodes.get(name) or speaker())
    for source, to in zip((START, *names), (*names, END), strict=True):
        graph.add_edge(source, to)
    return graph.compile()


def sending() -> Any:
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
    return graph.compile()


def commanding() -> Any:
    from langgraph.graph import START
    from langgraph.types import Command

    inner = state_graph()
    inner.add_node("ask", speaker(then=Command(goto="writer", graph=Command.PARENT)))
    inner.add_edge(START, "ask")
    graph = state_graph()
    graph.add_node("planner", inner.compile(), destinations=("writer",))
    graph.add_node("writer", speaker("done"))
    graph.add_edge(START, "planner")
    return graph.compile()


def tried_again() -> Any:
    model = piece("graph:Scripted")(left=[turn(error="gone"), turn("hi")]).with_retry(
        stop_after_attempt=2, wait_exponential_jitter=False
    )

    async def node(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return line("one", one=node)


def silent(state: Any) -> dict[str, Any]:
    return {}


def nested() -> Any:
    return WorkflowBuilder(
        start_executor=WorkflowExecutor(chain("planner", "writer"), id="team")
    ).build()


def asking(kind: str, arguments: dict[str, Any], *, name: str = "add") -> Callable[[], Any]:
    return lambda: lone(kind, [turn("", ("c1", name, arguments)), turn("5")], add)


RUNS: dict[str, tuple[str, Callable[[], Any]]] = {
    **{f"{kind}: a call": (kind, asking(kind, {"a": 2, "b": 3})) for kind in TARGETS},
    **{
        f"{kind}: arguments that break the schema": (kind, asking(kind, {"a": "two"}))
        for kind in TARGETS
    },
    **{
        f"{kind}: arguments that only a lax reading accepts": (
            kind,
            asking(kind, {"a": "2", "b": 3}),
        )
        for kind in TARGETS
    },
    **{
        f"{kind}: a tool that there is not": (kind, asking(kind, {"path": "/"}, name="rm"))
        for kind in TARGETS
    },
    **{
        f"{kind}: a model that says not what it used": (
            kind,
            lambda kind=kind: lone(kind, [turn("5", used=False)], add),
        )
        for kind in TARGETS
    },
    "langgraph: a loop of tools": (
        "langgraph",
        lambda: agent_graph("calc", [turn("", ("c1", "add", {"a": 2, "b": 3})), turn("5")], (add,)),
    ),
    "langgraph: a node that only computes": (
        "langgraph",
        lambda: line("planner", "sort", "writer", sort=silent),
    ),
    "langgraph: a graph with a name in a node": (
        "langgraph",
        lambda: line("first", "second", first=agent_graph("planner", [turn("a")], ())),
    ),
    "langgraph: a command to the parent": ("langgraph", commanding),
    "langgraph: many copies of a node": ("langgraph", sending),
    "langgraph: a model that is tried again": ("langgraph", tried_again),
    "agent_framework: agents in a chain": (
        "agent_framework",
        lambda: chain("planner", "writer", "critic"),
    ),
    "agent_framework: a workflow in a workflow": ("agent_framework", nested),
}


@pytest.mark.req("W-083")
@pytest.mark.parametrize("name", RUNS)
def test_what_an_adapter_hears_of_a_run_is_what_the_spans_of_the_same_run_tell(
    tape: Tape, name: str
) -> None:
    kind, build = RUNS[name]
    _, record = called(adapter(kind, build))
    heard = record.evidence()
    (traced,) = tape.runs()
    assert listed(traced) == listed(heard)
    assert [traced.get(key) for key in ("tokens", "cost_usd", "retries")] == [
        heard.get(key) for key in ("tokens", "cost_usd", "retries")
    ]


ADD, REFUSED, UNKNOWN_TOOL = ("add", {"a": 2, "b": 3}), ("add", {"a": "two"}), ("rm", {"path": "/"})


def broken(a: int) -> str:
    """Fail."""
    raise RuntimeError(f"no {a}")


async def late(a: int) -> str:
    """Return only after the calls beside it."""
    for _ in range(20):
        await asyncio.sleep(0)
    return str(a)


ORDERS = {
    "one is refused before another": [[REFUSED, ADD]],
    "one is refused after another": [[ADD, REFUSED]],
    "a refused one is tried again": [[REFUSED], [ADD]],
    "an unknown tool comes first": [[UNKNOWN_TOOL, ADD]],
    "refused, unknown and good ones by turns": [
        [ADD, UNKNOWN_TOOL, REFUSED, ADD],
        [REFUSED, UNKNOWN_TOOL],
        [ADD],
    ],
    "one fails": [[("broken", {"a": 1}), ADD], [ADD, ("broken", {"a": 2})]],
    "the first ends last": [[("late", {"a": 1}), ADD, ("late", {"a": 2})]],
}


@pytest.mark.req("W-083")
@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("kind", TARGETS)
def test_calls_stand_in_the_order_in_which_they_were_made(tape: Tape, kind: str, name: str) -> None:
    numbered = iter(range(100))
    turns = [turn("", *((f"c{next(numbered)}", *call) for call in calls)) for calls in ORDERS[name]]
    _, record = called(adapter(kind, lambda: lone(kind, [*turns, turn("5")], add, broken, late)))
    wanted = [(call, arguments) for calls in ORDERS[name] for call, arguments in calls]
    (traced,) = tape.runs()
    assert [(one["name"], one["arguments"]) for one in record.evidence()["tool_calls"]] == wanted
    assert [(one["name"], one["arguments"]) for one in traced["tool_calls"]] == wanted
    assert listed(traced) == listed(record.evidence())


# --- what spans cannot hold


def test_a_step_that_was_cut_off_ends_well_in_agent_frameworks_spans_but_its_run_does_not(
    tape: Tape,
) -> None:
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
    (traced,) = tape.runs()
    heard = {step.name: step.status for step in record.steps}
    assert heard["waits"] == "cancelled"
    assert {step["name"]: step["status"] for step in traced["steps"]} == {
        **heard,
        "waits": "success",
    }
    assert traced["status"] == "error"


def test_an_agent_without_a_span_around_it_leaves_one_trace_for_each_attempt(tape: Tape) -> None:
    build = piece("flow:agent")
    called(
        adapter(
            "agent_framework",
            lambda: build("calc", [turn(error="gone"), turn("5")], (), retry=True),
        )
    )
    assert [run["status"] for run in tape.runs()] == ["error", "success"]
    with trace.get_tracer("app").start_as_current_span("answer"):
        called(
            adapter(
                "agent_framework",
                lambda: build("calc", [turn(error="gone"), turn("5")], (), retry=True),
            )
        )
    (traced,) = [run for run in tape.runs() if run["retries"]]
    assert [
        (step["name"], step["status"], step["retries"], step["tokens"]) for step in traced["steps"]
    ] == [("calc", "success", 1, 5)]


def test_which_of_two_nodes_a_condition_led_from_is_not_guessed(tape: Tape) -> None:
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
    (traced,) = tape.runs()
    assert listed(traced) == {**listed(record.evidence()), "handoffs": None}
