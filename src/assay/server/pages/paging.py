"""Lists of stored records, the newest first, page by page. Every page costs the same, however far
down the list it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import Query, Request
from starlette.responses import Response

from assay.errors import count
from assay.server import lookup
from assay.server.pages.layout import page
from assay.server.state import Services
from assay.store.drafts import Item
from assay.views.blocks import Empty, Field, Filters, Pager, Part
from assay.views.pieces import address

LOOKED_AT = 2000
"""How many rows each filter examines for one page."""
Cursor = Annotated[str | None, Query(max_length=20)]
Text = Annotated[str | None, Query(max_length=500)]


class Listed(NamedTuple):
    """Records, the newest first, and the cursors of the pages around them; None at an end."""

    items: tuple[Item, ...]
    newer: str | None
    older: str | None


class RecordList(NamedTuple):
    """What is different from one list of records to the next."""

    kind: str
    title: str
    nav: str
    """The entry of the menu that the list belongs to."""
    on_a_page: int = 50
    lead: str = "stored, the newest first."
    """How the sentence on the number of records goes on."""
    noun: str = ""
    """What one record is called, if not like its kind."""


def record_page(
    request: Request,
    services: Services,
    project: str,
    listing: RecordList,
    table: Callable[[tuple[Item, ...]], Part],
    *,
    after: str | None,
    before: str | None,
    empty: Callable[[], Empty],
    query: Mapping[str, str | None] | None = None,
    filters: Mapping[str, Any] | None = None,
    fields: Callable[[], Sequence[Field]] | None = None,
    head: Sequence[Part] = (),
    foot: Sequence[Part] = (),
) -> Response:
    """The page of a list: its filter and its table, between `head` and `foot`; where nothing is
    stored, what makes a first record.
    """
    records = listed(
        services,
        project,
        listing.kind,
        filters or {},
        after=after,
        before=before,
        limit=listing.on_a_page,
    )
    paged, path = bool(after or before), request.url.path.strip("/")
    if not (records.items or filters or paged or foot):
        return page(request, listing.title, empty(), *head, nav=listing.nav)
    noun = listing.noun or listing.kind
    return page(
        request,
        listing.title,
        *head,
        *([Filters(f"/{path}", fields(), query or {})] if fields is not None else []),
        table(records.items),
        *foot,
        ways(path, query or {}, records, what=listing.kind, paged=paged),
        nav=listing.nav,
        lead=f"{count(services.ledger.count(listing.kind, project=project).n, noun)}"
        f" {listing.lead}",
    )


def listed(
    services: Services,
    project: str,
    kind: str,
    filters: Mapping[str, Any],
    *,
    after: str | None,
    before: str | None,
    limit: int,
) -> Listed:
    """The records after a place in the list, or with `before` those just before it."""
    back, forth = lookup.cursor(after or None), lookup.cursor(before or None)
    newest_first = forth is None
    found = services.ledger.find(
        kind,
        dict(filters),
        project=project,
        after=back if newest_first else forth,
        limit=limit,
        newest_first=newest_first,
        look_at=LOOKED_AT,
    )
    more = None if found.next_cursor is None else str(found.next_cursor)
    if newest_first:
        return Listed(
            found.items, str(found.items[0].seq) if back is not None and found.items else None, more
        )
    items = found.items[::-1]
    return Listed(items, more, str(items[-1].seq) if items else None)


def ways(
    path: str, query: Mapping[str, str | None], listing: Listed, *, what: str, paged: bool
) -> Pager:
    """Links to the pages before and after."""
    n = len(listing.items)
    return Pager(
        newest=address(path, **query) if paged else "",
        newer=address(path, **query, before=listing.newer) if listing.newer else "",
        older=address(path, **query, after=listing.older) if listing.older else "",
        summary=f"{count(n, what)} on this page." if n else "",
        look_further=listing.older is not None and not n,
    )
