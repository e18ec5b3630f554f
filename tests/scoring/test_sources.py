"""Where the evidence of each criterion and gate comes from, before anything runs."""

from __future__ import annotations

import pytest

from assay.files.yaml_files import parse_yaml
from assay.library.shelf import Shelf
from assay.scoring.gates import GATES
from assay.scoring.metrics import MEASURES
from assay.scoring.profile import Profile, load_profile
from assay.scoring.sources import (
    NOBODY,
    criterion_sources,
    giver_of,
    without_source,
)

OWN = """
profile: own
version: 1
title: Own
family: own
judge: {calibration: by_policy}
gates:
  - {id: answer_grounded}
  - {id: no_sandbox_violation}
  - {id: no_pii, verdict: true}
criteria:
  - {id: precision, label: P, weight: 1, layer: 1, formula: zero_one, measure: context_precision}
  - {id: recall, label: R, weight: 1, layer: 1, formula: zero_one, measure: context_recall}
  - {id: severity, label: S, weight: 1, layer: 1, formula: zero_one, measure: severity_weighted_support}
  - {id: coherence, label: C, weight: 1, layer: 2, formula: likert_1_5}
  - {id: house_style, label: H, weight: 1, layer: 2, formula: zero_one}
"""


@pytest.fixture
def own() -> Profile:
    return load_profile(parse_yaml(OWN.encode(), "own.yaml"))


def kinds(profile: Profile, **configuration: object) -> dict[str, str]:
    found = criterion_sources(profile, **configuration)
    return {source.id: source.kind for source in found}


def test_each_criterion_and_gate_names_where_its_evidence_comes_from(own: Profile) -> None:
    found = kinds(own, judge=True, rubric=Shelf().rubric("quality@1"), scorers=["no_pii"])
    assert found["overall_status_success"] == "measured"
    assert found["answer_grounded"] == "judge"
    assert found["no_sandbox_violation"] == "measured"
    assert found["no_pii"] == "scorer"
    assert found["precision"] == "measured"
    assert found["coherence"] == "judge"
    assert found["house_style"] == "nowhere"


def test_without_a_judge_what_a_judge_decides_has_no_source_and_says_so(own: Profile) -> None:
    sources = criterion_sources(own, judge=False, rubric=Shelf().rubric("quality@1"))
    said = {source.id: source.sentence for source in without_source(sources)}
    assert said["answer_grounded"] == (
        "gate answer_grounded has no source in this configuration: a judge decides"
        " `claims[].supported`, and none is configured"
    )
    assert said["coherence"].endswith("a judge scores it, and none is configured")
    assert "precision" not in said


def test_a_dataset_without_the_ids_leaves_only_the_judge(own: Profile) -> None:
    gone = ["expected.relevant_ids"]
    said = {one.id: one.lacks for one in criterion_sources(own, judge=True, absent=gone)}
    assert said["recall"].startswith("it needs `expected")
    assert said["recall"].endswith(", which the dataset doesn't have")
    assert kinds(own, judge=True, absent=gone)["precision"] == "judge"
    assert kinds(own, judge=True, absent=gone)["recall"] == "nowhere"
    assert kinds(own, judge=False, absent=gone)["precision"] == "nowhere"
    assert kinds(own, judge=False, absent=["expected"])["recall"] == "nowhere"


def test_what_nobody_can_give_is_nowhere_even_with_a_judge(own: Profile) -> None:
    assert kinds(own, judge=True)["severity"] == "nowhere"
    assert kinds(own, judge=True, scorers=["house_style"])["house_style"] == "scorer"
    assert kinds(own, judge=True, absent=["gates.no_sandbox_violation"])[
        "no_sandbox_violation"
    ] == ("nowhere")


@pytest.mark.parametrize("sheet", [*MEASURES, *GATES])
def test_every_data_sheet_names_fields_that_somebody_is_known_to_give(sheet: str) -> None:
    entry = MEASURES[sheet] if sheet in MEASURES else GATES[sheet]
    if sheet in GATES and not GATES[sheet].is_computed:
        return
    ways = entry.evidence
    assert ways
    assert all(ways)
    givers = {giver_of(field) for field in ways[0]}
    assert NOBODY not in givers or sheet == "severity_weighted_support"
