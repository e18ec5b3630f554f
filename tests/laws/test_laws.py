"""Laws 2, 3, 4, 5 and 8 of the product, over the whole pipeline: from a document to the result that
leaves.
"""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import assay
from assay.canon import canonical, encode, plain
from assay.release.ranking import contender, rank
from assay.release.summary import Summary
from cards import LETTERS, LIKERT, decimals, expected, floor_of, graded, norm_of, scorecards
from documents import FAMILIES, run

EXAMPLES = sorted(
    str(path) for path in Path(assay.__file__).parent.joinpath("cli", "examples").glob("*.jsonl")
)

# --- runs of every family, good and bad

JUDGED = {
    "code-repair": {"judge_quality": "likert_1_5"},
    "dag-review": {
        "correctness": "likert_1_5",
        "completeness": "likert_1_5",
        "tool_data_precision": "zero_one",
        "documentation": "likert_1_5",
        "safety": "zero_one",
    },
    "rag": dict.fromkeys(("response_relevance", "safety"), "zero_one"),
    "tool-use": {"final_task_correctness": "zero_one"},
}
RAWS = {
    "likert_1_5": st.one_of(st.integers(1, 5), decimals(1, 5, 1)),
    "zero_one": decimals(0, 1, 2),
}
STATUSES = ("success", "success", "success", "failed", "skipped")


@st.composite
def runs(draw: Any, family: str | None = None) -> dict[str, Any]:
    """A run of a family, with its evidence varied: some of it good, some bad, some absent."""
    chosen = family or draw(st.sampled_from(FAMILIES))
    made = run(chosen)
    made["scores"] = {}
    for name, formula in JUDGED[chosen].items():
        raw = draw(
            st.one_of(RAWS[formula], st.just({"likert_1_5": 5, "zero_one": 1}[formula]), st.none())
        )
        if raw is not None:
            made["scores"][name] = {"raw": raw, "n": draw(st.integers(1, 30))}
    made["steps"] = [
        {
            "name": name,
            "status": draw(st.sampled_from(STATUSES)),
            "agent": draw(st.sampled_from(("solver", "critic"))),
            "critical": draw(st.booleans()),
        }
        for name in draw(st.lists(st.sampled_from(("plan", "think", "check", "write")), max_size=4))
    ]
    made["latency_ms"] = draw(st.one_of(st.just(8000), st.integers(0, 40000)))
    made["tags"] = draw(st.lists(st.sampled_from(("nightly", "small", "flaky")), unique=True))
    if chosen == "code-repair":
        total = draw(st.integers(1, 5))
        made["tests"] = {
            "fail_to_pass": {
                "passed": draw(st.sampled_from((total, total, total - 1))),
                "total": total,
            },
            "pass_to_pass": {"passed": draw(st.integers(90, 100)), "total": 100},
        }
        made["patch_applies"] = draw(st.sampled_from((True, True, True, False)))
    if chosen == "rag":
        made["claims"] = [
            {
                "text": f"claim {index}",
                "citations": draw(st.sampled_from((["doc-1"], ["doc-1"], []))),
                "supported": draw(st.sampled_from((True, True, True, False, None))),
                "severity": draw(st.sampled_from(("low", "low", "high"))),
            }
            for index in range(draw(st.integers(1, 3)))
        ]
    if chosen == "tool-use":
        made["tool_calls"] = [
            {
                "name": draw(st.sampled_from(("search", "search", "delete_all"))),
                "arguments": {"q": index},
                "valid": draw(st.sampled_from((True, True, False))),
            }
            for index in range(draw(st.integers(0, 3)))
        ]
        made["handoff_rules"] = [["planner", "coder"], ["coder", "critic"]]
    if draw(st.integers(0, 4)) == 0:
        made["status"] = draw(st.sampled_from(("failed", "timeout")))
    return made


