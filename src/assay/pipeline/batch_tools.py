"""The batch plan of a policy for tool schemas, with its numbers in millionths."""

from __future__ import annotations

from fractions import Fraction

from assay.batch.tool_answers import UNIT, ToolBatchPlan
from assay.errors import ShelfError
from assay.tools.answers import (
    AUTONOMOUS_DIMENSIONS,
    EXCLUDED,
    HIGHEST,
    LOWEST,
    NA_REASONS,
    WORDS,
    folded,
)
from assay.tools.names import DETERMINISTIC, GROUP_BOUND, LETTERS, NON_DETERMINISTIC, REJECTED
from assay.tools.policy import SchemaRules, better
from assay.tools.veto import TRIGGERS


def make_tool_plan(rules: SchemaRules) -> ToolBatchPlan:
    """The plan of a policy. Raises `ShelfError` for numbers that no engine compares exactly."""
    policy = rules.policy
    production, stable = policy.production_from, policy.stable_from
    return ToolBatchPlan(
        policy=rules.id,
        letters=LETTERS,
        edges=tuple(_units(edge, f"the band {letter}", rules) for letter, edge in rules.bands),
        worth={
            word: _units(Fraction(*rules.worth(word)), f"'{word}'", rules)
            for word in WORDS
            if word not in EXCLUDED
        },
        stale="stale",
        excluded=EXCLUDED,
        lowest=LOWEST,
        highest=HIGHEST,
        reasons=NA_REASONS,
        caps=rules.caps,
        group_tier=GROUP_BOUND,
        group_from=policy.group_bound_from,
        group_cap=rules.caps["autonomous"],
        unbound=tuple(sorted(map(folded, AUTONOMOUS_DIMENSIONS))),
        judged=(DETERMINISTIC, NON_DETERMINISTIC),
        judged_from=policy.judged_from,
        passes_from=production if better(production, stable) else stable,
        triggers=TRIGGERS,
        rejected=REJECTED,
        scoring_system=rules.systems.scoring,
        grading_system=rules.systems.grading,
        digests={"policy": rules.digest},
    )


def _units(value: Fraction, what: str, rules: SchemaRules) -> int:
    units = value * UNIT
    if units.denominator != 1:
        raise ShelfError(
            "BAT-002",
            f"{rules.id} puts {what} at {float(value)}, which has more than six decimals: a batch"
            " can't compare it exactly.",
            fix="Write it with at most six decimals, or grade with `assay tools grade`.",
        )
    return int(units)
