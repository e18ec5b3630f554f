"""The plugin in real sessions of pytest: alone, with xdist, with failing and malformed evidence,
and unused.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from assay.pytest_plugin import Assay
from checkout import ROOT
from commands import Result
from documents import run, scorecard

LOAD = ["-p", "assay.pytest_plugin"]
HEAD = (
    "import json\nimport pytest\n\ndef load(name):\n    return json.loads(open(name +"
    " '.json').read())\n\n"
)


@pytest.fixture
def session(tmp_path: Path) -> Any:
    """Write a test file and run pytest on it, without anything of this repository's
    configuration.
    """
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    evidence = {
        "good": run(run_id="good"),
        "bad": run(run_id="bad", status="failed"),
        "card": scorecard({"norm": 0.95}, run_id="card"),
        "low": scorecard({"norm": 0.2}, run_id="low"),
        "odd": scorecard({"norm": 0.2}, run_id="odd\n\x1b[2K"),
        "broken": {**scorecard({"norm": 0.2}), "criteria": []},
    }
    for name, tree in evidence.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(tree))

    def start(text: str, *arguments: str, env: dict[str, str] | None = None) -> Result:
        (tmp_path / "test_it.py").write_text(HEAD + text)
        plugins = [*LOAD, *(["-p", "xdist.plugin"] if "-n" in arguments else [])]
        words = ["-q", "-p", "no:cacheprovider", "--strict-markers", *plugins, *arguments]
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
        }
        # the plugins of others that happen to be here take seconds to load
        clean |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **(env or {})}
        command = [sys.executable, "-m", "pytest", *words]
        done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, check=False)
        return Result(done.returncode, done.stdout, done.stderr)

    return start


def test_a_grade_that_passed_passes_its_test_and_one_that_did_not_fails_it_with_the_reason(
    session: Any,
) -> None:
    text = """
def test_good(assay):
    assert assay.grade(load("good"))

def test_bad(assay):
    assert assay.grade(load("bad"))
"""
    done = session(text)
    assert done.code == 1
    assert ", not passed; overall_status_success failed>" in done.out
    assert "bad  gate overall_status_success does not pass  test_it.py::test_bad" in done.out
    assert "2 graded: 1 passed, 1 failed" in done.out
    assert "policy workflow@1 · scoringSystem/1.0.0 · gradingSystem/1.0.0" in done.out


def test_runs_and_scorecards_may_be_records_or_mappings(session: Any) -> None:
    text = """
def test_it(assay):
    from assay.api.grading import score
    card = score(load("good"))
    assert assay.grade(card).score_units == assay.grade(load("good")).score_units
    assert assay.grade(load("card")).grade == "A"
    from assay.files.json_files import Document
    from assay.records.reading import read_run
    assert assay.grade(read_run(Document(load("good"), "x"))).passed
    assert assay.grade(load("good"))
    assert not assay.grade(load("bad")), "a grade is true only where the run passed"
"""
    done = session(text)
    assert done.code == 0, done.out
    assert "6 graded: 5 passed, 1 failed  (A 5 · F 1)" in done.out


def test_a_marker_gives_defaults_and_an_argument_overrides_them(session: Any) -> None:
    text = """
pytestmark = pytest.mark.assay(profile="rag")

def test_module(assay):
    assert "answer_grounded" in assay.grade(load("card")).hard_gate_failures

@pytest.mark.assay(profile="tool-use", policy="workflow@1")
def test_nearest(assay):
    failed = assay.grade(load("card")).hard_gate_failures
    assert "no_forbidden_tool" in failed and "answer_grounded" not in failed
    assert "patch_applies_cleanly" in assay.grade(load("card"), profile="code-repair").hard_gate_failures

@pytest.mark.assay(profiel="rag")
def test_slip(assay):
    pass

@pytest.mark.assay(policy="worklow")
def test_unknown(assay):
    assay.grade(load("card"))
"""
    done = session(text)
    assert "2 passed, 1 failed, 1 error" in done.out or "1 failed, 2 passed, 1 error" in done.out, (
        done.out
    )
    assert "takes profile= and policy=, not profiel" in done.out
    assert "Did you mean 'workflow'?" in done.out


def test_a_file_is_graded_whole_or_not_at_all(session: Any, tmp_path: Path) -> None:
    cards = [scorecard({"norm": 0.9}, run_id=f"r-{index}") for index in range(3)]
    (tmp_path / "cards.jsonl").write_text("\n".join(map(json.dumps, cards)))
    (tmp_path / "cut.jsonl").write_text(json.dumps(cards[0]) + "\n{oops")
    (tmp_path / "twice.jsonl").write_text("\n".join([json.dumps(cards[0])] * 2))
    (tmp_path / "empty.jsonl").write_text("")
    low = scorecard({"norm": 0.2}, run_id="low")
    (tmp_path / "one_low.jsonl").write_text("\n".join(map(json.dumps, [*cards, low])))
    text = """
from pathlib import Path
import assay as product

