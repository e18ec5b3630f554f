"""`assay label export`: the labels of a set as files that other verbs read."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.frame import Command, arg, flag
from assay.cli.label import SET, results_named
from assay.cli.ledger import extra, open_for
from assay.errors import ExitCode, NotEnoughEvidence, UsageError, count
from assay.files.atomic import atomic_write
from assay.views.documents import encode

if TYPE_CHECKING:
    import argparse

    from assay.store.ledger import Ledger
    from assay.views.labels import LabelResults


def _export(options: argparse.Namespace) -> int:
    with extra():
        from assay.archive.label_calibration import labelled_rows
    from assay.cli.judge_calibrate import read_judgements

    if not opt.outputs(options):
        raise UsageError("CLI-001", "no file to write to.", fix="Give -o labels.jsonl")
    with open_for(options.db, read_only=True) as ledger:
        results = results_named(ledger, options.set, options.project)
        if options.pairs:
            rows = _pairs(ledger, results, options.project)
        else:
            judgements = read_judgements(options.judgements) if options.judgements else None
            found = labelled_rows(
                ledger,
                results,
                project=options.project,
                criterion=options.criterion,
                judgements=judgements,
            )
            rows = [
                {name: value for name, value in row._asdict().items() if name != "group" or value}
                for row in found.rows
            ]
    for path in options.output:
        with atomic_write(path) as stream:
            for row in rows:
                stream.write(encode(row) + b"\n")
    made = results.stored.set
    labelled = sum(row.get("label" if options.pairs else "human") is not None for row in rows)
    document = {
        "set": {"name": made.name, "id": made.id, "digest": results.stored.digest},
        "rows": len(rows),
        "labelled": labelled,
        "files": list(options.output),
    }
    line = f"{count(len(rows), 'row')}, {labelled:,} labelled, in {', '.join(options.output)}\n"
    options.output = []  # the rows are written; the document goes to standard output only
    opt.give(options, document, lambda: sys.stdout.write(line))
    return ExitCode.PASSED


def _pairs(ledger: Ledger, results: LabelResults, project: str) -> list[dict[str, Any]]:
    """The pairs of a set with people's choices, as `judge pairwise` and `judge audit` read them."""
    from assay.archive.label_results import CHOICE, people_say

    made = results.stored.set
    if made.other is None:
        raise UsageError("CLI-001", f"the set {made.name} has no pairs.", fix="Leave --pairs out.")
    people = people_say(results, CHOICE)
    rows = []
    for item in made.items:
        wanted = [item.run, str(item.other)]
        items = ledger.get_many(wanted, project=project)
        trees = [items[one].tree() for one in wanted if one in items and items[one].body]
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


COMMANDS = {
    "label export": Command(
        _export,
        "Write the labels of a set next to the judge's verdicts, as `assay judge calibrate"
        " --labels` reads them. Several raters become one value: the median of scores, the"
        " most frequent choice.",
        "assay label export latest -o labels.jsonl",
        (
            SET,
            arg("--criterion", metavar="NAME", help="which criterion, where the set has several"),
            arg(
                "--judgements",
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
}
