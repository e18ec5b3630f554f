"""Events: every one of its published shape, in order, resumable, and the stream stays open until
the evaluation is there.
"""

from __future__ import annotations

import http.client
import io
import json
import threading
import time
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import uvicorn

import assay.views.events as published
from assay.files.json_files import Document
from assay.records.reading import read_run
from assay.server.app import create_app
from assay.server.logs import Log
from assay.server.settings import ServerSettings
from assay.views.events import replay
from documents import FAMILIES, run
from postgres import ledger_url, on_sqlite, postgres_url  # fixtures  # noqa: F401
from serving import API, Api, Process, counted, frames, serving, until

VALID = jsonschema_rs.Draft202012Validator(published.SCHEMA)
STORY = [
    "workflow_start",
    "step_start",
    "step_end",
    "step_start",
    "step_end",
    "workflow_end",
    "evaluation_start",
    "evaluation_complete",
]


@pytest.fixture
def api(ledger_url: str) -> Any:  # noqa: F811
    with serving(ledger_url) as made:
        yield made


def head_of(evidence: dict[str, Any]) -> dict[str, Any]:
    """What is known of a run before its first step."""
    left = (
        "status",
        "steps",
        "tool_calls",
        "outputs",
        "scores",
        "gates",
        "tests",
        "claims",
        "retrieval",
        "handoffs",
        "latency_ms",
        "patch_applies",
    )
    return {key: value for key, value in evidence.items() if key not in left}


def end_of(evidence: dict[str, Any]) -> dict[str, Any]:
    """What is said at its end."""
    return {
        key: value
        for key, value in evidence.items()
        if key not in head_of(evidence) and key not in ("steps", "tool_calls")
    }


@pytest.mark.req("W-085")
@pytest.mark.parametrize("family", FAMILIES)
@on_sqlite
def test_a_stored_run_is_told_from_its_steps_in_order_and_every_event_is_of_its_published_shape(
    api: Api, family: str
) -> None:
    evidence = run(family, run_id=family)
    digest = api.post("/runs", evidence).json()["digest"]
    stream = api.get(f"/runs/{digest}/events")
    assert stream.headers["content-type"].startswith("text/event-stream")
    found = frames(stream.text)
    assert [kind for _, kind, _ in found] == STORY
    assert [number for number, _, _ in found] == list(range(1, len(found) + 1))
    for number, kind, data in found:
        assert not list(VALID.iter_errors(data)), next(iter(VALID.iter_errors(data))).message
        assert (data["id"], data["event"], data["run_id"]) == (number, kind, evidence["run_id"])
    assert api.get(f"/runs/{evidence['run_id']}/events").text == stream.text


@on_sqlite
@pytest.mark.req("W-077", "W-082")
def test_the_last_event_carries_the_whole_grade_with_gates_criteria_steps_and_agents(
    api: Api,
) -> None:
    posted = api.post("/runs", run("rag", status="failed")).json()
    last = frames(api.get(f"/runs/{posted['digest']}/events").text)[-1][2]
    for key, value in posted["grade"].items():
        assert last[key] == value, key
    assert last["hard_gates"]["overall_status_success"] == {
        "status": "fail",
        "reason": last["hard_gates"]["overall_status_success"]["reason"],
    }
    assert last["hard_gates"]["overall_status_success"]["reason"]
    assert "overall_status_success" in last["hard_gate_failures"]
    assert (last["passed"], last["grade"]) == (False, "F")
    assert [one["name"] for one in last["step_scores"]] == ["think", "check"]
    assert [one["agent"] for one in last["agent_scores"]] == ["critic", "solver"]
    for one in last["agent_scores"]:
        assert {"agent", "steps", "succeeded", "failed", "skipped", "success_rate"} <= one.keys()


@on_sqlite
@pytest.mark.req("W-076")
@pytest.mark.parametrize("gate", ["overall_status_success", "required_outputs_present"])
def test_no_score_passes_a_run_with_a_failed_gate_through_the_api(api: Api, gate: str) -> None:
    change: dict[str, Any] = (
        {"status": "failed"} if gate == "overall_status_success" else {"outputs": {}}
    )
    grade = api.post("/runs", run("dag-review", run_id=gate, **change)).json()["grade"]
    assert gate in grade["hard_gate_failures"]
    assert grade["hard_gates"][gate]["status"] != "pass"
    assert (grade["passed"], grade["grade"], grade["reason"]) == (False, "F", "hard_gate_failure")


