"""Functions, commands and endpoints as workflows, the strategies over them, and everything that can
go wrong with them: each becomes evidence.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.errors import InputError
from assay.files.json_files import Document
from assay.records.reading import read_run
from assay.running.compatibility import prepare
from assay.running.dataset import from_rows
from assay.running.post_run import after_of
from assay.running.runner import Runner, RunSettings, work_of
from assay.running.workflow import make_workflow

NOW = "2026-11-15T10:00:00Z"


def ran(
    folder: Path,
    code: str = "",
    *,
    rows: list[dict[str, Any]] | None = None,
    events: list[Any] | None = None,
    timeout: float = 30,
    **spec: Any,
) -> list[Any]:
    """The runs of a workflow whose functions are in `code`."""
    name = f"flow_{abs(hash((str(folder), code)))}"
    (folder / f"{name}.py").write_text(code)
    tree = {
        "workflow": "w",
        "version": "1",
        "family": "tool-use",
        "inputs": ["q"],
        "outputs": ["answer"],
        "output_schema": {"type": "object"},
        **spec,
    }
    if "adapter" not in tree and "steps" not in tree and "agents" not in tree:
        tree["adapter"] = {"kind": "python", "target": f"{name}:answer"}
    text = json.dumps(tree).replace("FLOW", name)
    flow = make_workflow(Document(json.loads(text), "workflow.yaml"), folder)
    data = from_rows(rows or [{"id": "s1", "q": "why"}], id="d", version="1", where="d")
    kept: list[Any] = []
    settings = RunSettings("x", concurrency=4, timeout_s=timeout, now=NOW)
    tell = (
        None
        if events is None
        else (lambda run_id, kind, fields: events.append((run_id, kind, fields)))
    )
    runner = Runner(
        flow, data, settings, keep=kept.append, notify=tell, after=after_of(flow, criteria=())
    )
    asyncio.run(runner.run(work_of(prepare(flow, data), settings)))
    for run in kept:
        assay.score(
            run, profile="tool-use"
        )  # every run is one that can be scored, whatever became of it
    return kept


def test_no_adapter_writes_evidence_but_through_tracing() -> None:
    """An adapter reports to `tracing`; of the recorder itself it may only mark a list as watched."""
    folder = Path(assay.__file__).parent / "running" / "adapters"
    used = {
        (path.name, node.attr)
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "record"
    }
    assert {name for _, name in used} == {"watched"}, used


# --- functions


def test_a_function_gives_outputs_and_says_what_it_did(tmp_path: Path) -> None:
    code = """
def answer(inputs, record):
    with record.step("plan", agent="planner") as step:
        step.used(model="m-1", tier="large", tokens=12, cost_usd=0.002)
        step.tool("search", {"q": inputs["q"]})
        step.tool("rm", {})
        step.retry()
        step.score("plan_quality", 0.5)
    record.handoff("planner", "writer")
    record.retrieved("d1", "text", rank=1)
    record.claim("so", citations=["d1"])
    with record.step("write", agent="writer", critical=False) as step:
        step.used(model="m-1", tokens=8, cost_usd=0.001)
    return {"answer": inputs["q"].upper()}
"""
    tools = [
        {
            "name": "search",
            "parameters": {
                "type": "object",
                "properties": {"q": {"type": "string"}},
                "required": ["q"],
            },
        }
    ]
    (run,) = ran(
        tmp_path, code, tools=tools, forbidden_tools=["rm"], handoff_rules=[["planner", "writer"]]
    )
    assert (run["status"], run["outputs"]) == ("success", {"answer": "WHY"})
    assert (run["tokens"], float(run["cost_usd"]), run["retries"]) == (20, 0.003, 1)
    assert [(step["name"], step["status"], step.get("agent")) for step in run["steps"]] == [
        ("plan", "success", "planner"),
        ("write", "success", "writer"),
    ]
    assert [(call["name"], call["valid"]) for call in run["tool_calls"]] == [
        ("search", True),
        ("rm", False),
    ]  # a tool that is not declared breaks the contract
    assert [call.get("checked", False) for call in run["tool_calls"]] == [True, True]
    assert run["tools"] == [{"name": "search", "schema": tools[0]["parameters"]}]
    assert run["handoffs"] == [{"from": "planner", "to": "writer"}]
    card = assay.score(run)
    assert card.hard_gates["no_forbidden_tool"] is False
    assert card.hard_gates["handoff_graph_respected"] is True
    assert {one["agent"] for one in _plain(card.agent_scores)} == {"planner", "writer"}


def test_a_workflow_cannot_vouch_for_calls_of_tools_that_it_does_not_declare(
    tmp_path: Path,
) -> None:
    code = """
def answer(inputs, record):
    with record.step("plan") as step:
        step.tool("search", {"q": 1}, valid=True)
        step.tool("book", {}, valid=False)
    return {"answer": "x"}
