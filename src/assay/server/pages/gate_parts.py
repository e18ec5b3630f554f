"""What the page of any gate shows: whether it passed, and what it was decided on."""

from __future__ import annotations

from typing import Any

from assay.server.state import Services
from assay.store.drafts import Item
from assay.views.blocks import Facts, Section, Table, section
from assay.views.pieces import Piece, address, short_digest, shown, verdict, words

Tree = dict[str, Any]
MAX_ROWS = 200


def passed(value: Any) -> Piece:
    """Whether a gate passed; without a statement, it failed."""
    return verdict("passed" if value is True else "failed")


def rests_on(services: Services, project: str, item: Item, path: str, decision: Tree) -> Section:
    """What a gate was decided on: `path` is the address of its results."""
    relations = {"candidate_of": "decided on", "baseline_of": "compared with"}
    rows = [
        [short_digest(link.source, address(path, link.source)), relations[link.relation]]
        for link in services.ledger.links_of(item.digest, project=project, limit=MAX_ROWS)
        if link.relation in relations and link.source and link.target == item.digest
    ]
    facts = [
        ("Scoring system", shown(decision.get("scoringSystem"))),
        ("Grading system", shown(decision.get("gradingSystem"))),
        ("Rubric", shown(decision.get("rubric"), "none")),
        *(
            (f"Digest of the {words(key).lower()}", short_digest(value))
            for key, value in (decision.get("digests") or {}).items()
        ),
    ]
    return section(
        "Provenance",
        Table(
            "What was decided on",
            ("Record", "Role"),
            rows,
            absent="What it was decided on is not stored.",
        ),
        Facts(facts, "small"),
        id="origin",
    )
