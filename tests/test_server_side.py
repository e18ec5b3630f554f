"""Grading and storing in processes beside the one that answers: the same bytes, the same faults,
and no answer that depends on them.
"""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from assay.server.app import create_app
from assay.server.frames import frame, frames
from assay.server.logs import Log
from assay.server.settings import Settings
from assay.server.side_keeper import PATIENCE_S
from assay.store.ledger import open_ledger
from assay.store.verify import verify
from documents import FAMILIES, run
from serving import Api, Process, serving, until


@contextmanager
def beside(url: str) -> Iterator[Api]:
    """A server with processes beside it that are ready."""
    log = io.BytesIO()
    app = create_app(
        Settings(db=url, allow_anonymous=True, rate_per_s=0.0), log=Log(log), beside=True
    )
    with TestClient(
        app, base_url="http://127.0.0.1", client=("127.0.0.1", 50000), raise_server_exceptions=False
    ) as client:
        api = Api(client, log)
        wait(api)
        yield api


def wait(api: Api, *, without: Collection[int] = ()) -> list[int]:
    """Until both processes are ready and none of them is one of those; their numbers: the one that
    stores, the one that grades.
    """
    end = time.monotonic() + 60
    while True:
        line = api.services.side._line
        if line is not None and line.ready and not set(without) & set(line.pids()):
            found: list[int] = line.pids()
            return found
        assert time.monotonic() < end, "the processes beside the server do not start"
        time.sleep(0.02)


def counted(api: Api) -> list[bool]:
    """What the processes were asked for, and whether they could."""
    found: list[bool] = []
    ask = api.services.side.ask

    async def counting(asked: Any) -> Any:
        answer = await ask(asked)
        found.append(answer is not None)
        return answer

    api.services.side.ask = counting
    return found


def told_of(api: Api) -> list[str]:
    """The runs whose grades are sent to whoever watches."""
    found: list[str] = []
    api.services.teller.graded = lambda kept: found.append(kept.run_id)
    return found


@pytest.mark.req("W-072")
def test_a_run_graded_beside_and_one_graded_here_are_the_same_records_and_the_same_answer(
    tmp_path: Path,
) -> None:
    odd = {
        "run_id": 'é\n"\\',
        "latency_ms": 8000.50,
        "metadata": {"n": [1e21, 0.10, -0.0, "1.0,", "\0"]},
        "tags": ["b", "a"],
    }
    sent = [run(family) for family in FAMILIES] + [run(**odd)]
    with (
        serving(f"sqlite:///{tmp_path}/here.db") as here,
        beside(f"sqlite:///{tmp_path}/beside.db") as other,
    ):
        could = counted(other)
        for one in sent:
            answers = [api.post("/runs", one) for api in (here, other)]
            assert [answer.status_code for answer in answers] == [201, 201]
            assert answers[0].content == answers[1].content
        assert could == [True] * len(sent)
        stored = other.get(f"/runs/{answers[1].json()['digest']}/grade").content
        assert json.dumps(json.loads(stored)) == json.dumps(answers[1].json()["grade"])
    with open_ledger(f"sqlite:///{tmp_path}/beside.db") as ledger:
        assert verify(ledger).clean


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Api]]:
    """A server without processes beside it and one with them, for what stores nothing."""
    folder = tmp_path_factory.mktemp("both")
    with (
        serving(f"sqlite:///{folder}/here.db") as here,
        beside(f"sqlite:///{folder}/beside.db") as other,
    ):
        yield here, other


@pytest.mark.parametrize(
    "body",
    [
        b'{"schema": "assay.run/1"}',
        b'{"schema": "assay.run/1", "schema": 1}',
        b"{",
        b'{"schema": "assay.scorecard/1"}',
        b"[]",
        b"",
        b'{"a": "\xff"}',
        b"7",
    ],
)
def test_a_faulty_body_is_told_in_the_same_words_with_and_without_the_process(
    both: tuple[Api, Api], body: bytes
) -> None:
    first = wait(both[1])
    answers = [
        api.client.post("/api/v1/runs", content=body, headers={"Content-Type": "application/json"})
        for api in both
    ]
    assert answers[0].status_code >= 400
    assert (answers[0].status_code, answers[0].content) == (
        answers[1].status_code,
        answers[1].content,
    )
    assert wait(both[1]) == first, "it ended none of them"


@pytest.mark.parametrize("which", [0, 1], ids=["keeper", "grader"])
def test_the_end_of_a_process_costs_nobody_an_answer_and_both_are_started_again(
    tmp_path: Path, which: int
) -> None:
    with beside(f"sqlite:///{tmp_path}/l.db") as api:
        first = wait(api)
        could = counted(api)
        os.kill(first[which], signal.SIGKILL)
        assert api.post("/runs", run(run_id="after")).status_code == 201
        wait(api, without=first)
        assert api.post("/runs", run(run_id="again")).status_code == 201
        assert could[-1] is True
        assert b"a process beside this one ended" in api.log.getvalue()


def test_a_process_that_stands_still_is_ended_and_what_waits_for_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.server.side.STUCK_S", 0.5)
    with beside(f"sqlite:///{tmp_path}/l.db") as api:
        first = wait(api)
        os.kill(first[0], signal.SIGSTOP)
        assert api.post("/runs", run(run_id="stuck")).status_code == 201
        wait(api, without=first)
        assert api.post("/runs", run(run_id="again")).status_code == 201


