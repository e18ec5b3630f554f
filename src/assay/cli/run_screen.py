"""What `assay run` prints: how to resume a run, its evaluation, and how stable its passes are."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from assay.cli.hints import GRADED_BY, command
from assay.cli.ledger import ledger_options
from assay.errors import UsageError, printable
from assay.files.atomic import write_file
from assay.views.documents import pretty

if TYPE_CHECKING:
    import argparse

    from assay.cli.run_work import RunWork
    from assay.records.evaluation import Evaluation


def say(words: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(f"{printable(words)}\n")


def already_begun(options: argparse.Namespace, folder: str) -> UsageError:
    """The error for a folder that contains a run already, finished or not."""
    if os.path.exists(os.path.join(folder, "runs.jsonl")):
        another = "--work folder" if options.work else "--name"
        return UsageError(
            "RUN-005",
            f"{folder} is finished.",
            fix=f"Choose another {another}, or delete the folder to run it again.",
        )
    return UsageError(
        "RUN-005",
        "this folder already contains a run.",
        where=folder,
        fix=f"`{resume_command(options, folder)}` continues it.",
    )


def resume_command(options: argparse.Namespace, folder: str) -> str:
    """The command that resumes a run, with the same outputs."""
    outputs = [word for path in options.output for word in ("-o", path)]
    events = [] if options.events is None else ["--events", options.events]
    json = ["--json"] if options.json else []
    carry = ("--step-summary", "--otlp-endpoint")
    return command(
        "run", "--resume", folder, *outputs, *events, *json, options=options, carry=carry
    )


def show_evaluation(
    options: argparse.Namespace,
    doing: RunWork,
    evaluation: Evaluation,
    folder: str,
    *,
    stored: bool,
) -> None:
    """The evaluation, with its worst runs and what to do next."""
    from assay.cli import terminal
    from assay.views.evaluation import evaluation_view

    notes = []
    if doing.judging is not None and doing.judging.missing:
        again = f"`{resume_command(options, folder)}` asks for them again and repeats nothing else."
        notes = [f"{sentence} {again}" for sentence in doing.judging.sentences]
    more = ledger_options(options) if stored else ""
    runs, carry = (evaluation.name, ()) if stored else (options.files[0], GRADED_BY)
    commands = [
        (
            command("explain", runs, "--run", one.run_id, options=options, carry=carry) + more,
            "why this run got its grade",
        )
        for one in doing.worst[:1]
    ]
    browse = command("view", runs, options=options, carry=carry or ("--library",)) + more
    page = command("grade", runs, "-o", "report.html", options=options, carry=GRADED_BY) + more
    commands += [(browse, "every sample, in your browser"), (page, "every run on one page")]
    view = evaluation_view(
        evaluation, worst=doing.worst, notes=notes, floors=doing.floors, commands=commands
    )
    terminal.show(view)
    for path in options.output:
        sys.stdout.write(f"wrote {path}\n")


def report_repeats(options: argparse.Namespace, doing: RunWork, folder: str) -> None:
    """How stable the passes are: pass@k, pass^k, and the samples that sometimes pass."""
    from assay.scoring.metrics.passk import AttemptedTask, report

    passed = {sample: list(marks.values()) for sample, marks in doing.passes.items()}
    ks = sorted({1, options.repeat})
    found = report(
        [AttemptedTask(name, len(marks), sum(marks)) for name, marks in passed.items()], ks
    )
    flaky = sorted(name for name, marks in passed.items() if len(set(marks)) > 1)
    document: dict[str, Any] = {
        "schema": "assay.repeats/1",
        "repeat": options.repeat,
        **found,
        "flaky": flaky,
        "samples": len(passed),
    }
    write_file(os.path.join(folder, "repeats.json"), pretty(document))
    words = " · ".join(
        f"{name} {value:.3f}" for name, value in found.items() if isinstance(value, float)
    )
    say(
        f"{words} · {len(flaky)} of {len(passed)} samples sometimes"
        f" pass{': ' + ', '.join(flaky[:5]) if flaky else ''}"
    )
