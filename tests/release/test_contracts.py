"""What a run is asked is its contract: both sides are judged by the baseline's, and the candidate's
own can only hold.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.records.decision import Decision
from documents import run
from sides import DETERMINISTIC, decide, rule, verdicts, write

N = 60
SEARCH = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
BOOK = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
TOOLS = [{"name": "search", "schema": SEARCH}, {"name": "book", "schema": BOOK}]
CALL = {"name": "search", "arguments": {"q": "x"}, "valid": True, "checked": True}
PLAIN = {
    "required_outputs": ["answer"],
    "required_inputs": ["q"],
    "inputs": {"q": "x"},
    "outputs": {"answer": "4"},
    "output_schema": {"type": "object", "required": ["answer"]},
    "expected": {"answer": "4"},
    "forbidden_tools": ["rm"],
    "handoff_rules": [["a", "b"], ["b", "c"]],
    "handoffs": [{"from": "a", "to": "b"}],
    "steps": [{"name": "plan", "status": "success", "critical": True}],
    "tools": TOOLS,
    "tool_calls": [CALL],
}


def runs(
    changes: dict[str, Any] | None = None,
    *,
    family: str = "tool-use",
    places: int = N,
    **everywhere: Any,
) -> list[dict[str, Any]]:
    """Runs of which so many first ones are changed."""
    return [
        run(
            family,
            run_id=f"r-{at}",
            dataset={"id": "d", "version": "1", "sample_id": f"s-{at:02}"},
            **{
                **(PLAIN if family == "tool-use" else {}),
                **everywhere,
                **(changes or {} if at < places else {}),
            },
        )
        for at in range(N)
    ]


BASELINE = runs()


def parts(found: Decision) -> list[str]:
    return list(found.contracts.parts) if found.contracts else []


# --- what changes nothing


def described(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**tool, "schema": {**tool["schema"], "title": "T", "description": f"new words {at}"}}
        for at, tool in enumerate(tools)
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"latency_ms": 9},
        {"tools": described(TOOLS)},
        {"tools": TOOLS[::-1]},
        {"output_schema": {"title": "Reply", "type": "object", "required": ["answer"]}},
        {"steps": [{"name": name, "status": "success", "critical": True} for name in "ab"]},
    ],
    ids=["nothing", "latency", "descriptions", "order of tools", "a title", "other good steps"],
)
def test_what_checks_nothing_is_no_other_contract(changes: dict[str, Any]) -> None:
    found = decide(runs(changes), BASELINE)
    assert (found.outcome, found.contracts or None) == ("promote", None)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"tools": [*TOOLS, {"name": "pay", "schema": BOOK}]}, "tools"),
        ({"tools": TOOLS[:1]}, "tools"),
        ({"forbidden_tools": ["rm", "mv"]}, "forbidden tools"),
        ({"forbidden_tools": []}, "forbidden tools"),
        ({"required_outputs": []}, "required outputs"),
        ({"required_inputs": []}, "required inputs"),
        ({"output_schema": True}, "output schema"),
        ({"handoff_rules": [["a", "b"], ["b", "c"], ["a", "c"]]}, "handoff rules"),
        ({"steps": [{"name": "plan", "status": "success", "critical": False}]}, "critical steps"),
        ({"tools": [{"name": "search", "schema": {}}, TOOLS[1]]}, "tools"),
    ],
)
def test_another_contract_that_both_sides_meet_is_shown_and_ships(
    changes: dict[str, Any], part: str
) -> None:
    found = decide(runs(changes), BASELINE)
    assert found.outcome == "promote", found.reason
    assert parts(found) == [part]
    assert found.contracts
    assert (found.contracts.samples, found.contracts.own_outcome) == (N, "promote")
    assert found.contracts.examples[0] == "d/s-00"


# --- the baseline's contract rejects


WEAKENED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {"forbidden_tools": []},
        {"tool_calls": [{"name": "rm", "arguments": {}, "valid": True, "checked": True}]},
        "no_forbidden_tool",
    ),
    (
        {"forbidden_tools": None},
        {"tool_calls": [{"name": "rm", "arguments": {}, "valid": True, "checked": True}]},
        "no_forbidden_tool",
    ),
    ({"output_schema": {}}, {"outputs": {"reply": "4"}, "required_outputs": []}, "schema"),
    ({"output_schema": None}, {"outputs": {"reply": "4"}, "required_outputs": []}, "schema"),
    ({"required_outputs": []}, {"outputs": {"reply": "4"}, "output_schema": True}, "output"),
    ({"required_inputs": []}, {"inputs": {}}, "compatible"),
    (
        {"handoff_rules": [["a", "b"], ["b", "c"], ["a", "c"]]},
        {"handoffs": [{"from": "a", "to": "c"}]},
        "handoff",
    ),
    (
        {"steps": [{"name": "plan", "status": "failed", "critical": False}]},
        {},
        "step",
    ),
    (
        {"steps": [{"name": "plan two", "status": "failed", "critical": False}]},
        {},
        "step",
    ),
    (
        {"tools": [{"name": "search", "schema": {}}, TOOLS[1]]},
        {"tool_calls": [{**CALL, "arguments": {"query": "x"}}]},
        "tool",
    ),
    (
        {"tools": [{"name": "search", "schema": SEARCH}, {"name": "search", "schema": {}}]},
        {"tool_calls": [{**CALL, "arguments": {"query": "x"}}]},
        "tool",
    ),
    (
        {"tools": None},
        {"tool_calls": [{**CALL, "arguments": {"query": "x"}, "checked": False}]},
        "tool",
    ),
]


@pytest.mark.parametrize(("asked", "did", "gate"), WEAKENED)
@pytest.mark.parametrize("places", [1, N])
def test_a_candidate_that_asks_less_of_itself_is_judged_by_what_the_baseline_was_asked(
    asked: dict[str, Any], did: dict[str, Any], gate: str, places: int
) -> None:
    candidate = runs({**asked, **did}, places=places)
    found = decide(candidate, BASELINE)
    assert found.outcome == ("hold" if places == 1 else "reject"), found.reason
    assert any(gate in one.check for one in found.confirmation.suspects)
    assert decide(candidate, BASELINE, rules=DETERMINISTIC).outcome == "reject"


def test_the_same_contract_holds_for_fresh_runs() -> None:
    """Fresh runs that ask less of themselves clear nothing."""
    asked, did, _ = WEAKENED[0]
    candidate = runs({**asked, **did}, places=1)
    fresh = [
        {**candidate[0], "run_id": f"fresh-{attempt}", "attempt": attempt}
        for attempt in range(1, 21)
    ]
    again = [
        {**BASELINE[0], "run_id": f"again-{attempt}", "attempt": attempt}
        for attempt in range(1, 21)
    ]
    assert decide(candidate, BASELINE, fresh=(fresh, again)).outcome == "reject"
    good = [{**BASELINE[0], "run_id": f"good-{one}", "attempt": one} for one in range(1, 21)]
    cleared = decide(candidate, BASELINE, fresh=(good, again))
    assert {verdicts(cleared)[name] for name in ("new_failures", "severe_failures")} == {"holds"}


def test_a_call_that_nobody_checked_is_no_call_that_was_checked() -> None:
    claimed = [{**CALL, "name": "new", "checked": False}]
    found = decide(runs({"tool_calls": claimed, "tools": []}), BASELINE)
    assert found.outcome != "promote"


# --- its own contract holds


def test_what_the_candidate_asks_of_itself_alone_can_only_hold() -> None:
    strict = {"output_schema": {"type": "object", "required": ["answer", "sources"]}}
    found = decide(runs(strict), BASELINE)
    assert found.outcome in ("promote", "hold")  # the baseline fails it just as well
    assert parts(found) == ["output schema"]
    worse = decide(
        runs(strict), [{**one, "outputs": {"answer": "4", "sources": []}} for one in BASELINE]
    )
    assert worse.outcome == "hold"
    assert worse.reason.startswith("under what the candidate itself was asked: ")
    assert worse.contracts
    assert worse.contracts.own_outcome == "reject"
    assert "violated" not in verdicts(worse).values()


# --- expected values


def test_an_expected_value_of_its_own_is_judged_by_the_baselines() -> None:
    eased = runs({"expected": {"answer": "5"}, "outputs": {"answer": "5"}}, places=3)
    found = decide(eased, BASELINE)
    assert parts(found) == ["expected value"]
    found = decide(runs({"expected": None}), BASELINE)
    assert parts(found) == ["expected value"]


PROFILE = """
profile: exact
version: 1
title: The answer is the expected one
family: exact
gates: [{id: looks_right, verdict: true}]
criteria: [{id: right, label: Right, weight: 1, layer: 1, formula: ratio, measure: exact_match}]
"""


def test_a_new_expected_value_of_a_row_is_that_of_both_sides(assay: Any, tmp_path: Path) -> None:
    def made(name: str, answer: str, expected: str, row: str, version: str = "1") -> None:
        documents = [
            run(
                run_id=f"{name}-{at}",
                workflow={"id": "w", "version": name, "family": "exact"},
                dataset={
                    "id": "d",
                    "version": version,
                    "sample_id": f"s-{at:02}",
                    "row": f"{row} {at}" if at < 2 else f"row {at}",
                },
                outputs={"answer": answer if at < 2 else "yes"},
                expected={"answer": expected if at < 2 else "yes"},
                gates={"looks_right": {"passed": True}},
            )
            for at in range(N)
        ]
        write(tmp_path / f"{name}.jsonl", documents)

    made("base", "no", "no", "old")
    made("fixed", "yes", "yes", "new", version="2")
    made("forged", "yes", "yes", "new")
    made("sneaky", "yes", "yes", "old")
    (tmp_path / "exact@1.yaml").write_text(PROFILE)
    gate = ("gate", "--baseline", "base.jsonl", "--profile", "exact@1.yaml", "--json")
    found = assay(*gate, "fixed.jsonl").json()
    assert found["overlap"]["corrected"] == ["d/s-00", "d/s-01"]
    assert found["overlap"]["changed"] == []
    assert found["outcome"] == "promote"
    assert any(note.startswith("OTHER EXPECTED VALUES") for note in found["loud"])
    # on one version of the dataset, the expected values are the baseline's
    forged = assay(*gate, "forged.jsonl").json()
    assert forged["outcome"] == "hold"
    assert "overlap" not in forged
    # without a row that changed, an expected value of its own is another sample
    sneaky = assay(*gate, "sneaky.jsonl").json()
    assert sneaky["outcome"] == "hold"
    assert sneaky["overlap"]["changed"] == ["d/s-00", "d/s-01"]


# --- tests and checks of others


def repaired(fail: int, keep: int, *, broken: int = 0) -> list[dict[str, Any]]:
    return runs(
        {
            "tests": {
                "fail_to_pass": {"passed": fail, "total": fail},
                "pass_to_pass": {"passed": keep - broken, "total": keep},
            }
        },
        family="code-repair",
    )


@pytest.mark.parametrize(
    ("candidate", "outcome"),
    [
        (repaired(5, 100), "promote"),
        (repaired(2, 100), "reject"),
        (repaired(5, 50), "reject"),
        (repaired(5, 0), "reject"),
        (repaired(5, 1100), "promote"),
        (repaired(5, 1100, broken=10), "reject"),
    ],
)
def test_tests_that_the_candidate_left_out_fail(
    candidate: list[dict[str, Any]], outcome: str
) -> None:
    assert decide(candidate, repaired(5, 100)).outcome == outcome


@pytest.mark.parametrize(
    "changes",
    [
        {"checks": {"metric faithfulness": 0.2}},
        {"checks": {}},
        {"checks": {"metric faithfulness": 0.5, "more": 0}},
        {"assertions": [{"contains": "x"}]},
        {"testing": "sha256:other"},
        {"unchecked": True},
    ],
)
@pytest.mark.parametrize("worse", [False, True])
def test_verdicts_on_something_else_are_not_compared(changes: dict[str, Any], worse: bool) -> None:
    """Neither rejected nor promoted: it says what to do."""
    checked: dict[str, Any] = {"checks": {"metric faithfulness": 0.5}, "testing": "sha256:one"}
    did = {"status": "failed"} if worse else {}
    found = decide(runs({**changes, **did}, places=9, **checked), runs(checked))
    complete = rule(found, "complete")
    assert (found.outcome, complete.holds) == ("hold", None)
    assert complete.evidence["incomparable_count"] == 9
    assert "checked for different things" in complete.reason
    assert "Evaluate the baseline again" in complete.reason
    none = decide(runs({**checked, **changes, **did}), runs(checked))
    assert none.outcome in ("hold", "not_enough_evidence")


def test_fresh_runs_that_another_tool_checked_for_less_clear_nothing() -> None:
    checked: dict[str, Any] = {"checks": {"metric faithfulness": 0.5}}
    candidate = runs({"status": "failed"}, places=1, **checked)
    fresh = [
        {**runs({"checks": {}})[0], "run_id": f"f-{attempt}", "attempt": attempt}
        for attempt in (1, 2)
    ]
    assert decide(candidate, runs(checked), fresh=(fresh, [])).outcome != "promote"


def test_grades_do_not_hide_what_their_runs_were_asked(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "base.jsonl", BASELINE)
    write(tmp_path / "less.jsonl", runs({"forbidden_tools": []}))
    for name in ("base", "less"):
        assay("grade", f"{name}.jsonl", "-o", f"{name}.json")
    done = assay("gate", "less.json", "--baseline", "base.jsonl", "--json")
    found = done.json()
    assert (done.code, found["outcome"]) != (0, "promote")
    complete = next(one for one in found["rules"] if one["id"] == "complete")
    assert "without its runs" in complete["reason"]
    for candidate in ("less.json", "less.jsonl"):
        done = assay("gate", candidate, "--baseline", "base.json", "--json")
        assert any("the baseline comes as grades" in note for note in done.json()["notes"])


def test_the_decision_shows_what_else_the_candidate_was_asked(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "base.jsonl", BASELINE)
    write(tmp_path / "cand.jsonl", runs({"forbidden_tools": []}, places=2))
    done = assay("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json", "-o", "d.json")
    found = json.loads((tmp_path / "d.json").read_text())
    assert found["contracts"] == {
        "samples": 2,
        "parts": {"forbidden tools": 2},
        "examples": ["d/s-00", "d/s-01"],
        "own_outcome": "promote",
    }
    assert done.code == 0
