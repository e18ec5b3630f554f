"""Changes a ledger, each time in one transaction. `append` looks up what exists, numbers and chains
what is new, inserts it, and moves the head; `forget` is the only way to remove something.

Everything here runs under the lock of the project's head, so that the order of `seq` is the order
of commits and a reader with a cursor misses nothing.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from hashlib import sha256
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import (
    Connection,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from assay.errors import InputError
from assay.store import tables as t
from assay.store.databases import adding, insert_or_skip
from assay.store.drafts import (
    DIGEST_BYTES,
    EVIDENCE,
    LINKS_SCHEMA,
    TOMBSTONE_SCHEMA,
    Draft,
    Stored,
    Tombstone,
    digest_bytes,
    digest_text,
    draft,
)

_CHUNK = 400
"""Digests in one query; SQLite allows about a thousand."""

AT_ONCE = 5000
"""How many links of an evaluation are inserted at once."""
LARGE = 4 * 1024 * 1024
"""A body of more bytes is written in place."""
EVALUATES = "evaluates"

V = TypeVar("V", bytes, int)
Row = tuple[Any, ...]


class Known(NamedTuple):
    """A record that is in the ledger."""

    seq: int
    kind: str
    forgotten: bool


class ChainHead(NamedTuple):
    """The newest record of a project."""

    seq: int
    chain: bytes

    @classmethod
    def of(cls, project: str, row: Any) -> ChainHead:
        """The head in a row. Another program may have written something else there."""
        seq, chain = row
        if type(seq) is not int or not isinstance(chain, bytes | memoryview):
            raise InputError(
                "STO-007",
                f"the head of the project '{project}' was overwritten: not a position and a chain.",
                fix="`assay ledger verify` lists what was changed.",
            )
        return cls(seq, bytes(chain))


def append(
    connection: Connection, project: str, drafts: Sequence[Draft], *, now: datetime
) -> list[Stored]:
    """Append the new records, all or none: a draft that may not be stored raises an error, which
    rolls back the caller's transaction.
    """
    head = lock_head(connection, project)
    edges = [_edges(record) for record in drafts]
    ends = {end for listed in edges for edge in listed for end in (edge.source, edge.target)}
    known = lookup(connection, project, ends.union(record.digest for record in drafts))
    batch = Batch(project, head, now)
    stored = []
    fresh: list[tuple[Draft, tuple[ChainLink, ...]]] = []
    late: list[ChainLink] = []
    for record, listed in zip(drafts, edges, strict=True):
        known_record = known.get(record.digest)
        _refuse(record, known_record)
        if known_record is None:
            fresh.append((record, listed))
            places = _places(connection, project, record, known) if record.evaluates else None
            known[record.digest] = known_record = Known(
                batch.add(record, listed, places), record.kind, False
            )
            stored.append(Stored(record.name, known_record.seq, True))
        else:
            late += listed
            stored.append(Stored(record.name, known_record.seq, False))
    _need(known, ends)
    for record, listed in fresh:
        if record.kind == "grade":
            _check_evidence(record, listed, known)
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
    connection: Connection, project: str, evaluation: Draft, known: Mapping[bytes, Known]
) -> array[int]:
    """The positions of what an evaluation links to, which all come before it."""
    places: array[int] = array("q")
    targets = _evaluated(evaluation)
    while part := list(islice(targets, _CHUNK)):
        targets_known = lookup(connection, project, part)
        targets_known.update((target, known[target]) for target in part if target in known)
        _need(targets_known, set(part))
        places.extend(targets_known[target].seq for target in part)
    return places


def _evaluated(evaluation: Draft) -> Iterator[bytes]:
    for start in range(0, len(evaluation.evaluates), DIGEST_BYTES):
        yield evaluation.evaluates[start : start + DIGEST_BYTES]


def _refuse(record: Draft, stored: Known | None) -> None:
    if record.kind == "tombstone":
        raise InputError("STO-010", "a tombstone is written by `forget` alone.", where=record.name)
    if stored is None:
        return
    if stored.forgotten:
        raise InputError(
            "STO-009",
            "this record was forgotten and can't be stored again.",
            where=record.name,
            fix="Its tombstone shows by whom and why.",
        )
    if stored.kind != record.kind:
        raise InputError(
            "STO-009",
            f"this record is in the ledger as '{stored.kind}', not as '{record.kind}'.",
            where=record.name,
            fix="A record is of one kind.",
        )


def _edges(record: Draft) -> tuple[ChainLink, ...]:
    return tuple(
        ChainLink(
            record.digest if link.source is None else digest_bytes(link.source),
            link.relation,
            digest_bytes(link.target),
        )
        for link in record.links
    )


def _check_evidence(grade: Draft, edges: Iterable[ChainLink], known: dict[bytes, Known]) -> None:
    """Refuse a grade without its evidence: it couldn't be replayed."""
    rests = [
        known[edge.target]
        for edge in edges
        if edge.source == grade.digest and edge.relation == "graded_from"
    ]
    if not any(evidence.kind in EVIDENCE and not evidence.forgotten for evidence in rests):
        raise InputError(
            "STO-011",
            "a grade is stored only together with its evidence.",
            where=grade.name,
            fix="Link it to its scorecard or run with graded_from.",
        )


