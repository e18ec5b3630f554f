"""Spans as evidence: what each dialect says, each thing counted once, and nothing that is missing
passed over.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from assay.canon import encode
from assay.errors import (
    AssayError,
    ExitCode,
    Fault,
    InputError,
    NotEnoughEvidence,
)
from assay.files.json_files import Document
from assay.importers.head import Head
from assay.importers.importer import NameVersion, Wanted
from assay.importers.otlp import fits, read, read_spans, run_of, runs
from assay.importers.tally import ImportTally
from assay.library.shelf import Shelf
from assay.services.grading import Grader
from assay.tracing import handoffs
from assay.tracing.dialects import meaning
from assay.tracing.failures import error_of
from assay.tracing.genai import MAX_SPANS, evidence
from assay.tracing.rules import BROKEN, NOT_RUN, UNKNOWN, listed_tools, passages
from assay.tracing.spans import Span
from assay.tracing.wire import MAX_TEXT, from_json, from_protobuf
from assay.views.otel_export import EVENT
from documents import run as document
from receiving import Receiver
from tracing import (
    MS,
    REAL,
    T,
    agent,
    by_trace,
    chat,
    executor,
    node,
    otlp,
    protobuf,
    real,
    span,
    tool,
)

WANTED = Wanted(NameVersion("w", "1"), "tool-use", NameVersion("d", "1"))


def steps(spans: list[Span], *keys: str) -> list[Any]:
    return [
        tuple(step.get(key) for key in keys) if len(keys) > 1 else step.get(keys[0])
        for step in evidence(spans).get("steps", [])
    ]


# --- the real files


@pytest.mark.parametrize("name", REAL)
def test_the_same_work_gives_the_same_sums_in_every_dialect(shared: Path, name: str) -> None:
    for trace in by_trace(real(shared, name)):
        found = evidence(trace)
        assert (found["status"], found["tokens"], found["retries"]) == ("success", 40, 0)
        shown = (
            True if name == "maf_sensitive" else None
        )  # the only one that holds the schemas of its tools
        assert [
            (call["name"], call.get("valid"), call.get("error")) for call in found["tool_calls"]
        ] == [("add", shown, None)]
        assert "gaps" not in found["metadata"]["otel"]
        assert "cost_usd" not in found


@pytest.mark.req("W-083")
def test_both_langgraph_dialects_tell_the_same_story(shared: Path) -> None:
    one, other = (
        evidence(real(shared, name)) for name in ("langgraph_openinference", "langgraph_traceloop")
    )
    for key in ("handoffs", "tool_calls", "tokens", "retries"):
        assert one[key] == other[key]
    both = [
        [
            (step["name"], step.get("agent"), step["status"], step.get("tokens"))
            for step in found["steps"]
        ]
        for found in (one, other)
    ]
    assert (
        both[0]
        == both[1]
        == [
            ("agent", "agent", "success", 15),
            ("tools", None, "success", None),
            ("agent", "agent", "success", 25),
        ]
    )
    assert one["handoffs"] == [], "going to the tools and back is not a handoff"
    assert one["outputs"]["answer"] == other["outputs"]["answer"] == "The sum is 5"
    assert one["inputs"]["input"] == other["inputs"]["input"] == "2+3?"


def test_an_agent_that_repeats_its_models_usage_counts_it_once(shared: Path) -> None:
    for trace in by_trace(real(shared, "maf_default")):
        assert steps(trace, "tokens", "model") == [(40, "scripted-1")]


def test_a_call_that_is_asked_for_and_carried_out_is_one_call(shared: Path) -> None:
    found = evidence(by_trace(real(shared, "maf_sensitive"))[0])
    assert found["tool_calls"] == [
        {
            "step": "calc",
            "name": "add",
            "arguments": {"a": 2, "b": 3},
            "valid": True,
            "checked": True,
            "metadata": {"call_id": "c1"},
        }
    ]


@pytest.mark.parametrize("name", REAL)
def test_json_protobuf_and_console_give_the_same_evidence(shared: Path, name: str) -> None:
    spans = real(shared, name)
    for trace in by_trace(spans):
        plain = encode(evidence(trace))
        as_json = list(from_json(json.loads(json.dumps(otlp(trace), default=float))))
        as_bytes = list(from_protobuf(protobuf(trace)))
        assert [one for one in (*as_json, *as_bytes) if not isinstance(one, Span)] == []
        assert encode(evidence(as_json)) == plain
        assert encode(evidence(as_bytes)) == plain


# --- steps, agents, sums


def test_an_executor_and_the_agent_in_it_are_one_step() -> None:
    spans = [
        span(1, name="workflow.run", end=9),
        executor(2, 1, "write", begin=1, end=8),
        agent(3, 2, "author", begin=2, end=7),
        chat(4, 3, begin=3, end=6),
    ]
    assert steps(spans, "name", "agent", "tokens") == [("write", "author", 15)]


@pytest.mark.parametrize("declared", [None, (20, 10), (33, 12)])
def test_an_agent_called_as_a_tool_belongs_to_the_step_that_called_it_with_all_that_it_used(
    declared: tuple[int, int] | None,
) -> None:
    usage = (
        {}
        if declared is None
        else {
            "gen_ai__usage__input_tokens": declared[0],
            "gen_ai__usage__output_tokens": declared[1],
        }
    )
    spans = [
        agent(1, who="boss", end=20, **usage),
        chat(2, 1, begin=1, end=2),
        tool(3, 1, "ask", begin=3, end=9),
        agent(4, 3, "helper", begin=4, end=8),
        chat(5, 4, begin=5, end=6),
        chat(6, 1, begin=10, end=12),
    ]
    assert steps(spans, "name", "agent", "tokens") == [("boss", "boss", 45)]
    assert evidence(spans)["tokens"] == 45


def test_a_model_wrapped_by_another_instrumentation_is_one_call() -> None:
    spans = [agent(1), chat(2, 1, tokens=None, begin=1, end=5), chat(3, 2, begin=2, end=4)]
    found = evidence(spans)
    assert (found["tokens"], found["metadata"]["otel"]["dropped"]) == (15, {"repeated_spans": 1})


def test_a_model_that_nobody_holds_is_a_step() -> None:
    assert steps([span(1, name="GET /"), chat(2, 1)], "name", "tokens") == [("chat m-1", 15)]


def test_a_model_that_does_not_say_its_tokens_leaves_the_sum_unknown() -> None:
    found = evidence(
        [agent(1), chat(2, 1, begin=1, end=2), chat(3, 1, tokens=None, begin=3, end=4)]
    )
    assert "tokens" not in found
    assert "tokens" not in found["steps"][0]


def test_an_agent_that_adds_up_what_its_models_said_does_not_hide_one_that_said_nothing() -> None:
    silent = [chat(2, 1, begin=1, end=2), chat(3, 1, tokens=None, begin=3, end=4)]
    assert "tokens" not in evidence(
        [agent(1, gen_ai__usage__input_tokens=11, gen_ai__usage__output_tokens=4), *silent]
    )
    assert (
        evidence(
            [agent(1, gen_ai__usage__input_tokens=30, gen_ai__usage__output_tokens=10), *silent]
        )["tokens"]
        == 40
    )


def test_a_model_that_failed_without_a_word_on_its_usage_leaves_the_sum_known() -> None:
    assert (
        evidence(
            [
                agent(1),
                chat(2, 1, tokens=None, error="429", begin=1, end=2),
                chat(3, 1, begin=3, end=4),
            ]
        )["tokens"]
        == 15
    )


def test_an_agent_that_runs_elsewhere_speaks_for_its_model() -> None:
    far = agent(
        2,
        1,
        "far",
        begin=1,
        gen_ai__usage__input_tokens=5,
        gen_ai__usage__output_tokens=2,
        gen_ai__response__model="m-9",
    )
    assert steps([executor(1), far], "agent", "model", "tokens") == [("far", "m-9", 7)]
    assert "tokens" not in evidence([executor(1), agent(2, 1, "far", begin=1), chat(3, 1, begin=5)])


def test_what_an_agent_says_it_used_holds_where_its_models_show_less() -> None:
    spans = [agent(1, gen_ai__usage__input_tokens=100, gen_ai__usage__output_tokens=50), chat(2, 1)]
    assert evidence(spans)["tokens"] == 150


def test_a_run_without_models_has_no_tokens_rather_than_none_used() -> None:
    found = evidence([span(1, name="workflow.run"), executor(2, 1)])
    assert "tokens" not in found
    assert "cost_usd" not in found


def test_costs_add_up_exactly() -> None:
    spans = [
        agent(1),
        chat(2, 1, begin=1, end=2, llm__cost__total=0.1),
        chat(3, 1, begin=3, end=4, llm__cost__total=0.2),
    ]
    assert evidence(spans)["cost_usd"] == Decimal("0.3")


@pytest.mark.parametrize(
    ("error", "status"),
    [("boom", "error"), ("TimeoutError: 30 s", "error"), ("asyncio.CancelledError", "cancelled")],
)
def test_a_span_that_failed_is_a_step_that_failed(error: str, status: str) -> None:
    spans = [span(1, name="workflow.run", error=error), executor(2, 1, error=error)]
    assert steps(spans, "status", "error") == [(status, error)]
    assert evidence(spans)["status"] == status


def test_a_step_that_is_repeated_after_a_failure_is_retried() -> None:
    spans = [
        span(1, name="workflow.run"),
        executor(2, 1, end=2, error="boom"),
        executor(3, 1, begin=3, end=5),
        executor(4, 1, begin=6, end=7),
    ]
    assert steps(spans, "name", "status", "retries", "duration_ms") == [
        ("plan", "success", 1, 5),
        ("plan", "success", 0, 1),
    ]
    assert evidence(spans)["retries"] == 1


def test_a_parallel_step_of_the_same_name_is_no_retry() -> None:
    spans = [
        span(1, name="workflow.run"),
        executor(2, 1, end=5, error="boom"),
        executor(3, 1, begin=3, end=6),
    ]
    assert steps(spans, "status", "retries") == [("error", 0), ("success", 0)]


def test_a_model_that_is_called_again_after_it_failed_counts_as_a_retry_of_its_step() -> None:
    spans = [agent(1), chat(2, 1, begin=1, end=2, error="429"), chat(3, 1, begin=3, end=4)]
    assert steps(spans, "status", "retries") == [("success", 1)]


def test_another_model_or_agent_after_a_failure_elsewhere_is_no_retry() -> None:
    spans = [
        executor(1),
        agent(2, 1, "a", begin=1, end=3, error="429"),
        chat(3, 2, begin=2, end=3, error="429"),
        agent(4, 1, "b", begin=4),
        chat(5, 4, begin=5),
    ]
    assert steps(spans, "agent", "retries") == [("a", 0)]
    again = [*spans[:3], agent(4, 1, "a", begin=4), chat(5, 4, begin=5)]
    assert steps(again, "agent", "retries") == [("a", 1)], (
        "the agent and its model are tried again together, which is one retry"
    )


def test_an_attempt_that_failed_before_it_asked_its_model_is_the_same_step() -> None:
    spans = [
        span(1, name="workflow.run"),
        executor(2, 1, end=2, error="boom"),
        executor(3, 1, begin=3, end=8),
        chat(4, 3, begin=4, end=5),
    ]
    assert steps(spans, "name", "agent", "retries", "tokens") == [("plan", "plan", 1, 15)]


def test_an_inner_graph_gives_the_agent_its_name_and_belongs_to_its_node() -> None:
    metadata = {
        "langgraph_node": "scout",
        "langgraph_step": 1,
        "langgraph_checkpoint_ns": "scout:1",
    }
    inner = span(
        3,
        2,
        "researcher",
        begin=1,
        attributes={"openinference__span__kind": "CHAIN", "metadata": metadata},
    )
    spans = graph(
        node(2, 1, "scout", end=40),
        inner,
        node(4, 3, "think", run="1|think:1", begin=2),
        chat(5, 4, begin=3, end=4),
    )
    assert steps(spans, "name", "agent", "tokens") == [("scout", "researcher", 15)]


def test_a_clock_that_ran_backwards_leaves_the_duration_unknown_and_is_counted() -> None:
    found = evidence([agent(1, begin=10, end=5), chat(2, 1)])
    assert "latency_ms" not in found
    assert "duration_ms" not in found["steps"][0]
    assert found["metadata"]["otel"]["dropped"]["clock_skew"] == 1


@pytest.mark.parametrize("bad", ["11", "NaN", -1, 1.5, True, 10**40, [1], Decimal("NaN")])
def test_a_numeric_text_nan_or_a_monster_is_not_a_number(bad: Any) -> None:
    found = evidence([agent(1), chat(2, 1, tokens=(bad, 4))])
    assert "tokens" not in found
    assert found["metadata"]["otel"]["unreadable"] == ["gen_ai.usage.input_tokens"]


def test_an_error_that_only_the_error_type_tells_is_an_error() -> None:
    assert meaning(tool(1, error__type="ToolException")).error == "ToolException"


@pytest.mark.parametrize(
    ("named", "found"), [("execute_tool rm", "rm"), ("execute_tool", ""), ("", ""), ("rm", "rm")]
)
def test_a_tool_span_without_the_name_of_its_tool_is_not_of_another_tool(
    named: str, found: str
) -> None:
    bare = span(1, None, named, gen_ai__operation__name="execute_tool")
    assert evidence([bare])["tool_calls"][0]["name"] == found


@pytest.mark.parametrize(
    ("escaped", "error"), [(True, "ValueError: no"), ("True", "ValueError: no"), (False, None)]
)
def test_an_exception_that_left_its_span_is_an_error_whatever_the_status(
    escaped: Any, error: str | None
) -> None:
    thrown = {
        "exception.type": "ValueError",
        "exception.message": "no",
        "exception.escaped": escaped,
    }
    assert error_of(False, None, [("exception", thrown), ("retry", {})], {}) == error


# --- tool calls


def asking(key: int, parent: int, calls: list[dict[str, Any]], **more: Any) -> Span:
    messages = json.dumps(
        [{"role": "assistant", "parts": [{"type": "tool_call", **call} for call in calls]}]
    )
    return chat(key, parent, gen_ai__output__messages=messages, **more)


def test_calls_with_one_id_twice_are_matched_in_their_order() -> None:
    spans = [
        agent(1),
        asking(2, 1, [{"id": "c1", "name": "add", "arguments": {"a": 1}}], begin=1),
        tool(3, 1, begin=2, gen_ai__tool__call__id="c1"),
        asking(4, 1, [{"id": "c1", "name": "add", "arguments": {"a": 2}}], begin=3),
        tool(5, 1, begin=4, gen_ai__tool__call__id="c1", error="boom"),
    ]
    found = evidence(spans)["tool_calls"]
    assert [(call["arguments"], call.get("error")) for call in found] == [
        ({"a": 1}, None),
        ({"a": 2}, "boom"),
    ]


@pytest.mark.req("W-083")
@pytest.mark.parametrize("clock", [1, 0])
@pytest.mark.parametrize("carried", [{"c1", "c2", "c3"}, {"c1", "c3"}, {"c2"}, {"c3"}, set()])
def test_calls_of_spans_stand_in_the_order_of_the_answer_whatever_became_of_them(
    carried: set[str], clock: int
) -> None:
    wanted = [
        {"id": f"c{number}", "name": name, "arguments": {}}
        for number, name in enumerate(("one", "two", "three"), start=1)
    ]
    begins = {"c1": 6, "c2": 5, "c3": 4}  # side by side: the last begins first
    spans = [agent(9, end=20), asking(8, 9, wanted, begin=clock, end=2 * clock)]
    spans += [
        tool(
            key,
            9,
            call["name"],
            begin=begins[call["id"]] * clock,
            end=9 * clock,
            gen_ai__tool__call__id=call["id"],
            error="denied",
        )
        for key, call in enumerate(wanted, start=1)
        if call["id"] in carried
    ]
    for order in (spans, spans[::-1]):
        assert [call["name"] for call in evidence(order)["tool_calls"]] == ["one", "two", "three"]


@pytest.mark.req("W-083")
def test_a_call_of_an_agent_comes_before_the_calls_that_it_leads_to() -> None:
    outer = asking(
        2,
        1,
        [{"id": "c1", "name": "ask", "arguments": {}}, {"id": "c2", "name": "rm", "arguments": {}}],
        begin=1,
        end=2,
    )
    inner = asking(5, 4, [{"id": "c1", "name": "add", "arguments": {}}], begin=5, end=6)
    spans = [
        agent(1, end=30),
        outer,
        tool(3, 1, "ask", begin=3, end=20, gen_ai__tool__call__id="c1"),
        agent(4, 3, "helper", begin=4, end=19),
        inner,
        tool(6, 4, begin=7, end=8, gen_ai__tool__call__id="c1"),
        tool(7, 4, "unasked", begin=9, end=10),
    ]
    assert [call["name"] for call in evidence(spans)["tool_calls"]] == [
        "ask",
        "rm",
        "add",
        "unasked",
    ]


def test_a_call_that_nobody_carried_out_is_a_call() -> None:
    found = evidence(
        [agent(1), asking(2, 1, [{"id": "c9", "name": "delete_all", "arguments": {}}])]
    )["tool_calls"]
    assert found == [
        {
            "step": "calc",
            "name": "delete_all",
            "arguments": {},
            "error": NOT_RUN,
            "metadata": {"call_id": "c9", "executed": False},
        }
    ]


def test_a_call_without_ids_is_matched_by_name() -> None:
    found = evidence(
        [
            agent(1),
            asking(2, 1, [{"name": "add", "arguments": '{"a": 1}'}], begin=1),
            tool(3, 1, begin=2),
        ]
    )["tool_calls"]
    assert [(call["name"], call["arguments"]) for call in found] == [("add", {"a": 1})]


def test_a_run_keeps_each_schema_that_its_models_were_shown() -> None:
    def shown(*schemas: Any) -> Any:
        tools = [
            json.dumps([{"type": "function", "function": {"name": "add", "parameters": schema}}])
            for schema in schemas
        ]
        chats = [
            chat(place + 2, 1, begin=place + 1, gen_ai__tool__definitions=listed)
            for place, listed in enumerate(tools)
        ]
        return evidence([agent(1), *chats]).get("tools")

    strict, wide = {"type": "object", "required": ["a"]}, {"type": "object"}
    described = {"description": "Adds.", **strict}
    assert shown(strict, strict) == [{"name": "add", "schema": strict}]
    assert shown(described) == [{"name": "add", "schema": described}]
    assert shown(strict, wide) == shown(wide, strict) == [*shown(strict), *shown(wide)]
    assert shown(None) == [{"name": "add"}]
    assert shown() is None
    # also one that is shown to an agent, by which a tool is checked that no model asked for
    listed = json.dumps([{"type": "function", "function": {"name": "add", "parameters": wide}}])
    spans = [agent(1, gen_ai__tool__definitions=listed), chat(2, 1), tool(3, 1, begin=2)]
    assert evidence(spans)["tools"] == shown(wide)
    strange = {"const": "\ud800"}  # can't be written as JSON
    assert listed_tools([{"add": wide}, {"add": strange}]) == [*shown(None), *shown(wide)]


def test_two_spans_of_one_call_are_one_call() -> None:
    spans = [
        agent(1),
        tool(2, 1, begin=1, end=5),
        span(
            3,
            2,
            "tools/call add",
            begin=2,
            end=4,
            mcp__method__name="tools/call",
            gen_ai__tool__name="add",
        ),
    ]
    assert len(evidence(spans)["tool_calls"]) == 1


def test_no_call_is_known_to_be_none_only_where_every_model_says_how_it_ended() -> None:
    assert "tool_calls" not in evidence([agent(1), chat(2, 1)])
    assert (
        evidence([agent(1), chat(2, 1, gen_ai__response__finish_reasons=["stop"])])["tool_calls"]
        == []
    )
    lost = evidence([agent(1), chat(2, 1, gen_ai__response__finish_reasons=["tool_calls"])])
    assert (lost["status"], lost["metadata"]["otel"]["gaps"]) == (
        "error",
        {"tool_calls_not_seen": 1},
    )


def test_without_a_schema_only_a_span_that_says_so_makes_a_call_valid() -> None:
    found = evidence(
        [
            agent(1),
            tool(2, 1, assay__tool__valid=True),
            tool(3, 1, begin=1, assay__tool__valid="yes"),
        ]
    )
    assert [call.get("valid") for call in found["tool_calls"]] == [True, None]
    assert not any("checked" in call for call in found["tool_calls"])


ADD = {
    "name": "add",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}


def called(
    arguments: Any,
    *,
    shown: str = "genai",
    name: str = "add",
    ran: dict[str, Any] | None = None,
    run: bool = True,
) -> dict[str, Any]:
    """One call of a model that was shown `add`, as evidence."""
    asked = [{"id": "c1", "name": name, "arguments": arguments}]
    if shown == "genai":
        spans = [
            agent(1, gen_ai__tool__definitions=json.dumps([{"type": "function", **ADD}])),
            asking(2, 1, asked, begin=1),
        ]
    else:
        more = {
            "openinference__span__kind": "LLM",
            "llm.tools.0.tool.json_schema": json.dumps({"type": "function", "function": ADD}),
            "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": name,
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": json.dumps(
                arguments
            ),
        }
        spans = [agent(1), span(2, 1, "model", begin=1, attributes=more)]
    made = {"gen_ai__tool__call__arguments": json.dumps(ran)} if ran is not None else {}
    (found,) = evidence(
        [*spans, *([tool(3, 1, name, begin=2, gen_ai__tool__call__id="c1", **made)] if run else [])]
    )["tool_calls"]
    return dict(found)


@pytest.mark.req("W-018")
@pytest.mark.parametrize("shown", ["genai", "openinference"])
def test_a_call_is_held_to_the_schema_that_its_model_was_shown(shown: str) -> None:
    assert called({"a": 2}, shown=shown)["valid"] is True
    assert called({"a": "2"}, shown=shown)["valid"] is False
    lax = called({"a": "2"}, shown=shown, ran={"a": 2})
    assert (lax["valid"], lax["arguments"]) == (
        False,
        {"a": "2"},
    ), "what counts is what the model wrote, not what a framework made of it"
    unknown = called({}, shown=shown, name="delete_all", run=False)
    assert (unknown["valid"], unknown["error"]) == (False, UNKNOWN)
    broken = called({"b": 1}, shown=shown, run=False)
    assert (broken["valid"], broken["error"]) == (False, BROKEN)
    idle = called({"a": 1}, shown=shown, run=False)
    assert (idle["valid"], idle["error"], idle["metadata"]) == (
        True,
        NOT_RUN,
        {"call_id": "c1", "executed": False},
    )


@pytest.mark.parametrize(
    ("said", "kept", "verdict"),
    [
        (True, {"a": "x"}, False),
        (False, {"a": 1}, False),
        (True, {"a": 1}, True),
    ],
)
def test_what_a_call_says_of_itself_never_makes_a_broken_one_valid(
    said: bool, kept: Any, verdict: bool
) -> None:
    definitions = json.dumps([ADD])
    spans = [
        agent(1, gen_ai__tool__definitions=definitions),
        asking(2, 1, [{"id": "c1", "name": "add", "arguments": kept}], begin=1),
    ]
    (found,) = evidence(
        [*spans, tool(3, 1, begin=2, gen_ai__tool__call__id="c1", assay__tool__valid=said)]
    )["tool_calls"]
    assert found["valid"] is verdict


@pytest.mark.parametrize(
    "bad",
    [
        "{",
        "[1]",
        '{"type": 7}',
        '{"name": 3}',
        5,
        '[{"name": "add", "parameters": {"type": 7}}]',
        '[{"name": "add"}]',
    ],
)
def test_definitions_that_are_no_schemas_leave_validity_unknown(bad: Any) -> None:
    spans = [
        agent(1, gen_ai__tool__definitions=bad),
        asking(2, 1, [{"id": "c1", "name": "add", "arguments": {"a": 1}}], begin=1),
    ]
    (found,) = evidence([*spans, tool(3, 1, begin=2, gen_ai__tool__call__id="c1")])["tool_calls"]
    assert "valid" not in found


def test_arguments_that_cannot_be_read_are_kept_as_text_and_break_every_schema() -> None:
    found = called('{"a": ', run=False)
    assert (found["valid"], found["error"], found["arguments"]) == (False, BROKEN, '{"a": ')


def test_calls_of_parallel_steps_with_the_same_id_are_not_mixed_up() -> None:
    spans = [
        span(1, name="workflow.run", end=90),
        executor(2, 1, "left", end=50),
        executor(3, 1, "right", end=50),
        asking(4, 2, [{"id": "c1", "name": "add", "arguments": {"a": 1}}], begin=1, end=2),
        asking(5, 3, [{"id": "c1", "name": "add", "arguments": {"a": 2}}], begin=3, end=4),
        tool(6, 3, begin=5, gen_ai__tool__call__id="c1", error="boom"),
        tool(7, 2, begin=6, gen_ai__tool__call__id="c1"),
    ]
    found = {
        call["step"]: (call["arguments"], call.get("error"))
        for call in evidence(spans)["tool_calls"]
    }
    assert found == {"left": ({"a": 1}, None), "right": ({"a": 2}, "boom")}


@pytest.mark.parametrize(
    "bad",
    [
        "__import__('os').abort()",
        "{1: 2}",
        "(" * 5000,
        "{'a': 1e999}",
        "{'a': b'x'}",
    ],
)
def test_arguments_that_python_printed_are_read_and_code_is_not_run(bad: Any) -> None:
    wrapped = {"input_str": "{'a': 2}", "tags": []}
    assert meaning(tool(1, gen_ai__tool__call__arguments=json.dumps(wrapped))).arguments == {"a": 2}
    assert (
        meaning(
            tool(1, gen_ai__tool__call__arguments=json.dumps({**wrapped, "input_str": bad}))
        ).arguments
        is None
    )


# --- handoffs and retrieval


def speaking(*spans: Span, silent: tuple[str, ...] = ()) -> list[Span]:
    """Every step with a model inside it, so that it is an agent, but for those that are silent."""
    named = [
        one for one in spans if meaning(one).kind == "step" and meaning(one).name not in silent
    ]
    asked = [
        chat(900 + index, int(one.span_id, 16), begin=one.start_ns // MS, end=one.start_ns // MS)
        for index, one in enumerate(named)
    ]
    return [*spans, *asked]


FANNED = [
    span(1, name="workflow.run", end=9),
    executor(2, 1, "plan", end=2),
    span(3, 2, "message.send", end=1),
    executor(4, 1, "left", begin=3, links=[3]),
    span(5, 4, "message.send", begin=3),
    executor(6, 1, "right", begin=3, links=[3]),
    span(7, 6, "message.send", begin=3),
    executor(8, 1, "join", begin=5, links=[5, 7]),
    span(9, 8, "message.send", begin=5),
    executor(10, 1, "write", begin=6, links=[9]),
]


def passed_on(spans: list[Span]) -> list[tuple[str, str]] | None:
    found = evidence(spans).get("handoffs")
    return None if found is None else [(handoff["from"], handoff["to"]) for handoff in found]


def test_links_tell_who_handed_the_work_on() -> None:
    assert passed_on(speaking(*FANNED)) == [
        ("plan", "left"),
        ("plan", "right"),
        ("left", "join"),
        ("right", "join"),
        ("join", "write"),
    ]


@pytest.mark.req("W-083")
def test_a_step_that_asks_no_model_is_no_agent_and_is_seen_through() -> None:
    assert passed_on(speaking(*FANNED, silent=("join",))) == [
        ("plan", "left"),
        ("plan", "right"),
        ("left", "write"),
        ("right", "write"),
    ]
    assert passed_on(speaking(*FANNED, silent=("left", "right", "join"))) == [("plan", "write")]
    assert [
        step.get("agent") for step in evidence(speaking(*FANNED, silent=("join",)))["steps"]
    ] == ["plan", "left", "right", None, "write"]


def test_without_any_model_nobody_can_tell_who_is_an_agent() -> None:
    assert passed_on(FANNED) is None


def test_a_trace_that_hands_everything_to_everyone_is_refused_and_not_followed_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handoffs, "MAX_LOOKS", 500)
    first = [executor(2 * key, 1, f"a{key}", end=2) for key in range(1, 41)]
    sent = [span(2 * key + 1, 2 * key, "message.send", end=1) for key in range(1, 41)]
    last = [executor(200 + key, 1, f"b{key}", begin=3, links=range(3, 83, 2)) for key in range(40)]
    with pytest.raises(InputError, match="500 edges"):
        evidence(speaking(span(1, name="workflow.run", end=9), *first, *sent, *last))


FAN = """
import asyncio, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stdout)))
trace.set_tracer_provider(provider)
from agent_framework import WorkflowBuilder, WorkflowContext, executor
from agent_framework.observability import enable_instrumentation
enable_instrumentation()

