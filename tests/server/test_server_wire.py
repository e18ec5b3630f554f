"""A server on the wire: whatever a client sends or however it goes away, the others are answered,
whole and in their order.
"""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import text

from assay.library.shelf import Shelf
from assay.store.access import create_token
from assay.store.ledger import open_ledger
from assay.store.verify import verify
from documents import run
from examples import repeats
from serving import API, Configured, serving
from test_server_events import Watcher, end_of, head_of
from test_server_faults import hasty

__all__ = ["hasty"]


class Clients:
    """Clients that post runs one after another, each on a connection that it keeps."""

    def __init__(self, server: Configured, n: int = 16) -> None:
        self.answers: list[tuple[int, str]] = []
        self.lost: list[str] = []
        self.ending = threading.Event()
        self.going = threading.Event()
        self.going.set()
        self._server = server
        self._prefix = f"c{time.monotonic_ns()}"
        self._threads = [
            threading.Thread(target=self._post, args=(number,), daemon=True) for number in range(n)
        ]
        for thread in self._threads:
            thread.start()

    def _post(self, number: int) -> None:
        wire = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=40)
        index = 0
        while self.going.wait() and not self.ending.is_set():
            index += 1
            name = f"{self._prefix}-{number}-{index}"
            try:
                wire.request(
                    "POST",
                    f"{API}/runs",
                    json.dumps(run(run_id=name)),
                    {"Content-Type": "application/json"},
                )
                answer = wire.getresponse()
                document = json.loads(answer.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.lost.append(f"{name}: {error!r}")
                break
            assert document.get("run_id", name) == name, "an answer to another"
            self.answers.append((answer.status, document.get("digest", "")))
        wire.close()

    def end(self) -> list[str]:
        """Let them end; the digests that were acknowledged."""
        self.ending.set()
        self.going.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads), "a client waits forever"
        return [digest for status, digest in self.answers if status in (200, 201)]


def check(url: str, acknowledged: list[str], *, several: bool = False) -> None:
    """Everything that was acknowledged is there, once, and the ledger is sound. With `several` runs
    have grades by several policies in several projects.
    """
    with open_ledger(url) as ledger:
        with ledger.database.reading() as connection, connection.begin():
            names = [
                row[0]
                for row in connection.execute(text("SELECT run_id FROM records WHERE kind = 'run'"))
            ]
            graded = [
                row[0]
                for row in connection.execute(
                    text("SELECT run_id FROM records WHERE kind = 'grade'")
                )
            ]
        assert several or len(names) == len(set(names))
        assert set(graded) == set(names) if several else sorted(graded) == sorted(names)
        found = ledger.get_many(acknowledged)
        assert set(acknowledged) <= found.keys()
        assert verify(ledger).clean


class Shared(NamedTuple):
    """One server for whatever leaves it as it was."""

    born: Configured
    url: str
    folder: Path
    shelf: Path


PATIENCE_S = 1.5
MINE = "mine@1.yaml"


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("side")
    policies = folder / "shelf" / "policies"
    policies.mkdir(parents=True)
    words = (
        Path(Shelf().find("policies", "workflow").path)
        .read_text(encoding="utf-8")
        .replace("policy: workflow", "policy: mine")
    )
    (policies / MINE).write_text(words)
    url = f"sqlite:///{folder}/l.db"
    with Configured(url, library=str(folder / "shelf"), patience_s=PATIENCE_S) as born:
        yield Shared(born, url, folder, policies)
        log = born.end()[1]
        assert "Traceback" not in log
        assert '"level":"error"' not in log
    check(url, [], several=True)


@pytest.fixture
def server(shared_server: Shared) -> Configured:
    """The server."""
    return shared_server.born


