"""The promotion decision: its four rules and four outcomes, missing evidence, repeats, and what
makes two sides incomparable.
"""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from assay.release.flaky import flaky_samples
from assay.release.looks import slices_of, with_looks, with_slices
from assay.release.promotion import MAX_MISSING, promote

from assay.errors import InputError, ShelfError
from assay.exact import Ratio
from assay.library.lock import BUILTIN
from assay.library.shelf import Shelf
from assay.release.comparability import mismatches, same_note
from assay.release.pairs import pair_up
from assay.release.pass_rate import PassBar
from assay.release.policy import ReleaseRules
from assay.release.sides import LOST
from documents import run
from sides import RULES, SHRINKAGE, STRICT, card, cards, decide, drawn, rule, side, write


def shifted(scores: list[float], by: float, *, noise: float = 0.5, seed: int = 2) -> list[float]:
    found = random.Random(seed)
    return [
        round(min(100, max(0, score + by + found.uniform(-noise, noise))), 2) for score in scores
    ]


BASE = drawn(40)


# --- outcomes


@pytest.mark.req("W-075")
@pytest.mark.req("X-63")
@pytest.mark.parametrize(
    ("candidate", "outcome"),
    [
        (shifted(BASE, 2), "promote"),
        (shifted(BASE, 0), "promote"),
        (BASE, "promote"),
        (shifted(BASE, -0.9, noise=2), "hold"),
        (shifted(BASE, -3), "reject"),
        (shifted(BASE, -1.5, noise=6), "hold"),
    ],
)
def test_the_scores_decide_by_where_their_interval_lies(
    candidate: list[float], outcome: str
) -> None:
    found = decide(cards(candidate), cards(BASE))
    assert found.outcome == outcome
    difference = found.comparison.difference
    assert difference.low is not None
    assert difference.high is not None
    if outcome == "promote":
        assert difference.low > -1
    elif outcome == "reject":
        assert difference.high < -1
    else:
        assert difference.low <= -1 <= difference.high


@pytest.mark.req("W-075")
def test_the_interval_is_students_on_the_paired_differences_of_the_unadjusted_scores() -> None:
    candidate = shifted(BASE, 0.4, noise=3)
    found = decide(cards(candidate), cards(BASE)).comparison
    differences = np.array(candidate) - np.array(BASE)
    wanted = scipy.stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert found.difference.method == "student-t"
    assert (found.difference.value, found.difference.low, found.difference.high) == (
        pytest.approx(differences.mean()),
        pytest.approx(wanted.low),
        pytest.approx(wanted.high),
    )
    assert found.p_superior == pytest.approx(
        scipy.stats.ttest_1samp(differences, 0, alternative="greater").pvalue
    )
    assert (found.wins, found.losses) == (
        int((differences > 0).sum()),
        int((differences < 0).sum()),
    )


def test_the_rise_that_a_decision_names_is_the_one_that_opens_it() -> None:
    base = [min(80.0, score) for score in BASE]  # room to rise
    worse = shifted(base, -5, noise=1)
    (words,) = [one for one in decide(cards(worse), cards(base)).would_change if "rise" in one]
    rise = float(words.rsplit(" points", 1)[0].rsplit(" ", 1)[1])
    assert decide(cards([score + rise for score in worse]), cards(base)).outcome == "promote"
    less = [score + rise - 0.1 for score in worse]
    assert decide(cards(less), cards(base)).outcome == "hold"


def test_no_decision_asks_for_a_rise_above_the_baseline() -> None:
    """Four failures of forty-five: 'must rise by 19.35', from a mean of 91 out of 100."""
    perfect, worse = [100.0] * 45, [0.0] * 4 + [100.0] * 41
    assert not any("rise" in text for text in decide(cards(worse), cards(perfect)).would_change)


@pytest.mark.req("X-63")
def test_twenty_nine_pairs_are_not_enough_and_thirty_are() -> None:
    for n, outcome in ((29, "not_enough_evidence"), (30, "promote")):
        found = decide(cards(BASE[:n]), cards(BASE[:n]))
        assert (found.outcome, found.n_paired) == (outcome, n)
    assert (
        "Add 1 paired sample to reach the minimum of 30."
        in decide(cards(BASE[:29]), cards(BASE[:29])).would_change
    )


