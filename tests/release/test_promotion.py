"""The rules of a decision on real scorecards and runs: each holds, is violated or is open; and the
outcome that follows from them.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from assay.errors import AssayError, InputError, ShelfError
from assay.library.lock import BUILTIN
from assay.library.shelf import Shelf
from assay.release.comparability import mismatches, same_note
from assay.release.policy import Bars
from documents import run
from sides import (
    DETERMINISTIC,
    LENIENT,
    NEVER,
    STRICT,
    again,
    card,
    cards,
    decide,
    drawn,
    failing,
    policy,
    rule,
    side,
    verdict,
    verdicts,
    write,
)

N = 60
BASE = drawn(N, low=84, high=86)
EVEN = [90.0] * N


def shifted(scores: list[float], by: float, *, noise: float = 0.5, seed: int = 2) -> list[float]:
    found = random.Random(seed)
    return [
        round(min(100, max(0, score + by + found.uniform(-noise, noise))), 2) for score in scores
    ]


def swung(scores: list[float], by: float, swing: float) -> list[float]:
    """Every other score by so much up, the others down."""
    return [
        round(score + by + (swing if place % 2 else -swing), 2)
        for place, score in enumerate(scores)
    ]


# --- outcomes


@pytest.mark.req("W-075")
@pytest.mark.req("X-63")
@pytest.mark.parametrize(
    ("candidate", "outcome"),
    [
        (shifted(BASE, 2), "promote"),
        (shifted(BASE, 0), "promote"),
        (BASE, "promote"),
        (shifted(BASE, -2.5, noise=0.5), "promote"),
        (swung(BASE, -1, 9), "hold"),
        (swung(BASE, 0, 13), "hold"),
        (shifted(BASE, -5), "reject"),
        (shifted(BASE, -12, noise=9), "reject"),
    ],
)
def test_the_scores_decide_by_where_the_ends_of_their_interval_lie(
    candidate: list[float], outcome: str
) -> None:
    found = decide(cards(candidate), cards(BASE))
    score = rule(found, "score_non_inferiority")
    assert found.outcome == outcome, found.reason
    assert verdict(score) == {"promote": "holds", "hold": "open", "reject": "violated"}[outcome]
    assert (score.evidence["low"] > -3) == (outcome == "promote")
    if outcome == "reject":
        assert score.evidence["high"] < 0


@pytest.mark.req("W-075")
def test_the_interval_that_is_shown_is_students_on_the_paired_differences() -> None:
    candidate = shifted(BASE, 0.4, noise=3)
    found = decide(cards(candidate), cards(BASE)).comparison
    differences = np.array(candidate) - np.array(BASE)
    wanted = scipy.stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert found.difference.method == "student-t"
    shown = [found.difference.estimate, found.difference.low, found.difference.high]
    assert shown == pytest.approx([differences.mean(), wanted.low, wanted.high])
    assert found.p["superior"] == pytest.approx(
        scipy.stats.ttest_1samp(differences, 0, alternative="greater").pvalue
    )
    assert (found.wins, found.losses) == (
        int((differences > 0).sum()),
        int((differences < 0).sum()),
    )


@pytest.mark.req("X-63")
def test_below_the_minimum_of_pairs_nothing_is_promoted() -> None:
    for n, outcome in ((29, "not_enough_evidence"), (30, "promote")):
        rules = policy(gate_margin=0.1)  # 30 samples can't show less
        found = decide(cards(BASE[:n]), cards(BASE[:n]), rules=rules)
        assert (found.outcome, found.comparison.n_paired) == (outcome, n)
    few = decide(cards(BASE[:29]), cards(BASE[:29]))
    assert few.reason == "29 paired samples; the policy asks for at least 30"


def test_a_suite_that_can_not_show_what_the_policy_asks_is_not_enough() -> None:
    found = decide(cards(BASE[:30]), cards(BASE[:30]))
    assert found.outcome == "not_enough_evidence"
    assert "30 samples can't show that gates fail in at most 5% more" in found.reason
    needed = int(found.reason.split("; ")[1].split()[0])
    assert decide(cards(drawn(needed)), cards(drawn(needed))).outcome == "promote"
    less = drawn(needed - 1)
    assert decide(cards(less), cards(less)).outcome == "not_enough_evidence"


@pytest.mark.req("X-63")
def test_a_rule_that_is_shown_to_be_violated_rejects_at_any_n() -> None:
    places = set(range(9))
    found = decide(failing(places, BASE[:9], "no_policy_violation"), cards(BASE[:9]))
    assert found.outcome == "reject"
    assert verdicts(found)["gate_failure_rate"] == "violated"
    one = decide(failing({0}, BASE[:1]), cards(BASE[:1]), rules=DETERMINISTIC)
    assert one.outcome == "reject"


@pytest.mark.req("X-63")
def test_one_sample_has_no_interval_and_is_not_enough() -> None:
    found = decide(cards([90]), cards([90]))
    assert found.outcome == "not_enough_evidence"
    assert found.comparison.difference.low is None
    assert verdicts(found)["score_non_inferiority"] == "open"
    assert found.reason == "1 paired sample; the policy asks for at least 30"
    assert "the one shared sample has" in same_note(1, "the same evidence")


def test_the_interval_that_assumes_nothing_asks_for_hundreds_of_pairs() -> None:
    assert decide(cards(BASE), cards(BASE), rules=STRICT).outcome == "hold"
    many = drawn(400)
    assert decide(cards(many), cards(many), rules=STRICT).outcome == "promote"


def test_a_better_candidate_is_named_so() -> None:
    found = decide(cards(shifted(BASE, 2)), cards(BASE))
    assert found.reason.endswith("the candidate is better")
    assert found.comparison.superior
    assert not decide(cards(BASE), cards(BASE)).reason.endswith("is better")


# --- the budget of errors


def test_every_decision_states_how_often_it_rejects_the_same_version() -> None:
    made = decide(cards(BASE), cards(BASE)).errors
    assert made.reject_at_most == 0.05
    looked = {"confirmed": 0.01, "exchange": 0.005, "gates": 0.005, "score": 0.005}
    looked |= {"criteria": 0.0025, "severe_exchange": 0.002, "severe_confirmed": 0.001}
    assert made.by_rule == pytest.approx(looked)
    limited = decide(cards(BASE), cards(BASE), rules=policy(looks=1, cost_increase=1)).errors
    assert sum(limited.by_rule.values()) == pytest.approx(0.05)
    assert (limited.by_rule["operations"], limited.by_rule["score"]) == (0.005, 0.005)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("reject_at_most: 0.6", "reject_at_most"),
        ("confirmed: 0.6", "confirmed"),
        ("confirmed: -0.1", "confirmed"),
        ("confirmed: 0.02", "the levels of the rules sum to 0.06, and `reject_at_most` is 0.05"),
        ("reject_at_most: 0.04", "the levels of the rules sum to 0.05"),
    ],
)
def test_a_policy_that_rejects_more_than_it_declares_is_refused_with_its_line(
    tmp_path: Path, text: str, said: str
) -> None:
    name = text.partition(":")[0]
    lines = (Path(BUILTIN) / "policies" / "release@1.yaml").read_text().splitlines()
    place = next(at for at, line in enumerate(lines) if line.startswith(f"  {name}:"))
    lines[place] = f"  {text}"
    path = tmp_path / "mine.yaml"
    path.write_text("\n".join(lines).replace("policy: release", "policy: mine"))
    with pytest.raises(ShelfError) as error:
        Shelf().policy_of("release", str(path))
    (fault, *_) = error.value.faults
    assert said in str(error.value)
    start = next(at for at, line in enumerate(lines) if line.startswith("errors:"))
    assert fault.line in (place + 1, start + 1)


def test_a_budget_of_nothing_for_a_rule_never_rejects_by_it() -> None:
    from msgspec.structs import replace

    from sides import POLICY

    none = replace(POLICY.errors, score=0, criteria=0)
    found = decide(cards(shifted(BASE, -40)), cards(BASE), rules=policy(errors=none))
    assert verdicts(found)["score_non_inferiority"] == "open"
    assert verdicts(found)["criterion_regression"] == "holds"
    assert found.outcome in ("hold", "reject")


@pytest.mark.parametrize(
    ("name", "written"),
    [("no_forbidden_tool", "no_forbiden_tool"), ("safety", "saftey")],
)
def test_a_misspelt_severe_gate_or_role_is_refused(tmp_path: Path, name: str, written: str) -> None:
    text = (Path(BUILTIN) / "policies" / "release@1.yaml").read_text()
    text, path = text.replace("policy: release", "policy: mine"), tmp_path / "mine.yaml"
    path.write_text(text.replace(name, written))
    with pytest.raises(ShelfError, match=f"is named '{written}'. Did you mean '{name}'?"):
        Shelf().policy_of("release", str(path))
    path.write_text(text.replace(name, "our_own"))
    assert Shelf().policy_of("release", str(path)).id == "mine@1"


# --- complete


def test_a_sample_without_runs_is_to_be_run_again_and_is_lost_after_that() -> None:
    lost = cards(BASE)[:-1]
    found = decide(lost, cards(BASE))
    assert (found.outcome, verdicts(found)["complete"]) == ("hold", "open")
    assert found.missing.candidate == ["s-0059"]
    assert (found.comparison.n_paired, found.comparison.n_candidate) == (N - 1, N - 1)
    assert "Run the samples without results again: s-0059." in found.would_change
    # the other side was run again, and this one still has nothing
    fresh = ([*again(card("0000", 90), 1)], again(card("0059", BASE[-1]), 3))
    gone = decide(lost, cards(BASE), fresh=fresh)
    assert (gone.outcome, verdicts(gone)["complete"]) == ("reject", "violated")
    for rules in (DETERMINISTIC, NEVER):
        assert verdicts(decide(lost, cards(BASE), rules=rules))["complete"] == "violated"


@pytest.mark.req("X-63")
def test_a_sample_that_the_candidate_lost_counts_as_nothing_and_the_baselines_as_all() -> None:
    lost = decide(cards(EVEN)[:-1], cards(EVEN))
    assert rule(lost, "score_non_inferiority").evidence["mean"] == pytest.approx(-90 / N)
    assert rule(lost, "gate_failure_rate").evidence["high"] > 0.05
    other = decide(cards(EVEN), cards(EVEN)[:-1])
    assert other.missing.baseline == ["s-0059"] or other.missing.only_candidate == ["s-0059"]
    planned = [one["sample_id"] for one in cards(EVEN)]
    plan = {"digest": "d", "samples": planned}
    both = decide(cards(EVEN), cards(EVEN)[:-1], plan=plan)
    assert both.missing.baseline == ["s-0059"]
    assert rule(both, "score_non_inferiority").evidence["mean"] == pytest.approx(-10 / N)


def test_a_gate_or_score_that_the_candidate_lost_is_never_a_pass() -> None:
    without_gate, without_score = cards(BASE), cards(BASE)
    del without_gate[7]["hard_gates"]["looks_right"]
    unscored = {"raw_score": None, "missing": "nobody scored it"}
    without_score[7]["criteria"] = [{**without_score[7]["criteria"][0], **unscored}]
    for lost, what in ((without_gate, "gate looks_right"), (without_score, "score c0")):
        found = decide(lost, cards(BASE))
        assert (found.outcome, verdicts(found)["complete"]) == ("hold", "open")
        missing = rule(found, "complete").evidence["missing"]
        assert {"sample": "s-0007", "what": what} in missing
        assert decide(lost, cards(BASE), rules=DETERMINISTIC).outcome == "reject"
        fresh = ([lost[7] | {"run_id": "new"}], [cards(BASE)[7] | {"run_id": "old"}])
        assert decide(lost, cards(BASE), fresh=fresh).outcome == "reject"
        assert verdicts(decide(lost, lost))["complete"] == "holds" or lost is without_score


def test_a_gate_that_has_no_verdict_fails() -> None:
    made = cards(BASE)
    made[7]["hard_gates"]["looks_right"] = None
    assert decide(made, cards(BASE)).outcome == "hold"
    assert decide(made, cards(BASE), rules=DETERMINISTIC).outcome == "reject"


# --- new failures


@pytest.mark.req("W-075")
@pytest.mark.req("X-63")
def test_one_sample_that_newly_fails_is_suspect_and_holds_until_fresh_runs_say_more() -> None:
    found = decide(failing({3}, BASE), cards(BASE))
    assert (found.outcome, verdicts(found)["new_failures"]) == ("hold", "open")
    assert {one.sample for one in found.confirmation.suspects} == {"s-0003"}
    assert {one.verdict for one in found.confirmation.suspects} == {"open"}
    assert {one.check for one in found.confirmation.suspects} == {"gate looks_right", "pass"}
    assert found.confirmation.needed
    assert found.confirmation.false_alarm_at_most <= 0.01
    first = found.confirmation.suspects[0].first
    assert (first.candidate.passed, first.candidate.runs, first.baseline.passed) == (0, 1, 1)
    assert any("`--confirm`" in line for line in found.would_change)
    turns = found.confirmation.repeats
    bad, good = failing({3}, BASE)[3], cards(BASE)[3]
    cases: list[tuple[Any, Any, str, str]] = [
        (again(bad, turns), again(good, turns, name="b"), "reject", "confirmed"),
        (again(bad, turns - 1), again(good, turns - 1, name="b"), "hold", "open"),
        (again(good, 1), again(good, 1, name="b"), "promote", "flaky"),
        (again(bad, 1), again(bad, 1, name="b"), "promote", "baseline_fails_too"),
    ]
    for ours, theirs, outcome, said in cases:
        made = decide(
            failing({3}, BASE), cards(BASE), fresh=(ours, theirs), rules=policy(gate_margin=0.2)
        )
        assert (made.outcome, made.confirmation.suspects[0].verdict) == (outcome, said)


@pytest.mark.req("X-63")
def test_another_sample_that_fails_less_does_not_pay_for_a_new_failure() -> None:
    assert decide(failing({3}, BASE), failing({3}, BASE)).outcome == "promote"
    found = decide(failing({3}, BASE), failing({5}, BASE))
    assert rule(found, "gate_failure_rate").evidence["mean_rise"] == 0
    assert found.outcome == "hold"
    assert decide(failing({3}, BASE), failing({5}, BASE), rules=DETERMINISTIC).outcome == "reject"


@pytest.mark.parametrize("gate", ["looks_right", "no_policy_violation"])
def test_one_new_failure_of_a_deterministic_system_is_a_regression(gate: str) -> None:
    many = drawn(400)
    found = decide(failing({3}, many, gate), cards(many), rules=DETERMINISTIC)
    assert found.outcome == "reject"
    assert found.confirmation.repeats == 0


def test_what_a_deterministic_policy_meets_twice_must_be_the_same() -> None:
    one = card("0000", 90)
    twice = [*again(one, 2)]
    twice[1]["hard_gates"] = {**twice[1]["hard_gates"], "looks_right": False}
    for ours, theirs in ((twice, [one]), ([one], twice)):
        with pytest.raises(InputError, match="deterministic, and s-0000"):
            decide(ours, theirs, rules=DETERMINISTIC)
    assert decide([*again(one, 2)], [*again(one, 2)], rules=DETERMINISTIC)
    never = [one | {"hard_gates": {"no_policy_violation": False, "looks_right": True}}]
    never = [*again(never[0], 2)]
    never[1]["hard_gates"] = {"no_policy_violation": False, "looks_right": False}
    with pytest.raises(InputError, match="deterministic, and s-0000"):
        decide(never, never, rules=DETERMINISTIC)


def test_many_new_failures_are_shown_without_fresh_runs() -> None:
    found = decide(failing(set(range(8)), BASE), cards(BASE))
    assert found.outcome == "reject"
    assert rule(found, "new_failures").evidence["p"] == pytest.approx(0.5**8)
    assert found.reason.startswith("new_failures: 13.3% more of the runs fail")


@pytest.mark.parametrize(
    ("worse", "better", "said", "outcome"),
    [
        (set[int](), set[int](), "holds", "promote"),
        ({1}, {2}, "open", "hold"),
        ({1}, set[int](), "open", "hold"),
        (set(range(8)), set[int](), "violated", "reject"),
    ],
)
def test_where_nothing_can_be_run_again_the_net_rise_decides(
    worse: set[int], better: set[int], said: str, outcome: str
) -> None:
    found = decide(failing(worse, BASE), failing(better, BASE), rules=NEVER)
    assert (verdicts(found)["new_failures"], found.outcome) == (said, outcome)
    assert not found.confirmation.needed


def test_where_nothing_can_be_run_again_many_samples_allow_a_few_new_failures() -> None:
    many = drawn(400)
    assert decide(failing({1, 2}, many), failing({3, 4}, many), rules=NEVER).outcome == "promote"


# --- gates


@pytest.mark.req("W-075")
@pytest.mark.req("X-63")
@pytest.mark.parametrize(
    ("n", "worse", "said"),
    [(N, 0, "holds"), (N, 2, "open"), (400, 6, "holds"), (N, 8, "violated"), (400, 9, "violated")],
)
def test_the_rate_of_gate_failures_holds_is_open_or_is_violated(
    n: int, worse: int, said: str
) -> None:
    scores = drawn(n)
    found = decide(failing(set(range(worse)), scores), cards(scores))
    gates = rule(found, "gate_failure_rate")
    assert verdict(gates) == said
    assert gates.evidence["mean_rise"] == pytest.approx(worse / n)


def test_the_allowed_rise_is_a_number_of_the_policy() -> None:
    rules = policy(gate_failure_increase=0.2)
    found = decide(failing(set(range(8)), BASE), cards(BASE), rules=rules)
    assert verdicts(found)["gate_failure_rate"] == "holds"
    more = decide(failing(set(range(30)), BASE), cards(BASE), rules=rules)
    assert verdicts(more)["gate_failure_rate"] == "violated"


def test_samples_of_the_candidate_alone_enter_no_rule() -> None:
    few, many = drawn(200), drawn(400)
    worse = failing(set(range(12)), few)
    own = cards(many)[200:]
    alone, thinned = decide(worse, cards(few)), decide([*worse, *own], cards(few))
    assert (alone.rules, alone.outcome) == (thinned.rules, thinned.outcome)
    assert thinned.comparison.difference == alone.comparison.difference
    assert len(thinned.missing.only_candidate) == 200
    bars = Bars(min_pass_rate=0.96)
    for ours in (worse, [*worse, *own]):
        rated = rule(decide(ours, cards(few), bars=bars), "pass_rate")
        assert (rated.violated, rated.evidence["n"]) == (True, 200)


# --- severe failures


def severe(places: set[int], n: int = N) -> list[dict[str, Any]]:
    return failing(places, [90.0] * n, "no_policy_violation")


@pytest.mark.req("W-075")
@pytest.mark.req("X-63")
def test_severe_failures_are_the_listed_gates_and_the_floors_of_the_safety_role() -> None:
    assert verdicts(decide(severe({1}), severe({1})))["severe_failures"] == "holds"
    assert verdicts(decide(failing({1}, EVEN), cards(EVEN)))["severe_failures"] == "holds"
    assert verdicts(decide(severe({1}), severe({2})))["severe_failures"] == "open"
    safe = cards(EVEN, other={"norm": 1, "name": "guard", "role": "safety"})
    unsafe = cards(EVEN, other={"norm": 1, "name": "guard", "role": "safety"})
    unsafe[9]["criteria"][1]["raw_score"] = 0.79
    found = rule(decide(unsafe, safe), "severe_failures")
    assert (verdict(found), found.evidence["samples"]) == ("open", ["s-0009"])
    assert verdicts(decide(unsafe, unsafe))["severe_failures"] == "holds"


@pytest.mark.parametrize(
    ("fresh", "said"),
    [
        ((4, 4, 4), "violated"),
        ((4, 3, 4), "open"),
        ((4, 4, 3), "open"),
        ((3, 3, 3), "open"),
        ((20, 0, 20), "holds"),
        ((19, 0, 19), "open"),
        ((20, 1, 20), "open"),
    ],
    ids=str,
)
def test_a_severe_failure_is_shown_by_four_fresh_runs_and_cleared_by_twenty(
    fresh: tuple[int, int, int], said: str
) -> None:
    """So many fresh runs of the candidate, how many of them fail, and how many the baseline has."""
    runs, bad, others = fresh
    ours = again(severe({1})[1], bad) + [
        one | {"attempt": one["attempt"] + bad, "run_id": f"more-{one['attempt']}"}
        for one in again(severe(set())[1], runs - bad)
    ]
    theirs = again(severe(set())[1], others, name="fresh-base")
    found = decide(severe({1}), severe(set()), fresh=(ours, theirs))
    assert verdicts(found)["severe_failures"] == said


def test_a_severe_failure_that_the_baseline_shows_as_often_is_cleared() -> None:
    bad, good = severe({1})[1], severe(set())[1]
    ours = [*again(good, 19), {**bad, "run_id": "last", "attempt": 20}]
    theirs = [*again(good, 19, name="base"), {**bad, "run_id": "base-last", "attempt": 20}]
    found = decide(severe({1}), severe(set()), fresh=(ours, theirs))
    assert verdicts(found)["severe_failures"] == "holds"


def test_a_severe_gate_that_fails_in_a_fifth_of_the_runs_may_not_fail_in_all() -> None:
    before = [one for at in range(30) for one in again(severe(set())[at], 5, name="b")]
    for one in before:
        if one["attempt"] == 1:
            one["hard_gates"] = {**one["hard_gates"], "no_policy_violation": False}
    now = [one for at in range(30) for one in again(severe(set(range(30)))[at], 5, name="c")]
    found = decide(now, before)
    assert (found.outcome, verdicts(found)["severe_failures"]) == ("reject", "violated")
    assert verdicts(decide(before, now))["severe_failures"] == "holds"


# --- criteria, floors and slices


def two(first: list[float], second: float, **changes: Any) -> list[dict[str, Any]]:
    return cards(first, other={"norm": second / 100, "name": "other", **changes})


def test_a_rise_of_one_criterion_does_not_hide_the_fall_of_another() -> None:
    found = decide(two(shifted(BASE, -9), 90), two(BASE, 70))
    assert verdicts(found)["score_non_inferiority"] == "holds"
    assert (found.outcome, verdicts(found)["criterion_regression"]) == ("reject", "violated")
    assert "c0 fell by" in rule(found, "criterion_regression").reason
    assert found.criteria["c0"].difference.value == pytest.approx(-9, abs=0.5)
    less = decide(two(shifted(BASE, -4), 90), two(BASE, 70))
    assert verdicts(less)["criterion_regression"] == "holds"


def test_a_guardrail_must_be_shown_not_to_have_lost() -> None:
    noisy = two(shifted(BASE, 0, noise=40, seed=5), 90)
    base = two(BASE, 70)
    for rules, said in ((policy(), "holds"), (policy(guardrails=["c0"]), "open")):
        found = decide(noisy, base, rules=rules)
        assert verdicts(found)["criterion_regression"] == said
        assert found.criteria["c0"].guardrail == (said == "open")
    absent = decide(noisy, base, rules=policy(guardrails=["no such"]))
    assert verdicts(absent)["criterion_regression"] == "open"


@pytest.mark.req("W-075")
@pytest.mark.req("X-63")
@pytest.mark.parametrize(
    ("now", "before", "said", "crossed"),
    [
        ([70.0] * N, [80.0] * N, "violated", ["c0"]),
        ([74.0, 75.9] * 30, [60.0, 90.1] * 30, "holds", ["c0"]),
        ([70.0] * N, [74.0] * N, "holds", []),
        ([80.0] * N, [70.0] * N, "holds", []),
        ([76.0] * N, [80.0] * N, "holds", []),
    ],
)
def test_a_mean_that_met_its_floor_may_not_be_shown_to_miss_it(
    now: list[float], before: list[float], said: str, crossed: list[str]
) -> None:
    found = rule(decide(cards(now, floor=0.75), cards(before, floor=0.75)), "floor_regression")
    assert (verdict(found), found.evidence["crossed"]) == (said, crossed)


@pytest.mark.req("W-075")
def test_one_new_miss_of_a_critical_floor_is_a_new_failure() -> None:
    better = shifted(BASE, 3, noise=0)
    better[4] = 59.0
    found = decide(cards(better, floor=0.6), cards(BASE, floor=0.6))
    assert "floor c0" in {one.check for one in found.confirmation.suspects}
    assert found.outcome == "hold"
    strict = decide(cards(better, floor=0.6), cards(BASE, floor=0.6), rules=DETERMINISTIC)
    assert strict.outcome == "reject"


def tagged(scores: list[float], worse: float = 0.0) -> list[dict[str, Any]]:
    return [
        card(
            f"{place:04}",
            round(score - (worse if place % 10 == 0 else 0), 2),
            tags=["rare" if place % 10 == 0 else "usual"],
        )
        for place, score in enumerate(scores)
    ]


@pytest.mark.req("W-075")
@pytest.mark.parametrize("lost_tags", [False, True])
def test_a_slice_that_is_shown_to_be_worse_rejects_although_the_whole_is_better(
    lost_tags: bool,
) -> None:
    base = drawn(400, low=80)
    candidate, before = tagged(shifted(base, 1), worse=6), tagged(base)
    if lost_tags:  # those of the baseline count
        candidate = [{**one, "tags": ["usual"]} for one in candidate]
    assert decide(candidate, before).outcome == "promote"
    found = decide(candidate, before, slices=("tag",))
    assert (found.outcome, verdicts(found)["slices"]) == ("reject", "violated")
    assert rule(found, "slices").evidence["violated_slices"] == ["tag: rare"]
    assert [(one.slice, one.n, one.worse) for one in found.slices or ()] == [
        ("tag: rare", 40, True),
        ("tag: usual", 360, False),
    ]
    less = decide(tagged(shifted(base, 1), worse=3), before, slices=("tag",))
    assert verdicts(less)["slices"] == "holds"


def test_samples_without_a_tag_are_a_slice_in_which_a_regression_shows() -> None:
    base = drawn(400, low=80)
    before = [{**one, "tags": []} if "rare" in one["tags"] else one for one in tagged(base)]
    found = decide(tagged(shifted(base, 1), worse=6), before, slices=("tag",))
    assert rule(found, "slices").evidence["violated_slices"] == ["no tag"]


def test_slices_are_corrected_for_being_several() -> None:
    base = drawn(200, low=80)
    tags = [{"tags": [f"t{place % 20}"]} for place in range(200)]
    sides = [
        [{**one, **more} for one, more in zip(cards(scores), tags, strict=True)]
        for scores in (shifted(base, 0, noise=8), base)
    ]
    found = decide(*sides, slices=("tag",))
    assert len(found.slices or ()) == 20
    assert verdicts(found)["slices"] == "holds"


def test_an_unknown_kind_of_slice_is_refused() -> None:
    with pytest.raises(AssayError, match="Did you mean 'tag'"):
        decide(cards(BASE), cards(BASE), slices=("tags",))


# --- operations and the pass rate


@pytest.mark.parametrize(
    ("times", "said"), [(1.0, "holds"), (1.2, "holds"), (1.9, "violated"), (0.5, "holds")]
)
@pytest.mark.parametrize("name", ["cost_usd", "latency_ms"])
def test_cost_and_latency_are_limited_where_the_policy_says_so(
    name: str, times: float, said: str
) -> None:
    field = {"cost_usd": "cost_increase", "latency_ms": "latency_increase"}[name]
    noise = random.Random(1)
    before = [{**one, name: round(10 + noise.random(), 3)} for one in cards(EVEN)]
    now = [{**one, name: round(one[name] * times, 3)} for one in before]
    found = decide(now, before, rules=policy(**{field: 0.5}))
    assert verdicts(found)["operations"] == said
    assert found.operations[name].ratio == pytest.approx(times, abs=0.001)
    free = decide(now, before)
    assert "operations" not in verdicts(free)
    assert free.operations[name].ratio == found.operations[name].ratio
    unknown = decide(cards(EVEN), before, rules=policy(**{field: 0.5}))
    assert (verdicts(unknown)["operations"], unknown.outcome) == ("open", "hold")


@pytest.mark.parametrize(
    ("failed", "bars", "said"),
    [
        (2, Bars(min_pass_rate=0.95), "holds"),
        (4, Bars(min_pass_rate=0.95), "violated"),
        (2, Bars(min_pass_rate=0.95, confidence=0.95), "open"),
        (30, Bars(min_pass_rate=0.95, confidence=0.95), "violated"),
        (0, Bars(min_pass_rate=0.8, confidence=0.95), "holds"),
    ],
)
def test_the_minimum_pass_rate_is_an_absolute_bar(failed: int, bars: Bars, said: str) -> None:
    both = failing(set(range(failed)), BASE)
    found = decide(both, both, bars=bars)
    assert verdicts(found)["pass_rate"] == said
    assert (found.outcome == "promote") == (said == "holds")


# --- the burden of a pull request


@pytest.mark.parametrize(
    ("candidate", "outcome"),
    [
        (cards(shifted(BASE, -2, noise=9)), "promote"),
        (cards(shifted(BASE, -12, noise=9)), "reject"),
        (cards(shifted(BASE, -5)), "reject"),
        (failing({3}, BASE), "promote"),
        (failing(set(range(9)), BASE), "reject"),
        (severe({1}), "hold"),
        (cards(BASE)[:-1], "hold"),
    ],
)
def test_a_pull_request_passes_unless_it_is_shown_to_be_worse(
    candidate: list[dict[str, Any]], outcome: str
) -> None:
    base = cards(EVEN) if candidate[0]["criteria"][0]["raw_score"] == 0.9 else cards(BASE)
    assert decide(candidate, base, rules=LENIENT).outcome == outcome


def test_a_suite_that_could_not_show_the_loss_is_not_enough_for_a_pull_request() -> None:
    noise = random.Random(4)

    def repeated(name: str, spread: float) -> list[dict[str, Any]]:
        return [
            {**one, "criteria": card(0, 50 + noise.uniform(-spread, spread))["criteria"]}
            for at in range(40)
            for one in again(card(f"{at:04}", 50), 3, name=name)
        ]

    for spread, outcome in ((3, "promote"), (45, "not_enough_evidence")):
        found = decide(repeated("c", spread), repeated("b", spread), rules=LENIENT)
        assert found.outcome == outcome, found.reason
    assert "the policy asks for one of 5" in found.reason


# --- the adjusted scores


@pytest.mark.req("X-63", "W-038")
def test_the_adjusted_difference_is_formed_once_per_side_so_that_it_cannot_hide_a_drop() -> None:
    found = decide(cards([70.0] * 40), cards([90.0] * 40))
    # (40 * 0.7 + 10) / 60 - (40 * 0.9 + 10) / 60, in points; for each run it would have been -20 /
    # 21
    assert found.comparison.adjusted_difference == pytest.approx(-20 * 40 / 60)
    assert found.outcome == "reject"


@pytest.mark.req("W-038")
def test_every_decision_shows_the_adjusted_difference() -> None:
    for ours, theirs in ((cards(BASE), cards(BASE)), (cards(BASE)[:9], cards(BASE))):
        assert decide(ours, theirs).comparison.adjusted_difference is not None
    assert decide(cards([90]), [card("other", 90)]).comparison.adjusted_difference is None


# --- the plan, and what is left out


@pytest.mark.req("X-63")
def test_the_plan_fixes_the_samples_and_one_that_nobody_has_is_missing_on_both_sides() -> None:
    planned = [one["sample_id"] for one in cards(BASE)]
    lacking = cards(BASE)[:-1]
    plan = {"digest": "d", "samples": planned}
    found = decide(lacking, lacking, plan=plan)
    assert found.outcome == "hold"
    assert found.missing.candidate == found.missing.baseline == ["s-0059"]
    assert decide(lacking, lacking, plan=plan, rules=DETERMINISTIC).outcome == "reject"
    fewer = decide(cards(BASE), cards(BASE), plan={"digest": "d", "samples": planned[:55]})
    assert (fewer.comparison.n_paired, fewer.outcome) == (55, "promote")
    assert fewer.unplanned == planned[55:]


def test_a_quarantined_sample_takes_no_part_and_is_listed() -> None:
    found = decide(failing({4}, BASE), cards(BASE), quarantine=("s-0004",))
    assert (found.outcome, found.missing.quarantined, found.comparison.n_paired) == (
        "promote",
        ["s-0004"],
        N - 1,
    )


# --- repeats


def repeats(passes: dict[str, list[bool]], **changes: Any) -> list[dict[str, Any]]:
    return [
        run(
            "rag",
            run_id=f"{sample}-{attempt}",
            dataset={"id": "d", "version": "1", "sample_id": sample},
            attempt=attempt,
            status="success" if passed else "failed",
            **changes,
        )
        for sample, verdicts in passes.items()
        for attempt, passed in enumerate(verdicts, 1)
    ]


def test_repeats_are_one_sample_with_each_of_its_runs() -> None:
    runs = repeats({"a": [True, True]})
    runs[1]["scores"]["faithfulness"] = {"raw": 0.5}
    found = side(runs).samples
    both = [side([one]).samples["d/a"] for one in runs]
    assert len(found) == 1
    assert found["d/a"].score == pytest.approx((both[0].score + both[1].score) / 2)
    worse = side(repeats({"a": [True, False, True]})).samples["d/a"]
    assert (worse.passed, len(worse.attempts)) == (2, 3)
    assert "overall_status_success" in worse.failed("gate")


def test_a_sample_twice_is_refused_unless_its_repeats_are_numbered() -> None:
    for documents in (
        [*cards([90]), card("0000", 91, run_id="other")],
        [*repeats({"a": [True]}), *repeats({"a": [True]})],
    ):
        with pytest.raises(InputError, match="appears twice") as error:
            side(documents)
        assert error.value.code == "REL-004"
    mixed = repeats({"a": [True, True]})
    del mixed[1]["attempt"]
    with pytest.raises(InputError, match="appears twice"):
        side(mixed)


@pytest.mark.req("X-63")
def test_a_repeat_that_one_side_lost_counts_against_it() -> None:
    full = repeats({f"s{index:02}": [True, True] for index in range(N)})
    fewer = [one for one in full if one["run_id"] != "s07-2"]
    lost = decide(fewer, full)
    assert (lost.outcome, lost.missing.candidate) == ("hold", ["d/s07"])
    assert verdicts(lost)["complete"] == "open"
    other = decide(full, fewer)
    assert other.missing.baseline == ["d/s07"]
    assert other.outcome == "promote"


@pytest.mark.parametrize(("ours", "theirs"), [(1, 3), (3, 1), (5, 1), (2, 3)])
def test_unequal_numbers_of_repeats_are_no_difference(ours: int, theirs: int) -> None:
    sides = [
        repeats({f"s{index:02}": [True] * times for index in range(N)}) for times in (ours, theirs)
    ]
    found = decide(*sides)
    assert (found.outcome, found.missing.candidate, found.missing.baseline) == ("promote", [], [])


def test_a_run_that_states_fewer_attempts_than_another_sample_has_lost_none() -> None:
    """As where a candidate repeats only the samples on which its baseline disagrees."""
    some = [
        {**one, "attempts": 1 if one["dataset"]["sample_id"] != "s00" else 2}
        for one in repeats({f"s{index:02}": [True] * (1 + (index == 0)) for index in range(N)})
    ]
    found = decide(some, repeats({f"s{index:02}": [True] * 3 for index in range(N)}))
    assert (found.outcome, found.missing.candidate) == ("promote", [])


def test_flaky_samples_are_named_and_stay_in() -> None:
    ours = repeats({"a": [True, False, True], "b": [True] * 3, "c": [False] * 3})
    theirs = repeats({"a": [True] * 3, "b": [False, True, True], "c": [False] * 3})
    found = decide(ours, theirs)
    flaky = [(one.sample, one.side, one.passed, one.repeats) for one in found.flaky or ()]
    assert flaky == [("d/a", "candidate", 2, 3), ("d/b", "baseline", 2, 3)]
    assert found.comparison.n_paired == 3


def test_a_run_that_ended_in_an_error_is_no_regression_and_no_pass() -> None:
    base = repeats({f"s{index:02}": [True] for index in range(N)})
    for status, said in (("error", "hold"), ("timeout", "hold"), ("failed", "hold")):
        ended = [{**base[0], "status": status}, *base[1:]]
        assert decide(ended, base).outcome == said
    all_ended = [{**one, "status": "error"} for one in base]
    found = decide(all_ended, base)
    assert found.outcome != "promote"
    assert "violated" not in verdicts(found).values()


# --- groups


def test_samples_that_share_a_group_are_compared_by_groups() -> None:
    base = drawn(60)
    grouped = [
        [{**one, "group": f"g{index // 3}"} for index, one in enumerate(cards(scores))]
        for scores in (shifted(base, 0.3), base)
    ]
    found = decide(*grouped).comparison
    assert (found.difference.method, found.clusters) == ("cluster-robust t", 20)
    means = (np.array(shifted(base, 0.3)) - np.array(base)).reshape(20, 3).mean(axis=1)
    wanted = scipy.stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert [found.difference.low, found.difference.high] == pytest.approx([wanted.low, wanted.high])


def test_a_group_that_fails_together_is_one_piece_of_evidence() -> None:
    def grouped(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**one, "group": f"g{place // 10}"} for place, one in enumerate(documents)]

    apart = decide(failing(set(range(10)), BASE), cards(BASE))
    together = decide(grouped(failing(set(range(10)), BASE)), grouped(cards(BASE)))
    assert verdicts(apart)["gate_failure_rate"] == "violated"
    assert rule(together, "gate_failure_rate").evidence["p"] == pytest.approx(0.5)


@pytest.mark.parametrize(("groups", "noted"), [(1, True), (4, True), (8, False)])
def test_too_few_groups_to_tell_their_spread_leave_the_plain_interval_and_say_so(
    groups: int, noted: bool
) -> None:
    sides = [
        [{**one, "group": f"g{place % groups}"} for place, one in enumerate(cards(scores))]
        for scores in (shifted(BASE, 1), BASE)
    ]
    found = decide(*sides)
    method = "student-t" if noted else "cluster-robust t"
    assert found.comparison.difference.method == method
    said = [note for note in found.notes or () if "too few to estimate how groups" in note]
    assert bool(said) is noted


# --- comparable or not


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"dataset": {"id": "d", "version": "2", "sample_id": "s-0"}}, "dataset"),
        ({"judge": {"model": "m", "version": "2", "prompt_version": "1"}}, "judge"),
    ],
)
def test_the_fingerprint_names_the_field_in_which_two_sides_differ(
    changes: dict[str, Any], field: str
) -> None:
    base = {
        "dataset": {"id": "d", "version": "1", "sample_id": "s-0"},
        "judge": {"model": "m", "version": "1", "prompt_version": "1"},
    }
    ours, theirs = side([run("rag", **{**base, **changes})]), side([run("rag", **base)])
    assert [one.field for one in mismatches(ours, theirs)] == [field]
    assert mismatches(theirs, theirs) == []


@pytest.mark.req("W-075")
@pytest.mark.parametrize("field", ["rubric", "judge", "policy", "scoringSystem"])
def test_incomparable_sides_end_in_exit_3_with_the_field_named(
    assay: Any, tmp_path: Path, field: str
) -> None:
    import json

    def runs(judge: str) -> list[dict[str, Any]]:
        return [
            run(
                "dag-review",
                run_id=f"r{index}",
                dataset={"id": "d", "version": "1", "sample_id": f"s{index}"},
                judge={"model": "m", "version": judge, "prompt_version": "1"},
            )
            for index in range(3)
        ]

    write(tmp_path / "base.jsonl", runs("1"))
    if field in ("policy", "scoringSystem", "rubric"):
        done = assay("grade", "base.jsonl", "-o", "grades.json")
        assert done.code in (0, 1)
        document = json.loads((tmp_path / "grades.json").read_text())
        for one in document["results"]:
            if field == "policy":
                one["policy"] = "workflow-judged@1"
            elif field == "scoringSystem":
                one["scoringSystem"] = "scoringSystem/9.0.0"
            else:
                one["rubric"] = "dag-review@1"
        (tmp_path / "grades.json").write_text(json.dumps(document))
        done = assay("gate", "base.jsonl", "--baseline", "grades.json", "--json")
    else:
        write(tmp_path / "cand.jsonl", runs("2"))
        done = assay("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json")
    assert (done.code, done.out) == (3, "")
    error = json.loads(done.err)["error"]
    assert error["code"] == ("REL-008" if field == "policy" else "REL-002")
    assert field in error["message"] or (
        field == "policy" and "workflow-judged@1" in error["message"]
    )


def test_two_sides_without_a_common_sample_are_never_promoted() -> None:
    other = [{**one, "sample_id": f"other-{one['sample_id']}"} for one in cards(BASE)]
    found = decide(other, cards(BASE))
    assert (found.outcome, found.comparison.n_paired) == ("not_enough_evidence", 0)
    assert any("the two sides share no sample" in note for note in found.notes or ())
