"""Power: the noncentral t of scipy, and the smallest difference that a comparison could have shown."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.stats.power import detectable_given, power_given
from examples import repeats
from paired import compare_paired


@given(st.integers(2, 3000), st.floats(-1, 2), st.floats(0.5, 40), st.floats(0, 5))
@settings(max_examples=repeats(12, 200))
def test_power_is_the_tail_of_the_noncentral_t(
    n: int, size: float, sd: float, margin: float
) -> None:
    effect = size * sd
    found = power_given(sd / math.sqrt(n), n - 1.0, effect=effect, margin=margin)
    wanted = float(
        scipy.stats.nct.sf(
            scipy.stats.t.ppf(0.975, n - 1), n - 1, (effect + margin) / sd * math.sqrt(n)
        )
    )
    if not math.isnan(wanted):
        assert found == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("n", [3, 30, 500])
def test_the_smallest_effect_has_just_the_power_that_was_asked_for(n: int) -> None:
    error = 10.0 / math.sqrt(n)
    effect = detectable_given(error, n - 1.0, power=0.8)
    assert power_given(error, n - 1.0, effect=effect) == pytest.approx(0.8, abs=1e-6)


def test_a_comparison_says_what_it_could_have_seen() -> None:
    draw = np.random.default_rng(1)
    baseline = draw.uniform(20, 80, 60)
    ours = baseline + draw.normal(0, 5, 60)
    found = compare_paired(ours.tolist(), baseline.tolist(), margin=1.0)
    assert found.sd is not None
    assert found.minimum_detectable_effect == pytest.approx(
        detectable_given(found.sd / 60**0.5, 59.0)
    )
