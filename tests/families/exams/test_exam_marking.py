"""Marks, scores and means of exams: what the rubric chapter says, and what no answer may do."""

from __future__ import annotations

import json
import unicodedata
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs, to_builtins

from assay.canon import digest
from assay.cli.conform import differs
from assay.errors import AssayError, InputError
from assay.families.exams import conform, gate
from assay.families.exams.answers import Answer, collect
from assay.families.exams.conform import OPS
from assay.families.exams.exam import Exam, ExamFile, make_exam
from assay.families.exams.marking import (
    MarkedExam,
    Marking,
    grade_exam,
    mark_item,
    median,
    self_test,
)
from assay.families.exams.policy import ExamRules, shown
from assay.families.exams.recalibration import break_step
from assay.families.exams.records import LatencyResult
from assay.families.exams.results import diagnose, exam_result, find_patterns
from assay.families.exams.rules import ExamItem
from assay.files.json_files import Document, parse_json
from assay.library.shelf import Shelf
from assay.scoring.checks import MATCHES, STEPS, Match, Normaliser

MARKING = Marking(Shelf().rubric_of("exam", "tutor@1"))
AXES = ("correctness", "spanish_gloss", "schema", "conciseness")
RULES = ExamRules(Shelf().policy_of("exam", "exam@1"))
SEED_ITEM = ExamItem(
    id="e-39-01",
    prompt="Conjugate 'eat' — past simple, 3rd singular.",
    expected_contains=["ate"],
    gloss_contains=["comió"],
    verb="eat",
    tense="past-simple",
)
STRICT = {
    "type": "object",
    "required": ["correction", "gloss", "explanation"],
    "additionalProperties": False,
    "properties": {key: {"type": "string"} for key in ("correction", "gloss", "explanation")},
}
RIGHT = {"correction": "She ate.", "gloss": "comió", "explanation": "Irregular."}


def bits(response: Any, **changes: Any) -> dict[str, int]:
    item = ExamItem(
        **{
            "id": "i",
            "prompt": "p",
            "expected_contains": ["ate"],
            "gloss_contains": ["comió"],
            **changes,
        }
    )
    marked = mark_item(item, response, MARKING)
    return {axis: int(bool(marked.bits & MARKING.bit[axis])) for axis in AXES}


def exam_of(n: int, **changes: Any) -> Exam:
    items = [
        ExamItem(
            **{
                "id": f"e-{k:03d}",
                "prompt": f"p {k}",
                "expected_contains": ["ate"],
                "gloss_contains": ["comió"],
                **changes,
            }
        )
        for k in range(n)
    ]
    return Exam(
        (ExamFile(exam="x", items=items, answer_schema=STRICT),), (Document(None, "x.yaml"),)
    )


def graded_of(marks: list[int], **changes: Any) -> MarkedExam:
    """An exam whose answers have these marks."""
    items = [
        ExamItem(
            **{
                "id": f"e-{k:03d}",
                "prompt": f"p {k}",
                "expected_contains": ["ate"],
                "gloss_contains": ["comió"],
                **{key: value[k] for key, value in changes.items()},
            }
        )
        for k in range(len(marks))
    ]
    exam = Exam(
        (ExamFile(exam="x", items=items, answer_schema=STRICT),), (Document(None, "x.yaml"),)
    )
    return grade_exam(
        exam,
        {
            item.id: Answer(item.id, response_with(mark))
            for item, mark in zip(items, marks, strict=True)
        },
        MARKING,
    )


def response_with(mark: int) -> dict[str, Any]:
    """A response that earns exactly these marks under the schema of `exam_of`."""
    made: dict[str, Any] = {
        "correction": "ate" if mark & 8 else "eat",
        "gloss": "comió" if mark & 4 else "come",
    }
    if mark & 1:
        made["explanation"] = "short"
    elif mark & 2:
        made["explanation"] = "word " * 31
    return made if mark & 2 else {**made, "extra": 1}


# --- the rubric


