"""What a policy makes of a list of criteria before any of them has a score: weights, floors and
roles as the whole numbers that grading compares.

A profile's criteria are the same for every run, and so are those of most teams' scorecards: the
plan is compiled once, and `grade` and the engines of a batch read it. It has no score and no
verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from assay import exact
from assay.canon import encode
from assay.errors import FormulaError
from assay.formulas import formula
from assay.formulas.formula import Formula
from assay.grading import rules as rule
from assay.grading.policy import Rules
from assay.records.scorecard import ROLES, Criterion, Scorecard
from assay.registry import near_miss


class JudgesOf(NamedTuple):
    """What a profile says of the scores on its cards, whatever the policy."""

    measured: frozenset[str] = frozenset()
    """The criteria that Assay computed from the evidence, which a card can't claim."""
    calibrated: bool = False
    """Whether every judge needs an admitted card."""
    both_orders: bool = False
    """Whether pairs must be judged in both orders."""


class PlannedScore(NamedTuple):
    """One criterion, as grading reads it."""

    name: str
    formula: Formula
    params: Mapping[str, Any]
    weight: int
    """Over the common denominator of all weights."""
    floor: int | None
    """In billionths."""
    floor_from: str | None
    """Where the floor comes from: `criterion`, `role` or `override`."""
    role_floor: int | None
    """The policy's floor for its role, in billionths, even if an override replaces it."""
    measured: bool
    """Whether Assay computed its score from the evidence."""
    judged: bool
    """Whether the policy or the profile requires anything of the judge that scored it."""


class GradingPlan(NamedTuple):
    """A policy for one list of criteria."""

    rules: Rules
    judges: JudgesOf
    criteria: tuple[PlannedScore, ...]
    weights: tuple[int, ...]
    total: int
    """The sum of the weights."""
    asks_of_judges: bool
    """Whether the policy or the profile requires anything of judges."""
    floor_roles: tuple[str, ...]
    """The roles for which the policy has a floor."""


class NotGradable(ValueError):
    """These criteria can't be graded, whatever their scores are."""


def compile_plan(
    criteria: Sequence[Criterion],
    rules: Rules,
    *,
    overrides: bool,
    judges: JudgesOf,
) -> GradingPlan:
    """The plan of a policy for these criteria, whose scores don't count. `overrides` is whether
    their floor overrides count. Raises `NotGradable`.
    """
    try:
        ratios = [exact.ratio(criterion.weight) for criterion in criteria]
        weights = exact.whole_weights(ratios)
        total = sum(weights)
        if total <= 0 or any(weight < 0 for weight in weights):
            raise NotGradable
        if len({criterion.name for criterion in criteria}) != len(criteria):
            raise NotGradable
        asks = judges.calibrated or judges.both_orders or rules.judge_terms is not None
        planned = []
        for criterion, weight in zip(criteria, weights, strict=True):
            role = criterion.role
            by_role = None if role is None else rules.role_floors.get(role)
            if role is not None and by_role is None and is_slip(role):
                raise NotGradable
            floor, origin = rule.effective_floor(criterion, rules, overrides=overrides)
            measured = criterion.name in judges.measured
            planned.append(
                PlannedScore(
                    criterion.name,
                    formula(criterion.formula_id),
                    criterion.params,
                    weight,
                    floor,
                    origin,
                    by_role,
                    measured,
                    asks and not measured,
                )
            )
    except (FormulaError, TypeError, ValueError):
        raise NotGradable from None
    return GradingPlan(
        rules, judges, tuple(planned), weights, total, asks, tuple(rules.role_floors)
    )


def is_slip(role: str) -> bool:
    """Whether a role is misspelt and would lose the floor of the intended one."""
    return role not in ROLES and bool(near_miss(role, ROLES))


class GradingPlans:
    """The plans of one policy, each compiled when a card first has its criteria."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._plans: dict[object, GradingPlan] = {}

    def of(self, card: Scorecard, judges: JudgesOf) -> GradingPlan:
        """The plan for the criteria of a card. Raises `NotGradable`."""
        overrides = card.profile is not None or self.rules.cards.floor_override
        try:
            # everything but the score, as text: in Python, true equals 1
            fixed = [
                (
                    item.name,
                    item.formula_id,
                    item.weight,
                    item.params,
                    item.critical_floor,
                    item.critical_floor is None,  # NaN is written as null too
                    item.floor_override,
                    item.role,
                )
                for item in card.criteria
            ]
            key = (overrides, judges, encode(fixed))
        except (TypeError, ValueError, OverflowError, RecursionError):
            return compile_plan(card.criteria, self.rules, overrides=overrides, judges=judges)
        plan = self._plans.get(key)
        if plan is None:
            plan = compile_plan(card.criteria, self.rules, overrides=overrides, judges=judges)
            if len(self._plans) >= _KEPT:  # a hostile stream must not fill memory
                self._plans.clear()
            self._plans[key] = plan
        return plan


_KEPT = 256