"""
    (run,) = ran(tmp_path, code)
    assert [call.get("valid") for call in run["tool_calls"]] == [None, False]
    assert "tools" not in run
    assert not any("checked" in call for call in run["tool_calls"])


NARROW, WIDE = {"type": "object", "required": ["q"]}, {"type": "object", "title": "Search"}


@pytest.mark.parametrize(
    ("declared", "kept"),
    [
        (None, [("search", WIDE), ("book", None)]),
        ([], [("search", WIDE), ("book", None)]),
        ([{"name": "search", "parameters": WIDE}], [("search", WIDE), ("book", None)]),
        (
            [{"name": "search", "parameters": NARROW}, {"name": "now"}],
            [("now", True), ("search", NARROW), ("search", WIDE), ("book", None)],
        ),
    ],
    ids=["nothing declared", "no tools declared", "the same declared", "others declared"],
)
def test_a_run_has_the_tools_that_were_shown_and_those_that_are_declared(
    tmp_path: Path, declared: Any, kept: Any
) -> None:
    code = f"""
def answer(inputs, record):
    record.tools = [{{"name": "search", "schema": {WIDE}}}, {{"name": "book"}}]
    return {{"answer": "x"}}
"""
    (run,) = ran(tmp_path, code, **({} if declared is None else {"tools": declared}))
    assert [(tool["name"], tool.get("schema")) for tool in run["tools"]] == kept
    read = read_run(Document(run, "run"))
    assert [(tool.name, tool.schema) for tool in read.tools or ()] == kept


@pytest.mark.parametrize("tools", ["{'search': 1}", "'search'", "[{'name': 1}]", "[{'sort': 'x'}]"])
def test_tools_that_are_none_are_refused_evidence(tmp_path: Path, tools: str) -> None:
    code = f"""
def answer(inputs, record):
    record.tools = {tools}
    return {{"answer": "x"}}
"""
    (run,) = ran(tmp_path, code)
    assert run["status"] == "error"
    assert "evidence that the workflow reported is invalid" in run["metadata"]["error"]


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


@pytest.mark.req("W-073", "W-082")
def test_every_step_and_agent_of_a_run_has_its_scores_in_the_grade(tmp_path: Path) -> None:
    code = """
def answer(inputs, record):
    with record.step("plan", agent="planner") as step:
        step.used(model="m-1", tier="large", tokens=12)
        step.score("quality", 4)
        step.retry()
    with record.step("write", agent="writer"):
        pass
    return {"answer": "x"}
"""
    (run,) = ran(tmp_path, code)
    card = assay.score(run)
    steps = {one["name"]: one for one in _plain(card.step_scores)}
    assert steps["plan"]["retries"] == 1
    assert steps["plan"]["model"] == "m-1"
    assert steps["plan"]["tier"] == "large"
    assert steps["plan"]["status"] == "success"
    assert "quality" in json.dumps(steps["plan"], default=str)
    assert {one["agent"] for one in _plain(card.agent_scores)} == {"planner", "writer"}


def test_an_async_function_and_one_that_only_takes_inputs_work_too(tmp_path: Path) -> None:
    assert ran(tmp_path, "async def answer(inputs): return {'answer': 1}")[0]["outputs"] == {
        "answer": 1
    }
    (run,) = ran(tmp_path, "def answer(inputs): return {'answer': 2}")
    assert run["outputs"] == {"answer": 2}
    assert [step["name"] for step in run["steps"]] == [
        "w"
    ]  # a call that records no step of its own is one step


def test_a_function_cannot_change_the_evidence_afterwards(tmp_path: Path) -> None:
    code = """
def answer(inputs, record):
    arguments = {"q": [1]}
    with record.step("s") as step:
        step.tool("t", arguments)
    arguments["q"].append(2)
    inputs["q"] = "changed"
    return {"answer": 1}
