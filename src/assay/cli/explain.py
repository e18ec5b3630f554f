"""`assay explain`: why a grade is what it is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.configured import COMMAND_LINE, DEFAULT
from assay.cli.frame import CHOICES, Command, arg
from assay.cli.grade import choice_of
from assay.cli.run_names import OtherRuns, run_names
from assay.errors import ExitCode, NotEnoughEvidence
from assay.files.json_files import StoredInput, read_documents
from assay.pipeline.given_grades import grades_of
from assay.records.reading import KINDS
from assay.views.documents import names_of, plain
from assay.views.grade_text import explanation
from assay.views.worst_samples import sample_facts


def run(options: argparse.Namespace) -> int:
    """Explain every run of a file, or one of them; an evaluation as a whole."""
    if isinstance(options.file, StoredInput) and _as_stored(options, options.file):
        from assay.cli.explain_stored import explain_stored

        return explain_stored(options, options.file, show)
    named_by = _named_by(options)
    grader = choice_of(options).grader()
    results: list[Any] = []
    others = OtherRuns()
    passed = True
    for document in read_documents(options.file):
        tree = document.tree
        known = options.run is not None and isinstance(tree, dict) and tree.get("schema") in KINDS
        if known and options.run not in run_names(tree):
            others.add(tree)
            continue
        for graded in grades_of(document, grader):
            payload = graded.payload()
            if options.run is not None and options.run not in names_of(payload):
                others.add(payload)
                continue
            passed = passed and payload["passed"]
            if not options.json:
                evidence = tree if known else None
                show(plain(payload), first=not results, named_by=named_by, run=evidence)
            results.append(payload if options.json else None)
    if others and not results:
        meant = others.meant(options.run)
        if meant is None or options.file == "-":
            raise others.unknown(options.run, options.file)
        options.run = meant
        return run(options)
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


def show(
    result: Mapping[str, Any],
    *,
    first: bool,
    named_by: Mapping[str, str] | None = None,
    run: Mapping[str, Any] | None = None,
) -> None:
    """Print why a run got its grade, below those that were printed before; with what it was asked
    and answered, where its evidence is given.
    """
    sys.stdout.write("" if first else "\n")
    sys.stdout.flush()
    head, *rest = explanation(result, named_by=named_by)
    terminal.show([head, *([] if run is None else [sample_facts(run)]), *rest])


def _named_by(options: argparse.Namespace) -> dict[str, str]:
    """Who named the profile and the rubric, where the command line did not."""
    sources = getattr(options, "sources", {})
    named = {kind: sources.get(kind, COMMAND_LINE) for kind in ("profile", "rubric")}
    return {
        kind: "the evaluation" if source == DEFAULT else source
        for kind, source in named.items()
        if source != COMMAND_LINE
    }


def _as_stored(options: argparse.Namespace, stored: StoredInput) -> bool:
    """Whether the stored grades answer: nothing else was chosen to grade by."""
    if options.judge_card or stored.grades is None:
        return False
    used = {} if stored.evaluation is None else stored.evaluation.evaluation.settings
    return all(
        getattr(options, name) in (default, used.get(name) or default)
        for name, default in (("profile", None), ("rubric", None), ("policy", "workflow"))
    )


COMMANDS = {
    "explain": Command(
        run,
        "Explain why each run got its grade, and the smallest change that would move it.",
        "assay explain runs.jsonl --run r-001",
        (
            arg(
                "file",
                metavar="FILE",
                help=(
                    ".json, .jsonl, - for standard input, or a name from the ledger: an"
                    " evaluation, latest, latest~1, a run's id"
                ),
            ).of_runs(),
            arg(
                "--run",
                metavar="ID",
                help="explain this run only: its id, its sample, its name, or the end of one",
            ),
            *CHOICES,
        ),
        defaults={"stored_grades": True},
    ),
}
