"""Bad input: every error is a problem with a code, none is an internal error, and hostile text is
kept and given back as text.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import io
import json
import os
import select
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings

from assay.errors.codes import CODES as CODES
from assay.server import bodies, http_protocol, posted_runs
from assay.server.app import create_app
from assay.server.logs import Log
from assay.server.settings import ServerSettings
from documents import run
from postgres import ledger_url, on_sqlite, postgres_url  # fixtures  # noqa: F401
from serving import API, Api, Process, description, runs, serving

JSON = {"Content-Type": "application/json"}
HOSTILE = [
    "'; DROP TABLE records; --",
    '<script>alert("x")</script>',
    "{{7*7}} ${7*7} %s %n",
    "../../etc/passwd",
    "a\u0000b",
    "\u202e\u200b\ufeff",
    "line\r\nX-Injected: 1",
    "data: x\n\nevent: evaluation_complete",
    "\U0001f600" * 50,
    "x" * 400,
    "sha256:" + "0" * 64,
]


@pytest.fixture
def api(tmp_path: Path) -> Any:
    with serving(f"sqlite:///{tmp_path}/ledger.db", max_body_bytes=200_000) as made:
        yield made


def refused(answer: Any, status: int) -> dict[str, Any]:
    """A problem of that status, whole, with a code of ours and with what to do."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "detail", "code", "where", "fix"} <= found.keys()
    assert found["status"] == status
    assert found["code"] in CODES
    assert found["detail"]
    assert found["fix"]
    return found


def test_a_body_that_cannot_be_read_says_where_and_what(api: Api) -> None:
    def send(data: bytes, **headers: str) -> Any:
        return api.client.post(
            f"{API}/runs",
            content=data,
            headers={**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}},
        )

    assert refused(send(b""), 400)["code"] == "FIL-005"
    assert refused(send(b'{"schema": '), 400)["code"] == "FIL-002"
    assert refused(send(b'{"a": 1, "a": 2}'), 400)["code"] == "FIL-003"
    assert refused(send(b"[" * 5000 + b"]" * 5000), 400)["code"] == "FIL-004"
    assert refused(send(b'{"a":' * 300 + b"1" + b"}" * 300), 400)["code"] == "FIL-004"
    assert "UTF-8" in refused(send(json.dumps(run()).encode("utf-16")), 400)["detail"] + "UTF-8"
    refused(send(b'{"a": "\xff\xfe"}'), 400)
    refused(send(json.dumps(run()).encode(), Content_Type="application/json; charset=latin-1"), 400)
    refused(send(b'{"a": NaN}'), 400)
    refused(send(b"{}", Content_Type="text/xml"), 415)
    refused(send(b"{}", Content_Type=""), 415)
    refused(send(b"{}", Content_Encoding="br"), 415)
    refused(send(b"no gzip", Content_Encoding="gzip"), 400)
    refused(send(gzip.compress(b"{}")[:-3], Content_Encoding="gzip"), 400)
    refused(send(b'"x"'), 422)
    refused(send(b"[]"), 422)


def test_a_body_over_the_limit_is_refused_packed_or_not(api: Api) -> None:
    large = json.dumps(run(outputs={"answer": "x" * 300_000})).encode()
    refused(api.client.post(f"{API}/runs", content=large, headers=JSON), 413)
    bomb = gzip.compress(b" " * 5_000_000)
    assert len(bomb) < 200_000
    refused(
        api.client.post(f"{API}/runs", content=bomb, headers={**JSON, "Content-Encoding": "gzip"}),
        413,
    )
    refused(
        api.client.post(
            f"{API}/runs", content=b"x" * 300_000, headers={"Content-Type": "application/x-ndjson"}
        ),
        413,
    )
    assert api.get("/runs").json()["items"] == []