"""
    (run,) = ran(tmp_path, code)
    assert run["inputs"] == {"q": "why"}
    assert run["tool_calls"][0]["arguments"] == {"q": [1]}


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("def answer(i): raise ValueError('no luck')", "error", "ValueError: no luck"),
        ("def answer(i): raise SystemExit(3)", "error", "SystemExit"),
        ("async def answer(i): raise KeyError('k')", "error", "KeyError"),
        ("async def answer(i): raise TimeoutError('its own')", "error", "TimeoutError: its own"),
        ("def answer(i): return None", "error", "NoneType, not outputs"),
        ("def answer(i): return {'answer': object()}", "error", "can't be written as JSON"),
        ("def answer(i): return {'answer': float('nan')}", "error", "can't be written as JSON"),
        ("def answer(i): return {'answer': '\\ud800'}", "error", "can't be written as JSON"),
        (
            "def answer(i):\n  a = []\n  a.append(a)\n  return {'answer': a}",
            "error",
            "can't be written as JSON",
        ),
        ("def answer(i): return {'answer': 'x' * 17_000_000}", "error", "the limit is"),
        ("import time\ndef answer(i): time.sleep(60)", "timeout", "did not finish within"),
        (
            (
                "import asyncio\nasync def answer(i):\n  try: await asyncio.sleep(60)\n"
                "  except asyncio.CancelledError: return {'answer': 1}"
            ),
            "timeout",
            "did not finish within",
        ),
        (
            "import asyncio\nasync def answer(i): await asyncio.sleep(60)",
            "timeout",
            "did not finish within",
        ),
        ("async def answer(i): raise SystemExit(0)", "error", "SystemExit: 0"),
        (
            "import asyncio\nasync def answer(i): raise asyncio.CancelledError",
            "error",
            "CancelledError",
        ),
        ("def answer(i, record): record.tool('t', object())", "error", "can't be written as JSON"),
        ("def answer(i, record): record.tool('', {})", "error", "empty"),
        ("def answer(i, record): record.begin('s').used(tokens=-1)", "error", "whole number"),
        ("def answer(i, record): record.begin('s').used(cost_usd=float('inf'))", "error", "finite"),
        (
            "def answer(i, record):\n  record.begin('s').end('splendid')\n  return {'answer': 1}",
            "error",
            "splendid",
        ),
        (
            (
                "def answer(i, record):\n  record.begin('s').metadata = {'x': object()}\n  return"
                " {'answer': 1}"
            ),
            "error",
            "is invalid",
        ),
    ],
)
def test_whatever_a_function_does_wrong_is_a_run_with_that_status_and_reason(
    tmp_path: Path, code: str, status: str, words: str
) -> None:
    (run,) = ran(tmp_path, code, timeout=0.5 if status == "timeout" else 60)
    assert run["status"] == status
    assert words in run["metadata"]["error"]
    assert not assay.grade(assay.score(run)).passed


def test_steps_that_were_open_when_time_was_over_are_in_the_evidence(tmp_path: Path) -> None:
    (run,) = ran(
        tmp_path,
        "import time\ndef answer(i, record):\n  with record.step('slow'):\n    time.sleep(60)",
        timeout=0.3,
    )
    assert [(step["name"], step["status"]) for step in run["steps"]] == [("slow", "timeout")]


def test_many_functions_that_hang_take_no_place_from_the_others(tmp_path: Path) -> None:
    rows = [{"id": i, "q": "hang" if i < 20 else "go"} for i in range(30)]
    runs = ran(
        tmp_path,
        "import time\ndef answer(i):\n  time.sleep(60 if i['q'] == 'hang' else 0)\n  return"
        " {'answer': 1}",
        rows=rows,
        timeout=0.5,
    )
    assert sorted(run["status"] for run in runs) == ["success"] * 10 + ["timeout"] * 20


def test_a_failed_call_is_made_again_and_the_tries_are_counted_with_what_they_used(
    tmp_path: Path,
) -> None:
    code = """
seen = []
def answer(inputs, record):
    seen.append(1)
    with record.step("ask") as step:
        step.used(model="m", tokens=10, cost_usd=0.5)
        if len(seen) < 3:
            raise ConnectionError("not yet")
    return {"answer": len(seen)}
"""
    (run,) = ran(tmp_path, code, limits={"retries": 3})
    assert (run["status"], run["retries"], run["tokens"], float(run["cost_usd"])) == (
        "success",
        2,
        30,
        1.5,
    )
    assert len(run["steps"]) == 1


def test_another_try_does_not_undo_a_forbidden_call_or_handoff(tmp_path: Path) -> None:
    code = """
seen = []
def answer(inputs, record):
    seen.append(1)
    record.watched("tool_calls")
    if len(seen) < 3:
        record.tool("search", {})
        record.tool("Delete" if len(seen) == 1 else "d\u0435lete", {})  # a Cyrillic letter
        record.handoff("a", "b" if len(seen) == 1 else "c")
        raise ConnectionError("not yet")
    return {"answer": 1}
