"""Checking a whole ledger: every digest, every link of the chain, every row that was taken out of a
body.

All of it is computed again from the stored bytes, as of one moment, in one pass for each project;
nothing that is stored is believed. A chain cannot tell that its newest records were cut off: live
runs and traces that name a record remember it, and so does `expected`, the head as it was noted
elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, Table, inspect, select, type_coerce, union
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.types import NullType

from assay.errors import InputError
from assay.files.json_files import parse_json
from assay.store import tables as t
from assay.store.chain import Edge, genesis, next_chain
from assay.store.drafts import TOMBSTONE_SCHEMA, digest_text
from assay.store.facets import Facets, facets_of
from assay.store.ledger import Ledger
from assay.store.names import Name, Tally, counted
from assay.store.serving import live_runs
from assay.store.traces import traces
from assay.store.writing import LedgerHead

SHOWN = 1000
"""Flaws that are kept; all are counted."""
_BATCH = 2000
_RESTORE = "Restore it from a copy; a grade that rests on it cannot be trusted."
_OUTSIDE = "Rows were changed, removed or put in from outside; restore the ledger from a copy."
_BREAKS = (
    "the chain breaks here: this record, what is said about it, its links or their ends, or the one"
    " before is not as it was written."
)
_OWN = (t.heads, t.records, t.counts, t.seen, t.tombstones, t.links, *t.SIDES)
_NO_FACETS = (None,) * len(t.FACETS)


class Flaw(NamedTuple):
    """One thing that is not as it was written."""

    project: str
    seq: int | None
    digest: str | None
    what: str
    fix: str


class Report(NamedTuple):
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
) -> Report:
    """Check every project of a ledger. `progress` is told how many records more were read;
    `expected` is a project's head as it once was.
    """
    found = _Found(progress or (lambda _n: None))

    def work() -> None:
        with ledger.database.snapshot() as connection, connection.begin():
            _check_all(connection, found, expected or {})

    try:
        work()
    except SQLAlchemyError as error:
        raise ledger.database.worded(error) from error
    return Report(
        found.records,
        found.links,
        found.forgotten,
        found.heads,
        tuple(found.flaws),
        found.flaw_count,
    )


class _Found:
    def __init__(self, progress: Callable[[int], None]) -> None:
        self.progress = progress
        self.records = self.links = self.forgotten = self.flaw_count = 0
        self.heads: dict[str, tuple[int, str]] = {}
        self.flaws: list[Flaw] = []

    def add(self, project: str, seq: int | None, digest: bytes | None, what: str, fix: str) -> None:
        self.flaw_count += 1
        if len(self.flaws) < SHOWN:
            self.flaws.append(
                Flaw(project, seq, None if digest is None else digest_text(digest), what, fix)
            )


def _check_all(
    connection: Connection, found: _Found, expected: Mapping[str, tuple[int, str]]
) -> None:
    there = set(inspect(connection).get_table_names())
    if lost := [table.name for table in (*_OWN, live_runs, traces) if table.name not in there]:
        for name in lost:
            found.add("", None, None, f"the table '{name}' is gone.", _OUTSIDE)
        return
    named = union(*(select(table.c.project) for table in _OWN))
    projects = sorted({*map(str, connection.execute(named).scalars()), *expected})
    for project in projects:
        with _readable(project, found):
            _check_project(connection, project, found, expected.get(project))
    for table, what in ((live_runs, "a live run"), (traces, "a trace")):
        with _readable("", found):
            _check_named(connection, table, what, found)


@contextmanager
def _readable(project: str, found: _Found) -> Iterator[None]:
    """SQLite keeps a text where a number belongs. What cannot even be compared was never written by
    us: a flaw, and no failure of the check.
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
            "a row holds a value of a kind that is never written there, so the rest was not"
            f" checked ({type(error).__name__}: {error!s:.200})."
        )
        found.add(project, None, None, what, _OUTSIDE)