# --- the ledger


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[threading.Event]:
    """A ledger that somebody else writes to for a time, or until that is over."""
    lock = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    lock.execute("BEGIN IMMEDIATE")

    over = threading.Event()

    def free() -> None:
        over.wait(seconds)
        lock.execute("ROLLBACK")
        lock.close()

    thread = threading.Thread(target=free)
    thread.start()
    try:
        yield over
    finally:
        thread.join()


def test_a_ledger_that_is_locked_for_a_while_makes_requests_wait_and_loses_nothing(
    server: Configured, shared_server: Shared
) -> None:
    with locked(shared_server.folder / "l.db", 0.8):  # shorter than the patience
        clients = Clients(server)
        clients.ending.set()
        acknowledged = clients.end()
    assert [status for status, _ in clients.answers] == [201] * 16
    check(shared_server.url, acknowledged, several=True)


def test_a_ledger_that_is_locked_for_longer_than_the_patience_is_told_and_nothing_of_it_is_stored(
    server: Configured, shared_server: Shared
) -> None:
    with locked(shared_server.folder / "l.db", 60) as over:
        status, answer = server.call("POST", "/runs", run(run_id="busy"))
        over.set()
    assert (status, answer["code"]) == (503, "STO-002")
    assert "locked by another writer for more than 1.5 seconds" in answer["detail"]
    assert server.call("GET", "/runs/busy")[0] == 404
    assert server.call("POST", "/runs", run(run_id="busy"))[0] == 201


def test_nothing_is_acknowledged_when_the_file_of_the_ledger_was_removed(tmp_path: Path) -> None:
    with Configured(f"sqlite:///{tmp_path}/l.db") as server:
        for one in tmp_path.glob("l.db*"):
            one.unlink()
        assert server.call("POST", "/runs", run(run_id="removed"))[0] == 503


# --- what is graded


def nested(depth: int) -> bytes:
    return b'{"schema":"assay.run/1","metadata":' + b'{"a":' * depth + b"1" + b"}" * (depth + 1)


PLAIN = json.dumps(run()).encode()
ODD = {
    "nested": nested(50_000),
    "half a pair": PLAIN.replace(b'"r-1"', b'"\\ud800"'),
    "not a number": PLAIN[:-1] + b',"latency_ms":NaN}',
    "a key twice": PLAIN[:-1] + b',"run_id":"x"}',
    "a mark of order": b"\xef\xbb\xbf" + PLAIN,
    "another encoding": PLAIN.decode().encode("utf-16"),
    "a long number": PLAIN[:-1] + b',"metadata":{"a":' + b"9" * 5000 + b"}}",
    "something behind": PLAIN + b"x",
    "two": PLAIN + PLAIN,
    "a family that is none": (
        json.dumps(run(workflow={"id": "w", "version": "1", "family": "none"})).encode()
    ),
    "a score that is none": json.dumps(run(scores={"judge_quality": {"raw": "NaN"}})).encode(),
    "large exponents": PLAIN[:-1] + b',"metadata":{"a":[1e999999999,1e-999999999,-0.0]}}',
    "a schema in a circle": json.dumps(run(output_schema={"$ref": "#"})).encode(),
    "a schema elsewhere": json.dumps(run(output_schema={"$ref": "http://127.0.0.1:1/x"})).encode(),
    "a slow pattern": (
        json.dumps(
            run(
                output_schema={"properties": {"answer": {"pattern": "^(a+)+$"}}},
                outputs={"answer": "a" * 40 + "!"},
            )
        ).encode()
    ),
    "the name of another schema": PLAIN[:-1] + b',"metadata":{"a":"assay.execution/1"}}',
}


