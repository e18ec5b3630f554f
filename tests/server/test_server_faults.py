"""Faults: a server that is killed loses nothing it acknowledged and stores nothing twice; a
database that is full, locked or gone is told of, and comes back; slow clients are cut off; one that
is told to end ends cleanly.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from sqlalchemy.exc import DBAPIError

import postgres
from assay.errors import UsageError
from assay.records.contract import OVER_BUDGET
from assay.server import evaluating
from assay.server.app import create_app
from assay.server.background import Owner, is_dead
from assay.server.evaluating import take_up
from assay.server.logs import Log
from assay.server.settings import ServerSettings
from assay.server.writer import MAX_BATCH
from assay.store import events as stored_events
from assay.store import executions as stored_executions
from assay.store import queue
from assay.store.databases import NoRoom
from assay.store.ledger import open_ledger
from assay.store.verify import verify
from campaign_kills import campaign
from checkout import SUPPORT
from commands import ASSAY
from documents import run
from examples import CAMPAIGN, repeats
from postgres import ledger_url, on_sqlite
from serving import API, Configured, Process, description, frames, is_running, runs, serving, until
from test_contract import SOONER, doubling
from test_server_events import Watcher, end_of, head_of

__all__ = ["ledger_url"]

KILLS = repeats(1, 10)
"""For each database, beside those in the tests of the store."""


on_postgresql = pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)


def ask(
    server: Process, method: str, path: str, body: Any = None
) -> tuple[int, dict[str, str], Any]:
    """Status, headers and document."""
    wire = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    wire.request(
        method,
        API + path,
        None if body is None else json.dumps(body),
        {"Content-Type": "application/json"},
    )
    answer = wire.getresponse()
    data = answer.read()
    wire.close()
    return (
        answer.status,
        {name.lower(): value for name, value in answer.getheaders()},
        json.loads(data) if data else None,
    )


def refused_for_now(server: Process, method: str, path: str, body: Any = None) -> str:
    """A 503 that says what is wrong and when to come again; what it says."""
    status, headers, document = ask(server, method, path, body)
    assert (status, headers["content-type"]) == (503, "application/problem+json"), document
    assert int(headers["retry-after"]) > 0
    assert document["status"] == 503
    assert document["title"]
    return f"{document['detail']} {document['fix']}"


def refused_for_room(server: Process, method: str, path: str, body: Any = None) -> str:
    """A 507 that says what is wrong and what to do; what it says. Coming again is of no use, so it
    says no time.
    """
    status, headers, document = ask(server, method, path, body)
    assert (status, headers["content-type"], headers.get("retry-after")) == (
        507,
        "application/problem+json",
        None,
    ), document
    assert (document["status"], document["title"], document["code"]) == (
        507,
        "Insufficient Storage",
        "STO-002",
    )
    return f"{document['detail']} {document['fix']}"


# --- killed


@on_sqlite
def test_a_server_that_is_killed_while_it_stores_evaluates_and_grades_again_loses_nothing_and_doubles_nothing(
    ledger_url: str,
    tmp_path: Path,
    assay: Any,
) -> None:
    found = campaign(lambda: ledger_url, KILLS, longest_s=0.4)
    assert found.kills == KILLS
    assert found.acknowledged > 0
    assert found.good, (found.lost, found.doubled, found.flaws, found.unfinished)
    verified = assay("ledger", "verify", "--db", ledger_url)
    assert verified.code == 0, verified.err


def post_until_killed(
    server: Process, start: int, acknowledged: list[str]
) -> list[threading.Thread]:
    """Clients that post runs as fast as they can, and note what was acknowledged."""

    def client(first: int) -> None:
        for index in range(first, first + 10_000):
            try:
                status, answer = server.call("POST", "/runs", runs(1, start=index)[0], timeout=10)
            except (OSError, ValueError, http.client.HTTPException):
                return
            if status == 201:
                acknowledged.append(answer["digest"])

    threads = [
        threading.Thread(target=client, args=(start + 100_000 * number,), daemon=True)
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    return threads


def test_a_run_whose_server_dies_before_it_is_graded_is_graded_by_the_next(ledger_url: str) -> None:
    from assay.server.routes import live

    with serving(ledger_url) as api:
        assert api.post("/runs/live", head_of(run())).status_code == 201
        original = live.evaluate

        async def die(*_arguments: object) -> None:
            raise KeyError("the power went")

        live.evaluate = die
        try:
            assert (
                api.post(
                    "/runs/r-1/events", {"event": "workflow_end", "run": end_of(run())}
                ).status_code
                == 500
            )
        finally:
            live.evaluate = original
        found = stored_events.find(api.services.ledger.database, "default", "r-1")
        assert found is not None
        assert found.state == stored_events.EVALUATING
    with serving(ledger_url) as api:
        stream = api.get("/runs/r-1/events").text
        assert "event: evaluation_complete" in stream
        assert api.get("/runs/r-1/grade").json()["passed"] is not None


def test_a_server_that_is_told_to_end_answers_what_it_took_and_lets_streams_go(
    tmp_path: Path,
) -> None:
    with Process(f"sqlite:///{tmp_path}/l.db") as server:
        assert server.call("POST", "/runs/live", head_of(run()))[0] == 201
        watcher = Watcher(server, "r-1")
        watcher.until("workflow_start")
        acknowledged: list[str] = []
        threads = post_until_killed(server, 0, acknowledged)
        until(lambda: len(acknowledged) > 8)
        code, log = server.end()
        for thread in threads:
            thread.join(20)
        assert code in (0, -15)
        assert '"stopped"' in log
        assert watcher.ended.wait(60)
    with open_ledger(f"sqlite:///{tmp_path}/l.db") as ledger:
        assert all(ledger.get(digest) is not None for digest in acknowledged)


def posted_to_all(servers: list[Process], bodies: list[dict[str, Any]]) -> list[bool]:
    """The same runs, posted to several servers at once: for each answer, whether the run was
    new.
    """
    found: list[bool] = []

    def client(server: Process) -> None:
        for one in bodies:
            status, answer = server.call("POST", "/runs", one)
            assert status == (201 if answer["new"] else 200)
            found.append(answer["new"])

    threads = [threading.Thread(target=client, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


@on_postgresql
def test_two_servers_on_one_postgresql_store_a_run_once_and_tell_of_each_others_events(
    ledger_url: str,
    tmp_path: Path,
) -> None:
    first = Configured(ledger_url, poll_s=0.1)
    second = Configured(ledger_url, poll_s=0.1)
    with first, second:
        assert sum(posted_to_all([first, second], runs(10))) == 10
        evidence = run(run_id="watched")
        assert first.call("POST", "/runs/live", head_of(evidence))[0] == 201
        watcher = Watcher(second, "watched")
        watcher.until("workflow_start")
        assert (
            first.call(
                "POST", "/runs/watched/events", {"event": "step_end", "step": evidence["steps"][0]}
            )[0]
            == 202
        )
        watcher.until("step_end")
        assert (
            first.call(
                "POST", "/runs/watched/events", {"event": "workflow_end", "run": end_of(evidence)}
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
    with open_ledger(ledger_url) as ledger:
        assert (ledger.count("run").n, ledger.count("grade").n) == (11, 11)
        assert verify(ledger).clean


def test_a_job_whose_server_is_killed_is_taken_up_by_another_at_once_on_the_same_machine(
    ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = (
        "from assay.server.background import Owner; owner = Owner(); owner.hold();"
        " print(owner.name, flush=True); input()"
    )
    with open_ledger(ledger_url) as ledger:
        database = ledger.database
        stored_executions.create(
            database, stored_executions.new("e", "default", b"{}", author=None), []
        )
        with subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as other:
            assert other.stdout is not None
            owner = other.stdout.readline().strip()
            assert not is_dead(owner)
            assert stored_executions.claim(database, owner) is not None
            assert stored_executions.claim(database, "b", is_dead=is_dead) is None, (
                "one job, one server"
            )
            other.kill()
        assert is_dead(owner)
        assert not is_dead(Owner().name), "of another machine nothing is known"
        found = stored_executions.claim(database, "b", is_dead=is_dead)
        assert found is not None
        assert found.id == "e"
        assert stored_executions.claim(database, "c", is_dead=is_dead) is None


# --- the database


def test_a_ledger_that_another_process_locks_is_said_to_be_busy_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        " c.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read()"
    )
    with serving(f"sqlite:///{tmp_path}/l.db", patience_s=0.5) as api:
        before = api.post("/runs", runs(1)[0]).json()["digest"]
        holder = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "l.db")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        busy = api.post("/runs", run())
        assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
        assert busy.headers["content-type"] == "application/problem+json"
        assert "locked by another writer for more than 0.5 seconds" in busy.json()["detail"]
        assert "Nothing was stored. Try again" in busy.json()["fix"]
        assert api.get(f"/runs/{before}").status_code == 200, "readers are not locked out"
        holder.communicate()
        assert api.post("/runs", run()).status_code == 201
        assert verify(api.services.ledger).clean


def small_disk(megabytes: int) -> Path:
    """A file system of its own."""
    disk = Path(tempfile.mkdtemp(prefix="assay-disk-"))
    disk.chmod(0o755)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        disk.rmdir()
        pytest.skip(
            f"a small disk needs the right to mount one ({done.stderr.strip()}); test_store.py has"
            " a full disk without it"
        )
    return disk


@pytest.fixture
def full_disk(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    """The URL of a ledger on a disk that will be full soon, and the ballast."""
    disk = small_disk(7 if request.param == "sqlite" else 18)
    ballast = disk / "ballast"
    try:
        if request.param == "sqlite":
            ballast.write_bytes(b"x" * 4_000_000)
            yield f"sqlite:///{disk}/l.db", ballast
        else:
            with postgres.tablespace(disk / "space") as url:
                ballast.write_bytes(b"x" * 5_000_000)
                yield url, ballast
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
        disk.rmdir()


@pytest.mark.parametrize("full_disk", ["sqlite", "postgresql"], indirect=True)
def test_a_full_disk_is_told_nothing_acknowledged_is_lost_and_it_goes_on_when_there_is_room(
    full_disk: tuple[str, Path], tmp_path: Path
) -> None:
    url, ballast = full_disk
    acknowledged: list[str] = []
    with Configured(url, patience_s=1.0) as server:

        def post(start: int) -> int:
            body = runs(4, start=start, metadata={"pad": os.urandom(100_000).hex()})
            status, _, answer = ask(server, "POST", "/runs", body)
            if status == 201:
                acknowledged.extend(found["digest"] for found in answer["results"])
            return status

        start = 0
        while post(start) == 201:
            start += 4
            assert start < 4_000, "the disk is never full"
        assert start > 0
        said = refused_for_room(
            server,
            "POST",
            "/runs",
            runs(4, start=start, metadata={"pad": os.urandom(100_000).hex()}),
        )
        assert "the disk is full or fails" in said
        assert "Everything that was acknowledged is kept; make room" in said
        assert all(
            server.call("GET", f"/runs/{digest}")[0] == 200 for digest in acknowledged[::4]
        ), "what is there can still be read"
        ballast.unlink()
        until(lambda: post(start) == 201)
        server.end()
    with open_ledger(url) as ledger:
        assert all(ledger.get(digest) is not None for digest in acknowledged)
        assert ledger.count("run").n == len(acknowledged)
        assert verify(ledger).clean


@pytest.fixture
def half_full() -> Iterator[Path]:
    """A disk with some room left."""
    disk = small_disk(2)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
        disk.rmdir()


def test_a_disk_is_full_where_the_database_says_so_or_it_fails_and_there_is_no_room(
    half_full: Path,
) -> None:
    with open_ledger(f"sqlite:///{half_full}/l.db") as ledger:

        def worded(code: int) -> type[Exception]:
            error = sqlite3.OperationalError("x")
            error.sqlite_errorcode = code
            return type(ledger.database.worded(DBAPIError("INSERT", None, error)))

        assert worded(sqlite3.SQLITE_FULL) is NoRoom
        assert worded(sqlite3.SQLITE_IOERR_SHMSIZE) is UsageError, "it fails, and there is room"
        with (
            contextlib.suppress(OSError),
            (half_full / "ballast").open("wb", buffering=0) as ballast,
        ):
            while True:
                ballast.write(b"x" * 4096)
        assert worded(sqlite3.SQLITE_IOERR_SHMSIZE) is NoRoom


FULL = NoRoom("STO-002", "cannot be written, the disk is full or fails: x.", fix="Make room.")


def test_whoever_sends_spans_is_told_of_a_full_disk_so_that_they_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object, **_more: object) -> None:
        raise FULL

    monkeypatch.setattr("assay.store.traces.keep", full)
    span = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "name": "x",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
    }
    with serving(f"sqlite:///{tmp_path}/l.db") as api:
        refused = api.client.post(
            "/v1/traces", json={"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
        )
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "the disk is full" in refused.json()["message"]


def test_a_full_disk_is_an_answer_that_every_route_with_a_token_describes() -> None:
    without = [
        path
        for path, methods in description()["paths"].items()
        if any("507" not in one["responses"] for one in methods.values())
    ]
    assert sorted(without) == [f"{API}/health", f"{API}/ready"]


@on_postgresql
def test_a_postgresql_that_goes_away_and_comes_back_costs_nothing_but_time(
    ledger_url: str, tmp_path: Path
) -> None:
    evidence = run(run_id="watched")
    with Configured(ledger_url, patience_s=0.5, poll_s=0.1, heartbeat_s=0.2) as server:
        acknowledged = [
            found["digest"] for found in server.call("POST", "/runs", runs(60))[1]["results"]
        ]
        assert server.call("POST", "/runs/live", head_of(evidence))[0] == 201
        watcher = Watcher(server, "watched")
        watcher.until("workflow_start")
        postgres.stop()
        try:
            for method, path, body in (
                ("POST", "/runs", run(run_id="meanwhile")),
                ("GET", "/runs", None),
                ("GET", "/workflows", None),
                (
                    "POST",
                    "/runs/watched/events",
                    {"event": "step_end", "step": evidence["steps"][0]},
                ),
                ("GET", "/runs/watched/events", None),
            ):
                assert "the database cannot be reached" in refused_for_now(
                    server, method, path, body
                ), path
            assert "the database does not answer" in refused_for_now(server, "GET", "/ready")
            assert server.call("GET", "/health")[0] == 200, "the process itself lives"
            time.sleep(0.3)
            assert not watcher.ended.is_set(), "whoever watches is not sent away"
        finally:
            postgres.start()
        until(lambda: server.call("GET", "/ready")[0] == 200)
        assert server.call("POST", "/runs", run(run_id="meanwhile"))[0] == 201
        assert (
            server.call(
                "POST", "/runs/watched/events", {"event": "step_end", "step": evidence["steps"][0]}
            )[0]
            == 202
        )
        watcher.until("step_end")
        assert (
            server.call(
                "POST", "/runs/watched/events", {"event": "workflow_end", "run": end_of(evidence)}
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
        server.end()
    with open_ledger(ledger_url) as ledger:
        assert all(ledger.get(digest) is not None for digest in acknowledged)
        assert verify(ledger).clean


AWAY = UsageError("STO-001", "the database cannot be reached: gone.", fix="Is it running?")


def test_a_run_whose_evaluation_met_a_database_that_was_away_is_graded_later_and_its_watchers_are_told_once(
    ledger_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(ledger_url) as api:
        assert api.post("/runs/live", head_of(run())).status_code == 201

        async def away(*_arguments: object) -> None:
            raise AWAY

        with monkeypatch.context() as patched:
            patched.setattr(api.services.writer, "put", away)
            assert (
                api.post(
                    "/runs/r-1/events", {"event": "workflow_end", "run": end_of(run())}
                ).status_code
                == 503
            )
        found = stored_events.find(api.services.ledger.database, "default", "r-1")
        assert found is not None
        assert found.state == stored_events.EVALUATING, (
            "that the database was away is no fault of the run"
        )

        async def look() -> list[int]:
            # a run that another server may have at hand right now is left alone
            first = await take_up(api.services, "other")
            since = queue.now_ms() + 1
            while queue.now_ms() < since:
                await asyncio.sleep(0)
            second = await take_up(api.services, "other", since_ms=since)
            third = await take_up(api.services, "other", since_ms=since)
            return [first, second, third]

        assert api.client.portal is not None
        assert api.client.portal.call(look) == [0, 1, 0]
        stream = api.get("/runs/r-1/events").text
        assert (
            stream.count("event: evaluation_start")
            == stream.count("event: evaluation_complete")
            == 1
        )
        assert api.get("/runs/r-1/grade").status_code == 200


def test_a_run_that_broke_while_the_database_was_away_is_stored_later(
    ledger_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise it would be missing from every count."""
    with serving(ledger_url) as api:
        assert api.post("/runs/live", head_of(run())).status_code == 201

        async def away(*_arguments: object) -> None:
            raise AWAY

        broke = {"event": "error", "message": "out of memory"}
        with monkeypatch.context() as patched:
            patched.setattr(api.services.writer, "put", away)
            assert api.post("/runs/r-1/events", broke).status_code == 503
        assert api.post("/runs/r-1/events", broke).status_code == 409

        async def look() -> int:
            since = queue.now_ms() + 1
            while queue.now_ms() < since:
                await asyncio.sleep(0)
            return await take_up(api.services, "other", since_ms=since)

        assert api.client.portal is not None
        assert api.client.portal.call(look) == 1
        assert api.client.portal.call(look) == 0
        assert api.get("/runs/r-1").json()["record"]["metadata"]["error"] == "out of memory"
        assert api.get("/runs/r-1/grade").json()["passed"] is False
        events = frames(api.get("/runs/r-1/events").text)
        assert [kind for _, kind, _ in events] == ["workflow_start", "error"]


