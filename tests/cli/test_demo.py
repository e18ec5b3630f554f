"""`assay demo`: the main job on bundled examples, good and bad, explained, without network or
key.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from assay.families.repair.repair import lacking
from assay.views.schemas import SCHEMAS
from checkout import ROOT
from commands import Result

FAMILIES = ("code-repair", "dag-review", "rag", "tool-use")


def _results(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "grades.json").read_text())["results"]
    return found


def test_the_demo_writes_a_report_and_the_grades_and_says_where(demo: Any) -> None:
    done, folder = demo
    assert (done.code, done.err) == (0, "")
    files = [
        "decisions.json",
        "exam.json",
        "grades.json",
        "judge.html",
        "repair",
        "report.html",
        "tool-reports.json",
    ]
    assert sorted(path.name for path in folder.iterdir()) == files
    assert sorted(path.name for path in (folder / "repair").iterdir()) == [
        "grades.json",
        "journal.jsonl",
        "runs.jsonl",
    ]
    assert "out/report.html" in done.out
    assert "out/grades.json" in done.out


def test_the_demo_grades_what_another_tool_wrote(demo: Any) -> None:
    assert "promptfoo passed 10 of 16 samples, Assay passes 10" in demo[0].out
    assert "imported-promptfoo@1+" in demo[0].out


@pytest.mark.req("W-086")
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_runs_that_pass_and_runs_that_do_not(demo: Any, family: str) -> None:
    results = [
        result for result in _results(demo[1]) if (result["workflow"] or {}).get("family") == family
    ]
    assert len(results) == 3
    assert {result["passed"] for result in results} == {True, False}
    assert {result["profile"] for result in results} == {f"{family}@1"}


def test_the_bare_scorecards_are_there_too_and_every_letter_appears(demo: Any) -> None:
    results = _results(demo[1])
    assert len(results) == 15
    assert len([result for result in results if result["profile"] is None]) == 3
    assert {result["grade"] for result in results} == set("ABCDF")
    assert {result["reason"] for result in results} >= {
        "passed",
        "hard_gate_failure",
        "critical_floor_failure",
    }


def test_each_run_is_told_with_its_letter_and_why(demo: Any) -> None:
    text = demo[0].out
    for result in _results(demo[1]):
        lines = text.splitlines()
        at = next(
            index for index, line in enumerate(lines) if line.split()[-1:] == [result["run_id"]]
        )
        assert lines[at].split()[:3] == [
            result["grade"],
            f"{result['weighted_score']:.2f}",
            "passed" if result["passed"] else "FAILED",
        ]
        sentences = []
        for line in lines[at + 1 :]:
            if not line.startswith("       "):
                break
            sentences.append(line.strip())
        assert sentences
        for name in result["hard_gate_failures"]:
            assert any(line.startswith(f"Gate {name} ") for line in sentences)
        for name in result["floor_failures"]:
            assert any(
                line.startswith(f"{name} is ") and "below its floor" in line for line in sentences
            )


def test_the_grades_keep_the_published_schema_and_the_page_shows_every_run(demo: Any) -> None:
    document = json.loads((demo[1] / "grades.json").read_text())
    assert [
        error.message
        for error in jsonschema_rs.Draft202012Validator(SCHEMAS["grades"]).iter_errors(document)
    ] == []
    page = (demo[1] / "report.html").read_text()
    named = [result["sample_id"] or result["run_id"] for result in document["results"]]
    assert [name for name in named if name not in page] == []


@pytest.fixture(scope="module")
def again(alone: Any) -> Any:
    """The demo once more, as JSON and into the folder that it takes when it is told none."""
    return alone[0], alone[1]


def test_the_demo_says_the_same_twice_and_as_json(demo: Any, again: Any) -> None:
    done, folder = again
    found = done.json()
    assert done.code == 0
    assert found["results"] == _results(demo[1])
    assert (
        found["summary"]["n"],
        found["summary"]["scoringSystem"],
        found["summary"]["gradingSystem"],
    ) == (15, "scoringSystem/1.0.0", "gradingSystem/1.0.0")
    for name in ("grades.json", "report.html", "repair/runs.jsonl", "repair/grades.json"):
        assert (folder / name).read_bytes() == (demo[1] / name).read_bytes()


def test_the_commands_that_the_demo_recommends_work(demo: Any, assay: Any, tmp_path: Path) -> None:
    lines = dict(line.split(": ", 1) for line in demo[0].out.splitlines()[-4:])
    commands = [line.split()[1:] for line in lines.values()]
    assert all(line.split()[0].endswith("assay") for line in lines.values())
    examples = ROOT / "src" / "assay" / "cli" / "examples"
    for name in ("results.json", "candidate.jsonl", "baseline.jsonl"):
        (tmp_path / name).write_text((examples / "rag.jsonl").read_text().splitlines()[0])
    assert [assay(*words).code for words in (*commands[1:3], commands[0])] == [0, 4, 0]
    assert commands[3] == ["tools", "check", "--mcp", "'python", "server.py'"]


def test_a_folder_that_cannot_be_written_is_told_and_not_a_fault_of_ours(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = assay("demo", "--out", "file/under")
    assert done.code == 2
    assert "cannot be written" in done.err


ALONE = (
    "import sys\ndef hook(event, arguments):\n    if event.startswith('socket.') and event not in"
    " ('socket.gethostname', 'socket.__new__'):\n        raise"
    " SystemExit(99)\nsys.addaudithook(hook)\nfrom assay.cli.main import run\nsys.exit(run(['demo',"
    " '--json']))"
)


def _without_network() -> list[str] | None:
    """What a command is to be started with, so that it has none; None where it cannot be taken
    away.
    """
    unshare = shutil.which("unshare")
    tried = ([unshare, "-n"], [unshare, "-rn"]) if unshare is not None else ()
    return next(
        (
            found
            for found in tried
            if subprocess.run([*found, "true"], capture_output=True, check=False).returncode == 0
        ),
        None,
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The demo, ended at its first word to anybody, and without a network where that can be taken
    away: what it said, its folder, and how it was started.
    """
    folder = tmp_path_factory.mktemp("alone")
    prefix = _without_network()
    done = subprocess.run(
        [*(prefix or ()), sys.executable, "-c", ALONE], capture_output=True, cwd=folder, check=False
    )
    return Result(done.returncode, done.stdout, done.stderr), folder / "demo", prefix


