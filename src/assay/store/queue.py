"""Work that servers share, and the one way to claim a row of it.

A row of work has a state, an owner and a heartbeat. It is claimed by an update that only one
process can win. An owner whose last heartbeat is too old, or whose process is known to be gone, is
dead, and its row is free again, so another server does the work of a killed one. Doing it twice is
harmless: the digest of a record is the same, and an event names the number it follows.

Servers of one database may grade by different rules. The name of an owner ends with the digest of
its server's rules, and a row that waits has the name of the rules that it was accepted under.
Another server leaves such a row alone while one with these rules is alive.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, or_, select, true, update

from assay.store.databases import Database


def now_ms() -> int:
    """The current time in milliseconds since 1970."""
    return time.time_ns() // 10**6


class Claimed(NamedTuple):
    """A row, and its owner before."""

    row: Row[Any]
    owner: str | None


LEFT_MS = 180_000
"""After this long without a heartbeat, no server with the rules of a row is alive."""


def rules_of(owner: str | None) -> str:
    """The rules in the name of an owner; empty if it names none.

    >>> rules_of("host/1/2/x@0123"), rules_of(waiting_for("0123")), rules_of("host"), rules_of(None)
    ('0123', '0123', '', '')
    """
    return (owner or "").partition("@")[2]


def waiting_for(rules: str) -> str:
    """The owner of a row that waits for a server with these rules."""
    return f"@{rules}"


def keep(database: Database, table: Table, rules: str, *, waiting: ColumnElement[bool]) -> None:
    """Record for the rows that wait for a server with these rules that one is alive."""
    c, at = table.c, now_ms()
    due = and_(waiting, c.owner == waiting_for(rules), c.beat_ms < at - LEFT_MS // 4)
    any_due = select(c.owner).where(due).limit(1)
    if database.read(lambda connection: connection.execute(any_due).first()) is not None:
        database.write(
            lambda connection: connection.execute(update(table).where(due).values(beat_ms=at))
        )


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
) -> Claimed | None:
    """Claim the oldest row that waits, or whose owner is dead; None if there is no such row.

    `waiting` and `held` are the conditions for rows that wait and rows that have an owner. A held
    row becomes free when its last heartbeat is `stale_ms` old, or before `since_ms`, or when
    `is_dead` is true of the owner.
    """
    c = table.c
    at = now_ms() if at_ms is None else at_ms
    owners = select(c.owner).where(or_(waiting, held)).distinct()
    found = database.read(lambda connection: list(connection.execute(owners).scalars()))
    if not found:
        return None  # the usual case: a server looks for work several times a second
    gone = [name for name in found if name is not None and is_dead(name)]
    is_stale = or_(c.beat_ms < max(at - stale_ms, since_ms), c.owner.in_(gone))
    rules = rules_of(owner)
    ours = or_(c.owner.is_(None), c.owner.endswith(waiting_for(rules))) if rules else true()
    free = and_(or_(waiting, and_(held, is_stale)), or_(ours, c.beat_ms < max(at - LEFT_MS, 1)))
    keys = list(table.primary_key.columns)
    oldest = select(*keys, c.owner).where(free).order_by(oldest_first, *keys).limit(1)
    if database.read(lambda connection: connection.execute(oldest).first()) is None:
        return None  # the usual case, without taking the lock for writing

    def work(connection: Connection) -> Claimed | None:
        row = connection.execute(oldest).first()
        if row is None:
            return None
        same = [key == value for key, value in zip(keys, row[:-1], strict=True)]
        taken = update(table).where(*same, free).values(state=state, owner=owner, beat_ms=at)
        claimed = connection.execute(taken.returning(*c)).first()
        return None if claimed is None else Claimed(claimed, row[-1])

    return database.write(work)
