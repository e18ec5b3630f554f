"""The workflows on the two sides of a decision, from its first evidence, without reading a body."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.engine import Connection

from assay.store import tables as t
from assay.store.databases import Database

SIDES = ("candidate", "baseline")


SideWorkflows = tuple[tuple[str, str | None], ...]
"""The workflows of one side, each with its version, in the order of the evidence."""


def sides_of(
    database: Database, project: str, decisions: Sequence[int], *, look_at: int = 20
) -> dict[int, dict[str, SideWorkflows]]:
    """The workflows on the two sides of decisions, by the `seq` of each decision. Of each side, the
    first `look_at` records of its evidence are read.
    """
    links, records = t.links.c, t.records.c
    joined = t.links.join(
        t.records, (records.project == links.project) & (records.seq == links.source_seq)
    )

    def work(connection: Connection) -> dict[int, dict[str, SideWorkflows]]:
        sides: dict[int, dict[str, SideWorkflows]] = {}
        for seq in decisions:
            for side in SIDES:
                query = (
                    select(records.workflow, records.workflow_version)
                    .select_from(joined)
                    .where(
                        links.project == project, links.seq == seq, links.relation == f"{side}_of"
                    )
                    .order_by(links.position)
                    .limit(look_at)
                )
                names = dict.fromkeys(
                    (row[0], row[1]) for row in connection.execute(query) if row[0] is not None
                )
                sides.setdefault(seq, {})[side] = tuple(names)
        return sides

    return database.read(work)
