"""Which grades belong to which evidence, for many records in one query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Integer, cast, func, select
from sqlalchemy.engine import Connection

from assay.store import tables as t
from assay.store.databases import Database
from assay.store.drafts import EVIDENCE, digest_bytes, digest_text
from assay.store.facets import key
from assay.store.writing import EVALUATES, lookup, parts


def tags_with(
    database: Database, project: str, kind: str, prefix: str, *, most: int = 200
) -> list[str]:
    """The tags of records of a kind that begin with a prefix, without it, the newest first."""
    c = t.tags.c
    query = (
        select(c.tag)
        .where(c.project == project, c.kind == kind, c.tag.startswith(prefix, autoescape=True))
        .order_by(c.seq.desc())
        .limit(most)
    )
    tags = database.read(lambda connection: list(connection.execute(query).scalars()))
    return list(dict.fromkeys(tag.removeprefix(prefix) for tag in tags))


class GradeOf(NamedTuple):
    """A grade in brief."""

    digest: str
    seq: int
    grade: str | None
    passed: bool | None
    policy: str | None
    profile: str | None


def grades_of(
    database: Database, project: str, evidence: Sequence[str]
) -> dict[str, list[GradeOf]]:
    """The grades of runs or scorecards, oldest first: made directly from them, or from a scorecard
    that was made from them. A grade that was made again later, because earlier rules apply again,
    comes after those that it supersedes.
    """
    grades: dict[str, dict[str, GradeOf]] = {}
    made: dict[int, int] = {}
    first, second, r = t.links.alias(), t.links.alias(), t.records.c
    columns = (r.digest, r.seq, r.grade, r.passed, r.policy, r.profile)

    def work(connection: Connection) -> None:
        places = _places(connection, project, evidence)
        for part in parts(sorted(places)):
            through = (
                select(first.c.source_seq, *columns)
                .join(
                    second,
                    (second.c.project == first.c.project)
                    & (second.c.target_seq == first.c.target_seq)
                    & (second.c.relation == "graded_from"),
                )
                .join(t.records, (r.project == second.c.project) & (r.seq == second.c.source_seq))
                .where(
                    first.c.project == project,
                    first.c.relation == "evidence_of",
                    first.c.source_seq.in_(part),
                )
            )
            direct = (
                select(second.c.target_seq, *columns)
                .join(t.records, (r.project == second.c.project) & (r.seq == second.c.source_seq))
                .where(
                    second.c.project == project,
                    second.c.relation == "graded_from",
                    second.c.target_seq.in_(part),
                )
            )
            for query in (through, direct):
                for row in connection.execute(query):
                    grade = GradeOf(digest_text(bytes(row[1])), *row[2:])
                    grades.setdefault(places[row[0]], {})[grade.digest] = grade
                    made[grade.seq] = grade.seq
        links = t.links.c
        for part in parts(sorted(made)):
            superseding = select(links.source_seq, func.max(links.seq)).where(
                links.project == project,
                links.source_seq.in_(part),
                links.relation == "supersedes",
            )
            made.update(map(tuple, connection.execute(superseding.group_by(links.source_seq))))

    database.read(work)
    return {
        digest: sorted(found.values(), key=lambda one: made[one.seq])
        for digest, found in grades.items()
    }


def evidence_of(database: Database, project: str, grades: Sequence[str]) -> dict[str, list[str]]:
    """The evidence of each grade: every run with its scorecard, the oldest first; the scorecard
    itself if there is none. Runs that differ only in unscored parts share a scorecard.
    """
    evidence: dict[str, list[str]] = {}
    first, second = t.links.alias(), t.links.alias()
    cards, runs = t.targets.c, t.sources.c

    def work(connection: Connection) -> None:
        places = _places(connection, project, grades)
        for part in parts(sorted(places)):
            query = (
                select(second.c.source_seq, cards.digest, runs.digest)
                .select_from(second)
                .join(
                    t.targets,
                    (cards.project == second.c.project) & (cards.seq == second.c.target_seq),
                )
                .outerjoin(
                    first,
                    (first.c.project == second.c.project)
                    & (first.c.target_seq == second.c.target_seq)
                    & (first.c.relation == "evidence_of"),
                )
                .outerjoin(
                    t.sources, (runs.project == first.c.project) & (runs.seq == first.c.source_seq)
                )
                .where(
                    second.c.project == project,
                    second.c.relation == "graded_from",
                    second.c.source_seq.in_(part),
                    cards.kind.in_(EVIDENCE),  # a grade is also made from the cards of judges
                )
                .order_by(runs.seq)
            )
            for place, card, run in connection.execute(query):
                name = digest_text(bytes(run if run is not None else card))
                evidence.setdefault(places[place], []).append(name)

    database.read(work)
    return evidence


def runs_behind(database: Database, project: str, cards: Sequence[str]) -> dict[str, str]:
    """The run that each scorecard was made from, if there is one."""
    behind: dict[str, str] = {}
    c, r = t.links.c, t.records.c
    joined = t.links.join(t.records, (r.project == c.project) & (r.seq == c.source_seq))

    def work(connection: Connection) -> None:
        places = _places(connection, project, cards)
        for part in parts(sorted(places)):
            query = select(r.digest, c.target_seq).select_from(joined)
            for run, place in connection.execute(
                query.where(
                    c.project == project, c.relation == "evidence_of", c.target_seq.in_(part)
                )
            ):
                behind[places[place]] = digest_text(bytes(run))

    database.read(work)
    return behind


def evaluated_samples(
    database: Database, project: str, evaluations: Sequence[int], sample: str
) -> dict[int, list[str]]:
    """The grades of a sample in each evaluation, by the `seq` of the evaluation: their digests, or
    those of the runs that have no grade.
    """
    digests: dict[int, list[str]] = {}
    query = (
        select(t.links.c.source_seq, t.records.c.digest)
        .join(
            t.records,
            (t.records.c.project == t.links.c.project) & (t.records.c.seq == t.links.c.target_seq),
        )
        .where(
            t.links.c.project == project,
            t.links.c.source_seq.in_(evaluations),
            t.links.c.relation == EVALUATES,
            t.records.c.sample_id == key(sample),
        )
        .order_by(t.links.c.target_seq)
    )

    def work(connection: Connection) -> None:
        for place, digest in connection.execute(query):
            digests.setdefault(place, []).append(digest_text(bytes(digest)))

    database.read(work)
    return digests


class PassCount(NamedTuple):
    """The runs of one sample."""

    runs: int
    passed: int


def sample_counts(database: Database, project: str, evaluation: int) -> dict[str | None, PassCount]:
    """The samples of an evaluation, by its `seq`, and how many of their runs passed. Runs whose
    sample is unknown are under None: their record was forgotten, or names no sample.
    """
    r = t.records.c
    query = (
        select(r.sample_id, func.count(), func.sum(cast(r.passed, Integer)))
        .select_from(t.links)
        .join(t.records, (r.project == t.links.c.project) & (r.seq == t.links.c.target_seq))
        .where(
            t.links.c.project == project,
            t.links.c.source_seq == evaluation,
            t.links.c.relation == EVALUATES,
        )
        .group_by(r.sample_id)
    )
    rows = database.read(lambda connection: connection.execute(query).all())
    return {sample: PassCount(runs, passed or 0) for sample, runs, passed in rows}


def _places(connection: Connection, project: str, digests: Sequence[str]) -> dict[int, str]:
    """The positions of records. Those that don't exist are left out."""
    return {
        known.seq: digest_text(digest)
        for digest, known in lookup(connection, project, map(digest_bytes, digests)).items()
    }
