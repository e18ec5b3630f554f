"""Compiling and evaluating a JSON Schema: in this process, or as the process that `contract` asks
when the work has no cheap bound.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from functools import lru_cache
from typing import Any, NamedTuple

import jsonschema_rs
import msgspec

from assay.files.json_files import parse_json
from assay.sandbox.worker import serve

CPU_S = 3
"""Seconds of computing for one value. An honest schema takes milliseconds, also for a large output;
time that other programs take does not count.
"""
MEMORY = 1024 * 1024 * 1024
"""Bytes of address space."""
MAX_FAULTS = 4
_BACKTRACKS = 1_000_000
"""Steps that one pattern with look-around or back references may take back."""
_WORDS = 160
_PR_SET_PDEATHSIG = 1


class Broken(NamedTuple):
    """One place where a value breaks a schema, and how."""

    path: tuple[str | int, ...]
    message: str


class Checked(NamedTuple):
    """Whether a value keeps a schema, and where it does not; None is undetermined, for the reason
    in `problem`.
    """

    valid: bool | None
    broken: tuple[Broken, ...] = ()
    problem: str = ""


class Question(NamedTuple):
    """A schema and a value, both as JSON; without a value the schema is only compiled."""

    schema: bytes
    value: bytes | None


_question = msgspec.msgpack.Decoder(Question).decode
encode_question = msgspec.msgpack.Encoder().encode
decode_answer = msgspec.msgpack.Decoder(Checked).decode


def linear() -> jsonschema_rs.RegexOptions:
    """The engine whose time is linear in the text. It refuses look-around and back references."""
    return jsonschema_rs.RegexOptions(size_limit=10 * 1024 * 1024, dfa_size_limit=2 * 1024 * 1024)


def compiled(schema: Any, options: Any) -> jsonschema_rs.Draft202012Validator:
    """A validator that reaches no file and no network. Raises ValueError where this is not a usable
    JSON Schema.
    """
    try:
        return jsonschema_rs.Draft202012Validator(schema, offline=True, pattern_options=options)
    except jsonschema_rs.ValidationError as error:
        where = ".".join(map(str, error.instance_path))
        raise ValueError(f"{where + ': ' if where else ''}{_first_line(error.message)}") from None
    except (
        jsonschema_rs.ReferencingError,
        ValueError,
        TypeError,
        RecursionError,
        OverflowError,
    ) as error:
        raise ValueError(_first_line(str(error)) or "unknown") from None


def evaluated(validator: jsonschema_rs.Draft202012Validator, value: Any) -> Checked:
    """Whether a value keeps the schema. Evaluation that gives up inside is undetermined, wherever
    in the schema it happens.
    """
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
    except (jsonschema_rs.ValidationError, ValueError, RecursionError) as error:
        return Checked(None, problem=_first_line(str(error)))
    return Checked(False, tuple(broken))


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:_WORDS] if lines else ""


# --- the process


@lru_cache(maxsize=64)
def _validator(schema: bytes) -> jsonschema_rs.Draft202012Validator:
    return compiled(
        parse_json(schema), jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS)
    )


def answer(data: bytes) -> bytes:
    """The answer to a question."""
    question = _question(data)
    try:
        validator = _validator(question.schema)
        found = (
            Checked(True)
            if question.value is None
            else evaluated(validator, parse_json(question.value))
        )
    except ValueError as error:
        found = Checked(None, problem=str(error))
    return encode_question(found)


def _greeting() -> bytes:
    return answer(encode_question(Question(b'{"type": "object", "pattern": "a(?=b)"}', b"[1.5]")))


def main() -> None:
    """Answer questions until standard input ends, or the thread that asks does: native code keeps
    the interpreter from looking for its parent.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    serve(answer, greeting=_greeting, cpu_s=CPU_S, memory=MEMORY)
