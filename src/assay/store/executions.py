"""Executions: workflows that a server runs on a dataset. Each is a job, the request with its faults
and the process that works on it, and has runs in order. Servers claim jobs by `queue`.

Everything an owner writes about runs goes through `record`, which first sends a heartbeat and so
makes sure that it is still the owner: an owner that was presumed dead writes nothing more, and no
run ends twice. The state of a run is in `live_runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    case,
    false,
    func,
    insert,
    select,
    update,
)

from assay.files.json_files import parse_json
from assay.store import queue
from assay.store.databases import Database, insert_or_skip
from assay.store.drafts import key as index_key
from assay.store.events import (
    CANCELLED,
    DONE,
    EVALUATING,
    EXECUTING,
    FAILED,
    QUEUED,
    RUNNING,
    RunUpdate,
    append,
)
from assay.store.tables import execution_runs, jobs, live_runs, now_text, records

CANCELLING = "cancelling"
OPEN = (QUEUED, RUNNING, CANCELLING)
STATES = (QUEUED, EXECUTING, EVALUATING, DONE, FAILED, CANCELLED)
"""The states of a run of an execution."""
STALE_MS = 15_000
"""After this long without a heartbeat, the owner of a job is presumed dead."""
_PART = 200
"""Rows in one statement."""


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


# --- runs


class Planned(NamedTuple):
    """A run that an execution is to make."""

    run_id: str
    sample_id: str
    attempt: int

    @property
    def key(self) -> str:
        """Its id in the table of runs."""
        return index_key(self.run_id)


class Placed(NamedTuple):
    """A run of an execution and its state."""

    place: int
    key: str
    run_id: str
    sample_id: str
    attempt: int
    state: str
    digest: str | None


class RunTaken(Exception):
    """Somebody else has already begun a run of the execution. Nothing was written."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id


def create(database: Database, job: Job, runs: Sequence[Planned]) -> None:
    """Queue an execution with all its runs."""

    def work(connection: Connection) -> None:
        connection.execute(insert(jobs).values(row_of(job)))
        for start in range(0, len(runs), _PART):
            _reserve(connection, job, runs[start : start + _PART], start)

    database.write(work)


def _reserve(connection: Connection, job: Job, part: Sequence[Planned], start: int) -> None:
    """Rows for runs that have not begun."""
    base = {
        "project": job.project,
        "state": QUEUED,
        "head": b"{}",
        "events": 0,
        "author": job.author,
        "created_at": job.created_at,
        "beat_ms": 0,
    }
    rows = [{**base, "run_id": run.key} for run in part]
    reserving = insert_or_skip(connection, live_runs).values(rows).returning(live_runs.c.run_id)
    reserved = set(connection.execute(reserving).scalars())
    for run in part:
        if run.key not in reserved:
            raise RunTaken(run.run_id)
    connection.execute(
        insert(execution_runs),
        [
            {
                "execution": job.id,
                "place": place,
                "project": job.project,
                "run_key": run.key,
                "run_id": run.run_id.encode(),
                "sample_id": run.sample_id.encode(),
                "attempt": run.attempt,
            }
            for place, run in enumerate(part, start)
        ],
    )


def waiting(database: Database, project: str) -> int:
    """How many executions of a project are not over."""
    query = select(func.count()).where(jobs.c.project == project, jobs.c.state.in_(OPEN))
    return int(database.read(lambda connection: connection.execute(query).scalar_one()))


_WITH_STATE = execution_runs.join(
    live_runs,
    and_(
        live_runs.c.project == execution_runs.c.project,
        live_runs.c.run_id == execution_runs.c.run_key,
    ),
)


def counts(database: Database, execution: str) -> dict[str, int]:
    """How many runs are in each state."""
    query = (
        select(live_runs.c.state, func.count())
        .select_from(_WITH_STATE)
        .where(execution_runs.c.execution == execution)
        .group_by(live_runs.c.state)
    )
    return database.read(lambda connection: {row[0]: row[1] for row in connection.execute(query)})


def passed(database: Database, job: Job) -> int:
    """How many runs of an execution have passed so far; one that was graded again counts by its
    newest grade.
    """
    r, g = execution_runs.c, records.c
    query = (
        select(r.run_key, g.passed)
        .join(records, and_(g.project == r.project, g.run_id == r.run_key, g.kind == "grade"))
        .where(r.execution == job.id, r.project == job.project)
        .order_by(g.seq)
    )
    verdicts = database.read(
        lambda connection: {row[0]: row[1] for row in connection.execute(query)}
    )
    return sum(verdict is True for verdict in verdicts.values())


def runs(
    database: Database,
    execution: str,
    *,
    states: Iterable[str] = STATES,
    after: int = -1,
    limit: int | None = None,
) -> list[Placed]:
    """The runs of an execution in order."""
    r, live = execution_runs.c, live_runs.c
    query = (
        select(r.place, r.run_key, r.run_id, r.sample_id, r.attempt, live.state, live.digest)
        .select_from(_WITH_STATE)
        .where(r.execution == execution, live.state.in_(tuple(states)), r.place > after)
        .order_by(r.place)
        .limit(limit)
    )
    return database.read(
        lambda connection: [
            Placed(row[0], row[1], bytes(row[2]).decode(), bytes(row[3]).decode(), *row[4:])
            for row in connection.execute(query)
        ],
    )


def record(
    database: Database, job: Job, owner: str, updates: Sequence[RunUpdate]
) -> Mapping[str, int] | None:
    """Record what happened in runs, in one transaction. Returns the number of events of each
    updated run, or None if another server has the execution.
    """

    def work(connection: Connection) -> Mapping[str, int] | None:
        if send_beat(connection, job, owner) is None:
            return None
        return append(connection, job.project, updates)

    return database.write(work)
