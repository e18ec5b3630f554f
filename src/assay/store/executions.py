"""Executions: a workflow that a server runs on a dataset, kept as a job, with its runs in their
order.

An execution has one owner at a time. Everything an owner writes goes through `tell`, which first
counts its beat and so makes sure that it is still the owner: one that was taken for dead writes
nothing more, and no run ends twice. How far a run is stands in `live_runs`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import and_, case, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from assay.store.events import CANCELLED, DONE, EVALUATING, EXECUTING, FAILED, QUEUED, event_rows
from assay.store.facets import key as index_key
from assay.store.serving import (
    execution_runs,
    insert_new,
    jobs,
    live_events,
    live_runs,
    now_text,
    read,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from assay.store.databases import Database
    from assay.store.events import Event

KIND = "execution"
RUNNING, CANCELLING = "running", "cancelling"
STATES = (QUEUED, EXECUTING, EVALUATING, DONE, FAILED, CANCELLED)
"""What a run of an execution can be."""
STALE_S = 15
"""An owner that has not sent a beat for so long is taken for dead."""
_PART = 200
"""Rows in one statement."""


class Execution(NamedTuple):
    """One execution. `asked` is the request with what it came to, as JSON."""

    id: str
    project: str
    state: str
    asked: bytes
    progress: dict[str, Any]
    created_at: str
    author: str | None


class Planned(NamedTuple):
    """A run that an execution is to make."""

    run_id: str
    sample_id: str
    attempt: int

    @property
    def key(self) -> str:
        """As it stands in the table of runs."""
        return index_key(self.run_id)


class Placed(NamedTuple):
    """A run of an execution and how far it is."""

    place: int
    key: str
    run_id: str
    sample_id: str
    attempt: int
    state: str
    digest: str | None


class Told(NamedTuple):
    """What happened in one run: it must be in one of the states of `of`, else nothing is written of
    it.

    With `after` it must have so many events as well: what two servers say at once is said once.
    """

    key: str
    events: Sequence[Event]
    of: tuple[str, ...]
    state: str | None = None
    head: bytes | None = None
    digest: str | None = None
    after: int | None = None


_COLUMNS = tuple(jobs.c[name] for name in Execution._fields)


def _execution(row: Any) -> Execution:
    return Execution(
        row[0], row[1], row[2], bytes(row[3]), msgspec.json.decode(bytes(row[4])), row[5], row[6]
    )


def create(database: Database, made: Execution, runs: Sequence[Planned]) -> Execution | str:
    """Queue an execution with all its runs. Returns the one of that id that was there before, or
    the id of a run that somebody else has.
    """
    row = {
        **made._asdict(),
        "progress": msgspec.json.encode(made.progress),
        "beat": 0,
        "kind": KIND,
    }

    def work(connection: Connection) -> Execution | str:
        if not insert_new(connection, jobs, row):
            known = connection.execute(
                select(*_COLUMNS).where(
                    jobs.c.id == made.id, jobs.c.project == made.project, jobs.c.kind == KIND
                )
            ).first()
            if known is None:
                raise _Taken(made.id)
            return _execution(known)
        for start in range(0, len(runs), _PART):
            part = runs[start : start + _PART]
            taken = _reserve(connection, made, part)
            if taken is not None:
                raise _Taken(taken)
            connection.execute(
                insert(execution_runs),
                [
                    {
                        "execution": made.id,
                        "place": place,
                        "project": made.project,
                        "run_key": one.key,
                        "run_id": one.run_id.encode(),
                        "sample_id": one.sample_id.encode(),
                        "attempt": one.attempt,
                    }
                    for place, one in enumerate(part, start)
                ],
            )
        return made

    try:
        return write(database, work)
    except _Taken as taken:
        return taken.run_id


class _Taken(Exception):  # it ends a transaction and never leaves this module
    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id


def _reserve(connection: Connection, made: Execution, part: Sequence[Planned]) -> str | None:
    """Rows for runs that have not begun; the id of one that somebody else has, where there is
    one.
    """
    base = {
        "project": made.project,
        "state": QUEUED,
        "head": b"{}",
        "events": 0,
        "author": made.author,
        "created_at": made.created_at,
    }
    rows = [{**base, "run_id": one.key} for one in part]
    statement: Any = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(
        live_runs
    )
    found = {
        row[0]
        for row in connection.execute(
            statement.values(rows).on_conflict_do_nothing().returning(live_runs.c.run_id)
        )
    }
    return next((one.run_id for one in part if one.key not in found), None)


def find(database: Database, project: str, execution: str) -> Execution | None:
    """An execution of a project."""
    query = select(*_COLUMNS).where(
        jobs.c.project == project, jobs.c.id == execution, jobs.c.kind == KIND
    )
    row = read(database, lambda connection: connection.execute(query).first())
    return None if row is None else _execution(row)


def newest(database: Database, project: str, *, limit: int = 50) -> list[Execution]:
    """The executions of a project, newest first."""
    query = (
        select(*_COLUMNS)
        .where(jobs.c.project == project, jobs.c.kind == KIND)
        .order_by(jobs.c.created_at.desc(), jobs.c.id)
        .limit(limit)
    )
    return read(database, lambda connection: [_execution(row) for row in connection.execute(query)])


def waiting(database: Database, project: str) -> int:
    """How many executions of a project are not over."""
    query = select(func.count()).where(
        jobs.c.project == project,
        jobs.c.kind == KIND,
        jobs.c.state.in_((QUEUED, RUNNING, CANCELLING)),
    )
    return int(read(database, lambda connection: connection.execute(query).scalar_one()))


def counts(database: Database, execution: Execution) -> dict[str, int]:
    """How many runs are in each state."""
    joined = execution_runs.join(live_runs, _same_run())
    query = (
        select(live_runs.c.state, func.count())
        .select_from(joined)
        .where(execution_runs.c.execution == execution.id)
        .group_by(live_runs.c.state)
    )
    return read(database, lambda connection: {row[0]: row[1] for row in connection.execute(query)})


def runs(
    database: Database,
    execution: str,
    *,
    states: Iterable[str] = STATES,
    after: int | None = None,
    limit: int | None = None,
) -> list[Placed]:
    """The runs of an execution in their order."""
    r, found = execution_runs.c, live_runs.c
    query = select(
        r.place, r.run_key, r.run_id, r.sample_id, r.attempt, found.state, found.digest
    ).select_from(execution_runs.join(live_runs, _same_run()))
    query = query.where(r.execution == execution, found.state.in_(tuple(states)))
    if after is not None:
        query = query.where(r.place > after)
    ordered = query.order_by(r.place).limit(limit)
    return read(
        database,
        lambda connection: [
            Placed(row[0], row[1], bytes(row[2]).decode(), bytes(row[3]).decode(), *row[4:])
            for row in connection.execute(ordered)
        ],
    )


def _same_run() -> Any:
    return and_(
        live_runs.c.project == execution_runs.c.project,
        live_runs.c.run_id == execution_runs.c.run_key,
    )


# --- whoever works on it


def claim(
    database: Database,
    owner: str,
    *,
    able: bool,
    now: float | None = None,
    is_dead: Callable[[str], bool] = lambda _owner: False,
) -> Execution | None:
    """The oldest execution that waits or whose owner is dead, claimed for this one. Who is not
    `able` to run workflows takes only those to be cancelled.

    An owner is dead that has been silent for long, or of whom `is_dead` knows it.
    """
    at = int(now if now is not None else time.time())
    owners = (
        select(jobs.c.owner)
        .where(
            jobs.c.kind == KIND, jobs.c.state.in_((RUNNING, CANCELLING)), jobs.c.owner.is_not(None)
        )
        .distinct()
    )
    gone = [
        name
        for name in read(database, lambda connection: list(connection.execute(owners).scalars()))
        if is_dead(name)
    ]
    silent = or_(jobs.c.beat < at - STALE_S, jobs.c.owner.in_(gone))
    free = and_(jobs.c.state == CANCELLING, silent)
    if able:
        free = or_(free, jobs.c.state == QUEUED, and_(jobs.c.state == RUNNING, silent))
    oldest = (
        select(jobs.c.id)
        .where(jobs.c.kind == KIND, free)
        .order_by(jobs.c.created_at, jobs.c.id)
        .limit(1)
    )

    def work(connection: Connection) -> Execution | None:
        found = connection.execute(oldest).scalar()
        if found is None:
            return None
        # one that is to be cancelled stays so, whoever takes it up
        state = case((jobs.c.state == CANCELLING, CANCELLING), else_=RUNNING)
        won = connection.execute(
            update(jobs).where(jobs.c.id == found, free).values(state=state, owner=owner, beat=at)
        )
        return (
            _execution(connection.execute(select(*_COLUMNS).where(jobs.c.id == found)).one())
            if won.rowcount == 1
            else None
        )

    if (
        read(database, lambda connection: connection.execute(oldest).scalar()) is None
    ):  # the usual case takes no lock
        return None
    return write(database, work)


def _is_ours(connection: Connection, execution: Execution, owner: str) -> bool:
    """Count a beat; False where the execution is somebody else's by now."""
    ours = update(jobs).where(
        jobs.c.id == execution.id, jobs.c.owner == owner, jobs.c.state.in_((RUNNING, CANCELLING))
    )
    return connection.execute(ours.values(beat=int(time.time()))).rowcount == 1


