"""A server is killed again and again while it stores and evaluates, and started again each time.

The tests do it with few kills; `python tests/campaign/campaign_kills.py --kills 200` does it on SQLite and
on PostgreSQL and prints what came of it. After every kill, before anything is started again, the
ledger as the dead server left it is verified whole, and searched for every record and event that
was acknowledged and for anything that is there twice. At the end of each ledger
every run that ended is graded, once. Moments are seeded.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import text

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from assay.store.ledger import Ledger, open_ledger
from assay.store.verify import verify
from documents import run
from serving import API, Configured, runs

EVERY = 10
"""Kills of one ledger: then a new one, so that to verify it after each kill stays cheap."""
LONGEST_S = 0.8
WARM = 0.85
"""How often the clock of a kill starts only with the first acknowledged run."""


class Figures:
    """What came of it."""

    def __init__(self) -> None:
        self.kills = self.acknowledged = self.events = self.records = self.verified = 0
        self.lost: list[str] = []
        self.doubled: list[str] = []
        self.flaws: list[str] = []
        self.unfinished: list[str] = []
        self.evaluations_hit = 0
        self.seconds = 0.0

    @property
    def good(self) -> bool:
        """Whether nothing is lost, doubled, flawed or left undone."""
        return not (self.lost or self.doubled or self.flaws or self.unfinished)

    def row(self, name: str) -> str:
        """As a line of the table."""
        numbers = (
            self.kills,
            self.acknowledged,
            self.events,
            self.evaluations_hit,
        )
        faults = (len(self.lost), len(self.doubled), len(self.flaws), len(self.unfinished))
        return (
            f"| {name} | "
            + " | ".join(f"{number:,}" for number in (*numbers, self.verified, *faults))
            + f" | {self.seconds:.0f} |"
        )


HEAD = (
    "| database | kills | runs acknowledged | events acknowledged | evaluations"
    " hit | records verified | lost | twice | flaws | undone | s"
    " |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


class Wire:
    """One client that keeps its connection, and stops at the first answer that does not come."""

    def __init__(self, server: Configured) -> None:
        self._wire = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)

    def post(self, path: str, body: Any, *, kind: str = "application/json") -> tuple[int, Any]:
        """The status and the whole answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._wire.request("POST", API + path, data, {"Content-Type": kind})
        answer = self._wire.getresponse()
        found = answer.read()
        return answer.status, json.loads(found)

    def close(self) -> None:
        """Hang up."""
        self._wire.close()


