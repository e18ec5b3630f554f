"""Run a command under limits: alone, or against a working tree with files that the tree cannot
change.

What `run_command` guarantees: the candidate's tree is a copy; the verdict is the exit status as the
supervisor saw it, never printed text; files named `protected` have the caller's bytes and cannot be
written, removed or moved aside; `sealed` folders hold nothing but protected files; the report is
written where the tree cannot have put one beforehand, and a status of 0 without the report that was
asked for does not pass.

What it does not guarantee: a test runner that imports the candidate's code runs it in its own
process, and code that sets out to can end that process with 0 and write a report before. For pytest
and unittest use `testing.run_test`, whose report is signed; where the answer is a function, use
`check_solution`, where the code and the verdict share no process.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

from assay.errors import InputError
from assay.sandbox import isolation as walls
from assay.sandbox.box import Box, Entry, Setup, attend, end
from assay.sandbox.limits import DEFAULT, Limits
from assay.sandbox.outcome import Isolation, Outcome, Verdict
from assay.sandbox.trees import check_paths, make_entries, read_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

REPORT = f"{walls.REPORTS}/report.xml"
"""Where a command writes the report that `run_command` hands back."""


_JUNIT = {"skipped": "skipped or expected to fail", "failure": "failed", "error": "errored"}


class Findings(NamedTuple):
    """What a report shows."""

    fault: str = ""
    """Why the tests have not passed, with the word for it; empty where they have."""
    collected: tuple[str, ...] = ()


class _Fixed(NamedTuple):
    entries: list[Entry]
    fixed: list[walls.Fixed]
    replaced: tuple[str, ...]


def run(
    argv: Sequence[str],
    *,
    tree: str | None = None,
    files: Mapping[str, bytes] | None = None,
    limits: Limits = DEFAULT,
    isolation: Isolation = "bubblewrap",
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    readable: Sequence[str] = (),
    report: str = "",
) -> Outcome:
    r"""Run a command in a fresh working folder with a copy of `tree` and then `files` in it.

    The tree is copied, so that nothing written comes back. The environment is `env` and a handful
    of fixed variables. `readable` are folders outside the system that the command may read. Our own
    interpreter can be named; its folders are then readable. Raises SBX-001 (no such isolation
    here), SBX-002 (the sandbox did not start), SBX-003 (what was handed over cannot be taken).

    >>> run(["python3", "-c", "print(6 * 7)"]).stdout.text  # doctest: +SKIP
    '42\n'
    """
    entries = [*(read_tree(tree) if tree is not None else ()), *make_entries(files or {})]
    return _run(
        argv,
        entries,
        [],
        limits=limits,
        isolation=isolation,
        stdin=stdin,
        env=env or {},
        readable=readable,
        report=report,
    )


def run_command(
    tree: str | Sequence[Entry],
    command: Sequence[str],
    *,
    protected: Mapping[str, bytes] | None = None,
    sealed: Sequence[str] = (),
    report: str = "",
    read: Callable[[bytes], Findings] | None = None,
    limits: Limits = DEFAULT,
    isolation: Isolation = "bubblewrap",
    env: Mapping[str, str] | None = None,
    readable: Sequence[str] = (),
    stdin: bytes = b"",
) -> Verdict:
    """Run a command against a copy of a working tree; it passes by its exit status, and by what its
    report says where one is asked for.

    `tree` is a folder, or what `read_tree` found in one, so that many commands need not read it
    again. `protected` maps paths of the tree to the bytes they must have, `sealed` names folders
    that hold nothing else. `report` is REPORT, or "" for none; `read` says what a report shows
    (default: it is JUnit XML, and every test in it passed). Protection needs walls: under `process`
    it is refused. See the module's header for what a hostile tree can still do.
    """
    kept = dict(protected or {})
    check_paths([*kept, *sealed])
    if kept and isolation != "bubblewrap":
        raise InputError(
            "SBX-003",
            "nothing can be protected without walls.",
            fix="Use the isolation bubblewrap, or protect nothing.",
        )
    with tempfile.TemporaryDirectory(prefix="assay-protected-") as folder:
        ready = _protect(
            read_tree(tree) if isinstance(tree, str) else list(tree), kept, sealed, folder
        )
        outcome = _run(
            command,
            ready.entries,
            ready.fixed,
            limits=limits,
            isolation=isolation,
            stdin=stdin,
            env=env or {},
            readable=readable,
            report=report,
        )
    if outcome.status == "error":
        return Verdict(None, outcome, outcome.reason, replaced=ready.replaced)
    passed = outcome.exit_code == 0 and outcome.status in (
        "passed",
        "violation",
    )  # what was seen besides is for the gate, not for the tests
    found = Findings()
    if report and outcome.report is not None:
        found = (read or read_junit)(outcome.report)
    elif report and passed:
        found = Findings("ended early: it ended with 0 and wrote no report")
    ended = (
        outcome._replace(status="failed") if found.fault and outcome.status == "passed" else outcome
    )
    return Verdict(
        passed and not found.fault,
        ended,
        found.fault or outcome.reason,
        replaced=ready.replaced,
        collected=found.collected,
    )


def read_junit(data: bytes) -> Findings:
    """What a JUnit XML report shows: nothing wrong where it names at least one test, each once, and
    none that failed or was skipped.
    """
    try:
        cases = list(
            ElementTree.fromstring(data).iter("testcase")  # noqa: S314
        )  # its size is limited, and expat limits how entities grow
    except ElementTree.ParseError:
        return Findings("the report is not JUnit XML")
    names = [f"{case.get('classname', '')}::{case.get('name', '')}" for case in cases]
    if not names:
        return Findings("never collected: the report names no test")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        return Findings(f"reported twice: {name}", tuple(names))
    for name, case in zip(names, cases, strict=True):
        word = next((word for tag, word in _JUNIT.items() if case.find(tag) is not None), None)
        if word:
            return Findings(f"{word}: {name}", tuple(names))
    return Findings("", tuple(names))


def pytest_command(*paths: str, python: str = sys.executable) -> list[str]:
    """A call of pytest that reads as little as possible of a candidate's tree: no conftest, no ini
    file, no cache, no plugin of the environment.

    It needs pytest 8.4 or later. Isolated mode keeps the tree off the path until pytest itself is
    loaded; then the root of the tree and the tests' own folder go on it.
    """
    alone = [
        "--disable-plugin-autoload",
        "-p",
        "no:cacheprovider",
        "--noconftest",
        "-c",
        os.devnull,
        "-o",
        "xfail_strict=true",
    ]
    ours = [
        *alone,
        "--rootdir",
        walls.WORK,
        "-o",
        f"pythonpath={walls.WORK}",
        f"--junitxml={REPORT}",
    ]
    return [python, "-I", "-B", "-m", "pytest", "-q", *ours, *paths]


def _run(
    argv: Sequence[str],
    entries: Sequence[Entry],
    fixed: Sequence[walls.Fixed],
    *,
    limits: Limits,
    isolation: Isolation,
    stdin: bytes,
    env: Mapping[str, str],
    readable: Sequence[str],
    report: str,
) -> Outcome:
    argv = [os.fspath(one) for one in argv]
    if not argv or any("\0" in one for one in (*argv, *env, *env.values())):
        raise InputError(
            "SBX-003",
            "there is no command, or it holds a NUL.",
            fix="A command is a program and its arguments.",
        )
    if report and os.path.dirname(report) != walls.REPORTS:
        raise InputError(
            "SBX-003", f"a report cannot be written to {report!r}.", fix=f"Use {REPORT}."
        )
    ours = os.path.realpath(argv[0]) == os.path.realpath(sys.executable)
    seen = [*readable, *(walls.interpreter(argv[0]) if ours else ())]
    for path in readable:
        if (
            not os.path.isabs(path)
            or not os.path.exists(path)
            or os.path.normpath(path) in ("/", os.path.expanduser("~"))
        ):
            raise InputError(
                "SBX-003",
                f"{path!r} cannot be made readable.",
                fix="Name a folder that exists by its full path; not / and not a home.",
            )
    setup = Setup(
        "command",
        limits,
        isolation,
        os.path.realpath(sys.executable),
        {"argv": argv, "report_file": report},
        entries=entries,
        fixed=fixed,
        readable=seen,
        env=env,
        stdin=stdin,
    )
    with Box(setup) as box:
        if not attend(
            [box], until=lambda: box.ended is not None, deadline=time.monotonic() + limits.wall_s
        ):
            end(box, "timeout")
        return box.outcome()


def _protect(
    entries: list[Entry], kept: dict[str, bytes], sealed: Sequence[str], folder: str
) -> _Fixed:
    """Write protected files outside, and take from the tree what stands in their place."""
    fixed: list[walls.Fixed] = []
    for path in sealed:
        os.makedirs(os.path.join(folder, path), exist_ok=True)
    for path, data in kept.items():
        target = os.path.join(folder, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "xb") as file:
            file.write(data)
        os.chmod(target, 0o444)
        if not any(path.startswith(f"{one}/") for one in sealed):
            fixed.append(walls.Fixed(target, path))
    fixed += [walls.Fixed(os.path.join(folder, path), path) for path in sealed]
    above = set(walls.holders(fixed))
    taken = {one.path for one in fixed}
    left, replaced = [], []
    for entry in entries:
        inside = any(entry.path.startswith(f"{one}/") for one in taken)
        if entry.path in taken or inside or (entry.path in above and entry.data is not None):
            if entry.data is not None and kept.get(entry.path) != entry.data:
                replaced.append(entry.path)
        elif not any(
            entry.path.startswith(f"{one.path}/")
            for one in entries
            if one.data is not None and one.path in above
        ):
            left.append(entry)
    return _Fixed(left, fixed, tuple(replaced))
