"""Verdicts in both orders: consistency, win rate, accuracy, and the place a judge prefers."""

from __future__ import annotations

import random
from math import sqrt
from statistics import stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.stats.intervals import wilson
from assay.stats.pairwise import WINNERS, JudgedPair, half_wilson, mean_shift, measure, merge

VERDICT = st.sampled_from([*WINNERS, None])


def _pair(name: object, ab: Any = ..., ba: Any = ..., label: Any = None) -> JudgedPair:
    return JudgedPair(
        str(name),
        {order: winner for order, winner in (("ab", ab), ("ba", ba)) if winner is not ...},
        label,
    )


PAIRS = st.lists(st.tuples(VERDICT, VERDICT, VERDICT), max_size=30).map(
    lambda rows: [_pair(at, *row) for at, row in enumerate(rows)]
)


@pytest.mark.req("W-067", "W-068", "W-084")
def test_a_verdict_that_changes_with_the_order_is_inconsistent_and_counts_as_a_tie() -> None:
    found = measure(
        [
            _pair(1, "a", "a"),
            _pair(2, "a", "b"),
            _pair(3, "b", "b"),
            _pair(4, "tie", "tie"),
            _pair(5, "a", "tie"),
        ]
    )
    assert (found["pairs"], found["consistent"], found["inconsistent"]) == (5, 3, 2)
    assert (found["wins"], found["losses"], found["ties"], found["unparsable"]) == (1, 1, 3, 0)
    assert found["inconsistency_rate"]["value"] == 0.4
    assert found["win_rate"]["value"] == 0.5


@pytest.mark.req("W-068")
@pytest.mark.parametrize("ab", [*WINNERS, None])
def test_every_pair_has_one_merged_verdict(ab: Any) -> None:
    for ba in (*WINNERS, None):
        assert merge(_pair(1, ab, ba)) == (ab if ab == ba else "tie")
    assert merge(_pair(1, ab)) == ab
    assert merge(_pair(1, ba=ab)) == ab


def test_a_pair_judged_in_one_order_counts_for_the_win_rate_and_is_not_consistent() -> None:
    found = measure([_pair(1, "a"), _pair(2, ba="b"), _pair(3, "a", "a")])
    assert (found["pairs"], found["consistent"], found["inconsistent"]) == (3, 1, 0)
    assert found["single_order"] == {"count": 2, "ids": ["1", "2"]}
    assert found["win_rate"]["value"] == pytest.approx(2 / 3)
    assert any("one order only" in note for note in found["notes"])


def test_without_both_orders_neither_consistency_nor_bias_is_known() -> None:
    found = measure([_pair(at, "a") for at in range(20)])
    assert found["inconsistency_rate"]["value"] is None
    assert "one order only" in found["inconsistency_rate"]["reason"]
    assert found["position_bias"]["value"] is None
    assert "cannot be told from a better candidate" in found["position_bias"]["reason"]
    assert found["position_bias"]["first_position_picks"] == 20
    assert found["accuracy"]["ab"]["value"] is None


def test_an_unread_verdict_is_wrong_where_there_is_a_label_and_no_tie_where_it_is_alone() -> None:
    found = measure(
        [
            _pair(1, None, None, "a"),
            _pair(2, "a", "a", "a"),
            _pair(3, "a", None, "a"),
            _pair(4, None),
        ]
    )
    assert found["accuracy"]["ab"]["value"] == pytest.approx(2 / 3)
    assert found["accuracy"]["ba"]["value"] == pytest.approx(1 / 3)
    assert found["accuracy"]["both"]["value"] == pytest.approx(1 / 3)
    assert found["unparsable"] == 2
    assert found["verdicts"]["unparsable"] == 4
    assert found["both_unparsable"] == 1
    assert found["win_rate"]["value"] == 0.75  # one win, one tie by contradiction


def test_a_label_may_be_a_tie() -> None:
    found = measure(
        [_pair(1, "tie", "tie", "tie"), _pair(2, "a", "b", "tie"), _pair(3, "a", "a", "tie")]
    )
    assert found["accuracy"]["both"]["value"] == pytest.approx(1 / 3)
    assert found["accuracy"]["merged_ties_half"]["value"] == pytest.approx(2 / 3)


def test_the_standard_error_uses_n_minus_1_and_needs_two_pairs() -> None:
    scores = [1.0, 1.0, 0.5, 0.0]
    found = measure(
        [
            _pair(1, "a", "a"),
            _pair(2, "a"),
            _pair(3, "tie", "tie"),
            _pair(4, "b", "b"),
            _pair(5, None, None),
        ]
    )
    assert found["standard_error"] == pytest.approx(stdev(scores) / sqrt(4), abs=1e-12)
    assert measure([_pair(1, "a", "a")])["standard_error"] is None


@pytest.mark.req("W-009")
def test_a_planted_position_bias_is_measured_within_its_interval() -> None:
    chance = random.Random(7)
    pairs = []
    for at in range(2000):
        winner = chance.choice(["a", "b"])
        pairs.append(
            _pair(
                at,
                *(
                    "a" if chance.random() < 0.2 else winner,
                    "b" if chance.random() < 0.2 else winner,
                ),
            )
        )
    bias = measure(pairs)["position_bias"]
    assert bias["low"] <= 0.2 <= bias["high"]
    assert bias["high"] - bias["low"] < 0.06
    assert bias["first_rate"]["value"] == pytest.approx((1 + bias["value"]) / 2)
    assert bias["first_position_picks"] - bias["second_position_picks"] == pytest.approx(
        bias["value"] * 4000
    )