def test_evidence_that_is_not_of_its_shape_lists_every_fault_with_the_near_miss(api: Api) -> None:
    broken = {**run(), "stats": "x", "workflow": {"id": "w"}, "latency_ms": -1}
    found = refused(api.post("/runs", broken), 422)
    assert found["code"] == "SCO-011"
    assert any("'version'" in fault["message"] for fault in found["faults"])
    unknown = {**run(), "workflow": {"id": "w", "version": "1", "family": "code-repiar"}}
    assert "Did you mean 'code-repair'?" in refused(api.post("/runs", unknown), 422)["detail"]
    refused(api.post("/scorecards", run()), 422)
    refused(
        api.post(
            "/runs",
            {**run(), "workflow": {"id": "w", "version": "1", "profile": "../../etc/passwd.yaml"}},
        ),
        422,
    )
    refused(api.post("/runs?policy=/etc/passwd", run()), 422)
    refused(api.post("/runs?policy=x.yaml", run()), 422)
    refused(api.post("/runs?profile=nope", run()), 422)


FORGED = [
    *(
        f"/runs/{name}"
        for name in (f"sha256:{'0' * 64}", "sha256:xyz", "nope", "..%2f..%2fetc", "%00", "x" * 3000)
    ),
    *("/runs/%ff%fe/grade", "/runs/nope/events", "/runs/nope/history"),
    *("/executions/1", "/executions/..%2fx", "/executions/%00"),
    *(
        "/records/1",
        f"/grades/sha256:{'f' * 64}",
        "/decisions/-1",
        "/library/policies/..%2fx",
        "/nope",
        "/schemas/index",
    ),
]


def test_a_forged_id_leads_nowhere(api: Api) -> None:
    for path in FORGED:
        refused(api.get(path), 404)


def test_a_parameter_that_makes_no_sense_is_a_problem(api: Api) -> None:
    for query in (
        "after=x",
        "after=-1",
        "limit=0",
        "limit=1e9",
        "passed=maybe",
        "grade=Z",
        "from=yesterday",
        "passed=true&from=yesterday",
        "after=" + "9" * 30,
    ):
        refused(api.get(f"/runs?{query}"), 422)


@pytest.mark.parametrize("host", ["[", "[::1", "a[b"])
def test_a_host_that_cannot_be_read_is_a_problem_of_the_client(api: Api, host: str) -> None:
    refused(api.get("/runs", headers={"Host": host}), 400)
    assert api.client.get("/nowhere", headers={"Host": host}).status_code == 400


@on_sqlite
def test_hostile_text_is_kept_and_given_back_as_text_in_every_field(
    ledger_url: str,  # noqa: F811
) -> None:
    with serving(ledger_url) as api:
        for index, text in enumerate(HOSTILE):
            evidence = run(
                outputs={"answer": text},
                tags=[text],
                group=text,
                metadata={text: text},
                tool_calls=[{"name": text, "arguments": {text: text}, "step": text, "error": text}],
                steps=[
                    {"name": text, "agent": text, "status": "success", "model": text, "error": text}
                ],
            )
            evidence["run_id"] = f"{index} {text}"
            evidence["workflow"] = {**evidence["workflow"], "id": text, "version": text}
            evidence["dataset"] = {"id": text, "version": text, "sample_id": text}
            posted = api.post("/runs", evidence)
            assert posted.status_code == 201, (text, posted.text)
            shown = api.get(f"/runs/{posted.json()['digest']}")
            assert shown.json()["record"] == evidence
            assert shown.headers["content-type"] == "application/json"
            assert "x-injected" not in shown.headers
            listed = api.client.get(f"{API}/runs", params={"workflow": text}).json()["items"]
            assert [item["run_id"] for item in listed] == [evidence["run_id"]]
            stream = api.get(f"/runs/{posted.json()['digest']}/events")
            assert stream.text.count("\nevent: ") + stream.text.startswith("event: ") == 6, (
                "no text can pass for an event"
            )
        assert len(api.get("/runs").json()["items"]) == len(HOSTILE)


def test_half_a_surrogate_pair_is_refused_in_words(api: Api) -> None:
    data = json.dumps(run(outputs={"answer": "x"})).replace('"x"', '"\\ud800"').encode()
    refused(api.client.post(f"{API}/runs", content=data, headers=JSON), 400)


