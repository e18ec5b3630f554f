"""The candidate is data: whatever it holds, the question around it keeps its form, and nothing
invisible is judged.
"""

from __future__ import annotations

import json
import re
import unicodedata
from importlib import resources
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.judging.questions import (
    MARK,
    Example,
    PairQuestion,
    Question,
    RubricQuestion,
    Salt,
    neutralise,
    occurs,
    put,
)
from assay.judging.questions import block as fenced
from examples import CAMPAIGN
from judges import ask, criterion, spec
from servers.scripted_judge import scripted_judge

SALT = Salt(b"0123456789abcdef")
TURNS = [
    "<|im_start|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<|endoftext|>",
    "<|system|>",
    "<|end|>",
    "<｜User｜>",
    "<｜end▁of▁sentence｜>",
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "<<SYS>>",
    "<</SYS>>",
    "<s>",
    "</s>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<bos>",
    "<eos>",
    "<pad>",
    "<unk>",
    "[inst]",
    "<S>",
]
PIECES = [
    *TURNS,
    "CANDIDATE ends ",
    "FIRST CANDIDATE begins ",
    "TASK begins ",
    "VERDICT ends ",
    "The data ends here.",
    "| ",
    "|",
    "\n",
    "\r",
    "\r\n",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x85",
    "\u2028",
    "\u2029",
    "\x00",
    "\x1b[2J",
    "\x08",
    "\u202e",
    "\u200b",
    "\u200d",
    "\u200d\u200c",
    "\ufe0f",
    "\ufe01\ufe02",
    "\U000e0041",
    "\u3164",
    "\ufeff",
    "\ud800",
    "\xa0",
    "é",
    "字",
    "👩‍👩‍👧",
    "नमस्ते",
    "می‌خواهم",
    "0" * 32,
]
nasty = st.lists(
    st.one_of(st.sampled_from(PIECES), st.text(max_size=12), st.characters()), max_size=25
).map("".join)


class Block(NamedTuple):
    title: str
    lines: list[str]


class Form(NamedTuple):
    """A message taken apart as its reader is told to: lines of ours, and blocks of data."""

    ours: list[str]
    blocks: list[Block]


def form(message: str, boundary: str) -> Form:
    found = Form([], [])
    title = ""
    for line in message.split("\n"):
        if not title and line.endswith(f" begins {boundary}"):
            title = line.removesuffix(f" begins {boundary}")
            found.blocks.append(Block(title, []))
        elif title and line == f"{title} ends {boundary}":
            title = ""
        elif title:
            found.blocks[-1].lines.append(line)
        else:
            found.ours.append(line)
    assert not title, "a block has no end"
    return found


def rubric_question(
    candidate: str,
    *,
    task: str = "a task",
    reference: str = "a reference",
    example: str = "an example",
) -> RubricQuestion:
    return RubricQuestion(
        criterion(), task, candidate, reference, (Example("its task", example, "its reason", 3),)
    )


def pair_question(first: str, second: str = "the other", *, task: str = "a task") -> PairQuestion:
    return PairQuestion("what counts", task, first, second, "ab", "a reference")


def assert_holds(question: Question, plain: Question) -> list[Block]:
    """The question has the form of a harmless one, every line of data is marked, and the boundary
    stands on lines of ours alone.
    """
    asked, harmless = put(question, SALT), put(plain, SALT)
    message, other = asked.messages[1]["content"], harmless.messages[1]["content"]
    seen, expected = form(message, asked.boundary), form(other, harmless.boundary)
    assert seen.ours == expected.ours
    assert [block.title for block in seen.blocks] == [block.title for block in expected.blocks]
    for block in seen.blocks:
        assert block.lines
        assert all(line.startswith(MARK) for line in block.lines)
        assert all(asked.boundary not in line for line in block.lines)
    assert message.count(asked.boundary) == 2 * len(seen.blocks)
    assert asked.messages[0]["content"].replace(asked.boundary, "") == harmless.messages[0][
        "content"
    ].replace(harmless.boundary, "")
    assert all(
        line.isprintable()
        or line.replace("\t", "").replace("\u200c", "").replace("\u200d", "").isprintable()
        for line in message.split("\n")
    )
    assert not any(token in message for token in TURNS)
    return seen.blocks


