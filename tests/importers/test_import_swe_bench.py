"""Results of SWE-bench: verdicts of the run report, tests of instances, and logs that agree."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.files.swe_bench import is_report, report_lists
from peer_files import RECORDED, SHARED, broken, imported, needs_shared, survives, takers

FOLDER = RECORDED / "swe_bench"
MADE = json.loads((FOLDER / "made.json").read_text())
REPORT = FOLDER / "acme__fixer-1.ours.json"
INSTANCES = FOLDER / "logs" / "run_evaluation" / "ours" / "acme__fixer-1"


def instance(name: str, tmp_path: Path, **changes) -> Path:
    tree = json.loads((INSTANCES / name / "report.json").read_text())
    tree[name] |= changes
    path = tmp_path / name / "report.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(tree))
    return path


@pytest.mark.parametrize("made", MADE)
def test_totals_are_those_of_the_harness(made: Any) -> None:
    paths = [FOLDER / name for name in made["files"]]
    assert [takers(path) for path in paths] == [["swe_bench"]] * len(paths)
    runs, tally = imported("swe_bench", *paths)
    assert made["totals"] == {"samples": len(runs), "passed": tally.passed}
    assert tally.stated in ({}, made["totals"])
    assert {run["workflow"]["version"] for run in runs} == {"acme/fixer-1"}


def test_what_was_not_submitted_or_errored_is_missing() -> None:
    runs, _ = imported("swe_bench", *(FOLDER / name for name in MADE[1]["files"]))
    found = {run["dataset"]["sample_id"].partition("__")[2]: run for run in runs}
    gates = {name: run["gates"]["swe_bench_passed"] for name, run in found.items()}
    assert {name: gate["passed"] for name, gate in gates.items()} == {
        "solved-1": True,
        "half-2": False,
        "broke-3": False,
        "unapplied-4": False,
        "empty-5": False,
        "crashed-6": None,
        "absent-7": None,
    }
    assert [found[name]["status"] for name in ("empty-5", "crashed-6", "absent-7")] == [
        "failed",
        "error",
        "cancelled",
    ]
    assert found["half-2"]["tests"] == {
        "fail_to_pass": {"passed": 0, "total": 1},
        "pass_to_pass": {"passed": 1, "total": 1},
    }
    assert found["half-2"]["patch_applies"] is True
    assert found["unapplied-4"]["patch_applies"] is False
    assert gates["absent-7"]["reason"] == "not submitted"
    assert found["crashed-6"]["scores"]["resolved"]["raw"] is None


def test_instances_that_a_report_counts_and_does_not_name_are_missing(tmp_path) -> None:
    tree = json.loads(REPORT.read_text()) | {"total_instances": 9}
    path = tmp_path / "m.r.json"
    path.write_text(json.dumps(tree))
    runs, tally = imported("swe_bench", path)
    assert [run["dataset"]["sample_id"] for run in runs[7:]] == ["missing-8", "missing-9"]
    assert tally.stated["samples"] == 9


def test_an_ambiguous_failure_is_missing_whatever_list_has_it_too(tmp_path) -> None:
    tree = json.loads(REPORT.read_text())
    tree |= {"ambiguous_failure_ids": ["acme__solved-1"], "ambiguous_failure_instances": 1}
    path = tmp_path / "m.r.json"
    path.write_text(json.dumps(tree))
    runs, tally = imported("swe_bench", path)
    (run,) = (one for one in runs if one["dataset"]["sample_id"] == "acme__solved-1")
    assert (run["status"], tally.passed) == ("error", 0)
    assert run["gates"]["swe_bench_passed"]["reason"] == "the patch or the environment failed"


@needs_shared
@pytest.mark.parametrize(
    ("name", "count"), [("20240402_sweagent_gpt4", 299), ("auto-code-rover-run-1", 249)]
)
def test_older_reports_are_read(name: str, count: int) -> None:
    reports = SHARED.parent / "swe_bench_docker" / "reports"
    path = reports / f"{name}.report.json"
    assert takers(path) == ["swe_bench"]
    assert is_report(json.loads(path.read_text()))
    runs, tally = imported("swe_bench", path)
    assert (len(runs), tally.passed) == (count, 54)
    assert report_lists(json.loads(path.read_text())).named == count


def test_a_report_that_its_tests_or_its_own_words_deny_is_refused(tmp_path) -> None:
    for name, changes, words in (
        ("acme__half-2", {"resolved": True}, "says resolved: true, and its tests say false"),
        ("acme__solved-1", {"resolved": False}, "says resolved: false, and its tests say true"),
        ("acme__solved-1", {"patch_successfully_applied": False}, "resolved that did not apply"),
        ("acme__solved-1", {"patch_exists": "yes"}, "`patch_exists` must be true or false"),
        ("acme__solved-1", {"tests_status": {"FAIL_TO_PASS": []}}, "must be an object"),
    ):
        with pytest.raises(InputError, match=words):
            imported("swe_bench", instance(name, tmp_path, **changes))
    with pytest.raises(InputError, match="two reports"):
        imported("swe_bench", *[INSTANCES / "acme__half-2" / "report.json"] * 2)
    with pytest.raises(InputError, match="two run reports"):
        imported("swe_bench", REPORT, REPORT)


def test_a_run_report_and_an_instance_report_of_different_runs_are_refused(tmp_path) -> None:
    status = {"FAIL_TO_PASS": {"success": ["a"], "failure": []}}
    status["PASS_TO_PASS"] = {"success": [], "failure": []}
    path = instance("acme__half-2", tmp_path, resolved=True, tests_status=status)
    with pytest.raises(InputError, match="resolved by its own report, and not by the run report"):
        imported("swe_bench", REPORT, path)
    tree = json.loads(path.read_text())
    path.write_text(json.dumps({"acme__other-9": tree["acme__half-2"]}))
    with pytest.raises(InputError, match="isn't named in the run report"):
        imported("swe_bench", REPORT, path)


def test_an_environment_failure_is_missing_and_no_test_of_the_issue_is_noted(tmp_path) -> None:
    path = instance("acme__half-2", tmp_path, infra_failure=True, infra_failure_reason="oom")
    (run,), _ = imported("swe_bench", path)
    assert run["status"] == "error"
    assert run["gates"]["swe_bench_passed"] == {
        "passed": None,
        "reason": "the environment failed: oom",
    }
    nothing = {"success": [], "failure": []}
    tests = {"FAIL_TO_PASS": nothing, "PASS_TO_PASS": nothing}
    _, tally = imported("swe_bench", instance("acme__solved-1", tmp_path, tests_status=tests))
    assert "without a test that failed before" in tally.notes[0]


def test_logs_that_contradict_a_report_are_refused(tmp_path) -> None:
    name = "acme__solved-1"
    report = instance(name, tmp_path)
    log = report.parent / "test_output.txt"
    good = (INSTANCES / name / "test_output.txt").read_text()
    for text, words in (
        (good.replace("PASSED tests/test_a.py::test_fixed", "FAILED tests/test_a.py::test_fixed"),
         "test_fixed passed; the log says FAILED"),
        (">>>>> Patch Apply Failed\n", "the patch applied; the log says that it did not"),
        (good + ">>>>> Tests Timed Out\n", "its tests stopped early"),
        (good.partition(">>>>> End")[0], "no end of its tests"),
        (good + f"Result for {name}: resolved: False\n", "the log says resolved: false"),
    ):  # fmt: skip
        log.write_text(text)
        assert takers(log) == ["swe_bench"]
        with pytest.raises(InputError, match=words):
            imported("swe_bench", report, log)
    log.write_text(good)
    other = tmp_path / "acme__other-9" / "test_output.txt"
    other.parent.mkdir()
    shutil.copy(log, other)
    with pytest.raises(InputError, match="don't have the instance 'acme__other-9'"):
        imported("swe_bench", report, log, other)
    with pytest.raises(InputError, match="logs have no verdicts"):
        imported("swe_bench", log)


def test_the_runners_log_names_its_instance(tmp_path) -> None:
    log = tmp_path / "run_instance.log"
    log.write_text(
        "INFO - Creating container for acme__solved-1...\nINFO - >>>>> Applied Patch:\n"
        "Result for acme__solved-1: resolved: True\n"
    )
    runs, tally = imported("swe_bench", INSTANCES / "acme__solved-1" / "report.json", log)
    assert (len(runs), tally.read["logs"]) == (1, 1)


def test_damaged_files_are_refused_or_read_and_nothing_else(tmp_path) -> None:
    results = []
    for source in (REPORT, INSTANCES / "acme__half-2" / "report.json"):
        tree = json.loads(source.read_text())
        path = tmp_path / "x.json"
        for made in broken(tree, 80):
            path.write_text(json.dumps(made))
            results.append(survives("swe_bench", path))
    assert {True, False} <= set(results)


def test_a_report_of_a_subset_never_promotes(assay, tmp_path) -> None:
    def report(name, resolved, unresolved):
        ids = [f"a__b-{index}" for index in range(resolved + unresolved)]
        tree = {
            "total_instances": len(ids),
            "submitted_instances": len(ids),
            "completed_instances": len(ids),
            "resolved_instances": resolved,
            "unresolved_instances": unresolved,
            "submitted_ids": ids,
            "completed_ids": ids,
            "resolved_ids": ids[:resolved],
            "unresolved_ids": ids[resolved:],
        }
        path = tmp_path / name
        path.write_text(json.dumps(tree))
        return path

    old = report("m.old.json", 60, 40)
    assert assay("gate", report("m.same.json", 60, 40), "--baseline", old).code == 0
    assert assay("gate", report("m.passed.json", 60, 0), "--baseline", old).code == 1


def test_a_resolved_instance_without_the_tests_of_the_baseline_never_promotes(
    assay, tmp_path
) -> None:
    def report(name: str, shown: bool) -> Path:
        given = json.loads((INSTANCES / "acme__solved-1" / "report.json").read_text())
        entry = given["acme__solved-1"]
        trees = {f"acme__{number}": entry for number in range(60)}
        if not shown:  # as if its tests had not failed
            trees["acme__7"] = {key: entry[key] for key in entry if key != "tests_status"}
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(trees))
        return path

    old, same, new = report("old", True), report("same", True), report("new", False)
    assert assay("gate", same, "--baseline", old).code == 0
    decided = assay("gate", new, "--baseline", old, "--json")
    assert (decided.code, decided.json()["outcome"]) == (1, "hold")
    assert "acme__7" in decided.json()["reason"]
