"""The tables of a server beside the ledger: tokens, idempotency keys, runs in progress with their
events, jobs, and the runs of executions.

Nothing here is evidence. These rows are changed and deleted; what they lead to is in `records`.
Every table but `tokens` is kept by project, and every query names one. What is changed here needs a
new file in `migrations/versions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

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

from assay.store.databases import Database

R = TypeVar("R")
metadata = MetaData()


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, Text, nullable=nullable)


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
"""Who may do what in which project. The secret itself is nowhere: only its SHA-256, which is enough
for 256 random bits.
"""

answers = Table(
    "answers",
    metadata,
    _text("project"),
    _text("key"),
    _text("request"),
    Column("status", BigInteger, nullable=False),
    _text("location", nullable=True),
    Column("body", LargeBinary, nullable=False),
    _text("created_at"),
    PrimaryKeyConstraint("project", "key", name="answers_pk"),
)
"""What was answered to a request that came with an idempotency key."""

live_runs = Table(
    "live_runs",
    metadata,
    _text("project"),
    _text("run_id"),
    _text("state"),
    Column("head", LargeBinary, nullable=False),
    Column("events", BigInteger, nullable=False),
    _text("digest", nullable=True),
    _text("author", nullable=True),
    _text("created_at"),
    PrimaryKeyConstraint("project", "run_id", name="live_runs_pk"),
)
"""Runs that are posted while they run. `events` counts their events; whoever adds one takes the
next number.
"""
Index("live_runs_by_state", live_runs.c.state, live_runs.c.project, live_runs.c.created_at)

live_events = Table(
    "live_events",
    metadata,
    _text("project"),
    _text("run_id"),
    Column("position", BigInteger, nullable=False),
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
    _text("owner", nullable=True),
    Column("beat", BigInteger, nullable=False),
    _text("created_at"),
    _text("author", nullable=True),
    _text("kind"),
    PrimaryKeyConstraint("id", name="jobs_pk"),
)
"""What is done in the background: `again` scores or grades again, `execution` runs a workflow on a
dataset.
"""
Index("jobs_by_project", jobs.c.project, jobs.c.created_at)
Index("jobs_by_state", jobs.c.state, jobs.c.beat)

execution_runs = Table(
    "execution_runs",
    metadata,
    _text("execution"),
    Column("place", BigInteger, nullable=False),
    _text("project"),
    _text("run_key"),
    Column("run_id", LargeBinary, nullable=False),
    Column("sample_id", LargeBinary, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    PrimaryKeyConstraint("execution", "place", name="execution_runs_pk"),
    sqlite_with_rowid=False,
)
"""The runs of an execution in their order; how far each is stands in `live_runs` under its key. Ids
are bytes: a sample may be named with a NUL.
"""


def now_text() -> str:
    """The moment it is, in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read(database: Database, work: Callable[[Connection], R]) -> R:
    """Do something that only reads."""

    def once() -> R:
        with database.reading() as connection, connection.begin():
            return work(connection)

    return database.patiently(once)


def write(database: Database, work: Callable[[Connection], R]) -> R:
    """Do something in one transaction; again where what stopped it may pass."""

    def once() -> R:
        with database.writing() as connection, connection.begin():
            return work(connection)

    return database.patiently(once)


def insert_new(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Add a row; False where one of its key is there already."""
    key = next(iter(table.primary_key.columns))
    if connection.dialect.name == "sqlite":
        return (
            connection.execute(
                sqlite.insert(table).values(row).on_conflict_do_nothing().returning(key)
            ).first()
            is not None
        )
    return (
        connection.execute(
            postgresql.insert(table).values(row).on_conflict_do_nothing().returning(key)
        ).first()
        is not None
    )
