"""Runs a command under limits, and decides by its exit status and its report whether it passed.

What `run_command` guarantees: the candidate's tree is a copy; the verdict depends on the exit
status that the supervisor saw, never on printed text; the report is written where the tree can't
have put one beforehand, and a status of 0 without the requested report does not pass.

What it doesn't guarantee: a test runner that imports the candidate's code runs it in its own
process, and malicious code can write a report and end that process with 0. For pytest and unittest,
use `testing.run_test`, whose report is signed; if the answer is a function, use `check_solution`,
where the code and the verdict share no process.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple
from xml.etree import ElementTree

from assay.errors import InputError
from assay.sandbox import isolation as walls
from assay.sandbox.box import run_box
from assay.sandbox.box_setup import BoxSetup, TreeEntry
from assay.sandbox.limits import DEFAULT, SandboxLimits
from assay.sandbox.outcome import Isolation, SandboxOutcome, SandboxVerdict

REPORT = f"{walls.REPORTS}/report.xml"
"""Where a command writes the report that `run_command` reads."""
_JUNIT = {"skipped": "skipped or expected to fail", "failure": "failed", "error": "errored"}


class ReportFindings(NamedTuple):
    """What a report shows."""

    fault: str = ""
    """Why the tests have not passed; empty if they have."""
    collected: tuple[str, ...] = ()


def run(
    argv: Sequence[str],
    *,
    entries: Sequence[TreeEntry] = (),
    limits: SandboxLimits = DEFAULT,
    isolation: Isolation = "bubblewrap",
    stdin: bytes = b"",
    readable: Sequence[str] = (),
    report: str = "",
) -> SandboxOutcome:
    r"""Run a command in a fresh working folder with a copy of `entries` in it.

    Files that the command writes are discarded, and its environment is a handful of fixed
    variables. `readable` are folders besides the system's that it may read. If the command is our
    own interpreter, its folders are readable. Raises SBX-001 (the isolation is unavailable),
    SBX-002 (the sandbox did not start), SBX-003 (invalid arguments).

    >>> run(["python3", "-c", "print(6 * 7)"]).stdout.text  # doctest: +SKIP
    '42\n'
    """
    argv = [os.fspath(word) for word in argv]
    if not argv or any("\0" in word for word in argv):
        raise InputError(
            "SBX-003",
            "there is no command, or it contains a NUL.",
            fix="A command is a program and its arguments.",
        )
    if report and os.path.dirname(report) != walls.REPORTS:
        raise InputError(
            "SBX-003", f"a report cannot be written to {report!r}.", fix=f"Use {REPORT}."
        )
    for path in readable:
        unusable = not os.path.isabs(path) or not os.path.exists(path)
        if unusable or os.path.normpath(path) in ("/", os.path.expanduser("~")):
            raise InputError(
                "SBX-003",
                f"{path!r} cannot be made readable.",
                fix="Name a folder that exists by its full path; not / and not a home.",
            )
    ours = os.path.realpath(argv[0]) == os.path.realpath(sys.executable)
    return run_box(
        BoxSetup(
            "command",
            limits,
            isolation,
            os.path.realpath(sys.executable),
            {"argv": argv, "report_file": report},
            entries=entries,
            readable=[*readable, *(walls.interpreter(argv[0]) if ours else ())],
            stdin=stdin,
        )
    )[0]


def run_command(
    entries: Sequence[TreeEntry],
    command: Sequence[str],
    *,
    report: str = "",
    read: Callable[[bytes], ReportFindings] | None = None,
    limits: SandboxLimits = DEFAULT,
    isolation: Isolation = "bubblewrap",
    readable: Sequence[str] = (),
    stdin: bytes = b"",
) -> SandboxVerdict:
    """Run a command against a copy of a working tree; its exit status decides whether it passed,
    and its report if one is requested.

    `report` is REPORT, or "" for none; `read` reads a report (by default JUnit XML, in which every
    test must have passed). See the module docstring for what a hostile tree can still do.
    """
    outcome = run(
        command,
        entries=entries,
        limits=limits,
        isolation=isolation,
        stdin=stdin,
        readable=readable,
        report=report,
    )
    if outcome.status == "error":
        return SandboxVerdict(None, outcome, outcome.reason)
    # violations fail the gate, not the tests
    passed = outcome.exit_code == 0 and outcome.status in ("passed", "violation")
    findings = ReportFindings()
    if report and outcome.report is not None:
        findings = (read or read_junit)(outcome.report)
    elif report and passed:
        findings = ReportFindings("ended early: it ended with 0 and wrote no report")
    return SandboxVerdict(
        passed and not findings.fault,
        outcome.unless(bool(findings.fault)),
        findings.fault or outcome.reason,
        collected=findings.collected,
    )


def read_junit(data: bytes, *, expected: Sequence[str] = ()) -> ReportFindings:
    """What a JUnit XML report shows. It has no fault if it names at least one test, each once, all
    of `expected` among them, and none failed or was skipped.
    """
    try:
        # its size is limited, and expat limits how entities grow
        cases = list(ElementTree.fromstring(data).iter("testcase"))  # noqa: S314
    except ElementTree.ParseError:
        return ReportFindings("the report is not JUnit XML")
    names = tuple(f"{case.get('classname', '')}::{case.get('name', '')}" for case in cases)
    if not names:
        return ReportFindings("never collected: the report names no test")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        return ReportFindings(f"reported twice: {name}", names)
    for name, case in zip(names, cases, strict=True):
        for tag, word in _JUNIT.items():
            if case.find(tag) is not None:
                return ReportFindings(f"{word}: {name}", names)
    gone = next((name for name in expected if name not in names), None)
    fault = f"never collected: {gone} was there without the patch" if gone else ""
    return ReportFindings(fault, names)
