"""Check a value against a JSON Schema that came with it: a run's outputs, a tool's arguments, an
exam's answers.

Both are untrusted, and every evaluation ends. The schema is compiled without access to files or the
network. Where its weight (`schema_weight`) times the size of the value is small, it is evaluated in
this process, with patterns in linear time. Everything else goes to a process that the operating
system kills when its CPU seconds are used up (`schema_worker`). A schema that is over budget or
invalid leaves the result undetermined, which never passes. A value that is not JSON (NaN, nesting
beyond the limit) is refused before the validator sees it.
"""

from __future__ import annotations

import atexit
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from assay.files.json_files import parse_json
from assay.records.plain import MAX_DEPTH, beyond_json
from assay.records.schema_weight import weight_of
from assay.records.schema_worker import (
    CPU_S,
    MEMORY,
    Checked,
    Question,
    compiled,
    decode_answer,
    encode_message,
    evaluated,
    linear,
)
from assay.sandbox.worker import Died, WorkerProcess

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
MAX_WORK = 20_000_000
"""The largest product of a schema's weight and a value's bytes that is evaluated in this process:
less than half a second at worst.
"""
MAX_ANSWERS = 10_000
"""Answers from one process before a fresh one replaces it, so that leaks don't add up."""
_PACKAGES = ("jsonschema_rs", "msgspec", "jiter", "yaml")
OVER_BUDGET = (
    f"evaluation takes more than the budget of {CPU_S} seconds of computing and"
    f" {MEMORY // 2**20:,} MiB of memory"
)

_OWN_DOING = tuple(
    -number for number in (signal.SIGXCPU, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)
)
"""Exit codes of a process that its schema killed: by CPU time, memory or stack."""

encode = msgspec.json.Encoder(decimal_format="number").encode


class ContractVerdict(NamedTuple):
    """Whether a value passed, None for undetermined, and why."""

    passed: bool | None
    reason: str


class NotPlain(Exception):
    """A schema needs a separate process, and the caller can't wait for one."""


class ContractEnding(Exception):
    """The process is shutting down, so the check has no result; it must be repeated later."""


_KEPT = ContractVerdict(True, "the outputs keep their schema")
_CHEAP_ONLY: ContextVar[bool] = ContextVar("cheap_only", default=False)


@contextmanager
def cheap_only() -> Iterator[None]:
    """Raise NotPlain instead of waiting for a process, so that an event loop isn't blocked."""
    token = _CHEAP_ONLY.set(True)
    try:
        yield
    finally:
        _CHEAP_ONLY.reset(token)


class _Last(NamedTuple):
    """The last answer: a gate and a measure of one run ask about the same outputs."""

    value: Any
    text: bytes
    checked: Checked


_REMEMBERED = 64 * 1024


class Contract:
    """An untrusted JSON Schema, compiled here if that is cheap."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._validator: Any = None
        schema = parse_json(text)
        self._weight = weight_of(schema)
        self._unique = b'"uniqueItems"' in text
        self._last = _Last(None, b"", Checked(None))
        if self._weight is not None:
            try:
                self._validator = compiled(schema, linear())
            except ValueError:
                # invalid, or a pattern with look-around: the worker finds out which
                self._weight = None

    @property
    def problem(self) -> str:
        """Why this is not a usable JSON Schema; empty if it is one."""
        return "" if self._validator is not None else _problem(self._text)

    def check(self, value: Any, text: bytes | None = None) -> Checked:
        """Whether a value keeps the schema. The value is JSON: see `beyond_json`. `text` is its
        text, if that is known.
        """
        problem = ""
        try:
            text = encode(value) if text is None else text
            size = len(text)
        except (ValueError, TypeError, RecursionError) as error:
            # a number of thousands of digits, or half of a surrogate pair
            problem = str(error)[:160]
            size = _size(value)
        if self._is_cheap(size):
            last = self._last
            if text is not None and last.value is value and last.text == text:
                return last.checked
            checked = evaluated(self._validator, value)
            if text is not None and size <= _REMEMBERED:
                self._last = _Last(value, text, checked)
            return checked
        if problem or text is None:
            return Checked(None, problem=problem)
        return _ask(Question(self._text, text))

    def _is_cheap(self, size: int) -> bool:
        """Whether a value of that many bytes is evaluated in this process."""
        if self._weight is None:
            return False
        # uniqueItems compares items with each other
        weight = self._weight + size if self._unique else self._weight
        return weight * size <= MAX_WORK


def _size(value: Any) -> int:
    """About how many bytes a value that can't be encoded would take."""
    if isinstance(value, dict):
        return 2 + sum(len(str(name)) + 4 + _size(member) for name, member in value.items())
    if isinstance(value, list | tuple):
        return 2 + sum(1 + _size(item) for item in value)
    if isinstance(value, int):
        return 2 + value.bit_length() // 3
    return len(value) + 2 if isinstance(value, str) else 32


