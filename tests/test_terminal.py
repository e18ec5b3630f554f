"""Tables and bars on a terminal: what the plain text says, and nothing at all in a pipe."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest

from assay.cli import terminal
from assay.cli.stream import text_line
from assay.files.json_files import Document, parse_json
from assay.library.shelf import Shelf
from assay.pipeline.grading import Grader
from assay.views.decision import decision_summary
from assay.views.documents import plain
from decisions import decided
from test_charts import EXAMPLES, FAMILIES, results

pytest.importorskip("rich", reason="no tables on a terminal here: pip install 'assay[terminal]'")

SHOWS = {
    "grades": lambda: terminal.show_grades(results()),
    "explanation": lambda: terminal.show_explanation(results()[5]),
}


class Screen(io.StringIO):
    """Standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    made = Screen()
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stdout=made))
    for name, value in {
        "CI": None,
        "NO_COLOR": None,
        "TERM": "xterm-256color",
        "COLUMNS": "200",
        "COLORTERM": None,
    }.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    return made


def text_of(screen: Screen) -> str:
    return re.sub(r" +", " ", re.sub(r"\x1b\[[\d;]*m", "", screen.getvalue()))


@pytest.mark.parametrize("name", SHOWS)
def test_a_pipe_ci_and_a_dumb_terminal_get_nothing_from_here(
    name: str, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in (("CI", "true"), ("TERM", "dumb")):
        monkeypatch.setenv(variable, value)
        assert SHOWS[name]() is False
        monkeypatch.delenv(variable)
    assert screen.getvalue() == ""
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stdout=io.StringIO()))
    assert SHOWS[name]() is False


@pytest.mark.parametrize("name", SHOWS)
def test_without_the_extra_plain_text_is_due(
    name: str, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "find_spec", lambda _: None)
    assert SHOWS[name]() is False
    assert screen.getvalue() == ""


@pytest.mark.parametrize("name", SHOWS)
def test_no_colour_means_none_and_the_words_stay(
    name: str, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SHOWS[name]() is True
    painted = text_of(screen)
    assert re.search(r"\x1b\[[\d;]*3[1-6]m", screen.getvalue())
    screen.seek(0)
    screen.truncate()
    monkeypatch.setenv("NO_COLOR", "1")
    assert SHOWS[name]() is True
    assert not re.search(r"\x1b\[[\d;]*3[0-9]m", screen.getvalue())
    assert text_of(screen) == painted


def test_the_plain_lines_of_a_grade_can_be_read_back() -> None:
    grader = Grader(Shelf())
    graded = [
        grader.grade(Document(parse_json(line), "x"))
        for name in FAMILIES
        for line in (EXAMPLES / f"{name}.jsonl").read_bytes().splitlines()
    ]
    rows = terminal.rows_of(b"".join(map(text_line, graded)).decode())
    found = [(row["run_id"], row["grade"], row["weighted_score"], row["passed"]) for row in rows]
    assert found == [
        (one["run_id"], one["grade"], one["weighted_score"], one["passed"])
        for one in (plain(one.payload()) for one in graded)
    ]
    assert all(bool(row["why"]) != row["passed"] for row in rows)
    assert terminal.rows_of("nothing known\n")[0]["run_id"] == "nothing known"


def test_every_number_of_the_plain_text_is_on_the_screen(screen: Screen) -> None:
    run, decision = next(one for one in results() if one["floor_failures"]), decided()[0]
    assert terminal.show_explanation(run)
    shown = text_of(screen)
    for sentence in run["explanation"]:
        assert re.sub(r" +", " ", sentence) in shown
    for one in run["criteria"]:
        assert (one["label"] or one["name"]) in shown
    assert all(gate["reason"] in shown for gate in run["hard_gates"].values())
    assert "0.7 missed" in shown
    assert f"policy {run['policy']} · {run['scoringSystem']} · {run['gradingSystem']}" in shown
    terminal.show(decision_summary(decision))
    shown = text_of(screen)
    assert "REJECT: gate_failure_rate: 1 of 60" in shown
    assert all(rule.reason in shown for rule in decision.rules)
    assert "91.7% [81.9% to 96.4% (95%), n 60]" in shown
    assert "(workflow@1)" in shown


@pytest.mark.parametrize(
    "poison",
    [
        "[red]x[/red]",
        "[link=https://evil.example]x[/link]",
        "\x1b[2Jx",
        "a\nb",
        ":smile:",
        "\u202ex",
        "[/]",
    ],
)
def test_no_text_paints_or_moves_the_cursor(screen: Screen, poison: str) -> None:
    run: dict[str, Any] = {
        **results()[5],
        "run_id": poison,
        "explanation": [poison],
        "notes": [poison],
    }
    assert terminal.show_explanation(run)
    assert terminal.show_grades([{**run, "why": poison}])
    raw = screen.getvalue()
    assert "\x1b[2J" not in raw
    assert "\x1b]8" not in raw
    assert "\u202e" not in raw
    assert (
        text_of(screen).count(
            poison.encode("unicode_escape").decode() if not poison.isprintable() else poison
        )
        >= 5
    )


def test_bars_never_draw_something_as_nothing_or_less_than_all_as_all() -> None:
    for value in range(101):
        drawn = terminal.bar(value)
        assert len(drawn) == terminal.BAR
        assert ("█" in drawn) == (value > 0)
        assert ("·" in drawn) == (value < 100)
    assert terminal.bar(None) == "(no number)"


def test_a_missing_number_is_said_and_not_drawn_as_zero(screen: Screen) -> None:
    assert terminal.show_grades([{"run_id": "r", "grade": None, "weighted_score": None}])
    assert "none no score (no number) FAILED r" in text_of(screen)
    assert terminal.show_explanation(
        {"run_id": "r", "criteria": [{"name": "c", "norm": 0, "missing": "timed out"}]}
    )
    assert "c not stated not stated missing none" in text_of(screen)
