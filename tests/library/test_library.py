"""The shelf and its upkeep: list, show, check, publish, versions and schema-of; the lints;
and the fingerprints that move when behaviour does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from msgspec import structs

import assay as package
from assay import exact
from assay.canon import digest
from assay.cli.main import run as run_command
from assay.errors import ShelfError
from assay.exact import NORM_ONE
from assay.files.json_files import Document
from assay.formulas import FORMULAS
from assay.grading import rules
from assay.library import behaviour, fingerprint
from assay.library.fingerprint import System, check
from assay.library.golden_inputs import golden
from assay.library.lock import RecordedSystem, lock_of
from assay.library.shelf import KINDS, Shelf
from assay.records import grade as grade_record
from assay.records.reading import read_run
from assay.scoring import scorecard as scoring
from assay.scoring.gates import GATES, GateResult
from assay.scoring.metrics import MEASURES
from assay.scoring.metrics.examples import EXAMPLES
from assay.scoring.metrics.measure import Undetermined
from cards import graded
from checkout import ROOT
from commands import run_here
from documents import FAMILIES, run, scorecard
from examples import CAMPAIGN

PACKAGE = Path(package.__file__).parent
LIBRARY = PACKAGE / "library"
SHIPPED = len(list(LIBRARY.glob("*/*@*.yaml")))


class Copy:
    """A copy of the package that a test may spoil, and its command: `copy.run("versions")`. Its
    library is `copy.library`, its folder `copy.folder`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.library = folder / "copy" / "assay" / "library"
        shutil.copytree(PACKAGE, folder / "copy" / "assay")

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "assay", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder / "copy")},
            check=False,
        )


@pytest.fixture
def own_copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


# --- list and show


def test_list_names_every_item_and_show_shows_each(assay: Any) -> None:
    found = assay("library", "list", "--json").json()
    assert list(found) == [
        *("profiles", "policies", "rubrics", "formulas", "gates", "measures"),
        *("importers", "exporters", "judges", "adapters", "families"),
    ]
    assert [item["id"] for item in found["profiles"]] == [
        "code-repair-measured@1",
        "code-repair@1",
        "dag-review@1",
        "rag-measured@1",
        "rag@1",
        "retrieval@1",
        "tool-use-measured@1",
        "tool-use@1",
    ]
    assert (len(found["formulas"]), len(found["gates"])) == (8, 17)
    assert all(item["title"] for items in found.values() for item in items)
    assert all(item["published"] for kind in KINDS for item in found[kind])
    for kind, name in (
        ("profiles", "rag@1"),
        ("policy", "workflow"),
        ("rubrics", "dag-review"),
        ("formula", "pairwise"),
        ("gates", "answer_grounded"),
        ("measure", "latency"),
        ("exporter", "sarif"),
        ("adapters", "http"),
    ):
        shown = assay("library", "show", kind, name, "--json")
        assert shown.code == 0
        assert isinstance(shown.json(), dict)
        assert assay("library", "show", kind, name).out.strip()


def test_list_takes_a_kind_in_the_singular_or_plural(assay: Any) -> None:
    assert (
        assay("library", "list", "policies", "--json").out
        == assay("library", "list", "policy", "--json").out
    )
    assert list(assay("library", "list", "gate", "--json").json()) == ["gates"]


@pytest.mark.parametrize(
    ("letter", "name"), [("A", "code-repair"), ("B", "dag-review"), ("C", "rag"), ("D", "tool-use")]
)
def test_a_letter_shows_its_profile(assay: Any, letter: str, name: str) -> None:
    assert (
        assay("library", "show", "profiles", letter).out
        == (LIBRARY / "profiles" / f"{name}@1.yaml").read_text()
    )
    assert assay("library", "show", "profiles", letter, "--json").json()["profile"] == name


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("show", "profiles", "code-repiar"), 3, "Did you mean 'code-repair'?"),
        (("show", "profiles", "rag@9"), 3, "rag@9"),
        (("show", "gates", "answer_groundd"), 3, "Did you mean 'answer_grounded'?"),
        (("show", "profils", "rag"), 2, "Did you mean 'profiles'?"),
        (("show", "profiles"), 2, "a kind and a name"),
        (("list", "widgets"), 2, "there is no kind 'widgets'"),
        (("publish", "rag"), 2, "publish takes no names"),
        (("burn",), 2, "invalid choice"),
        (("list", "--library", "nowhere"), 3, "there is no such folder"),
    ],
)
def test_a_wrong_name_is_told_with_the_near_miss(
    assay: Any, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = assay("library", *arguments)
    assert done.code == code
    assert words in done.err


# --- the lints: one file for each anti-pattern

CLEAN = """\
profile: triage
version: 1
title: Triage of tickets
family: triage
judge: {calibration: required, order: both}
gates:
  - id: no_forbidden_tool
criteria:
  - {id: right_queue, label: Right queue, weight: 0.6, layer: 1, formula: zero_one, role: correctness}
  - {id: preferred, label: Preferred by agents, weight: 0.3, layer: 2, formula: pairwise}
  - {id: rouge_l, label: Close to the old answer, weight: 0.1, layer: 1, formula: zero_one}
"""
POLICY = (LIBRARY / "policies" / "workflow@1.yaml").read_text()
JUDGED = (
    (LIBRARY / "policies" / "workflow-judged@1.yaml")
    .read_text()
    .replace("policy: workflow-judged", "policy: own-judged")
)
RUBRIC = """\
rubric_id: summary
version: 1
criteria:
  - name: {name}
    scale: [0, 1]
    weight: 1
    definition: How near the summary is to the reference.
    evidence_required: ["The reference"]
    anchors: {{"0": "nothing shared", "1": "the same"}}
"""


def _but(old: str, new: str, text: str = CLEAN) -> str:
    assert old in text
    return text.replace(old, new)


def _overlap_only() -> str:
    keep = CLEAN.split("criteria:\n")[0]
    return (
        keep
        + """\
criteria:
  - {id: bleu_4, label: BLEU, weight: 0.5, layer: 1, formula: zero_one}
  - {id: close, label: Token overlap with the reference, weight: 0.4, layer: 1, formula: zero_one}
  - {id: speed, label: Speed, weight: 0.1, layer: 3, formula: zero_one}
"""
    )


ANTI_PATTERNS = {
    "generic-family": ("one-score-for-all", _but("family: triage", "family: any"), 1, "family"),
    "one-criterion": (
        "one-score-for-all",
        re.sub(r"  - \{id: (?:preferred|rouge_l).*\n", "", CLEAN),
        1,
        "criteria",
    ),
    "weighted-gate": (
        "score-over-gate",
        _but("  - id: no_forbidden_tool\n", "  - {id: no_forbidden_tool, weight: 0.2}\n"),
        3,
        "gates[0].weight",
    ),
    "gate-as-criterion": (
        "score-over-gate",
        _but("id: rouge_l", "id: schema_contract_valid"),
        3,
        "criteria[2].id",
    ),
    "own-word": (
        "score-over-gate",
        _but("  - id: no_forbidden_tool\n", "  - {id: overall_status_success, verdict: true}\n"),
        3,
        "gates[0].verdict",
    ),
    "threshold-zero": (
        "score-over-gate",
        _but("pass_threshold: 70", "pass_threshold: 0", POLICY),
        1,
        "pass_threshold",
    ),
    "overlap-profile": ("overlap-only", _overlap_only(), 1, "criteria"),
    "overlap-rubric": ("overlap-only", RUBRIC.format(name="rouge_2"), 1, "criteria"),
    "idle-labels": (
        "uncalibrated-judge",
        JUDGED.replace("min_labels: 30", "min_labels: 0"),
        1,
        "judge.gate.min_labels",
    ),
    "idle-kappa": (
        "uncalibrated-judge",
        JUDGED.replace("min_kappa: 0.40", "min_kappa: 0"),
        1,
        "judge.gate.min_kappa",
    ),
    "idle-orders": (
        "order-bias",
        JUDGED.replace("max_inconsistency: 0.10", "max_inconsistency: 1"),
        1,
        "judge.gate.max_inconsistency",
    ),
    "idle-position": (
        "order-bias",
        JUDGED.replace("max_position_bias: 0.10", "max_position_bias: 1.0"),
        1,
        "judge.gate.max_position_bias",
    ),
    "no-calibration": (
        "uncalibrated-judge",
        _but("judge: {calibration: required, order: both}\n", ""),
        1,
        "criteria",
    ),
    "one-order": (
        "order-bias",
        _but("{calibration: required, order: both}", "{calibration: required}"),
        1,
        "criteria",
    ),
    "no-guard": (
        "no-compatibility-guard",
        _but(
            "  - id: no_forbidden_tool\n", "  - {id: dataset_workflow_compatible, verdict: true}\n"
        ),
        3,
        "gates[0].verdict",
    ),
}
REQUIREMENTS = {
    "one-score-for-all": "W-088",
    "score-over-gate": "W-089",
    "overlap-only": "W-090",
    "uncalibrated-judge": "W-091",
    "order-bias": "W-092",
    "no-compatibility-guard": "W-093",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.req(REQUIREMENTS[pattern]))
        for name, (pattern, _, _, _) in ANTI_PATTERNS.items()
    ],
)
def test_each_anti_pattern_of_the_guide_is_found_where_it_stands(
    assay: Any, tmp_path: Path, name: str
) -> None:
    pattern, text, code, place = ANTI_PATTERNS[name]
    (tmp_path / "it.yaml").write_text(text)
    done = assay("library", "check", "it.yaml", "--json")
    hits = [fault for fault in done.json()["findings"] if f"[{pattern}]" in fault["message"]]
    assert [(fault["path"], fault["code"], fault["file"]) for fault in hits] == [
        (place, "LIB-004", "it.yaml")
    ]
    assert hits[0]["line"] >= 1
    assert done.code == code
    assert f"[{pattern}]" in assay("library", "check", "it.yaml").out


