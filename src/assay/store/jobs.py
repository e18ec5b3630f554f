"""Jobs: what was asked for, how far it is, and which process works on it.

A job is claimed by an update that only one process can win. Its owner sends a beat now and then;
one that has not for a while is taken to be dead, and another takes the job up where it stopped.
Doing a record twice is harmless: its digest is the same.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import and_, insert, or_, select, update

from assay.store.serving import jobs, now_text, read, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

    from assay.store.databases import Database

QUEUED, RUNNING, DONE, FAILED = "queued", "running", "done", "failed"
AGAIN = "again"
"""The kind of these jobs, in a table that they share: see `executions` for the others."""
STALE_S = 60


class Job(NamedTuple):
    """One job."""

    id: str
    project: str
    state: str
    asked: dict[str, Any]
    progress: dict[str, Any]
    created_at: str
    author: str | None

    def document(self) -> dict[str, Any]:
        """As the API shows it."""
        return {
            "id": self.id,
            "state": self.state,
            "asked": self.asked,
            "progress": self.progress,
            "created_at": self.created_at,
            "author": self.author,
        }


_COLUMNS = tuple(jobs.c[name] for name in Job._fields)


def _job(row: Any) -> Job:
    return Job(
        row[0],
        row[1],
        row[2],
        msgspec.json.decode(bytes(row[3])),
        msgspec.json.decode(bytes(row[4])),
        row[5],
        row[6],
    )


def create(database: Database, project: str, asked: dict[str, Any], *, author: str | None) -> Job:
    """Queue a job."""
    made = Job(
        secrets.token_hex(8),
        project,
        QUEUED,
        asked,
        {"seen": 0, "written": 0, "unchanged": 0, "faults": [], "cursor": None},
        now_text(),
        author,
    )
    row = {
        **made._asdict(),
        "asked": msgspec.json.encode(asked),
        "progress": msgspec.json.encode(made.progress),
        "beat": 0,
        "kind": AGAIN,
    }
    write(database, lambda connection: connection.execute(insert(jobs).values(row)))
    return made


def find(database: Database, project: str, job_id: str) -> Job | None:
    """A job of a project."""
    query = select(*_COLUMNS).where(
        jobs.c.project == project, jobs.c.id == job_id, jobs.c.kind == AGAIN
    )
    row = read(database, lambda connection: connection.execute(query).first())
    return None if row is None else _job(row)


def newest(database: Database, project: str, *, limit: int = 50) -> list[Job]:
    """The jobs of a project, newest first."""
    query = (
        select(*_COLUMNS)
        .where(jobs.c.project == project, jobs.c.kind == AGAIN)
        .order_by(jobs.c.created_at.desc(), jobs.c.id)
        .limit(limit)
    )
    return read(database, lambda connection: [_job(row) for row in connection.execute(query)])


def claim(
    database: Database,
    owner: str,
    *,
    now: float | None = None,
    is_dead: Callable[[str], bool] = lambda _owner: False,
) -> Job | None:
    """The oldest job that waits, or whose owner is dead; claimed for this owner.

    An owner is dead that has been silent for long, or of whom `is_dead` knows it. One that claims
    has nothing at hand: what still stands under its name was dropped when the database was away.
    """
    at = int(now if now is not None else time.time())
    owners = (
        select(jobs.c.owner)
        .where(jobs.c.state == RUNNING, jobs.c.kind == AGAIN, jobs.c.owner.is_not(None))
        .distinct()
    )
    gone = [
        name
        for name in read(database, lambda connection: list(connection.execute(owners).scalars()))
        if name == owner or is_dead(name)
    ]
    free = or_(
        jobs.c.state == QUEUED,
        and_(jobs.c.state == RUNNING, or_(jobs.c.beat < at - STALE_S, jobs.c.owner.in_(gone))),
    )
    oldest = (
        select(jobs.c.id)
        .where(jobs.c.kind == AGAIN, free)
        .order_by(jobs.c.created_at, jobs.c.id)
        .limit(1)
    )

    def work(connection: Connection) -> Job | None:
        found = connection.execute(oldest).scalar()
        if found is None:
            return None
        won = connection.execute(
            update(jobs).where(jobs.c.id == found, free).values(state=RUNNING, owner=owner, beat=at)
        )
        return (
            _job(connection.execute(select(*_COLUMNS).where(jobs.c.id == found)).one())
            if won.rowcount == 1
            else None
        )

    if (
        read(database, lambda connection: connection.execute(oldest).scalar()) is None
    ):  # the usual case takes no lock
        return None
    return write(database, work)


def report(
    database: Database, job: Job, owner: str, progress: dict[str, Any], *, state: str = RUNNING
) -> bool:
    """Say how far a job is. False where another process has taken it over: then it is not ours to
    go on with.
    """
    values = {
        "progress": msgspec.json.encode(progress),
        "state": state,
        "beat": int(time.time()),
        "owner": owner if state == RUNNING else None,
    }
    ours = (
        update(jobs)
        .where(jobs.c.id == job.id, jobs.c.owner == owner, jobs.c.state == RUNNING)
        .values(values)
    )
    return write(database, lambda connection: connection.execute(ours).rowcount == 1)
