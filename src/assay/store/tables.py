"""The tables of a ledger and of the server on it, one schema for SQLite and PostgreSQL, and how a
database gets them.

`records` is the ledger itself; the other tables serve it. Every row belongs to a project, and no
row refers to another project. `seq` counts the records of a project from 1 without a gap, in the
order in which they were committed. A digest is 32 bytes. A body is canonical JSON, byte for byte.

Opening a ledger normally only reads the version of the tables; Alembic is loaded only for an
upgrade. A step runs in one transaction, and if two programs open a new ledger at the same time, one
of them creates it. A change here needs a new file in `migrations/versions`; what only the database
needs to know, such as the condition of an index, is there alone.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    column,
    func,
    inspect,
    select,
    table,
)

from assay.canon import time_text
from assay.errors import InputError, UsageError
from assay.store.databases import Database

VERSION_TABLE = "assay_version"
FACETS = (
    "run_id",
    "workflow",
    "workflow_version",
    "family",
    "dataset",
    "dataset_version",
    "sample_id",
    "grade",
    "passed",
    "policy",
    "profile",
    "status",
    "started_at",
)
"""What a record can be found by. All of it is taken from the body (see `facets`), and `verify`
takes it again.
"""
INDEXED = ("workflow", "dataset", "grade", "passed", "status", "started_at")
"""The facets with an index. Every record pays for each index, so the other facets only narrow down
the matches of one of these.
"""

metadata = MetaData()


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, Text, nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


def _place(*more: str) -> list[Column[Any]]:
    """The columns that identify the record of a row."""
    return [
        _text("project"),
        _number("seq"),
        *map(_number, more),
    ]


def _of_record(name: str, *, by: str = "seq", end: str = "record") -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["project", by], ["records.project", "records.seq"], name=f"{name}_{end}"
    )


heads = Table(
    "heads",
    metadata,
    *_place(),
    Column("chain", LargeBinary, nullable=False),
    PrimaryKeyConstraint("project", name="heads_pk"),
)
"""The newest record of each project. Each append locks this row first, so that `seq` and
`chain` have one order.
"""

counts = Table(
    "counts",
    metadata,
    _text("project"),
    _text("kind"),
    _number("n"),
    PrimaryKeyConstraint("project", "kind", name="counts_pk"),
)

records = Table(
    "records",
    metadata,
    *_place(),
    Column("digest", LargeBinary, nullable=False),
    Column("chain", LargeBinary, nullable=False),
    _text("kind"),
    _text("schema", nullable=True),
    _text("created_at"),
    _text("author", nullable=True),
    _text("reason", nullable=True),
    *(Column(name, Boolean) if name == "passed" else _text(name, nullable=True) for name in FACETS),
    Column("body", LargeBinary),  # last, so that a search doesn't read past it
    PrimaryKeyConstraint("project", "seq", name="records_pk"),
    UniqueConstraint("project", "digest", name="records_digest"),
)
Index("records_by_kind", records.c.project, records.c.kind, records.c.seq)
Index("records_by_run", records.c.project, records.c.run_id, records.c.seq)
for _name in INDEXED:
    _columns = (records.c.project, records.c.kind, records.c[_name], records.c.seq)
    Index(f"records_by_{_name}", *_columns)

links = Table(
    "links",
    metadata,
    *_place("position"),  # the record that brought the link
    _number("source_seq"),
    _text("relation"),
    _number("target_seq"),
    PrimaryKeyConstraint("project", "seq", "position", name="links_pk"),
    _of_record("links"),
    _of_record("links", by="source_seq", end="source"),
    _of_record("links", by="target_seq", end="target"),
)
Index("links_by_source", links.c.project, links.c.source_seq)
Index("links_by_target", links.c.project, links.c.target_seq)
"""A link has the places of its two records, not their digests: digests are random, so every link
would change another page of each index. The chain covers the digests, so `verify` and the readers
of a link take them from `records`.
"""

sources, targets = records.alias("sources"), records.alias("targets")
linked = links.join(
    sources, (sources.c.project == links.c.project) & (sources.c.seq == links.c.source_seq)
).join(targets, (targets.c.project == links.c.project) & (targets.c.seq == links.c.target_seq))
"""Links with the records at their two ends."""

tags = Table(
    "tags",
    metadata,
    *_place("position"),
    _text("kind"),
    _text("tag"),
    PrimaryKeyConstraint("project", "seq", "position", name="tags_pk"),
    _of_record("tags"),
)
Index("tags_by_tag", tags.c.project, tags.c.kind, tags.c.tag, tags.c.seq)
"""What is extracted from a body, row by row, and removed with the body."""

seen = Table(
    "seen",
    metadata,
    _text("project"),
    _text("what"),
    _text("id"),
    _text("version"),
    _number("runs"),
    _number("newest_seq"),
    PrimaryKeyConstraint("project", "what", "id", "version", name="seen_pk"),
)
"""The workflows and datasets that runs name, counted as they arrive: finding them again would mean
reading every run. A version that is not given is ''.
"""

tombstones = Table(
    "tombstones",
    metadata,
    *_place(),  # of the tombstone's own record, which is in the chain like any other
    Column("digest", LargeBinary, nullable=False),
    _text("author"),
    _text("reason"),
    _text("at"),
    PrimaryKeyConstraint("project", "digest", name="tombstones_pk"),
    _of_record("tombstones"),
)

# --- of a server: tokens, runs in progress with their events, jobs with their runs, and spans that
# wait for their trace. Nothing here is evidence: these rows are changed and deleted, and their
# outcome is in `records`. Every table but `tokens` is kept by project, and every query names one.


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
)
"""The spans of incomplete traces. An exporter that retries sends the same bytes, and the same bytes
are one row.
"""


def now_text() -> str:
    """Now in UTC, to the millisecond."""
    return time_text(datetime.now(UTC), "milliseconds")


# --- versions

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "migrations")
VERSIONS = tuple(
    sorted(
        name.partition("_")[0]
        for name in os.listdir(os.path.join(_FOLDER, "versions"))
        if re.fullmatch(r"v\d{4}_\w+\.py", name)
    )
)
"""Every version of the tables, the newest last; each is a file in `migrations/versions`."""
_LOCK = 4_151_541_977_218  # any number that no other program uses for an advisory lock


def ensure(database: Database, *, read_only: bool = False) -> None:
    """Create or upgrade the tables if necessary. A database of a newer version of Assay, or of
    another program, is refused.
    """
    if database.read(lambda connection: _is_newest(connection, database.where, read_only)):
        return

    def work(connection: Connection) -> None:
        _lock(connection)
        if not _is_newest(connection, database.where, read_only):
            run_alembic(connection)

    database.write(work)


def current(connection: Connection) -> str | None:
    """The version of the tables; None if Assay has no tables."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(
        select(column("version_num")).select_from(table(VERSION_TABLE))
    ).scalar()


def _is_newest(connection: Connection, where: str, read_only: bool) -> bool:
    version = current(connection)
    if version == VERSIONS[-1]:
        return True
    if version is not None and version not in VERSIONS:
        raise UsageError(
            "STO-004",
            f"this ledger has tables of version {version}; this version of Assay supports up to"
            f" {VERSIONS[-1]}.",
            where=where,
            fix="Install a newer version of Assay.",
        )
    if version is None:
        others = set(inspect(connection).get_table_names()) - {VERSION_TABLE}
        taken = others & set(metadata.tables) if connection.dialect.name == "postgresql" else others
        if taken:
            raise InputError(
                "STO-003",
                f"this database belongs to another program: it has a table '{min(taken)}'.",
                where=where,
                fix="Give the ledger its own database.",
            )
    if read_only:
        raise InputError(
            "STO-004",
            "there is no ledger in this database."
            if version is None
            else f"this ledger has tables of the older version {version}.",
            where=where,
            fix="Run a command that stores something: it creates or upgrades the ledger.",
        )
    return False


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))


def run_alembic(connection: Connection) -> None:
    """Upgrade to the newest version, inside a transaction."""
    from alembic import command  # slow to load, and needed only for an upgrade
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _FOLDER.replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
