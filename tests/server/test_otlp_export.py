"""Grades exported as events, however a run arrived: in the background, within a limit, and all of
them by the end.
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from assay.cli import serve
from assay.cli.frame import dispatch
from assay.errors import UsageError
from assay.server import grade_events
from assay.server.grade_events import GradeExporter
from assay.server.logs import Log
from assay.server.metrics import Metrics
from assay.store import traces as stored
from assay.store.ledger import open_ledger
from assay.tracing.spans import Span
from assay.views.otel_export import EVENT
from documents import run
from postgres import ledger_url, postgres_url  # fixtures  # noqa: F401
from receiving import Receiver
from serving import Api, Process, counted, runs, serving
from test_otlp_server import QUICK, post, settled
from test_server_events import end_of, head_of
from test_server_run import asked, executing, over
from tracing import T, agent, chat

pytest.importorskip("opentelemetry.proto", reason="the otel extra is not installed")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


def metric(api: Api, name: str) -> float:
    return counted(api.services.metrics, f"{name}_total")


def lines(evidence: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in evidence)


# --- every way in


def test_every_run_that_is_posted_is_an_event_alone_in_a_list_and_in_lines(url: str) -> None:
    with Receiver() as receiver:
        with serving(url, otlp_endpoint=receiver.address) as api:
            assert api.post("/runs", runs(1)[0]).status_code == 201
            assert api.post("/runs", runs(2, start=1)).status_code == 201
            sent = api.client.post(
                "/api/v1/runs",
                content=lines(runs(3, start=3)),
                headers={"Content-Type": "application/x-ndjson"},
            )
            assert sent.status_code == 201
            again = api.post("/runs", runs(1)[0])
            assert again.status_code == 200, "the same run twice is one run"
            grades = {f"r-{index}": api.get(f"/runs/r-{index}/grade").json() for index in range(6)}
        assert sorted(receiver.grades()) == sorted(grades)
        for record, attributes in receiver.records():
            assert record.event_name == EVENT
            if attributes["gen_ai.evaluation.name"] == "assay":
                whole = grades[attributes["assay.run_id"]]
                assert (
                    attributes["gen_ai.evaluation.score.value"],
                    attributes["gen_ai.evaluation.score.label"],
                ) == (whole["weighted_score"], whole["grade"])
        assert len(receiver.records()) == sum(
            1 + len(grade["criteria"]) for grade in grades.values()
        )


def test_a_run_that_says_which_trace_it_came_from_has_its_events_there(url: str) -> None:
    metadata = {"otel": {"trace_id": T, "span_id": "b" * 16, "response_id": "r-9"}}
    with Receiver() as receiver:
        with serving(url, otlp_endpoint=receiver.address) as api:
            api.post("/runs", run("code-repair", metadata=metadata))
        assert {
            (record.trace_id.hex(), record.span_id.hex()) for record, _ in receiver.records()
        } == {(T, "b" * 16)}
        assert {attributes["gen_ai.response.id"] for _, attributes in receiver.records()} == {"r-9"}


def test_a_run_that_is_told_while_it_runs_is_an_event(url: str) -> None:
    evidence = run("code-repair")
    with Receiver() as receiver:
        with serving(url, otlp_endpoint=receiver.address) as api:
            api.post("/runs/live", {**head_of(evidence), "run_id": "live"})
            for index, step in enumerate(evidence["steps"]):
                api.post(
                    "/runs/live/events", {"event": "step_end", "step": {**step, "index": index}}
                )
            assert (
                api.post(
                    "/runs/live/events", {"event": "workflow_end", "run": end_of(evidence)}
                ).status_code
                == 201
            )
        assert receiver.grades() == ["live"]


def test_runs_that_the_server_executes_are_events(url: str, tmp_path: Path) -> None:
    with Receiver() as receiver:
        with executing(url, tmp_path, otlp_endpoint=receiver.address) as api:
            made = api.post("/runs", asked("one", "two", "three")).json()
            found = over(lambda path: api.get(path).json(), made)
            assert found["state"] == "done"
            ids = [one["run_id"] for one in found["runs"]]
        assert sorted(receiver.grades()) == sorted(ids)


def test_a_trace_and_one_that_cannot_be_graded_are_events(url: str) -> None:
    with Receiver() as receiver:
        with serving(url, otlp_endpoint=receiver.address, **QUICK) as api:
            post(api, [agent(1), chat(2, 1)])
            assert settled(api)["state"] == "done"
            other = "1" * 32
            post(api, [moved(agent(1), other)], where="?workflow=w@1&dataset=d@1&family=nonsense")
            assert settled(api, other)["state"] == "failed"
        codes = {
            attributes["assay.run_id"]: attributes.get("error.type")
            for _, attributes in receiver.records()
            if "gen_ai.evaluation.name" in attributes
        }
        assert codes[other] == "SCO-010"
        assert T in receiver.grades()


def moved(one: Span, trace_id: str) -> Span:
    return one._replace(trace_id=trace_id)


def test_a_server_that_is_told_where_by_its_option_sends_what_it_graded_before_it_ends(
    url: str,
) -> None:
    with Receiver(slow_s=0.2) as receiver:
        with Process(url, "--otlp-endpoint", receiver.address, "--quiet") as server:
            for one in runs(5):
                assert server.call("POST", "/runs", one)[0] == 201
            assert '"event":"stopped"' in server.end()[1]
        assert sorted(receiver.grades()) == [f"r-{index}" for index in range(5)]


# --- what cannot be sent


def test_a_receiver_that_is_not_there_delays_and_fails_no_request_and_is_counted(url: str) -> None:
    with serving(url, otlp_endpoint="http://127.0.0.1:1") as api:
        assert [api.post("/runs", one).status_code for one in runs(6)] == [201] * 6
    assert counted(api.services.metrics, "otlp_grades_dropped_total") == 6
    log_lines = [json.loads(line) for line in api.log.getvalue().splitlines()]
    warnings = [one for one in log_lines if one["event"] == "telemetry"]
    assert sum(one["dropped"] for one in warnings) == 6
    assert all("not sent" in one["message"] for one in warnings)


def test_a_receiver_that_never_answers_holds_up_nobody_and_what_waits_has_a_bound(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grade_events, "MAX_WAITING", 3)
    monkeypatch.setattr(grade_events, "TOGETHER", 1)
    with (
        Receiver(slow_s=1.0) as receiver,
        serving(url, otlp_endpoint=receiver.address, shutdown_s=60.0) as api,
    ):
        assert [api.post("/runs", one).status_code for one in runs(12)] == [201] * 12
        dropped = metric(api, "otlp_grades_dropped")
        assert 12 - 3 - 5 <= dropped <= 12 - 3
        assert b"too many are waiting" in api.log.getvalue()


def test_what_waits_has_a_bound_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grade_events, "MAX_BYTES", 100)
    metrics = Metrics()
    teller = GradeExporter(telling_to("http://127.0.0.1:1"), metrics, Log())
    teller.refused("r", "SCO-010", "x" * 200)
    assert counted(metrics, "otlp_grades_dropped_total") == 1
    teller.close(within_s=1)


def telling_to(address: str) -> Any:
    from assay.views.otel_export import configured

    return configured(address, environment={})


def test_the_end_waits_for_what_can_be_sent_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grade_events, "TOGETHER", 1)
    metrics = Metrics()
    with Receiver(slow_s=0.5) as receiver:
        teller = GradeExporter(telling_to(receiver.address), metrics, Log())
        for index in range(40):
            teller.refused(f"r-{index}", "SCO-010", "no profile")
        teller.close(within_s=1.2)
        teller.refused("late", "SCO-010", "no profile")
    assert 1 <= counted(metrics, "otlp_grades_sent_total") <= 4
    assert (
        counted(metrics, "otlp_grades_sent_total") + counted(metrics, "otlp_grades_dropped_total")
        == 41
    )


def test_without_an_exporter_nothing_is_kept_and_no_thread_runs(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    with serving(url) as api:
        api.post("/runs", run())
        assert "assay-exporter" not in {thread.name for thread in threading.enumerate()}
        assert metric(api, "otlp_grades_sent") == 0


def test_a_fault_in_sending_ends_neither_the_thread_nor_the_server(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, broken = grade_events.send, [True]

    def once(*given: Any, **more: Any) -> Any:
        if broken.pop() if broken else False:
            raise RuntimeError("a slip")
        return real(*given, **more)

    monkeypatch.setattr(grade_events, "send", once)
    monkeypatch.setattr(grade_events, "PAUSE_S", 0.01)
    with Receiver() as receiver:
        with serving(url, otlp_endpoint=receiver.address) as api:
            api.post("/runs", runs(1)[0])
            end = time.monotonic() + 10
            while not metric(api, "otlp_grades_dropped"):
                assert time.monotonic() < end
                time.sleep(0.02)
            api.post("/runs", runs(1, start=1)[0])
        assert receiver.grades() == ["r-1"]


# --- spans of traces that ended


def test_spans_of_traces_that_ended_go_after_their_time_and_no_others(
    ledger_url: str,  # noqa: F811
) -> None:
    with open_ledger(ledger_url) as ledger:
        database = ledger.database
        times = {"grace_ms": 1, "limit_ms": 1000, "stale_ms": 5000}
        batch = stored.TraceSpans({(f"{index:016x}", "m"): b"{}" for index in range(3)}, True, 0)
        for trace_id, at in (("a" * 32, 1000), ("b" * 32, 9000), ("c" * 32, 1000)):
            stored.keep(
                database, "p", {trace_id: batch}, asked=b"[]", author=None, now_ms=at, limit=10
            )
        for _ in range(3):
            due = stored.claim(database, "a", at_ms=9500, **times)
            assert due is not None
            if due.trace_id != "c" * 32:
                stored.close(database, "p", due.trace_id, state=stored.FAILED, reason="no profile")
        assert stored.forget(database, before_ms=500) == 0
        assert stored.forget(database, before_ms=5000) == 3
        assert stored.forget(database, before_ms=5000) == 0
        assert [len(stored.bodies(database, "p", one * 32)) for one in "abc"] == [0, 3, 3]
        kept = {
            one.trace_id: (one.state, one.reason)
            for one in stored.listed(database, "p", state=stored.FAILED, limit=9)
        }
        assert kept == {one * 32: ("failed", "no profile") for one in "ab"}


def test_the_background_lets_go_of_them_and_counts_them(url: str) -> None:
    with serving(url, otlp_keep_s=1.0, **QUICK) as api:
        post(api, [agent(1), chat(2, 1)], where="?workflow=w@1&dataset=d@1&family=nonsense")
        assert settled(api)["state"] == "failed"
        end = time.monotonic() + 20
        while not metric(api, "otlp_spans_forgotten"):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert metric(api, "otlp_spans_forgotten") == 2
        assert settled(api)["state"] == "failed", "what became of the trace stays"


# --- the options


def chosen(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    found: list[Any] = []
    monkeypatch.setattr(serve, "serve", lambda settings, **more: found.append(settings) or 0)
    dispatch("serve", list(arguments))
    return found[0]


def test_the_options_of_the_command_reach_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = chosen(monkeypatch)
    assert (usual.otlp_endpoint, usual.otlp_grace_s, usual.otlp_limit_s, usual.otlp_keep_s) == (
        None,
        6.0,
        300.0,
        7 * 86400,
    )
    made = chosen(
        monkeypatch,
        "--otlp-endpoint",
        "http://c:4318",
        "--otlp-grace",
        "0.5",
        "--otlp-limit",
        "60",
        "--otlp-keep",
        "1",
    )
    assert (made.otlp_endpoint, made.otlp_grace_s, made.otlp_limit_s, made.otlp_keep_s) == (
        "http://c:4318",
        0.5,
        60.0,
        86400,
    )


@pytest.mark.parametrize(
    "given",
    [
        ("--otlp-grace", "0"),
        ("--otlp-limit", "-1"),
        ("--otlp-keep", "nan"),
        ("--otlp-endpoint", "collector:4318"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, given: tuple[str, str]
) -> None:
    with pytest.raises(UsageError, match=given[0]):
        chosen(monkeypatch, *given)
