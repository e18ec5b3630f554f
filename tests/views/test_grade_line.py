"""A grade in one line: every place says why a run did not pass in the same words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assay.canon import plain
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.records.grade_line import GradeLine, as_line
from assay.services.grading import Grader
from assay.views import junit, markdown
from assay.views.grade_line import causes, change_text
from assay.views.report import render
from cards import graded
from documents import scorecard
from exported import exported

CARDS = {
    "gates": scorecard(
        {"norm": 1}, hard_gates=dict.fromkeys("abcd", False), gate_reasons={"a": "it leaked"}
    ),
    "floors": scorecard(
        {"norm": 0.9, "critical_floor": {"norm": 0.95}},
        {"norm": 0.8, "critical_floor": {"norm": 0.85}},
    ),
    "score": scorecard({"norm": 0.5}),
    "ungated": scorecard({"norm": 0.9}, hard_gates={}),
}
WHY = {
    "gates": "gates a, b, c and 1 more do not pass",
    "floors": "c0, c1 miss their floors",
    "score": "50.00 is below 70",
    "ungated": "no hard gate",
}
CAUSES = {
    "gates": "gate a failed: it leaked",
    "floors": "c0 is 0.9, 0.05 below its floor of 0.95",
    "score": "50.00 is below 70",
    "ungated": "Grade A, not passed: the score 90.00 reaches the threshold 70.00, but the",
}


def document(*results: dict[str, Any]) -> dict[str, Any]:
    counts = {
        "graded": len(results),
        "failed": len(results),
        "passed": 0,
        "faults": 0,
        "policy": "workflow@1",
        "scoringSystem": "scoringSystem/1.0.0",
        "gradingSystem": "gradingSystem/1.0.0",
    }
    return {"results": list(results), "faults": [], "counts": counts}


@pytest.mark.parametrize("name", CARDS)
def test_a_record_and_its_document_give_the_same_line(name: str) -> None:
    found = graded(CARDS[name])
    line = as_line(found.grade)
    assert line.why == as_line(plain(found.payload())).why == WHY[name]
    assert line.text.endswith(f"FAILED  r-1  {WHY[name]}")


def test_a_line_names_the_criteria_without_a_score() -> None:
    found = graded(scorecard({"norm": 1}, *2 * [{"norm": None, "missing": "it is null"}]))
    why = "33.33 is below 70; c1, c2 are missing"
    assert as_line(found.grade).why == as_line(plain(found.payload())).why == why


@pytest.mark.parametrize("name", CARDS)
def test_markdown_junit_and_the_list_of_causes_say_the_same(name: str) -> None:
    result = plain(graded(CARDS[name]).payload())
    wanted = causes(result)
    assert wanted[0].startswith(CAUSES[name])
    page = exported(markdown.Markdown(), document(result)).decode()
    assert all(cause[:200] in page for cause in wanted[:3])
    case = junit.grade_case(result)
    assert case.message == "; ".join(wanted[:3])
    assert case.lines[1:-1] == wanted


@pytest.mark.parametrize("words", ["gate a does not pass (1)", "c0 misses its floor (1)"])
def test_a_report_counts_the_causes_in_the_words_of_the_line(words: str) -> None:
    results = [plain(graded({**CARDS[name], "run_id": name}).payload()) for name in CARDS]
    page = render(results, title="All", pictures=0)
    assert words in page


def test_the_repr_of_a_grade_names_the_reason_and_can_not_move_the_cursor() -> None:
    shown = repr(graded(scorecard({"norm": 0.5}, run_id="r\x1b[2K\n1")).grade)
    assert shown == "<Grade r\\x1b[2K\\n1: F, 50.00, not passed; the score is below the threshold>"


def test_a_floor_reached_only_by_an_uncalibrated_judge_is_not_called_too_low() -> None:
    finding = {
        "rule": "critical_floors",
        "fired": True,
        "subject": "c0",
        "text": "c0 reaches its floor only through an uncalibrated judge",
    }
    result = plain(graded(CARDS["floors"]).payload()) | {"findings": [finding]}
    assert causes(result) == ["c0 reaches its floor only through an uncalibrated judge"]
    assert "is below its floor" not in exported(markdown.Markdown(), document(result)).decode()


def test_a_line_tells_a_floor_without_a_judge_card_from_one_that_is_missed() -> None:
    cards = scorecard(
        {"norm": 0.9, "critical_floor": {"norm": 0.7}},
        {"norm": 0.5, "critical_floor": {"norm": 0.7}},
    )
    for criterion in cards["criteria"]:
        criterion["source"] = {"kind": "llm", "name": "m-1"}
    grader = Grader(Shelf(), policy="workflow-judged")
    both = grader.grade(Document(cards, "card"))
    reached = "c0 reaches its floor only through an uncalibrated judge"
    for line in (as_line(both.grade), as_line(plain(both.payload()))):
        assert line.why == "c1 misses its floor"
        assert line.counted == [reached, "c1 misses its floor"]
    cards["criteria"].pop()
    assert as_line(grader.grade(Document(cards, "card")).grade).why == reached


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("below_passing_grade", "the policy does not pass this grade"),
        ("something_new", "something_new"),
        (None, "no reason given"),
    ],
)
def test_a_run_that_did_not_pass_never_goes_without_a_reason(reason: Any, words: str) -> None:
    line = GradeLine("r", "D", 75, reason=reason, pass_threshold=70)
    assert (line.why, line.counted, line.because) == (words, [words], words)


def test_half_a_surrogate_pair_in_a_run_id_is_refused_before_a_line_is_made(
    assay: Any, tmp_path: Any
) -> None:
    card = {**CARDS["score"], "run_id": "r-\ud800"}
    (tmp_path / "card.json").write_text(json.dumps(card))
    done = assay("grade", "card.json")
    assert done.code == 3


def test_the_smallest_change_says_what_the_run_needs_to_pass() -> None:
    low = change_text(plain(graded(scorecard({"norm": 0.5})).payload()))
    assert low.startswith("Smallest change for a D: c0 from 0.5 to ")
    assert low.endswith(" To pass, it needs at least a score of 70.")
    floors = scorecard(
        {"norm": 0.6, "critical_floor": {"norm": 0.7}}, {"norm": 0.85}, {"norm": 0.85}
    )
    held = change_text(plain(graded(floors).payload()))
    assert "c0 from 0.6 to 0.7" in held
    assert "To pass" not in held, "then it passes"
    close = change_text(plain(graded(scorecard({"norm": 0.69})).payload()))
    assert "Smallest change for a C" in close
    assert "To pass" not in close, "with a C it would pass"
    passed = change_text(plain(graded(scorecard({"norm": 0.75})).payload()))
    assert "To pass" not in passed


def test_what_a_run_needs_to_pass_includes_a_card_for_its_judge() -> None:
    low = {"norm": 0.2, "critical_floor": {"norm": 0.5}}
    result = plain(graded(scorecard(low)).payload())
    result["criteria"][0]["judge_fault"] = "it has no card"
    assert change_text(result).endswith(
        " To pass, it needs at least an admitted judge card for c0, 0.5 in c0 and a score of 70."
    )
    result["criteria"][0]["norm"], result["weighted_score"] = 1, 100
    assert change_text(result).endswith(" at least an admitted judge card for c0.")


def test_a_failed_gate_or_two_floors_leave_no_doubt_what_the_run_needs_to_pass() -> None:
    low = {"norm": 0.2, "critical_floor": {"norm": 0.7}}
    shut = scorecard(low, {"norm": 0.9}, hard_gates={"clean": False})
    words = change_text(plain(graded(shut).payload()))
    assert words.endswith(
        " still get an F. To pass, it needs at least 0.7 in c0 and a score of 70."
    )
    both = change_text(plain(graded(scorecard(low, low)).payload()))
    assert both.endswith("). To pass, it needs at least 0.7 in c0, 0.7 in c1 and a score of 70.")
    only = change_text(plain(graded(scorecard({"norm": 0.9}, hard_gates={"g": False})).payload()))
    assert only.endswith("this run would get an A.")
