"""CI: the comment of the action, the hooks of pre-commit, and the example repository of the how-to,
with a program in the place of `gh`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkout import ROOT
from code_hosts import CodeHost
from test_ci_action import HOOKS, PAGE, cards, decided, environment, fake_gate, grade, step, work

__all__ = ["work"]
COMMENT = "Comment on the pull request"


@pytest.fixture
def gh(work: Path) -> CodeHost:
    return CodeHost(work.parent / "bin", "gh")


def job(work: Path) -> dict[str, str]:
    """The variables of a job that a pull request started."""
    return {
        "RUNNER_TEMP": str(work.parent),
        "GITHUB_REPOSITORY": "acme/bot",
        "GITHUB_BASE_REF": "main",
    }


# --- the comment of the action


def test_the_comment_shows_what_the_gate_said_and_no_older_verdict(
    work: Path, gh: CodeHost
) -> None:
    given: dict[str, Any] = {"comment": "gate", **job(work)}

    def body() -> str:
        done = step(COMMENT, work, **given)
        assert (done.code, "::warning" in done.out) == (0, False), done.err
        return gh.calls[-1].body

    cards(work / "runs.jsonl", 0.9)
    assert grade(work, file="runs.jsonl", **given).outputs["outcome"] == "passed"
    assert body().startswith("<!-- assay:gate -->\n## Assay: passed")
    cards(work / "runs.jsonl", 0.2)
    assert grade(work, file="runs.jsonl", **given).code == 1
    assert "## Assay: not passed" in body()
    (work / "runs.jsonl").write_text("{oops\n")
    assert grade(work, file="runs.jsonl", **given).code == 3
    assert "## Assay: malformed\n\nThere is no report." in body()
    assert grade(work, file="", **given).code == 2
    assert "## Assay: misuse" in body()
    fake_gate(work, 0, decided("hold", None))
    assert grade(work, file="a.jsonl", baseline="b.jsonl", **given).code == 5
    assert "## Assay: fault" in body(), "an exit code of 0 without a promotion is none"
    (work.parent / "assay-comment.md").unlink()
    done = grade(work, file="runs.jsonl", **given | {"RUNNER_TEMP": "/nowhere"})
    assert (done.code, "can't be written" in done.err) == (3, True), "the gate's own exit code"
    assert "## Assay: no result" in body()


# --- the hooks


def test_each_hook_of_pre_commit_passes_good_files_and_stops_bad_ones(
    assay: Any, tmp_path: Path
) -> None:
    for name in ("profiles", "results", "tools"):
        (tmp_path / name).mkdir()
    shelf = ROOT / "src" / "assay" / "library" / "profiles" / "rag@1.yaml"
    profile = shelf.read_text().replace("profile: rag\n", "profile: ours\n")
    harbour = {"type": "string", "description": "Name of the harbour, such as Brevik."}
    tool = {
        "name": "find_departure",
        "description": "Find the next ferry that leaves a harbour. Use it for travel questions.",
        "inputSchema": {
            "type": "object",
            "properties": {"harbour": harbour},
            "required": ["harbour"],
            "additionalProperties": False,
        },
    }
    about = {"name": "Ferry desk", "version": "1.0.0"}
    snapshot = json.dumps({"serverInfo": about, "tools": [tool]})
    cards(tmp_path / "good.jsonl", 0.9)
    cards(tmp_path / "bad.jsonl", 0.1)
    cases: dict[str, tuple[str, list[str], str, str]] = {
        "assay-config": ("assay.yaml", [], "project: bot\n", "project: bot\nprojekt: x\n"),
        "assay-library": ("profiles/ours@1.yaml", [], profile, "profile: ours\n"),
        "assay-tools": ("tools/list.json", ["tools/list.json"], snapshot, "{oops"),
        "assay-grade": (
            "results/runs.jsonl",
            [],
            (tmp_path / "good.jsonl").read_text(),
            (tmp_path / "bad.jsonl").read_text(),
        ),
    }
    assert set(cases) == set(HOOKS)
    for name, hook in HOOKS.items():
        file, args, good, bad = cases[name]
        assert hook["language"] == "python"
        assert re.search(hook["files"], file), name
        files = [file] if hook.get("pass_filenames", True) else []
        for text, passes in ((bad, False), (good, True)):
            (tmp_path / file).write_text(text)
            command, *words = hook["entry"].split()
            assert command == "assay"
            done = assay(*words, *args, *files)
            assert (done.code == 0) == passes, (name, text, done.out, done.err)


# --- the example repository


EXAMPLE = PAGE.split("## An example repository")[1]


def shell(script: str, folder: Path, env: dict[str, str]) -> None:
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (script, done.stdout, done.stderr)


def test_the_example_repository_gates_its_pull_requests(
    work: Path, tmp_path: Path, gh: CodeHost
) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed: apt-get install git")
    main, tools = tmp_path / "ferry-bot", tmp_path / "bin"
    main.mkdir()
    (tools / "pip").write_text('#!/bin/sh\necho "$@" >>"$RUNNER_TEMP/pip"\n')
    (tools / "pip").chmod(0o755)
    env = {
        **environment(main),
        **job(main),
        "HOME": str(tmp_path),
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "init.defaultBranch", "GIT_CONFIG_VALUE_0": "main",
        **{f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }  # fmt: skip

    # the repository, as the page makes it
    create, rest = (re.findall(r"```sh\n(.*?)```", text, re.S)[0] for text in (PAGE, EXAMPLE))
    shell(create, tmp_path, env)
    files = dict(re.findall(r'```\w+ title="(\.[^"]+)"\n(.*?)```', EXAMPLE, re.S))
    assert len(files) == 3
    for name, text in files.items():
        (main / name).parent.mkdir(parents=True, exist_ok=True)
        (main / name).write_text(text)
    shell(rest, main, env)

    # the job of a pull request, in a clone of it
    steps = yaml.safe_load(files[".github/workflows/assay.yml"])["jobs"]["gate"]["steps"]
    scripts = {one.get("name", one["run"]): one["run"] for one in steps if "run" in one}
    (used,) = (one["with"] for one in steps if one.get("uses", "").startswith("your-org/assay"))

    def pull_request(name: str, change: str) -> Path:
        clone = tmp_path / name
        shell(f"git clone --quiet {main} {clone}", tmp_path, env)
        shell(f"{change}\ngit add --all && git commit --quiet -m change", clone, env)
        return clone

    def check(clone: Path, outcome: str, **given: str) -> None:
        inputs: dict[str, Any] = {**used, **given, **env}
        done = step("Run the gate", clone, **inputs)
        assert done.outputs["outcome"] == outcome, done.out + done.err
        assert (done.code == 0) == (outcome == "promote")
        assert step(COMMENT, clone, **inputs).code == 0
        assert gh.calls[-1].body.splitlines()[1] == f"## Assay: {outcome}"

    raised = "sed -i '0,/version: 1/s//version: 3/' assay.yaml"
    worse = pull_request("worse", f"sed -i s/bot:answer/bot_v2:answer/ assay.yaml; {raised}")
    for script in scripts.values():
        shell(script, worse, env)
    check(worse, "reject")
    assert (tmp_path / "pip").read_text() == "install assaykit==0.1.0\n"

    # a change that brings its own bar
    shell("assay baseline set production candidate && git add --all .assay", worse, env)
    shell("git commit --quiet -m 'Lower the bar'", worse, env)
    runs = "assay-runs/candidate/runs.jsonl"
    check(worse, "promote", file=runs)
    shell(scripts["Take the baseline from the target branch"], worse, env)
    check(worse, "reject", file=runs)

    same = pull_request("same", f"echo '# faster' >>bot.py; {raised}")
    for script in scripts.values():
        shell(script, same, env)
    check(same, "promote")


def test_the_job_that_init_writes_gates_against_the_baseline_of_the_target_branch(
    work: Path, tmp_path: Path, assay: Any
) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed: apt-get install git")
    main = tmp_path / "own-bot"
    main.mkdir()
    (main / "bot.py").write_text("def answer(question):\n    return question.upper()\n")
    rows = "".join(f"say w{n},SAY W{n}\n" for n in range(60))
    (main / "questions.csv").write_text(f"question,expected\n{rows}")
    assert assay("init", str(main)).code == 0
    steps = yaml.safe_load((main / ".github/workflows/assay.yml").read_text())["jobs"]["assay"]
    gate = steps["steps"][-1]
    assert list(gate["env"]) == ["TARGET", "POLICY"]
    env = {
        **environment(main),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "TARGET": "main",
        "POLICY": "release@1",
        "HOME": str(tmp_path),
        **{f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }  # fmt: skip
    commit = "git add --all && git commit --quiet --message change"
    shell(f"git init --quiet --initial-branch main && {commit}", main, env)

    def passes(change: str) -> bool:
        clone = tmp_path / "clone"
        shutil.rmtree(clone, ignore_errors=True)
        shell(f"git clone --quiet {main} {clone}\ncd {clone}\n{change}\n{commit}", tmp_path, env)
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", gate["run"]]
        done = subprocess.run(command, cwd=clone, env=env, capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        return done.returncode == 0

    one_wrong = 'sed -i \'s/.upper()/.upper().replace("W7", "")/\' bot.py'
    assert not passes(one_wrong), "without a baseline every sample must pass"
    shell(f"{one_wrong}\nassay run --name v1 || test $? -eq 1", main, env)
    shell(f"assay baseline set production v1\n{commit}", main, env)
    assert passes("echo '# faster' >>bot.py"), "as good as the baseline, which fails on a sample"
    worse = "sed -i 's/.upper()/.lower()[:5]/' bot.py\ngit rm -rq .assay/baselines"
    assert not passes(worse), "the baseline of the target branch counts"
    assert "## Assay: reject" in (tmp_path / "summary").read_text()