def _check_named(connection: Connection, table: Table, what: str, found: _Found) -> None:
    """What was stored for a live run or a trace is there, or was forgotten and left its row:
    nothing else takes a record away.
    """
    rows = _stream(
        connection, select(table.c.project, table.c.digest).where(table.c.digest.is_not(None))
    )
    while batch := [
        (str(project), bytes.fromhex(str(digest).removeprefix("sha256:")))
        for project, digest in islice(rows, _BATCH // 4)
    ]:
        c = t.records.c
        asked = select(c.project, c.digest).where(c.digest.in_([digest for _, digest in batch]))
        there = {(str(project), _bytes(digest)) for project, digest in connection.execute(asked)}
        for project, digest in batch:
            if (project, digest) not in there:
                found.add(
                    project,
                    None,
                    digest,
                    f"{what} was stored as this record, and it is not there.",
                    _OUTSIDE,
                )


def _check_project(
    connection: Connection, project: str, found: _Found, expected: tuple[int, str] | None
) -> None:
    tombs = {
        _bytes(row[0]): row[1:]
        for row in _rows(
            connection, t.tombstones, project, ("digest", "seq", "author", "reason", "at"), order=()
        )
    }
    told: dict[bytes, tuple[Any, ...]] = {}
    sides = {table: _Side(connection, table, project) for table in (t.links, *t.SIDES)}
    counts: Counter[str] = Counter()
    names = Tally()
    chain, last = genesis(project), 0
    anchor = None
    for number, row in enumerate(_rows(connection, t.records, project, _COLUMNS), 1):
        record = _Record(*row)
        if type(record.seq) is not int:
            found.add(
                project,
                None,
                _bytes(record.digest),
                f"the place of this record is no whole number: {record.seq!r:.60}.",
                _OUTSIDE,
            )
            counts[record.kind] += 1
            continue
        if number % _BATCH == 0:
            found.progress(_BATCH)
        seq, digest = record.seq, _bytes(record.digest)
        if seq != last + 1:
            found.add(
                project,
                seq,
                digest,
                f"records are missing before this one: {last + 1} to {seq - 1}.",
                _OUTSIDE,
            )
        for table, side in sides.items():
            if side.seq < seq:
                for stray in side.before(seq):
                    found.add(
                        project,
                        stray,
                        None,
                        f"a row of '{table.name}' belongs to no record.",
                        _OUTSIDE,
                    )
        links = sides[t.links].at(seq)
        found.links += len(links)
        edges = tuple(Edge(_bytes(row[0]), row[1], _bytes(row[2])) for row in links)
        chain = next_chain(
            chain,
            digest,
            record.kind,
            record.schema,
            record.created_at,
            record.author,
            record.reason,
            edges,
        )
        if not _check_links(project, seq, digest, links, found):
            chain = _bytes(
                record.chain
            )  # without the digest of an end it cannot be made again, and that is said
        elif chain != _bytes(record.chain):
            found.add(project, seq, digest, _BREAKS, _OUTSIDE)
            chain = _bytes(record.chain)  # one break is one flaw
        if expected is not None and seq == expected[0]:
            anchor = digest_text(chain)
        counts[record.kind] += 1
        if record.kind == "run":
            names.add(record.facets, seq)
        last = seq
        _check_body(project, record, digest, tombs, told, sides, found)
        if record.kind == "grade" and not any(
            edge.source == digest and edge.relation == "graded_from" for edge in edges
        ):
            found.add(
                project,
                seq,
                digest,
                "this grade has no evidence.",
                "Do not rely on it; grade the run again.",
            )
    found.records += sum(counts.values())
    found.heads[project] = (last, digest_text(chain))
    for table, side in sides.items():
        for stray in side.before(_END):
            found.add(
                project, stray, None, f"a row of '{table.name}' belongs to no record.", _OUTSIDE
            )
    if expected is not None and anchor != expected[1]:
        found.add(
            project,
            expected[0],
            None,
            f"the chain at record {expected[0]} is not the one that was noted: records were cut off"
            " or written anew.",
            _OUTSIDE,
        )
    _check_ends(connection, project, LedgerHead(last, chain), counts, tombs, told, found)
    _check_names(connection, project, names, found)


def _check_body(
    project: str,
    record: _Record,
    digest: bytes,
    tombs: Mapping[bytes, tuple[Any, ...]],
    told: dict[bytes, tuple[Any, ...]],
    sides: Mapping[Table, _Side],
    found: _Found,
) -> None:
    def flaw(what: str, fix: str = _RESTORE) -> None:
        found.add(project, record.seq, digest, what, fix)

    rows = {table: sides[table].at(record.seq) for table in t.SIDES}
    if record.body is None:
        found.forgotten += 1
        if digest not in tombs:
            flaw("the content is gone, and no tombstone says who had it forgotten and why.")
        if record.facets != _NO_FACETS or any(rows.values()):
            flaw(
                "the content was forgotten, and columns or rows taken from it are still there.",
                "Have it forgotten again on a restored copy.",
            )
        return
    if digest in tombs:
        flaw("a tombstone says that it was forgotten, and its content is there.", _OUTSIDE)
    if isinstance(record.body, str) or sha256(record.body).digest() != digest:
        flaw("the content is not what its digest says.")
        return
    body = bytes(record.body)
    try:
        facets = facets_of(record.kind, body)
    except InputError as error:
        flaw(f"the content is no {record.kind}: {error.message}")
        return
    _check_facets(record, facets, rows, flaw)
    if record.kind == "tombstone":
        tree = parse_json(body)
        if tree.get("schema") == TOMBSTONE_SCHEMA and isinstance(tree.get("digest"), str):
            told[bytes.fromhex(tree["digest"][len("sha256:") :])] = (
                record.seq,
                record.author,
                record.reason,
                tree.get("at"),
            )


def _check_facets(
    record: _Record,
    facets: Facets,
    rows: Mapping[Table, list[tuple[Any, ...]]],
    flaw: Callable[[str, str], None],
) -> None:
    fix = (
        "What is found by it is wrong; the content itself is good. Restore the ledger from a copy."
    )
    if record.schema != facets.schema:
        flaw(
            f"the schema is {record.schema!r} beside the content and {facets.schema!r} in it.", fix
        )
    if record.facets != facets.columns:
        name, here, there = next(
            (n, a, b)
            for n, a, b in zip(t.FACETS, record.facets, facets.columns, strict=True)
            if a != b
        )
        flaw(f"{name} is {here!r} beside the content and {there!r} in it.", fix)
    tags = [(place, record.kind, tag) for place, tag in enumerate(facets.tags)]
    for table, made in (
        (t.steps, _placed(facets.steps)),
        (t.tool_calls, _placed(facets.calls)),
        (t.tags, tags),
    ):
        if rows[table] != made:
            flaw(f"the rows of '{table.name}' are not those of the content.", fix)


def _placed(rows: tuple[tuple[Any, ...], ...]) -> list[tuple[Any, ...]]:
    return [(place, *row) for place, row in enumerate(rows)]


def _check_ends(
    connection: Connection,
    project: str,
    head: LedgerHead,
    counts: Counter[str],
    tombs: Mapping[bytes, tuple[Any, ...]],
    told: Mapping[bytes, tuple[Any, ...]],
    found: _Found,
) -> None:
    stored = connection.execute(
        select(t.heads.c.seq, type_coerce(t.heads.c.chain, NullType())).where(
            t.heads.c.project == project
        )
    ).first()
    if stored is None or (stored[0], _bytes(stored[1])) != head:
        says = "nothing" if stored is None else f"record {stored[0]}"
        found.add(
            project,
            head.seq,
            None,
            f"the newest record is {head.seq} and the head says {says}: the newest records were cut"
            " off or put in.",
            _OUTSIDE,
        )
    kept = {
        row[0]: row[1]
        for row in connection.execute(
            select(t.counts.c.kind, t.counts.c.n).where(t.counts.c.project == project)
        )
    }
    for kind in sorted({*kept, *counts}):
        if kept.get(kind, 0) != counts[kind]:
            found.add(
                project,
                None,
                None,
                f"{counts[kind]} records of kind '{kind}' are there and {kept.get(kind, 0)} were"
                " counted.",
                _OUTSIDE,
            )
    for digest in sorted({*tombs, *told}):
        if tombs.get(digest) != told.get(digest):
            found.add(
                project,
                None,
                digest,
                "a tombstone is not the one that the chain tells of.",
                _OUTSIDE,
            )


def _check_names(connection: Connection, project: str, names: Tally, found: _Found) -> None:
    kept = counted(connection, project)
    there: dict[Name, tuple[int, int]] = {
        name: (n, newest) for name, (n, newest) in names.found.items()
    }
    for name in sorted({*kept, *there}):
        if kept.get(name) != there.get(name):
            n, told = there.get(name, (0, 0))[0], kept.get(name, (0, 0))[0]
            what = (
                f"{n} runs name the {name[0]} {name[1]!r} {name[2]!r} and {told} were counted, or"
                " the newest is another."
            )
            found.add(project, None, None, what, _OUTSIDE)


def _check_links(
    project: str, seq: int, digest: bytes, links: list[tuple[Any, ...]], found: _Found
) -> bool:
    """Whether both ends of every link of a record are records of the same project; a forgotten
    record is one too.
    """
    whole = True
    for source, relation, target, source_seq, target_seq in links:
        for end, there, place in (("source", source, source_seq), ("target", target, target_seq)):
            if there is None:
                whole = False
                what = (
                    f"the {end} of a link '{relation}' is no record: nothing is at {place!r}, so"
                    " the chain cannot be checked here."
                )
                found.add(project, seq, digest, what, _OUTSIDE)
    return whole


# --- reading in order

_COLUMNS = (
    "seq",
    "digest",
    "chain",
    "kind",
    "schema",
    "created_at",
    "author",
    "reason",
    *t.FACETS,
    "body",
)


class _Record:
    """One row of `records`, as it comes from the database."""

    __slots__ = (
        "author",
        "body",
        "chain",
        "created_at",
        "digest",
        "facets",
        "kind",
        "reason",
        "schema",
        "seq",
    )

    def __init__(self, *row: Any) -> None:
        (
            self.seq,
            self.digest,
            self.chain,
            self.kind,
            self.schema,
            self.created_at,
            self.author,
            self.reason,
        ) = row[:8]
        self.facets = row[8:-1]
        self.body = row[-1]


def _rows(
    connection: Connection,
    table: Table,
    project: str,
    names: tuple[str, ...],
    *,
    order: tuple[str, ...] = ("seq",),
) -> Iterator[tuple[Any, ...]]:
    """Raw rows in order, in constant memory. Types are not trusted: SQLite keeps whatever a hand
    from outside put in.
    """
    query = (
        select(*(type_coerce(table.c[name], NullType()) for name in names))
        .where(table.c.project == project)
        .order_by(*(table.c[name] for name in order))
    )
    yield from _stream(connection, query)


def _links(connection: Connection, project: str) -> Iterator[tuple[Any, ...]]:
    """The links in order, with the digests at their ends; None for an end that is no record."""
    c, s, e = t.links.c, t.sources.c, t.targets.c
    with_source = t.links.outerjoin(t.sources, (s.project == c.project) & (s.seq == c.source_seq))
    with_both = with_source.outerjoin(t.targets, (e.project == c.project) & (e.seq == c.target_seq))
    columns = (c.seq, s.digest, c.relation, e.digest, c.source_seq, c.target_seq)
    asked = (
        select(*(type_coerce(column, NullType()) for column in columns))
        .select_from(with_both)
        .where(c.project == project)
    )
    yield from _stream(connection, asked.order_by(c.seq, c.position))


def _stream(connection: Connection, query: Select[*tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    for batch in connection.execute(query, execution_options={"yield_per": _BATCH}).partitions():
        yield from map(tuple, batch)


class _Side:
    """The rows of a side table, handed out record by record."""

    def __init__(self, connection: Connection, table: Table, project: str) -> None:
        names = tuple(
            column.name for column in table.columns if column.name not in ("project", "seq")
        )
        self.rows = (
            _links(connection, project)
            if table is t.links
            else _rows(connection, table, project, ("seq", *names), order=("seq", "position"))
        )
        self.seq: float = 0
        """The record to which the next row belongs; endless where there are no more."""
        self._step()

    def _step(self) -> None:
        self.row = next(self.rows, None)
        self.seq = _END if self.row is None else self.row[0]

    def before(self, seq: float) -> list[int]:
        """The places of rows that come before a record and belong to none."""
        found = []
        while self.seq < seq:
            found.append(int(self.seq))
            self._step()
        return found

    def at(self, seq: int) -> list[tuple[Any, ...]]:
        """The rows of a record."""
        found = []
        while self.seq == seq and self.row is not None:
            found.append(self.row[1:])
            self._step()
        return found


_END = float("inf")


def _bytes(value: Any) -> bytes:
    return (
        b""
        if value is None
        else bytes(value)
        if isinstance(value, bytes | memoryview)
        else str(value).encode()
    )
