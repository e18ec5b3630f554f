"""Run to scorecard: one source for each criterion, nothing dropped, nothing helped by forgetting,
the same bytes each time.
"""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import assay
from assay.canon import encode, plain
from assay.errors import AssayError, EvidenceError
from assay.files.json_files import Document, parse_json
from assay.library.lock import BUILTIN
from assay.library.shelf import Shelf
from assay.records.grade import GRADING_SYSTEM, LETTERS
from assay.records.scorecard import SCORING_SYSTEM
from assay.scoring.gates import GATES, REQUIRED
from assay.services.grading import Grader
from documents import FAMILIES, run, scorecard
from examples import share

if TYPE_CHECKING:
    from pathlib import Path

GRADER = Grader(Shelf())


def result_of(tree: dict[str, Any]) -> dict[str, Any]:
    """The result as a reader of its JSON gets it."""
    found: dict[str, Any] = plain(GRADER.grade(Document(tree, "test")).payload())
    return found


def criterion(result: dict[str, Any], name: str) -> dict[str, Any]:
    return next(item for item in result["criteria"] if item["name"] == name)


# --- a score that is not there


@pytest.mark.parametrize("family", FAMILIES)
def test_a_missing_score_keeps_its_criterion_with_a_null_raw_score_and_the_reason(
    family: str,
) -> None:
    tree = run(family)
    everything = [item["name"] for item in result_of(tree)["criteria"]]
    for name in list(tree["scores"]):
        without = copy.deepcopy(tree)
        del without["scores"][name]
        result = result_of(without)
        assert [item["name"] for item in result["criteria"]] == everything
        item = criterion(result, name)
        assert (
            item["raw_score"],
            item["norm"],
            item["adjusted_norm"],
            item["contribution"],
            item["n"],
        ) == (None, 0, 0, 0, 0)
        assert name in item["missing"]
        assert [
            found["subject"]
            for found in result["findings"]
            if found["rule"] == "missing_score" and found["fired"]
        ] == [name]
        (contribution,) = (
            sentence
            for sentence in result["explanation"]
            if sentence.startswith(f"{name} contributes ")
        )
        assert contribution.startswith((f"{name} contributes 0.00 of ", f"{name} contributes no "))
        assert f": it has no score ({item['missing']})." in contribution


def test_a_score_of_null_is_a_missing_score() -> None:
    tree = run("dag-review")
    tree["scores"]["completeness"] = {"raw": None, "n": 3}
    item = criterion(result_of(tree), "completeness")
    assert (item["raw_score"], item["norm"], item["missing"]) == (
        None,
        0,
        "the run's score is null",
    )


@pytest.mark.parametrize(
    ("family", "name", "changes", "culprit"),
    [
        ("code-repair", "objective_tests", {"tests": None}, "tests"),
        (
            "code-repair",
            "objective_tests",
            {"tests": {"fail_to_pass": {"passed": 1, "total": 1}}},
            "tests.pass_to_pass",
        ),
        (
            "code-repair",
            "objective_tests",
            {
                "tests": {
                    "fail_to_pass": {"passed": 0, "total": 0},
                    "pass_to_pass": {"passed": 0, "total": 0},
                }
            },
            "no tests",
        ),
        ("rag", "efficiency", {"latency_ms": None, "cost_usd": None}, "latency_ms"),
        ("rag", "faithfulness", {"claims": []}, "at least one claim"),
        ("tool-use", "tool_selection_accuracy", {"expected": None}, "expected.tool_calls"),
    ],
)
def test_a_measure_without_evidence_is_missing_and_says_what_it_looked_for(
    family: str, name: str, changes: dict[str, Any], culprit: str
) -> None:
    item = criterion(result_of(run(family, **changes)), name)
    assert (item["raw_score"], item["norm"]) == (None, 0)
    assert culprit in item["missing"]


def test_the_weight_of_a_missing_score_stays_in_the_denominator() -> None:
    tree = run("dag-review")
    del tree["scores"]["tool_data_precision"]
    result = result_of(tree)
    assert criterion(result, "tool_data_precision")["weight"] == 0.2
    assert result["weighted_score"] == 80.0


# --- one source for each criterion


