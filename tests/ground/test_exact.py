"""Exact arithmetic against fractions and decimals, which know nothing of the code under test."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay import exact
from assay.exact import NORM_ONE, SCORE_MAX, Ratio

WIDE = Context(prec=2000)
"""Room enough that nothing in these tests is rounded by accident."""

NOT_NUMBERS: list[tuple[Any, str]] = [
    (True, "true is true or false"),
    (False, "false is true or false"),
    (None, "null"),
    ("3", "string"),
    ("", "string"),
    ([1], "list"),
    ({}, "dict"),
    (1 + 0j, "complex"),
    (Fraction(1, 2), "Fraction"),
    (float("nan"), "not a finite number"),
    (float("inf"), "not a finite number"),
    (-float("inf"), "not a finite number"),
    (Decimal("NaN"), "not a finite number"),
    (Decimal("sNaN"), "not a finite number"),
    (Decimal("Infinity"), "not a finite number"),
    (Decimal("1e400"), "beyond the range"),
    (Decimal("-1e400"), "beyond the range"),
    (Decimal("1e301"), "beyond the range"),
    (Decimal("1e-301"), "beyond the range"),
    (Decimal("1e999999999"), "beyond the range"),
    (5e-324, "beyond the range"),
    (math.nextafter(1e-300, 0), "beyond the range"),
    (1e301, "beyond the range"),
    (-1e301, "beyond the range"),
    (10**100, "more than 100 digits"),
    (-(10**100), "more than 100 digits"),
    (10**5000, "more than 100 digits"),
    (Decimal("1" * 101), "more than 100 digits"),
    (Decimal("0." + "1" * 101), "more than 100 digits"),
]

not_numbers = pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param(*case, id=f"{index}-{type(case[0]).__name__}")
        for index, case in enumerate(NOT_NUMBERS)
    ],
)


def half_up(value: Fraction, digits: int) -> int:
    """The count of 10**-digits nearest to the value, halves away from zero; from the definition."""
    scaled = abs(value) * 10**digits
    whole = math.floor(scaled)
    if scaled - whole >= Fraction(1, 2):
        whole += 1
    return whole if value >= 0 else -whole


def decimals(*, digits: int = 60, low: int = -30, high: int = 30) -> st.SearchStrategy[Decimal]:
    """Decimals with up to `digits` digits and any position of the point between 10**low and
    10**high.
    """
    return st.builds(
        lambda sign, coefficient, exponent: Decimal(
            (sign, tuple(map(int, str(coefficient))), exponent)
        ),
        st.integers(0, 1),
        st.integers(0, 10**digits - 1),
        st.integers(low - digits, high - digits),
    )


norms = st.integers(0, NORM_ONE)
weights = st.fractions(min_value=0, max_value=1000, max_denominator=10**6).filter(
    lambda weight: weight > 0
)


def as_ratio(value: Fraction) -> Ratio:
    return Ratio(value.numerator, value.denominator)


# --- what a number is


@given(decimals())
def test_a_decimal_is_worth_exactly_what_was_written(value: Decimal) -> None:
    found = exact.ratio(value)
    assert Fraction(*found) == Fraction(value)
    assert found.den > 0
    assert math.gcd(*found) == 1


@given(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300).filter(
        lambda x: x == 0 or abs(x) >= 1e-300
    )
)
@example(0.1)
@example(-0.0)
@example(89.995)
def test_a_float_is_worth_its_shortest_repr_and_not_its_binary_tail(value: float) -> None:
    assert Fraction(*exact.ratio(value)) == Fraction(repr(value))


@given(st.integers(-(10**99), 10**99))
def test_an_integer_is_worth_itself(value: int) -> None:
    assert exact.ratio(value) == (value, 1)


@not_numbers
def test_what_is_no_number_is_refused_with_the_reason(value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        exact.ratio(value)
    assert len(str(caught.value)) < 200, "a long number must not be spelled out in an error"
    assert not exact.is_number(value)


@pytest.mark.parametrize(
    "value",
    [
        *(0, 1, -1, 0.5, Decimal("1e300"), Decimal("1e-300"), Decimal("9" * 100), 10**99, 1e300),
        *(1e-300, -1e-300, math.nextafter(1e301, 0)),
    ],
)
def test_the_ends_of_the_range_are_still_numbers(value: Any) -> None:
    assert exact.is_number(value)
    assert Fraction(*exact.ratio(value)) == Fraction(
        repr(value) if isinstance(value, float) else value
    )


@not_numbers
def test_clamping_accepts_no_value_that_is_not_a_number_elsewhere(value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        exact.clamped_norm(value)


@not_numbers
def test_scaling_accepts_no_value_that_is_not_a_number(value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        exact.scaled(value, 2)


@not_numbers
def test_adding_accepts_nothing_but_finite_numbers(value: Any, words: str) -> None:
    if "digits" in words or "range" in words:
        return  # how large an amount may be is asked before amounts are added
    for values in ([value], [1, value], [value, Decimal("0.5")], [0.5, value]):
        with pytest.raises(ValueError, match=r"."):
            exact.total(values, 2)


@not_numbers
def test_what_is_no_number_is_no_amount(value: Any, words: str) -> None:
    assert not exact.is_amount(value), words


@given(
    st.one_of(
        st.integers(-(10**101), 10**101), st.floats(), decimals(digits=110, low=-320, high=320)
    )
)
@example(10**100 - 1)
@example(2**332)
@example(Decimal("1e-400"))
@example(Decimal("1e300"))
@example(-0.0)
def test_what_the_quick_way_calls_an_amount_is_a_number_of_at_least_zero(value: Any) -> None:
    if exact.is_amount(value):
        assert Fraction(*exact.ratio(value)) >= 0


@given(
    st.one_of(
        st.integers(0, 10**99),
        decimals(digits=60, low=-60, high=60).map(abs),
        st.floats(1e-99, 1e99),
    )
)
def test_every_amount_that_is_measured_passes_the_quick_way(value: Any) -> None:
    assert exact.is_amount(value)
    assert not exact.is_amount(-value) or value == 0


# --- rounding


@given(st.integers(-(10**40), 10**40), st.integers(1, 10**20), st.integers(0, 12))
def test_quantise_is_half_up_away_from_zero(num: int, den: int, digits: int) -> None:
    assert exact.quantise(num, den, digits) == half_up(Fraction(num, den), digits)


@given(decimals(digits=40, low=-20, high=20), st.integers(0, 12))
def test_quantise_agrees_with_the_decimal_module(value: Decimal, digits: int) -> None:
    expected = value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, WIDE)
    assert exact.quantise(*exact.ratio(value), digits) == int(expected.scaleb(digits, WIDE))


@given(st.integers(-(10**15), 10**15), st.integers(0, 9))
def test_a_tie_goes_away_from_zero(count: int, digits: int) -> None:
    tie = Fraction(2 * count + 1, 2 * 10**digits)
    assert exact.quantise(tie.numerator, tie.denominator, digits) == (
        count + 1 if count >= 0 else count
    )


def test_59_995_is_a_d_and_89_995_an_a_where_binary_rounding_says_otherwise() -> None:
    assert round(59.995, 2) == 59.99
    assert exact.scaled(59.995, 2) == 6000
    assert exact.scaled(89.995, 2) == 9000
    assert exact.scaled(Decimal("89.99499999999999999999999999999999999999"), 2) == 8999


@given(st.integers(0, 10**30), st.integers(1, 10**30))
def test_a_norm_is_its_quotient_half_up_to_nine_decimals(num: int, den: int) -> None:
    assert exact.norm_of(Ratio(num, den)) == half_up(Fraction(num, den), 9)


@given(decimals(digits=60, low=-70, high=3))
def test_clamping_looks_at_all_sixty_digits(value: Decimal) -> None:
    assert exact.clamped_norm(value) == half_up(
        min(Fraction(1), max(Fraction(0), Fraction(value))), 9
    )


@given(st.integers(0, NORM_ONE - 1))
@example(0)
@example(NORM_ONE - 1)
def test_clamping_takes_a_tie_up_and_a_hair_below_it_down(count: int) -> None:
    tie = Decimal(2 * count + 1).scaleb(-9, WIDE) / 2
    hair = Decimal(1).scaleb(-60)
    assert exact.clamped_norm(tie) == count + 1
    assert exact.clamped_norm(WIDE.subtract(tie, hair)) == count
    assert exact.clamped_norm(WIDE.add(tie, hair)) == count + 1


@given(st.floats(min_value=-3, max_value=3).filter(lambda x: x == 0 or abs(x) > 1e-300))
def test_clamping_a_float_clamps_its_repr(value: float) -> None:
    assert exact.clamped_norm(value) == half_up(
        min(Fraction(1), max(Fraction(0), Fraction(repr(value)))), 9
    )


@given(st.one_of(st.integers(-5, 5), decimals(digits=12, low=-3, high=3)), st.integers(0, 9))
def test_scaled_is_the_number_half_up(value: int | Decimal, digits: int) -> None:
    assert exact.scaled(value, digits) == half_up(Fraction(value), digits)


# --- weights and scores


@given(st.lists(st.fractions(min_value=0, max_value=100, max_denominator=10**6), max_size=12))
def test_whole_weights_keep_every_proportion(given_weights: list[Fraction]) -> None:
    whole = exact.whole_weights([as_ratio(weight) for weight in given_weights])
    assert len(whole) == len(given_weights)
    assert all(type(weight) is int for weight in whole)
    assert all(
        a * w2 == b * w1
        for a, w1 in zip(whole, given_weights, strict=True)
        for b, w2 in zip(whole, given_weights, strict=True)
    )


@given(st.lists(st.tuples(norms, weights), min_size=1, max_size=12))
def test_the_weighted_score_is_the_exact_quotient_rounded_once(
    pairs: list[tuple[int, Fraction]],
) -> None:
    quotient = sum(Fraction(norm, NORM_ONE) * weight for norm, weight in pairs) / sum(
        weight for _, weight in pairs
    )
    whole = exact.whole_weights([as_ratio(weight) for _, weight in pairs])
    assert exact.weighted_score([norm for norm, _ in pairs], whole) == half_up(quotient * 100, 2)


@given(
    st.lists(st.tuples(norms, weights), min_size=1, max_size=8),
    st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=1000),
)
def test_multiplying_all_weights_by_one_number_moves_no_score(
    pairs: list[tuple[int, Fraction]], factor: Fraction
) -> None:
    listed = [norm for norm, _ in pairs]
    one = exact.whole_weights([as_ratio(weight) for _, weight in pairs])
    other = exact.whole_weights([as_ratio(weight * factor) for _, weight in pairs])
    assert exact.weighted_score(listed, one) == exact.weighted_score(listed, other)


@given(st.integers(1, SCORE_MAX), st.integers(1, 10**12))
@example(9000, 1)
@example(SCORE_MAX, 7)
def test_the_total_needed_reaches_the_score_and_one_less_does_not(
    score: int, weight_sum: int
) -> None:
    needed = exact.total_needed(score, weight_sum)
    shares = [
        1,
        weight_sum - 1,
    ]  # a weight of 1 carries the whole total, so that every total can be stated
    assert exact.weighted_score([needed, 0], shares) >= score
    assert exact.weighted_score([needed - 1, 0], shares) < score
    assert (
        Fraction(needed - 1)
        < Fraction(2 * score - 1, 2 * SCORE_MAX) * weight_sum * NORM_ONE
        <= needed
    )


@pytest.mark.parametrize("score", [0, -1])
def test_no_total_is_needed_for_no_score(score: int) -> None:
    assert exact.total_needed(score, 10) == 0


@given(
    norms,
    st.integers(0, 10**6),
    st.fractions(0, 1, max_denominator=1000),
    st.fractions(0, 1000, max_denominator=1000),
)
def test_shrinking_is_the_formula_of_the_guide_rounded_once(
    norm: int, n: int, prior: Fraction, k: Fraction
) -> None:
    if n + k == 0:
        return
    expected = (n * Fraction(norm, NORM_ONE) + k * prior) / (n + k)
    assert exact.shrink(norm, n, exact.shrinkage(as_ratio(prior), as_ratio(k))) == half_up(
        expected, 9
    )


def test_without_samples_only_the_prior_is_left() -> None:
    assert exact.shrink(NORM_ONE, 0, exact.shrinkage(Ratio(1, 2), Ratio(20, 1))) == NORM_ONE // 2


@given(
    st.lists(decimals(digits=20, low=-10, high=10), max_size=12), st.integers(0, 6), st.randoms()
)
def test_a_total_is_added_exactly_and_does_not_depend_on_order(
    values: list[Decimal], digits: int, random: Any
) -> None:
    expected = half_up(sum(map(Fraction, values), Fraction(0)), digits)
    shuffled = list(values)
    random.shuffle(shuffled)
    assert exact.total(values, digits) == expected
    assert exact.total(shuffled, digits) == expected


# --- leaving


def test_every_score_of_two_decimals_survives_being_shown() -> None:
    for value in range(SCORE_MAX + 1):
        assert Decimal(repr(exact.shown(value, 2))) == Decimal(value).scaleb(-2)


def test_every_edge_of_nine_decimals_survives_being_shown() -> None:
    for middle in range(0, NORM_ONE + 1, NORM_ONE // 2000):
        for value in (middle - 1, middle, middle + 1):
            if 0 <= value <= NORM_ONE:
                assert Decimal(repr(exact.shown(value, 9))) == Decimal(value).scaleb(-9)


@given(norms)
def test_any_norm_of_nine_decimals_survives_being_shown_and_read_again(value: int) -> None:
    shown = exact.shown(value, 9)
    assert Decimal(repr(shown)) == Decimal(value).scaleb(-9)
    assert exact.scaled(shown, 9) == value
