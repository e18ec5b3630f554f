"""Law 9: the judged never set the bar. Whatever a rejected side deletes, renames or weakens of what
it states about itself, it is not promoted or passed.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import AssayError, EvidenceError
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.records.decision import Decision
from assay.release.policy import ReleaseRules
from assay.services.compare import Asked, compare
from assay.services.grading import Grader
from assay.services.sides import Rereadable
from documents import FAMILIES, run
from examples import CAMPAIGN
from sides import DETERMINISTIC, GRADER, LENIENT, RULES, STRICT, policy, read, rule, write

N = 60


def card(index: int, *, norm: float = 0.9, **changes: Any) -> dict[str, Any]:
    """One sample of a side: two gates, a role with its floor, a floor of its own, a group and a
    tag.
    """
    return {
        "schema": "assay.scorecard/1",
        "run_id": f"r-{index}",
        "sample_id": f"s-{index:03}",
        "group": f"g-{index % 20}",
        "tags": [("even", "odd")[index % 2]],
        "hard_gates": {"no_policy_violation": True, "looks_right": True},
        "criteria": [
            {
                "name": "answer",
                "raw_score": Decimal(str(norm)),
                "formula_id": "zero_one",
                "weight": 3,
                "role": "correctness",
                "layer": 2,
            },
            {
                "name": "style",
                "raw_score": 4,
                "formula_id": "likert_1_5",
                "weight": 1,
                "critical_floor": {"raw": 3},
                "layer": 2,
            },
            {
                "name": "speed",
                "raw_score": 9,
                "formula_id": "lower_is_better",
                "params": {"slo_good": 8, "slo_bad": 30},
                "weight": 1,
                "layer": 3,
            },
        ],
        **changes,
    }


BASELINE = [card(index, norm=0.85 + (index % 5) / 100) for index in range(N)]


def worse(kind: str) -> list[dict[str, Any]]:
    """A candidate that is rejected or held for one reason."""
    rows = [card(index, norm=0.85 + (index % 5) / 100 + 0.001 * (index % 3)) for index in range(N)]
    if kind == "a gate fails":
        rows[7]["hard_gates"]["no_policy_violation"] = False
    elif kind == "every gate fails":
        for row in rows:
            row["hard_gates"]["looks_right"] = None
    elif kind == "a role's floor is missed":
        rows[7]["criteria"][0]["raw_score"] = Decimal("0.6")
    elif kind == "its own floor is missed":
        rows[7]["criteria"][1]["raw_score"] = 2
    elif kind == "scores fall":
        for row in rows:
            row["criteria"][0]["raw_score"] -= Decimal("0.08")
    elif kind == "a slice falls":
        for row in rows[::2]:
            row["criteria"][0]["raw_score"] -= Decimal("0.06")
    elif kind == "a sample is lost":
        del rows[7]
    elif kind == "a group falls":
        for row in rows:
            if int(row["group"][2:]) < 8:
                row["criteria"][0]["raw_score"] -= Decimal("0.14")
    return rows


KINDS = (
    "a gate fails",
    "every gate fails",
    "a role's floor is missed",
    "its own floor is missed",
    "scores fall",
    "a slice falls",
    "a sample is lost",
    "a group falls",
)


REFUSALS = (
    "REL-002",
    "REL-003",
    "REL-004",
    "GRD-101",
    "GRD-102",
    "GRD-104",
    "GRD-106",
    "GRD-108",
    "SCO-005",
)


made = read


@functools.cache
def baseline_side() -> Rereadable:
    return read(BASELINE, "baseline")


def decided(
    candidate: list[dict[str, Any]],
    baseline: list[dict[str, Any]] | Rereadable = BASELINE,
    *,
    rules: ReleaseRules = RULES,
    slices: tuple[str, ...] = (),
) -> Decision:
    theirs = baseline_side() if baseline is BASELINE else baseline
    theirs = theirs if isinstance(theirs, Rereadable) else read(theirs, "baseline")
    return compare(read(candidate, "candidate"), theirs, rules, GRADER, Asked(slices=slices))


def outcome(
    candidate: list[dict[str, Any]],
    baseline: list[dict[str, Any]] | Rereadable = BASELINE,
    *,
    rules: ReleaseRules = RULES,
    slices: tuple[str, ...] = ("tag",),
) -> str:
    """What `assay gate` decides; a refusal is one of the answers."""
    try:
        return decided(candidate, baseline, rules=rules, slices=slices).outcome
    except AssayError as error:
        if error.code not in REFUSALS:
            raise
        return "refused"


def weakened(row: dict[str, Any], how: str) -> None:
    """One thing that a side declares of itself, deleted, renamed or weakened."""
    criteria = row["criteria"]
    if how == "no gates":
        row["hard_gates"] = {}
    elif how == "another gate":
        row["hard_gates"] = {"fine": True}
    elif how == "failing gates deleted":
        row["hard_gates"] = {
            name: True for name, verdict in row["hard_gates"].items() if verdict is True
        }
    elif how == "gates renamed":
        row["hard_gates"] = {
            f"{name}_old": verdict is not None
            for name, verdict in row["hard_gates"].items()
            if verdict
        }
    elif how == "role dropped":
        criteria[0].pop("role", None)
    elif how == "role renamed":
        criteria[0]["role"] = "style"
    elif how == "floor dropped":
        criteria[-2].pop("critical_floor", None)
    elif how == "floor lowered":
        criteria[-2]["critical_floor"] = {"raw": 1}
    elif how == "floors overridden":
        for criterion in criteria:
            criterion["floor_override"] = {"value": {"norm": 0}, "reason": "tuned"}
    elif how == "criterion dropped":
        del criteria[0]
    elif how == "criterion renamed":
        criteria[0]["name"] = "answers"
    elif how == "criterion added":
        criteria.append({"name": "charm", "raw_score": 1, "formula_id": "binary", "weight": 50})
    elif how == "weight moved":
        criteria[0]["weight"], criteria[-1]["weight"] = 0, 9
    elif how == "formula eased":
        criteria[-1]["params"] = {"slo_good": 100, "slo_bad": 200}
    elif how == "layers and sources dropped":
        for criterion in criteria:
            criterion.pop("layer", None)
            criterion.pop("source", None)
    elif how == "group of its own":
        row["group"] = row["run_id"]
    elif how == "one group":
        row["group"] = "all"
    elif how == "group dropped":
        row.pop("group", None)
    elif how == "tags dropped":
        row["tags"] = []
    elif how == "tags spread":
        row["tags"] = ["even", "odd", "new"]
    elif how == "threshold lowered":
        row["pass_threshold"] = 0
    elif how == "n raised":
        for criterion in criteria:
            criterion["n"] = 10_000
    elif how == "sample renamed":
        row["sample_id"] = f"{row['sample_id']}-new"


WAYS = (
    "no gates",
    "another gate",
    "failing gates deleted",
    "gates renamed",
    "role dropped",
    "role renamed",
    "floor dropped",
    "floor lowered",
    "floors overridden",
    "criterion dropped",
    "criterion renamed",
    "criterion added",
    "weight moved",
    "formula eased",
    "layers and sources dropped",
    "group of its own",
    "one group",
    "group dropped",
    "tags dropped",
    "tags spread",
    "threshold lowered",
    "n raised",
    "sample renamed",
    "deleted",
)


def changed(rows: list[dict[str, Any]], ways: list[str], chosen: set[int]) -> list[dict[str, Any]]:
    """The candidate after it weakened itself in the chosen samples."""
    found = [copy.deepcopy(row) if index in chosen else row for index, row in enumerate(rows)]
    for index in chosen.intersection(range(len(found))):
        for how in ways:
            weakened(found[index], how)
    return [row for index, row in enumerate(found) if not (index in chosen and "deleted" in ways)]


def test_the_candidates_of_these_tests_are_not_promoted_as_they_are_and_the_baseline_is() -> None:
    for kind in KINDS:
        assert outcome(worse(kind)) in ("reject", "hold"), kind
    assert outcome(worse("nothing")) == "promote"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", WAYS)
def test_no_single_weakening_promotes_a_candidate_that_was_not(kind: str, how: str) -> None:
    number = WAYS.index(how) + KINDS.index(kind)
    if not CAMPAIGN and number % 2:
        return  # every way with half of the kinds here; all of it in the campaign
    rows, choices = worse(kind), (set(range(N)), {7}, set(range(0, N, 2)))
    turn = (number // 2) % len(choices)
    for chosen in choices if CAMPAIGN else choices[turn : turn + 1]:
        for rules in (RULES, DETERMINISTIC) if CAMPAIGN else (RULES,):
            assert outcome(changed(rows, [how], chosen), rules=rules) != "promote"


@given(
    st.sampled_from(KINDS),
    st.lists(st.sampled_from(WAYS), min_size=1, max_size=6, unique=True),
    st.sets(st.integers(0, N - 1), min_size=1),
)
def test_no_set_of_weakenings_promotes_a_candidate_that_was_not(
    kind: str, ways: list[str], chosen: set[int]
) -> None:
    assert outcome(changed(worse(kind), ways, chosen)) != "promote"


def decision(assay: Any, tmp_path: Path, candidate: list[dict[str, Any]], *more: str) -> Any:
    write(tmp_path / "base.jsonl", BASELINE)
    write(tmp_path / "cand.jsonl", candidate)
    return assay("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json", *more)


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("no gates", "gate no_policy_violation"),
        ("gates renamed", "gate no_policy_violation"),
        ("criterion dropped", "score answer"),
        ("criterion renamed", "score answer"),
    ],
)
def test_what_the_baseline_has_and_the_candidate_lost_is_named(
    assay: Any, tmp_path: Path, how: str, what: str
) -> None:
    done = decision(assay, tmp_path, changed(worse("nothing"), [how], {3, 4}))
    found = done.json()
    complete = next(one for one in found["rules"] if one["id"] == "complete")
    assert (done.code, found["outcome"], complete["holds"]) == (1, "hold", None)
    assert {"sample": "s-003", "what": what} in complete["evidence"]["missing"]
    lost = outcome(changed(worse("nothing"), [how], {3, 4}), rules=DETERMINISTIC)
    assert lost == "reject"


@pytest.mark.parametrize(
    ("how", "place", "value"),
    [
        ("role dropped", 0, 0.6),
        ("role renamed", 0, 0.6),
        ("floor dropped", 1, 2),
        ("floor lowered", 1, 2),
        ("floors overridden", 1, 2),
    ],
)
@pytest.mark.parametrize("everywhere", [True, False])
def test_a_floor_or_role_that_the_candidate_dropped_is_the_baselines(
    how: str, place: int, value: float, everywhere: bool
) -> None:
    """The candidate passes by its own bar, and not by the baseline's."""
    rows = worse("nothing")
    rows[7]["criteria"][place]["raw_score"] = Decimal(str(value))
    eased = changed(rows, [how], set(range(N)) if everywhere else {7})
    found = decided(eased)
    assert found.outcome == "hold"
    name = rows[7]["criteria"][place]["name"]
    assert f"floor {name}" in {one.check for one in found.confirmation.suspects}
    assert found.contracts
    assert "floors and roles" in found.contracts.parts
    assert decided(eased, rules=DETERMINISTIC).outcome == "reject"
    # with nothing below the baseline's floor, it may state less
    assert decided(changed(worse("nothing"), [how], set(range(N)))).outcome == "promote"