def _improvements(made: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Every way in which one piece of evidence of this run could have been better."""
    found: list[tuple[str, dict[str, Any]]] = []

    def better(what: str, **changes: Any) -> None:
        found.append((what, {**copy.deepcopy(made), **copy.deepcopy(changes)}))

    family = made["workflow"]["family"]
    for name, formula in JUDGED[family].items():
        score = made["scores"].get(name)
        top = {"likert_1_5": 5, "zero_one": 1}[formula]
        if score is None:
            better(
                f"{name} scored",
                scores={**made["scores"], name: {"raw": {"likert_1_5": 1, "zero_one": 0}[formula]}},
            )
        elif score["raw"] < top:
            better(f"{name} at the top", scores={**made["scores"], name: {**score, "raw": top}})
            better(
                f"{name} a little higher",
                scores={
                    **made["scores"],
                    name: {**score, "raw": min(top, score["raw"] + Decimal("0.01"))},
                },
            )
    if made["latency_ms"] > 0:
        better("faster", latency_ms=made["latency_ms"] // 2)
    for index, step in enumerate(made["steps"]):
        if step["status"] != "success":
            better(
                "a step succeeds",
                steps=[
                    {**s, "status": "success"} if i == index else s
                    for i, s in enumerate(made["steps"])
                ],
            )
    if made["status"] != "success":
        better("the run succeeds", status="success")
    for name, tally in made.get("tests", {}).items():
        if tally["passed"] < tally["total"]:
            better(
                "a test more passes",
                tests={**made["tests"], name: {**tally, "passed": tally["passed"] + 1}},
            )
    if made.get("patch_applies") is False:
        better("the patch applies", patch_applies=True)
    for index in range(len(made.get("claims", []))):
        for change in ({"supported": True}, {"citations": ["doc-1"]}):
            better(
                "a claim is better founded",
                claims=[{**c, **change} if i == index else c for i, c in enumerate(made["claims"])],
            )
    for index in range(len(made.get("tool_calls", []))):
        for change in ({"valid": True}, {"name": "search"}):
            better(
                "a tool call is better",
                tool_calls=[
                    {**c, **change} if i == index else c for i, c in enumerate(made["tool_calls"])
                ],
            )
    return found


def _not_worse(before: Any, after: Any) -> None:
    assert LETTERS.index(after.grade) <= LETTERS.index(before.grade)
    assert LETTERS.index(after.provisional_grade) <= LETTERS.index(before.provisional_grade)
    assert after.score_units >= before.score_units
    assert after.adjusted_score_units >= before.adjusted_score_units
    assert after.passed >= before.passed
    assert set(after.hard_gate_failures) <= set(before.hard_gate_failures)
    assert set(after.floor_failures) <= set(before.floor_failures)


# --- law 2: better is not worse


@given(runs())
def test_improving_one_piece_of_a_runs_evidence_never_lowers_letter_score_or_verdict(
    made: dict[str, Any],
) -> None:
    before = graded(made).grade
    for _what, better in _improvements(made):
        _not_worse(before, graded(better).grade)


def _raised(criterion: dict[str, Any], draw: Any) -> Any:
    raw, formula = criterion["raw_score"], criterion["formula_id"]
    if formula == "binary":
        return 1
    if formula == "ratio":
        counts = raw or {"passed": 0, "total": 3}
        return {
            "passed": draw(st.integers(counts["passed"], counts["total"])),
            "total": counts["total"],
        }
    if formula == "pairwise":
        counts = raw or {"wins": 0, "losses": 3, "ties": 1}
        moved = draw(st.integers(0, counts["losses"]))
        return {
            "wins": counts["wins"] + moved,
            "losses": counts["losses"] - moved,
            "ties": counts["ties"],
        }
    low, high = LIKERT.get(formula, (0, 1))
    if formula == "lower_is_better":
        return (
            criterion["params"]["slo_bad"]
            if raw is None
            else max(Decimal(0), raw - draw(decimals(0, 30, 2)))
        )
    start = low if raw is None else raw
    return min(max(high, start), start + draw(decimals(0, 3, 9)))


@given(scorecards(), st.data())
def test_raising_one_criterion_of_a_scorecard_never_lowers_letter_score_or_verdict(
    card: dict[str, Any], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(card["criteria"]) - 1))
    criterion = card["criteria"][index]
    raised = {key: value for key, value in criterion.items() if key != "missing"} | {
        "raw_score": _raised(criterion, data.draw)
    }
    assert (
        norm_of(raised["raw_score"], raised["formula_id"], raised["params"])
        >= expected(card).norms[index]
    )
    better = {
        **card,
        "criteria": [raised if i == index else c for i, c in enumerate(card["criteria"])],
    }
    _not_worse(graded(card).grade, graded(better).grade)


@given(scorecards(), st.data())
def test_opening_a_gate_never_lowers_letter_or_verdict(
    card: dict[str, Any], data: st.DataObject
) -> None:
    assume(card["hard_gates"])
    name = data.draw(st.sampled_from(sorted(card["hard_gates"])))
    _not_worse(
        graded(card).grade, graded({**card, "hard_gates": {**card["hard_gates"], name: True}}).grade
    )


# --- law 3: order is nothing


def _shuffled(tree: Any, order: random.Random, lists: tuple[str, ...], key: str = "") -> Any:
    """The same document with the keys of every object, and the lists whose order means nothing, in
    another order.
    """
    if isinstance(tree, dict):
        keys = list(tree)
        order.shuffle(keys)
        return {name: _shuffled(tree[name], order, lists, name) for name in keys}
    if isinstance(tree, list):
        items = [_shuffled(item, order, lists) for item in tree]
        if key in lists:
            order.shuffle(items)
        return items
    return tree


def _verdict(found: dict[str, Any]) -> dict[str, Any]:
    """What may not depend on any order."""
    names = (
        "run_id",
        "passed",
        "grade",
        "provisional_grade",
        "weighted_score",
        "weighted_score_adjusted",
        "reason",
        "grade_reason",
        "layers",
        "digests",
        "hard_gates",
    )
    placement = {
        name: found["placement"][name]
        for name in ("margin_to_next_grade", "to_lose_grade", "smallest_gain", "smallest_loss")
    }
    criteria = {item["name"]: item for item in found["criteria"]}
    lists = {name: sorted(found[name]) for name in ("hard_gate_failures", "floor_failures")}
    return {name: found[name] for name in names} | placement | {"criteria": criteria} | lists


RUN_LISTS = (
    "steps",
    "claims",
    "tags",
    "required_outputs",
    "required_inputs",
    "forbidden_tools",
    "handoff_rules",
)


@given(scorecards(min_criteria=2), st.randoms(use_true_random=False))
def test_permuting_criteria_gates_and_keys_of_a_scorecard_changes_no_digest_and_no_letter(
    card: dict[str, Any], order: random.Random
) -> None:
    other = _shuffled(card, order, ("criteria",))
    assert _verdict(plain(graded(card).payload())) == _verdict(plain(graded(other).payload()))


@given(runs(), st.randoms(use_true_random=False))
def test_permuting_steps_claims_gates_and_keys_of_a_run_changes_no_digest_and_no_letter(
    made: dict[str, Any], order: random.Random
) -> None:
    made |= {
        "required_outputs": ["answer", "why"],
        "outputs": {"answer": "a", "why": "b"},
        "forbidden_tools": ["delete_all", "rm", "drop"],
    }
    made["gates"] = {
        **made.get("gates", {}),
        "no_policy_violation": {"passed": True},
        "house_rule": {"passed": True},
    }
    other = _shuffled(made, order, RUN_LISTS)
    one, two = plain(graded(made).payload()), plain(graded(other).payload())
    # reasons list names in the order they came
    for found in (one, two):
        found["hard_gates"] = {name: gate["status"] for name, gate in found["hard_gates"].items()}
    assert _verdict(one) == _verdict(two)
    assert sorted(map(canonical, one["step_scores"])) == sorted(map(canonical, two["step_scores"]))
    assert one["agent_scores"] == two["agent_scores"]


@given(st.lists(runs(), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_permuting_runs_changes_neither_summary_nor_ranking(
    many: list[dict[str, Any]], order: random.Random
) -> None:
    grades = [
        graded({**made, "run_id": f"r-{index}", "cost_usd": index % 3}).grade
        for index, made in enumerate(many)
    ]
    shuffled = list(grades)
    order.shuffle(shuffled)
    blocks = []
    for listed in (grades, shuffled):
        summary = Summary()
        for grade in listed:
            summary.add(grade)
        blocks.append(encode(summary.block()))
    assert blocks[0] == blocks[1]
    assert rank([contender(grade) for grade in grades], tie_window=100) == rank(
        [contender(grade) for grade in shuffled], tie_window=100
    )


@given(scorecards(), st.data())
def test_a_digest_changes_when_what_was_graded_changes(
    card: dict[str, Any], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(card["criteria"]) - 1))
    changes: list[dict[str, Any]] = [
        {"run_id": "r-2"},
        {"hard_gates": {**card["hard_gates"], "another": True}},
        {"pass_threshold": 71 if card.get("pass_threshold") != 71 else 72},
        {
            "criteria": [
                {**c, "weight": c["weight"] + 1} if i == index else c
                for i, c in enumerate(card["criteria"])
            ]
        },
        {
            "criteria": [
                {**c, "n": c["n"] + 1} if i == index else c for i, c in enumerate(card["criteria"])
            ]
        },
    ]
    before = plain(graded(card).payload())["digests"]["scorecard"]
    for change in changes:
        assert plain(graded({**card, **change}).payload())["digests"]["scorecard"] != before


def test_permuting_the_lines_of_a_file_changes_no_result(assay: Any, tmp_path: Any) -> None:
    lines = [line for path in EXAMPLES for line in Path(path).read_text().splitlines()]
    (tmp_path / "one.jsonl").write_text("\n".join(lines))
    (tmp_path / "two.jsonl").write_text("\n".join(reversed(lines)))
    one, two = (
        assay("grade", name, "--json").json()["results"] for name in ("one.jsonl", "two.jsonl")
    )
    assert one == two[::-1]
    assert len(one) == 15
    for verb in ("rank", "summary"):
        one, two = (assay("report", verb, f"{name}.jsonl", "--json").out for name in ("one", "two"))
        assert one == two


# --- law 4: a gate wins, a cap never raises, a floor never rescues


@given(scorecards(), st.sampled_from((False, None)))
def test_a_failed_gate_wins_over_any_score(card: dict[str, Any], verdict: bool | None) -> None:
    before, after = (
        graded(card).grade,
        graded({**card, "hard_gates": {**card["hard_gates"], "extra": verdict}}).grade,
    )
    assert (after.grade, after.passed, after.reason) == ("F", False, "hard_gate_failure")
    assert (after.score_units, after.provisional_grade) == (
        before.score_units,
        before.provisional_grade,
    )


@pytest.mark.parametrize("verdict", [False, None])
@pytest.mark.parametrize("family", FAMILIES)
def test_each_gate_of_a_family_alone_fails_a_perfect_run(family: str, verdict: bool | None) -> None:
    perfect = run(family)
    whole = graded(perfect).grade
    assert (whole.grade, whole.passed, whole.score_units) == ("A", True, 10000)
    gates = list(whole.scorecard.hard_gates)
    assert len(gates) >= 6
    for name in gates:
        spoiled = run(
            family,
            gates={
                **perfect.get("gates", {}),
                name: {"passed": verdict, "reason": "seen elsewhere"},
            },
        )
        found = graded(spoiled).grade
        assert (found.grade, found.passed, found.score_units, found.provisional_grade) == (
            "F",
            False,
            10000,
            "A",
        )
        assert found.hard_gate_failures == (name,)


@given(scorecards())
def test_a_cap_never_raises_a_letter(card: dict[str, Any]) -> None:
    found = graded(card).grade
    assert LETTERS.index(found.grade) >= LETTERS.index(found.provisional_grade)


@given(scorecards(), st.data())
def test_a_floor_never_rescues(card: dict[str, Any], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(card["criteria"]) - 1))
    assume("floor_override" not in card["criteria"][index])
    own = floor_of(card["criteria"][index])
    added = data.draw(decimals(0, 1, 2)) if own is None else 1
    stricter = {
        **card,
        "criteria": [
            {**c, "critical_floor": {"norm": added}} if i == index else c
            for i, c in enumerate(card["criteria"])
        ],
    }
    _not_worse(graded(stricter).grade, graded(card).grade)


# --- law 5: same inputs, same bytes


@given(st.one_of(runs(), scorecards()))
def test_the_same_document_gives_the_same_bytes_twice(made: dict[str, Any]) -> None:
    assert encode(graded(made).payload()) == encode(graded(copy.deepcopy(made)).payload())


WRITTEN = (
    ("grade", "all.jsonl", "--json"),
    ("explain", "all.jsonl", "--json"),
    ("report", "summary", "all.jsonl", "--json"),
    ("report", "rank", "all.jsonl", "--json"),
    ("grade", "all.jsonl", "-o", "out.json"),
    ("grade", "all.jsonl", "-o", "out.csv"),
)
EACH = """
import sys
from assay.cli.main import run
for command in sys.argv[1:]:
    assert run(command.split()) in (0, 1), command
    sys.stdout.flush()
"""


def test_two_processes_with_other_hash_seeds_write_the_same_bytes(tmp_path: Any) -> None:
    seen = []
    for seed in ("0", "4242"):
        folder = tmp_path / seed
        folder.mkdir()
        (folder / "all.jsonl").write_text("".join(Path(path).read_text() for path in EXAMPLES))
        done = subprocess.run(
            [sys.executable, "-c", EACH, *map(" ".join, WRITTEN)],
            capture_output=True,
            check=True,
            cwd=folder,
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": f"Etc/GMT+{len(seed)}"},
        )
        seen.append(
            [done.stdout, *((folder / f"out.{end}").read_bytes() for end in ("json", "csv"))]
        )
    assert seen[0] == seen[1]
    assert all(len(written) > 1000 for written in seen[0])


# --- law 8: two systems


def _loaded_by(package: str) -> set[str]:
    """The modules of assay that are loaded once every module of a package is."""
    code = (
        f"import importlib, json, pkgutil, sys\nroot = importlib.import_module({package!r})\nnames"
        " = [m.name for m in pkgutil.walk_packages(root.__path__, root.__name__ +"
        " '.')]\n[importlib.import_module(name) for name in"
        " names]\nprint(json.dumps([sorted(names), sorted(n for n in sys.modules if"
        " n.startswith('assay'))]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    own, loaded = json.loads(done.stdout)
    assert len(own) >= 4
    assert set(own) <= set(loaded)
    return set(loaded)


@pytest.mark.parametrize(
    ("one", "other"), [("assay.scoring", "assay.grading"), ("assay.grading", "assay.scoring")]
)
def test_neither_system_imports_the_other(one: str, other: str) -> None:
    loaded = _loaded_by(one)
    assert one in loaded
    assert not {name for name in loaded if name == other or name.startswith(f"{other}.")}


@given(st.one_of(runs(), scorecards()))
def test_each_result_carries_the_versions_of_both_systems(made: dict[str, Any]) -> None:
    found = plain(graded(made).payload())
    assert (found["scoringSystem"], found["gradingSystem"]) == (
        "scoringSystem/1.0.0",
        "gradingSystem/1.0.0",
    )


@pytest.mark.parametrize(
    "command", ["grade", "explain", "report rank", "report summary", "versions"]
)
def test_each_document_with_results_carries_the_versions_of_both_systems(
    assay: Any, command: str
) -> None:
    files = [] if command == "versions" else [EXAMPLES[0]]
    found = assay(*command.split(), "--json", *files).json()
    for holder in found["results"] if command in ("grade", "explain") else [found]:
        assert holder["scoringSystem"] == "scoringSystem/1.0.0"
        assert holder["gradingSystem"] == "gradingSystem/1.0.0"


def test_a_scorecard_made_by_another_scoring_version_keeps_that_version_in_its_result() -> None:
    card = {
        "schema": "assay.scorecard/1",
        "run_id": "r",
        "hard_gates": {},
        "criteria": [{"name": "c", "raw_score": 1, "formula_id": "zero_one", "weight": 1}],
    }
    found = plain(graded({**card, "scoringSystem": "scoringSystem/0.9.0"}).payload())
    assert (found["scoringSystem"], found["gradingSystem"]) == (
        "scoringSystem/0.9.0",
        "gradingSystem/1.0.0",
    )
