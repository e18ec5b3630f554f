"""Every formula against the guide's own words in exact fractions, everything a formula must refuse,
and the readings of a floor.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import assay
from assay.canon import encode
from assay.errors import FormulaError
from assay.errors.codes import CODES as CODES
from assay.exact import NORM_ONE
from assay.files.json_files import Document, parse_json
from assay.formulas import (
    FORMULAS,
    SCALES,
    evidence_norm,
    floor_norm,
    formula,
    normalise,
    raw_of,
    scale_norm,
)
from assay.library.shelf import Shelf
from assay.services.grading import Grader
from documents import run, scorecard

if TYPE_CHECKING:
    from collections.abc import Callable

Params = dict[str, Any]
SLO = {"slo_good": 8, "slo_bad": 30}


def clamp(x: Fraction) -> Fraction:
    """The guide's clamp, section 4.1."""
    return min(Fraction(1), max(Fraction(0), x))


def exactly(value: Any) -> Fraction:
    """A number as the text it was written in."""
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def half_up(value: Fraction) -> int:
    """Billionths, halves up; `value` is not negative."""
    return math.floor(value * NORM_ONE + Fraction(1, 2))


# The guide's section 4.1, word for word, and the 0..5 scale of its Layer 2.
GUIDE: dict[str, Callable[[Any, Params], Fraction]] = {
    "binary": lambda raw, _: exactly(raw),
    "likert_1_5": lambda raw, _: (exactly(raw) - 1) / 4,
    "likert_neg2_2": lambda raw, _: (exactly(raw) + 2) / 4,
    "likert_0_5": lambda raw, _: exactly(raw) / 5,
    "zero_one": lambda raw, _: clamp(exactly(raw)),
    "pairwise": lambda raw, _: (
        (Fraction(raw["wins"]) + Fraction(1, 2) * Fraction(raw["ties"]))
        / sum(map(Fraction, raw.values()))
    ),
    "lower_is_better": lambda raw, params: clamp(
        (exactly(params["slo_bad"]) - exactly(raw))
        / (exactly(params["slo_bad"]) - exactly(params["slo_good"]))
    ),
    "ratio": lambda raw, _: Fraction(raw["passed"]) / Fraction(raw["total"]),
}


def between(low: int, high: int) -> st.SearchStrategy[int | float | Decimal]:
    """A number on a scale, written in any of the ways a document may write it."""
    return st.one_of(
        st.integers(low, high),
        st.decimals(low, high, places=9),
        st.decimals(low, high, places=40),
        st.floats(low, high).filter(lambda x: x == 0 or abs(x) > 1e-300),
    )


counts = st.one_of(
    st.integers(0, 50),
    st.integers(0, 10**12),
    st.integers(0, 50).map(lambda count: Decimal(f"{count}.0")),
)
pairs = st.fixed_dictionaries({"wins": counts, "losses": counts, "ties": counts}).filter(
    lambda raw: sum(raw.values()) > 0
)
shares = st.fixed_dictionaries({"passed": counts, "total": counts}).filter(
    lambda raw: raw["passed"] <= raw["total"] and raw["total"] > 0
)
slos = st.lists(between(-1000, 1000), min_size=2, max_size=2, unique_by=exactly).map(
    lambda ends: dict(zip(("slo_good", "slo_bad"), sorted(ends, key=exactly), strict=True))
)

RAWS: dict[str, st.SearchStrategy[tuple[Any, Params]]] = {
    "binary": st.sampled_from([0, 1, 0.0, 1.0, Decimal("1.00")]).map(lambda raw: (raw, {})),
    "likert_1_5": between(1, 5).map(lambda raw: (raw, {})),
    "likert_neg2_2": between(-2, 2).map(lambda raw: (raw, {})),
    "likert_0_5": between(0, 5).map(lambda raw: (raw, {})),
    "zero_one": between(-2, 3).map(lambda raw: (raw, {})),
    "pairwise": pairs.map(lambda raw: (raw, {})),
    "lower_is_better": st.tuples(between(-2000, 2000), slos),
    "ratio": shares.map(lambda raw: (raw, {})),
}
any_formula = st.sampled_from(sorted(RAWS)).flatmap(
    lambda name: st.tuples(st.just(name), RAWS[name])
)


def refusal(raw: Any, formula_id: str, params: Any = None) -> FormulaError:
    """The error with which a raw score is refused; its code is a published one."""
    with pytest.raises(FormulaError) as caught:
        normalise(raw, formula_id, params)
    assert caught.value.code in CODES
    return caught.value


# --- the registry


