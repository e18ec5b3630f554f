"""A page of stored records, the newest first, after or before a place. Every page costs the same,
however far down the list it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from fastapi import Query

from assay.errors import count
from assay.server import lookup
from assay.server.state import Services
from assay.store.drafts import Item
from assay.views.blocks import Pager
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
    page = services.ledger.find(
        kind,
        dict(filters),
        project=project,
        after=back if newest_first else forth,
        limit=limit,
        newest_first=newest_first,
        look_at=LOOKED_AT,
    )
    more = None if page.next_cursor is None else str(page.next_cursor)
    if newest_first:
        return Listed(
            page.items, str(page.items[0].seq) if back is not None and page.items else None, more
        )
    items = page.items[::-1]
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