"""
    rules = {"forbidden_tools": ["delete"], "handoff_rules": [["a", "b"]]}
    (run,) = ran(tmp_path, code, limits={"retries": 2}, **rules)
    assert run["status"] == "success"
    assert [call["name"] for call in run["tool_calls"]] == ["Delete", "d\u0435lete"]
    assert [one["to"] for one in run["handoffs"]] == ["c"]


def test_what_an_unmeasured_model_used_is_unknown_and_not_less(tmp_path: Path) -> None:
    code = (
        "def answer(i, record):\n  record.begin('a').used(model='m', tokens=5)\n "
        " record.begin('b').used(model='m')\n  return {'answer': 1}"
    )
    (run,) = ran(tmp_path, code)
    assert "tokens" not in run
    assert [step["status"] for step in run["steps"]] == [
        "cancelled",
        "cancelled",
    ]  # nobody ended them


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere:f", "module 'nowhere' not found"),
        ("brokn:f", r"module 'brokn' not found\. Did you mean 'broken'\?"),
        ("FLOW:absent", "has no"),
        ("FLOW:number", "isn't callable"),
        ("FLOW:three", "something else"),
        ("FLOW", "module:name"),
        ("broken:f", "cannot be loaded"),
    ],
)
def test_a_target_that_cannot_be_called_is_refused_before_anything_runs(
    tmp_path: Path, target: str, words: str
) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    with pytest.raises(InputError, match=words):
        ran(
            tmp_path,
            "number = 3\ndef three(a, b, c): ...\n",
            adapter={"kind": "python", "target": target},
        )


# --- gold


def test_no_expected_value_reaches_what_a_function_command_or_endpoint_receives(
    tmp_path: Path, endpoint: Any
) -> None:
    row = {
        "id": "s1",
        "q": "why",
        "expected": {"answer": "CANARY"},
        "gold": "CANARY",
        "expected_output": "CANARY",
        "inputs": {"gold_x": "CANARY"},
        "notes": "CANARY",
    }
    seen = tmp_path / "seen.txt"
    dump = (
        "import sys, os,"
        f" pathlib\npathlib.Path({str(tmp_path / 'seen2.txt')!r}).write_text(sys.stdin.read() +"
        " str(sys.argv) + str(dict(os.environ)))\n"
    )
    dump += "print('{\"answer\": 1}')"
    (tmp_path / "dump.py").write_text(dump)
    code = (
        "import pathlib\ndef answer(inputs, record):\n "
        f" pathlib.Path({str(seen)!r}).write_text(repr(inputs) + repr(vars(record)))\n  return"
        " {'answer': 1}"
    )
    runs = ran(tmp_path, code, rows=[row])
    runs += ran(
        tmp_path, rows=[row], adapter={"kind": "command", "command": ["{python}", "dump.py"]}
    )
    runs += ran(tmp_path, rows=[row], adapter={"kind": "http", "url": endpoint.url("/echo")})
    assert [run["status"] for run in runs] == ["success"] * 3
    for file in (seen, tmp_path / "seen2.txt"):
        assert "why" in file.read_text()
        assert "CANARY" not in file.read_text()
    assert "CANARY" not in "".join(map(repr, endpoint.received))
    assert runs[0]["expected"] == {"answer": "CANARY"}  # the evidence has it, for the measures


# --- commands


def command(folder: Path, source: str) -> dict[str, Any]:
    (folder / "program.py").write_text(source)
    return {"kind": "command", "command": ["{python}", "program.py"]}


def test_a_command_gets_the_task_and_gives_outputs(tmp_path: Path) -> None:
    program = (
        "import json, sys\ntask = json.load(sys.stdin)\nassert task['schema'] =="
        " 'assay.task/1'\nprint(json.dumps({'answer': task['inputs']['q'] * 2}))"
    )
    (run,) = ran(tmp_path, adapter=command(tmp_path, program))
    assert (run["status"], run["outputs"]) == ("success", {"answer": "whywhy"})


def test_a_command_may_say_what_it_did(tmp_path: Path) -> None:
    reply = {
        "schema": "assay.reply/1",
        "outputs": {"answer": "x"},
        "steps": [
            {
                "name": "a",
                "status": "success",
                "agent": "p",
                "duration_ms": 12.5,
                "model": "m",
                "tokens": 3,
                "retries": 1,
                "scores": {"s": {"raw": 1}},
            }
        ],
        "tool_calls": [{"name": "t", "step": "a", "arguments": {"x": 1}, "valid": True}],
        "handoffs": [],
        "retrieval": [{"id": "d1", "text": "t"}],
        "claims": [{"text": "c", "citations": ["d1"], "supported": True}],
    }
    (run,) = ran(tmp_path, adapter=command(tmp_path, f"print({json.dumps(json.dumps(reply))})"))
    assert run["steps"] == [
        {
            **reply["steps"][0],
            "scores": {"s": {"raw": 1}},
            "duration_ms": run["steps"][0]["duration_ms"],
        }
    ]
    assert float(run["steps"][0]["duration_ms"]) == 12.5
    assert (run["tokens"], run["retries"], run["handoffs"]) == (3, 1, [])
    assert run["claims"] == [
        {"text": "c", "citations": ["d1"]}
    ]  # that it is supported is for others to say


def test_the_calls_of_a_reply_keep_their_order_and_come_once_each(tmp_path: Path) -> None:
    calls = [
        {"name": name, "step": step, "arguments": {}, "valid": True}
        for name, step in (("one", "b"), ("two", "a"), ("three", None), ("four", "b"))
    ]
    reply = {
        "schema": "assay.reply/1",
        "outputs": {"answer": "x"},
        "steps": [{"name": name, "status": "success"} for name in ("a", "b", "a", "b")],
        "tool_calls": calls,
    }
    (run,) = ran(tmp_path, adapter=command(tmp_path, f"import json\nprint(json.dumps({reply!r}))"))
    assert [call["name"] for call in run["tool_calls"]] == ["one", "two", "three", "four"]


@pytest.mark.parametrize("key", ["scores", "gates", "tests", "patch_applies", "judge", "expected"])
def test_a_workflow_does_not_grade_itself(tmp_path: Path, key: str) -> None:
    reply = {"schema": "assay.reply/1", "outputs": {"answer": 1}, key: {}}
    (run,) = ran(tmp_path, adapter=command(tmp_path, f"print({json.dumps(json.dumps(reply))})"))
    assert run["status"] == "error"
    assert key in run["metadata"]["error"]


@pytest.mark.parametrize(
    ("source", "status", "words"),
    [
        ("print('hello')", "error", "not JSON"),
        ("print('log line'); print('{\"answer\": 1}')", "error", "not JSON"),
        ("", "error", "it is empty"),
        ("print('[1]')", "error", "list"),
        ("print('null')", "error", "null"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe{}')", "error", "not JSON"),
        ("print('{\"answer\": NaN}')", "error", "not JSON"),
        ('print(\'{"a": 1, "a": 2}\')', "error", "not JSON"),
        ('print(\'{"schema": "assay.reply/1", "steps": 3}\')', "error", "shape"),
        (
            'print(\'{"schema": "assay.reply/1", "status": "failed", "error": "gave up"}\')',
            "failed",
            "gave up",
        ),
        (
            'print(\'{"schema": "assay.reply/1", "outputs": {"answer": 1}, "error": "cut off"}\')',
            "error",
            "cut off",
        ),
        (
            "import sys; sys.stderr.write('first\\nlast words'); sys.exit(7)",
            "error",
            "exit code 7; its last output was 'last words'",
        ),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "error", "SIGSEGV"),
        ("import time; time.sleep(60)", "timeout", "did not finish within"),
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "error", "more than"),
    ],
)
def test_whatever_a_command_does_wrong_is_a_run_with_that_status_and_reason(
    tmp_path: Path, source: str, status: str, words: str
) -> None:
    spec = {**command(tmp_path, source), "max_reply_bytes": 1_000_000}
    (run,) = ran(tmp_path, adapter=spec, timeout=0.5 if status == "timeout" else 60)
    assert run["status"] == status
    assert words in run["metadata"]["error"]


def test_a_command_that_is_not_there_is_a_failed_run(tmp_path: Path) -> None:
    (run,) = ran(tmp_path, adapter={"kind": "command", "command": ["./no-such-program"]})
    assert "cannot be started" in run["metadata"]["error"]


def test_children_that_a_command_leaves_behind_are_killed_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    program = (
        "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-I',"
        f" '-S', '-c', {child!r}])\ntime.sleep(60)"
    )
    (run,) = ran(tmp_path, adapter=command(tmp_path, program), timeout=3)
    assert run["status"] == "timeout"
    state = Path(f"/proc/{pid.read_text()}/stat")
    for _ in range(6000):
        if not state.exists() or state.read_text().split()[2] in "ZX":
            return
        time.sleep(0.01)
    pytest.fail("the child lives on")


@pytest.mark.parametrize(
    ("adapter", "words"),
    [
        ({"kind": "carrier-pigeon"}, "adapter.kind"),
        ({"kind": "comand"}, "Did you mean 'command'"),
        ({"kind": "command"}, "'command' is missing"),
        ({"kind": "command", "command": "echo x"}, "must be a list"),
        ({"kind": "command", "command": ["x"], "shell": True}, "shell"),
        ({"kind": "command", "command": ["x"], "env": {"A": 1}}, "must be a string"),
        ({"kind": "http", "url": "ftp://x/y"}, "http or https"),
        ({"kind": "http", "url": "http://user:secret@host/"}, "without a user name or password"),
        (
            {
                "kind": "http",
                "url": "http://host/",
                "headers_from_env": {"Authorization": "NO_SUCH_KEY_HERE"},
            },
            "NO_SUCH_KEY_HERE",
        ),
        ({"kind": "http", "url": "http://host/", "headers": 3}, "headers"),
        ({"kind": "http", "url": "http://host/", "max_reply_bytes": 0}, "max_reply_bytes"),
    ],
)
def test_an_adapter_that_is_not_described_well_is_refused_before_anything_runs(
    tmp_path: Path, adapter: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as caught:
        ran(tmp_path, adapter=adapter)
    assert words in str(caught.value)


# --- endpoints


class Endpoint:
    """A real HTTP server that answers well at /echo and badly elsewhere."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.failures = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.received.append((self.path, dict(self.headers), body))
                with suppress(BrokenPipeError, ConnectionResetError):
                    getattr(self, self.path.strip("/"))(body)

            def _give(
                self,
                data: bytes,
                *,
                code: int = 200,
                kind: str = "application/json",
                **headers: str,
            ) -> None:
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def echo(self, body: bytes) -> None:
                self._give(json.dumps({"answer": json.loads(body)["inputs"]["q"]}).encode())

            def elsewhere(self, _: bytes) -> None:
                self._give(b"", code=307, Location="http://127.0.0.1:9/steal")

            def html(self, _: bytes) -> None:
                self._give(b"<html>Sign in</html>", kind="text/html")

            def garbage(self, _: bytes) -> None:
                self._give(b"{'answer': 1}")

            def refused(self, _: bytes) -> None:
                self._give(b"{}", code=403)

            def busy(self, body: bytes) -> None:
                outer.failures += 1
                if outer.failures <= 2:
                    self._give(b"{}", code=503)
                else:
                    self.echo(body)

            def endless(self, _: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while True:
                    self.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")

            def dripping(self, _: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "1000")
                self.end_headers()
                for _turn in range(600):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.1)

            def cut(self, _: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"answer"')
                self.close_connection = True

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}{path}"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    found = Endpoint()
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_an_endpoint_gets_the_task_with_its_key_and_gives_outputs(
    tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOT_KEY", "Bearer s3cret")
    (run,) = ran(
        tmp_path,
        adapter={
            "kind": "http",
            "url": endpoint.url("/echo"),
            "headers_from_env": {"Authorization": "BOT_KEY"},
        },
    )
    assert (run["status"], run["outputs"]) == ("success", {"answer": "why"})
    assert endpoint.received[0][1]["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in json.dumps(run, default=str)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/elsewhere", "error", "redirect"),
        ("/html", "error", "text/html, not JSON"),
        ("/garbage", "error", "not JSON"),
        ("/refused", "error", "403"),
        ("/endless", "error", "more than"),
        ("/dripping", "timeout", "did not finish within"),
        ("/cut", "error", "cannot be reached"),
    ],
)
def test_whatever_an_endpoint_does_wrong_is_a_run_with_that_status_and_reason(
    tmp_path: Path, endpoint: Endpoint, path: str, status: str, words: str
) -> None:
    (run,) = ran(
        tmp_path,
        adapter={"kind": "http", "url": endpoint.url(path), "max_reply_bytes": 1_000_000},
        timeout=1 if status == "timeout" else 60,
    )
    assert run["status"] == status
    assert words in run["metadata"]["error"]
    assert len(endpoint.received) == 1


