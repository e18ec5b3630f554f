"""Rows exactly as a database has them, in order, for `verify`.

Types are not trusted: SQLite stores values of any type that another program writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, Table, select, type_coerce
from sqlalchemy.types import NullType

from assay.store import tables as t

BATCH = 2000
END = float("inf")
_STAMP = ("kind", "schema", "created_at", "author", "reason")
COLUMNS = ("seq", "digest", "chain", "body", *_STAMP, *t.FACETS)


class StoredRow(NamedTuple):
    """One row of `records`, as it comes from the database."""

    seq: Any
    digest: bytes
    chain: bytes
    body: Any
    stamp: tuple[Any, Any, Any, Any, Any]
    """Kind, schema, moment, author and reason: what the chain covers besides the digest."""
    facets: tuple[Any, ...]

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> StoredRow:
        """A row of `COLUMNS`."""
        seq, digest, chain, body = row[:4]
        kind, schema, created_at, author, reason = row[4:9]
        stamp = (kind, schema, created_at, author, reason)
        return cls(seq, to_bytes(digest), to_bytes(chain), body, stamp, row[9:])

    @property
    def kind(self) -> Any:
        """The kind of the record."""
        return self.stamp[0]


def raw_rows(
    connection: Connection,
    table: Table,
    project: str,
    names: tuple[str, ...],
    *,
    order: tuple[str, ...] = ("seq",),
) -> Iterator[tuple[Any, ...]]:
    """Raw rows in order, in constant memory."""
    query = (
        select(*(type_coerce(table.c[name], NullType()) for name in names))
        .where(table.c.project == project)
        .order_by(*(table.c[name] for name in order))
    )
    yield from stream(connection, query)


def _links(connection: Connection, project: str) -> Iterator[tuple[Any, ...]]:
    """The links in order, with the digests at their ends; None for an end that is not a record."""
    c, s, e = t.links.c, t.sources.c, t.targets.c
    with_source = t.links.outerjoin(t.sources, (s.project == c.project) & (s.seq == c.source_seq))
    with_both = with_source.outerjoin(t.targets, (e.project == c.project) & (e.seq == c.target_seq))
    columns = (c.seq, s.digest, c.relation, e.digest, c.source_seq, c.target_seq)
    query = (
        select(*(type_coerce(column, NullType()) for column in columns))
        .select_from(with_both)
        .where(c.project == project)
    )
    yield from stream(connection, query.order_by(c.seq, c.position))


def stream(connection: Connection, query: Select[*tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The rows of a query, in constant memory."""
    for batch in connection.execute(query, execution_options={"yield_per": BATCH}).partitions():
        yield from map(tuple, batch)


class SideRows:
    """The rows of a side table, record by record."""

    def __init__(self, connection: Connection, table: Table, project: str) -> None:
        names = tuple(
            column.name for column in table.columns if column.name not in ("project", "seq")
        )
        self.rows = (
            _links(connection, project)
            if table is t.links
            else raw_rows(connection, table, project, ("seq", *names), order=("seq", "position"))
        )
        self.seq: float = 0
        """The record to which the next row belongs; infinity if there are no more."""
        self._step()

    def _step(self) -> None:
        self.row = next(self.rows, None)
        self.seq = END if self.row is None else self.row[0]

    def before(self, seq: float) -> list[int]:
        """The positions of rows that come before a record and belong to none."""
        strays = []
        while self.seq < seq:
            strays.append(int(self.seq))
            self._step()
        return strays

    def at(self, seq: int) -> list[tuple[Any, ...]]:
        """The rows of a record."""
        rows = []
        while self.seq == seq and self.row is not None:
            rows.append(self.row[1:])
            self._step()
        return rows


def to_bytes(value: Any) -> bytes:
    """A value as bytes, whatever it is."""
    return (
        b""
        if value is None
        else bytes(value)
        if isinstance(value, bytes | memoryview)
        else str(value).encode()
    )
