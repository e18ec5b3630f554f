"""Estimates of the truth from few labels and many verdicts: the published formulas, and intervals
that hold their level.
"""

from __future__ import annotations

import random
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import campaign_calibration as campaign
from assay.stats.calibration import (
    LEAST_LABELS,
    mean_difference,
    misclassification,
    naive,
    ppi,
    tuned_weight,
)
from assay.stats.changes import kappa_change, more_than
from assay.stats.clusters import LEAST_GROUPS
from assay.stats.intervals import mcnemar, wilson
from examples import repeats

Rows = tuple[list[float | None], list[float | None]]


def population(
    n: int, more: int, *, base: float = 0.4, hit: float = 0.9, correct: float = 0.8, seed: int = 7
) -> Rows:
    rng = random.Random(seed)
    labels = [float(rng.random() < base) for _ in range(n + more)]
    verdicts: list[float | None] = [
        float(rng.random() < (hit if label else 1 - correct)) for label in labels
    ]
    return [label if place < n else None for place, label in enumerate(labels)], verdicts


# --- coverage


def holds(results: campaign.Results, *, least: float = campaign.WANTED) -> None:
    for name, tally in campaign.pooled(results).items():
        assert tally.given > repeats(100, 200), name
        assert tally.coverage is not None
        assert tally.coverage >= least, (
            f"{name} holds the truth in {tally.coverage:.3f} of {tally.given} draws"
        )


@pytest.mark.req("W-008")
def test_intervals_of_rates_hold_the_truth_at_least_93_times_in_100_over_the_grid() -> None:
    results = campaign.rates(
        repeats(8, 50),
        labelled=(10, 30, 100),
        others=(100, 400),
        bases=(0.05, 0.5, 0.9),
        judges=("good", "poor", "constant", "lenient"),
    )
    holds(results)
    for name, axis in campaign.by_first(results).items():
        for n, tally in axis.items():
            assert tally.coverage is not None
            assert tally.coverage >= 0.92, f"{name} with {n} labels"


def test_verdicts_that_cannot_be_read_where_it_matters_do_not_break_the_corrections() -> None:
    holds(
        campaign.rates(
            repeats(26, 60),
            labelled=(20, 60),
            others=(300,),
            bases=(0.2, 0.7),
            judges=("good", "fair"),
            unread=0.2,
        )
    )


def test_intervals_of_win_rates_with_ties_hold_the_truth() -> None:
    holds(campaign.comparisons(repeats(4, 20), labelled=(20, 60, 150), others=(200,)))


def test_intervals_of_means_hold_the_truth() -> None:
    holds(campaign.numbers(repeats(2, 12), labelled=(10, 30, 100), others=(200,)))


def test_groups_are_allowed_for_and_would_break_the_intervals_if_they_were_ignored() -> None:
    holds(campaign.grouped(repeats(24, 100), groups=(12, 40), sizes=(5,)))
    ignored = campaign.pooled(
        campaign.grouped(repeats(8, 30), groups=(12, 40), sizes=(5,), ignored=True)
    )["ppi"].coverage
    assert ignored is not None
    assert ignored < 0.85


# --- the formulas


def test_the_estimate_is_that_of_ppi_plus_plus() -> None:
    rng = np.random.default_rng(5)
    truth = rng.normal(3, 1, 460)
    judge = truth + rng.normal(0.4, 0.6, 460)
    n, more = 60, 400
    labelled, unlabelled = judge[:n], judge[n:]
    covariance = np.mean((truth[:n] - truth[:n].mean()) * (labelled - labelled.mean()))
    weight = covariance / ((1 + n / more) * np.var(judge, ddof=1))
    value = weight * unlabelled.mean() + np.mean(truth[:n] - weight * labelled)
    error = sqrt(
        np.var(truth[:n] - weight * labelled, ddof=1) / n
        + weight**2 * np.var(unlabelled, ddof=1) / more
    )
    human = [*truth[:n].tolist(), *([None] * more)]
    found = ppi(human, judge.tolist(), kind="number")
    assert tuned_weight(human, judge.tolist()) == pytest.approx(weight, abs=1e-12)
    assert found.value == pytest.approx(value, abs=1e-12)
    assert found.low is not None
    assert found.high is not None
    assert (found.high - found.low) / 2 == pytest.approx(
        1.96 * error, rel=0.12
    )  # Student's t, two lost degrees and the longer tail make it a little wider