def test_a_busy_endpoint_is_asked_again_and_the_tries_are_counted(
    tmp_path: Path, endpoint: Endpoint
) -> None:
    (run,) = ran(
        tmp_path, adapter={"kind": "http", "url": endpoint.url("/busy")}, limits={"retries": 3}
    )
    assert (run["status"], run["retries"]) == ("success", 2)


def test_an_endpoint_that_is_down_is_a_failed_run(tmp_path: Path) -> None:
    (run,) = ran(tmp_path, adapter={"kind": "http", "url": "http://127.0.0.1:9/"})
    assert "cannot be reached" in run["metadata"]["error"]


# --- strategies

PARTS = """
def plan(inputs): return {"outline": inputs["q"] + "!"}
def left(inputs): return {"left": inputs["outline"]}
def right(inputs): return {"right": inputs["outline"] * 2}
def join(inputs): return {"answer": inputs["left"] + inputs["right"]}
def fail(inputs): raise ValueError("broken")
"""


def step(name: str, *needs: str, function: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "needs": list(needs),
        "adapter": {"kind": "python", "target": f"FLOW:{function or name}"},
        **more,
    }


@pytest.mark.req("W-081")
def test_a_dag_runs_its_steps_in_the_order_of_their_needs(tmp_path: Path) -> None:
    steps = [
        step("join", "left", "right"),
        step("left", "plan"),
        step("right", "plan"),
        step("plan", agent="planner"),
    ]
    (run,) = ran(tmp_path, PARTS, strategy="dag", steps=steps, outputs={"answer": "join.answer"})
    assert run["outputs"] == {"answer": "why!why!why!"}
    assert run["steps"][0]["name"] == "plan"
    assert run["steps"][-1]["name"] == "join"
    assert {one["status"] for one in run["steps"]} == {"success"}


