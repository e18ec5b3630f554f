"""The age of a judge's card counts from its oldest answer, however often the answers are carded,
audited or calibrated again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from assay.canon import time_of, time_text
from assay.errors import InputError
from assay.files.line_log import LineLog, LogErrors
from assay.judging.card import check_card
from judges import Run, here, pair, put_items, put_lines, put_pairs
from servers.scripted_judge import Endpoint, scripted_judge

__all__ = ["here"]

NOW = datetime.now(UTC)
OLD = time_text(NOW - timedelta(days=45))
RUBRIC = ("items.jsonl", "--rubric", "plain.yaml", "--criterion", "correctness")
AUDIT = ("--items", "pairs.jsonl", "--probe", "position", "--probe", "padding", "--probe")


class Work:
    """A judge that is asked, audited, calibrated and carded in a folder."""

    def __init__(self, here: Run, folder: Path, endpoint: Endpoint) -> None:
        self.here, self.folder, self.endpoint = here, folder, endpoint
        put_items(folder, 30)
        put_pairs(folder, [pair(number, (number % 5) / 4, 0.6) for number in range(30)])
        text = f"{{judge: grader, model: m-1, base_url: '{endpoint.url}'}}"
        (folder / "judge.yaml").write_text(text)

    def ask(self, *, journal: str = "old.journal") -> str:
        """Judgements, their calibration by people who agree, and an audit; what they noted."""
        asked = ("--judge", "judge.yaml", "--journal", journal, "-o")
        said = self.here("judge", "rubric", *RUBRIC, *asked, "judgements.json")
        assert said.code == 0, said.err
        rows = json.loads((self.folder / "judgements.json").read_bytes())["items"]
        labels = [{"id": row["id"], "human": row["raw"], "judge": row["raw"]} for row in rows]
        put_lines(self.folder / "labels.jsonl", labels)
        words = ("--labels", "labels.jsonl", "--judgements", "judgements.json")
        assert self.here("judge", "calibrate", *words, "-o", "calibration.json").code == 0
        audited = self.here("judge", "audit", *AUDIT, "injection", *asked, "audit.json")
        assert audited.code == 0, audited.err
        return said.err + audited.err

    def card(self, *more: str) -> dict[str, Any]:
        files = ("--audit", "audit.json", "--calibration", "calibration.json")
        made: dict[str, Any] = self.here("judge", "card", *files, *more, "--json").json()
        return made

    def change(self, at: str | None, *, which: Callable[[int], bool] = lambda number: True) -> None:
        """Give answers of the journal another time; the first is number 1."""
        entries: list[dict[str, Any]] = []
        log = LineLog(str(self.folder / "old.journal"), LogErrors("JDG-004"))
        log.open(lambda tree, place, number: entries.append(tree))
        log.close(failing=False)
        (self.folder / "old.journal").unlink()
        log = LineLog(str(self.folder / "old.journal"), LogErrors("JDG-004"))
        log.open(lambda *entry: None)
        for number, entry in enumerate(entries):
            log.append({**entry, "at": at} if number and which(number) else entry)
        log.close(failing=False)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Endpoint, Path]]:
    """A judge, and where to keep what it answered the first time."""
    with scripted_judge(model="m-1") as endpoint:
        yield endpoint, tmp_path_factory.mktemp("asked") / "kept"


@pytest.fixture
def work(here: Run, tmp_path: Path, asked: tuple[Endpoint, Path]) -> Work:
    endpoint, kept = asked
    made = Work(here, tmp_path, endpoint)
    if kept.exists():
        shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    else:
        assert "note:" not in made.ask()
        shutil.copytree(tmp_path, kept)
    return made


def age_of(card: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in card["admission"]["terms"] if one["id"] == "age")
    return found


@pytest.mark.req("W-008")
def test_old_answers_make_an_old_card_whatever_is_made_of_them_again(work: Work) -> None:
    fresh = work.card()
    assert fresh["admission"]["may_gate"], fresh["admission"]["reason"]
    answered = time_of(fresh["usage"]["answered_at"])
    assert answered is not None
    later = work.card("--now", time_text(answered + timedelta(days=45)))
    assert not later["admission"]["may_gate"], "a new card of the same audit and calibration"
    assert "its oldest answer is 45.0 days old, at most 30 allowed" in later["admission"]["reason"]

    work.change(OLD)
    asked = work.endpoint.stats().requests
    notes = work.ask()
    assert work.endpoint.stats().requests == asked, "every answer came out of the journal"
    assert notes.count("days old, and so is a card made from these answers") == 2
    assert "give --journal a new file" in notes
    again = work.card()
    assert (again["usage"]["answered_at"], again["admission"]["may_gate"]) == (OLD, False)
    assert again["admission"]["reason"] == age_of(again)["sentence"]

    assert "note:" not in work.ask(journal="new.journal")
    assert work.card()["admission"]["may_gate"]


@pytest.mark.req("W-008")
@pytest.mark.parametrize("number", [1, -1], ids=["a judgement", "an answer of the audit"])
def test_one_old_answer_among_new_ones_counts_and_one_without_a_time_admits_nobody(
    work: Work, number: int
) -> None:
    lines = (work.folder / "old.journal").read_text().splitlines()
    one = number % len(lines)
    work.change(OLD, which=lambda place: place == one)
    work.ask()
    card = work.card()
    assert (card["usage"]["answered_at"], age_of(card)["holds"]) == (OLD, False)

    work.change(None, which=lambda place: place == one)
    assert "the journal doesn't show when some of these answers came" in work.ask()
    unknown = work.card()
    assert (unknown["usage"]["answered_at"], unknown["admission"]["may_gate"]) == (None, False)
    assert age_of(unknown)["holds"] is None
    assert "ask it again with a new --journal FILE" in unknown["admission"]["reason"]


def test_answers_from_the_future_are_refused_like_a_card_from_the_future(work: Work) -> None:
    coming = time_text(NOW + timedelta(days=3))
    work.change(coming)
    work.ask()
    card = work.card()
    assert age_of(card)["holds"] is False
    assert age_of(card)["sentence"] == "its oldest answer is from the future"
    with pytest.raises(InputError, match=f"answered_at is {coming}, in the future"):
        check_card(card, now=NOW + timedelta(days=1))
    assert check_card(card, now=NOW + timedelta(days=4))


def test_a_calibration_without_judgements_does_not_know_when_the_judge_answered(
    work: Work,
) -> None:
    words = ("--labels", "labels.jsonl", "-o", "calibration.json")
    assert work.here("judge", "calibrate", *words).code == 0
    assert age_of(work.card())["holds"] is None