@on_sqlite
@pytest.mark.req("W-072", "W-073", "W-085")
def test_the_ledger_keeps_everything_a_run_log_must_have(api: Api) -> None:
    steps = [
        {
            "name": "plan",
            "agent": "planner",
            "status": "success",
            "critical": True,
            "duration_ms": 120,
            "retries": 1,
            "model": "m-1",
            "tier": "large",
            "tokens": 812,
            "cost_usd": 0.004,
            "scores": {"clarity": {"raw": 4}},
        }
    ]
    evidence = run(
        "tool-use",
        steps=steps,
        judge={"model": "j", "version": "2", "prompt_version": "p3"},
        tool_calls=[
            {
                "name": "search",
                "arguments": {"q": "x"},
                "valid": True,
                "error": None,
                "step": "plan",
            }
        ],
        cost_usd=0.031,
        tokens=5120,
        retries=1,
    )
    digest = api.post("/runs", evidence).json()["digest"]
    kept = api.get(f"/runs/{digest}").json()["record"]
    grade = api.get(f"/runs/{digest}/grade").json()
    assert (kept["workflow"], kept["dataset"]) == (evidence["workflow"], evidence["dataset"])
    assert (grade["workflow"]["id"], grade["workflow"]["version"]) == ("w", "1")
    assert grade["dataset"] == {"id": "d", "version": "1", "sample_id": "s-1"}
    assert all(gate["status"] and gate["reason"] for gate in grade["hard_gates"].values())
    assert all({"raw_score", "norm"} <= criterion.keys() for criterion in grade["criteria"])
    assert {"weighted_score", "grade"} <= grade.keys()
    assert grade["judge"] == {"model": "j", "version": "2", "prompt_version": "p3"}
    assert kept["tool_calls"][0]["valid"] is True
    assert grade["operations"] == {
        "latency_ms": 8000,
        "cost_usd": 0.031,
        "tokens": 5120,
        "retries": 1,
    }
    step = grade["step_scores"][0]
    assert {
        key: step[key]
        for key in (
            "status",
            "duration_ms",
            "retries",
            "model",
            "tier",
            "tokens",
            "cost_usd",
            "agent",
        )
    } == {
        "status": "success",
        "duration_ms": 120,
        "retries": 1,
        "model": "m-1",
        "tier": "large",
        "tokens": 812,
        "cost_usd": 0.004,
        "agent": "planner",
    }
    assert step["scores"]["clarity"]
    events = frames(api.get(f"/runs/{digest}/events").text)
    ended = next(data for _, kind, data in events if kind == "step_end")
    assert ended["step"]["model"] == "m-1"
    assert ended["tool_calls"][0]["name"] == "search"


def test_a_call_that_names_no_known_step_is_in_the_last_event_of_the_workflow() -> None:
    calls = [
        {"step": step, "name": f"call-{n}", "arguments": {}, "valid": True}
        for n, step in enumerate(("plan", "ghost", None))
    ]
    evidence = run(steps=[{"name": "plan", "status": "success"}], tool_calls=calls)
    sent = b"".join(replay(read_run(Document(evidence, "run")), None, None)).decode()
    events = {kind: data for _, kind, data in frames(sent)}
    assert not [fault for data in events.values() for fault in VALID.iter_errors(data)]
    assert [one["name"] for one in events["step_end"]["tool_calls"]] == ["call-0"]
    assert [one["name"] for one in events["workflow_end"]["tool_calls"]] == ["call-1", "call-2"]


@on_sqlite
def test_a_client_that_names_the_last_event_it_saw_gets_the_rest(api: Api) -> None:
    digest = api.post("/runs", run()).json()["digest"]
    whole = frames(api.get(f"/runs/{digest}/events").text)
    for seen in range(len(whole)):
        rest = frames(api.get(f"/runs/{digest}/events", headers={"Last-Event-ID": str(seen)}).text)
        assert rest == whole[seen:]
    assert (
        frames(api.get(f"/runs/{digest}/events", headers={"Last-Event-ID": "999"}).text)
        == whole[-1:]
    ), "a stream never ends without its last event"
    assert frames(api.get(f"/runs/{digest}/events?last_event_id=6").text) == whole[6:]


