"""The ledger, which stores evidence, grades and decisions. It is append-only, a record is
identified by its content, and corrections are new records.

    with open_ledger("sqlite:///.assay/ledger.db") as ledger:
        stored = ledger.put(run, kind="run")

Threads may share a Ledger; a process opens its own. Once a call has returned, its records are on
disk.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from sqlalchemy import literal, select

from assay.errors import InputError, NotEnoughEvidence
from assay.store import reading, writing
from assay.store import tables as t
from assay.store.databases import DEFAULT_URL, PATIENCE, Database, open_database
from assay.store.drafts import (
    DIGEST,
    Draft,
    Item,
    Link,
    Page,
    RecordCount,
    Stored,
    Tombstone,
    digest_bytes,
    digest_text,
    draft,
    note,
)
from assay.store.reading import Filters
from assay.store.tables import ensure
from assay.store.writing import ChainHead, genesis

DEFAULT_PROJECT = "default"
_AT_ONCE = 500
"""Records that are read in one query."""
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def open_ledger(
    url: str = DEFAULT_URL,
    *,
    read_only: bool = False,
    patience: float = PATIENCE,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Ledger:
    """The ledger behind a URL: `sqlite:///path` or `postgresql://user@host/name`. It is created, or
    its tables upgraded, if necessary.

    With `read_only` nothing is created or changed. `patience` is how many seconds a writer waits
    for another. `clock` stamps what is stored.
    """
    database = open_database(url, patience=patience, read_only=read_only)
    try:
        ensure(database, read_only=read_only)
    except BaseException:
        database.engine.dispose()
        raise
    return Ledger(database, clock)


class Ledger:
    """An open ledger. Every method takes a project and sees nothing of another."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self.database = database
        self.where = database.where
        self._clock = clock

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.database.engine.dispose()

    # --- writing

    def put(
        self,
        record: Any,
        *,
        kind: str,
        project: str = DEFAULT_PROJECT,
        author: str | None = None,
        reason: str | None = None,
        links: Sequence[Link] = (),
    ) -> Stored:
        """Store a record. The second time, nothing is added and `new` is false."""
        return self.put_many(
            [draft(record, kind=kind, author=author, reason=reason, links=links)], project=project
        )[0]

    def put_many(self, drafts: Iterable[Draft], *, project: str = DEFAULT_PROJECT) -> list[Stored]:
        """Store many records in one transaction: all of them or none."""
        listed = list(drafts)
        known_project(project)
        if not listed:
            return []
        return self.database.write(
            lambda connection: writing.append(connection, project, listed, now=self._clock())
        )

    def forget(
        self, digest: str, *, author: str, reason: str, project: str = DEFAULT_PROJECT
    ) -> Tombstone:
        """Remove a record's content for good and leave a tombstone with its digest. Records made
        from it stay, and the tombstone returned here names them.

        On PostgreSQL the next VACUUM removes the bytes from the disk; backups and replicas are your
        responsibility.
        """
        who, why = note("author", author, needed=True), note("reason", reason, needed=True)
        assert who is not None
        assert why is not None
        known_project(project)
        stone = self.database.write(
            lambda connection: writing.forget(
                connection, project, digest_bytes(digest), author=who, reason=why, now=self._clock()
            )
        )
        if self.database.path is not None:  # the write-ahead log still contains the bytes
            raw = self.database.engine.raw_connection()
            try:
                raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                raw.close()
        return stone

    # --- reading

    def get(self, digest: str, *, project: str = DEFAULT_PROJECT) -> Item | None:
        """The record of a digest; None if there is none in this project."""
        return next(iter(self.get_many([digest], project=project).values()), None)

    def get_many(
        self, digests: Iterable[str], *, project: str = DEFAULT_PROJECT
    ) -> dict[str, Item]:
        """The records with these digests; those that this project lacks are left out."""
        wanted = [digest_bytes(digest) for digest in digests]
        return self.database.read(
            lambda connection: reading.get_many(connection, known_project(project), wanted)
        )

    def in_order(
        self, digests: Iterable[str | None], *, project: str, at_once: int = _AT_ONCE
    ) -> Iterator[Item | None]:
        """The record of each digest, read `at_once` at a time; None where this project lacks it, or
        the text is not a digest.
        """
        left = iter(digests)
        while part := list(islice(left, at_once)):
            wanted = [digest for digest in part if digest is not None and DIGEST.fullmatch(digest)]
            items = self.get_many(wanted, project=project)
            yield from (items.get(digest or "") for digest in part)

    def complete(
        self,
        digests: Sequence[str],
        *,
        kinds: Sequence[str],
        what: str,
        where: str,
        fix: str,
        project: str,
    ) -> Iterator[Item]:
        """The records with these digests, in order. A missing one is an error about `what`, and so
        is one of another kind.
        """
        for digest in digests:
            digest_bytes(digest)  # a malformed digest is a fault of the record, not a missing one
        for digest, item in zip(digests, self.in_order(digests, project=project), strict=True):
            if item is None or item.body is None or item.kind not in kinds:
                state = (
                    "is not in the ledger"
                    if item is None
                    else "was forgotten"
                    if item.body is None
                    else f"is of the kind '{item.kind}'"
                )
                raise NotEnoughEvidence(
                    "STO-008", f"{what} {state}: {digest}.", where=where, fix=fix
                )
            yield item

    def evaluation_tags(self, prefix: str, *, project: str = DEFAULT_PROJECT) -> list[str]:
        """The tags of evaluations that begin with a prefix, without it, the newest first."""
        return reading.evaluation_tags(self.database, known_project(project), prefix)

    def links_of_many(
        self, digests: Iterable[str], *, project: str = DEFAULT_PROJECT
    ) -> list[Link]:
        """The links from and to any of these records."""
        wanted = [digest_bytes(digest) for digest in digests]
        return self.database.read(
            lambda connection: reading.links_of_many(connection, known_project(project), wanted)
        )

    def starting_with(self, digits: str, *, project: str = DEFAULT_PROJECT) -> list[Item]:
        """The records whose digest begins with these hexadecimal digits, at most ten."""
        return self.database.read(
            lambda connection: reading.starting_with(connection, known_project(project), digits)
        )

    def find(
        self,
        kind: str,
        filters: Filters | None = None,
        *,
        project: str = DEFAULT_PROJECT,
        after: int | None = None,
        limit: int = 100,
        newest_first: bool = False,
        look_at: int | None = None,
    ) -> Page:
        """One page of the records of a kind. `after` is the `next_cursor` of the page before.

        With `look_at` a page costs the same whatever the filters are and however little they
        match, so it may be short or empty even if more follow.
        """
        return self.database.read(
            lambda connection: reading.find(
                connection,
                known_project(project),
                kind,
                filters or {},
                after=after,
                limit=limit,
                newest_first=newest_first,
                look_at=look_at,
            )
        )

    def each(
        self,
        kind: str,
        filters: Filters | None = None,
        *,
        project: str,
        at_once: int = _AT_ONCE,
        newest_first: bool = False,
    ) -> Iterator[Item]:
        """Every record of a kind that was not forgotten, read `at_once` at a time: 1 for records
        that may be large.
        """
        after: int | None = None
        while True:
            page = self.find(
                kind,
                filters,
                project=project,
                after=after,
                limit=at_once,
                newest_first=newest_first,
            )
            yield from (item for item in page.items if item.body is not None)
            after = page.next_cursor
            if after is None:
                return

    def history(
        self,
        run_id: str,
        *,
        project: str = DEFAULT_PROJECT,
        after: int | None = None,
        limit: int = 100,
    ) -> Page:
        """Everything about one run, oldest first."""
        return self.database.read(
            lambda connection: reading.history(
                connection, known_project(project), run_id, after=after, limit=limit
            )
        )

    def links_of(
        self,
        digest: str,
        *,
        project: str = DEFAULT_PROJECT,
        relation: str | None = None,
        limit: int = 1000,
    ) -> list[Link]:
        """The links from and to a record."""
        links = self.links_of_many([digest], project=project)
        return [link for link in links if relation in (None, link.relation)][:limit]

    def made_of(self, digest: str, *, project: str) -> list[str]:
        """The digests of the records that are evidence of a record."""
        return [
            str(link.source)
            for link in self.links_of_many([digest], project=project)
            if link.relation == "evidence_of" and link.target == digest
        ]

    def count(
        self,
        kind: str | None = None,
        filters: Filters | None = None,
        *,
        project: str = DEFAULT_PROJECT,
    ) -> RecordCount:
        """How many records there are. Without a filter it is exact and costs nothing."""
        return self.database.read(
            lambda connection: reading.count(
                connection, known_project(project), kind, filters or {}
            )
        )

    def projects(self) -> list[str]:
        """The projects that have records."""
        return self.database.read(
            lambda connection: list(
                connection.execute(select(t.heads.c.project).order_by(t.heads.c.project)).scalars()
            )
        )

    def head(self, *, project: str = DEFAULT_PROJECT) -> tuple[int, str]:
        """The newest `seq` of a project and its chain, to keep outside the ledger."""
        query = select(t.heads.c.seq, t.heads.c.chain).where(
            t.heads.c.project == known_project(project)
        )
        row = self.database.read(lambda connection: connection.execute(query).first())
        head = ChainHead(0, genesis(project)) if row is None else ChainHead.of(project, row)
        return head.seq, digest_text(head.chain)

    def is_there(self) -> bool:
        """Whether the database answers right now. It doesn't retry; callers poll."""

        def ask() -> bool:
            with self.database.reading() as connection:
                return connection.execute(select(literal(1))).scalar() == 1

        return self.database._replace(patience=0.0).patiently(ask)


def known_project(name: str) -> str:
    """The name of a project, if every database and every URL accepts it; else an error."""
    if not isinstance(name, str) or _PROJECT.fullmatch(name) is None:
        raise InputError(
            "STO-013",
            f"{str(name)[:80]!r} is not a name for a project.",
            fix="Use up to 64 letters, digits, dots, dashes and underscores.",
        )
    return name
