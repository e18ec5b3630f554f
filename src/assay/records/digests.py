"""Digests of records. Where order means nothing (steps, claims, criteria, tags) the digest does not
change with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from assay.canon import digest, sort_canonically

if TYPE_CHECKING:
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


def run_digest(run: Run, *, settled: bool = False) -> str:
    """What this evidence is. Tool calls, handoffs and retrieved passages keep their order: it is
    part of what happened. `settled` as for `canonical`.
    """
    changes: dict[str, Any] = {}
    for name in _RUN_SETS:
        value = getattr(run, name)
        if value is not None and len(value) > 1:
            changes[name] = _sorted(value, _KEYS.get(name))
    return digest(structs.replace(run, **changes) if changes else run, settled=settled)


def _sorted(values: list[Any], key: str | None) -> list[Any]:
    if key is None:
        return sorted(values)
    names = {getattr(value, key) for value in values}
    # canonical texts are dear, and the usual run has no two steps of one name
    return (
        sorted(values, key=lambda value: getattr(value, key))
        if len(names) == len(values)
        else sort_canonically(values)
    )


def scorecard_digest(scorecard: Scorecard, *, settled: bool = False) -> str:
    """What grading was given: gates, criteria, threshold and version. `settled` as for
    `canonical`.
    """
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
        },
        settled=settled,
    )
