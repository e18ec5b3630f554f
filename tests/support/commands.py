"""The command line, for tests.

`run_process` starts the installed `assay`, as a user does. `run_here` calls the function behind it,
`assay.cli.main.run`, in this process, with its own folder, environment and streams: no Python is
started, which is most of what a short command costs. It has no signals, descriptors, standard input
or end of a process, so `run` chooses: a command that needs one of them is a process. A command in
this process that leaves something behind fails its test.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from assay.cli.main import run as run_command
from checkout import ROOT

ASSAY = str(Path(sys.executable).with_name("assay"))
PROCESSES = {"completion", "demo", "doctor", "mcp", "run", "serve", "versions", "view"}
"""Verbs that load the code of a folder, replace functions of `os`, serve or look at their own
process.
"""
AT_THE_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_")
"""Variables that a process reads when it starts."""
PLACES = (
    sys.prefix,
    sys.base_prefix,
    str(ROOT / "tests"),
    str(ROOT / "src"),
)
_PARENT_DEATH = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class Result:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")

    def json(self) -> Any:
        return json.loads(self.out)


def run(
    arguments: list[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes | None = None,
    timeout: float = 120,
    limits: Callable[[], None] | None = None,
) -> Result:
    """The command in this process where that is the same, otherwise in one of its own."""
    is_process = (
        stdin is not None
        or limits is not None
        or not PROCESSES.isdisjoint(arguments[:1])
        or any(name.startswith(AT_THE_START) for name in env)
        or threading.current_thread() is not threading.main_thread()  # a folder is the process's
    )
    if is_process:
        more = {"stdin": stdin or b"", "timeout": timeout, "limits": limits}
        return run_process(arguments, cwd=cwd, env=env, **more)
    return run_here(arguments, cwd=cwd, env=env)


def run_process(
    arguments: list[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout: float = 120,
    limits: Callable[[], None] | None = None,
) -> Result:
    """The installed command. `limits` sets those of its process."""
    return _ended([ASSAY, *arguments], cwd, env, stdin, timeout, limits)


def run_code(
    code: str,
    *arguments: object,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float = 300,
) -> Result:
    """Python code in a process."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return _ended(command, cwd, env or {}, stdin, timeout)


def _ended(
    command: list[str],
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes,
    timeout: float,
    limits: Callable[[], None] | None = None,
) -> Result:
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, **env},
        timeout=timeout,
        preexec_fn=limits,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def in_folder(folder: Path, how: Callable[..., Result] = run) -> Callable[..., Result]:
    """The command in this folder: `assay("grade", "x.json", stdin="...")`."""

    def assay(
        *arguments: object,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Result:
        if stdin is not None:
            more["stdin"] = stdin.encode() if isinstance(stdin, str) else stdin
        words = [str(argument) for argument in arguments]
        return how(words, cwd=folder, env={"NO_COLOR": "1", **(env or {})}, **more)

    return assay


def run_here(arguments: list[str], *, cwd: Path, env: Mapping[str, str]) -> Result:
    """The command in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    modules, path = set(sys.modules), [*sys.path]
    with (
        contextlib.chdir(cwd),
        patch.dict(os.environ, env),
        patch.object(sys, "argv", ["assay", *arguments]),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = run_command(arguments)
    assert sys.path == path, "the command changed sys.path: run it as a process"
    foreign = [name for name in set(sys.modules) - modules if _is_foreign(name)]
    assert not foreign, f"the command loaded {foreign}: run it as a process"
    out.flush()
    err.flush()
    return Result(code, out.buffer.getvalue(), err.buffer.getvalue())


def _is_foreign(name: str) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and not file.startswith(PLACES)


def die_with_parent() -> None:
    """Between fork and exec: a test run that is killed leaves no process behind."""
    if _libc is not None:
        _libc.prctl(_PARENT_DEATH, signal.SIGKILL)


class Running(subprocess.Popen[str]):
    """The command, or Python code, while it runs, in a session of its own."""

    def __init__(self, *arguments: object, code: str = "", cwd: Path | None = None) -> None:
        program = [sys.executable, "-c", code] if code else [ASSAY]
        super().__init__(
            [*program, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            encoding="utf-8",
            start_new_session=True,
            preexec_fn=die_with_parent,
        )

    def end_at_once(self) -> str:
        """Kill it; what is left of its output."""
        self.kill()
        return self.communicate()[0]
