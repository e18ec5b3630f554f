"""Which grades belong to which evidence, for many records in one question."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import select

from assay.store import tables as t
from assay.store.drafts import digest_bytes, digest_text
from assay.store.serving import read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from assay.store.databases import Database


class GradeOf(NamedTuple):
    """A grade in brief."""

    digest: str
    seq: int
    grade: str | None
    passed: bool | None
    policy: str | None
    profile: str | None


def grades_of(database: Database, project: str, evidence: Sequence[str]) -> dict[str, list[GradeOf]]:
    """The grades of runs or scorecards, oldest first: by way of the scorecard that was graded, or straight."""
    made: dict[str, dict[str, GradeOf]] = {}
    wanted = [digest_bytes(text) for text in evidence]
    first, second, r = t.links.alias(), t.links.alias(), t.records.c
    columns = (r.digest, r.seq, r.grade, r.passed, r.policy, r.profile)

    def work(connection: Connection) -> None:
        for start in range(0, len(wanted), 400):
            part = wanted[start : start + 400]
            through = (
                select(first.c.source, *columns)
                .join(second, (second.c.project == first.c.project) & (second.c.target == first.c.target) & (second.c.relation == "graded_from"))
                .join(t.records, (r.project == second.c.project) & (r.digest == second.c.source))
                .where(first.c.project == project, first.c.relation == "evidence_of", first.c.source.in_(part))
            )
            straight = (
                select(second.c.target, *columns)
                .join(t.records, (r.project == second.c.project) & (r.digest == second.c.source))
                .where(second.c.project == project, second.c.relation == "graded_from", second.c.target.in_(part))
            )
            for query in (through, straight):
                for row in connection.execute(query):
                    one = GradeOf(digest_text(bytes(row[1])), *row[2:])
                    made.setdefault(digest_text(bytes(row[0])), {})[one.digest] = one

    read(database, work)
    return {digest: sorted(found.values(), key=lambda one: one.seq) for digest, found in made.items()}


def evidence_of(database: Database, project: str, grades: Sequence[str]) -> dict[str, str]:
    """The evidence that each grade goes back to: the run where there is one, else the scorecard."""
    found: dict[str, str] = {}
    first, second = t.links.alias(), t.links.alias()
    wanted = [digest_bytes(text) for text in grades]

    def work(connection: Connection) -> None:
        for start in range(0, len(wanted), 400):
            query = (
                select(second.c.source, second.c.target, first.c.source)
                .select_from(second)
                .outerjoin(first, (first.c.project == second.c.project) & (first.c.target == second.c.target) & (first.c.relation == "evidence_of"))
                .where(second.c.project == project, second.c.relation == "graded_from", second.c.source.in_(wanted[start : start + 400]))
            )
            for grade, card, run in connection.execute(query):
                found[digest_text(bytes(grade))] = digest_text(bytes(run if run is not None else card))

    read(database, work)
    return found


def runs_behind(database: Database, project: str, cards: Sequence[str]) -> dict[str, str]:
    """The run that each scorecard was made from, where there is one."""
    found: dict[str, str] = {}
    c = t.links.c
    wanted = [digest_bytes(text) for text in cards]

    def work(connection: Connection) -> None:
        for start in range(0, len(wanted), 400):
            part = wanted[start : start + 400]
            for run, card in connection.execute(select(c.source, c.target).where(c.project == project, c.relation == "evidence_of", c.target.in_(part))):
                found[digest_text(bytes(card))] = digest_text(bytes(run))

    read(database, work)
    return found
