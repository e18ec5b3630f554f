"""A brief look at what a decision compares: the workflows of its two sides, from the first of its
evidence, without reading a body.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.engine import Connection

from assay.store import tables as t
from assay.store.databases import Database

SIDES = ("candidate", "baseline")


SideWorkflows = tuple[tuple[str, str | None], ...]
"""The workflows of one side: each with its version, in the order in which they come."""


def sides_of(
    database: Database, project: str, decisions: Sequence[int], *, look_at: int = 20
) -> dict[int, dict[str, SideWorkflows]]:
    """Which workflows are on the two sides of decisions, by the place of the decision; of each
    side the first evidence is looked at.
    """
    links, records = t.links.c, t.records.c
    joined = t.links.join(
        t.records, (records.project == links.project) & (records.seq == links.source_seq)
    )

    def work(connection: Connection) -> dict[int, dict[str, SideWorkflows]]:
        found: dict[int, dict[str, SideWorkflows]] = {}
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
                found.setdefault(seq, {})[side] = tuple(names)
        return found

    return database.read(work)
