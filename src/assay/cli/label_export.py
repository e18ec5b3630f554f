"""`assay label export` and `override`: the labels of a set as files that other verbs read, and a
person's verdict on a run, next to its grade.
"""

from __future__ import annotations

import getpass
from contextlib import suppress
from typing import Any

from assay.archive.evaluations import need_evaluation
from assay.archive.label_calibration import labelled_rows, unjudged_rows
from assay.archive.label_results import CHOICE, people_say
from assay.archive.label_saving import override_label, run_named, saving
from assay.archive.labels import labels_of_run
from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg, flag
from assay.cli.judge_calibrate import read_judgements
from assay.cli.label import SET, results_named
from assay.errors import AssayError, NotEnoughEvidence, UsageError, count, printable
from assay.project.ledger import open_for
from assay.records.label import Rater
from assay.store.ledger import Ledger
from assay.views.labels import LabelResults

_UNJUDGED = ("JDG-009", "JDG-010", "STO-008")
"""Without verdicts that can be compared with the labels, people's work can still be exported."""


def _export(options: Options) -> int:
    if not opt.outputs(options):
        raise UsageError("CLI-001", "no file to write to.", fix="Give -o labels.jsonl")
    with open_for(options.db, read_only=True) as ledger:
        results = results_named(ledger, options.set, options.project)
        if options.pairs:
            rows = _pairs(ledger, results, options.project)
        else:
            judgements = read_judgements(options.judgements) if options.judgements else None
            try:
                labels = labelled_rows(
                    ledger,
                    results,
                    project=options.project,
                    criterion=options.criterion,
                    judgements=judgements,
                ).rows
            except AssayError as error:
                if options.judgements or error.code not in _UNJUDGED:
                    error.where = error.where or options.judgements or ""
                    raise
                opt.note(f"{error.message} The rows have no verdicts of a judge.")
                labels = unjudged_rows(results, criterion=options.criterion)
            rows = [
                {
                    name: value
                    for name, value in row._asdict().items()
                    if value is not None or name in ("human", "judge")
                }
                for row in labels
            ]
    made = results.stored.set
    labelled = sum(row.get("label" if options.pairs else "human") is not None for row in rows)
    document = {
        "set": {"name": made.name, "id": made.id, "digest": results.stored.digest},
        "rows": len(rows),
        "labelled": labelled,
        "files": list(options.output),
    }
    line = f"{count(len(rows), 'row')}, {labelled:,} labelled, in {', '.join(options.output)}"
    return opt.give(options, document, [line], forms={".jsonl": lambda _: opt.json_lines(rows)})


def _pairs(ledger: Ledger, results: LabelResults, project: str) -> list[dict[str, Any]]:
    """The pairs of a set with people's choices, as `judge pairwise` and `judge audit` read them."""
    made = results.stored.set
    if made.other is None:
        raise UsageError("CLI-001", f"the set {made.name} has no pairs.", fix="Leave --pairs out.")
    people = people_say(results, CHOICE)
    rows = []
    for item in made.items:
        wanted = [item.run, str(item.other)]
        items = ledger.get_many(wanted, project=project)
        trees = [
            items[digest].tree() for digest in wanted if digest in items and items[digest].body
        ]
        if len(trees) < 2:
            raise NotEnoughEvidence(
                "STO-008",
                f"a run of the sample {item.sample!r} was forgotten.",
                where=results.stored.digest,
                fix="Make a new set: `assay label new`.",
            )
        first, second = trees
        rows.append(
            {
                "id": item.sample,
                "input": first.get("inputs"),
                "a": first.get("outputs"),
                "b": second.get("outputs"),
                "reference": first.get("expected") if made.expected else None,
                "label": people.get(item.run),
                "a_run": item.run,
                "b_run": item.other,
            }
        )
    return rows


def _override(options: Options) -> int:
    name = options.rater
    if not name:
        with suppress(OSError, KeyError):
            name = getpass.getuser()
    if not name:
        raise UsageError("CLI-001", "the rater has no name.", fix="Give your name with --rater.")
    with open_for(options.db) as ledger:
        evaluation = (
            need_evaluation(ledger, options.evaluation, project=options.project)
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
        labels = labels_of_run(ledger, label.run, project=options.project)
    document = {
        "run_id": label.run_id,
        "run": label.run,
        "verdict": options.verdict,
        "rater": label.rater,
        "new": any(label.new for label in stored),
        "overrides": len(labels.overrides),
    }
    line = (
        f"{label.run_id}: {label.rater.name} says {options.verdict}."
        f"{'' if document['new'] else ' That was recorded before.'}"
        " The grade is unchanged, and no gate reads overrides."
    )
    return opt.give(options, document, [printable(line)])


COMMANDS = {
    "label export": Command(
        _export,
        "Write the labels of a set next to the judge's verdicts, as `assay judge calibrate"
        " --labels` reads them; `judge` is null where no judge scored by the rubric of the set."
        " Several raters become one value: the median of scores, the"
        " most frequent choice.",
        "assay label export latest -o labels.jsonl",
        (
            SET,
            arg(
                "--criterion",
                kind="text",
                trust="freely",
                metavar="NAME",
                help="which criterion, where the set has several",
            ),
            arg(
                "--judgements",
                kind="path",
                metavar="FILE",
                help=(
                    "the judge's verdicts (`judge rubric` or `judge pairwise -o FILE.json`;"
                    " default: the scores in the runs)"
                ),
            ),
            flag("--pairs", "write the pairs themselves, for `assay judge pairwise`"),
            "--db",
            "--project",
        ),
        formats=(".jsonl",),
    ),
    "label override": Command(
        _override,
        "Record that a person would have decided differently on a run, and why. It is shown"
        " next to the"
        " grade and counted; it never changes a grade, a total or a decision.",
        "assay label override r-001 --verdict fail --reason 'Quotes the 2019 price list'",
        (
            arg("run", kind="text", metavar="RUN", help="a run's id, or its digest"),
            arg("--verdict", required=True, choices=("pass", "fail"), help="what you would decide"),
            arg("--reason", kind="text", trust="freely", required=True, metavar="TEXT", help="why"),
            arg(
                "--in",
                kind="text",
                trust="freely",
                dest="evaluation",
                metavar="EVALUATION",
                help="the evaluation of the run",
            ),
            arg(
                "--rater",
                kind="text",
                trust="trusted",
                metavar="NAME",
                help="who decided (default: the user of this machine)",
            ),
            "--db",
            "--project",
        ),
    ),
}
