"""The same multi-agent workflow in LangGraph and in Microsoft Agent Framework gives the same
evidence, scorecard and grade.
"""

from __future__ import annotations

import asyncio
import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("langgraph.version", reason="the langgraph extra is not installed")
pytest.importorskip("agent_framework", reason="the agent-framework extra is not installed")
pytest.importorskip("opentelemetry.sdk.trace", reason="the agent-framework extra is not installed")

from assay import grade, score
from assay.library.shelf import Shelf
from assay.records.digests import scorecard_digest
from assay.records.schema_weight import without_notes
from assay.running.adapters import WorkflowTask, make_adapter
from assay.running.adapters.loading import load
from assay.tracing.recorder import Recorder
from commands import run as run_command
from test_adapters_frameworks import made_of

FOLDER = Path(__file__).parent / "fixtures" / "parity"
TARGETS = {"langgraph": "graph:build", "agent_framework": "flow:build"}
MORE: dict[str, dict[str, Any]] = {"langgraph": {}, "agent_framework": {"content": True}}
"""Another test in this process may have set a tracer provider, which then has to allow content."""
LISTS = ("steps", "tool_calls", "handoffs", "retrieval")


def followed(
    kind: str, *, turns: Any = None, retry: bool = True, clock: Any = None
) -> dict[str, Any]:
    """One run of the fixture in a framework, as `assay.run/1`, with the latency fixed: no two
    programs take the same time.
    """
    build = load(TARGETS[kind], FOLDER, "test")
    adapter = made_of(kind, lambda: build(turns, retry=retry), output="answer", **MORE[kind])
    script = load("script:QUESTION", FOLDER, "test")
    record = Recorder(clock=clock)
    try:
        outputs: dict[str, Any] | None = dict(
            asyncio.run(adapter.call(WorkflowTask("r-1", 1, {"question": script}), record))
        )
        status = "success"
    except ConnectionError:
        outputs, status = None, "error"
    return run_of(record.evidence(), outputs, status)


def run_of(evidence: dict[str, Any], outputs: dict[str, Any] | None, status: str) -> dict[str, Any]:
    run = {
        "schema": "assay.run/1",
        "run_id": "r-1",
        "workflow": {"id": "bridge", "version": "1", "family": "tool-use"},
        "dataset": {"id": "bridges", "version": "1", "sample_id": "s-1"},
        "status": status,
        "outputs": outputs,
        "required_outputs": ["answer"],
        "output_schema": {"type": "object", "required": ["answer"]},
        "inputs": {"question": load("script:QUESTION", FOLDER, "test")},
        "required_inputs": ["question"],
        "expected": {
            "answer": load("script:ANSWER", FOLDER, "test"),
            "tool_calls": [
                {"name": "search", "arguments": {"query": "bridge opening", "limit": 3}},
                {"name": "fetch", "arguments": {"url": "https://news.example/bridge"}},
                {"name": "lookup", "arguments": {"id": "b-7"}},
            ],
            "handoffs": [{"from": source, "to": to} for source, to in PASSED],
        },
        "forbidden_tools": ["shell"],
        "handoff_rules": [list(pair) for pair in PASSED],
        "latency_ms": 900,
        **evidence,
    }
    return {key: value for key, value in run.items() if value is not None}


PASSED = [
    ("planner", "scout"),
    ("planner", "archivist"),
    ("scout", "writer"),
    ("archivist", "writer"),
    ("writer", "reviewer"),
]


def listed(run: dict[str, Any]) -> dict[str, list[str]]:
    """The lists of a run as multisets: two branches at once have no order."""
    return {
        name: sorted(json.dumps(one, sort_keys=True, default=str) for one in run[name])
        for name in LISTS
    }


def judged(run: dict[str, Any]) -> tuple[str, str, Any, bool]:
    card = score(run, profile="tool-use-measured@1")
    graded = grade(card)
    return scorecard_digest(card), graded.grade, graded.weighted_score, graded.passed


@pytest.fixture(scope="module")
def both() -> dict[str, dict[str, Any]]:
    return {kind: followed(kind) for kind in TARGETS}


@pytest.mark.req("W-083")
def test_the_same_workflow_in_both_frameworks_gives_the_same_scorecard_and_grade(
    both: dict[str, dict[str, Any]],
) -> None:
    verdicts = {kind: judged(run) for kind, run in both.items()}
    assert verdicts["langgraph"] == verdicts["agent_framework"]
    assert verdicts["langgraph"][1:] == ("A", verdicts["langgraph"][2], True)


