"""Comparing texts and values: named steps, comparators that cannot be tricked or stalled, likeness
equal to the libraries of the field.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.exact import Ratio, ratio
from assay.files.json_files import Document
from assay.formulas import normalise
from assay.records.reading import read_run
from assay.scoring.checks import (
    MATCHES,
    STEPS,
    Normaliser,
    as_words,
    expected_text,
    is_close,
    number_of,
)
from assay.scoring.metrics.measure import Undetermined
from assay.scoring.metrics.similarity import (
    ADVISORY,
    MAX_LENGTH,
    bleu,
    common_length,
    edit_distance,
    edit_similarity,
    rouge_l,
    token_recall,
    tokens,
)
from assay.scoring.metrics.text import TEXT
from documents import run

MEASURES = {measure.id: measure for measure in TEXT}
WORDS = st.lists(
    st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "dog", "ran"]), min_size=1, max_size=12
).map(" ".join)


def take(name: str, outputs: Any = None, expected: Any = None, **params: Any) -> Any:
    evidence = read_run(
        Document(
            run(
                "dag-review",
                outputs=outputs,
                expected=expected,
                required_outputs=[],
                output_schema=None,
            ),
            "test",
        )
    )
    return MEASURES[name].take(evidence, {**MEASURES[name].params, **params})


# --- steps


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [
        ("nfc", "e\u0301", "é"),
        ("strip", " \ta b\n", "a b"),
        ("lower", "ÀB", "àb"),
        ("casefold", "Straße", "strasse"),
        ("drop_period", "Yes.", "Yes"),
        ("drop_period", "Well...", "Well.."),
        ("lower", "ΟΔΟΣ", "οδοσ"),
        ("hyphen-minus", "\u22125 \u2013 3", "-5 - 3"),
        ("drop_period", "a.b", "a.b"),
        ("collapse_whitespace", " a \n\u00a0 b ", "a b"),
        ("strip_punctuation", "«a-b», c!", "ab c"),
    ],
)
def test_each_step_does_one_thing(step: str, before: str, after: str) -> None:
    assert Normaliser([step])(before) == after


@given(st.text(), st.lists(st.sampled_from([name for name in STEPS if name != "trailing-period"])))
def test_a_step_taken_twice_changes_nothing_more(text: str, steps: list[str]) -> None:
    for step in steps:
        text = Normaliser([step])(text)
        assert Normaliser([step])(text) == text


def test_an_unknown_step_is_refused_and_not_passed_over() -> None:
    with pytest.raises(InputError, match="Did you mean 'casefold'") as refused:
        Normaliser(["casefolds"])
    assert refused.value.code == "SCO-035"
    assert isinstance(take("exact_match", {"a": "x"}, {"a": "x"}, steps=["upper"]), Undetermined)


# --- comparators


def test_a_word_is_not_a_part_of_a_word() -> None:
    assert MATCHES["substring"]("unhappy", "happy")
    assert not MATCHES["word"]("unhappy", "happy")
    assert MATCHES["word"]("I am happy.", "happy")
    assert MATCHES["word"]("a (b) c", "(b)")
    assert not MATCHES["word"]("été2", "été")


@pytest.mark.parametrize(
    "found", [as_words("8 kg").search, lambda text: MATCHES["word"](text, "8 kg")]
)
def test_a_wanted_number_is_not_found_inside_another(found: Any) -> None:
    """Found by a shop's bot that gave the weight of another product."""
    for text in ("It weighs 1.8 kg.", "0,8 kg", "-8 kg", "−8 kg", "18 kg"):
        assert not found(text), text
    for text in ("It weighs 8 kg.", "8 kg", "(8 kg)", "7-8 kg", "about 8 kg, or less", "No. 8 kg"):
        assert found(text), text
    assert not MATCHES["word"]("8.5 or 8,000", "8")
    assert MATCHES["word"]("first 7, then 8.", "8")


def test_an_empty_expectation_is_refused_because_everything_contains_it() -> None:
    with pytest.raises(InputError, match="every text contains it"):
        expected_text(" ", Normaliser(["strip"]))
    assert isinstance(take("contains_expected", {"a": "x"}, {"a": ""}), Undetermined)
    assert isinstance(take("contains_expected", {"a": "x"}, {"a": []}), Undetermined)


# --- numbers and values


