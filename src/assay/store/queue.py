"""Work that servers share, and the one way to claim a row of it.

A row of work has a state, an owner and a heartbeat. It is claimed by an update that only one
process can win. An owner whose last heartbeat is too old, or whose process is known to be gone, is
dead, and its row is free again, so another server does the work of a killed one. Doing it twice is
harmless: the digest of a record is the same, and an event names the number it follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, or_, select, update

from assay.store.databases import Database


def now_ms() -> int:
    """The current time in milliseconds since 1970."""
    return time.time_ns() // 10**6


def claim(
    database: Database,
    table: Table,
    owner: str,
    *,
    waiting: ColumnElement[bool],
    held: ColumnElement[bool],
    state: Any,
    oldest_first: ColumnElement[Any],
    stale_ms: int,
    at_ms: int | None = None,
    since_ms: int = 0,
    is_dead: Callable[[str], bool] = lambda _owner: False,
) -> Row[Any] | None:
    """Claim the oldest row that waits, or whose owner is dead; None if there is no such row.

    `waiting` and `held` are the conditions for rows that wait and rows that have an owner. A held
    row becomes free when its last heartbeat is `stale_ms` old, or before `since_ms`, or when
    `is_dead` is true of the owner.
    """
    c = table.c
    at = now_ms() if at_ms is None else at_ms
    owners = select(c.owner).where(or_(waiting, held)).distinct()
    owner_names = database.read(lambda connection: list(connection.execute(owners).scalars()))
    if not owner_names:
        return None  # the usual case: a server looks for work several times a second
    gone = [name for name in owner_names if name is not None and is_dead(name)]
    is_stale = or_(c.beat_ms < max(at - stale_ms, since_ms), c.owner.in_(gone))
    free = or_(waiting, and_(held, is_stale))
    keys = list(table.primary_key.columns)
    oldest = select(*keys).where(free).order_by(oldest_first, *keys).limit(1)
    if database.read(lambda connection: connection.execute(oldest).first()) is None:
        return None  # the usual case, without taking the lock for writing

    def work(connection: Connection) -> Row[Any] | None:
        row = connection.execute(oldest).first()
        if row is None:
            return None
        same = [key == value for key, value in zip(keys, row, strict=True)]
        taken = update(table).where(*same, free).values(state=state, owner=owner, beat_ms=at)
        return connection.execute(taken.returning(*c)).first()

    return database.write(work)