@pytest.mark.parametrize(
    ("family", "name", "supplied", "changes", "raw"),
    [
        (
            "code-repair",
            "objective_tests",
            {"passed": 3, "total": 3},
            {
                "tests": {
                    "fail_to_pass": {"passed": 1, "total": 2},
                    "pass_to_pass": {"passed": 1, "total": 1},
                }
            },
            {"passed": 2, "total": 3},
        ),
        (
            "code-repair",
            "objective_tests",
            {"passed": 0, "total": 3},
            {},
            {"passed": 102, "total": 102},
        ),
        ("rag-measured", "efficiency", 0, {"latency_ms": 20000}, 20000),
        ("rag-measured", "efficiency", 29000, {"latency_ms": 9000}, 9000),
        ("rag-measured", "efficiency", 0, {"latency_ms": None}, None),
        ("code-repair", "objective_tests", {"passed": 3, "total": 3}, {"tests": None}, None),
    ],
)
def test_what_the_evidence_measures_is_never_replaced_by_a_score_that_came_with_the_run(
    family: str, name: str, supplied: Any, changes: dict[str, Any], raw: Any
) -> None:
    tree = run(family.removesuffix("-measured"), **changes)
    tree["workflow"]["profile"] = family
    tree["scores"][name] = {"raw": supplied, "n": 50, "source": {"kind": "llm", "name": "judge"}}
    result = result_of(tree)
    assert criterion(result, name)["raw_score"] == raw
    assert criterion(result, name)["n"] == (0 if raw is None else 1)
    assert any(f"'{name}'" in note and "does not count" in note for note in result["notes"])


def test_a_score_that_no_criterion_takes_is_noted_with_the_near_miss() -> None:
    tree = run("dag-review")
    tree["scores"]["corectness"] = tree["scores"].pop("correctness")
    tree["scores"]["tone"] = {"raw": 5}
    result = result_of(tree)
    assert criterion(result, "correctness")["raw_score"] is None
    assert result["passed"] is False
    notes = " ".join(result["notes"])
    assert "'corectness' is not a criterion of dag-review@1" in notes
    assert "Did you mean 'correctness'?" in notes
    assert "'tone' is not a criterion" in notes
    assert not {"corectness", "tone"} & {item["name"] for item in result["criteria"]}


def test_n_and_source_are_kept_with_the_score() -> None:
    tree = run("dag-review")
    tree["scores"]["correctness"] = {
        "raw": 4,
        "n": 12,
        "source": {"kind": "human", "name": "ana", "version": "2"},
    }
    card = assay.score(tree)
    kept = next(item for item in card.criteria if item.name == "correctness")
    assert (kept.raw_score, kept.n) == (4, 12)
    assert kept.source is not None
    assert (kept.source.kind, kept.source.name, kept.source.version) == ("human", "ana", "2")
    # (12 * 0.75 + 20 * 0.5) / (12 + 20)
    assert criterion(result_of(tree), "correctness")["adjusted_norm"] == 0.59375


# --- validation before normalisation


@pytest.mark.req("W-007")
@pytest.mark.parametrize(
    ("family", "name", "raw", "code"),
    [
        ("dag-review", "correctness", 6, "SCO-001"),
        ("dag-review", "correctness", 0, "SCO-001"),
        ("dag-review", "correctness", 5.0001, "SCO-001"),
        ("dag-review", "correctness", "5", "SCO-003"),
        ("dag-review", "correctness", True, "SCO-003"),
        ("dag-review", "correctness", {"raw": 5}, "SCO-003"),
        ("dag-review", "correctness", [5], "SCO-003"),
        ("dag-review", "tool_data_precision", "1", "SCO-003"),
        ("dag-review", "tool_data_precision", True, "SCO-003"),
        ("dag-review", "tool_data_precision", float("nan"), "SCO-003"),
        ("dag-review", "tool_data_precision", float("inf"), "SCO-003"),
        ("rag", "safety", {"passed": 1, "total": 1}, "SCO-003"),
    ],
)
def test_a_raw_score_is_validated_before_it_is_normalised(
    family: str, name: str, raw: Any, code: str
) -> None:
    tree = run(family)
    tree["scores"][name] = {"raw": raw}
    with pytest.raises(EvidenceError) as caught:
        assay.score(tree)
    assert [(fault.code, fault.path) for fault in caught.value.faults] == [(code, f"scores.{name}")]


def test_every_raw_score_that_is_refused_is_named_at_once() -> None:
    tree = run("dag-review")
    tree["scores"].update(
        correctness={"raw": 9}, completeness={"raw": "x"}, documentation={"raw": 3}
    )
    with pytest.raises(EvidenceError) as caught:
        assay.score(tree)
    assert [fault.path for fault in caught.value.faults] == [
        "scores.correctness",
        "scores.completeness",
    ]


def test_counts_of_tests_that_contradict_each_other_are_refused() -> None:
    tree = run(
        "code-repair",
        tests={
            "fail_to_pass": {"passed": 3, "total": 2},
            "pass_to_pass": {"passed": 1, "total": 1},
        },
    )
    with pytest.raises(EvidenceError, match="more passed than there are") as caught:
        assay.score(tree)
    assert caught.value.code == "SCO-007"


