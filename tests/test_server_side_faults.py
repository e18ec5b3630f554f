"""Faults of the processes beside a server, and of clients: whoever dies, hangs or goes away, the
others are answered, whole and in their order.
"""

from __future__ import annotations

import asyncio
import gzip
import http.client
import io
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient

from assay.library.shelf import Shelf, hold
from assay.pipeline.grading import Grader
from assay.server import side, side_grader
from assay.server.app import create_app
from assay.server.connections import Gathered
from assay.server.frames import frame
from assay.server.logs import Log
from assay.server.settings import Settings
from assay.server.side import Answer, Asked, Setup, Side, _Line
from assay.store.access import create_token
from assay.store.ledger import open_ledger
from assay.store.verify import verify
from documents import run
from postgres import ledger_url, postgres_url
from receiving import Receiver
from serving import API, Api, Born, Nursery, Process, free_port, runs, serving, until
from test_server_events import Watcher, end_of, head_of
from test_server_faults import full_disk, hasty

__all__ = ["full_disk", "hasty", "ledger_url", "postgres_url"]

KEEPER, GRADER = "side_keeper", "side_grader"

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists() or (os.cpu_count() or 1) < 2,
    reason="needs /proc and two processors",
)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


def beside(server: Born) -> dict[str, int]:
    """The processes beside a server, by name."""
    found = {}
    try:
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    except OSError:
        return {}
    for one in children:
        try:
            command = Path(f"/proc/{one}/cmdline").read_bytes()
        except OSError:
            continue
        for name in (KEEPER, GRADER):
            if name.encode() in command:
                found[name] = int(one)
    return found


def works(server: Born) -> bool:
    """Whether the processes beside a server are ready: the last of them has the ledger open, and
    waits to be told something.
    """
    keeper = beside(server).get(KEEPER)
    if keeper is None:
        return False

    def quiet() -> tuple[bool, list[str]]:
        state = Path(f"/proc/{keeper}/stat").read_text().rpartition(")")[2].split()
        return state[0] == "S", state[11:13]

    try:
        held = [os.readlink(one) for one in Path(f"/proc/{keeper}/fd").iterdir()]
        if not any(one.endswith("-wal") or one.startswith("socket:") for one in held):
            return False
        first = quiet()
        time.sleep(0.1)
        return first[0] and quiet() == first
    except OSError:
        return False


class Clients:
    """Clients that post runs one after another, each on a connection that it keeps."""

    def __init__(self, server: Born, n: int = 16) -> None:
        self.answers: list[tuple[int, str, float]] = []
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
            began = time.monotonic()
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
            self.answers.append(
                (answer.status, document.get("digest", ""), time.monotonic() - began)
            )
        wire.close()

    def end(self) -> list[str]:
        """Let them end; the digests that were acknowledged."""
        self.ending.set()
        self.going.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads), "a client waits for ever"
        return [digest for status, digest, _ in self.answers if status in (200, 201)]


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

    born: Born
    url: str
    folder: Path
    shelf: Path


PATIENCE_S = 1.5
MINE = "mine@1.yaml"