def test_odd_bodies_are_answered_and_never_by_a_5xx(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/l.db") as api:
        for name, data in ODD.items():
            sent = api.client.post(
                f"{API}/runs", content=data, headers={"Content-Type": "application/json"}
            )
            assert sent.status_code < 500, name
        assert api.post("/runs", run()).status_code in (200, 201)


def test_each_token_gets_its_own_project_and_each_query_its_own_rules_when_all_come_at_once(
    server: Configured, shared_server: Shared, tmp_path: Path
) -> None:
    url = shared_server.url
    queries = [
        "",
        "?policy=workflow",
        "?profile=code-repair",
        "?rubric=code-repair",
        "?policy=workflow-judged",
        "?policy=none",
        "?profile=rag",
    ]
    projects = ("red", "green", "blue")
    with serving(f"sqlite:///{tmp_path}/alone.db") as alone:
        with open_ledger(url) as ledger:
            tokens = {
                one: (
                    create_token(
                        ledger.database, project=one, name="t", scopes=("read", "write")
                    ).text
                )
                for one in projects
            }
        plain = {query: alone.post(f"/runs{query}", run(run_id="same")) for query in queries}
        found: list[tuple[str, str, int, Any]] = []

        def post(project: str, query: str) -> None:
            for number in range(3):
                name = "same" if not number else f"{project}-{queries.index(query)}-{number}"
                status, answer = server.call(
                    "POST",
                    f"/runs{query}",
                    run(run_id=name),
                    headers={"Authorization": f"Bearer {tokens[project]}"},
                )
                if not number:
                    found.append((project, query, status, answer))

        threads = [
            threading.Thread(target=post, args=(project, query))
            for project in projects
            for query in queries
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(found) == len(threads)
        for _, query, status, answer in found:
            expected = plain[query].json()
            assert (status < 300) == (plain[query].status_code < 300), (query, answer)
            assert answer.get("grade") == expected.get("grade"), query
            assert answer.get("detail") == expected.get("detail"), query
    with open_ledger(url) as ledger:
        good = [query for query in queries if plain[query].status_code < 300]
        assert len(good) >= 4
        for project in projects:
            names = sorted(
                str(item.tree()["run_id"])
                for item in ledger.find("run", project=project, limit=1000).items
            )
            assert names == sorted(
                [
                    "same",
                    *(
                        f"{project}-{queries.index(query)}-{number}"
                        for query in good
                        for number in (1, 2)
                    ),
                ]
            )
        assert verify(ledger).clean


def test_a_large_body_holds_up_nobody_elses_run(server: Configured) -> None:
    steps = [{"name": f"s{number}", "status": "success", "agent": "a"} for number in range(60_000)]
    answered: list[str] = []

    def post(name: str, data: bytes) -> None:
        assert server.call("POST", "/runs", data)[0] == 201
        answered.append(name)

    thread = threading.Thread(target=post, args=("large", body("many steps", steps=steps)))
    thread.start()
    time.sleep(0.1)
    post("small", body("few steps"))
    thread.join()
    assert answered == ["small", "large"]


# --- the wire


def body(name: str, **changes: Any) -> bytes:
    """A run as a client sends it."""
    return json.dumps(run(run_id=name, **changes)).encode()


def asked(
    data: bytes | None,
    method: str = "POST",
    path: str = "/runs",
    *,
    version: str = "1.1",
    **headers: str,
) -> bytes:
    """A request as it goes over the wire."""
    lines = {
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
        **({} if data is None else {"Content-Length": str(len(data))}),
    }
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    return (
        f"{method} {API}{path} HTTP/{version}\r\n".encode()
        + b"".join(f"{name}: {value}\r\n".encode() for name, value in lines.items())
        + b"\r\n"
        + (data or b"")
    )


class Answered(NamedTuple):
    """One answer."""

    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def tree(self) -> Any:
        return json.loads(self.data)


def answers(wire: socket.socket, n: int = 1, *, bare: tuple[int, ...] = ()) -> list[Answered]:
    """So many answers, each whole; `bare` are the places of those to HEAD, which have no body."""
    found: list[Answered] = []
    with wire.makefile("rb") as file:
        while len(found) < n:
            first = file.readline()
            assert first.startswith(b"HTTP/1.1 "), (len(found), first)
            headers = {}
            while line := file.readline().strip():
                name, _, value = line.decode().partition(":")
                headers[name.lower()] = value.strip()
            length = 0 if len(found) in bare else int(headers.get("content-length", "0"))
            data = file.read(length)
            assert len(data) == length
            found.append(Answered(int(first.split()[1]), headers, data))
    return found


@pytest.fixture
def wire(server: Configured) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as made:
        yield made


def test_requests_that_come_all_at_once_on_one_connection_are_answered_in_their_order(
    wire: socket.socket,
) -> None:
    wire.sendall(
        b"".join(
            asked(None, "GET", "/health") if number % 3 == 0 else asked(body(f"p-{number}"))
            for number in range(60)
        )
    )
    found = answers(wire, 60)
    assert [one.status for one in found] == [
        200 if number % 3 == 0 else 201 for number in range(60)
    ]
    assert [one.tree.get("run_id") for one in found] == [
        None if number % 3 == 0 else f"p-{number}" for number in range(60)
    ]


def test_a_connection_goes_on_after_every_error(wire: socket.socket) -> None:
    for number, (data, more, status) in enumerate(
        [
            (b"{", {}, 400),
            (b"{}", {}, 422),
            (b"\x1f", {"Content_Encoding": "gzip"}, 400),
        ]
    ):
        wire.sendall(asked(data, **more))
        [refused] = answers(wire)
        assert (refused.status, refused.headers["content-type"]) == (
            status,
            "application/problem+json",
        )
        wire.sendall(asked(body(f"after-{number}")))
        [taken] = answers(wire)
        assert (taken.status, taken.tree["run_id"]) == (201, f"after-{number}")


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("close", {"Connection": "close"}),
        ("old", {"version": "1.0"}),
        ("old-kept", {"version": "1.0", "Connection": "keep-alive"}),
    ],
)
def test_a_connection_that_is_to_be_closed_is_closed_after_the_whole_answer(
    server: Configured, name: str, more: Any
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as wire:
        wire.sendall(asked(body(name), **more))
        [found] = answers(wire)
        assert (found.status, found.tree["run_id"], found.headers["connection"]) == (
            201,
            name,
            "close",
        )
        assert wire.recv(1) == b""


def test_a_body_may_wait_to_be_asked_for(wire: socket.socket) -> None:
    sent = asked(body("expected"), Expect="100-continue")
    head, _, data = sent.partition(b"\r\n\r\n")
    wire.sendall(head + b"\r\n\r\n")
    assert wire.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.sendall(data)
    [found] = answers(wire)
    assert (found.status, found.tree["run_id"]) == (201, "expected")
    wire.sendall(asked(b"{}", Expect="100-continue", Content_Type="text/plain").removesuffix(b"{}"))
    [refused] = answers(wire)
    assert refused.status == 415, "refused before the body is asked for"


def test_a_body_comes_in_pieces_of_any_size_and_packed(wire: socket.socket) -> None:
    for size in (1, 100, 10_000):
        data = body(f"pieces-{size}")
        pieces = (
            b"".join(
                b"%x\r\n%s\r\n" % (len(data[at : at + size]), data[at : at + size])
                for at in range(0, len(data), size)
            )
            + b"0\r\n\r\n"
        )
        wire.sendall(
            asked(None, Transfer_Encoding="chunked") + pieces + asked(None, "GET", "/health")
        )
        found = answers(wire, 2)
        assert ([one.status for one in found], found[0].tree["run_id"]) == (
            [201, 200],
            f"pieces-{size}",
        )
    wire.sendall(asked(gzip.compress(body("packed")), Content_Encoding="gzip"))
    assert answers(wire)[0].tree["run_id"] == "packed"
    for byte in asked(body("byte by byte")):
        wire.sendall(bytes([byte]))
    assert answers(wire)[0].tree["run_id"] == "byte by byte"


def test_the_largest_body_is_taken_and_a_larger_one_is_refused(
    server: Configured, wire: socket.socket
) -> None:
    room = 16 * 1024 * 1024
    pad = room - len(body("large", metadata={"pad": ""}))
    wire.sendall(asked(body("large", metadata={"pad": "x" * pad})))
    [found] = answers(wire)
    assert (found.status, found.tree["run_id"]) == (201, "large")
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as other:
        other.sendall(asked(b"{", Content_Length=str(room + 1)))
        [refused] = answers(other)
        assert (refused.status, refused.headers["connection"]) == (413, "close")


def test_clients_that_go_away_cost_nobody_anything(server: Configured) -> None:
    for number in range(repeats(6, 20)):
        with socket.create_connection(("127.0.0.1", server.port)) as wire:
            wire.sendall(asked(body(f"middle-{number}"))[:-50])
        with socket.create_connection(("127.0.0.1", server.port)) as wire:
            wire.sendall(asked(body(f"gone-{number}")))
        with socket.create_connection(("127.0.0.1", server.port)) as wire:
            wire.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
            )  # a reset, not an end
            wire.sendall(asked(body(f"reset-{number}")) * 3)
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as wire:
            wire.sendall(asked(body(f"half-{number}")))
            wire.shutdown(socket.SHUT_WR)
            said = wire.recv(100_000)
            assert said == b"" or said.startswith(b"HTTP/1.1 201"), (
                "the web server takes the end of what is sent for the end of the client"
            )
    assert server.call("POST", "/runs", run(run_id="after all"))[0] == 201
    assert all(server.call("GET", f"/runs/middle-{number}")[0] == 404 for number in range(3))


