"""Law 9: the judged never set the bar. Whatever a rejected side deletes, renames or weakens of what
it declares, it is not promoted or passed.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from assay.pipeline.deciding import Terms, side_of
from assay.pipeline.deciding import decide as decide_sides
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import AssayError, EvidenceError
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.pipeline.grading import Grader
from assay.records.reading import read_run
from assay.release import declarations, promotion_rules
from assay.release.sides import Side
from documents import FAMILIES, run
from examples import CAMPAIGN
from sides import GRADER, RULES, STRICT, write

N = 32


def card(index: int, *, norm: float = 0.9, **changes: Any) -> dict[str, Any]:
    """One sample of a side: two gates, a role with its floor, a floor of its own, a group and a
    tag.
    """
    return {
        "schema": "assay.scorecard/1",
        "run_id": f"r-{index}",
        "sample_id": f"s-{index:03}",
        "group": f"g-{index % 8}",
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
            if row["group"] in ("g-1", "g-2"):
                row["criteria"][0]["raw_score"] -= Decimal("0.09")
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
SLICED = Terms(slices=("tag",))


def made(rows: list[dict[str, Any]], name: str) -> Side:
    return side_of([Document(row, name) for row in rows], GRADER, name=name)


@functools.cache
def baseline_side() -> Side:
    return made(BASELINE, "baseline")


def outcome(
    candidate: list[dict[str, Any]],
    baseline: list[dict[str, Any]] | Side = BASELINE,
    *,
    terms: Terms = SLICED,
) -> str:
    """What `assay gate` decides; a refusal is one of the answers."""

    try:
        theirs = baseline_side() if baseline is BASELINE else baseline
        theirs = theirs if isinstance(theirs, Side) else made(theirs, "baseline")
        return str(
            decide_sides(made(candidate, "candidate"), theirs, RULES, GRADER, terms=terms).outcome
        )
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


@cache
def is_unseen_unpaired(kind: str) -> bool:
    """Whether a candidate of this kind is promoted where its samples are not paired."""
    rows = [{**row, "sample_id": f"other-{row['sample_id']}"} for row in worse(kind)]
    return outcome(rows, terms=Terms(allow_unpaired=True)) == "promote"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("how", WAYS)
def test_no_single_weakening_promotes_a_candidate_that_was_not(
    kind: str, how: str, paired: bool
) -> None:
    number = WAYS.index(how) + KINDS.index(kind)
    # an unpaired comparison may not see this drop in the first place, nor which samples there
    # should be: its note says so
    can_be_unpaired = not is_unseen_unpaired(kind) and how != "deleted"
    if not paired and not can_be_unpaired:
        return
    if not CAMPAIGN and (number % 2 or (can_be_unpaired and paired == (number % 4 == 0))):
        return  # every way with half of the kinds here, paired or not; all of it in the campaign
    rows, terms = worse(kind), SLICED
    if not paired:
        rows, terms = (
            [{**row, "sample_id": f"other-{row['sample_id']}"} for row in rows],
            Terms(allow_unpaired=True),
        )
    choices = (set(range(N)), {7}, set(range(0, N, 2)))
    turn = (number // 2 + paired) % len(choices)
    for chosen in choices if CAMPAIGN else choices[turn : turn + 1]:
        assert outcome(changed(rows, [how], chosen), terms=terms) != "promote"


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
    ("how", "rule", "name"),
    [
        ("no gates", "gate_failure_rate", "gate no_policy_violation"),
        ("role dropped", "floor_regression", "role correctness of answer"),
        ("floor dropped", "floor_regression", "floor of style"),
        ("criterion dropped", "score_non_inferiority", "criterion answer"),
    ],
)
def test_what_the_baseline_has_and_the_candidate_lost_is_a_violation_by_name(
    assay: Any, tmp_path: Path, how: str, rule: str, name: str
) -> None:
    done = decision(assay, tmp_path, changed(worse("nothing"), [how], {3, 4}))
    found = done.json()
    violated = {one["id"]: one for one in found["rules"] if one["violated"]}
    assert (done.code, found["outcome"]) == (1, "reject")
    assert name in violated[rule]["reason"]
    assert {"sample": "s-003", "what": name} in violated[rule]["evidence"]["lost"]
    assert any("Restore" in line and name in line for line in found["would_change"])


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
    for changes in (
        {"gates": {"no_policy_violation": {"passed": False, "reason": "leak"}}},
        {"gates": {}},
    ):
        write(tmp_path / "cand.jsonl", runs(**changes))
        done = assay("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json")
        severe = next(one for one in done.json()["rules"] if one["id"] == "severe_failures")
        assert (done.code, severe["violated"]) == (1, True)


def test_a_single_run_without_a_number_does_not_stand_for_all_repeats_of_the_baseline() -> None:
    def repeated(attempts: list[int | None]) -> list[dict[str, Any]]:
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
    assert outcome(repeated([1, 2]), baseline, terms=Terms()) == "promote"
    assert outcome(repeated([None]), baseline, terms=Terms()) != "promote"


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


def test_sides_without_any_gate_are_not_enough_to_decide_on() -> None:
    bare = [{**row, "hard_gates": {}} for row in BASELINE]
    assert (
        outcome([{**row, "hard_gates": {}} for row in worse("nothing")], bare)
        == "not_enough_evidence"
    )


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


# --- what a run declares about its own bar


def toolruns(changes: dict[str, Any]) -> list[dict[str, Any]]:
    declared = {
        "required_outputs": ["answer"],
        "required_inputs": ["q"],
        "inputs": {"q": "x"},
        "forbidden_tools": ["rm"],
        "outputs": {"answer": "4"},
        "metadata": {
            "declared_tools": {"search": "sha256:a", "book": "sha256:b"},
            "declared_testing": "sha256:t",
            "otel": {},
        },
    }
    steps = [{"name": "plan", "status": "success", "critical": True}]
    rules = {
        "handoff_rules": [["a", "b"], ["b", "c"]],
        "handoffs": [{"from": "a", "to": "b"}],
        "output_schema": {"type": "object", "required": ["answer"]},
        "steps": steps,
    }
    return [
        run(
            "tool-use",
            run_id=f"r-{i}",
            dataset={"id": "d", "version": "1", "sample_id": f"s-{i}"},
            **{**declared, **rules, **changes},
        )
        for i in range(N)
    ]


@functools.cache
def toolruns_side() -> Side:
    return made(toolruns({"expected": {"answer": "4"}}), "baseline")


def test_a_candidate_that_declares_as_much_as_the_baseline_is_promoted() -> None:
    same = toolruns({"expected": {"answer": "4"}, "latency_ms": 9})
    assert outcome(same, toolruns_side(), terms=Terms()) == "promote"
    for tools in (
        {"search": "sha256:a"},  # one tool fewer
        {"search": "sha256:a", "book": "sha256:b", "pay": "sha256:p"},  # one more
        {"search": "sha256:a", "reserve": "sha256:b"},  # another name for the same schema
    ):
        other = {"declared_tools": tools, "declared_testing": "sha256:t", "otel": {}}
        moved = [{**one, "metadata": other} for one in same]
        assert outcome(moved, toolruns_side(), terms=Terms()) == "promote"
    silent = [{**one, "tool_calls": [], "metadata": {**other, "otel": {}}} for one in same]
    traced, of_silent = (made(rows, "side").rows["d/s-1"].declared for rows in (same, silent))
    assert declarations.weakened(of_silent, traced, passed=True) == []
    run_here = {**other, "workflow_digest": "sha256:w"}  # which takes nobody's word for a call
    del run_here["otel"]
    here = [{**one, "metadata": run_here} for one in same]
    assert outcome(here, toolruns_side(), terms=Terms()) == "promote"
    unsaid = [{**one, "tool_calls": [{"name": "search"}]} for one in same]
    vouched = [{**one, "metadata": {**other, "otel": {"vouched_calls": 1}}} for one in same]
    before, now = (made(rows, "side").rows["d/s-1"].declared for rows in (unsaid, vouched))
    assert declarations.weakened(now, before, passed=True) == []  # nobody had checked them
    # words that check nothing
    worded = [{**one, "output_schema": {"title": "Reply", **one["output_schema"]}} for one in same]
    assert outcome(worded, toolruns_side(), terms=Terms()) == "promote"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"forbidden_tools": []}, "forbidden tool rm"),
        ({"required_outputs": []}, "required output answer"),
        ({"required_inputs": None}, "required input q"),
        ({"output_schema": {}}, "output schema of the baseline"),
        ({"output_schema": None}, "output schema of the baseline"),
        (
            {"steps": [{"name": "plan", "status": "success", "critical": False}]},
            "critical step plan",
        ),
        (
            {"steps": [{"name": "plan two", "status": "failed"}]},
            "critical step plan",
        ),
        (
            {"steps": [{"name": "write", "status": "success", "critical": False}]},
            "critical step plan",
        ),
        ({"handoff_rules": [["a", "b"], ["b", "c"], ["a", "c"]]}, "limit on handoffs from a to c"),
        ({"expected": {"answer": "5"}}, "expected value of the baseline"),
        ({"metadata": {}}, "schemas of tools"),
        ({"metadata": {}}, "test setup of the baseline"),
        ({"metadata": {"otel": {"vouched_calls": 1}}}, "schemas that its tool calls were held to"),
        ({"metadata": {"declared_testing": "sha256:u"}}, "test setup of the baseline"),
        ({"metadata": {"declared_tools": []}}, "schemas of tools"),
        ({"metadata": {"declared_tools": {"search": "sha256:c"}}}, "schema of the tool search"),
        (
            {"metadata": {"declared_tools": {"find": "sha256:c", "book": "sha256:b"}}},
            "schema of the tool search (gone; new: find)",
        ),
    ],
)
def test_a_candidate_cannot_declare_less_than_the_baseline_does_for_the_same_sample(
    changes: dict[str, Any], what: str
) -> None:
    less = made(toolruns({"expected": {"answer": "4"}, **changes}), "candidate")
    found = decide_sides(less, toolruns_side(), RULES, GRADER, terms=Terms())
    gates = next(rule for rule in found.rules if rule.id == "gate_failure_rate")
    assert (found.outcome, gates.violated) == ("reject", True)
    assert what in gates.reason


def test_a_candidate_cannot_widen_the_schema_that_its_models_call_a_tool_by() -> None:
    offered = {"search": ["sha256:a"], "book": ["sha256:b"]}
    baseline = made(toolruns({"metadata": {"otel": {}, "offered_tools": offered}}), "baseline")

    def side(of_candidate: Any, *called: str, **more: Any) -> Side:
        calls = [{"name": name, "arguments": {"q": "x"}, "valid": True} for name in called]
        metadata = {"otel": {}, "offered_tools": of_candidate, **more}
        return made(toolruns({"tool_calls": calls, "metadata": metadata}), "candidate")

    def lost(ours: Side) -> list[str]:
        declared = (side.rows["d/s-1"].declared for side in (ours, baseline))
        return declarations.weakened(*declared, passed=True)

    wide = {**offered, "search": ["sha256:any"]}
    for of_candidate in (wide, {**offered, "search": ["sha256:a", "sha256:any"]}, {}, None, []):
        ours = side(of_candidate, "search")
        found = decide_sides(ours, baseline, RULES, GRADER, terms=Terms())
        assert found.outcome == "reject"
        assert "schema of the tool search" in found.reason
        assert lost(ours) == ["schema of the tool search"]
    assert lost(side(offered, "search", "book")) == []
    assert lost(side(wide, "book")) == []  # it decided on no call
    find, gone = {"find": ["sha256:any"]}, "schema of the tool {} (gone; new: find)"
    assert lost(side({**offered, **find}, "find")) == []  # another tool
    assert lost(side(find)) == []  # what isn't called decided on nothing
    for of_candidate in (find, {}):  # it may be one of the others under another name
        renamed = [gone.format("book"), gone.format("search")]
        assert lost(side(of_candidate, "find")) == renamed
    assert lost(side({"find": ["sha256:a"]}, "find")) == []  # search by another name
    elsewhere = {"find": frozenset(["sha256:f", "sha256:g"])}
    for schema, is_new in (("sha256:f", False), ("sha256:any", True)):
        declared = (
            one.rows["d/s-1"].declared for one in (side({"find": [schema]}, "find"), baseline)
        )
        named = declarations.weakened(*declared, passed=True, elsewhere=elsewhere)
        assert named == (renamed if is_new else [])
    for declared, named in (("sha256:a", []), ("sha256:any", ["schema of the tool search"])):
        here = {"workflow_digest": "sha256:w", "declared_tools": {"search": declared}}
        assert lost(side({}, "search", **here)) == named


def test_models_may_be_shown_other_tools_of_the_baseline_in_each_sample() -> None:
    """As an agent does that looks up which tools fit the question."""

    def side(name: str, further: int) -> Side:
        rows = toolruns({})
        for place, one in enumerate(rows):
            first, called = (f"tool {number % 4}" for number in (place, place + further))
            shown = {tool: [f"sha256:{tool}"] for tool in (first, called)}
            one["metadata"] = {"otel": {}, "offered_tools": shown}
            one["tool_calls"] = [{"name": called, "arguments": {"q": "x"}, "valid": True}]
        return made(rows, name)

    found = decide_sides(side("a", 2), side("b", 1), RULES, GRADER, terms=Terms())
    assert found.rules[0].holds, found.reason


@pytest.mark.parametrize(
    ("of_candidate", "is_lost"),
    [
        ({"search": ["sha256:a"], "new": ["sha256:n"]}, False),
        ({"find": ["sha256:any"]}, False),  # other samples may be about other tools
        ({"search": ["sha256:any"]}, True),
        ({}, True),
    ],
)
def test_nor_by_running_on_other_samples(of_candidate: dict[str, Any], is_lost: bool) -> None:
    known = {"otel": {}, "offered_tools": {"search": ["sha256:a"], "book": ["sha256:b"]}}
    baseline = made(toolruns({"metadata": known}), "baseline")
    called = next(iter(of_candidate), "search")
    calls = [{"name": called, "arguments": {"q": "x"}, "valid": True}]
    metadata = {"otel": {}, "offered_tools": of_candidate}
    moved = [
        {**one, "dataset": {"id": "e", "version": "1", "sample_id": f"x-{place}"}}
        for place, one in enumerate(toolruns({"tool_calls": calls, "metadata": metadata}))
    ]
    wide, terms = RULES._replace(margin=12), Terms(allow_unpaired=True)
    found = decide_sides(made(moved, "candidate"), baseline, wide, GRADER, terms=terms)
    assert ("lost the schema of the tool search" in found.reason) == is_lost
    assert found.outcome == "promote" or is_lost or called == "find"  # which does another job


@pytest.mark.parametrize(
    ("vouched", "graded", "reason"), [(0, 0, ""), (1, 0, "held to"), (0, 1, "carry none")]
)
def test_nor_does_one_run_without_calls_or_declarations_free_all_others_there(
    vouched: int, graded: int, reason: str
) -> None:
    offered = {"search": ["sha256:a"]}
    known = toolruns({"metadata": {"otel": {}, "offered_tools": offered}, "forbidden_tools": None})
    known[3] = {**known[3], "tool_calls": []}
    traced = {"vouched_calls": vouched} if vouched else {}
    metadata = {"otel": traced, "offered_tools": offered}
    moved = [
        {**one, "metadata": metadata, "dataset": {**one["dataset"], "id": "e"}} for one in known
    ]
    wide, terms = RULES._replace(margin=30), Terms(allow_unpaired=True)
    ours, theirs = made(moved, "candidate"), made(known, "baseline")
    for name in list(ours.rows)[:graded]:  # as if it came as a grade
        bare = ours.rows[name]._replace(declared=None)
        ours = ours._replace(rows={**ours.rows, name: bare})
    found = decide_sides(ours, theirs, wide, GRADER, terms=terms).rules[0]
    assert found.violated == bool(reason)
    assert reason in found.reason


def test_a_schema_that_is_made_for_each_sample_is_not_held_to_those_of_other_samples() -> None:
    """Such as one that lists what the question is about."""

    def side(name: str, shown: str = "sha256:{}") -> Side:
        rows = toolruns({})
        for place, one in enumerate(rows):
            schemas = [shown.format(f"{name} {place}")] if shown else []
            one["metadata"] = {"otel": {}, "offered_tools": {"search": schemas}}
            one["dataset"] = {**one["dataset"], "id": name}
        return made(rows, name)

    wide, terms = RULES._replace(margin=30), Terms(allow_unpaired=True)
    for ours, holds in ((side("a"), True), (side("a", ""), False)):
        found = decide_sides(ours, side("b"), wide, GRADER, terms=terms)
        assert found.rules[0].holds == holds, found.reason


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object", "required": []}, True, {"type": "string"}, False]
)
def test_a_schema_that_accepts_all_outputs_is_nothing_to_lose(schema: dict[str, Any]) -> None:
    """Imported runs without an answer have one; a repaired run has an answer and requires it."""
    before = declarations.declared_by(
        read_run(Document(toolruns({"output_schema": schema})[0], "old"))
    )
    ours = declarations.declared_by(read_run(Document(toolruns({})[0], "new")))
    is_limit = schema in ({"type": "string"}, False)
    what = "output schema of the baseline"
    assert (what in declarations.weakened(ours, before, passed=True)) == is_limit
    assert what in declarations.weakened(before, ours, passed=True)


def test_a_candidate_that_alone_says_what_is_expected_of_it_is_held() -> None:
    before = made(toolruns({"expected": None}), "baseline")
    expected = run("tool-use")["expected"]
    for stated, outcome_now in ((expected, "hold"), (None, "promote")):
        ours = made(toolruns({"expected": stated}), "candidate")
        found = decide_sides(ours, before, RULES, GRADER, terms=Terms())
        assert found.outcome == outcome_now
        assert ("states an expected value and the baseline none in 32" in found.reason) == (
            stated is not None
        )
    # and on other samples, where the baseline states none for any
    elsewhere = {"id": "e", "version": "1"}
    for stated, theirs, outcome_now in (
        (expected, before, "hold"),
        (None, before, "promote"),
        (expected, made(toolruns({"expected": expected}), "baseline"), "promote"),
    ):
        moved = [
            {**one, "dataset": {**elsewhere, "sample_id": f"x-{place}"}}
            for place, one in enumerate(toolruns({"expected": stated}))
        ]
        wide, terms = RULES._replace(margin=12), Terms(allow_unpaired=True)
        found = decide_sides(made(moved, "candidate"), theirs, wide, GRADER, terms=terms)
        assert found.outcome == outcome_now, found.reason
    claimed = toolruns({"expected": expected})
    claimed[0]["metadata"]["imported"] = {
        "tool": "promptfoo"
    }  # its own claim frees it from nothing
    found = decide_sides(made(claimed, "candidate"), before, RULES, GRADER, terms=Terms())
    assert found.outcome == "hold"


def test_a_candidate_cannot_say_itself_where_its_handoffs_should_go() -> None:
    labelled = {"expected": None, "handoffs": [{"from": "b", "to": "c", "expected": "c"}]}
    before = made(toolruns(labelled), "baseline")
    other = [{"from": "a", "to": "b", "expected": "b"}]
    for changes in ({"handoffs": other}, {"expected": {"handoffs": [["a", "b"]]}}):
        ours = made(toolruns({**labelled, **changes}), "candidate")
        found = decide_sides(ours, before, RULES, GRADER, terms=Terms())
        assert found.outcome == "reject"
        assert "expected handoff from b to c" in found.reason
    assert decide_sides(before, before, RULES, GRADER, terms=Terms()).outcome == "promote"
    for moved in (["b", "c"], {"from": "b", "to": "c"}):  # the same, measured in another way
        ours = made(toolruns({**labelled, "expected": {"handoffs": [moved]}}), "candidate")
        found = decide_sides(ours, before, RULES, GRADER, terms=Terms())
        assert found.outcome == "hold"
        assert "states an expected value and the baseline none in 32" in found.reason


WRONG = {"from": "a", "to": "b", "expected": "c"}


def correctness(raw: float | None) -> dict[str, Any]:
    return {"scores": {} if raw is None else {"final_task_correctness": {"raw": raw}}}


@pytest.mark.parametrize(
    ("forgotten", "candidate", "rule", "why"),
    [
        (
            correctness(None),
            correctness(0.85),
            "score_non_inferiority",
            "final_task_correctness in 32 of 32; with one, the difference could be 20.00 points",
        ),
        (
            correctness(None),
            correctness(0.3),
            "floor_regression",
            "32 scores of the candidate for final_task_correctness miss its floor, 0 of the",
        ),
        (
            {"forbidden_tools": None},
            {"tool_calls": [{"name": "rm", "arguments": {}, "valid": True}]},
            "gate_failure_rate",
            "in 32 of 32 samples, the baseline for certain in 0; in 32 it lacks evidence for no_for",
        ),
    ],
)
def test_evidence_that_the_baseline_lacks_does_not_open_the_gate(
    forgotten: dict[str, Any], candidate: dict[str, Any], rule: str, why: str
) -> None:
    ours = made(toolruns({"expected": {"answer": "4"}, **candidate}), "candidate")
    assert decide_sides(ours, toolruns_side(), RULES, GRADER, terms=Terms()).outcome == "reject"
    before = made(toolruns({"expected": {"answer": "4"}, **forgotten}), "baseline")
    found = decide_sides(ours, before, RULES, GRADER, terms=Terms())
    reasons = {one.id: one.reason for one in found.rules if not one.holds}
    assert (found.outcome, why in reasons[rule]) == ("hold", True)


@pytest.mark.parametrize(("groups", "more"), [(0, 0), (16, 0), (0, 26)])
def test_a_score_that_either_side_lacks_does_not_narrow_the_interval(
    groups: int, more: int
) -> None:
    """`more` of them are as low as a missing one counts."""

    def side(name: str, raw: int | None) -> Side:
        rows = copy.deepcopy(BASELINE)
        for index, row in enumerate(rows):
            low = None if raw is None else 1
            value = raw if not index else low if index <= more else 5
            row["criteria"][1] |= {"raw_score": value}
            if value is None:
                row["criteria"][1]["missing"] = "nobody scored it"
            if groups:
                row["group"] = f"g{index % groups}"
        return made(rows, name)

    for whole, lacking in (((5, 1), (None, 1)), ((3, 5), (3, None))):
        ours, theirs = (side(*one) for one in zip(("candidate", "baseline"), whole, strict=True))
        low = decide_sides(ours, theirs, RULES, GRADER, terms=Terms()).comparison.difference.low
        assert low is not None
        rules = RULES._replace(margin=-low)  # the largest that is still held
        for sides in (whole, lacking):
            ours, theirs = (
                side(*one) for one in zip(("candidate", "baseline"), sides, strict=True)
            )
            found = decide_sides(ours, theirs, rules, GRADER, terms=Terms())
            assert found.outcome == "hold", found.reason
        why = "no score for style" if lacking[1] is None else "a run or score on one side"
        assert why in found.reason


@pytest.mark.parametrize(("guaranteed", "looks"), [(True, 1), (False, 3), (False, 1)])
@pytest.mark.parametrize("lacks", [3, 30])
def test_a_score_that_the_baseline_lacks_could_widen_every_interval(
    guaranteed: bool, looks: int, lacks: int
) -> None:
    terms, rules = Terms(looks=looks), RULES._replace(guaranteed=guaranteed)

    def side(name: str, raw: float | None) -> Side:
        heavy = {"name": "answer", "formula_id": "zero_one", "weight": 9, "raw_score": 0.9}
        light = {"name": "style", "formula_id": "zero_one", "weight": 1, "raw_score": 0.9}
        rows = [card(n, group=f"g-{n}", criteria=[{**heavy}, light]) for n in range(120)]
        for row in rows[:lacks]:
            row["criteria"][0] |= {"raw_score": raw}
            if raw is None:
                row["criteria"][0]["missing"] = "nobody scored it"
        return made(rows, name)

    ours, best, lacking = (
        side(*one) for one in (("candidate", 0), ("baseline", 1), ("baseline", None))
    )
    low = decide_sides(ours, best, rules, GRADER, terms=terms).comparison.difference.low
    assert low is not None
    rules = rules._replace(margin=-low)  # the largest that is still held
    for theirs in (best, lacking):
        found = decide_sides(ours, theirs, rules, GRADER, terms=terms)
        assert (found.outcome, found.rules[1].holds) == ("hold", False), found.reason
    assert f"{lacks} samples lack a run or score on one side, for example s-000" in found.reason
    found = decide_sides(ours, lacking, rules._replace(margin=-low + 0.1), GRADER, terms=terms)
    assert found.outcome == "promote"


def test_many_lost_runs_and_a_missing_score_are_counted_by_the_interval_that_assumes_nothing() -> (
    None
):
    rows = [card(n, group=f"g-{n}") for n in range(240)]
    ours = copy.deepcopy(rows[:-30])
    ours[0]["criteria"][0] |= {"raw_score": None, "missing": "nobody scored it"}
    sides = (made(*one) for one in ((ours, "candidate"), (rows, "baseline")))
    rules = RULES._replace(guaranteed=True, margin=60.0)
    found = decide_sides(*sides, rules, GRADER, terms=Terms()).rules[1]
    assert found.holds, found.reason
    assert found.evidence["lost_runs"]["samples"] == 31


@pytest.mark.parametrize("floor", [3, 1])
def test_a_floor_missed_without_a_score_of_the_baseline_is_not_offset_elsewhere(floor: int) -> None:
    def side(name: str, raws: list[int | None], floor: int = 3) -> Side:
        rows = copy.deepcopy(BASELINE)
        for row, raw in zip(rows, raws, strict=False):
            row["criteria"][1] |= {"raw_score": raw, "critical_floor": {"raw": floor}}
            if raw is None:
                row["criteria"][1]["missing"] = "nobody scored it"
        return made(rows, name)

    wide = RULES._replace(margin=20)
    before = side("baseline", [2, None])
    found = decide_sides(side("candidate", [4, 2], floor), before, wide, GRADER, terms=Terms())
    assert found.outcome == "hold"
    assert "misses the floor of style in 1 sample for which the baseline has" in found.reason
    found = decide_sides(side("candidate", [2, 4]), before, wide, GRADER, terms=Terms())
    assert found.outcome == "promote"


def test_floors_of_several_criteria_that_the_baseline_may_have_kept_add_up() -> None:
    def rows(*, answer: float = 0.9, styles: tuple[int | None, ...] = ()) -> list[dict[str, Any]]:
        changed = copy.deepcopy(BASELINE)
        for row in changed:
            row["criteria"][1] |= {"role": "safety", "raw_score": 5}
        changed[0]["criteria"][0]["raw_score"] = Decimal(str(answer))
        for row, style in zip(changed, styles, strict=False):
            row["criteria"][1] |= {"raw_score": style}
            if style is None:
                row["criteria"][1]["missing"] = "nobody scored it"
        return changed

    severe = {"severe_roles": frozenset({"correctness", "safety"}), "severe_increase": 1}
    candidate = made(rows(answer=0.1, styles=(5, 2)), "candidate")
    for rule, changes, why in (
        ("floor_regression", {}, "newly misses 1 floor, and 1 more for which the baseline has no"),
        ("severe_failures", severe, "has 0 for certain and lacks evidence for 1 score with a sev"),
    ):
        rules = RULES._replace(margin=20, new_floor_failures=1, **changes)
        for style, violated in ((5, True), (None, False)):
            before = made(rows(styles=(5, style)), "baseline")
            found = decide_sides(candidate, before, rules, GRADER, terms=Terms())
            held = next(one for one in found.rules if one.id == rule)
            assert (held.holds, held.violated) == (False, violated), held
        assert why in held.reason


def test_gates_that_the_baseline_lacks_evidence_for_do_not_offset_failures_of_others() -> None:
    def side(name: str, *gates: dict[str, bool | None]) -> Side:
        rows = copy.deepcopy(BASELINE)
        for row, changed in zip(rows, gates, strict=False):
            row["hard_gates"] |= changed
        return made(rows, name)

    left, right = {"looks_right": False}, {"no_policy_violation": False}
    lacks: dict[str, bool | None] = {"third": None}
    rules = RULES._replace(severe_gates=frozenset())
    passes = [{"third": True}] * N
    before = side("baseline", passes[0] | left | right, passes[0] | lacks, *passes[2:])
    for ours, outcome_now in (
        ((passes[0] | left, passes[0] | right), "hold"),
        ((lacks | left, passes[0] | right), "hold"),
        ((passes[0] | left, passes[0] | lacks), "hold"),
        ((passes[0] | left, passes[0]), "promote"),
    ):
        candidate = side("candidate", *ours, *passes[2:])
        found = decide_sides(candidate, before, rules, GRADER, terms=Terms())
        assert found.outcome == outcome_now, found.reason
        if outcome_now == "hold":
            assert "fails a gate in 2 of 32 samples, the baseline for certain in 1" in found.reason


def test_good_samples_of_the_candidates_own_dilute_nothing_that_the_baseline_lacks() -> None:
    own = [card(index, norm=1) for index in range(100, 108)]
    lower, unscored, failed, open_gate = (copy.deepcopy(BASELINE) for _ in range(4))
    for index, row in enumerate(lower):
        row["criteria"][0]["raw_score"] -= Decimal(5 + index % 2) / 100
        unscored[index]["criteria"][1] |= {"raw_score": None, "missing": "nobody scored it"}
    for row in (*lower, *own):
        row["criteria"][1]["raw_score"] = 1 if row in lower else 5
    open_gate[0]["hard_gates"]["looks_right"] = None
    for row in failed[:2]:
        row["hard_gates"]["looks_right"] = False
    for candidate, before, rule, changes in (
        (lower, unscored, "score_non_inferiority", {"margin": 23.5}),
        (failed, open_gate, "gate_failure_rate", {"gate_failure_increase": (1, 17)}),
    ):
        rules = RULES._replace(**changes)
        for more in ([], own):
            sides = made([*candidate, *more], "candidate"), made(before, "baseline")
            found = decide_sides(*sides, rules, GRADER, terms=Terms())
            held = next(one for one in found.rules if one.id == rule)
            assert (held.holds, held.violated) == (False, False)
            assert "Evaluate the baseline again" in held.reason


def test_gates_that_an_unpaired_baseline_lacks_evidence_for_do_not_offset_failures() -> None:
    def rows(*gates: dict[str, bool | None]) -> list[dict[str, Any]]:
        changed = copy.deepcopy(BASELINE)
        for row, verdicts in zip(changed, [*gates, *[{}] * N], strict=False):
            row["hard_gates"] |= {"third": True, **verdicts}
        return changed

    left, right = {"looks_right": False}, {"no_policy_violation": False}
    lacks: dict[str, bool | None] = {"third": None}
    none = frozenset[str]()
    before = rows(left | right, lacks)
    dropped = rows(left, right)
    del dropped[1]["hard_gates"]["no_policy_violation"]
    for ours in (rows(left, right), rows(left, right | lacks), rows(left, lacks)):
        found = unpaired(ours, before, severe_gates=none)
        assert found.outcome == "hold"
        assert "in 2 of 32 samples, the baseline for certain in 1; in 1 it" in found.reason
    assert unpaired(dropped, before, severe_gates=none).outcome == "hold"
    assert unpaired(rows(left), before, severe_gates=none).outcome == "promote"
    sure = rows(left | right, {"third": False})
    assert unpaired(rows(left, right), sure, severe_gates=none).outcome == "promote"
    # and no more than it could fail with that evidence, whatever the policy allows for pairs
    loose: dict[str, Any] = {"gate_failure_increase": (1, 10), "severe_gates": none}
    for theirs, outcome_now in ((rows(), "reject"), (rows(lacks), "hold")):
        assert unpaired(rows(left), theirs, **loose).outcome == outcome_now
    # nor for a gate that one of the candidate's samples has and the others of it lack
    for theirs, outcome_now in ((rows(), "reject"), (rows(*[lacks] * N), "hold")):
        found = unpaired(rows({"own": True}), theirs, severe_gates=none)
        assert found.outcome == outcome_now


def test_severe_evidence_that_the_baseline_lacks_does_not_offset_severe_failures() -> None:
    """Not even where the policy lets more gates fail, or more floors be missed."""
    severe = "no_policy_violation"
    changes: dict[str, Any] = {"gate_failure_increase": (1, 10), "new_floor_failures": 3}

    def rows(*gates: bool | None, raws: tuple[int | None, ...] = ()) -> list[dict[str, Any]]:
        changed = copy.deepcopy(BASELINE)
        for row, verdict in zip(changed, gates, strict=False):
            row["hard_gates"][severe] = verdict
        for row in changed:
            row["criteria"][1] |= {"role": "safety", "raw_score": 5}
        for row, raw in zip(changed, raws, strict=False):
            row["criteria"][1] |= {"raw_score": raw}
            if raw is None:
                row["criteria"][1]["missing"] = "nobody scored it"
        return changed

    def decided(ours: list[dict[str, Any]], before: list[dict[str, Any]]) -> Any:
        sides = made(ours, "candidate"), made(before, "baseline")
        wide = RULES._replace(margin=20, **changes)
        return decide_sides(*sides, wide, GRADER, terms=Terms())

    for decide_on in (decided, functools.partial(unpaired, **changes)):
        for ours, lacks, sure, why in (
            (
                rows(True, False),
                rows(None, True),
                rows(False, True),
                "the baseline has 0 for certain and lacks evidence for 1 severe gate",
            ),
            (
                rows(raws=(5, 2)),
                rows(raws=(None,)),
                rows(raws=(2,)),
                "1 score of the candidate for style misses its floor",
            ),
        ):
            found = decide_on(ours, lacks)
            held = next(rule for rule in found.rules if rule.id == "severe_failures")
            assert (found.outcome, held.holds, held.violated) == ("hold", False, False)
            assert why in held.reason
            assert decide_on(ours, sure).outcome == "promote"
    assert decided(rows(None), rows(None)).outcome == "hold"  # it may have failed, and be left out


def test_a_baseline_that_failed_or_was_never_scored_like_the_candidate_does_not_block_it() -> None:
    failed = {"status": "error", **correctness(None)}
    unmeasured = {"handoffs": None}
    for before, after in ((failed, {}), (unmeasured, {"handoffs": [WRONG]})):
        ours = made(toolruns({"expected": {"answer": "4"}, **after}), "candidate")
        theirs = made(toolruns({"expected": {"answer": "4"}, **before}), "baseline")
        assert decide_sides(ours, theirs, RULES, GRADER, terms=Terms()).outcome == "promote"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_sides_that_all_lack_the_evidence_for_a_gate_or_a_floor_show_nothing(
    elsewhere: bool,
) -> None:
    """A judge whose key is missing, or a workflow that never starts, is the same on both sides."""
    expected = {"expected": {"answer": "4"}}
    unscored = "has a score for final_task_correctness, so none can pass. Evaluate both sides"
    for forgotten, rule, why in (
        (correctness(None), "floor_regression", unscored),
        ({"status": "error", **correctness(None)}, "floor_regression", unscored),
        ({"forbidden_tools": None}, "gate_failure_rate", "has evidence for no_forbidden_tool, so"),
    ):
        sides = [toolruns({**expected, **forgotten}) for _ in range(2)]
        if elsewhere:
            sides[0] = [{**one, "dataset": {**one["dataset"], "id": "e"}} for one in sides[0]]
        ours, theirs = (made(rows, "side") for rows in sides)
        found = decide_sides(ours, theirs, RULES, GRADER, terms=Terms(allow_unpaired=elsewhere))
        held = next(one for one in found.rules if one.id == rule)
        assert (found.outcome, held.holds, why in held.reason) == ("hold", False, True), found
        # evidence for one sample, or for some that only the candidate has, shows as little
        known = toolruns({**expected, **correctness(0.9)})
        new = [{**known[0], "run_id": f"n{n}"} for n in range(N)]
        for n, one in enumerate(new):
            one["dataset"] = {**one["dataset"], "sample_id": f"n{n}"}
        for more in ([*known[:1], *sides[1][1:]], [*sides[1], *new]):
            if elsewhere:
                continue
            found = decide_sides(made(more, "side"), theirs, RULES, GRADER, terms=Terms())
            held = next(one for one in found.rules if one.id == rule)
            assert (held.holds, "no run of the baseline has" in held.reason) == (False, True)
        if forgotten.get("status") is None:
            found = decide_sides(made(known, "side"), theirs, RULES, GRADER, terms=Terms())
            assert next(one for one in found.rules if one.id == rule).holds
            # three runs of 96 that both lack evidence for hold a gate: they may have failed it
            after, before = (
                [
                    {**one, "run_id": f"{one['run_id']}/{k}", "attempt": k}
                    for one in rows
                    for k in (1, 2, 3)
                ]
                for rows in ([*sides[1][:1], *known[1:]], sides[1])
            )
            found = decide_sides(*map(made, (after, before), "ab"), RULES, GRADER, terms=Terms())
            held = next(one for one in found.rules if one.id == rule)
            assert held.holds == (rule != "gate_failure_rate")
    # so is a gate of one sample that both lack evidence for
    sides = [copy.deepcopy(BASELINE) for _ in range(2)]
    for rows in sides:
        rows[0]["hard_gates"]["own"] = None
    ours, theirs = (made(rows, "side") for rows in sides)
    assert decide_sides(ours, theirs, RULES, GRADER, terms=Terms()).outcome == "hold"


def test_a_score_that_both_sides_lack_for_a_sample_does_not_hold_the_candidate() -> None:
    full = toolruns({"expected": {"answer": "4"}, **correctness(0.9)})
    some = [{**one, "scores": {}} if n % 5 == 0 else one for n, one in enumerate(full)]
    for ours, outcome_now in ((some, "promote"), (full, "hold")):
        after, before = made(ours, "candidate"), made(some, "baseline")
        assert decide_sides(after, before, RULES, GRADER, terms=Terms()).outcome == outcome_now
    # without pairs nothing shows that the score doesn't apply: a candidate could delete its worst
    other = [{**one, "dataset": {**one["dataset"], "id": "e"}} for one in some]
    wide, terms = RULES._replace(margin=12), Terms(allow_unpaired=True)
    found = decide_sides(made(other, "candidate"), before, wide, GRADER, terms=terms)
    assert found.outcome == "hold"
    assert "in pairs, a score that both sides lack is left out" in found.reason


def test_grades_do_not_hide_what_their_runs_stopped_declaring(assay: Any, tmp_path: Path) -> None:
    expected = {"expected": {"answer": "4"}}
    for name, runs in (
        ("base", toolruns(expected)),
        ("less", toolruns({**expected, "forbidden_tools": []})),
    ):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in runs))
        assay("grade", f"{name}.jsonl", "-o", f"{name}.json")
    done = assay("gate", "less.json", "--baseline", "base.jsonl", "--json")
    assert (done.code, done.json()["outcome"]) == (1, "reject")
    assert "declarations of its runs (grades and scorecards carry none)" in done.json()["reason"]
    for candidate in ("less.json", "less.jsonl"):
        done = assay("gate", candidate, "--baseline", "base.json", "--json")
        assert any("the baseline comes as grades" in note for note in done.json()["notes"])


def test_what_no_run_declares_any_more_is_lost_in_other_samples_too() -> None:
    renamed = [
        {**one, "dataset": {"id": "e", "version": "1", "sample_id": f"x-{place}"}}
        for place, one in enumerate(toolruns({"forbidden_tools": []}))
    ]
    made_unpaired = decide_sides(
        made(renamed, "candidate"),
        toolruns_side(),
        RULES,
        GRADER,
        terms=Terms(allow_unpaired=True),
    )
    assert made_unpaired.outcome == "reject"
    assert "lost the forbidden tool rm" in made_unpaired.reason


def unpaired(candidate: list[dict[str, Any]], baseline: list[dict[str, Any]], **rules: Any) -> Any:
    """The decision on two sets that share no samples."""
    ours, theirs = (
        [{**row, "sample_id": f"{side}-{place}"} for place, row in enumerate(rows)]
        for side, rows in (("ours", candidate), ("theirs", baseline))
    )
    wide, terms = RULES._replace(margin=60, **rules), Terms(allow_unpaired=True)
    return decide_sides(
        made(ours, "candidate"), made(theirs, "baseline"), wide, GRADER, terms=terms
    )


def test_unpaired_scores_go_by_the_interval_of_the_policy() -> None:
    sides = [
        [card(index, norm=norm + index % 16 / 1000, group=None) for index in range(N)]
        for norm in (0.93, 0.9)
    ]
    plain, bounded = (unpaired(*sides, guaranteed=guaranteed) for guaranteed in (False, True))
    assert [found.comparison.difference.method for found in (plain, bounded)] == [
        "welch",
        "combined ends",
    ]
    assert bounded.comparison.difference.low < plain.comparison.difference.low - 5


def test_samples_that_share_groups_are_not_independent_without_pairs() -> None:
    def side(norm: float, groups: int | None) -> list[dict[str, Any]]:
        rows = [
            card(index, norm=norm + 0.02 * (index % 8) + index / 9000, group=None)
            for index in range(N)
        ]
        return [
            {**row, "group": None if groups is None else f"g-{index % groups}"}
            for index, row in enumerate(rows)
        ]

    def decided(ours: int | None, theirs: int | None) -> Any:
        return unpaired(side(0.8, ours), side(0.77, theirs))

    alone, both = decided(None, None), decided(8, 8)
    assert both.comparison.difference.low < alone.comparison.difference.low - 2
    assert (alone.outcome, both.outcome) == ("promote", "promote")
    # the candidate must not gain by leaving out its groups
    for groups in (None, 4):
        found = decided(groups, 8)
        assert found.outcome == "hold"
        assert "both sides, at least 5 groups on each, or compare the same samples" in found.reason
    few = decided(4, 4)
    assert few.outcome == "promote"
    assert sum("come from 4 groups, too few" in note for note in few.notes) == 1


def test_a_gate_or_floor_of_the_candidate_alone_does_not_count_against_the_baseline() -> None:
    better = [card(index, norm=0.95) for index in range(N)]
    assert unpaired(better, BASELINE).outcome == "promote"

    def with_gate(*failing: int, lost: int = 0) -> list[dict[str, Any]]:
        gates = [{"looks_right": True, "extra": True, "no_policy_violation": True}] * N
        gates = [{**one, "looks_right": place not in failing} for place, one in enumerate(gates)]
        for one in gates[:lost]:
            del one["looks_right"]
        return [{**row, "hard_gates": one} for row, one in zip(better, gates, strict=True)]

    assert unpaired(with_gate(), BASELINE).outcome == "promote"
    for worse_gates in (with_gate(3, 4), with_gate(lost=2)):
        found = unpaired(worse_gates, BASELINE)
        assert (found.outcome, found.reason) == (
            "reject",
            f"gate_failure_rate: 2 of {N}, 0 of {N} before",
        )
    floored = copy.deepcopy(better)
    for row in floored:
        row["criteria"][2]["critical_floor"] = {"raw": 10}
        row["criteria"][2]["raw_score"] = 8
    slower = copy.deepcopy(BASELINE)
    for row in slower:
        row["criteria"][2]["raw_score"] = 11
    assert unpaired(floored, slower).outcome == "promote"
    floored[7]["criteria"][1]["raw_score"] = 2
    found = unpaired(floored, slower)
    assert (found.outcome, found.reason) == (
        "reject",
        f"floor_regression: 1 of {N}, 0 of {N} before",
    )


def test_samples_with_different_gates_do_not_hide_a_failed_one_without_pairs() -> None:
    mixed = [card(n, hard_gates={("left", "right")[n % 2]: True}) for n in range(N)]
    assert unpaired(mixed, mixed).outcome == "promote"
    failing = [{**row, "hard_gates": dict.fromkeys(row["hard_gates"], False)} for row in mixed]
    found = unpaired(failing, mixed)
    assert (found.outcome, found.reason) == (
        "reject",
        f"gate_failure_rate: {N} of {N}, 0 of {N} before",
    )
    # nor does leaving out the gate that they would fail
    without = [{**row, "hard_gates": {"left": True}} for row in mixed]
    without[1] = mixed[1]
    found = unpaired(without, mixed)
    assert (found.outcome, found.reason) == (
        "hold",
        f"gate_failure_rate: 1 of {N} samples have right, {N // 2} of {N} before",
    )


def test_the_gate_that_is_named_as_left_out_does_not_depend_on_hashes() -> None:
    before: list[Any] = [SimpleNamespace(stratum=f"s{n}", gates={f"g{n}"}) for n in range(9)]
    ours: list[Any] = [SimpleNamespace(stratum=row.stratum, gates=set()) for row in before]
    assert promotion_rules._left_out(ours, before) == "0 of 1 samples have g0, 1 of 1 before"


def test_the_order_of_samples_that_lack_scores_changes_nothing() -> None:
    rows = copy.deepcopy(BASELINE)
    for row, place in zip(rows, (1, 0), strict=False):
        row["criteria"][place] |= {"raw_score": None, "missing": "nobody scored it"}
    candidate, wide = made(BASELINE, "candidate"), RULES._replace(margin=3)
    held, again = (
        decide_sides(candidate, made(one, "baseline"), wide, GRADER, terms=Terms())
        for one in (rows, rows[::-1])
    )
    assert "no score for answer in 1 of 32, style in 1 of 32" in held.reason
    assert held.tree() == again.tree()


def test_the_order_of_repeats_that_name_different_groups_changes_nothing() -> None:
    def repeated() -> list[dict[str, Any]]:
        return [
            {**row, "run_id": f"{row['run_id']}-{n}", "attempt": n, "group": f"{n}-{at // (3 * n)}"}
            for at, row in enumerate(toolruns({"expected": {"answer": "4"}}))
            for n in (1, 2)
        ]

    rows = repeated()
    for row in rows[::5]:
        row["scores"] = {"final_task_correctness": {"raw": 0.8}}
    sides = [made(ordered, "baseline") for ordered in (rows, rows[::-1])]
    ours = made(repeated(), "candidate")
    found, other = (decide_sides(ours, side, RULES, GRADER, terms=Terms()) for side in sides)
    assert found.comparison.clusters == other.comparison.clusters
    assert found.comparison.difference == other.comparison.difference


def test_the_order_of_unpaired_samples_changes_nothing() -> None:
    ours = [{**row, "sample_id": f"x-{n}", "hard_gates": {}} for n, row in enumerate(BASELINE)]
    rejected, again = (
        decide_sides(made(rows, "candidate"), baseline_side(), RULES, GRADER, terms=terms)
        for terms in [Terms(allow_unpaired=True)]
        for rows in (ours, ours[::-1])
    )
    assert rejected.outcome == "reject"
    assert rejected.tree() == again.tree()


def test_a_lower_pass_threshold_is_lost_without_pairs_too() -> None:
    easier, strict = (
        [card(index, norm=0.95, pass_threshold=least) for index in range(N)] for least in (10, 80)
    )
    found = unpaired(easier, strict)
    assert found.outcome == "reject"
    assert "the candidate lost the pass threshold of 80" in found.reason
    assert unpaired(strict, easier).outcome == "promote"
    mixed = [card(index, pass_threshold=(75, 80)[index % 2]) for index in range(N)]
    assert unpaired(mixed, mixed).outcome == "promote"


def test_a_version_may_have_other_steps_that_all_succeed() -> None:
    expected = {"expected": {"answer": "4"}}
    steps = [{"name": name, "status": "success", "critical": True} for name in ("think", "write")]
    changed_steps = toolruns({**expected, "steps": steps})
    assert outcome(changed_steps, toolruns_side(), terms=Terms()) == "promote"


def test_a_candidate_cannot_leave_out_tests_that_the_baseline_ran() -> None:
    def repaired(fail: int, keep: int, *, broken: int = 0) -> list[dict[str, Any]]:
        tests = {
            "fail_to_pass": {"passed": fail, "total": fail},
            "pass_to_pass": {"passed": keep - broken, "total": keep},
        }
        return [
            run(
                "code-repair",
                run_id=f"r-{i}",
                tests=tests,
                dataset={"id": "d", "version": "1", "sample_id": f"s-{i}"},
            )
            for i in range(N)
        ]

    baseline = made(repaired(5, 100), "baseline")
    assert outcome(repaired(5, 100), baseline, terms=Terms()) == "promote"
    assert outcome(repaired(2, 100), baseline, terms=Terms()) == "reject"
    assert outcome(repaired(5, 50), baseline, terms=Terms()) == "reject"
    assert outcome(repaired(5, 0), baseline, terms=Terms()) == "reject"
    # tests that the candidate adds hide none that it broke
    assert outcome(repaired(5, 1100), baseline, terms=Terms()) == "promote"
    assert outcome(repaired(5, 1100, broken=10), baseline, terms=Terms()) == "reject"


def test_a_repeat_does_not_vouch_for_the_gate_that_another_one_lost() -> None:
    def repeats(second: dict[str, Any]) -> list[dict[str, Any]]:
        verdicts = ({"no_policy_violation": {"passed": True, "reason": ""}}, second)
        return [
            run(
                "rag",
                run_id=f"r-{i}-{a}",
                attempt=a,
                gates=verdicts[a - 1],
                dataset={"id": "d", "version": "1", "sample_id": f"s-{i}"},
            )
            for i in range(N)
            for a in (1, 2)
        ]

    good = {"no_policy_violation": {"passed": True, "reason": ""}}
    leaking = {"no_policy_violation": {"passed": False, "reason": "leak"}}
    baseline = made(repeats(good), "baseline")
    assert outcome(repeats(good), baseline, terms=Terms()) == "promote"
    assert outcome(repeats(leaking), baseline, terms=Terms()) == "reject"
    assert outcome(repeats({}), baseline, terms=Terms()) == "reject"


def test_invented_samples_do_not_thin_out_a_drop() -> None:
    base = [card(index, norm=0.9, group=None) for index in range(200)]
    lower = [card(index, norm=0.86, group=None) for index in range(200)]
    perfect = {"answer": 1, "style": 5, "speed": 1}
    extra = [card(index, group=None) for index in range(1000, 1800)]
    for row in extra:
        for criterion in row["criteria"]:
            criterion["raw_score"] = perfect[criterion["name"]]
    theirs = made(base, "baseline")
    for candidate in (lower, [*lower, *extra]):
        ours = made(candidate, "candidate")
        for rules, terms in ((STRICT, Terms()), (RULES, Terms(looks=2))):
            found = decide_sides(ours, theirs, rules, GRADER, terms=terms)
            assert found.outcome != "promote", terms


def test_invented_samples_and_tags_do_not_open_a_slice() -> None:
    tags = [{"tags": ["hard"] if index < 40 else ["easy"], "group": None} for index in range(200)]
    base = made(
        [card(index, norm=0.85 + (index % 5) / 100, **tags[index]) for index in range(200)],
        "baseline",
    )
    lower = [
        card(index, norm=(0.79 if index < 40 else 0.9) + (index % 7) / 100, **tags[index])
        for index in range(200)
    ]
    assert outcome(lower, base) == "reject"
    assert (
        outcome(
            [
                *lower,
                *(card(index, norm=1, group=None, tags=["hard"]) for index in range(900, 924)),
            ],
            base,
        )
        != "promote"
    )
    assert (
        outcome(
            [*lower, card(999, norm=1, group=None, tags=[f"t{number}" for number in range(500)])],
            base,
        )
        != "promote"
    )


@pytest.mark.parametrize(
    "other",
    [
        {"rubric": "mine@1+bbb"},
        {"prompt_version": "p2"},
        None,
        {"kind": "human"},
    ],
)
@pytest.mark.parametrize("unpaired", [False, True])
def test_another_rubric_or_prompt_of_the_judge_or_none_makes_a_sample_incomparable(
    other: dict[str, Any] | None, unpaired: bool
) -> None:
    judge = {"kind": "llm", "name": "m", "prompt_version": "p1", "rubric": "mine@1+aaa"}

    def judged(changes: dict[str, Any] | None) -> Side:
        rows = copy.deepcopy(BASELINE)
        for place, row in enumerate(rows):
            source = judge if place == 0 else None if changes is None else {**judge, **changes}
            row["criteria"][0]["source"] = source
        if unpaired:
            rows = [{**row, "sample_id": f"{changes} {row['sample_id']}"} for row in rows]
        return made(rows, "side")

    terms = Terms(allow_unpaired=unpaired)
    assert decide_sides(judged({}), judged({}), RULES, GRADER, terms=terms)
    with pytest.raises(AssayError, match=r"was scored by .* here, and by m "):
        decide_sides(judged(other), judged({}), RULES, GRADER, terms=terms)


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
    assert (
        outcome(
            changed(some(worse("nothing")), ["failing gates deleted", "gates renamed"], {4}),
            baseline,
        )
        == "reject"
    )
    other = [{**row, "sample_id": f"other-{row['sample_id']}"} for row in some(worse("nothing"))]
    assert outcome(other, baseline, terms=Terms(allow_unpaired=True)) != "reject"


def test_the_pass_threshold_that_the_baseline_has_for_a_sample_is_required_of_the_candidate() -> (
    None
):
    strict = made([{**row, "pass_threshold": 85} for row in BASELINE], "baseline")
    same = [{**row, "pass_threshold": 85} for row in worse("nothing")]
    assert outcome(same, strict) == "promote"
    assert outcome([*same[:-1], worse("nothing")[-1]], strict) == "reject"
    assert outcome([{**row, "pass_threshold": 90} for row in same], strict) == "promote"
    assert outcome(worse("nothing"), BASELINE) == "promote"


def test_a_scorecard_that_states_a_failed_run_does_not_pass(assay: Any, tmp_path: Path) -> None:
    """Its own gates are open, and nothing but its status shows the failure."""
    claimed = {"overall_status_success": True, "looks_right": True}
    for changes in ({}, {"hard_gates": claimed}, {"hard_gates": {}}):
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
    ended = made([{**row, "status": "error"} for row in BASELINE[:9]] + stated[9:], "baseline")
    assert outcome(stated, ended) == "promote"
    assert outcome(BASELINE, ended) == "reject"
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
