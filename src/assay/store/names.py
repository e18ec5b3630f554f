"""The workflows and datasets that the runs of a project name, and how many runs each has. They are
updated in the transaction that adds or forgets a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import delete, func, select, update
from sqlalchemy.engine import Connection

from assay.store import tables as t
from assay.store.databases import Database
from assay.store.serving import adding

NAMED = ("workflow", "dataset")
_PLACES = tuple((what, t.FACETS.index(what), t.FACETS.index(f"{what}_version")) for what in NAMED)

Name = tuple[str, str, str]
"""The kind (workflow or dataset), the id and the version."""


class NamedRuns(NamedTuple):
    """A name and version, how many runs carry it, and the newest of them."""

    id: str
    version: str | None
    runs: int
    newest_seq: int


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


def forget(connection: Connection, project: str, columns: tuple[Any, ...], seq: int) -> None:
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


def seen(database: Database, project: str, what: str, *, limit: int = 1000) -> list[NamedRuns]:
    """The workflows or datasets of a project's runs, in the order of their names."""
    c = t.seen.c
    query = (
        select(c.id, c.version, c.runs, c.newest_seq)
        .where(c.project == project, c.what == what)
        .order_by(c.id, c.version)
        .limit(limit)
    )
    return database.read(
        lambda connection: [
            NamedRuns(row[0], row[1] or None, row[2], row[3]) for row in connection.execute(query)
        ],
    )


class ActiveWorkflow(NamedTuple):
    """A workflow as its column has it, how many versions and runs it has, and its newest run."""

    id: str
    versions: int
    runs: int
    newest_seq: int


def active_workflows(database: Database, project: str) -> list[ActiveWorkflow]:
    """Every workflow that runs name, the one with the newest run first. This reads one row for each
    version, however many runs there are.
    """
    c = t.seen.c
    newest = func.max(c.newest_seq)
    query = (
        select(c.id, func.count(), func.sum(c.runs), newest)
        .where(c.project == project, c.what == "workflow")
        .group_by(c.id)
        .order_by(newest.desc(), c.id)
    )
    return database.read(
        lambda connection: [
            ActiveWorkflow(row[0], row[1], int(row[2]), row[3] or 0)
            for row in connection.execute(query)
        ],
    )


def counted(connection: Connection, project: str) -> dict[Name, tuple[int, int]]:
    """The stored counts, for a later comparison."""
    c = t.seen.c
    return {
        (row[0], row[1], row[2]): (row[3], row[4])
        for row in connection.execute(
            select(c.what, c.id, c.version, c.runs, c.newest_seq).where(c.project == project)
        )
    }
