"""Logs of SWE-bench (`test_output.txt`, `run_instance.log`), held against what a report says."""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from assay.errors import InputError
from assay.files.inputs import open_input
from assay.importers.head import Head

MAX_LINE = 1024 * 1024
"""Bytes of a log's line that are looked at."""
_MARK = ">>>>> "
_MARKS = (
    "Start Test Output",
    "Patch Apply Failed",
    "Applied Patch",
    "Tests Errored",
    "Tests Timed Out",
    "Reset Failed",
)
_BROKEN = tuple(
    f"{_MARK}{mark}".encode() for mark in ("Tests Errored", "Tests Timed Out", "Reset Failed")
)
_NOT_APPLIED = f"{_MARK}Patch Apply Failed".encode()
_STARTED = f"{_MARK}Start Test Output".encode()
_ENDED = f"{_MARK}End Test Output".encode()
_INSTANCE = re.compile(r"(?:Creating container for|Grading answer for|Container for) (\S+?)[. ]")
_RESULT = re.compile(rb"Result for \S+: resolved: (True|False)")
_TEST = re.compile(rb"(PASSED|FAILED|ERROR|SKIPPED|XFAIL) (\S+)")


def is_log(head: Head) -> bool:
    """Whether this is a log of SWE-bench."""
    return not head.keys and (
        any(f"{_MARK}{mark}" in head.text for mark in _MARKS)
        or (os.path.basename(head.path) == "run_instance.log" and bool(_INSTANCE.search(head.text)))
    )


def instance_of(head: Head) -> str:
    """The instance of a log: by what it says, or else by the folder that it is in."""
    match = _INSTANCE.search(head.text)
    return match[1] if match else os.path.basename(os.path.dirname(os.path.abspath(head.path)))


def check_log(
    path: str,
    name: str,
    resolved: bool | None,
    applied: bool | None,
    passed: Collection[str],
) -> None:
    """Raise InputError SCO-034 where a log contradicts a report: it shows a patch that did not
    apply, tests that broke off, or a failure of a test among those that `passed`.
    """
    names = {test.encode() for test in passed}
    last: dict[bytes, bytes] = {}
    started = ended = False
    with open_input(path) as stream:
        while line := stream.readline(MAX_LINE):
            started |= _STARTED in line
            ended |= _ENDED in line
            if applied and _NOT_APPLIED in line:
                raise _contradiction(path, name, "the patch applied", "that it did not")
            if resolved and any(mark in line for mark in _BROKEN):
                raise _contradiction(path, name, "it is resolved", "that its tests stopped early")
            result = _RESULT.search(line)
            if result is not None and (result[1] == b"True") is not (resolved is True):
                shown = result[1].decode().lower()
                claimed = "it is resolved" if resolved else "it is not resolved"
                raise _contradiction(path, name, claimed, f"resolved: {shown}")
            test = _TEST.match(line)
            if test is not None and test[2] in names:
                last[test[2]] = test[1]
    if resolved and started and not ended:
        raise _contradiction(path, name, "it is resolved", "no end of its tests")
    for test_name, status in last.items():
        if status in (b"FAILED", b"ERROR"):
            shown = test_name.decode("utf-8", "replace")[:100]
            raise _contradiction(path, name, f"{shown} passed", status.decode())


def _contradiction(path: str, name: str, claimed: str, shown: str) -> InputError:
    return InputError(
        "SCO-034",
        f"the report of {name!r} says that {claimed}; the log says {shown}.",
        where=path,
        fix="Give the report and the log of the same run.",
    )