def test_for_passes_and_fails_the_estimate_is_nearly_the_labels_stratified_by_verdict() -> None:
    human, judge = population(100, 900)
    found = ppi(human, judge, kind="rate")
    strata = 0.0
    for verdict in (0.0, 1.0):
        labels = [
            label
            for label, said in zip(human, judge, strict=True)
            if label is not None and said == verdict
        ]
        strata += sum(labels) / len(labels) * judge.count(verdict) / len(judge)
    assert found.value == pytest.approx(strata, abs=0.01)


@pytest.mark.parametrize(("hit", "correct", "most"), [(0.95, 0.95, 0.7), (0.5, 0.5, 1.1)])
def test_ppi_is_narrower_than_the_labels_alone_with_a_good_judge_and_hardly_wider_with_a_useless_one(
    hit: float, correct: float, most: float
) -> None:
    human, judge = population(100, 2000, hit=hit, correct=correct)
    found = ppi(human, judge, kind="rate")
    alone = wilson(sum(label == 1 for label in human), 100)
    assert None not in (found.low, found.high, alone.low, alone.high)
    assert (found.high - found.low) / (alone.high - alone.low) < most


def test_a_constant_judge_leaves_the_labels_alone() -> None:
    human: list[float | None] = [1.0] * 12 + [0.0] * 18 + [None] * 300
    found = ppi(human, [1.0] * 330, kind="rate")
    alone = wilson(12, 30)
    assert (found.value, found.low, found.high) == (
        pytest.approx(0.4),
        pytest.approx(alone.low),
        pytest.approx(alone.high),
    )


def test_rogan_and_gladen_solve_the_confusion_for_the_rate() -> None:
    human: list[float | None] = [1.0] * 50 + [0.0] * 50 + [None] * 900
    judge: list[float | None] = (
        [1.0] * 45 + [0.0] * 5 + [1.0] * 10 + [0.0] * 40 + [1.0] * 445 + [0.0] * 455
    )
    found = misclassification(human, judge)
    assert found.value == pytest.approx((0.5 + 0.8 - 1) / (0.9 + 0.8 - 1))
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


def test_three_classes_are_corrected_by_inverting_their_confusion() -> None:
    shares = (0.5, 0.2, 0.3)
    confusion = ((0.8, 0.1, 0.1), (0.2, 0.6, 0.2), (0.1, 0.1, 0.8))
    human: list[float | None] = []
    judge: list[float | None] = []
    for worth, line in zip(campaign.TIES, confusion, strict=True):
        for verdict, part in zip(campaign.TIES, line, strict=True):
            human += [worth] * round(200 * part)
            judge += [verdict] * round(200 * part)
    for verdict, column in zip(campaign.TIES, zip(*confusion, strict=True), strict=True):
        share = sum(one * part for one, part in zip(shares, column, strict=True))
        human += [None] * round(20_000 * share)
        judge += [verdict] * round(20_000 * share)
    found = misclassification(human, judge)
    assert found.value == pytest.approx(0.6, abs=0.01)
    assert found.method == "confusion matrix, delta"


@pytest.mark.parametrize(("ahead", "behind", "n"), [(5, 2, 30), (0, 0, 20), (12, 0, 25)])
def test_the_bias_of_a_rate_has_the_interval_of_bonett_and_price(
    ahead: int, behind: int, n: int
) -> None:
    human: list[float | None] = [0.0] * ahead + [1.0] * behind + [1.0] * (n - ahead - behind)
    judge: list[float | None] = [1.0] * ahead + [0.0] * behind + [1.0] * (n - ahead - behind)
    found = mean_difference(human, judge, kind="rate")
    plus, minus = (ahead + 1) / (n + 2), (behind + 1) / (n + 2)
    half = 1.959963985 * sqrt((plus + minus - (plus - minus) ** 2) / (n + 2))
    assert found.value == pytest.approx((ahead - behind) / n)
    assert found.low == pytest.approx(plus - minus - half, abs=1e-8)
    assert found.high == pytest.approx(plus - minus + half, abs=1e-8)


# --- what is refused


def test_below_ten_labels_every_method_that_needs_labels_refuses() -> None:
    human, judge = population(LEAST_LABELS - 1, 500)
    for found in (
        ppi(human, judge, kind="rate"),
        misclassification(human, judge),
        mean_difference(human, judge, kind="rate"),
    ):
        assert (found.low, found.high) == (None, None)
        assert "9 labels" in (found.reason or "")


def test_no_spread_is_not_certainty() -> None:
    human: list[float | None] = [5.0] * 40 + [None] * 100
    found = ppi(human, [5.0] * 140, kind="number")
    assert (found.value, found.low) == (5.0, None)
    assert "too little spread" in (found.reason or "")
    assert naive([5.0] * 140, kind="number").low is None
    assert mean_difference(human, [5.0] * 140, kind="number").low is None
    certain = ppi([1.0] * 40 + [None] * 100, [1.0] * 140, kind="rate")
    assert certain.low is not None
    assert certain.low < 0.95


