"""Digests of records. Where order means nothing (steps, claims, criteria, tags) the digest does not
change with it.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from assay.canon import digest, sort_canonically
from assay.records.evidence import Run
from assay.records.scorecard import Scorecard

_RUN_SETS = (
    "steps",
    "claims",
    "tags",
    "required_outputs",
    "required_inputs",
    "forbidden_tools",
    "handoff_rules",
)
_KEYS = {"steps": "name", "claims": "text"}


def run_digest(run: Run) -> str:
    """What this evidence is. Tool calls, handoffs and retrieved passages keep their order: it is
    part of what happened.
    """
    return digest(in_one_order(run))


def in_one_order(run: Run) -> Run:
    """A run with everything sorted whose order means nothing; the run itself where it is."""
    changes: dict[str, Any] = {}
    for name in _RUN_SETS:
        value = getattr(run, name)
        if value is not None and len(value) > 1:
            ordered = _sorted(value, _KEYS.get(name))
            if ordered != value:
                changes[name] = ordered
    return structs.replace(run, **changes) if changes else run


def _sorted(values: list[Any], key: str | None) -> list[Any]:
    if key is None:
        return sorted(values)
    names = {getattr(value, key) for value in values}
    # Canonical texts are expensive, and the usual run has no two steps of one name.
    return (
        sorted(values, key=lambda value: getattr(value, key))
        if len(names) == len(values)
        else sort_canonically(values)
    )


def scorecard_digest(scorecard: Scorecard) -> str:
    """What grading was given: gates, criteria, threshold and version."""
    return digest(
        {
            "run_id": scorecard.run_id,
            "hard_gates": scorecard.hard_gates,
            "criteria": sorted(scorecard.criteria, key=lambda criterion: criterion.name),
            "scoringSystem": scorecard.scoring_system,
            **(
                {}
                if scorecard.pass_threshold is None
                else {"pass_threshold": scorecard.pass_threshold}
            ),
        }
    )
