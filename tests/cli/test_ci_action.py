"""The GitHub Action and the GitLab template, run as their systems run them: the steps are taken
from the files, the values come in as a user gives them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkout import ROOT
from commands import ASSAY, run_here
from documents import run, scorecard

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
GITLAB = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())
SCRIPT = ROOT / "ci" / "assay-ci.sh"
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
DECIDED = "# a decision"
HOSTILE = [
    "x; touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "x' ; touch pwned ; '",
    'x" ; touch pwned ; "',
    "x\ntouch pwned",
    "-h",
    "--help",
    "../x && touch pwned",
    "*",
]


class Done:
    """What a step did."""

    def __init__(self, done: subprocess.CompletedProcess[str], folder: Path) -> None:
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr
        written = folder.parent / "output"
        self.outputs = (
            dict(line.split("=", 1) for line in written.read_text().splitlines())
            if written.exists()
            else {}
        )
        summary = folder.parent / "summary"
        self.summary = summary.read_text() if summary.exists() else ""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A checkout of somebody, and a `python3` that notes what it is called with and installs nothing,
    and is the real one otherwise.
    """
    folder = tmp_path / "checkout"
    folder.mkdir()
    tools = tmp_path / "bin"
    tools.mkdir()
    stub = tools / "python3"
    noted = tmp_path / "called"
    stub.write_text(
        f"""#!/bin/sh
{{ printf '%s\\037' "$@"; printf '\\036'; }} >>'{noted}'
{DECIDED}
if [ "$1 $2" = "-m pip" ]; then exit "${{PIP_EXIT:-0}}"; fi
if [ -n "${{COMMAND_EXIT:-}}" ]; then exit "$COMMAND_EXIT"; fi
exec '{sys.executable}' "$@"
"""
    )
    stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
    (tools / "assay").symlink_to(ASSAY)
    return folder


def called(work: Path) -> list[list[str]]:
    noted = work.parent / "called"
    return [one.split("\x1f")[:-1] for one in noted.read_text().split("\x1e")[:-1]]


def environment(work: Path) -> dict[str, str]:
    kept = {
        name: os.environ[name]
        for name in ("HOME", "LANG", "TMPDIR", "PYTHONDONTWRITEBYTECODE")
        if name in os.environ
    }
    return {**kept, "PATH": f"{work.parent / 'bin'}:/usr/bin:/bin", "CI": "true"}


def step(name: str, work: Path, **inputs: str) -> Done:
    """One step of the action, as GitHub runs it: expressions are put into `env`, never into
    `run`. `PULL` and `HEAD` are those of the event.
    """
    taken = STEPS[name]
    event = {
        "github.event.pull_request.number": inputs.pop("PULL", "7"),
        "github.event.pull_request.head.sha": inputs.pop("HEAD", ""),
    }
    given = {**{key: value.get("default", "") for key, value in ACTION["inputs"].items()}, **inputs}
    env = environment(work)
    for key, value in taken["env"].items():
        wanted = re.fullmatch(r"\$\{\{ ([a-z_.]+) \}\}", value)
        assert wanted, value
        input_name = wanted[1].removeprefix("inputs.")
        env[key] = event[wanted[1]] if wanted[1] in event else given[input_name]
    env |= {"GITHUB_ACTIONS": "true", "GITHUB_ACTION_PATH": str(ROOT)}
    env |= {key: value for key, value in inputs.items() if key.isupper()}
    env |= {
        "GITHUB_OUTPUT": str(work.parent / "output"),
        "GITHUB_STEP_SUMMARY": str(work.parent / "summary"),
    }
    assert taken["shell"] == "bash"
    script = work.parent / "step.sh"
    script.write_text(taken["run"])
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    return Done(
        subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False),
        work,
    )


def grade(work: Path, **inputs: str) -> Done:
    return step("Run the gate", work, **inputs)


def cards(path: Path, *norms: float) -> None:
    path.write_text(
        "".join(
            json.dumps(scorecard({"norm": norm}, run_id=f"r-{index}")) + "\n"
            for index, norm in enumerate(norms)
        )
    )