# --- layers, steps, agents


@pytest.mark.req("W-004")
@pytest.mark.parametrize("family", FAMILIES)
def test_every_result_has_its_gates_and_a_subtotal_for_each_layer_beside_the_one_number(
    family: str,
) -> None:
    tree = run(family, latency_ms=19000)
    for name, given_score in tree["scores"].items():
        given_score["raw"] = 3 if given_score["raw"] == 5 else 0.5
        tree["scores"][name] = given_score
    result = result_of(tree)
    assert result["hard_gates"]
    assert {item["layer"] for item in result["criteria"]} <= {1, 2, 3}
    for layer in ("1", "2", "3"):
        parts = [item["contribution"] for item in result["criteria"] if str(item["layer"]) == layer]
        assert result["layers"][layer] == (pytest.approx(sum(parts), abs=0.01) if parts else None)
    assert sum(part for part in result["layers"].values() if part is not None) == pytest.approx(
        result["weighted_score"], abs=0.02
    )


STEPS: list[dict[str, Any]] = [
    {
        "name": "plan",
        "agent": "planner",
        "status": "success",
        "duration_ms": 100,
        "retries": 0,
        "model": "m-1",
        "tier": "large",
        "tokens": 400,
        "cost_usd": 0.1,
    },
    {
        "name": "edit",
        "agent": "coder",
        "status": "success",
        "duration_ms": 200.5,
        "retries": 1,
        "model": "m-2",
        "tier": "small",
        "tokens": 500,
        "cost_usd": 0.2,
        "scores": {"judge_quality": {"raw": 4}, "taste": {"raw": "fine"}},
    },
    {
        "name": "lint",
        "agent": "coder",
        "status": "failed",
        "critical": False,
        "duration_ms": 9,
        "retries": 2,
        "tokens": 1,
        "cost_usd": 0.3,
        "scores": {"judge_quality": {"raw": 3, "n": 2}},
    },
    {"name": "note", "status": "skipped", "critical": False},
]


@pytest.mark.req("W-073")
def test_each_step_is_reported_with_status_duration_retries_model_tier_and_scores() -> None:
    shown = result_of(run("code-repair", steps=STEPS))["step_scores"]
    assert [item["name"] for item in shown] == ["plan", "edit", "lint", "note"]
    edit = shown[1]
    fields = {
        key: edit[key]
        for key in (
            "status",
            "agent",
            "duration_ms",
            "retries",
            "model",
            "tier",
            "tokens",
            "cost_usd",
        )
    }
    assert fields == {
        "status": "success",
        "agent": "coder",
        "duration_ms": 200.5,
        "retries": 1,
        "model": "m-2",
        "tier": "small",
        "tokens": 500,
        "cost_usd": 0.2,
    }
    assert edit["scores"] == {
        "judge_quality": {"raw": 4, "norm": 0.75, "n": 1},
        "taste": {"raw": "fine", "norm": None, "n": 1},
    }
    assert (shown[2]["status"], shown[2]["critical"], shown[2]["scores"]["judge_quality"]) == (
        "failed",
        False,
        {"raw": 3, "norm": 0.5, "n": 2},
    )
    assert shown[3]["status"] == "skipped"


@pytest.mark.req("W-082")
def test_each_agent_is_reported_with_its_steps_sums_and_mean_scores() -> None:
    shown = {
        item["agent"]: item for item in result_of(run("code-repair", steps=STEPS))["agent_scores"]
    }
    assert set(shown) == {"planner", "coder"}
    coder = shown["coder"]
    counts = {
        key: coder[key] for key in ("steps", "succeeded", "failed", "skipped", "success_rate")
    }
    assert counts == {"steps": 2, "succeeded": 1, "failed": 1, "skipped": 0, "success_rate": 0.5}
    assert {key: coder[key] for key in ("duration_ms", "retries", "tokens", "cost_usd")} == {
        "duration_ms": 209.5,
        "retries": 3,
        "tokens": 501,
        "cost_usd": 0.5,
    }
    assert coder["scores"] == {"judge_quality": {"norm": 0.625, "steps": 2}}


@pytest.mark.req("W-073", "W-082")
@pytest.mark.parametrize("part", ["duration_ms", "retries", "tokens", "cost_usd"])
def test_a_sum_over_an_agents_steps_is_null_when_a_step_did_not_report_its_part(part: str) -> None:
    steps = copy.deepcopy(STEPS)
    del steps[2][part]
    shown = {
        item["agent"]: item for item in result_of(run("code-repair", steps=steps))["agent_scores"]
    }
    assert shown["coder"].get(part) is None
    assert shown["coder"]["unreported"] == {part: 1}
    assert shown["planner"][part] == STEPS[0][part]
    others = {"duration_ms", "retries", "tokens", "cost_usd"} - {part}
    assert all(shown["coder"][other] is not None for other in others)


