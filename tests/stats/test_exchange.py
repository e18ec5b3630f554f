"""The tests behind a decision: which runs were whose is chance, an end never turns against an
improvement, and a suspicion is confirmed by fresh runs only.
"""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.stats.clusters import estimate_clustered_mean, gather
from assay.stats.confirmation import FALSE_ALARM, is_suspect, turns_needed
from assay.stats.exchange import Attempts, exchange_test
from assay.stats.intervals import binomial_cdf
from assay.stats.monotone import lower_end, single, upper_end

counts = st.lists(st.integers(0, 3), max_size=3)
units = st.lists(st.builds(Attempts.of, counts, counts), min_size=1, max_size=4)
runs = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)).map(
    lambda drawn: (
        min(drawn[0], drawn[1]),
        max(drawn[0], drawn[1]),
        min(drawn[2], drawn[3]),
        max(drawn[2], drawn[3]),
    )
)


def of_runs(failing: int, runs: int, others_failing: int, others: int) -> Attempts:
    return Attempts.of_runs(
        failing=failing, runs=runs, others_failing=others_failing, others=others
    )


def by_hand(found: list[Attempts]) -> float:
    """Every way to deal the attempts to the sides."""
    chances, observed = {0: Fraction(1)}, 0
    for unit in found:
        pool, drawn = unit.candidate + unit.baseline, len(unit.candidate)
        observed += sum(unit.candidate)
        dealt: Counter[int] = Counter(
            sum(pool[place] for place in chosen) for chosen in combinations(range(len(pool)), drawn)
        )
        sums: dict[int, Fraction] = {}
        for total, chance in chances.items():
            for more, ways in dealt.items():
                share = chance * Fraction(ways, comb(len(pool), drawn))
                sums[total + more] = sums.get(total + more, Fraction(0)) + share
        chances = sums
    return float(sum(chance for total, chance in chances.items() if total >= observed))


# --- exchange


@given(units)
def test_the_p_value_is_the_share_of_deals_that_are_as_bad(found: list[Attempts]) -> None:
    assert exchange_test(Counter(found)) == pytest.approx(by_hand(found), abs=1e-12)


@given(st.integers(0, 60), st.integers(0, 60))
def test_with_one_run_a_side_it_is_the_sign_test(worse: int, better: int) -> None:
    found = exchange_test({of_runs(1, 1, 0, 1): worse, of_runs(0, 1, 1, 1): better})
    n = worse + better
    assert found == pytest.approx(binomial_cdf(better, n, 0.5) if n else 1.0, abs=1e-12)


