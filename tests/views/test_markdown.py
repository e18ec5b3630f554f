"""Markdown for people in a hurry: the verdict first, and no text from evidence that does anything
but stand there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import assay as product
from assay.errors import printable
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.records.decision import ContractChange, Decision
from assay.records.samples import SampleAnswer, SampleTexts
from assay.records.summary import ValueInterval
from assay.services.grading import Grader
from assay.services.payload import payload
from assay.views import markdown, pieces
from assay.views.decision import LISTED, OUTCOMES, TEXT, decision_summary, outcome_word
from assay.views.exporters import ResultSource
from assay.views.markdown import MAX_TEXT, cell_code, code, view
from decisions import confirmation, decided, decision, suspect
from documents import scorecard
from exported import exported

markdown_it = pytest.importorskip(
    "markdown_it",
    reason="a renderer of GitHub's Markdown is not at hand: pip install markdown-it-py",
)
RENDERER = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table")
ALLOWED = {
    *(
        "heading_open",
        "heading_close",
        "paragraph_open",
        "paragraph_close",
        "inline",
        "text",
        "strong_open",
        "strong_close",
        "code_inline",
        "fence",
    ),
    *(
        f"{name}_{end}"
        for name in ("table", "thead", "tbody", "tr", "th", "td")
        for end in ("open", "close")
    ),
    *("bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"),
}


def tokens(page: str) -> list[Any]:
    """Every token of the page, inline ones too."""
    return [token for block in RENDERER.parse(page) for token in (block, *(block.children or ()))]


def tables(page: str) -> list[list[list[str]]]:
    """The tables of a page as a renderer sees them: what stands in code in each cell is its
    text.
    """
    found: list[list[list[str]]] = []
    for token in RENDERER.parse(page):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and found and found[-1] and token.level > 3:
            found[-1][-1].append("".join(child.content for child in token.children))
    return [[row for row in table if row] for table in found]


def check_safe(page: str) -> None:
    """Nothing in the page but what we put there, and no text outside of code that a code host would
    turn into something.
    """
    for token in tokens(page):
        assert token.type in ALLOWED | {"softbreak"}, (token.type, token.content)
        if token.type == "text":
            assert not set("@#<>[]`\\") & set(token.content), token.content
            assert "://" not in token.content
            assert "www." not in token.content


def document(*cards: dict[str, Any], faults: tuple[Any, ...] = ()) -> dict[str, Any]:
    results = [payload(product.grade(card)) for card in cards]
    passed = sum(one["passed"] for one in results)
    counts = {
        "documents": len(results),
        "graded": len(results),
        "passed": passed,
        "failed": len(results) - passed,
        "faults": len(faults),
        "grades": {letter: sum(one["grade"] == letter for one in results) for letter in "ABCDF"},
        "policy": "workflow@1",
        "scoringSystem": "scoringSystem/1.0.0",
        "gradingSystem": "gradingSystem/1.0.0",
    }
    return {
        "schema": "assay.grades/1",
        "results": results,
        "faults": list(faults),
        "counts": counts,
    }


def cards(norms: list[float]) -> list[dict[str, Any]]:
    return [scorecard({"norm": norm}, run_id=f"r-{index}") for index, norm in enumerate(norms)]


# --- grades


def grades_page(document: Any, rows: int = markdown.ROWS) -> str:
    return exported(markdown.Markdown(rows), document).decode()


def test_the_verdict_comes_first_and_then_the_failed_runs() -> None:
    page = grades_page(document(*cards([0.95, 0.5, 0.9, 0.4])))
    assert page.startswith(
        "## Assay: not passed\n\n**2 of 4 runs did not pass.** The gate is closed.\n"
    )
    ((head, *rows),) = tables(page)
    assert head == ["run", "grade", "score", "why"]
    assert rows == [
        ["r-1", "F", "50.00", "50.00 is below 70"],
        ["r-3", "F", "40.00", "40.00 is below 70"],
    ]
    assert all(
        name in page for name in ("`workflow@1`", "`scoringSystem/1.0.0`", "`gradingSystem/1.0.0`")
    )


def test_only_a_clean_set_of_passes_says_passed() -> None:
    fault = {"file": "x.jsonl", "line": 7, "code": "FIL-002", "path": "", "message": "not JSON."}
    assert grades_page(document(*cards([0.9, 0.9]))).startswith(
        "## Assay: passed\n\n**All 2 runs passed.**"
    )
    assert grades_page(document(*cards([0.9]), faults=(fault,))).startswith(
        "## Assay: not passed\n\n**1 fault in the input.** The gate is closed."
    )
    assert grades_page(document()).startswith("## Assay: nothing was graded\n\nThe gate is closed.")
    assert "- `x.jsonl` line 7: `not JSON.`" in grades_page(document(faults=(fault,)))


def test_the_reasons_name_gates_floors_and_missing_scores() -> None:
    card = scorecard(
        {"norm": 0.5, "critical_floor": {"norm": 0.9}},
        {"norm": None, "missing": "the judge timed out"},
        hard_gates={"a": None},
        gate_reasons={"a": "nobody looked"},
    )
    ((_, row),) = tables(grades_page(document(card)))
    assert (
        row[3]
        == "gate a is undetermined: nobody looked; c0 is 0.5, 0.4 below its floor of 0.9; c1 has"
        " no score and counts as 0: the judge timed out; and 1 more"
    )


def test_a_long_set_is_cut_and_says_how_many_more_there_are() -> None:
    page = grades_page(document(*cards([0.5] * 7 + [0.9] * 13)), rows=5)
    ((_, *rows),) = tables(page)
    assert [row[0] for row in rows] == [f"r-{index}" for index in range(5)]
    assert "… and 2 more that did not pass." in page
    assert "more" not in grades_page(document(*cards([0.5] * 7 + [0.9] * 13)), rows=20)


@pytest.mark.parametrize("rows", [1, 3, 50])
@given(st.lists(st.sampled_from([0.5, 0.9]), max_size=12))
def test_only_runs_that_failed_have_a_row(rows: int, norms: list[float]) -> None:
    page = grades_page(document(*cards(norms)), rows=rows)
    shown = [row[0] for table in tables(page) for row in table[1:]]
    failed = [f"r-{index}" for index, norm in enumerate(norms) if norm == 0.5]
    assert shown == failed[:rows]


def test_the_size_of_the_page_is_bounded() -> None:
    many = cards([0.1] * 100)
    for card in many:
        card["hard_gates"] = {f"gate{index}": False for index in range(50)}
        card["gate_reasons"] = {f"gate{index}": "x" * 5000 for index in range(50)}
    assert len(grades_page(document(*many))) < 65_000, (
        "a comment on a code host may have 65,536 signs"
    )


def ran(index: int, text: str, *, attempt: int = 1) -> dict[str, Any]:
    """A run that fails, with the text everywhere."""
    return {
        "schema": "assay.run/1",
        "run_id": f"r-{index}-{attempt}",
        "workflow": {"id": "w", "version": "1", "family": "rag", "profile": "rag@1"},
        "dataset": {"id": "d", "version": "1", "sample_id": f"{text}{index}"},
        "status": "success",
        "attempt": attempt,
        "inputs": {"question": f"asked {text}"},
        "outputs": {"answer": f"answered {text}"},
        "expected": {"answer": f"expected {text}"},
        "scores": {"response_relevance": {"raw": index / 10}},
    }


def test_the_three_worst_samples_are_shown_with_question_and_answer() -> None:
    grader = Grader(Shelf())
    for text in ["plain", *HOSTILE, "`" * 3000, "x" * 100_000]:
        page = markdown.Markdown()
        for run in (
            ran(4, text),
            ran(1, text),
            ran(1, text, attempt=2),
            ran(2, text),
            ran(3, text),
        ):
            graded = grader.grade(Document(run, "test"))
            assert graded.run is not None
            page.write(page.piece_of(graded.payload(), ResultSource(run=graded.run)))
        made = page.foot([], document()["counts"] | {"graded": 5, "failed": 5}).decode()
        check_safe(made)
        assert len(made) < 65_000
        assert made.count("  - question: ") == made.count("  - answer: ") == 3
        if text == "plain":
            assert [line.split("`")[1] for line in made.splitlines() if line[:3] == "- `"] == [
                "plain1",
                "plain2",
                "plain3",
            ]
            assert "  - question: `asked plain`\n  - answer: `answered plain`\n" in made


def test_a_decision_shows_question_and_both_answers_of_what_newly_fails(
    assay: Any, tmp_path: Path
) -> None:
    for name in ("old", "new"):
        runs = [ran(index, "@all <i>") for index in range(40)]
        for index, run in enumerate(runs):
            run |= {
                "outputs": {"answer": f"answered @{name} <i>"},
                "gates": {"right": {"passed": name == "old" or index > 19, "reason": "no"}},
                "metadata": {"description": f"the case @{index}"},
            }
        lines = map(json.dumps, runs)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    done = assay("gate", "new.jsonl", "--baseline", "old.jsonl", "-o", "d.md", "-o", "d.html")
    assert done.code == 1, done.err
    page = (tmp_path / "d.md").read_text("utf-8")
    check_safe(page)
    assert page.count("  - question: `asked @all <i>`\n") == LISTED
    assert page.count("  - before: `answered @old <i>`\n  - now: `answered @new <i>`\n") == LISTED
    assert page.index("20 samples newly fail") < page.index("| Rule |")
    assert "the case @" in page
    whole = (tmp_path / "d.html").read_text("utf-8")
    assert whole.count('<details class="sample"') == 3, "the evidence of the worst runs"
    assert whole.count("answered @old &lt;i&gt;") >= 20
    assert "the case @7" in whole


@pytest.mark.parametrize("total", [1, 3, 7, 1000])
def test_bars_never_draw_something_as_nothing_or_less_than_all_as_all(total: int) -> None:
    for count in range(0, total + 1, max(1, total // 50)):
        drawn = pieces.bar(count, total)
        assert len(drawn) == 20
        assert ("█" in drawn) == (count > 0)
        assert ("░" in drawn) == (count < total)


def test_the_command_writes_the_page_of_its_document(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(
        "\n".join(json.dumps(card) for card in cards([0.95, 0.2, 0.8]))
    )
    done = assay("grade", "runs.jsonl", "--json", "-o", "x.md")
    assert (tmp_path / "x.md").read_text() == grades_page(done.json())


# --- hostile text

HOSTILE = [
    "a|b",
    "a\\|b",
    "back\\",
    "\\",
    "|",
    "||",
    "`",
    "``",
    "`x`",
    " lead",
    "trail ",
    "line\nend",
    "cr\rend",
    "sep\u2028end",
    "@everyone",
    "a@b.example",
    "<script>alert(1)</script>",
    "<img src=x onerror=y>",
    "[x](javascript:y)",
    "![x](http://evil.example/p.png)",
    "https://evil.example",
    "www.evil.example",
    "#1",
    "owner/repo#12",
    "**bold**",
    "_u_",
    "~~s~~",
    "# head",
    "- item",
    "1. one",
    "> quote",
    "```\nfence",
    "&lt;b&gt;",
    "&#64;x",
    "<!-- -->",
    "\u202egnp.exe",
    "| A | 100.00 | yes |",
    "a`|`b",
    "\x1b[31mred",
    "\x00",
    "$x$",
    ":smile:",
    "!1",
    "/close",
    "🦊",
    "ä" * 300,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_text(text: str) -> None:
    fault = {"file": text, "line": 1, "code": "FIL-002", "path": text, "message": text}
    card = scorecard({"norm": 0.2}, run_id=text, hard_gates={"g": False}, gate_reasons={"g": text})
    page = grades_page(document(card, faults=(fault,)))
    check_safe(page)
    ((head, row),) = tables(page)
    assert len(row) == len(head)
    shown = printable(text)
    assert row[0] == (shown if len(shown) <= MAX_TEXT else f"{shown[:MAX_TEXT]}…")


@given(st.text(st.characters(codec=None), max_size=30) | st.text("`|\\ a@<[*\n", max_size=30))
def test_any_text_stays_inside_its_cell(text: str) -> None:
    page = f"| a | b |\n|---|---|\n| {cell_code(text)} | x |\n"
    check_safe(page)
    ((_, row),) = tables(page)
    shown = printable(text)
    assert row == [shown if shown.strip() else "(empty)", "x"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_code_span_holds_any_text_outside_of_a_table_too(text: Any) -> None:
    page = f"- {code(text, most=400)}: words\n"
    check_safe(page)
    (shown,) = (token.content for token in tokens(page) if token.type == "code_inline")
    assert shown == printable(text), "without a backslash before a pipe"


# --- decisions


def page_of(made: Decision) -> str:
    return view(outcome_word(made), decision_summary(made))


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_outcome_comes_first(outcome: str) -> None:
    page = page_of(decision(outcome, True, False))
    word, meaning = OUTCOMES[outcome]
    assert page.splitlines()[:3] == [f"## Assay: {word}", "", f"**{meaning}**"]
    assert ("may replace" in meaning) is (outcome == "promote")


def test_a_decision_shows_its_rules_the_difference_the_margin_and_what_would_change_it() -> None:
    made = decision("hold", True, False, None)
    page = page_of(made)
    check_safe(page)
    ((head, *rows),) = tables(page)
    assert head == ["Rule", "Verdict", "Why"]
    assert rows == [
        ["rule-1", "✗ violated", "because 1"],
        ["rule-2", "? open", "because 2"],
        ["rule-0", "✓ holds", "because 0"],
    ]
    compared = made.comparison
    ends = f"[{compared.difference.low:+.2f}, {compared.difference.high:+.2f}]"
    assert f"- difference: `{compared.difference.estimate:+.2f} points {ends}, margin 3," in page
    assert "- samples: `60 candidate, 60 baseline, 60 paired`" in page
    assert made.would_change
    for text in made.would_change:
        assert text.replace("`", "")[:100] in page.replace("`", "")
    assert "`policy release@1 · scoringSystem/1.0.0 · gradingSystem/1.0.0`" in page


def test_missing_numbers_are_stated_and_never_shown_as_zero() -> None:
    compared = decided()[0].comparison
    nothing = replace(compared.difference, estimate=None, low=None, high=None, reason="one sample")
    bare = replace(compared, difference=nothing, minimum_detectable_effect=None)
    page = page_of(decision("not_enough_evidence", None, comparison=bare))
    assert "- difference: `not known points (no interval: one sample), margin 3" in page


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_a_decision_is_shown_as_text(text: Any) -> None:
    rule = replace(decided()[0].rules[0], id=text, reason=text, holds=None)
    known = decided()[0]
    criterion = replace(
        next(iter(known.criteria.values())),
        difference=ValueInterval(value=-3.0, low=-4.0, high=-1.0, level=0.95, method="t"),
    )
    answers = SampleTexts(
        text, text, SampleAnswer(text, 0, 1, text, text), SampleAnswer(text, 1, 1)
    )
    suspects = [suspect(text, check=f"gate {text}"), suspect(f"{text}2", "flaky")]
    made = decision(
        "hold",
        policy=text,
        would_change=[text],
        scoring_system=text,
        rules=[rule],
        notes=[text, "loud"],
        loud=["loud"],
        titles={text: text},
        worse=[replace(known.worse[0], sample=text)],
        confirmation=confirmation(*suspects),
        criteria={text: criterion},
        missing=replace(known.missing, candidate=[text], only_candidate=[text]),
        contracts=ContractChange(samples=1, parts={text: 1}, examples=[text]),
    )
    page = view("hold", decision_summary(made, {text: answers}, most=TEXT))
    check_safe(page)
    rules, confirming, criteria = tables(page)
    assert [len(one[-1]) for one in (rules, confirming, criteria)] == [3, 5, 4]


# --- the summary of a job


def test_the_step_summary_is_appended_to_what_is_there(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text("\n".join(json.dumps(card) for card in cards([0.95, 0.2])))
    (tmp_path / "summary").write_text("before\n")
    done = assay(
        "grade",
        "runs.jsonl",
        "--step-summary",
        "--json",
        "-o",
        "x.md",
        env={"GITHUB_STEP_SUMMARY": "summary"},
    )
    assert done.code == 1
    assert (tmp_path / "summary").read_text() == "before\n" + (tmp_path / "x.md").read_text() + "\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs.jsonl", "summary", "x.md"]


@pytest.mark.parametrize("text", ["{oops\n", "", '{"schema": "assay.run/2"}\n'])
def test_the_step_summary_says_so_when_nothing_was_graded(
    assay: Any, tmp_path: Path, text: str
) -> None:
    (tmp_path / "runs.jsonl").write_text(text)
    assert assay(
        "grade", "runs.jsonl", "--step-summary", env={"GITHUB_STEP_SUMMARY": "summary"}
    ).code in (3, 4)
    assert (
        (tmp_path / "summary")
        .read_text()
        .startswith("## Assay: nothing was graded\n\nThe gate is closed")
    )


def test_the_step_summary_says_so_when_the_policy_is_unknown(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(json.dumps(scorecard({"norm": 1})))
    assert (
        assay(
            "grade",
            "runs.jsonl",
            "--policy",
            "worklow",
            "--step-summary",
            env={"GITHUB_STEP_SUMMARY": "summary"},
        ).code
        == 3
    )
    assert "worklow" in (tmp_path / "summary").read_text()


def test_without_the_option_or_the_variable_no_summary_is_written(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "runs.jsonl").write_text(json.dumps(scorecard({"norm": 1})))
    assert assay("grade", "runs.jsonl", env={"GITHUB_STEP_SUMMARY": "summary"}).code == 0
    done = assay("grade", "runs.jsonl", "--step-summary", env={"GITHUB_STEP_SUMMARY": ""})
    assert (done.code, done.err) == (
        0,
        "assay: $GITHUB_STEP_SUMMARY is not set; no step summary was written.\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["runs.jsonl"]


def test_a_summary_that_cannot_be_written_is_no_pass(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(json.dumps(scorecard({"norm": 1})))
    done = assay(
        "grade", "runs.jsonl", "--step-summary", env={"GITHUB_STEP_SUMMARY": "no/such/folder"}
    )
    assert done.code == 2
    assert "FIL-008" in done.err