def test_an_agent_that_never_succeeded_has_a_rate_of_zero_not_none() -> None:
    steps = [
        {"name": "a", "agent": "x", "status": "skipped", "critical": False},
        {"name": "b", "agent": "x", "status": "timeout", "critical": False},
    ]
    shown = result_of(run("rag", steps=steps))["agent_scores"][0]
    assert (shown["success_rate"], shown["failed"], shown["skipped"]) == (0, 1, 1)


def test_a_steps_score_that_its_formula_refuses_is_an_error_that_names_the_step() -> None:
    steps = [{"name": "edit", "status": "success", "scores": {"judge_quality": {"raw": 9}}}]
    with pytest.raises(EvidenceError) as caught:
        assay.score(run("code-repair", steps=steps))
    assert caught.value.faults[0].path == "steps.edit.scores.judge_quality"


@pytest.mark.req("W-001")
@pytest.mark.parametrize(
    ("family", "steps", "agents"),
    [
        ("rag", [], []),
        (
            "dag-review",
            [
                {"name": "extract", "status": "success"},
                {"name": "join", "status": "success"},
                {"name": "review", "status": "success"},
            ],
            [],
        ),
        (
            "code-repair",
            [
                {"name": "read", "agent": "solver", "status": "success"},
                {"name": "write", "agent": "solver", "status": "success"},
            ],
            ["solver"],
        ),
        (
            "tool-use",
            [
                {"name": "plan", "agent": "planner", "status": "success"},
                {"name": "code", "agent": "coder", "status": "success"},
            ],
            ["coder", "planner"],
        ),
    ],
)
def test_runs_of_every_shape_are_scored_and_graded(
    family: str, steps: list[dict[str, Any]], agents: list[str]
) -> None:
    result = result_of(run(family, steps=steps))
    assert (result["passed"], result["grade"], result["weighted_score"]) == (True, "A", 100.0)
    assert [item["name"] for item in result["step_scores"]] == [item["name"] for item in steps]
    assert [item["agent"] for item in result["agent_scores"]] == agents
    if steps:
        broken = [*steps[:-1], {**steps[-1], "status": "failed"}]
        assert result_of(run(family, steps=broken))["hard_gate_failures"] == [
            "no_critical_step_failures"
        ]
    else:
        assert result_of(run(family, steps=steps, outputs={"answer": ""}))[
            "hard_gate_failures"
        ] == ["required_outputs_present"]


# --- what a result carries


@pytest.mark.parametrize("family", FAMILIES)
def test_every_result_names_both_systems_its_profile_its_policy_and_its_digests(
    family: str,
) -> None:
    result = result_of(run(family))
    assert (
        (result["scoringSystem"], result["gradingSystem"])
        == (SCORING_SYSTEM, GRADING_SYSTEM)
        == ("scoringSystem/1.0.0", "gradingSystem/1.0.0")
    )
    assert (result["profile"], result["policy"]) == (f"{family}@1", "workflow@1")
    assert set(result["digests"]) == {"run", "scorecard", "profile", "policy"}
    assert all(
        value.startswith("sha256:") and len(value) == 71 for value in result["digests"].values()
    )
    assert assay.score(run(family)).scoring_system == SCORING_SYSTEM


def test_a_result_carries_what_it_was_a_result_of() -> None:
    judge = {"model": "m", "version": "2", "prompt_version": "7"}
    result = result_of(
        run("rag", judge=judge, cost_usd=0.5, tokens=9, retries=1, tags=["t"], group="g")
    )
    assert result["workflow"] == {"id": "w", "version": "1", "family": "rag"}
    assert result["dataset"] == {"id": "d", "version": "1", "sample_id": "s-1"}
    assert result["judge"] == judge
    assert result["operations"] == {"latency_ms": 8000, "cost_usd": 0.5, "tokens": 9, "retries": 1}
    assert (
        result["run_id"],
        result["sample_id"],
        result["group"],
        result["tags"],
        result["status"],
    ) == ("r-1", "s-1", "g", ["t"], "success")
    for item in result["criteria"]:
        assert {"raw_score", "formula_id", "params", "norm", "weight"} <= set(item)


