"""Means of grouped samples: the textbook standard error, degrees of freedom by brute force, and
coverage with few and unequal groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

import campaign_statistics as campaign
from assay.stats.clusters import MINIMUM, degrees_of_freedom, estimate_clustered_mean
from assay.stats.estimate import SCORES, Range
from assay.stats.means import estimate_mean
from examples import repeats

sizes_of = st.lists(st.integers(1, 12), min_size=MINIMUM, max_size=12)


def drawn(sizes: list[int], seed: int) -> tuple[list[float], list[int]]:
    draw = np.random.default_rng(seed)
    groups = [group for group, size in enumerate(sizes) for _ in range(size)]
    return (
        draw.normal(50, 5, len(sizes))[groups] + draw.normal(0, 5, len(groups))
    ).tolist(), groups


def by_matrices(sizes: list[int], alike: float) -> float:
    """Bell and McCaffrey's degrees of freedom, with the whole matrices."""
    n = sum(sizes)
    hat = np.full((n, n), 1 / n)
    rows, start = [], 0
    omega = np.zeros((n, n))
    for size in sizes:
        block = slice(start, start + size)
        values, vectors = np.linalg.eigh(np.eye(size) - hat[block, block])
        adjusted = vectors @ np.diag(values**-0.5) @ vectors.T
        rows.append((np.eye(n) - hat)[:, block] @ adjusted @ np.full(size, 1 / n))
        omega[block, block] = alike
        start += size
    np.fill_diagonal(omega, 1.0)
    form = np.array(rows) @ omega @ np.array(rows).T
    return float(np.trace(form) ** 2 / np.sum(form * form))


@given(sizes_of, st.floats(0, 1))
def test_the_degrees_of_freedom_are_those_of_the_whole_matrices(
    sizes: list[int], alike: float
) -> None:
    assert degrees_of_freedom(sizes, sum(sizes), alike) == pytest.approx(
        by_matrices(sizes, alike), rel=1e-6
    )


@given(sizes_of, st.integers(0, 1000))
def test_the_standard_error_is_the_robust_one_with_each_group_adjusted(
    sizes: list[int], seed: int
) -> None:
    values, groups = drawn(sizes, seed)
    found = estimate_clustered_mean(values, groups)
    n, mean = len(values), float(np.mean(values))
    residuals = np.bincount(groups, np.array(values) - mean)
    assert found.standard_error == pytest.approx(
        float(np.sqrt(np.sum(residuals**2 / (1 - np.array(sizes) / n))) / n), rel=1e-9
    )
    assert found.interval.value == pytest.approx(mean)


@given(st.integers(MINIMUM, 15), st.integers(1, 8), st.integers(0, 1000))
def test_groups_of_one_size_give_students_t_on_their_means(
    count: int, size: int, seed: int
) -> None:
    values, groups = drawn([size] * count, seed)
    found = estimate_clustered_mean(values, groups).interval
    means = np.bincount(groups, values) / size
    wanted = scipy.stats.t.interval(
        0.95, count - 1, loc=means.mean(), scale=means.std(ddof=1) / count**0.5
    )
    assert (found.low, found.high) == (pytest.approx(wanted[0]), pytest.approx(wanted[1]))


@pytest.mark.campaign
@given(st.integers(MINIMUM, 15), st.integers(1, 8), st.integers(0, 1000))
def test_groups_of_one_size_have_the_clustered_error_of_statsmodels(
    count: int, size: int, seed: int
) -> None:
    from statsmodels.regression.linear_model import OLS

    values, groups = drawn([size] * count, seed)
    found = estimate_clustered_mean(values, groups).interval
    ordinary = OLS(values, np.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": np.array(groups), "use_correction": False}
    )
    error = float(ordinary.bse[0]) * (count / (count - 1)) ** 0.5
    assert found.high - found.value == pytest.approx(scipy.stats.t.ppf(0.975, count - 1) * error)


@given(st.integers(0, 1000), st.booleans())
def test_samples_without_a_group_are_groups_of_their_own(seed: int, lean: bool) -> None:
    draw = np.random.default_rng(seed)
    values = (draw.exponential(8, 40) if lean else draw.normal(50, 5, 40)).clip(0, 100).tolist()
    alone = estimate_mean(values, range=SCORES)
    grouped = estimate_clustered_mean(values, [None] * 40, range=SCORES)
    assert (grouped.interval.low, grouped.interval.high) == (
        pytest.approx(alone.interval.low),
        pytest.approx(alone.interval.high),
    )
    assert grouped.df == 39


def test_few_groups_are_refused_however_many_samples_they_hold() -> None:
    found = estimate_clustered_mean(
        [float(value % 17) for value in range(1000)], [value % 4 for value in range(1000)]
    )
    assert (found.interval.low, found.interval.high) == (None, None)
    assert found.interval.reason == "4 groups; below 5 the spread between groups is not known"
    assert found.p_above(0.0) is None


def test_groups_that_do_not_differ_leave_the_room_of_as_many_samples_as_there_are_groups() -> None:
    found = estimate_clustered_mean(
        [100.0] * 300, [value // 30 for value in range(300)], range=Range(0, 100)
    )
    assert found.interval.low == pytest.approx(100 * 0.025 ** (1 / 10))
    assert (
        estimate_clustered_mean([100.0] * 300, [value // 30 for value in range(300)]).interval.low
        is None
    )


def test_one_group_for_each_value() -> None:
    with pytest.raises(ValueError, match="shorter"):
        estimate_clustered_mean([1.0, 2.0], ["a"])


def test_grouped_intervals_cover_as_they_say_with_few_and_unequal_groups() -> None:
    cells = campaign.clustered(repeats(5, 200))
    assert campaign.average(cells) >= 0.94
    assert campaign.worst(cells).coverage >= 0.8


def test_order_is_nothing() -> None:
    values, groups = drawn([3, 5, 2, 8, 1, 4], 3)
    order: Any = np.random.default_rng(1).permutation(len(values))
    moved = estimate_clustered_mean(
        [values[place] for place in order], [groups[place] for place in order]
    )
    assert moved == estimate_clustered_mean(values, groups)
