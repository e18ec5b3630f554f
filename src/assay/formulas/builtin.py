"""The eight formulas of the workflow scoring guide, section 4.1, and the 0..5 scale that its Layer
2 allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Any

from assay import exact
from assay.errors import FormulaError
from assay.exact import NORM_ONE, Ratio
from assay.formulas.formula import Formula, number, refuse_params

_SOURCE = "Workflow Scoring & Evaluation Reference Guide, section 4.1"


def _plain(value: Ratio) -> int | Decimal:
    """A raw score as a plain number."""
    if value.den == 1:
        return value.num
    quotient = _DIVIDING.divide(Decimal(value.num), Decimal(value.den)).normalize(_DIVIDING)
    return int(quotient) if quotient == int(quotient) else quotient


# More digits than any real scale has. Rounding is down, which for `lower_is_better` still reaches
# the norm.
_DIVIDING = Context(prec=60, rounding=ROUND_FLOOR)


def _binary(raw: Any, params: Mapping[str, Any]) -> int:
    if params:
        refuse_params(params, "binary")
    if type(raw) is int and 0 <= raw <= 1:
        return raw * NORM_ONE
    if raw is True or raw is False:
        raise FormulaError(
            "SCO-003",
            f"binary: the raw score must be the number 0 or 1; {str(raw).lower()} is true or"
            " false.",
            fix="Write 1 or 0.",
        )
    value = number(raw, "binary")
    if value not in ((0, 1), (1, 1)):
        raise FormulaError("SCO-001", f"binary: the raw score is {raw}; only 0 and 1 are accepted.")
    return value.num * NORM_ONE


def _binary_raw(norm: int, _raw: Any, _params: Mapping[str, Any]) -> Any:
    return 1 if norm > 0 else 0


def _zero_one(raw: Any, params: Mapping[str, Any]) -> int:
    if params:
        refuse_params(params, "zero_one")
    try:
        return exact.clamped_norm(raw)
    except ValueError as error:
        raise FormulaError(
            "SCO-003", f"zero_one: the raw score must be a number; {error}."
        ) from None


def _zero_one_raw(norm: int, _raw: Any, _params: Mapping[str, Any]) -> Any:
    return _plain(Ratio(norm, NORM_ONE))


def _counts(raw: Any, formula: str, keys: tuple[str, ...]) -> list[int]:
    if not isinstance(raw, dict):
        raise FormulaError(
            "SCO-003",
            f"{formula}: the raw score must be an object {_object(keys)}, not {_kind(raw)}.",
        )
    if raw.keys() != set(keys):
        missing = [key for key in keys if key not in raw]
        extra = [str(key) for key in raw if key not in keys]
        raise FormulaError(
            "SCO-003",
            f"{formula}: the raw score must have the keys {_object(keys)}"
            + (f"; missing: {', '.join(missing)}" if missing else "")
            + (f"; unknown: {', '.join(extra)}" if extra else "")
            + ".",
        )
    counts = []
    for key in keys:
        count = raw[key]
        if type(count) is int and 0 <= count < 10**30:
            counts.append(count)
            continue
        value = number(count, formula, f"count {key!r}")
        if value.den != 1:
            raise FormulaError(
                "SCO-003", f"{formula}: the count {key!r} is {count}, not a whole number."
            )
        if value.num < 0:
            raise FormulaError("SCO-007", f"{formula}: the count {key!r} is {count}, below zero.")
        if value.num >= 10**30:
            raise FormulaError(
                "SCO-001",
                f"{formula}: the count {key!r} is {count}, above the limit of 10^30.",
            )
        counts.append(value.num)
    return counts


def _object(keys: tuple[str, ...]) -> str:
    return "{" + ", ".join(f'"{key}"' for key in keys) + "}"


def _kind(raw: Any) -> str:
    return (
        "null"
        if raw is None
        else {"str": "a string", "list": "a list", "bool": "true or false"}.get(
            type(raw).__name__, "a number"
        )
    )


def _pairwise(raw: Any, params: Mapping[str, Any]) -> int:
    refuse_params(params, "pairwise")
    wins, losses, ties = _counts(raw, "pairwise", ("wins", "losses", "ties"))
    total = wins + losses + ties
    if total == 0:
        raise FormulaError(
            "SCO-006", "pairwise: there are no comparisons (wins, losses and ties are all 0)."
        )
    return exact.quantise(2 * wins + ties, 2 * total, exact.NORM_DIGITS)


def _pairwise_raw(norm: int, raw: Any, _params: Mapping[str, Any]) -> Any:
    total = int(raw["wins"]) + int(raw["losses"]) + int(raw["ties"])
    halves = _count_for(norm, 2 * total)
    return {"wins": halves // 2, "losses": total - halves // 2 - halves % 2, "ties": halves % 2}


def _count_for(norm: int, total: int) -> int:
    """The smallest count whose share of `total`, rounded, is at least the norm."""
    # start one below: the share is rounded, so that count may be enough
    count = max(0, -((-norm * total) // NORM_ONE) - 1)
    while exact.quantise(count, total, exact.NORM_DIGITS) < norm:
        count += 1
    return count


def _ratio(raw: Any, params: Mapping[str, Any]) -> int:
    if params:
        refuse_params(params, "ratio")
    passed, total = _counts(raw, "ratio", ("passed", "total"))
    if total == 0:
        raise FormulaError("SCO-006", "ratio: the total is 0; a share of nothing is not a score.")
    if passed > total:
        raise FormulaError(
            "SCO-007", f"ratio: {passed} passed of {total}; more passed than there are."
        )
    return exact.quantise(passed, total, exact.NORM_DIGITS)


def _ratio_raw(norm: int, raw: Any, _params: Mapping[str, Any]) -> Any:
    total = int(raw["total"])
    return {"passed": _count_for(norm, total), "total": total}


_SLO = ("slo_good", "slo_bad")


def _slo(params: Mapping[str, Any]) -> tuple[Ratio, Ratio]:
    """The good and the bad end of a service level."""
    refuse_params(params, "lower_is_better", _SLO)
    try:
        slo_good, slo_bad = params["slo_good"], params["slo_bad"]
    except KeyError as missing:
        raise FormulaError(
            "SCO-005",
            f"lower_is_better: the parameter {missing} is missing.",
            fix='Give params {"slo_good": g, "slo_bad": b}.',
        ) from None
    try:
        return _levels(slo_good, slo_bad)
    except TypeError:  # a list or an object can't be cached
        return _levels.__wrapped__(slo_good, slo_bad)


@lru_cache(maxsize=256, typed=True)  # typed: in Python, true equals 1
def _levels(slo_good: Any, slo_bad: Any) -> tuple[Ratio, Ratio]:
    try:
        good, bad = exact.ratio(slo_good), exact.ratio(slo_bad)
    except ValueError as error:
        raise FormulaError(
            "SCO-005", f"lower_is_better: slo_good and slo_bad must be numbers; {error}."
        ) from None
    if bad.num * good.den <= good.num * bad.den:
        raise FormulaError(
            "SCO-005",
            f"lower_is_better: slo_bad ({slo_bad}) must be greater, that is worse, than slo_good"
            f" ({slo_good}).",
        )
    return good, bad


def _lower_is_better(raw: Any, params: Mapping[str, Any]) -> int:
    good, bad = _slo(params)
    num, den = number(raw, "lower_is_better")
    # (bad - raw) / (bad - good) over the common denominator
    top = (bad.num * den - num * bad.den) * good.den
    if top <= 0:
        return 0
    bottom = (bad.num * good.den - good.num * bad.den) * den
    if top >= bottom:
        return NORM_ONE
    return exact.quantise(top, bottom, exact.NORM_DIGITS)


def _lower_is_better_raw(norm: int, _raw: Any, params: Mapping[str, Any]) -> Any:
    good, bad = _slo(params)
    span = bad.num * good.den - good.num * bad.den
    top = bad.num * good.den * NORM_ONE - norm * span
    return _plain(Ratio(top, bad.den * good.den * NORM_ONE))


def _likert_formula(formula: str, low: int, high: int, text: str, source: str) -> Formula:
    span = high - low
    points = {
        point: exact.quantise(point - low, span, exact.NORM_DIGITS)
        for point in range(low, high + 1)
    }

    def apply(raw: Any, params: Mapping[str, Any]) -> int:
        if params:
            refuse_params(params, formula)
        if type(raw) is int and raw in points:
            return points[raw]
        num, den = number(raw, formula)
        if not low * den <= num <= high * den:
            raise FormulaError(
                "SCO-001",
                f"{formula}: the raw score is {raw}, outside {low}..{high}.",
                fix="Scores are never clamped on this scale.",
            )
        return exact.quantise(num - low * den, span * den, exact.NORM_DIGITS)

    def invert(norm: int, _raw: Any, _params: Mapping[str, Any]) -> Any:
        return _plain(Ratio(low * NORM_ONE + span * norm, NORM_ONE))

    return Formula(
        id=formula,
        version="1",
        title=f"Likert scale {low}..{high}",
        raw=f"a number from {low} to {high}; a panel's mean may lie between points",
        low=Ratio(low, 1),
        high=Ratio(high, 1),
        direction="higher is better",
        clamps=False,
        params=(),
        text=text,
        source=source,
        apply=apply,
        invert=invert,
    )


BUILTIN: tuple[Formula, ...] = (
    Formula(
        id="binary",
        version="1",
        title="Yes or no",
        raw="the number 0 or 1",
        low=Ratio(0, 1),
        high=Ratio(1, 1),
        direction="higher is better",
        clamps=False,
        params=(),
        text="norm = raw",
        source=_SOURCE,
        apply=_binary,
        invert=_binary_raw,
        steps=True,
    ),
    _likert_formula("likert_1_5", 1, 5, "norm = (raw - 1) / 4", _SOURCE),
    _likert_formula("likert_neg2_2", -2, 2, "norm = (raw + 2) / 4", _SOURCE),
    _likert_formula(
        "likert_0_5", 0, 5, "norm = raw / 5", "the same guide, section 3, Layer 2 (anchors 0-5)"
    ),
    Formula(
        id="zero_one",
        version="1",
        title="Already on 0..1",
        raw="a number; below 0 counts as 0, above 1 as 1",
        low=Ratio(0, 1),
        high=Ratio(1, 1),
        direction="higher is better",
        clamps=True,
        params=(),
        text="norm = clamp(raw)",
        source=_SOURCE,
        apply=_zero_one,
        invert=_zero_one_raw,
    ),
    Formula(
        id="pairwise",
        version="1",
        title="Pairwise win rate, ties count half",
        raw='an object {"wins", "losses", "ties"} of whole counts',
        low=None,
        high=None,
        direction="higher is better",
        clamps=False,
        params=(),
        text="norm = (wins + 0.5 * ties) / (wins + losses + ties)",
        source=_SOURCE,
        apply=_pairwise,
        invert=_pairwise_raw,
        steps=True,
    ),
    Formula(
        id="lower_is_better",
        version="1",
        title="Cost, latency or retries against a service level",
        raw="a number",
        low=None,
        high=None,
        direction="lower is better",
        clamps=True,
        params=_SLO,
        text="norm = clamp((slo_bad - raw) / (slo_bad - slo_good))",
        source=_SOURCE,
        apply=_lower_is_better,
        invert=_lower_is_better_raw,
        check_params=_slo,
    ),
    Formula(
        id="ratio",
        version="1",
        title="Share that passed",
        raw='an object {"passed", "total"} of whole counts',
        low=None,
        high=None,
        direction="higher is better",
        clamps=False,
        params=(),
        text="norm = passed / total",
        source=_SOURCE + " (SWE-style test metrics)",
        apply=_ratio,
        invert=_ratio_raw,
        steps=True,
    ),
)