@pytest.mark.req("W-025", "W-027")
def test_the_registry_holds_the_formulas_of_the_contract_by_their_ids() -> None:
    named = [
        "binary",
        "likert_1_5",
        "likert_neg2_2",
        "likert_0_5",
        "zero_one",
        "pairwise",
        "lower_is_better",
        "ratio",
    ]
    assert list(FORMULAS) == named
    assert all(FORMULAS[name].id == name and formula(name) is FORMULAS[name] for name in named)


def test_no_formula_was_forgotten_in_these_tests() -> None:
    assert set(FORMULAS) == set(GUIDE) == set(RAWS)


@pytest.mark.req("W-027")
@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("likert_1-5", "likert_1_5"),
        ("Binary", "binary"),
        ("pair_wise", "pairwise"),
        ("lower_better", "lower_is_better"),
        ("zeroone", "zero_one"),
    ],
)
def test_an_unknown_formula_is_refused_with_the_near_miss(wrong: str, near: str) -> None:
    error = refusal(0.5, wrong)
    assert error.code == "SCO-002"
    assert repr(wrong) in error.message
    assert f"Did you mean '{near}'?" in error.message


def test_an_unknown_formula_unlike_any_other_is_refused_without_a_guess() -> None:
    error = refusal(0.5, "softmax")
    assert error.code == "SCO-002"
    assert "Did you mean" not in str(error)


@pytest.mark.parametrize("name", sorted(RAWS))
def test_every_formula_has_a_complete_sheet(name: str) -> None:
    found = FORMULAS[name]
    sheet = found.sheet()
    assert list(sheet) == [
        "id",
        "version",
        "title",
        "raw",
        "range",
        "norm_range",
        "direction",
        "clamps",
        "params",
        "formula",
        "source",
        "example",
    ]
    assert json.loads(json.dumps(sheet)) == sheet
    for key in ("id", "version", "title", "raw", "direction", "formula", "source"):
        assert isinstance(sheet[key], str), key
        assert sheet[key].strip(), key
    assert sheet["formula"].startswith("norm = ")
    assert sheet["direction"] == (
        "lower is better" if name == "lower_is_better" else "higher is better"
    )
    assert sheet["norm_range"] == [0, 1]
    assert sheet["params"] == (["slo_good", "slo_bad"] if name == "lower_is_better" else [])
    if sheet["range"] is not None:
        low, high = sheet["range"]
        assert (normalise(low, name), normalise(high, name)) == (0, NORM_ONE)


def test_a_declared_scale_is_read_by_a_formula_that_maps_its_ends_to_0_and_1() -> None:
    for (low, high), name in SCALES.items():
        assert (normalise(low, name), normalise(high, name)) == (0, NORM_ONE)


# --- the guide's formulas


@pytest.mark.req("W-024", "W-028", "W-084")
@given(any_formula)
def test_every_norm_is_the_guides_quotient_half_up_and_lies_in_0_to_1(
    case: tuple[str, tuple[Any, Params]],
) -> None:
    name, (raw, params) = case
    norm = normalise(raw, name, params)
    assert norm == half_up(GUIDE[name](raw, params))
    assert type(norm) is int
    assert 0 <= norm <= NORM_ONE


@pytest.mark.req("W-029")
@pytest.mark.parametrize("zero", [0, 0.0, Decimal("0"), Decimal("-0.0"), Decimal("0E+3")])
def test_binary_is_the_raw_score(zero: Any) -> None:
    assert normalise(zero, "binary") == 0
    assert (
        normalise(1, "binary")
        == normalise(1.0, "binary")
        == normalise(Decimal("1.00"), "binary")
        == NORM_ONE
    )


@pytest.mark.req("W-030")
@pytest.mark.parametrize(
    ("raw", "norm"),
    [
        (1, 0),
        (2, 250_000_000),
        (3, 500_000_000),
        (4, 750_000_000),
        (5, NORM_ONE),
        (Decimal("3.8"), 700_000_000),
        (4.6, 900_000_000),
    ],
)
def test_likert_1_to_5_is_raw_less_1_over_4(raw: Any, norm: int) -> None:
    assert normalise(raw, "likert_1_5") == norm == half_up((exactly(raw) - 1) / 4)


@pytest.mark.req("W-031")
@pytest.mark.parametrize(
    ("raw", "norm"),
    [
        (-2, 0),
        (-1, 250_000_000),
        (0, 500_000_000),
        (1, 750_000_000),
        (2, NORM_ONE),
        (Decimal("-0.5"), 375_000_000),
    ],
)
def test_likert_minus_2_to_2_is_raw_plus_2_over_4(raw: Any, norm: int) -> None:
    assert normalise(raw, "likert_neg2_2") == norm == half_up((exactly(raw) + 2) / 4)