def beat(database: Database, execution: Execution, owner: str) -> str | None:
    """Say that the owner lives; the state, or None where it is the owner no longer."""

    def work(connection: Connection) -> str | None:
        if not _is_ours(connection, execution, owner):
            return None
        return str(
            connection.execute(select(jobs.c.state).where(jobs.c.id == execution.id)).scalar_one()
        )

    return write(database, work)


def tell(
    database: Database, execution: Execution, owner: str, told: Sequence[Told]
) -> Mapping[str, int] | None:
    """Write down what happened, in one transaction. The number of events of each run that took
    part, or None where the execution is somebody else's.
    """

    def work(connection: Connection) -> Mapping[str, int] | None:
        if not _is_ours(connection, execution, owner):
            return None
        totals: dict[str, int] = {}
        rows: list[dict[str, Any]] = []
        for one in told:
            changes = {
                key: value
                for key, value in (("state", one.state), ("head", one.head), ("digest", one.digest))
                if value is not None
            }
            where = [
                live_runs.c.project == execution.project,
                live_runs.c.run_id == one.key,
                live_runs.c.state.in_(one.of),
            ]
            if one.after is not None:
                where.append(live_runs.c.events == one.after)
            counted = (
                update(live_runs)
                .where(*where)
                .values(events=live_runs.c.events + len(one.events), **changes)
            )
            total: int | None = connection.execute(counted.returning(live_runs.c.events)).scalar()
            if total is not None:
                rows += event_rows(
                    execution.project, one.key, one.events, first=total - len(one.events) + 1
                )
                totals[one.key] = total
        if rows:
            connection.execute(insert(live_events), rows)
        return totals

    return write(database, work)


