"""Exams of any subject: the table of marking rules, and a maths exam, a code exam and a policy quiz
from the command line.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.families.exams.marking import Marking, mark_item
from assay.families.exams.rubric import load_exam_rubric
from assay.families.exams.rules import RULES, ExamItem
from assay.files.json_files import Document
from assay.files.yaml_files import parse_yaml
from assay.records.reading import read_run
from assay.running.assertions import Assertion, check_assertion
from assay.scoring.metrics import MEASURES
from documents import run as run_document

EXAMS = Path(__file__).parent / "exams"
RIGHT: dict[str, dict[str, Any]] = {
    "maths": {
        "m-1": {"answer": 42, "working": "Add them."},
        "m-2": {"answer": "144", "working": "Square it."},
        "m-3": {"answer": "0.33", "working": "Divide 1 by 3."},
        "m-4": {"answer": 45, "working": "A quarter of 60 is 15."},
        "m-5": {"answer": "10 m²", "working": "Multiply."},
        "m-6": {"answer": "299,792 km/s", "working": "It is a constant."},
    },
    "code": {
        "c-1": "def twice(x): return 2 * x",
        "c-2": "Sure:\n```python\ndef is_even(n):\n    return n % 2 == 0\n```\n",
        "c-3": "def shout(text): return text.upper()",
        "c-4": "def first(items): return items[0] if items else None",
        "c-5": "def total(items): return sum(items)",
        "c-6": "def words(text): return len(text.split())",
    },
    "policy": {
        name: {"choice": choice, "reason": "Please see § 4."}
        for name, choice in zip(
            [f"p-{n}" for n in range(1, 7)],
            ["B", "(b)", "A, B", "A. your manager", "amber", ["A"]],
            strict=True,
        )
    },
}


@pytest.fixture
def exams(tmp_path: Path) -> Path:
    """The exam files, where the commands run."""
    for path in EXAMS.iterdir():
        shutil.copy(path, tmp_path)
    for name, responses in RIGHT.items():
        write(tmp_path, name, responses)
    return tmp_path


def write(folder: Path, name: str, responses: dict[str, Any], *, ms: Any = 100) -> None:
    lines = [
        json.dumps({"item": item, "response": response, "latency_ms": ms})
        for item, response in responses.items()
    ]
    (folder / f"{name}.jsonl").write_text("\n".join(lines))


def graded(assay: Any, name: str, *options: str) -> Any:
    return assay("exam", "grade", f"{name}.yaml", "--answers", f"{name}.jsonl", *options)


@pytest.mark.parametrize(
    "name",
    ["code", *(pytest.param(name, marks=pytest.mark.campaign) for name in RIGHT if name != "code")],
)
def test_an_exam_of_any_subject_is_linted_graded_gated_and_shown(
    assay: Any, exams: Path, name: str
) -> None:
    assert assay("exam", "lint", f"{name}.yaml").code == 0
    outputs = [part for end in ("json", "md", "html", "xml") for part in ("-o", f"r.{end}")]
    done = graded(assay, name, *outputs)
    assert (done.code, done.err) == (0, "".join(f"wrote {path}\n" for path in outputs[1::2]))
    result = json.loads((exams / "r.json").read_text())
    assert (result["score"], result["n"], result["missing"]) == (1, 6, [])
    axes = list(result["axes"])
    assert list(result["items"][0]["breakdown"]) == axes == result["axis_names"]
    for shown in (done.out, (exams / "r.md").read_text()):
        assert axes[0] in shown
        assert "spanish" not in shown
    page = (exams / "r.html").read_text()
    assert axes[0].capitalize() in page
    assert "correction" not in page
    gate = assay("exam", "gate", "r.json", "--exam", f"{name}.yaml", "--json")
    assert gate.code == 0
    assert gate.json()["capstone"]["score"] == 1


def test_wrong_answers_lose_the_right_axis_and_the_diagnosis_names_the_topic(
    assay: Any, exams: Path
) -> None:
    answers = {**RIGHT["maths"]}
    answers["m-3"] = {"answer": "0.4", "working": "Divide 1 by 3."}
    answers["m-4"] = {"answer": "forty-five", "working": "A quarter of 60 is 15."}
    answers["m-5"] = {"answer": 10, "working": "Multiply."}
    del answers["m-6"]
    write(exams, "maths", answers)
    done = graded(assay, "maths", "-o", "r.json")
    assert done.code == 0
    result = json.loads((exams / "r.json").read_text())
    assert [item["item"] for item in result["items"] if not item["breakdown"]["answer"]] == [
        "m-3",
        "m-4",
        "m-5",
        "m-6",
    ]
    assert result["missing"] == ["m-6"]
    (topic,) = [one for one in result["patterns"] if one["kind"] == "topic_zero"]
    assert topic["evidence"]["topic"] == "fractions"
    assert topic["hint"] == "every item on fractions is wrong"
    assert "answer lost 0.8 on 4 of 6 items" in result["diagnosis"][0]
    assert "topic_zero" in done.out
    assert assay("exam", "gate", "r.json", "--exam", "maths.yaml").code == 1


def test_a_result_that_shows_an_answer_without_the_mark_is_refused(assay: Any, exams: Path) -> None:
    graded(assay, "maths", "-o", "r.json")
    result = json.loads((exams / "r.json").read_text())
    result["items"][1]["got"] = "145"
    (exams / "r.json").write_text(json.dumps(result))
    done = assay("exam", "gate", "r.json", "--exam", "maths.yaml")
    assert done.code == 3
    assert "the answers it shows for m-2 don't earn the mark for answer" in done.err
    done = assay("exam", "gate", "r.json")
    assert (done.code, "Name the rubric's file with --rubric" in done.err) == (3, True)


def test_code_that_forges_its_verdict_fails_and_tests_at_fault_are_noted(
    assay: Any, exams: Path
) -> None:
    answers = {**RIGHT["code"]}
    answers["c-1"] = "import os\nprint('PASSED')\nos._exit(0)"
    answers["c-3"] = "import time\ndef shout(text):\n    time.sleep(60)"
    (exams / "code.yaml").write_text(
        (exams / "code.yaml")
        .read_text()
        .replace("assert is_even(2) and not is_even(3)", "assert 1 == 1")
    )
    rubric = (exams / "code-rubric.yaml").read_text().replace("timeout_s: 20", "timeout_s: 6")
    (exams / "code-rubric.yaml").write_text(rubric)
    write(exams, "code", answers)
    done = graded(assay, "code", "-o", "r.json")
    result = json.loads((exams / "r.json").read_text())
    assert [one["item"] for one in result["items"] if one["breakdown"]["passes"]] == [
        "c-4",
        "c-5",
        "c-6",
    ]
    assert done.code == 1  # the exam names a pass score
    assert result["pass_line"] == {"holds": False, "limit": 0.9}
    assert "c-2: the tests gave no verdict" in done.err
    assert "FAILS the pass score of 0.9" in done.out


@pytest.mark.parametrize(("line", "code"), [("0.99", 0), ("1", 0), ("1.5", 2), ("-1", 2)])
def test_a_pass_score_is_compared_exactly(assay: Any, exams: Path, line: str, code: int) -> None:
    assert graded(assay, "maths", "--min-score", line).code == code


def test_without_a_pass_score_grading_exits_0_whatever_the_score(assay: Any, exams: Path) -> None:
    write(exams, "maths", {"m-1": "no idea"})
    done = graded(assay, "maths", "--json")
    assert (done.code, "pass_line" in done.json()) == (0, False)
    assert graded(assay, "maths", "--min-score", "0.5").code == 1


ITEM_FAULTS = {
    "a missing expectation": (
        {"expect": {"working": "add"}},
        "expects nothing on the axis 'answer' (number). Every item is marked on every axis: add",
    ),
    "no expectation at all": ({}, "expects nothing on the axis 'answer'"),
    "an axis that is not there": (
        {"expect": {"answer": 1, "working": "x", "anwser": 2}},
        "no axis of the rubric expects 'anwser'",
    ),
    "a number that is none": (
        {"expect": {"answer": "four", "working": "x"}},
        "must be a number",
    ),
    "a tolerance below zero": (
        {"expect": {"answer": {"value": 1, "tolerance": -1}, "working": "x"}},
        "`tolerance` must be a number of at least 0",
    ),
    "an entry that every answer has": (
        {"expect": {"answer": 1, "working": " . "}},
        "is found in every answer",
    ),
    "two ways to expect": (
        {"expect": {"answer": 1, "working": "x"}, "gloss_contains": ["x"]},
        "`expect` replaces the keys of the verb exam",
    ),
}


@pytest.mark.parametrize("case", ITEM_FAULTS)
def test_an_item_that_the_rubric_cannot_mark_is_refused(assay: Any, exams: Path, case: str) -> None:
    changes, words = ITEM_FAULTS[case]
    tree = {
        "exam": "x",
        "rubric": "maths-rubric.yaml",
        "items": [{"id": "i", "prompt": "p", "tags": {"topic": "t"}, **changes}],
    }
    (exams / "x.json").write_text(json.dumps(tree))
    (exams / "x.jsonl").write_text("")
    done = assay("exam", "grade", "x.json", "--answers", "x.jsonl")
    assert done.code == 3
    assert words in done.err
    assert assay("exam", "lint", "x.json").code == 3


RUBRIC_FAULTS = {
    "kind: length": ("kind: [length]", "there is no rule '['length']'."),
    "kind: number": ("kind: nubmer", "there is no rule 'nubmer'. Did you mean 'number'?"),
    "max_words: 12": ("max_word: 12", "max_word"),
    "max_words: 12}": ("}", "needs `max_words`, `min_words` or `max_characters`"),
    "tag: topic, min_items: 2": ("min_items: 2", "`tag` belongs to 'tag_zero'"),
    "weight: 0.8": ("weight: 0.7", "the weights sum to 0.9"),
    "rule: {kind: schema}": ("definition2: x", "definition2"),
    "hints: {format:": ("hints: {fromat:", "no axis is named 'fromat'. Did you mean 'format'?"),
    "expect: {answer: 4, working: add}": ("expect: {answer: 4}", "expects nothing on the axis"),
    "answer_schema:\n  type: object\n  required: [answer, working]\n": (
        "",
        "there is no `answer_schema`",
    ),
}


@pytest.mark.parametrize("old", RUBRIC_FAULTS)
def test_a_rubric_that_is_at_fault_is_refused_with_the_near_miss(
    assay: Any, exams: Path, old: str
) -> None:
    new, words = RUBRIC_FAULTS[old]
    path = exams / "maths-rubric.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    done = graded(assay, "maths")
    assert done.code == 3
    assert words in done.err


def test_lint_finds_traps_of_every_kind_of_rule(assay: Any, exams: Path) -> None:
    (exams / "policy.yaml").write_text(
        (exams / "policy.yaml").read_text().replace("B) ten years", "B) 10 years")
    )
    assert "[option-not-in-prompt]" in assay("exam", "lint", "policy.yaml").out
    (exams / "code.yaml").write_text(
        (exams / "code.yaml").read_text().replace("return x + x", "return x")
    )
    assert "[solution-fails]" in assay("exam", "lint", "code.yaml").out
    rubric = (exams / "maths-rubric.yaml").read_text().replace("max_words: 12", "max_words: 1")
    (exams / "maths-rubric.yaml").write_text(rubric)
    done = assay("exam", "lint", "maths.yaml")
    assert done.code == 3
    assert "[rubric-self-test]" in done.out


# --- the rules, one by one


def mark(rule: dict[str, Any], want: Any, response: Any, **more: Any) -> int:
    """The mark of a rubric with one axis."""
    item = ExamItem(id="i", prompt="p", expect={} if want is None else {"a": want}, **more)
    return mark_item(item, response, marking_of(rule, want, **more)).bits


def marking_of(rule: dict[str, Any], want: Any, **more: Any) -> Marking:
    tree = {
        "rubric_id": "r",
        "version": 1,
        "family": "exam",
        "title": "t",
        "axes": {"a": {"weight": 1, "definition": "d", "rule": rule}},
        "self_test": [
            {
                "name": str(mark),
                "response": "",
                "breakdown": {"a": mark},
                **({} if want is None else {"expect": {"a": want}}),
                **more,
            }
            for mark in (0, 1)
        ],
    }
    return Marking(load_exam_rubric(parse_yaml(json.dumps(tree).encode(), "r.yaml")))


@pytest.mark.parametrize(
    ("want", "got", "right"),
    [
        (42, "42", 1),
        (42, "42.0", 1),
        (42, 42, 1),
        (42, "The answer is 42", 0),
        (42, "42 or 43", 0),
        (42, "1,000", 0),
        (1000, "1,000", 1),
        (-3, "\u22123", 1),
        (0.1, "1e-1", 1),
        (42, True, 0),
        (42, None, 0),
        (42, "NaN", 0),
        ({"value": 10, "unit": "m"}, "10 m", 1),
        ({"value": 10, "unit": "m"}, "10 m.", 1),
        ({"value": 10, "unit": "m"}, "10", 0),
        ({"value": 10, "unit": "m"}, "10 cm", 0),
        ({"value": 10, "unit": "m"}, 10, 0),
        (10, "10 m", 0),
        ({"value": 0.3, "tolerance": 0.1}, "0.4", 1),
        ({"value": 0.3, "tolerance": 0.1}, "0.4000000001", 0),
        ({"value": 200, "relative": 0.01}, "198", 1),
        ({"value": 200, "relative": 0.01}, "197.9", 0),
    ],
)
def test_a_number_is_compared_exactly_with_its_unit(want: Any, got: Any, right: int) -> None:
    assert mark({"kind": "number", "reads": "x"}, want, {"x": got}) == right


@pytest.mark.parametrize(
    ("want", "got", "why"),
    [
        (3.5, "3,5", ["it has a decimal comma"]),
        (12345.5, "12.345,5", ["it has a decimal comma"]),
        ({"value": 3.5, "unit": "m"}, "3,5 m", ["it has a decimal comma"]),
        ({"value": 3.5, "unit": "m"}, "3.5 metres", ["its unit isn't written 'm'"]),
        ({"value": 10, "unit": "m"}, "10", ["its unit isn't written 'm'"]),
        (10, "10 m", ["there is other text around it"]),
        (3.5, "3,6", []),
        ({"value": 3.5, "unit": "m"}, "4 metres", []),
        (3.5, "I don't know", []),
    ],
)
def test_a_right_number_that_is_not_read_is_noted(want: Any, got: Any, why: list[str]) -> None:
    notes: list[str] = []
    marking = marking_of({"kind": "number"}, want)
    item = ExamItem(id="i", prompt="p", expect={"a": want})
    (ready,) = marking.prepare([item], None, notes.append)
    assert marking.mark(ready, got).bits == 0
    assert [words in note for words, note in zip(why, notes, strict=True)] == [True] * len(why)


@pytest.mark.parametrize(
    ("text", "reads"),
    [("1,000", 1), ("\u22125", 1), ("5.", 1), ("0.1e1", 1), ("1_000", 0), ("5 km", 0), ("1,5", 0)],
)
def test_an_exam_an_assertion_and_a_measure_read_the_same_numbers(text: str, reads: int) -> None:
    number = {"1,000": 1000, "\u22125": -5, "5.": 5}.get(text, 1)
    assert mark({"kind": "number"}, number, text) == reads
    held = check_assertion(Assertion(number=number), {"answer": text}).holds
    assert held is (True if reads else None)
    tree = run_document("dag-review", outputs={"answer": text}, expected={"answer": number})
    run = read_run(Document(tree, "run"))
    assert MEASURES["numeric_close"].take(run, {}) == {"passed": reads, "total": 1}


def test_the_last_number_of_a_text_counts_where_the_rule_says_so() -> None:
    rule = {"kind": "number", "take": "last"}
    assert mark(rule, 42, "First 6 times 7, so the answer is 42.") == 1
    assert mark(rule, 6, "First 6 times 7, so the answer is 42.") == 0
    assert mark(rule, {"value": 42, "unit": "m2"}, "It has 42 m2.") == 1
    assert mark(rule, {"value": 42, "unit": "m"}, "It has 42 mm.") == 0


@pytest.mark.parametrize(
    "got",
    [
        *("5%", "5 %", "5°C", "5 °C", "5 km", "$5", "€ 5", "5$", "5'", "**5** km", "5²", "5 / x"),
        *("\u20135", "\u22125", "10-5", "10 \u2013 5", "x-5", "1,5", "7/5", "7 / 5", "5:5", "2^5"),
        *("2**5", "1 5", "5.5.5", "x+5", "not 5 but .5", "3—5"),
    ],
)
def test_a_part_of_a_number_or_a_unit_not_asked_for_earns_nothing(got: str) -> None:
    assert mark({"kind": "number", "take": "last"}, 5, got) == 0


@pytest.mark.parametrize(
    "got",
    [
        *("5", "It is 5.", "**5**", "x = 5!", "$5$", "$x = 5$.", "(5)", '"5."', "\\boxed{5}"),
        *(
            "<answer>5</answer>",
            "5, since two and three",
            "5\nDone.",
            "2 + 3 = 5",
            "- 5",
            "Answer \u2013 5",
        ),
    ],
)
def test_a_number_is_found_in_the_ways_people_write_it(got: str) -> None:
    assert mark({"kind": "number", "take": "last"}, 5, got) == 1


@pytest.mark.parametrize(
    ("got", "right"),
    [
        ("5 m", 1),
        ("5 m, as seen", 1),
        ("**5 m** wide", 1),
        ("**5** m", 1),
        ("5 m not", 1),
        ("5 m/s", 0),
        ("5 m / s", 0),
        ("5 m^2", 0),
        ("5 m²", 0),
        ("5 M", 0),
        ("5", 0),
    ],
)
def test_a_unit_ends_where_the_expected_one_ends(got: str, right: int) -> None:
    assert mark({"kind": "number", "take": "last"}, {"value": 5, "unit": "m"}, got) == right


@pytest.mark.parametrize("take", ["whole", "last"])
def test_a_rule_may_take_any_unit(take: str) -> None:
    rule = {"kind": "number", "take": take, "any_unit": True}
    for got in ("5", "5%", "5 km/h.", "5 °C"):
        assert mark(rule, 5, got) == 1
    for got in ("6 km", "7/5", "5/7"):
        assert mark(rule, 5, got) == 0
    assert mark(rule, {"value": 5, "unit": "m"}, "5 km") == 0
    assert mark({**rule, "reads": "x"}, 5, {"x": {"value": 5, "unit": "km"}}) == 1


@pytest.mark.parametrize(
    ("got", "right"),
    [
        ("B", 1),
        ("b)", 1),
        ("(B)", 1),
        ("B. Paris", 1),
        ("paris", 1),
        ("Berlin", 0),
        ("B or C", 0),
        ("A, B", 0),
        (["B"], 1),
        (["A", "B"], 0),
        ([], 0),
        ("", 0),
        (2, 0),
        (10**5000, 0),
        (None, 0),
    ],
)
def test_a_choice_is_exactly_the_right_option(got: Any, right: int) -> None:
    options = {"A": "Rome", "B": "Paris", "C": "Berlin"}
    assert mark({"kind": "choice", "reads": "x"}, "B", {"x": got}, options=options) == right


@pytest.mark.parametrize(
    ("options", "want", "wrong", "right"),
    [
        (["5", "-5"], "-5", "5", "-5"),
        (["5", "-5"], "B", "A. 5", "-5"),
        (["5", "-5"], "-5", "B. 5", "B. -5"),
        (["(0, 1)", "[0, 1]"], "[0, 1]", "(0, 1)", "[0,  1]"),
        (["5", ".5"], ".5", "5", ".5"),
        (["mW", "MW"], "MW", "mW", "MW"),
        (["mW", "MW"], "mW", "Mw", "(a)"),
        ({"1": "5", "2": ".5"}, "5", "1.5", "1. 5"),
        (["cafe\u0301", "cafe"], "A", "cafe", "CAF\u00c9."),
        (["x", "y"], "A", "A or B", "A:"),
        ([".", ","], ".", "", "."),
        (["x", "y"], ["A", "B"], "A or B", "x, (B)"),
        ([str(n) for n in range(100, 130)], "129", "A", "AD"),
    ],
)
def test_no_option_is_taken_for_another(options: Any, want: Any, wrong: str, right: str) -> None:
    rule = {"kind": "choice", "reads": "x"}
    assert mark(rule, want, {"x": wrong}, options=options) == 0
    assert mark(rule, want, {"x": right}, options=options) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["B", "C"], "'B' matches the options A and B"),
        (["x", " x "], "matches the options A and B"),
        (["é", "e\u0301"], "matches the options A and B"),
        (["x", "(a)"], "'(a)' matches the options A and B"),
        ({"a": "x", "A": "y"}, "matches the options a and A"),
        ({"A": "x", "B": "A. x"}, "'A. x' matches the options A and B"),
        (["x", ""], "an option has an empty key or text"),
        ({str(n): f"n{n}" for n in range(101)}, "over 100 options"),
    ],
)
def test_options_that_can_be_mistaken_for_each_other_are_refused(
    assay: Any, exams: Path, options: Any, words: str
) -> None:
    want = next(iter(options)) if isinstance(options, dict) else "A"
    item = {"id": "i", "prompt": "p", "options": options, "expect": {"choice": want}}
    tree = {"exam": "x", "rubric": "policy-rubric.yaml", "items": [item]}
    (exams / "x.json").write_text(json.dumps(tree))
    (exams / "x.jsonl").write_text("")
    done = assay("exam", "grade", "x.json", "--answers", "x.jsonl")
    assert (done.code, words in done.err) == (3, True), done.err
    done = assay("exam", "lint", "x.json")
    assert (done.code, words in done.out) == (3, True), done.out


@pytest.mark.parametrize(
    ("rule", "want", "response", "right"),
    [
        ({"kind": "contains"}, ["a", "b"], "A and B", 1),
        ({"kind": "contains"}, ["a", "z"], "A and B", 0),
        ({"kind": "contains", "of": "any"}, ["a", "z"], "A and B", 1),
        ({"kind": "contains", "reads": "x"}, "a", {"y": "a"}, 0),
        ({"kind": "word"}, "ate", "eaten", 0),
        ({"kind": "word"}, "ate", "She ate.", 1),
        ({"kind": "exact"}, ["yes", "yep"], "Yep.", 1),
        ({"kind": "exact"}, "yes", "yes sir", 0),
        ({"kind": "regex"}, "^[0-9]{4}$", "2026", 1),
        ({"kind": "regex"}, "^[0-9]{4}$", "20261", 0),
        ({"kind": "length", "max_words": 2}, None, "one two", 1),
        ({"kind": "length", "max_words": 2}, None, "one two three", 0),
        ({"kind": "length", "min_words": 2}, None, "one", 0),
        ({"kind": "length", "max_characters": 3}, None, "abcd", 0),
        ({"kind": "length", "max_words": 2}, None, "", 0),
        ({"kind": "latency", "max_ms": 10}, None, "fast, says nobody", 0),
        ({"kind": "schema", "schema": {"required": ["a"]}}, None, '{"a": 1}', 1),
        ({"kind": "schema", "schema": {"required": ["a"]}}, None, "a", 0),
    ],
)
def test_each_rule_gives_the_mark_or_not(
    rule: dict[str, Any], want: Any, response: Any, right: int
) -> None:
    assert mark(rule, want, response) == right


def test_a_pattern_without_an_end_costs_no_more_than_its_budget() -> None:
    assert mark({"kind": "regex"}, "(a+)+$", "a" * 5000 + "b") == 0


@given(st.sampled_from(sorted(RULES)), st.one_of(st.text(), st.dictionaries(st.text(), st.text())))
def test_no_response_makes_a_rule_fall_over(kind: str, response: Any) -> None:
    wants = {"number": 1, "choice": "A", "code": None}
    rule: dict[str, Any] = {"kind": kind}
    rule |= {"length": {"max_words": 3}, "latency": {"max_ms": 1}}.get(kind, {})
    if kind == "code":
        return
    if kind == "schema":
        rule["schema"] = {"required": ["zz"]}
    want = (
        None if kind in ("length", "latency", "schema") else wants.get(kind, "never-there-\u2603")
    )
    more = {"options": {"A": "x1", "B": "x2"}} if kind == "choice" else {}
    assert mark(rule, want, response, **more) in (0, 1)