@given(st.lists(runs, min_size=1, max_size=6), st.data())
def test_improving_a_run_never_lowers_the_p_value(
    samples: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    failing = [place for place, sample in enumerate(samples) if sample[0]]
    before = exchange_test(Counter(of_runs(*sample) for sample in samples))
    if failing:
        place = data.draw(st.sampled_from(failing))
        one, *rest = samples[place]
        samples[place] = (one - 1, *rest)  # type: ignore[assignment]
    after = exchange_test(Counter(of_runs(*sample) for sample in samples))
    assert after >= before - 1e-12


@given(st.lists(st.tuples(runs, st.integers(1, 40)), min_size=1, max_size=4))
def test_counted_samples_are_the_same_as_listed_ones(
    found: list[tuple[tuple[int, ...], int]],
) -> None:
    counted: Counter[Attempts] = Counter()
    for sample, times in found:
        counted[of_runs(*sample)] += times
    listed = [unit for unit, times in counted.items() for _ in range(times)]
    random.Random(1).shuffle(listed)
    assert exchange_test(counted) == exchange_test(Counter(listed))


@pytest.mark.parametrize(("mine", "theirs"), [(1, 1), (1, 3), (3, 1), (2, 5)])
def test_a_version_against_itself_is_found_worse_as_rarely_as_the_level_says(
    mine: int, theirs: int
) -> None:
    drawn, found, times = random.Random(mine * 10 + theirs), 0, 400
    for _ in range(times):
        rates = [drawn.betavariate(4, 1.5) if drawn.random() < 0.3 else 1.0 for _ in range(100)]
        sides = [
            [sum(drawn.random() > rate for _ in range(n)) for rate in rates] for n in (mine, theirs)
        ]
        deals = Counter(
            of_runs(one, mine, other, theirs) for one, other in zip(*sides, strict=True)
        )
        found += exchange_test(deals) <= 0.05
    assert found <= times * 0.05 + 3 * (times * 0.05 * 0.95) ** 0.5


def test_samples_of_one_group_are_dealt_together() -> None:
    alone = exchange_test({of_runs(1, 1, 0, 1): 20})
    together = exchange_test({Attempts.of([10], [0]): 2})
    assert (together, alone) == (pytest.approx(0.25), pytest.approx(0.5**20))


# --- ends


values = st.lists(
    st.one_of(st.sampled_from([0.0, 0.0, -100.0, -50.0, 20.0, 100.0]), st.floats(-100, 100)),
    min_size=2,
    max_size=40,
)


@given(values, st.booleans(), st.booleans(), st.data())
def test_raising_samples_never_lowers_an_end(
    before: list[float], is_grouped: bool, lean: bool, data: st.DataObject
) -> None:
    places = st.integers(0, len(before) - 1)
    groups = (
        data.draw(st.lists(st.integers(0, 5), min_size=len(before), max_size=len(before)))
        if is_grouped
        else list(range(len(before)))
    )
    after = list(before)
    for place in data.draw(st.lists(places, min_size=1, max_size=3)):
        after[place] += data.draw(st.sampled_from([0.5, 5.0, 60.0, 200.0]))
    for end in (lower_end, upper_end):
        one, other = (end(gather(side, groups), level=0.975, lean=lean) for side in (before, after))
        assert (one is None) == (other is None)
        assert one is None or other is None or other >= one - 1e-6


@given(values)
def test_an_end_is_never_below_the_usual_one_and_never_above_the_best_sample(
    found: list[float],
) -> None:
    end = lower_end(single(Counter(found)), level=0.975)
    usual = estimate_clustered_mean(found, list(range(len(found))), level=0.95, believed=True)
    assert end is not None
    assert end <= max(found) + 1e-9
    if usual.interval.low is not None:
        assert end >= usual.interval.low - 1e-6


def test_a_rise_of_one_sample_does_not_turn_an_end_against_it() -> None:
    found = Counter({0.0: 30, -1.0: 10, 1.0: 10})
    raised = Counter({0.0: 29, -1.0: 10, 1.0: 10, 32.0: 1})
    before, after = (lower_end(single(side), level=0.975) for side in (found, raised))
    assert before is not None
    assert after is not None
    assert after >= before


def test_losses_of_a_few_samples_lower_the_end_that_knows_skew() -> None:
    groups = single(Counter({0.0: 95, -100.0: 5}))
    plain, leaning = (lower_end(groups, level=0.975, lean=lean) for lean in (False, True))
    assert plain is not None
    assert leaning is not None
    assert leaning < plain


@pytest.mark.parametrize("groups", [[0, 0, 0], [0]])
def test_one_group_has_no_end(groups: list[int]) -> None:
    assert lower_end(gather([1.0] * len(groups), groups), level=0.975) is None


# --- confirmation


@given(
    st.sampled_from([20, 50, 200, 1000]),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 5),
    st.floats(0, 1),
)
def test_the_turns_keep_the_chance_of_a_false_confirmation(
    samples: int, checks: int, mine: int, theirs: int, p: float
) -> None:
    turns = turns_needed(samples, checks, mine, theirs)
    suspect = sum(
        comb(mine, a) * comb(theirs, b) * p ** (a + b) * (1 - p) ** (mine + theirs - a - b)
        for a in range(mine + 1)
        for b in range(theirs + 1)
        if is_suspect(a, mine, b, theirs)
    )
    assert samples * checks * suspect * (p * (1 - p)) ** turns <= FALSE_ALARM * 1.001


@pytest.mark.parametrize(("samples", "turns"), [(50, 6), (200, 7), (1000, 8)])
def test_turns_for_one_run_a_side_and_one_check(samples: int, turns: int) -> None:
    assert turns_needed(samples, 1, 1, 1) == turns


@given(st.integers(2, 500), st.integers(1, 5), st.integers(1, 5))
def test_more_samples_never_need_fewer_turns(samples: int, mine: int, theirs: int) -> None:
    assert turns_needed(samples, 1, mine, theirs) <= turns_needed(samples + 1, 1, mine, theirs)


@given(runs)
def test_improving_a_run_never_makes_a_sample_suspect(
    sample: tuple[int, int, int, int],
) -> None:
    failing, mine, others_failing, theirs = sample
    if failing and not is_suspect(failing, mine, others_failing, theirs):
        assert not is_suspect(failing - 1, mine, others_failing, theirs)
