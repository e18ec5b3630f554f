"""Whether a patch repairs a tree: each test run by itself in the sandbox, first without the patch,
then with it.

A test passes by the report of its runner, see `sandbox.testing`; any other command passes by its
exit status as the sandbox saw it; nothing printed counts. Every run gets a fresh copy of the tree.
The run without the patch shows whether a test detects the issue. A test of the issue that passes
without the patch counts as failed, so listing tests that pass anyway doesn't help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from assay.errors import NotEnoughEvidence
from assay.running.guards import find_test
from assay.running.patch_jobs import PatchJob, command_for, find_runner, report_of
from assay.running.patch_trees import lay_out, read_files
from assay.sandbox.box_setup import TreeEntry
from assay.sandbox.limits import SandboxLimits
from assay.sandbox.outcome import Isolation, SandboxVerdict, verdict
from assay.sandbox.running import read_junit, run_command
from assay.sandbox.testing import run_test
from assay.scoring.metrics.outcomes import Instance, Share

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