def _add_late(
    connection: Connection, batch: Batch, edges: list[ChainLink], known: Mapping[bytes, Known]
) -> None:
    """Add a record for new links of records that already existed, so that the chain covers these
    links too.
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
        self.names = NameTally()
        self.edges: list[tuple[int, tuple[ChainLink, ...]]] = []
        """Links by the record that brings them. They become rows at the end: a link may lead to a
        later record, which has no position yet.
        """
        self.evaluated: list[tuple[int, int, array[int]]] = []
        """Links of evaluations: the evaluation, the number of its other links, and the positions of
        the targets.
        """
        self.rows: dict[Table, list[Row]] = {t.records: [], t.links: [], t.tags: []}

    def add(
        self, record: Draft, edges: Iterable[ChainLink], evaluated: array[int] | None = None
    ) -> int:
        """Number and chain a record, and return its position. `evaluated` are the positions of what
        an evaluation links to.
        """
        facets = record.facets
        edges = tuple(dict.fromkeys(edges))
        self.seq = seq = self.seq + 1
        evaluates = (ChainLink(record.digest, EVALUATES, target) for target in _evaluated(record))
        self.chain = next_chain(
            self.chain,
            record.digest,
            record.kind,
            facets.schema,
            self.at,
            record.author,
            record.reason,
            chain(edges, evaluates),
        )
        self.counts[record.kind] += 1
        if record.kind == "run":
            self.names.add(facets.columns, seq)
        if edges:
            self.edges.append((seq, edges))
        if evaluated:
            self.evaluated.append((seq, len(edges), evaluated))
        self.rows[t.records].append(
            (
                self.project,
                seq,
                record.digest,
                self.chain,
                record.kind,
                facets.schema,
                self.at,
                record.author,
                record.reason,
                *facets.columns,
                record.body,
            )
        )
        if facets.tags:
            self._add_rows(t.tags, seq, [(record.kind, tag) for tag in facets.tags])
        return seq

    def _add_rows(self, table: Table, seq: int, rows: Sequence[Row], *, after: int = 0) -> None:
        self.rows[table] += [
            (self.project, seq, place, *row) for place, row in enumerate(rows, after)
        ]

    def write(self, connection: Connection, known: Mapping[bytes, Known]) -> None:
        """Insert the rows, and move the head."""
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


# Built once: building a statement takes longer than SQLite takes to run it.
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
# An error ends the transaction in any case. Without OR FAIL, SQLite first copies every page, to be
# able to undo this statement alone.
_INSERT = {
    table: insert(table).prefix_with("OR FAIL", dialect="sqlite")
    for table in t.metadata.tables.values()
}


def lock_head(connection: Connection, project: str) -> ChainHead:
    """The head of a project, locked until the transaction ends; created if there is none."""
    row = connection.execute(_HEAD, {"project": project}).first()
    if row is None:
        head = {"project": project, "seq": 0, "chain": genesis(project)}
        connection.execute(insert_or_skip(connection, t.heads), head)
        row = connection.execute(_HEAD, {"project": project}).one()
    return ChainHead.of(project, row)


def lookup(connection: Connection, project: str, digests: Iterable[bytes]) -> dict[bytes, Known]:
    """Those of these records that exist."""
    known = {}
    for part in parts(sorted(digests)):
        rows = connection.execute(_LOOKUP, {"project": project, "digests": part})
        for digest, seq, kind, forgotten in rows:
            known[bytes(digest)] = Known(seq, kind, bool(forgotten))
    return known


def parts(values: Sequence[V]) -> Iterator[Sequence[V]]:
    """The values in chunks that fit into one query."""
    for start in range(0, len(values), _CHUNK):
        yield values[start : start + _CHUNK]


def insert_rows(connection: Connection, table: Table, rows: list[Row]) -> None:
    """Insert rows, their values in the order of the columns; on SQLite, large bodies are written in
    place.
    """
    large = []
    if table is t.records and connection.dialect.name == "sqlite":
        large = [row for row in rows if len(row[-1]) > LARGE]
        rows = [row for row in rows if len(row[-1]) <= LARGE] if large else rows
    if rows:
        kind: Any = type(connection.dialect)
        connection.exec_driver_sql(_insert_text(kind, table), rows)
    for *row, content in large:  # a plain INSERT would copy the body twice
        values = zip(table.columns.keys(), (*row, func.zeroblob(len(content))), strict=True)
        place = connection.execute(_INSERT[table].values(dict(values))).lastrowid
        driver: Any = connection.connection.driver_connection
        with driver.blobopen(table.name, "body", place) as body:
            body.write(content)


@cache
def _insert_text(dialect: Any, table: Table) -> str:
    """An INSERT of every column. The driver takes our values as they are: converting each of them
    would take longer than storing it.
    """
    marks = {"sqlite": "qmark", "postgresql": "format"}[dialect.name]
    return str(_INSERT[table].compile(dialect=dialect(paramstyle=marks)))


# --- the chain: each record of a project carries a hash of itself and of the chain before it, so
# that removing, inserting or moving a record breaks it. It covers the digest of the body and what
# is stored with it: kind, schema, moment, author, reason, and the links that came with the record.
# Anyone who notes the head of a chain elsewhere can also detect that the newest records were cut
# off.

_encode = msgspec.json.encode


class ChainLink(NamedTuple):
    """A link between two digests."""

    source: bytes
    relation: str
    target: bytes


def genesis(project: str) -> bytes:
    """The first value of a project's chain."""
    return sha256(b"assay.ledger/1\n" + project.encode()).digest()


