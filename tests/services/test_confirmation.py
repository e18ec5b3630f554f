"""Confirmation by fresh runs: `--fresh` and `--fresh-baseline`, what they may not be, and what a
person may accept.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.library.lock import BUILTIN
from sides import again, card, cards, failing, write

N = 60
BASE = [90.0] * N
BAD, GOOD = failing({3}, BASE)[3], cards(BASE)[3]
TURNS = 7
"""What a suspect of so many samples with two gates needs."""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write(tmp_path / "base.jsonl", cards(BASE))
    write(tmp_path / "cand.jsonl", failing({3}, BASE))
    text = (Path(BUILTIN) / "policies" / "release@1.yaml").read_text()
    text = text.replace("policy: release\n", "policy: mine\n").replace(
        "gate_margin: 0.05", "gate_margin: 0.2\napprovers: [ada@example.org, grace]"
    )
    (tmp_path / "mine.yaml").write_text(text)
    return tmp_path


GATE = ("gate", "cand.jsonl", "--baseline", "base.jsonl", "--release-policy", "mine.yaml", "--json")
FRESH = ("--fresh", "fresh.jsonl", "--fresh-baseline", "fresh-base.jsonl")


def confirmed(assay: Any, files: Path, ours: list[Any], theirs: list[Any], *more: str) -> Any:
    write(files / "fresh.jsonl", ours)
    arguments = [*GATE, "--fresh", "fresh.jsonl", *more]
    if theirs:
        write(files / "fresh-base.jsonl", theirs)
        arguments += ["--fresh-baseline", "fresh-base.jsonl"]
    return assay(*arguments)


def mixed(bad: int, good: int, *, name: str = "fresh") -> list[dict[str, Any]]:
    """So many fresh runs that fail, and then some that pass."""
    return [*again(BAD, bad + good, name=name)[:bad], *again(GOOD, bad + good, name=name)[bad:]]


@pytest.mark.parametrize(
    ("ours", "theirs", "said", "outcome", "runs"),
    [
        (mixed(TURNS, 0), mixed(0, TURNS, name="b"), "confirmed", "reject", (TURNS, TURNS)),
        (mixed(TURNS + 4, 0), mixed(0, TURNS + 4, name="b"), "confirmed", "reject", (7, 7)),
        (mixed(0, 1), [], "flaky", "promote", (1, 0)),
        (mixed(TURNS - 1, 1), mixed(0, TURNS, name="b"), "flaky", "promote", (7, 7)),
        (mixed(1, 0), mixed(1, 0, name="b"), "baseline_fails_too", "promote", (1, 1)),
        (
            mixed(TURNS, 0),
            [*mixed(0, TURNS - 1, name="b"), {**BAD, "run_id": "b", "attempt": TURNS}],
            "baseline_fails_too",
            "promote",
            (7, 7),
        ),
        (mixed(TURNS - 1, 0), mixed(0, TURNS - 1, name="b"), "open", "hold", (6, 6)),
        (mixed(TURNS, 0), [], "open", "hold", (7, 0)),
        (mixed(TURNS, 0), mixed(0, TURNS - 1, name="b"), "open", "hold", (7, 6)),
    ],
)
def test_fresh_runs_settle_what_seems_to_fail_newly(
    assay: Any,
    files: Path,
    ours: list[Any],
    theirs: list[Any],
    said: str,
    outcome: str,
    runs: tuple[int, int],
) -> None:
    first = assay(*GATE).json()
    assert (first["outcome"], first["confirmation"]["repeats"]) == ("hold", TURNS)
    assert all(one["fresh"] is None for one in first["confirmation"]["suspects"])
    done = confirmed(assay, files, ours, theirs)
    made = done.json()
    assert (made["outcome"], done.code) == (outcome, 0 if outcome == "promote" else 1)
    assert [one["check"] for one in made["confirmation"]["suspects"]] == [
        "gate looks_right",
        "pass",
    ]
    for one in made["confirmation"]["suspects"]:
        assert one["verdict"] == said
        fresh = one["fresh"]
        assert (fresh["candidate"]["runs"], fresh["baseline"]["runs"]) == runs
    assert made["confirmation"]["needed"] == (outcome == "hold")
    assert made["confirmation"]["alpha"] == 0.01
    if said == "open":
        assert "run it up to 7 times on both sides" in made["reason"]


def test_an_error_of_the_infrastructure_is_no_turn(assay: Any, files: Path) -> None:
    def ended(documents: list[Any]) -> list[Any]:
        return [{**one, "status": "error"} for one in documents]

    ours, theirs = mixed(TURNS, 0), mixed(0, TURNS, name="b")
    cases: list[tuple[list[Any], list[Any], str]] = [
        (ended(ours), theirs, "reject"),  # it fails again, or is lost, in every fresh run
        (ours, ended(theirs), "hold"),
        (ended(ours), ended(theirs), "hold"),
        ([*ended(ours[:2]), *ours[2:]], [*ended(theirs[:2]), *theirs[2:]], "hold"),
        (
            [*ended(mixed(2, 0)), *mixed(TURNS + 2, 0)[2:]],
            [*ended(mixed(0, 2, name="b")), *mixed(0, TURNS + 2, name="b")[2:]],
            "reject",
        ),
    ]
    for mine, other, outcome in cases:
        assert confirmed(assay, files, mine, other).json()["outcome"] == outcome


def test_a_fresh_run_of_the_baseline_that_does_not_answer_is_no_turn(
    assay: Any, files: Path
) -> None:
    silent = [
        {**one, "hard_gates": {"no_policy_violation": True}} for one in mixed(0, TURNS, name="b")
    ]
    made = confirmed(assay, files, mixed(TURNS, 0), silent).json()
    gate = next(one for one in made["confirmation"]["suspects"] if one["check"] != "pass")
    assert gate["verdict"] == "open"


def test_one_sample_that_is_repaired_confirms_no_other(assay: Any, files: Path) -> None:
    """How many turns there are doesn't depend on what is suspect."""
    for places in ({3}, {3, 4, 5}):
        write(files / "cand.jsonl", failing(places, BASE))
        assert assay(*GATE).json()["confirmation"]["repeats"] == TURNS


