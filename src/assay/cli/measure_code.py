"""`assay measure solutions`, `patch` and `repair`: untrusted code, applied to copies and run in the
sandbox.

Nothing that the code prints decides anything. What is measured here can be put into a run as it
stands: `gates`, `patch_applies`, `tests`.
"""

from __future__ import annotations

import os
import shutil
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any

from assay.cli.frame import arg
from assay.cli.measuring import K, Measured, measure, read_ks, shown, trees
from assay.cli.progress import Progress
from assay.errors import InputError, NotEnoughEvidence, UsageError, printable
from assay.files.json_files import open_input
from assay.running.patch_tests import Job, Repair, make_job, repair
from assay.sandbox import Limits, check_solution, require, verdict
from assay.scoring.metrics.applying import applies_cleanly
from assay.scoring.metrics.outcomes import summarise
from assay.scoring.metrics.passk import AttemptedTask, report
from assay.scoring.metrics.patches import MAX_PATCH, PatchError, parse_patch, patch_likeness

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

TEST_S = 60.0


# --- what they share


_SANDBOX = arg(
    "--sandbox",
    choices=("bubblewrap", "process"),
    default="bubblewrap",
    help=(
        "bubblewrap walls the code off; process only limits it, must be asked for by name, and"
        " leaves the gate undetermined (default: bubblewrap)"
    ),
)


def _untimed(run: Mapping[str, Any]) -> dict[str, Any]:
    """How a run of untrusted code ended, without how long it took: that is another number each
    time.
    """
    return {name: value for name, value in run.items() if name != "wall_s"}


def _gate_line(gate: Any) -> str:
    return (
        "no_sandbox_violation:"
        f" {'undetermined' if gate['passed'] is None else 'passed' if gate['passed'] else 'FAILED'} ({printable(gate['reason'])})"  # noqa: E501
    )


def _read_patch(path: str) -> str | None:
    """The text of a patch; None where it is no UTF-8, as binary junk is not. One that is too long
    is cut where its reader refuses it.
    """
    with open_input(path) as stream:
        data = stream.read(4 * MAX_PATCH + 1)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _need_git() -> None:
    if shutil.which("git") is None:
        # without it nobody can say whether a patch applies, and "no" would be a guess
        raise NotEnoughEvidence(
            "SCO-038",
            "there is no `git` on the path, so nobody can say whether a patch applies.",
            fix="Install git.",
        )


# --- solutions


def _solutions(options: argparse.Namespace) -> Measured:
    ks = read_ks(options.k)
    require(options.sandbox)
    limits = Limits(wall_s=options.timeout)
    passed: dict[str, list[bool]] = {}
    items: list[dict[str, Any]] = []
    outcomes = []
    for tree in trees(options.file):
        texts = (
            [tree.get(key) for key in ("task_id", "solution", "test")]
            if isinstance(tree, dict)
            else []
        )
        entry, support = (
            (tree.get("entry_point"), tree.get("support", ""))
            if isinstance(tree, dict)
            else (None, "")
        )
        if (
            len(texts) != 3
            or not all(isinstance(text, str) and text for text in texts)
            or not isinstance(support, str)
            or not isinstance(entry, str | None)
        ):
            raise InputError(
                "SCO-036",
                "a line must hold task_id, solution and test as texts.",
                where=options.file,
            )
        name, solution, test = (str(text) for text in texts)
        mode: Any = "one-process" if options.one_process else "two-process"
        found = check_solution(
            solution,
            test,
            entry,
            support=support,
            limits=limits,
            isolation=options.sandbox,
            mode=mode,
        )
        passed.setdefault(name, []).append(found.passed is True)
        outcomes.append(found.outcome)
        items.append(
            {
                "task_id": name,
                "passed": found.passed is True,
                "status": found.outcome.status,
                "reason": found.reason,
                "mode": found.mode,
                "violations": [violation._asdict() for violation in found.outcome.violations],
                "wall_s": found.outcome.wall_s,
            }
        )
    if not items:
        raise NotEnoughEvidence("SCO-036", "there are no attempts in the file.", where=options.file)
    document = {
        **report(
            [AttemptedTask(name, len(tries), sum(tries)) for name, tries in passed.items()], ks
        ),
        "attempts": items,
        "sandbox": options.sandbox,
        "gates": {"no_sandbox_violation": verdict(outcomes)},
    }
    lines = [
        f"{'passed' if item['passed'] else 'FAILED'}  {printable(item['task_id'])} "
        f" {printable(item['reason'])}"
        for item in items
    ]
    lines += [
        f"{name:<8} {shown(value)}"
        for name, value in document.items()
        if name.startswith(("pass@", "pass^"))
    ]
    lines.append(_gate_line(document["gates"]["no_sandbox_violation"]))
    stored = {**document, "attempts": [_untimed(item) for item in items]}
    return Measured(document, lines, stored)


