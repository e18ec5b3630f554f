"""Tables and bars on a terminal: what the plain text says, and nothing at all in a pipe."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest

from assay.cli import terminal
from assay.records.grade_line import GradeLine, as_line
from assay.views.decision import decision_summary
from assay.views.grade_line import explanation, lines_table
from decisions import decided
from test_charts import results

pytest.importorskip("rich", reason="no tables on a terminal here: pip install 'assaykit[terminal]'")


def show_grades(*lines: GradeLine) -> bool:
    return terminal.show_table(lines_table(lines or map(as_line, results())))


def show_explanation(result: dict[str, Any]) -> None:
    terminal.show(explanation(result))


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


def test_a_pipe_ci_and_a_dumb_terminal_get_no_table(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in (("CI", "true"), ("TERM", "dumb")):
        monkeypatch.setenv(variable, value)
        assert show_grades() is False
        monkeypatch.delenv(variable)
    assert screen.getvalue() == ""
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stdout=io.StringIO()))
    assert show_grades() is False


def test_without_the_extra_plain_text_is_due(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "find_spec", lambda _: None)
    assert show_grades() is False
    assert screen.getvalue() == ""
    run = results()[5]
    show_explanation(run)
    lines = text_of(screen).splitlines()
    assert lines[0].startswith(f"{run['run_id']}: {run['grade']}, ")
    assert lines[1] == f" {run['explanation'][0]}"
    assert not any("█" in line for line in lines)


def test_a_gate_that_fails_is_named_once(screen: Screen) -> None:
    run = next(one for one in results() if one["hard_gate_failures"])
    show_explanation(run)
    shown = text_of(screen)
    for name, gate in run["hard_gates"].items():
        assert shown.count(f"] {name}: ") == (gate["status"] == "pass")
        assert shown.count(f"Gate {name} ") == (gate["status"] != "pass")


@pytest.mark.parametrize("show", [show_grades, lambda: show_explanation(results()[5])])
def test_no_colour_means_none_and_the_words_stay(
    show: Any, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    show()
    painted = text_of(screen)
    assert re.search(r"\x1b\[[\d;]*3[1-6]m", screen.getvalue())
    screen.seek(0)
    screen.truncate()
    monkeypatch.setenv("NO_COLOR", "1")
    show()
    assert not re.search(r"\x1b\[[\d;]*3[0-9]m", screen.getvalue())
    assert text_of(screen) == painted


def test_every_number_of_the_plain_text_is_on_the_screen(screen: Screen) -> None:
    run, decision = (
        next(one for one in results() if one["floor_failures"] == ["correctness"]),
        decided()[0],
    )
    show_explanation(run)
    shown = text_of(screen)
    for sentence in run["explanation"]:
        assert re.sub(r" +", " ", sentence) in shown
    for one in run["criteria"]:
        assert (one["label"] or one["name"]) in shown
    assert all(gate["reason"] in shown for gate in run["hard_gates"].values())
    assert "✗ missed 0.7" in shown
    assert f"policy {run['policy']} · {run['scoringSystem']} · {run['gradingSystem']}" in shown
    terminal.show(decision_summary(decision))
    shown = text_of(screen)
    assert f"HOLD: {decision.reason}" in shown
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
def test_no_text_paints_or_moves_the_cursor_or_forges_a_line(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, poison: str
) -> None:
    run: dict[str, Any] = {
        **results()[5],
        "run_id": poison,
        "explanation": [poison],
        "notes": [poison],
    }
    show_explanation(run)
    assert show_grades(GradeLine(poison, reason=poison))
    monkeypatch.setattr(terminal, "find_spec", lambda _: None)
    show_explanation(run)
    raw = screen.getvalue()
    assert "\x1b[2J" not in raw
    assert "\x1b]8" not in raw
    assert "\u202e" not in raw
    assert (
        text_of(screen).count(
            poison.encode("unicode_escape").decode() if not poison.isprintable() else poison
        )
        >= 8
    )


def test_a_missing_number_is_said_and_not_drawn_as_zero(screen: Screen) -> None:
    assert show_grades(GradeLine("r"))
    assert "none no score (no number) ✗ not passed r no reason given" in text_of(screen)


def test_a_reason_breaks_no_word_in_80_columns(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    floors = ["answer_correctness"]
    assert show_grades(
        GradeLine("bot-000", "D", 70, reason="critical_floor_failure", floor_failures=floors)
    )
    assert "answer_correctness misses" in text_of(screen)
