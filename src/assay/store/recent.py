"""The newest records of a ledger in brief, for pages: columns without bodies, and never more rows
than requested.

A page about "the last 1,000 runs" reads that many rows from the end of an index, however many there
are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, select
from sqlalchemy.engine import Connection

from assay.store import tables as t
from assay.store.databases import Database
from assay.store.drafts import digest_text
from assay.store.facets import KEY_BYTES, key
from assay.store.serving import live_runs

_c = t.records.c
_FIRST = 20
"""How many runs of an evaluation are searched for a graded one."""


SIDES = ("candidate", "baseline")
SideWorkflows = tuple[tuple[str, str | None], ...]
"""The workflows of one side of a decision, each with its version, in the order of the evidence."""


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
    columns = (_c.policy, _c.profile)
    linked = _linked(database, project, evaluations, "evaluates", columns, at_once=_FIRST)
    graded = {seq: [row for row in rows if row[0] is not None] for seq, rows in linked.items()}
    return {seq: GradedBy(*rows[0]) for seq, rows in graded.items() if rows}


def sides_of(
    database: Database, project: str, decisions: Sequence[int], *, look_at: int = 20
) -> dict[int, dict[str, SideWorkflows]]:
    """The workflows on the two sides of decisions, by the `seq` of each decision. Of each side, the
    first `look_at` records of its evidence are read.
    """
    columns = (_c.workflow, _c.workflow_version)
    evidence = {
        side: _linked(database, project, decisions, f"{side}_of", columns, at_once=look_at)
        for side in SIDES
    }
    return {
        seq: {
            side: tuple(dict.fromkeys((row[0], row[1]) for row in rows[seq] if row[0] is not None))
            for side, rows in evidence.items()
        }
        for seq in decisions
    }


def _linked(
    database: Database,
    project: str,
    places: Sequence[int],
    relation: str,
    columns: Sequence[ColumnElement[Any]],
    *,
    at_once: int,
) -> dict[int, list[tuple[Any, ...]]]:
    """The first records that each of these brought a link of this relation with, in their order.
    An evaluation links to its runs; evidence links to a decision.
    """
    links = t.links.c
    end = links.target_seq if relation == "evaluates" else links.source_seq
    query = (
        select(*columns)
        .select_from(t.links.join(t.records, (_c.project == links.project) & (_c.seq == end)))
        .where(links.project == project, links.relation == relation)
        .order_by(links.position)
        .limit(at_once)
    )
    return database.read(
        lambda connection: {
            seq: [tuple(row) for row in connection.execute(query.where(links.seq == seq))]
            for seq in places
        }
    )


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
    exact = [item for item in _named(database, project, text, limit) if item not in search.digests]
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
            digest_text(bytes(digest)) for digest in connection.execute(query).scalars()
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
