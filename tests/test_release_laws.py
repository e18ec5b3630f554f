"""The laws of the product, on decisions: forgetting never helps, better is not worse, order is
nothing, too little is said.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from assay.release.looks import slices_of, with_looks, with_slices
from assay.release.promotion import Promotion, promote
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from assay.exact import Ratio
from assay.release.pairs import pair_up
from assay.release.policy import ReleaseRules
from assay.release.sides import Row, Side, Stratum
from examples import repeats
from sides import RULES, SHRINKAGE, STRICT

STRATUM = Stratum("p@1", ("c0", "safe"), (3, 1), ("zero_one", "zero_one"))
GATES = frozenset({"no_policy_violation", "looks_right"})
SCORES = (0, 4000, 7900, 8000, 9900, 9950, 10000)
thorough = settings(max_examples=settings.default.max_examples * repeats(1, 3))


def row(
    sample: str,
    score: int,
    *,
    failed: frozenset[str] = frozenset(),
    missed: bool = False,
    unsafe: bool = False,
    tag: str = "t",
) -> Row:
    """A row whose norms make its score."""
    missing = frozenset([name for name, gone in (("c0", missed), ("safe", unsafe)) if gone])
    norms = (score * 100_000, score * 100_000)
    return Row(
        sample,
        score,
        not failed and not missing,
        GATES,
        failed,
        frozenset(),
        missing,
        norms,
        STRATUM,
        None,
        frozenset({tag}),
        None,
        (sample,),
        {"c0": 0, "safe": 0},
        {"safe": "safety"},
        norms,
        7000,
        {},
    )


def side(rows: list[Row]) -> Side:
    return Side("side", {one.sample: one for one in rows}, {}, {}, {"evidence": ""}, len(rows), {})


def decide(
    candidate: list[Row],
    baseline: list[Row],
    rules: ReleaseRules,
    *,
    planned: list[str] | None = None,
    looks: int = 1,
    slices: bool = False,
) -> Promotion:
    found = promote(
        pair_up(side(candidate), side(baseline), planned=planned), rules, shrinkage=SHRINKAGE
    )
    if looks > 1:
        found = with_looks(found, rules, looks=looks)
    return (
        with_slices(found, slices_of(found, rules, ["tag"], looks=looks), rules)
        if slices
        else found
    )


@st.composite
def rows(draw: Any, sample: str) -> Row:
    """One sample of any kind, good ones more often."""
    score = draw(
        st.one_of(st.sampled_from(SCORES), st.integers(9700, 10000), st.integers(0, 10000))
    )
    bad = draw(st.integers(0, 9))
    failed = (
        frozenset(draw(st.sets(st.sampled_from(sorted(GATES)), max_size=2)))
        if bad == 0
        else frozenset()
    )
    return row(
        sample,
        score,
        failed=failed,
        missed=bad == 1,
        unsafe=bad == 2,
        tag=draw(st.sampled_from("ab")),
    )


@st.composite
def settled(draw: Any) -> ReleaseRules:
    """Rules that let some through, so that no rule hides behind another."""
    return draw(st.sampled_from((RULES, STRICT)))._replace(
        min_pairs=2,
        margin=draw(st.sampled_from((0.5, 1.0, 5.0, 20.0, 60.0))),
        gate_failure_increase=draw(st.sampled_from((Ratio(0, 1), Ratio(1, 1)))),
        new_floor_failures=draw(st.sampled_from((0, 100))),
        severe_increase=draw(st.sampled_from((0, 100))),
    )


@st.composite
def sides(draw: Any) -> tuple[list[Row], list[Row]]:
    """Both sides on the same samples; half of the time the candidate is the baseline with a few
    changes.
    """
    names = [f"s{index:02}" for index in range(draw(st.integers(2, 12)))]
    baseline = [draw(rows(name)) for name in names]
    if draw(st.booleans()):
        return [draw(rows(name)) for name in names], baseline
    changed = draw(st.sets(st.sampled_from(names), max_size=3))
    return [draw(rows(one.sample)) if one.sample in changed else one for one in baseline], baseline


def outlier(n: int) -> tuple[list[Row], list[Row]]:
    """One sample that rose by 100 makes the interval of Student's wide; all others fell by half a
    point.
    """
    names = [f"s{index:02}" for index in range(n)]
    ours = [
        row(name, 10000 if index == 0 else 9450 + index % 3) for index, name in enumerate(names)
    ]
    return ours, [
        row(name, 0 if index == 0 else 9500 + index % 3) for index, name in enumerate(names)
    ]


# --- 1: forgetting never helps


@pytest.mark.req("W-075")
@thorough
@given(
    sides(),
    settled(),
    st.sets(st.integers(0, 11), min_size=1),
    st.sampled_from((1, 1, 3)),
    st.booleans(),
)
@example(outlier(12), RULES._replace(min_pairs=2), {0}, 1, False)
@example(outlier(12), RULES._replace(min_pairs=2), {0}, 3, False)
def test_dropping_evidence_of_the_candidate_never_makes_a_promote(
    both: tuple[list[Row], list[Row]],
    rules: ReleaseRules,
    dropped: set[int],
    looks: int,
    slices: bool,
) -> None:
    candidate, baseline = both
    before = decide(candidate, baseline, rules, looks=looks, slices=slices)
    left = [one for index, one in enumerate(candidate) if index not in dropped]
    assume(left)
    after = decide(left, baseline, rules, looks=looks, slices=slices)
    assert not (before.outcome != "promote" and after.outcome == "promote"), (
        before.reason,
        after.reason,
    )
    for one, other in zip(before.rules, after.rules, strict=True):
        if one.id != "score_non_inferiority":
            assert not (one.violated and other.holds), one.id


@pytest.mark.req("W-075")
@thorough
@given(
    sides(),
    settled(),
    st.sets(st.integers(0, 11), min_size=1),
    st.sampled_from((1, 1, 3)),
    st.booleans(),
)
@example(outlier(12), RULES._replace(min_pairs=2), {0}, 1, False)
def test_dropping_evidence_of_the_baseline_never_makes_a_promote(
    both: tuple[list[Row], list[Row]],
    rules: ReleaseRules,
    dropped: set[int],
    looks: int,
    slices: bool,
) -> None:
    candidate, baseline = both
    before = decide(candidate, baseline, rules, looks=looks, slices=slices)
    left = [one for index, one in enumerate(baseline) if index not in dropped]
    assume(left)
    after = decide(candidate, left, rules, looks=looks, slices=slices)
    assert not (before.outcome != "promote" and after.outcome == "promote"), (
        before.reason,
        after.reason,
    )
    for one, other in zip(before.rules, after.rules, strict=True):
        if one.id != "score_non_inferiority":
            assert not (one.violated and other.holds), one.id


@thorough
@given(sides(), settled(), st.sets(st.integers(0, 11), min_size=1), st.sets(st.integers(0, 11)))
def test_with_a_plan_dropping_a_sample_from_both_sides_never_makes_a_promote(
    both: tuple[list[Row], list[Row]], rules: ReleaseRules, ours: set[int], theirs: set[int]
) -> None:
    candidate, baseline = both
    planned = [one.sample for one in baseline]
    before = decide(candidate, baseline, rules, planned=planned)
    left = (
        [one for index, one in enumerate(candidate) if index not in ours],
        [one for index, one in enumerate(baseline) if index not in theirs],
    )
    after = decide(*left, rules, planned=planned)
    assert not (before.outcome != "promote" and after.outcome == "promote"), (
        before.reason,
        after.reason,
    )


@pytest.mark.parametrize("seed", range(repeats(8, 200)))
def test_with_more_samples_and_wild_scores_forgetting_does_not_help_either(seed: int) -> None:
    drawn = random.Random(seed)
    n = drawn.choice((30, 45, 80))
    names = [f"s{index:02}" for index in range(n)]
    baseline = [row(name, drawn.choice((0, 9000, 9500, 9900))) for name in names]
    candidate = [
        row(
            one.sample,
            min(
                10000,
                max(
                    0,
                    int(one.score)
                    + drawn.choice((-100, -50, 0, 0, 50, 10000 if drawn.random() < 0.1 else 0)),
                ),
            ),
        )
        for one in baseline
    ]
    rules = RULES._replace(
        min_pairs=5,
        gate_failure_increase=Ratio(1, 1),
        severe_increase=1000,
        new_floor_failures=1000,
        margin=drawn.choice((0.3, 0.6, 1.0, 2.0)),
    )
    before = decide(candidate, baseline, rules)
    for _ in range(10):
        gone = set(drawn.sample(names, drawn.choice((1, 1, 2, 5))))
        for sides_left in (
            ([one for one in candidate if one.sample not in gone], baseline),
            (candidate, [one for one in baseline if one.sample not in gone]),
        ):
            after = decide(*sides_left, rules)
            assert not (before.outcome != "promote" and after.outcome == "promote"), (
                before.reason,
                after.reason,
            )


# --- 2: better is not worse


@thorough
@given(sides(), settled(), st.integers(1, 3000), st.sampled_from((1, 3)), st.booleans())
def test_a_uniform_improvement_never_demotes(
    both: tuple[list[Row], list[Row]], rules: ReleaseRules, by: int, looks: int, slices: bool
) -> None:
    candidate, baseline = both
    by = min(by, 10000 - max(int(one.score) for one in candidate))
    assume(by > 0)
    better = [
        one._replace(score=one.score + by, norms=tuple(norm + by * 100_000 for norm in one.norms))
        for one in candidate
    ]
    before, after = (
        decide(ours, baseline, rules, looks=looks, slices=slices) for ours in (candidate, better)
    )
    order = ("reject", "not_enough_evidence", "hold", "promote")
    if before.outcome == "promote":
        assert after.outcome == "promote", after.reason
    assert (
        order.index(after.outcome) >= order.index(before.outcome)
        or after.outcome == "not_enough_evidence"
    )


@thorough
@given(sides(), settled(), st.integers(0, 11))
def test_improving_one_sample_turns_no_rule_on_gates_floors_or_severe_failures(
    both: tuple[list[Row], list[Row]], rules: ReleaseRules, place: int
) -> None:
    candidate, baseline = both
    assume(place < len(candidate))
    one = candidate[place]
    best = (1_000_000_000, 1_000_000_000)
    mended = one._replace(
        failed=frozenset(), missed=frozenset(), passed=True, score=10000, norms=best, lowest=best
    )
    before = decide(candidate, baseline, rules)
    after = decide([*candidate[:place], mended, *candidate[place + 1 :]], baseline, rules)
    for was, now in zip(before.rules, after.rules, strict=True):
        if was.id != "score_non_inferiority" and was.holds:
            assert now.holds, was.id


# --- 3 and 6: order, and too little


@given(sides(), settled(), st.randoms(use_true_random=False), st.sampled_from((1, 3)))
def test_the_order_of_the_runs_changes_nothing(
    both: tuple[list[Row], list[Row]], rules: ReleaseRules, order: random.Random, looks: int
) -> None:
    candidate, baseline = both
    before = decide(candidate, baseline, rules, looks=looks, slices=True)
    ours, theirs = list(candidate), list(baseline)
    order.shuffle(ours)
    order.shuffle(theirs)
    assert decide(ours, theirs, rules, looks=looks, slices=True) == before


@pytest.mark.req("X-63")
@given(sides(), settled(), st.integers(3, 40))
def test_below_the_minimum_of_pairs_nothing_is_promoted(
    both: tuple[list[Row], list[Row]], rules: ReleaseRules, least: int
) -> None:
    candidate, baseline = both
    found = decide(candidate, baseline, rules._replace(min_pairs=least))
    if len(candidate) < least:
        assert found.outcome in ("reject", "not_enough_evidence")
        if found.outcome == "not_enough_evidence":
            assert (
                found.reason
                == f"{len(candidate)} paired samples; the policy asks for at least {least}"
            )