def test_a_lower_passing_score_is_not_the_bar() -> None:
    strict = [{**row, "pass_threshold": 85} for row in BASELINE]
    same = [{**row, "pass_threshold": 85} for row in worse("nothing")]
    assert outcome(same, strict) == "promote"
    low = copy.deepcopy(same)
    for criterion in low[-1]["criteria"][:2]:
        criterion["raw_score"] = Decimal("0.72") if criterion["name"] == "answer" else 4
    low[-1]["pass_threshold"] = 0
    assert outcome(low, strict) == "hold"
    assert decided(low, strict, rules=DETERMINISTIC).outcome == "reject"
    assert outcome([{**row, "pass_threshold": 0} for row in same], strict) == "promote"
    # nor for the share of samples that must pass
    bar = policy(min_pass_rate=0.99)
    eased = decided(low, strict, rules=bar)
    assert rule(eased, "pass_rate").evidence["passed"] == N - 1
    assert rule(eased, "pass_rate").violated
    # where it asks more of itself than it reaches, that is its own bar: at most a hold
    stricter = decided([{**row, "pass_threshold": 99} for row in same], strict)
    assert stricter.outcome in ("hold", "promote")
    assert stricter.contracts


def test_deleting_the_verdicts_of_a_run_does_not_hide_the_one_that_failed(
    assay: Any, tmp_path: Path
) -> None:
    def runs(**failed: Any) -> list[dict[str, Any]]:
        gates = {"no_policy_violation": {"passed": True, "reason": ""}}
        found = [
            run(
                "rag",
                run_id=f"r-{i}",
                dataset={"id": "d", "version": "1", "sample_id": f"s-{i}"},
                gates=copy.deepcopy(gates),
            )
            for i in range(N)
        ]
        found[5].update(failed)
        return found

    write(tmp_path / "base.jsonl", runs())
    leaking = {"no_policy_violation": {"passed": False, "reason": "leak"}}
    for gates in (leaking, {}):
        changes: dict[str, Any] = {"gates": gates}
        write(tmp_path / "cand.jsonl", runs(**changes))
        done = assay("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json")
        assert (done.code, done.json()["outcome"]) == (1, "hold")


