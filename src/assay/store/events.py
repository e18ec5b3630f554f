"""Runs in progress and their events, kept in the order in which they came.

A position is taken by counting up in the row of the run, inside the transaction that adds the
event: two who add at once wait for each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import insert, select, update

from assay.errors import InputError
from assay.store.serving import insert_new, live_events, live_runs, now_text, read, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.engine import Connection

    from assay.store.databases import Database

RUNNING, EVALUATING, DONE, FAILED = "running", "evaluating", "done", "failed"
QUEUED, EXECUTING, CANCELLED = "queued", "executing", "cancelled"
"""Of runs that a server executes itself. Nobody else may say what happens in one: what an outside
runner posts is for those that are `running`.
"""
MAX_EVENTS = 100_000
"""Events of one run."""


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
        """Whether its last event is there."""
        return self.state in (DONE, FAILED, CANCELLED)


class Stored(NamedTuple):
    """One event as it is kept."""

    position: int
    kind: str
    body: bytes


Event = tuple[str, "Callable[[int], bytes]"]
"""The kind of an event, and its body for the position that it gets."""


def start(
    database: Database,
    project: str,
    run_id: str,
    *,
    head: bytes,
    author: str | None,
    events: Sequence[Event],
) -> bool:
    """Begin a run; False where one of that id is known already."""
    row = {
        "project": project,
        "run_id": run_id,
        "state": RUNNING,
        "head": head,
        "events": len(events),
        "author": author,
        "created_at": now_text(),
    }

    def work(connection: Connection) -> bool:
        if not insert_new(connection, live_runs, row):
            return False
        _insert(connection, project, run_id, events, first=1)
        return True

    return write(database, work)


def find(database: Database, project: str, run_id: str) -> Live | None:
    """A run in progress, or one that was."""
    columns = [live_runs.c[name] for name in Live._fields]
    query = select(*columns).where(live_runs.c.project == project, live_runs.c.run_id == run_id)
    row = read(database, lambda connection: connection.execute(query).first())
    return None if row is None else Live(row[0], row[1], bytes(row[2]), row[3], row[4], row[5])


def add(
    database: Database,
    project: str,
    run_id: str,
    events: Sequence[Event],
    *,
    of: Sequence[str] = (RUNNING,),
    state: str | None = None,
    digest: str | None = None,
    head: bytes | None = None,
    after: int | None = None,
) -> int | None:
    """Add events; the number of events there are then, or None where the run is not in one of the
    states it must be in.

    With `after` they are added only where there are so many before: what two servers say at once is
    said once.
    """
    here = (live_runs.c.project == project, live_runs.c.run_id == run_id)
    where = [
        *here,
        live_runs.c.state.in_(of),
        *([] if after is None else [live_runs.c.events == after]),
    ]
    changes = {
        key: value
        for key, value in (("state", state), ("digest", digest), ("head", head))
        if value is not None
    }

    def work(connection: Connection) -> int | None:
        # the update comes first: it takes the lock under which positions are counted
        changed = connection.execute(
            update(live_runs)
            .where(*where)
            .values(events=live_runs.c.events + len(events), **changes)
        )
        if changed.rowcount != 1:
            return None
        total: int = connection.execute(select(live_runs.c.events).where(*here)).scalar_one()
        if total > MAX_EVENTS:
            raise InputError("FIL-004", f"a run has at most {MAX_EVENTS:,} events.", where=run_id)
        _insert(connection, project, run_id, events, first=total - len(events) + 1)
        return total

    return write(database, work)


def _insert(
    connection: Connection, project: str, run_id: str, events: Sequence[Event], *, first: int
) -> None:
    rows = event_rows(project, run_id, events, first=first)
    if rows:
        connection.execute(insert(live_events), rows)


def event_rows(
    project: str, run_id: str, events: Sequence[Event], *, first: int
) -> list[dict[str, Any]]:
    """Events at their positions, as they are kept."""
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
) -> list[Stored]:
    """The events after a position, in order."""
    table = live_events.c
    query = select(table.position, table.kind, table.body).where(
        table.project == project, table.run_id == run_id, table.position > position
    )
    ordered = query.order_by(table.position).limit(limit)
    return read(
        database,
        lambda connection: [
            Stored(row[0], row[1], bytes(row[2])) for row in connection.execute(ordered)
        ],
    )


def waiting(database: Database) -> list[tuple[str, str]]:
    """Runs that ended and were never graded, because a server died in between: project and run
    id.
    """
    query = (
        select(live_runs.c.project, live_runs.c.run_id)
        .where(live_runs.c.state == EVALUATING)
        .limit(1000)
    )
    return read(
        database, lambda connection: [(row[0], row[1]) for row in connection.execute(query)]
    )
