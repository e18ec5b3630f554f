"""`assay measure repair`: a patch judged by tests in the sandbox, each without it and with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from assay.cli.frame import Bounds, Options, arg
from assay.cli.measure_code import SANDBOX, gate_line, need_git, read_patch, untimed
from assay.cli.measuring import Measured, measure, trees
from assay.cli.progress import Progress
from assay.errors import InputError, NotEnoughEvidence, UsageError, printable
from assay.running.patch_jobs import PatchJob, make_job
from assay.running.patch_tests import Repair, repair
from assay.sandbox.isolation import require
from assay.sandbox.limits import SandboxLimits
from assay.scoring.metrics.outcomes import summarise

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
