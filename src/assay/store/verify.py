"""Checks a whole ledger: every digest, every link of the chain, every row that was taken from a
body.

Everything is recomputed from the stored bytes, as of one moment, in one pass for each project;
nothing stored is trusted. A chain can't show that its newest records were cut off: live runs and
traces name their records, and `expected` is the head as somebody noted it elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, Table, inspect, select, type_coerce, union
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.types import NullType

from assay.errors import InputError
from assay.files.json_files import parse_json
from assay.store import tables as t
from assay.store.drafts import TOMBSTONE_SCHEMA, Facets, digest_text, facets_of
from assay.store.ledger import Ledger
from assay.store.reading import counted
from assay.store.writing import ChainHead, ChainLink, NameTally, genesis, next_chain

BATCH = 2000
END = float("inf")
_STAMP = ("kind", "schema", "created_at", "author", "reason")
COLUMNS = ("seq", "digest", "chain", "body", *_STAMP, *t.FACETS)
SHOWN = 1000
"""How many flaws are listed; all are counted."""
_RESTORE = "Restore it from a copy; a grade made from it can't be trusted."
_OUTSIDE = "Rows were changed, removed or inserted from outside; restore the ledger from a copy."
_INDEX = "Searches by it are wrong; the content itself is good. Restore the ledger from a copy."
_BREAKS = (
    "the chain breaks here: this record, its metadata, its links or their ends, or the record"
    " before it was changed."
)
_OWN = (t.heads, t.records, t.counts, t.seen, t.tombstones, t.links, t.tags)
_NO_FACETS = (None,) * len(t.FACETS)


class Flaw(NamedTuple):
    """One thing that is no longer as it was written."""

    project: str
    seq: int | None
    digest: str | None
    what: str
    fix: str


class VerifyReport(NamedTuple):
    """What was checked and what was found. `heads` is each project's newest seq and chain."""

    records: int
    links: int
    forgotten: int
    heads: dict[str, tuple[int, str]]
    flaws: tuple[Flaw, ...]
    flaw_count: int

    @property
    def clean(self) -> bool:
        """Whether everything is as it was written."""
        return self.flaw_count == 0


def verify(
    ledger: Ledger,
    progress: Callable[[int], None] | None = None,
    *,
    expected: Mapping[str, tuple[int, str]] | None = None,
) -> VerifyReport:
    """Check every project of a ledger. `progress` gets the number of records read since the last
    call; `expected` is a project's head as it once was.
    """
    findings = _Findings(progress or (lambda _n: None))
    try:
        with ledger.database.snapshot() as connection, connection.begin():
            _check_all(connection, findings, expected or {})
    except SQLAlchemyError as error:
        raise ledger.database.worded(error) from error
    return VerifyReport(
        findings.records,
        findings.links,
        findings.forgotten,
        findings.heads,
        tuple(findings.flaws),
        findings.flaw_count,
    )


class _Findings:
    def __init__(self, progress: Callable[[int], None]) -> None:
        self.progress = progress
        self.records = self.links = self.forgotten = self.flaw_count = 0
        self.heads: dict[str, tuple[int, str]] = {}
        self.flaws: list[Flaw] = []

    def add(
        self,
        project: str,
        what: str,
        seq: int | None = None,
        digest: bytes | None = None,
        fix: str = _OUTSIDE,
    ) -> None:
        self.flaw_count += 1
        if len(self.flaws) < SHOWN:
            name = None if digest is None else digest_text(digest)
            self.flaws.append(Flaw(project, seq, name, what, fix))


def _check_all(
    connection: Connection, findings: _Findings, expected: Mapping[str, tuple[int, str]]
) -> None:
    there = set(inspect(connection).get_table_names())
    lost = [table.name for table in (*_OWN, t.live_runs, t.traces) if table.name not in there]
    for name in lost:
        findings.add("", f"the table '{name}' is gone.")
    if lost:
        return
    named = union(*(select(table.c.project) for table in _OWN))
    for project in sorted({*map(str, connection.execute(named).scalars()), *expected}):
        with _readable(project, findings):
            _ProjectCheck(connection, project, findings).run(expected.get(project))
    for table, what in ((t.live_runs, "a live run"), (t.traces, "a trace")):
        with _readable("", findings):
            _check_named(connection, table, what, findings)