# --- patch


def _patch(options: argparse.Namespace) -> Measured:
    _need_git()
    if not os.path.isdir(options.tree):
        raise InputError(
            "SCO-038",
            "is no folder.",
            where=options.tree,
            fix="Give the tree that the patches are for with --tree DIR.",
        )
    if len(set(options.patches)) != len(options.patches):
        raise UsageError("CLI-001", "a patch is named twice.")
    reference = _reference(options.reference) if options.reference else None
    found = {
        path: _patch_entry(_read_patch(path), options.tree, reference) for path in options.patches
    }
    applied = sum(entry["applies"] for entry in found.values())
    document = {"patches": found, "applied": applied, "n": len(found)}
    lines = []
    for path, entry in found.items():
        alike = "" if entry["similarity"] is None else f"  similarity {shown(entry['similarity'])}"
        lines.append(
            f"{'applies' if entry['applies'] else 'FAILS  '} "
            f" {printable(path)}{alike}{'' if entry['applies'] else '  ' + printable(entry['reason'])}"  # noqa: E501
        )
    lines.append(f"{applied} of {len(found)} apply cleanly")
    return Measured(document, lines)


def _reference(path: str) -> str:
    text = _read_patch(path)
    try:
        if text is None:
            raise PatchError("it is no UTF-8 text")
        parse_patch(text)
    except PatchError as error:
        raise InputError("SCO-038", f"is no patch to compare with: {error}.", where=path) from None
    return text


def _patch_entry(text: str | None, tree: str, reference: str | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"applies": False, "reason": None, "files": [], "similarity": None}
    if text is None:
        return {**entry, "reason": "the patch is no UTF-8 text"}
    try:
        entry["files"] = list(dict.fromkeys(item.path for item in parse_patch(text)))
    except PatchError as error:
        return {**entry, "reason": str(error)}
    found = applies_cleanly(text, tree)
    entry["applies"], entry["reason"] = found.clean, None if found.clean else found.reason
    if reference is not None:
        try:
            alike = patch_likeness(text, reference).score
            entry["similarity"] = alike.num / alike.den
        except PatchError as error:
            entry["similarity_reason"] = str(error)
    return entry


# --- repair

_HOSTILE = """
What decides: the test runner's own report. A test passes if it was collected once, ran, and passed; one that was skipped, expected to fail,
never collected, or whose process ended early has not passed. Every run has a fresh copy of the tree, so one test cannot spoil another. The
run without the patch shows that a test can tell: a test of the issue that passes there counts as failed afterwards, and a test that was
there without the patch must still be there with it.
What a patch cannot change: the files of the required tests and their folder, conftest.py, the settings of the runner, sitecustomize.py and
the like, and modules that would stand in for the library, for installed packages or for the tests. Changes to these are left out and listed;
--restore adds files of your own.
What a hostile patch can still do: its code runs in the process of the test that imports it. Code written against this very runner can forge
its report. A test command other than pytest or unittest passes by its exit status, and code can end that process with 0."""  # noqa: E501