def test_a_single_run_without_a_number_does_not_stand_for_all_repeats_of_the_baseline() -> None:
    """Both have one run; the baseline has two. That is no loss, and no difference."""

    def repeated(attempts: Sequence[int | None]) -> list[dict[str, Any]]:
        return [
            run(
                "rag",
                run_id=f"r-{i}-{a}",
                attempt=a,
                dataset={"id": "d", "version": "1", "sample_id": f"s-{i}"},
            )
            for i in range(N)
            for a in attempts
        ]

    baseline = made(repeated([1, 2]), "baseline")
    several: list[list[int | None]] = [[1, 2], [None], [1]]
    for attempts in several:
        assert outcome(repeated(attempts), baseline, slices=()) == "promote"
    lost = [{**one, "attempts": 2} for one in repeated([1])]
    assert outcome(lost, baseline, slices=()) == "hold"


def test_a_candidate_of_several_versions_is_named_as_one(assay: Any, tmp_path: Path) -> None:
    whole = toolruns({"latency_ms": 6})
    old = {**whole[3], "workflow": {**whole[3]["workflow"], "version": "0.9"}}
    write(tmp_path / "base.jsonl", toolruns({"latency_ms": 5}))
    for candidate, mixed in ((whole, False), ([*whole[:3], old, *whole[4:]], True)):
        write(tmp_path / "cand.jsonl", candidate)
        done = assay("gate", "cand.jsonl", "--baseline", "base.jsonl")
        assert ("MIXED VERSIONS" in done.out, "MIXED VERSIONS" in done.err) == (mixed, False)


