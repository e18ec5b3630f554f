"""Runs one test of a tree with pytest or unittest, and decides from a signed record of every step
whether it passed.

A test passes if it was collected once, ran, and passed in every phase; the process then ended with
0; and the assertions that must fail did fail. Anything else has not passed, and the reason is
returned. `inside.runner` writes the record in the process of the test; the decision is made here,
where no code of the tree runs. A record without the signature was not written by the runner.

The code under test shares a process with its test. So code written against this runner can still
search that process for the signature's key, or return objects that equal everything.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from assay.sandbox.bootstrap import program_text
from assay.sandbox.box_setup import TreeEntry
from assay.sandbox.inside.runner import MUST_FAIL, MUST_FAIL_PYTEST
from assay.sandbox.limits import SandboxLimits
from assay.sandbox.outcome import Isolation, SandboxVerdict
from assay.sandbox.running import REPORT, ReportFindings, run_command

Kind = Literal["pytest", "unittest"]
_SHOWN = 300


class PythonRunner(NamedTuple):
    """How tests are run."""

    kind: Kind
    python: str
    """An interpreter that has the runner and what the tests need."""
    flags: tuple[str, ...] = ()
    """Options of the interpreter."""
    options: tuple[str, ...] = ()
    """Options of pytest."""


def run_test(
    entries: Sequence[TreeEntry],
    test: str,
    place: tuple[str, str],
    *,
    runner: PythonRunner,
    limits: SandboxLimits,
    isolation: Isolation = "bubblewrap",
    readable: Sequence[str] = (),
    expected: Sequence[str] = (),
) -> SandboxVerdict:
    """Whether a test passes in a copy of the tree. `place` is its file and its name in the file.

    `expected` are tests that must be collected: a test that vanished has not passed.
    """
    key, (file, name) = secrets.token_bytes(32), place
    arguments = (*runner.options, test) if runner.kind == "pytest" else (name,)
    command = [
        runner.python,
        *runner.flags,
        "-I",
        "-B",
        "-c",
        program_text("runner"),
        runner.kind,
        REPORT,
        file,
        *arguments,
    ]
    reader = partial(read_record, key=key, test=test, kind=runner.kind, expected=expected)
    return run_command(
        entries,
        command,
        stdin=key,
        report=REPORT,
        read=reader,
        limits=limits,
        isolation=isolation,
        readable=readable,
    )


def read_record(
    data: bytes, *, key: bytes, test: str, kind: Kind, expected: Sequence[str] = ()
) -> ReportFindings:
    """What a record shows about a test: why it has not passed, and which tests were collected."""
    head, _, body = data.partition(b"\n")
    if not hmac.compare_digest(head, hmac.new(key, body, "sha256").hexdigest().encode()):
        return ReportFindings("the report is forged: the test runner did not write it")
    try:
        record = json.loads(body)
        collected: list[str] = record["collected"]
        ours = [test_id for test_id in collected if kind == "unittest" or _is_within(test_id, test)]
        return ReportFindings(_fault(record, ours, kind, expected), tuple(ours))
    except (ValueError, TypeError, KeyError, RecursionError):
        return ReportFindings("the report is forged: it is not a record of the test runner")


def _fault(record: dict[str, Any], ours: list[str], kind: Kind, expected: Sequence[str]) -> str:
    if record["faults"]:
        word, reason = record["faults"][0]
        return f"{word}: {' '.join(str(reason).split())[-_SHOWN:]}"
    held = _held(
        record["must_fail"],
        record["steps"],
        len(MUST_FAIL) + (MUST_FAIL_PYTEST.count(b"\ndef ") if kind == "pytest" else 0),
    )
    if held is not None:
        return f"the code under test changed the test runner: {held}"
    if not ours:
        return "never collected: there is no such test"
    name, count = Counter(ours).most_common(1)[0]
    if count > 1:
        return f"collected twice: {name}"
    gone = next((test_id for test_id in expected if test_id not in ours), None)
    if gone is not None:
        return f"never collected: {gone} was there without the patch"
    steps: dict[str, list[tuple[str, str]]] = {test_id: [] for test_id in ours}
    for name, phase, outcome in record["steps"]:
        if name not in record["must_fail"]:
            steps.setdefault(name, []).append((phase, outcome))
    for name, seen in steps.items():
        fault = _step_fault(seen)
        if fault:
            return fault if len(steps) == 1 else f"{fault} ({name})"
    return ""


_WHOLE = (
    [("setup", "passed"), ("call", "passed"), ("teardown", "passed")],
    [("call", "started"), ("call", "passed")],
)
"""The steps of a test that passed: of pytest and of unittest."""


def _step_fault(seen: list[tuple[str, str]]) -> str:
    if seen in _WHOLE:
        return ""
    for phase, outcome in seen:
        if outcome not in ("passed", "started"):
            return outcome if phase == "call" or outcome != "failed" else f"errored in {phase}"
    return (
        "never ran"
        if not seen
        else "reported twice"
        if len(set(seen)) < len(seen)
        else "did not come to its end"
    )


def _held(names: list[str], steps: list[list[str]], wanted: int) -> str | None:
    """An assertion that must fail but held; None if all failed. One that a fixture of the project
    stopped has not held either.
    """
    if len(set(names)) != wanted:
        return "assertions that must fail did not run"
    failed = {name for name, _, outcome in steps if outcome in ("failed", "errored")}
    held = {
        name
        for name, phase, outcome in steps
        if phase == "call" and outcome not in ("failed", "errored", "started")
    }
    return next(
        (
            f"{name.rpartition('.')[2]} held, which cannot be"
            for name in names
            if name in held or name not in failed
        ),
        None,
    )


def _is_within(collected: str, test: str) -> bool:
    file, colons, name = test.partition("::")
    wanted = f"{os.path.normpath(file)}{colons}{name}"
    return collected == wanted or collected.startswith((f"{wanted}[", f"{wanted}::", f"{wanted}/"))