@lru_cache(maxsize=256)
def contract_of(text: bytes) -> Contract:
    """The contract for a schema as JSON text. Raises ValueError for text that isn't JSON."""
    return Contract(text)


@lru_cache(maxsize=1024)
def _problem(text: bytes) -> str:
    return _ask(Question(text, None)).problem


def check(schema: dict[str, Any] | bool, value: Any) -> ContractVerdict:
    """Whether a run's outputs keep their schema, and the first places where they don't.

    >>> (
    ...     check({"type": "object", "required": ["a"]}, {"a": 1}).passed,
    ...     check({"type": "object"}, []).passed,
    ...     check({"type": 3}, {}).passed,
    ... )
    (True, False, None)
    """
    declared = schema.get("$schema", _DRAFT) if isinstance(schema, dict) else _DRAFT
    if str(declared).rstrip("#") != _DRAFT:
        return ContractVerdict(
            None, f"the `output_schema` is of the draft {declared!r}; only 2020-12 is read"
        )
    try:
        schema_text = encode(schema)
        # the encoder writes NaN as null, which would change what the schema requires
        problem = beyond_json(schema) if b"null" in schema_text else ""
        contract = contract_of(schema_text)
    except (ValueError, TypeError, RecursionError):
        problem = beyond_json(schema) or "are not JSON"
    if problem:
        return ContractVerdict(
            None, f"the `output_schema` is not a usable JSON Schema: its parts {problem}"
        )
    if contract.problem:
        return ContractVerdict(
            None, f"the `output_schema` is not a usable JSON Schema: {contract.problem}"
        )
    text: bytes | None = None
    is_plain = False
    try:
        text = encode(value)
        # NaN and the infinities are written as null, or as their names if they are decimals
        is_plain = not (b"null" in text or b"NaN" in text or b"Infinity" in text) and (
            text.count(b"[") + text.count(b"{") <= MAX_DEPTH
        )
    except (ValueError, TypeError, RecursionError):
        pass
    problem = "" if is_plain else beyond_json(value)
    if problem:
        return ContractVerdict(False, f"the outputs {problem}")
    checked = contract.check(value, text)
    if checked.valid:
        return _KEPT
    if checked.valid is None:
        return ContractVerdict(None, f"the outputs could not be checked: {checked.problem}")
    shown = "; ".join(
        f"{'.'.join(map(str, path)) or 'outputs'}: {message[:120]}"
        for path, message in checked.broken[:3]
    )
    return ContractVerdict(
        False,
        "the outputs break their schema:"
        f" {shown or 'no place named'}{'; and more' if len(checked.broken) > 3 else ''}",
    )


# --- the worker process


class _Processes(threading.local):
    """One process for each thread that needs one, so that no thread waits for another's schema."""

    worker: WorkerProcess | None = None

    def ask(self, question: Question) -> Checked:
        """The worker's answer, or why there is none. If something other than the schema kills the
        worker, the question is asked once more.
        """
        data = encode_message(question)
        for is_last in (False, True):
            try:
                return self._once(data)
            except Died as death:
                if _over.is_set():
                    raise ContractEnding from None
                if is_last or death.code in _OWN_DOING:
                    return _ended(death)
        raise AssertionError("unreachable: the second death is the answer")

    def _once(self, data: bytes) -> Checked:
        worker = self.worker
        if worker is None or not worker.is_usable() or worker.answered >= MAX_ANSWERS:
            self.drop()
            worker = self.worker = WorkerProcess("assay.records.schema_worker", _PACKAGES)
            with _lock:
                _started.add(worker)
            if _over.is_set():
                raise ContractEnding
        try:
            return decode_answer(worker.ask(data))
        except BaseException:
            # also on an interrupt: a late answer would be taken for that of the next question
            self.drop()
            raise

    def drop(self) -> None:
        """End the process of this thread."""
        dropped, self.worker = self.worker, None
        if dropped is not None:
            dropped.end()
        with _lock:  # also the workers of threads that are gone
            for worker in [
                process for process in _started if process is dropped or not process.is_usable()
            ]:
                worker.end()
                _started.discard(worker)


def _ended(death: Died) -> Checked:
    # one reason for time and memory: which runs out first may depend on the machine
    return Checked(
        None,
        problem=(
            OVER_BUDGET
            if death.code in _OWN_DOING
            else f"evaluation ended with its process ({death.cause})"
        ),
    )


_processes = _Processes()
_started: set[WorkerProcess] = set()
_lock = threading.Lock()
_over = threading.Event()
"""Set when this process shuts down."""


def _ask(question: Question) -> Checked:
    if _CHEAP_ONLY.get():
        raise NotPlain
    return _processes.ask(question)


def end_processes() -> None:
    """Kill the workers of all threads and start no more. Open questions raise ContractEnding."""
    _over.set()
    with _lock:
        for worker in _started:
            worker.kill()


@atexit.register
def _leave_nothing() -> None:
    end_processes()
    for worker in _started:
        worker.end()


def begin() -> None:
    """Allow workers again, for a server that starts after another one stopped in this process."""
    _over.clear()