def test_the_same_evidence_on_both_sides_is_said_loudly(assay: Any, tmp_path: Path) -> None:
    again = decision(
        assay, tmp_path, [{**row, "run_id": f"new-{row['run_id']}"} for row in BASELINE]
    ).json()
    assert again["notes"][0].startswith(f"SAME EVIDENCE: all {N} shared samples")
    done = assay("gate", "cand.jsonl", "--baseline", "base.jsonl")
    assert ("SAME EVIDENCE" in done.out, "SAME EVIDENCE" in done.err) == (True, False)
    done = assay("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json")
    assert "SAME EVIDENCE" in done.err
    write(tmp_path / "base.jsonl", toolruns({"latency_ms": 5}))
    write(
        tmp_path / "cand.jsonl",
        [*toolruns({"latency_ms": 5})[:10], *toolruns({"latency_ms": 6})[10:]],
    )
    some = assay("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json").json()
    assert f"10 of {N} shared samples have exactly the same evidence" in some["notes"][0]
    write(
        tmp_path / "cand.jsonl",
        [*toolruns({"latency_ms": 5})[:1], *toolruns({"latency_ms": 6})[1:]],
    )
    one = assay("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json").json()
    assert f"1 of {N} shared samples has exactly the same evidence" in one["notes"][0]


