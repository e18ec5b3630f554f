"""Removing one piece of evidence of either side never promotes: a run, the verdict of a gate, a
score, a fresh run, or the mark of an error.

A score that the baseline lacks too is the exception: the criterion may not apply to that sample.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from assay.errors import AssayError
from assay.release.policy import ReleaseRules
from drawn_sides import Cards, case
from examples import repeats
from sides import decide


def planned(baseline: Cards) -> dict[str, Any]:
    """A plan of the baseline's samples: what nobody announced, nobody can miss."""
    return {"digest": "d", "samples": sorted({one["sample_id"] for one in baseline})}


def decided(
    candidate: Cards,
    baseline: Cards,
    rules: ReleaseRules,
    plan: dict[str, Any],
    fresh: tuple[Cards, Cards] | None,
) -> str:
    """The outcome; what is refused isn't promoted either."""
    try:
        return decide(candidate, baseline, rules=rules, fresh=fresh, plan=plan).outcome
    except AssayError as error:
        if error.code not in ("REL-002", "REL-003"):
            raise
        return "refused"


def without_a_piece(cards: Cards, scored: set[tuple[str, str]]) -> Iterator[Cards]:
    """The cards, each time without one piece of their evidence."""
    for place, one in enumerate(cards):
        yield [*cards[:place], *cards[place + 1 :]]
        changes: list[dict[str, Any]] = [
            {"hard_gates": {**one["hard_gates"], gate: None}}
            for gate, passed in one["hard_gates"].items()
            if passed is not None
        ]
        changes += [
            {
                "hard_gates": {
                    name: passed for name, passed in one["hard_gates"].items() if name != gate
                }
            }
            for gate in one["hard_gates"]
        ]
        changes += [
            {
                "criteria": [
                    {**item, "raw_score": None, "missing": "forgotten"} if item is lost else item
                    for item in one["criteria"]
                ]
            }
            for lost in one["criteria"]
            if lost["raw_score"] is not None and (one["sample_id"], lost["name"]) in scored
        ]
        for change in changes:
            yield [*cards[:place], {**one, **change}, *cards[place + 1 :]]


def scored_in(cards: Cards) -> set[tuple[str, str]]:
    return {
        (one["sample_id"], item["name"])
        for one in cards
        for item in one["criteria"]
        if item["raw_score"] is not None
    }


@pytest.mark.req("W-075")
@pytest.mark.parametrize("confirmed", [False, True])
@pytest.mark.parametrize("side", ["candidate", "baseline"])
@pytest.mark.parametrize("block", range(4))
def test_removing_a_piece_of_evidence_never_promotes(
    side: str, confirmed: bool, block: int
) -> None:
    often = repeats(3, 500)
    for seed in range(block * often, (block + 1) * often):
        rules, candidate, baseline, fresh = case(seed)
        plan = planned(baseline)
        made = fresh if confirmed else None
        if decided(candidate, baseline, rules, plan, made) == "promote":
            continue
        shown, other = (candidate, baseline) if side == "candidate" else (baseline, candidate)
        left = [cards for cards in without_a_piece(shown, scored_in(other)) if cards]
        for cards in random.Random(seed).sample(left, min(len(left), repeats(12, 40))):
            sides = (cards, baseline) if side == "candidate" else (candidate, cards)
            after = decided(*sides, rules, plan, made)
            assert after != "promote", seed


@pytest.mark.parametrize("block", range(4))
def test_removing_a_fresh_run_never_promotes(block: int) -> None:
    often = repeats(4, 500)
    for seed in range(1000 + block * often, 1000 + (block + 1) * often):
        rules, candidate, baseline, fresh = case(seed)
        plan = planned(baseline)
        if decided(candidate, baseline, rules, plan, fresh) == "promote":
            continue
        for at, runs in enumerate(fresh):
            places = range(len(runs))
            for place in random.Random(seed).sample(places, min(len(runs), repeats(6, 30))):
                left = [*runs[:place], *runs[place + 1 :]]
                both = (left, fresh[1]) if at == 0 else (fresh[0], left)
                assert decided(candidate, baseline, rules, plan, both) != "promote", (
                    seed,
                    at,
                    place,
                )