def test_a_run_that_is_posted_step_by_step_gets_the_grade_of_the_whole_run(api: Api) -> None:
    evidence = run("code-repair")
    whole = api.post("/runs", {**evidence, "run_id": "whole"}).json()["grade"]
    assert api.post("/runs/live", {**head_of(evidence), "run_id": "live"}).status_code == 201
    for index, step in enumerate(evidence["steps"]):
        assert (
            api.post(
                "/runs/live/events",
                {
                    "event": "step_start",
                    "step": {"name": step["name"], "agent": step["agent"], "index": index},
                },
            ).status_code
            == 202
        )
        assert (
            api.post(
                "/runs/live/events", {"event": "step_end", "step": {**step, "index": index}}
            ).status_code
            == 202
        )
    ended = api.post("/runs/live/events", {"event": "workflow_end", "run": end_of(evidence)})
    assert ended.status_code == 201, ended.text
    made = ended.json()["grade"]
    for key in ("grade", "passed", "weighted_score", "hard_gates", "step_scores", "agent_scores"):
        assert made[key] == whole[key], key
    assert api.post("/runs/live/events", {"event": "error"}).status_code == 409
    events = frames(api.get("/runs/live/events").text)
    assert [kind for _, kind, _ in events] == STORY
    for _, _, data in events:
        assert not list(VALID.iter_errors(data)), (
            data["event"],
            next(iter(VALID.iter_errors(data))).message,
        )
    assert api.get(ended.json()["location"].removeprefix(API)).json()["record"]["run_id"] == "live"


@on_sqlite
def test_a_step_that_never_ended_and_an_end_without_a_status_open_no_gate(api: Api) -> None:
    evidence = run("dag-review")
    assert api.post("/runs/live", {**head_of(evidence), "run_id": "live"}).status_code == 201
    steps = [{"event": "step_end", "step": step} for step in evidence["steps"]]
    begun = [
        {"event": "step_start", "step": {"name": step["name"]}}
        for step in (*evidence["steps"], evidence["steps"][0])
    ]
    assert api.post("/runs/live/events", [*begun, *steps]).status_code == 202
    end = end_of(evidence)
    silent = {name: value for name, value in end.items() if name != "status"}
    for rest in (None, {}, silent):
        forgot = api.post("/runs/live/events", {"event": "workflow_end", "run": rest})
        assert forgot.status_code == 422
        assert "'status' is missing" in forgot.text
    made = api.post("/runs/live/events", {"event": "workflow_end", "run": end}).json()
    assert made["grade"]["hard_gate_failures"] == ["no_critical_step_failures"]
    kept = api.get(made["location"].removeprefix(API)).json()["record"]["steps"]
    open_step = evidence["steps"][0]["name"]
    assert [one["name"] for one in kept if one["status"] == "cancelled"] == [open_step]


@on_sqlite
def test_the_id_of_a_run_in_progress_may_hold_a_slash(api: Api) -> None:
    evidence = run("rag")
    assert api.post("/runs/live", {**head_of(evidence), "run_id": "team/7"}).status_code == 201
    assert (
        api.post(
            "/runs/team/7/events", {"event": "workflow_end", "run": end_of(evidence)}
        ).status_code
        == 201
    )


@on_sqlite
def test_a_workflow_that_fails_tells_its_watchers_so_and_is_kept(api: Api) -> None:
    assert api.post("/runs/live", head_of(run())).status_code == 201
    assert (
        api.post("/runs/r-1/events", {"event": "error", "message": "out of memory"}).status_code
        == 202
    )
    events = frames(api.get("/runs/r-1/events").text)
    assert [kind for _, kind, _ in events] == ["workflow_start", "error"]
    assert events[-1][2]["message"] == "out of memory"
    assert not list(VALID.iter_errors(events[-1][2]))
    kept = api.get("/runs/r-1").json()
    assert (kept["record"]["status"], kept["record"]["metadata"]["error"]) == (
        "error",
        "out of memory",
    )
    assert api.get("/runs/r-1/grade").json()["passed"] is False, "it is counted"


@on_sqlite
def test_the_schema_of_events_is_published_and_closed(api: Api) -> None:
    assert api.get("/schema-of/event").json() == published.SCHEMA
    digest = api.post("/runs", run()).json()["digest"]
    last = frames(api.get(f"/runs/{digest}/events").text)[-1][2]
    for change in ({"surprise": 1}, {"event": "workflow_stop"}, {"id": 0}):
        assert list(VALID.iter_errors({**last, **change}))
    assert list(
        VALID.iter_errors({key: value for key, value in last.items() if key != "hard_gates"})
    )


# --- over the wire