@pytest.mark.req("X-63")
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_rule_that_is_shown_to_be_violated_rejects_whatever_n(n: int) -> None:
    worse = cards(BASE[:n], hard_gates={"no_policy_violation": False, "looks_right": True})
    found = decide(worse, cards(BASE[:n]))
    assert found.outcome == "reject"
    assert found.reason.startswith("gate_failure_rate: ")


@pytest.mark.req("X-63")
def test_one_sample_has_no_interval_and_is_not_enough() -> None:
    found = decide(cards([90]), cards([90]))
    assert found.outcome == "not_enough_evidence"
    assert found.comparison.difference.low is None
    assert rule(found, "score_non_inferiority").holds is None
    assert "one sample has no spread" in rule(found, "score_non_inferiority").reason
    assert found.reason == "1 paired sample; the policy asks for at least 30"
    assert "the one shared sample has" in same_note(1, "the same evidence")


def test_equal_sides_promote_and_the_decision_says_what_could_have_gone_unseen() -> None:
    found = decide(cards(BASE), cards(BASE))
    score = rule(found, "score_non_inferiority")
    assert (found.outcome, score.holds) == ("promote", True)
    assert score.evidence["unseen_loss_rate"] == pytest.approx(1 - 0.025 ** (1 / 40))
    assert "could have gone unnoticed" in score.reason
    assert decide(cards(BASE), cards(BASE), rules=STRICT).outcome == "hold"
    many = drawn(400)
    assert decide(cards(many), cards(many), rules=STRICT).outcome == "promote"
    most = cards(drawn(8000))
    never = rule(decide(most, most), "score_non_inferiority").reason
    assert "a total loss in up to 0.1% of samples" in never  # 0.05%, and never 0.0%


def test_superiority_and_equivalence_are_named_where_they_hold() -> None:
    assert decide(cards(shifted(BASE, 2)), cards(BASE)).reason.endswith("the candidate is better")
    same = decide(cards(shifted(BASE, 0)), cards(BASE))
    assert same.reason.endswith("the two are equivalent")
    assert same.comparison.claims.equivalent


# --- the gate rule


def failing(
    indices: set[int], scores: list[float] = BASE, gate: str = "looks_right"
) -> list[dict[str, Any]]:
    made = cards(scores)
    for index in indices:
        made[index]["hard_gates"][gate] = False
    return made


@pytest.mark.req("W-075")
@pytest.mark.req("X-63")
def test_the_gate_failure_rate_may_not_rise_by_a_single_sample() -> None:
    assert (
        decide(failing({3}), failing({5})).outcome == "promote"
    )  # the rate is the same, although another sample fails
    found = decide(failing({3, 4}), failing({5}))
    assert found.outcome == "reject"
    evidence = rule(found, "gate_failure_rate").evidence
    assert (
        evidence["candidate"]["failed"],
        evidence["baseline"]["failed"],
        evidence["only_candidate"],
        evidence["only_baseline"],
    ) == (2, 1, 2, 1)
    assert evidence["newly_failing"] == ["s-0003", "s-0004"]
    assert evidence["gates"]["looks_right"] == {"candidate": 2, "baseline": 1}
    assert evidence["mcnemar_p"] == pytest.approx(scipy.stats.binomtest(2, 3).pvalue)


def test_the_allowed_rise_is_a_number_of_the_policy_and_is_compared_exactly() -> None:
    rules = RULES._replace(gate_failure_increase=Ratio(1, 40), severe_increase=5)
    assert decide(failing({3}), cards(BASE), rules=rules).outcome == "promote"
    assert decide(failing({3, 4}), cards(BASE), rules=rules).outcome == "reject"
    many = drawn(1001)
    found = decide(failing(set(range(1001)), many), cards(many))
    assert "1,001 of 1,001 samples fail a gate" in rule(found, "gate_failure_rate").reason


