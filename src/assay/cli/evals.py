"""`assay evals`: the evaluations of a ledger."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Any, NamedTuple

from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.frame import Bounds, Command, Options, arg
from assay.cli.hints import command
from assay.cli.ledger import ledger_options
from assay.project.ledger import open_for
from assay.services.evaluations import StoredEvaluation, list_evaluations
from assay.views.evaluation import evaluations_table

_KEYS = ("id", "name", "source", "workflow", "dataset", "configuration", "labels")


def run(options: Options) -> int:
    """List the newest evaluations."""
    listed = find_page(options)
    document = {
        "evaluations": [in_brief(evaluation) for evaluation in listed.page],
        "total": listed.total,
    }
    return opt.give(options, document, lambda: _show(options, *listed))


def _show(options: Options, page: list[StoredEvaluation], total: int, where: str) -> None:
    if not page:
        named = [
            f"{what} {value}"
            for what, value in (("workflow", options.workflow), ("dataset", options.dataset))
            if value
        ]
        of = f" of {' and '.join(named)}" if named else ""
        text = f"there are no evaluations{of} in the project '{options.project}' of {where}."
        opt.note(f"{text} `assay run` and `assay import` store one.")
        return
    terminal.show([evaluations_table([evaluation.evaluation for evaluation in page])])
    if len(page) == options.limit < total:
        sys.stdout.write(f"{total:,} in all; --limit {total} shows them.\n")
    words = command("explain", page[0].evaluation.name, options=options)
    sys.stdout.write(f"See details: {words}{ledger_options(options)}\n")


class FoundEvaluations(NamedTuple):
    """Some evaluations of a project, the newest first, and how many it has."""

    page: list[StoredEvaluation]
    total: int
    where: str


def find_page(options: Options, *, start: int = 0) -> FoundEvaluations:
    """The newest evaluations that the options ask for, from the one at `start`."""
    with open_for(options.db, read_only=True) as ledger:
        listed = list_evaluations(
            ledger, project=options.project, workflow=options.workflow, dataset=options.dataset
        )
        page = list(islice(listed, start, start + options.limit))
        total = ledger.count("evaluation", project=options.project).n
        return FoundEvaluations(page, total, ledger.where)


def in_brief(stored: StoredEvaluation) -> dict[str, Any]:
    """An evaluation without the list of its runs."""
    evaluation = stored.evaluation
    return {
        **{key: getattr(evaluation, key) for key in _KEYS},
        **({"only": evaluation.only} if evaluation.only else {}),
        "started": evaluation.started,
        "finished": evaluation.finished,
        "totals": evaluation.totals,
        "digest": stored.digest,
        "stored_at": stored.stored_at,
    }


COMMANDS = {
    "evals": Command(
        run,
        "List the evaluations in the ledger, newest first. It exits 0 whatever their grades.",
        "assay evals --workflow triage",
        (
            arg(
                "--limit",
                within=Bounds(least=1),
                type=int,
                metavar="N",
                default=20,
                help="show at most N (default: 20)",
            ),
            arg(
                "--workflow",
                kind="text",
                trust="freely",
                metavar="ID",
                help="only evaluations of this workflow",
            ),
            arg(
                "--dataset",
                kind="text",
                trust="freely",
                metavar="ID",
                help="only evaluations on this dataset",
            ),
            "--db",
            "--project",
        ),
    ),
}
