"""A file for `assay view`: its runs as evaluations, in a ledger that lives as long as the command.

Another tool's file is imported as `assay import` does it; runs are graded as they are. Grades
without their runs are shown by themselves, so without questions and answers.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from assay.canon import encode
from assay.cli.grade import choice_of
from assay.cli.import_evaluations import evaluate_file
from assay.cli.imported_inputs import is_importable, left_out
from assay.cli.importing import read_files
from assay.cli.parsing import Options
from assay.errors import InputError, NotEnoughEvidence
from assay.files.json_files import Document, read_documents
from assay.records.evaluation import Evaluation, VersionedName
from assay.records.grade import is_graded
from assay.records.reading import read_run
from assay.services.evaluations import default_name
from assay.services.given_grades import grades_of
from assay.services.grading import Graded
from assay.services.storing import EvaluationBuilder, MadeEvaluation, Store
from assay.store.drafts import body_of, graded_drafts
from assay.store.ledger import open_ledger


class ViewedFile(NamedTuple):
    """The result of reading a file: its evaluations, without their lists of runs, and notes about
    it.
    """

    evaluations: Sequence[Evaluation]
    notes: Sequence[str]


def evaluate_viewed(options: Options, folder: str, url: str) -> ViewedFile:
    """Put the evaluations of the file into a new ledger. `folder` is for what waits on the way."""
    options.files = [options.target]
    options.name = options.workflow = options.family = options.dataset = None
    with (
        tempfile.TemporaryDirectory(dir=folder) as waiting,
        tempfile.TemporaryFile(dir=folder) as drafts,
        open_ledger(url) as ledger,
    ):
        store = Store(ledger, options.project, drafts, lambda _: None)
        if is_importable(options.target, options):
            viewed = _imported(options, store, waiting)
        else:
            viewed = _own(options, store, waiting)
        store.put()
    return viewed


def _imported(options: Options, store: Store, folder: str) -> ViewedFile:
    read = read_files(options, folder)
    if read.problem is not None:
        raise read.problem
    made = evaluate_file(
        options, store, read.imported.spool, read.imported, read.profile, folder=folder
    )
    return _viewed(made, left_out(read.imported.tally))


def _viewed(made: Sequence[MadeEvaluation], notes: Sequence[str] = ()) -> ViewedFile:
    ungraded = [
        f"not graded: {count:,}, {reason}"
        for imported in made
        for reason, count in imported.ungraded.items()
    ]
    return ViewedFile([imported.evaluation for imported in made], [*notes, *ungraded])


def _own(options: Options, store: Store, folder: str) -> ViewedFile:
    """Runs or grades of Assay's own."""
    spool, n = os.path.join(folder, "runs.jsonl"), 0
    with open(spool, "xb") as stream:
        for document in read_documents(options.target):
            if is_graded(document.tree):
                return _graded(options, store)
            _check(document)
            stream.write(encode(document.tree) + b"\n")
            n += 1
    if not n:
        raise NotEnoughEvidence("FIL-005", "there is nothing to show.", where=options.target)
    return _viewed(evaluate_file(options, store, spool, folder=folder))


def _check(document: Document) -> None:
    tree: Any = document.tree
    kind = tree.get("schema") if isinstance(tree, dict) else None
    if kind == "assay.exam/1":
        raise InputError(
            "FIL-006",
            "is a graded exam, which has no runs to show.",
            where=document.file,
            fix="`assay exam gate` decides on it; `assay exam grade ... -o exam.html` writes a"
            " page.",
        )
    if kind == "assay.scorecard/1":
        raise InputError(
            "FIL-006",
            "contains scorecards, which have no question and no answer to show.",
            where=document.file,
            fix="View the runs they were made from; `assay explain FILE` explains a scorecard.",
        )
    read_run(document)


def _graded(options: Options, store: Store) -> ViewedFile:
    """Grades without their runs: each is shown with a run that has only what the grade says."""
    grader, now = choice_of(options).grader(), datetime.now(UTC)
    graded_runs = (
        one for document in read_documents(options.target) for one in grades_of(document, grader)
    )
    builders: dict[tuple[Any, ...], EvaluationBuilder] = {}
    for graded in graded_runs:
        run, key = _stated_run(graded, options.target)
        builder = builders.get(key)
        if builder is None:
            name = default_name(key[0], now) + (f"-{len(builders) + 1}" if builders else "")
            builder = builders[key] = EvaluationBuilder(
                name=name,
                workflow=VersionedName(id=key[0], version=key[1]),
                dataset=VersionedName(id=key[2], version=key[3]),
                settings={"importer": None, "files": [], "policy": options.policy},
                started=now,
                source="import",
            )
        store.add(graded_drafts(run, graded.grade.scorecard, graded.payload()))
        builder.add_stored(body_of(run), body_of(graded.payload()))
    if not builders:
        raise NotEnoughEvidence("FIL-005", "there is nothing to show.", where=options.target)
    made = []
    for builder in builders.values():
        evaluation, draft = builder.drafted(now)
        store.add([draft])
        made.append(evaluation)
    note = "these are grades without their runs: questions and answers are not in the file"
    return ViewedFile(made, [note])


def _stated_run(graded: Graded, where: str) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """The run of a grade as far as the grade says it, and the versions that it is of."""
    card = graded.grade.scorecard
    if card.workflow is None or card.dataset is None:
        raise InputError(
            "FIL-006",
            f"the grade of {graded.grade.run_id!r} names no workflow or no dataset.",
            where=where,
            fix="View the runs it was made from; `assay explain FILE` explains a grade.",
        )
    run = {
        "schema": "assay.run/1",
        "run_id": graded.grade.run_id,
        "workflow": card.workflow,
        "dataset": card.dataset,
        "status": card.status,
    }
    return run, (card.workflow.id, card.workflow.version, card.dataset.id, card.dataset.version)