def test_steps_of_a_dag_that_need_nothing_of_each_other_run_at_the_same_time(
    tmp_path: Path,
) -> None:
    code = (
        "import threading\nall_here = threading.Barrier(4)\ndef slow(i):\n  all_here.wait(60)\n "
        " return {'answer': 1}"
    )
    (run,) = ran(
        tmp_path,
        code,
        strategy="dag",
        steps=[step(name, function="slow") for name in ("a", "b", "c", "d")],
    )
    assert [one["status"] for one in run["steps"]] == ["success"] * 4


def test_a_critical_step_that_fails_ends_the_run_and_what_was_to_come_is_skipped(
    tmp_path: Path,
) -> None:
    steps = [step("plan"), step("left", "plan", function="fail"), step("join", "left")]
    (run,) = ran(tmp_path, PARTS, strategy="dag", steps=steps)
    assert [(one["name"], one["status"]) for one in run["steps"]] == [
        ("plan", "success"),
        ("left", "error"),
        ("join", "skipped"),
    ]
    assert run["status"] == "error"
    assert assay.score(run).hard_gates["no_critical_step_failures"] is False


@pytest.mark.req("W-078")
def test_a_required_output_that_no_step_gave_fails_its_gate(tmp_path: Path) -> None:
    steps = [step("plan"), step("left", "plan", function="fail", critical=False)]
    (run,) = ran(tmp_path, PARTS, strategy="dag", steps=steps, outputs={"answer": "left.answer"})
    assert run["status"] == "success"
    assert run["outputs"] == {}
    card = assay.score(run)
    assert card.hard_gates["required_outputs_present"] is False
    assert not assay.grade(card).passed