@pytest.mark.req("W-083")
def test_the_same_workflow_in_both_frameworks_gives_the_same_evidence(
    both: dict[str, dict[str, Any]],
) -> None:
    one, other = both["langgraph"], both["agent_framework"]
    assert listed(one) == listed(other)
    # one framework gives parameters a title, which asks nothing
    assert without_notes(one["tools"]) == without_notes(other["tools"])
    assert {name: value for name, value in one.items() if name not in (*LISTS, "tools")} == {
        name: value for name, value in other.items() if name not in (*LISTS, "tools")
    }


@pytest.mark.req("W-083")
@pytest.mark.parametrize("kind", TARGETS)
def test_the_evidence_holds_the_parallel_branch_the_retry_the_handoffs_and_the_failing_tool(
    both: dict[str, dict[str, Any]], kind: str
) -> None:
    run = both[kind]
    steps = {step["name"]: step for step in run["steps"]}
    assert sorted(steps) == ["archivist", "collect", "planner", "reviewer", "scout", "writer"]
    assert len(run["steps"]) == 6, "a node that was tried again is one step"
    assert steps["archivist"]["retries"] == 1
    assert run["retries"] == 1
    assert steps["collect"] == {
        "name": "collect",
        "status": "success",
    }, "a step that asks no model is not an agent"
    assert {name: step["tokens"] for name, step in steps.items() if "tokens" in step} == {
        "planner": 42,
        "scout": 161,
        "archivist": 128,
        "writer": 130,
        "reviewer": 74,
    }
    assert run["tokens"] == 535
    assert {step.get("model") for name, step in steps.items() if name != "collect"} == {"m-1"}
    assert sorted((one["from"], one["to"]) for one in run["handoffs"]) == sorted(PASSED)
    calls = {call["name"]: call for call in run["tool_calls"]}
    assert calls["fetch"] == {
        "name": "fetch",
        "step": "scout",
        "arguments": {"url": "https://news.example/bridge"},
        "valid": True,
        "checked": True,
        "error": "TimeoutError: no answer from https://news.example/bridge",
    }
    assert calls["search"] == {
        "name": "search",
        "step": "scout",
        "arguments": {"query": "bridge opening", "limit": 3},
        "valid": True,
        "checked": True,
    }
    assert [(one["id"], one["rank"]) for one in run["retrieval"]] == [("doc-1", 1), ("doc-2", 2)]


@pytest.mark.req("W-083")
@pytest.mark.parametrize("kind", TARGETS)
def test_another_tool_argument_in_one_framework_changes_its_scorecard(
    both: dict[str, dict[str, Any]], kind: str
) -> None:
    turns = load("script:turns", FOLDER, "test")()
    first = turns["scout"][0]
    turns["scout"][0] = first._replace(
        calls=(("c1", "search", {"query": "bridge", "limit": 3}), first.calls[1])
    )
    changed = followed(kind, turns=turns)
    assert listed(changed)["tool_calls"] != listed(both[kind])["tool_calls"]
    assert judged(changed)[0] != judged(both[kind])[0]


@pytest.mark.req("W-083")
@pytest.mark.parametrize("kind", TARGETS)
def test_a_lost_retry_in_one_framework_changes_its_scorecard(
    both: dict[str, dict[str, Any]], kind: str
) -> None:
    lost = followed(kind, retry=False)
    assert lost["status"] == "error"
    failed = next(step for step in lost["steps"] if step["name"] == "archivist")
    assert (failed["status"], failed["error"]) == (
        "error",
        "ConnectionError: the endpoint closed the connection",
    )
    assert judged(lost)[0] != judged(both[kind])[0]
    assert judged(lost)[3] is False


@pytest.mark.req("W-083")
def test_a_run_that_fails_fails_alike_in_both_frameworks() -> None:
    lost = {kind: followed(kind, retry=False) for kind in TARGETS}
    steps = {
        kind: {
            (step["name"], step["status"], step.get("error"))
            for step in run["steps"]
            if step["name"] != "scout"
        }
        for kind, run in lost.items()
    }
    assert steps["langgraph"] == steps["agent_framework"]
    assert judged(lost["langgraph"])[1:] == judged(lost["agent_framework"])[1:]


