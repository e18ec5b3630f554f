"""Drift: the same judge, the same items, another day."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from assay.canon import digest
from assay.errors import InputError
from assay.families.judges.calibration import calibrate
from assay.families.judges.drift import DriftLimits, compare_cards
from assay.judging.card import make_card

MONTHS = [f"2026-{month:02}-01T00:00:00Z" for month in range(1, 13)]


def labels(
    n: int = 120, *, values: tuple[Any, ...] = (True, False), seed: int = 3
) -> dict[str, Any]:
    rng = random.Random(seed)
    return {f"i{place}": rng.choice(values) for place in range(n)}


def card(
    people: dict[str, Any],
    verdicts: dict[str, Any],
    *,
    month: int = 0,
    model: str = "m-1",
    prompt: str = "p1",
) -> dict[str, Any]:
    rows = [
        {"id": name, "human": label, "judge": verdicts[name]}
        for name, label in people.items()
        if name in verdicts
    ]
    return {
        "schema": "assay.judge-card/1",
        "model": model,
        "prompt_version": prompt,
        "made_at": MONTHS[month],
        "calibration": {**calibrate(rows, minimum=1), "answered_at": MONTHS[month]},
        "verdicts": verdicts,
    }


def judged(
    people: dict[str, Any],
    *,
    right: float = 0.85,
    seed: int = 5,
    values: tuple[Any, ...] = (True, False),
) -> dict[str, Any]:
    rng = random.Random(seed)
    return {
        name: label
        if rng.random() < right
        else rng.choice([value for value in values if value != label])
        for name, label in people.items()
    }


def changed(verdicts: dict[str, Any], share: float, make: Any, *, seed: int = 8) -> dict[str, Any]:
    rng = random.Random(seed)
    return {
        name: make(value) if rng.random() < share else value for name, value in verdicts.items()
    }


@pytest.mark.req("W-070", "W-008")
def test_the_same_behaviour_raises_no_alarm_and_other_behaviour_under_the_same_name_does() -> None:
    people = labels()
    then = judged(people)
    same = compare_cards([card(people, then)], card(people, then, month=1))
    assert same["alarm"] is False
    assert "no change is shown on 120 items" in same["reason"]
    lenient = changed(then, 0.5, lambda value: True)
    found = compare_cards([card(people, then)], card(people, lenient, month=1))
    assert found["alarm"] is True
    (comparison,) = found["comparisons"]
    assert comparison.mean_change.low > 0
    assert {test.id for test in comparison.tests if test.alarm} >= {"flipped", "direction"}
    assert "went up and 0 down" in found["reason"]


@pytest.mark.parametrize(("answered", "alarm"), [(0, None), (1, False), (None, None)])
def test_a_new_card_of_old_verdicts_shows_no_drift_and_no_stability(
    answered: int | None, alarm: bool | None
) -> None:
    people = labels()
    verdicts = judged(people)
    then, now = card(people, verdicts), card(people, verdicts, month=1)
    now["calibration"]["answered_at"] = None if answered is None else MONTHS[answered]
    found = compare_cards([then], now)
    assert found["alarm"] is alarm
    reason = {
        0: "the verdicts of the latest card date from 2026-01-01T00:00:00Z, not after",
        1: "no change is shown on 120 items",
        None: "has the same verdicts and doesn't say when the judge gave them",
    }[answered]
    assert reason in found["reason"]


def test_cards_are_ordered_by_their_moments_and_not_by_their_texts() -> None:
    people = labels()
    then, now = card(people, judged(people)), card(people, judged(people, seed=6))
    for one, moment in ((then, "2026-01-01T09:00:00+05:00"), (now, "2026-01-01T08:00:00Z")):
        one["made_at"] = one["calibration"]["answered_at"] = moment
    assert compare_cards([then], now)["left_out"] == []
    assert "not before the latest card" in compare_cards([now], then)["left_out"][0]["reason"]


@pytest.mark.parametrize("answered", [1, None])
def test_a_card_made_again_says_nothing_about_today_beside_an_older_card(
    answered: int | None,
) -> None:
    people = labels(200)
    first = judged(people)
    second = changed(first, 0.05, lambda value: not value)
    now = card(people, second, month=2)
    now["calibration"]["answered_at"] = None if answered is None else MONTHS[answered]
    past = [card(people, first), card(people, second, month=1)]
    assert compare_cards(past, now)["alarm"] is None
    assert compare_cards(past[:1], now)["alarm"] is False


def test_a_judge_that_got_better_has_drifted_too() -> None:
    people = labels()
    found = compare_cards(
        [card(people, judged(people, right=0.6))], card(people, judged(people, right=0.97), month=1)
    )
    assert found["alarm"] is True
    assert found["comparisons"][0].accuracy_change.low > 0
    assert found["comparisons"][0].kappa_change.low > 0


def test_a_judge_that_falls_silent_has_drifted() -> None:
    people = labels()
    then = judged(people)
    found = compare_cards(
        [card(people, then)], card(people, changed(then, 0.25, lambda value: None), month=1)
    )
    assert found["alarm"] is True
    assert found["comparisons"][0].unparsable["now"] > 20
    assert any(test.id == "unparsable" and test.alarm for test in found["comparisons"][0].tests)


def test_a_few_flips_both_ways_are_the_judges_own_noise() -> None:
    people = labels(200)
    then = judged(people)
    found = compare_cards(
        [card(people, then)], card(people, changed(then, 0.05, lambda value: not value), month=1)
    )
    assert found["alarm"] is False
    assert 0 < found["comparisons"][0].flipped.value < 0.1


def test_slow_drift_shows_against_the_oldest_card() -> None:
    people = labels(150)
    months = [judged(people)]
    for month in range(1, 7):
        months.append(changed(months[-1], 0.08, lambda value: True, seed=month))
    cards = [card(people, verdicts, month=month) for month, verdicts in enumerate(months)]
    assert compare_cards([cards[-2]], cards[-1])["alarm"] is False
    found = compare_cards(cards[:-1], cards[-1])
    assert [comparison.since for comparison in found["comparisons"]] == [MONTHS[5], MONTHS[0]]
    assert found["alarm"] is True
    assert MONTHS[0] in found["reason"]


def test_numbers_comparisons_and_words_are_compared_too() -> None:
    for values, make in (
        ((1, 2, 3, 4, 5), lambda value: min(5, value + 1)),
        (("a", "b", "tie"), lambda value: "a"),
        (("x", "y", "z"), lambda value: "x"),
    ):
        people = labels(values=values)
        then = judged(people, values=values)
        assert compare_cards([card(people, then)], card(people, then, month=1))["alarm"] is False
        assert (
            compare_cards([card(people, then)], card(people, changed(then, 0.5, make), month=1))[
                "alarm"
            ]
            is True
        )
    people = {
        name: value + 0.5 + place / 1000
        for place, (name, value) in enumerate(labels(values=(1, 2, 3)).items())
    }
    then = {name: value + 0.1 for name, value in people.items()}
    found = compare_cards(
        [card(people, then)],
        card(people, {name: value + 0.3 for name, value in then.items()}, month=1),
        limits=DriftLimits(max_flipped=0.99),
    )
    assert found["alarm"] is True
    assert found["comparisons"][0].kappa_change is UNSET


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "m-2"}, "another model"),
        ({"prompt": "p2"}, "another prompt version"),
        ({"month": 5}, "not before the latest"),
    ],
)
def test_another_judge_is_not_its_past(change: dict[str, Any], said: str) -> None:
    people = labels()
    then = judged(people)
    found = compare_cards([card(people, then, **change)], card(people, then, month=2))
    assert found["alarm"] is None
    assert "not enough evidence" in found["reason"]
    assert said in found["left_out"][0]["reason"]


def test_other_sets_too_few_items_and_no_past_cannot_tell() -> None:
    people = labels()
    then = judged(people)
    relabelled = {**people, "i0": not people["i0"]}
    assert compare_cards([card(relabelled, then)], card(people, then, month=1))["alarm"] is None
    assert (
        compare_cards([], card(people, then))["reason"]
        == "not enough evidence: there is no past card"
    )
    few = {name: people[name] for name in list(people)[:20]}
    short = {name: then[name] for name in few}
    found = compare_cards([card(few, short)], card(few, short, month=1))
    assert found["alarm"] is None
    assert "20 items" in found["reason"]
    assert (
        compare_cards(
            [card(few, short)], card(few, short, month=1), limits=DriftLimits(minimum=20)
        )["alarm"]
        is False
    )


@pytest.mark.parametrize("lost", ["model", "calibration", "verdicts", "made_at"])
def test_a_card_that_lacks_something_is_refused(lost: str) -> None:
    people = labels()
    whole = card(people, judged(people))
    broken = {key: value for key, value in whole.items() if key != lost}
    with pytest.raises(InputError) as error:
        compare_cards([broken], {**whole, "made_at": MONTHS[1]})
    assert error.value.code == "JDG-009"
    with pytest.raises(InputError):
        compare_cards([{**whole, "calibration": None}], whole)


@pytest.mark.parametrize("odd", ["a/b", "", 1e300, {}, [1]])
def test_a_card_with_a_verdict_on_another_scale_is_refused(odd: Any) -> None:
    people = labels()
    verdicts = judged(people)
    then, now = card(people, verdicts), card(people, verdicts, month=1)
    now["verdicts"] = {**now["verdicts"], next(iter(now["verdicts"])): odd}
    with pytest.raises(InputError, match="can't be compared") as error:
        compare_cards([then], now)
    assert error.value.code == "JDG-009"


def test_false_alarms_are_rarer_than_alpha_where_a_judge_only_repeats_itself_with_noise() -> None:
    people = labels(100)
    alarms = 0
    for seed in range(40):
        mind = judged(people, seed=seed)
        then, now = (
            changed(mind, 0.03, lambda value: not value, seed=seed + day) for day in (1000, 2000)
        )
        alarms += compare_cards([card(people, then)], card(people, now, month=1))["alarm"] is True
    assert alarms / 40 <= 0.05


@pytest.mark.req("W-070")
def test_the_command_says_alarm_with_its_exit_code(assay: Any, tmp_path: Path) -> None:
    people = labels()
    then = judged(people)
    judge = {"judge": "j", "model": "m-1", "family": "m"}
    for name, verdicts, day in (
        ("old", then, 1),
        ("same", then, 2),
        ("other", changed(then, 0.5, lambda value: True), 3),
    ):
        made = card(people, verdicts)
        document = make_card(
            judge=judge,
            audit=None,
            calibration={**made["calibration"], "answered_at": f"2026-05-0{day}T00:00:00Z"},
            verdicts=verdicts,
            now=datetime(2026, 5, day, tzinfo=UTC),
        )
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    calm = assay("judge", "drift", "old.json", "same.json", "--json")
    assert calm.code == 0, calm.err
    assert calm.json()["alarm"] is False
    loud = assay("judge", "drift", "other.json", "same.json", "old.json")
    assert loud.code == 1, loud.err
    assert loud.out.startswith("m-1: ALARM: since 2026-05-02")
    dated = json.loads((tmp_path / "same.json").read_text())
    dated["made_at"] = "2026-05-03T05:00:00+12:00"  # before the other, though its text sorts later
    del dated["digest"]
    (tmp_path / "dated.json").write_text(json.dumps({**dated, "digest": digest(dated)}))
    assert assay("judge", "drift", "dated.json", "other.json").code == 1
    assert assay("judge", "drift", "old.json").code == 4
    broken = json.loads((tmp_path / "old.json").read_text())
    broken["verdicts"]["i0"] = not broken["verdicts"]["i0"]
    (tmp_path / "old.json").write_text(json.dumps(broken))
    assert assay("judge", "drift", "old.json", "same.json").code == 3