@pytest.mark.req("C-004", "C-010", "C-012")
def test_the_weights_are_those_of_the_chapter_and_sum_to_one() -> None:
    assert {axis: shown(Fraction(weight, 10**9)) for axis, weight in MARKING.weights.items()} == {
        "correctness": 0.6,
        "spanish_gloss": 0.25,
        "schema": 0.1,
        "conciseness": 0.05,
    }
    assert sum(MARKING.weights.values()) == 10**9
    assert MARKING.units[MARKING.full] == 10**9
    assert MARKING.units[MARKING.full - MARKING.bit["correctness"]] == 400_000_000
    assert MARKING.units[MARKING.full - MARKING.bit["spanish_gloss"]] == 750_000_000


@pytest.mark.req("C-010", "C-013")
@given(st.lists(st.integers(0, 15), min_size=1, max_size=40))
def test_every_score_is_the_sum_of_its_weighted_parts_and_the_exam_their_mean(
    marks: list[int],
) -> None:
    total = Fraction(0)
    for mark in marks:
        parts = [
            Fraction(MARKING.weights[axis], 10**9) for axis in AXES if mark & MARKING.bit[axis]
        ]
        assert Fraction(MARKING.units[mark], 10**9) == sum(parts, Fraction(0))
        assert 0 <= MARKING.units[mark] <= 10**9
        total += sum(parts, Fraction(0))
    exam = exam_of(len(marks))
    graded = MarkedExam(
        exam,
        MARKING,
        tuple(
            structs.replace(mark_item(item, None, MARKING), bits=mark, units=MARKING.units[mark])
            for item, mark in zip(exam.items, marks, strict=True)
        ),
        {},
        (),
    )
    assert graded.score == total / len(marks)


@pytest.mark.req("C-023")
def test_the_rubric_passes_its_own_test_and_a_broken_one_does_not() -> None:
    assert self_test(MARKING) == []
    for step in MARKING.normal.names:
        assert self_test(MARKING.without(step))


@pytest.mark.req("C-023")
def test_a_rubric_that_accepts_everything_fails_its_own_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(MATCHES, "substring", lambda text, entry: True)
    failed = self_test(MARKING)
    assert {failure["name"] for failure in failed} >= {
        "a wrong form is wrong",
        "an empty answer has no mark",
    }


# --- one item


@pytest.mark.req("C-003", "C-013", "C-014", "X-80")
def test_the_example_of_the_chapter_scores_the_sum_of_its_parts() -> None:
    exam = Exam((ExamFile(exam="seed", items=[SEED_ITEM]),), (Document(None, "seed.yaml"),))
    graded = grade_exam(
        exam,
        {
            "e-39-01": Answer(
                "e-39-01", {"correction": "Ate.", "gloss": "", "explanation": "Irregular."}
            )
        },
        MARKING,
    )
    document = to_builtins(exam_result(graded, RULES))
    assert document["items"] == [
        {
            "item": "e-39-01",
            "prompt": "Conjugate 'eat' — past simple, 3rd singular.",
            "expected": ["ate"],
            "got": "Ate.",
            "score": 0.75,
            "breakdown": {
                "correctness": 1.0,
                "spanish_gloss": 0.0,
                "schema": 1.0,
                "conciseness": 1.0,
            },
            "weighted": {
                "correctness": 0.6,
                "spanish_gloss": 0.0,
                "schema": 0.1,
                "conciseness": 0.05,
            },
        }
    ]
    assert list(document["items"][0]) == [
        "item",
        "prompt",
        "expected",
        "got",
        "score",
        "breakdown",
        "weighted",
    ]
    assert "the gap of 0.25 to 1.0 is entirely spanish_gloss" in document["diagnosis"]


@pytest.mark.req("C-006", "C-018", "C-019", "X-84", "X-85")
@pytest.mark.parametrize("typed", ["ate", "Ate.", "  ATE  ", "She ate", "ate..", "\tAte.\n", "ATE"])
def test_how_an_answer_is_typed_does_not_cost_its_marks(typed: str) -> None:
    assert bits(
        {"correction": typed, "gloss": typed.lower().replace("ate", "COMIÓ"), "explanation": "x"}
    ) == dict.fromkeys(AXES, 1)


