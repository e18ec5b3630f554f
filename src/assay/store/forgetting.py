"""Forgetting: the only way to remove something from a ledger, inside one transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, or_, select, update

from assay.errors import InputError
from assay.store import names, traces
from assay.store import tables as t
from assay.store.drafts import TOMBSTONE_SCHEMA, Tombstone, digest_text, draft
from assay.store.writing import Batch, insert_rows, lock_head, lookup


def forget(
    connection: Connection, project: str, digest: bytes, *, author: str, reason: str, now: datetime
) -> Tombstone:
    """Remove the body of a record and keep its digest, with who did it and why. The chain stays
    valid, because it covers the digest.
    """
    head = lock_head(connection, project)
    known = lookup(connection, project, [digest]).get(digest)
    if known is None:
        raise InputError(
            "STO-012",
            "there is no such record in this project of the ledger.",
            where=digest_text(digest),
        )
    if known.kind == "tombstone":
        raise InputError(
            "STO-010",
            "a tombstone can't be forgotten: it contains only a digest.",
            where=digest_text(digest),
        )
    if not known.forgotten:
        batch = Batch(project, head, now)
        body = {"schema": TOMBSTONE_SCHEMA, "digest": digest_text(digest), "at": batch.at}
        seq = batch.add(draft(body, kind="tombstone", author=author, reason=reason), ())
        batch.write(connection, {})
        stone = (project, seq, digest, author, reason, batch.at)
        insert_rows(connection, t.tombstones, [stone])
        here = and_(t.records.c.project == project, t.records.c.seq == known.seq)
        columns = connection.execute(
            select(*(t.records.c[name] for name in t.FACETS)).where(here)
        ).one()
        connection.execute(
            update(t.records).where(here).values(body=None, **dict.fromkeys(t.FACETS))
        )
        if known.kind == "run":
            names.forget(connection, project, tuple(columns), known.seq)
            traces.forget_run(connection, project, digest_text(digest))
        tags = t.tags.c
        connection.execute(t.tags.delete().where(tags.project == project, tags.seq == known.seq))
    left = tombstone(connection, project, digest)
    assert left is not None
    return left


def tombstone(connection: Connection, project: str, digest: bytes) -> Tombstone | None:
    """Who had a record forgotten; None if it wasn't."""
    c = t.tombstones.c
    row = connection.execute(
        select(c.author, c.reason, c.at).where(c.project == project, c.digest == digest)
    ).first()
    if row is None:
        return None
    others: dict[bytes, None] = {}
    for source, relation, target in connection.execute(touching(connection, project, digest)):
        other = target if relation == "evidence_of" else source
        if other != digest:
            others[other] = None
    standing = [
        digest_text(digest)
        for digest, known in sorted(lookup(connection, project, others).items())
        if not known.forgotten
    ]
    return Tombstone(digest_text(digest), *row, tuple(standing))


def touching(connection: Connection, project: str, digest: bytes) -> Select[Any]:
    """The links from and to a record: source, relation, target."""
    known = lookup(connection, project, [digest]).get(digest)
    place = 0 if known is None else known.seq  # no record is at 0
    c = t.links.c
    query = select(t.sources.c.digest, c.relation, t.targets.c.digest).select_from(t.linked)
    return query.where(c.project == project, or_(c.source_seq == place, c.target_seq == place))
