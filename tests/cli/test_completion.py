"""`assay completion`: what can follow on a command line, in the real shells."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from assay.cli.completion import SCRIPTS, offer
from assay.cli.frame import load_command
from assay.cli.verbs import VERBS
from commands import ASSAY
from documents import run


def words(*typed: str) -> list[str]:
    return [one.word for one in offer(list(typed)).candidates]


# --- what is offered


def test_every_verb_and_every_option_of_it_is_offered() -> None:
    assert set(words("")) == {*VERBS, "--help", "--version"}
    for name, verb in VERBS.items():
        if verb.actions:
            assert set(words(name, "")) == {*verb.actions, "--help"}
        for action in verb.actions or ("",):
            command = f"{name} {action}".strip()
            actions = load_command(command).parser(command)._actions
            longest = {max(one.option_strings, key=len) for one in actions if one.option_strings}
            assert set(words(*command.split(), "-")) == longest, command


def test_values_are_offered_where_they_are_known_and_files_where_they_can_be() -> None:
    assert words("completion", "") == ["bash", "zsh", "fish"]
    assert words("library", "sh") == ["show"]
    assert words("grade", "--profile", "rag") == ["rag-measured", "rag"]
    assert words("gate", "a", "--release-policy=release-") == ["--release-policy=release-strict"]
    assert words("config", "bas") == ["baseline"]
    assert words("import", "--from", "inspect") == ["inspect_ai"]
    assert offer(["grade", "--profile", "x"]) == ([], True), "a profile can be a file"
    assert offer(["grade", "runs.jsonl", ""]).files
    assert offer(["grade", "-o", ""]) == ([], True)
    assert offer(["grade", "--min-pass-rate", ""]) == ([], False)
    assert offer(["grade", "--project", ""]) == ([], False)
    assert offer(["grade", "--", "--"]) == ([], True), "behind -- everything is a file"


def test_an_option_is_offered_once_unless_it_may_be_repeated() -> None:
    offered = words("grade", "--policy", "workflow", "-o", "a.md", "--keep-going", "--")
    assert {"--policy", "--keep-going"}.isdisjoint(offered)
    assert "--output" in offered


def test_nothing_is_offered_behind_what_does_not_exist() -> None:
    assert offer(["nope", ""]) == ([], False)
    assert offer(["judge", "nope", ""]) == ([], False)
    assert words("zzz") == []


def test_names_of_evaluations_are_offered_where_runs_are_taken(
    assay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs.jsonl").write_text(json.dumps(run("rag")) + "\n")
    done = assay("import", "runs.jsonl", "--name", "nightly", "-o", "kept.jsonl")
    assert (tmp_path / ".assay" / "ledger.db").exists(), done.err
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_DB", raising=False)
    assert offer(["explain", "n"]) == ([("nightly", "")], True)
    assert words("gate", "latest", "--baseline", "") == ["latest", "nightly"]
    assert words("explain", "--project", "other", "") == ["latest"]
    (tmp_path / ".assay" / "ledger.db").write_bytes(b"not a ledger")
    assert offer(["explain", ""]) == ([], True)
    monkeypatch.setenv("ASSAY_DB", "postgresql://nobody@127.0.0.1:1/none")
    assert offer(["explain", ""]) == ([], True), "a press of Tab asks no server"


def test_each_shell_gets_its_own_form(assay_process: Any, assay: Any) -> None:
    done = assay_process("completion", "bash", "--words", stdin="grade\n--policy\n=\nflow\n")
    assert (done.code, done.out) == (0, ":files\nflowmcp\n"), "bash splits a word at ="
    done = assay("completion", "bash", "--words", stdin="gate\na\n--release-policy\n=\n")
    assert done.out.splitlines()[:2] == [":files", "exam"]
    done = assay("completion", "fish", "--words", stdin="repo\n")
    assert done.out == f":words\nreport\t{VERBS['report'].summary}\n"
    done = assay("completion", "zsh", "--words", stdin="repo\n")
    assert done.out == f":words\nreport:{VERBS['report'].summary}\n"
    assert assay("completion", "zsh", "--words", stdin="").out.startswith(":words\ninit:")
    for shell, script in SCRIPTS.items():
        assert assay("completion", shell).out == script
    wrong = assay("completion", "tcsh")
    assert (wrong.code, "bash" in wrong.err) == (2, True)


# --- in the shells

START = {
    "bash": ["--noprofile", "--norc", "-i"],
    "zsh": ["-f", "-i"],
    "fish": ["--no-config", "-i"],
}
SETUP = {
    "bash": 'bind "set enable-bracketed-paste off"; eval "$(assay completion bash)"; PS1="RE""ADY "',
    "zsh": (
        "autoload -Uz compinit; compinit -u -D; unsetopt zle_bracketed_paste;"
        ' eval "$(assay completion zsh)"; PS1="RE""ADY "'
    ),
    "fish": 'assay completion fish | source; function fish_prompt; echo "RE""ADY "; end',
}


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, command: list[str], folder: Path, env: dict[str, str]) -> None:
        self._process, self._end = pty.fork()
        if self._process == 0:
            os.chdir(folder)
            os.execve(command[0], command, env)
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def read_until(self, pattern: str, *, seconds: float = 60) -> None:
        """Read what the shell shows until it matches, and forget it then."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.shown):
            ready, _, _ = select.select([self._end], [], [], max(0, end - time.monotonic()))
            assert ready, self.shown
            self.shown += os.read(self._end, 4096).decode("utf-8", "replace")
        self.shown = ""

    def close(self) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._end)


@pytest.mark.parametrize("shell", list(SCRIPTS))
def test_a_real_shell_completes(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        lack = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        lack(f"{shell} is not installed: apt-get install {shell}")
    folder, tools = tmp_path / "work", tmp_path / "bin"
    folder.mkdir()
    tools.mkdir()
    (folder / "my runs.jsonl").write_text("")
    noted = tmp_path / "noted"
    stub = tools / "assay"
    stub.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = completion ] && exec \'{ASSAY}\' "$@"\n'
        f"printf '%s\\n' \"$@\" end >> '{noted}'\n"
    )
    stub.chmod(0o755)
    env = {
        "PATH": f"{tools}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TERM": "xterm",
        "LANG": "C.UTF-8",
    }
    terminal = Terminal([program, *START[shell]], folder, env)
    try:
        terminal.type(f"{SETUP[shell]}\n")
        terminal.read_until("READY ")
        for line in ("assay gra\t--pol\tflow\tmy\t\n", "assay grade --profile=dag\tx\n"):
            terminal.type(line)
            terminal.read_until("READY ")
    finally:
        terminal.close()
    assert noted.read_text().splitlines() == [
        *("grade", "--policy", "flowmcp", "my runs.jsonl", "end"),
        *("grade", "--profile=dag-review", "x", "end"),
    ]


def test_the_bash_script_is_clean_by_shellcheck(tmp_path: Path) -> None:
    tool = shutil.which("shellcheck")
    if tool is None:
        pytest.skip("shellcheck is not installed: apt-get install shellcheck")
    path = tmp_path / "assay.bash"
    path.write_text(SCRIPTS["bash"])
    done = subprocess.run(
        [tool, "--shell=bash", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