# --- the same bytes


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_run_twice_gives_the_same_bytes(family: str) -> None:
    tree = run(family, steps=STEPS)
    before = json.dumps(tree)
    one = encode(Grader(Shelf()).grade(Document(tree, "test")).payload())
    other = encode(GRADER.grade(Document(copy.deepcopy(tree), "test")).payload())
    assert one == other
    assert json.dumps(tree) == before


@pytest.mark.req("W-086")
def test_the_golden_runs_give_the_same_bytes_in_any_process_and_each_family_is_among_them(
    assay: Any, tmp_path: Path
) -> None:
    golden = os.path.join(BUILTIN, "golden", "runs.jsonl")
    written = []
    for seed, env in (("ours", {}), ("4242", {"PYTHONHASHSEED": "4242"})):
        code = assay("grade", golden, "-o", f"{seed}.jsonl", env=env).code
        assert code == 1  # some of them fail, as they should
        written.append((tmp_path / f"{seed}.jsonl").read_bytes())
    assert written[0] == written[1]
    profiles = {json.loads(line)["profile"] for line in written[0].splitlines()}
    assert profiles >= {f"{family}@1" for family in FAMILIES}


@pytest.mark.req("W-086")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_middling_run_of_each_family_is_graded_as_written_down_here(family: str) -> None:
    handoffs = [{"from": "planner", "to": "coder"}, {"from": "coder", "to": "planner"}]
    evidence: dict[str, Any] = {
        "code-repair": {
            "scores": {"judge_quality": {"raw": 3}},
            "latency_ms": 330_000,
            "cost_usd": 2.75,
        },
        "dag-review": {
            "scores": {
                "correctness": {"raw": 4},
                "completeness": {"raw": 3},
                "tool_data_precision": {"raw": 0.9},
                "documentation": {"raw": 2},
                "safety": {"raw": 1},
            },
            "latency_ms": 19_000,
            "cost_usd": 0.55,
        },
        "rag": {
            "scores": {"response_relevance": {"raw": 0.8}, "safety": {"raw": 1}},
            "retrieval": [
                {"id": "doc-2", "text": "It was so.", "rank": 1, "relevant": False},
                {"id": "doc-1", "text": "It is so.", "rank": 2, "relevant": True},
            ],
            "expected": {"relevant_ids": ["doc-1", "doc-3", "doc-4", "doc-5"]},
            "latency_ms": 19_000,
            "cost_usd": 0.055,
        },
        "tool-use": {
            "scores": {"final_task_correctness": {"raw": 0.65}},
            "tool_calls": [
                {
                    "name": "search",
                    "arguments": {**dict.fromkeys("abc", 1), "d": 0, "e": 0},
                    "valid": True,
                }
            ],
            "expected": {
                "tool_calls": [{"name": "search", "arguments": dict.fromkeys("abcde", 1)}],
                "handoffs": handoffs,
            },
            "latency_ms": 19_000,
            "cost_usd": 0.275,
        },
    }[family]
    expected = {
        # 60 + 25 * 0.5 + 10 + 5 * 0.5
        "code-repair": (85.0, "B", True, []),
        # 35 * 0.75 + 25 * 0.5 + 20 * 0.9 + 10 * 0.25 + 10 * 0.5
        "dag-review": (64.25, "D", False, []),
        # 35 + 25 * 0.8 + 20 * 0.5 + 10 * 0.25 + 10 * 0.5
        "rag": (72.5, "C", True, []),
        # 25 + 25 * 0.6 + 20 * 0.5 + 20 * 0.65 + 10 * 0.5, and the floor of 0.70 for the correctness
        # role is missed
        "tool-use": (68.0, "D", False, ["final_task_correctness"]),
    }[family]
    result = result_of(run(family, **evidence))
    assert (
        result["weighted_score"],
        result["grade"],
        result["passed"],
        result["floor_failures"],
    ) == expected


def shuffled(value: Any, seed: random.Random, lists: tuple[str, ...], key: str = "") -> Any:
    """The same tree with its keys, and the lists of those names, in another order."""
    if isinstance(value, dict):
        keys = list(value)
        seed.shuffle(keys)
        return {name: shuffled(value[name], seed, lists, name) for name in keys}
    if isinstance(value, list):
        found = [shuffled(item, seed, lists) for item in value]
        if key in lists:
            seed.shuffle(found)
        return found
    return value


