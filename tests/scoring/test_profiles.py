"""Profiles: the four families of the guide, how one is chosen, what a rubric may change over it,
and what is published stays as it is.
"""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.canon import plain
from assay.errors import AssayError, EvidenceError, ShelfError
from assay.files.json_files import Document
from assay.files.yaml_files import parse_yaml
from assay.library.lock import BUILTIN
from assay.library.shelf import Shelf, changed, publish
from assay.scoring.gates import REQUIRED
from assay.scoring.profile import Profile, load_profile
from assay.services.grading import Grader
from documents import FAMILIES, run, scorecard

# --- the four profiles, as the guide writes them

GATES = {
    "code-repair": [
        "patch_applies_cleanly",
        "tests_fail_to_pass_all_green",
        "tests_pass_to_pass_threshold_met",
        "no_sandbox_violation",
    ],
    "dag-review": ["outputs_parseable", "no_critical_step_failures", "schema_contract_valid"],
    "rag": ["answer_grounded", "citations_present_for_claims", "no_high_severity_hallucination"],
    "tool-use": ["tool_call_schema_valid", "no_forbidden_tool", "handoff_graph_respected"],
}
WEIGHTS = {
    "code-repair": {
        "objective_tests": "0.60",
        "judge_quality": "0.25",
        "patch_similarity": "0.10",
        "efficiency": "0.05",
    },
    "dag-review": {
        "correctness": "0.35",
        "completeness": "0.25",
        "tool_data_precision": "0.20",
        "documentation": "0.10",
        "efficiency": "0.10",
        "safety": "0",
    },
    "rag": {
        "faithfulness": "0.35",
        "response_relevance": "0.25",
        "context_precision": "0.20",
        "context_recall": "0.10",
        "efficiency": "0.10",
        "safety": "0",
    },
    "tool-use": {
        "tool_selection_accuracy": "0.25",
        "argument_correctness": "0.25",
        "handoff_accuracy": "0.20",
        "final_task_correctness": "0.20",
        "efficiency": "0.10",
    },
}
CORRECTNESS = {
    "code-repair": "objective_tests",
    "dag-review": "correctness",
    "rag": "faithfulness",
    "tool-use": "final_task_correctness",
}
LAYERS = {
    "code-repair": {
        "objective_tests": 1,
        "judge_quality": 2,
        "patch_similarity": 1,
        "efficiency": 3,
    },
    "dag-review": {
        "correctness": 2,
        "completeness": 2,
        "tool_data_precision": 2,
        "documentation": 2,
        "efficiency": 3,
        "safety": 2,
    },
    "rag": {
        "faithfulness": 1,
        "response_relevance": 2,
        "context_precision": 1,
        "context_recall": 1,
        "efficiency": 3,
        "safety": 2,
    },
    "tool-use": {
        "tool_selection_accuracy": 1,
        "argument_correctness": 1,
        "handoff_accuracy": 1,
        "final_task_correctness": 2,
        "efficiency": 3,
    },
}


def graded(tree: dict[str, Any], shelf: Shelf | None = None, **choice: Any) -> dict[str, Any]:
    found: dict[str, Any] = plain(
        Grader(shelf or Shelf(), **choice).grade(Document(tree, "test")).payload()
    )
    return found


