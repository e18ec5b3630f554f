"""Asking a command that the user names: a text on its standard input, the answer on its standard
output.

The command is untrusted: the size and the time of its answer are limited, and its whole process
group is ended afterwards. It is not isolated otherwise; see `box` for code that must be.
"""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
from contextlib import suppress

from assay.errors import UsageError
from assay.sandbox.worker import exit_words

_CHUNK = 64 * 1024
_TAIL = 4096


class NoAnswerError(Exception):
    """A command or endpoint gave no answer; the message is the reason."""


def split_command(command: str, option: str, writes: str) -> list[str]:
    """The words of a command; `writes` names what it answers with."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError("CLI-001", f"{option} {command!r} is not a command: {error}.") from None
    if not words:
        raise UsageError(
            "CLI-001",
            f"{option} is empty.",
            fix=f"Give a command that reads a prompt and writes {writes}.",
        )
    return words


def ask_command(
    words: list[str], text: str, *, timeout_s: float, max_reply: int, folder: str | None = None
) -> bytes:
    """Run a command once, in `folder`. Raises NoAnswerError if it fails, takes too long or
    writes too much.
    """
    deadline = time.monotonic() + timeout_s
    with tempfile.TemporaryFile() as question:
        question.write(f"{text}\n".encode("utf-8", "replace"))
        question.seek(0)
        try:
            # the user names the command; it gets the text as data, never as a command
            process = subprocess.Popen(  # noqa: S603
                words,
                stdin=question,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                start_new_session=True,
            )
        except FileNotFoundError:
            near = f" Did you mean './{words[0]}'?" if os.path.isfile(words[0]) else ""
            raise UsageError("CLI-001", f"there is no command '{words[0]}'.{near}") from None
        except OSError as error:
            raise UsageError(
                "CLI-001", f"the command '{words[0]}' cannot be started: {error.strerror}."
            ) from None
    with process:
        try:
            reply, errors = _communicate(process, deadline, max_reply)
        except TimeoutError:
            raise NoAnswerError(f"no answer within {timeout_s:g} s") from None
        finally:
            code = _end(process)
    if code:
        raise NoAnswerError(f"the command ended with {how_ended(code, errors)}")
    return reply


def _communicate(
    process: subprocess.Popen[bytes], deadline: float, max_reply: int
) -> tuple[bytes, bytes]:
    """What the command writes until it ends; only the end of its standard error is kept. A process
    that it leaves running may keep the streams open.
    """
    reply, errors = bytearray(), b""
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            selector.register(stream, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            has_ended = _has_ended(process)  # before reading, so that nothing is left unread
            # closed streams announce the end, so it is looked for more often then
            pause = 0 if has_ended else min(left, 0.02 if selector.get_map() else 0.0005)
            ready = selector.select(pause)
            if has_ended and not ready:
                return bytes(reply), errors
            for key, _ in ready:
                data = os.read(key.fd, _CHUNK)
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    reply += data
                    if len(reply) > max_reply:
                        raise NoAnswerError(f"the answer is longer than {max_reply // 2**20} MiB")
                else:
                    errors = (errors + data)[-_TAIL:]


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """It is not reaped yet, so its process group id can't be reused."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: subprocess.Popen[bytes]) -> int:
    """End the command and whatever it started and left behind; its exit code."""
    kill_group(process.pid)  # its session is its own, so its process group has its id
    return process.wait()


# --- how any process ends


def kill_group(pid: int) -> None:
    """Kill a process that leads a group, and all of its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def how_ended(code: int, errors: bytes) -> str:
    """How a process ended, with the last line that it wrote to standard error."""
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    last = f"; its last output was {lines[-1][-300:]!r}" if lines else ""
    return f"{exit_words(code)}{last}"