def next_chain(
    before: bytes,
    digest: bytes,
    kind: str,
    schema: str | None,
    created_at: str,
    author: str | None,
    reason: str | None,
    edges: Iterable[ChainLink],
) -> bytes:
    """The chain after one more record."""
    stamp = _encode([kind, schema, created_at, author, reason, []])
    hashed = sha256(before + digest + stamp[:-2])  # one by one: there may be very many edges
    joint = b""
    for edge in edges:
        hashed.update(joint + _encode([edge.source.hex(), edge.relation, edge.target.hex()]))
        joint = b","
    hashed.update(stamp[-2:])
    return hashed.digest()


# --- the workflows and datasets that the runs of a project name, counted as they come and go

NAMED = ("workflow", "dataset")
_PLACES = tuple((what, t.FACETS.index(what), t.FACETS.index(f"{what}_version")) for what in NAMED)

Name = tuple[str, str, str]
"""The kind (workflow or dataset), the id and the version."""


def names_of(columns: tuple[Any, ...]) -> Iterator[Name]:
    """What a run names, according to its columns."""
    for what, place, version in _PLACES:
        if columns[place] is not None:
            yield what, columns[place], columns[version] or ""


class NameTally:
    """The names of one transaction."""

    def __init__(self) -> None:
        self.counts: dict[Name, list[int]] = {}

    def add(self, columns: tuple[Any, ...], seq: int) -> None:
        """Count one more run, later than those before."""
        for name in names_of(columns):
            known = self.counts.setdefault(name, [0, seq])
            known[0] += 1
            known[1] = seq

    def write(self, connection: Connection, project: str) -> None:
        """Add the counts to the table."""
        rows = [
            dict(zip(t.seen.columns.keys(), (project, *name, *numbers), strict=True))
            for name, numbers in sorted(self.counts.items())
        ]
        if rows:
            counting = adding(connection.dialect.name, t.seen, "runs", replacing=("newest_seq",))
            connection.execute(counting, rows)


