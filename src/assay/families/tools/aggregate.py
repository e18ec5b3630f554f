"""Scores to a letter, in a fixed order: veto, weighted mean, band, tier cap, and the rule that the
best letter needs a group-bound contribution.

Each step that changes the letter leaves a note. A warning never blocks. The mean is compared
unrounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from assay.canon import time_of
from assay.errors import InputError
from assay.families.tools.answers import (
    AUTONOMOUS_DIMENSIONS,
    EXCLUDED,
    dimension_of,
    weighted_mean,
)
from assay.families.tools.names import GROUP_BOUND, NON_DETERMINISTIC, REJECTED, TIERS
from assay.families.tools.policy import SchemaRules, at_least, capped
from assay.families.tools.records import CategoricalVeto, GradedAnswer
from assay.families.tools.veto import check_trigger
from assay.registry import near_miss

NOTHING_SCORABLE = "no scorable answers"


class Aggregate(NamedTuple):
    """The result of the answers. `status` is the outcome of the aggregation, never the status of a
    node.
    """

    grade: str | None
    raw_grade: str | None
    mean: Fraction | None
    status: str
    """`graded`, `pending` or `rejected`."""
    max_attainable: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check_tier(tier: object, rules: SchemaRules) -> str:
    """The best letter a tier can attain."""
    if not isinstance(tier, str) or tier not in rules.caps:
        raise InputError(
            "GRD-003",
            f"there is no tier {tier!r}.{near_miss(str(tier), TIERS)}",
            fix=f"The tiers are {', '.join(TIERS)}.",
        )
    return rules.caps[tier]


def aggregate(
    answers: Sequence[tuple[object, object]],
    tier: object,
    rules: SchemaRules,
    *,
    veto: object = None,
    group_bound: bool = True,
    cap: str | None = None,
) -> Aggregate:
    """The grade of (score, weight) pairs.

    `veto` is the trigger of a veto. `group_bound` says whether any answer that counts is bound to a
    group; `cap` is a further limit, such as that of a small selection.
    """
    best = check_tier(tier, rules)
    if veto is not None:
        return Aggregate(REJECTED, None, None, "rejected", best, (f"veto: {check_trigger(veto)}",))
    summed = weighted_mean(answers, rules)
    warnings = (
        [f"{summed.stale} stale answer{'s' if summed.stale != 1 else ''} left out of the mean"]
        if summed.stale
        else []
    )
    mean = summed.value
    if mean is None:
        return Aggregate(None, None, None, "pending", best, (NOTHING_SCORABLE,), tuple(warnings))
    raw = rules.letter(mean)
    letter, notes = capped(raw, best), []
    if letter != raw:
        notes.append(f"capped at {best}: the best that the tier {tier} can attain")
    needs = rules.policy.group_bound_from
    if tier == GROUP_BOUND and at_least(letter, needs) and not group_bound:
        below = rules.caps["autonomous"]
        letter = capped(letter, below)
        notes.append(
            f"capped at {below}: {needs} needs at least one answer that is bound to the group"
        )
    if cap is not None and capped(letter, cap) != letter:
        letter = cap
        notes.append(f"capped at {cap}: the selection is too small for more")
    return Aggregate(letter, raw, mean, "graded", best, tuple(notes), tuple(warnings))


def aggregate_answers(
    answers: Sequence[GradedAnswer],
    tier: object,
    rules: SchemaRules,
    *,
    veto: CategoricalVeto | None = None,
    cap: str | None = None,
) -> Aggregate:
    """The grade of an entry's answers: of each question the most recent answer counts."""
    current = latest_answers(answers)
    counted = [answer for answer in current if answer.score not in EXCLUDED]
    result = aggregate(
        [(answer.score, answer.weight) for answer in current],
        tier,
        rules,
        veto=veto.triggered_by if veto else None,
        group_bound=any(
            answer.weight != 0 and dimension_of(answer.question_id) not in AUTONOMOUS_DIMENSIONS
            for answer in counted
        ),
        cap=cap,
    )
    judged = any(answer.determinism == NON_DETERMINISTIC for answer in counted)
    if (
        result.status == "graded"
        and at_least(result.grade, rules.policy.judged_from)
        and not judged
    ):
        return result._replace(
            warnings=(*result.warnings, f"{result.grade} without any judged answer")
        )
    return result


def latest_answers(answers: Sequence[GradedAnswer]) -> list[GradedAnswer]:
    """Of each question its most recent answer, in the order of first asking; graders are never
    averaged.
    """
    kept: dict[str, GradedAnswer] = {}
    for answer in answers:
        held = kept.get(answer.question_id)
        if held is None or _when(answer) >= _when(held):
            kept[answer.question_id] = answer
    return list(kept.values())


def _when(answer: GradedAnswer) -> float:
    moment = time_of(answer.timestamp)
    return moment.timestamp() if moment else float("-inf")