def test_file(assay):
    assert assay.grade_file("cards.jsonl")
    low = assay.grade_file("one_low.jsonl")
    assert not low
    assert repr(low) == "1 of 4 runs did not pass; low: 20.00 is below 70"
    assert [grade.run_id for grade in assay.grade_file(Path("cards.jsonl"))] == ["r-0", "r-1", "r-2"]

@pytest.mark.parametrize(("name", "code"), [("cut", "FIL-002"), ("twice", "FIL-007"), ("empty", "FIL-005"), ("gone", "FIL-001")])
def test_faults(assay, name, code):
    with pytest.raises(product.AssayError) as caught:
        assay.grade_file(name + ".jsonl")
    assert caught.value.code == code
"""
    assert session(text).code == 0


def test_malformed_evidence_is_an_error_that_says_what_is_wrong(session: Any) -> None:
    text = """
@pytest.mark.parametrize("evidence", [load("broken"), {}, [1], None, "text", {"schema": "assay.run/1"}, {1: 2}, {**load("low"), "run_id": object()}])
def test_it(assay, evidence):
    assay.grade(evidence)

def test_nan(assay):
    tree = load("low")
    tree["criteria"][0]["raw_score"] = float("nan")
    assay.grade(tree)
"""
    done = session(text)
    assert "9 failed" in done.out
    assert done.out.count("assay.errors.EvidenceError") >= 9
    assert "INTERNALERROR" not in done.out


MANY = """
@pytest.mark.parametrize("n", range(12))
def test_many(assay, n):
    tree = load("low" if n % 3 == 0 else "card")
    tree["run_id"] = f"r-{n}"
    grade = assay.grade(tree)
    assert grade.passed, grade.reason

def test_quiet(assay):
    assay.grade(load("bad"))

def test_none(assay):
    pass

def test_skipped(assay):
    pytest.skip("no time")

def test_other():
    pass
"""


def test_with_xdist_the_summary_and_the_report_are_the_same(session: Any, tmp_path: Path) -> None:
    pytest.importorskip("xdist", reason="needs pytest-xdist")
    alone = session(MANY, "--assay-report", "one.json")
    both = session(MANY, "-n", "2", "--assay-report", "two.json")
    assert alone.code == both.code == 1
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()

    def section(text: str) -> list[str]:
        lines = text.splitlines()
        start = next(index for index, line in enumerate(lines) if line.strip("= ") == "assay")
        end = next(
            index for index, line in enumerate(lines) if line.startswith("policy ")
        )  # what follows is pytest's own, in the order of arrival
        return [line for line in lines[start + 1 : end] if not line.startswith("wrote")]

    assert section(alone.out) == section(both.out)
    document = json.loads((tmp_path / "two.json").read_text())
    assert document["schema"] == "assay.grades/1"
    assert document["counts"]["graded"] == len(document["results"]) == 13
    assert (
        document["counts"]["passed"],
        document["counts"]["failed"],
        document["counts"]["faults"],
    ) == (8, 5, 2)
    assert [fault["file"] for fault in document["faults"]] == [
        "test_it.py::test_none",
        "test_it.py::test_skipped",
    ]


def test_a_worker_that_dies_loses_only_the_test_it_was_in(session: Any, tmp_path: Path) -> None:
    pytest.importorskip("xdist", reason="needs pytest-xdist")
    text = (
        MANY + "\ndef test_zz_dies(assay):\n    import os\n    assay.grade(load('card'))\n   "
        " os._exit(7)\n"
    )
    done = session(text, "-n", "1", "--assay-report", "r.json")
    assert done.code == 1
    assert "crashed" in done.out
    assert json.loads((tmp_path / "r.json").read_text())["counts"]["graded"] == 13


MISSED = """
import os

@pytest.fixture
def key():
    if "DIES" in os.environ:
        os._exit(7)
    raise RuntimeError("no key")

def test_a(assay):
    assert assay.grade(load("good"))

@pytest.mark.skip(reason="no time")
def test_b(assay):
    assert assay.grade(load("good"))

def test_c(key, assay):
    assert assay.grade(load("good"))

def test_d(assay):
    assert assay.grade(load("good"))
