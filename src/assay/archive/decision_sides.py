"""What a stored decision was made on: its evidence, side by side."""

from __future__ import annotations

from typing import NamedTuple

from assay.store.ledger import Ledger


class DecisionEvidence(NamedTuple):
    """The digests of what a decision is based on, in its order."""

    candidate: list[str]
    baseline: list[str]
    decided: list[str]
    """The grades that it uses."""


def evidence_of_decision(ledger: Ledger, digest: str, *, project: str) -> DecisionEvidence:
    """What a decision names; nothing if its evidence is not stored."""
    links = ledger.links_of_many([digest], project=project)
    candidate, baseline = (
        [
            link.source
            for link in links
            if link.relation == f"{side}_of" and link.target == digest and link.source is not None
        ]
        for side in ("candidate", "baseline")
    )
    decided = [
        link.target for link in links if link.relation == "decides" and link.source == digest
    ]
    return DecisionEvidence(candidate, baseline, decided)
