"""Grading in a process beside the one that answers: the same bytes, the same faults, and no answer that depends on it."""

from __future__ import annotations

import io
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from assay.server.app import create_app
from assay.server.logs import Log
from assay.server.settings import Settings
from assay.server.side import frame, frames
from assay.store.ledger import open_ledger
from assay.store.verify import verify
from documents import FAMILIES, run
from serving import Api, Process, serving


@contextmanager
def beside(url: str) -> Iterator[Api]:
    """A server with a grading process that is ready."""
    log = io.BytesIO()
    app = create_app(Settings(db=url, allow_anonymous=True, rate_per_s=0.0), log=Log(log), beside=True)
    with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 50000), raise_server_exceptions=False) as client:
        api = Api(client, log)
        wait(api)
        yield api


def wait(api: Api) -> int:
    """Until the process is ready; its number."""
    end = time.monotonic() + 60
    while not api.services.side._ready:
        assert time.monotonic() < end, "the grading process does not start"
        time.sleep(0.02)
    return int(api.services.side._transport.get_pid())


def counted(api: Api) -> list[bool]:
    """What the process was asked for, and whether it could."""
    found: list[bool] = []
    grade = api.services.side.grade

    async def counting(asked: Any) -> Any:
        answer = await grade(asked)
        found.append(answer is not None)
        return answer

    api.services.side.grade = counting
    return found


@pytest.mark.req("W-072")
def test_a_run_graded_beside_and_one_graded_here_are_the_same_records_and_the_same_answer(tmp_path: Path) -> None:
    odd = {"run_id": 'é\n"\\', "latency_ms": 8000.50, "metadata": {"n": [1e21, 0.10, -0.0, "1.0,", "\0"]}, "tags": ["b", "a"]}
    sent = [run(family) for family in FAMILIES] + [run(**odd)]
    with serving(f"sqlite:///{tmp_path}/here.db") as here, beside(f"sqlite:///{tmp_path}/beside.db") as other:
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


@pytest.mark.parametrize(
    "body",
    [b'{"schema": "assay.run/1"}', b'{"schema": "assay.run/1", "schema": 1}', b"{", b'{"schema": "assay.scorecard/1"}', b"[]", b"", b'{"a": "\xff"}', b"7"],
)
def test_a_faulty_body_is_told_in_the_same_words_with_and_without_the_process(tmp_path: Path, body: bytes) -> None:
    with serving(f"sqlite:///{tmp_path}/here.db") as here, beside(f"sqlite:///{tmp_path}/beside.db") as other:
        answers = [api.client.post("/api/v1/runs", content=body, headers={"Content-Type": "application/json"}) for api in (here, other)]
        assert answers[0].status_code >= 400
        assert (answers[0].status_code, answers[0].content) == (answers[1].status_code, answers[1].content)


def test_the_end_of_the_process_costs_nobody_an_answer_and_it_is_started_again(tmp_path: Path) -> None:
    with beside(f"sqlite:///{tmp_path}/l.db") as api:
        first = wait(api)
        could = counted(api)
        os.kill(first, signal.SIGKILL)
        assert api.post("/runs", run(run_id="after")).status_code == 201
        end = time.monotonic() + 60
        while not api.services.side._ready or wait(api) == first:
            assert time.monotonic() < end, "it is not started again"
            time.sleep(0.05)
        assert api.post("/runs", run(run_id="again")).status_code == 201
        assert could[-1] is True
        assert b"the grading process ended" in api.log.getvalue()


def test_the_process_ends_with_the_server_however_that_ends(tmp_path: Path) -> None:
    for end in (signal.SIGTERM, signal.SIGKILL):
        served = Process(f"sqlite:///{tmp_path}/l.db")
        children = Path(f"/proc/{served.started.pid}/task/{served.started.pid}/children")
        if not children.exists():
            pytest.skip("this system does not tell the children of a process")
        found = [int(one) for one in children.read_text().split()]
        assert (os.cpu_count() or 1) == 1 or found
        os.kill(served.started.pid, end)
        served.started.communicate()
        limit = time.monotonic() + 30
        while any(Path(f"/proc/{one}").exists() for one in found):
            assert time.monotonic() < limit, "the grading process outlived its server"
            time.sleep(0.02)


def test_a_frame_comes_out_as_it_went_in_however_it_is_cut() -> None:
    data = frame(["a", 1]) + frame(b"x" * 1000)
    buffer, found = bytearray(), []
    for byte in data:
        buffer.append(byte)
        found += frames(buffer)
    assert [frame(None)[:4], len(found), len(buffer)] == [b"\0\0\0\1", 2, 0]


def test_an_answer_that_comes_late_from_a_process_that_has_ended_is_nobodys() -> None:
    import asyncio

    from assay.server.grading import Posted
    from assay.server.side import Answer, Asked, SideGrader

    class Closed(asyncio.SubprocessTransport):
        def close(self) -> None: ...

        def get_pipe_transport(self, fd: int) -> None: ...

    def answer(number: int, name: str) -> bytes:
        return frame([Answer(number, Posted(name, "A", [], 0))])

    async def told() -> list[Any]:
        side = SideGrader(Settings(), Log(io.BytesIO()))
        side._loop = asyncio.get_running_loop()
        side._ending = True  # nothing is started again here
        side._transport, side._ready = Closed(), True
        first = asyncio.ensure_future(side.grade(Asked(b"1", None, "workflow", None, None)))
        await asyncio.sleep(0)
        side._asked.clear()
        side.process_exited()
        side.pipe_data_received(1, answer(1, "first"))  # its last words, after its end
        ready_after_the_end = side._ready
        side._transport, side._ready = Closed(), True
        second = asyncio.ensure_future(side.grade(Asked(b"2", None, "workflow", None, None)))
        await asyncio.sleep(0)
        side._asked.clear()
        side.pipe_data_received(1, answer(1, "first") + answer(2, "second"))
        return [ready_after_the_end, await first, (await second).run_id]

    assert asyncio.run(told()) == [False, None, "second"]
