"""Asking a tutor: each prompt of an exam goes to a command or to an HTTP endpoint, and how long the
answer took is measured.

A tutor is untrusted: the size and the time of its answers are limited, and a command's whole
process group is ended after its turn. A tutor that fails on an item leaves that item without an
answer, with the reason; a tutor that cannot be started at all is a mistake in the command line. One
prompt at a time: a tutor that shares its machine with other prompts would look slower than it is.
"""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from decimal import Decimal
from typing import Any, Protocol

import msgspec

from assay.errors import UsageError
from assay.exams.answers import Answer
from assay.exams.exam import ExamItem
from assay.files.json_files import parse_json
from assay.files.redirects import staying_opener

MAX_REPLY = 16 * 1024 * 1024
"""Bytes of one answer. An honest one has a few hundred."""
_CHUNK = 64 * 1024
_TAIL = 4096


class NoAnswerError(Exception):
    """A tutor did not answer; the text says why."""


class Tutor(Protocol):
    """Answers prompts, one in each call."""

    def ask(self, prompt: str) -> Any:
        """The response, text or object. Raises NoAnswerError if there is none."""


class CommandTutor:
    """A tutor that is a command: the prompt on its standard input, the response on its standard
    output.
    """

    def __init__(self, command: str, *, timeout_s: float) -> None:
        try:
            self.argv = shlex.split(command)
        except ValueError as error:
            raise UsageError(
                "CLI-001", f"--command {command!r} is not a command: {error}."
            ) from None
        if not self.argv:
            raise UsageError(
                "CLI-001",
                "--command is empty.",
                fix="Give a command that reads a prompt and writes a response.",
            )
        self.timeout_s = timeout_s

    def ask(self, prompt: str) -> str:
        """Run the command once for one prompt."""
        deadline = time.monotonic() + self.timeout_s
        with tempfile.TemporaryFile() as question:
            question.write(f"{prompt}\n".encode("utf-8", "replace"))
            question.seek(0)
            try:
                # the user names the tutor; it gets the prompt as data, never as a command
                process = subprocess.Popen(  # noqa: S603
                    self.argv,
                    stdin=question,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise UsageError("CLI-001", f"there is no command '{self.argv[0]}'.") from None
            except OSError as error:
                raise UsageError(
                    "CLI-001", f"the command '{self.argv[0]}' does not start: {error.strerror}."
                ) from None
        with process:
            try:
                reply, complaint = self._listen(process, deadline)
                if not _wait(process, deadline):
                    raise NoAnswerError(self._late())
            finally:
                code = _end(process)
        if code:
            last = complaint.decode("utf-8", "replace").strip().splitlines()
            raise NoAnswerError(
                f"the command ended with exit code {code}{': ' + last[-1][:200] if last else ''}"
            )
        return reply.decode("utf-8", "replace")

    def _late(self) -> str:
        return f"no answer within {self.timeout_s:g} s"

    def _listen(self, process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
        """What the command writes until it closes both streams; only the end of its standard error
        is kept.
        """
        reply, complaint = bytearray(), b""
        with selectors.DefaultSelector() as ears:
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                ears.register(stream, selectors.EVENT_READ)
            while ears.get_map():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise NoAnswerError(self._late())
                for key, _ in ears.select(left):
                    data = os.read(key.fd, _CHUNK)
                    if not data:
                        ears.unregister(key.fileobj)
                    elif key.fileobj is process.stdout:
                        reply += data
                        if len(reply) > MAX_REPLY:
                            raise NoAnswerError(
                                f"the answer is longer than {MAX_REPLY // 2**20} MiB"
                            )
                    else:
                        complaint = (complaint + data)[-_TAIL:]
        return bytes(reply), complaint


def _wait(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Whether the command ended in time. The process is not reaped yet, so its process group id
    can't be reused.
    """
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.0005)
    return True


def _end(process: subprocess.Popen[bytes]) -> int:
    """End the command and whatever it started and left behind; its exit code."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(
            process.pid, signal.SIGKILL
        )  # its session is its own, so its process group has its id
    return process.wait()


class HttpTutor:
    """A tutor behind an endpoint: POST `{"prompt": ...}`, JSON back; `{"response": ...}` is
    unwrapped, anything else is the response itself.
    """

    def __init__(self, url: str, *, timeout_s: float, headers: dict[str, str]) -> None:
        if (
            urllib.parse.urlsplit(url).scheme not in ("http", "https")
            or not urllib.parse.urlsplit(url).netloc
        ):
            raise UsageError("CLI-001", f"--url {url!r} is not an http or https address.")
        self.url = url
        self.timeout_s = timeout_s
        self.headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        self._opener = staying_opener()

    def ask(self, prompt: str) -> Any:
        """Post one prompt."""
        deadline = time.monotonic() + self.timeout_s
        request = urllib.request.Request(  # noqa: S310
            self.url,
            data=msgspec.json.encode({"prompt": prompt}),
            headers=self.headers,
            method="POST",
        )  # http or https only
        reply = bytearray()
        try:
            with self._opener.open(request, timeout=self.timeout_s) as stream:
                while data := stream.read1(_CHUNK):
                    reply += data
                    if len(reply) > MAX_REPLY:
                        raise NoAnswerError(f"the answer is longer than {MAX_REPLY // 2**20} MiB")
                    if time.monotonic() > deadline:
                        raise NoAnswerError(f"no answer within {self.timeout_s:g} s")
        except urllib.error.HTTPError as error:
            error.close()
            raise NoAnswerError(f"the endpoint answered with status {error.code}") from None
        except TimeoutError:
            raise NoAnswerError(f"no answer within {self.timeout_s:g} s") from None
        except (
            OSError,
            ValueError,
        ) as error:  # a URLError is an OSError; a broken reply is one or the other
            late = isinstance(getattr(error, "reason", None), TimeoutError)
            raise NoAnswerError(
                f"no answer within {self.timeout_s:g} s"
                if late
                else f"the endpoint cannot be asked: {error}"
            ) from None
        try:
            tree = parse_json(bytes(reply))
        except ValueError:
            return reply.decode("utf-8", "replace")
        return tree["response"] if isinstance(tree, dict) and set(tree) == {"response"} else tree


def read_headers(given: Iterable[str]) -> dict[str, str]:
    """Headers from `NAME: VALUE`; `$NAME` in a value is taken from the environment, so that no
    secret is on a command line.
    """
    made = {}
    for text in given:
        name, colon, value = text.partition(":")
        if not colon or not name.strip() or not text.isprintable():
            raise UsageError("CLI-001", "a header is 'NAME: VALUE'.")
        made[name.strip()] = os.path.expandvars(value.strip())
    return made


def ask_all(
    items: Iterable[ExamItem], tutor: Tutor, *, progress: Callable[[str], None] | None = None
) -> dict[str, Answer]:
    """Every item asked, one after another. A failure is an answer that is missing, with the
    reason.
    """
    found = {}
    for item in items:
        started = time.monotonic_ns()
        try:
            response, error = tutor.ask(item.prompt), ""
        except NoAnswerError as reason:
            response, error = None, str(reason)
        took = Decimal((time.monotonic_ns() - started) // 1000).scaleb(-3)
        found[item.id] = Answer(
            item.id,
            response,
            took,
            error or ("the tutor answered null" if response is None else ""),
        )
        if progress is not None:
            progress(item.id)
    return found


def answer_lines(answers: Iterable[Answer]) -> bytes:
    """Answers as the file that `--answers` reads."""
    encode = msgspec.json.Encoder(decimal_format="number").encode
    lines = []
    for one in answers:
        line: dict[str, Any] = {
            "item": one.item,
            "response": one.response,
            "latency_ms": one.latency_ms,
        }
        lines.append(encode({**line, "error": one.error} if one.error else line))
    return b"".join(line + b"\n" for line in lines)