def test_a_stream_tells_of_an_event_at_once_while_others_post(server: Configured) -> None:
    whole = run(run_id="watched")
    assert server.call("POST", "/runs/live", head_of(whole))[0] == 201
    watcher = Watcher(server, "watched")
    watcher.until("workflow_start")
    clients = Clients(server, 4)
    assert (
        server.call(
            "POST", "/runs/watched/events", {"event": "step_end", "step": whole["steps"][0]}
        )[0]
        == 202
    )
    watcher.until("step_end")
    assert (
        server.call(
            "POST", "/runs/watched/events", {"event": "workflow_end", "run": end_of(whole)}
        )[0]
        == 201
    )
    assert watcher.ended.wait(20)
    assert watcher.kinds() == [
        "workflow_start",
        "step_end",
        "workflow_end",
        "evaluation_start",
        "evaluation_complete",
    ]
    clients.end()
    assert clients.lost == []


def drip(wire: socket.socket, *, seconds: float) -> None:
    """A byte now and then."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        wire.sendall(b"x")
        time.sleep(0.05)


def test_a_client_that_drips_the_rest_of_a_refused_body_is_let_go(hasty: int) -> None:
    with socket.create_connection(("127.0.0.1", hasty), timeout=10) as wire:
        sent = asked(b"x" * 1000, Content_Type="text/plain")
        wire.sendall(sent[:-500])
        assert answers(wire)[0].status == 415
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            drip(wire, seconds=5)


def test_a_client_that_is_gone_before_its_answer_is_no_internal_error(tmp_path: Path) -> None:
    is_gone = False

    async def closed(_message: Any) -> None:
        nonlocal is_gone
        is_gone = True
        raise RuntimeError("unable to perform operation on <TCPTransport>; the handler is closed")

    async def receive() -> Any:
        if is_gone:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": b"", "more_body": False}

    with serving(f"sqlite:///{tmp_path}/l.db") as api:
        scope = {
            "type": "http",
            "method": "GET",
            "path": f"{API}/health",
            "raw_path": f"{API}/health".encode(),
            "query_string": b"",
            "headers": [(b"host", b"127.0.0.1")],
            "client": ("127.0.0.1", 50000),
        }
        app: Any = api.client.app
        asyncio.run(app(scope, receive, closed))
        assert b'"level":"error"' not in api.log.getvalue()