@pytest.mark.parametrize("family", FAMILIES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=share(25))
def test_the_order_of_steps_claims_scores_and_keys_changes_no_digest_and_no_grade(
    family: str, seed: int
) -> None:
    twins = [
        {"name": "same", "status": "success", "tokens": 1},
        {"name": "same", "status": "success", "tokens": 2},
    ]
    claims = [
        {"text": f"claim {index}", "citations": ["d"], "supported": True, "severity": "low"}
        for index in range(4)
    ]
    tree = run(
        family,
        steps=[*STEPS, *twins],
        claims=claims,
        tags=["b", "a", "c"],
        required_outputs=["answer", "more"],
        outputs={"answer": "x", "more": 1},
    )
    other = shuffled(
        tree,
        random.Random(seed),
        ("steps", "claims", "tags", "required_outputs", "forbidden_tools", "handoff_rules"),
    )
    before, after = result_of(tree), result_of(other)
    assert before["digests"] == after["digests"]
    for part in (
        "passed",
        "grade",
        "weighted_score",
        "weighted_score_adjusted",
        "hard_gate_failures",
        "agent_scores",
        "layers",
    ):
        assert before[part] == after[part]


@pytest.mark.parametrize(
    "changes",
    [
        {"latency_ms": 8001},
        {"tags": ["x"]},
        {"metadata": {"x": 1}},
        {"steps": []},
        {"attempt": 2},
    ],
)
def test_a_change_of_evidence_changes_the_run_digest(changes: Any) -> None:
    base = result_of(run("rag"))["digests"]["run"]
    assert result_of(run("rag", **changes))["digests"]["run"] != base


@given(seed=st.integers(0, 2**32))
@settings(max_examples=share(25))
def test_the_order_of_criteria_in_a_scorecard_changes_no_digest_and_no_grade(seed: int) -> None:
    criteria = [{"name": f"c{index}", "norm": index / 9, "weight": index + 1} for index in range(9)]
    mixed = list(criteria)
    random.Random(seed).shuffle(mixed)
    gates = {"a": True, "b": True}
    before, after = (
        result_of(scorecard(*criteria, hard_gates=gates)),
        result_of(scorecard(*mixed, hard_gates=dict(reversed(gates.items())))),
    )
    assert before["digests"] == after["digests"]
    assert [before[part] for part in ("passed", "grade", "weighted_score")] == [
        after[part] for part in ("passed", "grade", "weighted_score")
    ]


def test_the_order_of_criteria_and_gates_in_a_profile_changes_no_digest(tmp_path: Path) -> None:
    head = "profile: p\nversion: 1\ntitle: P\nfamily: p\n"
    gates = ["  - id: answer_grounded\n", "  - id: citations_present_for_claims\n"]
    criteria = [
        f"  - {{id: {name}, label: {name}, weight: {weight}, layer: 2, formula: zero_one}}\n"
        for name, weight in (("a", 0.3), ("b", 0.7))
    ]
    found = []
    for index, order in enumerate((1, -1)):
        folder = tmp_path / str(index)
        folder.mkdir()
        file = folder / "p.yaml"
        file.write_text(
            head + "gates:\n" + "".join(gates[::order]) + "criteria:\n" + "".join(criteria[::order])
        )
        tree = run("rag", scores={"a": {"raw": 0.25}, "b": {"raw": 0.75}})
        found.append(
            plain(Grader(Shelf(), profile=str(file)).grade(Document(tree, "test")).payload())
        )
    assert found[0]["weighted_score"] == found[1]["weighted_score"]
    assert found[0]["digests"]["scorecard"] == found[1]["digests"]["scorecard"]
    assert found[0]["digests"]["profile"] == found[1]["digests"]["profile"]


def test_numbers_keep_the_decimal_text_they_were_written_in() -> None:
    text = json.dumps(run("rag")).replace(
        '"latency_ms": 8000', '"latency_ms": 8000.000000000000000000001'
    )
    card = assay.score(parse_json(text.encode()))
    assert card.latency_ms == Decimal("8000.000000000000000000001")
    assert encode(card.latency_ms) == b"8000.000000000000000000001"


# --- law 1: forgetting never helps

