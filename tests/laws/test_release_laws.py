"""The laws of a decision on real scorecards, the whole way from them: a version against itself is
rarely rejected, more evidence helps, deterministic systems keep their edge, better is never worse,
and order is nothing. Forgetting: see `test_forgetting`; the rules alone: `test_release_rules`.
"""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

import campaign_release as campaign
from assay.errors import AssayError
from drawn_sides import Cards, case
from examples import CAMPAIGN, repeats
from sides import DETERMINISTIC, RULES, cards, decide, drawn, verdicts

RANK = {"violated": 0, "open": 1, "holds": 2}


# --- better is never worse


def better(one: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """A run of which some gates open, and some scores rise."""
    made = copy.deepcopy(one)
    for gate, passed in made["hard_gates"].items():
        if passed is False and draw.random() < 0.6:
            made["hard_gates"][gate] = True
    for item in made["criteria"]:
        if item["raw_score"] is not None and draw.random() < 0.6:
            item["raw_score"] = max(item["raw_score"], draw.choice((0.5, 0.9, 1.0)))
    return made


@pytest.mark.parametrize("block", range(4))
def test_improving_a_sample_turns_no_rule_against_it(block: int) -> None:
    often = repeats(8, 1500)
    for seed in range(block * often, (block + 1) * often):
        rules, candidate, baseline, fresh = case(seed)
        draw = random.Random(-seed)
        sample = draw.choice(candidate)["sample_id"]

        def improved(runs: Cards, sample: str = sample, draw: random.Random = draw) -> Cards:
            return [better(one, draw) if one["sample_id"] == sample else one for one in runs]

        made = fresh if seed % 2 else None
        after_fresh = None if made is None else (improved(made[0]), made[1])
        before = verdicts(decide(candidate, baseline, rules=rules, fresh=made))
        after = verdicts(decide(improved(candidate), baseline, rules=rules, fresh=after_fresh))
        worse = {rule for rule in before if RANK[after[rule]] < RANK[before[rule]]}
        assert worse == set(), (seed, before, after)


# --- order is nothing


@pytest.mark.parametrize("seed", range(repeats(8, 400)))
def test_the_order_of_the_runs_changes_nothing(seed: int) -> None:
    rules, candidate, baseline, fresh = case(seed)
    draw = random.Random(seed)
    before = decide(candidate, baseline, rules=rules, fresh=fresh).tree()
    shuffled = [[*runs] for runs in (candidate, baseline, *fresh)]
    for runs in shuffled:
        draw.shuffle(runs)
    ours, theirs, mine, other = shuffled
    assert decide(ours, theirs, rules=rules, fresh=(mine, other)).tree() == before


# --- more evidence helps


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("seed", range(repeats(4, 200)))
def test_repeating_every_run_as_it_was_turns_nothing_against_a_version(
    seed: int, times: int
) -> None:
    """On either side: unequal numbers of repeats never look like a difference."""
    draw = random.Random(seed)
    base = cards(drawn(60, seed=seed, low=72))
    for one in draw.sample(base, 6):
        one["hard_gates"]["looks_right"] = False
    many = [
        {**one, "run_id": f"{one['run_id']}-{attempt}", "attempt": attempt}
        for one in base
        for attempt in range(1, times + 1)
    ]
    for ours, theirs in ((base, base), (many, base), (base, many), (many, many)):
        assert decide(ours, theirs, rules=RULES).outcome == "promote"
        assert decide(ours, theirs, rules=DETERMINISTIC).outcome == "promote"


# --- deterministic systems keep their edge


@pytest.mark.parametrize("seed", range(repeats(5, 200)))
def test_any_new_failure_of_a_deterministic_system_rejects(seed: int) -> None:
    draw = random.Random(seed)
    base = cards(drawn(draw.choice((30, 60, 120)), seed=seed, low=72), floor=0.5)
    worse = copy.deepcopy(base)
    one = draw.choice(worse)
    how = draw.choice(("gate", "floor", "pass", "gone"))
    if how == "gate":
        one["hard_gates"]["looks_right"] = False
    elif how == "gone":
        worse.remove(one)
    else:
        one["criteria"][0]["raw_score"] = {"floor": 0.4, "pass": 0.6}[how]
    assert decide(worse, base, rules=DETERMINISTIC).outcome == "reject"


# --- noise, in both directions: the suite's short seeds of `campaign_release`


@pytest.mark.parametrize("runs", campaign.RUNS)
@pytest.mark.parametrize("kind", campaign.KINDS)
def test_a_version_against_itself_is_rejected_in_at_most_five_of_a_hundred(
    kind: str, runs: tuple[int, int]
) -> None:
    for n in campaign.SIZES if CAMPAIGN else campaign.SIZES[:1]:
        times = repeats(10, 400)
        found = campaign.cell(kind, n, runs, times)
        assert found.rejected <= campaign.most(times, 0.05), found


@pytest.mark.parametrize("kind", campaign.KINDS)
def test_a_version_with_a_twentieth_of_its_samples_broken_is_found(kind: str) -> None:
    times = repeats(3, 200)
    for runs in campaign.RUNS if CAMPAIGN else campaign.RUNS[:1]:
        found = campaign.cell(kind, 200, runs, times, broken_share=0.05)
        assert found.promoted == 0, found
        assert 1 - found.rejected <= campaign.most(times, 0.05), found


# --- what is refused is never promoted


@pytest.mark.parametrize("seed", range(repeats(5, 300)))
def test_two_sides_without_a_common_sample_or_criterion_are_never_promoted(seed: int) -> None:
    rules, candidate, baseline, _ = case(seed)
    other = [{**one, "sample_id": f"x{one['sample_id']}"} for one in candidate]
    renamed = copy.deepcopy(candidate)
    for one in renamed:
        for item in one["criteria"]:
            item["name"] = f"new {item['name']}"
    for ours in (other, renamed):
        try:
            assert decide(ours, baseline, rules=rules).outcome != "promote"
        except AssayError as error:
            if error.code != "REL-002":
                raise