def test_a_step_of_a_dag_is_tried_again_as_often_as_it_may_be(tmp_path: Path) -> None:
    code = (
        "seen = []\ndef answer(i):\n  seen.append(1)\n  if len(seen) < 3: raise OSError('busy')\n "
        " return {'answer': len(seen)}"
    )
    (run,) = ran(tmp_path, code, strategy="dag", steps=[step("answer", retries=2)])
    assert (run["status"], run["outputs"], run["retries"]) == ("success", {"answer": 3}, 2)


@pytest.mark.req("W-081")
def test_an_iterative_workflow_goes_on_until_it_is_done_and_sees_its_last_try(
    tmp_path: Path,
) -> None:
    code = (
        "def answer(i):\n  n = i['previous'].get('n', 0) + i['iteration']\n  return {'n': n,"
        " 'answer': n, 'done': i['iteration'] == 3}"
    )
    (run,) = ran(tmp_path, code, strategy="iterative", iterations={"maximum": 5, "until": "done"})
    assert run["outputs"]["n"] == 6
    assert [one["name"] for one in run["steps"]] == ["iteration-1", "iteration-2", "iteration-3"]


def test_an_iterative_workflow_that_never_gets_done_has_failed(tmp_path: Path) -> None:
    (run,) = ran(
        tmp_path,
        "def answer(i): return {'answer': 1, 'done': 'yes'}",
        strategy="iterative",
        iterations={"maximum": 2, "until": "done"},
    )
    assert (run["status"], run["outputs"]["answer"]) == ("failed", 1)
    assert "after 2 rounds" in run["metadata"]["error"]


AGENTS = """
def planner(i): return {"plan": i["q"], "handoff": "coder"}
def coder(i): return {"code": i["plan"], "handoff": "reviewer"}
def reviewer(i): return {"answer": i["code"]}
def lost(i): return {"handoff": "nobody"}
def loop(i): return {"handoff": "loop"}
"""


def agents(*names: str) -> dict[str, Any]:
    return {name: {"adapter": {"kind": "python", "target": f"FLOW:{name}"}} for name in names}


@pytest.mark.req("W-081")
def test_agents_hand_the_work_on_and_every_handoff_is_evidence(tmp_path: Path) -> None:
    team = agents("planner", "coder", "reviewer")
    (run,) = ran(
        tmp_path,
        AGENTS,
        strategy="multi_agent",
        agents=team,
        start="planner",
        handoff_rules=[["planner", "coder"]],
    )
    assert run["outputs"] == {"plan": "why", "code": "why", "answer": "why"}
    assert run["handoffs"] == [
        {"from": "planner", "to": "coder"},
        {"from": "coder", "to": "reviewer"},
    ]
    assert [one["agent"] for one in run["steps"]] == ["planner", "coder", "reviewer"]
    assert (
        assay.score(run).hard_gates["handoff_graph_respected"] is False
    )  # coder to reviewer is not in the rules


@pytest.mark.parametrize(
    ("start", "words"), [("lost", "an unknown agent"), ("loop", "more than 5 times")]
)
def test_agents_that_hand_on_to_nobody_or_for_ever_have_failed(
    tmp_path: Path, start: str, words: str
) -> None:
    (run,) = ran(
        tmp_path, AGENTS, strategy="multi_agent", agents=agents(start), start=start, max_handoffs=5
    )
    assert run["status"] == "failed"
    assert words in run["metadata"]["error"]