@pytest.mark.req("W-088", "W-089", "W-090", "W-091", "W-092", "W-093")
@pytest.mark.parametrize(
    "text", [CLEAN, POLICY, RUBRIC.format(name="faithful")], ids=["profile", "policy", "rubric"]
)
def test_a_clean_file_has_none_of_them(assay: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "it.yaml").write_text(text)
    done = assay("library", "check", "it.yaml", "--json")
    assert (done.code, done.json()) == (0, {"files": ["it.yaml"], "faults": [], "findings": []})


def test_a_profile_within_assay_yaml_is_checked_like_a_file(assay: Any, tmp_path: Path) -> None:
    assay("init")
    path = tmp_path / "assay.yaml"
    assert assay("library", "check", "assay.yaml#profile").out == "1 file checked, nothing found.\n"
    path.write_text(path.read_text().replace("role: correctness", "role: corectness"))
    done = assay("library", "check", "assay.yaml#profile")
    assert (done.code, "corectness" in done.out) == (3, True)


@pytest.mark.parametrize(("line", "share"), [("pass_threshold: 70", "0.7"), ("min: 90", "0.9")])
def test_a_share_where_a_policy_needs_points_is_refused(
    assay: Any, tmp_path: Path, line: str, share: str
) -> None:
    """A threshold of 0.7 points lets nearly every score pass."""
    text = _but("policy: workflow\n", "policy: own\n", POLICY)
    key = line.partition(" ")[0]
    (tmp_path / "own.yaml").write_text(text.replace(line, f"{key} {share}", 1))
    (tmp_path / "card.json").write_text(json.dumps(scorecard()))
    done = assay("grade", "card.json", "--policy", "own.yaml")
    assert done.code == 3
    meant = line.partition(" ")[2]
    assert f"is {share} of 100 points, not a share. Did you mean {meant}?" in done.err


@pytest.mark.req("W-088", "W-089", "W-090", "W-091", "W-092", "W-093")
def test_the_built_in_shelf_is_clean(assay: Any) -> None:
    done = assay("library", "check", "--json")
    found = done.json()
    assert (done.code, found["faults"], found["findings"]) == (0, [], [])
    assert len(found["files"]) == SHIPPED


def test_a_name_that_only_looks_like_an_overlap_measure_is_none(assay: Any, tmp_path: Path) -> None:
    text = _overlap_only()
    for old, new in (
        ("bleu_4", "chapter_better"),
        ("BLEU", "Better chapters"),
        ("Token overlap with the reference", "Holds water"),
    ):
        text = _but(old, new, text)
    (tmp_path / "it.yaml").write_text(text)
    assert assay("library", "check", "it.yaml").code == 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("weight: 0.3", "weight: 0", "[no-weight]"),
        ("gates:\n", "rubric: nowhere@1\ngates:\n", "[rubric-unknown]"),
        ("gates:\n", "rubric: dag-review@1\ngates:\n", "[rubric-disagrees]"),
    ],
)
def test_other_faults_of_a_profile_are_found(
    assay: Any, tmp_path: Path, old: str, new: str, words: str
) -> None:
    (tmp_path / "it.yaml").write_text(_but(old, new))
    done = assay("library", "check", "it.yaml")
    assert done.code == 1
    assert words in done.out


def test_a_policy_without_a_floor_for_correctness_is_found(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "it.yaml").write_text(_but("  correctness: 0.70\n", "", POLICY))
    done = assay("library", "check", "it.yaml")
    assert done.code == 1
    assert "[no-floor]" in done.out


