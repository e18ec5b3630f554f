"""The rules, one pure function per kind. Each leaves a Finding even if it doesn't fire, so that a
report shows what was checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from assay import exact
from assay.errors import FormulaError
from assay.formulas import floor_norm, formula
from assay.grading.policy import Rules
from assay.records.evidence import JudgeOn
from assay.records.grade import Band, Finding, GradedCriterion
from assay.records.scorecard import Criterion, Scorecard

_GATES_CLEAR = Finding("hard_gates", False, "", "every hard gate passes")
_NO_GATES = Finding(
    "hard_gates", True, "", "the scorecard has no hard gate, so nothing in it could fail the run"
)
_GATES_WAIVED = Finding(
    "hard_gates", False, "", "the scorecard has no hard gate, and the policy allows that"
)
FLOORS_CLEAR = Finding("critical_floors", False, "", "every critical floor is met")
JUDGES_ADMITTED = Finding(
    "uncalibrated_judge", False, "", "no score comes from a judge that may not gate"
)
SCORES_THERE = Finding("missing_score", False, "", "every criterion has a score")


def failed_gates(scorecard: Scorecard) -> tuple[str, ...]:
    """The gates that don't pass, undetermined ones included, in the scorecard's order."""
    return tuple([name for name, passed in scorecard.hard_gates.items() if passed is not True])


def gate_findings(scorecard: Scorecard, failures: tuple[str, ...], rules: Rules) -> list[Finding]:
    """The findings on the gates."""
    if not failures:
        return [
            (
                _GATES_CLEAR
                if scorecard.hard_gates
                else _GATES_WAIVED
                if rules.cards.without_gates
                else _NO_GATES
            )
        ]
    return [_gate_finding(name, scorecard.hard_gates[name]) for name in failures]


@lru_cache(maxsize=1024)  # a stream fails the same few gates again and again
def _gate_finding(name: str, passed: bool | None) -> Finding:
    return Finding(
        "hard_gates",
        True,
        name,
        f"{name} {'failed' if passed is False else 'is undetermined, which counts as failed'}",
    )


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


def judge_findings(criteria: tuple[GradedCriterion, ...]) -> list[Finding]:
    """The findings on scores from judges that may not gate."""
    findings = []
    for item in criteria:
        if item.judge_fault is not None:
            source = item.criterion.source
            who = f"by {source.name}, " if source is not None else "by "
            effect = (
                "; it cannot pass its floor"
                if item.floor_units is not None
                else "; it is shown, and has no floor to pass"
            )
            text = (
                f"{item.criterion.name} is scored {who}an uncalibrated judge:"
                f" {item.judge_fault}{effect}"
            )
            findings.append(Finding("uncalibrated_judge", True, item.criterion.name, text))
    return findings or [JUDGES_ADMITTED]


def score_findings(criteria: tuple[GradedCriterion, ...]) -> list[Finding]:
    """The findings on criteria without a score, which count as 0."""
    findings = [
        Finding(
            "missing_score",
            True,
            item.criterion.name,
            f"{item.criterion.name} has no score and counts as 0: {item.criterion.missing}",
        )
        for item in criteria
        if item.criterion.raw_score is None
    ]
    return findings or [SCORES_THERE]


def floor_findings(criteria: tuple[GradedCriterion, ...]) -> list[Finding]:
    """The findings on missed floors and on overrides of floors."""
    findings = []
    missed = False
    for item in criteria:
        criterion, floor = item.criterion, item.floor_units
        name, override = criterion.name, criterion.floor_override
        if item.floor_failed and floor is not None:
            missed = True
            text = f"{name} reaches its floor only through an uncalibrated judge"
            if item.norm_units < floor:
                norm, short = map(exact.norm_text, (item.norm_units, floor - item.norm_units))
                text = f"{name} is {norm}, {short} below its floor of {exact.norm_text(floor)}"
            findings.append(Finding("critical_floors", True, name, text))
        if override is not None and item.floor_from == "override":
            text = f"the floor of {name} is set by an override: {override.reason}"
            findings.append(Finding("floor_override", True, name, text))
        elif override is not None:
            text = (
                f"the scorecard's own override of the floor of {name} does not"
                " count: only a profile, rubric or policy may lower a floor"
            )
            findings.append(Finding("floor_override", False, name, text))
    return findings if missed else [*findings, FLOORS_CLEAR]


def band(score: int, bands: tuple[Band, ...]) -> str:
    """The letter of a score in hundredths: the first band whose edge it reaches."""
    return next((letter for letter, edge in bands if score >= edge), bands[-1].grade)


def worse(letter: str, other: str, bands: tuple[Band, ...]) -> str:
    """The worse of two letters. A cap never raises."""
    letters = [item.grade for item in bands]
    return letter if letters.index(letter) >= letters.index(other) else other