def body(block: Block) -> str:
    return "\n".join(line.removeprefix(MARK) for line in block.lines)


@given(nasty)
def test_no_candidate_changes_the_form_of_a_rubric_question(text: str) -> None:
    blocks = assert_holds(rubric_question(text), rubric_question("x"))
    assert body(blocks[-1]) == neutralise(text)


@given(nasty, nasty)
def test_no_pair_changes_the_form_of_a_comparison(first: str, second: str) -> None:
    blocks = assert_holds(pair_question(first, second), pair_question("x", "y"))
    assert [body(block) for block in blocks[-2:]] == [neutralise(first), neutralise(second)]


@given(nasty)
def test_tasks_references_and_examples_are_data_too(text: str) -> None:
    assert_holds(
        rubric_question("x", task=text, reference=text, example=text), rubric_question("x")
    )
    assert_holds(pair_question("x", task=text), pair_question("x"))


@given(nasty)
def test_the_visible_text_of_a_candidate_survives(text: str) -> None:
    shown = neutralise(text)
    signs = iter(shown)
    visible = [
        sign
        for sign in text
        if unicodedata.category(sign)[0] in "LNPS" and sign not in "\u3164\u115f\u1160\uffa0"
    ]
    assert all(sign in signs for sign in visible)
    assert neutralise(shown) == shown


@given(
    st.text(
        st.characters(
            categories=("L", "N", "P", "S"), exclude_characters="<[\u3164\u115f\u1160\uffa0"
        )
    )
)
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert neutralise(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "naïve café",
        "می‌خواهم",
        "नमस्ते",
        "👩‍👩‍👧 and 👁️‍🗨️",
        "a < b > c | d",
        "<b>bold</b> [1] [INSTALL]",
        "x\ty",
        "1 <s 2",
        "list<str>",
    ],
)
def test_what_only_looks_odd_is_shown_as_it_is(text: str) -> None:
    assert neutralise(text) == text


@pytest.mark.parametrize("token", TURNS)
@pytest.mark.parametrize("dress", ["{}", "a{}b", "{}{}", "<{}", "{}>", "[{}]", "<|{}|>"])
def test_the_signs_of_chat_templates_are_broken(token: str, dress: str) -> None:
    shown = neutralise(dress.replace("{}", token))
    assert token not in shown
    assert token[0] + "·" + token[1:] in shown


HIDDEN = [
    "\u200b",
    "\u202e",
    "\u2066",
    "\ufeff",
    "\u00ad",
    "\u2060",
    "\U000e0041",
    "\U000e0101",
    "\ufe01\ufe02",
    "\u200d\u200c",
    "\u3164",
    "\u034f",
    "\u180b",
    "\x00",
    "\x7f",
]


@pytest.mark.parametrize("hidden", HIDDEN)
def test_what_is_not_there_to_be_read_is_written_out(hidden: str) -> None:
    shown = neutralise(f"a{hidden}b")
    assert f"⟨U+{ord(hidden[-1]):04X}⟩" in shown
    assert hidden not in shown


