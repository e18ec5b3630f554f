"""The tables of a server next to the ledger: tokens, runs in progress with their events, jobs with
their runs, and spans that wait for their trace.

Nothing here is evidence: these rows are changed and deleted, and their outcome is in `records`.
Every table but `tokens` is kept by project, and every query names one. A change here needs a new
file in `migrations/versions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)
from sqlalchemy.dialects import postgresql, sqlite

from assay.canon import time_text

metadata = MetaData()


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, Text, nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


def _lease() -> list[Column[Any]]:
    """The owner of a row and its last heartbeat: see `queue`."""
    return [_text("owner", nullable=True), _number("beat_ms")]


tokens = Table(
    "tokens",
    metadata,
    _text("id"),
    _text("project"),
    _text("name"),
    _text("scopes"),
    _text("hash"),
    _text("created_at"),
    _text("expires_at", nullable=True),
    _text("revoked_at", nullable=True),
    PrimaryKeyConstraint("id", name="tokens_pk"),
)
"""Who may do what in which project. The secret itself isn't stored, only its SHA-256, which is
enough for 256 random bits.
"""

live_runs = Table(
    "live_runs",
    metadata,
    _text("project"),
    _text("run_id"),
    _text("state"),
    Column("head", LargeBinary, nullable=False),
    _number("events"),
    _text("digest", nullable=True),
    _text("author", nullable=True),
    _text("created_at"),
    *_lease(),
    PrimaryKeyConstraint("project", "run_id", name="live_runs_pk"),
)
"""Runs that are posted while they run. `events` counts their events; a new one takes the
next number.
"""
Index("live_runs_by_state", live_runs.c.state, live_runs.c.project, live_runs.c.created_at)

live_events = Table(
    "live_events",
    metadata,
    _text("project"),
    _text("run_id"),
    _number("position"),
    _text("kind"),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("project", "run_id", "position", name="live_events_pk"),
    sqlite_with_rowid=False,
)

jobs = Table(
    "jobs",
    metadata,
    _text("id"),
    _text("project"),
    _text("state"),
    Column("asked", LargeBinary, nullable=False),
    Column("progress", LargeBinary, nullable=False),
    _text("created_at"),
    _text("author", nullable=True),
    *_lease(),
    PrimaryKeyConstraint("id", name="jobs_pk"),
)
"""Executions: requests to run a workflow on a dataset."""
Index("jobs_by_project", jobs.c.project, jobs.c.created_at)
Index("jobs_by_state", jobs.c.state, jobs.c.beat_ms)

execution_runs = Table(
    "execution_runs",
    metadata,
    _text("execution"),
    _number("place"),
    _text("project"),
    _text("run_key"),
    Column("run_id", LargeBinary, nullable=False),
    Column("sample_id", LargeBinary, nullable=False),
    _number("attempt"),
    PrimaryKeyConstraint("execution", "place", name="execution_runs_pk"),
    sqlite_with_rowid=False,
)
"""The runs of an execution in their order; `live_runs` has the progress of each under its key. Ids
are bytes: a sample may be named with a NUL.
"""


traces = Table(
    "traces",
    metadata,
    _text("project"),
    _text("trace_id"),
    _text("state"),
    _number("spans"),
    _number("late"),
    _number("refused"),
    _number("first_ms"),
    _number("last_ms"),
    _number("root_ms", nullable=True),
    Column("asked", LargeBinary, nullable=False),
    _text("author", nullable=True),
    _text("run_id", nullable=True),
    _text("digest", nullable=True),
    _text("reason", nullable=True),
    *_lease(),
    PrimaryKeyConstraint("project", "trace_id", name="traces_pk"),
)
"""One row for each trace. `late` counts spans that came after its run was built, `refused` those
that could not be read or were too many.
"""
Index("traces_by_state", traces.c.state, traces.c.last_ms)

trace_spans = Table(
    "trace_spans",
    metadata,
    _text("project"),
    _text("trace_id"),
    _text("span_id"),
    _text("mark"),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("project", "trace_id", "span_id", "mark", name="trace_spans_pk"),
    sqlite_with_rowid=False,
)
"""The spans of incomplete traces. An exporter that retries sends the same bytes, and the same bytes
are one row.
"""


def now_text() -> str:
    """Now in UTC, to the millisecond."""
    return time_text(datetime.now(UTC), "milliseconds")


def insert_or_skip(connection: Connection, table: Table) -> Any:
    """An INSERT that leaves out rows whose key is taken."""
    return _insert(connection.dialect.name, table).on_conflict_do_nothing()


def _insert(dialect: str, table: Table) -> Any:
    return (sqlite.insert if dialect == "sqlite" else postgresql.insert)(table)


def insert_new(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Add a row; False if its key is taken."""
    key = next(iter(table.primary_key.columns))
    inserting = insert_or_skip(connection, table).values(row).returning(key)
    return connection.execute(inserting).first() is not None


@cache
def adding(dialect: str, table: Table, *sums: str, replacing: tuple[str, ...] = ()) -> Any:
    """An INSERT that updates a row with the same key: it adds to the columns `sums` and replaces
    the columns `replacing`.
    """
    inserting = _insert(dialect, table)
    changes = {
        **{name: table.c[name] + inserting.excluded[name] for name in sums},
        **{name: inserting.excluded[name] for name in replacing},
    }
    return inserting.on_conflict_do_update(
        index_elements=list(table.primary_key.columns), set_=changes
    )