def test_a_judge_that_repeats_every_label_still_leaves_room_for_error() -> None:
    values = [float(place % 7) for place in range(140)]
    found = ppi([*values[:70], *([None] * 70)], values, kind="number")
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.low > 0.3


def test_a_class_without_labels_and_a_judge_that_tells_nothing_are_said_not_guessed() -> None:
    human: list[float | None] = [1.0] * 30 + [None] * 100
    assert misclassification(human, [1.0] * 130).value is None
    mixed: list[float | None] = [1.0, 0.0] * 20 + [None] * 100
    useless = misclassification(mixed, [1.0] * 140)
    assert useless.value is None
    assert (useless.low, useless.high) == (0.0, 1.0)
    assert useless.reason


def test_too_few_groups_are_said() -> None:
    human, judge = population(60, 200)
    groups = [place % (LEAST_GROUPS - 1) for place in range(260)]
    for found in (
        ppi(human, judge, kind="rate", groups=groups),
        misclassification(human, judge, groups=groups),
    ):
        assert found.low is None
        assert "groups" in (found.reason or "")


def test_groups_of_one_row_change_little_and_copies_of_a_row_add_nothing() -> None:
    human, judge = population(60, 200)
    alone = ppi(human, judge, kind="rate")
    ones = ppi(human, judge, kind="rate", groups=list(range(260)))
    copied = ppi(
        [row for row in human for _ in range(4)],
        [row for row in judge for _ in range(4)],
        kind="rate",
        groups=[row for row in range(260) for _ in range(4)],
    )
    fooled = ppi(
        [row for row in human for _ in range(4)],
        [row for row in judge for _ in range(4)],
        kind="rate",
    )
    widths = [found.high - found.low for found in (alone, ones, copied, fooled)]
    assert widths[1] == pytest.approx(widths[0], rel=0.05)
    assert widths[2] == pytest.approx(widths[0], rel=0.1)
    assert widths[3] < 0.6 * widths[0]


# --- laws


@given(
    st.lists(
        st.tuples(st.sampled_from([None, 0.0, 0.5, 1.0]), st.sampled_from([None, 0.0, 0.5, 1.0])),
        min_size=0,
        max_size=80,
    ),
    st.randoms(use_true_random=False),
)
def test_any_rows_give_a_rate_inside_its_interval_inside_the_range_in_any_order(
    rows: list[tuple[Any, Any]], rng: random.Random
) -> None:
    mixed = rows[:]
    rng.shuffle(mixed)
    for made in (
        lambda rows: ppi([row[0] for row in rows], [row[1] for row in rows], kind="rate"),
        lambda rows: misclassification([row[0] for row in rows], [row[1] for row in rows]),
        lambda rows: naive([row[1] for row in rows], kind="rate"),
    ):
        found = made(rows)
        other = made(mixed)
        for one, two in zip(found[:3], other[:3], strict=True):
            assert one == pytest.approx(two, abs=1e-9)
        if found.low is None:
            assert found.reason
        else:
            assert 0 <= found.low <= found.high <= 1
            if found.value is not None:
                assert found.low <= found.value <= found.high
        if found.value is None:
            assert found.reason


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_exact_tests_are_scipys(up: int, down: int) -> None:
    from scipy import stats as reference

    if up + down:
        assert mcnemar(up, down) == pytest.approx(
            reference.binomtest(up, up + down, 0.5).pvalue, abs=1e-9
        )
        assert more_than(up, up + down, 0.1) == pytest.approx(
            reference.binomtest(up, up + down, 0.1, alternative="greater").pvalue, abs=1e-9
        )
    assert mcnemar(up, down) == mcnemar(down, up)


def test_the_change_of_kappa_holds_its_level() -> None:
    rng = random.Random(11)
    held = 0
    for _ in range(120):
        truth = [rng.random() < 0.4 for _ in range(60)]
        before = [label if rng.random() < 0.85 else not label for label in truth]
        now = [label if rng.random() < 0.85 else not label for label in truth]
        found = kappa_change(truth, before, now)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0 <= found.high
    assert held / 120 >= 0.92


def test_verdicts_that_did_not_change_do_not_make_the_change_of_kappa_certain() -> None:
    truth = [True, False] * 30
    found = kappa_change(truth, truth[:50] + [True] * 10, truth[:50] + [True] * 10)
    assert (found.value, found.low) == (0, None)
    assert "0 verdicts changed" in (found.reason or "")