def test_judges_who_always_pick_one_place_have_all_of_the_bias() -> None:
    first = measure([_pair(at, "a", "b") for at in range(50)])["position_bias"]
    assert (first["value"], first["high"], first["always_first"]) == (1, 1, 50)
    second = measure([_pair(at, "b", "a") for at in range(50)])["position_bias"]
    assert (second["value"], second["low"], second["always_second"]) == (-1, -1, 50)


@given(PAIRS)
def test_the_counts_add_up_and_every_number_is_within_its_range(pairs: list[JudgedPair]) -> None:
    found = measure(pairs)
    assert (
        found["consistent"] + found["inconsistent"] + found["single_order"]["count"]
        == found["pairs"]
    )
    assert found["wins"] + found["losses"] + found["ties"] + found["unparsable"] == found["pairs"]
    verdicts = found["verdicts"]
    assert verdicts["a"] + verdicts["b"] + verdicts["tie"] + verdicts["unparsable"] == verdicts["n"]
    bias = found["position_bias"]
    assert (
        bias["first_position_picks"] + bias["second_position_picks"]
        == verdicts["a"] + verdicts["b"]
    )
    shown = [
        found["inconsistency_rate"],
        found["win_rate"],
        bias["first_rate"],
        *(found["accuracy"][key] for key in ("ab", "ba", "average", "both")),
    ]
    for one in shown:
        if one["value"] is None:
            assert one["reason"]
        else:
            assert 0 <= one["low"] <= one["value"] <= one["high"] <= 1


@given(PAIRS)
def test_exchanging_the_candidates_turns_the_win_rate_round_and_leaves_the_rest(
    pairs: list[JudgedPair],
) -> None:
    other: dict[Any, Any] = {"a": "b", "b": "a", "tie": "tie", None: None}
    turned = [
        JudgedPair(
            pair.id,
            {order[::-1]: other[winner] for order, winner in pair.verdicts.items()},
            other[pair.label],
        )
        for pair in pairs
    ]
    one, two = measure(pairs), measure(turned)
    assert one["inconsistent"] == two["inconsistent"]
    assert one["wins"] == two["losses"]
    for key in ("value", "low", "high"):
        assert one["position_bias"][key] == pytest.approx(two["position_bias"][key])
        assert one["accuracy"]["both"][key] == pytest.approx(two["accuracy"]["both"][key])
    if one["win_rate"]["value"] is not None:
        assert one["win_rate"]["low"] == pytest.approx(1 - two["win_rate"]["high"])


def test_accuracy_with_single_orders_has_a_value_and_no_interval() -> None:
    found = measure([_pair(1, "a", "a", "a"), _pair(2, "b", label="a")])["accuracy"]["average"]
    assert found["value"] == 0.75
    assert found["low"] is None
    assert "one order only" in found["reason"]


def test_without_ties_the_interval_of_a_win_rate_is_that_of_wilson() -> None:
    for wins in range(11):
        assert half_wilson(wins, 0, 10)[:3] == wilson(wins, 10)[:3]
    all_ties = half_wilson(0, 10, 10)
    assert all_ties.low is not None
    assert all_ties.low < 0.45


def test_the_intervals_of_win_rate_and_bias_hold_the_truth_93_times_in_100_on_average() -> None:
    chance = random.Random(11)
    for n in (5, 20, 100):
        rates, shifts = [], []
        for ties in (0.0, 0.1, 0.5, 0.9):
            for first in (0.1, 0.5, 0.8):
                shares = [first * (1 - ties), ties, (1 - first) * (1 - ties)]
                for _ in range(100):
                    drawn = chance.choices([1.0, 0.5, 0.0], shares, k=n)
                    rate = half_wilson(drawn.count(1.0), drawn.count(0.5), n)
                    rates.append((rate.low or 0.0) <= shares[0] + ties / 2 <= (rate.high or 0.0))
                    shift = mean_shift([2 * score - 1 for score in drawn])
                    shifts.append(
                        (shift.low or 0.0) <= shares[0] - shares[2] <= (shift.high or 0.0)
                    )
        assert sum(rates) / len(rates) >= 0.93, n
        assert sum(shifts) / len(shifts) >= 0.93, n


@pytest.mark.parametrize(
    ("ab", "ba", "right"),
    [
        ("a", "a", True),
        ("a", "tie", True),
        ("tie", "a", True),
        ("a", None, True),
        ("a", "b", False),
        ("b", "a", False),
        ("tie", "tie", False),
        ("b", "tie", False),
        ("tie", "b", False),
        ("b", "b", False),
        (None, None, False),
    ],
)
def test_the_accuracy_of_judgebench_wants_more_wins_than_losses_over_both_orders(
    ab: Any, ba: Any, right: bool
) -> None:
    turned = {"a": "b", "b": "a"}
    for label, first, second in (("a", ab, ba), ("b", turned.get(ab, ab), turned.get(ba, ba))):
        found = measure([JudgedPair("1", {"ab": first, "ba": second}, label)])["accuracy"][
            "judgebench"
        ]
        assert found["value"] == float(right)


def test_the_accuracy_of_judgebench_is_over_pairs_with_a_better_side_judged_in_both_orders() -> (
    None
):
    found = measure(
        [
            _pair(1, "a", "tie", "a"),
            _pair(2, "a", "b", "a"),
            _pair(3, "tie", "tie", "tie"),
            _pair(4, "a", label="a"),
        ]
    )["accuracy"]
    assert found["judgebench"]["value"] == 0.5
    assert measure([_pair(1, "a", label="a")])["accuracy"]["judgebench"]["value"] is None