@executor(id="plan")
async def plan(text: str, ctx: WorkflowContext[str]) -> None:
    await ctx.send_message(text)

@executor(id="left")
async def left(text: str, ctx: WorkflowContext[str]) -> None:
    await ctx.send_message("L" + text)

@executor(id="right")
async def right(text: str, ctx: WorkflowContext[str]) -> None:
    await ctx.send_message("R" + text)

@executor(id="join")
async def join(texts: list[str], ctx: WorkflowContext[None, str]) -> None:
    if sys.argv[1:] == ["fail"]:
        raise ValueError("no")
    await ctx.yield_output(" ".join(texts))

built = WorkflowBuilder(start_executor=plan).add_fan_out_edges(plan, [left, right]).add_fan_in_edges([left, right], join).build()
try:
    asyncio.run(built.run("hi"))
except ValueError:
    pass
"""


@pytest.mark.parametrize("ending", ["well", "fail"])
def test_a_real_workflow_of_agent_framework_tells_its_steps_and_loses_none_unseen(
    tmp_path: Path, ending: str
) -> None:
    pytest.importorskip(
        "agent_framework",
        reason="agent-framework-core is not installed: pip install 'assaykit[agent-framework]'",
    )
    done = subprocess.run(
        [sys.executable, "-c", FAN, ending], capture_output=True, check=True, timeout=120
    )
    (tmp_path / "spans.txt").write_bytes(done.stdout)
    tally = ImportTally()
    (run,) = read([str(tmp_path / "spans.txt")], WANTED, tally)
    assert tally.dropped["traces_without_a_run"] == 1  # that of building the workflow
    assert "handoffs" not in run, "none of them asks a model"
    assert [(step["name"], step.get("agent")) for step in run["steps"]] == [
        (name, None) for name in ("plan", "left", "right", "join")
    ]
    assert run["status"] == ("success" if ending == "well" else "error")
    assert run["steps"][-1]["status"] == run["status"]
    spans = [
        one for one in read_spans(str(tmp_path / "spans.txt")) if one.trace_id == run["run_id"]
    ]
    for lost in [one for one in spans if meaning(one).kind == "step"]:
        assert evidence([one for one in spans if one is not lost])["status"] == "error"


def graph(*nodes: Span, **more: Any) -> list[Span]:
    return [
        span(
            1,
            name="LangGraph",
            end=50,
            attributes={
                "openinference__span__kind": "CHAIN",
                "metadata": {"ls_integration": "langgraph"},
            },
            **more,
        ),
        *nodes,
    ]


def test_a_join_names_those_it_waited_for() -> None:
    nodes = [
        node(2, 1, "plan"),
        node(3, 1, "left", 2, begin=2),
        node(4, 1, "right", 2, begin=2),
        node(5, 1, "join", 3, ["join:left+right:join"], begin=4),
    ]
    assert passed_on(speaking(*graph(*nodes))) == [
        ("plan", "left"),
        ("plan", "right"),
        ("left", "join"),
        ("right", "join"),
    ]
    more = [*nodes, node(6, 1, "write", 4, begin=6)]
    assert passed_on(speaking(*graph(*more), silent=("join",)))[-2:] == [
        ("left", "write"),
        ("right", "write"),
    ]


def test_handoffs_that_cannot_be_told_are_not_known_unless_the_graph_names_its_edges() -> None:
    nodes = node(2, 1, "left"), node(3, 1, "right"), node(4, 1, "next", 2, begin=4)
    assert passed_on(speaking(*graph(*nodes))) is None
    assert passed_on(speaking(*graph(*nodes), silent=("next",))) == [], (
        "what leads to no agent need not be known"
    )
    assert passed_on(
        speaking(*graph(*nodes, gen_ai__workflow__edges=["left -> next", "right -> other"]))
    ) == [("left", "next")]


def test_handoff_spans_are_believed() -> None:
    spans = [
        agent(1, who="a"),
        span(2, 1, "handoff", gen_ai__handoff__from_agent="a", gen_ai__handoff__to_agent="b"),
    ]
    assert evidence(spans)["handoffs"] == [{"from": "a", "to": "b"}]


def test_several_agents_without_a_word_on_handoffs_leave_them_unknown() -> None:
    assert "handoffs" not in evidence([span(1), agent(2, 1, "a"), agent(3, 1, "b", begin=4)])
    assert evidence([agent(1)])["handoffs"] == []


@pytest.mark.parametrize("dialect", ["openinference", "genai"])
def test_retrieved_passages_are_ranked_and_each_is_there_once(dialect: str) -> None:
    if dialect == "openinference":
        more = {
            "openinference__span__kind": "RETRIEVER",
            "retrieval.documents.0.document.id": "d1",
            "retrieval.documents.0.document.content": "It is so.",
            "retrieval.documents.1.document.content": "No id.",
            "retrieval.documents.2.document.id": "d1",
        }
    else:
        listed = [{"id": "d1", "content": "It is so."}, {"content": "No id."}, {"id": "d1"}]
        more = {
            "gen_ai__operation__name": "retrieval",
            "gen_ai__retrieval__documents": json.dumps(listed),
        }
    found = evidence([agent(1), span(2, 1, "search", attributes=more)])
    assert [(one["rank"], one.get("text")) for one in found["retrieval"]] == [
        (1, "It is so."),
        (2, "No id."),
    ]
    assert found["retrieval"][0]["id"] == "d1"
    assert found["retrieval"][1]["id"].startswith("text:")


def test_messages_of_another_shape_ask_for_no_calls() -> None:
    written = json.dumps([{"parts": 3}, {"parts": {"type": "tool_call"}}, {"parts": [4]}, 5])
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": written}
    assert meaning(Span("t", "s", None, "chat", 0, 1, attributes, (), None, {})).calls == ()


class ComparedText(str):
    """A text that counts its comparisons."""

    count = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        type(self).count += 1
        return super().__eq__(other)


def test_a_trace_of_many_searches_does_not_compare_each_with_every_other() -> None:
    searches = [[(ComparedText(f"d{index}"), None)] for index in range(500)]
    assert len(passages(searches).found) == 500
    assert ComparedText.count < 2_000


def test_a_retrieval_that_does_not_list_its_passages_leaves_them_unknown() -> None:
    found = evidence([agent(1), span(2, 1, "search", openinference__span__kind="RETRIEVER")])
    assert "retrieval" not in found
    assert found["metadata"]["otel"]["dropped"]["retrievals_without_documents"] == 1


# --- what is missing


def gaps(spans: list[Span]) -> dict[str, int]:
    found = evidence(spans)
    assert found["status"] == "error"
    assert "tokens" not in found
    counts: dict[str, int] = found["metadata"]["otel"]["gaps"]
    return counts


def test_what_others_name_and_is_not_there_fails_the_run() -> None:
    assert gaps([chat(2, 1)]) == {"no_root_span": 1, "missing_parents": 1}
    assert gaps([agent(1), chat(3, 2)]) == {"missing_parents": 1}
    assert gaps([span(1, name="workflow.run"), executor(2, 1, links=[77])]) == {"missing_links": 1}
    assert gaps(graph(node(2, 1, "a"), node(3, 1, "b", 3, begin=4))) == {"missing_supersteps": 1}
    assert gaps([agent(1, end=None)]) == {"unfinished_roots": 1}
    assert "spans_in_a_circle" in gaps([agent(1, 2), agent(2, 1)])
    edge = span(
        3,
        1,
        "edge_group.process",
        edge_group__delivery_status="delivered",
        message__target_id="lost",
    )
    assert gaps([span(1, name="workflow.run"), executor(2, 1), edge]) == {
        "messages_without_a_receiver": 1
    }


def test_a_parent_that_is_known_to_be_elsewhere_is_not_missing() -> None:
    found = evidence([agent(2, 1, remote=True), chat(3, 2)])
    assert (found["status"], found["metadata"]["otel"]["span_id"]) == ("success", f"{2:016x}")


@pytest.mark.parametrize(
    "spans", [[agent(1), agent(1, error="boom")], [agent(1, error="boom"), agent(1)]]
)
def test_of_two_spans_with_one_id_the_one_that_failed_holds(spans: Any) -> None:
    found = evidence(spans)
    assert (found["status"], found["metadata"]["otel"]["dropped"]) == (
        "error",
        {"duplicate_span_ids": 1},
    )


def test_a_span_that_came_with_two_contents_fails_the_run_and_one_that_came_twice_does_not() -> (
    None
):
    forbidden = tool(2, 1, "rm")
    cover = span(2, 1, "a note", begin=0, end=1)
    for spans in ([agent(1), forbidden, cover], [agent(1), cover, forbidden]):
        assert gaps(spans) == {"spans_that_differ": 1}
    assert evidence([agent(1), forbidden, forbidden])["status"] == "success"


def test_a_span_that_lost_attributes_on_its_way_fails_the_run(tmp_path: Path) -> None:
    """SDKs drop attributes over a limit, among them perhaps what a model asked for."""
    spans = [agent(1), chat(2, 1)._replace(dropped=3)]
    assert gaps(spans) == {"spans_with_dropped_parts": 1}
    for arrived in (from_json(otlp(spans)), from_protobuf(protobuf(spans))):
        assert [one.dropped for one in arrived if isinstance(one, Span)] == [0, 3]
    (tmp_path / "spans.json").write_text(json.dumps(otlp(spans)))
    tally = ImportTally()
    assert [run["status"] for run in read([str(tmp_path / "spans.json")], WANTED, tally)] == [
        "error"
    ]
    assert "1 of 1 traces are not whole" in tally.notes[0]
    assert tally.notes[0].endswith("; spans with dropped parts (1)")


def test_a_tool_that_never_ended_has_an_error() -> None:
    (call,) = evidence([agent(1), tool(2, 1, "add", end=None)])["tool_calls"]
    assert call["error"] == "the span never ended"


@pytest.mark.parametrize("name", REAL)
def test_the_order_of_spans_is_nothing(shared: Path, name: str) -> None:
    spans = real(shared, name)
    chance = random.Random(5)
    first = encode(runs(spans, WANTED)[0])
    for _ in range(20):
        chance.shuffle(spans)
        assert encode(runs(spans, WANTED)[0]) == first


_KINDS = st.sampled_from([agent, chat, tool, executor, node, span])


@st.composite
def some_spans(draw: Any) -> list[Span]:
    made = []
    for key in range(1, draw(st.integers(2, 9))):
        begin = draw(st.integers(0, 20))
        made.append(
            draw(_KINDS)(
                key,
                draw(st.one_of(st.none(), st.integers(1, 9))),
                begin=begin,
                end=draw(st.one_of(st.none(), st.integers(0, 25))),
                error=draw(st.sampled_from([None, None, "boom"])),
                links=draw(st.lists(st.integers(1, 9), max_size=2)),
                remote=draw(st.booleans()),
            )
        )
    return made + draw(st.lists(st.sampled_from(made), max_size=2)) if made else [agent(1)]


@given(some_spans(), st.randoms(use_true_random=False))
def test_any_spans_in_any_order_give_one_evidence_that_is_a_run(
    spans: list[Span], chance: random.Random
) -> None:
    first = encode(run_of(spans, WANTED))
    chance.shuffle(spans)
    assert encode(run_of(spans, WANTED)) == first


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "gen_ai.operation.name",
                "openinference.span.kind",
                "traceloop.span.kind",
                "gen_ai.output.messages",
                "gen_ai.usage.input_tokens",
                "llm.cost.total",
                "metadata",
                "gen_ai.tool.call.arguments",
                "output.value",
                "input.value",
                "gen_ai.response.finish_reasons",
                "gen_ai.retrieval.documents",
                "executor.id",
                "gen_ai.agent.name",
                "retrieval.documents.0.document.id",
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.name",
                "gen_ai.workflow.edges",
                "assay.expected",
                "assay.tags",
                "assay.tool.valid",
                "traceloop.entity.output",
                "graph.node.parent_id",
                "error.type",
                "assay.sample_id",
            ]
        ),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.text()
            | st.sampled_from(
                [
                    "chat",
                    "execute_tool",
                    "invoke_agent",
                    "LLM",
                    "TOOL",
                    "RETRIEVER",
                    "[{}]",
                    '{"a": [1]}',
                ]
            ),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_hostile_attributes_are_read_or_refused_and_never_crash(
    attributes: dict[str, Any], nested: bool
) -> None:
    spans = (
        [agent(1), span(2, 1, attributes=attributes)]
        if nested
        else [span(1, attributes=attributes), chat(2, 1)]
    )
    try:
        run = run_of(spans, WANTED)
    except AssayError:
        return
    assert run["run_id"] == T


# --- dropping spans


def gradable(trace: list[Span], expected: dict[str, Any], rules: list[list[str]]) -> list[Span]:
    """The trace with all that its maker can say, so that it passes every gate."""
    attributes = {
        "assay.required_outputs": [],
        "assay.required_inputs": [],
        "assay.output_schema": json.dumps({}),
        "assay.forbidden_tools": ["delete_all"],
        "assay.expected": json.dumps(expected),
        "assay.handoff_rules": rules,
        "assay.outputs": json.dumps({"answer": "5"}),
    }
    made = []
    for one in trace:
        valid = {"assay.tool.valid": True} if meaning(one).kind == "tool" else {}
        outputs = {"assay.outputs": attributes["assay.outputs"]} if one.parent_id is None else {}
        resource = {key: value for key, value in attributes.items() if key != "assay.outputs"}
        made.append(
            one._replace(attributes={**one.attributes, **valid, **outputs}, resource=resource)
        )
    return made


@pytest.mark.parametrize("name", REAL)
def test_dropping_spans_never_makes_a_grade_better(shared: Path, name: str) -> None:
    grader = Grader(Shelf(), policy="workflow", profile="tool-use-measured")
    chance = random.Random(11)
    for trace in by_trace(real(shared, name)):
        handoffs = evidence(trace)["handoffs"]
        expected = {
            "tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}],
            "handoffs": handoffs,
            "answer": "5",
        }
        spans = gradable(trace, expected, [[one["from"], one["to"]] for one in handoffs])
        whole = grader.grade(Document(run_of(spans, WANTED), "x")).grade
        if name != "maf_default":  # which records no arguments
            assert whole.passed, whole.reason
        for _ in range(60):
            kept = chance.sample(spans, chance.randint(1, len(spans)))
            if any(meaning(one).kind not in ("other", "workflow") for one in kept):
                part = grader.grade(Document(run_of(kept, WANTED), "x")).grade
                assert part.score_units <= whole.score_units
                assert whole.passed or not part.passed


@pytest.mark.parametrize("name", REAL)
def test_a_dropped_model_of_an_agent_that_counts_its_usage_makes_nothing_cheaper(
    shared: Path, name: Any
) -> None:
    for trace in by_trace(real(shared, name)):
        for lost in [one for one in trace if meaning(one).kind == "model"]:
            assert evidence([one for one in trace if one is not lost]).get("tokens", 40) >= 40


# --- runs


def test_what_a_trace_says_of_itself_holds_and_options_say_the_rest() -> None:
    said = {
        "assay.workflow.id": "own",
        "assay.workflow.version": "9",
        "assay.sample_id": 7,
        "service.name": "svc",
    }
    run = run_of([agent(1, resource=said)], WANTED)
    assert run["workflow"] == {"id": "own", "version": "9", "family": "tool-use"}
    assert run["dataset"] == {"id": "d", "version": "1", "sample_id": "7"}


def test_the_service_stands_in_for_the_workflow_and_the_trace_for_the_sample() -> None:
    run = run_of(
        [agent(1, resource={"service.name": "svc", "service.version": "3"})],
        Wanted(None, None, NameVersion("d", "1")),
    )
    assert run["workflow"] == {"id": "svc", "version": "3"}
    assert run["dataset"]["sample_id"] == T
    assert "the trace id is used" in run["metadata"]["otel"]["sample_id"]


@pytest.mark.parametrize(
    ("resource", "wanted", "option"),
    [
        ({}, Wanted(None, None, NameVersion("d", "1")), "--workflow"),
        (
            {"service.name": "unknown_service:python", "service.version": "1"},
            Wanted(None, None, NameVersion("d", "1")),
            "--workflow",
        ),
        ({"service.name": "svc"}, Wanted(None, None, NameVersion("d", "1")), "--workflow"),
        ({"service.name": "svc", "service.version": "1"}, Wanted(), "--dataset"),
        ({}, Wanted(), "--workflow ID@VERSION --dataset"),
    ],
)
def test_what_nobody_says_is_an_error_that_names_the_option(
    resource: dict[str, Any], wanted: Wanted, option: str
) -> None:
    with pytest.raises(InputError) as caught:
        run_of([agent(1, resource=resource)], wanted)
    assert f"`assay import {option} ID@VERSION`" in caught.value.fix  # `grade` lacks the option


def test_spans_that_disagree_on_their_sample_are_refused() -> None:
    with pytest.raises(InputError, match="disagree"):
        run_of([agent(1, assay__sample_id="a"), chat(2, 1, assay__sample_id="b")], WANTED)


def test_a_trace_without_a_run_is_left_out_and_counted() -> None:
    made, dropped = runs([span(1, name="workflow.build")], WANTED)
    assert (made, dict(dropped)) == ([], {"traces_without_a_run": 1, "spans_of_no_run": 1})


def test_a_run_that_failed_before_its_first_step_is_not_left_out() -> None:
    (run,), _ = runs([span(1, error="no key", assay__sample_id="s-1")], WANTED)
    assert (run["dataset"]["sample_id"], run["status"]) == ("s-1", "error")


def test_too_many_spans_of_one_trace_are_refused() -> None:
    with pytest.raises(InputError, match="limit"):
        evidence([agent(1)] * (MAX_SPANS + 1))


def test_a_chain_of_thousands_of_spans_is_read() -> None:
    spans = [
        agent(1),
        *(span(key, key - 1, "inner") for key in range(2, 5_000)),
        chat(30_000, 4_999),
    ]
    assert evidence(spans)["tokens"] == 15


# --- files


@pytest.mark.parametrize("name", ["a.json", "b.jsonl", "c.pb"])
def test_a_file_of_lines_a_document_protobuf_and_console_output_are_all_read(
    tmp_path: Path, name: str
) -> None:
    spans = [agent(1), chat(2, 1)]
    (tmp_path / "a.json").write_text(json.dumps(otlp(spans), indent=2))
    (tmp_path / "b.jsonl").write_text("\n".join(json.dumps(otlp([one])) for one in spans) + "\n")
    (tmp_path / "c.pb").write_bytes(protobuf(spans))
    path = tmp_path / name
    assert fits(Head(name, path.read_bytes()))
    assert encode(evidence(list(read_spans(str(path))))) == encode(evidence(spans))


def test_only_spans_are_taken_for_spans() -> None:
    inner = {"context": {"trace_id": "0x1"}, "start_time": "2026-11-15T10:00:00Z"}
    for tree in (inner, [inner], {"resourceSpans": []}):
        assert fits(Head("x.json", json.dumps(tree).encode()))
    for tree in (
        {"trace_id": "0x1", "context": "a passage", "score": 1},
        {"samples": [{"metadata": inner}], "context": "trace_id"},
        {"note": '"resourceSpans"', "text": '"trace_id" in "context"'},
    ):
        assert not fits(Head("x.json", json.dumps(tree).encode()))


def test_what_the_console_exporter_of_the_sdk_prints_is_read(tmp_path: Path) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    with (tmp_path / "printed.txt").open("w") as out:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=out)))
        tracer = provider.get_tracer("x")
        with tracer.start_as_current_span(
            "a", attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "calc"}
        ):
            with tracer.start_as_current_span(
                "b", attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"}
            ):
                pass
            with (
                pytest.raises(ValueError, match="boom"),
                tracer.start_as_current_span("c", attributes={"gen_ai.operation.name": "chat"}),
            ):
                raise ValueError("boom")
        provider.shutdown()
    tally = ImportTally()
    found = list(read([str(tmp_path / "printed.txt")], WANTED, tally))
    assert tally.read == {"files": 1, "spans": 3, "traces": 1}
    assert found[0]["steps"][0]["name"] == "calc"
    failed = next(one for one in read_spans(str(tmp_path / "printed.txt")) if one.name == "c")
    assert failed.error == "ValueError: boom"


def test_one_trace_may_lie_in_several_files(tmp_path: Path) -> None:
    for name, one in (("a.jsonl", agent(1)), ("b.jsonl", chat(2, 1))):
        (tmp_path / name).write_text(json.dumps(otlp([one])))
    found = read([str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")], WANTED, ImportTally())
    assert [run["tokens"] for run in found] == [15]
    (tmp_path / "c.jsonl").write_text('{"resourceSpans": []}')
    with pytest.raises(NotEnoughEvidence, match="no spans"):
        list(read([str(tmp_path / f"{name}.jsonl") for name in "abc"], WANTED, ImportTally()))


BAD: list[tuple[str, bytes, str]] = [
    ("cut.json", json.dumps(otlp([agent(1)])).encode()[:-20], "cut off"),
    ("cut.pb", protobuf([agent(1)])[:-3], "protobuf"),
    ("latin.json", b'{"resourceSpans": "\xe9"}', ""),
    ("other.json", b'{"hello": 1}', "neither"),
    ("nan.jsonl", b'{"resourceSpans": [NaN]}', "NaN"),
    ("deep.json", b'{"resourceSpans": ' + b"[" * 5000 + b"]" * 5000 + b"}", "deep"),
    ("twice.json", b'{"resourceSpans": [], "resourceSpans": []}', "twice"),
    ("id.json", json.dumps(otlp([agent(1)])).replace(T, "zz").encode(), "32 hexadecimal"),
    ("zero.json", json.dumps(otlp([agent(1)])).replace(T, "0" * 32).encode(), "zeros"),
    (
        "time.json",
        json.dumps(otlp([agent(1)]))
        .replace('"startTimeUnixNano": "0"', '"startTimeUnixNano": "noon"')
        .encode(),
        "64-bit",
    ),
    ("snake.json", b'{"resource_spans": []}', "neither"),
    ("shape.json", b'{"resourceSpans": {}}', "must be a list"),
    ("spans.json", b'{"resourceSpans": [{"scopeSpans": [{"spans": "none"}]}]}', "must be a list"),
    (
        "status.json",
        json.dumps(otlp([agent(1, error="x")])).replace('"code": 2', '"code": 7').encode(),
        "unknown status",
    ),
    (
        "words.json",
        json.dumps(otlp([agent(1, error="x")]))
        .replace('"status": {"code": 2, "message": "x"}', '"status": "ERROR"')
        .encode(),
        "must be an object",
    ),
    ("long.json", json.dumps(otlp([agent(1, big="x" * (MAX_TEXT + 1))])).encode(), "limit"),
    ("long.pb", protobuf([agent(1, big="x" * (MAX_TEXT + 1))]), "limit"),
]


@pytest.mark.parametrize(("name", "data", "words"), BAD, ids=[name for name, _, _ in BAD])
def test_a_file_that_is_wrong_is_an_error_that_tells(
    tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError) as caught:
        list(read([str(tmp_path / name)], WANTED, ImportTally()))
    assert words in str(caught.value)


def test_empty_spans_in_protobuf_take_little_more_memory_than_in_json() -> None:
    """Each takes two bytes: written out with all its defaults, it took a kilobyte."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.spans.extend(type(scope.spans.add())() for _ in range(3999))
    data, peaks = request.SerializeToString(), []
    for arrived in (
        lambda: from_json({"resourceSpans": [{"scopeSpans": [{"spans": [{}] * 4000}]}]}),
        lambda: from_protobuf(data),
    ):
        tracemalloc.start()
        assert all(isinstance(one, Fault) for one in list(arrived()))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 4 * peaks[0]