def test_a_tolerance_is_met_exactly_at_its_edge() -> None:
    assert is_close(
        Ratio(*Decimal("0.3").as_integer_ratio()), Ratio(1, 10), absolute=Decimal("0.2")
    )  # 0.3 - 0.1 is above 0.2 in floating point
    assert not is_close(
        Ratio(*Decimal("0.3000000001").as_integer_ratio()), Ratio(1, 10), absolute=Decimal("0.2")
    )
    assert is_close(Ratio(110, 1), Ratio(100, 1), relative=Decimal("0.1"))
    assert not is_close(Ratio(1, 10**20), Ratio(0, 1), relative=1)
    with pytest.raises(ValueError, match="below 0"):
        is_close(Ratio(1, 1), Ratio(1, 1), absolute=-1)


@given(st.fractions(), st.fractions(), st.integers(0, 5))
def test_closeness_is_what_fractions_say(
    actual: Fraction, expected: Fraction, tolerance: int
) -> None:
    assert is_close(
        Ratio(*actual.as_integer_ratio()), Ratio(*expected.as_integer_ratio()), absolute=tolerance
    ) == (abs(actual - expected) <= tolerance)
    assert is_close(
        Ratio(*actual.as_integer_ratio()), Ratio(*expected.as_integer_ratio()), relative=tolerance
    ) == (abs(actual - expected) <= tolerance * abs(expected))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1,5",
        "1 000",
        "0x10",
        "1_0",
        "nan",
        "inf",
        "one",
        "1.5.2",
        "9" * 101,
        "1e99999",
        "5 km",
        "1 2",
        "7/5",
        "8" + " " * 10_000,
        "--1",
        "1e",
    ],
)
def test_what_is_not_one_plain_number_is_no_number(text: str) -> None:
    assert number_of(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [("1,000.5", "1000.5"), ("\u22128", "-8"), ("8.", "8"), ("١", "1"), ("9" * 100, "9" * 100)],
)
def test_a_number_is_read_in_the_ways_people_write_it(text: str, number: str) -> None:
    assert number_of(text) == ratio(Decimal(number))
    assert take("numeric_close", {"a": text}, {"a": Decimal(number)}) == {"passed": 1, "total": 1}


def test_numbers_in_a_run_are_compared_exactly() -> None:
    assert take(
        "numeric_close", {"a": "42.0", "b": 7}, {"a": 42, "b": "7.5"}, absolute=Decimal("0.5")
    ) == {"passed": 2, "total": 2}
    assert take("numeric_close", {"a": "about 42"}, {"a": 42}) == {"passed": 0, "total": 1}
    assert isinstance(take("numeric_close", {"a": 1}, {"a": "many"}), Undetermined)
    assert isinstance(take("numeric_close", {"a": 1}, {"a": 1}, absolute="wide"), Undetermined)
    assert isinstance(take("numeric_close", {"a": 1}, {"a": 1}, relative=-1), Undetermined)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_an_output_matches_exactly_what_equals_it(left: Any, right: Any) -> None:
    matched = [
        take("exact_match", {"a": one}, {"a": other}, steps=())["passed"]
        for one, other in ((left, left), (left, right), (right, left))
    ]
    assert matched[0] == 1
    assert matched[1] == matched[2]
    assert not matched[1] or left == right


def test_an_output_matches_by_value_and_not_by_type() -> None:
    for one, other, holds in (
        ({"b": [1, "x"], "a": None}, {"a": None, "b": [1.0, "x"]}, 1),
        ([True], [1], 0),
        ({"a": 1}, {"a": 1, "b": None}, 0),
        ({"a": 1, "b": None}, {"a": 1}, 0),
        ([1, 2], [1], 0),
    ):
        assert take("exact_match", {"a": one}, {"a": other})["passed"] == holds
    assert take("exact_match", {}, {"a": None})["passed"] == 0


# --- likeness


@given(st.text("abcé", max_size=30), st.text("abcé", max_size=30))
def test_edit_distance_and_common_length_are_rapidfuzzs(first: str, second: str) -> None:
    peer = pytest.importorskip("rapidfuzz.distance", reason="pip install rapidfuzz")
    assert edit_distance(first, second) == peer.Levenshtein.distance(first, second)
    assert common_length(first, second) == peer.LCSseq.similarity(first, second)
    score = edit_similarity(first, second)
    assert score.num / score.den == pytest.approx(
        peer.Levenshtein.normalized_similarity(first, second), abs=1e-12
    )


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_edit_distance_is_a_distance(first: str, second: str, third: str) -> None:
    assert (edit_distance(first, second) == 0) == (first == second)
    assert edit_distance(first, second) == edit_distance(second, first)
    assert edit_distance(first, third) <= edit_distance(first, second) + edit_distance(
        second, third
    )
    score = edit_similarity(first, second)
    assert 0 <= score.num <= score.den


