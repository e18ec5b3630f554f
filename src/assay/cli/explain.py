"""`assay explain`: why a grade is what it is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.configured import COMMAND_LINE, DEFAULT
from assay.cli.frame import CHOICES, Command, arg
from assay.cli.grade import choice_of
from assay.errors import ExitCode, NotEnoughEvidence, UsageError
from assay.files.json_files import StoredInput, read_documents
from assay.pipeline.given_grades import grades_of
from assay.records.reading import KINDS
from assay.registry import near_miss
from assay.views.documents import names_of, plain
from assay.views.grade_text import explanation

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

KNOWN = 10_000
"""Run ids that are remembered, for the near miss of one that is absent."""


def run(options: argparse.Namespace) -> int:
    """Explain every run of a file, or one of them; an evaluation as a whole."""
    if isinstance(options.file, StoredInput) and _as_stored(options, options.file):
        from assay.cli.explain_stored import explain_stored

        return explain_stored(options, options.file, show)
    named_by = _named_by(options)
    grader = choice_of(options).grader()
    results: list[Any] = []
    others: list[str] = []
    passed = True
    for document in read_documents(options.file):
        tree = document.tree
        known = options.run is not None and isinstance(tree, dict) and tree.get("schema") in KINDS
        if known and options.run not in _names(tree):
            others += [str(name) for name in _names(tree) if name] if len(others) < KNOWN else []
            continue
        for graded in grades_of(document, grader):
            payload = graded.payload()
            if options.run is not None and options.run not in names_of(payload):
                others += [payload["run_id"]] if len(others) < KNOWN else []
                continue
            passed = passed and payload["passed"]
            if not options.json:
                show(plain(payload), first=not results, named_by=named_by)
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


def show(
    result: Mapping[str, Any], *, first: bool, named_by: Mapping[str, str] | None = None
) -> None:
    """Print why a run got its grade, below those that were printed before."""
    sys.stdout.write("" if first else "\n")
    sys.stdout.flush()
    terminal.show(explanation(result, named_by=named_by))


def _named_by(options: argparse.Namespace) -> dict[str, str]:
    """Who named the profile and the rubric, where the command line did not."""
    sources = getattr(options, "sources", {})
    named = {kind: sources.get(kind, COMMAND_LINE) for kind in ("profile", "rubric")}
    return {
        kind: "the evaluation" if source == DEFAULT else source
        for kind, source in named.items()
        if source != COMMAND_LINE
    }


def _names(tree: Mapping[str, Any]) -> tuple[Any, ...]:
    """What `--run` may call a run: its id, or its sample, alone or within its dataset."""
    dataset = tree.get("dataset")
    if not isinstance(dataset, dict):
        return tree.get("run_id"), tree.get("sample_id")
    return names_of({**tree, "sample_id": dataset.get("sample_id") or tree.get("sample_id")})


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
        "Say why each run got its grade, and the smallest change that would move it.",
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
            arg("--run", metavar="ID", help="explain this run only, by its id or its sample"),
            *CHOICES,
        ),
        defaults={"stored_grades": True},
    ),
}