def test_samples_of_the_candidates_own_dilute_no_rate() -> None:
    few, many = drawn(200), drawn(220)
    base, own = failing(set(range(20)), few), cards(many)[200:]
    bar = RULES._replace(bar=PassBar(Fraction(905, 1000)), margin=20.0)
    without = decide(base, base, rules=bar)
    found = decide([*base, *own], base, rules=bar)
    reasons = [rule(one, "pass_rate").reason for one in (without, found)]
    assert [one.outcome for one in (without, found)] == ["reject", "reject"]
    assert reasons[1] == f"without passes that only the candidate has: {reasons[0]}"
    lower = RULES._replace(bar=PassBar(Fraction(89, 100)), margin=20.0)
    assert decide([*base, *own], base, rules=lower).outcome == "promote"
    allowed = RULES._replace(gate_failure_increase=Ratio(1, 40), severe_increase=9, margin=20.0)
    worse = failing(set(range(26)), few)  # 6 more of 200 are 0.03, and of 220 they are 0.027
    assert decide(worse, base, rules=allowed).outcome == "reject"
    allowed = allowed._replace(gate_failure_increase=Ratio(28, 1000))
    thinned = decide([*worse, *own], base, rules=allowed)
    assert "26 of 200 samples fail a gate, 20 before; the rate rose by 0.0300" in thinned.reason
    assert thinned.outcome == "reject"
    # 5 new samples that fail are 5 of 205, however many others pass next to them
    added = failing(set(range(200, 205)), many)[200:]
    for most, outcome in ((25, "promote"), (23, "reject")):
        allowed = allowed._replace(gate_failure_increase=Ratio(most, 1000))
        assert decide([*base, *added], base, rules=allowed).outcome == outcome


@pytest.mark.parametrize(
    ("rules", "margin", "looks", "size"),
    [
        (RULES, 10.0, 1, 1),
        (RULES, 10.0, 1, 2),
        (STRICT, 12.0, 1, 1),
        (STRICT, 18.0, 1, 2),
        (RULES, 20.0, 2, 1),
    ],
)
def test_good_samples_of_the_candidates_own_dilute_no_bad_one(
    rules: ReleaseRules, margin: float, looks: int, size: int
) -> None:
    rules, base = rules._replace(margin=margin), cards(BASE)
    before = [{**one, "group": f"g-{index // size}"} for index, one in enumerate(base)]
    bad, good = card("bad", 0), [card(f"good-{index}", 100 - index / 2) for index in range(9)]
    reasons = []
    for own, outcome in (([], "promote"), ([bad], "hold"), ([bad, *good], "hold")):
        made = decide([*base, *own], before, rules=rules)
        made = with_looks(made, rules, looks=looks) if looks > 1 else made
        assert made.outcome == outcome
        reasons.append(made.reason)
    assert reasons[1] == reasons[2]


@pytest.mark.req("W-075")
@pytest.mark.parametrize(
    ("others", "ours", "theirs", "margin"), [(0, 0, 80, 5.5), (-1, 100, 0, 3.0)]
)
def test_a_sample_that_the_baseline_drops_is_not_diluted_by_those_it_never_had(
    others: float, ours: float, theirs: float, margin: float
) -> None:
    """In one sample the candidate fell, or rose by so much that the interval is wide."""
    candidate = cards([*[80.0 + others] * 39, ours, *[100.0] * 20])
    baseline = cards([*[80.0] * 39, theirs])
    planned = [one["sample_id"] for one in candidate]
    rules = RULES._replace(margin=margin, new_floor_failures=1)
    for kept in (baseline, baseline[:-1]):
        found = decide(candidate, kept, rules=rules, planned=planned)
        assert (found.outcome, found.rules[0].holds) == ("hold", True)


@pytest.mark.req("W-075")
def test_a_gate_that_the_candidate_lost_stays_lost_where_the_baseline_drops_the_sample() -> None:
    rules = RULES._replace(margin=50.0, gate_failure_increase=Ratio(1, 10), severe_increase=9)
    candidate = cards(BASE)
    del candidate[0]["hard_gates"]["looks_right"]
    for baseline in (cards(BASE), cards(BASE)[1:]):
        found = decide(candidate, baseline, rules=rules)
        assert found.outcome == "reject"
        assert "the candidate lost the gate looks_right in s-0000" in found.reason


def test_a_gate_without_a_verdict_is_a_failure() -> None:
    made = cards(BASE)
    made[7]["hard_gates"]["looks_right"] = None
    assert decide(made, cards(BASE)).outcome == "reject"
    assert decide(made, failing({2})).outcome == "promote"


# --- floors and severe failures