@pytest.mark.parametrize(
    ("runs", "turns"), [((1, 1), 7), ((1, 3), 3), ((3, 3), 3)], ids=["1v1", "1v3", "3v3"]
)
def test_a_baseline_that_agrees_with_itself_needs_fewer_turns(
    assay: Any, files: Path, runs: tuple[int, int], turns: int
) -> None:
    sides = [
        [one for card in cards(BASE) for one in again(card, times, name=f"first{times}")]
        for times in runs
    ]
    write(files / "cand.jsonl", sides[0])
    write(files / "base.jsonl", sides[1])
    assert assay(*GATE).json()["confirmation"]["repeats"] == turns


@pytest.mark.parametrize("stored", [1, 2])
def test_where_the_baseline_fails_all_that_it_passed_before_the_world_has_changed(
    assay: Any, files: Path, stored: int
) -> None:
    before = [one for card in cards(BASE) for one in again(card, stored, name="first")]
    write(files / "base.jsonl", before)
    write(files / "cand.jsonl", failing({3, 4, 5}, BASE))
    ours = [one for at in (3, 4, 5) for one in again(failing({at}, BASE)[at], 3)]
    theirs = [one for at in (3, 4, 5) for one in again(failing({at}, BASE)[at], 3, name="b")]
    made = confirmed(assay, files, ours, theirs).json()
    assert made["outcome"] == "hold"
    assert "evaluate it again" in made["reason"]
    some = [*theirs[:6], *again(cards(BASE)[5], 3, name="b")]
    made = confirmed(assay, files, ours, some).json()
    assert "evaluate it again" not in made["reason"]


# --- what isn't fresh


WORKFLOW = {"id": "w", "version": "1"}


def in_dataset(documents: list[Any], version: str = "1", name: str = "d") -> list[Any]:
    """The same as runs of a workflow on a dataset."""
    return [
        {
            **one,
            "dataset": {"id": name, "version": version, "sample_id": one["sample_id"]},
            "workflow": WORKFLOW,
        }
        for one in documents
    ]


@pytest.mark.parametrize(
    ("fresh", "said"),
    [
        (
            [{**one, "workflow": {"id": "w", "version": "2"}} for one in in_dataset(mixed(1, 0))],
            "the fresh runs are of w 2, and the candidate is 1",
        ),
        (
            [{**one, "workflow": {"id": "x", "version": "1"}} for one in in_dataset(mixed(1, 0))],
            "the fresh runs are of x 1, and the candidate is none",
        ),
        (in_dataset(mixed(1, 0), name="e"), "another dataset than those of the candidate"),
        (in_dataset(mixed(1, 0), version="2"), "d version 2"),
        (in_dataset(again(card("other", 90), 1)), "samples that the candidate doesn't have"),
        (in_dataset([BAD]), "so they are not fresh"),
        (in_dataset([{**BAD, "attempt": 2}]), "so they are not fresh"),
        (in_dataset(mixed(0, 3)[1:]), "attempt 1 of d/s-0003"),
        (in_dataset([mixed(0, 3)[0], mixed(0, 3)[2]]), "attempt 2 of d/s-0003"),
    ],
    ids=[
        "another version",
        "another workflow",
        "another dataset",
        "another version of the dataset",
        "another sample",
        "the same run",
        "the same run as another attempt",
        "the first attempt left out",
        "an attempt left out",
    ],
)
@pytest.mark.parametrize("side", ["candidate", "baseline"])
def test_runs_that_can_not_confirm_anything_are_refused_by_name(
    assay: Any, files: Path, fresh: list[Any], said: str, side: str
) -> None:
    write(files / "base.jsonl", in_dataset([*cards(BASE)[:3], BAD, *cards(BASE)[4:]]))
    write(files / "cand.jsonl", in_dataset(failing({3}, BASE)))
    other = in_dataset(mixed(1, 0, name="other"))
    made = confirmed(assay, files, *((fresh, other) if side == "candidate" else (other, fresh)))
    if side == "baseline" and "attempt" in said:  # such a turn is void
        assert made.code in (0, 1)
        return
    assert (made.code, made.out) == (3, "")
    assert said.replace("candidate", side) in json.loads(made.err)["error"]["message"]


