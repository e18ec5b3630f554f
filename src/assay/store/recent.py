"""The newest records of a ledger in brief, for pages: columns without bodies, and never more rows
than requested.

A page about "the last 1,000 runs" reads that many rows from the end of an index, however many there
are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.engine import Connection

from assay.store import tables as t
from assay.store.databases import Database
from assay.store.drafts import digest_text
from assay.store.facets import KEY_BYTES, key
from assay.store.serving import live_runs

_c = t.records.c
_FIRST = 20
"""How many runs of an evaluation are searched for a graded one."""


class Brief(NamedTuple):
    """A record without its body. Fields that its kind lacks are None."""

    seq: int
    digest: str
    created_at: str
    run_id: str | None
    workflow: str | None
    workflow_version: str | None
    grade: str | None
    passed: bool | None
    policy: str | None
    status: str | None
    schema: str | None


class RunSearch(NamedTuple):
    """Digests of runs, and the cursor to continue from; None if everything was searched."""

    digests: tuple[str, ...]
    next_cursor: int | None


class LiveBrief(NamedTuple):
    """A run in progress. `run_id` is its index key (see `facets.key`)."""

    run_id: str
    state: str
    events: int
    created_at: str
    head: bytes


def newest(
    database: Database,
    project: str,
    kind: str,
    *,
    limit: int,
    status: str | None = None,
    passed: bool | None = None,
    workflow: str | None = None,
    dataset: str | None = None,
    before: int | None = None,
) -> list[Brief]:
    """The last records of a kind, the newest first: with a status, a verdict, a workflow or a
    dataset (as its column has it) only those that have it; with `before` only those before that
    `seq`.
    """
    columns = [_c[name] for name in Brief._fields]
    query = select(*columns).where(_c.project == project, _c.kind == kind)
    wanted = {"status": status, "passed": passed, "workflow": workflow, "dataset": dataset}
    query = query.where(*(_c[name] == value for name, value in wanted.items() if value is not None))
    if before is not None:
        query = query.where(_c.seq < before)
    ordered = query.order_by(_c.seq.desc()).limit(limit)
    return database.read(
        lambda connection: [
            Brief(row[0], digest_text(bytes(row[1])), *row[2:])
            for row in connection.execute(ordered)
        ],
    )


def bodies(
    database: Database, project: str, kind: str, *, limit: int, passed: bool | None = None
) -> list[tuple[str, bytes]]:
    """Digest and body of the last records of a kind, the newest first, without those that were
    forgotten.
    """
    query = select(_c.digest, _c.body).where(_c.project == project, _c.kind == kind)
    if passed is not None:
        query = query.where(_c.passed == passed)
    ordered = query.order_by(_c.seq.desc()).limit(limit)
    return database.read(
        lambda connection: [
            (digest_text(bytes(row[0])), bytes(row[1]))
            for row in connection.execute(ordered)
            if row[1] is not None
        ],
    )


class GradedBy(NamedTuple):
    """The policy and the profile of a grade, according to its columns."""

    policy: str | None
    profile: str | None


def graded_by(database: Database, project: str, evaluations: Sequence[int]) -> dict[int, GradedBy]:
    """What the first grade of each evaluation was made by, by the `seq` of the evaluation; an
    evaluation without a grade among its first runs is left out.
    """
    links = t.links.c
    joined = t.links.join(t.records, (_c.project == links.project) & (_c.seq == links.target_seq))

    def work(connection: Connection) -> dict[int, GradedBy]:
        graded: dict[int, GradedBy] = {}
        for seq in evaluations:
            query = (
                select(_c.policy, _c.profile)
                .select_from(joined)
                .where(links.project == project, links.seq == seq, links.relation == "evaluates")
                .order_by(links.position)
                .limit(_FIRST)
            )
            for row in connection.execute(query):
                if row[0] is not None:
                    graded[seq] = GradedBy(row[0], row[1])
                    break
        return graded

    return database.read(work)


def containing(
    database: Database, project: str, text: str, *, after: int | None, look_at: int, limit: int
) -> RunSearch:
    """The newest runs whose id contains a text, among the next `look_at`. Runs with exactly that id
    are always found.
    """
    if len(text.encode("utf-8", "replace")) > KEY_BYTES or "\0" in text:
        return RunSearch(_named(database, project, text, limit) if after is None else (), None)

    def work(connection: Connection) -> RunSearch:
        query = select(_c.seq, _c.digest, _c.run_id).where(_c.project == project, _c.kind == "run")
        if after is not None:
            query = query.where(_c.seq < after)
        digests: list[str] = []
        looked = 0
        last: int | None = None
        for seq, digest, run_id in connection.execute(
            query.order_by(_c.seq.desc()).limit(look_at + 1)
        ):
            if len(digests) == limit or looked == look_at:
                return RunSearch(tuple(digests), last)
            looked, last = looked + 1, seq
            if run_id is not None and text in run_id:
                digests.append(digest_text(bytes(digest)))
        return RunSearch(tuple(digests), None)

    search = database.read(work)
    if after is not None:
        return search
    exact = [one for one in _named(database, project, text, limit) if one not in search.digests]
    return RunSearch((*exact, *search.digests), search.next_cursor)


def _named(database: Database, project: str, run_id: str, limit: int) -> tuple[str, ...]:
    query = (
        select(_c.digest)
        .where(_c.project == project, _c.run_id == key(run_id), _c.kind == "run")
        .order_by(_c.seq.desc())
        .limit(limit)
    )
    return database.read(
        lambda connection: tuple(
            digest_text(bytes(one)) for one in connection.execute(query).scalars()
        ),
    )


def live(
    database: Database, project: str, states: Iterable[str], *, limit: int
) -> Sequence[LiveBrief]:
    """Runs in progress, the newest first."""
    columns = [live_runs.c[name] for name in LiveBrief._fields]
    query = (
        select(*columns)
        .where(live_runs.c.project == project, live_runs.c.state.in_(tuple(states)))
        .order_by(live_runs.c.created_at.desc())
        .limit(limit)
    )
    return database.read(
        lambda connection: [
            LiveBrief(row[0], row[1], row[2], row[3], bytes(row[4]))
            for row in connection.execute(query)
        ],
    )
