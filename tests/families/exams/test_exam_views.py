"""A graded exam for people: on the terminal, as Markdown, and its gate in words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from assay.families.exams.gate import decide
from assay.families.exams.results import check_result
from assay.families.exams.views import exam_lines, exam_markdown, exam_view, gate_lines, gate_rows
from test_charts import exam, hostile_exam
from test_exam_marking import MARKING, RULES
from test_markdown import HOSTILE, check_safe, tables


@pytest.mark.req("C-017")
def test_markdown_shows_each_axis_as_a_bar_the_patterns_and_the_items_that_lost() -> None:
    page = exam_markdown(exam())
    assert page.startswith("## Assay: exam score 0.88 over 20 items, 0 without an answer\n")
    assert "correctness    █████████████████░░░  17 of 20, lost 0.09\n" in page
    for pattern in exam().patterns:
        assert f"- pattern `{pattern.kind}`: " in page
    assert tables(page)[0][:2] == [
        ["item", "score", "lost", "got"],
        ["e-000", "0.4", "correctness", str(exam().items[0].got)],
    ]
    assert "No pattern found in 20 items." in exam_markdown(replace(exam(), patterns=[]))
    assert "more that lost something." in exam_markdown(exam(), rows=1)


def test_the_terminal_shows_the_diagnosis_the_patterns_and_what_graded_it() -> None:
    shown = "\n".join(exam_lines(exam()))
    assert all(sentence in shown for sentence in exam().diagnosis)
    assert all(f"pattern {one.kind}: {one.hint}" in shown for one in exam().patterns)
    assert shown.endswith(
        "rubric tutor@1 · marked under exam@1 · scoringSystem/1.0.0 · gradingSystem/1.0.0"
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_an_exam_is_shown_as_text(text: str) -> None:
    check_safe(exam_markdown(hostile_exam(text)))


@pytest.mark.parametrize("poison", ["\x1b[2Jx", "a\nb", "\u202ex"])
def test_no_text_moves_the_cursor(poison: str) -> None:
    lines = list(exam_lines(hostile_exam(poison)))
    assert not any(set(line) & set("\x1b\n\u202e") for line in lines)


def test_a_gate_that_failed_reads_as_failed() -> None:
    gate = decide(check_result(exam(), MARKING, where="x.json"), RULES)
    assert not gate.passed
    assert gate_rows(gate)[0][:3] == ("Hard gate on the capstone exam", "fails", "blocks")
    shown = "\n".join(gate_lines(gate))
    assert "the capstone score 0.88 is below the hard gate of 0.92" in shown
    assert "Production target: fails, score 0.88, at least 0.95 (does not block)" in shown


def test_an_item_shows_what_it_lost_and_what_that_cost() -> None:
    rows = {row.result.item: row.why for row in exam_view(exam()).items}
    assert rows["e-000"].startswith("-0.6 correctness  (expected ")
    assert rows["e-003"] == ""


def test_what_a_mark_is_worth_is_told_also_where_no_item_has_it() -> None:
    lost = [replace(item, got=None) for item in exam().items]
    assert exam_view(replace(exam(), items=lost)).weights == exam_view(exam()).weights