def finish(
    database: Database, execution: Execution, owner: str, *, state: str, progress: Mapping[str, Any]
) -> bool:
    """The execution is over. False where it is somebody else's by now."""
    ours = update(jobs).where(
        jobs.c.id == execution.id, jobs.c.owner == owner, jobs.c.state.in_((RUNNING, CANCELLING))
    )
    values = {
        "state": state,
        "progress": msgspec.json.encode(dict(progress)),
        "owner": None,
        "beat": int(time.time()),
    }
    return write(database, lambda connection: connection.execute(ours.values(values)).rowcount == 1)


def give_back(database: Database, execution: Execution, owner: str) -> None:
    """The owner ends: whoever comes next goes on at once."""
    ours = (jobs.c.id == execution.id, jobs.c.owner == owner)

    def work(connection: Connection) -> None:
        connection.execute(
            update(jobs).where(*ours, jobs.c.state == RUNNING).values(state=QUEUED, owner=None)
        )
        connection.execute(
            update(jobs).where(*ours, jobs.c.state == CANCELLING).values(beat=0, owner=None)
        )

    write(database, work)


def cancel(database: Database, project: str, execution: str) -> Execution | None:
    """Ask for the end of an execution. One that waits is free for any server to end; one that runs
    is ended by its owner, at its next beat.
    """
    here = (jobs.c.project == project, jobs.c.id == execution, jobs.c.kind == KIND)

    def work(connection: Connection) -> Execution | None:
        connection.execute(
            update(jobs)
            .where(*here, jobs.c.state == QUEUED)
            .values(state=CANCELLING, owner=None, beat=0)
        )
        connection.execute(
            update(jobs).where(*here, jobs.c.state == RUNNING).values(state=CANCELLING)
        )
        row = connection.execute(select(*_COLUMNS).where(*here)).first()
        return None if row is None else _execution(row)

    return write(database, work)


def new(execution: str, project: str, asked: bytes, *, author: str | None) -> Execution:
    """An execution that has not begun."""
    return Execution(execution, project, QUEUED, asked, {"faults": []}, now_text(), author)
