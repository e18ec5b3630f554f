"""A command as a workflow: the task as JSON on its standard input, the reply as JSON on its
standard output.

The command runs in the folder of the workflow file, in a process group of its own that is killed as
a whole when its time is over. Standard output is the reply and nothing else; what it writes to
standard error is shown when it fails.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from assay.errors import InputError
from assay.running.adapters import CallFailed
from assay.running.adapters.replies import read_reply

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from assay.running.adapters import Task
    from assay.running.recorder import Recorder

KEYS = ("command", "env", "max_reply_bytes")
MAX_REPLY = 64 * 1024 * 1024
MAX_ERRORS = 2000
_encode = msgspec.json.Encoder(decimal_format="number").encode


def make(spec: Mapping[str, Any], folder: Path, where: str) -> Command:
    """The adapter for a command. `{python}` in it is the interpreter that runs assay."""
    unknown = sorted(set(spec) - set(KEYS))
    if unknown:
        raise InputError(
            "RUN-001",
            f"adapter has the key {unknown[0]!r}; a command adapter has {', '.join(KEYS)}.",
            where=where,
        )
    command = spec.get("command")
    if (
        not isinstance(command, list)
        or not command
        or not all(isinstance(word, str) for word in command)
    ):
        raise InputError(
            "RUN-001",
            "adapter.command is a list of words, the program first.",
            where=where,
            fix='For example: ["{python}", "answer.py"].',
        )
    environment = spec.get("env", {})
    if not isinstance(environment, dict) or not all(
        isinstance(value, str) for value in environment.values()
    ):
        raise InputError("RUN-001", "adapter.env maps names to texts.", where=where)
    limit = spec.get("max_reply_bytes", MAX_REPLY)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InputError(
            "RUN-001", "adapter.max_reply_bytes is a whole number from 1.", where=where
        )
    return Command(
        [word.replace("{python}", sys.executable) for word in command], folder, environment, limit
    )


class Command:
    """A program that is started once for each task."""

    def __init__(
        self, command: list[str], folder: Path, environment: Mapping[str, str], limit: int
    ) -> None:
        self._command = command
        self._folder = folder
        self._environment = {**os.environ, **environment}
        self._limit = limit

    async def call(self, task: Task, record: Recorder) -> Mapping[str, Any]:
        """The reply of one run of the program."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            raise CallFailed(
                f"the command {self._command[0]!r} cannot be started: {words}.", again=False
            ) from None
        try:
            out, errors = await self._talk(process, _encode(task.document()))
            code = await process.wait()
        finally:
            await _end(process)
        if code != 0:
            raise CallFailed(f"the command ended with {_exit(code)}{_quoted(errors)}.")
        return read_reply(out, record)

    async def _talk(self, process: asyncio.subprocess.Process, task: bytes) -> tuple[bytes, bytes]:
        stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
        if stdin is None or stdout is None or stderr is None:
            raise CallFailed("the command has no pipes.")  # it always has: all three were asked for

        async def send() -> None:
            with suppress(
                BrokenPipeError, ConnectionResetError
            ):  # a command may not care for its input
                stdin.write(task)
                await stdin.drain()
            with suppress(BrokenPipeError, ConnectionResetError):
                stdin.close()
                await stdin.wait_closed()

        _, out, errors = await asyncio.gather(send(), _bounded(stdout, self._limit), _tail(stderr))
        return out, errors

    async def close(self) -> None:
        """Nothing to let go of: each call ends its own process."""


async def _bounded(stream: asyncio.StreamReader, limit: int) -> bytes:
    parts = []
    size = 0
    while block := await stream.read(65536):
        size += len(block)
        if size > limit:
            raise CallFailed(
                f"the command wrote more than {limit:,} bytes to its standard output.", again=False
            )
        parts.append(block)
    return b"".join(parts)


async def _tail(stream: asyncio.StreamReader) -> bytes:
    kept = b""
    while block := await stream.read(65536):
        kept = (kept + block)[-MAX_ERRORS:]
    return kept


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of the process group, and close the pipes: a command may leave children
    behind, and one of them may hold a pipe open.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # there is no public way to close the pipes of a process
    process._transport.close()  # type: ignore[attr-defined]
    await process.wait()
    await asyncio.sleep(0)


def _exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _quoted(errors: bytes) -> str:
    words = errors.decode("utf-8", "replace").strip().splitlines()
    return f", and its last words were {words[-1][-300:]!r}" if words else ""