def test_a_run_that_was_stored_before_its_answer_was_lost_is_found_again_and_not_stored_twice(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with beside(url) as api:
        line = api.services.side._line
        told = told_of(api)
        line.heard = lambda data: None  # the process that stores does so, and what it says is lost
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(api.post, "/runs", run(run_id="once"))
            end = time.monotonic() + 30
            while api.services.ledger.count("run").n == 0:
                assert time.monotonic() < end, "nothing was stored"
                time.sleep(0.02)
            os.kill(line.pids()[0], signal.SIGKILL)
            answer = waiting.result(30)
        assert (answer.status_code, answer.json()["new"]) == (
            201,
            True,
        ), "it was not there before the request"
        assert told == ["once"]
    with open_ledger(url) as ledger:
        assert ledger.count("run").n == 1
        assert verify(ledger).clean


def test_a_run_that_was_there_before_is_not_new_though_its_answer_was_lost_and_is_told_of_again(
    tmp_path: Path,
) -> None:
    with beside(f"sqlite:///{tmp_path}/l.db") as api:
        told = told_of(api)
        assert api.post("/runs", run(run_id="known")).status_code == 201
        keeper = wait(api)[0]
        os.kill(keeper, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(api.post, "/runs", run(run_id="known"))
            end = time.monotonic() + 30
            while not api.services.side._line.waiting:
                assert time.monotonic() < end
                time.sleep(0.01)
            time.sleep(0.2)
            os.kill(keeper, signal.SIGKILL)
            answer = waiting.result(30)
        assert (answer.status_code, answer.json()["new"]) == (200, False)
        assert told == [
            "known",
            "known",
        ], "whether its event was sent cannot be known: twice is better than never"
        wait(api, without=[keeper])
        assert api.post("/runs", run(run_id="known")).status_code == 200
        assert told == ["known", "known"], "what comes back is told of once"


def test_a_faulty_body_that_was_lost_with_its_process_is_told_and_nothing_is_sent(
    tmp_path: Path,
) -> None:
    with beside(f"sqlite:///{tmp_path}/l.db") as api:
        told = told_of(api)
        grader = wait(api)[1]
        os.kill(grader, signal.SIGSTOP)
        threading.Timer(0.3, os.kill, (grader, signal.SIGKILL)).start()
        answer = api.post("/runs", {**run(), "status": "odd"})
        assert (answer.status_code, told) == (422, [])


def test_what_cannot_be_stored_beside_is_left_to_the_server_which_waits_for_the_ledger(
    tmp_path: Path,
) -> None:
    import sqlite3

    with beside(f"sqlite:///{tmp_path}/l.db") as api:
        could = counted(api)
        other = sqlite3.connect(tmp_path / "l.db", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")

        def let_go() -> None:
            until(lambda: could)
            time.sleep(0.3)  # the server itself waits too
            other.execute("ROLLBACK")

        beside_it = threading.Thread(target=let_go)
        beside_it.start()
        began = time.monotonic()
        assert api.post("/runs", run(run_id="patient")).status_code == 201
        assert time.monotonic() - began > PATIENCE_S
        beside_it.join()
        other.close()
        assert could == [False]


def test_the_process_ends_with_the_server_however_that_ends(tmp_path: Path) -> None:
    for end in (signal.SIGTERM, signal.SIGKILL):
        served = Process(f"sqlite:///{tmp_path}/l.db")
        children = Path(f"/proc/{served.started.pid}/task/{served.started.pid}/children")
        if not children.exists():
            pytest.skip("this system does not tell the children of a process")
        found = [int(one) for one in children.read_text().split()]
        assert (os.cpu_count() or 1) == 1 or found
        os.kill(served.started.pid, end)
        served.started.wait()
        served.started.close()
        limit = time.monotonic() + 30
        while any(Path(f"/proc/{one}").exists() for one in found):
            assert time.monotonic() < limit, "a process outlived its server"
            time.sleep(0.02)


def test_a_server_that_ends_just_after_its_processes_waits_for_both(tmp_path: Path) -> None:
    for _ in range(5):
        with beside(f"sqlite:///{tmp_path}/l.db") as api:
            found = wait(api)
            assert api.client.portal is not None
            api.client.portal.call(api.services.side._line.end)  # as when one of them dies
        assert [one for one in found if Path(f"/proc/{one}").exists()] == [], (
            "nobody has waited for it"
        )


def test_a_frame_comes_out_as_it_went_in_however_it_is_cut() -> None:
    data = frame(["a", 1]) + frame(b"x" * 1000)
    buffer, found = bytearray(), []
    for byte in data:
        buffer.append(byte)
        found += frames(buffer)
    assert [frame(None)[:4], len(found), len(buffer)] == [b"\0\0\0\1", 2, 0]


def test_an_answer_that_comes_late_from_processes_that_have_ended_is_nobodys() -> None:
    import asyncio

    from assay.server.grading import Kept
    from assay.server.side import Answer, Asked, _Line

    def answer(number: int, name: str) -> bytes:
        return frame(
            [Answer(number, Kept(name, "A", "sha256:e", "sha256:g", 1, True, True, b"{}", None, 3))]
        )

    async def told() -> list[Any]:
        ended: list[str] = []
        before, after = _Line(lambda: ended.append("before")), _Line(lambda: ended.append("after"))
        for line in (before, after):
            line.was_ready = True
            # nobody is at the other end
            line._write = lambda data: None  # type: ignore[method-assign]
        first = asyncio.ensure_future(
            before.ask(Asked("p", b"1", None, "workflow", None, None, "sha256:r", number=1))
        )
        await asyncio.sleep(0)
        before.end()
        before.heard(answer(1, "first"))  # its last words, after its end
        second = asyncio.ensure_future(
            after.ask(Asked("p", b"2", None, "workflow", None, None, "sha256:r", number=2))
        )
        await asyncio.sleep(0)
        after.heard(answer(1, "first") + answer(2, "second"))
        found = await second
        return [ended, before.ready, await first, None if found is None else found.run_id]

    assert asyncio.run(told()) == [["before"], False, None, "second"]
