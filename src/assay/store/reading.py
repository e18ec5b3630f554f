"""Queries to a ledger. Each takes a project and returns only its records.

Pages are ordered by `seq`: the cursor is the last one seen, so that the thousandth page costs as
much as the first. Each filter has its own index, ordered by `seq`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    any_,
    bindparam,
    func,
    literal,
    select,
    type_coerce,
)
from sqlalchemy.types import NullType

from assay.errors import InputError
from assay.registry import near_miss
from assay.store import tables as t
from assay.store.drafts import DIGEST_BYTES, KINDS, Item, Link, Page, RecordCount, digest_text
from assay.store.facets import key, moment_key
from assay.store.writing import lookup, parts

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