@pytest.mark.parametrize(
    "text",
    [
        _but("id: right_queue", "id: [right_queue]"),
        _but("id: right_queue", "id: {a: b}"),
        _but("  - id: no_forbidden_tool", "  - id: [no_forbidden_tool]"),
        _but("family: triage", "family: {a: b}"),
        _but("judge: {calibration: required, order: both}", "judge: yes please"),
        _but("weight: 0.6", "weight: lots"),
        _but("weight: 0.6", "weight: .nan"),
        _but("gates:\n", "rubric: [x]\ngates:\n"),
        "criteria: 3\nprofile: x\n",
        "profile: x\n",
        "policy: x\nrole_floors: 3\n",
        "rubric_id: x\ncriteria: [3]\n",
        _but("pass_threshold: 70", "pass_threshold: [70]", POLICY),
        _but("correctness: 0.70", "correctness: high", POLICY),
        "just words\n",
        "- a\n- b\n",
        "a: &x 1\nb: *x\n",
        "a: 1\na: 2\n",
        "{",
        "",
    ],
)
def test_a_malformed_file_is_exit_3_with_its_faults_and_never_a_fault_of_ours(
    assay: Any, tmp_path: Path, text: str
) -> None:
    (tmp_path / "it.yaml").write_text(text)
    done = assay("library", "check", "it.yaml", "--json")
    assert done.code == 3, done.err
    assert done.json()["faults"]


