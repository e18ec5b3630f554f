"""Faults: a server that is killed loses nothing it acknowledged and stores nothing twice; one that is told to end ends cleanly."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from assay.server.writer import MAX_BATCH
from assay.store import jobs as stored_jobs
from assay.store.ledger import open_ledger
from documents import run
from postgres import ledger_url, postgres_url  # noqa: F401  # fixtures
from serving import Process, runs, serving
from test_server_events import end_of, head_of

KILLS = int(os.environ.get("ASSAY_KILLS", "5"))


def post_until_killed(server: Process, start: int, acknowledged: list[str], sent: list[str]) -> list[threading.Thread]:
    """Clients that post runs as fast as they can, and note what was acknowledged."""

    def client(first: int) -> None:
        for index in range(first, first + 10_000):
            one = runs(1, start=index)[0]
            sent.append(one["run_id"])
            try:
                status, answer = server.call("POST", "/runs", one, timeout=10)
            except (OSError, ValueError):
                return
            if status == 201:
                acknowledged.append(answer["digest"])

    threads = [threading.Thread(target=client, args=(start + 100_000 * number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    return threads


@pytest.mark.slow
def test_a_server_that_is_killed_while_it_stores_has_every_acknowledged_run_once(ledger_url: str, assay: Any) -> None:  # noqa: F811
    chance = random.Random(7)
    acknowledged: list[str] = []
    sent: list[str] = []
    for turn in range(KILLS):
        with Process(ledger_url, "--quiet") as server:
            threads = post_until_killed(server, 1_000_000 * turn, acknowledged, sent)
            time.sleep(chance.uniform(0.05, 1.0))
            server.kill()
            for thread in threads:
                thread.join(20)
    assert len(acknowledged) > KILLS
    with open_ledger(ledger_url) as ledger:
        stored: list[str] = []
        ids: list[str] = []
        cursor = None
        while True:
            page = ledger.find("run", after=cursor, limit=1000)
            stored += [item.digest for item in page.items]
            ids += [item.tree()["run_id"] for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert set(acknowledged) <= set(stored)
        assert len(ids) == len(set(ids)) == ledger.count("run").n == ledger.count("grade").n
        assert set(ids) <= set(sent)
    verified = assay("verify", "--db", ledger_url)
    assert verified.code == 0, verified.err


@pytest.mark.slow
def test_a_run_whose_server_dies_before_it_is_graded_is_graded_by_the_next(ledger_url: str) -> None:  # noqa: F811
    from assay.server.routes import live
    from assay.store import events as stored_events

    with serving(ledger_url) as api:
        assert api.post("/runs/live", head_of(run())).status_code == 201
        original = live.evaluate

        async def die(*_arguments: object) -> None:
            raise KeyError("the power went")

        live.evaluate = die  # type: ignore[assignment]
        try:
            assert api.post("/runs/r-1/events", {"event": "workflow_end", "run": end_of(run())}).status_code == 500
        finally:
            live.evaluate = original
        found = stored_events.find(api.services.ledger.database, "default", "r-1")
        assert found is not None
        assert found.state == stored_events.EVALUATING
    with serving(ledger_url) as api:
        told = api.get("/runs/r-1/events").text
        assert "event: evaluation_complete" in told
        assert api.get("/runs/r-1/grade").json()["passed"] is not None


def test_a_server_that_is_told_to_end_answers_what_it_took_and_lets_streams_go(tmp_path: Path) -> None:
    with Process(f"sqlite:///{tmp_path}/l.db") as server:
        assert server.call("POST", "/runs/live", head_of(run()))[0] == 201
        from test_server_events import Watcher

        watcher = Watcher(server, "r-1")
        watcher.until("workflow_start")
        acknowledged: list[str] = []
        threads = post_until_killed(server, 0, acknowledged, [])
        time.sleep(0.5)
        began = time.monotonic()
        code, log = server.end()
        assert time.monotonic() - began < 10, "an idle stream holds nobody up"
        for thread in threads:
            thread.join(20)
        assert code in (0, -15)
        assert '"stopped"' in log
        assert watcher.ended.wait(5)
    with open_ledger(f"sqlite:///{tmp_path}/l.db") as ledger:
        assert all(ledger.get(digest) is not None for digest in acknowledged)


def test_a_job_that_is_interrupted_goes_on_where_it_stopped_and_a_dead_owner_is_replaced(ledger_url: str) -> None:  # noqa: F811
    with open_ledger(ledger_url) as ledger:
        database = ledger.database
        made = stored_jobs.create(database, "default", {"kind": "rescore"}, author=None)
        first = stored_jobs.claim(database, "a")
        assert first is not None
        assert stored_jobs.claim(database, "b") is None, "one job, one server"
        assert stored_jobs.report(database, first, "a", {**first.progress, "cursor": 17})
        later = stored_jobs.claim(database, "b", now=time.time() + 2 * stored_jobs.STALE_S)
        assert later is not None
        assert later.progress["cursor"] == 17
        assert not stored_jobs.report(database, first, "a", first.progress), "whoever was taken for dead does not go on"
        assert stored_jobs.report(database, later, "b", later.progress, state=stored_jobs.QUEUED)
        found = stored_jobs.find(database, "default", made.id)
        assert found is not None
        assert found.state == stored_jobs.QUEUED
        assert stored_jobs.find(database, "other", made.id) is None


@pytest.mark.slow
def test_several_workers_and_two_servers_share_one_ledger_and_store_a_run_once(ledger_url: str) -> None:  # noqa: F811
    with Process(ledger_url, "--workers", "2", "--quiet") as first, Process(ledger_url, "--quiet") as second:
        found: list[tuple[int, bool]] = []

        def client(server: Process) -> None:
            for one in runs(30):
                status, answer = server.call("POST", "/runs", one)
                found.append((status, answer["new"]))

        threads = [threading.Thread(target=client, args=(server,)) for server in (first, second, first)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(found) == 90
        assert {status for status, _ in found} == {200, 201}
        assert sum(new for _, new in found) == 30
        assert first.end()[0] in (0, -15)


def test_a_locked_ledger_is_said_to_be_busy_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(f"sqlite:///{tmp_path}/l.db") as api:
        database = api.services.ledger.database
        api.services.writer._ledger.database = database._replace(patience=0.3)
        lock = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        busy = api.post("/runs", run())
        assert busy.status_code == 503
        assert busy.headers["retry-after"] == "1"
        assert "locked" in busy.json()["detail"]
        lock.execute("ROLLBACK")
        lock.close()
        assert api.post("/runs", run()).status_code == 201
        api.services.writer._ledger.database = database


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


def test_a_full_queue_asks_clients_to_come_again(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/l.db") as api:
        api.services.writer._records = 10**9
        refused = api.post("/runs", run())
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        api.services.writer._records = 0
        assert json.loads(api.post("/runs", run()).content)["new"] is True