def test_json_may_leave_out_a_text_that_is_empty() -> None:
    """As protobuf does: another exporter's JSON has no defaults either."""
    tree = otlp([agent(1)])
    made = tree["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    made["events"] = [{"attributes": [{"value": {"stringValue": "x"}}]}]
    (read_back,) = from_json(tree)
    assert isinstance(read_back, Span)
    assert read_back.events == [("", {"": "x"})]


@given(st.binary(max_size=300), st.integers(0, 400), st.booleans())
def test_damaged_protobuf_is_read_or_refused_and_never_crashes(
    noise: bytes, at: int, whole: bool
) -> None:
    good = protobuf([agent(1), chat(2, 1)])
    try:
        list(from_protobuf(noise if whole else good[:at] + noise + good[at + len(noise) :]))
    except AssayError:
        return


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "resourceSpans",
                        "scopeSpans",
                        "spans",
                        "resource",
                        "attributes",
                        "key",
                        "value",
                        "stringValue",
                        "intValue",
                        "doubleValue",
                        "arrayValue",
                        "kvlistValue",
                        "values",
                        "traceId",
                        "spanId",
                        "status",
                        "code",
                        "events",
                        "links",
                        "flags",
                        "name",
                        "startTimeUnixNano",
                        "endTimeUnixNano",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_any_json_is_read_or_refused_and_never_crashes(tree: Any) -> None:
    for one in from_json(
        {"resourceSpans": [{"scopeSpans": [{"spans": [tree]}], "resource": tree}, tree]}
    ):
        assert isinstance(one, Span) or one.message


# --- the command


OPTIONS = ("--workflow", "calc@1", "--family", "tool-use", "--dataset", "sums@1")


def test_what_is_imported_is_graded_by_the_real_command(shared: Path, assay: Any) -> None:
    files = [f"{shared}/data/peer_results/otel/{name}.jsonl" for name in REAL]
    done = assay("import", *files, "-o", "runs.jsonl", *OPTIONS)
    assert done.code == ExitCode.PASSED
    assert "6 runs from 4 files, 35 spans, 6 traces" in done.out
    assert "left out: spans without meaning (4)" in done.out
    result = assay("grade", "runs.jsonl", "--json")
    assert result.code == ExitCode.FAILED  # nobody said which outputs are required
    assert len(result.json()["results"]) == 6


def test_json_output_is_one_document_with_the_counts(shared: Path, assay: Any) -> None:
    path = f"{shared}/data/peer_results/otel/maf_default.jsonl"
    done = assay("import", path, "--from", "otlp", "--json", *OPTIONS)
    assert done.code == ExitCode.PASSED
    found = done.json()
    assert found["counts"] == {
        "runs": 2,
        "read": {"files": 1, "spans": 8, "traces": 2},
        "dropped": {},
    }
    assert len(found["runs"]) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("x.json",), ExitCode.MALFORMED, "JSON with the keys hello"),
        (("good.jsonl", "--from", "otpl"), ExitCode.MISUSE, "Supported: assay, "),
        (("good.jsonl", "--workflow", "calc"), ExitCode.MISUSE, "an id and a version"),
        (("build.jsonl", *OPTIONS), ExitCode.NOT_ENOUGH, "no run"),
        (("good.jsonl",), ExitCode.MALFORMED, "nothing states assay.workflow.id, "),
        (("-",), ExitCode.MISUSE, "standard input"),
    ],
)
def test_the_command_refuses_what_it_cannot_import(
    assay: Any, tmp_path: Path, arguments: Any, code: Any, words: str
) -> None:
    (tmp_path / "x.json").write_text('{"hello": 1}')
    (tmp_path / "build.jsonl").write_text(json.dumps(otlp([span(1, name="workflow.build")])))
    (tmp_path / "good.jsonl").write_text(json.dumps(otlp([agent(1)])))
    done = assay("import", *arguments)
    assert (done.code, words in done.err) == (code, True), done.err