@pytest.mark.req("W-075")
@pytest.mark.req("X-63")
def test_one_new_miss_of_a_critical_floor_rejects_although_all_others_rose() -> None:
    better = shifted(BASE, 3, noise=0)
    better[4] = 59.0
    found = decide(cards(better, floor=0.6), cards(BASE, floor=0.6))
    assert (found.outcome, rule(found, "floor_regression").violated) == ("reject", True)
    assert rule(found, "floor_regression").evidence["new"] == [
        {"sample": "s-0004", "criterion": "c0"}
    ]
    assert "s-0004 misses the floor of c0" in found.reason or "(and" in found.reason


def test_a_floor_that_was_missed_before_is_no_regression_and_one_that_is_mended_does_not_pay_for_a_new_one() -> (
    None
):
    before = list(BASE)
    before[4] = 50.0
    assert rule(
        decide(cards(before, floor=0.6), cards(before, floor=0.6)), "floor_regression"
    ).holds
    swapped = list(BASE)
    swapped[5] = 50.0
    found = rule(decide(cards(swapped, floor=0.6), cards(before, floor=0.6)), "floor_regression")
    assert (found.violated, found.evidence["new_count"], found.evidence["mended_count"]) == (
        True,
        1,
        1,
    )


@pytest.mark.req("W-075")
@pytest.mark.req("X-63")
def test_severe_failures_are_the_listed_gates_and_the_floors_of_the_safety_role() -> None:
    by_gate = decide(failing({1}, gate="no_policy_violation"), failing({2}, gate="looks_right"))
    assert [one.id for one in by_gate.rules if one.violated] == [
        "severe_failures"
    ]  # as many gates fail as before, but this one is severe
    safe = cards(BASE, other={"norm": 1, "name": "guard", "role": "safety"})
    unsafe = cards(BASE, other={"norm": 1, "name": "guard", "role": "safety"})
    unsafe[9]["criteria"][1]["raw_score"] = 0.79
    by_role = decide(unsafe, safe)
    assert rule(by_role, "severe_failures").evidence["items"] == [
        {"sample": "s-0009", "what": "floor of the role safety"}
    ]
    assert rule(by_role, "severe_failures").violated
    as_before = decide(unsafe, unsafe)
    assert rule(as_before, "severe_failures").holds


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


# --- the adjusted scores


@pytest.mark.req("X-63", "W-038")
def test_the_adjusted_difference_is_formed_once_per_side_so_that_it_cannot_hide_a_drop() -> None:
    found = decide(cards([70.0] * 40), cards([90.0] * 40))
    # (40 * 0.7 + 10) / 60 - (40 * 0.9 + 10) / 60, in points; for each run it would have been -20 /
    # 21
    assert found.adjusted_difference == pytest.approx(-20 * 40 / 60)
    assert found.outcome == "reject"


@pytest.mark.req("X-63", "W-038")
def test_the_score_rule_needs_the_adjusted_difference_too() -> None:
    def two(few: float, many: float) -> list[dict[str, Any]]:
        rare = [card(f"a{index:03}", few) for index in range(20)]
        return rare + [
            card(f"b{index:03}", many, other={"norm": many / 100, "name": "more"})
            for index in range(980)
        ]

    # twenty samples of one kind rise by 60, all of the other kind fall by 2: the pull to the prior
    # is stronger on the few
    sides = two(90, 81), two(30, 83)
    found = decide(*sides)
    low, adjusted = found.comparison.difference.low, found.adjusted_difference
    assert low is not None
    assert adjusted is not None
    assert adjusted < low
    held = decide(*sides, rules=RULES._replace(margin=-(low + adjusted) / 2))
    assert (held.comparison.claims.non_inferior, held.outcome) == (True, "hold")
    assert "the adjusted difference is" in held.reason


# --- missing evidence


@pytest.mark.req("X-63")
def test_a_sample_that_the_candidate_lost_counts_as_zero_with_its_gates_failed() -> None:
    found = decide(cards(BASE)[:-1], cards(BASE))
    assert (found.missing.candidate, found.missing.baseline) == (["s-0039"], [])
    assert (found.n_paired, found.comparison.n_paired) == (39, 40)
    assert found.comparison.difference.value == pytest.approx(-BASE[-1] / 40)
    assert (found.outcome, rule(found, "gate_failure_rate").violated) == ("reject", True)
    without_gates = decide(cards(BASE, hard_gates={})[:-1], cards(BASE, hard_gates={}))
    assert rule(without_gates, "gate_failure_rate").violated