@pytest.fixture(scope="module")
def shared_server(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
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
    with nursery.bear(
        url, folder=folder, library=str(folder / "shelf"), patience_s=PATIENCE_S
    ) as born:
        yield Shared(born, url, folder, policies)
        born.end()
        log = born.log.read_text(encoding="utf-8")
        assert "Traceback" not in log
        assert '"level":"error"' not in log
    check(url, [], several=True)


@pytest.fixture
def server(shared_server: Shared) -> Born:
    """The server, with processes beside it that are ready."""
    until(lambda: works(shared_server.born))
    return shared_server.born


# --- the processes die or hang


@pytest.mark.slow
def test_processes_that_are_killed_under_load_cost_nobody_an_answer_and_no_record_and_come_back(
    ledger_url: str, nursery: Nursery, tmp_path: Path
) -> None:
    chance = random.Random(11)
    with nursery.bear(ledger_url, folder=tmp_path) as server:
        until(lambda: works(server))
        clients = Clients(server)
        seen: set[int] = set()
        kills = 10 if ledger_url.startswith("sqlite") else 2
        for number in range(kills):
            time.sleep(chance.uniform(0.0, 0.4))
            if not beside(
                server
                # the server has done the work alone for a while; nobody asks it until there is somebody
                # to be killed again
            ):
                clients.going.clear()
                until(lambda: beside(server))
                clients.going.set()
                time.sleep(chance.uniform(0.0, 0.4))
            found = until(lambda: beside(server))
            chosen = [{KEEPER}, {GRADER}, {KEEPER, GRADER}][number % 3]
            seen.update(found.values())
            for name, pid in found.items():
                if name in chosen or len(found) < 2:
                    os.kill(pid, signal.SIGKILL)
        until(lambda: clients.lost or len(clients.answers) > 100, seconds=60)
        acknowledged = clients.end()
        assert clients.lost == []
        assert {status for status, _, _ in clients.answers} <= {200, 201}
        assert len(acknowledged) > 100
        until(lambda: works(server))
        assert not seen & set(beside(server).values())
        server.end()
    check(ledger_url, acknowledged)


LAST_WORDS = """
import os, signal, sys
if "assay.server.side_keeper" in sys.orig_argv:
    from assay.server import grading
    whole = grading.kept
    def dying(*arguments):
        if not os.path.exists({mark!r}):
            open({mark!r}, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*arguments)
    grading.kept = dying
"""


def test_a_grade_whose_keeper_dies_between_its_commit_and_its_answer_is_new_and_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.proto", reason="the otel extra is not installed")
    mark = tmp_path / "died"
    (tmp_path / "sitecustomize.py").write_text(LAST_WORDS.format(mark=str(mark)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    url = f"sqlite:///{tmp_path}/l.db"
    with Receiver() as receiver:
        with Process(url, "--otlp-endpoint", receiver.address, "--quiet") as server:
            born = SimpleNamespace(pid=server.started.pid)
            until(lambda: works(born))
            assert not mark.exists()
            status, answer = server.call("POST", "/runs", run(run_id="lost"))
            assert mark.exists(), "it was stored, and then the process died"
            assert (status, answer["new"]) == (201, True), "it was not there before the request"
            until(lambda: works(born))
            status, again = server.call("POST", "/runs", run(run_id="lost"))
            assert (status, again["new"], again["digest"]) == (200, False, answer["digest"])
            server.end()
        assert receiver.grades() == ["lost"]
    with open_ledger(url) as ledger:
        assert ledger.count("grade").n == 1
        assert verify(ledger).clean


def test_a_process_that_stands_still_for_a_while_makes_its_requests_wait_and_no_others(
    server: Born, shared_server: Shared
) -> None:
    keeper = beside(server)[KEEPER]
    os.kill(keeper, signal.SIGSTOP)
    clients = Clients(server)
    clients.ending.set()  # one request each
    time.sleep(1.0)
    assert clients.answers == []
    assert server.call("GET", "/health", timeout=2)[0] == 200
    assert server.call("GET", "/runs", timeout=5)[0] == 200
    assert server.call("POST", "/runs", runs(2), timeout=5)[0] == 201, (
        "a list is graded and stored by the server itself"
    )
    os.kill(keeper, signal.SIGCONT)
    acknowledged = clients.end()
    assert [status for status, _, _ in clients.answers] == [201] * 16
    assert beside(server)[KEEPER] == keeper
    check(shared_server.url, acknowledged, several=True)


@pytest.mark.parametrize("place", [0, 1], ids=[KEEPER, GRADER])
def test_a_process_that_hangs_is_given_up_after_a_time_and_the_server_does_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    monkeypatch.setattr(side, "STUCK_S", 0.5)
    with with_processes(f"sqlite:///{tmp_path}/l.db") as api:
        line = api.services.side._line
        os.kill(line.pids()[place], signal.SIGSTOP)
        began = time.monotonic()
        assert api.post("/runs", run(run_id="hangs")).status_code == 201
        assert time.monotonic() - began > 0.5
        assert not line.ready
        assert verify(api.services.ledger).clean


def test_processes_that_answer_steadily_are_not_held_to_be_stuck_however_much_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(side, "STUCK_S", 0.4)

    async def work() -> bool:
        line = _Line(lambda: None)
        line.was_ready = True
        line._write = lambda data: None  # type: ignore[method-assign]  # nobody is at the other end
        waiting = [
            asyncio.ensure_future(
                line.ask(Asked("p", b"{}", None, "workflow", None, None, "sha256:r", number))
            )
            for number in range(8)
        ]
        for number in range(8):  # one answer in a quarter of the time
            await asyncio.sleep(0.1)
            line.heard(frame([Answer(number, None)]))
        for one in waiting:
            await one
        return line.ready

    assert asyncio.run(work())


def test_a_request_that_waits_for_a_process_that_hangs_is_answered_in_words_when_the_server_ends(
    nursery: Nursery, tmp_path: Path
) -> None:
    with nursery.bear(f"sqlite:///{tmp_path}/l.db", folder=tmp_path, shutdown_s=1.0) as server:
        until(lambda: works(server))
        children = beside(server)
        os.kill(children[KEEPER], signal.SIGSTOP)
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as wire:
            wire.sendall(asked(body("r")))
            time.sleep(0.3)
            server.end()
            assert not [pid for pid in children.values() if Path(f"/proc/{pid}").exists()]
            [answer] = answers(wire)
        if answer.status not in (201, 503) or "json" not in answer.headers["content-type"]:
            pytest.fail(f"{answer.status} {answer.headers['content-type']}")


def test_a_server_that_is_told_to_end_answers_what_it_took_though_its_processes_are_behind(
    nursery: Nursery, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with nursery.bear(url, folder=tmp_path) as server:
        until(lambda: works(server))
        children = beside(server)
        os.kill(children[KEEPER], signal.SIGSTOP)
        clients = Clients(server)
        clients.ending.set()
        time.sleep(0.5)
        threading.Timer(0.5, os.kill, (children[KEEPER], signal.SIGCONT)).start()
        server.end()
        acknowledged = clients.end()
        assert clients.lost == []
        assert [status for status, _, _ in clients.answers] == [201] * 16
        assert not [pid for pid in children.values() if Path(f"/proc/{pid}").exists()]
    check(url, acknowledged)


def test_a_server_that_is_told_to_end_under_load_breaks_off_no_answer_and_leaves_no_process(
    nursery: Nursery, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with nursery.bear(url, folder=tmp_path) as server:
        until(lambda: works(server))
        children = beside(server)
        clients = Clients(server)
        time.sleep(0.7)
        _, log = server.end()
        acknowledged = clients.end()
        assert {status for status, _, _ in clients.answers} == {201}
        # between two requests a connection may be closed under a client's hands; in the middle of
        # an answer never
        assert not [
            one
            for one in clients.lost
            if "Reset" not in one
            and "Refused" not in one
            and "BrokenPipe" not in one
            and "RemoteDisconnected" not in one
        ]
        assert not [pid for pid in children.values() if Path(f"/proc/{pid}").exists()]
        assert '"level":"error"' not in log
    check(url, acknowledged)


def test_processes_that_are_being_started_when_the_server_ends_end_with_it(tmp_path: Path) -> None:
    async def close_while_starting() -> list[int]:
        made = Side(Settings(db=f"sqlite:///{tmp_path}/l.db"), Log(io.BytesIO()), hold())
        starting = asyncio.create_task(made.start())
        await asyncio.sleep(0)
        await made.close()
        await starting
        left = [] if made._line is None else made._line.pids()
        if made._line is not None:
            await made._line.close()
        return left

    assert asyncio.run(close_while_starting()) == []


# --- what the processes are started with


def test_a_module_in_the_current_folder_is_never_loaded_by_a_process_beside_a_server(
    tmp_path: Path,
) -> None:
    (tmp_path / "here").mkdir()
    marker = tmp_path / "marker"
    (tmp_path / "here" / "msgspec.py").write_text(
        f"open({str(marker)!r}, 'w').close()\nraise SystemExit(3)\n"
    )
    command = [
        sys.executable,
        "-P",
        "-m",
        "assay",
        "serve",
        "--db",
        f"sqlite:///{tmp_path}/l.db",
        "--port",
        str(free_port()),
        "--allow-anonymous",
    ]
    server = subprocess.Popen(command, cwd=tmp_path / "here", stderr=subprocess.PIPE)
    try:
        assert server.stderr is not None
        for line in server.stderr:
            if b"Uvicorn running" in line:
                break
        time.sleep(1.0)
    finally:
        server.kill()
        server.communicate()
    assert not marker.exists()


def test_one_server_grades_by_one_text_of_a_policy_whichever_process_grades(
    server: Born, shared_server: Shared
) -> None:
    file = shared_server.shelf / MINE
    words = file.read_text(encoding="utf-8")
    assert "pass_threshold: 70" in words
    scores = {"judge_quality": {"raw": 4}, "patch_similarity": {"raw": 0.9}}

    def passed(name: str) -> Any:
        return server.call("POST", "/runs?policy=mine", run(run_id=f"rules-{name}", scores=scores))[
            1
        ]["grade"]["passed"]

    try:
        assert passed("before") is True
        file.write_text(words.replace("pass_threshold: 70", "pass_threshold: 100"))
        os.kill(beside(server)[GRADER], signal.SIGKILL)
        found = [passed("here")]
        until(lambda: works(server))
        found.append(passed("beside"))
        assert found[0] == found[1], found
    finally:
        file.write_text(words)


def test_a_process_that_cannot_begin_says_so_as_a_line_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "l.db").write_bytes(b"no ledger" * 1000)
    done = subprocess.run(
        [sys.executable, "-m", "assay.server.side_keeper"],
        input=frame(Setup(None, f"sqlite:///{tmp_path}/l.db")),
        capture_output=True,
        check=False,
    )
    assert done.stdout == b""
    said = done.stderr.decode().splitlines()
    assert said
    assert all(line.startswith("{") for line in said), said[0]


# --- the ledger


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """A ledger that somebody else writes to for a time."""
    lock = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    lock.execute("BEGIN IMMEDIATE")

    def free() -> None:
        time.sleep(seconds)
        lock.execute("ROLLBACK")
        lock.close()

    thread = threading.Thread(target=free)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_a_ledger_that_is_locked_for_a_while_makes_requests_wait_and_loses_nothing(
    server: Born, shared_server: Shared
) -> None:
    with locked(
        shared_server.folder / "l.db", 1.3
    ):  # longer than the process beside waits, shorter than the server does
        clients = Clients(server)
        clients.ending.set()
        acknowledged = clients.end()
    assert [status for status, _, _ in clients.answers] == [201] * 16
    check(shared_server.url, acknowledged, several=True)


def test_a_ledger_that_is_locked_for_longer_than_the_patience_is_told_and_nothing_of_it_is_stored(
    server: Born, shared_server: Shared
) -> None:
    with locked(shared_server.folder / "l.db", 3.6):
        began = time.monotonic()
        status, answer = server.call("POST", "/runs", run(run_id="busy"))
        took = time.monotonic() - began
    assert (status, answer["code"]) == (503, "STO-002")
    assert "locked by another writer for more than 1.5 seconds" in answer["detail"]
    assert took > PATIENCE_S, "the patience of the process beside, then that of the server"
    assert server.call("GET", "/runs/busy")[0] == 404
    assert server.call("POST", "/runs", run(run_id="busy"))[0] == 201


@pytest.mark.parametrize("full_disk", ["sqlite"], indirect=True)
def test_a_full_disk_is_told_by_the_server_though_another_process_met_it(
    full_disk: tuple[str, Path], nursery: Nursery, tmp_path: Path
) -> None:
    url, ballast = full_disk
    acknowledged: list[str] = []
    with nursery.bear(url, folder=tmp_path, patience_s=0.5) as server:
        until(lambda: works(server))

        def post(number: int) -> tuple[int, Any]:
            status, answer = server.call(
                "POST",
                "/runs",
                run(run_id=f"pad-{number}", metadata={"pad": os.urandom(50_000).hex()}),
            )
            if status == 201:
                acknowledged.append(answer["digest"])
            return status, answer

        number = 0
        while (said := post(number))[0] == 201:
            number += 1
            assert number < 1000, "the disk is never full"
        assert (said[0], said[1]["title"], said[1]["code"]) == (
            507,
            "Insufficient Storage",
            "STO-002",
        )
        assert "the disk is full or fails" in said[1]["detail"]
        assert "make room" in said[1]["fix"]
        ballast.unlink()
        until(lambda: post(number)[0] == 201)
        server.end()
    check(url, acknowledged)


def test_nothing_is_acknowledged_when_the_file_of_the_ledger_was_removed(
    nursery: Nursery, tmp_path: Path
) -> None:
    with nursery.bear(f"sqlite:///{tmp_path}/l.db", folder=tmp_path) as server:
        until(lambda: works(server))
        for one in tmp_path.glob("l.db*"):
            one.unlink()
        assert server.call("POST", "/runs", run(run_id="removed"))[0] == 503


# --- what is graded


@contextmanager
def with_processes(url: str, **changes: Any) -> Iterator[Api]:
    """A server in this process with processes beside it that are ready."""
    log = io.BytesIO()
    settings = Settings(
        **{"db": url, "allow_anonymous": True, "rate_per_s": 0.0, "token_cache_s": 0.0, **changes}
    )
    app = create_app(settings, log=Log(log), beside=True)
    with TestClient(
        app, base_url="http://127.0.0.1", client=("127.0.0.1", 50000), raise_server_exceptions=False
    ) as client:
        api = Api(client, log)
        until(lambda: api.services.side.ready)
        yield api


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


def test_odd_bodies_are_answered_in_the_same_bytes_with_and_without_processes_and_end_none_of_them(
    tmp_path: Path,
) -> None:
    with (
        serving(f"sqlite:///{tmp_path}/here.db") as here,
        with_processes(f"sqlite:///{tmp_path}/beside.db") as other,
    ):
        assert other.services.side._line is not None
        line = other.services.side._line
        for name, data in ODD.items():
            sent = [
                api.client.post(
                    f"{API}/runs", content=data, headers={"Content-Type": "application/json"}
                )
                for api in (here, other)
            ]
            assert (sent[0].status_code, sent[0].content) == (
                sent[1].status_code,
                sent[1].content,
            ), name
            assert sent[0].status_code < 500, name
        assert other.services.side._line is line


def test_a_fault_in_the_code_that_grades_leaves_the_body_to_the_server_and_costs_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shelf = Shelf()
    whole = Grader.scorecard

    def raising(self: Grader, found: Any) -> Any:
        if found.run_id == "evil":
            raise KeyError("a fault of ours")
        return whole(self, found)

    monkeypatch.setattr(Grader, "scorecard", raising)
    rules = Grader(shelf, policy="workflow").rules.digest
    sent = [
        Asked(
            "p", json.dumps(run(run_id=name)).encode(), None, "workflow", None, None, rules, number
        )
        for number, name in enumerate(("a", "evil", "b"))
    ]
    made = side_grader._grade(sent, shelf, {})
    assert [one.number for one in made] == [0, 1, 2]
    assert [None if one.posted is None else one.posted.run_id for one in made] == ["a", None, "b"]


def test_a_faulty_body_whose_process_dies_over_it_is_told_in_the_same_words(server: Born) -> None:
    faulty = {**run(run_id="faulty"), "status": "odd"}
    first = server.call("POST", "/runs", faulty)
    grader = beside(server)[GRADER]
    os.kill(grader, signal.SIGSTOP)
    threading.Timer(0.3, os.kill, (grader, signal.SIGKILL)).start()
    assert server.call("POST", "/runs", faulty) == first
    assert first[0] == 422


def test_each_token_gets_its_own_project_and_each_query_its_own_rules_when_all_come_at_once(
    server: Born, shared_server: Shared, tmp_path: Path
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


def test_large_bodies_are_not_graded_together() -> None:
    large = [
        Asked("p", b"x" * 1_000_000, None, "workflow", None, None, "sha256:r", number)
        for number in range(8)
    ]
    assert side_grader._alike([one._replace(body=b"x") for one in large]) == 8
    assert side_grader._alike(large) == 1


def test_a_large_body_holds_up_nobody_elses_run(server: Born) -> None:
    steps = [{"name": f"s{number}", "status": "success", "agent": "a"} for number in range(30_000)]
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
def wire(server: Born) -> Iterator[socket.socket]:
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


def test_a_thousand_tiny_bodies_on_one_connection_get_a_thousand_answers(
    wire: socket.socket,
) -> None:
    bodies = [b"{}", b"[]", b"x", b'{"a":1}', b""]
    sender = threading.Thread(
        target=lambda: [wire.sendall(asked(bodies[number % 5])) for number in range(1000)]
    )
    sender.start()
    found = answers(wire, 1000)
    sender.join()
    kinds = [(one.status, one.data) for one in found]
    assert kinds == kinds[:5] * 200
    assert [status for status, _ in kinds[:5]] == [422, 422, 400, 422, 400]


def test_a_connection_goes_on_after_every_error(wire: socket.socket) -> None:
    for number, (data, more, status) in enumerate(
        [
            (b"{", {}, 400),
            (b"{}", {}, 422),
            (b"x", {"Content_Type": "text/plain"}, 415),
            (b"{}", {"Authorization": "Bearer x"}, 401),
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


def test_a_connection_that_is_to_be_closed_is_closed_after_the_whole_answer(server: Born) -> None:
    for name, more in (
        ("close", {"Connection": "close"}),
        ("old", {"version": "1.0"}),
        ("old-kept", {"version": "1.0", "Connection": "keep-alive"}),
    ):
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


def test_head_and_options_have_answers_without_a_rest(wire: socket.socket) -> None:
    wire.sendall(
        asked(None, "HEAD")
        + asked(None, "OPTIONS")
        + asked(None, "HEAD", "/health")
        + asked(None, "GET", "/health")
    )
    found = answers(wire, 4, bare=(0, 2))
    assert found[3].status == 200
    assert all(one.status in (200, 405) for one in found)


def test_the_largest_body_is_taken_and_a_larger_one_is_refused(
    server: Born, wire: socket.socket
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


def test_clients_that_go_away_cost_nobody_anything(server: Born) -> None:
    for number in range(20):
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
    assert all(server.call("GET", f"/runs/middle-{number}")[0] == 404 for number in range(0, 20, 5))


def test_a_client_that_has_no_more_to_say_still_gets_its_answer(server: Born) -> None:
    answered = 0
    for number in range(60):
        sent = (asked(None, "GET", "/health"), asked(b"{"), asked(body(f"no more-{number}")))[
            number % 3
        ]
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as wire:
            wire.sendall(sent)
            wire.shutdown(socket.SHUT_WR)
            answered += wire.recv(100_000).startswith(b"HTTP/1.1 ")
    assert answered == 60


def test_a_client_that_reads_nothing_is_not_answered_into_memory(server: Born) -> None:
    def memory() -> int:
        return next(
            int(line.split()[1])
            for line in Path(f"/proc/{server.pid}/status").read_text().splitlines()
            if line.startswith("VmRSS")
        )

    assert server.call("POST", "/runs", runs(200))[0] in (200, 201)
    server.call("GET", "/runs?limit=200")
    before = memory()
    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.connect(("127.0.0.1", server.port))
        wire.settimeout(30)
        wire.sendall(asked(None, "GET", "/runs?limit=200") * 300)  # some 36 MB of answers
        time.sleep(1.0)
        assert memory() - before < 12_000
        assert server.call("GET", "/health", timeout=2)[0] == 200
        found = answers(wire, 300)
        assert {(one.status, len(one.data)) for one in found} == {(200, len(found[0].data))}


def test_a_stream_tells_of_an_event_at_once_while_others_post(server: Born) -> None:
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


def test_a_connection_that_is_idle_after_an_early_refusal_is_kept(hasty: int) -> None:
    with socket.create_connection(("127.0.0.1", hasty), timeout=10) as wire:
        sent = asked(b"x" * 1000, Content_Type="text/plain")
        wire.sendall(sent[:-500])
        assert answers(wire)[0].status == 415
        wire.sendall(sent[-500:])
        time.sleep(0.8)  # twice the time that a head may take
        wire.sendall(asked(None, "GET", "/health"))
        assert answers(wire)[0].status == 200


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


class Sink:
    """A transport that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def close(self) -> None:
        self.told.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.told


def gathered(*turns: Callable[[Gathered], None]) -> list[Any]:
    """What a transport was told, where each of these happened in a turn of its own."""

    async def work() -> list[Any]:
        sink = Sink()
        # as much of a transport as is used
        made = Gathered(sink, asyncio.get_running_loop())  # type: ignore[arg-type]
        for turn in turns:
            turn(made)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        return sink.told

    return asyncio.run(work())


def test_what_is_written_in_one_turn_goes_out_once_and_in_order_and_before_the_end() -> None:
    def several(*parts: bytes | None) -> Callable[[Gathered], None]:
        def write(made: Gathered) -> None:
            for part in parts:
                made.close() if part is None else made.write(part)

        return write

    assert gathered(several(b"a", b"b"), several(b"c")) == [b"ab", b"c"]
    assert gathered(several(b"a", b"b", None)) == [b"ab", "closed"]
    assert gathered(several(b"a"), several(None)) == [b"a", "closed"]
    assert gathered(several(b"", b"a", b"")) == [b"a"]
    assert gathered(several()) == []
    assert gathered(several(b"a", None), several(b"late")) == [
        b"a",
        "closed",
        b"late",
    ], "the transport itself drops what comes after its end"
