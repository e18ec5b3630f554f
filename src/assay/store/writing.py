"""Appending to a ledger, inside one transaction: look up what is there, number and chain what is
new, insert it, move the head.

Everything here runs under the lock of the project's head, so that the order of `seq` is the order
of commits and a reader with a cursor misses nothing.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Table, bindparam, func, insert, select, update

from assay.errors import InputError
from assay.store import names
from assay.store import tables as t
from assay.store.chain import ChainLink, genesis, next_chain
from assay.store.drafts import (
    DIGEST_BYTES,
    EVIDENCE,
    LINKS_SCHEMA,
    Draft,
    Stored,
    digest_bytes,
    digest_text,
    draft,
)
from assay.store.serving import adding, insert_or_skip

_CHUNK = 400
"""Digests in one query; SQLite takes a thousand and some."""

AT_ONCE = 5000
"""Links of an evaluation that are inserted at once."""
LARGE = 4 * 1024 * 1024
"""Bytes of a body that is written in place."""
EVALUATES = "evaluates"

V = TypeVar("V", bytes, int)


class Known(NamedTuple):
    """A record that is in the ledger."""

    seq: int
    kind: str
    forgotten: bool


class ChainHead(NamedTuple):
    """The newest record of a project."""

    seq: int
    chain: bytes


def append(
    connection: Connection, project: str, drafts: Sequence[Draft], *, now: datetime
) -> list[Stored]:
    """Append what is new, all of it or nothing: a draft that may not be stored raises an error, and
    the caller's transaction is rolled back.
    """
    head = lock_head(connection, project)
    edges = [_edges(one) for one in drafts]
    ends = {end for listed in edges for edge in listed for end in (edge.source, edge.target)}
    known = lookup(connection, project, ends.union(one.digest for one in drafts))
    batch = Batch(project, head, now)
    stored = []
    fresh: list[tuple[Draft, tuple[ChainLink, ...]]] = []
    late: list[ChainLink] = []
    for one, listed in zip(drafts, edges, strict=True):
        found = known.get(one.digest)
        _refuse(one, found)
        if found is None:
            fresh.append((one, listed))
            places = _places(connection, project, one, known)
            known[one.digest] = found = Known(batch.add(one, listed, places), one.kind, False)
            stored.append(Stored(one.name, found.seq, True))
        else:
            late += listed
            stored.append(Stored(one.name, found.seq, False))
    _need(known, ends)
    for one, listed in fresh:
        if one.kind == "grade":
            _check_evidence(one, listed, known)
    if late:
        _add_late(connection, batch, late, known)
    batch.write(connection, known)
    return stored


def _need(known: Mapping[bytes, Known], ends: set[bytes]) -> None:
    missing = ends - known.keys()
    if missing:
        raise InputError(
            "STO-011",
            f"a link leads to {digest_text(min(missing))}, which is not in this project of the"
            " ledger.",
            fix="Store that first.",
        )


def _places(
    connection: Connection, project: str, one: Draft, known: Mapping[bytes, Known]
) -> array[int]:
    """The positions of what an evaluation links to, which all come before it."""
    places: array[int] = array("q")
    targets = _evaluated(one)
    while part := list(islice(targets, _CHUNK)):
        found = lookup(connection, project, part)
        found.update((target, known[target]) for target in part if target in known)
        _need(found, set(part))
        places.extend(found[target].seq for target in part)
    return places


def _evaluated(one: Draft) -> Iterator[bytes]:
    for start in range(0, len(one.evaluates), DIGEST_BYTES):
        yield one.evaluates[start : start + DIGEST_BYTES]


def _refuse(one: Draft, found: Known | None) -> None:
    if one.kind == "tombstone":
        raise InputError("STO-010", "a tombstone is written by `forget` alone.", where=one.name)
    if found is None:
        return
    if found.forgotten:
        raise InputError(
            "STO-009",
            "this record was forgotten, and does not come back.",
            where=one.name,
            fix="`tombstone` says by whom and why.",
        )
    if found.kind != one.kind:
        raise InputError(
            "STO-009",
            f"this record is in the ledger as '{found.kind}', not as '{one.kind}'.",
            where=one.name,
            fix="A record is of one kind.",
        )


def _edges(one: Draft) -> tuple[ChainLink, ...]:
    return tuple(
        ChainLink(
            one.digest if link.source is None else digest_bytes(link.source),
            link.relation,
            digest_bytes(link.target),
        )
        for link in one.links
    )


def _check_evidence(grade: Draft, edges: Iterable[ChainLink], known: dict[bytes, Known]) -> None:
    """Refuse a grade without its evidence: it couldn't be replayed."""
    rests = [
        known[edge.target]
        for edge in edges
        if edge.source == grade.digest and edge.relation == "graded_from"
    ]
    if not any(found.kind in EVIDENCE and not found.forgotten for found in rests):
        raise InputError(
            "STO-011",
            "a grade is stored only together with its evidence.",
            where=grade.name,
            fix="Link it to its scorecard or run with graded_from.",
        )


