"""The part of the demo in which something runs: a scripted bot repairs a small project, and its
patches are judged by tests in the sandbox.

It is run as `assay run` does, in its own work folder. Without git or the sandbox, it
reports that and continues: nothing runs outside the sandbox, and anything not measured fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

from assay.canon import plain, pretty
from assay.cli import options as opt
from assay.cli.demo import EXAMPLES, NOW, DemoPart
from assay.errors import printable
from assay.families.repair.repair import lacking
from assay.files.atomic import write_file
from assay.records.evidence import Run
from assay.records.grade import Grade
from assay.running.dataset import read_dataset
from assay.running.runner import RunSettings
from assay.running.workflow import read_workflow
from assay.services.choice import Choice
from assay.services.grading import DEFAULT_POLICY, Graded
from assay.services.run import JOURNAL, RunRequest, run

HEADS = ("issue", "applies", "fail-to-pass", "pass-to-pass", "sandbox", "grade", "why")
MAX_WHY = 110
SANDBOX = "no_sandbox_violation"


def part(folder: str) -> DemoPart:
    """The bundled issues, repaired into the folder."""
    repairs = repaired(os.path.join(EXAMPLES, "repair"), os.path.join(folder, "repair"), now=NOW)
    return DemoPart(60, {"repairs": repairs}, repair_lines(repairs), written=(repairs["grades"],))


def repaired(examples: str, folder: str, *, now: str) -> dict[str, Any]:
    """Run the sample into a folder, grade it, and return the result for each issue."""
    missing = lacking()
    workflow = read_workflow(os.path.join(examples, "workflow.yaml"))
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(
            os.path.join(folder, JOURNAL)
        )  # of an earlier demo: this one shows what happens now
    request = RunRequest(
        workflow=workflow,
        dataset=read_dataset(os.path.join(examples, "dataset.yaml")),
        settings=RunSettings(workflow.id, concurrency=os.cpu_count() or 1, now=now),
        choice=Choice(DEFAULT_POLICY, None, None, None),
        folder=folder,
        started=datetime.fromisoformat(now),
    )
    graded = run(request, check=False).graded
    results = [plain(graded_run.payload()) for graded_run in graded]
    grades = os.path.join(folder, "grades.json")
    document = {
        "schema": "assay.grades/1",
        "results": results,
        "faults": [],
        "counts": {"graded": len(results)},
    }
    write_file(grades, pretty(document))
    return {
        "missing": missing or None,
        "issues": [_row(run) for run in graded],
        "results": results,
        "grades": grades,
    }


def _row(graded: Graded) -> dict[str, Any]:
    """One issue in a few words."""
    run = graded.run
    assert run is not None
    return {
        "issue": run.dataset.sample_id,
        "patch_applies": run.patch_applies,
        "fail_to_pass": run.tests and run.tests.fail_to_pass,
        "pass_to_pass": run.tests and run.tests.pass_to_pass,
        "sandbox": run.gates[SANDBOX].passed,
        "grade": graded.grade.grade,
        "score": graded.grade.weighted_score,
        "passed": graded.grade.passed,
        "why": _why(run, graded.grade),
    }


def _why(run: Run, grade: Grade) -> str:
    """The reason for the result: the first thing that prevents a pass."""
    about, gate = run.metadata.get("repair", {}), run.gates[SANDBOX]
    if grade.passed:
        return f"every gate holds, and the score is {grade.weighted_score:.2f}"
    if about.get("tests_not_run"):
        return str(about["tests_not_run"])
    if gate.passed is False:
        return gate.reason
    for name, reason in about.get("failed", {}).items():
        return f"{name.rpartition('.')[2]}: {reason}"
    return grade.reason


def repair_lines(repaired_part: dict[str, Any]) -> Iterator[str]:
    """The issues as a table."""
    yield opt.paint(
        "\nCode repair for real: a scripted bot patches a small project, and the tests run in"
        " the sandbox",
        "bold",
    )
    if repaired_part["missing"]:
        yield f"  Left out, because no code runs here: {repaired_part['missing']}"
        return
    rows = [HEADS, *(_cells(row) for row in repaired_part["issues"])]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADS) - 1)]
    for number, row in enumerate(rows):
        line = "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]
        )
        passed = number > 0 and repaired_part["issues"][number - 1]["passed"]
        yield opt.paint(f"  {line}", "dim" if number == 0 else "green" if passed else "red")
    result = repaired_part["results"][0]
    yield (
        f"  profile {result['profile']} · policy {result['policy']} · {result['scoringSystem']} ·"
        f" {result['gradingSystem']}"
    )
    yield (
        "  The quality score is a count of four house rules by a script; no time is measured under"
        " the demo's fixed clock, so efficiency counts as 0."
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    words = {True: "yes", False: "no", None: "unknown"}
    counts = [
        "unknown" if row[name] is None else f"{row[name].passed} of {row[name].total}"
        for name in ("fail_to_pass", "pass_to_pass")
    ]
    sandbox = {True: "kept", False: "VIOLATED", None: "unknown"}[row["sandbox"]]
    why = printable(row["why"])
    return (
        row["issue"],
        words[row["patch_applies"]],
        *counts,
        sandbox,
        row["grade"],
        why if len(why) <= MAX_WHY else f"{why[: MAX_WHY - 3]}...",
    )