def _repair(options: argparse.Namespace) -> Measured:
    if not isfinite(options.timeout) or not 0 < options.timeout <= 86_400:
        raise UsageError(
            "CLI-001", f"--timeout {options.timeout:g} is no number of seconds up to a day."
        )
    jobs = _jobs(options)
    _need_git()
    require(options.sandbox)
    limits = Limits(
        wall_s=options.timeout, cpu_s=max(1, ceil(options.timeout)), memory_mb=options.memory
    )
    limits.check()
    progress = Progress(2 * sum(len(job.tests) for job in jobs), "tests", unit="tests")
    found = [
        repair(
            job,
            limits=limits,
            isolation=options.sandbox,
            readable=options.readable,
            done=progress.add,
        )
        for job in jobs
    ]
    progress.end()
    document = summarise(one.instance() for one in found)
    for one in found:
        document["instances"][one.job.instance_id].update(one.document())
    document["sandbox"] = options.sandbox
    if len(found) == 1:
        document["evidence"] = found[0].evidence()
    timeless = {name: _untimed_instance(entry) for name, entry in document["instances"].items()}
    return Measured(document, _repair_lines(found, document), {**document, "instances": timeless})


def _untimed_instance(entry: Mapping[str, Any]) -> dict[str, Any]:
    tests = entry["tests"]
    return {
        **entry,
        "tests": (
            tests
            and {
                name: {when: _untimed(run) for when, run in both.items()}
                for name, both in tests.items()
            }
        ),
    }


def _jobs(options: argparse.Namespace) -> list[Job]:
    """The instances of the file, or the one that the options describe; all faults at once."""

    def listed(texts: list[str] | None) -> list[str]:
        return [part.strip() for text in texts or () for part in text.split(",") if part.strip()]

    given: dict[str, Any] = {
        "test_command": options.test_command or "pytest",
        **({} if options.tree is None else {"tree": options.tree}),
    }
    given |= {
        name: found
        for name in ("fail_to_pass", "pass_to_pass", "restore")
        if (found := listed(getattr(options, name)))
    }
    if options.patch:
        text = _read_patch(options.patch)
        if text is None:
            raise InputError("SCO-038", "is no UTF-8 text, and so no patch.", where=options.patch)
        given["patch"] = text
    if options.instances is None:
        missing = [name for name in ("--tree", "--patch") if getattr(options, name[2:]) is None]
        if missing:
            raise UsageError(
                "CLI-001",
                f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing.",
                fix="Or give a .jsonl of instances.",
            )
        return [make_job({"instance_id": options.id or os.path.basename(options.patch), **given})]
    jobs: dict[str, Job] = {}
    for tree in trees(options.instances):
        job = make_job(tree, defaults=given)
        if job.instance_id in jobs:
            raise InputError(
                "FIL-007",
                f"the instance {job.instance_id!r} stands twice.",
                where=options.instances,
            )
        jobs[job.instance_id] = job
    if not jobs:
        raise NotEnoughEvidence(
            "SCO-038", "there are no instances in the file.", where=options.instances
        )
    return list(jobs.values())


def _repair_lines(found: Iterable[Repair], document: dict[str, Any]) -> list[str]:
    lines = []
    for one in found:
        entry = document["instances"][one.job.instance_id]
        lines.append(
            f"{entry['status']:<8} {printable(one.job.instance_id)}{'' if one.applies else '  the patch does not apply: ' + printable(one.reason)}"  # noqa: E501
        )
        for name in one.job.tests if one.applies else ():
            before, after = one.before[name], one.after[name]
            why = "" if after.passed else f"  {printable(after.reason)}"
            lines.append(
                f"  {'passed' if after.passed else 'FAILED'}  {printable(name)}  (without the"
                f" patch: {'passed' if before.passed else 'failed'}){why}"
            )
        for which, names in one.invalid_before.items():
            said = (
                "passed without the patch, so they show nothing and count as failed"
                if which == "fail_to_pass"
                else "failed without the patch too"
            )
            lines += [f"  {which}: {', '.join(map(printable, names))} {said}"] if names else []
        lines += (
            [f"  left out of the patch, for the tests: {', '.join(map(printable, one.guarded))}"]
            if one.guarded
            else []
        )
        lines += (
            [
                (
                    f"  restored: the tree holds no {', '.join(map(printable, one.not_there))}, so"
                    " there is none after the patch either"
                )
            ]
            if one.not_there
            else []
        )
        lines.append(f"  {_gate_line(entry['evidence']['gates']['no_sandbox_violation'])}")
    counts = document["counts"]
    lines.append(f"{counts['resolved']} of {counts['all']} resolved")
    return lines


