"""Power and sample sizes: the noncentral t of scipy and statsmodels, every outcome counted for
rates, and plans that keep their promise.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

import campaign_statistics as campaign
from assay.errors import UsageError
from assay.stats.power import (
    detectable_given,
    detectable_mean,
    detectable_rate,
    power_of_mean,
    power_of_rates,
    samples_for_mean,
    samples_if_all_equal,
)
from assay.stats.rates import paired_rate_difference
from examples import repeats
from paired import compare_paired

fewer = settings(max_examples=repeats(12, 200))


@given(st.integers(2, 3000), st.floats(-1, 2), st.floats(0.5, 40), st.floats(0, 5))
@fewer
def test_power_is_the_tail_of_the_noncentral_t(
    n: int, size: float, sd: float, margin: float
) -> None:
    effect = size * sd
    found = power_of_mean(n, effect=effect, sd=sd, margin=margin)
    wanted = float(
        scipy.stats.nct.sf(
            scipy.stats.t.ppf(0.975, n - 1), n - 1, (effect + margin) / sd * math.sqrt(n)
        )
    )
    if not math.isnan(wanted):
        assert found == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    ("size", "power", "wanted"),
    [
        (0.2, 0.8, 199),
        (0.5, 0.8, 34),
        (1.0, 0.8, 10),
        (0.2, 0.9, 265),
        (0.5, 0.9, 44),
        (1.0, 0.9, 13),
    ],
)
def test_sample_sizes_are_statsmodels(size: float, power: float, wanted: int) -> None:
    assert samples_for_mean(effect=size * 7, sd=7.0, power=power) == wanted


def test_the_smallest_effect_has_just_the_power_that_was_asked_for() -> None:
    for n in (3, 30, 500):
        effect = detectable_mean(n, sd=10.0, margin=1.0, power=0.8)
        assert effect is not None
        assert power_of_mean(n, effect=effect, sd=10.0, margin=1.0) == pytest.approx(0.8, abs=1e-6)
    assert detectable_mean(1, sd=10.0) is None
    assert power_of_mean(1, effect=50.0, sd=1.0) == 0.0


def test_a_comparison_says_what_it_could_have_seen() -> None:
    draw = np.random.default_rng(1)
    baseline = draw.uniform(20, 80, 60)
    ours = baseline + draw.normal(0, 5, 60)
    found = compare_paired(ours.tolist(), baseline.tolist(), margin=1.0)
    assert found.sd is not None
    assert found.minimum_detectable_effect == pytest.approx(detectable_mean(60, sd=found.sd))
    assert found.minimum_detectable_effect == pytest.approx(
        detectable_given(found.sd / 60**0.5, 59.0)
    )


@given(
    st.integers(2, repeats(20, 40)),
    st.floats(0, 0.5),
    st.floats(0, 0.5),
    st.sampled_from([0.0, 0.05, 0.2]),
)
@fewer
def test_power_for_rates_counts_every_outcome(
    n: int, gains: float, losses: float, margin: float
) -> None:
    rest = 1 - gains - losses
    wanted = 0.0
    for more in range(n + 1):
        for less in range(n + 1 - more):
            interval = paired_rate_difference(more, less, n)
            if interval.low is not None and interval.low > -margin + 1e-12:
                wanted += float(
                    scipy.stats.multinomial.pmf(
                        [more, less, n - more - less], n, [gains, losses, rest]
                    )
                )
    assert power_of_rates(n, gains=gains, losses=losses, margin=margin) == pytest.approx(
        wanted, abs=1e-6
    )


def test_sample_sizes_for_rates_reach_their_power() -> None:
    effect = detectable_rate(200, discordant=0.2)
    assert effect is not None
    assert power_of_rates(200, gains=0.1 + effect / 2, losses=0.1 - effect / 2) == pytest.approx(
        0.8, abs=0.001
    )
    assert detectable_rate(10, discordant=0.1) is None
    assert power_of_rates(500, gains=0.0, losses=0.0, margin=0.01) == 1.0


def test_pairs_without_any_difference_show_as_much_as_the_comparison_says() -> None:
    for margin in (0.5, 1.0, 5.0):
        n = samples_if_all_equal(margin)
        assert compare_paired([50.0] * n, [50.0] * n, margin=margin).claims.non_inferior is True
        assert (
            compare_paired([50.0] * (n - 1), [50.0] * (n - 1), margin=margin).claims.non_inferior
            is False
        )


def test_a_margin_that_no_loss_reaches_is_refused() -> None:
    for margin in (0.0, 100.0):
        with pytest.raises(UsageError, match="must be above 0 and below 100"):
            samples_if_all_equal(margin)


def test_power_is_as_planned() -> None:
    often = repeats(60, 2000)
    for plan in campaign.planned(often):
        assert plan.seen == pytest.approx(
            plan.promised, abs=0.03 + 2 * (0.8 * 0.2 / often) ** 0.5
        ), plan