@pytest.mark.req("W-083")
@pytest.mark.parametrize("kind", TARGETS)
def test_a_model_that_does_not_say_what_it_used_makes_the_tokens_unknown_not_fewer(
    kind: str,
) -> None:
    turns = load("script:turns", FOLDER, "test")()
    turns["scout"][1] = turns["scout"][1]._replace(used=False)
    run = followed(kind, turns=turns)
    assert "tokens" not in next(step for step in run["steps"] if step["name"] == "scout")
    assert "tokens" not in run


@pytest.mark.req("W-073")
@pytest.mark.parametrize("kind", TARGETS)
def test_with_a_clock_every_step_has_a_duration(kind: str) -> None:
    run = followed(kind, clock=count(0, 10**6).__next__)  # each look at it is a millisecond later
    assert all(step["duration_ms"] > 0 for step in run["steps"])


@pytest.mark.req("W-083")
def test_the_order_in_which_parallel_branches_finish_changes_nothing(
    both: dict[str, dict[str, Any]],
) -> None:
    turned = {
        **both["langgraph"],
        **{name: list(reversed(both["langgraph"][name])) for name in LISTS},
    }
    assert judged(turned) == judged(both["langgraph"])


@pytest.mark.req("W-083")
def test_assay_run_gives_both_frameworks_the_same_grade(tmp_path: Path) -> None:
    sample = {
        "id": "s",
        "question": load("script:QUESTION", FOLDER, "test"),
        "expected": run_of({}, None, "success")["expected"],
    }
    (tmp_path / "data.jsonl").write_text(
        "".join(json.dumps({**sample, "id": f"s-{number}"}) + "\n" for number in range(4))
    )
    profile = yaml.safe_load(Path(Shelf().find("profiles", "tool-use-measured@1").path).read_text())
    profile["criteria"][-1]["params"] = {
        "slo_good": 10**9,
        "slo_bad": 10**10,
    }  # how long it takes here says nothing of the workflow
    (tmp_path / "timeless.yaml").write_text(json.dumps({**profile, "profile": "timeless"}))
    shown = {}
    for kind, target in TARGETS.items():
        spec = {
            "workflow": "bridge",
            "version": 1,
            "strategy": "multi_agent",
            "inputs": ["question"],
            "outputs": ["answer"],
            "output_schema": {"type": "object", "required": ["answer"]},
            "adapter": {"kind": kind, "target": target, "output": "answer", **MORE[kind]},
            "forbidden_tools": ["shell"],
            "handoff_rules": PASSED,
        }
        (tmp_path / f"{kind}.yaml").write_text(json.dumps(spec))
        for name in ("script", target.split(":")[0]):
            (tmp_path / f"{name}.py").write_text((FOLDER / f"{name}.py").read_text())
        words = f"run {kind}.yaml --dataset data.jsonl --name same --work work-{kind} --json"
        more = ["--profile", "timeless.yaml", "--concurrency", "64"]
        # here: another process would load both frameworks again
        result = run_command([*words.split(), *more], cwd=tmp_path, env={"NO_COLOR": "1"})
        assert result.code == 0, result.err
        shown[kind] = [comparable(one) for one in result.json()["results"]]
    assert shown["langgraph"] == shown["agent_framework"]
    assert [one["grade"] for one in shown["langgraph"]] == ["A"] * 4


def comparable(result: dict[str, Any]) -> dict[str, Any]:
    """A grade without what the clock measured."""
    kept = {
        name: result[name]
        for name in (
            "run_id",
            "grade",
            "passed",
            "weighted_score",
            "hard_gates",
            "profile",
            "policy",
        )
    }
    return {**kept, "criteria": [one for one in result["criteria"] if one["name"] != "efficiency"]}


@pytest.mark.parametrize(("kind", "target"), list(TARGETS.items()))
def test_the_adapters_are_made_from_a_workflow_file_by_their_kind(kind: Any, target: Any) -> None:
    adapter = make_adapter(
        {"kind": kind, "target": target, "output": "answer", **MORE[kind]}, FOLDER, where="test"
    )
    record = Recorder(clock=None)
    outputs = asyncio.run(adapter.call(WorkflowTask("r-1", 1, {"question": "When?"}), record))
    asyncio.run(adapter.close())
    assert dict(outputs) == {"answer": load("script:ANSWER", FOLDER, "test")}