@pytest.mark.parametrize("raw", range(6))
def test_likert_0_to_5_is_raw_over_5(raw: int) -> None:
    assert normalise(raw, "likert_0_5") == half_up(Fraction(raw, 5))


@pytest.mark.req("W-032")
@pytest.mark.parametrize(
    ("wins", "losses", "ties", "norm"),
    [
        (1, 0, 0, NORM_ONE),
        (0, 1, 0, 0),
        (0, 0, 7, 500_000_000),
        (3, 1, 2, 666_666_667),
        (1, 2, 0, 333_333_333),
        (10, 5, 5, 625_000_000),
    ],
)
def test_pairwise_counts_a_tie_as_half_a_win(wins: int, losses: int, ties: int, norm: int) -> None:
    assert normalise({"wins": wins, "losses": losses, "ties": ties}, "pairwise") == norm


@pytest.mark.req("W-033")
def test_the_guides_example_of_12_seconds_between_8_and_30_is_0_818() -> None:
    norm = normalise(12, "lower_is_better", SLO)
    assert norm == half_up(Fraction(30 - 12, 30 - 8)) == 818_181_818
    assert round(norm / NORM_ONE, 3) == 0.818


@pytest.mark.req("W-033")
@pytest.mark.parametrize(
    ("raw", "norm"),
    [
        (8, NORM_ONE),
        (7.9, NORM_ONE),
        (-5, NORM_ONE),
        (30, 0),
        (30.1, 0),
        (10**9, 0),
        (19, 500_000_000),
    ],
)
def test_lower_is_better_is_1_at_the_good_level_and_0_at_the_bad_one_and_clamped_beyond(
    raw: Any, norm: int
) -> None:
    assert normalise(raw, "lower_is_better", SLO) == norm


@pytest.mark.req("W-034")
@pytest.mark.parametrize(
    ("raw", "norm"),
    [
        (0.25, 250_000_000),
        (0, 0),
        (1, NORM_ONE),
        (1.2, NORM_ONE),
        (-0.2, 0),
        (Decimal("0.1234567895"), 123_456_790),
        (7, NORM_ONE),
    ],
)
def test_a_retrieval_metric_is_clamped_to_0_and_1(raw: Any, norm: int) -> None:
    assert normalise(raw, "zero_one") == norm


@pytest.mark.req("W-035")
@pytest.mark.parametrize(
    ("passed", "total"), [(0, 1), (1, 1), (1, 3), (2, 3), (95, 100), (949_999_999_999, 10**12)]
)
def test_a_share_of_tests_is_passed_over_total(passed: int, total: int) -> None:
    assert normalise({"passed": passed, "total": total}, "ratio") == half_up(
        Fraction(passed, total)
    )


@pytest.mark.req("W-035", "W-036", "W-087")
@pytest.mark.parametrize(
    ("fail_to_pass", "pass_to_pass", "holds"),
    [
        ((3, 3), (100, 100), (True, True)),
        ((3, 3), (95, 100), (True, True)),
        ((3, 3), (94, 100), (True, False)),
        ((2, 3), (95, 100), (False, True)),
        ((999_999_999_999, 10**12), (949_999_999_999, 10**12), (False, False)),
    ],
)
def test_the_two_test_gates_hold_at_1_and_at_0_95_and_not_a_hair_below(
    fail_to_pass: tuple[int, int], pass_to_pass: tuple[int, int], holds: tuple[bool, bool]
) -> None:
    tests = {
        name: dict(zip(("passed", "total"), tally, strict=True))
        for name, tally in (("fail_to_pass", fail_to_pass), ("pass_to_pass", pass_to_pass))
    }
    gates = assay.score(run("code-repair", tests=tests)).hard_gates
    assert (
        gates["tests_fail_to_pass_all_green"],
        gates["tests_pass_to_pass_threshold_met"],
    ) == holds


@pytest.mark.req("W-037")
@given(st.integers(0, NORM_ONE), st.integers(0, 10_000))
@example(NORM_ONE, 1)
@example(NORM_ONE, 0)
def test_a_small_sample_is_pulled_towards_one_half_as_by_twenty_more_samples(
    norm: int, n: int
) -> None:
    graded = assay.grade(scorecard({"norm": Decimal(norm).scaleb(-9), "n": n})).criteria[0]
    assert graded.norm_units == norm
    assert graded.adjusted_units == half_up(
        (n * Fraction(norm, NORM_ONE) + 20 * Fraction(1, 2)) / (n + 20)
    )


