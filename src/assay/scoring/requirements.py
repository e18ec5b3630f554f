"""Hold a scorecard to the plan of its profile: a card never decides what is required of it.

Gates and criteria of the plan that the card lacks count as missing evidence. A role, layer, floor
or parameter that the card leaves out is the plan's. A criterion that the plan lacks does not count,
as with a run. Any other difference from the plan is a fault, except a higher floor. A card that
states a status other than success fails the gate on it, whatever its own gates are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from msgspec import structs

from assay import exact
from assay.canon import canonical
from assay.errors import EvidenceError, Fault, FormulaError, printable, raise_faults
from assay.formulas import floor_norm
from assay.records.scorecard import STATUS_GATE, Criterion, FloorOverride, Scorecard
from assay.registry import near_miss
from assay.scoring.profile import ProfileCriterion, ScoringPlan


def hold_to_status(card: Scorecard, plan: ScoringPlan | None) -> Scorecard:
    """The card with the gate on the status that it states: any status but success fails it. A plan
    without that gate leaves the status to other gates, as with a run.
    """
    own = card.hard_gates
    if card.status == "success":
        # only next to other gates: a status must not be the one gate of a card that has none
        concerns = plan is None and bool(own) and STATUS_GATE not in own
    else:
        planned = () if plan is None else (gate.id for gate in plan.gates)
        concerns = plan is None or STATUS_GATE in {*own, *planned}
    if card.status is None or not concerns or own.get(STATUS_GATE) is False:
        return card
    return structs.replace(
        card,
        hard_gates={**own, STATUS_GATE: card.status == "success"},
        gate_reasons={
            **card.gate_reasons,
            STATUS_GATE: f"the run ended with status '{printable(card.status)}'",
        },
    )


def hold_to(card: Scorecard, plan: ScoringPlan) -> Scorecard:
    """The card with everything that its plan requires. Raises `EvidenceError` with every place
    where the two contradict each other.
    """
    specs = {planned.spec.id: planned.spec for planned in plan.criteria}
    why = f"no evidence: {plan.profile.id} requires this %s and the scorecard does not have it"
    faults: list[Fault] = []
    notes: list[str] = []
    criteria: list[Criterion] = []
    for index, criterion in enumerate(card.criteria):
        spec = specs.get(criterion.name)
        if spec is None:
            notes.append(
                f"'{criterion.name}' is not a criterion of {plan.profile.id} and does not"
                f" count.{near_miss(criterion.name, sorted(specs))}"
            )
            continue
        criteria.append(_held(criterion, spec, plan.profile.id, f"criteria[{index}]", faults))
    faults += _weight_faults(card.criteria, specs, plan.profile.id)
    raise_faults(faults, where=card.run_id, kind=EvidenceError)
    named = {criterion.name for criterion in criteria}
    criteria += [
        spec.scored(None, n=0, missing=why % "criterion")
        for name, spec in specs.items()
        if name not in named
    ]
    absent = {planned.id: None for planned in plan.gates if planned.id not in card.hard_gates}
    return structs.replace(
        card,
        criteria=criteria,
        hard_gates={**card.hard_gates, **absent},
        notes=[*card.notes, *notes],
        gate_reasons={**card.gate_reasons, **dict.fromkeys(absent, why % "gate")},
        profile=plan.profile,
        rubric=plan.rubric,
        digests={
            **{name: text for name, text in card.digests.items() if name != "rubric"},
            **plan.digests,
        },
    )


def _held(
    criterion: Criterion, spec: ProfileCriterion, profile: str, at: str, faults: list[Fault]
) -> Criterion:
    """One criterion with the plan's values; a fault for each of its values that differs."""

    def differs(key: str, own: Any, required: Any) -> None:
        faults.append(
            Fault(
                f"is {_json(own)}; {profile} has {_json(required)} for '{spec.id}'.",
                code="SCO-014",
                path=f"{at}.{key}",
                fix="Omit it, or correct it.",
            )
        )

    if criterion.formula_id != spec.formula:
        differs("formula_id", criterion.formula_id, spec.formula)
    if criterion.params and not _same_numbers(criterion.params, spec.params):
        differs("params", criterion.params, spec.params)
    for key, own, required in (
        ("role", criterion.role, spec.role),
        ("layer", criterion.layer, spec.layer),
    ):
        if own is not None and own != required:
            differs(key, own, required)
    if criterion.formula_id == spec.formula:
        for key, own_floor, required_floor in (
            ("critical_floor", criterion.critical_floor, spec.critical_floor),
            ("floor_override", _value(criterion.floor_override), _value(spec.floor_override)),
        ):
            if _lowers(own_floor, required_floor, spec, is_override=key == "floor_override"):
                differs(key, own_floor, required_floor)
    return structs.replace(
        criterion,
        params=spec.params,
        weight=spec.weight,
        role=spec.role,
        layer=spec.layer,
        critical_floor=(
            spec.critical_floor if criterion.critical_floor is None else criterion.critical_floor
        ),
        floor_override=spec.floor_override,
        label=criterion.label if criterion.label is not None else spec.label,
    )


def _json(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value).decode()


def _value(override: FloorOverride | None) -> Any:
    return override and override.value


def _lowers(own: Any, required: Any, spec: ProfileCriterion, *, is_override: bool) -> bool:
    """Whether the card's floor is lower than the plan's. Grading reports a floor that can't be
    read.
    """
    if own is None:
        return False
    if required is None:
        return is_override
    try:
        norm, least = (floor_norm(floor, spec.formula, spec.params) for floor in (own, required))
    except FormulaError:
        return False
    return norm != least if is_override else norm < least


def _same_numbers(own: dict[str, Any], required: dict[str, Any]) -> bool:
    try:
        return own.keys() == required.keys() and all(
            exact.ratio(own[key]) == exact.ratio(required[key]) for key in own
        )
    except ValueError:
        return own == required


def _weight_faults(
    criteria: Sequence[Criterion], specs: dict[str, ProfileCriterion], profile: str
) -> list[Fault]:
    """The weights that differ from the plan's. Weights are relative, so a common factor is allowed:
    the one that most of them have, and among several such 1.
    """
    weights: dict[int, tuple[Fraction, Fraction]] = {}
    for index, criterion in enumerate(criteria):
        spec = specs.get(criterion.name)
        if spec is not None:
            with suppress(ValueError):  # reported by `grading`
                weights[index] = (
                    Fraction(*exact.ratio(criterion.weight)),
                    Fraction(*exact.ratio(spec.weight)),
                )
    factors = Counter(own / required for own, required in weights.values() if required and own > 0)
    factor = max(factors, key=lambda one: (factors[one], one == 1), default=Fraction(0))
    faults = []
    for index, (own, required) in weights.items():
        if own != required * factor or (required and not own):
            spec = specs[criteria[index].name]
            message = (
                f"is {criteria[index].weight}, which does not fit the weight {spec.weight} that"
                f" {profile} gives '{spec.id}'."
            )
            fault = Fault(
                message,
                code="SCO-014",
                path=f"criteria[{index}].weight",
                fix="Use the profile's weights.",
            )
            faults.append(fault)
    return faults