# --- scorers and events


def test_a_teams_own_scorer_sees_the_expected_values_after_the_run(tmp_path: Path) -> None:
    code = "def answer(i): return {'answer': i['q']}\n"
    code += (
        "def score(inputs, outputs, expected): return {'final_task_correctness':"
        " int(outputs['answer'] == expected['answer']) * 4 + 1}"
    )
    (run,) = ran(
        tmp_path,
        code,
        rows=[{"id": 1, "q": "x", "expected": {"answer": "x"}}],
        scorers=[{"target": "FLOW:score", "version": "2"}],
    )
    score = run["scores"]["final_task_correctness"]
    assert score["raw"] == 5
    assert score["source"]["kind"] == "script"
    assert score["source"]["version"] == "2"


@pytest.mark.parametrize(
    "body",
    ["raise ValueError('x')", "return '5'", "return {'s': object()}", "return {'s': float('nan')}"],
)
def test_a_scorer_that_fails_gives_no_score_and_its_reason_is_kept(
    tmp_path: Path, body: str
) -> None:
    code = f"def answer(i): return {{'answer': 1}}\ndef score(inputs, outputs, expected): {body}"
    (run,) = ran(tmp_path, code, scorers=[{"target": "FLOW:score"}])
    assert run["status"] == "success"
    assert "scores" not in run
    assert list(run["metadata"]["scorer_errors"])


@pytest.mark.req("W-085")
def test_events_are_told_as_they_happen_and_each_keeps_the_published_schema(tmp_path: Path) -> None:
    import jsonschema_rs

    from assay.views.events import SCHEMA, event

    events: list[Any] = []
    code = (
        "def answer(i, record):\n  with record.step('a', agent='p') as s:\n    s.tool('t', {'x':"
        " 1})\n  return {'answer': 1}"
    )
    ran(tmp_path, code, events=events)
    assert [kind for _, kind, _ in events] == [
        "workflow_start",
        "step_start",
        "step_end",
        "workflow_end",
    ]
    validator = jsonschema_rs.Draft202012Validator(SCHEMA)
    for position, (run_id, kind, fields) in enumerate(events, 1):
        validator.validate(json.loads(event(kind, run_id, NOW, fields)(position)))
    assert events[2][2]["tool_calls"] == [
        {"name": "t", "step": "a", "arguments": {"x": 1}, "valid": None}
    ]


def test_a_real_clock_measures_and_a_fixed_one_does_not(tmp_path: Path) -> None:
    flow_code = "import time\ndef answer(i):\n  time.sleep(0.05)\n  return {'answer': 1}"
    (fixed,) = ran(tmp_path, flow_code)
    assert "latency_ms" not in fixed
    assert "duration_ms" not in fixed["steps"][0]
    (tmp_path / "clocked.py").write_text(flow_code)
    tree = {
        "workflow": "w",
        "version": "1",
        "inputs": ["q"],
        "adapter": {"kind": "python", "target": "clocked:answer"},
    }
    flow = make_workflow(Document(tree, "w"), tmp_path)
    data = from_rows([{"id": 1, "q": "x"}], id="d", version="1", where="d")
    kept: list[Any] = []
    settings = RunSettings("x")
    asyncio.run(
        Runner(flow, data, settings, keep=kept.append).run(work_of(prepare(flow, data), settings))
    )
    assert float(kept[0]["latency_ms"]) >= 50
    assert 50 <= float(kept[0]["steps"][0]["duration_ms"]) <= float(kept[0]["latency_ms"])


def test_a_workflow_with_a_neighbour_module_finds_it(tmp_path: Path) -> None:
    (tmp_path / f"neighbour_{os.getpid()}.py").write_text("WORD = 'hello'")
    (run,) = ran(
        tmp_path,
        f"from neighbour_{os.getpid()} import WORD\ndef answer(i): return {{'answer': WORD}}",
    )
    assert run["outputs"] == {"answer": "hello"}
    assert str(tmp_path) in sys.path
    sys.path.remove(str(tmp_path))


def test_a_declared_tool_is_held_to_its_schema_whatever_the_workflow_says(tmp_path: Path) -> None:
    code = (
        "def answer(i, record):\n  for name in ('kept', 'broken', 'unusable'):\n   "
        " record.tool(name, {'q': 1}, valid=True)\n"
    )
    code += "  record.tool('kept', {'q': 1}, valid=False)\n  return {'answer': 1}"
    schemas = {"kept": {}, "broken": {"required": ["x"]}, "unusable": {"type": 7}}
    (run,) = ran(
        tmp_path,
        code,
        tools=[{"name": name, "parameters": schema} for name, schema in schemas.items()],
    )
    assert [call["valid"] for call in run["tool_calls"]] == [True, False, None, False]