# --- grades sent by the command


def evidence_file(folder: Path, count: int = 3) -> Path:
    path = folder / "runs.jsonl"
    made = [
        {**document("code-repair"), "run_id": T if index == 0 else f"r-{index}"}
        for index in range(count)
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in made))
    return path


@pytest.mark.parametrize("way", ["option", "environment"])
def test_the_command_sends_each_grade_as_events_that_a_real_receiver_decodes(
    assay: Any, tmp_path: Path, way: str
) -> None:
    evidence_file(tmp_path)
    plain = assay("grade", "runs.jsonl", "--json")
    with Receiver() as receiver:
        more = ("--otlp-endpoint", receiver.address) if way == "option" else ()
        secret = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20hunter2"}
        result = assay(
            "grade",
            "runs.jsonl",
            "--json",
            *more,
            env=secret if more else {**secret, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address},
        )
        records = receiver.records()
        assert {(path, headers["authorization"]) for path, headers, _ in receiver.got} == {
            ("/v1/logs", "Bearer hunter2")
        }
    assert (result.code, result.out, result.err) == (plain.code, plain.out, plain.err)
    graded = {one["run_id"]: one for one in result.json()["results"]}
    assert receiver.grades() == list(graded)
    assert {record.event_name for record, _ in records} == {EVENT}
    assert {
        record.trace_id.hex() for record, attributes in records if attributes["assay.run_id"] == T
    } == {T}
    whole = [
        (
            attributes["gen_ai.evaluation.score.value"],
            attributes["gen_ai.evaluation.score.label"],
            attributes["assay.passed"],
        )
        for _, attributes in records
        if attributes["gen_ai.evaluation.name"] == "assay"
    ]
    assert whole == [
        (one["weighted_score"], one["grade"], one["passed"]) for one in graded.values()
    ]
    assert len(records) == sum(1 + len(one["criteria"]) for one in graded.values())