def test_one_file_is_not_both_sides(assay: Any, files: Path) -> None:
    made = confirmed(assay, files, mixed(0, 3), mixed(0, 3))
    assert made.code == 3
    assert "both sides" in json.loads(made.err)["error"]["message"]


def test_fresh_runs_of_the_baseline_alone_are_refused(assay: Any, files: Path) -> None:
    write(files / "fresh-base.jsonl", mixed(1, 0))
    done = assay(*GATE, "--fresh-baseline", "fresh-base.jsonl")
    assert (done.code, done.out) == (2, "")


def test_fresh_runs_of_some_samples_of_a_mixed_suite_are_fresh(assay: Any, files: Path) -> None:
    """Of two datasets with two profiles, those of one."""
    sides = [
        [row for at, one in enumerate(documents) for row in in_dataset([one], name="de"[at % 2])]
        for documents in (failing({3}, BASE), cards(BASE))
    ]
    write(files / "cand.jsonl", sides[0])
    write(files / "base.jsonl", sides[1])
    ours, theirs = (in_dataset(made, name="e") for made in (mixed(0, 1), mixed(0, 1, name="b")))
    assert confirmed(assay, files, ours, theirs).json()["outcome"] == "promote"


# --- what newly fails and may ship all the same


ACCEPT = ("--accept", "s-0003", "--because", "the label is wrong")


def as_person(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("GITHUB_ACTOR", name)


def test_what_an_approver_accepts_is_shown_and_ships(
    assay: Any, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_person(monkeypatch, "grace")
    fresh = (mixed(TURNS, 0), mixed(0, TURNS, name="b"))
    assert confirmed(assay, files, *fresh).json()["outcome"] == "reject"
    done = confirmed(assay, files, *fresh, *ACCEPT)
    made = done.json()
    assert (made["outcome"], done.code) == ("promote", 0)
    for one in made["confirmation"]["suspects"]:
        assert (one["verdict"], one["accepted"]) == ("confirmed", "the label is wrong (grace)")
    rule = next(rule for rule in made["rules"] if rule["id"] == "new_failures")
    assert "accepted" in rule["reason"]
    # an accepted one needs no fresh runs, and another one still does
    assert assay(*GATE, *ACCEPT).json()["outcome"] == "promote"
    write(files / "cand.jsonl", failing({3, 5}, BASE))
    assert assay(*GATE, *ACCEPT).json()["outcome"] == "hold"


def test_an_accepted_failure_stays_accepted_only_for_its_sample(
    assay: Any, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_person(monkeypatch, "grace")
    write(files / "cand.jsonl", failing({3, 5}, BASE))
    ours = [*mixed(TURNS, 0), *again(failing({5}, BASE)[5], TURNS)]
    theirs = [*mixed(0, TURNS, name="b"), *again(cards(BASE)[5], TURNS, name="b")]
    made = confirmed(assay, files, ours, theirs, *ACCEPT).json()
    assert made["outcome"] == "reject"
    assert "s-0005" in made["reason"]
    assert "s-0003" not in made["reason"]


@pytest.mark.parametrize(
    ("person", "words", "said"),
    [
        ("grace", ("--accept", "s-0004", "--because", "why"), "there is no sample 's-0004'"),
        ("grace", ("--accept", "nobody", "--because", "why"), "there is no sample 'nobody'"),
        ("grace", ("--accept", "s-0003"), "needs a reason"),
        ("grace", ("--accept", "s-0003", "--because", "  "), "needs a reason"),
        ("eve", ACCEPT, "eve may not accept a new failure"),
        ("Grace", ACCEPT, "Grace may not accept a new failure"),
    ],
)
def test_an_acceptance_without_grounds_is_refused(
    assay: Any,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    person: str,
    words: tuple[str, ...],
    said: str,
) -> None:
    as_person(monkeypatch, person)
    done = assay(*GATE, *words)
    assert (done.code, done.out) == (2, "")
    assert said in json.loads(done.err)["error"]["message"]


def test_the_policy_that_lists_nobody_lets_nobody_accept(
    assay: Any, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_person(monkeypatch, "grace")
    done = assay("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json", *ACCEPT)
    assert done.code == 2
    assert "`approvers` list nobody" in json.loads(done.err)["error"]["message"]


@pytest.mark.parametrize("first", [True, False])
def test_a_severe_failure_can_not_be_accepted(
    assay: Any, files: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """Neither in the first round nor in a fresh run."""
    as_person(monkeypatch, "grace")
    severe = failing({3}, BASE, "no_policy_violation")
    fresh = again(severe[3], 2)
    if first:
        write(files / "cand.jsonl", severe)
        done = assay(*GATE, *ACCEPT)
    else:
        done = confirmed(assay, files, fresh, again(GOOD, 2, name="b"), *ACCEPT)
    assert (done.code, done.out) == (2, "")
    assert "a severe failure can't be accepted" in json.loads(done.err)["error"]["message"]
