"""Checks a solution against tests, as HumanEval does, in a way that the solution can't decide the
verdict.

`two-process` (the default): the solution runs in one sandbox, the tests in another. The tests call
the solution through a pipe and get plain values back; the verdict comes from the process of the
tests, which has run no line of the solution. The solution never sees a test, an expected value or
the verdict; ending its process, patching its interpreter, printing PASSED, forking or returning
objects that equal everything changes nothing but its own answers. It can still answer only the
tested arguments correctly (as any memorised solution), and learn the arguments it is called with.

`one-process`: both in one interpreter, for tasks whose answers are objects. It must be requested,
is never chosen automatically (or a solution could choose it by returning an object), and is
recorded in the verdict. There a malicious solution can forge the verdict; see `inside.examiner`.

In two processes, the tests don't see an answer's identity (`is`), what a solution prints, or
attributes of objects. They do see arguments that a solution changes in place, so a test that reads
its argument again reads what the solution left there, as in one process. Functions and iterators
can cross in both directions.
"""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import ExitStack
from functools import partial

from assay.errors import InputError
from assay.sandbox.box import Box, attend, end, run_box
from assay.sandbox.box_setup import BoxSetup
from assay.sandbox.inside import values
from assay.sandbox.limits import DEFAULT, SandboxLimits
from assay.sandbox.outcome import Isolation, Mode, SandboxVerdict

_GRACE_S = 0.5
MAX_CODE_KB = 1024


def check_solution(
    code: str,
    test: str,
    entry_point: str | None = None,
    *,
    support: str = "",
    limits: SandboxLimits = DEFAULT,
    isolation: Isolation = "bubblewrap",
    mode: Mode = "two-process",
    python: str = sys.executable,
) -> SandboxVerdict:
    """Whether the solution passes the tests.

    `test` contains asserts, `check(candidate)`, functions `test_*` or unittest classes; it may use
    the solution's names. `support` is code of the benchmark that tests need, such as the prompt
    with its helpers: it belongs to the tests, and a solution can't replace it. Installed packages
    can't be imported on either side. `passed` is None if the tests are at fault, or never call the
    solution.

    >>> check_solution(
    ...     "def twice(x): return 2 * x", "def check(f): assert f(4) == 8", "twice"
    ... ).passed  # doctest: +SKIP
    True
    """
    _check(code, test, support, entry_point)
    shared = {"entry_point": entry_point or "", "report_file": ""}
    tests = {**shared, "test": test, "support": support}
    setup = partial(BoxSetup, limits=limits, isolation=isolation, python=os.path.realpath(python))
    if mode == "one-process":
        token = secrets.token_hex(16)
        job = {**tests, "code": code, "token": token}
        return _together(setup("together", job=job, answers=True), token)
    with ExitStack() as boxes:
        with ExitStack() as pipes:
            ends = (*os.pipe(), *os.pipe())
            for pipe in ends:
                pipes.callback(os.close, pipe)
            ask_out, ask_in, reply_out, reply_in = ends
            solving = boxes.enter_context(
                Box(setup("solution", job={**shared, "code": code}, channel=(ask_out, reply_in)))
            )
            testing = boxes.enter_context(
                Box(setup("examiner", job=tests, channel=(reply_out, ask_in), answers=True))
            )
        return _apart(solving, testing, limits)


def _apart(solving: Box, testing: Box, limits: SandboxLimits) -> SandboxVerdict:
    mode: Mode = "two-process"
    both = [solving, testing]
    if not attend(both, until=lambda: testing.ended is not None, seconds=limits.wall_s):
        end(solving, "timeout", [testing])
        end(testing, "timeout")
        outcome = solving.outcome()
        return SandboxVerdict(False, outcome, outcome.reason, mode)
    tested = testing.outcome()
    if not attend([solving], until=lambda: solving.ended is not None, seconds=_GRACE_S):
        end(solving, None)
    outcome = solving.outcome()
    if outcome.unneeded:
        outcome = outcome._replace(status="violation" if outcome.violations else "passed")
    word, why = _answer(testing.answer)
    if tested.status != "passed" or not word:
        # The tests are trusted: the solution made them fail, by too large values or too much time.
        why = f"the process of the tests {tested.reason}"
        return SandboxVerdict(False, outcome.unless(True), why, mode)
    if outcome.status == "error":
        return SandboxVerdict(None, outcome, outcome.reason, mode)
    if word == "failed" and outcome.status not in ("passed", "failed", "violation"):
        why = f"the solution {outcome.reason} ({why})"
    passed = {"passed": True, "failed": False}.get(word)
    return SandboxVerdict(passed, outcome.unless(passed is not True), why, mode)


def _together(setup: BoxSetup, token: str) -> SandboxVerdict:
    outcome, answer = run_box(setup)
    word, why = _answer(answer, token)
    if outcome.status == "error" or word == "tests":
        reason = outcome.reason if outcome.status == "error" else why
        return SandboxVerdict(None, outcome, reason, "one-process")
    passed = word == "passed" and outcome.exit_code == 0
    if not passed:
        why = why or f"the tests did not come to their end: it {outcome.reason}"
    return SandboxVerdict(passed, outcome.unless(not passed), why, "one-process")


def _answer(answer: bytes, token: str | None = None) -> tuple[str, str]:
    """The verdict and the reason; two empty texts if there is no answer, or the token is wrong."""
    try:
        message = values.decode(answer[8:], lambda handle: None)
    except (ValueError, TypeError, RecursionError):
        return "", ""
    match message:
        case [str(word), str(why), last] if token is None or last == token:
            return word, why
    return "", ""


def _check(code: str, test: str, support: str, entry_point: str | None) -> None:
    for name, text in (("code", code), ("test", test), ("support", support)):
        if len(text) > MAX_CODE_KB * 1024 or "\0" in text:
            raise InputError(
                "SBX-003",
                f"`{name}` contains a NUL or more than {MAX_CODE_KB} KB.",
                fix="A solution and its tests are short texts.",
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(
                "SBX-003", f"`{name}` can't be written as UTF-8.", fix="Remove lone surrogates."
            ) from None
    if entry_point is not None and not entry_point.isidentifier():
        raise InputError(
            "SBX-003",
            f"the entry point {entry_point[:100]!r} is not the name of a function.",
            fix="Name a function, or none.",
        )
    if not test.strip():
        raise InputError("SBX-003", "there are no tests.", fix="Give at least one.")
