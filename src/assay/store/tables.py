"""The tables of a ledger: one schema for SQLite and PostgreSQL.

`records` is the ledger itself; the other tables serve it. Every row belongs to a project, and no
row refers to another project. `seq` counts the records of a project from 1 without a gap, in the
order in which they were committed. A digest is 32 bytes. A body is canonical JSON, byte for byte. A
change here needs a new file in `migrations/versions`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

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


def _text(name: str, *, nullable: bool = True) -> Column[str]:
    return Column(name, Text, nullable=nullable)


def _place(*more: str) -> list[Column[Any]]:
    """The columns that identify the record of a row."""
    return [
        Column("project", Text, nullable=False),
        Column("seq", BigInteger, nullable=False),
        *(Column(name, BigInteger, nullable=False) for name in more),
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
    _text("project", nullable=False),
    _text("kind", nullable=False),
    Column("n", BigInteger, nullable=False),
    PrimaryKeyConstraint("project", "kind", name="counts_pk"),
)

records = Table(
    "records",
    metadata,
    *_place(),
    Column("digest", LargeBinary, nullable=False),
    Column("chain", LargeBinary, nullable=False),
    _text("kind", nullable=False),
    _text("schema"),
    _text("created_at", nullable=False),
    _text("author"),
    _text("reason"),
    *(Column(name, Boolean) if name == "passed" else _text(name) for name in FACETS),
    Column("body", LargeBinary),  # last, so that a search doesn't read past it
    PrimaryKeyConstraint("project", "seq", name="records_pk"),
    UniqueConstraint("project", "digest", name="records_digest"),
)
Index("records_by_kind", records.c.project, records.c.kind, records.c.seq)
Index(
    "records_by_run",
    records.c.project,
    records.c.run_id,
    records.c.seq,
    sqlite_where=records.c.run_id.is_not(None),
    postgresql_where=records.c.run_id.is_not(None),
)
for _name in INDEXED:
    _given = records.c[_name].is_not(None)
    Index(
        f"records_by_{_name}",
        records.c.project,
        records.c.kind,
        records.c[_name],
        records.c.seq,
        sqlite_where=_given,
        postgresql_where=_given,
    )

links = Table(
    "links",
    metadata,
    *_place("position"),  # the record that brought the link
    Column("source_seq", BigInteger, nullable=False),
    _text("relation", nullable=False),
    Column("target_seq", BigInteger, nullable=False),
    PrimaryKeyConstraint("project", "seq", "position", name="links_pk"),
    _of_record("links"),
    _of_record("links", by="source_seq", end="source"),
    _of_record("links", by="target_seq", end="target"),
    sqlite_with_rowid=False,
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
    _text("kind", nullable=False),
    _text("tag", nullable=False),
    PrimaryKeyConstraint("project", "seq", "position", name="tags_pk"),
    _of_record("tags"),
    sqlite_with_rowid=False,
)
Index("tags_by_tag", tags.c.project, tags.c.kind, tags.c.tag, tags.c.seq)
"""What is extracted from a body, row by row, and removed with the body."""

seen = Table(
    "seen",
    metadata,
    _text("project", nullable=False),
    _text("what", nullable=False),
    _text("id", nullable=False),
    _text("version", nullable=False),
    Column("runs", BigInteger, nullable=False),
    Column("newest_seq", BigInteger, nullable=False),
    PrimaryKeyConstraint("project", "what", "id", "version", name="seen_pk"),
    sqlite_with_rowid=False,
)
"""The workflows and datasets that runs name, counted as they arrive: finding them again would mean
reading every run. A version that is not given is ''.
"""

tombstones = Table(
    "tombstones",
    metadata,
    *_place(),  # of the tombstone's own record, which is in the chain like any other
    Column("digest", LargeBinary, nullable=False),
    _text("author", nullable=False),
    _text("reason", nullable=False),
    _text("at", nullable=False),
    PrimaryKeyConstraint("project", "digest", name="tombstones_pk"),
    _of_record("tombstones"),
)