def test_an_event_that_no_runner_posts_is_refused(api: Api) -> None:
    head = {
        key: value for key, value in run().items() if key not in ("status", "steps", "tool_calls")
    }
    assert api.post("/runs/live", head).status_code == 201
    refused(api.post("/runs/live", head), 409)
    nonsense: list[Any] = [
        *(
            {"event": "evaluation_complete"},
            {"event": "step_end", "step": {"name": "x"}},
            {"event": "step_start"},
            {"evnt": "error"},
            [],
            "x",
            3,
        ),
        *(
            {"event": "workflow_end", "run": {"run_id": "other"}},
            {"event": "workflow_end", "run": {"status": "x"}},
            {"event": "workflow_end", "run": {"status": "success", "required_outputs": []}},
        ),
        *(
            [{"event": "error"}, {"event": "error"}],
            {"event": "step_start", "step": {"name": "x", "index": -1}},
        ),
        {"event": "step_start", "step": {"name": "x", "extra": 1}},
    ]
    for body in nonsense:
        refused(api.post("/runs/r-1/events", body), 422)
    refused(api.post("/runs/nope/events", {"event": "error"}), 404)


def test_a_moment_that_no_calendar_has_in_utc_counts_as_not_stated(api: Api) -> None:
    edges = {
        "started_at": "0001-01-01T00:00:00+14:00",
        "finished_at": "9999-12-31T23:59:59-14:00",
    }
    made = api.post("/evaluations", {"name": "edges", "runs": [run(**edges)]})
    assert made.status_code == 201, made.text


def test_a_decision_on_nonsense_is_refused(api: Api) -> None:
    one = runs(1)
    both = {"candidate": one, "baseline": one}
    nonsense: list[Any] = [
        *({}, [], {"candidate": [], "baseline": []}, {"candidate": [1], "baseline": [2]}),
        *(
            {"candidate": one, "baseline": {"filter": {"nope": "x"}}},
            {"candidate": one, "baseline": {"filter": {}}},
        ),
        {"candidate": one, "baseline": {"digests": ["x"]}, "policy": "nope"},
        *(
            {**both, "looks": 0},
            {**both, "slices": ["x"]},
            {**both, "quarantine": [1]},
            {**both, "policy": "workflow"},
        ),
    ]
    for body in nonsense:
        assert api.post("/decisions", body).status_code in (404, 422), body
    for path, side, body in (
        ("/decisions", "candidate", {"candidate": "next", "baseline": one}),
        ("/decisions", "baseline", {"candidate": one, "baseline": {}}),
        ("/baselines", "evidence", {"name": "main", "evidence": "next"}),
        ("/evaluations", "runs", {"name": "next", "runs": 3}),
    ):
        found = refused(api.post(path, body), 422)
        assert (found["where"], '{"evaluation": NAME}' in found["detail"]) == (side, True), found
    listed = {"candidate": ["next"], "baseline": one}
    assert refused(api.post("/decisions", listed), 422)["where"] == "candidate[0]"
    unnamed = {"name": "next", "runs": [*one, {**one[0], "dataset": {"id": "d"}}]}
    assert refused(api.post("/evaluations", unnamed), 422)["where"] == "runs[1]"
    refused(api.post("/cards", {"schema": "assay.judge-card/1"}), 422)
    refused(api.post("/baselines", {"name": "../x", "evidence": one}), 400)


@contextlib.contextmanager
def listening(tmp_path: Path, *, http: Any = "auto", **changes: Any) -> Iterator[int]:
    """The port of a server in a thread, with limits that a test need not wait for."""
    settings = ServerSettings(db=f"sqlite:///{tmp_path}/l.db", allow_anonymous=True, **changes)
    app = create_app(settings, log=Log(io.BytesIO()))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", http=http))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(10)


def test_a_slow_body_is_cut_off_and_others_are_answered_meanwhile(tmp_path: Path) -> None:
    with (
        listening(tmp_path, body_timeout_s=0.5) as port,
        socket.create_connection(("127.0.0.1", port)) as slow,
    ):
        slow.sendall(
            b"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type:"
            b" application/json\r\nContent-Length: 1000\r\n\r\n{"
        )
        with socket.create_connection(("127.0.0.1", port)) as other:
            other.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert other.recv(100).startswith(b"HTTP/1.1 200")
        slow.settimeout(10)
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_a_real_server_refuses_a_body_over_the_limit_before_reading_it(tmp_path: Path) -> None:
    with Process(f"sqlite:///{tmp_path}/l.db", "--max-body", "1024") as server:
        with socket.create_connection(("127.0.0.1", server.port)) as wire:
            wire.sendall(
                b"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type:"
                b" application/json\r\nContent-Length: 99999999999\r\n\r\n{"
            )
            wire.settimeout(10)
            assert wire.recv(100).startswith(b"HTTP/1.1 413")
        assert server.call("GET", "/health")[0] == 200