COMMANDS = {
    "measure solutions": measure(
        "solutions",
        _solutions,
        (
            "Run untrusted Python solutions against their tests, each in a sandbox of its own,"
            " and count: nothing a solution prints decides."
        ),
        "assay measure solutions attempts.jsonl --k 1",
        arg(
            "file",
            metavar="FILE",
            help=(
                '.jsonl of {"task_id", "solution", "test", "entry_point", "support"}; one line'
                " for each attempt"
            ),
        ),
        K,
        _SANDBOX,
        arg(
            "--one-process",
            action="store_true",
            help=(
                "for solutions whose values cannot cross between processes; such a solution can"
                " forge its verdict"
            ),
        ),
        arg(
            "--timeout",
            metavar="S",
            type=float,
            default=10.0,
            help="seconds for one attempt (default: 10)",
        ),
    ),
    "measure patch": measure(
        "patch",
        _patch,
        (
            "Whether each patch applies cleanly to a tree: git tries it on a throw-away copy of"
            " the files it names. Exits 0 once measured."
        ),
        "assay measure patch --tree repo fix-1.diff fix-2.diff --reference gold.diff",
        arg(
            "patches",
            nargs="+",
            metavar="PATCH",
            help=(
                "unified diffs as git writes them (a/..., b/...); a path that leads out of the"
                " tree is refused"
            ),
        ),
        arg(
            "--tree",
            metavar="DIR",
            required=True,
            help="the tree the patches are for; it is only read",
        ),
        arg(
            "--reference",
            metavar="FILE",
            help=(
                "a patch to compare each with: the share of changed lines both have, 0..1;"
                " likeness is not correctness"
            ),
        ),
    ),
    "measure repair": measure(
        "repair",
        _repair,
        (
            "Judge a patch by tests: each runs as a command of its own in the sandbox, first"
            " without the patch, then with it. Exits 0 once measured."
        ),
        (
            "assay measure repair --tree repo --patch fix.diff --fail-to-pass"
            f" tests/test_a.py::test_b\n{_HOSTILE}"
        ),
        arg(
            "instances",
            nargs="?",
            metavar="FILE",
            help=(
                '.jsonl of {"instance_id", "tree", "patch" (its text), "test_command",'
                ' "fail_to_pass": [...], "pass_to_pass": [...], "restore": [...]}; what a line'
                " lacks comes from the options"
            ),
        ),
        arg(
            "--tree",
            metavar="DIR",
            help="the tree the patch is for; it is only read, and .git is left out",
        ),
        arg("--patch", metavar="FILE", help="a unified diff as git writes it"),
        arg(
            "--test-command",
            metavar="CMD",
            help=(
                "pytest, unittest, or how one test is run, without a shell: {test} is the test,"
                " {python} the interpreter of assay (default: pytest)"
            ),
        ),
        arg(
            "--fail-to-pass",
            metavar="T,...",
            action="append",
            help=(
                "tests that fail without the patch and must pass with it (names with commas: in"
                " a .jsonl)"
            ),
        ),
        arg(
            "--pass-to-pass",
            metavar="T,...",
            action="append",
            help="tests that pass without the patch and must still pass with it",
        ),
        arg(
            "--restore",
            metavar="PATH,...",
            action="append",
            help=(
                "files and folders that are as in the tree after the patch, so that it cannot"
                " change them"
            ),
        ),
        arg(
            "--id",
            metavar="ID",
            help="what the instance is called (default: the name of the patch)",
        ),
        _SANDBOX,
        arg(
            "--readable",
            metavar="DIR",
            action="append",
            default=[],
            help="a folder outside the system that tests may read, as a virtual environment",
        ),
        arg(
            "--timeout",
            metavar="S",
            type=float,
            default=TEST_S,
            help=f"seconds for one run of one test (default: {TEST_S:g})",
        ),
        arg(
            "--memory",
            metavar="MB",
            type=int,
            default=1024,
            help="memory for one run of one test (default: 1024)",
        ),
    ),
}
