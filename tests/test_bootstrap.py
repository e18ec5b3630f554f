"""Bootstrap intervals: scipy's within Monte-Carlo error, the same for the same seed, and refused
where a resample cannot know enough.
"""

from __future__ import annotations

import random
import re
import sys
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

import campaign_statistics as campaign
from assay.errors import UsageError
from assay.installing import install_hint
from assay.stats.bootstrap import MINIMUM, bootstrap_mean
from examples import CAMPAIGN, each, repeats, share

RESAMPLES = repeats(2_000, 10_000)


def made(kind: str, n: int, seed: int = 5) -> Any:
    draw = np.random.default_rng(seed)
    return {
        "graded": draw.choice([0.0, 25.0, 50.0, 75.0, 100.0], n, p=[0.05, 0.1, 0.2, 0.35, 0.3]),
        "real": np.round(draw.beta(5, 2, n) * 100, 4),
        "leaning": np.round(draw.exponential(10, n), 6),
    }[kind]


def noise(values: Any) -> float:
    """The Monte-Carlo standard error of the difference of two bootstrap ends."""
    return float(
        np.std(values) / len(values) ** 0.5 * (0.025 * 0.975 / RESAMPLES) ** 0.5 / 0.0584 * 2**0.5
    )


@each("kind", ["graded", "real", "leaning"])
@each("method", ["percentile", "bca"])
@each("n", [40, 401, 3000] if CAMPAIGN else [40, 401])
def test_the_ends_are_scipys_within_monte_carlo_error(kind: str, method: Any, n: int) -> None:
    values = made(kind, n)
    found = bootstrap_mean(values.tolist(), seed=7, method=method)
    peer = scipy.stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        batch=200,
        method=method,
        rng=np.random.default_rng(8),
    ).confidence_interval
    assert found.value == pytest.approx(values.mean())
    step = (50 / n) if kind == "graded" else 0.0  # of discrete means an end is one of few
    assert found.low == pytest.approx(peer.low, abs=6 * noise(values) + step)
    assert found.high == pytest.approx(peer.high, abs=6 * noise(values) + step)
    assert found.method == f"bootstrap-{method}"


@each("method", ["percentile", "bca"])
def test_a_paired_difference_is_the_mean_of_the_differences(method: Any) -> None:
    ours, theirs = made("real", 500, 1), made("real", 500, 2)
    found = bootstrap_mean(np.subtract(ours, theirs).tolist(), seed=3, method=method)
    peer = scipy.stats.bootstrap(
        (ours, theirs),
        lambda a, b, axis=-1: (a - b).mean(axis),
        paired=True,
        n_resamples=RESAMPLES,
        method=method,
        vectorized=True,
        rng=np.random.default_rng(8),
    ).confidence_interval
    assert found.low == pytest.approx(peer.low, abs=6 * noise(ours - theirs))
    assert found.high == pytest.approx(peer.high, abs=6 * noise(ours - theirs))


@each("method", ["percentile", "bca"])
def test_groups_are_drawn_whole(method: Any) -> None:
    draw = np.random.default_rng(4)
    sizes = draw.integers(2, 30, 60)
    groups = np.repeat(np.arange(60), sizes)
    values = draw.normal(50, 5, 60)[groups] + draw.normal(0, 5, len(groups))
    found = bootstrap_mean(values.tolist(), seed=3, method=method, groups=groups.tolist())
    sums, counts = np.bincount(groups, values), np.bincount(groups)
    peer = scipy.stats.bootstrap(
        (sums, counts),
        lambda a, b, axis=-1: a.sum(axis) / b.sum(axis),
        paired=True,
        n_resamples=RESAMPLES,
        method=method,
        vectorized=True,
        rng=np.random.default_rng(8),
    )
    spread = float(peer.standard_error) * (0.025 * 0.975 / RESAMPLES) ** 0.5 / 0.0584 * 2**0.5
    assert found.low == pytest.approx(peer.confidence_interval.low, abs=6 * spread)
    assert found.high == pytest.approx(peer.confidence_interval.high, abs=6 * spread)
    alone = bootstrap_mean(values.tolist(), seed=3, method=method)
    assert found.high - found.low > 1.5 * (alone.high - alone.low)


@given(
    st.integers(0, 2**32),
    st.sampled_from(["graded", "real"]),
    st.sampled_from(["percentile", "bca"]),
)
@settings(max_examples=share(15))
def test_the_same_seed_gives_the_same_bytes_whatever_the_order(
    seed: int, kind: str, method: Any
) -> None:
    values = made(kind, 300).tolist()
    found = bootstrap_mean(values, seed=seed, method=method, resamples=500)
    shuffled = random.Random(seed).sample(values, len(values))
    assert bootstrap_mean(shuffled, seed=seed, method=method, resamples=500) == found
    assert bootstrap_mean(values, seed=seed + 1, method=method, resamples=500) != found


def test_few_samples_ties_and_one_sample_are_refused_with_the_reason() -> None:
    assert bootstrap_mean([], seed=1).reason == "no samples"
    one = bootstrap_mean([70.0], seed=1)
    assert (one.value, one.low, one.high) == (70.0, None, None)
    few = bootstrap_mean([float(value) for value in range(MINIMUM - 1)], seed=1)
    assert (few.low, few.reason) == (None, "29 samples; a bootstrap interval needs 30")
    tied = bootstrap_mean([100.0] * 200 + [0.0] * 7, seed=1)
    assert tied.low is None
    assert "fewer than 8 samples differ" in str(tied.reason)
    groups = bootstrap_mean(
        [float(value) for value in range(100)], seed=1, groups=[value // 10 for value in range(100)]
    )
    assert (groups.low, groups.reason) == (None, "10 groups; a bootstrap interval needs 30")


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="finite"):
        bootstrap_mean([1.0, float("nan")], seed=1)


def test_without_numpy_the_install_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(UsageError, match=re.escape(install_hint("stats"))):
        bootstrap_mean([1.0, 2.0], seed=1)


@each("method", ["percentile", "bca"])
def test_bootstrap_intervals_cover_as_they_say_where_they_are_given(method: str) -> None:
    sizes = (30, *((100,) if CAMPAIGN else ()))
    assert campaign.average(campaign.means(repeats(20, 60), method=method, sizes=sizes)) >= 0.925
