"""Spans over the wire: any exporter's, kept until their trace is whole, graded as if they had been
posted; and grades sent back as events.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.canon import encode
from assay.errors import UsageError
from assay.files.json_files import Document
from assay.importers.importer import NameVersion, Wanted
from assay.importers.otlp import run_of
from assay.installing import install_hint
from assay.library.shelf import Shelf
from assay.server import lookup
from assay.services.grading import Grader
from assay.store import traces as stored
from assay.store.ledger import open_ledger
from assay.tracing.spans import Span
from assay.views import otel_export as exporting
from assay.views.otel_export import EVENT, OtlpTarget, configured, events, events_of, send
from documents import run
from postgres import ledger_url, postgres_url  # fixtures  # noqa: F401
from receiving import Receiver
from serving import Api, Process, frames, serving, until
from tracing import T, agent, by_trace, chat, otlp, protobuf, real, span, tool

PB = {"Content-Type": "application/x-protobuf"}
WHERE = "?workflow=calc@1&family=tool-use&dataset=sums@1"
QUICK = {"otlp_grace_s": 0.2, "otlp_limit_s": 30.0}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serving(f"sqlite:///{tmp_path}/ledger.db", **QUICK) as made:
        yield made


def post(
    api: Api,
    spans: list[Span],
    *,
    where: str = WHERE,
    headers: dict[str, str] | None = None,
    path: str = "/v1/traces",
) -> Any:
    return api.client.post(path + where, content=protobuf(spans), headers={**PB, **(headers or {})})


def settled(api: Api, trace_id: str = T, *, timeout: float = 20, **more: Any) -> dict[str, Any]:
    """What became of a trace, once something did."""
    end = time.monotonic() + timeout
    while True:
        found: dict[str, dict[str, Any]] = {
            one["trace_id"]: one for one in api.get("/otlp/traces", **more).json()["items"]
        }
        if trace_id in found and found[trace_id]["state"] not in ("gathering", "building"):
            return found[trace_id]
        assert time.monotonic() < end, found
        time.sleep(0.05)


def partial(response: Any) -> tuple[int, str]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    assert (response.status_code, response.headers["content-type"]) == (
        200,
        "application/x-protobuf",
    )
    found = ExportTraceServiceResponse.FromString(response.content).partial_success
    return found.rejected_spans, found.error_message


def status(response: Any) -> tuple[int, str]:
    """A `google.rpc.Status`, read by hand as a stranger would: a number in field 1, a text in field
    2.
    """
    data = response.content
    assert response.headers["content-type"] == "application/x-protobuf"
    assert (data[0], data[2]) == (0x08, 0x12)
    at, size, shift = 3, 0, 0
    while True:
        size |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return data[1], data[at : at + size].decode()


# --- receiving


@pytest.mark.parametrize(
    ("form", "path"),
    [
        ("protobuf", "/v1/traces"),
        ("json", "/api/v1/otlp/v1/traces"),
        ("gzip", "/v1/traces"),
    ],
)
def test_a_trace_becomes_the_run_that_it_would_be_from_a_file(
    api: Api, shared: Path, form: str, path: str
) -> None:
    trace = by_trace(real(shared, "maf_sensitive"))[0]
    if form == "json":
        answer = api.client.post(
            path + WHERE,
            content=json.dumps(otlp(trace)),
            headers={"Content-Type": "application/json"},
        )
        assert (answer.status_code, answer.json(), answer.headers["content-type"]) == (
            200,
            {},
            "application/json",
        )
    else:
        data = protobuf(trace) if form == "protobuf" else gzip.compress(protobuf(trace))
        answer = api.client.post(
            path + WHERE,
            content=data,
            headers={**PB, **({"Content-Encoding": "gzip"} if form == "gzip" else {})},
        )
        assert partial(answer) == (0, "")
    found = settled(api, trace[0].trace_id)
    assert (found["state"], found["spans"], found["run_id"]) == ("done", 4, trace[0].trace_id)
    wanted = run_of(trace, Wanted(NameVersion("calc", "1"), "tool-use", NameVersion("sums", "1")))
    posted = api.client.post(
        "/api/v1/runs", content=encode(wanted), headers={"Content-Type": "application/json"}
    )
    assert (posted.status_code, posted.json()["digest"], posted.json()["new"]) == (
        200,
        found["digest"],
        False,
    )


@pytest.mark.req("W-077", "W-085")
def test_the_events_of_a_run_that_came_as_spans_are_read_as_a_stream(api: Api) -> None:
    post(api, [agent(1), chat(2, 1), tool(3, 1)])
    settled(api)
    stream = frames(api.get(f"/runs/{T}/events").text)
    assert [kind for _, kind, _ in stream] == [
        "workflow_start",
        "step_start",
        "step_end",
        "workflow_end",
        "evaluation_start",
        "evaluation_complete",
    ]
    assert stream[-1][2]["hard_gates"]["tool_call_schema_valid"]["status"] == "undetermined"


def test_spans_of_one_trace_come_over_several_requests_and_the_root_last(api: Api) -> None:
    for one in (
        chat(2, 1),
        tool(3, 1),
        chat(2, 1),
    ):  # an exporter that tries again sends the same once more; that of the root names the run
        assert partial(post(api, [one], where="")) == (0, "")
    time.sleep(0.6)
    assert api.get("/otlp/traces").json()["items"][0]["state"] == "gathering"
    post(api, [agent(1)])
    assert settled(api)["spans"] == 3
    assert api.get(f"/runs/{T}").json()["record"]["metadata"]["otel"] == {
        "trace_id": T,
        "span_id": f"{1:016x}",
        "spans": 3,
        "sample_id": "the trace id is used: no span has assay.sample_id",
    }


def again(api: Api, before: dict[str, Any]) -> dict[str, Any]:
    """What became of a trace that was graded before, once it is graded again."""
    return until(lambda: (after := settled(api))["digest"] != before["digest"] and after)


def test_an_error_that_comes_late_is_seen_in_the_grade_and_a_repeated_span_changes_nothing(
    api: Api,
) -> None:
    post(api, [span(1, None, "answer"), agent(2, 1), chat(3, 2)])
    before = settled(api)
    assert (
        api.get(f"/runs/{T}/grade").json()["hard_gates"]["no_critical_step_failures"]["status"]
        == "pass"
    )
    late = [agent(4, 1, "db", error="timeout"), chat(5, 4)]
    assert partial(post(api, late)) == (0, "")
    after = again(api, before)
    assert (after["spans"], after["late"], after["run_id"]) == (5, 2, T)
    run = api.get(f"/runs/{T}").json()
    assert run["digest"] == after["digest"]
    assert [step["status"] for step in run["record"]["steps"]] == ["success", "error"]
    assert (
        api.get(f"/runs/{T}/grade").json()["hard_gates"]["no_critical_step_failures"]["status"]
        == "fail"
    )
    assert partial(post(api, [chat(3, 2), *late])) == (0, ""), "an exporter tries again"
    time.sleep(0.6)
    assert settled(api) == after


def test_a_run_that_late_spans_contradict_is_broken(api: Api) -> None:
    post(api, [agent(1, assay__sample_id="s-1"), chat(2, 1)])
    settled(api)
    post(api, [chat(3, 1, assay__sample_id="s-2")])
    until(lambda: settled(api)["state"] == "failed")
    assert "s-2" in settled(api)["reason"]
    run = api.get(f"/runs/{T}").json()
    assert (run["record"]["status"], run["digest"]) == ("error", settled(api)["digest"])
    assert api.get(f"/runs/{T}/grade").json()["passed"] is False


def test_a_run_that_begins_after_its_root_was_dropped_is_there_and_broken(api: Api) -> None:
    post(api, [span(1, None, "GET /")])
    assert settled(api)["state"] == "empty"
    post(api, [agent(2, 1), chat(3, 2)])
    until(lambda: settled(api)["state"] == "done")
    record = api.get(f"/runs/{T}").json()["record"]
    assert (record["status"], record["metadata"]["otel"]["gaps"]) == (
        "error",
        {"missing_parents": 1, "no_root_span": 1},
    )


def test_a_late_span_that_cannot_be_read_breaks_the_run(api: Api) -> None:
    post(api, [agent(1), chat(2, 1)])
    before = settled(api)
    body = otlp([chat(3, 1)])
    body["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["spanId"] = "nonsense"
    api.client.post("/v1/traces" + WHERE, json=body)
    assert again(api, before)["refused"] == 1
    assert api.get(f"/runs/{T}").json()["record"]["status"] == "error"


def test_a_decision_uses_the_last_run_of_a_trace_whose_spans_came_late(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = {"filter": {"workflow": "calc"}}

    def decided() -> Any:
        return api.post("/decisions", {"candidate": side, "baseline": side}).json()["decision"]

    post(api, [span(1, None, "answer"), agent(2, 1), chat(3, 2)])
    before = settled(api)
    first = decided()
    assert first["candidate"]["gates"]["no_critical_step_failures"]["failed"] == 0
    post(api, [agent(4, 1, "db", error="timeout"), chat(5, 4)])
    after = again(api, before)
    rejected = decided()
    assert rejected["comparison"]["n_candidate"] == 1
    assert rejected["candidate"]["gates"]["no_critical_step_failures"]["failed"] == 1
    assert {before["digest"], after["digest"]} == {
        item["digest"] for item in api.get("/runs").json()["items"]
    }
    links = api.services.ledger.links_of(before["digest"], relation="supersedes")
    assert [(link.source, link.target) for link in links] == [(after["digest"], before["digest"])]
    # what was left out must not hide that more runs match than were read
    monkeypatch.setattr(lookup, "MAX_SIDE", 1)
    assert api.post("/decisions", {"candidate": side, "baseline": side}).status_code == 422


def test_spans_go_with_the_run_that_is_forgotten_and_later_ones_are_counted_and_rejected(
    api: Api,
) -> None:
    post(api, [agent(1), chat(2, 1)])
    before = settled(api)
    database = api.services.ledger.database
    assert len(stored.bodies(database, "default", T)) == 2
    asked = api.post(f"/records/{before['digest']}/forget", {"reason": "asked to"})
    assert asked.status_code == 200
    assert stored.bodies(database, "default", T) == []
    rejected, words = partial(post(api, [chat(3, 1)]))
    assert (rejected, "no longer kept" in words) == (1, True)
    after = settled(api)
    assert (after["late"], after["digest"]) == (1, before["digest"])
    assert "otlp_spans_late" in api.get("/metrics").text


def test_a_trace_whose_root_never_comes_is_a_run_that_failed(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/ledger.db", otlp_grace_s=0.1, otlp_limit_s=0.4) as api:
        post(api, [chat(2, 1)])
        assert settled(api)["state"] == "done"
        record = api.get(f"/runs/{T}").json()["record"]
        assert (record["status"], record["metadata"]["otel"]["gaps"]) == (
            "error",
            {"missing_parents": 1, "no_root_span": 1},
        )
        assert api.get(f"/runs/{T}/grade").json()["passed"] is False


def test_a_refused_span_breaks_the_run_of_its_trace(api: Api) -> None:
    body = otlp([agent(1), chat(2, 1)])
    body["resourceSpans"][1]["scopeSpans"][0]["spans"][0]["spanId"] = "nonsense"
    answer = api.client.post("/v1/traces" + WHERE, json=body)
    partial_success = answer.json()["partialSuccess"]
    assert (answer.status_code, partial_success["rejectedSpans"]) == (200, "1")
    assert "spanId is 'nonsense'" in partial_success["errorMessage"]
    assert settled(api)["refused"] == 1
    record = api.get(f"/runs/{T}").json()["record"]
    assert (record["status"], record["metadata"]["otel"]["gaps"]) == ("error", {"refused_spans": 1})


def test_a_trace_that_cannot_be_placed_is_kept_with_the_reason(api: Api) -> None:
    post(api, [agent(1)], where="")
    found = settled(api)
    assert (found["state"], found["digest"]) == ("failed", None)
    assert "nothing states assay.workflow.id" in found["reason"]
    with open_ledger(api.services.settings.db) as ledger:
        assert len(stored.bodies(ledger.database, "default", T)) == 1


def test_a_trace_that_holds_no_run_is_said_to_hold_none(api: Api) -> None:
    post(api, [span(1, name="workflow.build")])
    assert settled(api)["state"] == "empty"


def test_more_spans_than_a_trace_may_have_are_refused_and_break_it(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.server.routes import telemetry

    monkeypatch.setattr(telemetry, "MAX_SPANS", 2)
    rejected, words = partial(post(api, [agent(1), chat(2, 1), chat(3, 1)]))
    assert (rejected, "beyond" in words) == (1, True)
    settled(api)
    assert api.get(f"/runs/{T}").json()["record"]["status"] == "error"


# --- who may, and what is wrong


def test_only_a_token_that_may_write_is_let_in_and_projects_do_not_mix(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/ledger.db", allow_anonymous=False, **QUICK) as api:
        assert (
            post(api, [agent(1)]).status_code,
            post(api, [agent(1)], headers=api.token("a", ("read",))).status_code,
        ) == (401, 403)
        mine, other = api.token("a"), api.token("b")
        assert post(api, [agent(1)], headers=mine).status_code == 200
        assert settled(api, headers=mine)["state"] == "done"
        assert api.get("/otlp/traces", headers=other).json()["items"] == []
        assert api.get(f"/runs/{T}", headers=other).status_code == 404


@pytest.mark.parametrize(
    ("data", "headers", "code", "words"),
    [
        (b"\xff\xff\xff", {}, 400, "protobuf"),
        (protobuf([agent(1)])[:-3], {}, 400, "protobuf"),
        (b"nonsense", {"Content-Encoding": "gzip"}, 400, "gzip"),
        (
            gzip.compress(protobuf([agent(1)]), mtime=0)[:-9],
            {"Content-Encoding": "gzip"},
            400,
            "gzip",
        ),
        (b"x" * 3000, {"Content-Length": "3000"}, 413, "larger"),
        (gzip.compress(b"\x00" * 10**6, mtime=0), {"Content-Encoding": "gzip"}, 413, "larger"),
    ],
)
def test_a_body_that_is_wrong_is_answered_with_a_status_in_its_own_encoding(
    tmp_path: Path, data: bytes, headers: dict[str, str], code: int, words: str
) -> None:
    with serving(f"sqlite:///{tmp_path}/ledger.db", max_body_bytes=2048) as api:
        answer = api.client.post("/v1/traces", content=data, headers={**PB, **headers})
        number, said = status(answer)
        assert (answer.status_code, number) == (code, {400: 3, 413: 8}[code])
        assert words in said


def test_json_that_is_wrong_is_answered_with_a_status_as_json(api: Api) -> None:
    for data, code in ((b"{", 400), (b'{"spans": []}', 400), (b"", 400)):
        answer = api.client.post(
            "/v1/traces", content=data, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["code"]) == (code, 3)
    answer = api.client.post("/v1/traces?workflow=nameless", json=otlp([agent(1)]))
    assert (answer.status_code, "an id and a version" in answer.json()["message"]) == (400, True)
    assert (
        api.client.post(
            "/v1/traces", content=b"x", headers={"Content-Type": "text/plain"}
        ).status_code
        == 415
    )


# --- keeping


def test_one_of_several_servers_builds_a_trace_and_another_takes_up_what_it_left(
    ledger_url: str,  # noqa: F811
) -> None:
    with open_ledger(ledger_url) as ledger:
        database = ledger.database
        times = {"grace_ms": 100, "limit_ms": 1000, "stale_ms": 5000}
        stored.keep(
            database,
            "p",
            {T: stored.TraceSpans({("1" * 16, "m"): b"{}"}, True, 0)},
            asked=b"[]",
            author="me",
            now_ms=1000,
            limit=10,
        )
        assert stored.claim(database, "a", at_ms=1050, **times) is None
        assert stored.claim(database, "a", at_ms=1200, **times) == ("p", T, b"[]", "me", 0, None)
        assert stored.claim(database, "b", at_ms=1300, **times) is None
        late = stored.keep(
            database,
            "p",
            {T: stored.TraceSpans({("2" * 16, "m"): b"{}"}, False, 0)},
            asked=b"[]",
            author="me",
            now_ms=1300,
            limit=10,
        )
        assert late == (0, 0, False)
        stored.close(database, "p", T, state=stored.DONE, run_id="r", digest="of one span")
        assert stored.claim(database, "b", at_ms=1350, **times) is None
        due = stored.claim(database, "b", at_ms=1400, **times)
        assert due is not None
        assert due.digest == "of one span", "what is built next replaces the run of one span"
        assert stored.claim(database, "a", at_ms=1500, **times) is None
        assert stored.claim(database, "a", at_ms=6500, **times) is not None
        assert len(stored.bodies(database, "p", T)) == 2
        stored.close(database, "p", T, state=stored.DONE, run_id="r", digest="d")
        assert stored.claim(database, "b", at_ms=99_000, **times) is None
        assert stored.listed(database, "p", state="done", limit=9)[0].digest == "d"
        assert stored.forget(database, before_ms=99_000) == 2


def test_a_span_that_comes_while_its_trace_is_found_empty_is_kept(
    ledger_url: str,  # noqa: F811
) -> None:
    with open_ledger(ledger_url) as ledger:
        times = {"grace_ms": 100, "limit_ms": 1000, "stale_ms": 5000}
        database = ledger.database

        def send(name: str, *, is_root: bool, at_ms: int) -> None:
            batch = stored.TraceSpans({(name * 16, "m"): b"{}"}, is_root, 0)
            stored.keep(database, "p", {T: batch}, asked=b"[]", author="me", now_ms=at_ms, limit=10)

        send("1", is_root=True, at_ms=1000)
        assert stored.claim(database, "a", at_ms=1200, **times) is not None
        send("2", is_root=False, at_ms=1300)
        stored.close(database, "p", T, state=stored.EMPTY, reason="there is no run in it")
        assert stored.claim(database, "a", at_ms=1500, **times) is not None
        assert len(stored.bodies(database, "p", T)) == 2


def test_too_many_open_traces_begin_no_new_one(ledger_url: str) -> None:  # noqa: F811
    with open_ledger(ledger_url) as ledger:
        for index in range(2):
            batch = {f"{index:032x}": stored.TraceSpans({("1" * 16, "m"): b"{}"}, False, 0)}
            stored.keep(
                ledger.database, "p", batch, asked=b"[]", author=None, now_ms=1, limit=9, max_open=2
            )
        assert stored.keep(
            ledger.database,
            "p",
            {T: batch[f"{1:032x}"]},
            asked=b"[]",
            author=None,
            now_ms=1,
            limit=9,
            max_open=2,
        ).closed


@contextmanager
def exporting_to(server: Process) -> Iterator[Any]:
    """The real SDK with the real exporter, in protobuf."""
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    resource = Resource(
        {
            "service.name": "calc",
            "service.version": "4",
            "assay.dataset.id": "sums",
            "assay.dataset.version": "1",
            "assay.workflow.family": "tool-use",
        }
    )
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(
        SimpleSpanProcessor(
            OTLPSpanExporter(
                endpoint=f"http://127.0.0.1:{server.port}/v1/traces", compression=Compression.Gzip
            )
        )
    )
    yield provider.get_tracer("test")
    provider.shutdown()


def test_spans_of_the_real_sdk_survive_a_kill_and_become_a_graded_run(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    soon = ("--otlp-grace", "0.5")
    with Process(url, *soon) as server, exporting_to(server) as tracer:
        root = tracer.start_span(
            "invoke_agent calc",
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "calc",
                "assay.sample_id": "s-7",
            },
        )
        from opentelemetry.trace import set_span_in_context

        here = set_span_in_context(root)
        for name, more in (
            (
                "chat",
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.usage.input_tokens": 11,
                    "gen_ai.usage.output_tokens": 4,
                },
            ),
            (
                "execute_tool add",
                {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"},
            ),
        ):
            tracer.start_span(name, context=here, attributes=more).end()
        server.kill()
        with Process(url, *soon, port=server.port) as second:
            root.end()
            trace_id = f"{root.get_span_context().trace_id:032x}"
            end = time.monotonic() + 60
            while second.call("GET", f"/runs/{trace_id}")[0] != 200:
                assert time.monotonic() < end, second.call("GET", "/otlp/traces")
                time.sleep(0.2)
            record = second.call("GET", f"/runs/{trace_id}")[1]["record"]
            assert (
                record["status"],
                record["tokens"],
                record["workflow"]["version"],
                record["dataset"]["sample_id"],
            ) == ("success", 15, "4", "s-7")
            assert [call["name"] for call in record["tool_calls"]] == ["add"]
            assert second.call("GET", f"/runs/{trace_id}/grade")[1]["policy"] == "workflow@1"


# --- grades sent back


def graded(**changes: Any) -> dict[str, Any]:
    return (
        Grader(Shelf(), policy="workflow")
        .grade(Document(run("tool-use", **changes), "x"))
        .payload()
    )


def test_a_grade_is_one_event_and_one_for_each_criterion_on_the_trace_it_came_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grade = graded(
        run_id=T, metadata={"otel": {"trace_id": T, "span_id": "b" * 16, "response_id": "r-9"}}
    )
    with Receiver() as receiver:
        exporter = configured(receiver.address)
        assert exporter is not None
        of_trace = {
            "run_id": T,
            "metadata": {"otel": {"trace_id": T, "span_id": "b" * 16, "response_id": "r-9"}},
        }
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hunter2")
        target = OtlpTarget(exporter.endpoint, 5)
        sent = send(events_of(grade, of_trace), target)
        assert sent == (1 + len(grade["criteria"]), None)
        assert [
            (path, headers["content-type"], headers["x-key"]) for path, headers, _ in receiver.got
        ] == [("/v1/logs", "application/x-protobuf", "hunter2")]
        records = receiver.records()
    assert {
        (record.event_name, record.trace_id.hex(), record.span_id.hex()) for record, _ in records
    } == {(EVENT, T, "b" * 16)}
    whole = records[0][1]
    assert (
        whole["gen_ai.evaluation.name"],
        whole["gen_ai.evaluation.score.value"],
        whole["gen_ai.evaluation.score.label"],
    ) == (
        "assay",
        grade["weighted_score"],
        "A",
    )
    assert whole["gen_ai.response.id"] == "r-9"
    names = [attributes["gen_ai.evaluation.name"] for _, attributes in records[1:]]
    assert names == [criterion["name"] for criterion in grade["criteria"]]
    for _, attributes in records:
        assert (attributes["assay.policy"], attributes["assay.profile"]) == (
            "workflow@1",
            "tool-use@1",
        )
        assert (attributes["assay.scoring_system"], attributes["assay.grading_system"]) == (
            grade["scoringSystem"],
            grade["gradingSystem"],
        )


def test_a_score_that_nobody_gave_is_absent_from_its_event() -> None:
    missing = [event for event in events(graded(scores=None)) if "error.type" in event]
    assert missing
    assert {event["error.type"] for event in missing} == {"missing_score"}
    assert not any("gen_ai.evaluation.score.value" in event for event in missing)


def test_many_grades_go_in_several_requests() -> None:
    grade = graded()
    with Receiver() as receiver:
        sent = send(list(events_of(grade)) * 100, OtlpTarget(receiver.address + "/v1/logs", 5))
        assert (sent.events, sent.warning, len(receiver.got)) == (600, None, 2)


def test_grades_that_wait_in_a_file_are_sent_on_the_traces_that_their_ids_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    with ExitStack() as stack, Receiver() as receiver:
        assert exporting.Outbox.of(None, stack) is None
        box = exporting.Outbox.of(receiver.address, stack)
        assert box is not None
        Path(box.path).write_bytes(encode(graded(run_id=T)) + b"\n" + encode(graded()) + b"\n")
        assert box.send() == (12, None)
        assert [record.trace_id.hex() for record, _ in receiver.records()] == [T] * 6 + [""] * 6
    assert not Path(box.path).exists()


def test_without_the_sdk_an_option_is_refused_and_the_environment_is_a_warning(
    tmp_path: Path,
) -> None:
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry" / "__init__.py").touch()
    (tmp_path / "run.json").write_bytes(encode(run("code-repair")))
    command = [sys.executable, "-m", "assay", "grade", "run.json"]
    env = {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"], "NO_COLOR": "1"}

    def done(*more: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *more],
            cwd=tmp_path,
            env={**env, **settings},
            capture_output=True,
            text=True,
            check=False,
        )

    plain = done()
    asked = done("--otlp-endpoint", "http://127.0.0.1:1")
    named = done(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "[otel]" in asked.stderr
    assert (named.returncode, named.stdout) == (plain.returncode, plain.stdout)
    assert "[otel]" in named.stderr


@pytest.mark.parametrize("code", [302, 400, 401, 503])
def test_a_receiver_that_refuses_is_a_warning_without_secrets(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2")
    with (
        Receiver() as stranger,
        Receiver(code, {"Location": stranger.address + "/v1/logs"}) as receiver,
    ):
        address = receiver.address.replace("http://", "http://me:hunter2@") + "/v1/logs?key=hunter2"
        sent = send(events_of(graded()), OtlpTarget(address, 5))
        assert sent.warning is not None
        assert (sent.events, str(code) in sent.warning, "hunter2" in sent.warning) == (
            0,
            True,
            False,
        )
        assert (stranger.got, len(receiver.got), capsys.readouterr().err) == ([], 1, "")


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1/v1/logs",
        "file:///etc/passwd",
        "http://me:hunter2@127.0.0.1:1",
        "http://[",
        "nonsense",
        "http://x y/",
    ],
)
def test_an_address_where_nobody_is_is_a_warning(address: str) -> None:
    sent = send(events_of(graded()), OtlpTarget(address, 1))
    assert sent.warning is not None
    assert "hunter2" not in sent.warning


def test_the_environment_names_the_exporter_as_the_specification_says() -> None:
    assert configured(environment={}) is None
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1"}
    assert configured(environment=environment) == ("http://a:1/v1/logs", None)
    logs = {**environment, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://b:2/logs"}
    assert configured(environment=logs) == ("http://b:2/logs", None)
    assert configured("http://c:3", environment=logs) == ("http://c:3/v1/logs", None)


@pytest.mark.parametrize("code", [200, 503])
def test_a_server_with_an_exporter_sends_what_it_graded_and_a_dead_one_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    with Receiver(code) as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2")
        with serving(f"sqlite:///{tmp_path}/ledger.db", **QUICK) as api:
            post(api, [agent(1), chat(2, 1)])
            assert settled(api)["state"] == "done"
            end = time.monotonic() + 10
            while not receiver.got:
                assert time.monotonic() < end
                time.sleep(0.05)
        records = receiver.records()
        assert b"hunter2" not in api.log.getvalue()
        assert (b"not sent" in api.log.getvalue()) == (code != 200)
    assert (records[0][0].trace_id.hex(), records[0][0].span_id.hex()) == (T, f"{1:016x}")


def test_a_run_that_cannot_be_graded_is_an_event_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address)
        with serving(f"sqlite:///{tmp_path}/ledger.db", **QUICK) as api:
            post(api, [agent(1)], where="?workflow=w@1&dataset=d@1&family=nonsense")
            assert settled(api)["state"] == "failed"
            end = time.monotonic() + 10
            while not receiver.got:
                assert time.monotonic() < end
                time.sleep(0.05)
        attributes = receiver.records()[0][1]
    assert attributes["error.type"] == "SCO-010"
    assert "gen_ai.evaluation.score.value" not in attributes


def test_protobuf_without_its_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from assay.tracing.wire import from_protobuf

    monkeypatch.setitem(
        sys.modules, "opentelemetry.proto.collector.trace.v1.trace_service_pb2", None
    )
    with pytest.raises(UsageError, match="not installed") as caught:
        list(from_protobuf(b""))
    assert install_hint("otel") in caught.value.fix
