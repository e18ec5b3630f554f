"""Agreement and correlation of raters: against the field's own tools, with intervals that hold."""

from __future__ import annotations

import random
import warnings
from bisect import bisect
from collections.abc import Callable
from math import isfinite, sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.families.judges.label_rows import LARGEST
from assay.stats import agreement as many
from assay.stats.agreement import classify, cohen_kappa, count_pairs, stretch, weighted_kappa
from assay.stats.correlation import kendall_tau_b, pearson, spearman
from assay.stats.influence import MIN_ITEMS, POINTS, thin
from assay.stats.intervals import Interval
from examples import CAMPAIGN, repeats

GRADES = st.integers(1, 5)
TWO = st.lists(st.tuples(GRADES, GRADES), min_size=2, max_size=60)
MISSING = st.none() | GRADES
SEVERAL = st.lists(st.tuples(MISSING, MISSING, MISSING), min_size=1, max_size=40)
WILD = st.one_of(st.integers(-(10**30), 10**30), st.floats(-LARGEST, LARGEST))


def _ours(pairs: list[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [one for one, _ in pairs], [other for _, other in pairs]


def _whole(found: Interval) -> None:
    """An interval says what it knows: numbers that are numbers, ends around the value, and a reason
    wherever something is missing.
    """
    for number in found[:3]:
        assert number is None or isfinite(number)
    if found.value is None or found.low is None or found.high is None:
        assert found.low is None
        assert found.high is None
        assert found.reason
    else:
        assert found.reason is None
        assert -1 <= found.low <= found.value <= found.high <= 1


def test_kappas_macro_precision_recall_and_f1_of_a_table_are_what_scikit_learn_gave() -> None:
    counted = count_pairs(
        [1, 1, 2, 2, 3, 3, 4, 5, 5, 1, 2, 4], [1, 2, 2, 2, 3, 1, 4, 5, 3, 1, 4, 4]
    )
    kappas = cohen_kappa(counted), *(weighted_kappa(counted, by) for by in ("linear", "quadratic"))
    assert [one.value for one in kappas] == pytest.approx([11 / 19, 23 / 37, 32 / 45])
    assert tuple(classify(counted) or ()) == pytest.approx((0.7, 2 / 3, 0.66))


@pytest.mark.campaign
@given(TWO)
def test_kappas_macro_precision_recall_and_f1_are_those_of_scikit_learn(
    pairs: list[tuple[int, int]],
) -> None:
    from sklearn.metrics import cohen_kappa_score, precision_recall_fscore_support

    first, second = _ours(pairs)
    counted = count_pairs(first, second)
    for found, weights in (
        (cohen_kappa(counted), None),
        (weighted_kappa(counted, "linear"), "linear"),
        (weighted_kappa(counted, "quadratic"), "quadratic"),
    ):
        _whole(found)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = cohen_kappa_score(first, second, weights=weights)
        if wanted != wanted:
            assert found.value is None
            assert "one and the same rating" in (found.reason or "")
        else:
            assert found.value == pytest.approx(wanted, abs=1e-9)
    averaged = precision_recall_fscore_support(first, second, average="macro", zero_division=0)
    classified = classify(counted)
    assert classified is not None
    assert tuple(classified) == pytest.approx(averaged[:3], abs=1e-9)


@pytest.mark.parametrize("level", many.LEVELS)
@given(items=SEVERAL)
def test_alpha_is_that_of_the_krippendorff_package(
    level: many.Level, items: list[tuple[int | None, ...]]
) -> None:
    import krippendorff
    import numpy as np

    found = many.krippendorff_alpha(items, level=level)
    _whole(found)
    paired = [item for item in items if sum(rating is not None for rating in item) > 1]
    values = {rating for item in paired for rating in item if rating is not None}
    if len(values) < 2:
        assert found.value is None
        return
    table = np.array(
        [[float("nan") if rating is None else rating for rating in item] for item in items], float
    ).T
    assert found.value == pytest.approx(
        krippendorff.alpha(reliability_data=table, level_of_measurement=level), abs=1e-9
    )


def test_the_kappa_of_fleiss_of_a_table_is_what_statsmodels_gave() -> None:
    rows = ("112", "222", "313", "123", "221", "333", "111", "233")
    assert many.fleiss_kappa([tuple(map(int, row)) for row in rows]).value == pytest.approx(0.3125)


@pytest.mark.campaign
@given(st.lists(st.tuples(GRADES, GRADES, GRADES), min_size=2, max_size=40))
def test_the_kappa_of_fleiss_is_that_of_statsmodels(items: list[tuple[int, ...]]) -> None:
    import numpy as np
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    found = many.fleiss_kappa(items)
    _whole(found)
    if len({rating for item in items for rating in item}) < 2:
        assert found.value is None
    else:
        assert found.value == pytest.approx(
            fleiss_kappa(aggregate_raters(np.array(items))[0]), abs=1e-9
        )


@pytest.mark.parametrize("scale", [GRADES, st.floats(-1e6, 1e6)])
@given(data=st.data())
def test_the_correlations_are_those_of_scipy(scale: Any, data: st.DataObject) -> None:
    from scipy import stats

    first, second = _ours(data.draw(st.lists(st.tuples(scale, scale), min_size=3, max_size=50)))
    for ours, theirs in (
        (spearman, stats.spearmanr),
        (kendall_tau_b, stats.kendalltau),
        (pearson, stats.pearsonr),
    ):
        found = ours(first, second)
        _whole(found)
        if len(set(first)) < 2 or len(set(second)) < 2:
            assert found.value is None
            assert "one and the same rating" in (found.reason or "")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                wanted = theirs(first, second)[0]
            except Warning:  # nearly constant: scipy says itself that its digits do not hold
                continue
        assert found.value == pytest.approx(wanted, abs=1e-6)


def test_an_interval_without_its_four_imagined_items_is_that_of_fleiss_cohen_and_everitt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from assay.stats import agreement

    table = [[40, 6, 2], [5, 30, 8], [1, 4, 24]]
    first = [i for i, row in enumerate(table) for count in row for _ in range(count)]
    second = [j for row in table for j, count in enumerate(row) for _ in range(count)]
    monkeypatch.setattr(agreement, "IMAGINED", 0.0)
    seen: list[float] = []
    monkeypatch.setattr(
        agreement,
        "z_interval",
        lambda value, centre, error, n, **_: seen.append(error * sqrt((n - 1) / n)),
    )
    cohen_kappa(count_pairs(first, second))
    by_statsmodels = 0.05677526425417055
    assert seen[0] == pytest.approx(by_statsmodels, rel=1e-9)


@pytest.mark.parametrize("level", many.LEVELS)
def test_the_spread_of_alpha_is_that_of_leaving_out_each_item_once(level: many.Level) -> None:
    chance = random.Random(5)
    items = []
    for _ in range(100):
        first = chance.choice([1, 2, 2, 3, 5])
        second = first if chance.random() < 0.6 else chance.choice([1, 2, 3, 3, 5])
        items.append((first, second, chance.choice([first, second, 1, None])))
    values = [
        many.krippendorff_alpha(items[:at] + items[at + 1 :], level=level).value or 0.0
        for at in range(len(items))
    ]
    mean = sum(values) / len(values)
    left_out = sqrt(sum((value - mean) ** 2 for value in values) * (len(values) - 1) / len(values))
    found = many.krippendorff_alpha(items, level=level)
    assert found.low is not None
    assert found.high is not None
    assert (found.high - found.low) / (2 * 1.972) == pytest.approx(left_out, rel=0.03)


def test_a_kappa_of_two_constant_raters_is_null_and_never_one() -> None:
    same = count_pairs(["yes"] * 50, ["yes"] * 50)
    for found in (
        cohen_kappa(same),
        weighted_kappa(count_pairs([1] * 50, [1] * 50), "quadratic"),
        many.fleiss_kappa([("yes", "yes")] * 50),
    ):
        assert found.value is None
        assert "chance leaves nothing to disagree on" in (found.reason or "")
    assert many.krippendorff_alpha([(3, 3)] * 50, level="ordinal").value is None
    assert cohen_kappa(count_pairs([1] * 25 + [2] * 25, [1] * 50)).value == 0


def test_full_agreement_on_few_items_is_not_certain() -> None:
    found = cohen_kappa(count_pairs([1, 2] * 5, [1, 2] * 5))
    assert found.value == 1
    assert found.high == 1
    assert found.low is not None
    assert found.low < 0.9


@pytest.mark.parametrize("n", range(1, MIN_ITEMS))
def test_fewer_items_than_were_simulated_have_no_interval(n: int) -> None:
    first, second = [1, 2, 3, 4][:n], [2, 1, 3, 4][:n]
    for found in (
        cohen_kappa(count_pairs(first, second)),
        spearman(first, second),
        many.krippendorff_alpha(list(zip(first, second, strict=True)), level="nominal"),
    ):
        _whole(found)
        assert found.low is None


def test_correlation_on_one_line_has_a_value_and_no_interval() -> None:
    found = spearman(list(range(20)), list(range(20)))
    assert found.value == 1
    assert found.low is None
    assert "one line" in (found.reason or "")


@given(st.lists(st.tuples(WILD, WILD), min_size=1, max_size=12))
def test_no_number_that_is_read_is_too_large_or_too_small(pairs: list[tuple[Any, Any]]) -> None:
    first, second = _ours(pairs)
    counted = count_pairs(first, second)
    for found in (
        pearson(first, second),
        spearman(first, second),
        kendall_tau_b(first, second),
        cohen_kappa(counted),
        weighted_kappa(counted, "linear", by_value=True),
        weighted_kappa(counted, "quadratic", by_value=True),
        *(many.krippendorff_alpha(pairs, level=level) for level in many.LEVELS),
    ):
        for number in found[:3]:
            assert number is None or isfinite(number)
        assert found.value is not None or found.reason


@given(TWO)
def test_the_order_of_items_and_the_names_of_categories_change_nothing(
    pairs: list[tuple[int, int]],
) -> None:
    mixed = list(pairs)
    random.Random(1).shuffle(mixed)
    renamed = [(f"c{one}", f"c{other}") for one, other in mixed]
    one, other = cohen_kappa(count_pairs(*_ours(pairs))), cohen_kappa(count_pairs(*_ours(renamed)))
    assert one[:3] == pytest.approx(other[:3], abs=1e-12)
    one, other = (
        many.krippendorff_alpha(pairs, level="nominal"),
        many.krippendorff_alpha([pair[::-1] for pair in renamed], level="nominal"),
    )
    assert one[:3] == pytest.approx(other[:3], abs=1e-12)


@pytest.mark.parametrize("measure", [count_pairs, pearson])
def test_raters_of_different_lengths_are_refused(measure: Any) -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        measure([1], [1, 2])


def test_stretching_keeps_the_ratios_of_distances() -> None:
    assert stretch([1e-320, 2e-320, 3e-320]) == pytest.approx([0, 0.5, 1], abs=1e-3)
    assert stretch([-1e50, 0.0, 1e50]) == [0.0, 0.5, 1.0]
    assert stretch([4.0]) == [0.0]


def test_many_categories_are_thinned_to_few_that_keep_the_whole_weight() -> None:
    kept = thin([1.0] * 10_000, ordered=True)
    assert len(kept) == POINTS
    assert sum(mass.weight for mass in kept) == pytest.approx(10_000)
    heavy = thin([1.0] * 5_000 + [95_000.0], ordered=False)
    assert max(heavy, key=lambda mass: mass.weight).place == 5_000


@pytest.mark.parametrize("distinct", [5, 10_000])
def test_many_items_need_no_table_of_all_categories(distinct: int) -> None:
    chance = random.Random(1)
    n = repeats(6_000, 100_000)
    first = [chance.randrange(distinct) for _ in range(n)]
    second = [one if chance.random() < 0.5 else chance.randrange(distinct) for one in first]
    items = list(zip(first, second, strict=True))
    pairs = count_pairs(first, second)
    assert len(pairs.cells) <= n
    assert cohen_kappa(pairs).value == pytest.approx(0.5, abs=0.02)
    assert weighted_kappa(pairs, "quadratic").value == pytest.approx(0.5, abs=0.02)
    assert many.krippendorff_alpha(items, level="ordinal").value == pytest.approx(0.5, abs=0.02)
    assert kendall_tau_b(first, second).value is not None


# --- coverage: how often a 95% interval holds the truth

CUTS: dict[str, list[float] | None] = {
    "two": [0.0],
    "two, 20% rare": [0.84],
    "three, skewed": [-1.3, -0.3],
    "five": [-1.0, -0.3, 0.3, 1.0],
    "five, skewed": [-2.0, -1.5, -1.0, -0.2],
    "continuous": None,
}
SHOWN = ("two", "five, skewed", "continuous")
"""Those of the suite; a campaign has all."""


def _draw(
    chance: random.Random, cuts: list[float] | None, likeness: float, raters: int
) -> tuple[float, ...]:
    common = chance.gauss(0, 1)
    values = [
        sqrt(likeness) * common + sqrt(1 - likeness) * chance.gauss(0, 1) for _ in range(raters)
    ]
    return tuple(values if cuts is None else [bisect(cuts, value) for value in values])


STATISTICS: dict[str, tuple[int, bool, Callable[[list[tuple[float, ...]]], Interval]]] = {
    "cohen": (2, False, lambda items: cohen_kappa(count_pairs(*zip(*items, strict=True)))),
    "linear": (
        2,
        False,
        lambda items: weighted_kappa(count_pairs(*zip(*items, strict=True)), "linear"),
    ),
    "quadratic": (
        2,
        True,
        lambda items: weighted_kappa(
            count_pairs(*zip(*items, strict=True)), "quadratic", by_value=True
        ),
    ),
    "fleiss": (3, False, many.fleiss_kappa),
    "alpha nominal": (2, False, lambda items: many.krippendorff_alpha(items, level="nominal")),
    "alpha ordinal": (3, True, lambda items: many.krippendorff_alpha(items, level="ordinal")),
    "alpha interval": (3, True, lambda items: many.krippendorff_alpha(items, level="interval")),
    "pearson": (2, True, lambda items: pearson(*zip(*items, strict=True))),
    "spearman": (2, True, lambda items: spearman(*zip(*items, strict=True))),
    "kendall": (2, True, lambda items: kendall_tau_b(*zip(*items, strict=True))),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_a_95_percent_interval_holds_the_truth_93_times_in_100_on_average(name: str) -> None:
    raters, also_continuous, find = STATISTICS[name]
    chance = random.Random(name)
    held: dict[int, list[bool]] = {5: [], 10: [], 30: []}
    for kind, cuts in CUTS.items():
        if (cuts is None and not also_continuous) or not (CAMPAIGN or kind in SHOWN):
            continue
        for likeness in (0.0, 0.5, 0.9):
            truth = find(
                [
                    _draw(chance, cuts, likeness, raters)
                    for _ in range(repeats(1_000, 20_000) if cuts else repeats(500, 4_000))
                ]
            ).value
            assert truth is not None, kind
            for n, found in held.items():
                for _ in range(repeats(4, 40)):
                    interval = find([_draw(chance, cuts, likeness, raters) for _ in range(n)])
                    _whole(interval)
                    if interval.low is not None and interval.high is not None:
                        found.append(interval.low <= truth <= interval.high)
    for n, found in held.items():
        assert len(found) > repeats(12, 250), "an interval that is hardly ever given shows nothing"
        assert sum(found) / len(found) >= (0.93 if CAMPAIGN else 0.9), (
            f"{name}: {sum(found) / len(found):.3f} at n = {n}"
        )


CEILINGS = {
    "60% fives": (0.05, 0.05, 0.1, 0.2, 0.6),
    "70% fives": (0.1, 0.05, 0.05, 0.1, 0.7),
    "80% fives": (0.02, 0.03, 0.05, 0.1, 0.8),
}


@pytest.mark.parametrize("name", ["pearson", "spearman", "kendall"])
def test_a_95_percent_interval_of_a_correlation_of_40_skewed_ratings_holds_the_truth_90_times_in_100(
    name: str,
) -> None:
    find = STATISTICS[name][2]
    for kind, shares in CEILINGS.items():
        chance = random.Random(kind)
        for likeness in (0.3, 0.7):

            def draw(
                n: int,
                chance: random.Random = chance,
                shares: tuple[float, ...] = shares,
                likeness: float = likeness,
            ) -> list[tuple[float, ...]]:
                people, others = (
                    chance.choices(range(1, 6), shares, k=n),
                    chance.choices(range(1, 6), shares, k=n),
                )
                return [
                    (one, one if chance.random() < likeness else other)
                    for one, other in zip(people, others, strict=True)
                ]

            truth = find(draw(repeats(8_000, 40_000))).value
            assert truth is not None
            found = [
                interval.low <= truth <= interval.high
                for interval in (find(draw(40)) for _ in range(repeats(60, 200)))
                if interval.low is not None and interval.high
            ]
            assert len(found) > repeats(45, 150)
            assert sum(found) / len(found) >= 0.90, (
                f"{name}, {kind}, {likeness}: {sum(found) / len(found):.3f}"
            )
