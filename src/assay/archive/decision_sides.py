"""What a stored decision was made on: its evidence, side by side, and the evaluations that have
exactly those runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from assay.archive.evaluations import StoredEvaluation, read_evaluation
from assay.store.listing import grades_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.store.ledger import Ledger


class DecisionEvidence(NamedTuple):
    """The digests of what a decision rests on, in its order."""

    candidate: list[str]
    baseline: list[str]
    decided: set[str]
    """The grades that it goes by."""


def evidence_of_decision(ledger: Ledger, digest: str, *, project: str) -> DecisionEvidence:
    """What a decision names; nothing where its evidence is not stored."""
    links = ledger.links_of_many([digest], project=project)
    candidate, baseline = (
        [
            link.source
            for link in links
            if link.relation == f"{side}_of" and link.target == digest and link.source is not None
        ]
        for side in ("candidate", "baseline")
    )
    decided = {link.target for link in links if link.relation == "decides"}
    return DecisionEvidence(candidate, baseline, decided)


def evaluation_of_runs(
    ledger: Ledger, runs: Sequence[str], *, project: str
) -> StoredEvaluation | None:
    """The newest evaluation that has exactly these runs; None where there is none."""
    if not runs:
        return None
    first = runs[0]
    grades = [one.digest for one in grades_of(ledger.database, project, [first]).get(first, ())]
    links = ledger.links_of_many([first, *grades], project=project)
    named = {link.source for link in links if link.relation == "evaluates" and link.source}
    items = ledger.get_many(named, project=project).values()
    for item in sorted(items, key=lambda one: one.seq, reverse=True):
        if item.kind == "evaluation" and item.body is not None:
            found = read_evaluation(item)
            if {run.digest for run in found.evaluation.runs} == set(runs):
                return found
    return None