@pytest.mark.req("W-024", "W-026")
@given(st.lists(any_formula, min_size=1, max_size=5))
def test_a_result_stores_raw_and_norm_so_that_the_norm_can_be_recomputed(
    cases: list[tuple[str, tuple[Any, Params]]],
) -> None:
    listed = [
        {"name": f"c{index}", "formula_id": name, "raw_score": raw, "params": params, "weight": 1}
        for index, (name, (raw, params)) in enumerate(cases)
    ]
    made = Grader(Shelf()).grade(Document(scorecard(*listed), "card.json")).payload()
    for stored, (name, (raw, params)) in zip(made["criteria"], cases, strict=True):
        assert (stored["raw_score"], stored["formula_id"], stored["params"]) == (raw, name, params)
        assert normalise(stored["raw_score"], stored["formula_id"], stored["params"]) == half_up(
            exactly(stored["norm"])
        )
        assert 0 <= stored["norm"] <= 1
        assert 0 <= stored["adjusted_norm"] <= 1
    assert 0 <= made["weighted_score"] <= 100
    assert 0 <= made["weighted_score_adjusted"] <= 100


@given(any_formula)
def test_a_raw_score_has_one_norm_however_its_number_was_written(
    case: tuple[str, tuple[Any, Params]],
) -> None:
    name, (raw, params) = case
    written = parse_json(encode({"raw": raw, "params": params}))
    assert normalise(written["raw"], name, written["params"]) == normalise(raw, name, params)


# --- what a formula refuses

NUMERIC = ["binary", "likert_1_5", "likert_neg2_2", "likert_0_5", "zero_one", "lower_is_better"]
COUNTED = {"pairwise": {"wins": 1, "losses": 1, "ties": 1}, "ratio": {"passed": 1, "total": 2}}


def params_of(name: str) -> Params:
    return SLO if name == "lower_is_better" else {}


@pytest.mark.req("W-025")
@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("likert_1_5", 6, "is 6, outside 1..5"),
        ("likert_1_5", 0, "is 0, outside 1..5"),
        ("likert_1_5", Decimal("5.0000000000000000000000000000000001"), "outside 1..5"),
        ("likert_1_5", 0.999999, "outside 1..5"),
        ("likert_neg2_2", 3, "is 3, outside -2..2"),
        ("likert_neg2_2", -2.5, "outside -2..2"),
        ("likert_0_5", 5.5, "outside 0..5"),
        ("likert_0_5", -1, "outside 0..5"),
        ("binary", 0.5, "is 0.5; only 0 and 1"),
        ("binary", 2, "is 2; only 0 and 1"),
        ("binary", -1, "only 0 and 1"),
        ("binary", Decimal("1.0000000000000000000000000000000001"), "only 0 and 1"),
    ],
)
def test_a_raw_score_outside_its_scale_is_refused_and_never_clamped(
    name: str, raw: Any, words: str
) -> None:
    error = refusal(raw, name)
    assert error.code == "SCO-001"
    assert error.message.startswith(f"{name}: ")
    assert words in error.message


@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        (-float("inf"), "finite"),
        (Decimal("NaN"), "finite"),
        (Decimal("Infinity"), "finite"),
        ("4", "string"),
        ("1", "string"),
        ("", "string"),
        (True, "true or false"),
        (False, "true or false"),
        (None, "null"),
        ([1], "list"),
        ({"raw": 1}, "dict"),
        (Decimal("1e400"), "beyond the range"),
        (Decimal("-1e400"), "beyond the range"),
        (10**200, "more than 100 digits"),
    ],
)
def test_a_raw_score_that_is_no_number_is_refused_by_every_formula_of_numbers(
    name: str, raw: Any, words: str
) -> None:
    error = refusal(raw, name, params_of(name))
    assert error.code == "SCO-003"
    assert error.message.startswith(f"{name}: the raw score must be ")
    assert words in error.message


def test_a_numeric_string_is_not_a_score() -> None:
    assert (
        refusal("4", "likert_1_5").message
        == "likert_1_5: the raw score must be a number; '4' is a string, not a number."
    )