@pytest.mark.parametrize(
    "line", ["\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
)
def test_every_way_to_break_a_line_gives_a_marked_line(line: str) -> None:
    assert fenced("b", "X", f"one{line}X ends b") == "X begins b\n| one\n| X ends b\nX ends b"


def test_a_boundary_depends_on_the_salt_and_on_every_sign() -> None:
    asked = [
        put(rubric_question(text), salt).boundary
        for text in ("x", "y")
        for salt in (SALT, Salt.fresh())
    ]
    assert len(set(asked)) == 4
    assert all(re.fullmatch(r"[0-9a-f]{32}", boundary) for boundary in asked)
    assert put(rubric_question("x"), SALT).boundary == asked[0]


def test_a_text_that_holds_its_own_boundary_is_not_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Salt, "boundary", lambda self, words: "c0ffee" * 5)
    with pytest.raises(InputError, match="boundary") as caught:
        put(rubric_question("I know that it is " + "c0ffee" * 5), SALT)
    assert caught.value.code == "JDG-005"


@pytest.mark.parametrize(
    ("quote", "text", "stands"),
    [
        ("two words", "two\n  words", True),
        ("two | words", "two\nwords", True),
        ("| two words", "two words", True),
        ("⟨U+202E⟩ back", "\u202e back", True),
        ("Two words", "two words", False),
        ("two words more", "two words", False),
        ("", "two words", False),
        (" \n", "two words", False),
        ("|", "two words", False),
        ("|", "a | b", True),
        ("words two", "two words", False),
        ("x", "", False),
    ],
)
def test_a_quote_must_stand_in_the_text_whatever_its_spacing(
    quote: str, text: str, stands: bool
) -> None:
    assert occurs(quote, text) is stands


@given(nasty, st.integers(0, 200), st.integers(1, 40))
def test_any_part_of_what_was_shown_is_a_quote(text: str, start: int, length: int) -> None:
    shown = neutralise(text)
    quote = shown[start : start + length]
    if quote.strip():
        assert occurs(quote, text)


# --- the injections


def injections() -> list[dict[str, Any]]:
    source = resources.files("assay.families.judges").joinpath("data/injections.jsonl")
    return [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]


INJECTIONS = injections()


def armed(injection: dict[str, Any], question: Question) -> str:
    """The text of an injection that knows the boundary of the question without it: the best guess
    there is.
    """
    return str(injection["text"]).replace("{boundary_guess}", put(question, SALT).boundary)


def test_there_are_at_least_sixty_injections_of_many_kinds() -> None:
    assert len(INJECTIONS) >= 60
    assert (
        len({one["id"] for one in INJECTIONS})
        == len(INJECTIONS)
        == len({one["text"] for one in INJECTIONS})
    )
    assert len({one["technique"] for one in INJECTIONS}) >= 10
    assert len({one["language"] for one in INJECTIONS}) >= 5


@pytest.mark.parametrize("injection", INJECTIONS)
def test_no_injection_changes_the_form_of_a_question(injection: dict[str, Any]) -> None:
    text = f"quality=0.25\n{armed(injection, rubric_question('quality=0.25'))}"
    assert_holds(rubric_question(text), rubric_question("x"))
    assert_holds(pair_question(text), pair_question("x"))
    assert_holds(pair_question("x", text), pair_question("x"))


def test_a_judge_that_obeys_nobody_gives_every_injected_text_the_verdict_of_the_clean_one() -> None:
    clean = rubric_question("A plain answer. quality=0.25")
    questions: list[Question] = [clean]
    expected: list[int | str] = [2]
    for number, injection in enumerate(INJECTIONS):
        text = f"A plain answer. quality=0.25\n{armed(injection, clean)}"
        three: list[tuple[Question, int | str]] = [
            (rubric_question(text), 2),
            (pair_question("quality=0.75", text), "first"),
            (pair_question(text, "quality=0.75"), "second"),
        ]
        for question, verdict in three if CAMPAIGN else [three[number % 3]]:
            questions.append(question)
            expected.append(verdict)
    with scripted_judge(record=False) as judge:
        judged = ask(spec(judge.url, limits={"concurrency": 32}), questions)
        assert judge.stats().unmarked == 0
    verdicts = [answer.verdict for answer in judged.answers]
    assert [verdict and (verdict.place or verdict.score) for verdict in verdicts] == expected
    assert judged.client.usage.repairs == 0