@pytest.mark.req("C-018")
@pytest.mark.parametrize(
    ("typed", "mark"),
    [("ate.", 1), ("ate..", 0), ("ate .", 0), (" ate", 1), ("Ate", 1), ("she ate", 0)],
)
def test_exactly_one_period_is_dropped_and_only_after_the_spaces(typed: str, mark: int) -> None:
    assert bits({"correction": typed}, match="exact")["correctness"] == mark


@pytest.mark.req("C-007")
def test_the_gloss_needs_the_inflected_form_with_its_accent() -> None:
    assert bits({"gloss": "ella comió ayer"})["spanish_gloss"] == 1
    assert bits({"gloss": unicodedata.normalize("NFD", "comió")})["spanish_gloss"] == 1
    assert bits({"gloss": "comio"})["spanish_gloss"] == 0
    assert bits({"gloss": "comer"})["spanish_gloss"] == 0
    assert bits({"gloss": 7})["spanish_gloss"] == 0
    assert bits({"gloss": "ha comido"}, gloss_contains=["HA", "comido."])["spanish_gloss"] == 1


@pytest.mark.req("C-018", "X-83")
def test_every_expected_form_must_be_there_and_word_and_exact_are_stricter() -> None:
    assert bits({"correction": "She eaten"}, expected_contains=["has", "eaten"])["correctness"] == 0
    assert bits({"correction": "eaten"})["correctness"] == 1
    assert bits({"correction": "eaten"}, match="word")["correctness"] == 0
    assert bits({"correction": "eaten, ate"}, match="word")["correctness"] == 1
    assert bits({"correction": "ate_"}, match="word")["correctness"] == 0
    assert bits({"correction": "(ate)"}, match="word")["correctness"] == 1
    assert bits({"correction": "She ate"}, match="exact")["correctness"] == 0


@pytest.mark.req("C-008")
def test_the_schema_asks_for_keys_and_types() -> None:
    assert bits(RIGHT)["schema"] == 1
    assert bits({**RIGHT, "explanation": 3}) == {
        "correctness": 1,
        "spanish_gloss": 1,
        "schema": 0,
        "conciseness": 0,
    }
    assert bits({key: value for key, value in RIGHT.items() if key != "gloss"})["schema"] == 0
    strict = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"correction": {"type": "string"}},
    }
    assert (
        mark_item(SEED_ITEM, {"correction": "ate"}, MARKING, schema=strict).bits
        & MARKING.bit["schema"]
    )
    assert not mark_item(SEED_ITEM, RIGHT, MARKING, schema=strict).bits & MARKING.bit["schema"]


@pytest.mark.req("C-008")
@pytest.mark.parametrize(
    "response",
    [
        "She ate (comió)",
        '{"correction": "ate", "gloss": "comió"',
        '["ate", "comió"]',
        ["ate", "comió"],
        '{"a": 1, "a": "ate comió"}',
        "{ate comió}",
    ],
)
def test_what_is_no_object_is_matched_as_a_whole_without_the_marks_for_structure(
    response: Any,
) -> None:
    assert bits(response) == {"correctness": 1, "spanish_gloss": 1, "schema": 0, "conciseness": 0}


def test_a_text_that_holds_an_object_is_that_object() -> None:
    assert bits(json.dumps(RIGHT)) == bits(RIGHT) == dict.fromkeys(AXES, 1)


@pytest.mark.req("C-009", "X-88")
@pytest.mark.parametrize(
    ("explanation", "mark"),
    [
        ("w " * 29, 1),
        ("w " * 30, 1),
        ("w " * 31, 0),
        ("", 0),
        ("  \n", 0),
        (None, 0),
        (["w"], 0),
        ("a\u00a0b", 1),
        ("w\n" * 31, 0),
    ],
)
def test_the_budget_is_thirty_words_and_nothing_explained_is_not_concise(
    explanation: Any, mark: int
) -> None:
    assert bits({**RIGHT, "explanation": explanation})["conciseness"] == mark