@pytest.mark.parametrize("name", sorted(COUNTED))
@pytest.mark.parametrize("raw", [None, True, 1, 0.5, "1", [1, 2], "{}"])
def test_counts_must_be_an_object(name: str, raw: Any) -> None:
    error = refusal(raw, name)
    assert error.code == "SCO-003"
    assert error.message.startswith(f"{name}: the raw score must be an object")
    assert all(f'"{key}"' in error.message for key in COUNTED[name])


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("pairwise", {}, "missing: wins, losses, ties"),
        ("pairwise", {"wins": 1, "losses": 1}, "missing: ties"),
        ("pairwise", {"wins": 1, "losses": 1, "ties": 0, "draws": 1}, "unknown: draws"),
        ("ratio", {"passed": 1}, "missing: total"),
        ("ratio", {"passed": 1, "totl": 2}, "unknown: totl"),
        ("ratio", {}, "missing: passed, total"),
    ],
)
def test_counts_have_exactly_their_keys(name: str, raw: Any, words: str) -> None:
    error = refusal(raw, name)
    assert error.code == "SCO-003"
    assert words in error.message


@pytest.mark.parametrize("name", sorted(COUNTED))
@pytest.mark.parametrize(
    ("count", "code", "words"),
    [
        (-1, "SCO-007", "below zero"),
        (Decimal("-3"), "SCO-007", "below zero"),
        (0.5, "SCO-003", "not a whole number"),
        (Decimal("1.5"), "SCO-003", "not a whole number"),
        ("1", "SCO-003", "string"),
        (True, "SCO-003", "true or false"),
        (None, "SCO-003", "null"),
        (float("nan"), "SCO-003", "finite"),
        (float("inf"), "SCO-003", "finite"),
        ([1], "SCO-003", "list"),
        (Decimal("1e400"), "SCO-003", "beyond the range"),
    ],
)
def test_a_count_is_a_whole_number_from_0_up(name: str, count: Any, code: str, words: str) -> None:
    for key in COUNTED[name]:
        error = refusal({**COUNTED[name], key: count}, name)
        assert error.code == code
        assert f"{name}: the count {key!r}" in error.message
        assert words in error.message


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("pairwise", {"wins": 0, "losses": 0, "ties": 0}, "no comparisons"),
        ("ratio", {"passed": 0, "total": 0}, "the total is 0"),
    ],
)
def test_nothing_counted_is_no_score(name: str, raw: Any, words: str) -> None:
    error = refusal(raw, name)
    assert error.code == "SCO-006"
    assert words in error.message


def test_more_passed_than_there_are_is_refused() -> None:
    error = refusal({"passed": 3, "total": 2}, "ratio")
    assert error.code == "SCO-007"
    assert "3 passed of 2" in error.message


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "'slo_good' is missing"),
        ({"slo_good": 8}, "'slo_bad' is missing"),
        ({"slo_bad": 8}, "'slo_good' is missing"),
        ({"slo_good": 8, "slo_bad": 8}, "slo_bad (8) must be greater"),
        (
            {"slo_good": 30, "slo_bad": 8},
            "slo_bad (8) must be greater, that is worse, than slo_good (30)",
        ),
        ({"slo_good": 8, "slo_bad": 30, "slo_ugly": 50}, "unknown parameter 'slo_ugly'"),
        ({"slo_god": 8, "slo_bad": 30}, "unknown parameter 'slo_god'"),
        ({"slo_good": "8", "slo_bad": 30}, "'8' is a string"),
        ({"slo_good": 8, "slo_bad": True}, "true or false"),
        ({"slo_good": None, "slo_bad": 30}, "null"),
        ({"slo_good": 8, "slo_bad": float("inf")}, "finite"),
        ({"slo_good": float("nan"), "slo_bad": 30}, "finite"),
        ({"slo_good": 8, "slo_bad": Decimal("1e400")}, "beyond the range"),
        ({"slo_good": [8], "slo_bad": 30}, "list"),
        ({"slo_good": 8, "slo_bad": {"at": 30}}, "dict"),
    ],
)
def test_service_levels_are_two_numbers_of_which_the_bad_one_is_greater(
    params: Params, words: str
) -> None:
    error = refusal(12, "lower_is_better", params)
    assert error.code == "SCO-005"
    assert error.message.startswith("lower_is_better: ")
    assert words in error.message


def test_a_service_level_of_true_is_refused_also_after_1_was_accepted() -> None:
    assert normalise(1, "lower_is_better", {"slo_good": 1, "slo_bad": 2}) == NORM_ONE
    assert refusal(1, "lower_is_better", {"slo_good": True, "slo_bad": 2}).code == "SCO-005"


@pytest.mark.parametrize("name", [name for name in RAWS if name != "lower_is_better"])
def test_a_parameter_that_a_formula_does_not_take_is_refused(name: str) -> None:
    raw = COUNTED.get(name, 1)
    normalise(raw, name)
    error = refusal(raw, name, {"slo_good": 1})
    assert error.code == "SCO-005"
    assert f"{name}: unknown parameter 'slo_good'; it takes none" in error.message