def test_when_a_test_run_is_gone_its_postgresql_is_stopped_and_its_folder_deleted(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "server"
    (folder / "data").mkdir(parents=True)
    pid_file = folder / "data" / "postmaster.pid"
    stopped = f"trap 'rm {pid_file}; exit' INT; echo $$ > {pid_file}; while :; do sleep 0.05; done"
    server = subprocess.Popen(["bash", "-c", stopped])
    until(lambda: pid_file.exists() and pid_file.read_text())
    watcher = subprocess.Popen(
        [sys.executable, "-S", "-c", postgres.WATCHER, str(folder)], stdin=subprocess.PIPE
    )
    assert server.poll() is None
    watcher.communicate()  # nobody holds the other end of its pipe any more
    assert server.wait(10) == 0
    assert not folder.exists()


if CAMPAIGN:  # the test above has its quick part

    def test_a_test_run_that_is_killed_leaves_no_postgresql_behind(
        tmp_path: Path,
    ) -> None:
        code = (
            "import postgres, sys; s = postgres.postgres(); print(s.get_pid(), s.pgdata.parent,"
            " flush=True); sys.stdin.read()"
        )
        made = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=SUPPORT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert made.stdout is not None
        pid, folder = made.stdout.readline().split(maxsplit=1)
        made.send_signal(signal.SIGKILL)
        made.communicate()
        until(lambda: not Path(folder.strip()).exists())
        until(lambda: not is_running(int(pid)))


# --- slow and many clients


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[int]:
    """The port of a server that has little patience."""
    app = create_app(
        ServerSettings(db=f"sqlite:///{tmp_path}/l.db", allow_anonymous=True, body_timeout_s=0.4),
        log=Log(io.BytesIO()),
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(10)


def test_a_body_that_drips_is_cut_off_and_a_stream_or_a_kept_connection_is_not(hasty: int) -> None:
    slow = (
        b"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type:"
        b" application/json\r\nContent-Length: 1000\r\n\r\n{"
    )
    with socket.create_connection(("127.0.0.1", hasty), timeout=10) as dripping:
        dripping.sendall(slow)
        assert dripping.recv(10_000).startswith(b"HTTP/1.1 408")
    wire = http.client.HTTPConnection("127.0.0.1", hasty, timeout=10)
    wire.request(
        "POST", f"{API}/runs/live", json.dumps(head_of(run())), {"Content-Type": "application/json"}
    )
    assert wire.getresponse().read()
    time.sleep(0.8)
    wire.request("GET", f"{API}/health")
    assert wire.getresponse().read(), "an idle connection is kept"
    wire.request("GET", f"{API}/runs/r-1/events")
    answer = wire.getresponse()
    assert answer.status == 200
    time.sleep(0.8)
    other = http.client.HTTPConnection("127.0.0.1", hasty, timeout=10)
    other.request(
        "POST",
        f"{API}/runs/r-1/events",
        json.dumps({"event": "error", "message": "x"}),
        {"Content-Type": "application/json"},
    )
    assert other.getresponse().status == 202
    assert b"event: error" in answer.read(), "a stream is not a slow head"
    for one in (wire, other):
        one.close()


def test_a_stranger_in_the_same_batch_costs_nobody_a_record(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/l.db") as api:
        first = api.post("/runs", runs(1)[0]).json()
        api.post(f"/records/{first['digest']}/forget", {"reason": "asked to"})
        lock = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        statuses: list[int] = []

        def send(body: dict[str, Any]) -> None:
            statuses.append(api.post("/runs", body).status_code)

        threads = [threading.Thread(target=send, args=(body,)) for body in runs(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)  # they gather behind the lock, in one batch
        lock.execute("ROLLBACK")
        lock.close()
        for thread in threads:
            thread.join(30)
        assert sorted(statuses) == [201] * 7 + [409]
        assert MAX_BATCH > 24


def test_a_full_queue_asks_clients_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(f"sqlite:///{tmp_path}/l.db") as api:
        with monkeypatch.context() as patch:
            patch.setattr("assay.server.writer.MAX_WAITING", -1)
            refused = api.post("/runs", run())
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert json.loads(api.post("/runs", run()).content)["new"] is True


SERVED_SOONER = (
    f"import runpy\nfrom assay.sandbox import worker\nworker._START = {SOONER!r}\n"
    "runpy.run_module('assay', run_name='__main__', alter_sys=True)\n"
)


def test_a_schema_that_takes_for_ever_keeps_nobody_from_being_answered_also_after_a_restart(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with Process(url) as server:
        for number in range(8):  # more than there are threads for anything
            evidence = {**run("dag-review"), "run_id": f"r-{number}"}
            assert (
                server.call(
                    "POST",
                    "/runs/live",
                    head_of(
                        {key: value for key, value in evidence.items() if key != "output_schema"}
                    ),
                )[0]
                == 201
            )
            body = {
                "event": "workflow_end",
                "run": {**end_of(evidence), "output_schema": doubling(40)},
            }
            threading.Thread(
                target=_quietly, args=(server, f"/runs/r-{number}/events", body), daemon=True
            ).start()
        until(
            lambda: all(
                _state(url, f"r-{number}") == stored_events.EVALUATING for number in range(8)
            ),
            seconds=120,
        )
        assert server.call("GET", "/runs", timeout=120)[0] == 200
        assert server.call("POST", "/runs", {**run(), "run_id": "another"}, timeout=120)[0] == 201
        assert _state(url, "r-7") == stored_events.EVALUATING, (
            "and yet it is not graded: this was answered meanwhile"
        )
        server.kill()
    with Process(
        url, command=[ASSAY] if CAMPAIGN else [sys.executable, "-c", SERVED_SOONER]
    ) as server:
        assert server.call("GET", "/runs", timeout=120)[0] == 200
        until(lambda: _state(url, "r-0") == stored_events.DONE, seconds=300)
        gate = server.call("GET", "/runs/r-0/grade")[1]["hard_gates"]["schema_contract_valid"]
        assert gate["status"] == "undetermined"
        assert OVER_BUDGET in gate["reason"]
        code, _log = server.end(timeout=120)
        assert code in (0, -15), "what is being evaluated does not hold the end up"


def _quietly(server: Process, path: str, body: Any) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):  # the server is killed
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        connection.request(
            "POST", API + path, json.dumps(body), {"Content-Type": "application/json"}
        )
        connection.getresponse().read()


def _state(url: str, run_id: str) -> str:
    with open_ledger(url) as ledger:
        found = stored_events.find(ledger.database, "default", run_id)
    assert found is not None
    return found.state


def test_a_run_that_cannot_be_graded_by_a_fault_of_ours_is_not_tried_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(f"sqlite:///{tmp_path}/l.db") as api:
        assert api.post("/runs/live", head_of(run())).status_code == 201

        def fault(*_arguments: object, **_more: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(evaluating, "make", fault)
        assert (
            api.post(
                "/runs/r-1/events", {"event": "workflow_end", "run": end_of(run())}
            ).status_code
            == 500
        )
        found = stored_events.find(api.services.ledger.database, "default", "r-1")
        assert found is not None
        assert found.state == stored_events.FAILED
        assert "event: error" in api.get("/runs/r-1/events").text