def _forget_names(connection: Connection, project: str, columns: tuple[Any, ...], seq: int) -> None:
    """Subtract a forgotten run from what it named; a name without runs is removed. Call this after
    its columns were emptied.
    """
    s, r = t.seen.c, t.records.c
    for what, name, version in names_of(columns):
        here = (s.project == project, s.what == what, s.id == name, s.version == version)
        connection.execute(update(t.seen).where(*here).values(runs=s.runs - 1))
        connection.execute(delete(t.seen).where(*here, s.runs <= 0))
        mine = select(func.max(r.seq)).where(
            r.project == project,
            r.kind == "run",
            r[what] == name,
            func.coalesce(r[f"{what}_version"], "") == version,
        )
        connection.execute(
            update(t.seen)
            .where(*here, s.newest_seq == seq)
            .values(newest_seq=mine.scalar_subquery())
        )


# --- forgetting


def forget(
    connection: Connection, project: str, digest: bytes, *, author: str, reason: str, now: datetime
) -> Tombstone:
    """Remove the body of a record and keep its digest, with who did it and why. The chain stays
    valid, because it covers the digest.
    """
    head = lock_head(connection, project)
    known = lookup(connection, project, [digest]).get(digest)
    if known is None:
        raise InputError(
            "STO-012",
            "there is no such record in this project of the ledger.",
            where=digest_text(digest),
        )
    if known.kind == "tombstone":
        raise InputError(
            "STO-010",
            "a tombstone can't be forgotten: it contains only a digest.",
            where=digest_text(digest),
        )
    if not known.forgotten:
        batch = Batch(project, head, now)
        body = {"schema": TOMBSTONE_SCHEMA, "digest": digest_text(digest), "at": batch.at}
        seq = batch.add(draft(body, kind="tombstone", author=author, reason=reason), ())
        batch.write(connection, {})
        stone = (project, seq, digest, author, reason, batch.at)
        insert_rows(connection, t.tombstones, [stone])
        here = and_(t.records.c.project == project, t.records.c.seq == known.seq)
        columns = connection.execute(
            select(*(t.records.c[name] for name in t.FACETS)).where(here)
        ).one()
        connection.execute(
            update(t.records).where(here).values(body=None, **dict.fromkeys(t.FACETS))
        )
        if known.kind == "run":
            _forget_names(connection, project, tuple(columns), known.seq)
            made_of = select(t.traces.c.trace_id).where(
                t.traces.c.project == project, t.traces.c.digest == digest_text(digest)
            )
            spans = t.trace_spans.c
            connection.execute(
                delete(t.trace_spans).where(spans.project == project, spans.trace_id.in_(made_of))
            )
        tags = t.tags.c
        connection.execute(t.tags.delete().where(tags.project == project, tags.seq == known.seq))
    left = tombstone(connection, project, digest)
    assert left is not None
    return left


def tombstone(connection: Connection, project: str, digest: bytes) -> Tombstone | None:
    """Who had a record forgotten; None if it wasn't."""
    c = t.tombstones.c
    row = connection.execute(
        select(c.author, c.reason, c.at).where(c.project == project, c.digest == digest)
    ).first()
    if row is None:
        return None
    others: dict[bytes, None] = {}
    for source, relation, target in connection.execute(touching(connection, project, digest)):
        other = target if relation == "evidence_of" else source
        if other != digest:
            others[other] = None
    standing = [
        digest_text(digest)
        for digest, known in sorted(lookup(connection, project, others).items())
        if not known.forgotten
    ]
    return Tombstone(digest_text(digest), *row, tuple(standing))


def touching(connection: Connection, project: str, digest: bytes) -> Select[Any]:
    """The links from and to a record: source, relation, target."""
    known = lookup(connection, project, [digest]).get(digest)
    place = 0 if known is None else known.seq  # no record is at 0
    c = t.links.c
    query = select(t.sources.c.digest, c.relation, t.targets.c.digest).select_from(t.linked)
    return query.where(c.project == project, or_(c.source_seq == place, c.target_seq == place))
