"""Which grades belong to which evidence, for many records in one query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Integer, Select, cast, func, select
from sqlalchemy.engine import Connection

from assay.store import tables as t
from assay.store.databases import Database
from assay.store.drafts import EVIDENCE, digest_bytes, digest_text
from assay.store.facets import key
from assay.store.writing import EVALUATES, lookup, parts

MAX_TAGS = 200


def evaluation_tags(database: Database, project: str, prefix: str) -> list[str]:
    """The tags of evaluations that begin with a prefix, without it, the newest first."""
    c = t.tags.c
    query = (
        select(c.tag)
        .where(
            c.project == project,
            c.kind == "evaluation",
            c.tag.startswith(prefix, autoescape=True),
        )
        .order_by(c.seq.desc())
        .limit(MAX_TAGS)
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


def _rows_about(
    database: Database,
    project: str,
    digests: Sequence[str],
    *queries: tuple[Select[Any], ColumnElement[int]],
) -> list[tuple[Any, ...]]:
    """The rows of queries about records: each has the place of its record first, and the column
    with that place comes with the query. The row gets the digest instead. Records that don't exist
    are left out.
    """

    def work(connection: Connection) -> list[tuple[Any, ...]]:
        found = lookup(connection, project, map(digest_bytes, digests))
        places = {known.seq: digest_text(digest) for digest, known in found.items()}
        return [
            (places[place], *rest)
            for part in parts(sorted(places))
            for query, of_record in queries
            for place, *rest in connection.execute(query.where(of_record.in_(part)))
        ]

    return database.read(work)


def grades_of(
    database: Database, project: str, evidence: Sequence[str]
) -> dict[str, list[GradeOf]]:
    """The grades of runs or scorecards, oldest first: made directly from them, or from a scorecard
    that was made from them. A grade that was made again later, because earlier rules apply again,
    comes after those that it supersedes.
    """
    grades: dict[str, dict[str, GradeOf]] = {}
    first, second, r = t.links.alias(), t.links.alias(), t.records.c
    columns = (r.digest, r.seq, r.grade, r.passed, r.policy, r.profile)
    of_card = (r.project == second.c.project) & (r.seq == second.c.source_seq)
    through = (
        select(first.c.source_seq, *columns)
        .join(
            second,
            (second.c.project == first.c.project)
            & (second.c.target_seq == first.c.target_seq)
            & (second.c.relation == "graded_from"),
        )
        .join(t.records, of_card)
        .where(first.c.project == project, first.c.relation == "evidence_of")
    )
    direct = (
        select(second.c.target_seq, *columns)
        .join(t.records, of_card)
        .where(second.c.project == project, second.c.relation == "graded_from")
    )
    queries = ((through, first.c.source_seq), (direct, second.c.target_seq))
    for name, digest, *rest in _rows_about(database, project, evidence, *queries):
        grade = GradeOf(digest_text(bytes(digest)), *rest)
        grades.setdefault(name, {})[grade.digest] = grade
    made = {grade.seq: grade.seq for found in grades.values() for grade in found.values()}
    links = t.links.c
    superseding = (
        select(links.source_seq, func.max(links.seq))
        .where(links.project == project, links.relation == "supersedes")
        .group_by(links.source_seq)
    )
    newest = database.read(
        lambda connection: [
            tuple(row)
            for part in parts(sorted(made))
            for row in connection.execute(superseding.where(links.source_seq.in_(part)))
        ]
    )
    made.update((seq, last) for seq, last in newest)
    return {
        digest: sorted(by_run.values(), key=lambda grade: made[grade.seq])
        for digest, by_run in grades.items()
    }


def evidence_of(database: Database, project: str, grades: Sequence[str]) -> dict[str, list[str]]:
    """The evidence of each grade: every run with its scorecard, the oldest first; the scorecard
    itself if there is none. Runs that differ only in unscored parts share a scorecard.
    """
    evidence: dict[str, list[str]] = {}
    first, second = t.links.alias(), t.links.alias()
    cards, runs = t.targets.c, t.sources.c
    query = (
        select(second.c.source_seq, cards.digest, runs.digest)
        .select_from(second)
        .join(t.targets, (cards.project == second.c.project) & (cards.seq == second.c.target_seq))
        .outerjoin(
            first,
            (first.c.project == second.c.project)
            & (first.c.target_seq == second.c.target_seq)
            & (first.c.relation == "evidence_of"),
        )
        .outerjoin(t.sources, (runs.project == first.c.project) & (runs.seq == first.c.source_seq))
        .where(
            second.c.project == project,
            second.c.relation == "graded_from",
            cards.kind.in_(EVIDENCE),  # a grade is also made from the cards of judges
        )
        .order_by(runs.seq)
    )
    for name, card, run in _rows_about(database, project, grades, (query, second.c.source_seq)):
        digest = digest_text(bytes(run if run is not None else card))
        evidence.setdefault(name, []).append(digest)
    return evidence


def evaluated_samples(
    database: Database, project: str, evaluations: Sequence[int], sample: str
) -> dict[int, list[str]]:
    """The grades of a sample in each evaluation, by the `seq` of the evaluation: their digests, or
    those of the runs that have no grade.
    """
    digests: dict[int, list[str]] = {}
    c, r = t.links.c, t.records.c
    query = (
        select(c.source_seq, r.digest)
        .join(t.records, (r.project == c.project) & (r.seq == c.target_seq))
        .where(
            c.project == project,
            c.source_seq.in_(evaluations),
            c.relation == EVALUATES,
            r.sample_id == key(sample),
        )
        .order_by(c.target_seq)
    )
    for place, digest in database.read(lambda connection: connection.execute(query).all()):
        digests.setdefault(place, []).append(digest_text(bytes(digest)))
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
