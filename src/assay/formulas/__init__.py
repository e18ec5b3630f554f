"""Normalisation: the registry of formulas, and the norms of raw scores and floors.

Scoring and grading use it, and it is part of the scoring system's fingerprint. `normalise` returns
the norm of a raw score, `floor_norm` that of a floor. Nothing here weighs or grades.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from assay import exact
from assay.errors import FormulaError
from assay.formulas.builtin import BUILTIN
from assay.formulas.formula import Formula, refuse_params
from assay.registry import Registry

FORMULAS: Registry[Formula] = Registry("formula", group="assay.formulas")
for _formula in BUILTIN:
    FORMULAS.add(_formula.id, _formula)

NOISE = Decimal("0.000001")
"""How far float rounding may put a value beyond a scale from 0 to 1."""
SCALES: dict[tuple[int, int], str] = {
    (1, 5): "likert_1_5",
    (-2, 2): "likert_neg2_2",
    (0, 5): "likert_0_5",
    (0, 1): "zero_one",
}
"""The formula for each scale that a rubric may declare. Another scale is refused: a formula is
never guessed.
"""


def formula(formula_id: str) -> Formula:
    """The formula with that id. Raises an error with the near miss."""
    known = FORMULAS.get(formula_id)
    if known is None:
        raise FormulaError(
            "SCO-002",
            f"no formula is named {formula_id!r}.{FORMULAS.near(formula_id)}",
            fix="`assay library list formulas` shows them.",
        )
    return known


def check_params(formula_id: str, params: Mapping[str, Any]) -> None:
    """Raise `FormulaError` for an unknown formula or invalid parameters."""
    known = formula(formula_id)
    refuse_params(params, known.id, known.params)
    known.check_params(params)


def normalise(raw: Any, formula_id: str, params: Mapping[str, Any] | None = None) -> int:
    """The norm of a raw score, in billionths.

    >>> normalise(12, "lower_is_better", {"slo_good": 8, "slo_bad": 30})
    818181818
    >>> normalise(6, "likert_1_5")
    Traceback (most recent call last):
        ...
    assay.errors.FormulaError: likert_1_5: the raw score is 6, outside 1..5. Scores are never clamped on this scale.
    """  # noqa: E501
    return formula(formula_id).apply(raw, params or {})


def evidence_norm(raw: Any, formula_id: str, params: Mapping[str, Any] | None = None) -> int:
    """The norm of a score that a scorer or a measure returned. Where the formula clamps, a number
    beyond the good end of the scale is refused, unless rounding put it there: an 85 meant as 85 %,
    or a -1 for a latency that nobody measured, would count as perfect. Beyond the bad end it counts
    as 0, as a missing score does.

    >>> evidence_norm(1.0000000000000002, "zero_one"), evidence_norm(-0.2, "zero_one")
    (1000000000, 0)
    >>> evidence_norm(85, "zero_one")
    Traceback (most recent call last):
        ...
    assay.errors.FormulaError: zero_one: the raw score is 85, above 1. Divide a percentage by 100.
    """
    return evidence_norm_by(raw, formula(formula_id), params or {})


def evidence_norm_by(raw: Any, entry: Formula, params: Mapping[str, Any]) -> int:
    """The same by a formula that was looked up."""
    norm = entry.apply(raw, params)
    if norm < exact.NORM_ONE or not entry.clamps:
        return norm
    value, high = exact.ratio(raw), entry.high
    if high is not None and value.num * high.den > high.num * value.den:
        from fractions import Fraction

        if Fraction(*value) > Fraction(*high) + Fraction(NOISE):
            raise FormulaError(
                "SCO-001",
                f"{entry.id}: the raw score is {raw}, above {Fraction(*high)}.",
                fix="Divide a percentage by 100.",
            )
    if value.num < 0 <= exact.ratio(params.get("slo_good", -1)).num:
        raise FormulaError(
            "SCO-001",
            f"{entry.id}: the raw score is {raw}, below 0.",
            fix="Leave out what was not measured, or set slo_good below 0.",
        )
    return norm


def scale_norm(value: object, low: object, high: object) -> int:
    """The norm of a number on a declared scale: (x - low) / (high - low). Raises outside the scale;
    nothing is clamped.

    >>> scale_norm(3, 1, 5)
    500000000
    """
    try:
        x, lo, hi = exact.ratio(value), exact.ratio(low), exact.ratio(high)
    except ValueError as error:
        raise FormulaError(
            "GRD-104", f"a floor and the ends of its scale must be numbers; {error}."
        ) from None
    top = x.num * lo.den - lo.num * x.den  # over x.den * lo.den
    span = hi.num * lo.den - lo.num * hi.den  # over hi.den * lo.den
    if span <= 0:
        raise FormulaError("GRD-104", f"the scale {low}..{high} has no extent.")
    if top < 0 or top * hi.den > span * x.den:
        raise FormulaError("GRD-104", f"the floor {value} is outside its scale {low}..{high}.")
    return exact.norm_of(exact.Ratio(top * hi.den, span * x.den))


def floor_norm(floor: object, formula_id: str, params: Mapping[str, Any]) -> int:
    """The norm of a critical floor, in billionths.

    `{"raw": x}` goes through the criterion's formula, `{"norm": x}` is used as it is. A bare number
    that could be either is refused.

    >>> floor_norm({"raw": 3}, "likert_1_5", {}), floor_norm(0.7, "likert_1_5", {})
    (500000000, 700000000)
    """
    if isinstance(floor, dict):
        if len(floor) == 1 and "raw" in floor:
            return _raw_floor(floor["raw"], formula_id, params)
        if len(floor) == 1 and "norm" in floor:
            return _norm_floor(floor["norm"])
        raise FormulaError(
            "GRD-104",
            f"a floor has one key, 'raw' or 'norm', not {sorted(map(str, floor))}.",
            fix='Write {"raw": 3} or {"norm": 0.7}.',
        )
    as_raw = as_norm = None
    try:
        as_raw = _raw_floor(floor, formula_id, params)
    except FormulaError as error:
        problem = error
    try:
        as_norm = _norm_floor(floor)
    except FormulaError:
        if as_raw is None:
            raise FormulaError(
                "GRD-104",
                f"the floor {floor!r} is neither a raw score of {formula_id} nor a norm:"
                f" {problem.message}",
            ) from None
    if as_raw is not None and as_norm is not None and as_raw != as_norm:
        raise FormulaError(
            "GRD-104",
            f"the floor {floor} can be read in two ways: as a raw score of {formula_id} it is the"
            f" norm {exact.norm_text(as_raw)}, as a norm it is {exact.norm_text(as_norm)}.",
            fix=f'Write {{"raw": {floor}}} or {{"norm": {floor}}}.',
        )
    norm = as_raw if as_raw is not None else as_norm
    assert norm is not None
    return norm


def _norm_floor(value: object) -> int:
    try:
        floor = exact.ratio(value)
    except ValueError as error:
        raise FormulaError("GRD-104", f"a floor must be a number; {error}.") from None
    if not 0 <= floor.num <= floor.den:
        raise FormulaError("GRD-104", f"the floor {value} is outside 0..1.")
    return exact.norm_of(floor)


def _raw_floor(value: object, formula_id: str, params: Mapping[str, Any]) -> int:
    """The norm of a floor on the raw scale. Even formulas that clamp refuse a floor outside their
    range, which would always or never be met.
    """
    scale = formula(formula_id)
    if scale.id == "lower_is_better":
        norm = scale.apply(value, params)
        scale_norm(value, params["slo_good"], params["slo_bad"])
        return norm
    if scale.low is None or scale.high is None:
        raise FormulaError(
            "GRD-104", f"a floor of {scale.id} cannot be a raw number.", fix='Write {"norm": x}.'
        )
    norm = scale_norm(value, scale.low.num, scale.high.num)
    return scale.apply(value, params) if scale.id == "binary" else norm


def raw_of(norm: int, formula_id: str, raw: Any, params: Mapping[str, Any]) -> Any:
    """A raw score whose norm is at least the given one; None if there is no single one.

    >>> raw_of(700000000, "likert_1_5", 4, {})
    Decimal('3.8')
    """
    scale = formula(formula_id)
    if raw is None and scale.low is None and scale.id != "lower_is_better":
        return None
    return scale.invert(norm, raw, params)