# --- floods


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server that must still answer after each flood."""
    with Process(f"sqlite:///{tmp_path_factory.mktemp('flood')}/l.db", "--quiet") as server:
        yield server


FIRST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("begin", "again", "status"),
    [
        pytest.param(FIRST + b"X-Long: ", b"x" * 10_000, 431, id="one header"),
        pytest.param(FIRST, b"X-Short: x\r\n" * 1000, 431, id="many headers"),
        pytest.param(FIRST, b"x" * 10_000, 431, id="the name of a header"),
        pytest.param(b"GET /", b"x" * 10_000, 414, id="the path"),
        pytest.param(b"GET /?q=", b"%20" * 3000, 414, id="the query"),
        pytest.param(
            POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX-Trailer: ",
            b"x" * 10_000,
            431,
            id="a trailer",
        ),
        pytest.param(
            POST + b"Transfer-Encoding: chunked\r\n\r\n1;x=",
            b"x" * 10_000,
            431,
            id="the extension of a chunk",
        ),
    ],
)
def test_a_head_without_end_is_refused_while_it_arrives(
    flooded: Process, begin: bytes, again: bytes, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", flooded.port), timeout=30) as wire:
        wire.sendall(begin)
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 60_000_000 and not select.select([wire], [], [], 0)[0]:
                wire.sendall(again)
                sent += len(again)
        answer = wire.recv(4096)
    assert sent < 60_000_000
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
    assert b"SRV-431" in answer
    assert flooded.call("GET", "/health")[0] == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (FIRST + b"X-Long: " + b"x" * 70_000, 431),
        (b"GET /?" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1", 414),
        (b"GET /api/v1/health?" + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 60_000, 200),
    ],
)
def test_a_head_of_64_kib_is_the_limit(flooded: Process, head: bytes, status: int) -> None:
    with socket.create_connection(("127.0.0.1", flooded.port), timeout=30) as wire:
        wire.sendall(head + b"\r\n\r\n")
        assert wire.recv(4096).startswith(f"HTTP/1.1 {status} ".encode())


def test_requests_one_after_another_on_a_connection_are_no_long_head(flooded: Process) -> None:
    wire = http.client.HTTPConnection("127.0.0.1", flooded.port, timeout=30)
    for _ in range(5):
        wire.request("GET", f"{API}/health", headers={"X": "x" * 40_000})
        answer = wire.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
    wire.close()


PING = b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def test_a_hundred_requests_may_wait_for_their_answers_and_no_more(flooded: Process) -> None:
    def answers(n: int) -> int:
        data = b""
        with (
            socket.create_connection(("127.0.0.1", flooded.port), timeout=30) as wire,
            contextlib.suppress(OSError),
        ):
            wire.sendall(PING * n)
            while data.count(b"HTTP/1.1 200 ") < n and (part := wire.recv(1 << 16)):
                data += part
        return data.count(b"HTTP/1.1 200 ")

    assert answers(100) == 100
    assert answers(100_000) < 1000
    assert flooded.call("GET", "/health")[0] == 200


def test_what_follows_a_request_that_is_not_answered_yet_gets_no_answer_before_it(
    flooded: Process,
) -> None:
    with socket.create_connection(("127.0.0.1", flooded.port), timeout=30) as wire:
        wire.sendall(PING + PING + b"nonsense\r\n\r\n")
        with contextlib.suppress(OSError):
            assert not wire.recv(1 << 16).startswith(b"HTTP/1.1 400")


def test_a_connection_that_never_ends_a_head_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_S", 0.3)
    with listening(tmp_path, http=http_protocol.HttpProtocol) as port:
        for begun in (b"", b"GET /", PING[:-1], PING + b"GET /", PING + PING[:-1]):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as wire:
                wire.sendall(begun)
                data = b"".join(iter(lambda: wire.recv(1 << 16), b""))
                assert data.count(b"HTTP/1.1 200 ") == begun.count(PING)


LINES = b"Content-Type: application/x-ndjson\r\n"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(b"\n" * 4_000_000, id="blank"),
        pytest.param(b" " * 4_000_000, id="one blank line"),
        pytest.param(b"{}\n" * 300_000, id="invalid"),
        pytest.param(b"[" + b"0," * 4_000_000 + b"0]\n", id="one line of many values"),
        pytest.param(
            b'{"z":0,"o":0,"n":0,' + b",".join(b'"g%d":0' % n for n in range(200_000)) + b"}",
            id="keys that are slow to sort",
        ),
        pytest.param(b",".join([b"[" * 190 + b"]" * 190] * 1200).join([b"[", b"]"]), id="deep"),
    ],
)
def test_while_lines_are_read_others_are_answered(flooded: Process, lines: bytes) -> None:
    """What is read at once may be answered first; nobody waits for the rest."""
    body = gzip.compress(lines, 9)
    head = POST.replace(b"Content-Type: application/json\r\n", LINES)
    health = b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", flooded.port), timeout=60) as flood,
        socket.create_connection(("127.0.0.1", flooded.port), timeout=60) as other,
    ):
        other.sendall(health[:-1])
        length = f"Content-Length: {len(body)}\r\nContent-Encoding: gzip\r\n\r\n".encode()
        flood.sendall(head + length + body)
        other.sendall(health[-1:])
        ready, _, _ = select.select([flood, other], [], [], 60)  # both, where this test had to wait
        is_read_at_once = lines.startswith((b" ", b"{}"))
        assert other in ready or is_read_at_once, "the flood was answered first"
        assert other.recv(100).startswith(b"HTTP/1.1 200 ")
        assert flood.recv(100).startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 422 "))


def test_no_more_lines_and_faults_are_read_than_help(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"Content-Type": "application/x-ndjson"}
    invalid = api.client.post(f"{API}/runs", content=b"{}\n" * 5000, headers=headers)
    found = refused(invalid, 422)
    assert found["counts"]["received"] == posted_runs.MAX_INVALID + 1
    assert len(found["faults"]) == 100
    assert "were not read" in found["fix"]
    monkeypatch.setattr(bodies, "MAX_LINES", 1000)
    blank = refused(api.client.post(f"{API}/runs", content=b"\n" * 1001, headers=headers), 413)
    assert "more than 1,000 lines" in blank["detail"]


HOSTILE_NUMBERS = ["1e309", "-1e999999999", "1e-999999999", "0e999999999", "9" * 400, "NaN"]


@pytest.mark.parametrize("number", HOSTILE_NUMBERS)
@pytest.mark.parametrize("name", ["outputs", "metadata", "inputs", "expected"])
def test_a_number_that_no_double_holds_is_refused_when_it_is_posted(
    flooded: Process, number: str, name: str
) -> None:
    data = json.dumps(run(**{name: {"answer": "@"}})).replace('"@"', number).encode()
    for body, kind in ((data, "json"), (b"[" + data + b"]", "json"), (data, "x-ndjson")):
        status, found = flooded.call(
            "POST", "/runs", body, headers={"Content-Type": f"application/{kind}"}
        )
        assert (status, found["code"]) == (422 if kind == "x-ndjson" else 400, "FIL-002")


def test_pages_show_the_largest_and_the_smallest_number(flooded: Process) -> None:
    numbers = '[1.7976931348623157e308, 5e-324, "@"]'.replace('"@"', "9" * 308)
    data = json.dumps(run(outputs={"answer": "@"})).replace('"@"', numbers).encode()
    status, made = flooded.call("POST", "/runs", data)
    assert status == 201
    for path in ("/", "/runs", f"/runs/{made['digest']}"):
        address = f"http://127.0.0.1:{flooded.port}{path}"
        with urllib.request.urlopen(address, timeout=30) as page:
            assert page.status == 200


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param(b"{" + b",".join(b'"%d":0' % i for i in range(250_000)) + b"}", id="keys"),
        pytest.param(b"[" + b"{}," * 250_000 + b"{}]", id="objects"),
        pytest.param(b"[" + b"[[[[[[0]]]]]]," * 40_000 + b"0]", id="lists in lists"),
    ],
)
def test_a_document_of_too_many_values_is_refused_before_it_is_parsed(
    tmp_path: Path, metadata: bytes
) -> None:
    document = json.dumps(run()).encode()[:-1] + b', "metadata": {"x": ' + metadata + b"}}"
    with serving(f"sqlite:///{tmp_path}/l.db") as api:
        for path in ("/runs", "/scorecards", "/evaluations", "/runs/live"):
            found = refused(api.client.post(API + path, content=document, headers=JSON), 413)
            assert "more than 250,000 values" in found["detail"]


def test_an_object_of_too_many_keys_is_refused_wherever_it_is(flooded: Process) -> None:
    def posted(keys: int, kind: str = "json") -> tuple[int, Any]:
        # in this order, a quick sort is slow
        wide = dict.fromkeys(["z", "o", *(f"g{n}" for n in range(keys - 2))], 0)
        document = run(metadata={"x": [{"y": wide}]}, run_id=f"wide-{keys}")
        headers = {"Content-Type": f"application/{kind}"}
        return flooded.call("POST", "/runs", document, headers=headers)

    assert posted(10_000)[0] == 201
    for status, found in (posted(10_001), posted(10_001, "x-ndjson")):
        assert (status, "more than 10,000 keys" in json.dumps(found)) in ((413, True), (422, True))


def test_a_text_full_of_commas_is_one_value(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/l.db") as api:
        answer = api.post("/runs", run(outputs={"answer": '{"a": [1, "\\"]},' * 100_000}))
        assert answer.status_code == 201


# --- every route at once


def send_case(api: Api, case: Any, digest: str) -> Any:
    """A generated request, as near to what was generated as a client can send it; None where it
    cannot be sent.
    """
    from schemathesis.core import NotSet

    path = case.operation.path
    for name, value in (case.path_parameters or {}).items():
        known = digest if name in ("run_id", "digest") and len(str(value)) % 2 else str(value)
        path = path.replace(f"{{{name}}}", quote(known, safe="", errors="replace"))
    headers = {
        str(key): str(value)
        for key, value in (case.headers or {}).items()
        if str(value).isascii() and str(value).isprintable()
    }
    more: dict[str, Any] = {}
    if not isinstance(case.body, NotSet):
        plain = isinstance(case.body, str | bytes) and case.media_type != "application/json"
        more["content"] = case.body if plain else json.dumps(case.body)
        headers["Content-Type"] = case.media_type or "application/json"
    try:
        return api.client.request(
            case.operation.method.upper(), path, params=case.query or None, headers=headers, **more
        )
    except UnicodeEncodeError:
        return None


def explore(api: Api, operation: Any, digest: str, *, examples: int) -> list[str]:
    """What goes wrong with one operation."""
    documented = set(operation.definition.raw["responses"])
    found: list[str] = []

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        answer = send_case(api, case, digest)
        if answer is not None and (
            answer.status_code >= 500 or str(answer.status_code) not in documented
        ):
            found.append(
                f"{operation.method} {operation.path}: {answer.status_code} {answer.text[:200]}"
            )

    check()
    return found


def test_schemathesis_finds_no_fault_of_ours_and_no_undocumented_status(tmp_path: Path) -> None:
    import schemathesis
    from schemathesis.config import SchemathesisConfig

    found: list[str] = []
    operations = 0
    examples = os.environ.get("ASSAY_API_EXAMPLES")
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "w.yaml").write_text(
        "workflow: w\nversion: 1\nfamily: rag\nadapter: {kind: command, command: ['true']}\n"
    )
    with serving(f"sqlite:///{tmp_path}/s.db", workflows=str(tmp_path / "workflows")) as api:
        digest = api.post("/runs", run()).json()["digest"]
        schema = schemathesis.openapi.from_dict(description(), config=SchemathesisConfig())
        for outcome in schema.get_all_operations():
            operations += 1
            if examples or operations % 8 == 1:  # in the suite one in eight, in a campaign all
                found += explore(api, outcome.ok(), digest, examples=int(examples or 2))
    assert operations > 30
    assert not found, "\n".join(found[:20])
