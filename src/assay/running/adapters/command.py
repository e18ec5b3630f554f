"""A command as a workflow: the task as JSON on its standard input, the reply as JSON on its
standard output.

The command runs in the folder of the workflow file, in its own process group, which is killed when
it times out. Standard output is the reply and nothing else; what it writes to standard error is
shown when it fails.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from assay.running.adapters import BLOCK, Adapter, ReplySpec, WorkflowTask, read_limited, read_spec
from assay.sandbox.commands import how_ended, kill_group
from assay.tracing.failures import CallFailed
from assay.tracing.replies import read_reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from assay.tracing.recorder import Recorder

MAX_ERRORS = 2000


class CommandSpec(ReplySpec, frozen=True, kw_only=True):
    """The keys of a command adapter. `{python}` is the interpreter that runs assay."""

    command: Annotated[list[str], Meta(min_length=1)]
    env: dict[str, str] = {}


def make(given: Mapping[str, Any], folder: Path, where: str) -> CommandAdapter:
    """A command, started for each call."""
    spec = read_spec(given, CommandSpec, where)
    return CommandAdapter(spec, folder)


class CommandAdapter(Adapter):
    """A program that is started once for each task."""

    def __init__(self, spec: CommandSpec, folder: Path) -> None:
        self._command = [word.replace("{python}", sys.executable) for word in spec.command]
        self._folder = folder
        self._environment = {**os.environ, **spec.env}
        self._limit = spec.max_reply_bytes

    async def call(self, task: WorkflowTask, record: Recorder) -> Mapping[str, Any]:
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
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise CallFailed(
                f"the command {self._command[0]!r} cannot be started: {reason}.", again=False
            ) from None
        assert process.stdin
        assert process.stdout
        assert process.stderr
        try:
            _, reply, errors = await asyncio.gather(
                _send(process.stdin, task.encoded()),
                read_limited(_blocks(process.stdout), self._limit, "the command wrote"),
                _tail(process.stderr),
            )
            code = await process.wait()
        finally:
            await _end(process)
        if code != 0:
            raise CallFailed(f"the command ended with {how_ended(code, errors)}.")
        return read_reply(reply, record)


async def _send(stdin: asyncio.StreamWriter, task: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # a command may ignore its input
        stdin.write(task)
        await stdin.drain()
    with suppress(BrokenPipeError, ConnectionResetError):
        stdin.close()
        await stdin.wait_closed()


async def _blocks(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while block := await stream.read(BLOCK):
        yield block


async def _tail(stream: asyncio.StreamReader) -> bytes:
    kept = b""
    async for block in _blocks(stream):
        kept = (kept + block)[-MAX_ERRORS:]
    return kept


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of the process group, and close the pipes: a command may leave children
    behind that keep a pipe open.
    """
    kill_group(process.pid)
    # there is no public way to close the pipes of a process
    process._transport.close()  # type: ignore[attr-defined]
    await process.wait()
    await asyncio.sleep(0)
