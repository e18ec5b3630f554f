"""Compile and evaluate JSON Schemas. `contract` calls this in its own process, or runs it as a
worker process when the work has no cheap bound.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from assay.files.json_files import parse_json
from assay.records.schemas import engine
from assay.sandbox.worker import serve

CPU_S = 3
"""CPU seconds for one value. An honest schema takes milliseconds, even for a large output."""
MEMORY = 1024 * 1024 * 1024
"""Bytes of address space."""
MAX_FAULTS = 4
_BACKTRACKS = 1_000_000
"""Backtracking steps that one pattern with look-around or back references may take."""
_WORDS = 160
_PR_SET_PDEATHSIG = 1


class Broken(NamedTuple):
    """One place where a value breaks a schema, and how."""

    path: tuple[str | int, ...]
    message: str


class Checked(NamedTuple):
    """Whether a value keeps a schema, and where it doesn't. `valid` is None if that is
    undetermined, for the reason in `problem`.
    """

    valid: bool | None
    broken: tuple[Broken, ...] = ()
    problem: str = ""


class Question(NamedTuple):
    """A schema and a value, both as JSON; without a value the schema is only compiled."""

    schema: bytes
    value: bytes | None


_decode_question = msgspec.msgpack.Decoder(Question).decode
encode_message = msgspec.msgpack.Encoder().encode
decode_answer = msgspec.msgpack.Decoder(Checked).decode


def linear() -> Any:
    """The regex engine with linear time, which refuses look-around and back references."""
    return engine().RegexOptions(size_limit=10 * 1024 * 1024, dfa_size_limit=2 * 1024 * 1024)


def compiled(schema: Any, options: Any) -> Any:
    """A validator without access to files or the network. Raises ValueError if the schema is not
    usable.
    """
    try:
        return engine().Draft202012Validator(schema, offline=True, pattern_options=options)
    except engine().ValidationError as error:
        where = ".".join(map(str, error.instance_path))
        raise ValueError(f"{where + ': ' if where else ''}{_first_line(error.message)}") from None
    except (
        engine().ReferencingError,
        ValueError,
        TypeError,
        RecursionError,
        OverflowError,
    ) as error:
        raise ValueError(_first_line(str(error)) or "unknown") from None


def evaluated(validator: Any, value: Any) -> Checked:
    """Whether a value keeps the schema; undetermined if evaluation gives up anywhere in it."""
    try:
        if validator.is_valid(value):
            return Checked(True)
        broken = []
        for error in validator.iter_errors(value):
            if type(error.kind).__name__ == "BacktrackLimitExceeded":
                return Checked(
                    None, problem=f"a pattern takes more than {_BACKTRACKS:,} steps of backtracking"
                )
            broken.append(Broken(tuple(error.instance_path), error.message[:_WORDS]))
            if len(broken) == MAX_FAULTS:
                break
    except (engine().ValidationError, ValueError, RecursionError) as error:
        return Checked(None, problem=_first_line(str(error)))
    return Checked(False, tuple(broken))


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:_WORDS] if lines else ""


# --- the worker process


@lru_cache(maxsize=64)
def _validator(schema: bytes) -> Any:
    return compiled(parse_json(schema), engine().FancyRegexOptions(backtrack_limit=_BACKTRACKS))


def answer(data: bytes) -> bytes:
    """The answer to a question."""
    question = _decode_question(data)
    try:
        validator = _validator(question.schema)
        checked = (
            Checked(True)
            if question.value is None
            else evaluated(validator, parse_json(question.value))
        )
    except ValueError as error:
        checked = Checked(None, problem=str(error))
    return encode_message(checked)


def _greeting() -> bytes:
    return answer(encode_message(Question(b'{"type": "object", "pattern": "a(?=b)"}', b"[1.5]")))


def main() -> None:
    """Answer questions until standard input or the asking thread ends. While native code runs, the
    interpreter can't check for its parent, so the kernel kills the process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    serve(answer, greeting=_greeting, cpu_s=CPU_S, memory=MEMORY)
