"""The plan of a batch: a profile and a policy as whole numbers that an engine compares.

A batch grades scorecards: raw scores and verdicts of gates, as rows. Nothing is measured here, so
the judge behind a score can't be checked: if the profile or the policy requires a calibrated judge,
no score passes a floor. Missing values count as on a scorecard: a missing score is 0, a missing
verdict fails its gate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import to_builtins

from assay.canon import digest
from assay.errors import ShelfError
from assay.exact import Pull
from assay.formulas import FORMULAS
from assay.formulas.builtin import BUILTIN
from assay.grading.plan import JudgesOf, compile_plan
from assay.grading.policy import Rules
from assay.records.grade import Band
from assay.scoring.profile import ScoringPlan

MAX_WEIGHT = 460_000
"""The largest sum of whole weights whose products still fit into 64 bits."""

_TRANSLATED = frozenset(formula.id for formula in BUILTIN)


class BatchCriterion(NamedTuple):
    """One criterion as an engine computes it."""

    name: str
    formula: str
    params: Mapping[str, Any]
    weight: int
    """Over the common denominator of all weights."""
    floor: int | None
    """In billionths."""
    distrusted: bool
    """Whether no score of it passes its floor, because the judge that gave it is unknown."""


class BatchPlan(NamedTuple):
    """A profile and a policy, resolved for engines."""

    profile: str
    policy: str
    criteria: tuple[BatchCriterion, ...]
    gates: tuple[str, ...]
    """The gates that every run needs, in the profile's order."""
    bands: tuple[Band, ...]
    threshold: int
    """The hundredths that a score must reach."""
    lowest_passing: str
    cap: str
    shrinkage: Pull
    scoring_system: str
    grading_system: str
    digests: Mapping[str, str]
    """Of profile, rubric and policy."""

    @property
    def total_weight(self) -> int:
        """The sum of the weights."""
        return sum(criterion.weight for criterion in self.criteria)

    @property
    def digest(self) -> str:
        """The plan as one digest: equal plans give equal letters."""
        return digest(to_builtins(self._asdict()))


def make_batch_plan(plan: ScoringPlan, rules: Rules) -> BatchPlan:
    """The plan of a profile under a policy. Raises `ShelfError` for what no engine can compute."""
    specs = [planned.spec for planned in plan.criteria]
    for spec in specs:
        if spec.formula not in _TRANSLATED:
            origin = "a plugin's" if spec.formula in FORMULAS else "unknown"
            raise ShelfError(
                "BAT-001",
                f"{plan.profile.id} normalises '{spec.id}' with {spec.formula}, {origin} formula,"
                " which has no translation to SQL.",
                fix="Grade such runs with `assay grade`.",
            )
    terms = plan.judge
    graded_by = compile_plan(
        [spec.scored(None) for spec in specs],
        rules,
        overrides=True,
        judges=JudgesOf(
            calibrated=terms is not None and terms.calibration == "required",
            both_orders=terms is not None and terms.order == "both",
        ),
    )
    if graded_by.total > MAX_WEIGHT:
        raise ShelfError(
            "BAT-002",
            f"the weights of {plan.profile.id} have too many decimals for a batch: over their"
            f" common denominator they add up to {graded_by.total}, and at most {MAX_WEIGHT}"
            " fits.",
            fix="Write the weights with fewer decimals, or grade with `assay grade`.",
        )
    calibrated = rules.judge_terms is not None or graded_by.judges.calibrated
    criteria = [
        BatchCriterion(
            item.name,
            item.formula.id,
            item.params,
            item.weight,
            item.floor,
            calibrated or (graded_by.judges.both_orders and item.formula.id == "pairwise"),
        )
        for item in graded_by.criteria
    ]
    return BatchPlan(
        profile=plan.profile.id,
        policy=rules.policy,
        criteria=tuple(criteria),
        gates=tuple(planned.id for planned in plan.gates),
        bands=rules.bands,
        threshold=rules.threshold,
        lowest_passing=rules.lowest_passing,
        cap=rules.cap,
        shrinkage=rules.shrinkage,
        scoring_system=plan.scoring_system,
        grading_system=rules.grading_system,
        digests={**plan.digests, "policy": rules.digest},
    )
