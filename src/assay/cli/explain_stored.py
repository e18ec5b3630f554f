"""`assay explain` on a name from the ledger: an evaluation as a whole, or its stored grades."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.hints import command
from assay.cli.ledger import ledger_options
from assay.cli.run_names import OtherRuns
from assay.errors import ExitCode, NotEnoughEvidence
from assay.files.json_files import StoredInput, read_documents
from assay.records.evidence import Run
from assay.records.reading import read_run
from assay.views.documents import names_of
from assay.views.evaluation import evaluation_view
from assay.views.worst_samples import WorstSample, keep_worst, with_texts

STORED = dict.fromkeys(("profile", "rubric"), "the evaluation")


def explain_stored(
    options: argparse.Namespace, stored: StoredInput, show: Callable[..., None]
) -> int:
    """Explain an evaluation, a run of it, or a stored run."""
    if stored.evaluation is not None and options.run is None and not options.json:
        return _whole(options, stored)
    results: list[Mapping[str, Any]] = []
    passed = True
    for result in _grades(stored):
        if options.run is not None and options.run not in names_of(result):
            continue
        passed = passed and result["passed"] is True
        if not options.json:
            evidence = None if options.run is None else _evidence(stored, result["run_id"])
            show(result, first=not results, named_by=STORED, run=evidence)
        results.append(result)
    if not results:
        options.run = _meant(options, stored)
        return explain_stored(options, stored, show)
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


def _grades(stored: StoredInput) -> Iterator[dict[str, Any]]:
    assert stored.grades is not None
    for document in read_documents(stored.grades):
        yield document.tree


def _evidence(stored: StoredInput, run_id: str) -> Any:
    """The run of a grade."""
    runs = (document.tree for document in read_documents(stored))
    return next((run for run in runs if run["run_id"] == run_id), None)


def _whole(options: argparse.Namespace, stored: StoredInput) -> int:
    evaluation = stored.evaluation.evaluation
    worst: list[WorstSample] = []
    floors: Counter[str] = Counter()
    for result in _grades(stored):
        keep_worst(worst, result, None)
        floors.update(result.get("floor_failures") or ())
    wanted = {one.run_id for one in worst}
    runs: dict[str, Run] = {}
    for document in read_documents(stored) if wanted else ():
        if document.tree["run_id"] in wanted:
            runs[document.tree["run_id"]] = read_run(document)
    totals = evaluation.totals
    notes = []
    if totals.ungraded:
        notes.append(f"{totals.ungraded:,} of {totals.n:,} runs could not be graded.")
    commands = []
    if worst:
        words = command("explain", stored, "--run", worst[0].run_id, options=options)
        commands.append((words + ledger_options(options), "why this run got its grade"))
    if totals.n - totals.ungraded - totals.passed > len(worst):
        words = command("grade", stored, options=options) + ledger_options(options)
        commands.append((words, "every run on one line, with why it failed"))
    words = command("evals", options=options) + ledger_options(options)
    commands.append((words, "the other evaluations"))
    terminal.show(
        evaluation_view(
            evaluation,
            worst=[
                with_texts(one, runs[one.run_id]) if one.run_id in runs else one for one in worst
            ],
            notes=notes,
            floors=floors,
            commands=commands,
        )
    )
    if totals.ungraded == totals.n:
        return ExitCode.NOT_ENOUGH
    return ExitCode.PASSED if totals.passed == totals.n else ExitCode.FAILED


def _meant(options: argparse.Namespace, stored: StoredInput) -> str:
    """The run that was meant by a name that none has exactly; an error if there is none."""
    if stored.evaluation is None:
        raise NotEnoughEvidence("FIL-005", "the run has no stored grade.", where=stored)
    graded = {run.run_id for run in stored.evaluation.evaluation.runs if run.grade is not None}
    others = OtherRuns()
    for document in read_documents(stored) if options.run is not None else ():
        others.add(document.tree)
    meant = None if options.run is None else others.meant(options.run)
    if options.run is not None and meant is None:
        raise others.unknown(options.run, stored)
    if meant not in graded:
        raise NotEnoughEvidence("FIL-005", "no run of it was graded.", where=stored)
    assert meant is not None
    return meant