@pytest.mark.req("W-028")
@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.parametrize("raw", [-1000, 1000])
def test_only_zero_one_and_lower_is_better_clamp(name: str, raw: int) -> None:
    clamps = name in ("zero_one", "lower_is_better")
    assert FORMULAS[name].clamps is clamps
    if clamps:
        better = (raw > 0) == (name == "zero_one")
        assert normalise(raw, name, params_of(name)) == (NORM_ONE if better else 0)
    else:
        assert refusal(raw, name).code == "SCO-001"


@pytest.mark.parametrize("raw", [0, 0.5, 1, 1.0000000000000002, Decimal("1.000001"), -0.2, -1000])
def test_evidence_on_0_to_1_may_be_below_it_or_beyond_it_by_rounding(raw: Any) -> None:
    assert evidence_norm(raw, "zero_one") == normalise(raw, "zero_one")


@pytest.mark.parametrize(
    ("raw", "name", "params", "words"),
    [
        (Decimal("1.0000011"), "zero_one", {}, "above 1"),
        (85, "zero_one", {}, "above 1"),
        (-1, "lower_is_better", SLO, "below 0"),
        (-0.001, "lower_is_better", {"slo_good": 0, "slo_bad": 1}, "below 0"),
    ],
)
def test_evidence_beyond_the_good_end_is_refused_also_where_the_formula_clamps(
    raw: Any, name: str, params: Any, words: str
) -> None:
    assert normalise(raw, name, params) == NORM_ONE
    with pytest.raises(FormulaError, match=words) as caught:
        evidence_norm(raw, name, params)
    assert caught.value.code == "SCO-001"


def test_a_difference_may_be_negative_where_its_good_level_is() -> None:
    levels = {"slo_good": -5, "slo_bad": 50}
    assert evidence_norm(-9, "lower_is_better", levels) == NORM_ONE
    assert evidence_norm(3, "lower_is_better", SLO) == NORM_ONE


def test_no_formula_of_counts_clamps() -> None:
    assert not any(FORMULAS[name].clamps for name in COUNTED)


# --- the way back


@given(any_formula, st.integers(0, NORM_ONE))
@example(("ratio", ({"passed": 1, "total": 3}, {})), 333_333_333)
@example(("pairwise", ({"wins": 1, "losses": 1, "ties": 1}, {})), 1)
def test_the_way_back_reaches_the_norm_asked_for(
    case: tuple[str, tuple[Any, Params]], norm: int
) -> None:
    name, (raw, params) = case
    found = FORMULAS[name].invert(norm, raw, params)
    assert normalise(found, name, params) >= norm
    assert raw_of(norm, name, raw, params) == found


@given(
    st.sampled_from(["likert_1_5", "likert_neg2_2", "likert_0_5", "zero_one"]),
    st.integers(1, NORM_ONE),
)
def test_the_way_back_on_a_scale_asks_for_no_more_than_is_needed(name: str, norm: int) -> None:
    found = FORMULAS[name].invert(norm, None, {})
    low, high = FORMULAS[name].low, FORMULAS[name].high
    assert low is not None
    assert high is not None
    hair = Decimal(high.num - low.num) * Decimal("1e-9")
    assert normalise(found - hair, name) < norm


@given(slos, st.integers(1, NORM_ONE))
def test_the_way_back_from_a_service_level_asks_for_no_more_than_is_needed(
    params: Params, norm: int
) -> None:
    found = FORMULAS["lower_is_better"].invert(norm, None, params)
    span = exactly(params["slo_bad"]) - exactly(params["slo_good"])
    assume(span > Fraction(1, 10**6))
    worse = Decimal(math.floor((exactly(found) + span * Fraction(1, 10**9)) * 10**20 + 1)).scaleb(
        -20
    )
    assert normalise(worse, "lower_is_better", params) < norm


@given(st.integers(0, 10**40), st.integers(1, 1000), st.integers(0, NORM_ONE))
@example(10**40, 10, 700_000_000)
def test_the_way_back_is_exact_also_for_service_levels_of_many_digits(
    good: int, span: int, norm: int
) -> None:
    params = {"slo_good": good, "slo_bad": good + span}
    found = FORMULAS["lower_is_better"].invert(norm, None, params)
    assert normalise(found, "lower_is_better", params) >= norm


@given(st.integers(1, 10**6), st.integers(0, NORM_ONE))
def test_the_way_back_asks_for_the_fewest_passes_that_do(total: int, norm: int) -> None:
    found = FORMULAS["ratio"].invert(norm, {"passed": 0, "total": total}, {})
    assert found["total"] == total
    assert normalise(found, "ratio") >= norm
    assert (
        found["passed"] == 0
        or normalise({"passed": found["passed"] - 1, "total": total}, "ratio") < norm
    )


