"""`assay label override`: a person's verdict on a run, next to its grade."""

from __future__ import annotations

import argparse
import getpass
from contextlib import suppress

from assay.cli import options as opt
from assay.cli.frame import Command, arg
from assay.cli.label import evaluation_named
from assay.cli.ledger import extra, open_for
from assay.errors import ExitCode, UsageError, printable


def _override(options: argparse.Namespace) -> int:
    with extra():
        from assay.archive.label_saving import override_label, run_named, saving
        from assay.archive.labels import labels_of_run
    from assay.records.label import Rater

    name = options.rater
    if not name:
        with suppress(OSError, KeyError):
            name = getpass.getuser()
    if not name:
        raise UsageError("CLI-001", "the rater has no name.", fix="Give your name with --rater.")
    with open_for(options.db) as ledger:
        evaluation = (
            evaluation_named(ledger, options.evaluation, options.project)
            if options.evaluation
            else None
        )
        run = run_named(ledger, options.run, evaluation, project=options.project)
        label = override_label(
            run,
            evaluation and evaluation.digest,
            Rater(name=name, by="stated"),
            verdict=options.verdict,
            reason=options.reason,
        )
        drafts = saving(ledger, label, project=options.project)
        stored = ledger.put_many(drafts, project=options.project)
        found = labels_of_run(ledger, label.run, project=options.project)
    document = {
        "run_id": label.run_id,
        "run": label.run,
        "verdict": options.verdict,
        "rater": label.rater,
        "new": any(one.new for one in stored),
        "overrides": len(found.overrides),
    }
    line = (
        f"{label.run_id}: {label.rater.name} says {options.verdict}."
        f"{'' if document['new'] else ' That was recorded before.'}"
        " The grade is unchanged, and no gate reads overrides."
    )
    if options.json:
        opt.print_json(document)
    else:
        opt.print_lines([printable(line)])
    return ExitCode.PASSED


COMMANDS = {
    "label override": Command(
        _override,
        "Record that a person would have decided differently on a run, and why. It is shown"
        " next to the"
        " grade and counted; it never changes a grade, a total or a decision.",
        "assay label override r-001 --verdict fail --reason 'Quotes the 2019 price list'",
        (
            arg("run", metavar="RUN", help="a run's id, or its digest"),
            arg("--verdict", required=True, choices=("pass", "fail"), help="what you would decide"),
            arg("--reason", required=True, metavar="TEXT", help="why"),
            arg("--in", dest="evaluation", metavar="EVALUATION", help="the evaluation of the run"),
            arg("--rater", metavar="NAME", help="who decided (default: the user of this machine)"),
            "--db",
            "--project",
        ),
    ),
}
