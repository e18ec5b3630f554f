"""Scorecards for hypothesis, and the grading algorithm a second time.

The oracle is written from the scoring guide, section 5.1, in fractions, and shares no line with the
product: a rounding or a band that moves there shows as a difference here.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from hypothesis import strategies as st

from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.services.grading import Graded, Grader

GRADER = Grader(Shelf())
BANDS = (("A", 90), ("B", 80), ("C", 70), ("D", 60), ("F", 0))
LETTERS = "ABCDF"
ROLE_FLOORS = {"correctness": Fraction(7, 10), "safety": Fraction(8, 10)}
LIKERT = {"likert_1_5": (1, 5), "likert_neg2_2": (-2, 2), "likert_0_5": (0, 5)}
BILLION = 10**9
CONTINUOUS = (*LIKERT, "zero_one", "lower_is_better")


def graded(card: dict[str, Any]) -> Graded:
    """A run or scorecard through the whole pipeline."""
    return GRADER.grade(Document(card, "card"))


# --- the oracle


def fraction(value: Any) -> Fraction:
    """The number as it was written: a float by its shortest repr."""
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def half_up(value: Fraction, places: int) -> Fraction:
    """Rounded to so many decimals, halves up."""
    scale = 10**places
    return Fraction((value * scale + Fraction(1, 2)).__floor__(), scale)


def clamp(value: Fraction) -> Fraction:
    return min(Fraction(1), max(Fraction(0), value))


def norm_of(raw: Any, formula: str, params: dict[str, Any]) -> Fraction:
    """Section 4.1 of the guide, quantised to 9 decimals (decision 1)."""
    if formula == "pairwise":
        wins, losses, ties = (Fraction(raw[key]) for key in ("wins", "losses", "ties"))
        exact = (wins + ties / 2) / (wins + losses + ties)
    elif formula == "ratio":
        exact = Fraction(raw["passed"], raw["total"])
    elif formula == "lower_is_better":
        good, bad = fraction(params["slo_good"]), fraction(params["slo_bad"])
        exact = clamp((bad - fraction(raw)) / (bad - good))
    elif formula in LIKERT:
        low, high = LIKERT[formula]
        exact = (fraction(raw) - low) / (high - low)
    else:
        exact = clamp(fraction(raw))
    return half_up(exact, 9)


def floor_of(criterion: dict[str, Any]) -> Fraction | None:
    """The floor that holds: the stricter of the criterion's own and its role's (decision 3). A
    card's own override does not count (decision 17).
    """

    def read(floor: dict[str, Any]) -> Fraction:
        if "norm" in floor:
            return half_up(fraction(floor["norm"]), 9)
        return norm_of(floor["raw"], criterion["formula_id"], criterion.get("params", {}))

    own = read(criterion["critical_floor"]) if criterion.get("critical_floor") is not None else None
    role = ROLE_FLOORS.get(criterion.get("role") or "")
    return max((floor for floor in (own, role) if floor is not None), default=None)


class Expected(NamedTuple):
    """What section 5.1 makes of a scorecard."""

    norms: list[Fraction]
    adjusted: list[Fraction]
    score: Fraction
    score_adjusted: Fraction
    provisional: str
    letter: str
    standing: str
    """The letter with the gates left aside."""
    passed: bool
    reason: str
    failed_gates: list[str]
    missed_floors: list[str]


def expected(card: dict[str, Any], *, norms: list[Fraction] | None = None) -> Expected:
    """Section 5.1 on a card; `norms` replaces what the raw scores give."""
    criteria = card["criteria"]
    if norms is None:
        norms = [
            (
                Fraction(0)
                if c["raw_score"] is None
                else norm_of(c["raw_score"], c["formula_id"], c.get("params", {}))
            )
            for c in criteria
        ]
    weights = [fraction(c["weight"]) for c in criteria]
    adjusted = [
        (
            Fraction(0)
            if c["raw_score"] is None
            else half_up((c.get("n", 1) * norm + 20 * Fraction(1, 2)) / (c.get("n", 1) + 20), 9)
        )
        for c, norm in zip(criteria, norms, strict=True)
    ]
    score, score_adjusted = (
        half_up(100 * sum(w * x for w, x in zip(weights, xs, strict=True)) / sum(weights), 2)
        for xs in (norms, adjusted)
    )
    floors = [floor_of(c) for c in criteria]
    missed = [
        c["name"]
        for c, norm, floor in zip(criteria, norms, floors, strict=True)
        if floor is not None and norm < floor
    ]
    failed = [name for name, verdict in card["hard_gates"].items() if verdict is not True]
    provisional = next(letter for letter, edge in BANDS if score >= edge)
    standing = (
        max(provisional, "D") if missed else provisional
    )  # the later letter of the alphabet is the worse one
    threshold = max(
        Fraction(70), fraction(card.get("pass_threshold") or 0)
    )  # a card may raise the policy's threshold, not lower it
    reason = (
        "hard_gate_failure"
        if failed
        else (
            "critical_floor_failure"
            if missed
            else "below_pass_threshold"
            if score < threshold
            else "passed"
        )
    )
    if reason == "passed" and not card["hard_gates"]:
        reason = "no_hard_gates"
    passed = reason == "passed"
    return Expected(
        norms,
        adjusted,
        score,
        score_adjusted,
        provisional,
        "F" if failed else standing,
        standing,
        passed,
        reason,
        failed,
        missed,
    )


# --- generating


def decimals(low: int, high: int, places: int) -> st.SearchStrategy[Decimal]:
    """Numbers as they are written in a file, with so many decimals."""
    return st.integers(low * 10**places, high * 10**places).map(
        lambda value: Decimal(value).scaleb(-places)
    )


def _raws(formula: str, draw: Any) -> tuple[Any, dict[str, Any]]:
    if formula == "binary":
        return draw(st.sampled_from((1, 1, 1, 0))), {}
    if formula in LIKERT:
        low, high = LIKERT[formula]
        return (
            draw(
                st.one_of(
                    st.integers(high - 1, high), st.integers(low, high), decimals(low, high, 3)
                )
            ),
            {},
        )
    if formula == "zero_one":
        near = st.sampled_from(
            (
                Decimal("0.59995"),
                Decimal("0.69995"),
                Decimal("0.79995"),
                Decimal("0.89995"),
                Decimal("0.9"),
                Decimal("0.7"),
                Decimal("0.8"),
            )
        )
        return (
            draw(
                st.one_of(
                    near,
                    st.integers(800_000_000, BILLION).map(lambda x: Decimal(x).scaleb(-9)),
                    decimals(-1, 2, 4),
                    decimals(0, 1, 11),
                )
            ),
            {},
        )
    if formula == "pairwise":
        wins, losses, ties = (
            draw(st.integers(0, 40)),
            draw(st.integers(0, 9)),
            draw(st.integers(0, 9)),
        )
        return {"wins": wins + (wins + losses + ties == 0), "losses": losses, "ties": ties}, {}
    if formula == "ratio":
        total = draw(st.integers(1, 60))
        return {
            "passed": draw(st.one_of(st.just(total), st.integers(0, total))),
            "total": total,
        }, {}
    good = draw(decimals(0, 50, 1))
    bad = good + draw(decimals(1, 50, 1))
    return draw(st.one_of(st.just(good), decimals(0, 110, 2))), {"slo_good": good, "slo_bad": bad}


def _floors(formula: str, params: dict[str, Any], draw: Any) -> dict[str, Any]:
    norm = decimals(0, 1, 2).map(lambda x: {"norm": x})
    if formula in LIKERT:
        return draw(st.one_of(norm, decimals(*LIKERT[formula], 1).map(lambda x: {"raw": x})))
    if formula == "binary":
        return draw(st.sampled_from(({"raw": 0}, {"raw": 1}, {"norm": 1})))
    if formula == "zero_one":
        return draw(st.one_of(norm, decimals(0, 1, 3).map(lambda x: {"raw": x})))
    if formula == "lower_is_better":
        share = draw(st.integers(0, 10))
        return {"raw": params["slo_good"] + (params["slo_bad"] - params["slo_good"]) * share / 10}
    return draw(norm)


@st.composite
def criteria(
    draw: Any, name: str, *, missing: bool = True, zero_weight: bool = True
) -> dict[str, Any]:
    """One criterion of any formula, perhaps with a role, a floor, an override, or no score."""
    formula = draw(st.sampled_from((*CONTINUOUS, "binary", "ratio", "pairwise", "zero_one")))
    raw, params = _raws(formula, draw)
    weight = draw(
        st.one_of(st.integers(0 if zero_weight else 1, 5), decimals(0 if zero_weight else 1, 2, 2))
    )
    made: dict[str, Any] = {
        "name": name,
        "raw_score": raw,
        "formula_id": formula,
        "params": params,
        "weight": weight,
        "n": draw(st.integers(0, 60)),
    }
    role = draw(st.sampled_from((None, None, None, "correctness", "safety", "style")))
    if role is not None:
        made["role"] = role
    if draw(st.integers(0, 3)) == 0:
        made["critical_floor"] = _floors(formula, params, draw)
    if draw(st.integers(0, 7)) == 0:
        made["floor_override"] = {
            "value": _floors(formula, params, draw),
            "reason": "calibrated in March",
        }
    if missing and draw(st.integers(0, 11)) == 0:
        made["raw_score"], made["missing"] = None, "the judge timed out"
    layer = draw(st.sampled_from((None, 1, 2, 3)))
    if layer is not None:
        made["layer"] = layer
    return made


NAMES = ("tone", "correctness", "safety", "clarity", "cost")
GATES = ("schema_contract_valid", "no_policy_violation", "overall_status_success")


@st.composite
def scorecards(
    draw: Any,
    *,
    gates: bool = True,
    missing: bool = True,
    threshold: bool = True,
    min_criteria: int = 1,
) -> dict[str, Any]:
    """A scorecard that can be graded. With `gates` false every gate passes."""
    names = draw(st.permutations(NAMES))[: draw(st.integers(min_criteria, len(NAMES)))]
    listed = [draw(criteria(name, missing=missing)) for name in names]
    if not any(criterion["weight"] for criterion in listed):
        listed[0]["weight"] = 1
    verdicts = st.sampled_from((True,) * 6 + (False, None)) if gates else st.just(True)
    named = {name: draw(verdicts) for name in draw(st.lists(st.sampled_from(GATES), unique=True))}
    made: dict[str, Any] = {
        "schema": "assay.scorecard/1",
        "run_id": "r-1",
        "hard_gates": named,
        "criteria": listed,
    }
    if threshold:
        chosen = draw(st.one_of(st.none(), st.integers(0, 100), decimals(60, 95, 2)))
        if chosen is not None:
            made["pass_threshold"] = chosen
    return made