@pytest.mark.req("X-63")
def test_a_sample_that_the_baseline_lost_counts_as_a_hundred_with_its_gates_passed() -> None:
    many = drawn(500)
    found = decide(cards(many), cards(many)[:-1])
    assert found.missing.baseline == ["s-0499"]
    assert found.comparison.difference.value == pytest.approx((many[-1] - 100) / 500)
    assert (
        found.outcome == "promote"
    )  # one of 500 cannot have hidden a drop of a point, whatever it was
    broken = failing({499}, many)
    assert rule(decide(broken, failing({499}, many)[:-1]), "gate_failure_rate").violated


@pytest.mark.req("X-63")
def test_with_few_samples_a_lost_one_could_have_been_anything_and_that_holds() -> None:
    scores = [*BASE[:-1], 100.0]
    found = decide(cards(scores), cards(scores)[:-1])
    assert found.comparison.difference.low == 0
    score = rule(found, "score_non_inferiority")
    assert (found.outcome, score.holds, score.violated) == ("hold", False, False)
    lowest = np.zeros(40)
    lowest[-1] = 100
    wanted = scipy.stats.ttest_1samp(lowest, 0).confidence_interval(0.95).low
    assert score.evidence["lost_runs"]["samples"] == 1
    assert score.evidence["lost_runs"]["low"] <= wanted + 1e-9
    assert "of the baseline (or" in found.would_change[0]  # a dataset may have grown
    assert "--quarantine s-0039)" in found.would_change[0]


def test_beyond_a_number_of_lost_samples_the_score_rule_does_not_hold() -> None:
    many = [100.0] * 600
    found = decide(cards(many), cards(many)[: -MAX_MISSING - 1])
    assert (found.outcome, rule(found, "score_non_inferiority").evidence["lost_runs"]["low"]) == (
        "hold",
        None,
    )


@pytest.mark.req("X-63")
def test_the_plan_fixes_the_samples_and_one_that_nobody_has_is_missing_on_both_sides() -> None:
    planned = [f"s-{index:04}" for index in range(40)]
    found = decide(cards(BASE)[:-1], cards(BASE)[:-1], planned=planned)
    assert found.outcome == "reject"
    assert found.missing.candidate == found.missing.baseline == ["s-0039"]
    assert found.comparison.difference.value == pytest.approx(-100 / 40)
    assert rule(found, "gate_failure_rate").evidence["newly_failing"] == ["s-0039"]
    fewer = decide(cards(BASE), cards(BASE), planned=planned[:35])
    assert (fewer.n_paired, fewer.outcome) == (35, "promote")


