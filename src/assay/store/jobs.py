"""Jobs: the request to run a workflow on a dataset, its faults, and which process works on it.
The runs of a job are in `executions`. Servers claim jobs by `queue`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, case, false, select, update

from assay.files.json_files import parse_json
from assay.store import queue
from assay.store.databases import Database
from assay.store.serving import jobs, now_text

QUEUED, RUNNING, CANCELLING = "queued", "running", "cancelling"
DONE, FAILED, CANCELLED = "done", "failed", "cancelled"
OPEN = (QUEUED, RUNNING, CANCELLING)
STALE_MS = 15_000
"""After this long without a heartbeat, the owner of a job is presumed dead."""


class Job(NamedTuple):
    """One job. `asked` is the request with its defaults filled in, as JSON."""

    id: str
    project: str
    state: str
    asked: bytes
    progress: dict[str, Any]
    created_at: str
    author: str | None
    owner: str | None = None
    beat_ms: int = 0

    def request(self) -> dict[str, Any]:
        """The request."""
        return cast("dict[str, Any]", parse_json(self.asked))


_COLUMNS = tuple(jobs.c[name] for name in Job._fields)


def _job(row: Row[Any]) -> Job:
    values = {name: row._mapping[name] for name in Job._fields}
    values["asked"] = bytes(values["asked"])
    values["progress"] = msgspec.json.decode(values["progress"])
    return Job(**values)


def new(name: str, project: str, request: bytes, *, author: str | None) -> Job:
    """A job that has not begun."""
    return Job(name, project, QUEUED, request, {"faults": []}, now_text(), author)


def row_of(job: Job) -> dict[str, Any]:
    """The row of a job that nobody has claimed yet."""
    return {
        **job._asdict(),
        "progress": msgspec.json.encode(job.progress),
        "owner": None,
        "beat_ms": 0,
    }


def find(database: Database, project: str, job_id: str) -> Job | None:
    """A job of a project."""
    query = select(*_COLUMNS).where(jobs.c.project == project, jobs.c.id == job_id)
    row = database.read(lambda connection: connection.execute(query).first())
    return None if row is None else _job(row)


def newest(database: Database, project: str, *, limit: int = 50) -> list[Job]:
    """The jobs of a project, newest first."""
    query = (
        select(*_COLUMNS)
        .where(jobs.c.project == project)
        .order_by(jobs.c.created_at.desc(), jobs.c.id)
        .limit(limit)
    )
    return database.read(lambda connection: [_job(row) for row in connection.execute(query)])


def claim(
    database: Database,
    owner: str,
    *,
    able: bool = True,
    at_ms: int | None = None,
    is_dead: Callable[[str], bool] = lambda _owner: False,
) -> Job | None:
    """Claim the oldest job that waits or whose owner is dead. An owner that is not `able` to do the
    work takes only jobs to cancel.
    """
    states = (RUNNING, CANCELLING) if able else (CANCELLING,)
    row = queue.claim(
        database,
        jobs,
        owner,
        waiting=jobs.c.state == QUEUED if able else false(),
        held=jobs.c.state.in_(states),
        state=_unless_cancelled(RUNNING),
        oldest_first=jobs.c.created_at,
        stale_ms=STALE_MS,
        at_ms=at_ms,
        is_dead=is_dead,
    )
    return None if row is None else _job(row)


def _unless_cancelled(state: str) -> ColumnElement[str]:
    """The state, except that `cancelling` stays even if another worker takes the job over."""
    return case((jobs.c.state == CANCELLING, CANCELLING), else_=state)


def send_beat(
    connection: Connection, job: Job, owner: str, changes: Mapping[str, Any] | None = None
) -> str | None:
    """Record inside a transaction that the owner is alive, and update the job. Returns its state,
    or None if another owner has it by now.
    """
    ours = update(jobs).where(
        jobs.c.id == job.id, jobs.c.owner == owner, jobs.c.state.in_((RUNNING, CANCELLING))
    )
    changed = ours.values({"beat_ms": queue.now_ms(), **(changes or {})})
    return connection.execute(changed.returning(jobs.c.state)).scalar()


def report(
    database: Database,
    job: Job,
    owner: str,
    progress: Mapping[str, Any] | None = None,
    *,
    state: str | None = None,
) -> str | None:
    """Record a job's progress; with a state, release it: `queued` returns it to the queue, and the
    next owner continues at once. Returns the state, or None if another owner has it by now.
    """
    released = _unless_cancelled(QUEUED) if state == QUEUED else state
    values = {
        **({} if progress is None else {"progress": msgspec.json.encode(dict(progress))}),
        **({} if state is None else {"owner": None, "beat_ms": 0, "state": released}),
    }
    return database.write(lambda connection: send_beat(connection, job, owner, values))


def cancel(database: Database, job: Job) -> Job | None:
    """Request the cancellation of a job. Any server may end a waiting job; a running one is ended
    by its owner at its next heartbeat.
    """
    here = jobs.c.id == job.id
    waits = jobs.c.state == QUEUED
    asked = (
        update(jobs)
        .where(here, jobs.c.state.in_((QUEUED, RUNNING)))
        .values(state=CANCELLING, beat_ms=case((waits, 0), else_=jobs.c.beat_ms))
    )

    def work(connection: Connection) -> Job | None:
        connection.execute(asked)
        row = connection.execute(select(*_COLUMNS).where(here)).first()
        return None if row is None else _job(row)

    return database.write(work)