def test_the_demo_talks_to_nobody(alone: Any, tmp_path: Path) -> None:
    assert alone[0].code == 0
    speaking = ALONE.replace(
        "from assay", "import socket; socket.socket().connect(('127.0.0.1', 9))\nfrom assay"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", speaking], capture_output=True, cwd=tmp_path, check=False
        ).returncode
        == 99
    )


def test_the_demo_runs_where_there_is_no_network(alone: Any) -> None:
    done, folder, prefix = alone
    if prefix is None:
        pytest.skip(
            "the network cannot be taken away: `unshare` is not installed, or this machine does not"
            " let it make a network namespace"
        )
    probe = (
        "import socket, sys; s = socket.socket(); s.settimeout(2); sys.exit(7 if"
        " s.connect_ex(('127.0.0.1', 9)) else 0)"
    )
    assert (
        subprocess.run(
            [*prefix, sys.executable, "-c", probe], capture_output=True, check=False
        ).returncode
        == 7
    )  # not even to itself
    assert done.code == 0
    assert len(_results(folder)) == 15


def test_the_demo_replays_a_recorded_judge_without_asking_it_and_decides_a_release(
    again: Any,
) -> None:
    found = again[0].json()
    card = found["judge"]
    assert card["usage"]["calls"] == 0, (
        "the words of the questions changed: run tests/support/record_demo_judge.py"
    )
    assert card["usage"]["cached"] == 48
    assert card["admission"]["may_gate"] is False
    assert card["biases"]["position"]["lost"] == 0
    assert [decision["outcome"] for decision in found["decisions"]] == ["hold", "promote"]
    assert found["decisions"][0]["comparison"]["superior"] is True, (
        "better on average, and still not to ship"
    )


