"""Queries to a ledger. Each takes a project and returns only its records: pages of records, which
grades belong to which evidence, the newest records in brief, and the names that runs carry.

Pages are ordered by `seq`: the cursor is the last one seen, so that the thousandth page costs as
much as the first. Each filter has its own index, ordered by `seq`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Select,
    any_,
    bindparam,
    cast,
    func,
    literal,
    select,
    type_coerce,
)
from sqlalchemy.types import NullType

from assay.errors import InputError
from assay.registry import near_miss
from assay.store import tables as t
from assay.store.databases import Database
from assay.store.drafts import (
    DIGEST_BYTES,
    EVIDENCE,
    KEY_BYTES,
    KINDS,
    Item,
    Link,
    Page,
    RecordCount,
    digest_bytes,
    digest_text,
    key,
    moment_key,
)
from assay.store.writing import EVALUATES, Name, lookup, parts

SPAN = ("started_from", "started_before")
_FEW = 2000
FILTERS = (*t.FACETS[:-1], "tag", *SPAN)
MAX_PAGE = 10_000
COUNTED = 10_000
"""How many matches of a filter are counted at most."""
_c = t.records.c
_ITEM = (
    _c.project,
    _c.seq,
    _c.digest,
    _c.kind,
    _c.schema,
    _c.created_at,
    _c.author,
    _c.reason,
    type_coerce(_c.body, NullType()),
)

_BY_DIGESTS = select(*_ITEM).where(
    _c.project == bindparam("project"), _c.digest.in_(bindparam("digests", expanding=True))
)

Filters = Mapping[str, str | bool]


def find(
    connection: Connection,
    project: str,
    kind: str,
    filters: Filters,
    *,
    after: int | None,
    limit: int,
    newest_first: bool,
    look_at: int | None = None,
) -> Page:
    """One page of the records of a kind. With `look_at` at most that many records are read for each
    filter, so a page may be short even if more follow.
    """
    if (
        look_at is not None
        and filters
        and not (len(filters) == 1 and next(iter(filters)) in _LEADING)
    ):
        return _bounded_page(
            connection,
            project,
            kind,
            filters,
            after=after,
            limit=limit,
            newest_first=newest_first,
            look_at=look_at,
        )
    seq = t.tags.c.seq if "tag" in filters else _c.seq  # of the table whose index gives the order
    few = _few(connection, project, kind, filters)
    query = _matching(select(*_ITEM), project, kind, filters)
    if few is not None:
        few = _beyond(few, after, newest_first)
        if not few:
            return Page((), None)
        query = query.where(_among(connection, few))
    elif after is not None:
        query = query.where(seq < after if newest_first else seq > after)
    return _page(connection, query.order_by(seq.desc() if newest_first else seq), limit)


_LEADING = ("tag", "run_id", *(name for name in t.INDEXED if name != "started_at"))
"""Filters that an index gives in the order of `seq`."""


def _bounded_page(
    connection: Connection,
    project: str,
    kind: str,
    filters: Filters,
    *,
    after: int | None,
    limit: int,
    newest_first: bool,
    look_at: int,
) -> Page:
    """A page by several filters: the next records of the index of each, as far as all filters have
    them. The query planner of a database may choose a slow index instead.
    """
    limit = max(1, min(limit, MAX_PAGE))
    _matching(select(_c.seq), project, kind, filters)  # an unknown filter is an error in any case
    few = _few(connection, project, kind, filters)
    complete = [] if few is None else [set(_beyond(few, after, newest_first))]
    partial: list[list[int]] = []
    for leading in [{name: filters[name]} for name in filters if name in _LEADING] or (
        [] if complete else [{}]
    ):
        query = _next(project, kind, leading, after, newest_first).limit(look_at)
        matches = list(connection.execute(query).scalars())
        if len(matches) < look_at:
            complete.append(set(matches))
        else:
            partial.append(matches)
    end = None
    if complete:  # every record of one filter is known: the query checks them by the others
        places = sorted(set.intersection(*complete), reverse=newest_first)
    else:  # only as far as every filter was read
        ends = [matches[-1] for matches in partial]
        end = max(ends) if newest_first else min(ends)
        shared = set.intersection(*map(set, partial))
        places = sorted(
            (seq for seq in shared if (seq >= end if newest_first else seq <= end)),
            reverse=newest_first,
        )
    if not places:
        return Page((), end)
    query = _matching(select(*_ITEM), project, kind, filters).where(_among(connection, places))
    page = _page(connection, query.order_by(_c.seq.desc() if newest_first else _c.seq), limit)
    return page if page.next_cursor is not None else Page(page.items, end)


def _beyond(places: list[int], after: int | None, newest_first: bool) -> list[int]:
    """The places that come after a cursor, in the direction of the page."""
    return [
        seq for seq in places if after is None or (seq < after if newest_first else seq > after)
    ]


def _among(connection: Connection, places: list[int]) -> ColumnElement[bool]:
    """The condition that a record is at one of these places, as a single parameter: thousands of
    them cost more than the query.
    """
    if connection.dialect.name == "sqlite":
        listed = func.json_each(json.dumps(places)).table_valued("value")
        return _c.seq.in_(select(listed.c.value))
    return _c.seq == any_(literal(places, ARRAY(BigInteger)))


def _next(
    project: str, kind: str, filters: Filters, after: int | None, newest_first: bool
) -> Select[Any]:
    """A query for the places of the next records of one filter, from its index alone."""
    if "tag" in filters:
        seq = t.tags.c.seq
        query = select(seq).where(
            t.tags.c.project == project,
            t.tags.c.kind == kind,
            t.tags.c.tag == key(str(filters["tag"])),
        )
    elif "run_id" in filters:
        seq = _c.seq
        query = select(seq).where(_c.project == project, _c.run_id == key(str(filters["run_id"])))
    else:
        seq = _c.seq
        query = _matching(select(seq), project, kind, filters)
    if after is not None:
        query = query.where(seq < after if newest_first else seq > after)
    return query.order_by(seq.desc() if newest_first else seq)


def history(
    connection: Connection, project: str, run_id: str, *, after: int | None, limit: int
) -> Page:
    """Everything about one run, the oldest first."""
    query = select(*_ITEM).where(_c.project == project, _c.run_id == key(run_id))
    if after is not None:
        query = query.where(_c.seq > after)
    return _page(connection, query.order_by(_c.seq), limit)


def _page(connection: Connection, query: Select[Any], limit: int) -> Page:
    limit = max(1, min(limit, MAX_PAGE))
    items = [_item(row) for row in connection.execute(query.limit(limit + 1))]
    more = len(items) > limit
    return Page(tuple(items[:limit]), items[limit - 1].seq if more else None)


def _item(row: Any) -> Item:
    project, seq, digest, kind, schema, created_at, author, reason, body = row
    if isinstance(body, str):
        body = body.encode()  # only another program stores a text here
    if type(seq) is not int:
        raise InputError(
            "STO-007",
            f"the position of this record is not a whole number: {seq!r:.60}.",
            where=digest_text(digest),
            fix="`assay ledger verify` lists what was changed.",
        )
    return Item(
        project,
        seq,
        digest_text(digest),
        kind,
        schema,
        created_at,
        author,
        reason,
        None if body is None else bytes(body),
    )


def _few(connection: Connection, project: str, kind: str, filters: Filters) -> list[int] | None:
    """The places of the records in the filters' span of time; None if they are many, or no filter
    is a span.
    """
    span = {name: value for name, value in filters.items() if name in SPAN}
    if not span:
        return None
    places = list(
        connection.execute(
            _matching(select(_c.seq), project, kind, span, by_time=True).limit(_FEW + 1)
        ).scalars()
    )
    return places if len(places) <= _FEW else None


def _matching(
    query: Select[Any], project: str, kind: str, filters: Filters, *, by_time: bool = False
) -> Select[Any]:
    if kind not in KINDS:
        raise InputError(
            "STO-016",
            f"there is no kind '{kind}'.{near_miss(kind, KINDS)}",
            fix=f"Kinds: {', '.join(KINDS)}.",
        )
    if "tag" in filters:
        tags = t.tags.c
        query = query.join(t.tags, (tags.project == _c.project) & (tags.seq == _c.seq))
        query = query.where(
            tags.project == project, tags.kind == kind, tags.tag == key(str(filters["tag"]))
        )
    query = query.where(_c.project == project, _c.kind == kind)
    for name, value in filters.items():
        if name not in FILTERS:
            raise InputError(
                "STO-016",
                f"there is no filter '{name}'.{near_miss(name, FILTERS)}",
                fix=f"Filters: {', '.join(FILTERS)}.",
            )
        if name in SPAN:
            moment = span_moment(name, value)
            # The second form has no index, so that the index by `seq` is used: by time, every page
            # would have to sort all matches.
            began = (
                _c.started_at
                if by_time
                else func.coalesce(_c.started_at, "9999" if name == "started_before" else "")
            )
            query = query.where(began >= moment if name == "started_from" else began < moment)
        elif (name == "passed") is not isinstance(value, bool):
            raise InputError(
                "STO-016",
                f"the filter '{name}' is {value!r}; it takes"
                f" {'true or false' if name == 'passed' else 'a string'}.",
            )
        elif name == "passed":
            query = query.where(_c.passed == literal(value))
        elif name != "tag":
            query = query.where(_c[name] == key(str(value)))
    return query


def span_moment(name: str, value: object) -> str:
    """The value of a filter on time as its column has it; an error if it is not a time."""
    moment = moment_key(value)
    if moment is None:
        raise InputError(
            "STO-016",
            f"the filter '{name}' is {value!r}, which is not a time.",
            fix="Write it as 2026-11-15T10:00:00Z.",
        )
    return moment


def get_many(connection: Connection, project: str, digests: Iterable[bytes]) -> dict[str, Item]:
    """The records with these digests; missing ones are left out."""
    items = {}
    for part in parts(sorted(digests)):
        rows = connection.execute(_BY_DIGESTS, {"project": project, "digests": part})
        for item in map(_item, rows.fetchall()):
            items[item.digest] = item
    return items


def links_of_many(connection: Connection, project: str, digests: Iterable[bytes]) -> list[Link]:
    """The links from and to any of these records, in the order in which they were stored."""
    c = t.links.c
    links: dict[tuple[int, int], Link] = {}
    for part in parts(sorted(known.seq for known in lookup(connection, project, digests).values())):
        for end in (c.source_seq, c.target_seq):
            query = select(
                c.seq, c.position, c.relation, t.targets.c.digest, t.sources.c.digest
            ).select_from(t.linked)
            for seq, place, relation, target, source in connection.execute(
                query.where(c.project == project, end.in_(part))
            ):
                links[seq, place] = Link(relation, digest_text(target), digest_text(source))
    return [links[place] for place in sorted(links)]


def starting_with(connection: Connection, project: str, digits: str) -> list[Item]:
    """The records whose digest begins with these hexadecimal digits, at most ten."""
    size = 2 * DIGEST_BYTES
    low, high = bytes.fromhex(digits.ljust(size, "0")), bytes.fromhex(digits.ljust(size, "f"))
    query = (
        select(*_ITEM)
        .where(_c.project == project, _c.digest >= low, _c.digest <= high)
        .order_by(_c.digest)
        .limit(10)
    )
    return [_item(row) for row in connection.execute(query)]


def count(connection: Connection, project: str, kind: str | None, filters: Filters) -> RecordCount:
    """How many records: exact without a filter, from the counters; with one, counted up to a
    limit.
    """
    if filters and kind is None:
        raise InputError(
            "STO-016",
            "a filter needs the kind of the records.",
            fix=f"Kinds: {', '.join(KINDS)}.",
        )
    if not filters or kind is None:
        c = t.counts.c
        query = select(func.coalesce(func.sum(c.n), 0)).where(c.project == project)
        if kind is not None:
            query = query.where(c.kind == kind)
        return RecordCount(int(connection.execute(query).scalar_one()), True)
    inner = (
        _matching(select(literal(1)).select_from(t.records), project, kind, filters, by_time=True)
        .limit(COUNTED + 1)
        .subquery()
    )
    n = connection.execute(select(func.count()).select_from(inner)).scalar_one()
    return RecordCount(min(n, COUNTED), n <= COUNTED)


def stored_of(database: Database, project: str, digests: Iterable[bytes]) -> list[str]:
    """Those of the records that a project has, in this order, without the forgotten ones. No body
    is read.
    """
    wanted = list(dict.fromkeys(digests))
    known = database.read(lambda connection: lookup(connection, project, wanted))
    return [
        digest_text(digest) for digest in wanted if digest in known and not known[digest].forgotten
    ]


# --- which grades belong to which evidence, for many records in one query

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


# --- the newest records in brief, for pages: columns without bodies, and never more rows than
# requested. A page about "the last 1,000 runs" reads that many rows from the end of an index.

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
    columns = [t.live_runs.c[name] for name in LiveBrief._fields]
    query = (
        select(*columns)
        .where(t.live_runs.c.project == project, t.live_runs.c.state.in_(tuple(states)))
        .order_by(t.live_runs.c.created_at.desc())
        .limit(limit)
    )
    return database.read(
        lambda connection: [
            LiveBrief(row[0], row[1], row[2], row[3], bytes(row[4]))
            for row in connection.execute(query)
        ],
    )


# --- the names that runs carry


class NamedRuns(NamedTuple):
    """A name and version, how many runs carry it, and the newest of them."""

    id: str
    version: str | None
    runs: int
    newest_seq: int


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
