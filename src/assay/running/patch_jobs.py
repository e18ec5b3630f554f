"""A patch to judge, with its tree, the tests, and the command that runs one test."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from assay.errors import Fault, InputError, raise_faults
from assay.files.json_files import Document
from assay.records.reading import read_record
from assay.sandbox.running import REPORT
from assay.sandbox.testing import PythonRunner
from assay.sandbox.trees import check_paths

RUNNERS = {
    "unittest": ("{python}", "-m", "unittest", "{test}"),
    "pytest": ("{python}", "-m", "pytest", "--noconftest", "-c", os.devnull, "{test}"),
}
"""Commands by name. The one of pytest reads no conftest, no ini file and no plugin of the
environment.
"""
_NAMES_RUNNER = re.compile(r"\b(pytest|py\.test|unittest)\b")
Text = Annotated[str, Meta(pattern=r"\S")]


class PatchJob(Struct, frozen=True, kw_only=True):
    """One patch, the tree it is for, and the tests that judge it; other keys are ignored."""

    instance_id: Text
    tree: Text
    patch: str
    test_command: Text | list[Text]
    """How one test is run, with `{test}` in it; `{python}` is our own interpreter, `{report}` the
    JUnit XML that it must write.
    """
    fail_to_pass: tuple[Text, ...] = ()
    pass_to_pass: tuple[Text, ...] = ()
    restore: tuple[Text, ...] = ()
    """Files and folders that are the original ones after the patch."""
    hidden: str = ""
    """A patch that brings tests which the tree does not show: laid over it before the run without
    the patch, and after the patch.
    """

    @property
    def tests(self) -> tuple[str, ...]:
        """Every test."""
        return (*self.fail_to_pass, *self.pass_to_pass)

    @property
    def command(self) -> tuple[str, ...]:
        """The words of the test command."""
        if isinstance(self.test_command, list):
            return tuple(self.test_command)
        return RUNNERS.get(self.test_command) or tuple(shlex.split(self.test_command))


def make_job(tree: Any, *, defaults: Mapping[str, Any] | None = None) -> PatchJob:
    """A job from an object. Raises InputError SCO-038 with every fault."""
    given = {**(defaults or {}), **tree} if isinstance(tree, dict) else {}
    where = str(given.get("instance_id") or "")
    try:
        job = read_record(Document(given, where), PatchJob, "SCO-038")
        faults = list(_faults(job))
    except InputError as error:
        first = error.faults[0]
        raise InputError(
            first.code, f"{first.path}: {first.message}", where=where, faults=error.faults
        ) from None
    except ValueError as error:
        raise InputError(
            "SCO-038", f"the test command cannot be read: {error}.", where=where
        ) from None
    raise_faults(faults, where=where)
    check_paths(job.restore)
    return job


def _faults(job: PatchJob) -> Iterator[Fault]:
    def fault(message: str, path: str = "fail_to_pass", fix: str = "") -> Fault:
        return Fault(message, code="SCO-038", path=path, fix=fix)

    texts = (job.instance_id, job.tree, job.patch, job.hidden, *job.command, *job.restore)
    if any("\0" in text for text in (*texts, *job.tests)):
        yield fault("a text contains a NUL character.", "")
    twice = sorted({name for name in job.tests if job.tests.count(name) > 1})
    if twice:
        yield fault(f"the test {twice[0]!r} is listed twice.", fix="List each test once.")
    if not job.tests:
        yield fault(
            "there are no tests, so nothing shows what the patch does.", fix="Name at least one."
        )
    for name in job.tests:
        if name.startswith("-"):
            yield fault(f"{name!r} is an option, not a test.")
    if not any("{test}" in word for word in job.command):
        yield fault(
            "the test command has no {test} in it, so it would run the same for every test.",
            "test_command",
            f"Name a runner: {', '.join(RUNNERS)}; or write what runs one test here.",
        )
    elif find_runner(job.command) is None and any(map(_NAMES_RUNNER.search, job.command)):
        # its exit status is 0 even for a test that was skipped or does not exist
        yield fault(
            "the test command runs pytest or unittest in a way that hides its report.",
            "test_command",
            "Write '{python} -m pytest {test}' or '{python} -m unittest {test}', with {test} as a"
            " separate word and without a shell.",
        )


def find_runner(words: Sequence[str]) -> PythonRunner | None:
    """The test runner that a command calls, so that its own report is read; None for any other
    command, which passes by its exit status.
    """
    program = os.path.basename(words[0]) if words else ""
    kept = tuple(word for word in words[1:] if "{report}" not in word and word != "{test}")
    if sum("{test}" in word for word in words) != 1 or "{test}" not in words[1:]:
        return None
    if program in ("pytest", "py.test"):
        neighbour = os.path.join(os.path.dirname(words[0]), "python")
        if not os.path.isfile(neighbour):
            return find_runner(("{python}", "-m", "pytest", *words[1:]))
        return PythonRunner("pytest", neighbour, (), kept)
    if "-m" not in kept[:-1] or not (program == "{python}" or program.startswith("python")):
        return None
    at = kept.index("-m")
    python = words[0].replace("{python}", sys.executable)
    match kept[at + 1]:
        case "pytest":
            # the plugins of our own environment are not the project's
            alone = () if python == words[0] else ("--disable-plugin-autoload",)
            return PythonRunner("pytest", python, kept[:at], (*alone, *kept[at + 2 :]))
        case "unittest":
            return PythonRunner("unittest", python, kept[:at])
    return None


def command_for(job: PatchJob, test: str) -> list[str]:
    """The command that runs one test, for one that is not a known runner."""
    return [
        word.replace("{python}", sys.executable).replace("{report}", REPORT).replace("{test}", test)
        for word in job.command
    ]


def report_of(job: PatchJob) -> str:
    """Where the command writes its report; empty if it writes none."""
    return REPORT if any("{report}" in word or REPORT in word for word in job.command) else ""
