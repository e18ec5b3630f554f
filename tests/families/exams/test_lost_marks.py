"""Why marks were lost: what each rule asks for and what an answer gave, in words."""

from __future__ import annotations

from typing import Any

import pytest

from assay.families.exams.answers import Answer
from assay.families.exams.exam import make_exam
from assay.families.exams.marking import Marking, grade_exam, lost_marks
from assay.families.exams.policy import ExamRules
from assay.families.exams.results import exam_result
from assay.families.exams.rubric import ExamRubric
from assay.families.exams.views import exam_page, exam_view, lost_section
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from stocked import answers, exam

SHELF = Shelf()


def graded(given: list[dict[str, Any]], **changes: Any) -> tuple[Any, ...]:
    made = make_exam([Document({**exam(), **changes}, "exam.json")])
    rubric = SHELF.rubric_of("exam", "tutor@1")
    assert isinstance(rubric, ExamRubric)
    marking = Marking(rubric)
    by_item = {one["item"]: Answer(one["item"], one["response"]) for one in given}
    rules = ExamRules(SHELF.policy_of("exam", "exam@1"))
    return exam_result(grade_exam(made, by_item, marking), rules), made, by_item, marking


def test_each_lost_mark_says_what_was_expected_and_what_was_given() -> None:
    given = answers(wrong_verb="go", no_gloss=True, lost=(3,))
    given[1]["response"] = "He went1 there."
    given[2]["response"] = {**given[2]["response"], "gloss": 7}
    result, *rest = graded(given)
    found = {
        (mark.item, mark.axis): (mark.expected, mark.given) for mark in lost_marks(result, *rest)
    }
    assert len(found) == sum(len(item.lost) for item in result.items)
    assert found["i-0", "correctness"] == ("contains “went0”", "He goed there.")
    assert found["i-0", "spanish_gloss"] == ("contains “fue0”", "")
    assert found["i-0", "conciseness"] == (
        "explanation has at most 30 words",
        "90 words, 449 characters",
    )
    assert found["i-1", "schema"] == (
        "a JSON object that matches the answer schema",
        "not a JSON object",
    )
    _, why = found["i-2", "schema"]
    assert "gloss" in why
    assert "string" in why
    assert found["i-3", "correctness"] == ("contains “went3”", "")


def test_every_kind_of_rule_words_what_it_asks_for() -> None:
    from msgspec import convert

    from assay.families.exams.rules import RULES, parsed

    rubric = SHELF.rubric_of("exam", "tutor@1")
    assert isinstance(rubric, ExamRubric)
    setting = Marking(rubric).setting()
    response = parsed({"text": "a b c"}, 812)
    cases: dict[str, tuple[dict[str, Any], Any, str, str]] = {
        "contains": ({"reads": "text", "of": "any"}, ["x", "y"], "contains “x” or “y”", "a b c"),
        "word": ({"reads": "text"}, "x", "contains as whole words “x”", "a b c"),
        "exact": ({"reads": "text"}, ["x", "y"], "is “x” or “y”", "a b c"),
        "regex": ({"reads": "text"}, ["^x", "y$"], "matches /^x/ and /y$/", "a b c"),
        "length": (
            {"reads": "text", "max_words": 2, "max_characters": 9},
            None,
            "text has at most 2 words, at most 9 characters",
            "3 words, 5 characters",
        ),
        "number": (
            {"reads": "text", "tolerance": 1},
            {"value": 5, "unit": "km"},
            "5 km ± 1",
            "a b c",
        ),
        "choice": ({"reads": "text"}, ["A", "C"], "A, C", "a b c"),
        "schema": (
            {"schema": {"type": "object", "required": ["other"]}},
            None,
            "a JSON object that matches the answer schema",
            "other",
        ),
        "latency": ({"max_ms": 500}, None, "answered within 500 ms", "812 ms"),
        "code": (
            {"reads": "text"},
            {"tests": "assert f()", "entry_point": "f"},
            "f passes its tests",
            "a b c",
        ),
    }
    assert set(cases) == set(RULES), "a rule without words"
    for kind, (settings, want, asked, given) in cases.items():
        rule = convert(settings, RULES[kind])
        assert rule.asks(want) == asked
        assert given in rule.gives(response, setting), kind


def test_the_page_has_a_row_for_each_lost_mark_and_narrows_down_to_an_axis() -> None:
    result, *rest = graded(answers(wrong_verb="go", no_gloss=True, lost=(3,)))
    lost = lost_marks(result, *rest)
    view = exam_view(result)
    everything = lost_section(view, lost, here="/exams/x")
    one = lost_section(view, lost, here="/exams/x", axis="schema")
    chips, table = everything.parts[0].parts
    assert [chip.n for chip in chips.chips] == [len(lost), 4, 12, 1, 4]
    assert len(table.rows) == len(lost)
    (row,) = one.parts[0].parts[1].rows
    assert row[1:] == [
        "Schema",
        "−0.1",
        "a JSON object that matches the answer schema",
        "no answer",
    ]
    assert "He goed there." in exam_page(result, lost=lost)


def test_without_the_answers_the_result_says_what_it_knows() -> None:
    result, *_ = graded(answers(wrong_verb="go", no_gloss=True))
    rows = {
        (str(row[0])[:3], row[1]): row[3:]
        for row in lost_section(exam_view(result), []).parts[0].rows
    }
    assert rows["i-0", "Correctness"] == ["went0", "He goed there."]
    assert rows["i-0", "Spanish gloss"] == ["see the rubric", "the answers are not stored"]


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", "\u202eevil"])
def test_what_was_answered_is_text(hostile: str) -> None:
    given = answers()
    given[0]["response"]["correction"] = hostile
    result, *rest = graded(given)
    page = exam_page(result, lost=lost_marks(result, *rest))
    assert hostile not in page
