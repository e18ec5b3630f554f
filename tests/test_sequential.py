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
from assay.stats.sequential import _SHARES, MeanSequence, _capital
from examples import repeats, share


def test_the_capital_has_no_gain_in_expectation_where_the_supposed_mean_is_true() -> None:
    values, chances = [0.0, 0.3, 1.0], [0.2, 0.5, 0.3]
    mean = float(np.dot(values, chances))
    expected = 0.0
    for one, first in zip(values, chances, strict=True):
        for other, second in zip(values, chances, strict=True):
            expected += first * second * math.exp(_capital([(one, 1), (other, 1)], mean))
    assert expected == pytest.approx(1.0, rel=1e-12)
    assert 0 < min(_SHARES) < max(_SHARES) < 1


@given(st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=20), min_size=1, max_size=5))
@settings(max_examples=share(40))
def test_a_look_never_gives_back_what_an_earlier_one_excluded(looks: list[list[float]]) -> None:
    sequence = MeanSequence(DIFFERENCES)
    low, high = -100.0, 100.0
    for values in looks:
        found = sequence.update(values)
        if found.low is None or found.high is None:
            assert found.reason
            continue
        assert found.low >= low - 1e-9
        assert found.high <= high + 1e-9
        low, high = found.low, found.high
    assert sequence.looks == len(looks)
    assert sequence.n == sum(map(len, looks))


@given(st.integers(0, 1000))
@settings(max_examples=share(20))
def test_the_order_between_two_looks_is_nothing(seed: int) -> None:
    draw = random.Random(seed)
    values = [round(draw.gauss(5, 20), 1) for _ in range(80)]
    shuffled = draw.sample(values, len(values))
    assert MeanSequence(Range(-200, 200)).update(values) == MeanSequence(Range(-200, 200)).update(
        shuffled
    )


def test_a_mirrored_sequence_has_mirrored_ends() -> None:
    values = [round(random.Random(1).gauss(5, 20), 1) for _ in range(200)]
    found, other = (
        MeanSequence(DIFFERENCES).update(values),
        MeanSequence(DIFFERENCES).update([-value for value in values]),
    )
    assert (found.low, found.high) == (
        pytest.approx(-other.high, abs=1e-6),
        pytest.approx(-other.low, abs=1e-6),
    )


def test_one_value_says_nothing_and_the_next_looks_go_on() -> None:
    sequence = MeanSequence(SCORES)
    assert sequence.update([]).reason == "no samples"
    assert sequence.update([50.0]).reason == "one sample has no spread to estimate from"
    assert sequence.update([60.0]).low is not None


def test_a_run_may_stop_early_when_the_difference_is_clear() -> None:
    draw = np.random.default_rng(3)
    sequence = MeanSequence(DIFFERENCES)
    while sequence.looks < 40:
        found = sequence.update(draw.normal(8, 10, 25).round(1).tolist())
        if claims(found, 1.0).superior:
            break
    assert sequence.looks < 20
    assert claims(found, 1.0).non_inferior


def test_the_sequence_is_less_than_twice_as_wide_as_students_interval() -> None:
    draw = np.random.default_rng(4)
    for sd, n in ((10, 2000), (30, 1000)):
        values = draw.normal(0, sd, n).round(1).clip(-100, 100)
        found = MeanSequence(DIFFERENCES).update(values.tolist())
        assert found.high - found.low < 2 * 2 * 1.96 * values.std() / n**0.5


def test_a_look_takes_time_by_the_values_seen() -> None:
    values = np.random.default_rng(5).normal(0, 10, repeats(1000, 4000)).clip(-100, 100).tolist()
    found = MeanSequence(DIFFERENCES).update(values)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0 < found.high


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="is 101"):
        MeanSequence(SCORES).update([101.0])


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
