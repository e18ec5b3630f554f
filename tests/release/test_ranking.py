"""The order of runs and candidates: tie groups opened by their leader, the four tie-breakers, and
nothing else.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.exact import Ratio
from assay.release.ranking import Contender, Place, candidates, contender, rank, shown
from cards import graded
from documents import FAMILIES, run, scorecard

WINDOW = 100


def one(
    name: str,
    score: int,
    *,
    gates: int = 0,
    right: int | None = None,
    safe: int | None = None,
    ms: int | None = None,
    usd: Any = None,
) -> Contender:
    """A contender; the score is in hundredths of a point."""
    latency = None if ms is None else Ratio(ms, 1)
    cost = None if usd is None else Ratio(*Decimal(usd).as_integer_ratio())
    return Contender(name, score, gates, right, safe, latency, cost)


def order(*contenders: Contender) -> list[str]:
    """The names, best first."""
    return [place.contender.id for place in rank(contenders, tie_window=WINDOW)]


def places(*contenders: Contender) -> dict[str, Place]:
    """The place of each by its name."""
    return {place.contender.id: place for place in rank(contenders, tie_window=WINDOW)}


# --- the order a second time


def _higher(value: int | None) -> tuple[int, int]:
    return (1, 0) if value is None else (0, -value)


def _lower(value: Ratio | None) -> tuple[int, Fraction]:
    return (1, Fraction(0)) if value is None else (0, Fraction(value.num, value.den))


def _keys(c: Contender) -> list[tuple[str, Any]]:
    return [
        ("gate_failures", c.gate_failures),
        ("correctness", _higher(c.correctness)),
        ("safety", _higher(c.safety)),
        ("latency", _lower(c.latency)),
        ("cost", _lower(c.cost)),
        ("run_id", c.id),
    ]


def _expected(contenders: list[Contender]) -> list[tuple[str, int, str | None]]:
    """Name, tie group and what decided, from X-61 and X-62: clean before failing, then score; a
    group is whoever is within the window of its leader.
    """
    found: list[tuple[Contender, int, str | None]] = []
    number = 0
    for failing in (False, True):
        left = sorted(
            (c for c in contenders if (c.gate_failures > 0) is failing), key=lambda c: -c.score
        )
        while left:
            number += 1
            leader = left[0]
            group = [c for c in left if leader.score - c.score < WINDOW]
            left = left[len(group) :]
            for c in sorted(group, key=lambda c: [value for _, value in _keys(c)]):
                decided = None
                if found:
                    previous = found[-1]
                    if (previous[0].gate_failures > 0) is not failing:
                        decided = "gates"
                    elif previous[1] != number:
                        decided = "score"
                    else:
                        decided = next(
                            name
                            for (name, mine), (_, theirs) in zip(
                                _keys(c), _keys(previous[0]), strict=True
                            )
                            if mine != theirs
                        )
                found.append((c, number, decided))
    return [(c.id, group, decided) for c, group, decided in found]


unknown = st.none()
pools = st.lists(
    st.builds(
        Contender,
        st.text("abcdef", min_size=1, max_size=4),
        st.one_of(st.integers(8800, 9100), st.integers(0, 10000)),
        st.sampled_from((0, 0, 0, 1, 2)),
        st.one_of(unknown, st.sampled_from((700_000_000, 700_000_001, 1_000_000_000))),
        st.one_of(unknown, st.sampled_from((0, 900_000_000))),
        st.one_of(unknown, st.builds(Ratio, st.integers(0, 30), st.sampled_from((1, 2, 5)))),
        st.one_of(unknown, st.builds(Ratio, st.integers(0, 30), st.sampled_from((1, 10, 1000)))),
    ),
    max_size=9,
    unique_by=lambda c: c.id,
)


@pytest.mark.req("W-056", "X-61", "X-62")
@given(pools)
def test_the_order_the_groups_and_what_decided_are_what_the_rules_say(
    pool: list[Contender],
) -> None:
    found = rank(pool, tie_window=WINDOW)
    assert [
        (place.contender.id, place.tie_group, place.decided_by) for place in found
    ] == _expected(pool)
    assert [place.rank for place in found] == list(range(1, len(pool) + 1))


@pytest.mark.req("X-61")
@given(pools, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_of_the_input(
    pool: list[Contender], shuffle: random.Random
) -> None:
    other = list(pool)
    shuffle.shuffle(other)
    assert rank(pool, tie_window=WINDOW) == rank(other, tie_window=WINDOW)


@pytest.mark.req("X-61")
@given(pools)
def test_a_run_with_a_failed_gate_never_stands_before_a_clean_one(pool: list[Contender]) -> None:
    failing = [place.contender.gate_failures > 0 for place in rank(pool, tie_window=WINDOW)]
    assert failing == sorted(failing)


# --- the window


@pytest.mark.req("W-056")
@pytest.mark.parametrize(("apart", "tie"), [(0, True), (99, True), (100, False), (101, False)])
def test_scores_are_a_tie_below_one_point_and_not_at_one_point(apart: int, tie: bool) -> None:
    found = places(one("better", 9000), one("right", 9000 - apart, right=900_000_000))
    assert (found["better"].tie_group == found["right"].tie_group) is tie
    assert (found["right"].rank == 1) is tie  # in a tie the correctness decides, else the score
    assert found["better" if tie else "right"].decided_by == ("correctness" if tie else "score")


@pytest.mark.req("X-61")
def test_a_group_is_measured_from_its_leader_so_closeness_does_not_spread() -> None:
    found = places(one("a", 9000), one("b", 8910), one("c", 8850), one("d", 8760))
    assert [found[name].tie_group for name in "abcd"] == [1, 1, 2, 2]


@pytest.mark.req("X-61")
def test_the_leader_opens_the_group_also_when_it_does_not_come_first_in_it() -> None:
    # b wins the group that a opens; c is within a point of b and not of a, so it stays outside
    found = places(one("a", 9000), one("b", 8950, right=10**9), one("c", 8900, right=10**9))
    assert [(name, found[name].rank, found[name].tie_group) for name in "bac"] == [
        ("b", 1, 1),
        ("a", 2, 1),
        ("c", 3, 2),
    ]


# --- the keys

LADDER = [
    ("gate_failures", {"gates": 1}, {"gates": 2}),
    ("correctness", {"right": 900_000_000}, {"right": 800_000_000}),
    ("safety", {"safe": 900_000_000}, {"safe": 800_000_000}),
    ("latency", {"ms": 100}, {"ms": 200}),
    ("cost", {"usd": "0.10"}, {"usd": "0.20"}),
]


@pytest.mark.req("W-056", "X-62")
@pytest.mark.parametrize("level", range(len(LADDER)))
def test_inside_a_tie_each_key_decides_before_all_later_ones(level: int) -> None:
    key, good, bad = LADDER[level]
    # the one that is better in this key is worse in all later ones, in the score and in the name
    winner, loser = {"gates": 1, **good}, {"gates": 1, **bad}
    for _, better, worse in LADDER[level + 1 :]:
        winner |= worse
        loser |= better
    found = places(one("z", 8950, **winner), one("a", 9000, **loser))
    assert (found["z"].rank, found["a"].rank) == (1, 2)
    assert found["a"].decided_by == key


def test_with_every_key_equal_the_name_decides_and_not_the_score() -> None:
    found = places(one("b", 9000), one("a", 8950))
    assert (found["a"].rank, found["b"].decided_by) == (1, "run_id")


@pytest.mark.parametrize("key", ["right", "safe", "ms", "usd"])
def test_what_is_unknown_ranks_behind_the_worst_that_is_known(key: str) -> None:
    worst = {"right": 0, "safe": 0, "ms": 10**9, "usd": "1000000"}[key]
    known: dict[str, Any] = {key: worst}
    assert order(one("a", 9000), one("z", 9000, **known)) == ["z", "a"]


def test_decimals_of_latency_and_cost_are_compared_exactly() -> None:
    near = Ratio(10**18 + 1, 10**18)
    assert order(
        Contender("a", 9000, 0, None, None, near, None),
        Contender("b", 9000, 0, None, None, Ratio(1, 1), None),
    ) == ["b", "a"]


# --- from grades


def _card(name: str, *criteria: dict[str, Any], **changes: Any) -> Any:
    return graded(scorecard(*criteria, run_id=name, **changes)).grade


def test_correctness_and_safety_are_the_norms_of_their_roles_the_lowest_where_there_are_several() -> (
    None
):
    found = contender(
        _card(
            "r",
            {"norm": Decimal("0.9"), "role": "correctness"},
            {"norm": Decimal("0.8"), "role": "correctness"},
            {"norm": Decimal("0.95"), "role": "safety"},
            latency_ms=Decimal("12.5"),
            hard_gates={"a": False, "b": None, "c": True},
        )
    )
    assert found == Contender("r", 8833, 2, 800_000_000, 950_000_000, Ratio(25, 2), None, grade="F")


def test_a_run_without_the_roles_has_no_correctness_and_no_safety() -> None:
    found = contender(_card("r", {"name": "correctness", "norm": 1}))
    assert (found.correctness, found.safety, found.latency, found.cost) == (None, None, None, None)


@pytest.mark.parametrize("role", ["correctness", "safety"])
def test_leaving_out_the_worse_of_two_scores_of_a_role_never_ranks_a_run_higher(role: str) -> None:
    rival = _card(
        "m",
        {"norm": 1, "weight": 99},
        {"norm": Decimal("0.5"), "role": role, "weight": 1},
        {"norm": Decimal("0.5"), "role": role, "weight": 0},
    )
    honest = [
        {"norm": 1, "weight": 99},
        {"norm": Decimal("0.9"), "role": role, "weight": 1},
        {"norm": Decimal("0.1"), "role": role, "weight": 0},
    ]
    silent = [*honest[:2], {"raw_score": None, "missing": "lost", "role": role, "weight": 0}]
    stated, kept = _card("z", *honest), _card("z", *silent)
    assert stated.score_units == kept.score_units
    assert order(contender(rival), contender(stated)) == ["m", "z"]
    assert order(contender(rival), contender(kept)) == ["m", "z"]


# --- candidates


def _runs(version: str, count: int, **changes: Any) -> list[Any]:
    return [
        graded(
            run(
                "tool-use",
                run_id=f"v{version}-{index}",
                workflow={"id": "book", "version": version, "family": "tool-use"},
                **changes,
            )
        ).grade
        for index in range(count)
    ]


@pytest.mark.req("W-056")
def test_a_candidate_is_all_runs_of_one_workflow_version_with_their_p95_latency_and_mean_cost() -> (
    None
):
    grades = [
        graded(
            run(
                "tool-use",
                run_id=f"r-{index}",
                workflow={"id": "book", "version": "7", "family": "tool-use"},
                latency_ms=index + 1,
                cost_usd=Decimal(index) / 1000,
            )
        ).grade
        for index in range(40)
    ]
    (found,) = candidates(grades)
    assert (found.id, found.runs, found.score, found.gate_failures) == ("book@7", 40, 10000, 0)
    assert found.latency == Ratio(38, 1)  # the 38th of 40, the first below which 95% lie
    assert found.cost is not None
    assert Fraction(found.cost.num, found.cost.den) == Fraction(39, 2000)
    assert found.correctness == 10**9


def test_a_candidate_that_keeps_one_latency_to_itself_has_an_unknown_p95() -> None:
    stated, silent = (
        _runs("1", 3, latency_ms=30000, cost_usd=1),
        _runs("2", 3, latency_ms=8000, cost_usd=1),
    )
    silent[1] = graded(
        run(
            "tool-use",
            run_id="v2-x",
            workflow={"id": "book", "version": "2", "family": "tool-use"},
            latency_ms=None,
            cost_usd=None,
        )
    ).grade
    found = {one.id: one for one in candidates([*stated, *silent])}
    assert (found["book@2"].latency, found["book@2"].cost) == (None, None)
    assert found["book@1"].latency == Ratio(30000, 1)


def test_the_gate_failures_of_a_candidate_add_up_and_its_score_is_the_mean() -> None:
    good = _card("x", {"norm": 1}, workflow={"id": "w", "version": "1"})
    bad = _card(
        "y",
        {"norm": Decimal("0.5")},
        workflow={"id": "w", "version": "1"},
        hard_gates={"g": False, "h": None},
    )
    (found,) = candidates([good, bad])
    assert (found.score, found.gate_failures, found.runs) == (7500, 2, 2)


def test_a_scorecard_without_a_workflow_is_never_counted_to_a_candidate() -> None:
    stray = _card("book@1", {"norm": 0})
    found = candidates([*_runs("1", 2), stray])
    assert sorted(one.runs for one in found) == [1, 2]


def test_workflows_whose_names_run_together_stay_apart() -> None:
    grades = [
        graded(
            run(
                "tool-use",
                run_id=f"r-{index}",
                workflow={"id": name, "version": version, "family": "tool-use"},
            )
        ).grade
        for index, (name, version) in enumerate((("a@1", "2"), ("a", "1@2")))
    ]
    assert [one.runs for one in candidates(grades)] == [1, 1]


@given(st.permutations([Decimal("1e-10"), Decimal("3e-10"), Decimal("2e-10")]))
def test_a_candidate_does_not_depend_on_the_order_of_its_runs(latencies: list[Decimal]) -> None:
    grades = [
        graded(
            run(
                "tool-use",
                run_id=f"r-{value}",
                workflow={"id": "book", "version": "7", "family": "tool-use"},
                latency_ms=value,
                cost_usd=value,
            )
        ).grade
        for value in latencies
    ]
    assert candidates(grades) == candidates(sorted(grades, key=lambda grade: grade.run_id))
    assert candidates(grades[:1])[0].latency == Ratio(*latencies[0].as_integer_ratio())


# --- the command


@pytest.mark.req("W-056", "X-61")
def test_the_rank_command_prints_the_order_of_the_contract(assay: Any, tmp_path: Any) -> None:
    cards = [
        scorecard({"norm": 0.9, "role": "correctness"}, run_id="slow", latency_ms=900),
        scorecard({"norm": 0.9, "role": "correctness"}, run_id="quick", latency_ms=100.5),
        scorecard({"norm": 1}, run_id="shut", hard_gates={"g": False}),
        scorecard({"norm": 0.2}, run_id="poor"),
    ]
    (tmp_path / "cards.jsonl").write_text("\n".join(map(json.dumps, cards)))
    done = assay("report", "rank", "cards.jsonl", "--json")
    assert done.code == 0
    found = done.json()
    assert [
        (item["rank"], item["run_id"], item["tie_group"], item["decided_by"])
        for item in found["order"]
    ] == [
        (1, "quick", 1, None),
        (2, "slow", 1, "latency"),
        (3, "poor", 2, "score"),
        (4, "shut", 3, "gates"),
    ]
    assert (
        found["order"][0]["latency_ms"],
        found["order"][0]["weighted_score"],
        found["order"][0]["correctness"],
    ) == (100.5, 90, 0.9)
    assert (
        found["tie_window"],
        found["policy"],
        found["scoringSystem"],
        found["gradingSystem"],
    ) == (
        1,
        "workflow@1",
        "scoringSystem/1.0.0",
        "gradingSystem/1.0.0",
    )
    text = assay("report", "rank", "cards.jsonl").out.splitlines()
    assert [line.split()[1] for line in text] == ["quick", "slow", "poor", "shut"]
    assert "decided by latency" in text[1]


def test_the_rank_command_orders_candidates_by_workflow_version(assay: Any, tmp_path: Any) -> None:
    lines = []
    for version, latency in (("1", 9000), ("2", 8000), ("3", None)):
        for index in range(3):
            made = run(
                "rag",
                run_id=f"{version}-{index}",
                workflow={"id": "faq", "version": version, "family": "rag"},
                latency_ms=latency,
            )
            lines.append(json.dumps(made))
    (tmp_path / "runs.jsonl").write_text("\n".join(lines))
    found = assay("report", "rank", "runs.jsonl", "--by", "candidate", "--json").json()
    assert found["by"] == "candidate"
    assert [(item["run_id"], item["runs"], item["latency_ms"]) for item in found["order"]] == [
        ("faq@2", 3, 8000),
        ("faq@1", 3, 9000),
        ("faq@3", 3, None),
    ]


@pytest.mark.parametrize(
    ("content", "code", "word"),
    [
        ("", 4, "FIL-005"),
        ("{}", 3, "FIL-006"),
        ("nonsense", 3, "FIL-006"),
        (
            json.dumps(scorecard({"norm": 1})) + "\n" + json.dumps(scorecard({"norm": 1})),
            3,
            "FIL-007",
        ),
    ],
)
def test_the_rank_command_refuses_what_it_cannot_order(
    assay: Any, tmp_path: Any, content: str, code: int, word: str
) -> None:
    (tmp_path / "x.jsonl").write_text(content)
    done = assay("report", "rank", "x.jsonl", "--json")
    assert (done.code, done.out) == (code, "")
    assert json.loads(done.err)["error"]["code"] == word


@pytest.mark.parametrize("family", FAMILIES)
def test_runs_of_every_family_can_be_ranked(family: str) -> None:
    grades = [
        graded(run(family, run_id="good")).grade,
        graded(run(family, run_id="bad", status="failed")).grade,
    ]
    found = shown(rank(map(contender, grades), tie_window=WINDOW))
    assert [item["run_id"] for item in found] == ["good", "bad"]
    assert found[0]["correctness"] == 1