@pytest.mark.req("C-005", "C-012")
@given(
    st.one_of(
        st.none(),
        st.text(max_size=60),
        st.integers(),
        st.dictionaries(
            st.sampled_from(["correction", "gloss", "explanation", "x"]),
            st.one_of(st.text(max_size=20), st.none(), st.integers()),
        ),
    )
)
def test_any_response_has_four_binary_marks_and_a_wrong_one_never_more_than_forty(
    response: Any,
) -> None:
    marked = mark_item(SEED_ITEM, response, MARKING)
    assert 0 <= marked.bits <= MARKING.full
    assert marked.units == sum(
        MARKING.weights[axis] for axis in AXES if marked.bits & MARKING.bit[axis]
    )
    if not marked.bits & MARKING.bit["correctness"]:
        assert marked.units <= 400_000_000


@given(st.text(max_size=30))
def test_the_quick_normalisation_is_the_steps_one_after_another(text: str) -> None:
    slow = text
    for step in STEPS.values():
        slow = step.apply(slow)
    assert Normaliser(STEPS)(text) == slow


@given(st.text(alphabet="ab_ .é", max_size=12), st.text(alphabet="abé", min_size=1, max_size=3))
def test_a_word_match_is_a_substring_match_at_the_edges_of_words(text: str, entry: str) -> None:
    places = [k for k in range(len(text)) if text.startswith(entry, k)]
    inside = "abé_"
    assert MATCHES["word"](text, entry) == any(
        (k == 0 or text[k - 1] not in inside)
        and (k + len(entry) == len(text) or text[k + len(entry)] not in inside)
        for k in places
    )
    assert (
        MATCHES["substring"](text, entry)
        >= MATCHES["word"](text, entry)
        >= MATCHES["exact"](text, entry)
    )


def test_the_ways_to_match_are_the_same_in_the_shape_and_in_the_code() -> None:
    assert set(Match.__args__) == set(MATCHES)


# --- exams


@pytest.mark.req("C-001")
def test_a_portal_and_the_exam_runner_get_the_same_marks() -> None:
    exam = exam_of(4)
    responses = [RIGHT, "She ate", {"correction": "eat"}, None]
    graded = grade_exam(
        exam,
        {
            item.id: Answer(item.id, response)
            for item, response in zip(exam.items, responses, strict=True)
        },
        MARKING,
    )
    portal = [
        mark_item(item, response, MARKING, schema=STRICT)
        for item, response in zip(exam.items, responses, strict=True)
    ]
    assert list(graded.marked) == portal


@pytest.mark.req("C-011", "X-92")
def test_two_files_are_one_exam_with_the_mean_over_all_items() -> None:
    one, two = (
        exam_of(3),
        ExamFile(
            exam="y",
            items=[
                ExamItem(id="z", prompt="p", expected_contains=["ate"], gloss_contains=["comió"])
            ],
        ),
    )
    exam = Exam((*one.files, two), (Document(None, "x.yaml"), Document(None, "y.yaml")))
    answers = {item.id: Answer(item.id, RIGHT) for item in one.items}
    answers["z"] = Answer("z", {"correction": "ate"})
    assert grade_exam(exam, answers, MARKING).score == Fraction(36, 40)


@pytest.mark.req("X-93")
def test_an_item_without_an_answer_has_no_marks_and_is_listed() -> None:
    exam = exam_of(4)
    answers = {
        "e-000": Answer("e-000", RIGHT, 10),
        "e-001": Answer("e-001", None, 9999, "timed out"),
    }
    graded = grade_exam(exam, answers, MARKING)
    document = to_builtins(exam_result(graded, RULES))
    assert document["score"] == 0.25
    assert document["missing"] == ["e-001", "e-002", "e-003"]
    assert document["missing_reasons"]["e-001"] == "timed out"
    assert document["items"][1]["got"] is None
    assert set(document["items"][1]["breakdown"].values()) == {0.0}
    assert exam_result(graded, RULES).latency == LatencyResult(p50_ms=10, n=1)


