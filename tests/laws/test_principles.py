"""The principles of the scoring guide that no single module owns."""

from __future__ import annotations

import pytest

import assay
from assay.errors import ShelfError
from assay.files.yaml_files import parse_yaml
from assay.library.shelf import Shelf
from assay.scoring.profile import make_plan
from assay.scoring.rubric import load_rubric
from documents import run


@pytest.mark.req("W-005")
def test_what_can_be_measured_is_measured_and_a_supplied_score_does_not_replace_it() -> None:
    evidence = run(
        "code-repair",
        tests={
            "fail_to_pass": {"passed": 2, "total": 2},
            "pass_to_pass": {"passed": 98, "total": 98},
        },
    )
    evidence["scores"]["objective_tests"] = {
        "raw": {"passed": 1, "total": 100},
        "source": {"kind": "llm", "name": "judge"},
    }
    evidence["scores"]["efficiency"] = {"raw": 1}
    evidence["latency_ms"] = 330_000  # half way from good to bad, and the cost is 0
    card = assay.score(evidence)
    scores = {criterion.name: criterion.raw_score for criterion in card.criteria}
    assert scores["objective_tests"] == {"passed": 100, "total": 100}
    assert scores["efficiency"] == 0.75
    assert len([note for note in card.notes if "does not count" in note]) == 2


@pytest.mark.req("W-005")
def test_tests_outweigh_all_else_in_code_repair() -> None:
    criteria = Shelf().profile("code-repair").criteria
    measured = [item for item in criteria if item.layer == 1]
    assert 2 * sum(item.weight for item in measured) > sum(item.weight for item in criteria)


@pytest.mark.req("W-006")
def test_a_rubric_cannot_hand_to_a_judge_what_the_profile_measures() -> None:
    text = b"""
rubric_id: soft
version: 1
criteria:
  - name: objective_tests
    scale: [1, 5]
    weight: 0.6
    definition: The tests look good.
    evidence_required: [a glance]
    anchors: {"1": a, "2": b, "3": c, "4": d, "5": e}
"""
    rubric = load_rubric(parse_yaml(text, "soft.yaml"))
    with pytest.raises(ShelfError, match="measures from the evidence") as refused:
        make_plan(Shelf().profile("code-repair"), why="", rubric=rubric)
    assert refused.value.code == "SCO-012"


@pytest.mark.req("W-006")
def test_the_built_in_rubrics_ask_a_judge_only_about_what_no_measure_reads() -> None:
    shelf = Shelf()
    for entry in shelf.entries("profiles"):
        profile = shelf.profile(entry.id)
        judged = (
            {criterion.name for criterion in shelf.rubric(profile.rubric).criteria}
            if profile.rubric
            else set()
        )
        assert judged == {item.id for item in profile.criteria if item.layer == 2}
        assert not any(item.measure for item in profile.criteria if item.layer == 2)
