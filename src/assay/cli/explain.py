"""`assay explain`: why a grade is what it is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.frame import CHOICES, Command, arg
from assay.cli.grade import choice_of
from assay.errors import ExitCode, NotEnoughEvidence, UsageError
from assay.files.json_files import read_documents
from assay.records.reading import KINDS
from assay.registry import near_miss
from assay.views.documents import plain
from assay.views.grade_text import explanation

if TYPE_CHECKING:
    import argparse

KNOWN = 10_000
"""Run ids that are remembered, for the near miss of one that is absent."""


def run(options: argparse.Namespace) -> int:
    """Explain every run of a file, or one of them."""
    grader = choice_of(options).grader()
    results: list[Any] = []
    others: list[str] = []
    passed = True
    for document in read_documents(options.file):
        tree = document.tree
        known = options.run is not None and isinstance(tree, dict) and tree.get("schema") in KINDS
        if known and tree.get("run_id") != options.run:
            others += [str(tree.get("run_id"))] if len(others) < KNOWN else []
            continue
        payload = grader.grade(document).payload()
        passed = passed and payload["passed"]
        if not options.json:
            sys.stdout.write("\n" if results else "")
            sys.stdout.flush()
            terminal.show(explanation(plain(payload)))
        results.append(payload if options.json else None)
    if others and not results:
        raise UsageError(
            "CLI-001",
            f"no run is named {options.run!r}.{near_miss(options.run, others)}",
            where=options.file,
        )
    if not results:
        raise NotEnoughEvidence("FIL-005", "there is nothing to explain.", where=options.file)
    if options.json:
        opt.print_json(
            {
                "schema": "assay.grades/1",
                "results": results,
                "faults": [],
                "counts": {"graded": len(results)},
            }
        )
    return ExitCode.PASSED if passed else ExitCode.FAILED


COMMANDS = {
    "explain": Command(
        run,
        "Say why each run got its grade, and the smallest change that would move it.",
        "assay explain runs.jsonl --run r-001",
        (
            arg("file", metavar="FILE", help=".json, .jsonl, or - for standard input"),
            arg("--run", metavar="ID", help="explain this run only"),
            *CHOICES,
        ),
    ),
}