@given(st.lists(st.integers(0, 15), min_size=1, max_size=12), st.data())
def test_forgetting_an_answer_never_raises_the_score(marks: list[int], data: Any) -> None:
    exam = exam_of(len(marks))
    answers = {
        item.id: Answer(item.id, response_with(mark))
        for item, mark in zip(exam.items, marks, strict=True)
    }
    whole = grade_exam(exam, answers, MARKING).score
    del answers[data.draw(st.sampled_from(sorted(answers)))]
    assert grade_exam(exam, answers, MARKING).score <= whole


@given(st.lists(st.integers(0, 15), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_answers_and_items_moves_neither_score_nor_digest(
    marks: list[int], random: Any
) -> None:
    graded = graded_of(marks)
    items = list(graded.exam.items)
    random.shuffle(items)
    other = Exam(
        (ExamFile(exam="x", items=items, answer_schema=STRICT),), (Document(None, "x.yaml"),)
    )
    schema = MARKING.rubric.answer_schema
    assert other.digest(schema) == graded.exam.digest(schema)
    by_id = {one.item.id: one.bits for one in graded.marked}
    again = grade_exam(
        other,
        {item.id: Answer(item.id, response_with(marks[int(item.id[2:])])) for item in items},
        MARKING,
    )
    assert {one.item.id: one.bits for one in again.marked} == by_id
    assert again.score == graded.score


def test_the_axes_of_a_document_account_for_the_whole_gap() -> None:
    document = to_builtins(exam_result(graded_of([15, 11, 7, 0]), RULES))
    lost = sum(Decimal(repr(axis["lost"])) for axis in document["axes"].values())
    assert lost + Decimal(repr(document["score"])) == 1
    assert document["axes"]["spanish_gloss"] == {"mean": 0.5, "lost": 0.125, "zero_items": 2}
    assert document["distribution"] == [
        {"score": 1.0, "items": 1},
        {"score": 0.75, "items": 1},
        {"score": 0.4, "items": 1},
        {"score": 0.0, "items": 1},
    ]
    assert (document["scoringSystem"], document["gradingSystem"]) == (
        "scoringSystem/1.0.0",
        "gradingSystem/1.0.0",
    )


@given(st.lists(st.decimals(0, 10**6, places=3), min_size=1, max_size=9))
def test_the_median_is_exact(values: list[Decimal]) -> None:
    ordered = sorted(map(Fraction, values))
    half = len(ordered) // 2
    expected = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    assert Fraction(median(values)) == expected


# --- diagnosis and patterns


@pytest.mark.req("C-015")
def test_the_diagnosis_names_the_axis_the_count_and_what_the_items_share() -> None:
    tenses = ["past-simple"] * 12 + ["present-simple"] * 28
    graded = graded_of([11] * 12 + [15] * 28, tense=tenses, verb=[f"v{k}" for k in range(40)])
    assert (
        diagnose(graded, RULES)[0] == "spanish_gloss lost 0.25 on 12 of 40 items; all past-simple"
    )
    assert diagnose(graded, RULES)[1] == "the gap of 0.075 to 1.0 is entirely spanish_gloss"
    most = graded_of([11] * 4 + [15] * 4, tense=["a", "a", "a", "b"] * 2, verb=["x"] * 8)
    assert (
        diagnose(most, RULES)[0] == "spanish_gloss lost 0.25 on 4 of 8 items; all of the verb 'x'"
    )
    assert diagnose(graded_of([15, 15]), RULES) == [
        "nothing was lost: every item has all four marks"
    ]
    two = diagnose(graded_of([7, 11, 15]), RULES)
    assert two[0].startswith("correctness lost 0.6 on 1 of 3 items")
    assert (
        two[2]
        == "the gap of 0.283333333 to 1.0 is made of correctness 0.2, spanish_gloss 0.083333333"
    )


@pytest.mark.req("C-017")
def test_an_axis_without_marks_across_the_items_is_systematic() -> None:
    kinds = find_patterns(graded_of([13] * 9 + [15]), RULES)
    assert [(one.kind, one.evidence["axis"], one.evidence["zero_items"]) for one in kinds] == [
        ("axis_zero", "schema", 9)
    ]
    assert "formatter" in kinds[0].hint
    assert find_patterns(graded_of([13] * 8 + [15] * 2), RULES) == []


@pytest.mark.req("C-017", "X-95")
def test_a_verb_whose_items_are_all_wrong_is_mis_learned() -> None:
    graded = graded_of([7, 7, 7, 15, 7, 15], verb=["go", "go", "go", "eat", "eat", "see"])
    found = [one for one in find_patterns(graded, RULES) if one.kind == "verb_zero"]
    assert [(one.evidence["verb"], one.evidence["items"]) for one in found] == [
        ("go", ["e-000", "e-001", "e-002"])
    ]


@pytest.mark.req("C-017")
def test_conciseness_alone_falling_is_a_trend_and_falling_with_the_rest_is_not() -> None:
    alone = graded_of([15] * 10 + [14] * 8 + [15] * 2)
    assert [one.kind for one in find_patterns(alone, RULES)] == ["conciseness_trend"]
    together = graded_of([15] * 10 + [6] * 8 + [15] * 2)
    assert "conciseness_trend" not in [one.kind for one in find_patterns(together, RULES)]
    rising = graded_of([14] * 8 + [15] * 12)
    assert find_patterns(rising, RULES) == []
    assert find_patterns(graded_of([15] * 3 + [14] * 3), RULES) == []


@pytest.mark.req("C-017")
def test_one_item_alone_without_its_mark_points_at_the_normalisation() -> None:
    exam = exam_of(8, expected_contains=["she ate"])
    answers = {
        item.id: Answer(
            item.id, {**RIGHT, "correction": "she  ate" if item.id == "e-003" else "She ate"}
        )
        for item in exam.items
    }
    found = find_patterns(grade_exam(exam, answers, MARKING), RULES)
    assert [
        (one.kind, one.evidence["item"], one.evidence["would_match_without"]) for one in found
    ] == [("outlier_item", "e-003", ["spacing"])]
    assert "but for spacing" in found[0].hint


def test_missing_answers_are_no_pattern_of_the_tutor() -> None:
    exam = exam_of(9, verb="go")
    assert find_patterns(grade_exam(exam, {}, MARKING), RULES) == []


# --- breaking


@pytest.mark.req("C-020")
def test_leaving_out_the_case_step_makes_right_answers_wrong() -> None:
    exam = exam_of(6)
    answers = {
        item.id: Answer(item.id, {"correction": "Ate.", "gloss": "Comió.", "explanation": "x"})
        for item in exam.items
    }
    cascade = break_step(exam, answers, MARKING, "case-fold", RULES)
    assert cascade["score"] == {"before": 1, "after": 0.15, "lost": 0.85}
    assert [(flip["item"], flip["axis"]) for flip in cascade["false_negatives"]] == list(
        product([item.id for item in exam.items], ["correctness", "spanish_gloss"])
    )
    assert cascade["false_positives"] == []


@pytest.mark.req("C-020")
@pytest.mark.parametrize(
    ("step", "got", "match"),
    [
        ("nfc", "comio\u0301", "substring"),
        ("strip", " comió", "exact"),
        ("case-fold", "Comió", "substring"),
        ("trailing-period", "comió.", "exact"),
    ],
)
def test_each_step_that_is_left_out_costs_the_answers_that_need_it(
    step: str, got: str, match: str
) -> None:
    exam = exam_of(1, match=match)
    answers = {"e-000": Answer("e-000", {"correction": "ate", "gloss": got})}
    cascade = break_step(exam, answers, MARKING, step, RULES)
    assert [flip["axis"] for flip in cascade["false_negatives"]] == ["spanish_gloss"]
    for other in set(MARKING.normal.names) - {step}:
        if (step, other) != ("strip", "trailing-period"):
            assert break_step(exam, answers, MARKING, other, RULES)["false_negatives"] == []


# --- conformance and golden inputs


def actual(op: str, given: Any) -> Any:
    try:
        return OPS[op](given)
    except AssayError as error:
        return {"error": error.code}


@pytest.mark.req("C-004", "C-009", "C-011", "C-018", "C-021", "C-022", "C-025", "C-026")
def test_every_exam_vector_is_met(shared: Path) -> None:
    cases = parse_json((shared / "vectors" / "exam.json").read_bytes())
    assert [
        (case["name"], differs(case["expected"], actual(case["op"], case["input"])))
        for case in cases
        if differs(case["expected"], actual(case["op"], case["input"]))
    ] == []
    assert {case["op"] for case in cases} <= set(OPS)


ANY_ERROR = {"error": True}
ODD: list[tuple[str, Any, Any]] = [
    ("capstone.item", {"breakdown": dict.fromkeys(AXES, 0.5)}, {"error": "EXM-009"}),
    ("capstone.item", {"breakdown": dict.fromkeys(AXES, True)}, {"error": "EXM-009"}),
    ("capstone.item", {"breakdown": dict.fromkeys(AXES, "1")}, {"error": "EXM-009"}),
    ("capstone.item", {"breakdown": dict.fromkeys(AXES, Decimal("1.000"))}, {"score": 1}),
    ("capstone.item", {"breakdown": {"correctness": 1}}, ANY_ERROR),
    ("capstone.item", {}, ANY_ERROR),
    ("capstone.match", {"got": "ate", "expected_contains": []}, {"error": "EXM-003"}),
    ("capstone.match", {"got": "ate", "expected_contains": ["."]}, {"error": "EXM-003"}),
    ("capstone.match", {"got": "ate", "expected_contains": [" . "]}, ANY_ERROR),
    ("capstone.match", {"got": "ate", "expected_contains": [3]}, ANY_ERROR),
    ("capstone.match", {"got": None, "expected_contains": ["ate"]}, ANY_ERROR),
    ("capstone.match", {"got": "ATE", "expected_contains": ["  ate. "]}, {"match": 1}),
    ("capstone.match", {"got": "COMIO\u0301", "expected_contains": ["comió"]}, {"match": 1}),
    ("capstone.conciseness", {"words": 30}, {"conciseness": 1}),
    ("capstone.conciseness", {"words": None}, {"conciseness": 0}),
    ("capstone.conciseness", {}, {"conciseness": 0}),
    ("capstone.conciseness", {"words": -1}, ANY_ERROR),
    ("capstone.conciseness", {"words": True}, ANY_ERROR),
    ("capstone.exam", {"scores": []}, {"error": "EXM-004"}),
    ("capstone.exam", {"files": [[], []]}, {"error": "EXM-004"}),
    ("capstone.exam", {"scores": [1, 1.5]}, ANY_ERROR),
    ("capstone.exam", {"scores": [float("nan")]}, ANY_ERROR),
    ("capstone.exam", {}, ANY_ERROR),
    ("capstone.exam", {"scores": [0.1, 0.2]}, {"score": 0.15}),
    ("capstone.gate", {"score": Decimal("0.92")}, {"hard_gate": True, "production_target": False}),
    ("capstone.gate", {"score": Decimal("0.91999999999999999999")}, {"hard_gate": False}),
    ("capstone.gate", {"score": "0.95"}, {"hard_gate": True, "production_target": True}),
    ("capstone.gate", {"score": "NaN"}, ANY_ERROR),
    ("capstone.gate", {}, ANY_ERROR),
    ("capstone.eval_gate", {"baseline": "0.97", "candidate": "0.95"}, {"pass": True}),
    ("capstone.eval_gate", {"baseline": 0.97, "candidate": 0.95}, {"pass": True}),
    ("capstone.eval_gate", {"baseline": "0.97", "candidate": "0.9499999999999"}, {"pass": False}),
    ("capstone.eval_gate", {"baseline": "x", "candidate": "1"}, ANY_ERROR),
    ("capstone.soft", {}, {"warn": False, "blocks": False}),
    ("capstone.soft", {"p50_ms": 250}, {"warn": False}),
    ("capstone.soft", {"p50_ms": Decimal("250.0000001")}, {"warn": True, "blocks": False}),
    ("capstone.soft", {"p50_ms": "lots"}, ANY_ERROR),
    ("capstone.soft", {"regression_score": "0.93", "schema_failures": 0}, {"warn": False}),
]


@pytest.mark.req("C-005", "X-81", "X-87")
@pytest.mark.parametrize(("op", "given_", "expected"), ODD)
def test_odd_inputs_of_the_operations_are_answered(op: str, given_: Any, expected: Any) -> None:
    assert differs(expected, actual(op, given_)) is None


@given(
    st.sampled_from(sorted(OPS)),
    st.dictionaries(
        st.sampled_from(
            [
                "breakdown",
                "got",
                "expected_contains",
                "words",
                "scores",
                "files",
                "score",
                "baseline",
                "candidate",
                "p50_ms",
                "schema_failures",
            ]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=5,
        ),
    ),
)
def test_no_input_makes_an_operation_fall_over(op: str, given_: Any) -> None:
    assert isinstance(actual(op, given_), dict)


def test_the_golden_inputs_are_taken_and_move_when_a_number_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, gates = conform.scoring(), conform.grading()
    assert conform.scoring() == before
    monkeypatch.setattr(gate, "opens", lambda score, rules: score >= Fraction(921, 1000))
    assert conform.grading() != gates
    monkeypatch.setitem(MATCHES, "word", MATCHES["substring"])
    assert conform.scoring() != before


def test_answers_that_python_hands_over_are_held_against_the_exam() -> None:
    lines = [
        Document({"item": "e-000", "response": RIGHT, "latency_ms": float("nan")}, "x"),
        Document({"item": "e-1"}, "x"),
        Document({"item": "e-000"}, "x"),
    ]
    with pytest.raises(InputError) as refused:
        collect(lines, ["e-000"], where="x")
    assert [fault.code for fault in refused.value.faults] == ["EXM-006", "EXM-006", "EXM-006"]


def test_an_exam_without_items_is_no_exam() -> None:
    with pytest.raises(AssayError) as refused:
        make_exam([Document({"exam": "x", "items": []}, "x.yaml")])
    assert (refused.value.code, refused.value.exit_code) == ("EXM-004", 4)


def test_the_digest_of_an_exam_is_that_of_its_canonical_rows_whatever_the_order() -> None:
    schema = {"type": "object", "maximum": 4.0, "const": None}
    items = [
        ExamItem(
            id=name,
            prompt="Größe \U0001f600?",
            expected_contains=["ate", "1.50"],
            gloss_contains=["comió"],
            match=match,
            verb="eat",
        )
        for name, match in (("b", None), ("a", "word"))
    ]
    files = tuple(
        ExamFile(exam="e", items=[item], answer_schema=own)
        for item, own in zip(items, (None, {"type": "null"}), strict=True)
    )
    own = [digest(one).removeprefix("sha256:") for one in ({"type": "null"}, schema)]
    rows = [
        ["a", items[1].prompt, ["ate", "1.50"], ["comió"], "word", own[0]],
        ["b", items[0].prompt, ["ate", "1.50"], ["comió"], None, own[1]],
    ]
    each = {row[0]: digest(row).removeprefix("sha256:")[:32] for row in rows}
    for order in (files, files[::-1]):
        exam = Exam(order, (Document(None, "x"), Document(None, "y")))
        assert exam.item_digests(schema) == each
        assert exam.digest(schema) == digest(["capstone", [["a", each["a"]], ["b", each["b"]]]])


def test_an_answer_that_nests_without_end_has_no_mark_for_its_schema_and_ends_nothing() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    item = exam_of(1).items[0]
    assert (
        not mark_item(
            item, {"correction": "x", "gloss": "y", "explanation": "z", "more": deep}, MARKING
        ).bits
        & MARKING.bit["schema"]
    )
    assert (
        not mark_item(
            item,
            {"correction": "x", "gloss": "y", "explanation": "z", "more": float("nan")},
            MARKING,
        ).bits
        & MARKING.bit["schema"]
    )
    assert (
        mark_item(
            item, {"correction": "x", "gloss": "y", "explanation": "z", "more": [1, None]}, MARKING
        ).bits
        & MARKING.bit["schema"]
    )
