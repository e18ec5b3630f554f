"""Spans that wait until their trace is complete. They become a run in the ledger; these rows aren't
evidence.

A trace collects spans until a server claims it. A new span that arrives later opens it again, as
long as its other spans are kept: what another service reports last may be the error. Claiming,
adding and closing are single transactions that name the state they start from, so that of several
servers one builds a run, and a server that dies leaves a trace that the next one claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, case, delete, func, or_, select, update

from assay.store import queue
from assay.store.databases import Database, insert_new, insert_or_skip
from assay.store.tables import trace_spans, traces

GATHERING, BUILDING, DONE, FAILED, EMPTY = "gathering", "building", "done", "failed", "empty"
MAX_OPEN = 100_000
"""How many traces of a project may be incomplete at once."""


class TraceSpans(NamedTuple):
    """The spans of one request that belong to one trace."""

    spans: Mapping[tuple[str, str], bytes]
    """Their bodies, by span id and mark."""
    has_root: bool
    refused: int


class Due(NamedTuple):
    """A trace whose run is to be built."""

    project: str
    trace_id: str
    asked: bytes
    author: str | None
    refused: int
    digest: str | None
    """The run that was made of it before."""


class Gathered(NamedTuple):
    """The outcome of a trace."""

    trace_id: str
    state: str
    spans: int
    late: int
    refused: int
    run_id: str | None
    digest: str | None
    reason: str | None


class SpansTaken(NamedTuple):
    """The outcome for the spans of one request."""

    late: int
    """Those that came when the other spans of their trace were no longer kept."""
    too_many: int
    closed: bool = False
    """Whether nothing was kept, because the project has too many incomplete traces."""


def keep(
    database: Database,
    project: str,
    batches: Mapping[str, TraceSpans],
    *,
    asked: bytes,
    author: str | None,
    now_ms: int,
    limit: int,
    max_open: int = MAX_OPEN,
) -> SpansTaken:
    """Store the spans of a request; when this returns, they are on disk. `limit` is how many one
    trace may have.
    """

    def work(connection: Connection) -> SpansTaken:
        opened = (
            select(traces.c.trace_id)
            .where(traces.c.project == project, traces.c.state == GATHERING)
            .limit(max_open)
            .subquery()
        )
        if connection.execute(select(func.count()).select_from(opened)).scalar_one() >= max_open:
            return SpansTaken(0, 0, True)
        late = too_many = 0
        for trace_id in sorted(batches):  # in order, so that two servers never deadlock
            taken = _keep(
                connection,
                project,
                trace_id,
                batches[trace_id],
                asked=asked,
                author=author,
                now_ms=now_ms,
                limit=limit,
            )
            late, too_many = late + taken.late, too_many + taken.too_many
        return SpansTaken(late, too_many)

    return database.write(work)


def _keep(
    connection: Connection,
    project: str,
    trace_id: str,
    batch: TraceSpans,
    *,
    asked: bytes,
    author: str | None,
    now_ms: int,
    limit: int,
) -> SpansTaken:
    row = {
        "project": project,
        "trace_id": trace_id,
        "state": GATHERING,
        "spans": 0,
        "late": 0,
        "refused": 0,
        "first_ms": now_ms,
        "last_ms": now_ms,
    }
    insert_new(
        connection, traces, {**row, "root_ms": None, "beat_ms": 0, "asked": asked, "author": author}
    )
    here = and_(traces.c.project == project, traces.c.trace_id == trace_id)
    # the update comes first: it takes the lock under which spans are counted
    refusing = update(traces).where(here).values(refused=traces.c.refused + batch.refused)
    state, before = connection.execute(refusing.returning(traces.c.state, traces.c.spans)).one()
    new = [
        {"project": project, "trace_id": trace_id, "span_id": span_id, "mark": mark, "body": body}
        for (span_id, mark), body in batch.spans.items()
    ]
    known = (
        _known(connection, project, trace_id, {row["span_id"] for row in new}) if before else set()
    )
    new = [row for row in new if (row["span_id"], row["mark"]) not in known]
    # the sender of the root names the run, not the sender of the first span
    changed: dict[str, Any] = (
        {
            name: case((traces.c.root_ms.is_(None), value), else_=traces.c[name])
            for name, value in (("root_ms", now_ms), ("asked", asked))
        }
        if batch.has_root
        else {}
    )
    if state != GATHERING:
        if not new and not batch.refused:
            return SpansTaken(0, 0)  # an exporter that tries again
        late = {"late": traces.c.late + len(new)}
        # of a trace that had no run nothing is kept: what follows makes a broken run
        if before and state != EMPTY and not _has_spans(connection, project, trace_id):
            connection.execute(update(traces).where(here).values(late))
            return SpansTaken(len(new), 0)
        root = now_ms if batch.has_root else case((traces.c.root_ms.is_not(None), now_ms))
        changed |= {**late, "state": GATHERING, "first_ms": now_ms, "root_ms": root}
    connection.execute(update(traces).where(here).values(last_ms=now_ms, **changed))
    kept, left = new[: max(0, limit - before)], len(new[max(0, limit - before) :])
    if kept:
        connection.execute(insert_or_skip(connection, trace_spans), kept)
    connection.execute(
        update(traces)
        .where(here)
        .values(spans=traces.c.spans + len(kept), refused=traces.c.refused + left)
    )
    return SpansTaken(0, left)


def _has_spans(connection: Connection, project: str, trace_id: str) -> bool:
    table = trace_spans.c
    query = select(table.span_id).where(table.project == project, table.trace_id == trace_id)
    return connection.execute(query.limit(1)).first() is not None


def _known(
    connection: Connection, project: str, trace_id: str, span_ids: Iterable[Any]
) -> set[tuple[str, str]]:
    """The spans among these that are already stored, each with its mark."""
    table, wanted = trace_spans.c, sorted(span_ids)
    known: set[tuple[str, str]] = set()
    for start in range(0, len(wanted), 500):
        part = wanted[start : start + 500]
        query = select(table.span_id, table.mark).where(
            table.project == project, table.trace_id == trace_id, table.span_id.in_(part)
        )
        known.update((row[0], row[1]) for row in connection.execute(query))
    return known


def claim(
    database: Database,
    owner: str,
    *,
    grace_ms: int,
    limit_ms: int,
    stale_ms: int,
    at_ms: int | None = None,
    is_dead: Callable[[str], bool] = lambda _owner: False,
) -> Due | None:
    """A trace that is due: its root arrived and nothing has followed for a while, or it has waited
    for its root too long, or the server that built it died.
    """
    c = traces.c
    at = queue.now_ms() if at_ms is None else at_ms
    complete = and_(
        c.root_ms.is_not(None), or_(c.last_ms <= at - grace_ms, c.root_ms <= at - 10 * grace_ms)
    )
    waited = or_(c.last_ms <= at - limit_ms, c.first_ms <= at - 10 * limit_ms)
    row = queue.claim(
        database,
        traces,
        owner,
        waiting=and_(c.state == GATHERING, or_(complete, waited)),
        held=c.state == BUILDING,
        state=BUILDING,
        oldest_first=c.last_ms,
        stale_ms=stale_ms,
        at_ms=at,
        is_dead=is_dead,
    )
    if row is None:
        return None
    asked = bytes(row.asked)
    return Due(row.project, row.trace_id, asked, row.author, row.refused, row.digest)


def bodies(database: Database, project: str, trace_id: str) -> list[bytes]:
    """The spans of a trace."""
    table = trace_spans.c
    query = (
        select(table.body)
        .where(table.project == project, table.trace_id == trace_id)
        .order_by(table.span_id, table.mark)
    )
    return database.read(lambda connection: [bytes(row[0]) for row in connection.execute(query)])


def close(
    database: Database,
    project: str,
    trace_id: str,
    *,
    state: str,
    run_id: str | None = None,
    digest: str | None = None,
    reason: str | None = None,
) -> None:
    """Record the outcome of a trace; of one that got a span since it was claimed, only its run. Its
    spans are deleted if there is no run in it; else they stay for a while, for those that come late
    and for inspection.
    """
    here = and_(traces.c.project == project, traces.c.trace_id == trace_id)

    def work(connection: Connection) -> None:
        closed = connection.execute(
            update(traces)
            .where(here, traces.c.state == BUILDING)
            .values(state=state, run_id=run_id, digest=digest, reason=reason)
        ).rowcount
        if not closed and digest is not None:
            # a span came meanwhile: what is built next replaces this run
            connection.execute(
                update(traces).where(here, traces.c.state == GATHERING).values(digest=digest)
            )
        if closed and state == EMPTY:
            connection.execute(
                delete(trace_spans).where(
                    trace_spans.c.project == project, trace_spans.c.trace_id == trace_id
                )
            )

    database.write(work)


def forget(
    database: Database, *, before_ms: int, found_at_once: int = 10_000, removed_at_once: int = 200
) -> int:
    """Remove the spans of closed traces whose last span is older than a moment, and return how many
    there were. The outcome of each trace stays. Finding them reads every closed trace, which takes
    seconds where there are millions; a removal holds up other writers and is therefore small.
    """
    held = (
        select(trace_spans.c.span_id)
        .where(
            trace_spans.c.project == traces.c.project, trace_spans.c.trace_id == traces.c.trace_id
        )
        .exists()
    )
    query = (
        select(traces.c.project, traces.c.trace_id)
        .where(traces.c.state.in_((DONE, FAILED)), traces.c.last_ms < before_ms, held)
        .limit(found_at_once)
    )
    gone = 0
    while rows := database.read(lambda connection: connection.execute(query).all()):
        here = [
            and_(trace_spans.c.project == project, trace_spans.c.trace_id == trace_id)
            for project, trace_id in rows
        ]
        for start in range(0, len(here), removed_at_once):
            of = or_(*here[start : start + removed_at_once])
            gone += database.write(partial(_delete, of))
    return gone


def _delete(of: ColumnElement[bool], connection: Connection) -> int:
    return connection.execute(delete(trace_spans).where(of)).rowcount


def listed(database: Database, project: str, *, state: str | None, limit: int) -> list[Gathered]:
    """The traces of a project, the newest first."""
    columns = [traces.c[name] for name in Gathered._fields]
    query = select(*columns).where(
        traces.c.project == project, *(() if state is None else (traces.c.state == state,))
    )
    ordered = query.order_by(traces.c.last_ms.desc(), traces.c.trace_id).limit(limit)
    return database.read(lambda connection: [Gathered(*row) for row in connection.execute(ordered)])
