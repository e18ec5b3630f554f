"""A stored run with its grades, found by its address.

A run is named by its id (the newest one counts) or by a digest: of the run, of a scorecard, or of
one of its grades, which is then the one that is shown.
"""

from __future__ import annotations

from typing import NamedTuple

from assay.server import lookup
from assay.server.state import Services
from assay.store.drafts import Item
from assay.store.listing import GradeOf, evidence_of, grades_of


class Shown(NamedTuple):
    """A run or scorecard, all its grades, and the one that is shown."""

    item: Item
    grades: list[GradeOf]
    grade: Item | None


def found_run(services: Services, project: str, name: str) -> Shown:
    """What an address leads to."""
    if not lookup.DIGEST.fullmatch(name):
        item = lookup.run(services, project, name)
        chosen = None
    else:
        item = lookup.record(services, project, None, name)
        chosen = item if item.kind == "grade" else None
        if chosen is not None:
            behind = evidence_of(services.ledger.database, project, [name]).get(name)
            item = lookup.record(services, project, None, behind) if behind is not None else chosen
        if item.kind not in ("run", "scorecard", "grade"):
            raise lookup.absent("run", name)
    grades = grades_of(services.ledger.database, project, [item.digest]).get(item.digest, [])
    if chosen is None and grades:
        chosen = services.ledger.get(grades[-1].digest, project=project)
    return Shown(item, grades, chosen)
