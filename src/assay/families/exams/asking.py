"""Asking a tutor: each prompt of an exam goes to a command or to an HTTP endpoint, and how long the
answer took is measured.

A tutor is untrusted: the size and the time of its answers are limited, and a command's whole
process group is ended after its turn. A tutor that fails on an item leaves that item without an
answer, with the reason; a tutor that cannot be started at all is a mistake in the command line. One
prompt at a time: a tutor that shares its machine with other prompts would look slower than it is.
"""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import msgspec

from assay.errors import UsageError
from assay.families.exams.answers import Answer
from assay.families.exams.exam import ExamItem
from assay.files.json_files import parse_json
from assay.files.redirects import staying_opener
from assay.sandbox.commands import NoAnswerError, ask_command, split_command

MAX_REPLY = 16 * 1024 * 1024
"""Bytes of one answer. An honest one has a few hundred."""
_CHUNK = 64 * 1024


Tutor = Callable[[str], Any]
"""Answers one prompt in each call: with a text, or with an object. Raises NoAnswerError if there is
no answer.
"""


def command_tutor(command: str, *, timeout_s: float) -> Tutor:
    """A tutor that is a command: the prompt on its standard input, the response on its standard
    output.
    """
    words = split_command(command, "--command", "a response")

    def ask(prompt: str) -> str:
        reply = ask_command(words, prompt, timeout_s=timeout_s, max_reply=MAX_REPLY)
        return reply.decode("utf-8", "replace")

    return ask


def http_tutor(url: str, *, timeout_s: float, headers: dict[str, str]) -> Tutor:
    """A tutor behind an endpoint: POST `{"prompt": ...}`, JSON back; `{"response": ...}` is
    unwrapped, anything else is the response itself.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError("CLI-001", f"--url {url!r} is not an http or https address.")
    headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    opener = staying_opener()

    def ask(prompt: str) -> Any:
        deadline, late = time.monotonic() + timeout_s, f"no answer within {timeout_s:g} s"
        request = urllib.request.Request(  # noqa: S310
            url, data=msgspec.json.encode({"prompt": prompt}), headers=headers, method="POST"
        )  # http or https only
        reply = bytearray()
        try:
            with opener.open(request, timeout=timeout_s) as stream:
                while data := stream.read1(_CHUNK):
                    reply += data
                    if len(reply) > MAX_REPLY:
                        raise NoAnswerError(f"the answer is longer than {MAX_REPLY // 2**20} MiB")
                    if time.monotonic() > deadline:
                        raise NoAnswerError(late)
        except urllib.error.HTTPError as error:
            error.close()
            raise NoAnswerError(f"the endpoint answered with status {error.code}") from None
        except (OSError, ValueError) as error:  # a URLError has a reason; or a broken reply
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise NoAnswerError(late) from None
            text = getattr(reason, "strerror", None) or reason
            raise NoAnswerError(f"the endpoint cannot be asked: {text}") from None
        try:
            tree = parse_json(bytes(reply))
        except ValueError:
            return reply.decode("utf-8", "replace")
        return tree["response"] if isinstance(tree, dict) and set(tree) == {"response"} else tree

    return ask


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
    answers_by_item = {}
    for item in items:
        started = time.monotonic_ns()
        try:
            response, error = tutor(item.prompt), ""
        except NoAnswerError as reason:
            response, error = None, str(reason)
        took = Decimal((time.monotonic_ns() - started) // 1000).scaleb(-3)
        answers_by_item[item.id] = Answer(
            item.id,
            response,
            took,
            error or ("the tutor answered null" if response is None else ""),
        )
        if progress is not None:
            progress(item.id)
    return answers_by_item


def answer_lines(answers: Iterable[Answer]) -> bytes:
    """Answers as the file that `--answers` reads."""
    encode = msgspec.json.Encoder(decimal_format="number").encode
    lines = []
    for answer in answers:
        line: dict[str, Any] = {
            "item": answer.item,
            "response": answer.response,
            "latency_ms": answer.latency_ms,
        }
        lines.append(encode({**line, "error": answer.error} if answer.error else line))
    return b"".join(line + b"\n" for line in lines)