def test_sides_without_any_gate_are_decided_on_what_they_have() -> None:
    bare = [{**row, "hard_gates": {}} for row in BASELINE]
    lost = [{**row, "hard_gates": {}} for row in worse("nothing")]
    assert outcome(lost, BASELINE) == "hold"
    assert outcome(lost, bare) != "reject"


# --- one run under a profile

DECLARED = (
    "required_outputs",
    "output_schema",
    "required_inputs",
    "forbidden_tools",
    "handoff_rules",
    "expected",
    "gates",
    "tags",
    "group",
    "judge",
    "claims",
    "retrieval",
    "steps",
    "tool_calls",
    "tests",
    "scores",
    "handoffs",
    "patch_applies",
    "inputs",
    "metadata",
)


@given(st.sampled_from(FAMILIES), st.sets(st.sampled_from(DECLARED), min_size=1), st.booleans())
def test_a_failed_run_that_forgets_what_its_profile_asks_for_does_not_pass(
    family: str, forgotten: set[str], emptied: bool
) -> None:
    failing = run(family, status="failed")
    grader = Grader(Shelf(), profile=family)
    assert grader.grade(Document(failing, "run")).grade.passed is False
    left = {key: value for key, value in failing.items() if key not in forgotten}
    if emptied:
        left |= {
            key: type(failing[key])()
            for key in forgotten & failing.keys()
            if isinstance(failing[key], list | dict)
        }
    with contextlib.suppress(EvidenceError):  # a refusal is not a pass either
        assert grader.grade(Document(json.loads(json.dumps(left)), "run")).grade.passed is False


def toolruns(changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        run(
            "tool-use",
            run_id=f"r-{i}",
            dataset={"id": "d", "version": "1", "sample_id": f"s-{i}"},
            **changes,
        )
        for i in range(N)
    ]


# --- judges, statuses and gates of some samples


@pytest.mark.parametrize(
    "other", [{"rubric": "mine@1+bbb"}, {"prompt_version": "p2"}, None, {"kind": "human"}]
)
def test_another_rubric_or_prompt_of_the_judge_or_none_makes_a_sample_incomparable(
    other: dict[str, Any] | None,
) -> None:
    judge = {"kind": "llm", "name": "m", "prompt_version": "p1", "rubric": "mine@1+aaa"}

    def judged(changes: dict[str, Any] | None) -> Rereadable:
        rows = copy.deepcopy(BASELINE)
        for place, row in enumerate(rows):
            source = judge if place == 0 else None if changes is None else {**judge, **changes}
            row["criteria"][0]["source"] = source
        return made(rows, "side")

    assert compare(judged({}), judged({}), RULES, GRADER)
    with pytest.raises(AssayError, match=r"was scored by .* here, and by m "):
        compare(judged(other), judged({}), RULES, GRADER)


def test_another_judge_makes_two_sides_incomparable(assay: Any, tmp_path: Path) -> None:
    def judged(name: str) -> list[dict[str, Any]]:
        rows = copy.deepcopy(BASELINE)
        for row in rows:
            row["criteria"][0]["source"] = {"kind": "llm", "name": name, "version": "1"}
        return rows

    write(tmp_path / "base.jsonl", judged("strict"))
    write(tmp_path / "cand.jsonl", judged("lenient"))
    done = assay("gate", "cand.jsonl", "--baseline", "base.jsonl")
    assert done.code == 3
    assert "scored_by: lenient 1 here, strict 1 in the baseline" in done.err


