"""Confidence sequences: true at all looks together in 95 of 100 runs, whatever made one stop."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import campaign_statistics as campaign
from assay.errors import UsageError
from assay.stats.comparison import claims
from assay.stats.estimate import DIFFERENCES, SCORES, Range
from assay.stats.sequential import _SHARES, _capital, anytime_mean
from examples import repeats, share


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (0.2, 1.0, 0.4)])
def test_the_capital_has_no_gain_in_expectation_where_the_supposed_mean_is_true(
    weights: tuple[float, ...],
) -> None:
    chances = [0.2, 0.5, 0.3]
    values = list(zip([0.0, 0.3, 1.0], weights, [1, 1, 1], strict=True))
    shares = [chance * weight for chance, weight in zip(chances, weights, strict=True)]
    mean = float(np.dot([value for value, *_ in values], shares)) / sum(shares)
    expected = 0.0
    for one, first in zip(values, chances, strict=True):
        for other, second in zip(values, chances, strict=True):
            expected += first * second * math.exp(_capital([one, other], mean))
    assert expected == pytest.approx(1.0, rel=1e-12)
    assert 0 < min(_SHARES) < max(_SHARES) < 1


@given(st.integers(0, 1000))
@settings(max_examples=share(20))
def test_the_order_of_the_values_is_nothing(seed: int) -> None:
    draw = random.Random(seed)
    values = [round(draw.gauss(5, 20), 1) for _ in range(80)]
    shuffled = draw.sample(values, len(values))
    assert anytime_mean(values, Range(-200, 200)) == anytime_mean(shuffled, Range(-200, 200))


def test_a_mirrored_sequence_has_mirrored_ends() -> None:
    values = [round(random.Random(1).gauss(5, 20), 1) for _ in range(200)]
    found, other = (
        anytime_mean(values, DIFFERENCES),
        anytime_mean([-value for value in values], DIFFERENCES),
    )
    assert (found.low, found.high) == (
        pytest.approx(-other.high, abs=1e-6),
        pytest.approx(-other.low, abs=1e-6),
    )


def test_the_mean_of_weighted_values_is_excluded_at_no_look_though_small_weights_differ() -> None:
    draw, often, wrong = random.Random(6), repeats(40, 400), 0
    truth = (1 * 20 + 0.25 * 4 * -20) / 2  # one large group at 20 for four small ones at -20
    for _ in range(often):
        values: list[float] = []
        weights: list[float] = []
        for _ in range(4):
            for _ in range(60):
                weight = draw.choice([1.0, 0.25, 0.25, 0.25, 0.25])
                weights.append(weight)
                values.append(round(draw.gauss(20 if weight == 1 else -20, 10)))
            found = anytime_mean(values, DIFFERENCES, weights=weights)
            assert found.low is not None
            assert found.high is not None
            if not found.low <= truth <= found.high:
                wrong += 1
                break
    assert wrong <= 0.05 * often + 3 * (0.05 * 0.95 * often) ** 0.5
    assert found.high - found.low < 20
    assert anytime_mean([1.0, 2.0], SCORES, weights=[1, 1]) == anytime_mean([1.0, 2.0], SCORES)
    heavy = anytime_mean([1.0, 2.0] * 99, SCORES, weights=[0.5, 1] * 99)
    assert heavy.value == pytest.approx(5 / 3)


def test_one_value_says_nothing() -> None:
    assert anytime_mean([], SCORES).reason == "no samples"
    one = anytime_mean([50.0], SCORES)
    assert (one.value, one.reason) == (50.0, "one sample has no spread to estimate from")
    assert anytime_mean([50.0, 60.0], SCORES).low is not None


def test_a_run_may_stop_early_when_the_difference_is_clear() -> None:
    draw = np.random.default_rng(3)
    seen: list[float] = []
    for _ in range(40):
        seen += draw.normal(8, 10, 25).round(1).tolist()
        found = anytime_mean(seen, DIFFERENCES)
        if claims(found, 1.0).superior:
            break
    assert len(seen) < 20 * 25
    assert claims(found, 1.0).non_inferior


@pytest.mark.parametrize(("sd", "n"), [(10, 2000), (30, 1000)])
def test_the_sequence_is_less_than_twice_as_wide_as_students_interval(sd: int, n: int) -> None:
    draw = np.random.default_rng(4)
    values = draw.normal(0, sd, n).round(1).clip(-100, 100)
    found = anytime_mean(values.tolist(), DIFFERENCES)
    assert found.high - found.low < 2 * 2 * 1.96 * values.std() / n**0.5


def test_a_look_takes_time_by_the_values_seen() -> None:
    values = np.random.default_rng(5).normal(0, 10, repeats(1000, 4000)).clip(-100, 100).tolist()
    found = anytime_mean(values, DIFFERENCES)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0 < found.high


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="is 101"):
        anytime_mean([101.0], SCORES)


@pytest.mark.req("W-075")
def test_the_truth_is_excluded_at_any_look_in_at_most_5_percent_of_all_runs() -> None:
    often = repeats(5, 200)
    cells = campaign.anytime(often, looks=repeats(6, 8), step=40)
    ours = [cell for cell in cells if cell.method != "student-t at each look"]
    for cell in ours:
        assert 1 - cell.coverage <= 0.05 + 3 * (0.05 * 0.95 / often) ** 0.5, cell
    assert campaign.average(ours) >= 0.95
    peeking = [
        cell.coverage
        for cell in cells
        if cell.method == "student-t at each look" and "sd 15" in cell.kind
    ]
    assert min(peeking) < 0.9