def _add_late(
    connection: Connection, batch: Batch, edges: list[ChainLink], known: Mapping[bytes, Known]
) -> None:
    """Links of records that were there before come with a separate record, so that the chain
    covers them too.
    """
    there: set[tuple[Any, ...]] = set()
    c = t.links.c
    for part in parts(sorted({known[edge.source].seq for edge in edges})):
        query = select(c.source_seq, c.relation, c.target_seq).where(
            c.project == batch.project, c.source_seq.in_(part)
        )
        there.update(map(tuple, connection.execute(query)))
    new = [edge for edge in dict.fromkeys(edges) if _placed(edge, known) not in there]
    if new:
        listed = [
            {
                "source": digest_text(edge.source),
                "relation": edge.relation,
                "target": digest_text(edge.target),
            }
            for edge in new
        ]
        batch.add(draft({"schema": LINKS_SCHEMA, "links": listed}, kind="event"), new)


def _placed(edge: ChainLink, known: Mapping[bytes, Known]) -> tuple[int, str, int]:
    """A link as the table stores it: by the positions of its ends."""
    return known[edge.source].seq, edge.relation, known[edge.target].seq


class Batch:
    """The rows of one transaction."""

    def __init__(self, project: str, head: ChainHead, now: datetime) -> None:
        self.project = project
        self.seq, self.chain = head
        self.began = head.seq
        self.at = f"{now:%Y-%m-%dT%H:%M:%S.%f}Z"
        self.counts: Counter[str] = Counter()
        self.names = names.NameTally()
        self.edges: list[tuple[int, tuple[ChainLink, ...]]] = []
        """Links by the record that brings them. They become rows at the end: one may lead to a
        record that comes later and has no position yet.
        """
        self.evaluated: list[tuple[int, int, array[int]]] = []
        """Links of evaluations: the evaluation, its links before these, and what they lead to."""
        self.rows: dict[Table, list[dict[str, Any]]] = {
            table: [] for table in (t.records, t.links, *t.SIDES)
        }

    def add(
        self, one: Draft, edges: Iterable[ChainLink], evaluated: array[int] | None = None
    ) -> int:
        """Number and chain a record, and return its position. `evaluated` are the positions of what
        an evaluation links to.
        """
        facets = one.facets
        edges = tuple(dict.fromkeys(edges))
        self.seq = seq = self.seq + 1
        evaluates = (ChainLink(one.digest, EVALUATES, target) for target in _evaluated(one))
        self.chain = next_chain(
            self.chain,
            one.digest,
            one.kind,
            facets.schema,
            self.at,
            one.author,
            one.reason,
            chain(edges, evaluates),
        )
        self.counts[one.kind] += 1
        if one.kind == "run":
            self.names.add(facets.columns, seq)
        if edges:
            self.edges.append((seq, edges))
        if evaluated:
            self.evaluated.append((seq, len(edges), evaluated))
        self.rows[t.records].append(
            {
                "project": self.project,
                "seq": seq,
                "digest": one.digest,
                "chain": self.chain,
                "kind": one.kind,
                "schema": facets.schema,
                "created_at": self.at,
                "author": one.author,
                "reason": one.reason,
                **dict(zip(t.FACETS, facets.columns, strict=True)),
                "body": one.body,
            }
        )
        for name, values in facets.side_rows(one.kind).items():
            if values:
                self._add_rows(t.metadata.tables[name], seq, values)
        return seq

    def _add_rows(
        self, table: Table, seq: int, rows: Sequence[tuple[Any, ...]], *, after: int = 0
    ) -> None:
        names = table.columns.keys()
        self.rows[table] += [
            dict(zip(names, (self.project, seq, place, *row), strict=True))
            for place, row in enumerate(rows, after)
        ]

    def write(self, connection: Connection, known: Mapping[bytes, Known]) -> None:
        """Insert all of it, and move the head."""
        if self.seq == self.began:
            return
        for seq, edges in self.edges:
            self._add_rows(t.links, seq, [_placed(edge, known) for edge in edges])
        self._flush(connection)
        for seq, before, places in self.evaluated:
            for start in range(0, len(places), AT_ONCE):
                links = [(seq, EVALUATES, place) for place in places[start : start + AT_ONCE]]
                self._add_rows(t.links, seq, links, after=before + start)
                self._flush(connection)
        self.names.write(connection, self.project)
        counted = [
            {"project": self.project, "kind": kind, "n": n}
            for kind, n in sorted(self.counts.items())
        ]
        connection.execute(adding(connection.dialect.name, t.counts, "n"), counted)
        head = {"of": self.project, "seq": self.seq, "chain": self.chain}
        connection.execute(_MOVE_HEAD, head)

    def _flush(self, connection: Connection) -> None:
        for table, rows in self.rows.items():
            if rows:
                insert_rows(connection, table, rows)
                rows.clear()


