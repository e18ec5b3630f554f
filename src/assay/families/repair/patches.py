"""A patch to judge: its tree, the tests, and the results of each test without it and with it."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from assay.errors import Fault, InputError, NotEnoughEvidence, raise_faults
from assay.families.repair.guards import find_test, guarded_paths, is_within
from assay.files.json_files import Document
from assay.records.reading import read_record
from assay.sandbox.box_setup import TreeEntry
from assay.sandbox.limits import SandboxLimits
from assay.sandbox.outcome import Isolation, SandboxVerdict, verdict
from assay.sandbox.running import REPORT, read_junit, run_command
from assay.sandbox.testing import PythonRunner, run_test
from assay.sandbox.trees import check_paths, read_tree
from assay.scoring.metrics.applying import PatchedFile, apply_patch
from assay.scoring.metrics.outcomes import Instance, Share
from assay.scoring.metrics.patches import PatchError, parse_patch

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


Patched = Mapping[str, PatchedFile | None]

LEFT_OUT = (".git",)
"""Not copied: the history of a tree may contain the answer."""
_COMPILED = "__pycache__"


class Trees(NamedTuple):
    """The tree without the patch and with it; both are empty if the patch does not apply."""

    applies: bool
    reason: str
    before: list[TreeEntry] = []
    after: list[TreeEntry] = []
    not_there: tuple[str, ...] = ()
    """Paths to restore where nothing was: nothing is there after the patch either."""
    guarded: tuple[str, ...] = ()
    """Paths that the patch changes but that are restored: see `guards`."""


def read_files(folder: str) -> list[TreeEntry]:
    """The files of a tree, without its history and without compiled Python code, which changes when
    a module is imported.
    """
    return [
        entry
        for entry in read_tree(folder, leave_out=LEFT_OUT)
        if _COMPILED not in entry.path.split("/")
    ]


def lay_out(job: PatchJob, entries: Sequence[TreeEntry], *, readable: Sequence[str] = ()) -> Trees:
    """The two trees that the tests run in. Raises InputError SCO-038 if the hidden tests do not
    apply, which is not the patch's fault.
    """
    try:
        hidden = _patched(job.hidden, entries) if job.hidden.strip() else {}
        before = _with_files(entries, hidden)
    except PatchError as error:
        raise InputError(
            "SCO-038",
            f"the hidden tests do not apply to the tree: {error}.",
            where=job.instance_id,
            fix="Create them for this tree.",
        ) from None
    if not job.patch.strip():
        return Trees(False, "there is no patch")
    try:
        changes = _patched(job.patch, entries)
        changed = _with_files(entries, changes)
    except PatchError as error:
        return Trees(False, str(error))
    paths = {entry.path for entry in before}
    runner = find_runner(job.command)
    kinds = ["pytest", "unittest"] if runner is None else [runner.kind]
    places = {(kind, find_test(test, kind, paths)[0]) for test in job.tests for kind in kinds}
    # a patch can't bring the file of a required test; another command may give tests other names
    files = {
        file
        for kind, file in places
        if file in paths or (kind == "pytest" and (runner or os.path.splitext(file)[1]))
    }
    guarded = guarded_paths(
        changes, before, files, words=job.command, any_command=runner is None, readable=readable
    )
    originals = _with_originals(changed, entries, (*job.restore, *guarded, *hidden))
    try:
        # the hidden tests come over the original files, whatever the patch did to these
        after = _with_files(originals, hidden)
    except PatchError as error:
        return Trees(False, f"it conflicts with the hidden tests: {error}")
    not_there = tuple(
        path for path in job.restore if not any(is_within(entry.path, path) for entry in entries)
    )
    return Trees(
        True, "", before, after, not_there, tuple(path for path in guarded if path not in hidden)
    )


def _patched(patch: str, entries: Iterable[TreeEntry]) -> Patched:
    """The files that a patch makes of a tree. git gets the files that the patch names, and nothing
    else. Raises PatchError where it does not apply.
    """
    named = {path for item in parse_patch(patch) for path in item.paths}
    needed = {folder for path in named for folder in (path, *_above(path))}
    with TemporaryDirectory(prefix="assay-tree-") as folder:
        for entry in sorted(entries, key=lambda entry: entry.path):
            if entry.path not in needed:
                continue
            target = os.path.join(folder, entry.path)
            os.makedirs(target if entry.data is None else os.path.dirname(target), exist_ok=True)
            if isinstance(entry.data, str):
                os.symlink(entry.data, target)  # never followed: what leads through it is refused
            elif entry.data is not None:
                with open(target, "xb") as stream:
                    stream.write(entry.data)
                os.chmod(target, entry.mode)
        made = apply_patch(patch, folder)
    if not made.applies.clean:
        raise PatchError(made.applies.reason)
    return made.files


def _above(path: str) -> list[str]:
    """The folders above a path."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _with_files(entries: Iterable[TreeEntry], files: Patched) -> list[TreeEntry]:
    """The tree with the files of a patch in it. Raises PatchError where it cannot be."""
    kept = {entry.path: entry for entry in entries if entry.path not in files}
    for path, file in files.items():
        if file is None:
            continue
        if any(other.startswith(f"{path}/") for other in kept):
            raise PatchError(f"'{path}' is a folder")
        kept[path] = TreeEntry(path, 0o755 if file.executable else 0o644, file.data)
    return list(kept.values())


