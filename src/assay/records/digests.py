"""Digests of records. They don't depend on the order of steps, claims, criteria or tags, which
means nothing.
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
    """The digest of a run. The order of tool calls, handoffs and retrieved passages counts: it is
    part of what happened.
    """
    return digest(in_one_order(run))


def in_one_order(run: Run) -> Run:
    """A run with its unordered lists sorted; the same object if they are sorted already."""
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
    """The digest of what grading reads: gates, criteria, threshold and version."""
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