def test_all_faults_of_all_files_are_told_at_once(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(
        _but("formula: pairwise", "formula: pairwize").replace(
            "id: no_forbidden_tool", "id: no_forbiden_tool"
        )
    )
    (tmp_path / "two.yaml").write_text(_but("family: triage", "family: all"))
    done = assay("library", "check", "one.yaml", "two.yaml", "missing.yaml")
    assert done.code == 3
    for words in (
        "Did you mean 'pairwise'?",
        "Did you mean 'no_forbidden_tool'?",
        "[one-score-for-all]",
        "missing.yaml: 1 fault",
        "line 7",
        "line 10",
    ):
        assert words in done.out


@pytest.mark.req("W-093")
def test_a_profile_that_names_no_gates_still_guards_compatibility(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "it.yaml").write_text(_but("gates:\n  - id: no_forbidden_tool\n", "gates: []\n"))
    (tmp_path / "run.json").write_text(
        json.dumps(run("rag", required_inputs=["question", "account"]))
    )
    found = assay("grade", "run.json", "--profile", "it.yaml", "--json").json()["results"][0]
    assert found["hard_gates"]["dataset_workflow_compatible"] == {
        "status": "fail",
        "reason": "missing: account",
    }
    assert found["grade"] == "F"


# --- publishing


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A team's own library with one profile in it."""
    (tmp_path / "team" / "profiles").mkdir(parents=True)
    (tmp_path / "team" / "profiles" / "triage@1.yaml").write_text(CLEAN)
    return tmp_path / "team"


def test_publishing_freezes_what_is_new_and_only_that(assay: Any, team: Path) -> None:
    listed = assay("library", "list", "profiles", "--library", team, "--json").json()["profiles"]
    assert {item["id"]: item["published"] for item in listed}["triage@1"] is False
    assert assay("library", "publish", "--library", team, "--json").json() == {
        "published": ["profiles/triage@1"]
    }
    lock = json.loads((team / "published.lock").read_text())
    assert lock["published"] == {
        "profiles/triage@1": sha256((team / "profiles" / "triage@1.yaml").read_bytes()).hexdigest()
    }
    assert assay("library", "publish", "--library", team).out == "Nothing new to publish.\n"
    listed = assay("library", "list", "profiles", "--library", team, "--json").json()["profiles"]
    assert {item["id"]: item["published"] for item in listed}["triage@1"] is True
    (team / "profiles" / "triage@2.yaml").write_text(_but("version: 1", "version: 2"))
    assert assay("library", "publish", "--library", team, "--json").json() == {
        "published": ["profiles/triage@2"]
    }


def test_a_published_file_that_changed_is_refused_everywhere(
    assay: Any, team: Path, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text(
        json.dumps(
            run(
                "tool-use",
                workflow={"id": "w", "version": "1", "family": "triage"},
                scores={"right_queue": {"raw": 1}},
            )
        )
    )
    before = assay("grade", "run.json", "--library", team, "--json")
    assert before.code in (0, 1)
    assert before.json()["results"][0]["profile"] == "triage@1"
    assert assay("library", "publish", "--library", team).code == 0
    lock = (team / "published.lock").read_bytes()
    (team / "profiles" / "triage@1.yaml").write_text(_but("weight: 0.6", "weight: 0.9"))
    for arguments in (
        ("grade", "run.json"),
        ("explain", "run.json"),
        ("report", "rank", "run.json"),
        ("report", "summary", "run.json"),
        ("library", "show", "profiles", "triage"),
        ("library", "publish"),
    ):
        done = assay(*arguments, "--library", team)
        assert done.code == 3, arguments
        assert "LIB-003" in done.err
    assert assay("library", "check", "--library", team).code == 1
    assert (team / "published.lock").read_bytes() == lock
    (team / "profiles" / "triage@1.yaml").write_text(CLEAN)
    assert assay("grade", "run.json", "--library", team, "--json").out == before.out


def test_a_process_notices_what_others_edit_and_publish(assay: Any, team: Path) -> None:
    file = team / "profiles" / "triage@1.yaml"
    evidence = run("tool-use", workflow={"id": "w", "version": "1", "family": "triage"})

    def weights(**chosen: str) -> dict[str, float]:
        return {one.name: float(one.weight) for one in package.score(evidence, **chosen).criteria}

    ways = ({"library": str(team)}, {"profile": str(file)})
    before = [weights(**way)["right_queue"] for way in ways]
    file.write_text(_but("weight: 0.6", "weight: 0.5"))
    assert (before, [weights(**way)["right_queue"] for way in ways]) == ([0.6, 0.6], [0.5, 0.5])
    assert assay("library", "publish", "--library", team).code == 0
    file.write_text(CLEAN)
    for way in ways:
        with pytest.raises(package.AssayError, match="published"):
            package.score(evidence, **way)


def test_a_published_file_that_is_gone_is_noticed(assay: Any, team: Path) -> None:
    assay("library", "publish", "--library", team)
    (team / "profiles" / "triage@1.yaml").unlink()
    assert assay("library", "check", "--library", team).code == 1
    assert assay("library", "publish", "--library", team).code == 3


def test_a_malformed_file_is_not_published_and_nothing_is_written(assay: Any, team: Path) -> None:
    (team / "profiles" / "worse@1.yaml").write_text(
        _but("formula: pairwise", "formula: pairwize").replace("profile: triage", "profile: worse")
    )
    assert assay("library", "publish", "--library", team).code == 3
    assert not (team / "published.lock").exists()


def test_a_file_named_yml_can_be_published_like_any_other(assay: Any, team: Path) -> None:
    (team / "profiles" / "triage@1.yaml").rename(team / "profiles" / "triage@1.yml")
    assert assay("library", "publish", "--library", team, "--json").json() == {
        "published": ["profiles/triage@1"]
    }
    assert assay("library", "check", "--library", team).out.endswith("nothing found.\n")
    assert assay("library", "publish", "--library", team).out == "Nothing new to publish.\n"


def test_a_file_whose_name_and_content_disagree_is_refused(assay: Any, team: Path) -> None:
    (team / "profiles" / "triage@1.yaml").rename(team / "profiles" / "triage@7.yaml")
    done = assay("library", "show", "profiles", "triage", "--library", team)
    assert done.code == 3
    assert "named 'triage@7' but contains 'triage@1'" in done.err


def test_the_newest_version_is_taken_unless_one_is_named(assay: Any, team: Path) -> None:
    for version in ("2", "10"):
        (team / "profiles" / f"triage@{version}.yaml").write_text(
            _but("version: 1", f"version: {version}")
        )
    for name, version in (("triage", 10), ("triage@2", 2), ("triage@1", 1)):
        assert (
            assay("library", "show", "profiles", name, "--library", team, "--json").json()[
                "version"
            ]
            == version
        )


def test_the_library_may_come_from_the_environment(assay: Any, team: Path) -> None:
    assert (
        assay(
            "library", "show", "profiles", "triage", "--json", env={"ASSAY_LIBRARY": str(team)}
        ).json()["profile"]
        == "triage"
    )


@pytest.mark.parametrize("kind", ["policies", "profiles"])
def test_a_library_cannot_give_a_published_id_another_meaning(
    assay: Any, tmp_path: Path, kind: str
) -> None:
    # "workflow@1" on a result must mean one thing, whoever's shelf it came from
    name, old, new = {
        "policies": ("workflow@1", "min: 90", "min: 85"),
        "profiles": ("rag@1", "weight: 0.35", "weight: 0.05"),
    }[kind]
    text = (LIBRARY / kind / f"{name}.yaml").read_text()
    (tmp_path / "team" / kind).mkdir(parents=True)
    (tmp_path / "run.json").write_text(json.dumps(run("rag")))
    (tmp_path / "team" / kind / f"{name}.yaml").write_text(text)
    assert (
        assay("grade", "run.json", "--library", "team").code == 0
    )  # the same file again is no other meaning
    (tmp_path / "team" / kind / f"{name}.yaml").write_text(_but(old, new, text))
    done = assay("grade", "run.json", "--library", "team", "--json")
    assert done.code == 3
    assert json.loads(done.err)["error"]["code"] == "LIB-003"


@pytest.mark.parametrize("how", ["--library", "ASSAY_LIBRARY"])
def test_a_library_cannot_change_what_a_shipped_name_means(
    assay: Any, tmp_path: Path, how: str
) -> None:
    text = (LIBRARY / "profiles/rag@1.yaml").read_text()
    policy = (LIBRARY / "policies/workflow@1.yaml").read_text()
    for folder in ("profiles", "policies"):
        (tmp_path / "team" / folder).mkdir(parents=True)
    (tmp_path / "team/profiles/rag@99.yaml").write_text(_but("version: 1", "version: 99", text))
    (tmp_path / "team/profiles/other@99.yaml").write_text(
        _but("profile: rag", "profile: other", _but("version: 1", "version: 99", text))
    )
    (tmp_path / "team/policies/workflow@99.yaml").write_text(
        _but("min: 90", "min: 85", _but("version: 1", "version: 99", policy))
    )
    for name in ("release", "exam", "flowmcp"):
        own = (LIBRARY / f"policies/{name}@1.yaml").read_text()
        (tmp_path / f"team/policies/{name}@99.yaml").write_text(
            _but("version: 1", "version: 99", own)
        )
    (tmp_path / "run.json").write_text(json.dumps(run("rag")))
    options = ("--library", "team") if how == "--library" else ()
    env = {} if how == "--library" else {"ASSAY_LIBRARY": "team"}
    letter = Shelf().profile("rag@1").alias
    plain = assay("grade", "run.json", "--json").json()["results"][0]
    for asked in (
        (),
        ("--profile", "rag"),
        ("--profile", "rag@1"),
        ("--profile", letter),
        ("--policy", "workflow"),
        ("--policy", "workflow@1"),
    ):
        done = assay("grade", "run.json", *asked, *options, "--json", env=env).json()["results"][0]
        named = ("profile", "policy", "scoringSystem", "gradingSystem", "grade", "digests")
        assert [done[key] for key in named] == [plain[key] for key in named], asked
    for kind, name in (
        ("policies", "release"),
        ("policies", "exam"),
        ("policies", "flowmcp"),
        ("profiles", "rag"),
        ("policies", "workflow"),
    ):
        shipped = assay("library", "show", kind, name, "--json").json()
        assert assay("library", "show", kind, name, *options, "--json", env=env).json() == shipped
    own = assay(
        "grade",
        "run.json",
        "--profile",
        "rag@99",
        "--policy",
        "workflow@99",
        *options,
        "--json",
        env=env,
    ).json()["results"][0]
    assert (own["profile"], own["policy"]) == (
        "rag@99",
        "workflow@99",
    ), "written out, it is what was asked for"
    assert own["scoringSystem"].startswith("scoringSystem/1.0.0+"), (
        "and the result shows that it is not the shipped one"
    )
    assert own["gradingSystem"].startswith("gradingSystem/1.0.0+")


def test_the_lock_of_a_library_cannot_give_a_shipped_file_another_content(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "team/profiles").mkdir(parents=True)
    data = (LIBRARY / "profiles/rag@1.yaml").read_bytes()
    (tmp_path / "team/profiles/rag@1.yaml").write_bytes(data)
    content = json.loads((LIBRARY / "published.lock").read_text())["content"]["profiles/rag@1"]
    forged = {
        "published": {"profiles/rag@1": sha256(data).hexdigest()},
        "content": {"profiles/rag@1": {**content, "gates": []}},
    }
    (tmp_path / "team/published.lock").write_text(json.dumps(forged))
    (tmp_path / "run.json").write_text(json.dumps(run("rag")))
    plain, done = (
        assay("grade", "run.json", *options, "--json").json()["results"][0]
        for options in ((), ("--library", "team"))
    )
    assert done["hard_gates"] == plain["hard_gates"]


@pytest.mark.parametrize("kind", ["--profile", "--policy", "--rubric"])
def test_a_file_with_the_name_of_a_shipped_item_is_not_taken_for_it(
    assay: Any, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "run.json").write_text(json.dumps(run("rag")))
    name = "workflow" if kind == "--policy" else "rag"
    before = assay("grade", "run.json", kind, name, "--json").out
    (tmp_path / name).write_text("not even YAML: [")
    assert assay("grade", "run.json", kind, name, "--json").out == before


# --- the built-in lock


def test_every_built_in_file_is_published_as_it_is() -> None:
    lock = json.loads((LIBRARY / "published.lock").read_text())["published"]
    files = {
        f"{kind}/{path.stem}": sha256(path.read_bytes()).hexdigest()
        for kind in KINDS
        for path in (LIBRARY / kind).iterdir()
    }
    assert lock == files


def test_a_changed_built_in_file_fails_every_check_and_is_not_graded_with(own_copy: Copy) -> None:
    rubric = own_copy.library / "rubrics" / "rag@1.yaml"
    rubric.write_text(rubric.read_text() + "# a word more\n")
    (own_copy.folder / "run.json").write_text(json.dumps(run("rag")))
    for file, old, new in (
        ("profiles/rag@1.yaml", "weight: 0.35", "weight: 0.36"),
        ("policies/workflow@1.yaml", "{grade: A, min: 90}", "{grade: A, min: 85}"),
    ):
        path = own_copy.library / file
        kept = path.read_text()
        path.write_text(_but(old, new, kept))
        refused = own_copy.run("grade", "run.json", "--json")
        assert refused.returncode == 3, file
        assert json.loads(refused.stderr)["error"]["code"] == "LIB-003"
        if file.startswith("profiles"):
            path.write_text(kept)
    # grading itself is refused now, and still each verb tells the whole story
    done = own_copy.run("versions", "--check", "--json")
    assert done.returncode == 1, done.stderr
    what = "published and changed since; put the change into a new version"
    assert json.loads(done.stdout)["changed"][-2:] == [
        f"policies/workflow@1: {what}",
        f"rubrics/rag@1: {what}",
    ]
    assert own_copy.run("library", "publish").returncode == 3


def test_publishing_again_changes_nothing_and_a_version_with_other_rules_needs_a_new_name(
    own_copy: Copy,
) -> None:
    lock = own_copy.library / "published.lock"
    before = json.loads(lock.read_text())
    assert own_copy.run("library", "publish").stdout == "Nothing new to publish.\n"
    assert json.loads(lock.read_text()) == before
    second = _but("version: 1", "version: 2", POLICY).replace("min: 90", "min: 92")
    for version, text in (
        (2, second.replace("grading_system: 1.0.0", "grading_system: 1.2.0")),
        (3, _but("version: 2", "version: 3", second)),
    ):
        (own_copy.library / "policies" / f"workflow@{version}.yaml").write_text(text)
    published = own_copy.run("library", "publish").stdout
    assert published == "published policies/workflow@2\npublished policies/workflow@3\n"
    clash = "states grading_system 1.0.0, as policies/workflow@1 does, and has other rules"
    done = own_copy.run("versions", "--check")
    assert done.returncode == 1
    changed = [line for line in done.stdout.splitlines() if line.startswith("CHANGED")]
    assert len(changed) == 1, "a new policy is not a change of behaviour"
    assert f"policies/workflow@3: {clash}" in changed[0]
    done = own_copy.run("library", "check")
    assert (done.returncode, clash in done.stdout) == (1, True)


MODULE_CHANGES = (
    ("scoring/gates.py", 'group == "required")', 'group == "required")[:4]', "workflow scoring"),
    (
        "grading/grade.py",
        "above = score >= threshold",
        "above = score > threshold",
        "workflow grading",
    ),
    ("families/tools/aging.py", "API_DAYS = 14", "API_DAYS = 15", "flowmcp scoring"),
    ("families/tools/names.py", '"decision-maker", ', "", ""),
    ("families/tools/veto.py", '"illegal-content", ', "", "flowmcp grading"),
    (
        "families/exams/schedule.py",
        "MAX_INTERVAL_DAYS = 36_500",
        "MAX_INTERVAL_DAYS = 5",
        "exam grading",
    ),
    (
        "release/rules.py",
        "if len(confirmed) > limits.new_failures:",
        "if len(confirmed) > 9 + limits.new_failures:",
        "release grading",
    ),
)
"""A list, a comparison, a limit, a rule: file, before, after, and the system that it moves, if any."""


def test_a_change_of_a_shipped_module_that_moves_a_golden_outcome_fails_the_check(
    tmp_path: Path,
) -> None:
    shutil.copytree(PACKAGE, tmp_path / "assay")
    for file, before, after, _ in MODULE_CHANGES:
        path = tmp_path / "assay" / file
        path.write_text(_but(before, after, path.read_text()))
    done = subprocess.run(
        [sys.executable, "-m", "assay", "versions", "--check"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 1, done.stderr
    moved = re.findall(r"^CHANGED (\w+ \w+): behaviour changed", done.stdout, re.MULTILINE)
    assert set(moved) == {system for *_, system in MODULE_CHANGES if system}


def test_behaviour_that_changed_under_its_old_version_fails_the_check_and_cannot_be_published(
    own_copy: Copy,
) -> None:
    golden = own_copy.library / "golden" / "scorecards.jsonl"
    first, *rest = golden.read_text().splitlines()
    golden.write_text(
        "\n".join([first.replace('"raw_score":1', '"raw_score":0.123'), *rest]) + "\n"
    )
    done = own_copy.run("versions", "--check")
    assert done.returncode == 1
    assert (
        "CHANGED workflow grading: behaviour changed and the version is still gradingSystem/1.0.0"
        in done.stdout
    )
    assert "workflow scoring: behaviour changed" not in done.stdout
    refused = own_copy.run("library", "publish", "--json")
    assert refused.returncode == 3
    assert json.loads(refused.stderr)["error"]["code"] == "LIB-003"
    (own_copy.library / "rubrics" / "rag@1.yaml").unlink()
    done = own_copy.run("doctor", "--for", "run", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"]) == (1, False)
    failed = {check["what"]: check["fix"] for check in found["checks"] if not check["ok"]}
    assert list(failed) == ["bundled library", "behaviour"]
    assert "Reinstall Assay" in failed["bundled library"]


# --- versions and fingerprints


def _systems() -> list[System]:
    """Every system as the lock records it, which is how it behaves: see below."""
    return [
        System(family, name, held.version, held.fingerprint)
        for family, systems in lock_of().systems.items()
        for name, held in systems.items()
    ]


def test_a_system_without_its_extra_is_neither_changed_nor_confirmed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [
        system._replace(fingerprint="none: needs x", unchecked="needs x")
        if system.title == "flowmcp scoring"
        else system
        for system in _systems()
    ]
    monkeypatch.setattr(fingerprint, "current", lambda: now)
    assert run_command(["versions", "--check"]) == 4
    printed = capsys.readouterr().out
    assert "NOT CHECKED flowmcp scoring: needs x\n" in printed
    assert "CHANGED flowmcp" not in printed.replace("NOT CHECKED", "")
    with pytest.raises(package.AssayError):
        fingerprint.recordable(now)


def test_behaviour_is_what_the_lock_says_and_versions_prints_what_the_contract_says(
    assay: Any,
) -> None:
    done = assay("versions", "--check", "--json")
    found = done.json()
    assert done.code == 0
    assert (found["scoringSystem"], found["gradingSystem"]) == (
        "scoringSystem/1.0.0",
        "gradingSystem/1.0.0",
    )
    assert found["families"]["workflow"] == {
        "scoring": "scoringSystem/1.0.0",
        "grading": "gradingSystem/1.0.0",
    }
    assert found["published"] == json.loads((LIBRARY / "published.lock").read_text())["published"]
    assert found["changed"] == []


def test_versions_prints_the_same_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fingerprint, "current", _systems)
    assert run_command(["versions", "--check"]) == 0
    printed = capsys.readouterr().out
    assert "Behaviour matches the versions." in printed
    for line in (
        "published profiles/rag@1: scoringSystem/1.0.0",
        "published policies/exam@1: gradingSystem/1.0.0",
        "published rubrics/rag@1",
    ):
        assert line in printed.splitlines()


def _moved() -> set[str]:
    """Which systems behave otherwise than the lock records: only those of workflows are looked at,
    because a look at all of them takes four times as long.
    """
    return {name for name in WORKFLOW_SYSTEMS if _has_moved(name)}


def _has_moved(name: str) -> bool:
    recorded = lock_of().systems["workflow"][name].fingerprint
    return bool(WORKFLOW_SYSTEMS[name]() != recorded)


WORKFLOW_SYSTEMS = {
    "scoring": lambda: digest(behaviour.workflow_scoring()),
    "grading": lambda: digest(behaviour.workflow_grading()),
}


def test_nothing_has_moved_before_something_is_changed() -> None:
    assert _moved() == set()


@pytest.mark.parametrize(
    "change",
    [
        {"pass_threshold": Decimal("70.01")},
        {"pass_threshold": Decimal("69.99")},
        {"floor_cap": "C"},
        {"floor_cap": "F"},
        {"shrinkage": {"prior": Decimal("0.51")}},
        {"shrinkage": {"k": 21}},
        {"role_floors": {"correctness": Decimal("0.700000001"), "safety": Decimal("0.8")}},
        {"role_floors": {"correctness": Decimal("0.7"), "safety": Decimal("0.800000001")}},
        *(
            {"bands": {letter: by}}
            for letter in "ABCD"
            for by in (Decimal("-0.01"), Decimal("0.01"))
        ),
    ],
    ids=str,
)
def test_each_number_of_the_policy_moves_grading_and_only_grading(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    made = behaviour.make_rules

    def changed(policy: Any) -> Any:
        new = dict(change)
        if "bands" in new:
            new["bands"] = [
                structs.replace(band, min=band.min + new["bands"].get(band.grade, 0))
                for band in policy.bands
            ]
        if "shrinkage" in new:
            new["shrinkage"] = structs.replace(policy.shrinkage, **new["shrinkage"])
        return made(structs.replace(policy, **new))

    monkeypatch.setattr(behaviour, "make_rules", changed)
    assert _moved() == {"grading"}


def _null_passes(card: Any) -> tuple[str, ...]:
    return tuple(name for name, passed in card.hard_gates.items() if passed is False)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("failed_gates", _null_passes),
        ("failed_gates", lambda card: ()),
        ("worse", lambda one, other, bands: other),
        ("worse", lambda one, other, bands: one),
        ("effective_floor", lambda criterion, rules, *, overrides: (None, None)),
        ("band", lambda score, bands: bands[0].grade),
    ],
)
def test_each_rule_of_grading_moves_grading_and_only_grading(
    monkeypatch: pytest.MonkeyPatch, name: str, instead: Any
) -> None:
    monkeypatch.setattr(rules, name, instead)
    assert _moved() == {"grading"}


def test_a_floor_that_takes_equal_for_missed_moves_grading(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = rules.effective_floor

    def stricter(criterion: Any, given: Any, *, overrides: bool) -> Any:
        floor, origin = kept(criterion, given, overrides=overrides)
        return (None if floor is None else floor + 1), origin

    monkeypatch.setattr(rules, "effective_floor", stricter)
    assert _moved() == {"grading"}


def test_the_shrinkage_moves_grading_and_only_grading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "shrink", lambda norm, *_, **__: norm)
    assert _moved() == {"grading"}


def test_a_formula_that_is_off_by_a_billionth_moves_scoring_and_all_of_them_only_scoring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def off(kept: Any, by: int) -> Any:
        def apply(raw: Any, params: Any) -> int:
            norm = kept.apply(raw, params)
            return int(norm + by if 0 < norm < NORM_ONE else NORM_ONE - norm)

        return kept._replace(apply=apply)

    wrong = {name: FORMULAS[name] for name in FORMULAS if name != "zero_one"}
    for name, kept in wrong.items():
        for by in (-1, 1):
            with monkeypatch.context() as patch:
                patch.setitem(FORMULAS._entries, name, off(kept, by))
                assert _has_moved("scoring"), (name, by)
    for name, kept in wrong.items():
        monkeypatch.setitem(FORMULAS._entries, name, off(kept, 1))
    assert _moved() == {"scoring"}


def test_the_one_formula_of_the_golden_scorecards_moves_scoring_at_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = FORMULAS["zero_one"]
    monkeypatch.setitem(
        FORMULAS._entries,
        "zero_one",
        kept._replace(apply=lambda raw, params: max(0, kept.apply(raw, params) - 1)),
    )
    assert "scoring" in _moved()


FIRST_GATES = [
    name for name in GATES if GATES[name].is_computed and name != "no_contradicted_claim"
]
"""The gates of the first profiles. A newer one moves the fingerprint of its own profile."""


def test_a_profile_made_in_memory_is_checked_as_a_file_is() -> None:
    shelf = Shelf()
    published = shelf.profile("rag@1")
    with pytest.raises(ShelfError, match="published and has changed"):
        shelf.profile(structs.replace(published, gates=[]))
    own = structs.replace(published, profile="own", alias=None)
    assert shelf.profile(own) == own
    doubled = structs.replace(own, criteria=[*own.criteria, own.criteria[0]])
    with pytest.raises(ShelfError, match="twice"):
        shelf.profile(doubled)


def test_a_gate_of_one_profile_moves_that_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    before = behaviour.profile_fingerprints()
    monkeypatch.setitem(
        GATES._entries,
        "no_contradicted_claim",
        GATES["no_contradicted_claim"]._replace(rule=lambda run, params: GateResult(True, "")),
    )
    after = behaviour.profile_fingerprints()
    assert {name for name in before if before[name] != after[name]} == {"profiles/rag-measured@1"}


def test_a_gate_that_always_says_the_same_moves_scoring_and_all_of_them_only_scoring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def says(name: str, verdict: bool | None) -> Any:
        return GATES[name]._replace(rule=lambda run, params: GateResult(verdict, "says so"))

    for name in FIRST_GATES:
        for verdict in (True, False, None) if CAMPAIGN else (True, None):
            with monkeypatch.context() as patch:
                patch.setitem(GATES._entries, name, says(name, verdict))
                assert _has_moved("scoring"), (name, verdict)
    for name in FIRST_GATES:
        monkeypatch.setitem(GATES._entries, name, says(name, False))
    assert _moved() == {"scoring"}


def test_a_verdict_that_could_improve_a_computed_gate_moves_scoring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = scoring.evaluate
    monkeypatch.setattr(
        scoring,
        "evaluate",
        lambda gate, run, params, verdict: (
            GateResult(True, "")
            if verdict is not None and verdict.passed
            else kept(gate, run, params, verdict)
        ),
    )
    assert _moved() == {"scoring"}


def test_a_verdict_that_does_not_count_moves_scoring(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = scoring.evaluate
    monkeypatch.setattr(
        scoring, "evaluate", lambda gate, run, params, verdict: kept(gate, run, params, None)
    )
    assert _moved() == {"scoring"}


@pytest.mark.parametrize("name", behaviour.FIRST_MEASURES)
def test_a_measure_that_makes_up_a_value_or_loses_one_moves_scoring_and_only_scoring(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kept = MEASURES[name]
    monkeypatch.setitem(
        MEASURES._entries, name, kept._replace(read=lambda run, params: Undetermined("lost"))
    )
    assert _has_moved("scoring")
    made_up = {"passed": 1, "total": 1} if kept.formula == "ratio" else 0
    monkeypatch.setitem(MEASURES._entries, name, kept._replace(read=lambda run, params: made_up))
    assert _moved() == {"scoring"}


def test_every_measure_stands_where_the_table_says_and_nowhere_else() -> None:
    from importlib import import_module

    from assay.scoring.metrics import FAMILIES

    for family, names in FAMILIES.items():
        module, _, group = family.partition(".")
        assert (
            tuple(
                measure.id
                for measure in getattr(import_module(f"assay.scoring.metrics.{module}"), group)
            )
            == names
        )
    assert len(list(MEASURES)) == len(MEASURES) == sum(map(len, FAMILIES.values()))


@pytest.fixture(scope="module")
def taken() -> dict[str, str]:
    """The fingerprints of all measures as they are."""
    return behaviour.measure_fingerprints()


@pytest.mark.parametrize("name", list(MEASURES))
def test_a_measure_has_a_whole_sheet_and_a_fingerprint_that_its_golden_runs_give(
    name: str, taken: dict[str, str]
) -> None:
    measure = MEASURES[name]
    for field in (
        "id",
        "version",
        "title",
        "unit",
        "direction",
        "formula",
        "evidence",
        "absence",
        "range",
        "determinism",
    ):
        assert getattr(measure, field), field
    assert measure.formula in FORMULAS
    held = lock_of().measures
    assert held[f"{name}@{measure.version}"] == taken[f"{name}@{measure.version}"]


@pytest.mark.parametrize("name", list(MEASURES))
def test_the_example_of_every_measure_gives_the_value_it_shows(name: str) -> None:
    assert set(EXAMPLES) == set(MEASURES), (
        "every measure has an example, and every example is of a measure"
    )
    measure, example = MEASURES[name], EXAMPLES[name]
    assert set(example.params) <= set(measure.params)
    tree = {
        **{key: run()[key] for key in ("schema", "run_id", "workflow", "dataset", "status")},
        **example.evidence,
    }
    taken = measure.take(
        read_run(Document(json.loads(json.dumps(tree), parse_float=Decimal), "example")),
        {**measure.params, **example.params},
    )
    assert not isinstance(taken, Undetermined), taken
    assert json.loads(json.dumps(taken, default=float)) == example.value
    assert (
        FORMULAS[measure.formula].apply(
            taken, {"slo_good": 1, "slo_bad": 10**6} if measure.formula == "lower_is_better" else {}
        )
        >= 0
    )
    assert measure.sheet()["example"] == example.document()


def test_a_sheet_shows_its_example(assay: Any) -> None:
    shown = assay("library", "show", "measure", "patch_similarity", "--json").json()["example"]
    assert shown["value"] == 0.5
    assert set(shown) == {"evidence", "value"}


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_is_taken_and_is_undetermined_somewhere_in_the_golden_runs(name: Any) -> None:
    runs = [
        read_run(document) for file in ("runs.jsonl", "measures.jsonl") for document in golden(file)
    ]
    taken = [
        isinstance(MEASURES[name].take(run, MEASURES[name].params), Undetermined) for run in runs
    ]
    assert any(taken), name
    if name != "word_budget":  # it needs a budget, which only a profile gives
        assert not all(taken), name


def test_a_measure_that_behaves_otherwise_under_its_version_fails_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = MEASURES["exact_match"]
    monkeypatch.setitem(
        MEASURES._entries,
        "exact_match",
        kept._replace(read=lambda run, params: Undetermined("lost")),
    )
    assert any(
        line.startswith("measure exact_match@1: behaviour changed")
        for line in fingerprint.check(_systems())
    )


def test_other_words_for_the_same_verdict_move_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in GATES:
        kept = GATES[name]
        if kept.is_computed:
            monkeypatch.setitem(
                GATES._entries,
                name,
                kept._replace(
                    rule=lambda run, params, kept=kept: kept.check(run, params)._replace(
                        reason="in other words"
                    )
                ),
            )
    told = grade_record.FLOORS_CLEAR._replace(text="in other words")
    monkeypatch.setattr(grade_record, "FLOORS_CLEAR", told)
    assert _moved() == set()


def test_a_system_that_is_new_or_moved_without_a_new_version_is_named() -> None:
    recorded = {
        "workflow": {
            "scoring": RecordedSystem("scoringSystem/1.0.0", "sha256:a"),
            "grading": RecordedSystem("gradingSystem/1.0.0", "sha256:b"),
        }
    }
    same = [
        System("workflow", "scoring", "scoringSystem/1.0.0", "sha256:a"),
        System("workflow", "grading", "gradingSystem/1.0.0", "sha256:b"),
    ]
    assert check(same, recorded) == []
    assert [
        text.split(":")[0]
        for text in check([same[0]._replace(fingerprint="sha256:c"), same[1]], recorded)
    ] == ["workflow scoring"]
    assert (
        "is not recorded yet"
        in check(
            [same[0], same[1]._replace(version="gradingSystem/1.1.0", fingerprint="sha256:d")],
            recorded,
        )[0]
    )
    assert (
        "no fingerprint is recorded"
        in check([System("exam", "scoring", "scoringSystem/1.0.0", "sha256:a")], recorded)[0]
    )


# --- schema-of

SCHEMAS = ("run", "scorecard", "grades", "summary", "profile", "policy", "rubric")


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    found = {}
    for name in SCHEMAS:
        done = run_here(["schema-of", name], cwd=ROOT, env={})
        assert done.code == 0, done.err
        found[name] = done.json()
    return found


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_schema_is_itself_a_schema_of_2020_12_and_closed(
    schemas: dict[str, Any], name: str
) -> None:
    assert schemas[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert jsonschema_rs.meta.is_valid(schemas[name])
    assert schemas[name]["additionalProperties"] is False
    assert not jsonschema_rs.Draft202012Validator(schemas[name]).is_valid({})


@pytest.mark.parametrize("family", FAMILIES)
def test_the_schema_of_a_run_accepts_a_run_of_every_family(
    schemas: dict[str, Any], family: str
) -> None:
    validator = jsonschema_rs.Draft202012Validator(schemas["run"])
    assert [error.message for error in validator.iter_errors(run(family))] == []


@pytest.mark.parametrize("file", ["runs.jsonl", "scorecards.jsonl"])
def test_the_schemas_accept_every_golden_input(schemas: dict[str, Any], file: str) -> None:
    validator = jsonschema_rs.Draft202012Validator(schemas[file[:-7]])
    documents = [json.loads(line) for line in (LIBRARY / "golden" / file).read_text().splitlines()]
    assert len(documents) > 30
    assert [
        error.message for document in documents for error in validator.iter_errors(document)
    ] == []


BROKEN_RUNS: list[dict[str, Any]] = [
    {"status": None},
    {"status": "done"},
    {"workflow": {"id": "w"}},
    {"dataset": {"id": "d", "version": "1"}},
    {"run_id": ""},
    {"run_id": 3},
    {"outptus": {}},
    {"steps": {}},
    {"steps": [{"name": "a"}]},
    {"steps": [{"name": "a", "status": "succes"}]},
    {"tokens": -1},
    {"retries": 1.5},
    {"tests": {"fail_to_pass": {"passed": 1}}},
    {"claims": [{"citations": []}]},
    {"claims": [{"text": "t", "severity": "awful"}]},
    {"handoff_rules": [["a", "b", "c"]]},
    {"gates": {"g": {"passed": True, "weight": 2}}},
    {"gates": {"g": True}},
    {"scores": {"s": 4}},
    {"latency_ms": "8s"},
    {"attempt": 0},
    {"tags": "nightly"},
    {"patch_applies": "yes"},
    {"schema": "assay.run/2"},
]


@pytest.mark.parametrize("change", BROKEN_RUNS)
def test_the_schema_of_a_run_refuses_what_the_reader_refuses(
    schemas: dict[str, Any], change: dict[str, Any]
) -> None:
    broken = run("rag", **change)
    if change.get("status", "") is None:
        assert "status" not in broken
    assert not jsonschema_rs.Draft202012Validator(schemas["run"]).is_valid(broken)
    with pytest.raises(package.AssayError):
        graded(broken)


BROKEN_CARDS: list[dict[str, Any]] = [
    {"hard_gates": {"g": 1}},
    {"hard_gates": {"g": "pass"}},
    {"hard_gates": []},
    {"criteria": {}},
    {"criteria": [{"name": "c"}]},
    {"pass_treshold": 70},
    {"pass_threshold": "70"},
    {
        "criteria": [
            {"name": "c", "raw_score": 1, "formula_id": "zero_one", "weight": 1, "layer": 4}
        ]
    },
    {"criteria": [{"name": "c", "raw_score": 1, "formula_id": "zero_one", "weight": "1"}]},
    {"criteria": [{"name": "c", "raw_score": 1, "formula_id": "zero_one", "weight": 1, "n": -1}]},
    {"criteria": [{"name": "", "raw_score": 1, "formula_id": "zero_one", "weight": 1}]},
    {
        "criteria": [
            {"name": "c", "raw_score": 1, "formula_id": "zero_one", "weight": 1, "floor": 1}
        ]
    },
    {"run_id": None},
    {
        "criteria": [
            {
                "name": "c",
                "raw_score": 1,
                "formula_id": "zero_one",
                "weight": 1,
                "critical_floor": {"percent": 70},
            }
        ]
    },
    {
        "criteria": [
            {
                "name": "c",
                "raw_score": 1,
                "formula_id": "zero_one",
                "weight": 1,
                "floor_override": {"value": 0.2},
            }
        ]
    },
]


@pytest.mark.parametrize("change", BROKEN_CARDS)
def test_the_schema_of_a_scorecard_refuses_what_the_reader_refuses(
    schemas: dict[str, Any], change: dict[str, Any]
) -> None:
    broken = {**scorecard({"norm": 1}), **change}
    assert not jsonschema_rs.Draft202012Validator(schemas["scorecard"]).is_valid(broken)
    with pytest.raises(package.AssayError):
        graded(broken)


def test_the_schema_of_a_scorecard_accepts_every_kind_of_criterion(schemas: dict[str, Any]) -> None:
    card = scorecard(
        {"norm": 1, "critical_floor": {"norm": 0.5}, "role": "safety", "layer": 2, "n": 0},
        {"raw_score": {"wins": 1, "losses": 2, "ties": 3}, "formula_id": "pairwise"},
        {"raw_score": None, "missing": "lost"},
        {
            "raw_score": 3,
            "formula_id": "lower_is_better",
            "params": {"slo_good": 1, "slo_bad": 5},
            "critical_floor": 0.5,
        },
        {"norm": 1, "floor_override": {"value": {"raw": 0.1}, "reason": "tuned"}},
        hard_gates={"a": True, "b": False, "c": None},
        pass_threshold=70.5,
        tags=["x"],
        group="g",
        sample_id="s",
    )
    assert [
        error.message
        for error in jsonschema_rs.Draft202012Validator(schemas["scorecard"]).iter_errors(card)
    ] == []
    assert graded(card).grade.grade == "F"


def test_a_schema_that_is_not_there_is_misuse_with_the_near_miss(assay: Any) -> None:
    done = assay("schema-of", "scorecrad")
    assert (done.code, done.out) == (2, "")
    assert "Did you mean 'scorecard'?" in done.err


@pytest.mark.parametrize("kind", KINDS)
def test_every_item_on_the_shelf_loads_by_its_id(kind: Any) -> None:
    shelf = Shelf()
    for entry in shelf.entries(kind):
        assert shelf.load(kind, entry.id).id == entry.id