def _with_originals(
    entries: Iterable[TreeEntry], originals: Iterable[TreeEntry], paths: Sequence[str]
) -> list[TreeEntry]:
    """The tree with what was originally at these paths, and nothing else there; a path where
    nothing was is empty again.

    A file that the patch put in place of a parent folder is removed too.
    """

    def is_restored(entry: TreeEntry) -> bool:
        return any(is_within(entry.path, path) for path in paths)

    above = {folder for path in paths for folder in _above(path)}
    kept = [
        entry
        for entry in entries
        if not is_restored(entry) and not (entry.path in above and entry.data is not None)
    ]
    return [*kept, *filter(is_restored, originals)]


_SETS = ("fail_to_pass", "pass_to_pass")


class Repair(NamedTuple):
    """The effect of a patch. There are no runs if it does not apply."""

    job: PatchJob
    applies: bool
    reason: str
    before: dict[str, SandboxVerdict]
    after: dict[str, SandboxVerdict]
    not_there: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()

    @property
    def invalid_before(self) -> dict[str, list[str]]:
        """Tests that did not behave without the patch as their list says."""
        return {
            which: [
                name
                for name in getattr(self.job, which)
                if name in self.before and self.before[name].passed == (which == "fail_to_pass")
            ]
            for which in _SETS
        }

    def _share(self, which: str) -> Share | None:
        if not self.applies:
            return None
        # a test of the issue that passed before the patch does not show that it fixed anything
        idle = set(self.invalid_before["fail_to_pass"])
        names = getattr(self.job, which)
        passed = [name for name in names if self.after[name].passed and name not in idle]
        return Share(len(passed), len(names))

    def instance(self) -> Instance:
        """The instance in the form that `assay measure tests` reads."""
        return Instance(
            self.job.instance_id,
            self._share("fail_to_pass"),
            self._share("pass_to_pass"),
            bool(self.job.patch.strip()),
            self.applies,
        )

    def evidence(self) -> dict[str, Any]:
        """The part of an `assay.run/1` that this shows. `tests` is null where none ran."""
        shares = {which: self._share(which) for which in _SETS}
        tests = {which: share._asdict() for which, share in shares.items() if share is not None}
        return {
            "patch_applies": self.applies,
            "tests": tests or None,
            # what the tree does without the patch is not the patch's doing
            "gates": {"no_sandbox_violation": verdict(end.outcome for end in self.after.values())},
        }

    def document(self) -> dict[str, Any]:
        """What is added to the entry of an instance."""
        ends = {
            name: {"before": _shown(self.before[name]), "after": _shown(end)}
            for name, end in self.after.items()
        }
        return {
            "patch_applies": self.applies,
            "reason": None if self.applies else self.reason,
            "invalid_before": self.invalid_before if self.applies else None,
            "tests": ends if self.applies else None,
            "restored_absent": list(self.not_there),
            "left_out": list(self.guarded),
            "evidence": self.evidence(),
        }


def _shown(ended: SandboxVerdict) -> dict[str, Any]:
    """How one run of a test ended, for the result."""
    return {
        "passed": ended.passed,
        "status": ended.outcome.status,
        "reason": ended.reason,
        "violations": [violation._asdict() for violation in ended.outcome.violations],
        "wall_s": ended.outcome.wall_s,
    }


def repair(
    job: PatchJob,
    *,
    limits: SandboxLimits,
    isolation: Isolation,
    readable: Sequence[str] = (),
    entries: Sequence[TreeEntry] | None = None,
    known: MutableMapping[str, SandboxVerdict] | None = None,
    done: Callable[[int], object] = lambda count: None,
) -> Repair:
    """Apply the patch to a copy and run every test, without it and with it. `done` is called after
    each run.

    `entries` is the tree where it is not read from the job's folder; `known` holds runs without the
    patch that need not be made again, and gets those made.
    """
    trees = lay_out(job, read_files(job.tree) if entries is None else entries, readable=readable)
    if not trees.applies:
        done(2 * len(job.tests))
        return Repair(job, False, trees.reason, {}, {})
    runner, paths = find_runner(job.command), {entry.path for entry in trees.before}

    def run(tree: Sequence[TreeEntry], test: str, expected: Sequence[str]) -> SandboxVerdict:
        if runner is not None:
            place = find_test(test, runner.kind, paths)
            ended = run_test(
                tree,
                test,
                place,
                runner=runner,
                expected=expected,
                limits=limits,
                isolation=isolation,
                readable=readable,
            )
        else:
            ended = run_command(
                tree,
                command_for(job, test),
                report=report_of(job),
                read=partial(read_junit, expected=expected),
                limits=limits,
                isolation=isolation,
                readable=readable,
            )
        if ended.passed is None:
            raise NotEnoughEvidence(
                "SBX-002",
                f"the test {test!r} could not be run: {ended.reason}.",
                where=job.instance_id,
            )
        return ended

    def run_all(
        tree: Sequence[TreeEntry],
        ends: MutableMapping[str, SandboxVerdict],
        before: Mapping[str, SandboxVerdict],
    ) -> dict[str, SandboxVerdict]:
        for test in job.tests:
            if test not in ends:
                ends[test] = run(tree, test, before[test].collected if before else ())
            done(1)
        return {test: ends[test] for test in job.tests}

    before = run_all(trees.before, {} if known is None else known, {})
    after = run_all(trees.after, {}, before)
    return Repair(job, True, "", before, after, trees.not_there, trees.guarded)