"""


def test_gates_that_were_skipped_or_never_ran_are_missing_from_the_report(
    session: Any, tmp_path: Path
) -> None:
    done = session(MISSED, "-x", "--assay-report", "r.json")
    assert done.code == 1
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["counts"]["graded"] == 1
    assert {fault["file"][-1]: fault["message"] for fault in document["faults"]} == {
        "b": "the test asked for grades and made none.",
        "c": "the test asked for grades and made none.",
        "d": "the test asks for grades and did not run.",
    }
    assert "no grade from test_it.py::test_d" in done.out


def test_a_file_that_cannot_be_collected_is_missing_from_the_report(
    session: Any, tmp_path: Path
) -> None:
    (tmp_path / "test_broken.py").write_text("import nothing_of_this_name\n")
    text = 'def test_a(assay):\n    assert assay.grade(load("good"))\n'
    session(text, "--continue-on-collection-errors", "--assay-report", "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    assert (document["counts"]["graded"], len(document["faults"])) == (1, 1)
    assert document["faults"][0]["file"] == "test_broken.py"


def test_a_worker_that_dies_before_the_fixture_leaves_its_test_missing(
    session: Any, tmp_path: Path
) -> None:
    pytest.importorskip("xdist", reason="needs pytest-xdist")
    session(MISSED, "-n", "1", "--assay-report", "r.json", env={"DIES": "1"})
    faults = json.loads((tmp_path / "r.json").read_text())["faults"]
    assert [fault["file"][-6:] for fault in faults] == ["test_b", "test_c"]


def test_a_session_that_is_killed_leaves_no_earlier_report(session: Any, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("an earlier report")
    text = "import os\n\ndef test_a(assay):\n    os._exit(0)\n"
    session(text, "--assay-report", "r.json")
    assert not (tmp_path / "r.json").exists()


def test_a_failed_run_whose_test_passed_is_told_as_such(session: Any) -> None:
    done = session(MANY, "-k", "quiet or none")
    assert done.code == 0
    assert "test_it.py::test_quiet (its test passed)" in done.out
    assert "no grade from test_it.py::test_none: the test asked for grades" in done.out
    assert "1 graded: 0 passed, 1 failed" in done.out


def test_hostile_names_do_not_reach_the_terminal_as_they_are(session: Any) -> None:
    done = session("def test_it(assay):\n    assay.grade(load('odd'))\n")
    assert "\x1b[2K" not in done.out
    assert "odd\\n\\x1b[2K" in done.out


@pytest.mark.parametrize("extension", ["md", "xml"])
def test_the_report_is_written_in_the_form_its_extension_asks_for(
    session: Any, tmp_path: Path, extension: str
) -> None:
    done = session(MANY, "-k", "many", "--assay-report", f"out/r.{extension}")
    assert done.code == 1
    assert f"wrote out/r.{extension}" in done.out
    text = (tmp_path / "out" / f"r.{extension}").read_text()
    listed = range(0, 12, 3) if extension == "md" else range(12)  # Markdown: those that failed
    assert all(f"r-{index}" in text for index in listed)
    if extension == "xml":
        assert ElementTree.fromstring(text).get("failures") == "4"


def test_the_report_equals_what_the_command_writes(
    session: Any, assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "both.jsonl").write_text(
        "\n".join(
            json.dumps(json.loads((tmp_path / f"{name}.json").read_text()))
            for name in ("good", "low")
        )
    )
    session("def test_it(assay):\n    assay.grade_file('both.jsonl')\n", "--assay-report", "r.json")
    assay("grade", "both.jsonl", "-o", "c.json")
    assert (tmp_path / "r.json").read_bytes() == (tmp_path / "c.json").read_bytes()


def test_a_report_that_cannot_be_written_is_no_success(session: Any, tmp_path: Path) -> None:
    text = "def test_it(assay):\n    assert assay.grade(load('card')).passed\n"
    assert "this extension; use" in session(text, "--assay-report", "r.txt").err
    (tmp_path / "file").write_text("")
    done = session(text, "--assay-report", "file/r.json")
    assert done.code == 4
    assert "FIL-008" in done.out + done.err or "cannot be written" in done.out + done.err
    assert "INTERNALERROR" not in done.out


def test_a_library_of_a_team_is_found_by_its_variable(session: Any, tmp_path: Path) -> None:
    (tmp_path / "shelf" / "policies").mkdir(parents=True)
    shelf = ROOT / "src" / "assay" / "library" / "policies" / "workflow@1.yaml"
    ours = shelf.read_text().replace("policy: workflow", "policy: ours")
    (tmp_path / "shelf" / "policies" / "ours@1.yaml").write_text(ours)
    text = (
        "def test_it(assay):\n    assert assay.grade(load('card'), policy='ours').policy =="
        " 'ours@1'\n"
    )
    done = session(text, env={"ASSAY_LIBRARY": "shelf"})
    assert done.code == 0, done.out


# --- unused


def test_a_suite_that_does_not_use_it_does_not_notice_it(session: Any) -> None:
    text = """
import sys

def test_it():
    heavy = {"assay.services.grading", "assay.errors", "msgspec", "jiter"} & set(sys.modules)  # other plugins may load a schema or YAML library
    assert not heavy, heavy
"""
    done = session(text)
    assert done.code == 0, done.out
    assert "assay" not in done.out


def test_pytest_finds_the_plugin_by_itself_once_it_is_installed() -> None:
    found = entry_points(group="pytest11", name="assay")
    assert [entry.value for entry in found] == ["assay.pytest_plugin"]


def test_the_profile_and_gates_of_the_project_are_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by `assay grade` in the same folder."""
    monkeypatch.chdir(tmp_path)
    plain = Assay([], profile="code-repair", policy=None, whole=False)
    assert plain.grade(run(run_id="good")).passed
    (tmp_path / "checks.py").write_text("def polite(run):\n    return True\n")
    (tmp_path / "assay.yaml").write_text("gates:\n  - {target: 'checks:polite'}\n")
    strict = Assay([], profile="code-repair", policy=None, whole=False)
    grade = strict.grade(run(run_id="good"))
    assert not grade.passed
    assert "polite" in str(grade)
