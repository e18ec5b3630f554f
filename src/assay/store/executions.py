"""Executions: workflows that a server runs on a dataset. Each is a job, with its runs in order.

Everything an owner writes goes through `record`, which first sends a heartbeat and so makes sure
that it is still the owner: an owner that was presumed dead writes nothing more, and no run ends
twice. The state of a run is in `live_runs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import and_, func, insert, select
from sqlalchemy.engine import Connection

from assay.store.databases import Database
from assay.store.events import (
    CANCELLED,
    DONE,
    EVALUATING,
    EXECUTING,
    FAILED,
    QUEUED,
    RunUpdate,
    append,
)
from assay.store.facets import key as index_key
from assay.store.jobs import OPEN, Job, row_of, send_beat
from assay.store.serving import execution_runs, insert_or_skip, jobs, live_runs
from assay.store.tables import records

STATES = (QUEUED, EXECUTING, EVALUATING, DONE, FAILED, CANCELLED)
"""The states of a run of an execution."""
_PART = 200
"""Rows in one statement."""


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
