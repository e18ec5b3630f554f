"""The rules, one pure function per kind. What they found is read from the grade: see
`records.grade`.
"""

from __future__ import annotations

from collections.abc import Mapping

from assay import exact
from assay.errors import FormulaError
from assay.formulas import floor_norm, formula
from assay.grading.policy import Rules
from assay.records.evidence import JudgeOn
from assay.records.grade import Band
from assay.records.scorecard import Criterion, Scorecard


def failed_gates(scorecard: Scorecard) -> tuple[str, ...]:
    """The gates that don't pass, undetermined ones included, in the scorecard's order."""
    return tuple([name for name, passed in scorecard.hard_gates.items() if passed is not True])


def effective_floor(
    criterion: Criterion, rules: Rules, *, overrides: bool
) -> tuple[int | None, str | None]:
    """The floor that applies, in billionths, and where it comes from: the stricter of the
    criterion's and its role's, or an override with a reason.

    `overrides` is whether an override counts: that of a profile or rubric does, that of a card only
    if the policy allows it.
    """
    if criterion.floor_override is not None:
        # a malformed override is refused even if it doesn't count
        lowered = floor_norm(criterion.floor_override.value, criterion.formula_id, criterion.params)
        if overrides:
            return lowered, "override"
    by_role = rules.role_floors.get(criterion.role) if criterion.role is not None else None
    if criterion.critical_floor is None:
        return by_role, "role" if by_role is not None else None
    own = floor_norm(criterion.critical_floor, criterion.formula_id, criterion.params)
    return (by_role, "role") if by_role is not None and by_role > own else (own, "criterion")


def judge_fault(
    criterion: Criterion,
    judges: Mapping[JudgeOn, str | None],
    rules: Rules,
    *,
    calibrated: bool = False,
    both_orders: bool = False,
) -> str | None:
    """Why a score that Assay did not measure may not gate; None if the judge that gave it may.

    The layer and the kind of the source are claims of the evidence and don't count: otherwise
    renaming a judge to a person would help.
    """
    source = criterion.source
    if criterion.raw_score is None:
        return None  # a missing score is not a judge's
    orders = criterion.disagreement
    if (
        both_orders
        and criterion.formula_id == "pairwise"
        and (orders is None or orders.between != "orders" or orders.inconsistent is None)
    ):
        return "it doesn't state how often the two orders of a pair disagreed"
    if rules.judge_terms is None and not calibrated:
        return None
    if source is None:
        return "the score doesn't name who gave it"
    if source.kind != "llm":
        return f"the evidence says that a {source.kind} gave it, and nothing proves that"
    if rules.judge_terms is None:
        return f"{rules.policy} has no terms for judges, so no card can admit it"
    for name in (criterion.name, None):
        if (source.judge, name) in judges:
            return judges[source.judge, name]
    if any(judge == source.judge for judge, _ in judges):
        return "its cards are for other criteria"
    if any(judge.startswith(f"{source.name} (") for judge, _ in judges):
        return (
            "its cards are for another version, prompt, rubric or settings, or another model"
            " answered"
        )
    return "it has no card"


def disagreement(criterion: Criterion) -> int | None:
    """How far apart the judges of a criterion were, in billionths of its scale; None if that was
    not measured. Raises `FormulaError`.
    """
    stated = criterion.disagreement
    if stated is None:
        return None
    if stated.between == "orders":
        if stated.inconsistent is None:
            return None
        if stated.inconsistent > stated.n:
            raise FormulaError(
                "SCO-007",
                f"{stated.inconsistent} of {stated.n} pairs came out differently, more than there"
                " are.",
            )
        return exact.quantise(stated.inconsistent, stated.n, exact.NORM_DIGITS)
    if stated.low is None or stated.high is None:
        return None
    scale = formula(criterion.formula_id)
    low, high = (scale.apply(end, criterion.params) for end in (stated.low, stated.high))
    return abs(high - low)


def band(score: int, bands: tuple[Band, ...]) -> str:
    """The letter of a score in hundredths: the first band whose edge it reaches."""
    return next((letter for letter, edge in bands if score >= edge), bands[-1].grade)


def worse(letter: str, other: str, bands: tuple[Band, ...]) -> str:
    """The worse of two letters. A cap never raises."""
    letters = [item.grade for item in bands]
    return letter if letters.index(letter) >= letters.index(other) else other