def test_a_text_beyond_the_limit_is_not_compared_and_one_at_the_limit_takes_seconds() -> None:
    with pytest.raises(ValueError, match="too long to compare"):
        edit_distance("a" * (MAX_LENGTH + 1), "b")
    assert isinstance(
        take("edit_similarity", {"a": "x" * (MAX_LENGTH + 1)}, {"a": "y"}), Undetermined
    )
    assert edit_distance("ab" * (MAX_LENGTH // 2), "ba" * (MAX_LENGTH // 2)) == 2


@given(WORDS, WORDS)
def test_bleu_is_sacrebleus(actual: str, expected: str) -> None:
    peer = pytest.importorskip("sacrebleu", reason="pip install sacrebleu")
    score = peer.sentence_bleu(
        actual, [expected], tokenize="none", smooth_method="exp", use_effective_order=True
    ).score
    assert bleu(actual, expected) == pytest.approx(score / 100, abs=1e-9)


@cache
def _rouge(peer: Any) -> Any:
    return peer.RougeScorer(["rougeL"])


@pytest.mark.parametrize(
    ("actual", "expected", "by_rouge_score"),
    [
        ("the cat sat on the mat", "the cat lay on a mat", 2 / 3),
        ("a b c d", "d c b a", 1 / 4),
        ("to be or not", "not to be", 4 / 7),
        ("x", "y z", 0),
    ],
)
def test_rouge_l_of_some_texts_is_what_rouge_score_gave(
    actual: str, expected: str, by_rouge_score: float
) -> None:
    found = rouge_l(actual, expected)
    assert found is not None
    assert found.num / found.den == pytest.approx(by_rouge_score)


@pytest.mark.campaign
@given(WORDS, WORDS)
def test_rouge_l_is_rouge_scores(actual: str, expected: str) -> None:
    peer = pytest.importorskip("rouge_score.rouge_scorer", reason="pip install rouge-score")
    found = rouge_l(actual, expected)
    assert found is not None
    assert found.num / found.den == pytest.approx(
        _rouge(peer).score(expected, actual)["rougeL"].fmeasure, abs=1e-9
    )


@given(WORDS, WORDS)
def test_overlap_lies_between_0_and_1_and_more_words_never_lower_recall(
    actual: str, expected: str
) -> None:
    found, more = (
        token_recall(actual, expected),
        token_recall(actual + " " + expected, expected),
    )
    assert found is not None
    assert more is not None
    assert 0 <= found.num <= found.den
    assert more.num == more.den


def test_where_there_are_no_words_there_is_no_score() -> None:
    assert token_recall("a", "...") is None
    assert rouge_l("", "!") is None
    assert bleu("", "a") is None
    assert tokens("...") == []


# --- measures of one run


def test_outputs_are_compared_with_what_is_expected_of_each() -> None:
    outputs = {"city": "Paris ", "facts": {"n": 1}, "note": "the capital, Paris, is large"}
    assert take("exact_match", outputs, {"city": "Paris", "facts": {"n": 1.0}}) == {
        "passed": 2,
        "total": 2,
    }
    assert take("exact_match", outputs, {"city": "paris"}) == {"passed": 0, "total": 1}
    assert take(
        "exact_match",
        outputs,
        {"city": "paris", "note": "x"},
        output="city",
        steps=["strip", "casefold"],
    ) == {"passed": 1, "total": 1}
    assert take("contains_expected", outputs, {"note": ["Paris", "large"]}) == {
        "passed": 1,
        "total": 1,
    }
    assert take("contains_expected", outputs, {"note": "Par"}, match="word") == {
        "passed": 0,
        "total": 1,
    }
    assert take("edit_similarity", outputs, {"city": "Parix"}) == 0.8
    assert take("token_recall", outputs, {"note": "Paris is small"}) == pytest.approx(2 / 3)
    assert take("word_budget", outputs, {}, output="note", words=5) == 1
    assert take("word_budget", outputs, {}, output="note", words=4) == 0


def test_an_output_that_is_left_out_is_a_miss_and_not_left_out_of_the_share() -> None:
    assert take("exact_match", {"a": "x"}, {"a": "x", "b": "y"}) == {"passed": 1, "total": 2}
    assert take("exact_match", {"a": "x"}, {"b": None}) == {"passed": 0, "total": 1}
    assert take("exact_match", {"b": None}, {"b": None}) == {"passed": 1, "total": 1}
    assert take("edit_similarity", {"a": "x"}, {"a": "x", "b": "y"}) == 0.5
    assert take("contains_expected", {"a": 7}, {"a": "7"}) == {"passed": 0, "total": 1}


@pytest.mark.parametrize(
    "name", [name for name in MEASURES if name not in ("json_schema_valid", "word_budget")]
)
def test_without_outputs_or_expectations_nothing_is_said(name: str) -> None:
    for outputs, expected in (
        (None, {"a": "x"}),
        ({"a": "x"}, None),
        ({"a": "x"}, {}),
        ({"a": "x"}, "x"),
    ):
        assert isinstance(take(name, outputs, expected), Undetermined)
    assert isinstance(take(name, {"a": "x"}, {"a": "x"}, output="b"), Undetermined)


def test_a_schema_is_kept_broken_or_unusable() -> None:
    def valid(schema: Any, outputs: Any) -> Any:
        evidence = read_run(
            Document(run("dag-review", outputs=outputs, output_schema=schema), "test")
        )
        return MEASURES["json_schema_valid"].take(evidence, {})

    assert valid({"type": "object"}, {"a": 1}) == 1
    assert valid({"required": ["b"]}, {"a": 1}) == 0
    assert isinstance(valid({"type": 3}, {"a": 1}), Undetermined)
    assert isinstance(valid(None, {"a": 1}), Undetermined)
    assert isinstance(valid({"type": "object"}, None), Undetermined)
    assert isinstance(take("word_budget", {"answer": "x"}, {}), Undetermined)
    assert isinstance(take("word_budget", {"other": "x"}, {}, words=3), Undetermined)


@given(
    st.dictionaries(st.sampled_from("ab"), st.text(max_size=8) | st.integers(), max_size=2),
    st.dictionaries(st.sampled_from("ab"), st.text(max_size=8), min_size=1),
)
def test_every_raw_score_is_one_its_formula_reads(
    outputs: dict[str, Any], expected: dict[str, Any]
) -> None:
    assume(
        not any(
            "\ud800" <= sign <= "\udfff"
            for text in (*outputs.values(), *expected.values())
            for sign in str(text)
        )
    )
    for name, measure in MEASURES.items():
        if name not in ("json_schema_valid", "word_budget"):
            raw = take(name, outputs, expected)
            if not isinstance(raw, Undetermined):
                assert 0 <= normalise(raw, measure.formula, {}) <= 10**9


def test_advice_is_marked_as_advice_and_every_sheet_is_full() -> None:
    assert {
        name for name, measure in MEASURES.items() if measure.limits.startswith("Advisory only")
    } == ADVISORY
    for measure in TEXT:
        sheet = measure.sheet()
        assert all(
            sheet[key]
            for key in ("title", "unit", "direction", "evidence", "absence", "range", "limits")
        )


def test_contains_expected_looks_only_at_outputs_that_are_expected_of_the_workflow() -> None:
    def found(expected: Any, required: list[str] | None, **params: Any) -> Any:
        tree = run("dag-review", outputs={"answer": "In Oslo."}, expected=expected)
        tree |= {"required_outputs": required, "output_schema": {}}
        evidence = read_run(Document({k: v for k, v in tree.items() if v is not None}, "test"))
        measure = MEASURES["contains_expected"]
        return measure.take(evidence, {**measure.params, **params})

    more = {"answer": "Oslo", "relevant_ids": ["p"], "tool_calls": [{"name": "x"}]}
    assert found({**more, "category": "city"}, ["answer"]) == {"passed": 1, "total": 1}
    assert found(more, []) == found(more, None) == {"passed": 1, "total": 1}
    assert found({**more, "why": "capital"}, []) == {"passed": 1, "total": 2}
    # an output that is due and missing is a miss, not left out
    assert found({**more, "why": "capital"}, ["answer", "why"]) == {"passed": 1, "total": 2}
    assert found({"answer": "Oslo", "why": "capital"}, ["answer"], output="why")["passed"] == 0
    assert isinstance(found({"relevant_ids": ["p"]}, ["answer"]), Undetermined)