class Field:
    """One ledger, what was sent to it, and what was acknowledged."""

    def __init__(self, url: str, chance: random.Random) -> None:
        self.url = url
        self.chance = chance
        self.sent: set[str] = set()
        self.again: list[dict[str, Any]] = []
        """Runs that were sent and not acknowledged: they are sent again."""
        self.runs: set[str] = set()
        self.live: dict[str, int] = {}
        self.refused: list[str] = []
        self._number = 0
        self._lock = threading.Lock()

    def bear(self) -> Configured:
        """A server for it."""
        return Configured(self.url, patience_s=5.0)

    # --- what clients do until the server is gone

    def _numbered(self, n: int) -> int:
        with self._lock:
            self._number += n
            return self._number - n

    def _fresh(self, n: int) -> list[dict[str, Any]]:
        made = runs(n, start=self._numbered(n))
        self.sent.update(one["run_id"] for one in made)
        return made

    def single(self, wire: Wire) -> None:
        """One run, or one again whose answer was lost."""
        one = self.again.pop() if self.again else self._fresh(1)[0]
        self.again.append(one)
        status, answer = wire.post("/runs", one)
        if status in (200, 201):
            self.again.remove(one)
            self.runs.add(answer["digest"])
        else:
            self.refused.append(f"{status} {answer}")

    def many(self, wire: Wire) -> None:
        """A list or lines."""
        made = self._fresh(25)
        lines = self.chance.random() < 0.5
        body = (
            b"\n".join(json.dumps(one).encode() for one in made)
            if lines
            else json.dumps(made).encode()
        )
        status, answer = wire.post(
            "/runs", body, kind="application/x-ndjson" if lines else "application/json"
        )
        if status in (200, 201):
            self.runs.update(found["digest"] for found in answer["results"])
        else:
            self.refused.append(f"{status} {answer}")

    def watched(self, wire: Wire) -> None:
        """A run that is posted while it runs."""
        whole = run("rag")
        name = f"live-{self._numbered(1)}"
        self.sent.add(name)
        end = ("outputs", "scores", "gates", "tests", "claims", "retrieval", "latency_ms")
        head = {
            key: value
            for key, value in whole.items()
            if key not in (*end, "status", "steps", "tool_calls")
        }
        status, answer = wire.post("/runs/live", {**head, "run_id": name})
        if status != 201:
            self.refused.append(f"{status} {answer}")
            return
        self.live[name] = 1
        for step in whole["steps"]:
            if wire.post(f"/runs/{name}/events", {"event": "step_end", "step": step})[0] == 202:
                self.live[name] += 1
        status, answer = wire.post(
            f"/runs/{name}/events",
            {
                "event": "workflow_end",
                "run": {key: whole[key] for key in ("status", *end) if key in whole},
            },
        )
        if status == 201:
            self.live[name] += 3
            self.runs.add(answer["digest"])
        else:
            self.refused.append(f"{status} {answer}")

    def bother(self, server: Configured) -> list[threading.Thread]:
        """Clients of every kind, until the server answers no more."""

        def client(work: Callable[[Wire], None]) -> None:
            wire = Wire(server)
            try:
                while True:
                    work(wire)
            except (OSError, http.client.HTTPException, ValueError):
                wire.close()

        threads = [
            threading.Thread(target=client, args=(work,), daemon=True)
            for work in (self.single, self.many, self.watched)
        ]
        for thread in threads:
            thread.start()
        return threads

    def wait(self) -> None:
        """Until one more run is acknowledged."""
        before, end = len(self.runs), time.monotonic() + 10
        while len(self.runs) == before and time.monotonic() < end:
            time.sleep(0.005)

    # --- what must be true

    def check(self, found: Figures, *, over: bool) -> None:
        """Look at the ledger as it lies there; nobody serves it now."""
        with open_ledger(self.url) as ledger:
            stored = self._rows(ledger, "SELECT run_id, digest FROM records WHERE kind = 'run'")
            digests = {f"sha256:{bytes(row[1]).hex()}" for row in stored}
            names = [row[0] for row in stored]
            found.lost += sorted(self.runs - digests)
            found.doubled += (
                sorted(name for name in set(names) if names.count(name) > 1)
                if len(names) != len(set(names))
                else []
            )
            found.flaws += [f"{name} was never sent" for name in sorted(set(names) - self.sent)]
            twice = (
                "SELECT run_id, policy, profile FROM records WHERE kind = 'grade' GROUP BY run_id,"
                " policy, profile HAVING COUNT(*) > 1"
            )
            found.doubled += [" ".join(map(str, row)) for row in self._rows(ledger, twice)]
            graded = {
                row[0]
                for row in self._rows(
                    ledger,
                    "SELECT run_id FROM records WHERE kind = 'grade' AND policy = 'workflow@1'",
                )
            }
            found.lost += [f"the grade of {name}" for name in sorted(set(names) - graded)]
            events = dict(self._rows(ledger, "SELECT run_id, events FROM live_runs"))
            found.lost += [
                f"events of {name}" for name, n in self.live.items() if events.get(name, 0) < n
            ]
            last = "('evaluation_start', 'evaluation_complete', 'error')"
            again = (
                f"SELECT run_id, kind FROM live_events WHERE kind IN {last} GROUP BY run_id, kind"
                " HAVING COUNT(*) > 1"
            )
            found.doubled += [f"{name} {kind}" for name, kind in self._rows(ledger, again)]
            report = verify(ledger)
            found.flaws += [flaw.what for flaw in report.flaws]
            found.verified += report.records
            states = [
                row[0]
                for row in self._rows(
                    ledger, "SELECT state FROM live_runs WHERE state = 'evaluating'"
                )
            ]
            if over:
                found.unfinished += [f"evaluation of {state}" for state in states]
                found.acknowledged += len(self.runs)
                found.events += sum(self.live.values())
                found.flaws += self.refused
            else:
                found.evaluations_hit += len(states)

    @staticmethod
    def _rows(ledger: Ledger, query: str) -> list[Any]:
        with ledger.database.reading() as connection, connection.begin():
            return list(connection.execute(text(query)))

    def finish(self, found: Figures) -> None:
        """Start once more: what was interrupted goes on by itself, and ends."""
        with self.bear() as server:
            wire = Wire(server)
            while self.again:
                self.single(wire)
            wire.close()
            server.end()
        found.flaws += faults(server)
        self.check(found, over=True)


def faults(server: Configured) -> list[str]:
    """What a server has said of its own faults."""
    return [line for line in server.started.said().splitlines() if '"level":"error"' in line]


def campaign(
    new_url: Callable[[], str],
    kills: int,
    *,
    seed: int = 7,
    longest_s: float = LONGEST_S,
) -> Figures:
    """Kill a server so many times."""
    found = Figures()
    chance = random.Random(seed)
    began = time.perf_counter()
    while found.kills < kills:
        field = Field(new_url(), chance)
        for _ in range(min(EVERY, kills - found.kills)):
            with field.bear() as server:
                threads = field.bother(server)
                if chance.random() < WARM:  # else it may die before its first answer
                    field.wait()
                time.sleep(chance.uniform(0.0, longest_s))
                server.kill()
                for thread in threads:
                    thread.join(30)
            found.flaws += faults(server)
            found.kills += 1
            field.check(found, over=False)
        field.finish(found)
    found.seconds = time.perf_counter() - began
    return found


def main(argv: list[str]) -> bool:
    """On both databases; some ten minutes each on two cores."""
    from postgres import new_database

    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--kills", type=int, default=int(os.environ.get("ASSAY_KILLS", "200")))
    made.add_argument("--on", choices=["sqlite", "postgresql"], action="append")
    made.add_argument("--seed", type=int, default=7)
    options = made.parse_args(argv)
    print(f"**Killed while it stores, evaluates and grades again**\n\n{HEAD}", flush=True)
    good = True
    for name in options.on or ("sqlite", "postgresql"):
        folder = Path(tempfile.mkdtemp(prefix="assay-kills-"))
        count = iter(range(10**6))
        try:
            url = (
                (lambda folder=folder, count=count: f"sqlite:///{folder}/{next(count)}.db")
                if name == "sqlite"
                else new_database
            )
            found = campaign(url, options.kills, seed=options.seed)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(found.row(name), flush=True)
        for what in ("lost", "doubled", "flaws", "unfinished"):
            for one in getattr(found, what)[:10]:
                print(f"{what}: {one}")
        good = good and found.good
    return good


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