MAYBE = st.sampled_from([True, True, True, False, None])
RAW = {
    "likert": st.sampled_from([None, 1, 2, 3, 4, 4.5, 5, 5, 5]),
    "share": st.sampled_from([None, 0, 0.3, 0.69, 0.7, 0.95, 1, 1, 1]),
    "tests": st.sampled_from(
        [None, {"passed": 0, "total": 4}, {"passed": 3, "total": 4}, {"passed": 4, "total": 4}]
    ),
    "time": st.sampled_from([None, 0, 8000, 20000, 90000]),
}
CRITERIA = {
    "code-repair": {
        "objective_tests": "tests",
        "judge_quality": "likert",
        "patch_similarity": "share",
        "efficiency": "time",
    },
    "dag-review": {
        "correctness": "likert",
        "completeness": "likert",
        "tool_data_precision": "share",
        "documentation": "likert",
        "efficiency": "time",
    },
    "rag": {
        "faithfulness": "share",
        "response_relevance": "share",
        "context_precision": "share",
        "context_recall": "share",
        "efficiency": "time",
    },
    "tool-use": {
        "tool_selection_accuracy": "share",
        "argument_correctness": "share",
        "handoff_accuracy": "share",
        "final_task_correctness": "share",
        "efficiency": "time",
    },
}
TALLY = st.sampled_from([(0, 0), (0, 1), (1, 1), (94, 100), (95, 100), (100, 100), (100, 100)]).map(
    lambda pair: {"passed": pair[0], "total": pair[1]}
)
STEP = st.fixed_dictionaries(
    {
        "name": st.sampled_from("abc"),
        "status": st.sampled_from(["success"] * 6 + ["failed", "skipped"]),
    },
    optional={
        "critical": st.booleans(),
        "agent": st.sampled_from("xy"),
        "tokens": st.integers(0, 9),
        "cost_usd": st.sampled_from([0, 0.1]),
    },
)
CLAIM = st.fixed_dictionaries(
    {"text": st.sampled_from(["p", "q"])},
    optional={
        "citations": st.sampled_from([["d"], ["d"], []]),
        "supported": MAYBE,
        "severity": st.sampled_from(["none", "low", "medium", "high", None]),
    },
)
CALL = st.fixed_dictionaries(
    {"name": st.sampled_from(["search", "search", "delete_all"])},
    optional={"valid": MAYBE, "arguments": st.just({"q": 1})},
)
HANDOFF = st.fixed_dictionaries(
    {"from": st.sampled_from(["planner", "coder"]), "to": st.sampled_from(["coder", "critic"])},
    optional={"expected": st.sampled_from(["coder", None])},
)
PASSAGE = st.fixed_dictionaries(
    {"id": st.sampled_from("de")}, optional={"relevant": MAYBE, "rank": st.integers(0, 3)}
)
EVIDENCE: dict[str, st.SearchStrategy[Any]] = {
    "outputs": st.sampled_from(
        [
            {"answer": "x"},
            {"answer": "x"},
            {"answer": ""},
            {"answer": 5},
            {},
            {"answer": "x", "more": [1]},
        ]
    ),
    "required_outputs": st.sampled_from([["answer"], ["answer"], [], ["answer", "more"]]),
    "output_schema": st.sampled_from(
        [{}, {}, True, False, {"properties": {"answer": {"type": "string"}}}, {"type": "nope"}]
    ),
    "inputs": st.sampled_from([{"question": "why"}, {"question": "why"}, {}, {"other": 1}]),
    "required_inputs": st.sampled_from([["question"], ["question"], []]),
    "steps": st.lists(STEP, max_size=3),
    "tests": st.fixed_dictionaries({}, optional={"fail_to_pass": TALLY, "pass_to_pass": TALLY}),
    "claims": st.lists(CLAIM, max_size=3),
    "retrieval": st.lists(PASSAGE, max_size=2),
    "tool_calls": st.lists(CALL, max_size=3),
    "forbidden_tools": st.sampled_from([[], ["delete_all"]]),
    "handoffs": st.lists(HANDOFF, max_size=2),
    "handoff_rules": st.sampled_from(
        [
            [["planner", "coder"]],
            [["planner", "coder"], ["coder", "critic"], ["planner", "critic"], ["coder", "coder"]],
        ]
    ),
    "patch_applies": MAYBE,
    "latency_ms": st.sampled_from([0, 8000, 8000, 19000, 60000]),
    "cost_usd": st.sampled_from([0, 0.5]),
    "tokens": st.integers(0, 9),
    "judge": st.just({"model": "m"}),
    "tags": st.lists(st.sampled_from("ab"), max_size=2),
    "group": st.just("g"),
    "metadata": st.just({"note": "x"}),
    "expected": st.just("x"),
}
FIXED = ("schema", "run_id", "workflow", "dataset", "status")


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    """A run of some family: its good run, with some of its evidence made worse, odd, absent, or
    more than its family needs.
    """
    family = draw(st.sampled_from(FAMILIES))
    tree = run(family, status=draw(st.sampled_from(["success"] * 8 + ["failed", "timeout"])))
    for key in draw(st.lists(st.sampled_from(sorted(EVIDENCE)), max_size=4, unique=True)):
        tree[key] = draw(EVIDENCE[key])
    for name in draw(st.lists(st.sampled_from(sorted(CRITERIA[family])), max_size=4, unique=True)):
        tree["scores"][name] = {
            "raw": draw(RAW[CRITERIA[family][name]]),
            "n": draw(st.sampled_from([0, 1, 30])),
        }
    named = st.sampled_from(
        [
            "no_sandbox_violation",
            "overall_status_success",
            "answer_grounded",
            "tool_call_schema_valid",
            "own_gate",
            "schema_contract_valid",
        ]
    )
    for name in draw(st.lists(named, max_size=3, unique=True)):
        tree.setdefault("gates", {})[name] = {
            "passed": draw(MAYBE),
            "reason": draw(st.sampled_from(["", "seen"])),
        }
    return tree


