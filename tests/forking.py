"""The command as a process of its own, without starting Python and loading SQLAlchemy anew each time: half of what a command with a ledger costs.

A test file asks for it by importing `assay`, which stands in for the fixture of that name. Nothing of Assay itself is loaded beforehand, so each command
still loads what it needs, in its own order. Two parents with hashes of their own take turns: a result that hangs on the order of a set still differs.
A test that is about the start of the process, its signals or its streams keeps the real one of conftest.py.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from conftest import Result

PARENT = """
import asyncio, email, gc, http.client, importlib, json, logging, os, platform, runpy, signal, socket, sqlite3, ssl, sys
for name in ("sqlalchemy", "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql", "msgspec", "yaml", "typing_extensions"):
    importlib.import_module(name)
gc.freeze()
asked = socket.socket(fileno=int(sys.argv[1]))
while True:
    data, streams, _, _ = socket.recv_fds(asked, 1 << 20, 3)
    if not data:
        break
    pid = os.fork()
    if pid == 0:
        asked.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 1024)
        told = json.loads(data)
        os.chdir(told["cwd"])
        os.environ.clear()
        os.environ.update(told["env"])
        sys.argv[:] = ["assay", *told["arguments"]]
        sys.path[0] = told["cwd"]
        runpy.run_module("assay", run_name="__main__", alter_sys=True)
        sys.exit(0)
    for stream in streams:
        os.close(stream)
    asked.sendall(b"%d\\n" % pid)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    asked.sendall(b"%d\\n" % code)
"""


class Parent:
    """A process that becomes the command, once for each call."""

    def __init__(self) -> None:
        self._here, there = socket.socketpair()
        with there:
            command = [sys.executable, "-c", PARENT, str(there.fileno())]
            self._started = subprocess.Popen(command, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, start_new_session=True)

    def run(self, arguments: list[str], *, stdin: bytes, cwd: Path, env: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
        with ExitStack() as stack:
            streams = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            streams[0].write(stdin)
            streams[0].seek(0)
            told = json.dumps({"arguments": arguments, "cwd": str(cwd), "env": env}).encode()
            socket.send_fds(self._here, [told], [stream.fileno() for stream in streams])
            pid = self._number(timeout)
            try:
                code = self._number(timeout)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._number(timeout)
                raise
            for stream in streams[1:]:
                stream.seek(0)
            out, err = (stream.read().decode("utf-8", "replace") for stream in streams[1:])
        return subprocess.CompletedProcess(arguments, code, out, err)

    def _number(self, timeout: float) -> int:
        self._here.settimeout(timeout)
        text = b""
        while not text.endswith(b"\n"):
            part = self._here.recv(1)
            assert part, "the parent of the commands has ended"
            text += part
        return int(text)

    def close(self) -> None:
        self._here.close()
        self._started.wait()


@pytest.fixture(scope="module")
def parents() -> Iterator[Iterator[Parent]]:
    two = [Parent(), Parent()]
    yield itertools.cycle(two)
    for one in two:
        one.close()


@pytest.fixture
def assay(assay: Any, parents: Iterator[Parent], tmp_path: Path) -> Any:
    """As the fixture of conftest.py: `assay("grade", "x.json", stdin="...")` in an empty folder."""
    anew = assay

    def run(*arguments: object, stdin: str | bytes | None = None, env: dict[str, str] | None = None, timeout: float = 120) -> Result:
        if any(name.startswith("PYTHON") for name in env or ()):  # Python reads these when it starts
            found: Result = anew(*arguments, stdin=stdin, env=env, timeout=timeout)
            return found
        data = stdin.encode() if isinstance(stdin, str) else stdin or b""
        more = {**os.environ, "NO_COLOR": "1", **(env or {})}
        return Result(next(parents).run(list(map(str, arguments)), stdin=data, cwd=tmp_path, env=more, timeout=timeout))

    return run