# --- the files themselves


def test_no_value_of_a_user_stands_in_a_script() -> None:
    for taken in STEPS.values():
        assert "${{" not in taken["run"]
    names = (
        "FILE",
        "BASELINE",
        "PROFILE",
        "POLICY",
        "ARGS",
        "PACKAGE",
        "COMMENT",
        "PULL",
        "COMMIT",
    )
    tokens = {"GH_TOKEN", "GH_ENTERPRISE_TOKEN"}
    assert {key for taken in STEPS.values() for key in taken["env"]} == {
        *(f"ASSAY_CI_{name}" for name in names),
        *tokens,
    }
    holders = [name for name, taken in STEPS.items() if not tokens.isdisjoint(taken["env"])]
    assert holders == ["Comment on the pull request"], "what judges has no token"


def test_the_action_declares_what_it_takes_and_gives() -> None:
    assert set(ACTION["inputs"]) == {
        *("file", "baseline", "profile", "policy", "args", "package", "comment", "token")
    }
    assert ACTION["runs"]["using"] == "composite"
    for name, output in ACTION["outputs"].items():
        assert output["value"] == f"${{{{ steps.gate.outputs.{name} }}}}"
    assert set(ACTION["outputs"]) == {"outcome", "exit-code"}
    assert STEPS["Run the gate"]["id"] == "gate"
    assert not any("uses" in taken for taken in STEPS.values())


