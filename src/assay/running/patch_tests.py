"""Whether a patch repairs a tree: each test run by itself in the sandbox, first without the patch,
then with it.

A test passes by the report of its runner, see `sandbox.testing`; a command that is no known runner
passes by its exit status as the sandbox saw it; nothing printed counts. The tree is read once and
never written to; every run gets a fresh copy. The run without the patch shows that a test can tell:
a test of the issue that passes there shows nothing afterwards, and counts as failed; so it does no
good to list tests that pass anyway. What a patch cannot change is in `guards`. Hidden tests are
laid over both trees, after the patch.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import Fault, InputError, NotEnoughEvidence
from assay.running.guards import find_test, guarded_paths
from assay.sandbox import (
    REPORT,
    Entry,
    Runner,
    check_paths,
    read_tree,
    run_command,
    run_test,
    verdict,
)
from assay.scoring.metrics.applying import PatchedFile, apply_patch
from assay.scoring.metrics.outcomes import Instance, Share
from assay.scoring.metrics.patches import PatchError, parse_patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence

    from assay.sandbox import Isolation, Limits, Outcome

LEFT_OUT = (".git",)
"""Not copied: the history of a tree may hold the answer."""
_COMPILED = "__pycache__"
_SETS = ("fail_to_pass", "pass_to_pass")
RUNNERS = {
    "unittest": ("{python}", "-m", "unittest", "{test}"),
    "pytest": ("{python}", "-m", "pytest", "--noconftest", "-c", os.devnull, "{test}"),
}
"""Commands by name. This one of pytest reads no conftest, no ini file and no plugin of the
environment.
"""
_NAMES_RUNNER = re.compile(r"\b(pytest|py\.test|unittest)\b")


class Job(NamedTuple):
    """One patch, the tree it is for, and the tests that judge it."""

    instance_id: str
    tree: str
    patch: str
    command: tuple[str, ...]
    """How one test is run, with `{test}` in it; `{python}` is our own interpreter, `{report}` the
    JUnit XML that it must write.
    """
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    restore: tuple[str, ...]
    """Files and folders that are the original ones after the patch."""
    hidden: str = ""
    """A patch that brings tests which the tree does not show: laid over it before the run without
    the patch, and after the patch.
    """

    @property
    def tests(self) -> tuple[str, ...]:
        """Every test."""
        return (*self.fail_to_pass, *self.pass_to_pass)


class Run(NamedTuple):
    """How one test ended, once."""

    passed: bool
    outcome: Outcome
    reason: str
    collected: tuple[str, ...] = ()
    """The tests that the runner found under this name."""

    def document(self) -> dict[str, Any]:
        """As it stands in the result."""
        seen = [violation._asdict() for violation in self.outcome.violations]
        return {
            "passed": self.passed,
            "status": self.outcome.status,
            "reason": self.reason,
            "violations": seen,
            "wall_s": self.outcome.wall_s,
        }


class Trees(NamedTuple):
    """The tree without the patch and with it, both with the hidden tests. Without trees where the
    patch does not apply.
    """

    applies: bool
    reason: str
    before: list[Entry]
    after: list[Entry]
    not_there: tuple[str, ...] = ()
    """Paths to restore at which nothing stood: nothing stands there after the patch either."""
    guarded: tuple[str, ...] = ()
    """Paths that the patch changes and that are the original ones all the same: see `guards`."""


class Repair(NamedTuple):
    """What a patch did. Without runs where it does not apply."""

    job: Job
    applies: bool
    reason: str
    before: dict[str, Run]
    after: dict[str, Run]
    not_there: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()

    @property
    def invalid_before(self) -> dict[str, list[str]]:
        """Tests that did not behave without the patch as their list says."""
        return {
            "fail_to_pass": [
                name
                for name in self.job.fail_to_pass
                if name in self.before and self.before[name].passed
            ],
            "pass_to_pass": [
                name
                for name in self.job.pass_to_pass
                if name in self.before and not self.before[name].passed
            ],
        }

    def _share(self, which: str) -> Share | None:
        if not self.applies:
            return None
        names = getattr(self.job, which)
        # a test of the issue that passed before the patch does not show that the patch mended
        # anything
        idle = set(self.invalid_before["fail_to_pass"])
        return Share(
            sum(self.after[name].passed and name not in idle for name in names), len(names)
        )

    def instance(self) -> Instance:
        """As `assay measure tests` counts it."""
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
            "gates": {"no_sandbox_violation": verdict(run.outcome for run in self.after.values())},
        }

    def document(self) -> dict[str, Any]:
        """What is added to the entry of an instance."""
        ran = self.applies
        return {
            "patch_applies": self.applies,
            "reason": None if ran else self.reason,
            "invalid_before": self.invalid_before if ran else None,
            "tests": (
                {
                    name: {
                        "before": self.before[name].document(),
                        "after": self.after[name].document(),
                    }
                    for name in self.job.tests
                }
                if ran
                else None
            ),
            "restored_absent": list(self.not_there),
            "left_out": list(self.guarded),
            "evidence": self.evidence(),
        }


def repair(
    job: Job,
    *,
    limits: Limits,
    isolation: Isolation,
    readable: Sequence[str] = (),
    entries: Sequence[Entry] | None = None,
    known: MutableMapping[str, Run] | None = None,
    done: Callable[[int], object] = lambda count: None,
) -> Repair:
    """Apply the patch to a copy and run every test, without it and with it. `done` is told of each
    run.

    `entries` is the tree where it is not read from the job's folder; `known` holds runs without the
    patch that need not be made again, and gets those made.
    """
    trees = lay_out(job, read_files(job.tree) if entries is None else entries, readable=readable)
    if not trees.applies:
        done(2 * len(job.tests))
        return Repair(job, False, trees.reason, {}, {})
    runner, paths = find_runner(job.command), {entry.path for entry in trees.before}

    def take(
        tree: Sequence[Entry], made: MutableMapping[str, Run], before: Mapping[str, Run]
    ) -> dict[str, Run]:
        for test in job.tests:
            if test not in made:
                common: dict[str, Any] = {
                    "limits": limits,
                    "isolation": isolation,
                    "readable": readable,
                }
                if runner is not None:
                    expected = before[test].collected if test in before else ()
                    place = find_test(test, runner.kind, paths)
                    ended = run_test(
                        tree,
                        test,
                        place.file,
                        place.name,
                        runner=runner,
                        expected=expected,
                        **common,
                    )
                else:
                    ended = run_command(
                        tree,
                        _command(job.command, test),
                        report=REPORT if _reports(job.command) else "",
                        **common,
                    )
                if ended.passed is None:
                    raise NotEnoughEvidence(
                        "SBX-002",
                        f"the test {test!r} could not be run: {ended.reason}.",
                        where=job.instance_id,
                    )
                made[test] = Run(ended.passed, ended.outcome, ended.reason, ended.collected)
            done(1)
        return {test: made[test] for test in job.tests}

    before = take(trees.before, {} if known is None else known, {})
    return Repair(
        job, True, "", before, take(trees.after, {}, before), trees.not_there, trees.guarded
    )


def find_runner(words: Sequence[str]) -> Runner | None:
    """The test runner that a command calls, so that its own report is read; None for any other
    command, which passes by its exit status.
    """
    program = os.path.basename(words[0]) if words else ""
    kept = tuple(word for word in words[1:] if "{report}" not in word and word != "{test}")
    if sum("{test}" in word for word in words) != 1 or "{test}" not in words[1:]:
        return None
    if program in ("pytest", "py.test"):
        beside = os.path.join(os.path.dirname(words[0]), "python")
        if not os.path.isfile(beside):
            return find_runner(("{python}", "-m", "pytest", *words[1:]))
        return Runner("pytest", beside, (), kept)
    if "-m" not in kept[:-1] or not (program == "{python}" or program.startswith("python")):
        return None
    at = kept.index("-m")
    python = words[0].replace("{python}", sys.executable)
    match kept[at + 1]:
        case "pytest":
            alone = (
                () if python == words[0] else ("--disable-plugin-autoload",)
            )  # the plugins of our own environment are not the project's
            return Runner("pytest", python, kept[:at], (*alone, *kept[at + 2 :]))
        case "unittest":
            return Runner("unittest", python, kept[:at])
    return None


def _command(words: Iterable[str], test: str) -> list[str]:
    return [
        word.replace("{python}", sys.executable).replace("{report}", REPORT).replace("{test}", test)
        for word in words
    ]


def _reports(words: Iterable[str]) -> bool:
    return any("{report}" in word or REPORT in word for word in words)


# --- trees


def read_files(folder: str) -> list[Entry]:
    """The files of a tree as they stand, without its history and without what Python compiled: that
    changes when somebody looks.
    """
    return [
        entry
        for entry in read_tree(folder, leave_out=LEFT_OUT)
        if _COMPILED not in entry.path.split("/")
    ]


def lay_out(job: Job, entries: Sequence[Entry], *, readable: Sequence[str] = ()) -> Trees:
    """The two trees that the tests run in. Raises InputError SCO-038 where the hidden tests do not
    apply: that is no fault of the patch.
    """
    hidden = _patched(job.hidden, entries) if job.hidden.strip() else {}
    before = _with_files(entries, hidden) if not isinstance(hidden, str) else hidden
    if isinstance(hidden, str) or isinstance(before, str):
        raise InputError(
            "SCO-038",
            f"the hidden tests do not apply to the tree: {before}.",
            where=job.instance_id,
            fix="Make them for this very tree.",
        )
    changes = _patched(job.patch, entries) if job.patch.strip() else "there is no patch"
    changed = _with_files(entries, changes) if not isinstance(changes, str) else changes
    if isinstance(changed, str):
        return Trees(False, changed, [], [])
    paths = {entry.path for entry in before}
    kinds = [runner.kind] if (runner := find_runner(job.command)) else ["pytest", "unittest"]
    files = {
        place.file
        for test in job.tests
        for kind in kinds
        if (place := find_test(test, kind, paths)).file in paths
    }
    guarded = (
        guarded_paths(changes, before, files, words=job.command, readable=readable)
        if not isinstance(changes, str)
        else ()
    )
    # the hidden tests come over the original files, whatever the patch did to these
    after = _with_files(
        _with_originals(changed, entries, (*job.restore, *guarded, *hidden)), hidden
    )
    if isinstance(after, str):
        return Trees(False, f"it stands in the way of the hidden tests: {after}", [], [])
    not_there = tuple(
        path for path in job.restore if not any(_is_within(entry.path, path) for entry in entries)
    )
    return Trees(
        True, "", before, after, not_there, tuple(path for path in guarded if path not in hidden)
    )


def _patched(patch: str, entries: Iterable[Entry]) -> dict[str, PatchedFile | None] | str:
    """The files that a patch makes of a tree; or why it does not apply. git gets the files that the
    patch names, and nothing else.
    """
    try:
        named = {path for item in parse_patch(patch) for path in item.paths}
    except PatchError as error:
        return str(error)
    needed = {
        "/".join(parts[:count])
        for parts in (path.split("/") for path in named)
        for count in range(1, len(parts) + 1)
    }
    with TemporaryDirectory(prefix="assay-tree-") as folder:
        for entry in sorted(
            (entry for entry in entries if entry.path in needed), key=lambda entry: entry.path
        ):
            target = os.path.join(folder, entry.path)
            if entry.data is None:
                os.makedirs(target, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if isinstance(entry.data, str):
                os.symlink(entry.data, target)  # never followed: what leads through it is refused
                continue
            with open(target, "xb") as stream:
                stream.write(entry.data)
            os.chmod(target, entry.mode)
        made = apply_patch(patch, folder)
    return made.files if made.applies.clean else made.applies.reason


def _with_files(
    entries: Iterable[Entry], files: Mapping[str, PatchedFile | None]
) -> list[Entry] | str:
    """The tree with the files of a patch in it; or why it cannot be."""
    kept = {entry.path: entry for entry in entries}
    for path in files:
        kept.pop(path, None)
    for path, file in files.items():
        if file is None:
            continue
        if any(other.startswith(f"{path}/") for other in kept):
            return f"'{path}' is a folder"
        kept[path] = Entry(path, 0o755 if file.executable else 0o644, file.data)
    return list(kept.values())


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _with_originals(
    entries: Iterable[Entry], originals: Iterable[Entry], paths: Sequence[str]
) -> list[Entry]:
    """The tree with what originally stood at these paths, and nothing else there; a path where
    nothing stood is empty again.

    What a patch put in place of a folder above them goes too.
    """

    def is_restored(entry: Entry) -> bool:
        return any(_is_within(entry.path, path) for path in paths)

    above = {
        "/".join(path.split("/")[:count])
        for path in paths
        for count in range(1, path.count("/") + 1)
    }
    kept = [
        entry
        for entry in entries
        if not is_restored(entry) and not (entry.path in above and entry.data is not None)
    ]
    return [*kept, *filter(is_restored, originals)]


# --- reading jobs


def make_job(tree: Any, *, defaults: Mapping[str, Any] | None = None) -> Job:
    """A job from an object with the fields of `Job` (`test_command` for `command`: a text, or
    words). Raises InputError SCO-038 with every fault.
    """
    given = {**(defaults or {}), **tree} if isinstance(tree, dict) else {}
    faults: list[Fault] = []

    def text(key: str) -> str:
        value = given.get(key, "" if key == "hidden" else None)
        if (
            not isinstance(value, str)
            or (not value.strip() and key not in ("patch", "hidden"))
            or "\0" in value
        ):
            faults.append(Fault(f"`{key}` must be a text.", code="SCO-038", path=key))
            return ""
        return value

    def names(key: str) -> tuple[str, ...]:
        value = given.get(key, [])
        if not isinstance(value, list | tuple) or not all(
            isinstance(item, str) and item.strip() and "\0" not in item for item in value
        ):
            faults.append(Fault(f"`{key}` must be a list of texts.", code="SCO-038", path=key))
            return ()
        return tuple(value)

    command = (
        names("test_command")
        if isinstance(given.get("test_command"), list | tuple)
        else _words(text("test_command"), faults)
    )
    tests = {key: names(key) for key in (*_SETS, "restore")}
    job = Job(
        instance_id=text("instance_id"),
        tree=text("tree"),
        patch=text("patch"),
        command=command,
        hidden=text("hidden"),
        **tests,
    )
    faults += _faults(job)
    if faults:
        raise InputError(
            "SCO-038", faults[0].message, where=job.instance_id, fix=faults[0].fix, faults=faults
        )
    check_paths(job.restore)
    return job


def _words(command: str, faults: list[Fault]) -> tuple[str, ...]:
    """The words of a command, or those of the runner that it names."""
    if command in RUNNERS:
        return RUNNERS[command]
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        faults.append(
            Fault(f"the test command cannot be read: {error}.", code="SCO-038", path="test_command")
        )
        return ()


def _faults(job: Job) -> list[Fault]:
    found = []
    twice = sorted({name for name in job.tests if job.tests.count(name) > 1})
    if twice:
        found.append(
            Fault(
                f"the test {twice[0]!r} stands twice.",
                code="SCO-038",
                path="fail_to_pass",
                fix="A test is in one list, once.",
            )
        )
    if not job.tests:
        found.append(
            Fault(
                "there are no tests, so nothing shows what the patch does.",
                code="SCO-038",
                path="fail_to_pass",
                fix="Name at least one.",
            )
        )
    options = [name for name in job.tests if name.startswith("-")]
    if options:
        found.append(
            Fault(f"{options[0]!r} is an option and no test.", code="SCO-038", path="fail_to_pass")
        )
    if job.command and not any("{test}" in part for part in job.command):
        fix = f"Name a runner: {', '.join(RUNNERS)}; or write what runs one test here."
        found.append(
            Fault(
                "the test command has no {test} in it: every test would be the same run.",
                code="SCO-038",
                path="test_command",
                fix=fix,
            )
        )
    elif find_runner(job.command) is None and any(map(_NAMES_RUNNER.search, job.command)):
        # Its exit status is 0 for a test that was skipped, or is none.
        fix = (
            "Write '{python} -m pytest {test}' or '{python} -m unittest {test}', with {test} as a"
            " word of its own and without a shell."
        )
        found.append(
            Fault(
                "the test command runs pytest or unittest in a way that hides its report.",
                code="SCO-038",
                path="test_command",
                fix=fix,
            )
        )
    return found