def standing(tree: dict[str, Any]) -> tuple[bool, int, float]:
    """Whether it passed, its letter (0 is F) and its score; what is refused has none of them."""
    try:
        result = GRADER.grade(Document(tree, "test")).grade
    except AssayError:
        return False, -1, -1.0
    return result.passed, len(LETTERS) - 1 - LETTERS.index(result.grade), result.weighted_score


def assert_not_better(
    after: tuple[bool, int, float], before: tuple[bool, int, float], what: str
) -> None:
    assert after[0] <= before[0], f"forgetting {what} turned not-passed into passed"
    assert after[1] <= before[1], f"forgetting {what} raised the letter"
    assert after[2] <= before[2], f"forgetting {what} raised the weighted score"


def is_evidence_for(family: str, name: str, verdict: dict[str, Any]) -> bool:
    """Whether a verdict of a run speaks for it.

    One that did not pass is a complaint, and one for an optional gate that the family does not
    demand is a demand: whoever withdraws either looks better.
    """
    demanded = {*REQUIRED, *(ref.id for ref in GRADER.shelf.profile(family).gates)}
    return verdict["passed"] is True and (name in demanded or name not in GATES)


@given(tree=runs())
def test_dropping_any_top_level_evidence_never_helps(tree: dict[str, Any]) -> None:
    before = standing(tree)
    for key in tree:
        if key in FIXED or (
            key == "gates"
            and not all(
                is_evidence_for(tree["workflow"]["family"], *item) for item in tree["gates"].items()
            )
        ):
            continue
        assert_not_better(
            standing({name: value for name, value in tree.items() if name != key}), before, key
        )


@given(tree=runs())
def test_dropping_any_score_or_any_verdict_that_passes_never_helps(tree: dict[str, Any]) -> None:
    before = standing(tree)
    for part in ("scores", "gates"):
        for name, entry in tree.get(part, {}).items():
            if part == "gates" and not is_evidence_for(tree["workflow"]["family"], name, entry):
                continue
            kept = {other: value for other, value in tree[part].items() if other != name}
            assert_not_better(standing({**tree, part: kept}), before, f"{part}.{name}")


def without(value: Any, path: tuple[str | int, ...]) -> Any:
    head, *rest = path
    changed = copy.copy(value)
    if rest:
        changed[head] = without(value[head], tuple(rest))
    else:
        del changed[head]
    return changed


def keys_below(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict):
        return [
            found
            for key, item in value.items()
            for found in [(*path, key), *keys_below(item, (*path, key))]
        ]
    if isinstance(value, list):
        return [
            found for index, item in enumerate(value) for found in keys_below(item, (*path, index))
        ]
    return []


@given(tree=runs())
def test_leaving_out_any_detail_of_the_evidence_never_helps(tree: dict[str, Any]) -> None:
    before = standing(tree)
    details = (
        "steps",
        "tests",
        "claims",
        "retrieval",
        "tool_calls",
        "handoffs",
        "inputs",
        "scores",
    )
    for path in keys_below({key: tree[key] for key in details if key in tree}):
        if len(path) > 1:
            assert_not_better(standing(without(tree, path)), before, str(path))


@given(tree=runs())
def test_making_any_score_unknown_never_helps(tree: dict[str, Any]) -> None:
    before = standing(tree)
    for name in tree["scores"]:
        assert_not_better(
            standing({**tree, "scores": {**tree["scores"], name: {"raw": None}}}), before, name
        )


def test_the_law_is_tried_on_runs_that_pass_and_on_runs_that_do_not() -> None:
    seen: set[tuple[bool, int]] = set()

    @given(tree=runs())
    @settings(max_examples=200, database=None)
    def look(tree: dict[str, Any]) -> None:
        passed, letter, _ = standing(tree)
        seen.add((passed, letter))

    look()
    assert {(True, 4), (True, 3), (False, 0)} <= seen
    assert any(not passed and letter > 0 for passed, letter in seen)


def test_importing_the_scoring_stage_does_not_import_the_grading_stage() -> None:
    code = (
        "import sys, assay.scoring.scorecard; sys.exit(any(name.startswith('assay.grading') for"
        " name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