def test_the_script_is_clean_by_shellcheck() -> None:
    tool = shutil.which("shellcheck")
    if tool is None:
        pytest.skip("shellcheck is not installed: apt-get install shellcheck")
    done = subprocess.run(
        [tool, "--shell=sh", str(SCRIPT)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_the_script_is_read_by_any_posix_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert subprocess.run([shell, "-n", str(SCRIPT)], check=False).returncode == 0
    assert subprocess.run([shell, str(SCRIPT)], capture_output=True, check=False).returncode == 2


# --- grading


@pytest.mark.parametrize(
    ("norms", "code", "outcome"),
    [((0.9, 0.8), 0, "passed"), ((0.9, 0.2), 1, "failed"), ((), 4, "not_enough_evidence")],
)
def test_the_exit_code_and_the_outcome_come_through(
    work: Path, norms: tuple[float, ...], code: int, outcome: str
) -> None:
    cards(work / "runs.jsonl", *norms)
    done = grade(work, file="runs.jsonl")
    assert (done.code, done.outputs) == (
        code,
        {"outcome": outcome, "exit-code": str(code)},
    ), done.err
    assert done.summary.startswith(
        "## Assay: " + {0: "passed", 1: "not passed", 4: "nothing was graded"}[code]
    )
    assert f"assay: {outcome} (exit {code})" in done.out


def test_malformed_evidence_and_misuse_stop_the_build(work: Path) -> None:
    (work / "runs.jsonl").write_text("{oops\n")
    assert grade(work, file="runs.jsonl").outputs == {"outcome": "malformed", "exit-code": "3"}
    done = grade(work, file="runs.jsonl", args="--no-such-option")
    assert (done.code, done.outputs["outcome"]) == (2, "misuse")
    assert (grade(work, file="").code, grade(work, file="gone.jsonl").code) == (2, 3)


def test_files_profile_policy_and_arguments_reach_the_command(work: Path) -> None:
    cards(work / "a file.jsonl", 0.9)
    (work / "b.jsonl").write_text(json.dumps(scorecard({"norm": 0.9}, run_id="other")) + "\n")
    done = grade(
        work, file="a file.jsonl\nb.jsonl\n", policy="workflow@1", args="-o out.json  -o\tout.xml"
    )
    assert done.code == 0, done.err
    assert len(json.loads((work / "out.json").read_text())["results"]) == 2
    assert (work / "out.xml").exists()
    command = called(work)[-1]
    assert command[:4] == ["-m", "assay", "grade", "-o"]
    assert command[5:] == [
        *(
            "--policy=workflow@1",
            "--step-summary",
            "-o",
            "out.json",
            "-o",
            "out.xml",
            "--",
            "a file.jsonl",
            "b.jsonl",
        )
    ]
    assert grade(work, file="b.jsonl", profile="rag").code == 1, (
        "the gates of the profile are required"
    )


def test_a_name_that_begins_with_a_dash_is_a_file(work: Path) -> None:
    cards(work / "-o.jsonl", 0.9)
    assert grade(work, file="-o.jsonl").code == 0


INPUTS = ["file", "baseline", "profile", "policy", "args", "comment"]


def check_shut(done: Done, work: Path) -> None:
    """The gate is not open, the outputs say so and nothing else, and nothing ran."""
    assert done.code != 0
    assert done.outputs["exit-code"] == str(done.code)
    assert set(done.outputs) == {"outcome", "exit-code"}
    assert done.outputs["outcome"] in {
        "failed",
        "misuse",
        "malformed",
        "not_enough_evidence",
        "fault",
        "hold",
        "reject",
    }
    assert not list(work.parent.rglob("pwned*"))


def check_refused(work: Path) -> None:
    """What the step called is refused, or shows the help, which `test_asking_for_help` is about.
    It runs in this process.
    """
    _, _, *arguments = called(work)[-1]
    for place, argument in enumerate(arguments):
        if argument == "-o":
            arguments[place + 1] = Path(arguments[place + 1]).name
    done = run_here(arguments, cwd=work, env={"CI": "true"})
    assert done.code != 0 or done.out.startswith("usage: "), arguments
    assert not list(work.parent.rglob("pwned*")), arguments


@pytest.mark.parametrize("name", INPUTS)
def test_no_value_runs_as_a_command_or_opens_the_gate(work: Path, name: str) -> None:
    """Each value in each input: what the step runs is seen, and what the command makes of it."""
    cards(work / "runs.jsonl", 0.2)
    for value in HOSTILE:
        (work.parent / "output").unlink(missing_ok=True)
        done = grade(work, **{"file": "runs.jsonl", name: value}, COMMAND_EXIT="1")
        check_shut(done, work)
        check_refused(work)


@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_asking_for_help_opens_no_gate(work: Path, asked: str) -> None:
    cards(work / "runs.jsonl", 0.9)
    done = grade(work, file="runs.jsonl", args=asked)
    assert (done.code, done.outputs["outcome"]) == (5, "fault")
    assert gitlab(work, ASSAY_CI_FILE="runs.jsonl", ASSAY_CI_ARGS=asked).code == 5


def test_a_module_in_the_checkout_does_not_pass_for_ours(work: Path) -> None:
    cards(work / "runs.jsonl", 0.2)
    for name in ("assay.py", "json.py", "argparse.py", "pip.py"):
        (work / name).write_text("import sys\nsys.exit(0)\n")
    assert grade(work, file="runs.jsonl").code == 1


# --- installing


def test_the_package_is_installed_as_one_argument(work: Path) -> None:
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--"]
    for value in ("assaykit==0.1.0", *HOSTILE):
        assert step("Install Assay", work, package=value).code == 0
        assert called(work)[-1] == [*pip, value]
    assert step("Install Assay", work).code == 0
    assert called(work)[-1] == [
        *pip,
        str(ROOT),
    ], "without a package the action installs its own version"
    assert not list(work.parent.rglob("pwned*"))


def test_a_failed_installation_fails_the_step(work: Path) -> None:
    assert step("Install Assay", work, PIP_EXIT="1").code == 1


# --- the gate


def fake_gate(work: Path, code: int, text: str) -> None:
    """Put a decision of the contract's shape in the place of the command, so that the script is
    tested without it.
    """
    (work.parent / "said").write_text(text)
    stub = work.parent / "bin" / "python3"
    faked = f"""if [ "$1 $2 $3" = "-m assay gate" ]; then
  cat '{work.parent / "said"}'
  cat '{work.parent / "said"}' >"$6"
  exit {code}
fi"""
    stub.write_text(stub.read_text().replace(DECIDED, faked))


def decided(outcome: str, holds: bool | None) -> str:
    rules = [
        {"id": "score_non_inferiority", "holds": holds, "reason": "it fell | @all", "evidence": {}}
    ]
    versions = {
        "policy": "release@1",
        "scoringSystem": "scoringSystem/1.0.0",
        "gradingSystem": "gradingSystem/1.0.0",
    }
    return json.dumps(
        {"schema": "assay.decision/1", "outcome": outcome, "rules": rules, **versions}
    )


@pytest.mark.parametrize(
    ("code", "text", "outcome", "exit_code"),
    [
        (0, decided("promote", True), "promote", 0),
        (1, decided("hold", None), "hold", 1),
        (1, decided("reject", False), "reject", 1),
        (4, decided("not_enough_evidence", None), "not_enough_evidence", 4),
        (3, "", "malformed", 3),
        (0, "", "fault", 5),
        (0, decided("hold", None), "fault", 5),
        (0, "{oops", "fault", 5),
        (1, decided("x\nexit-code=0", False), "failed", 1),
        (1, decided("promote", True), "failed", 1),
    ],
)
def test_the_decision_names_the_outcome_and_the_exit_code_comes_through(
    work: Path, code: int, text: str, outcome: str, exit_code: int
) -> None:
    fake_gate(work, code, text)
    done = grade(work, file="candidate.jsonl", baseline="baseline.jsonl", policy="release@1")
    assert (done.code, done.outputs) == (
        exit_code,
        {"outcome": outcome, "exit-code": str(exit_code)},
    ), done.err
    gate = next(call for call in called(work) if "gate" in call)
    assert gate[5].endswith("/decision.md")
    assert [*gate[:5], *gate[6:]] == [
        "-m",
        "assay",
        "gate",
        "--json",
        "-o",
        "--release-policy=release@1",
        "--baseline=baseline.jsonl",
        "--",
        "candidate.jsonl",
    ]
    if outcome in ("promote", "hold", "reject"):
        assert done.summary == text


def test_the_real_gate_decides_in_the_step(work: Path) -> None:
    def runs(path: Path, raw: int) -> None:
        scores = {"judge_quality": {"raw": raw}, "patch_similarity": {"raw": 1}}
        made = [
            run(
                run_id=f"r-{i}",
                dataset={"id": "d", "version": "1", "sample_id": f"s-{i}"},
                scores=scores,
            )
            for i in range(60)
        ]
        path.write_text("".join(json.dumps(one) + "\n" for one in made))

    runs(work / "candidate.jsonl", 5)
    runs(work / "baseline.jsonl", 5)
    runs(work / "worse.jsonl", 2)
    good = grade(work, file="candidate.jsonl", baseline="baseline.jsonl")
    assert (good.code, good.outputs["outcome"]) == (0, "promote"), good.out + good.err
    assert "## Assay: promote" in good.summary
    bad = grade(work, file="worse.jsonl", baseline="baseline.jsonl")
    assert bad.code == 1
    assert bad.outputs["outcome"] in ("hold", "reject")


# --- GitLab


def gitlab(work: Path, **variables: str) -> Done:
    """The job of the template, as a runner runs it: variables in the environment, then the lines of
    the scripts in one shell.
    """
    job = GITLAB[".assay"]
    env = {**environment(work), **job["variables"], **variables}
    # a runner sets -e; the verdict must not depend on that
    script = "\n".join([*job["before_script"], *job["script"]])
    return Done(
        subprocess.run(
            ["bash", "-c", script], cwd=work, env=env, capture_output=True, text=True, check=False
        ),
        work,
    )


@pytest.mark.parametrize(("norms", "code"), [((0.9, 0.8), 0), ((0.9, 0.2), 1), ((), 4)])
def test_the_job_of_the_template_grades_and_leaves_its_reports(
    work: Path, norms: tuple[float, ...], code: int
) -> None:
    cards(work / "the runs.jsonl", *norms)
    done = gitlab(
        work,
        ASSAY_CI_FILE="the runs.jsonl",
        ASSAY_CI_ARGS="-o grades.json",
        ASSAY_CI_POLICY="workflow",
    )
    assert done.code == code, done.err
    if norms:
        assert (work / GITLAB[".assay"]["artifacts"]["reports"]["junit"]).exists()
        assert all((work / path).exists() for path in GITLAB[".assay"]["artifacts"]["paths"])
        assert (work / "grades.json").exists()
    assert called(work)[0][-1] == "assaykit"


def test_the_job_of_the_template_decides_and_leaves_its_reports(work: Path) -> None:
    release = ROOT / "src" / "assay" / "cli" / "examples" / "release"
    for name in ("baseline", "candidate"):
        shutil.copy(release / f"{name}.jsonl", work)
    done = gitlab(work, ASSAY_CI_FILE="candidate.jsonl", ASSAY_CI_BASELINE="baseline.jsonl")
    assert done.code == 1, done.err
    assert (work / "assay.md").read_text().startswith("## Assay: hold"), "before fresh runs"
    assert "new_failures" in (work / "assay-junit.xml").read_text()


VARIABLES = [
    "ASSAY_CI_FILE",
    "ASSAY_CI_BASELINE",
    "ASSAY_CI_PROFILE",
    "ASSAY_CI_POLICY",
    "ASSAY_CI_ARGS",
    "ASSAY_CI_PACKAGE",
]


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize("value", HOSTILE)
def test_no_variable_runs_as_a_command_or_opens_the_gate(work: Path, name: str, value: Any) -> None:
    """Each value in each variable: what the job runs is seen, and what the command makes of it."""
    cards(work / "runs.jsonl", 0.2)
    given = {"ASSAY_CI_FILE": "runs.jsonl", "COMMAND_EXIT": "1", name: value}
    assert gitlab(work, **given).code != 0, value
    check_refused(work)


@pytest.mark.parametrize("file", ["", "missing.jsonl"])
def test_a_report_that_was_there_before_the_job_is_never_shown(work: Path, file: str) -> None:
    for name in ("assay.md", "assay-junit.xml"):
        (work / name).write_text("PASSED")
    assert gitlab(work, ASSAY_CI_FILE=file).code == (3 if file else 2)
    assert not (work / "assay-junit.xml").exists()
    assert not (work / "assay.md").exists()


def test_the_job_without_a_file_is_misuse(work: Path) -> None:
    assert gitlab(work).code == 2


# --- the page that shows it

PAGE = (ROOT / "docs" / "how-to" / "gate-in-ci.md").read_text()


def test_the_examples_of_the_how_to_use_what_exists() -> None:
    github, (comment,), gitlab_example, _fork, example, hooks = (
        yaml.safe_load(block) for block in re.findall(r"```yaml[^\n]*\n(.*?)```", PAGE, re.DOTALL)
    )
    for workflow in (github, example):
        (used,) = (
            taken for taken in workflow["jobs"]["gate"]["steps"] if "assay" in taken.get("uses", "")
        )
        assert set(used["with"]) <= set(ACTION["inputs"])
    assert comment["run"].startswith("assay report comment gate.md -o comment.md\ngh pr comment ")
    assert set(comment["env"]) == {"GH_TOKEN", "PULL"}
    assert {hook["id"] for repo in hooks["repos"] for hook in repo["hooks"]} <= set(HOOKS)
    assert set(re.findall(r"^\| `(assay-\w+)` \|", PAGE, re.MULTILINE)) == set(HOOKS)
    assert gitlab_example["include"]["file"] == "ci/gitlab.yml"
    assert gitlab_example["gate"]["extends"] in GITLAB
    assert set(gitlab_example["gate"]["variables"]) <= set(GITLAB[".assay"]["variables"])
