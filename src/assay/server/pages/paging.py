"""A page of stored records, the newest first, from a place onwards or back from it. Every page
costs the same, however far down the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from fastapi import Query

from assay import exact
from assay.canon import number_text
from assay.errors import count
from assay.server import lookup
from assay.server.state import Services
from assay.store.drafts import Item
from assay.views.blocks import Pager
from assay.views.pieces import address

LOOKED_AT = 2000
"""Rows that each filter examines for one page."""
Cursor = Annotated[str | None, Query(max_length=20)]
Text = Annotated[str | None, Query(max_length=500)]


class Listed(NamedTuple):
    """Records, the newest first, and the places to go on from; None if that way ends."""

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
    """The records after a place, or with `before` those that came just after it in time."""
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
    path: str, query: Mapping[str, str | None], found: Listed, *, what: str, paged: bool
) -> Pager:
    """Links to the pages before and after."""
    n = len(found.items)
    return Pager(
        newest=address(path, **query) if paged else "",
        newer=address(path, **query, before=found.newer) if found.newer else "",
        older=address(path, **query, after=found.older) if found.older else "",
        summary=f"{count(n, what)} on this page." if n else "",
        look_further=found.older is not None and not n,
    )


def mapped(value: Any) -> dict[str, Any]:
    """A mapping as it is, anything else as an empty one: a stored value may not have the expected
    shape.
    """
    return value if isinstance(value, dict) else {}


def rows_of(value: Any) -> list[dict[str, Any]]:
    """The mappings in a list; nothing if there is no list."""
    return (
        [one for one in value if isinstance(one, dict)] if isinstance(value, list | tuple) else []
    )


def texts(value: Any) -> list[str]:
    """The members of a list as text; nothing if there is no list."""
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


def plain(value: Any, absent: str = "not stated") -> str:
    """A number or a text for a title, which can't contain markup.

    >>> plain(0.5), plain("x"), plain(None)
    ('0.5', 'x', 'not stated')
    """
    return (
        number_text(value)
        if exact.is_number(value)
        else str(value)
        if value not in (None, "")
        else absent
    )
