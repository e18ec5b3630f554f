"""Whether a patch mends a tree: each test run by itself in the sandbox, first without the patch, then with it.

A test passes by the exit status of its own run, as the sandbox saw it; nothing printed counts. The tree is read once and never written to; every run gets a
fresh copy. The run without the patch shows that a test can tell: a test of the issue that passes there shows nothing afterwards, and counts as failed; so it
does no good to list tests that pass anyway. What a hostile patch can still do: the code under test shares a process with its test, and can end it with 0.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import Fault, InputError, NotEnoughEvidence
from assay.sandbox import Entry, check_paths, read_tree, run_command, verdict
from assay.scoring.metrics.outcomes import Instance, Share
from assay.scoring.metrics.patches import PatchedFile, apply_patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from assay.sandbox import Isolation, Limits, Outcome

LEFT_OUT = (".git",)
"""Not copied: the history of a tree may hold the answer."""
_SETS = ("fail_to_pass", "pass_to_pass")


class Job(NamedTuple):
    """One patch, the tree it is for, and the tests that judge it."""

    instance_id: str
    tree: str
    patch: str
    command: str
    """How one test is run, with `{test}` in it; `{python}` is our own interpreter."""
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    restore: tuple[str, ...]
    """Files and folders that are the original ones after the patch."""

    @property
    def tests(self) -> tuple[str, ...]:
        """Every test."""
        return (*self.fail_to_pass, *self.pass_to_pass)


class Run(NamedTuple):
    """How one test ended, once."""

    passed: bool
    outcome: Outcome
    reason: str

    def document(self) -> dict[str, Any]:
        """As it stands in the result."""
        seen = [violation._asdict() for violation in self.outcome.violations]
        return {"passed": self.passed, "status": self.outcome.status, "reason": self.reason, "violations": seen, "wall_s": self.outcome.wall_s}


class Repair(NamedTuple):
    """What a patch did. Without runs where it does not apply."""

    job: Job
    applies: bool
    reason: str
    before: dict[str, Run]
    after: dict[str, Run]
    not_there: tuple[str, ...] = ()
    """Paths to restore at which nothing stood: nothing stands there after the patch either."""

    @property
    def invalid_before(self) -> dict[str, list[str]]:
        """Tests that did not behave without the patch as their list says."""
        return {
            "fail_to_pass": [name for name in self.job.fail_to_pass if name in self.before and self.before[name].passed],
            "pass_to_pass": [name for name in self.job.pass_to_pass if name in self.before and not self.before[name].passed],
        }

    def _share(self, which: str) -> Share | None:
        if not self.applies:
            return None
        names = getattr(self.job, which)
        # a test of the issue that passed before the patch does not show that the patch mended anything
        idle = set(self.invalid_before["fail_to_pass"])
        return Share(sum(self.after[name].passed and name not in idle for name in names), len(names))

    def instance(self) -> Instance:
        """As `assay measure tests` counts it."""
        return Instance(self.job.instance_id, self._share("fail_to_pass"), self._share("pass_to_pass"), bool(self.job.patch.strip()), self.applies)

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
            "tests": {name: {"before": self.before[name].document(), "after": self.after[name].document()} for name in self.job.tests} if ran else None,
            "restored_absent": list(self.not_there),
            "evidence": self.evidence(),
        }


def repair(job: Job, *, limits: Limits, isolation: Isolation, readable: Sequence[str] = (), done: Callable[[int], object] = lambda count: None) -> Repair:
    """Apply the patch to a copy and run every test, without it and with it. `done` is told of each run."""
    entries = read_tree(job.tree, leave_out=LEFT_OUT)
    patched = apply_patch(job.patch, job.tree) if job.patch.strip() else None
    if patched is None or not patched.applies.clean:
        done(2 * len(job.tests))
        return Repair(job, False, patched.applies.reason if patched is not None else "there is no patch", {}, {})
    changed = _with_files(entries, patched.files)
    if isinstance(changed, str):
        done(2 * len(job.tests))
        return Repair(job, False, changed, {}, {})
    changed = _with_originals(changed, entries, job.restore)

    def take(tree: Sequence[Entry]) -> dict[str, Run]:
        found = {}
        for test in job.tests:
            ended = run_command(tree, _command(job.command, test), limits=limits, isolation=isolation, readable=readable)
            if ended.passed is None:
                raise NotEnoughEvidence("SBX-002", f"the test {test!r} could not be run: {ended.reason}.", where=job.instance_id)
            found[test] = Run(ended.passed, ended.outcome, ended.reason)
            done(1)
        return found

    not_there = tuple(path for path in job.restore if not any(_is_within(entry.path, path) for entry in entries))
    return Repair(job, True, "", take(entries), take(changed), not_there)


def _command(template: str, test: str) -> list[str]:
    return [part.replace("{python}", sys.executable).replace("{test}", test) for part in shlex.split(template)]


def _with_files(entries: Iterable[Entry], files: Mapping[str, PatchedFile | None]) -> list[Entry] | str:
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


def _with_originals(entries: Iterable[Entry], originals: Iterable[Entry], paths: Sequence[str]) -> list[Entry]:
    """The tree with what originally stood at these paths, and nothing else there; a path where nothing stood is empty again.

    What a patch put in place of a folder above them goes too.
    """

    def is_restored(entry: Entry) -> bool:
        return any(_is_within(entry.path, path) for path in paths)

    above = {"/".join(path.split("/")[:count]) for path in paths for count in range(1, path.count("/") + 1)}
    kept = [entry for entry in entries if not is_restored(entry) and not (entry.path in above and entry.data is not None)]
    return [*kept, *filter(is_restored, originals)]


# --- reading jobs -------------------------------------------------------------------------------------------------------------------------


def make_job(tree: Any, *, defaults: Mapping[str, Any] | None = None) -> Job:
    """A job from an object with the fields of `Job` (`test_command` for `command`). Raises InputError SCO-038 with every fault."""
    given = {**(defaults or {}), **tree} if isinstance(tree, dict) else {}
    faults = []

    def text(key: str) -> str:
        value = given.get(key)
        if not isinstance(value, str) or (not value.strip() and key != "patch") or "\0" in value:
            faults.append(Fault(f"`{key}` must be a text.", code="SCO-038", path=key))
            return ""
        return value

    def names(key: str) -> tuple[str, ...]:
        value = given.get(key, [])
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) and item.strip() and "\0" not in item for item in value):
            faults.append(Fault(f"`{key}` must be a list of texts.", code="SCO-038", path=key))
            return ()
        return tuple(value)

    job = Job(text("instance_id"), text("tree"), text("patch"), text("test_command"), *(names(key) for key in (*_SETS, "restore")))
    faults += _faults(job)
    if faults:
        raise InputError("SCO-038", faults[0].message, where=job.instance_id, fix=faults[0].fix, faults=faults)
    check_paths(job.restore)
    return job


def _faults(job: Job) -> list[Fault]:
    found = []
    twice = sorted({name for name in job.tests if job.tests.count(name) > 1})
    if twice:
        found.append(Fault(f"the test {twice[0]!r} stands twice.", code="SCO-038", path="fail_to_pass", fix="A test is in one list, once."))
    if not job.tests:
        found.append(Fault("there are no tests, so nothing shows what the patch does.", code="SCO-038", path="fail_to_pass", fix="Name at least one."))
    options = [name for name in job.tests if name.startswith("-")]
    if options:
        found.append(Fault(f"{options[0]!r} is an option and no test.", code="SCO-038", path="fail_to_pass"))
    if job.command:
        try:
            parts = shlex.split(job.command)
        except ValueError as error:
            parts = []
            found.append(Fault(f"the test command cannot be read: {error}.", code="SCO-038", path="test_command"))
        if parts and not any("{test}" in part for part in parts):
            fix = "Write '{python} -m pytest -q {test}', or what runs one test here."
            found.append(Fault("the test command has no {test} in it: every test would be the same run.", code="SCO-038", path="test_command", fix=fix))
    return found
