"""Check a solution against tests, as HumanEval does, so that the solution cannot say itself that it
passed.

`two-process` (the default): the solution runs in one sandbox, the tests in another. The tests call
the solution through a pipe and get plain values back; the verdict comes from the process of the
tests, which has run no line of the solution. The solution never sees a test, an expected value or
the verdict; ending its process, patching its interpreter, printing PASSED, forking or returning
objects that equal everything changes nothing but its own answers. What it still can do: answer well
only what is asked (as any memorised solution), and learn the arguments it is called with.

`one-process`: both in one interpreter, for tasks whose answers are objects. It must be asked for,
never falls in by itself (or a solution could choose it by returning an object), and is written into
the Verdict. There a solution that sets out to can forge the verdict; see `inside.together`.

In two processes these differ from one: an answer's identity (`is`), what a solution prints, and
attributes of objects are not seen by the tests; arguments that a solution changes in place are, so
a test that reads its argument again reads what the solution left there, as in one process.
Functions and iterators can go either way.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from typing import TYPE_CHECKING

from assay.errors import InputError
from assay.sandbox.box import Box, Setup, attend, end
from assay.sandbox.ending import NOT_NEEDED
from assay.sandbox.inside import values
from assay.sandbox.limits import DEFAULT, Limits
from assay.sandbox.outcome import Isolation, Mode, Outcome, Verdict

if TYPE_CHECKING:
    from typing import Any

_GRACE_S = 0.5
MAX_CODE_KB = 1024


def check_solution(
    code: str,
    test: str,
    entry_point: str | None = None,
    *,
    support: str = "",
    limits: Limits = DEFAULT,
    isolation: Isolation = "bubblewrap",
    mode: Mode = "two-process",
    packages: bool = False,
    python: str = sys.executable,
) -> Verdict:
    """Whether the solution's functions do what the tests ask.

    `test` holds asserts, `check(candidate)`, functions `test_*` or unittest classes; it may use the
    solution's names. `support` is code of the benchmark that tests need, such as the prompt with
    its helpers: it stands on the side of the tests, and a solution cannot replace it. `packages`
    makes what is installed for `python` importable, on both sides. `passed` is None where the tests
    are at fault, or never call the solution.

    >>> check_solution(
    ...     "def twice(x): return 2 * x", "def check(f): assert f(4) == 8", "twice"
    ... ).passed  # doctest: +SKIP
    True
    """
    _check(code, test, support, entry_point)
    if mode not in ("two-process", "one-process"):
        raise InputError(
            "SBX-003", f"there is no mode {mode!r}.", fix="There are two-process and one-process."
        )
    shared = {"entry_point": entry_point or "", "packages": packages, "report_file": ""}
    common: dict[str, Any] = {
        "limits": limits,
        "isolation": isolation,
        "python": python if packages else os.path.realpath(python),
    }
    tests = {"test": test, "support": support}
    if mode == "one-process":
        return _check_together(
            Setup("together", job={**shared, **tests, "code": code}, answers=True, **common)
        )
    ask_out, ask_in = os.pipe()
    reply_out, reply_in = os.pipe()
    try:
        solving = Box(
            Setup("solution", job={**shared, "code": code}, channel=(ask_out, reply_in), **common)
        )
        with solving:
            testing = Box(
                Setup(
                    "examiner",
                    job={**shared, **tests},
                    channel=(reply_out, ask_in),
                    answers=True,
                    **common,
                )
            )
            with testing:
                for one in (ask_out, ask_in, reply_out, reply_in):
                    os.close(one)
                ask_out = -1
                return _attend_both(solving, testing, limits)
    finally:
        if ask_out >= 0:
            for one in (ask_out, ask_in, reply_out, reply_in):
                os.close(one)


def _attend_both(solving: Box, testing: Box, limits: Limits) -> Verdict:
    boxes = [solving, testing]
    if not attend(
        boxes, until=lambda: testing.ended is not None, deadline=time.monotonic() + limits.wall_s
    ):
        end(solving, "timeout", [testing])
        end(testing, "timeout")
        outcome = solving.outcome()
        return Verdict(False, outcome, outcome.reason, "two-process")
    tested = testing.outcome()
    if not attend(
        [solving], until=lambda: solving.ended is not None, deadline=time.monotonic() + _GRACE_S
    ):
        end(solving, None)
    outcome = solving.outcome()
    if outcome.reason == NOT_NEEDED:
        outcome = outcome._replace(status="violation" if outcome.violations else "passed")
    word, why = _heard(testing.answer)
    if word == "failed" and outcome.status not in ("passed", "failed", "violation"):
        why = (
            f"the solution {outcome.reason} ({why})"
            if outcome.status != "error"
            else outcome.reason
        )
    if tested.status != "passed" or not word:
        # The tests are trusted and were ended all the same: by what the solution gave them to hold,
        # or by the time it left them.
        return Verdict(
            False,
            _with_status(outcome, passed=False),
            f"the process of the tests {tested.reason}",
            "two-process",
        )
    passed = {"passed": True, "failed": False}.get(word)
    if outcome.status == "error":
        return Verdict(None, outcome, outcome.reason, "two-process")
    return Verdict(passed, _with_status(outcome, passed=passed is True), why, "two-process")


def _check_together(setup: Setup) -> Verdict:
    token = secrets.token_hex(16)
    with Box(setup._replace(job={**setup.job, "token": token})) as box:
        if not attend(
            [box],
            until=lambda: box.ended is not None,
            deadline=time.monotonic() + setup.limits.wall_s,
        ):
            end(box, "timeout")
        outcome = box.outcome()
        word, why = _heard(box.answer, token)
    if outcome.status == "error":
        return Verdict(None, outcome, outcome.reason, "one-process")
    if word == "tests":
        return Verdict(None, outcome, why, "one-process")
    if word != "passed" or outcome.exit_code != 0:
        return Verdict(
            False,
            _with_status(outcome, passed=False),
            why or f"the tests did not come to their end: it {outcome.reason}",
            "one-process",
        )
    return Verdict(True, outcome, why, "one-process")


def _heard(answer: bytes, token: str | None = None) -> tuple[str, str]:
    """The word and the reason; two empty texts where there is none, or one without the token."""
    try:
        said = values.decode(answer[8:], lambda handle: None)
    except (ValueError, TypeError, RecursionError):
        return "", ""
    match said:
        case [str(word), str(why), last] if token is None or last == token:
            return word, why
    return "", ""


def _with_status(outcome: Outcome, *, passed: bool) -> Outcome:
    """The process of a solution that failed its tests ended well all the same; its record must not
    read as passed.
    """
    return (
        outcome._replace(status="failed") if outcome.status == "passed" and not passed else outcome
    )


def _check(code: str, test: str, support: str, entry_point: str | None) -> None:
    for name, text in (("code", code), ("test", test), ("support", support)):
        if len(text) > MAX_CODE_KB * 1024 or "\0" in text:
            raise InputError(
                "SBX-003",
                f"`{name}` holds a NUL or more than {MAX_CODE_KB} KB.",
                fix="A solution and its tests are short texts.",
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(
                "SBX-003",
                f"`{name}` is no text that UTF-8 can write.",
                fix="Remove lone surrogates.",
            ) from None
    if entry_point is not None and not entry_point.isidentifier():
        raise InputError(
            "SBX-003",
            f"the entry point {entry_point[:100]!r} is no name of a function.",
            fix="Name a function, or none.",
        )
    if not test.strip():
        raise InputError("SBX-003", "there are no tests.", fix="Nothing to check is not a pass.")