@contextmanager
def _readable(project: str, findings: _Findings) -> Iterator[None]:
    """Report a value of the wrong type as a flaw: SQLite stores a text where a number belongs, but
    Assay never writes one.
    """
    try:
        yield
    except (
        TypeError,
        ValueError,
        AttributeError,
        LookupError,
        ArithmeticError,
        MemoryError,
    ) as error:
        what = (
            "a row contains a value of a type that is never written there, so the rest was not"
            f" checked ({type(error).__name__}: {error!s:.200})."
        )
        findings.add(project, what)


def _check_named(connection: Connection, table: Table, what: str, findings: _Findings) -> None:
    """Check that the record of every live run and trace exists; a forgotten one keeps its row."""
    rows = stream(
        connection, select(table.c.project, table.c.digest).where(table.c.digest.is_not(None))
    )
    while batch := [
        (str(project), bytes.fromhex(str(digest).removeprefix("sha256:")))
        for project, digest in islice(rows, BATCH // 4)
    ]:
        c = t.records.c
        query = select(c.project, c.digest).where(c.digest.in_([digest for _, digest in batch]))
        there = {(str(project), to_bytes(digest)) for project, digest in connection.execute(query)}
        for project, digest in batch:
            if (project, digest) not in there:
                what_is_lost = f"{what} was stored as this record, but the record is missing."
                findings.add(project, what_is_lost, digest=digest)


class _ProjectCheck:
    """One pass through the records of one project, in their order."""

    def __init__(self, connection: Connection, project: str, findings: _Findings) -> None:
        self.connection = connection
        self.project = project
        self.findings = findings
        self.flaw = partial(findings.add, project)
        columns = ("digest", "seq", "author", "reason", "at")
        self.tombstones = {
            to_bytes(row[0]): row[1:]
            for row in raw_rows(connection, t.tombstones, project, columns, order=())
        }
        self.chained: dict[bytes, tuple[Any, ...]] = {}
        """The tombstones according to the records of the chain."""
        self.sides = {table: SideRows(connection, table, project) for table in (t.links, t.tags)}
        self.counts: Counter[str] = Counter()
        self.names = NameTally()

    def run(self, expected: tuple[int, str] | None) -> None:
        chain, last, anchor = genesis(self.project), 0, None
        for number, row in enumerate(
            raw_rows(self.connection, t.records, self.project, COLUMNS), 1
        ):
            record = StoredRow.of(row)
            seq, digest = record.seq, record.digest
            self.counts[record.kind] += 1
            if type(seq) is not int:
                what = f"the position of this record is not a whole number: {seq!r:.60}."
                self.flaw(what, digest=digest)
                continue
            if number % BATCH == 0:
                self.findings.progress(BATCH)
            if seq != last + 1:
                what = f"records are missing before this one: {last + 1} to {seq - 1}."
                self.flaw(what, seq, digest)
            self._check_strays(seq)
            links = self.sides[t.links].at(seq)
            self.findings.links += len(links)
            chain = self._next_chain(record, links, chain)
            if expected is not None and seq == expected[0]:
                anchor = digest_text(chain)
            if record.kind == "run":
                self.names.add(record.facets, seq)
            last = seq
            self._check_body(record)
            if record.kind == "grade" and not any(
                to_bytes(link[0]) == digest and link[1] == "graded_from" for link in links
            ):
                fix = "Do not rely on it; grade the run again."
                self.flaw("this grade has no evidence.", seq, digest, fix)
        self.findings.records += sum(self.counts.values())
        self.findings.heads[self.project] = (last, digest_text(chain))
        self._check_strays(END)
        if expected is not None and anchor != expected[1]:
            what = (
                f"the chain at record {expected[0]} is not the one that was noted: records were cut"
                " off or rewritten."
            )
            self.flaw(what, expected[0])
        self._check_head(ChainHead(last, chain))
        self._check_counters()

    def _check_strays(self, seq: float) -> None:
        for table, side in self.sides.items():
            for stray in side.before(seq):
                self.flaw(f"a row of '{table.name}' belongs to no record.", stray)

    def _next_chain(self, record: StoredRow, links: list[tuple[Any, ...]], before: bytes) -> bytes:
        """The chain after a record, as stored: if it is wrong, that is one flaw, not one for every
        record that follows.
        """
        complete = True
        for source, relation, target, *places in links:
            for end, digest, place in zip(
                ("source", "target"), (source, target), places, strict=True
            ):
                if digest is None:
                    complete = False
                    what = (
                        f"the {end} of a link '{relation}' is not a record: nothing is at"
                        f" {place!r}, so the chain cannot be checked here."
                    )
                    self.flaw(what, record.seq, record.digest)
        edges = [ChainLink(to_bytes(link[0]), link[1], to_bytes(link[2])) for link in links]
        chain = next_chain(before, record.digest, *record.stamp, edges)
        if complete and chain != record.chain:
            self.flaw(_BREAKS, record.seq, record.digest)
        return record.chain

    def _check_body(self, record: StoredRow) -> None:
        flaw = partial(self.flaw, seq=record.seq, digest=record.digest)
        tags = self.sides[t.tags].at(record.seq)
        is_forgotten = record.digest in self.tombstones
        if record.body is None:
            self.findings.forgotten += 1
            if not is_forgotten:
                flaw(
                    "the content is gone, and no tombstone records who removed it and why.",
                    fix=_RESTORE,
                )
            if record.facets != _NO_FACETS or tags:
                flaw(
                    "the content was forgotten, and columns or rows taken from it are still there.",
                    fix="Have it forgotten again on a restored copy.",
                )
            return
        if is_forgotten:
            flaw("it has a tombstone, but its content is still there.")
        if isinstance(record.body, str) or sha256(record.body).digest() != record.digest:
            flaw("the content does not match its digest.", fix=_RESTORE)
            return
        body = bytes(record.body)
        try:
            facets = facets_of(record.kind, body)
        except InputError as error:
            flaw(f"the content is not a {record.kind} record: {error.message}", fix=_RESTORE)
            return
        for what in _differences(record, facets, tags):
            flaw(what, fix=_INDEX)
        if record.kind == "tombstone":
            tree = parse_json(body)
            if tree.get("schema") == TOMBSTONE_SCHEMA and isinstance(tree.get("digest"), str):
                name = bytes.fromhex(tree["digest"].removeprefix("sha256:"))
                _kind, _schema, _at, author, reason = record.stamp
                self.chained[name] = (record.seq, author, reason, tree.get("at"))

    def _check_head(self, head: ChainHead) -> None:
        c = t.heads.c
        query = select(c.seq, type_coerce(c.chain, NullType())).where(c.project == self.project)
        stored = self.connection.execute(query).first()
        if stored is None or (stored[0], to_bytes(stored[1])) != head:
            held = "nothing" if stored is None else f"record {stored[0]}"
            what = (
                f"the newest record is {head.seq} and the head says {held}: the newest records were"
                " cut off or put in."
            )
            self.flaw(what, head.seq)

    def _check_counters(self) -> None:
        """Check that the counters and heads agree with the records."""
        c = t.counts.c
        query = select(c.kind, c.n).where(c.project == self.project)
        kept = {row.kind: row.n for row in self.connection.execute(query)}
        for kind in sorted({*kept, *self.counts}):
            n, noted = self.counts[kind], kept.get(kind, 0)
            if n != noted:
                self.flaw(f"there are {n} records of kind '{kind}', but {noted} were counted.")
        for digest in sorted({*self.tombstones, *self.chained}):
            if self.tombstones.get(digest) != self.chained.get(digest):
                self.flaw("a tombstone is not the one that the chain has.", digest=digest)
        names = counted(self.connection, self.project)
        there = {name: tuple(numbers) for name, numbers in self.names.counts.items()}
        for name in sorted({*names, *there}):
            if names.get(name) != there.get(name):
                n, noted = there.get(name, (0,))[0], names.get(name, (0,))[0]
                what = (
                    f"{n} runs name the {name[0]} {name[1]!r} {name[2]!r} and {noted} were counted,"
                    " or the newest is another."
                )
                self.flaw(what)


def _differences(record: StoredRow, facets: Facets, tags: list[tuple[Any, ...]]) -> Iterator[str]:
    """The differences between a body and the columns and tags extracted from it."""
    schema = record.stamp[1]
    if schema != facets.schema:
        yield f"the schema is {schema!r} next to the content and {facets.schema!r} in it."
    for name, here, there in zip(t.FACETS, record.facets, facets.columns, strict=True):
        if here != there:
            yield f"{name} is {here!r} next to the content and {there!r} in it."
            break
    if tags != [(place, record.kind, tag) for place, tag in enumerate(facets.tags)]:
        yield "the rows of 'tags' are not those of the content."


# --- rows exactly as a database has them, in order. Types are not trusted: SQLite stores values of
# any type that another program writes.


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