def test_gates_that_only_some_samples_have_are_required_where_the_baseline_has_them() -> None:
    def some(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {**row, "hard_gates": {"looks_right": True} if index % 4 else row["hard_gates"]}
            for index, row in enumerate(rows)
        ]

    baseline = made(some(BASELINE), "baseline")
    assert outcome(some(worse("nothing")), baseline) == "promote"
    eased = changed(some(worse("nothing")), ["failing gates deleted", "gates renamed"], {4})
    assert outcome(eased, baseline) == "hold"
    assert outcome(eased, baseline, rules=DETERMINISTIC) == "reject"


def test_invented_samples_and_tags_open_nothing() -> None:
    tags = [{"tags": ["hard"] if index < 40 else ["easy"], "group": None} for index in range(200)]
    base = [card(index, norm=0.85 + (index % 5) / 100, **tags[index]) for index in range(200)]
    lower = [
        card(index, norm=(0.77 if index < 40 else 0.9) + (index % 7) / 100, **tags[index])
        for index in range(200)
    ]
    assert outcome(lower, base) == "reject"
    own = [card(index, norm=1, group=None, tags=["hard"]) for index in range(900, 960)]
    assert outcome([*lower, *own], base) == "reject"
    renamed = [{**row, "tags": ["easy"]} for row in lower]
    assert outcome(renamed, base) == "reject"
    much = [card(index, norm=0.8, group=None) for index in range(200)]
    for rules in (RULES, STRICT, LENIENT):
        assert outcome([*much, *own], base, rules=rules) != "promote"


def test_a_scorecard_that_states_a_failed_run_does_not_pass(assay: Any, tmp_path: Path) -> None:
    """Its own gates are open, and nothing but its status shows the failure."""
    claimed = {"overall_status_success": True, "looks_right": True}
    several: list[dict[str, Any]] = [{}, {"hard_gates": claimed}, {"hard_gates": {}}]
    for changes in several:
        for status in ("failed", "error", "completed?"):
            (tmp_path / "card.json").write_text(
                json.dumps(card(0, status=status, **changes), default=float)
            )
            done = assay("grade", "card.json", "--json")
            found = done.json()["results"][0]
            assert (done.code, found["passed"]) == (1, False)
            assert found["hard_gates"]["overall_status_success"] == {
                "status": "fail",
                "reason": f"the run ended with status '{status}'",
            }


def test_a_scorecard_that_stops_stating_its_status_is_held_to_the_baselines() -> None:
    stated = [{**row, "status": "success"} for row in BASELINE]
    assert outcome(stated, stated) == "promote"
    assert outcome(BASELINE, stated) == "hold"
    assert outcome(BASELINE, stated, rules=DETERMINISTIC) == "reject"
    # a status alone is not a gate: cards without gates stay that
    bare = GRADER.grade(Document(card(0, status="success", hard_gates={}), "card")).grade
    assert dict(bare.scorecard.hard_gates) == {}


def test_who_asks_for_a_profile_does_not_leave_its_floors_to_the_run(tmp_path: Path) -> None:
    (tmp_path / "rubrics").mkdir()
    anchors = '{"1": bad, "2": poor, "3": fair, "4": good, "5": best}'
    (tmp_path / "rubrics" / "lenient@1.yaml").write_text(
        "rubric_id: lenient\nversion: 1\ncriteria:\n  - {name: completeness, scale: [1, 5],"
        f" weight: 0.01, definition: d, evidence_required: [e], anchors: {anchors}}}\n"
    )
    failing = run("dag-review")
    failing["scores"]["completeness"]["raw"] = 1
    failing["scores"]["correctness"]["raw"] = 4
    shelf = Shelf(str(tmp_path))
    before = Grader(shelf, profile="dag-review").grade(Document(failing, "run")).grade
    failing["workflow"]["rubric"] = "lenient"
    after = Grader(shelf, profile="dag-review").grade(Document(failing, "run")).grade
    assert (after.passed, after.score_units) == (before.passed, before.score_units)
    assert before.passed is False