def test_a_quarantined_sample_takes_no_part_and_is_listed() -> None:
    found = decide(failing({4}), cards(BASE), quarantined=["s-0004"])
    assert (found.outcome, found.missing.quarantined, found.n_paired) == (
        "promote",
        ["s-0004"],
        39,
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


def test_repeats_are_one_sample_with_the_mean_of_their_scores_and_every_failure_of_any() -> None:
    runs = repeats({"a": [True, True]})
    runs[1]["scores"]["faithfulness"] = {"raw": 0.5}
    found = side(runs)
    both = [side([one]).rows["d/a"] for one in runs]
    assert len(found.rows) == 1
    assert found.rows["d/a"].score == Fraction(both[0].score + both[1].score) / 2
    worse = side(repeats({"a": [True, False, True]})).rows["d/a"]
    assert "overall_status_success" in worse.failed
    assert not worse.passed


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
    full = repeats({f"s{index:02}": [True, True] for index in range(40)})
    fewer = [one for one in full if one["run_id"] != "s07-2"]
    lost = promote(pair_up(side(fewer), side(full)), RULES, shrinkage=SHRINKAGE)
    assert (lost.outcome, lost.missing.candidate) == ("reject", ["d/s07"])
    pair = next(pair for pair in lost.pairs if pair.sample == "d/s07")
    assert pair.candidate is not None
    assert pair.ours == 50
    assert LOST in pair.candidate.failed
    other = promote(pair_up(side(full), side(fewer)), RULES, shrinkage=SHRINKAGE)
    assert other.missing.baseline == ["d/s07"]
    assert other.outcome != "reject"


def test_flaky_samples_are_named_with_the_words_to_leave_them_out_and_stay_in() -> None:
    candidate = side(
        repeats({"a": [True, False, True], "b": [True, True, True], "c": [False, False, False]})
    )
    baseline = side(
        repeats({"a": [True, True, True], "b": [False, True, True], "c": [False, False, False]})
    )
    found = flaky_samples(candidate, baseline)
    assert [(one.sample, one.side, one.passed, one.repeats) for one in found] == [
        ("d/a", "candidate", 2, 3),
        ("d/b", "baseline", 2, 3),
    ]
    assert found[0].leave_out == "--quarantine d/a"
    (spaced,) = flaky_samples(side(repeats({"Is it?": [True, False]})), baseline)[:1]
    assert spaced.leave_out == "--quarantine 'd/Is it?'"
    assert found[0].rate.value == pytest.approx(2 / 3)
    assert "overall_status_success" in candidate.rows["d/a"].failed


# --- looks and slices


def test_with_several_looks_the_interval_is_a_confidence_sequence_and_the_rule_goes_by_it() -> None:
    one = decide(cards(shifted(BASE, 0)), cards(BASE))
    found = with_looks(one, RULES, looks=3)
    assert (one.outcome, found.outcome) == ("promote", "hold")
    assert "betting sequence, holds at each of 3 looks" in found.comparison.difference.method
    assert found.comparison.difference.low < one.comparison.difference.low
    assert found.comparison.claims.superior is False
    many = drawn(900)
    assert (
        with_looks(decide(cards(shifted(many, 0)), cards(many)), RULES, looks=3).outcome
        == "promote"
    )
    assert (
        with_looks(decide(cards(shifted(many, -5)), cards(many)), RULES, looks=3).outcome
        == "reject"
    )


@pytest.mark.parametrize("size", [2, 7])
def test_groups_are_looked_at_by_their_means_weighted_by_their_sizes(size: int) -> None:
    base, ours = drawn(3001), shifted(drawn(3001), 3)  # the last group is smaller
    sides = [
        [{**one, "group": f"g{index // size}"} for index, one in enumerate(cards(scores))]
        for scores in (ours, base)
    ]
    found = with_looks(decide(*sides), RULES, looks=2)
    plain = decide(*sides).comparison.difference
    assert found.comparison.difference.value == pytest.approx(plain.value, abs=1e-6)
    assert found.comparison.difference.low < plain.low
    assert found.outcome == "promote"


def tagged(scores: list[float], worse: float = 0.0) -> list[dict[str, Any]]:
    made = []
    for index, score in enumerate(scores):
        made.append(
            card(
                f"{index:04}",
                round(score - (worse if index % 10 == 0 else 0), 2),
                tags=["rare" if index % 10 == 0 else "usual"],
                group=None,
            )
        )
    return made


@pytest.mark.req("W-075")
def test_a_slice_that_is_shown_to_be_worse_rejects_although_the_whole_is_better() -> None:
    base = drawn(400)
    candidate = tagged(shifted(base, 1), worse=6)
    whole = decide(candidate, tagged(base))
    assert whole.outcome == "promote"
    slices = slices_of(whole, RULES, ["tag"])
    assert slices.violated == ["tag: rare"]
    rare = next(one for one in slices.slices if one.slice == "tag: rare")
    differences = np.array([round(score - 6, 2) for score in shifted(base, 1)][::10]) - np.array(
        base[::10]
    )
    p = scipy.stats.ttest_1samp(differences, -1, alternative="less").pvalue
    assert (rare.n, rare.p_worse) == (40, pytest.approx(p, rel=1e-6))
    assert rare.p_worse_corrected == pytest.approx(2 * p, rel=1e-6)
    found = with_slices(whole, slices, RULES)
    assert found.outcome == "reject"
    assert "the slice tag: rare is shown to be worse" in found.reason
    assert rule(found, "score_non_inferiority").evidence["slices_violated"] == ["tag: rare"]


def test_samples_without_a_tag_are_a_slice_in_which_a_regression_shows() -> None:
    base = drawn(400)
    before = [{**one, "tags": []} if "rare" in one["tags"] else one for one in tagged(base)]
    whole = decide(tagged(shifted(base, 1), worse=6), before)
    slices = slices_of(whole, RULES, ["tag"])
    assert [(one.slice, one.n) for one in slices.slices] == [("no tag", 40), ("tag: usual", 360)]
    assert slices.violated == ["no tag"]
    assert with_slices(whole, slices, RULES).outcome == "reject"


def test_slices_are_corrected_for_being_several_and_one_that_shows_nothing_does_nothing() -> None:
    base = drawn(200)
    tags = [{"tags": [f"t{index % 20}"]} for index in range(200)]
    found = decide(
        *[
            [{**one, **more} for one, more in zip(cards(scores), tags, strict=True)]
            for scores in (shifted(base, 0, noise=4), base)
        ]
    )
    slices = slices_of(found, RULES, ["tag"])
    assert len(slices.slices) == 20
    assert with_slices(found, slices, RULES) is found
    looked = slices_of(found, RULES, ["tag"], looks=5)
    assert all(
        a.p_worse_corrected <= b.p_worse_corrected
        for a, b in zip(slices.slices, looked.slices, strict=True)
    )


def test_a_lost_run_cannot_blur_a_slice_that_was_worse() -> None:
    base = drawn(400)
    candidate = tagged(shifted(base, 1), worse=3)
    before = tagged(base)
    whole = decide(candidate, before)
    assert with_slices(whole, slices_of(whole, RULES, ["tag"]), RULES).outcome == "reject"
    lost = decide(candidate, before[1:])
    assert with_slices(lost, slices_of(lost, RULES, ["tag"]), RULES).outcome != "promote"


# --- comparable or not


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
    assert (found.difference.low, found.difference.high) == (
        pytest.approx(wanted.low),
        pytest.approx(wanted.high),
    )


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
@pytest.mark.parametrize("field", ["dataset", "rubric", "judge", "policy", "scoringSystem"])
def test_incomparable_sides_end_in_exit_3_with_the_field_named(
    assay: Any, tmp_path: Path, field: str
) -> None:
    def runs(dataset: str, judge: str, rubric: str | None) -> list[dict[str, Any]]:
        workflow = {
            "id": "w",
            "version": "1",
            "family": "dag-review",
            **({"rubric": rubric} if rubric else {}),
        }
        return [
            run(
                "dag-review",
                run_id=f"r{index}",
                workflow=workflow,
                dataset={"id": f"d{dataset}", "version": "1", "sample_id": f"s{index}"},
                judge={"model": "m", "version": judge, "prompt_version": "1"},
            )
            for index in range(3)
        ]

    candidate = runs("2" if field == "dataset" else "1", "2" if field == "judge" else "1", None)
    write(tmp_path / "base.jsonl", runs("1", "1", None))
    extra: tuple[str, ...] = ()
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
        done = assay("gate", "base.jsonl", "--baseline", "grades.json", "--json", *extra)
    else:
        write(tmp_path / "cand.jsonl", candidate)
        done = assay("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json")
    assert (done.code, done.out) == (3, "")
    error = json.loads(done.err)["error"]
    assert error["code"] == ("REL-008" if field == "policy" else "REL-002")
    assert field in error["message"] or (
        field == "policy" and "workflow-judged@1" in error["message"]
    )
    assert ("--grading-policy" in error["fix"]) == (field == "policy")


def test_too_few_groups_to_tell_their_spread_leave_the_plain_interval_and_say_so(
    assay: Any, tmp_path: Path
) -> None:
    def write(name: str, shift: float, groups: int) -> None:
        rows = [
            {
                "schema": "assay.scorecard/1",
                "run_id": f"{name}-{i}",
                "sample_id": f"s-{i}",
                "group": f"g-{i % groups}",
                "hard_gates": {"ok": True},
                "criteria": [
                    {
                        "name": "q",
                        "raw_score": round(0.7 + (i % 7) / 50 + shift + (i % 3) / 1000, 4),
                        "formula_id": "zero_one",
                        "weight": 1,
                    }
                ],
            }
            for i in range(40)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    for groups, method, noted in (
        (1, "student-t", True),
        (4, "student-t", True),
        (8, "cluster-robust t", False),
    ):
        write("a", 0.02, groups)
        write("b", 0.0, groups)
        found = assay("gate", "a.jsonl", "--baseline", "b.jsonl", "--json").json()
        assert found["outcome"] == "promote"
        assert found["comparison"]["difference"]["method"].startswith(method)
        assert bool(found.get("notes")) is noted
    write("a", 0.02, 2)
    write("b", 0.0, 2)
    assert (
        "too few to estimate how groups differ"
        in assay("gate", "a.jsonl", "--baseline", "b.jsonl").out
    )
