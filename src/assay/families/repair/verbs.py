"""`assay measure repair`, `patch` and `solutions`: untrusted code and patches, in the sandbox."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from assay.cli.frame import Bounds, Options, arg
from assay.cli.measure import K, Measured, measure, read_ks, shown, trees
from assay.cli.progress import Progress
from assay.errors import InputError, NotEnoughEvidence, UsageError, printable
from assay.families.repair.patches import PatchJob, Repair, make_job, repair
from assay.files.inputs import open_input
from assay.sandbox.isolation import require
from assay.sandbox.limits import SandboxLimits
from assay.sandbox.outcome import verdict
from assay.sandbox.solutions import check_solution
from assay.scoring.metrics.applying import applies_cleanly
from assay.scoring.metrics.outcomes import summarise
from assay.scoring.metrics.passk import AttemptedTask, report
from assay.scoring.metrics.patches import MAX_PATCH, PatchError, parse_patch, patch_likeness

SANDBOX = arg(
    "--sandbox",
    trust="trusted",
    choices=("bubblewrap", "process"),
    default="bubblewrap",
    help=(
        "bubblewrap isolates the code; process only limits it and leaves the gate"
        " undetermined (default: bubblewrap)"
    ),
)


def untimed(run: Mapping[str, Any]) -> dict[str, Any]:
    """How a run of untrusted code ended, without its duration, which differs each time."""
    return {name: value for name, value in run.items() if name != "wall_s"}


def gate_line(gate: Any) -> str:
    """The verdict of the sandbox, for a person."""
    return (
        "no_sandbox_violation:"
        f" {'undetermined' if gate['passed'] is None else 'passed' if gate['passed'] else 'FAILED'} ({printable(gate['reason'])})"  # noqa: E501
    )


def read_patch(path: str) -> str | None:
    """The text of a patch; None if it is not UTF-8, as with binary junk. One that is too long is
    cut where its reader refuses it.
    """
    with open_input(path) as stream:
        data = stream.read(4 * MAX_PATCH + 1)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def need_git() -> None:
    """Raise an error if git is not installed."""
    if shutil.which("git") is None:
        # without it nobody can say whether a patch applies, and "no" would be a guess
        raise NotEnoughEvidence(
            "SCO-038",
            "there is no `git` on the path, so it can't check whether a patch applies.",
            fix="Install git.",
        )


def _solutions(options: Options) -> Measured:
    ks = read_ks(options.k)
    require(options.sandbox)
    limits = SandboxLimits(wall_s=options.timeout)
    passed: dict[str, list[bool]] = {}
    items, lines, outcomes = [], [], []
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
                "a line must have task_id, solution and test as texts.",
                where=options.file,
            )
        name, solution, test = (str(text) for text in texts)
        mode: Any = "one-process" if options.one_process else "two-process"
        checked = check_solution(
            solution,
            test,
            entry,
            support=support,
            limits=limits,
            isolation=options.sandbox,
            mode=mode,
        )
        has_passed = checked.passed is True
        passed.setdefault(name, []).append(has_passed)
        outcomes.append(checked.outcome)
        word = "passed" if has_passed else "FAILED"
        lines.append(f"{word}  {printable(name)}  {printable(checked.reason)}")
        items.append(
            {
                "task_id": name,
                "passed": has_passed,
                "status": checked.outcome.status,
                "reason": checked.reason,
                "mode": checked.mode,
                "violations": [violation._asdict() for violation in checked.outcome.violations],
                "wall_s": checked.outcome.wall_s,
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
    lines += [
        f"{name:<8} {shown(value)}"
        for name, value in document.items()
        if name.startswith(("pass@", "pass^"))
    ]
    lines.append(gate_line(document["gates"]["no_sandbox_violation"]))
    stored = {**document, "attempts": [untimed(item) for item in items]}
    return Measured(document, lines, stored)


def _patch(options: Options) -> Measured:
    need_git()
    if not os.path.isdir(options.tree):
        raise InputError(
            "SCO-038",
            "is not a folder.",
            where=options.tree,
            fix="Give the tree that the patches are for with --tree DIR.",
        )
    if len(set(options.patches)) != len(options.patches):
        raise UsageError("CLI-001", "a patch is named twice.")
    reference = _reference(options.reference) if options.reference else None
    entries = {
        path: _patch_entry(read_patch(path), options.tree, reference) for path in options.patches
    }
    applied = sum(entry["applies"] for entry in entries.values())
    document = {"patches": entries, "applied": applied, "n": len(entries)}
    lines = []
    for path, entry in entries.items():
        alike = "" if entry["similarity"] is None else f"  similarity {shown(entry['similarity'])}"
        lines.append(
            f"{'applies' if entry['applies'] else 'FAILS  '} "
            f" {printable(path)}{alike}{'' if entry['applies'] else '  ' + printable(entry['reason'])}"  # noqa: E501
        )
    lines.append(f"{applied} of {len(entries)} apply cleanly")
    return Measured(document, lines)


def _reference(path: str) -> str:
    text = read_patch(path)
    try:
        if text is None:
            raise PatchError("it is not UTF-8 text")
        parse_patch(text)
    except PatchError as error:
        raise InputError(
            "SCO-038", f"is not a patch to compare with: {error}.", where=path
        ) from None
    return text


def _patch_entry(text: str | None, tree: str, reference: str | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"applies": False, "reason": None, "files": [], "similarity": None}
    if text is None:
        return {**entry, "reason": "the patch is not UTF-8 text"}
    try:
        entry["files"] = list(dict.fromkeys(item.path for item in parse_patch(text)))
    except PatchError as error:
        return {**entry, "reason": str(error)}
    check = applies_cleanly(text, tree)
    entry["applies"], entry["reason"] = check.clean, None if check.clean else check.reason
    if reference is not None:
        try:
            alike = patch_likeness(text, reference)
            entry["similarity"] = alike.num / alike.den
        except PatchError as error:
            entry["similarity_reason"] = str(error)
    return entry


TEST_S = 60.0


def _repair(options: Options) -> Measured:
    jobs = _jobs(options)
    need_git()
    require(options.sandbox)
    limits = SandboxLimits(
        wall_s=options.timeout, cpu_s=max(1, ceil(options.timeout)), memory_mb=options.memory
    )
    limits.check()
    progress = Progress(2 * sum(len(job.tests) for job in jobs), "tests", unit="tests")
    repairs = [
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
    document = summarise(result.instance() for result in repairs)
    for result in repairs:
        document["instances"][result.job.instance_id].update(result.document())
    document["sandbox"] = options.sandbox
    if len(repairs) == 1:
        document["evidence"] = repairs[0].evidence()
    timeless = {name: _untimed_instance(entry) for name, entry in document["instances"].items()}
    return Measured(document, _repair_lines(repairs, document), {**document, "instances": timeless})


def _untimed_instance(entry: Mapping[str, Any]) -> dict[str, Any]:
    tests = entry["tests"]
    return {
        **entry,
        "tests": (
            tests
            and {
                name: {when: untimed(run) for when, run in both.items()}
                for name, both in tests.items()
            }
        ),
    }


def _jobs(options: Options) -> list[PatchJob]:
    """The instances of the file, or the one that the options describe; all faults at once."""

    def listed(texts: list[str] | None) -> list[str]:
        return [part.strip() for text in texts or () for part in text.split(",") if part.strip()]

    given: dict[str, Any] = {
        "test_command": options.test_command or "pytest",
        **({} if options.tree is None else {"tree": options.tree}),
    }
    given |= {
        name: tests
        for name in ("fail_to_pass", "pass_to_pass", "restore")
        if (tests := listed(getattr(options, name)))
    }
    if options.patch:
        text = read_patch(options.patch)
        if text is None:
            raise InputError(
                "SCO-038", "is not UTF-8 text, so it can't be a patch.", where=options.patch
            )
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
    jobs: dict[str, PatchJob] = {}
    for tree in trees(options.instances):
        job = make_job(tree, defaults=given)
        if job.instance_id in jobs:
            raise InputError(
                "FIL-007",
                f"the instance {job.instance_id!r} appears twice.",
                where=options.instances,
            )
        jobs[job.instance_id] = job
    if not jobs:
        raise NotEnoughEvidence(
            "SCO-038", "there are no instances in the file.", where=options.instances
        )
    return list(jobs.values())


def _repair_lines(repairs: Iterable[Repair], document: dict[str, Any]) -> list[str]:
    lines = []
    for result in repairs:
        entry = document["instances"][result.job.instance_id]
        lines.append(
            f"{entry['status']:<8} {printable(result.job.instance_id)}{'' if result.applies else '  the patch does not apply: ' + printable(result.reason)}"  # noqa: E501
        )
        for name in result.job.tests if result.applies else ():
            before, after = result.before[name], result.after[name]
            why = "" if after.passed else f"  {printable(after.reason)}"
            lines.append(
                f"  {'passed' if after.passed else 'FAILED'}  {printable(name)}  (without the"
                f" patch: {'passed' if before.passed else 'failed'}){why}"
            )
        for which, names in result.invalid_before.items():
            verdict = (
                "passed without the patch, so they prove nothing and count as failed"
                if which == "fail_to_pass"
                else "failed without the patch too"
            )
            lines += [f"  {which}: {', '.join(map(printable, names))} {verdict}"] if names else []
        lines += (
            [f"  left out of the patch, for the tests: {', '.join(map(printable, result.guarded))}"]
            if result.guarded
            else []
        )
        lines += (
            [
                (
                    f"  restored: the tree has no {', '.join(map(printable, result.not_there))}, so"
                    " there is none after the patch either"
                )
            ]
            if result.not_there
            else []
        )
        lines.append(f"  {gate_line(entry['evidence']['gates']['no_sandbox_violation'])}")
    counts = document["counts"]
    lines.append(f"{counts['resolved']} of {counts['all']} resolved")
    return lines


COMMANDS = {
    "measure solutions": measure(
        "solutions",
        _solutions,
        (
            "Run untrusted Python solutions against their tests, each in its own sandbox, and"
            " count the passes. Nothing that a solution prints affects the count."
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
        SANDBOX,
        arg(
            "--one-process",
            action="store_true",
            trust="trusted",
            help=(
                "for solutions whose values can't cross between processes; they can forge"
                " their verdict"
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
            "Check whether each patch applies cleanly to a tree: git tries it on a throw-away copy"
            " of the files it names. Exits 0 once measured."
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
            kind="path",
            metavar="DIR",
            required=True,
            help="the tree the patches are for; it is only read",
        ),
        arg(
            "--reference",
            kind="path",
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
            "Judge a patch by tests. Each test runs as its own command in the sandbox, first"
            " without the patch, then with it. Exits 0 once measured. A hostile patch can still"
            " cheat: its code runs in the process of the test that imports it. Code written"
            " against this runner can forge its report, and under a test command other than pytest"
            " or unittest, code can end that process with 0."
        ),
        "assay measure repair --tree repo --patch fix.diff --fail-to-pass tests/test_a.py::test_b",
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
            kind="path",
            metavar="DIR",
            help="the tree the patch is for; it is only read, and .git is left out",
        ),
        arg("--patch", kind="path", metavar="FILE", help="a unified diff as git writes it"),
        arg(
            "--test-command",
            kind="text",
            trust="freely",
            metavar="CMD",
            help=(
                "pytest, unittest, or how one test is run, without a shell: {test} is the test,"
                " {python} the interpreter of assay (default: pytest)"
            ),
        ),
        arg(
            "--fail-to-pass",
            kind="text",
            trust="freely",
            metavar="T,...",
            action="append",
            help=(
                "tests that fail without the patch and must pass with it (names with commas: in"
                " a .jsonl)"
            ),
        ),
        arg(
            "--pass-to-pass",
            kind="text",
            trust="freely",
            metavar="T,...",
            action="append",
            help="tests that pass without the patch and must still pass with it",
        ),
        arg(
            "--restore",
            kind="text",
            trust="freely",
            metavar="PATH,...",
            action="append",
            help=("files and folders to restore after the patch, so that it can't change them"),
        ),
        arg(
            "--id",
            kind="text",
            trust="freely",
            metavar="ID",
            help="name of the instance (default: the name of the patch)",
        ),
        SANDBOX,
        arg(
            "--readable",
            kind="path",
            metavar="DIR",
            action="append",
            default=[],
            help="a folder outside the system that tests may read, such as a virtual environment",
        ),
        arg(
            "--timeout",
            within=Bounds(above=0, most=86_400),
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
