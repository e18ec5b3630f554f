"""Runs in progress and their events, in the order in which they arrived.

An event gets its position from a counter in the row of the run, in the transaction that adds it, so
that two writers wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import false, insert, select, update
from sqlalchemy.engine import Connection

from assay.errors import InputError
from assay.store import queue
from assay.store.databases import Database, insert_new
from assay.store.tables import live_events, live_runs, now_text

RUNNING, EVALUATING, DONE, FAILED = "running", "evaluating", "done", "failed"
QUEUED, EXECUTING, CANCELLED = "queued", "executing", "cancelled"
"""States of runs that a server executes itself. Nobody else may report events for these: an outside
runner posts only to runs that are `running`.
"""
MAX_EVENTS = 100_000
"""How many events one run may have."""


class Live(NamedTuple):
    """A run that is or was posted while it ran."""

    run_id: str
    state: str
    head: bytes
    events: int
    digest: str | None
    author: str | None

    @property
    def over(self) -> bool:
        """Whether its last event is stored."""
        return self.state in (DONE, FAILED, CANCELLED)


class StoredEvent(NamedTuple):
    """One stored event."""

    position: int
    kind: str
    body: bytes


Event = tuple[str, "Callable[[int], bytes]"]
"""The kind of an event, and its body for the position that it gets."""


class RunUpdate(NamedTuple):
    """What happened in one run. The run must be in one of the states of `of`, else nothing is
    written.

    With `after` it must also have exactly that many events, so that of two servers that report the
    same event only one succeeds.
    """

    key: str
    events: Sequence[Event]
    of: Sequence[str] = (RUNNING,)
    state: str | None = None
    head: bytes | None = None
    digest: str | None = None
    after: int | None = None


def start(
    database: Database,
    project: str,
    run_id: str,
    *,
    head: bytes,
    author: str | None,
    events: Sequence[Event],
) -> bool:
    """Begin a run; False if a run with that id exists."""
    row = {
        "project": project,
        "run_id": run_id,
        "state": RUNNING,
        "head": head,
        "events": len(events),
        "author": author,
        "created_at": now_text(),
        "beat_ms": queue.now_ms(),
    }

    def work(connection: Connection) -> bool:
        if not insert_new(connection, live_runs, row):
            return False
        if events:
            connection.execute(insert(live_events), _rows(project, run_id, events, first=1))
        return True

    return database.write(work)


def find(database: Database, project: str, run_id: str) -> Live | None:
    """A run in progress, or one that was."""
    columns = [live_runs.c[name] for name in Live._fields]
    query = select(*columns).where(live_runs.c.project == project, live_runs.c.run_id == run_id)
    row = database.read(lambda connection: connection.execute(query).first())
    return None if row is None else Live(row[0], row[1], bytes(row[2]), row[3], row[4], row[5])


def add(database: Database, project: str, run: RunUpdate) -> int | None:
    """Add the events of one run. Returns how many it then has, or None if the run is not in a state
    that allows it.
    """

    def work(connection: Connection) -> int | None:
        total = append(connection, project, [run]).get(run.key)
        if total is not None and total > MAX_EVENTS:
            raise InputError("FIL-004", f"a run has at most {MAX_EVENTS:,} events.", where=run.key)
        return total

    return database.write(work)


def append(connection: Connection, project: str, updates: Iterable[RunUpdate]) -> dict[str, int]:
    """Add the events of runs inside a transaction. Returns the number of events of each updated
    run.
    """
    totals: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    c = live_runs.c
    for run in updates:
        changes: dict[str, Any] = {
            name: value
            for name, value in (("state", run.state), ("head", run.head), ("digest", run.digest))
            if value is not None
        }
        changes["beat_ms"] = queue.now_ms()
        where = [c.project == project, c.run_id == run.key, c.state.in_(run.of)]
        if run.after is not None:
            where.append(c.events == run.after)
        counted = (
            update(live_runs).where(*where).values(events=c.events + len(run.events), **changes)
        )
        # the update takes the lock under which positions are counted
        total: int | None = connection.execute(counted.returning(c.events)).scalar()
        if total is None:
            continue
        rows += _rows(project, run.key, run.events, first=total - len(run.events) + 1)
        totals[run.key] = total
    if rows:
        connection.execute(insert(live_events), rows)
    return totals


def _rows(
    project: str, run_id: str, events: Sequence[Event], *, first: int
) -> list[dict[str, Any]]:
    """Events at their positions, as the table stores them."""
    return [
        {
            "project": project,
            "run_id": run_id,
            "position": position,
            "kind": kind,
            "body": body(position),
        }
        for position, (kind, body) in enumerate(events, first)
    ]


def after(
    database: Database, project: str, run_id: str, position: int, *, limit: int = 1000
) -> list[StoredEvent]:
    """The events after a position, in order."""
    table = live_events.c
    query = select(table.position, table.kind, table.body).where(
        table.project == project, table.run_id == run_id, table.position > position
    )
    ordered = query.order_by(table.position).limit(limit)
    return database.read(
        lambda connection: [
            StoredEvent(row[0], row[1], bytes(row[2])) for row in connection.execute(ordered)
        ],
    )


def silent(database: Database, *, since_s: float) -> list[tuple[str, str]]:
    """The projects and ids of runs in progress without an event for this many seconds."""
    c, before_ms = live_runs.c, queue.now_ms() - int(1000 * since_s)
    query = select(c.project, c.run_id).where(c.state == RUNNING, c.beat_ms < before_ms)
    return database.read(
        lambda connection: [(row[0], row[1]) for row in connection.execute(query.limit(1000))]
    )


def claim_evaluation(
    database: Database, owner: str, *, stale_ms: int, since_ms: int = 0
) -> tuple[str, str] | None:
    """Claim a run that ended but was not graded because a server died in between. Returns its
    project and run id.
    """
    row = queue.claim(
        database,
        live_runs,
        owner,
        waiting=false(),
        held=live_runs.c.state == EVALUATING,
        state=EVALUATING,
        oldest_first=live_runs.c.created_at,
        stale_ms=stale_ms,
        since_ms=since_ms,
    )
    return None if row is None else (row.project, row.run_id)
