"""Reports of pydantic-evals: the means are the tool's, and what failed is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import run as assay
from assay.errors import ExitCode, InputError
from peer_files import RECORDED, broken, imported, survives, takers

FOLDER = RECORDED / "pydantic_evals"
NAME = "pydantic-evals"


def _verdicts(runs: list[dict[str, Any]]) -> list[Any]:
    return [run["gates"]["pydantic_evals_passed"]["passed"] for run in runs]


@pytest.mark.parametrize("made", json.loads((FOLDER / "made.json").read_text()))
def test_the_means_are_those_that_the_report_prints(made: Any) -> None:
    (path,) = [FOLDER / name for name in made["files"]]
    assert takers(path) == [NAME]
    runs, tally = imported(NAME, path)
    totals = dict(made["totals"])
    assert totals.pop("samples") == len(runs) == tally.samples
    for label, mean in totals.items():
        assert float(tally.metrics[label].mean) == pytest.approx(mean, abs=1e-12)


def test_a_failed_task_and_a_failed_evaluator_are_missing_evidence() -> None:
    runs, tally = imported(NAME, FOLDER / "report.json")
    assert [run["dataset"]["sample_id"] for run in runs] == [
        "France",
        "Spain",
        "Peru",
        "Norway",
        "Chad",
    ]
    assert _verdicts(runs) == [True, False, False, None, None]
    assert [run["status"] for run in runs] == ["success"] * 4 + ["error"]
    assert runs[0]["scores"].keys() == {"close", "EqualsExpected", "fits"}
    assert runs[3]["scores"]["fits"]["raw"] is None
    assert "no ruler" in runs[3]["gates"]["pydantic_evals_passed"]["reason"]
    assert {one["raw"] for one in runs[4]["scores"].values()} == {None}
    assert runs[1]["outputs"] == {"answer": "madrid"}
    assert runs[1]["expected"] == {"answer": "Madrid"}
    assert runs[1]["inputs"] == {"country": "Spain"}
    assert runs[0]["workflow"]["id"] == "atlas"
    assert runs[0]["dataset"]["id"] == "capitals"
    assert tally.read == {"cases": 4, "failures": 1, "evaluator failures": 1}
    assert tally.dropped == {"labels, which are not graded": 3}


def test_repeats_are_attempts_and_a_lost_repeat_is_missing(tmp_path: Path) -> None:
    runs, _ = imported(NAME, FOLDER / "repeats.json")
    assert [(run["dataset"]["sample_id"], run["attempt"]) for run in runs[:3]] == [
        ("France", 1),
        ("France", 2),
        ("Spain", 1),
    ]
    tree = json.loads((FOLDER / "repeats.json").read_text())
    del tree["cases"][1]
    path = tmp_path / "report.json"
    path.write_text(json.dumps(tree))
    again, _ = imported(NAME, path)
    assert len(again) == len(runs)
    lost = again[-1]
    assert (lost["dataset"]["sample_id"], lost["attempt"]) == ("France", 2)
    assert lost["status"] == "cancelled"


def test_assertions_of_single_cases_become_a_share() -> None:
    runs, tally = imported(NAME, FOLDER / "own_evaluators.json")
    assert [run["scores"]["assertions"]["raw"] for run in runs] == [1, 0, 0]
    assert list(tally.metrics) == ["assertions"]
    assert _verdicts(runs) == [True, False, False]
    assert any("share of the assertions it passes" in note for note in tally.notes)


def test_a_case_that_loses_an_assertion_fails_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    template = json.loads((FOLDER / "report.json").read_text())["cases"][0]

    def report(name: str, correct: range) -> Path:
        cases = []
        for index in range(60):
            names = ["Polite", *(["Correct"] if index in correct else [])]
            held = {one: {"name": one, "value": True, "source": {"name": one}} for one in names}
            cases.append({**template, "name": f"c{index}", "assertions": held, "scores": {}})
        path = Path(name)
        path.write_text(json.dumps({"name": "exp", "cases": cases, "failures": []}))
        return path

    report("old.json", range(20))
    report("new.json", range(1))
    assert assay(["gate", "new.json", "--baseline", "old.json"]) != ExitCode.PASSED
    assert "19 samples can't be compared, such as exp/c1:" in capsys.readouterr().out
    # a new case is not held to the assertions that some others have
    plain = json.loads(report("more.json", range(20)).read_text())
    plain["cases"].append({**plain["cases"][-1], "name": "new"})
    Path("more.json").write_text(json.dumps(plain))
    assert assay(["gate", "more.json", "--baseline", "old.json", "--json"]) == ExitCode.PASSED
    rules = {rule["id"]: rule["holds"] for rule in json.loads(capsys.readouterr().out)["rules"]}
    assert rules["gate_failure_rate"] is True


def test_a_candidate_brings_no_evaluator_with_other_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    template = json.loads((FOLDER / "report.json").read_text())["cases"][0]

    def report(name: str, rubric: str, *, failed: int = 0, version: str | None = None) -> str:
        source = {"name": "LLMJudge", "arguments": {"rubric": rubric}}
        held = {"Good": {"name": "Good", "value": True, "source": source}}
        held["Good"]["evaluator_version"] = version
        cases = [
            {**template, "name": f"c{index}", "assertions": held, "scores": {}}
            for index in range(60)
        ]
        tree = {"name": "exp", "cases": cases[failed:], "failures": cases[:failed]}
        Path(name).write_text(json.dumps(tree))
        return name

    def decided(candidate: str) -> str:
        assert assay(["gate", candidate, "--baseline", "old.json"]) != ExitCode.PASSED
        return capsys.readouterr().out

    report("old.json", "Is it correct?")
    same = report("same.json", "Is it correct?")
    assert assay(["gate", same, "--baseline", "old.json"]) == ExitCode.PASSED
    other = "checked for different things"
    assert other in decided(report("eased.json", "Is it a text?"))
    newer = report("newer.json", "Is it correct?", version="2")
    assert other in decided(newer)
    # a case whose task failed has lost nothing but its result
    assert other not in decided(report("failed.json", "Is it correct?", failed=1))
    # an evaluator of one case is required of that case alone
    for name, texts in (("old.json", "a"), ("more.json", "ab")):
        tree = json.loads(Path(same).read_text())
        for index, text in enumerate(texts):
            source = {"name": "Contains", "arguments": {"value": text}}
            own = {"Contains": {"name": "Contains", "value": True, "source": source}}
            tree["cases"].append(
                {**template, "name": f"own{index}", "assertions": own, "scores": {}}
            )
        Path(name).write_text(json.dumps(tree))
    assert assay(["gate", "more.json", "--baseline", "old.json"]) == ExitCode.PASSED


def test_a_report_without_assertions_has_no_verdict(tmp_path: Path) -> None:
    tree = json.loads((FOLDER / "report.json").read_text())
    for case in tree["cases"]:
        case["assertions"] = {}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(tree))
    runs, tally = imported(NAME, path)
    assert not any("gates" in run for run in runs)
    assert list(tally.metrics) == ["close"]


def test_a_damaged_report_is_refused_in_words_or_read(tmp_path: Path) -> None:
    tree = json.loads((FOLDER / "report.json").read_text())
    path = tmp_path / "report.json"
    survived = 0
    for made in broken(tree, 120):
        path.write_text(json.dumps(made))
        survived += survives(NAME, path)
    assert 0 < survived < 120
    path.write_text((FOLDER / "report.json").read_text()[:-200])
    with pytest.raises(InputError, match="cut off"):
        imported(NAME, path)
    tree["cases"][0]["assertions"]["fits"]["value"] = "yes"
    path.write_text(json.dumps(tree))
    with pytest.raises(InputError, match="must be true or false; here it is 'yes'"):
        imported(NAME, path)
    path.write_text(json.dumps([tree]))
    with pytest.raises(InputError, match="the report must be an object; here it is a list"):
        imported(NAME, path)