def of_workflow(tree: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The run with these keys of its workflow; None removes one."""
    workflow = {
        key: value for key, value in {**tree["workflow"], **changes}.items() if value is not None
    }
    return {**tree, "workflow": workflow}


def item(result: dict[str, Any], name: str) -> dict[str, Any]:
    return next(found for found in result["criteria"] if found["name"] == name)


def assert_profile_of_the_guide(family: str) -> None:
    profile = Shelf().profile(family)
    assert [ref.id for ref in profile.gates] == GATES[family]
    assert {spec.id: Decimal(str(spec.weight)) for spec in profile.criteria} == {
        name: Decimal(weight) for name, weight in WEIGHTS[family].items()
    }
    result = graded(run(family))
    assert set(result["hard_gates"]) == {*REQUIRED, *GATES[family]}
    assert {found["name"]: Decimal(str(found["weight"])) for found in result["criteria"]} == {
        name: Decimal(weight) for name, weight in WEIGHTS[family].items()
    }


@pytest.mark.req("W-058")
def test_profile_a_has_the_gates_and_weights_of_the_guide_and_the_tests_dominate() -> None:
    assert_profile_of_the_guide("code-repair")
    params = {ref.id: ref.params for ref in Shelf().profile("A").gates}
    assert Decimal(str(params["tests_pass_to_pass_threshold_met"]["minimum"])) == Decimal("0.95")
    failing = run(
        "code-repair",
        tests={
            "fail_to_pass": {"passed": 0, "total": 2},
            "pass_to_pass": {"passed": 0, "total": 100},
        },
    )
    assert graded(failing)["weighted_score"] == 40.0


@pytest.mark.req("W-059")
def test_profile_b_has_the_gates_and_weights_of_the_guide() -> None:
    assert_profile_of_the_guide("dag-review")


@pytest.mark.req("W-060")
def test_profile_c_has_the_gates_and_weights_of_the_guide() -> None:
    assert_profile_of_the_guide("rag")


@pytest.mark.req("W-061")
def test_profile_d_has_the_gates_and_weights_of_the_guide() -> None:
    assert_profile_of_the_guide("tool-use")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_weights_of_a_profile_sum_to_one_exactly(family: str) -> None:
    assert sum(Decimal(str(spec.weight)) for spec in Shelf().profile(family).criteria) == 1


@pytest.mark.parametrize(
    ("alias", "family"),
    [("A", "code-repair"), ("B", "dag-review"), ("C", "rag"), ("D", "tool-use")],
)
def test_a_letter_is_an_alias_of_a_profile(alias: str, family: str) -> None:
    assert Shelf().profile(alias).id == f"{family}@1"
    assert graded(of_workflow(run(family), profile=alias, family=None))["profile"] == f"{family}@1"
    assert graded(run(family), profile=alias)["profile"] == f"{family}@1"


@pytest.mark.req("X-54")
@pytest.mark.parametrize("family", FAMILIES)
def test_each_profile_declares_which_criterion_is_its_correctness(family: str) -> None:
    roles = {
        spec.id: spec.role for spec in Shelf().profile(family).criteria if spec.role is not None
    }
    safety = {"safety": "safety"} if family in ("rag", "dag-review") else {}
    assert roles == {CORRECTNESS[family]: "correctness", **safety}
    result = graded(run(family))
    assert {
        found["name"]: found["critical_floor"]["norm"]
        for found in result["criteria"]
        if found["critical_floor"]
    } == {CORRECTNESS[family]: 0.7, **dict.fromkeys(safety, 0.8)}
    notes = result["placement"]["notes"]
    assert any("No criterion has the role safety" in note for note in notes) is not bool(safety)


@pytest.mark.req("W-004")
@pytest.mark.parametrize("family", FAMILIES)
def test_each_criterion_of_a_profile_stands_in_a_layer(family: str) -> None:
    assert {spec.id: spec.layer for spec in Shelf().profile(family).criteria} == LAYERS[family]


@pytest.mark.req("X-69")
@pytest.mark.parametrize("family", FAMILIES)
def test_each_criterion_has_a_fixed_id_and_a_label_for_people(family: str) -> None:
    for spec in Shelf().profile(family).criteria:
        assert spec.id == spec.id.lower().replace(" ", "_").replace("-", "_")
        assert spec.label
        assert spec.label != spec.id
    assert all(found["label"] for found in graded(run(family))["criteria"])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_rubric_that_a_profile_names_is_on_the_shelf_and_fits_over_it(family: str) -> None:
    named = Shelf().profile(family).rubric
    if named is None:
        assert all(spec.layer != 2 for spec in Shelf().profile(family).criteria), (
            "a judge has something to score here, and no rubric says what to look for"
        )
        return
    result = graded(of_workflow(run(family), rubric=named))
    assert result["rubric"] == named
    assert result["passed"] is True
    assert {found["name"]: Decimal(str(found["weight"])) for found in result["criteria"]} == {
        name: Decimal(weight) for name, weight in WEIGHTS[family].items()
    }


# --- which profile


@pytest.mark.req("W-088")
def test_each_family_is_scored_by_criteria_of_its_own_and_there_is_no_generic_profile() -> None:
    shelf = Shelf()
    criteria = {
        family: frozenset(spec.id for spec in shelf.profile_for_family(family).criteria)
        for family in FAMILIES
    }
    assert len(set(criteria.values())) == len(FAMILIES)
    shared = frozenset.intersection(*criteria.values())
    assert shared == {"efficiency"}


@pytest.mark.req("W-080", "W-085")
def test_a_workflow_selects_a_profile_and_overrides_its_rubric_and_the_result_shows_which_and_why(
    tmp_path: Path,
) -> None:
    shelf = library(
        tmp_path,
        rubrics={"strict@2": rubric("strict", "2", criterion("response_relevance", weight="0.9"))},
    )
    by_family = graded(run("rag"), shelf)
    assert by_family["selection"] == {
        "profile": {"id": "rag@1", "why": "for the workflow's family 'rag'"},
        "rubric": None,
    }
    assert (by_family["profile"], by_family["rubric"]) == ("rag@1", None)
    by_name = graded(
        of_workflow(run("rag"), family="dag-review", profile="rag@1", rubric="strict"), shelf
    )
    assert by_name["selection"] == {
        "profile": {"id": "rag@1", "why": "named by the run's workflow"},
        "rubric": {"id": "strict@2", "why": "named by the run's workflow"},
    }
    assert (by_name["profile"], by_name["rubric"]) == ("rag@1", "strict@2")
    assert item(by_name, "response_relevance")["weight"] == 0.9
    assert set(by_name["digests"]) >= {"profile", "rubric"}
    by_option = graded(
        of_workflow(run("rag"), profile="dag-review", rubric="dag-review"),
        shelf,
        profile="C",
        rubric="strict",
    )
    assert by_option["selection"] == {
        "profile": {"id": "rag@1", "why": "asked for with --profile"},
        "rubric": {"id": "strict@2", "why": "asked for with --rubric"},
    }


@pytest.mark.req("W-088")
@pytest.mark.parametrize(
    ("family", "near"),
    [
        ("ragg", "rag"),
        ("code_repair", "code-repair"),
        ("RAG", None),
        ("tooluse", "tool-use"),
        ("poetry", None),
        ("", None),
        (None, None),
    ],
)
def test_a_family_that_no_profile_serves_is_an_error_with_the_near_miss_and_never_a_default(
    family: str | None, near: str | None
) -> None:
    with pytest.raises(ShelfError) as caught:
        assay.score(of_workflow(run("rag"), family=family))
    assert caught.value.code == "SCO-010"
    assert caught.value.exit_code == 3
    assert ("Did you mean" in str(caught.value)) is (near is not None)
    assert near is None or f"'{near}'" in str(caught.value)


@pytest.mark.parametrize("key", ["profile", "rubric"])
@pytest.mark.parametrize(
    "name",
    [
        "rag@1.yaml",
        "./rag",
        "../rag",
        "/etc/passwd",
        "profiles/rag",
        "..\\rag",
        "rag.yml",
        ".",
        "..",
        "~/rag.yaml",
        "C:\\rag",
        "https://example.org/rag",
    ],
)
def test_a_run_names_an_item_on_the_shelf_and_never_a_path(key: str, name: str) -> None:
    with pytest.raises(ShelfError, match="not by a path") as caught:
        assay.score(of_workflow(run("rag"), **{key: name}))
    assert caught.value.code == "LIB-001"


@pytest.mark.parametrize("key", ["profile", "rubric"])
@pytest.mark.parametrize(
    "name",
    [
        "",
        "@",
        "@1",
        "rag@",
        "rag@9",
        "rag@1@1",
        "rag@*",
        "rag\x00",
        "ra\u0433",
        "*",
        " rag",
        "E",
        "rag@01",
    ],
)
def test_a_name_that_is_not_on_the_shelf_is_an_error_or_the_newest_of_that_name(
    key: str, name: str
) -> None:
    tree = of_workflow(run("rag"), **{key: name})
    if name == "rag@":
        assert graded(tree)[key] == "rag@1"
        return
    with pytest.raises(ShelfError) as caught:
        graded(tree)
    assert (caught.value.code, caught.value.exit_code) == ("LIB-001", 3)


def test_a_run_cannot_reach_a_file_beside_the_shelf(tmp_path: Path) -> None:
    shelf = library(tmp_path / "shelf", profiles={})
    (tmp_path / "loose.yaml").write_text(profile("loose", "1", family="loose"))
    with pytest.raises(ShelfError):
        graded(of_workflow(run("rag"), profile="../../loose"), shelf)
    (tmp_path / "shelf" / "profiles" / "note.txt").write_text("no profile")
    with pytest.raises(ShelfError):
        graded(of_workflow(run("rag"), profile="note"), shelf)


# --- a bare scorecard under a profile


def test_a_bare_scorecard_needs_no_profile_and_its_gates_are_the_whole_list() -> None:
    result = graded(scorecard({"norm": 1}, hard_gates={"own": True}))
    assert (result["passed"], set(result["hard_gates"]), result["profile"]) == (True, {"own"}, None)


@pytest.mark.parametrize("family", FAMILIES)
def test_with_a_profile_its_gates_are_required_of_a_bare_scorecard_too(family: str) -> None:
    demanded = {*REQUIRED, *GATES[family]}
    result = graded(scorecard({"norm": 1}, hard_gates={"own": True}), profile=family)
    assert set(result["hard_gates"]) == {"own", *demanded}
    assert (result["passed"], result["grade"], result["reason"]) == (
        False,
        "F",
        "hard_gate_failure",
    )
    assert set(result["hard_gate_failures"]) == demanded
    for name in demanded:
        assert result["hard_gates"][name]["status"] == "undetermined"
        assert f"{family}@1 requires this gate" in result["hard_gates"][name]["reason"]
    own = own_card(family)
    whole = graded({**own, "hard_gates": dict.fromkeys(demanded, True)}, profile=family)
    assert (whole["passed"], whole["profile"]) == (True, f"{family}@1")
    for name in demanded:
        assert (
            graded(
                {**own, "hard_gates": {other: True for other in demanded if other != name}},
                profile=family,
            )["passed"]
            is False
        )


def own_card(family: str) -> dict[str, Any]:
    """A perfect scorecard of a profile, with nothing but what a card must write itself."""
    best = {"likert_1_5": 5, "ratio": {"passed": 1, "total": 1}, "lower_is_better": 0}
    criteria = [
        {
            "name": item.id,
            "raw_score": best.get(item.formula, 1),
            "formula_id": item.formula,
            "weight": item.weight,
        }
        for item in Shelf().profile(family).criteria
    ]
    gates = dict.fromkeys([*REQUIRED, *GATES[family]], True)
    return {
        "schema": "assay.scorecard/1",
        "run_id": "r-1",
        "hard_gates": gates,
        "criteria": criteria,
    }


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("how", ["asked", "claimed"])
def test_a_scorecard_under_a_profile_has_its_criteria_roles_layers_and_floors_whatever_it_leaves_out(
    family: str, how: str
) -> None:
    asked = family if how == "asked" else None
    own = own_card(family) | (
        {} if how == "asked" else {"profile": {"id": f"{family}@1", "why": "I say so"}}
    )
    whole = graded(own, profile=asked)
    assert whole["passed"] is True
    planned = {found.id: found for found in Shelf().profile(family).criteria}
    assert {found["name"]: (found["role"], found["layer"]) for found in whole["criteria"]} == {
        n: (s.role, s.layer) for n, s in planned.items()
    }
    for name in planned:
        lost = graded(
            {**own, "criteria": [found for found in own["criteria"] if found["name"] != name]},
            profile=asked,
        )
        assert f"{family}@1 requires this criterion" in item(lost, name)["missing"]
        if planned[name].weight:
            assert lost["weighted_score"] < whole["weighted_score"]
        else:
            assert lost["floor_failures"] == [name]
    worst = {"likert_1_5": 1, "ratio": {"passed": 0, "total": 1}}
    low = [
        (
            {**found, "raw_score": worst.get(found["formula_id"], 0)}
            if planned[found["name"]].role
            else found
        )
        for found in own["criteria"]
    ]
    if any(found.role for found in planned.values()):
        assert graded({**own, "criteria": low}, profile=asked)["reason"] == "critical_floor_failure"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("weight", 0.9),
        ("weight", 0),
        ("formula_id", "binary"),
        ("role", "style"),
        ("layer", 3),
        ("params", {"slo_good": 1, "slo_bad": 2}),
        ("params", {"slo_good": Decimal("1.5"), "slo_bad": 2}),
        ("critical_floor", {"norm": 0.01}),
        ("floor_override", {"value": {"norm": 0}, "reason": "tuned"}),
    ],
)
def test_what_a_scorecard_says_otherwise_than_its_profile_is_a_fault(
    tmp_path: Path, key: str, value: Any
) -> None:
    floored = profile("own", "1", family="own", quality=", critical_floor: {raw: 3}")
    shelf = library(tmp_path, profiles={"own@1": floored})
    criteria = [
        {"name": "quality", "raw_score": 5, "formula_id": "likert_1_5", "weight": 3},
        {"name": "speed", "raw_score": 9000, "formula_id": "lower_is_better", "weight": 1},
    ]
    card = {
        "schema": "assay.scorecard/1",
        "run_id": "r",
        "hard_gates": dict.fromkeys(REQUIRED, True),
        "criteria": criteria,
    }
    assert graded(card, shelf, profile="own")["passed"] is True
    criteria[0 if key != "params" else 1][key] = value
    with pytest.raises(EvidenceError) as refused:
        graded(card, shelf, profile="own")
    assert refused.value.code == "SCO-014"
    assert refused.value.faults[0].path.endswith(key)
    assert "Decimal(" not in refused.value.message


@pytest.mark.parametrize("factor", [1, Decimal("0.5"), 30])
@pytest.mark.parametrize("wrong", range(5))
def test_a_wrong_weight_is_blamed_on_its_own_criterion(factor: Any, wrong: int) -> None:
    own = own_card("rag")
    for criterion in own["criteria"]:
        criterion["weight"] = Decimal(str(criterion["weight"])) * factor
    assert graded(own, profile="rag")["passed"] is True
    weighted = [at for at, found in enumerate(own["criteria"]) if found["weight"]]
    at = weighted[wrong % len(weighted)]
    own["criteria"][at]["weight"] *= 2
    with pytest.raises(EvidenceError) as refused:
        graded(own, profile="rag")
    assert [fault.path for fault in refused.value.faults] == [f"criteria[{at}].weight"]


def test_a_malformed_name_of_an_added_criterion_is_refused_as_a_criterion_that_is_missing() -> None:
    tree = {**run("rag"), "metadata": {"added_criteria": [["tone"]]}}
    with pytest.raises(EvidenceError) as refused:
        graded(tree)
    assert refused.value.code == "SCO-016"


def test_a_criterion_that_the_profile_lacks_does_not_count_and_is_named() -> None:
    own = own_card("rag")
    padded = graded(
        {
            **own,
            "criteria": [
                *own["criteria"],
                {"name": "charm", "raw_score": 1, "formula_id": "binary", "weight": 100},
            ],
        },
        profile="rag",
    )
    assert padded["weighted_score"] == graded(own, profile="rag")["weighted_score"]
    assert any("'charm' is not a criterion of rag@1" in note for note in padded["notes"])


def test_a_scorecard_cannot_excuse_itself_from_the_profile_that_was_asked_for() -> None:
    claimed = {"id": "rag@1", "why": "because I say so"}
    result = graded(
        scorecard({"norm": 1}, hard_gates={"own": True}, profile=claimed), profile="code-repair"
    )
    assert result["passed"] is False
    assert set(result["hard_gate_failures"]) == {*REQUIRED, *GATES["code-repair"]}
    assert (
        "code-repair@1 requires this gate"
        in result["hard_gates"]["patch_applies_cleanly"]["reason"]
    )


def test_the_command_requires_the_gates_of_the_profile_too(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(json.dumps(scorecard({"norm": 1})))
    assert assay("grade", "card.json").code == 0
    asked = assay("grade", "card.json", "--profile", "rag", "--json")
    assert asked.code == 1
    assert "answer_grounded" in asked.json()["results"][0]["hard_gate_failures"]


# --- a rubric over a profile


def criterion(name: str, /, **changes: Any) -> str:
    lines: dict[str, Any] = {
        "name": name,
        "scale": "[1, 5]",
        "weight": "1",
        "definition": "What it means.",
        "evidence_required": '["the answer"]',
        "anchors": '{"1": bad, "2": poor, "3": fair, "4": good, "5": best}',
        **changes,
    }
    return "  - " + "\n    ".join(f"{key}: {value}" for key, value in lines.items()) + "\n"


def rubric(name: str, version: str, *criteria: str) -> str:
    return f"rubric_id: {name}\nversion: {version}\ncriteria:\n" + "".join(criteria)


def profile(
    name: str, version: str, *, family: str, gates: str = "[]", more: str = "", quality: str = ""
) -> str:
    return (
        f"profile: {name}\nversion: {version}\ntitle: Of our own\nfamily: {family}\n{more}gates:"
        f" {gates}\ncriteria:\n  - {{id: quality, label: Quality, weight: 0.75, layer: 2, formula:"
        f" likert_1_5{quality}}}\n  - {{id: speed, label: Speed, weight: 0.25, layer: 3, formula:"
        " lower_is_better, params: {slo_good: 8000, slo_bad: 30000}, measure: latency}\n"
    )


def library(
    root: Path, *, profiles: dict[str, str] | None = None, rubrics: dict[str, str] | None = None
) -> Shelf:
    for kind, files in (("profiles", profiles), ("rubrics", rubrics)):
        (root / kind).mkdir(parents=True, exist_ok=True)
        for name, text in (files or {}).items():
            (root / kind / f"{name}.yaml").write_text(text)
    return Shelf(str(root))


OWN = {"own@1": profile("own", "1", family="own")}


def own_run(**workflow: Any) -> dict[str, Any]:
    return of_workflow(run("rag", scores={"quality": {"raw": 5}}), family="own", **workflow)


@pytest.mark.req("W-080")
def test_a_rubric_changes_the_criteria_it_names_adds_the_others_and_removes_none(
    tmp_path: Path,
) -> None:
    text = rubric(
        "house",
        "1",
        criterion(
            "quality",
            scale="[0, 1]",
            weight="2",
            anchors="{0: bad, 1: best}",
            label="House quality",
        ),
        criterion("brevity", weight="3"),
    )
    shelf = library(tmp_path, profiles=OWN, rubrics={"house@1": text})
    tree = own_run(rubric="house")
    tree["scores"] = {"quality": {"raw": 0.5}, "brevity": {"raw": 5}}
    result = graded(tree, shelf)
    assert [found["name"] for found in result["criteria"]] == ["quality", "speed", "brevity"]
    quality = item(result, "quality")
    assert (
        quality["weight"],
        quality["formula_id"],
        quality["norm"],
        quality["label"],
        quality["layer"],
    ) == (2, "zero_one", 0.5, "House quality", 2)
    assert (
        item(result, "brevity")["weight"],
        item(result, "brevity")["formula_id"],
        item(result, "brevity")["layer"],
    ) == (3, "likert_1_5", 2)
    assert (item(result, "speed")["weight"], item(result, "speed")["formula_id"]) == (
        0.25,
        "lower_is_better",
    )
    # (2 * 0.5 + 0.25 * 1 + 3 * 1) / 5.25
    assert result["weighted_score"] == 80.95
    assert (
        "rubric house@1 over own@1: changes quality; adds brevity; leaves speed" in result["notes"]
    )


def test_a_criterion_that_a_rubric_adds_counts_when_its_score_is_missing(tmp_path: Path) -> None:
    shelf = library(
        tmp_path,
        profiles=OWN,
        rubrics={"house@1": rubric("house", "1", criterion("brevity", weight="1"))},
    )
    result = graded(own_run(rubric="house"), shelf)
    assert (item(result, "brevity")["raw_score"], result["weighted_score"], result["passed"]) == (
        None,
        50.0,
        False,
    )


def test_a_rubric_that_misspells_a_criterion_of_the_profile_is_refused_with_the_near_miss(
    tmp_path: Path,
) -> None:
    shelf = library(
        tmp_path, profiles=OWN, rubrics={"house@1": rubric("house", "1", criterion("qualty"))}
    )
    with pytest.raises(ShelfError, match="Did you mean 'quality'") as caught:
        graded(own_run(rubric="house"), shelf)
    assert caught.value.code == "SCO-012"


def test_a_rubric_cannot_change_the_role_of_a_criterion(tmp_path: Path) -> None:
    with_role = {"own@1": profile("own", "1", family="own", quality=", role: correctness")}
    shelf = library(
        tmp_path,
        profiles=with_role,
        rubrics={
            "same@1": rubric("same", "1", criterion("quality", role="correctness")),
            "other@1": rubric("other", "1", criterion("quality", role="style")),
            "silent@1": rubric("silent", "1", criterion("quality")),
        },
    )
    assert item(graded(own_run(rubric="same"), shelf), "quality")["role"] == "correctness"
    assert item(graded(own_run(rubric="silent"), shelf), "quality")["role"] == "correctness"
    with pytest.raises(ShelfError, match="role") as caught:
        graded(own_run(rubric="other"), shelf)
    assert caught.value.code == "SCO-012"


def test_a_judge_cannot_replace_what_the_profile_measures(tmp_path: Path) -> None:
    shelf = library(
        tmp_path, profiles=OWN, rubrics={"house@1": rubric("house", "1", criterion("speed"))}
    )
    with pytest.raises(ShelfError, match="speed") as caught:
        graded(own_run(rubric="house"), shelf)
    assert caught.value.code == "SCO-012"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_rubric_touches_no_gate(tmp_path: Path, family: str) -> None:
    shelf = library(tmp_path, rubrics={"house@1": rubric("house", "1", criterion("brevity"))})
    tree = run(family, status="failed", steps=None)
    before, after = graded(tree, shelf), graded(of_workflow(tree, rubric="house"), shelf)
    assert before["hard_gates"] == after["hard_gates"]
    assert after["hard_gate_failures"] == ["overall_status_success", "no_critical_step_failures"]


@pytest.mark.req("X-53")
@pytest.mark.parametrize(
    ("own", "over", "norm"),
    [
        ("{raw: 4}", {}, 0.75),
        ("{norm: 0.9}", {}, 0.9),
        ("{raw: 4}", {"critical_floor": "4.5"}, 0.875),
        ("{raw: 4}", {"scale": "[0, 1]", "anchors": "{0: bad, 1: best}"}, 0.75),
        ("{raw: 4}", {"critical_floor": "2"}, 0.75),
        ("{norm: 0.9}", {"critical_floor": "{norm: 0.1}"}, 0.9),
        ("{raw: 4}", {"floor_override": "{value: {raw: 2}, reason: calibrated}"}, 0.25),
    ],
    ids=[
        "kept raw",
        "kept norm",
        "raised",
        "kept over another scale",
        "not lowered raw",
        "not lowered norm",
        "lowered with a reason",
    ],
)
def test_a_rubric_raises_the_floor_of_a_profile_and_never_drops_it_without_a_reason(
    tmp_path: Path, own: str, over: dict[str, str], norm: float
) -> None:
    with_floor = {"own@1": profile("own", "1", family="own", quality=f", critical_floor: {own}")}
    shelf = library(
        tmp_path,
        profiles=with_floor,
        rubrics={"house@1": rubric("house", "1", criterion("quality", **over))},
    )
    tree = own_run(rubric="house")
    tree["scores"] = {"quality": {"raw": 1}}
    assert item(graded(tree, shelf), "quality")["critical_floor"]["norm"] == norm


# --- a shelf of one's own


def test_a_gate_of_a_teams_own_says_that_its_verdict_comes_with_the_run(tmp_path: Path) -> None:
    gates = "[{id: no_pii_leak, verdict: true, title: No personal data}, {id: answer_grounded}]"
    shelf = library(tmp_path, profiles={"own@1": profile("own", "1", family="own", gates=gates)})
    silent = graded(own_run(), shelf)
    assert silent["hard_gates"]["no_pii_leak"]["status"] == "undetermined"
    assert silent["hard_gate_failures"] == ["no_pii_leak"]
    for passed in (True, False):
        result = graded(
            {**own_run(), "gates": {"no_pii_leak": {"passed": passed, "reason": "scanned"}}}, shelf
        )
        assert result["passed"] is passed
        assert "scanned" in result["hard_gates"]["no_pii_leak"]["reason"]


@pytest.mark.parametrize(
    ("gates", "culprit"),
    [
        ("[{id: no_pii_leak}]", "no gate is named 'no_pii_leak'"),
        ("[{id: answer_grouned}]", "Did you mean 'answer_grounded'?"),
        ("[{id: answer_grounded, verdict: true}]", "cannot be left to a verdict"),
        ("[{id: answer_grounded, params: {minimun: 1}}]", "Did you mean 'minimum'?"),
        ("[{id: answer_grounded}, {id: answer_grounded}]", "appears twice"),
        ("[{id: answer_grounded, weight: 1}]", "a gate carries no weight"),
        ("[{id: answer_gr\u043eunded, verdict: true}]", "CYRILLIC"),
        ("[answer_grounded]", "must be an object"),
        ("{answer_grounded: true}", "must be a list"),
    ],
)
def test_a_profile_with_a_gate_that_is_none_is_refused(gates: str, culprit: str) -> None:
    with pytest.raises(ShelfError) as caught:
        load_profile(
            parse_yaml(profile("own", "1", family="own", gates=gates).encode(), "own.yaml")
        )
    assert caught.value.code == "LIB-002"
    assert culprit in str(caught.value)
    assert "line" in str(caught.value)


@pytest.mark.parametrize(
    "minimum",
    ["high", '"0.95"', "-0.1", "0", "1.01", "95", "true", "null", "[1]", ".nan", "{a: 1}"],
)
def test_a_share_that_a_gate_demands_must_be_a_number_above_zero_and_at_most_one(
    minimum: str,
) -> None:
    text = profile(
        "own", "1", family="own", gates=f"[{{id: answer_grounded, params: {{minimum: {minimum}}}}}]"
    )
    with pytest.raises(ShelfError) as caught:
        load_profile(parse_yaml(text.encode(), "own.yaml"))
    assert caught.value.code == "LIB-002"


@pytest.mark.parametrize(
    ("old", "new", "culprit"),
    [
        ("weight: 0.75", "weight: -0.75", "below zero"),
        ("weight: 0.75", 'weight: "0.75"', "must be a number"),
        ("weight: 0.75", "weight: true", "must be a number"),
        ("weight: 0.75, ", "", "weight"),
        ("layer: 2", "layer: 4", "layer"),
        ("layer: 2, ", "", "layer"),
        ("formula: likert_1_5", "formula: likert_1_6", "Did you mean 'likert_1_5'?"),
        (
            "formula: likert_1_5",
            "formula: likert_1_5, params: {slo_good: 1}",
            "takes the parameters",
        ),
        ("slo_good: 8000, slo_bad: 30000", "slo_good: 8000", "takes the parameters"),
        ("slo_good: 8000, slo_bad: 30000", "slo_good: 30000, slo_bad: 8000", "slo_bad"),
        ("slo_good: 8000, slo_bad: 30000", "slo_good: fast, slo_bad: slow", "must be numbers"),
        ("measure: latency", "measure: latncy", "Did you mean 'latency'?"),
        ("measure: latency", "measure: tests_passed", "ratio"),
        ("id: speed", "id: quality", "appears twice"),
        ("id: speed", "id: answer_grounded", "a gate carries no weight"),
        ("id: speed", "id: sp\u0435ed", "CYRILLIC"),
        ("label: Quality", "lable: Quality", "Did you mean 'label'?"),
        ("formula: likert_1_5", "formula: likert_1_5, floor: 2", "Did you mean 'critical_floor'"),
        ("formula: likert_1_5", "formula: likert_1_5, critical_floor: 9", "critical_floor"),
        ("formula: likert_1_5", "formula: likert_1_5, critical_floor: 1", "two ways"),
        ("formula: likert_1_5", "formula: likert_1_5, floor_override: {value: {raw: 2}}", "reason"),
        (
            "formula: likert_1_5",
            "formula: zero_one, measure: rouge_l, critical_floor: 0.6",
            "no floor may rest on it",
        ),
        (
            "formula: likert_1_5",
            "formula: zero_one, measure: bleu, role: correctness",
            "no floor may rest on it",
        ),
        ("family: own\n", "", "family"),
        ("title: Of our own\n", "", "title"),
    ],
)
def test_a_profile_with_a_fault_is_refused_with_the_place_and_the_near_miss(
    old: str, new: str, culprit: str
) -> None:
    good = profile("own", "1", family="own")
    assert isinstance(load_profile(parse_yaml(good.encode(), "own.yaml")), Profile)
    assert old in good
    with pytest.raises(ShelfError) as caught:
        load_profile(parse_yaml(good.replace(old, new, 1).encode(), "own.yaml"))
    assert caught.value.code == "LIB-002"
    assert culprit in str(caught.value)


def test_all_weights_of_zero_are_refused_in_a_profile() -> None:
    text = (
        profile("own", "1", family="own")
        .replace("weight: 0.75", "weight: 0")
        .replace("weight: 0.25", "weight: 0")
    )
    with pytest.raises(ShelfError, match="all weights are zero"):
        load_profile(parse_yaml(text.encode(), "own.yaml"))


def test_the_newest_version_serves_and_a_pinned_one_is_used(tmp_path: Path) -> None:
    shelf = library(
        tmp_path,
        profiles={
            f"own@{version}": profile("own", version, family="own")
            for version in ("1", "2", "9", "10")
        },
    )
    assert shelf.profile("own").id == "own@10"
    assert shelf.profile_for_family("own").id == "own@10"
    assert graded(own_run(), shelf)["profile"] == "own@10"
    assert graded(own_run(profile="own@2"), shelf)["profile"] == "own@2"
    assert graded(own_run(), shelf, profile="own@9")["profile"] == "own@9"
    dotted = library(
        tmp_path / "dotted",
        profiles={
            f"own@{version}": profile("own", f'"{version}"', family="own")
            for version in ("1.9", "1.10", "1.2")
        },
    )
    assert dotted.profile("own").id == "own@1.10"


def test_an_alias_stands_for_the_newest_version_too(tmp_path: Path) -> None:
    shelf = library(
        tmp_path,
        profiles={
            f"own@{version}": profile("own", version, family="own", more="alias: Z\n")
            for version in ("2", "3")
        },
    )
    assert shelf.profile("Z").id == shelf.profile("own").id == "own@3"


def test_a_teams_own_newer_version_of_a_shipped_profile_is_taken_only_where_it_is_written_out(
    tmp_path: Path,
) -> None:
    shelf = library(
        tmp_path, profiles={"rag@9": profile("rag", "9", family="rag", more="alias: C\n")}
    )
    assert graded(run("rag"), shelf)["profile"] == "rag@1"
    assert (
        shelf.profile("rag").id
        == shelf.profile("C").id
        == shelf.profile_for_family("rag").id
        == "rag@1"
    )
    assert graded(run("rag"), shelf, profile="rag@9")["profile"] == "rag@9"
    assert graded(run("rag"), shelf, profile="rag@1")["profile"] == "rag@1"
    assert graded(run("dag-review"), shelf)["profile"] == "dag-review@1"


def test_a_profile_serves_only_the_family_that_it_names(tmp_path: Path) -> None:
    other = library(
        tmp_path / "a", profiles={"support-bot@1": profile("support-bot", "1", family="support")}
    )
    assert other.profile_for_family("support").id == "support-bot@1"
    misled = library(
        tmp_path / "b", profiles={"support@1": profile("support", "1", family="billing")}
    )
    with pytest.raises(ShelfError) as caught:
        misled.profile_for_family("support")
    assert caught.value.code == "SCO-010"


def test_a_file_whose_name_is_not_what_it_holds_is_refused(tmp_path: Path) -> None:
    shelf = library(tmp_path, profiles={"own@2": profile("own", "1", family="own")})
    with pytest.raises(ShelfError, match="named 'own@2' but contains 'own@1'") as caught:
        shelf.profile("own")
    assert caught.value.code == "LIB-002"


def test_a_folder_that_is_not_there_is_no_library(tmp_path: Path) -> None:
    with pytest.raises(ShelfError) as caught:
        Shelf(str(tmp_path / "nowhere"))
    assert caught.value.code == "LIB-001"


def test_the_command_takes_a_library_and_a_profile_from_a_file(assay: Any, tmp_path: Path) -> None:
    library(tmp_path / "shelf", profiles=OWN)
    (tmp_path / "run.json").write_text(json.dumps(own_run()))
    assert assay("grade", "run.json").code == 3
    for more in (["--library", "shelf"], ["--profile", "shelf/profiles/own@1.yaml"]):
        done = assay("grade", "run.json", "--json", *more)
        assert done.code == 0, done.err
        assert done.json()["results"][0]["profile"] == "own@1"


# --- what is published stays as it is


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("published")
    for kind in ("profiles", "policies", "rubrics"):
        shutil.copytree(Path(BUILTIN) / kind, root / kind)
    publish(str(root), {})
    return root


@pytest.fixture
def copied(published: Path, tmp_path: Path) -> Path:
    """The built-in shelf, published, in its own folder."""
    return shutil.copytree(published, tmp_path / "shelf")


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_the_published_shelf_is_as_it_was_published(copied: Path) -> None:
    assert changed(Shelf()) == []
    assert changed(Shelf(str(copied))) == []
    for family in FAMILIES:
        assert graded(run(family), Shelf(str(copied)))["digests"] == graded(run(family))["digests"]


@pytest.mark.parametrize(
    ("file", "old", "new", "choice"),
    [
        ("profiles/rag@1.yaml", "weight: 0.35", "weight: 0.36", {}),
        ("profiles/rag@1.yaml", "  - id: citations_present_for_claims\n", "", {}),
        ("profiles/rag@1.yaml", "\n", "\n# only a remark\n", {}),
        ("policies/workflow@1.yaml", "pass_threshold: 70", "pass_threshold: 1", {}),
        ("rubrics/rag@1.yaml", "weight: 0.25", "weight: 0.01", {"rubric": "rag@1"}),
    ],
)
def test_a_published_file_that_has_changed_is_refused_and_never_graded_with(
    copied: Path, file: str, old: str, new: str, choice: dict[str, str]
) -> None:
    assert graded(run("rag"), Shelf(str(copied)), **choice)["passed"] is True
    edit(copied / file, old, new)
    with pytest.raises(ShelfError) as caught:
        graded(run("rag"), Shelf(str(copied)), **choice)
    assert caught.value.code == "LIB-003"
    assert "new version" in caught.value.fix
    assert changed(Shelf(str(copied))) == [file.removesuffix(".yaml")]
    with pytest.raises(ShelfError) as again:
        publish(str(copied), {})
    assert again.value.code == "LIB-003"


def test_the_command_refuses_a_changed_published_profile(
    assay: Any, copied: Path, tmp_path: Path
) -> None:
    edit(copied / "profiles" / "rag@1.yaml", "weight: 0.35", "weight: 0.36")
    (tmp_path / "run.json").write_text(json.dumps(run("rag")))
    done = assay("grade", "run.json", "--library", "shelf", "--json")
    assert done.code == 3
    assert "LIB-003" in done.err + done.out
    assert json.loads(done.out)["results"] == []


def test_a_change_in_a_new_version_is_welcome(copied: Path) -> None:
    text = (
        (copied / "profiles" / "rag@1.yaml")
        .read_text()
        .replace("version: 1", "version: 9")
        .replace("weight: 0.35", "weight: 0.36")
    )
    (copied / "profiles" / "rag@9.yaml").write_text(text)
    assert graded(run("rag"), Shelf(str(copied)), profile="rag@9")["profile"] == "rag@9"
    assert publish(str(copied), {}) == ["profiles/rag@9"]
    assert changed(Shelf(str(copied))) == []
    edit(copied / "profiles" / "rag@9.yaml", "weight: 0.36", "weight: 0.37")
    with pytest.raises(ShelfError) as caught:
        graded(run("rag"), Shelf(str(copied)), profile="rag@9")
    assert caught.value.code == "LIB-003"
    assert graded(run("rag"), Shelf(str(copied)), profile="rag@1")["profile"] == "rag@1"


def test_a_file_with_the_other_ending_can_be_published_too(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "own@1.yml").write_text(profile("own", "1", family="own"))
    assert publish(str(tmp_path), {}) == ["profiles/own@1"]
    assert changed(Shelf(str(tmp_path))) == []
    assert graded(own_run(), Shelf(str(tmp_path)))["profile"] == "own@1"


def test_a_broken_profile_is_never_published(tmp_path: Path) -> None:
    library(
        tmp_path,
        profiles={"own@1": profile("own", "1", family="own").replace("weight: 0.75", "weight: -1")},
    )
    with pytest.raises(AssayError) as caught:
        publish(str(tmp_path), {})
    assert caught.value.code == "LIB-002"
    assert not (tmp_path / "published.lock").exists()


@pytest.mark.parametrize("wrong", [1, "true", 0.5])
def test_a_gate_demand_is_never_met_by_a_scorecard_value_that_is_no_verdict(wrong: Any) -> None:
    demanded = {*REQUIRED, *GATES["rag"]}
    with pytest.raises(EvidenceError):
        graded(scorecard({"norm": 1}, hard_gates=dict.fromkeys(demanded, wrong)), profile="rag")
