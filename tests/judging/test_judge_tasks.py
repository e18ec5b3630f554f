"""Rubrics, pairs and panels: what is asked, what becomes of the answers, and that nothing without a
verdict turns into one.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.families.judges.pairwise import (
    Compared,
    compare,
    comparisons_document,
    first_order,
    tally,
)
from assay.judging.client import Client, Journal, JudgeAnswer
from assay.judging.items import pair_up, read_examples, read_items, read_pairs, shown
from assay.judging.questions import PairQuestion, Question, RubricQuestion
from assay.judging.replies import JudgeVerdict
from assay.judging.rubric_task import (
    Judged,
    Seat,
    convene,
    counts_of,
    exact_mean,
    judge_rubric,
    mean_of,
    questions_of,
    scored_runs,
    spread,
    vote,
)
from judges import criterion, item, pair, put_lines, rubric, spec
from servers.scripted_judge import scripted_judge


def scored(score: int) -> JudgeAnswer:
    return JudgeAnswer(
        "scored", JudgeVerdict(score, ("q",), None, None), "r", "k", False, False, None
    )


def without(outcome: Any, why: str = "why") -> JudgeAnswer:
    return JudgeAnswer(outcome, None, why, "k", False, False, None)


class Asked:
    """Answers by a function, and remembers what it was asked."""

    width = 3

    def __init__(self, answer: Callable[[Any, int], JudgeAnswer]) -> None:
        self.answer = answer
        self.seen: list[tuple[Any, int]] = []

    async def ask(self, question: Question, *, sample: int = 0) -> JudgeAnswer:
        self.seen.append((question, sample))
        await asyncio.sleep(0)
        return self.answer(question, sample)


# --- rubrics


@pytest.mark.req("W-065")
def test_each_item_criterion_and_sample_is_one_constrained_question() -> None:
    judge = Asked(lambda question, sample: scored(3))
    asked = questions_of([item(1), item(2)], rubric("correctness", "clarity"))
    found = asyncio.run(judge_rubric(judge, asked, samples=3))
    assert [(one.item, one.criterion, one.raw, len(one.answers)) for one in found] == [
        ("i-001", "correctness", 3, 3),
        ("i-001", "clarity", 3, 3),
        ("i-002", "correctness", 3, 3),
        ("i-002", "clarity", 3, 3),
    ]
    assert len(judge.seen) == 12
    assert all(
        isinstance(question, RubricQuestion)
        and question.schema()["required"] == ["reason", "quotes", "score"]
        for question, _ in judge.seen
    )


def test_a_raw_score_is_the_exact_mean_of_its_samples() -> None:
    judge = Asked(lambda question, sample: scored((4, 4, 5)[sample]))
    found = asyncio.run(judge_rubric(judge, questions_of([item(1)], rubric()), samples=3))
    assert found[0].raw == Decimal("4.333333")


@given(st.lists(st.integers(-2, 5), min_size=1, max_size=20))
def test_a_mean_is_within_half_a_millionth_of_the_true_one(scores: list[int]) -> None:
    made = exact_mean(scores)
    assert abs(Fraction(made) - Fraction(sum(scores), len(scores))) <= Fraction(1, 2_000_000)
    assert min(scores) <= made <= max(scores)


@pytest.mark.parametrize("outcome", ["unparsable", "refused", "errored"])
def test_one_sample_without_a_verdict_leaves_no_raw_score_and_says_why(outcome: str) -> None:
    raw, why = mean_of([scored(5), without(outcome, "it hung"), scored(5)])
    assert raw is None
    assert outcome in (why or "")
    assert "it hung" in (why or "")


def test_every_outcome_is_counted_also_where_there_is_none() -> None:
    assert counts_of([scored(1), without("refused"), without("errored"), without("errored")]) == {
        "scored": 1,
        "tie": 0,
        "unparsable": 0,
        "refused": 1,
        "errored": 2,
    }


def test_a_criterion_that_the_rubric_does_not_have_is_refused() -> None:
    with pytest.raises(InputError, match="clarity") as caught:
        questions_of([item(1)], rubric(), only=["clarity"])
    assert caught.value.code == "JDG-011"
    assert len(questions_of([item(1)], rubric("correctness", "clarity"), only=["clarity"])) == 1


def test_work_is_spread_in_order_and_the_first_error_ends_all() -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0.001 * (5 - number % 5))
        if number == 99:
            raise InputError("JDG-005", "no")
        return 2 * number

    assert asyncio.run(spread(double, range(20), width=7)) == [2 * number for number in range(20)]
    assert asyncio.run(spread(double, [], width=7)) == []
    with pytest.raises(InputError):
        asyncio.run(spread(double, [1, 99, 2], width=2))


def run_tree(**more: Any) -> dict[str, Any]:
    return {
        "schema": "assay.run/1",
        "run_id": "r-1",
        "workflow": {"id": "w", "version": "1", "family": "rag"},
        "dataset": {"id": "d", "version": "1", "sample_id": "s-1"},
        "status": "success",
        "inputs": {"question": "Why?"},
        "outputs": {"answer": "Because."},
        **more,
    }


SCORER = {
    "kind": "llm",
    "name": "m-1",
    "version": "7",
    "prompt_version": "rubric/1",
    "rubric": "plain@1",
    "settings": "sha256:1",
    "answered_by": None,
}


def test_scores_go_into_the_runs_and_a_missing_one_stays_missing(tmp_path: Path) -> None:
    items = read_items([str(put_lines(tmp_path / "r.jsonl", [run_tree()]))])
    judged = [
        Judged("r-1", "correctness", Decimal("4.5"), None, (scored(4), scored(5))),
        Judged("r-1", "clarity", None, "refused", (without("refused"),)),
    ]
    made = scored_runs(items, judged, rubric(), scorer=SCORER, replace=False)[0]
    assert made["scores"]["correctness"] == {
        "raw": Decimal("4.5"),
        "n": 2,
        "source": {key: value for key, value in SCORER.items() if value is not None},
    }
    assert (made["scores"]["clarity"]["raw"], made["scores"]["clarity"]["n"]) == (None, 0)
    assert made["workflow"]["rubric"] == "plain@1"
    assert made["judge"] == {"model": "m-1", "prompt_version": "rubric/1", "version": "7"}


def test_a_score_that_is_there_and_a_run_of_another_rubric_are_refused(tmp_path: Path) -> None:
    judged = [Judged("r-1", "correctness", 4, None, (scored(4),))]
    there = read_items(
        [str(put_lines(tmp_path / "a.jsonl", [run_tree(scores={"correctness": {"raw": 1}})]))]
    )
    with pytest.raises(InputError, match="already has a score"):
        scored_runs(there, judged, rubric(), scorer=SCORER, replace=False)
    assert (
        scored_runs(there, judged, rubric(), scorer=SCORER, replace=True)[0]["scores"][
            "correctness"
        ]["raw"]
        == 4
    )
    other = run_tree()
    other["workflow"] = {**other["workflow"], "rubric": "rag@1"}
    with pytest.raises(InputError, match="rag@1"):
        scored_runs(
            read_items([str(put_lines(tmp_path / "b.jsonl", [other]))]),
            judged,
            rubric(),
            scorer=SCORER,
            replace=False,
        )
    with pytest.raises(InputError, match="is not a run"):
        scored_runs([item(1)], judged, rubric(), scorer=SCORER, replace=False)


# --- pairs


def by_place(
    *places: Literal["first", "second", "tie"] | None,
) -> Callable[[PairQuestion, int], JudgeAnswer]:
    """Answers by place for (first round, seeded first order), (first round, other), (second round,
    ...), in this order.
    """
    left = list(places)

    def answer(question: PairQuestion, sample: int) -> JudgeAnswer:
        place = left.pop(0)
        if place is None:
            return without("unparsable", "no JSON")
        return JudgeAnswer(
            "tie" if place == "tie" else "scored",
            JudgeVerdict(None, (), question.winner(place), place),
            "r",
            "k",
            False,
            False,
            None,
        )

    return answer


def compared(*places: Any) -> tuple[Compared, Asked]:
    judge = Asked(by_place(*places))
    return asyncio.run(compare(judge, [pair(1, 0.8, 0.2)]))[0], judge


@pytest.mark.req("W-066", "W-067")
def test_every_pair_is_asked_in_both_orders() -> None:
    found, judge = compared("first", "second")
    assert sorted(question.order for question, _ in judge.seen) == ["ab", "ba"]
    assert {question.texts for question, _ in judge.seen} == {
        (found.pair.a, found.pair.b),
        (found.pair.b, found.pair.a),
    }
    assert found.winner in ("a", "b")
    assert (found.decided, found.consistent) == ("consistent", True)


@pytest.mark.req("W-066")
def test_which_order_comes_first_is_drawn_by_the_seed() -> None:
    drawn = [[first_order(f"p-{n}", seed) for n in range(400)] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert 160 < drawn[0].count("ab") < 240
    for seed in range(6):
        judge = Asked(by_place("tie", "tie"))
        asyncio.run(compare(judge, [pair(1, 0.8, 0.2)], seed=seed))
        assert judge.seen[0][0].order == first_order("p-001", seed)


@pytest.mark.req("W-067", "W-068", "W-084")
def test_orders_that_disagree_are_asked_once_more_and_then_it_is_a_tie() -> None:
    found, judge = compared("first", "first", "second", "second")
    assert (found.winner, found.consistent) == ("tie", False)
    assert found.decided == "inconsistent in both passes, so a tie"
    assert [sample for _, sample in judge.seen] == [0, 0, 1, 1]


@pytest.mark.req("W-068", "W-084")
def test_orders_that_agree_on_the_second_pass_have_a_winner_and_stay_counted_as_inconsistent() -> (
    None
):
    found, judge = compared("first", "first", "first", "second")
    assert found.winner == ("a" if judge.seen[0][0].order == "ab" else "b")
    assert (found.decided, found.consistent) == ("consistent on the second pass", False)


@pytest.mark.req("W-068", "W-084")
def test_a_tie_against_a_winner_is_inconsistent_too() -> None:
    found, judge = compared("tie", "first", "tie", "tie")
    assert (found.winner, found.consistent, len(judge.seen)) == ("tie", False, 4)


@pytest.mark.req("W-067", "W-084")
def test_two_ties_are_a_consistent_tie() -> None:
    found, judge = compared("tie", "tie")
    assert (found.winner, found.decided, len(judge.seen)) == ("tie", "consistent", 2)


@pytest.mark.req("W-084")
@pytest.mark.parametrize(
    "places",
    [
        (None, "first"),
        ("first", None),
        (None, None),
        ("first", "first", None, "second"),
        ("tie", "first", "tie", None),
    ],
)
def test_an_answer_that_cannot_be_read_is_no_tie(places: tuple[Any, ...]) -> None:
    found, judge = compared(*places)
    assert found.winner is None
    assert found.decided == "unparsable: no JSON"
    assert len(judge.seen) == len(places), "nothing is asked after that"
    assert found.consistent is (None if None in places[:2] else False)
    assert tally([found]) == {"wins": 0, "losses": 0, "ties": 0, "without_verdict": 1}


def test_the_lines_for_measuring_are_those_of_the_first_pass() -> None:
    found, _ = compared("first", "first", "first", "second")
    lines = found.verdicts()
    assert len(lines) == 2
    assert {line["order"] for line in lines} == {"ab", "ba"}
    assert {line["winner"] for line in lines} == {"a", "b"}


@pytest.mark.req("W-087")
@pytest.mark.parametrize(
    ("inconsistent", "limit", "warns"),
    [(10, 0.1, False), (11, 0.1, True), (29, 0.29, False), (30, 0.29, True), (0, 0.0, False)],
)
def test_a_rate_above_the_limit_warns_in_words_and_in_the_document(
    inconsistent: int, limit: float, warns: bool
) -> None:
    moved, steady = compared("first", "first", "second", "second")[0], compared("tie", "tie")[0]
    found = comparisons_document(
        [moved] * inconsistent + [steady] * (100 - inconsistent),
        judge={},
        scorer={},
        counts=Counter(),
        usage=None,
        limit=limit,
        seed=0,
    )
    assert found["inconsistency_warning"] is warns
    assert any("it should not gate" in one for one in found["sentences"]) is warns


@pytest.mark.req("W-066", "W-067", "W-068")
def test_a_fair_judge_finds_the_better_one_and_a_blind_one_finds_ties() -> None:
    pairs = [pair(n, *((0.9, 0.1) if n % 2 else (0.1, 0.9))) for n in range(20)]
    with scripted_judge() as judge:

        async def work() -> list[Compared]:
            async with Client(spec(judge.url), Journal()) as client:
                return await compare(client, pairs)

        fair = asyncio.run(work())
        assert judge.stats().requests == 40
        judge.become(position_bias=1.0)
        blind = asyncio.run(work())
        assert judge.stats().requests == 40 + 80
    assert tally(fair) == {"wins": 10, "losses": 10, "ties": 0, "without_verdict": 0}
    assert all(one.winner == ("a" if number % 2 else "b") for number, one in enumerate(fair))
    assert tally(blind) == {"wins": 0, "losses": 0, "ties": 20, "without_verdict": 0}
    assert all(one.consistent is False for one in blind)


def test_a_pair_of_the_same_texts_is_a_tie_and_asked_once_a_round() -> None:
    twins = pair(1, 0.5, 0.5)._replace(b=pair(1, 0.5, 0.5).a)
    with scripted_judge(position_bias=1.0) as judge:

        async def work() -> list[Compared]:
            async with Client(spec(judge.url), Journal()) as client:
                return await compare(client, [twins])

        assert asyncio.run(work())[0].winner == "tie"
        assert judge.stats().requests == 2


# --- panels


@pytest.mark.req("W-071")
@pytest.mark.parametrize(
    ("raws", "mean", "majority"),
    [
        ([4, 4, 4], 4, 4),
        ([4, 4, 1], 3, 4),
        ([4, 3, 2], 3, None),
        ([4, 4, None], None, 4),
        ([4, None, None], None, None),
        ([4, 4, 2, 2], 3, None),
        ([None, None], None, None),
        ([4, 5], Decimal("4.5"), None),
    ],
)
def test_a_panel_votes_by_mean_or_by_more_than_half_of_all_its_members(
    raws: list[Any], mean: Any, majority: Any
) -> None:
    seats = [
        Seat(f"j-{n}", raw, None if raw is not None else "refused") for n, raw in enumerate(raws)
    ]
    one, other = vote("i", "c", seats, by="mean"), vote("i", "c", seats, by="majority")
    assert (one.raw, other.raw) == (mean, majority)
    for found in (one, other):
        assert (found.raw is None) is bool(found.why)
        assert set(found.shown()["judges"]) == {seat.judge for seat in seats}


@pytest.mark.req("W-071")
def test_a_panels_disagreement_stands_beside_its_result() -> None:
    found = vote(
        "i", "c", [Seat("x", 5, None), Seat("y", 2, None), Seat("z", None, "hung")], by="majority"
    )
    assert (found.spread, found.unanimous) == (3, False)
    same = vote(
        "i", "c", [Seat("x", 5, None), Seat("y", 5, None), Seat("z", None, "hung")], by="majority"
    )
    assert same.unanimous is False, "a member that said nothing did not agree"
    assert (
        vote("i", "c", [Seat("x", 5, None), Seat("y", None, "hung")], by="mean").unanimous is None
    )


def test_a_panel_that_was_asked_different_things_does_not_convene() -> None:
    with pytest.raises(ValueError, match="shorter"):
        convene(
            {"x": [Judged("i", "c", 4, None, ())] * 2, "y": [Judged("i", "c", 4, None, ())]},
            by="mean",
        )


# --- files


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"output": "x"}, "'id' is missing"),
        ({"id": "1"}, "'output' is missing"),
        ({"id": "1", "outptu": "x"}, "Did you mean"),
        ({"id": 1, "output": "x"}, "id: must be a string"),
        ({"id": "", "output": "x"}, "shorter than 1 character"),
        ({"id": "1", "output": "x", "group": 5}, "group: must be a string or null"),
        (["id"], "must be an object"),
        ({"schema": "assay.run/1"}, ""),
    ],
)
def test_a_line_that_is_no_item_is_told_with_its_line(tmp_path: Path, line: Any, says: str) -> None:
    path = put_lines(tmp_path / "i.jsonl", [{"id": "0", "output": "x"}, line])
    with pytest.raises(InputError) as caught:
        read_items([str(path)])
    assert caught.value.faults[0].line == 2
    assert any(says in fault.text() for fault in caught.value.faults)


def test_an_id_that_stands_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_items([str(put_lines(tmp_path / "i.jsonl", [{"id": "0", "output": "x"}] * 2))])
    assert caught.value.code == "FIL-007"


def test_a_pair_has_two_texts_and_a_known_label(tmp_path: Path) -> None:
    good = {"id": "0", "a": "x", "b": "y", "label": "tie", "a_family": "m", "b_family": None}
    assert read_pairs([str(put_lines(tmp_path / "p.jsonl", [good]))])[0].families == ("m", None)
    for bad in (
        {**good, "label": "c"},
        {**good, "label": ["a"]},
        {"id": "0", "a": "x"},
        {**good, "winner": "a"},
    ):
        with pytest.raises(InputError):
            read_pairs([str(put_lines(tmp_path / "p.jsonl", [bad]))])


def test_runs_are_paired_by_sample_and_a_lonely_one_is_refused(tmp_path: Path) -> None:
    def runs(name: str, samples: list[str]) -> Any:
        trees = [
            run_tree(run_id=f"{name}-{n}", dataset={"id": "d", "version": "1", "sample_id": sample})
            for n, sample in enumerate(samples)
        ]
        return read_items([str(put_lines(tmp_path / f"{name}.jsonl", trees))])

    assert [one.id for one in pair_up(runs("x", ["1", "2"]), runs("y", ["2", "1"]))] == ["1", "2"]
    with pytest.raises(InputError, match="on one side only"):
        pair_up(runs("x", ["1", "2"]), runs("y", ["2", "3"]))
    with pytest.raises(InputError, match="appears twice"):
        pair_up(runs("x", ["1", "1"]), runs("y", ["1"]))


@pytest.mark.parametrize("score", [0, 6, 4.5, True, "4", None])
def test_an_example_off_the_scale_is_refused(tmp_path: Path, score: Any) -> None:
    with pytest.raises(InputError, match=r"from 1 to 5|score: must be a whole number"):
        read_examples(
            str(put_lines(tmp_path / "e.jsonl", [{"output": "x", "score": score, "reason": "r"}])),
            criterion(),
        )


@pytest.mark.req("W-071")
def test_examples_go_to_their_criterion(tmp_path: Path) -> None:
    lines = [
        {"output": "x", "score": 4, "reason": "r"},
        {"output": "y", "score": 2, "reason": "r", "criterion": "clarity"},
    ]
    path = str(put_lines(tmp_path / "e.jsonl", lines))
    assert [one.candidate for one in read_examples(path, criterion())] == ["x"]
    assert [one.candidate for one in read_examples(path, criterion("clarity"))] == ["x", "y"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        ({"only": "x"}, "x"),
        ({}, ""),
        (None, ""),
        ({"a": 1}, '{\n  "a": 1\n}'),
        ([1], "[\n  1\n]"),
        (0, "0"),
        (False, "false"),
        ({"a": Decimal("0.10")}, '{\n  "a": 0.10\n}'),
    ],
)
def test_a_value_is_shown_as_a_judge_reads_it(value: Any, text: str) -> None:
    assert shown(value) == text


def test_a_run_without_outputs_has_no_score_and_is_not_judged_as_an_empty_answer(
    assay: Any, tmp_path: Path
) -> None:
    runs = [
        {
            "schema": "assay.run/1",
            "run_id": name,
            "status": status,
            "workflow": {"id": "w", "version": "1", "family": "rag"},
            "dataset": {"id": "d", "version": "1", "sample_id": name},
            **({"outputs": outputs} if outputs is not None else {}),
        }
        for name, status, outputs in (
            ("whole", "success", {"answer": "text quality=0.9"}),
            ("lost", "timeout", None),
        )
    ]
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))
    with scripted_judge() as judge:
        done = assay(
            "judge",
            "rubric",
            tmp_path / "runs.jsonl",
            "--rubric",
            "code-repair",
            "--model",
            "m",
            "--base-url",
            judge.url,
            "--no-journal",
            "--json",
            "-o",
            tmp_path / "out.jsonl",
        )
        assert judge.stats().requests == 1
    found = {row["id"]: row for row in json.loads(done.out)["items"]}
    assert done.code == 4
    assert found["lost"]["raw"] is None
    assert "no outputs; it ended with the status timeout" in found["lost"]["why"]
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert written[1]["scores"]["judge_quality"]["raw"] is None


@pytest.mark.parametrize("read", [read_items, read_pairs])
def test_grades_are_refused_as_what_they_are_and_once(tmp_path: Path, read: Any) -> None:
    path = tmp_path / "grades.jsonl"
    put_lines(path, [{"run_id": f"r{place}", "hard_gates": {}, "grade": "A"} for place in range(9)])
    with pytest.raises(InputError, match="contains grades") as refused:
        read([str(path)])
    assert (refused.value.where, tuple(refused.value.faults)) == (str(path), ())
    assert "Pass the runs" in refused.value.fix