@given(pairs, st.integers(0, NORM_ONE))
def test_the_way_back_keeps_the_number_of_comparisons(raw: dict[str, Any], norm: int) -> None:
    found = FORMULAS["pairwise"].invert(norm, raw, {})
    assert sum(found.values()) == sum(raw.values())
    assert all(count >= 0 for count in found.values())


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_without_counts_there_is_no_way_back_to_counts(name: str) -> None:
    assert raw_of(500_000_000, name, None, {}) is None


# --- floors


@pytest.mark.parametrize(
    ("floor", "name", "params", "norm"),
    [
        ({"raw": 3}, "likert_1_5", {}, 500_000_000),
        ({"norm": 0.7}, "likert_1_5", {}, 700_000_000),
        ({"raw": 1}, "likert_1_5", {}, 0),
        ({"norm": 1}, "likert_1_5", {}, NORM_ONE),
        ({"raw": 0}, "likert_neg2_2", {}, 500_000_000),
        ({"raw": 1}, "likert_0_5", {}, 200_000_000),
        ({"raw": 12}, "lower_is_better", SLO, 818_181_818),
        ({"raw": 1}, "binary", {}, NORM_ONE),
        ({"norm": 0.5}, "ratio", {}, 500_000_000),
        ({"norm": 0.5}, "pairwise", {}, 500_000_000),
        ({"raw": Decimal("0.6999999995")}, "zero_one", {}, 700_000_000),
    ],
)
def test_a_floor_with_its_unit_is_read_in_that_unit(
    floor: Any, name: str, params: Params, norm: int
) -> None:
    assert floor_norm(floor, name, params) == norm


@pytest.mark.parametrize(
    ("floor", "name", "params", "norm"),
    [
        (3, "likert_1_5", {}, 500_000_000),  # 3 is not a norm
        (0.7, "likert_1_5", {}, 700_000_000),  # 0.7 is not a raw score
        (0, "likert_1_5", {}, 0),
        (-1, "likert_neg2_2", {}, 250_000_000),
        (2, "likert_neg2_2", {}, NORM_ONE),
        (0, "likert_0_5", {}, 0),  # both readings, one norm
        (4, "likert_0_5", {}, 800_000_000),
        (0.7, "zero_one", {}, 700_000_000),
        (1, "binary", {}, NORM_ONE),
        (0.5, "binary", {}, 500_000_000),  # 0.5 is not a raw score
        (12, "lower_is_better", SLO, 818_181_818),
        (0.7, "lower_is_better", SLO, 700_000_000),
        (0.95, "ratio", {}, 950_000_000),
        (0.5, "pairwise", {}, 500_000_000),
    ],
)
def test_a_bare_floor_that_can_be_read_in_one_way_is_read_so(
    floor: Any, name: str, params: Params, norm: int
) -> None:
    assert floor_norm(floor, name, params) == norm


@pytest.mark.parametrize(
    ("floor", "name", "params", "raw_reading", "norm_reading"),
    [
        (1, "likert_1_5", {}, "0", "1"),
        (0, "likert_neg2_2", {}, "0.5", "0"),
        (0.5, "likert_neg2_2", {}, "0.625", "0.5"),
        (1, "likert_neg2_2", {}, "0.75", "1"),
        (1, "likert_0_5", {}, "0.2", "1"),
        (0.5, "likert_0_5", {}, "0.1", "0.5"),
        (0.25, "lower_is_better", {"slo_good": 0, "slo_bad": 1}, "0.75", "0.25"),
        (
            Decimal("0.5000001"),
            "lower_is_better",
            {"slo_good": 0, "slo_bad": 1},
            "0.4999999",
            "0.5000001",
        ),
    ],
)
def test_a_bare_floor_that_can_be_read_in_two_ways_is_refused_with_both_readings(
    floor: Any, name: str, params: Params, raw_reading: str, norm_reading: str
) -> None:
    with pytest.raises(FormulaError) as caught:
        floor_norm(floor, name, params)
    assert caught.value.code == "GRD-104"
    assert (
        f"as a raw score of {name} it is the norm {raw_reading}, as a norm it is {norm_reading}."
        in caught.value.message
    )
    assert caught.value.fix == f'Write {{"raw": {floor}}} or {{"norm": {floor}}}.'
    assert floor_norm({"raw": floor}, name, params) == half_up(Fraction(raw_reading))
    assert floor_norm({"norm": floor}, name, params) == half_up(Fraction(norm_reading))