def test_the_demo_promotes_a_noisy_bot_and_rejects_a_broken_one_after_fresh_runs(
    demo: Any, again: Any
) -> None:
    noise = again[0].json()["noise"]
    same, broken = noise["same"], noise["next"]
    assert (same["decision"]["outcome"], broken["decision"]["outcome"]) == ("promote", "reject")
    verdicts = [
        {(one["sample"].rpartition("/")[2], one["verdict"]) for one in suspects}
        for suspects in (made["decision"]["confirmation"]["suspects"] for made in noise.values())
    ]
    assert {verdict for _, verdict in verdicts[0]} <= {"flaky", "baseline_fails_too"}
    assert len(verdicts[0]) > 1, "it shows noise that is cleared"
    assert ("q-04", "confirmed") in verdicts[1]
    for made in (same, broken):
        assert made["fresh_runs"] == sum(made["decision"]["confirmation"]["runs"].values())
        assert f"After {made['fresh_runs']} fresh runs of both versions" in demo[0].out
    decided = json.loads((demo[1] / "decisions.json").read_text())["decisions"]
    assert decided == [same["decision"], broken["decision"], *again[0].json()["decisions"]]


def _table(text: str) -> dict[str, list[str]]:
    """The lines on the issues, cut into their columns."""
    return {
        line.split()[0]: re.split(r"  +", line.strip())
        for line in text.splitlines()
        if line.startswith("  shed-")
    }


@pytest.mark.req("W-058")
def test_the_demo_repairs_code_for_real_and_tells_each_issue_with_its_reason(demo: Any) -> None:
    why = lacking()
    if why and os.environ.get("CI") != "true":
        pytest.skip(why)
    table = _table(demo[0].out)
    assert [table[name][1:6] for name in sorted(table)] == [
        ["yes", "2 of 2", "2 of 2", "kept", "B"],
        ["yes", "1 of 1", "2 of 2", "kept", "A"],
        ["yes", "1 of 1", "1 of 3", "kept", "F"],
        ["no", "unknown", "unknown", "unknown", "F"],
        ["yes", "1 of 1", "2 of 2", "VIOLATED", "F"],
        ["yes", "1 of 2", "2 of 2", "kept", "F"],
    ]
    reasons = {
        "shed-1": "every gate holds",
        "shed-3": "test_as_written",
        "shed-4": "patch failed",
        "shed-5": "reach a network",
        "shed-6": "'Ada' != 'Ben'",
    }
    for name, words in reasons.items():
        assert words in table[name][6]
    document = json.loads((demo[1] / "repair" / "grades.json").read_text())
    assert [
        error.message
        for error in jsonschema_rs.Draft202012Validator(SCHEMAS["grades"]).iter_errors(document)
    ] == []
    assert not os.path.exists("/usr/shed-usage.log"), "what one of the patches tries to write"


@pytest.mark.parametrize("tools", [(), ("git",)])
def test_without_git_or_a_sandbox_the_demo_says_so_and_nothing_passes_that_was_not_run(
    assay: Any, tmp_path: Path, tools: tuple[str, ...]
) -> None:
    (tmp_path / "bin").mkdir()
    for tool in tools:
        found = shutil.which(tool)
        if found is None:
            pytest.skip(f"{tool} is not installed")
        (tmp_path / "bin" / tool).symlink_to(found)
    done = assay("demo", "--out", "out", env={"PATH": str(tmp_path / "bin")})
    assert (done.code, done.err) == (0, "")
    assert done.out.count("no code runs here") == 1
    assert f"apt-get install {'bubblewrap' if tools else 'git'}" in done.out
    assert "shed-1" not in done.out, "six failures would say nothing about the bot"
    results = json.loads((tmp_path / "out" / "repair" / "grades.json").read_text())["results"]
    assert {(result["grade"], result["passed"]) for result in results} == {("F", False)}
    for name in ("tests_fail_to_pass_all_green", "no_sandbox_violation"):
        assert {result["hard_gates"][name]["status"] for result in results} == {"undetermined"}
