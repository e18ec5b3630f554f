"""Comparisons: the numbers of scipy and statsmodels, claims that are false in at most 5%, and no
certainty from ties.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
import scipy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import campaign_statistics as campaign
from assay.errors import UsageError
from assay.stats.bounded import Mass, bounded, bounded_mean, chance_below
from assay.stats.comparison import claims, holm
from assay.stats.estimate import SEEN, Range
from assay.stats.intervals import (
    Interval,
    binomial_cdf,
    mcnemar,
    rate_difference,
    t_quantile,
    t_tail,
)
from assay.stats.means import estimate_mean
from examples import CAMPAIGN, repeats, share
from paired import compare_paired

points = st.integers(0, 10_000).map(lambda cents: cents / 100)


def pairs_of(seed: int, n: int, shift: float = 0.0) -> tuple[list[float], list[float]]:
    draw = np.random.default_rng(seed)
    baseline = draw.uniform(30, 70, n)
    return (
        np.round(baseline + shift + draw.normal(0, 5, n), 2).tolist(),
        np.round(baseline, 2).tolist(),
    )


# --- against the tools of the field


@pytest.mark.req("W-075")
@given(
    st.integers(0, 10_000),
    st.sampled_from([50, 120, 500, 805]),
    st.floats(-3, 3),
    st.sampled_from([0.9, 0.95, 0.99]),
)
def test_the_paired_interval_is_students_t_on_the_differences(
    seed: int, n: int, shift: float, level: float
) -> None:
    ours, theirs = pairs_of(seed, n, shift)
    found = compare_paired(ours, theirs, margin=1.0, level=level)
    wanted = scipy.stats.ttest_rel(ours, theirs).confidence_interval(level)
    assert found.difference.low == pytest.approx(wanted.low, abs=1e-9)
    assert found.difference.high == pytest.approx(wanted.high, abs=1e-9)
    assert found.difference.method == "student-t"
    above = scipy.stats.ttest_1samp(np.subtract(ours, theirs), -1.0, alternative="greater").pvalue
    below = scipy.stats.ttest_1samp(np.subtract(ours, theirs), 1.0, alternative="less").pvalue
    assert found.p_non_inferior == pytest.approx(above, rel=1e-6, abs=1e-15)
    assert found.p_equivalent == pytest.approx(max(above, below), rel=1e-6, abs=1e-15)
    assert found.wins + found.losses + found.ties == n == found.n_paired


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemars_test_is_exact(first: int, second: int) -> None:
    found = mcnemar(first, second)
    n, fewer = first + second, min(first, second)
    at_most = Fraction(sum(math.comb(n, k) for k in range(fewer + 1)), 2**n)
    assert found == pytest.approx(float(min(Fraction(1), 2 * at_most)), rel=1e-12)


def test_mcnemars_test_is_exact_for_many_pairs() -> None:
    assert mcnemar(50_400, 49_600) == pytest.approx(
        scipy.stats.binomtest(50_400, 100_000).pvalue, rel=1e-6
    )


@given(st.integers(2, 200), st.integers(2, 200), st.data())
def test_the_difference_of_two_rates_is_newcombes(n: int, m: int, data: st.DataObject) -> None:
    first, second = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    found = rate_difference(first, n, second, m)
    (p, lower, upper), (q, below, above) = (
        (k / size, *scipy.stats.binomtest(k, size).proportion_ci(method="wilson"))
        for k, size in ((first, n), (second, m))
    )
    low, high = p - q - math.hypot(p - lower, above - q), p - q + math.hypot(upper - p, q - below)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))


def test_holms_correction_multiplies_each_by_those_not_below_it_and_keeps_their_order() -> None:
    found = holm({"a": 0.04, "b": 0.01, "c": 0.03, "d": 0.9})
    assert found == pytest.approx({"a": 0.09, "b": 0.04, "c": 0.09, "d": 0.9})


@pytest.mark.campaign
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=share(30))
def test_holms_correction_is_statsmodels(p_values: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    found = holm({str(place): p for place, p in enumerate(p_values)})
    assert list(found.values()) == pytest.approx(
        multipletests(p_values, method="holm")[1].tolist(), abs=1e-12
    )


def test_a_comparison_that_could_not_be_judged_still_counts_as_made() -> None:
    assert holm({"a": 0.02, "b": None}) == {"a": 0.04, "b": None}


@pytest.mark.parametrize("df", [1, 1.7, 4, 29.5, 1e4])
def test_the_distributions_behind_agree_with_scipy(df: float) -> None:
    for t in (-7.0, -1.0, 0.0, 0.3, 2.5, 30.0):
        assert t_tail(t, df) == pytest.approx(float(scipy.stats.t.sf(t, df)), rel=1e-9)
    assert t_quantile(0.975, df) == pytest.approx(float(scipy.stats.t.ppf(0.975, df)), rel=1e-9)
    for k in (0, 3, 49, 50, 100, 10_000):
        assert binomial_cdf(k, 100, 0.3) == pytest.approx(
            float(scipy.stats.binom.cdf(k, 100, 0.3)), rel=1e-9
        )


# --- values of a range


@given(st.integers(2, 400), st.data())
def test_the_bounded_interval_of_failures_is_the_exact_one(n: int, data: st.DataObject) -> None:
    failed = data.draw(st.integers(0, n))
    found = bounded_mean([0.0] * failed + [1.0] * (n - failed), lowest=0.0, highest=1.0)
    low, high = scipy.stats.binomtest(n - failed, n).proportion_ci()
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))


@given(st.lists(points, min_size=2, max_size=12), st.integers(0, 1000))
def test_the_bounded_end_is_the_quantile_of_randomly_weighted_means(
    values: list[float], seed: int
) -> None:
    found = bounded_mean(values, lowest=0.0, highest=100.0)
    weights = np.random.default_rng(seed).exponential(size=(20_000, len(values) + 1))
    weights /= weights.sum(axis=1, keepdims=True)
    assert found.low is not None
    assert found.high is not None
    assert (
        float(np.mean(weights @ [*values, 0.0] <= found.low)) == pytest.approx(0.025, abs=0.008)
        or found.low == 0.0
    )
    assert (
        float(np.mean(weights @ [*values, 100.0] >= found.high)) == pytest.approx(0.025, abs=0.008)
        or found.high == 100.0
    )
    # a p-value is below half of 1 - level exactly where the end is beyond the limit
    assert chance_below([Mass(value, 1) for value in values], found.low - 0.01, lowest=0.0) < 0.0251
    assert chance_below([Mass(value, 1) for value in values], found.low + 0.01, lowest=0.0) > 0.0249


@given(
    st.lists(points, min_size=2, max_size=30), st.lists(st.floats(0, 20), min_size=30, max_size=30)
)
def test_better_values_never_lower_a_bounded_end(values: list[float], gains: list[float]) -> None:
    better = [min(100.0, value + gain) for value, gain in zip(values, gains, strict=False)]
    before, after = (bounded_mean(some, lowest=0.0, highest=100.0) for some in (values, better))
    assert after.low >= before.low - 1e-6
    assert after.high >= before.high - 1e-6


def test_many_distinct_values_take_no_minutes_and_lose_no_guarantee() -> None:
    values = np.random.default_rng(1).uniform(0, 100, repeats(4_000, 30_000))
    found = bounded_mean(values.tolist(), lowest=0.0, highest=100.0)
    half = 1.96 * values.std() / len(values) ** 0.5
    assert found.low == pytest.approx(values.mean() - half, abs=0.03)
    assert found.low < values.mean() - half


# --- no certainty from nothing


@pytest.mark.parametrize("values", [[], [70.0]])
def test_one_sample_is_not_enough_evidence_and_never_a_standard_error_of_0(
    values: list[float],
) -> None:
    found = compare_paired(values, values, margin=1.0)
    assert (found.difference.low, found.difference.high) == (None, None)
    assert found.difference.reason
    assert found.claims == (None, None, None, None)
    assert found.minimum_detectable_effect is None
    assert (found.p_non_inferior, found.p_superior, found.p_equivalent) == (None, None, None)


@given(st.integers(2, 2000), st.integers(0, 100))
def test_equal_differences_leave_the_room_of_the_rule_of_three(n: int, shift: int) -> None:
    found = compare_paired([float(shift)] * n, [0.0] * n, margin=1.0)
    unseen = 1 - 0.025 ** (1 / n)
    assert found.difference.low == pytest.approx(shift - (shift + 100) * unseen)
    assert found.difference.high == pytest.approx(shift + (100 - shift) * unseen)
    assert found.claims.non_inferior is (shift - (shift + 100) * unseen > -1)
    assert found.minimum_detectable_effect is None


def test_equal_results_show_non_inferiority_by_one_point_from_368_pairs_on() -> None:
    assert compare_paired([90.0] * 367, [90.0] * 367, margin=1.0).claims.non_inferior is False
    assert compare_paired([90.0] * 368, [90.0] * 368, margin=1.0).claims.non_inferior is True


def test_the_spread_is_believed_from_the_eighth_value_that_differs() -> None:
    for differing, method in ((SEEN - 1, "gaffke"), (SEEN, "student-t, widened for skew")):
        ours = [90.0] * 60 + [80.0 + place for place in range(differing)]
        assert compare_paired(ours, [90.0] * len(ours), margin=1.0).difference.method == method


def test_differences_that_only_rounding_tells_apart_are_ties() -> None:
    ours, theirs = [80.3, 10.3, 1.3, 0.3, 40.3, 0.4], [80.2, 10.2, 1.2, 0.2, 40.2, 0.3]
    assert len({one - other for one, other in zip(ours, theirs, strict=True)}) > 1
    assert compare_paired(ours, theirs, margin=1.0).difference.method == "gaffke"


def test_a_side_that_leans_moves_its_own_end_only() -> None:
    draw = np.random.default_rng(2)
    values = -draw.exponential(10, 40)
    found, plain = (
        estimate_mean(values.tolist()).interval,
        scipy.stats.ttest_1samp(values, 0).confidence_interval(),
    )
    assert found.method == "student-t, widened for skew"
    assert found.low < plain.low - 0.3
    assert found.high == pytest.approx(plain.high)


@given(st.integers(0, 1000), st.sampled_from([5, 20, 30, 100]), st.floats(-100, 100))
def test_a_p_value_is_small_exactly_where_the_end_is_beyond_the_limit(
    seed: int, n: int, limit: float
) -> None:
    draw = np.random.default_rng(seed)
    values = (
        draw.exponential(20, n) if seed % 2 else np.where(draw.random(n) < 0.1, 50.0, 0.0)
    ).clip(0, 100)
    found = estimate_mean(values.tolist(), range=Range(-100, 100))
    low, high = found.interval.low, found.interval.high
    assume(abs(low - limit) > 1e-6 and abs(high - limit) > 1e-6)
    assert (found.p_above(limit) < 0.025) is (low > limit)
    assert (found.p_below(limit) < 0.025) is (high < limit)


# --- claims


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.5, 0.5, (True, False, False, True)),
        (0.1, 3.0, (True, False, True, False)),
        (-3.0, -1.5, (False, True, False, False)),
        (-2.0, 2.0, (False, False, False, False)),
        (-1.0, 0.5, (False, False, False, False)),
    ],
)
def test_a_claim_needs_the_whole_interval(
    low: float, high: float, expected: tuple[bool, ...]
) -> None:
    assert claims(Interval(0.0, low, high, 0.95, "any"), 1.0) == expected


@given(st.integers(0, 1000), st.integers(2, 60), st.floats(0, 20))
def test_a_uniform_improvement_never_takes_non_inferiority_away(
    seed: int, n: int, gain: float
) -> None:
    draw = np.random.default_rng(seed)
    baseline = draw.choice([20.0, 40.0, 60.0], n)
    ours = baseline + draw.choice([-5.0, 0.0, 5.0], n, p=[0.1, 0.8, 0.1])
    before, after = (
        compare_paired((ours + more).tolist(), baseline.tolist(), margin=1.0)
        for more in (0.0, gain)
    )
    assert after.difference.low >= before.difference.low - 1e-6
    assert after.claims.non_inferior or not before.claims.non_inferior


@given(st.integers(0, 1000), st.booleans())
def test_order_is_nothing_in_a_comparison(seed: int, grouped: bool) -> None:
    ours, theirs = pairs_of(seed, 40)
    groups = [place // 4 for place in range(40)] if grouped else None
    order = random.Random(seed).sample(range(40), 40)
    moved = compare_paired(
        [ours[place] for place in order],
        [theirs[place] for place in order],
        margin=1.0,
        groups=None if groups is None else [groups[place] for place in order],
    )
    assert moved == compare_paired(ours, theirs, margin=1.0, groups=groups)


def test_groups_widen_a_comparison_of_pairs_that_repeat_each_other() -> None:
    draw = np.random.default_rng(3)
    groups = [place // 20 for place in range(400)]
    differences = draw.normal(0, 3, 20)[groups] + draw.normal(0, 1, 400)
    ours = (50 + differences).tolist()
    alone, together = (
        compare_paired(ours, [50.0] * 400, margin=1.0, groups=some) for some in (None, groups)
    )
    assert together.clusters == 20
    assert together.difference.high - together.difference.low > 3 * (
        alone.difference.high - alone.difference.low
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        ([101.0], [1.0], "is 101"),
        ([float("nan")] * 3, [1.0] * 3, "is nan"),
        ([float("inf")], [1.0], "is inf"),
    ],
)
def test_scores_that_are_none_are_refused(
    ours: list[float], theirs: list[float], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        compare_paired(ours, theirs, margin=1.0)


def test_a_count_beyond_its_total_is_refused() -> None:
    with pytest.raises(UsageError, match="the count is 11 of 10"):
        rate_difference(5, 10, 11, 10)


# --- simulations: short forms of tests/campaign/campaign_statistics.py


@pytest.mark.req("X-63")
def test_a_candidate_that_is_worse_by_the_margin_is_passed_in_at_most_5_percent() -> None:
    often = repeats(20, 400)
    cells = campaign.false_claims(often, sizes=(30, *((200,) if CAMPAIGN else ())))
    for cell in cells:
        assert cell.above <= 0.05 + 3 * (0.05 * 0.95 / often) ** 0.5, cell
    assert sum(cell.above for cell in cells) / len(cells) <= 0.035


def test_a_grouped_candidate_that_is_worse_by_the_margin_is_passed_in_at_most_5_percent() -> None:
    cells = campaign.false_grouped_claims(repeats(10, 400))
    assert sum(cell.above for cell in cells) / len(cells) <= 0.04
    assert max(cell.above for cell in cells) <= 0.12


def test_intervals_of_a_mean_cover_as_they_say_from_5_samples_on() -> None:
    cells = campaign.means(repeats(10, 200), sizes=campaign.SIZES if CAMPAIGN else (5, 30))
    assert campaign.average(cells) >= 0.955
    assert {cell.n for cell in cells} >= {5, 30}
    assert campaign.worst(cells).coverage >= 0.7
    often = repeats(10, 200)
    strict = campaign.means(often, method="guaranteed", sizes=(5, *((30,) if CAMPAIGN else ())))
    assert min(cell.coverage for cell in strict) >= 0.95 - 3 * (0.05 * 0.95 / often) ** 0.5


def test_intervals_of_rates_cover_as_they_say_near_0_and_1() -> None:
    cells = campaign.single_rates(repeats(30, 1000))
    for method in ("wilson", "newcombe"):
        assert campaign.average([cell for cell in cells if cell.method == method]) >= 0.94


def test_a_rare_loss_under_noise_is_seen_by_the_guaranteed_interval_only() -> None:
    unseen = {"unseen": campaign.UNSEEN}
    assert campaign.means(repeats(25, 100), sizes=(30,), kinds=unseen)[0].above > 0.3
    assert (
        campaign.means(repeats(15, 60), method="guaranteed", sizes=(30,), kinds=unseen)[0].above
        <= 0.05
    )


def test_a_spread_that_is_only_believed_promotes_what_was_not_seen() -> None:
    cells = {
        cell.kind: cell.above for cell in campaign.false_claims(100, sizes=(30,), how="believed")
    }
    assert cells["noise, margin 1"] <= 0.08
    assert cells["crashes, margin 1"] > 0.5  # why the default is not to believe it
    assert compare_paired([90.0] * 30, [90.0] * 30, margin=1.0, believed=True).difference[1:3] == (
        0.0,
        0.0,
    )


def test_the_bounded_interval_of_nothing_has_a_reason() -> None:
    assert bounded([], lowest=0, highest=1).reason == "no samples"
    assert (
        bounded([Mass(0.5, 1)], lowest=0, highest=1).reason
        == "one sample has no spread to estimate from"
    )