@given(
    between(-3, 6),
    st.sampled_from(["likert_1_5", "likert_neg2_2", "likert_0_5", "zero_one", "lower_is_better"]),
)
def test_a_bare_floor_is_accepted_exactly_when_its_readings_agree(floor: Any, name: str) -> None:
    params = {"slo_good": 0, "slo_bad": 4} if name == "lower_is_better" else {}
    low, high = {
        "likert_1_5": (1, 5),
        "likert_neg2_2": (-2, 2),
        "likert_0_5": (0, 5),
        "zero_one": (0, 1),
        "lower_is_better": (0, 4),
    }[name]
    readings = set()
    if low <= exactly(floor) <= high:
        readings.add(half_up(GUIDE[name](floor, params)))
    if 0 <= exactly(floor) <= 1:
        readings.add(half_up(exactly(floor)))
    if len(readings) == 1:
        assert {floor_norm(floor, name, params)} == readings
    else:
        with pytest.raises(FormulaError) as caught:
            floor_norm(floor, name, params)
        assert caught.value.code == "GRD-104"
        assert ("two ways" if readings else "neither") in caught.value.message


@pytest.mark.parametrize(
    ("floor", "name", "params"),
    [
        (6, "likert_1_5", {}),
        ({"raw": 6}, "likert_1_5", {}),
        ({"raw": 0}, "likert_1_5", {}),
        ({"norm": 1.01}, "likert_1_5", {}),
        ({"norm": -0.1}, "zero_one", {}),
        ({"raw": 1.5}, "zero_one", {}),
        ({"raw": -0.5}, "zero_one", {}),
        ({"raw": 31}, "lower_is_better", SLO),
        ({"raw": 7}, "lower_is_better", SLO),
        ({"raw": 0.5}, "binary", {}),
        ({"raw": 1}, "ratio", {}),
        ({"raw": 1}, "pairwise", {}),
        (5, "ratio", {}),
    ],
)
def test_a_floor_outside_its_scale_is_refused_also_where_scores_are_clamped(
    floor: Any, name: str, params: Params
) -> None:
    with pytest.raises(FormulaError) as caught:
        floor_norm(floor, name, params)
    assert caught.value.code in ("GRD-104", "SCO-001")
    assert str(caught.value)


@pytest.mark.parametrize(
    "floor",
    [
        "0.7",
        "",
        True,
        False,
        [0.7],
        {},
        {"raw": 3, "norm": 0.5},
        {"percent": 70},
        {"raw": None},
        {"norm": "0.7"},
        {"norm": True},
        {"raw": "3"},
        float("nan"),
    ],
)
@pytest.mark.parametrize("name", ["likert_1_5", "zero_one", "binary", "ratio"])
def test_a_floor_of_no_known_shape_is_refused(floor: Any, name: str) -> None:
    with pytest.raises(FormulaError) as caught:
        floor_norm(floor, name, {})
    assert caught.value.code in CODES
    assert "floor" in caught.value.message


def test_a_floor_under_an_unknown_formula_is_refused_with_the_near_miss() -> None:
    with pytest.raises(FormulaError, match="Did you mean 'likert_1_5'"):
        floor_norm({"raw": 3}, "likert_15", {})


@given(st.fractions(-100, 100, max_denominator=1000), st.integers(-50, 50), st.integers(1, 100))
def test_a_number_on_a_declared_scale_is_its_share_of_the_way(
    value: Fraction, low: int, span: int
) -> None:
    written = Decimal(value.numerator * 10**6 // value.denominator).scaleb(-6)
    expected = (Fraction(written) - low) / span
    if 0 <= expected <= 1:
        assert scale_norm(written, low, low + span) == half_up(expected)
    else:
        with pytest.raises(FormulaError, match="outside its scale") as caught:
            scale_norm(written, low, low + span)
        assert caught.value.code == "GRD-104"


@pytest.mark.parametrize(("low", "high"), [(5, 1), (3, 3), (0.5, Decimal("0.50"))])
def test_a_scale_without_extent_is_refused(low: Any, high: Any) -> None:
    with pytest.raises(FormulaError, match="has no extent"):
        scale_norm(3, low, high)


@pytest.mark.parametrize("wrong", [True, None, "3", [3], float("nan"), Decimal("1e400")])
def test_a_scale_and_what_stands_on_it_are_numbers(wrong: Any) -> None:
    for arguments in ((wrong, 1, 5), (3, wrong, 5), (3, 1, wrong)):
        with pytest.raises(FormulaError, match="must be numbers") as caught:
            scale_norm(*arguments)
        assert caught.value.code == "GRD-104"