class Watcher:
    """A client that reads a stream while it is open."""

    def __init__(self, server: Process, run_id: str, *, last: int | None = None) -> None:
        self.wire = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        self.wire.request(
            "GET",
            f"{API}/runs/{run_id}/events",
            headers={} if last is None else {"Last-Event-ID": str(last)},
        )
        self.answer = self.wire.getresponse()
        assert self.answer.status == 200
        self.lines: list[str] = []
        self.ended = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while line := self.answer.readline():
                self.lines.append(line.decode())
        except (OSError, ValueError, http.client.HTTPException):
            pass
        self.answer.close()
        self.wire.close()
        self.ended.set()

    def kinds(self) -> list[str]:
        return [
            line.removeprefix("event: ").strip()
            for line in self.lines
            if line.startswith("event: ")
        ]

    def until(self, kind: str, *, timeout: float = 20) -> None:
        end = time.monotonic() + timeout
        while kind not in self.kinds():
            assert time.monotonic() < end, (kind, self.lines)
            time.sleep(0.01)


@pytest.mark.req("W-085")
def test_a_watcher_sees_steps_as_they_happen_and_the_stream_stays_open_until_the_evaluation(
    ledger_url: str,  # noqa: F811
) -> None:
    """On SQLite runner and watcher share a server, on PostgreSQL each has its own."""
    evidence, apart = run(), not ledger_url.startswith("sqlite")
    with Process(ledger_url) as runner, Process(ledger_url) if apart else runner as watched:
        assert runner.call("POST", "/runs/live", head_of(evidence))[0] == 201
        watcher = Watcher(watched, "r-1")
        watcher.until("workflow_start")
        for step in evidence["steps"]:
            assert (
                runner.call("POST", "/runs/r-1/events", {"event": "step_end", "step": step})[0]
                == 202
            )
        watcher.until("step_end")
        assert not watcher.ended.is_set()
        late = Watcher(watched, "r-1", last=2)
        assert (
            runner.call(
                "POST", "/runs/r-1/events", {"event": "workflow_end", "run": end_of(evidence)}
            )[0]
            == 201
        )
        for one in (watcher, late):
            assert one.ended.wait(20)
            assert one.kinds()[-3:] == ["workflow_end", "evaluation_start", "evaluation_complete"]
        assert watcher.kinds().count("evaluation_complete") == 1
        events = frames("".join(watcher.lines))
        assert frames("".join(late.lines)) == events[2:]
        assert all(not list(VALID.iter_errors(data)) for _, _, data in events)


def test_an_idle_stream_gets_heartbeats(tmp_path: Path) -> None:
    app = create_app(
        ServerSettings(db=f"sqlite:///{tmp_path}/l.db", allow_anonymous=True, heartbeat_s=0.1),
        log=Log(io.BytesIO()),
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    wire.request(
        "POST", f"{API}/runs/live", json.dumps(head_of(run())), {"Content-Type": "application/json"}
    )
    assert wire.getresponse().read()
    wire.request("GET", f"{API}/runs/r-1/events")
    answer = wire.getresponse()
    beats = 0
    while beats < 3:
        beats += answer.readline().startswith(b": ")
    assert counted(app.state.services.metrics, "watchers") == 1
    answer.close()
    wire.close()
    end = time.monotonic() + 10
    while counted(app.state.services.metrics, "watchers") and time.monotonic() < end:
        time.sleep(0.02)
    assert counted(app.state.services.metrics, "watchers") == 0, (
        "a client that went away is noticed with the next heartbeat"
    )
    server.should_exit = True
    thread.join(10)


def test_a_run_whose_runner_is_gone_ends_as_a_failed_one(ledger_url: str) -> None:  # noqa: F811
    evidence = run()
    with serving(ledger_url) as api:
        assert api.post("/runs/live", head_of(evidence)).status_code == 201
        step = {"event": "step_start", "step": {"name": "think"}}
        assert api.post(f"/runs/{evidence['run_id']}/events", step).status_code == 202
        assert api.get(f"/runs/{evidence['run_id']}").status_code == 404
    with serving(ledger_url) as api:  # one day has not passed
        assert api.post(f"/runs/{evidence['run_id']}/events", step).status_code == 202
    with serving(ledger_url, live_limit_s=0.001) as api:
        kept = until(lambda: api.get("/runs?passed=false").json()["items"])
        assert len(kept) == 1
        stored = api.get(f"/runs/{evidence['run_id']}").json()["record"]
        assert stored["status"] == "error"
        assert "reported nothing" in stored["metadata"]["error"]
        assert {one["status"] for one in stored["steps"]} == {"cancelled"}
        assert api.post(f"/runs/{evidence['run_id']}/events", step).status_code == 409
        events = frames(api.get(f"/runs/{evidence['run_id']}/events").text)
        assert events[-1][1] == "evaluation_complete"
