"""A server as a child process: started with a bare environment, listened to within limits, ended
with all it started.

Nothing here knows what the messages mean: see `server`. The SDK's own transport is not used because
it passes on more of the environment, reads a line of any length and leaves the server's stderr on
the terminal.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

from assay.errors import InputError, count
from assay.files.json_files import json_fault, parse_json
from assay.sandbox.commands import kill_group
from assay.sandbox.worker import exit_words

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import ByteReceiveStream, ByteSendStream, ObjectSendStream, Process
    from mcp.shared.message import SessionMessage

MAX_BYTES = 4 * 1024 * 1024
"""All that a server may send in one reading: about a million tokens, more than a model can read."""
MAX_NOISE = 200
"""The limit of lines on stdout that are not messages. Some servers print a greeting there, against
the protocol; one that floods it is stopped.
"""
GRACE_S = 1.0
"""How long a server may take to end by itself once its input is closed."""

_KEPT_ERRORS = 8 * 1024
_SHOWN_LINES = 6


class ServerFault(InputError):
    """A server broke a rule. `server` adds where, what it printed and what to do."""


class ByteBudget:
    """What was received, and the fault that ended it. The SDK turns an exception in a transport
    into a closed connection; the reason is kept here.
    """

    def __init__(self) -> None:
        self.received = 0
        self.status = 0
        self.fault: ServerFault | None = None

    def take(self, size: int) -> None:
        """Count bytes; raise when there are too many."""
        self.received += size
        if self.received > MAX_BYTES:
            self.fail("FMC-011", f"the server sends more than {MAX_BYTES // 1024 // 1024} MiB.")

    def fail(self, code: str, message: str) -> None:
        """Keep the fault and raise it."""
        self.fault = ServerFault(code, message)
        raise self.fault

    def check_keys(self, message: bytes) -> None:
        """Refuse a message that has a key twice: another client may read the one that isn't read
        here.
        """
        try:
            parse_json(message)
        except ValueError as error:
            fault = json_fault(error, message, file="", line=None)
            if fault.code == "FIL-003":
                self.fail("FMC-011", f"in an answer of the server, {fault.message[:120]}")


class ServerProcess:
    """A server as a child process: its pipes, what it printed, its end."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.budget = ByteBudget()
        self._command = command
        self._env = env
        self._process: Process | None = None
        self._errors = b""
        self._ended = False
        self._fell_silent = False
        self.exit_code: int | None = None
        self._noise = 0
        self._first_noise = ""

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Any]:
        """Start the child, hand out the streams of its messages, end it."""
        import asyncio

        import anyio  # comes with the optional extra

        starting = asyncio.ensure_future(
            anyio.open_process(
                self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=self._env,
                start_new_session=True,
            )
        )
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:  # what it has started by now would stay
            with suppress(OSError, ValueError):
                kill_group((await starting).pid)
            raise
        except (OSError, ValueError) as error:
            self.budget.fail(
                "FMC-010",
                f"the server does not start: {getattr(error, 'strerror', None) or error}.",
            )
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        incoming, received = anyio.create_memory_object_stream[Any](0)
        sending, outgoing = anyio.create_memory_object_stream[Any](0)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read_errors, process.stderr)
                tasks.start_soon(self._read_messages, process.stdout, incoming)
                tasks.start_soon(self._write_messages, process.stdin, outgoing)
                try:
                    yield received, sending
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._end(process)
                    tasks.cancel_scope.cancel()
        finally:
            for stream in (incoming, received, sending, outgoing):
                stream.close()

    async def _read_messages(
        self, stdout: ByteReceiveStream, incoming: ObjectSendStream[Any]
    ) -> None:
        import anyio  # comes with the optional extra

        rest = bytearray()
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ServerFault):
            async with incoming:
                async for chunk in stdout:
                    self.budget.take(len(chunk))
                    searched = len(rest)
                    rest += chunk
                    while (end := rest.find(b"\n", searched)) >= 0:
                        line = bytes(rest[:end])
                        del rest[: end + 1]
                        searched = 0
                        if (message := self._message(line)) is not None:
                            await incoming.send(message)
                self._fell_silent = True

    def _message(self, line: bytes) -> SessionMessage | None:
        from mcp.shared.message import SessionMessage  # an optional extra
        from mcp_types import jsonrpc_message_adapter

        if not line.strip():
            return None
        try:
            message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except (ValueError, RecursionError):
            self._noise += 1
            self._first_noise = self._first_noise or line[:80].decode("utf-8", "replace")
            if self._noise > MAX_NOISE:
                self.budget.fail(
                    "FMC-011",
                    f"the server prints more than {MAX_NOISE} lines that are not messages.",
                )
            return None
        self.budget.check_keys(line)
        return message

    async def _write_messages(self, stdin: ByteSendStream, outgoing: Any) -> None:
        import anyio  # comes with the optional extra

        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async with outgoing:
                async for message in outgoing:
                    await stdin.send(
                        message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
                        + b"\n"
                    )

    async def _read_errors(self, stderr: ByteReceiveStream) -> None:
        import anyio  # comes with the optional extra

        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in stderr:
                self._errors = (self._errors + chunk)[-_KEPT_ERRORS:]

    async def _end(self, process: Process) -> None:
        """Close the child's input, wait a little, then end its whole group."""
        # a pipe closes a moment before its process is known to be gone
        await _wait(process, GRACE_S if self._fell_silent else 0)
        self.exit_code = process.returncode
        await _close(process.stdin)
        await _wait(process, GRACE_S if self.budget.fault is None else 0)
        self.kill()
        await _wait(process, GRACE_S)
        self._ended = process.returncode is not None
        await _close(process.stdout)
        await _close(process.stderr)
        # A grandchild that left the group may hold a pipe open forever; the transport would wait
        # for it and warn.
        transport = getattr(getattr(process, "_process", None), "_transport", None)
        if transport is not None:
            transport.close()

    def kill(self) -> None:
        """End the child and everything it started in its group. Does nothing if they are gone."""
        if (
            self._process is not None and not self._ended
        ):  # its number may belong to another process by then
            kill_group(self._process.pid)

    def last_words(self) -> str:
        """How the child ended by itself and its last output, for an error."""
        sentences = []
        if self.exit_code is not None:
            sentences.append(f" It ended with {exit_words(self.exit_code)}.")
        if self._noise:
            sentences.append(
                f" It wrote {count(self._noise, 'stray line')} to stdout, where only messages"
                f" belong; the first is {self._first_noise!r}."
            )
        lines = [
            line.strip()
            for line in self._errors.decode("utf-8", "replace").splitlines()
            if line.strip()
        ]
        if lines:
            sentences.append(
                f" Its last output was: {' | '.join(line[:200] for line in lines[-_SHOWN_LINES:])}."
            )
        return "".join(sentences)


async def _wait(process: Process, seconds: float) -> None:
    """Wait for the process alone; `wait()` would also wait for other holders of its pipes."""
    import anyio  # comes with the optional extra

    deadline = anyio.current_time() + seconds
    while process.returncode is None and anyio.current_time() < deadline:
        await anyio.sleep(0.01)


async def _close(stream: Any) -> None:
    import anyio  # comes with the optional extra

    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await stream.aclose()
