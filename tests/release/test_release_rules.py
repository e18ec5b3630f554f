"""The laws of a release, on random pairs with repeats, gaps and noise: right about noise in both
directions, better is never worse, forgetting never helps, and order is nothing.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.release.confirmation import Suspect, Turn, settled, suspects_of
from assay.release.observations import PASS, Attempt, Check, Observed, Pair, Share
from assay.release.rules import Errors, Limits, judge, outcome_of
from deciding import CHECKS, GATE, SEVERE, broken, outcomes

RANK = {"violated": 0, "open": 1, "holds": 2}
LIMITS = Limits(min_pairs=2, margin=5)

attempts = st.builds(
    lambda failed, severe, score: run(failed, severe, score),
    st.sets(st.sampled_from([GATE, PASS])),
    st.sampled_from([False] * 7 + [True]),
    st.integers(0, 20),
)
observed = st.builds(
    lambda runs, lost: Observed(tuple(runs), lost if runs else max(lost, 1)),
    st.lists(attempts, max_size=3),
    st.sampled_from([0, 0, 0, 1]),
)
turns = st.lists(st.builds(Turn, st.none() | attempts, st.none() | attempts), max_size=8)


@st.composite
def suites(draw: st.DrawFn) -> tuple[list[Pair], dict[str, list[Turn]]]:
    n = draw(st.integers(2, 12))
    groups = draw(st.sampled_from([None, 2, 4]))
    pairs = [
        Pair(
            f"s{place}", draw(observed), draw(observed), None if groups is None else place % groups
        )
        for place in range(n)
    ]
    return pairs, {pair.sample: draw(turns) for pair in pairs if draw(st.booleans())}


def run(failed: Any, severe: bool, score: int) -> Attempt:
    both = frozenset(failed) | ({SEVERE} if severe else frozenset())
    return Attempt(
        CHECKS,
        both,
        frozenset({SEVERE} if severe else ()),
        score * 500,
        ("correct",),
        (score * 5 * 10**7,),
    )


def verdicts(
    pairs: list[Pair], fresh: dict[str, list[Turn]], limits: Limits = LIMITS
) -> tuple[str, dict[str, str]]:
    judged = judge(pairs, limits, floors={"correct": 5 * 10**8}, fresh=fresh)
    said = {
        rule.id: "violated" if rule.violated else "holds" if rule.holds else "open"
        for rule in judged.rules
    }
    return outcome_of(judged.rules, pairs=len(pairs), limits=limits)[0], said


# --- better is never worse


def better(one: Attempt, data: st.DataObject) -> Attempt:
    mended = data.draw(st.sets(st.sampled_from(sorted(CHECKS))))
    score = min(10_000, one.score + data.draw(st.sampled_from([0, 500, 3000, 10_000])))
    return one._replace(
        failed=one.failed - mended,
        severe=one.severe - mended,
        score=score,
        norms=(score * 10**5,),
    )


@given(suites(), st.data())
def test_improving_a_run_turns_no_rule_against_it(
    suite: tuple[list[Pair], dict[str, list[Turn]]], data: st.DataObject
) -> None:
    pairs, fresh = suite
    _, before = verdicts(pairs, fresh)
    place = data.draw(st.integers(0, len(pairs) - 1))
    pair = pairs[place]
    pairs[place] = pair._replace(
        candidate=pair.candidate._replace(
            attempts=tuple(better(one, data) for one in pair.candidate.attempts)
        )
    )
    fresh = {
        name: [
            turn
            if turn.candidate is None
            else turn._replace(candidate=better(turn.candidate, data))
            for turn in listed
        ]
        if name == pair.sample
        else listed
        for name, listed in fresh.items()
    }
    _, after = verdicts(pairs, fresh)
    assert {rule for rule in before if RANK[after[rule]] < RANK[before[rule]]} == set()


# --- forgetting never helps


@given(suites(), st.data())
def test_losing_evidence_of_either_side_never_promotes(
    suite: tuple[list[Pair], dict[str, list[Turn]]], data: st.DataObject
) -> None:
    pairs, fresh = suite
    before, _ = verdicts(pairs, fresh)
    place = data.draw(st.integers(0, len(pairs) - 1))
    side = data.draw(st.sampled_from(["candidate", "baseline"]))
    seen: Observed = getattr(pairs[place], side)
    if not seen.attempts:
        return
    at = data.draw(st.integers(0, len(seen.attempts) - 1))
    if data.draw(st.booleans()):
        kept = (*seen.attempts[:at], *seen.attempts[at + 1 :])
        lacking = Observed(kept, seen.lost + 1)
    else:
        one = seen.attempts[at]
        gone = data.draw(st.sets(st.sampled_from(sorted(CHECKS)), min_size=1))
        blank = one._replace(
            judged=one.judged - gone, failed=one.failed - gone, severe=one.severe - gone
        )
        lacking = seen._replace(attempts=(*seen.attempts[:at], blank, *seen.attempts[at + 1 :]))
    changed: dict[str, Any] = {side: lacking}
    pairs[place] = pairs[place]._replace(**changed)
    after, _ = verdicts(pairs, fresh)
    assert before == "promote" or after != "promote"


def test_a_sample_that_is_lost_in_every_run_rejects() -> None:
    good = run((), False, 20)
    pairs = [Pair(f"s{place}", Observed((good,)), Observed((good,))) for place in range(40)]
    pairs[3] = pairs[3]._replace(candidate=Observed((), 1))
    lost = [Turn(None, good)] * 8
    assert verdicts(pairs, {})[1]["complete"] == "open"
    assert verdicts(pairs, {"s3": lost})[1]["complete"] == "violated"
    assert verdicts(pairs, {}, LIMITS._replace(deterministic=True))[0] == "reject"


# --- order is nothing


@given(suites(), st.randoms(use_true_random=False))
def test_the_order_of_samples_changes_nothing(
    suite: tuple[list[Pair], dict[str, list[Turn]]], shuffled: random.Random
) -> None:
    pairs, fresh = suite
    before = judge(pairs, LIMITS, floors={}, fresh=fresh)
    shuffled.shuffle(pairs)
    assert judge(pairs, LIMITS, floors={}, fresh=fresh) == before


# --- noise, in both directions


@pytest.mark.parametrize("runs", [(1, 1), (3, 1), (1, 3)])
@pytest.mark.parametrize("kind", ["det", "mild", "llm", "agent"])
def test_a_version_against_itself_is_rarely_rejected(kind: str, runs: tuple[int, int]) -> None:
    times = 12
    found = outcomes(kind, 50, times, seed=3, runs=runs)
    expected = Errors().total
    assert found.get("reject", 0) * times <= times * expected + 3 * (times * expected) ** 0.5


@pytest.mark.parametrize(("kind", "runs"), [("det", (1, 1)), ("mild", (1, 1)), ("llm", (3, 5))])
def test_a_version_against_itself_is_promoted(kind: str, runs: tuple[int, int]) -> None:
    assert outcomes(kind, 150, 6, seed=4, runs=runs).get("promote", 0) >= 0.8


@pytest.mark.parametrize("kind", ["det", "mild", "llm"])
def test_a_version_with_broken_samples_is_rejected(kind: str) -> None:
    found = outcomes(kind, 150, 6, seed=5, effect=lambda old, drawn: broken(old, 0.05, drawn))
    assert found.get("reject", 0) >= 0.9
    assert "promote" not in found


def test_the_levels_of_the_rules_are_the_budget() -> None:
    assert Errors().total == pytest.approx(0.05)


# --- deterministic systems keep their edge


@pytest.mark.parametrize("check", [GATE, PASS, SEVERE], ids=str)
def test_one_newly_failing_sample_of_a_deterministic_system_is_a_regression(check: Check) -> None:
    good, bad = run((), False, 20), run({check}, check == SEVERE, 20)
    pairs = [Pair(f"s{place}", Observed((good,)), Observed((good,))) for place in range(500)]
    limits = LIMITS._replace(deterministic=True)
    assert verdicts(pairs, {}, limits)[0] == "promote"
    pairs[7] = pairs[7]._replace(candidate=Observed((bad,)))
    assert verdicts(pairs, {}, limits)[0] == "reject"


# --- the gate's old openings


def test_a_severe_failure_in_more_of_the_runs_is_not_the_same_as_in_some() -> None:
    good, bad = run((), False, 20), run((), True, 20)
    pairs = [
        Pair(f"s{place}", Observed((bad,) * 5), Observed((bad, good, good, good, good)))
        for place in range(30)
    ]
    assert verdicts(pairs, {})[1]["severe_failures"] == "violated"


def test_a_rise_of_one_criterion_does_not_hide_the_fall_of_another() -> None:
    def scored(accuracy: float, other: float) -> Observed:
        score = round(5000 * (accuracy + other))
        norms = (round(accuracy * 10**9), round(other * 10**9))
        names = ("accuracy", "other")
        return Observed((Attempt(CHECKS, frozenset(), frozenset(), score, names, norms),))

    pairs = [
        Pair(f"s{place}", scored(0.7 - place % 3 / 50, 0.9), scored(1.0, 0.6))
        for place in range(40)
    ]
    judged = judge(pairs, LIMITS, floors={})
    found = {rule.id: rule for rule in judged.rules}
    assert found["score_non_inferiority"].holds is True
    assert found["criterion_regression"].violated is True
    assert "accuracy" in found["criterion_regression"].reason


def test_samples_of_the_candidate_alone_dilute_nothing() -> None:
    good, bad = run((), False, 20), run({GATE, PASS}, False, 0)
    pairs = [Pair(f"s{place}", Observed((bad,)), Observed((good,))) for place in range(20)]
    assert verdicts(pairs, {})[0] == "reject"


# --- confirmation


SUSPECT = Suspect("s", PASS, Share(1, 1), Share(0, 1))
GOOD, BAD = run((), False, 20), run({PASS}, False, 0)


@pytest.mark.parametrize(
    ("listed", "verdict", "looked_at"),
    [
        ([], "open", 0),
        ([(BAD, GOOD)] * 2, "open", 2),
        ([(BAD, GOOD)] * 3, "confirmed", 3),
        ([(BAD, GOOD)] * 9, "confirmed", 3),
        ([(BAD, GOOD), (GOOD, GOOD)], "flaky", 2),
        ([(BAD, BAD)], "baseline_fails_too", 1),
        ([(None, GOOD)] * 3, "confirmed", 3),
        ([(BAD, None), *[(BAD, GOOD)] * 3], "confirmed", 4),
        ([(BAD, None)] * 9, "open", 9),
        ([(None, None), (GOOD, None), (GOOD, GOOD)], "flaky", 2),
    ],
)
def test_fresh_runs_settle_a_suspect(
    listed: list[tuple[Attempt | None, Attempt | None]], verdict: str, looked_at: int
) -> None:
    found = settled(SUSPECT, [Turn(*turn) for turn in listed], needed=3)
    assert (found.verdict, found.turns) == (verdict, looked_at)


def test_what_is_suspect() -> None:
    pairs = [
        Pair("a", Observed((BAD,)), Observed((GOOD,))),
        Pair("b", Observed((GOOD,)), Observed((BAD,))),
        Pair("c", Observed((BAD, GOOD, GOOD)), Observed((GOOD,) * 3)),
        Pair("d", Observed((), 1), Observed((GOOD,))),
        Pair("e", Observed((BAD,)), Observed((), 1)),
    ]
    assert [(one.sample, one.check) for one in suspects_of(pairs) if one.check == PASS] == [
        ("a", PASS),
        ("d", PASS),
        ("e", PASS),
    ]
