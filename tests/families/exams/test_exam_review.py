"""`assay exam review`: the due items of a schedule are graded, and the schedule moves."""

from __future__ import annotations

import json
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from commands import Running
from examples import repeats
from test_exam_rules import EXAMS, RIGHT, write


@pytest.fixture
def schedule(assay: Any, tmp_path: Path) -> Path:
    """The maths exam, graded on 2026-05-01 with m-6 wrong: it is due again the next day, as all."""
    for path in EXAMS.iterdir():
        shutil.copy(path, tmp_path)
    write(tmp_path, "first", {**RIGHT["maths"], "m-6": "no idea"})
    assay("exam", "grade", "maths.yaml", "--answers", "first.jsonl", "-o", "r.json")
    done = assay(
        *("exam", "export-sm2", "r.json", "--rubric", "maths-rubric.yaml"),
        *("--date", "2026-05-01", "-o", "s.json"),
    )
    assert done.code == 0
    cards = json.loads((tmp_path / "s.json").read_text())
    for card in cards["cards"]:
        if card["item"] != "m-6":
            card["due"] = "2026-05-09"
    (tmp_path / "s.json").write_text(json.dumps(cards))
    return tmp_path / "s.json"


def reviewed(assay: Any, day: str, *more: str, answers: str = "first.jsonl") -> Any:
    return assay(
        *("exam", "review", "maths.yaml", "--schedule", "s.json", "--date", day),
        *("--answers", answers, *more),
    )


def cards(schedule: Path) -> dict[str, Any]:
    return {one["item"]: one for one in json.loads(schedule.read_text())["cards"]}


def test_only_due_items_are_graded_and_only_their_cards_move(
    assay: Any, schedule: Path, tmp_path: Path
) -> None:
    before = cards(schedule)
    write(tmp_path, "now", RIGHT["maths"])
    done = reviewed(assay, "2026-05-02", "--json", answers="now.jsonl")
    found = done.json()
    assert (done.code, found["due"], found["counts"]["passed"]) == (0, ["m-6"], 1)
    after = cards(schedule)
    assert {name for name in before if before[name] != after[name]} == {"m-6"}
    assert (after["m-6"]["repetitions"], after["m-6"]["due"]) == (1, "2026-05-03")
    again = reviewed(assay, "2026-05-02", answers="now.jsonl")
    assert "Nothing is due on 2026-05-02." in again.out
    assert cards(schedule) == after
    late = reviewed(assay, "2026-05-09", answers="now.jsonl")
    assert "6 items reviewed: 6 passed" in late.out
    assert cards(schedule)["m-1"]["interval_days"] == 6


def test_a_due_item_without_an_answer_is_a_failed_review(
    assay: Any, schedule: Path, tmp_path: Path
) -> None:
    write(tmp_path, "none", {"m-1": RIGHT["maths"]["m-1"]})
    done = reviewed(assay, "2026-05-09", "-o", "review.json", answers="none.jsonl")
    found = json.loads((tmp_path / "review.json").read_text())
    assert (done.code, found["counts"]["missing"], found["counts"]["failed"]) == (0, 5, 5)
    assert "FAILED  m-6" in done.out
    card = cards(schedule)["m-2"]
    assert (card["quality"], card["repetitions"], card["due"]) == (0, 0, "2026-05-10")


def test_a_review_exits_0_however_many_failed_and_4_without_a_card(
    assay: Any, schedule: Path, tmp_path: Path
) -> None:
    write(tmp_path, "none", {})
    done = reviewed(assay, "2026-05-09", answers="none.jsonl")
    assert done.code == 0
    assert "6 items reviewed: 0 passed, 6 failed, 6 of them without an answer" in done.out
    done = reviewed(assay, "2026-05-09", answers="none.jsonl")
    assert (done.code, "Nothing is due on 2026-05-09." in done.out) == (0, True)
    empty = {**json.loads(schedule.read_text()), "cards": []}
    schedule.write_text(json.dumps(empty))
    done = reviewed(assay, "2026-05-09")
    assert (done.code, "the schedule has no cards" in done.err) == (4, True)
    assert json.loads(schedule.read_text()) == empty
    assert reviewed(assay, "2026-05-09", "--new").code == 0
    assert len(cards(schedule)) == 6


def test_a_review_that_is_killed_leaves_the_old_schedule_or_the_new_one(
    assay: Any, schedule: Path, tmp_path: Path
) -> None:
    words = [
        "exam",
        "review",
        "maths.yaml",
        "--schedule",
        "s.json",
        "--date",
        "2026-05-02",
        "--answers",
        "first.jsonl",
    ]
    old = schedule.read_bytes()
    assert assay(*words).code == 0
    new = schedule.read_bytes()
    chance = random.Random(7)
    for _ in range(repeats(4, 100)):
        schedule.write_bytes(old)
        review = Running(*words, cwd=tmp_path)
        time.sleep(chance.uniform(0, 0.5))
        review.end_at_once()
        assert schedule.read_bytes() in (old, new)
    schedule.write_bytes(old)
    assert assay(*words).code == 0
    assert schedule.read_bytes() == new


def test_what_the_exam_lacks_is_refused_and_what_the_schedule_lacks_is_counted(
    assay: Any, schedule: Path, tmp_path: Path
) -> None:
    tree = json.loads(schedule.read_text())
    tree["cards"][0]["item"] = "m-0"
    schedule.write_text(json.dumps(tree))
    done = reviewed(assay, "2026-05-02")
    assert done.code == 3
    assert "the exam has no item 'm-0'" in done.err
    tree["cards"] = tree["cards"][1:]
    schedule.write_text(json.dumps(tree))
    done = reviewed(assay, "2026-05-02")
    assert "1 item never reviewed; add --new to include them" in done.out
    done = reviewed(assay, "2026-05-02", "--new", "--json")
    assert done.json()["due"] == ["m-1"]
    assert "m-1" in cards(schedule)


def test_a_policy_that_knows_no_right_answer_of_the_rubric_is_refused(
    assay: Any, schedule: Path, tmp_path: Path
) -> None:
    own = assay("library", "show", "policies", "exam").out.replace(
        "policy: exam\n", "policy: own\n"
    )
    (tmp_path / "own.yaml").write_text(own.replace("main: true", "axis: correctness"))
    done = reviewed(assay, "2026-05-02", "--policy", "own.yaml")
    assert done.code == 3
    assert "own@1 schedules by the axis 'correctness', which maths@1 doesn't have" in done.err
    (tmp_path / "own.yaml").write_text(own.replace("main: true", "axis: anwser"))
    done = reviewed(assay, "2026-05-02", "--policy", "own.yaml")
    assert "no axis of maths@1 is named 'anwser'. Did you mean 'answer'?" in done.err
    assert reviewed(assay, "2 May").code == 2