# Built once: to build a statement takes longer than SQLite takes to run it.
_c, _h = t.records.c, t.heads.c
_HEAD = select(_h.seq, _h.chain).where(_h.project == bindparam("project")).with_for_update()
_MOVE_HEAD = (
    update(t.heads)
    .where(_h.project == bindparam("of"))
    .values(seq=bindparam("seq"), chain=bindparam("chain"))
)
_LOOKUP = select(_c.digest, _c.seq, _c.kind, _c.body.is_(None)).where(
    _c.project == bindparam("project"), _c.digest.in_(bindparam("digests", expanding=True))
)
# A fault ends the transaction in any case. Unless SQLite knows that, it first copies every page, so
# that it could undo this statement alone.
_INSERT = {
    table: insert(table).prefix_with("OR FAIL", dialect="sqlite")
    for table in t.metadata.tables.values()
}


def lock_head(connection: Connection, project: str) -> ChainHead:
    """The head of a project, locked until the transaction ends; created if there is none."""
    row = connection.execute(_HEAD, {"project": project}).first()
    if row is None:
        made = {"project": project, "seq": 0, "chain": genesis(project)}
        connection.execute(insert_or_skip(connection, t.heads), made)
        row = connection.execute(_HEAD, {"project": project}).one()
    return ChainHead(row.seq, bytes(row.chain))


def lookup(connection: Connection, project: str, digests: Iterable[bytes]) -> dict[bytes, Known]:
    """Which of these records exist."""
    found = {}
    for part in parts(sorted(digests)):
        rows = connection.execute(_LOOKUP, {"project": project, "digests": part})
        for digest, seq, kind, forgotten in rows:
            found[bytes(digest)] = Known(seq, kind, bool(forgotten))
    return found


def parts(values: Sequence[V]) -> Iterator[Sequence[V]]:
    """The values in chunks that fit into one query."""
    for start in range(0, len(values), _CHUNK):
        yield values[start : start + _CHUNK]


def insert_rows(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows that are new."""
    large = [row for row in rows if len(row.get("body") or b"") > LARGE]
    if not large or connection.dialect.name != "sqlite":
        connection.execute(_INSERT[table], rows)
        return
    if len(large) < len(rows):
        connection.execute(_INSERT[table], [row for row in rows if row not in large])
    for row in large:  # SQLite would copy it twice on its way into the row
        room = _INSERT[table].values({**row, "body": func.zeroblob(len(row["body"]))})
        place = connection.execute(room).lastrowid
        driver: Any = connection.connection.driver_connection
        with driver.blobopen(table.name, "body", place) as body:
            body.write(row["body"])