@pytest.mark.parametrize("json_asked", [True, False])
@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1", "nonsense", "http://me:hunter2@127.0.0.1:1"]
)
def test_an_endpoint_that_cannot_be_reached_is_one_line_on_stderr_and_changes_nothing(
    assay: Any, tmp_path: Path, json_asked: bool, address: str
) -> None:
    evidence_file(tmp_path)
    shown = ("--json",) if json_asked else ()
    plain, sent = (
        assay("grade", "runs.jsonl", *shown),
        assay("grade", "runs.jsonl", *shown, "--otlp-endpoint", address),
    )
    assert (sent.code, sent.out) == (plain.code, plain.out)
    assert plain.err == ""
    (line,) = sent.err.splitlines()
    assert "were not sent" in line
    assert "hunter2" not in line


def test_a_receiver_that_refuses_changes_no_exit_code_of_a_run_that_failed(
    assay: Any, tmp_path: Path
) -> None:
    path = evidence_file(tmp_path)
    path.write_text(path.read_text().replace('"status": "success"', '"status": "failed"'))
    with Receiver(503) as receiver:
        result = assay("grade", "runs.jsonl", "--otlp-endpoint", receiver.address)
    assert (result.code, "503" in result.err) == (ExitCode.FAILED, True)


def test_nothing_is_sent_where_nothing_was_graded(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text("{}\n")
    with Receiver() as receiver:
        assert (
            assay("grade", "runs.jsonl", "--otlp-endpoint", receiver.address).code
            == ExitCode.MALFORMED
        )
        assert receiver.got == []
