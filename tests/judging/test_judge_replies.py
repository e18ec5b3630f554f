"""From a reply to a verdict, strictly: the asked shape, on the scale, with quotes from the text;
everything else is not a verdict, and says why.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.judging.endpoints import DIALECTS, Reply
from assay.judging.questions import PairQuestion, RubricQuestion
from assay.judging.replies import Read, read_verdict
from examples import within_cpu_seconds
from judges import criterion

RUBRIC = RubricQuestion(criterion(), "t", "It says so.\nIt is so.")
PAIR = PairQuestion("d", "t", "one", "two", "ba")


def read(
    text: str | None, question: Any = RUBRIC, *, finish: str = "stop", refusal: str | None = None
) -> Read:
    return read_verdict(Reply(text, refusal, finish, None, None, None), question, question.schema())


def said(**fields: Any) -> str:
    return json.dumps({"reason": "r", "quotes": ["says so"], "score": 4, **fields})


@pytest.mark.parametrize("score", ["1", "5", "4.0", "4e0", "40e-1"])
def test_a_whole_number_on_the_scale_is_a_score_however_it_is_written(score: str) -> None:
    found = read(said(score="X").replace('"X"', score))
    assert (found.outcome, found.fault) == ("scored", None)
    assert found.verdict is not None
    assert found.verdict.score == int(float(score))
    assert type(found.verdict.score) is int


@pytest.mark.req("W-069")
@pytest.mark.parametrize(
    "text",
    [
        *(
            said(score="X").replace('"X"', value)
            for value in (
                "0",
                "6",
                "-1",
                "4.5",
                "99",
                "NaN",
                "Infinity",
                "1e400",
                "9" * 400,
                "4.0000000001",
                "null",
                "true",
                "[4]",
                '"4"',
            )
        ),
        said(helpfulness=5),
        said(extra={"score": 5}),
        said()[:-1] + ', "score": 5}',
        '{"score": 5, ' + said()[1:],
        '{"reason": "r", "score": 4}',
        '{"quotes": ["says so"], "score": 4}',
        said(quotes=[]),
        said(quotes=["says so"] * 4),
        said(quotes="says so"),
        said(quotes=[5]),
        said(quotes=["x" * 201]),
        said(reason="x" * 1201),
        said(reason=None),
        said() + said(),
        f"[{said()}]",
        f"Sure: {said()}",
        f"{said()}\nthat is all",
        json.dumps(said()),
        said()[:-5],
        "4",
        "null",
        "{}",
        "[]",
        "",
        " \n ",
        "four",
        "La réponse mérite quatre points.",
        '{"begründung": "gut", "punktzahl": 4}',
        "[" * 100_000,
        '{"reason": "\\ud800", "quotes": ["says so"], "score": 4}',
        "\ud800",
        "\x00",
        "```json\n```",
        f"```json\n{said(score=9)}\n```",
    ],
)
def test_everything_else_is_unparsable_with_a_reason_and_may_be_mended(text: str) -> None:
    found = read(text)
    assert (found.outcome, found.verdict, found.repairable) == ("unparsable", None, True)
    assert found.fault


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{said()}\n```",
        f"```\n{said()}\n```",
        f"  \n{said()}\n",
        f"\n```json\n{said()}```\n",
    ],
)
def test_the_fence_that_models_put_around_json_is_no_fault(text: str) -> None:
    assert read(text).outcome == "scored"


def test_a_reply_of_newlines_without_end_is_read_at_once() -> None:
    def read_each() -> None:  # a thousand of them took seconds
        for text in ("```\n" + "\n" * 500_000 + "x", "```json" + " " * 500_000, "```" * 200_000):
            assert read(text).outcome == "unparsable"

    within_cpu_seconds(5, read_each)


@pytest.mark.parametrize("quote", ["says so", "so.\nIt", "so. | It is", "It says so. It is so."])
def test_a_quote_that_stands_in_the_candidate_counts(quote: str) -> None:
    assert read(said(quotes=[quote])).outcome == "scored"


@pytest.mark.parametrize(
    "quotes", [["says no"], ["says so", "invented"], [""], ["  "], ["|"], ["Says So"]]
)
def test_one_quote_that_is_not_in_the_candidate_spoils_the_verdict(
    quotes: list[str],
) -> None:
    found = read(said(quotes=quotes))
    assert found.outcome == "unparsable"
    assert "is not in the candidate" in (found.fault or "")


def test_an_empty_candidate_can_be_scored_without_a_quote_and_not_with_one() -> None:
    empty = RUBRIC._replace(candidate=" ")
    assert read(said(quotes=[]), empty).outcome == "scored"
    assert read(said(), empty).outcome == "unparsable"


@pytest.mark.parametrize(
    ("place", "winner", "outcome"),
    [("first", "b", "scored"), ("second", "a", "scored"), ("tie", "tie", "tie")],
)
def test_a_comparison_names_the_candidate_and_a_tie_is_an_outcome_of_its_own(
    place: str, winner: str, outcome: str
) -> None:
    found = read(json.dumps({"reason": "r", "winner": place}), PAIR)
    assert found.outcome == outcome
    assert found.verdict is not None
    assert (found.verdict.winner, found.verdict.place) == (winner, place)


@pytest.mark.parametrize("winner", ["a", "b", "First", "both", "", None, 1, ["first"], "first "])
def test_a_comparison_that_names_nobody_is_no_tie(winner: Any) -> None:
    assert read(json.dumps({"reason": "r", "winner": winner}), PAIR).outcome == "unparsable"


@pytest.mark.parametrize(
    ("finish", "refusal"), [("stop", "I cannot"), ("content_filter", None), ("refusal", None)]
)
def test_a_refusal_is_a_refusal_even_beside_a_verdict(finish: str, refusal: str | None) -> None:
    found = read(said(), finish=finish, refusal=refusal)
    assert (found.outcome, found.verdict, found.repairable) == ("refused", None, False)


def test_a_reply_that_was_cut_off_says_so() -> None:
    assert "cut off" in (read(said()[:20], finish="length").fault or "")


@given(
    st.one_of(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
            lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        ).map(lambda t: json.dumps(t)),
    )
)
def test_no_reply_breaks_the_reader_and_none_of_these_is_a_verdict(text: str) -> None:
    for question in (RUBRIC, PAIR):
        found = read(text, question)
        assert found.verdict is None
        assert found.outcome == "unparsable"


@given(
    st.fixed_dictionaries(
        {
            "reason": st.text(max_size=20) | st.none(),
            "quotes": st.lists(st.sampled_from(["says so", "It is", "no", ""]), max_size=4),
            "score": st.integers(-9, 9) | st.floats(),
        },
        optional={"bonus": st.integers()},
    )
)
def test_a_verdict_is_always_on_the_scale_and_borne_out(tree: dict[str, Any]) -> None:
    found = read(json.dumps(tree))
    if found.verdict is not None:
        assert found.verdict.score in (1, 2, 3, 4, 5)
        assert found.verdict.score == tree["score"]
        assert set(found.verdict.quotes) <= {"says so", "It is"}
        assert found.verdict.quotes
        assert "bonus" not in tree


# --- what endpoints say

NAMES = st.sampled_from(
    [
        "choices",
        "message",
        "content",
        "text",
        "usage",
        "prompt_tokens",
        "type",
        "input",
        "refusal",
        "model",
    ]
)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(ODD)
def test_no_tree_breaks_a_dialect(tree: Any) -> None:
    for dialect in DIALECTS.values():
        try:
            found = dialect.read(tree)
        except InputError:
            continue
        assert all(
            part is None or isinstance(part, str)
            for part in (found.text, found.refusal, found.finish, found.model)
        )
        assert all(part is None or part >= 0 for part in (found.input_tokens, found.output_tokens))


def test_content_in_parts_is_one_text() -> None:
    tree = {
        "choices": [
            {
                "message": {
                    "content": [{"type": "text", "text": "{"}, {"type": "image"}, 5, {"text": "}"}]
                }
            }
        ]
    }
    assert DIALECTS["openai"].read(tree).text == "{}"


def test_two_tools_are_no_verdict() -> None:
    tool = {"type": "tool_use", "input": {"score": 1}}
    assert DIALECTS["anthropic"].read({"content": [tool, tool]}).text is None
    assert DIALECTS["anthropic"].read({"content": [tool]}).text == '{"score": 1}'
