"""`assay label`: sets of samples for people to label, and the results of their labels. The
labelling itself is a page: see `server/pages/label`.
"""

from __future__ import annotations

import sys
from typing import Any

from assay.archive.evaluations import need_evaluation
from assay.archive.label_results import results_of
from assay.archive.label_sets import SetRequest, list_sets, make_set, need_set, set_draft
from assay.archive.labels import labels_of_set
from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.frame import Command, Options, arg, flag, repeated
from assay.cli.ledger import ledger_options
from assay.errors import UsageError, count, printable
from assay.project.ledger import open_for
from assay.project.trust import rules
from assay.records.label import DRAWS
from assay.store.ledger import Ledger
from assay.views.blocks import Section
from assay.views.labels import LabelResults, results_view, sets_table

SET = arg(
    "set",
    kind="text",
    metavar="SET",
    help="a set's name or id, or latest; `assay label list` lists them",
)


def results_named(ledger: Ledger, name: str, project: str) -> LabelResults:
    """The set that a person names, and the results of its labels."""
    stored = need_set(ledger, name, project=project)
    return results_of(stored, labels_of_set(ledger, stored.digest, project=project))


def _new(options: Options) -> int:
    if options.question and not options.pairs:
        raise UsageError(
            "CLI-001",
            "--question is for pairs.",
            fix="Name the second evaluation with --pairs, or leave --question out.",
        )
    request = SetRequest(
        options.draw,
        options.n,
        options.seed,
        options.rubric or "",
        options.criterion,
        options.name or "",
        options.question or "",
        options.with_reference,
        (options.config and rules(options.config, "rubric")) or "",
    )
    with open_for(options.db) as ledger:
        evaluation = need_evaluation(ledger, options.evaluation, project=options.project)
        other = (
            need_evaluation(ledger, options.pairs, project=options.project)
            if options.pairs
            else None
        )
        made = make_set(
            ledger, opt.shelf_of(options), evaluation, other, request, project=options.project
        )
        stored = ledger.put_many([set_draft(made)], project=options.project)[0]
    document = {**_brief(made, stored.digest), "new": stored.new}
    known = "" if stored.new else "; the set existed already"
    lines = [
        f"{made.name} ({made.id}): {count(len(made.items), 'item')} of {made.draw.pool:,}{known}",
        *(f"  left out, {why}: {n:,}" for why, n in made.draw.left_out.items() if n),
        f"Label it: `assay view{ledger_options(options)}`, then open /label/{made.id}",
    ]
    return opt.give(options, document, map(printable, lines))


def _brief(made: Any, digest: str) -> dict[str, Any]:
    return {
        "name": made.name,
        "id": made.id,
        "digest": digest,
        "task": made.task,
        "evaluation": made.evaluation,
        "other": made.other,
        "rubric": None if made.rubric is None else made.rubric.id,
        "criteria": []
        if made.rubric is None
        else [criterion.name for criterion in made.rubric.criteria],
        "draw": made.draw,
        "items": len(made.items),
    }


def summary(results: LabelResults, *, labels: bool = False) -> dict[str, Any]:
    """A set and the results of its labels, as JSON; each rater's labels only with `labels`."""
    return {
        **_brief(results.stored.set, results.stored.digest),
        "labelled": results.labelled,
        "superseded": results.superseded,
        "raters": [
            {
                "name": progress.rater.name,
                "by": progress.rater.by,
                "id": progress.rater.id,
                "labelled": progress.done,
            }
            for progress in results.progress
        ],
        "typed_raters": results.typed,
        "independent_raters": results.independent,
        "changed": results.changed,
        "changed_after_others": results.changed_late,
        "agreement": [
            {
                "criterion": agreement.criterion,
                "items": agreement.items,
                "same": agreement.same,
                "statistic": agreement.statistic,
                "value": agreement.beyond_chance,
            }
            for agreement in results.agreement
        ],
        "disagreements": [
            {
                "sample": case.item.sample,
                "run_id": case.item.run_id,
                "criterion": case.criterion,
                **(
                    {
                        "labels": [
                            {"rater": rater.name, "by": rater.by, "id": rater.id, "value": value}
                            for rater, value in case.values
                        ]
                    }
                    if labels
                    else {}
                ),
            }
            for case in results.disagreed
        ],
    }


def _list(options: Options) -> int:
    with open_for(options.db, read_only=True) as ledger:
        sets = [
            results_of(stored, labels_of_set(ledger, stored.digest, project=options.project))
            for stored in list_sets(ledger, project=options.project)
        ]
        where = ledger.where
    if not sets and not options.json:
        text = f"there are no label sets in the project '{options.project}' of {where}."
        opt.note(f"{text} `assay label new EVALUATION` makes one.")
    document = {"sets": [summary(results) for results in sets]}
    table = [sets_table(sets, lambda made: f"/label/{made.id}")] if sets else []
    return opt.give(options, document, lambda: terminal.show(table))


def _show(options: Options) -> int:
    with open_for(options.db, read_only=True) as ledger:
        results = results_named(ledger, options.set, options.project)
    document = summary(results, labels=options.labels)
    return opt.give(options, document, lambda: _show_results(options, results))


def _show_results(options: Options, results: LabelResults) -> None:
    hidden = "not listed without --labels."
    for part in results_view(results, seen=None if options.labels else (), why_hidden=hidden):
        if isinstance(part, Section):
            sys.stdout.write(f"\n{part.title}\n")
        terminal.show(part.parts if isinstance(part, Section) else [part])
    if results.labels and not options.labels:
        sys.stdout.write(
            "\nLabels and comments are hidden so that raters stay blind. If you have labelled your"
            " items, or are not a rater, add --labels.\n"
        )


COMMANDS = {
    "label new": Command(
        _new,
        "Draw samples of a stored evaluation for people to label. Each rater gets every"
        " item, in a different order, and never sees a judge's score or a grade.\nThe same"
        " command twice"
        " makes one set.",
        "assay label new latest --n 50 --draw random",
        (
            arg(
                "evaluation",
                kind="text",
                metavar="EVALUATION",
                help="an evaluation's name or id, latest or latest~N",
            ),
            arg("--n", type=int, metavar="N", default=50, help="how many items (default: 50)"),
            arg(
                "--draw",
                kind="text",
                trust="freely",
                metavar="HOW",
                default="random",
                help=(
                    f"{', '.join(DRAWS)}: any sample; where judge and rules are furthest apart; or"
                    " nearest to a floor or the passing score (default: random). A judge may"
                    " gate only on random labels"
                ),
            ),
            arg(
                "--pairs",
                kind="text",
                trust="freely",
                metavar="OTHER",
                help="compare the answers with those of another evaluation, blind, instead",
            ),
            arg(
                "--rubric",
                heading="grading",
                offers="rubrics",
                kind="name",
                metavar="R",
                help=(
                    "rubric to score by: name, name@version or YAML file (default: the judge's,"
                    " else the profile's)"
                ),
            ),
            repeated(
                "--criterion",
                "NAME",
                "only this criterion; may be repeated",
                kind="text",
                trust="freely",
            ),
            arg("--seed", type=int, metavar="N", default=0, help="seed of the draw (default: 0)"),
            arg(
                "--name",
                kind="text",
                trust="freely",
                metavar="NAME",
                help="name of the set (default: from the evaluation)",
            ),
            arg(
                "--question",
                kind="text",
                trust="freely",
                metavar="TEXT",
                help="with --pairs: what makes an answer better",
            ),
            flag("--with-reference", "show raters the expected answer"),
            "--library",
            "--db",
            "--project",
        ),
    ),
    "label list": Command(
        _list,
        "List the label sets of the ledger, newest first.",
        "assay label list",
        ("--db", "--project"),
    ),
    "label show": Command(
        _show,
        "Show how far raters have got, how well they agree and how often they differ; with"
        " --labels also what each of them gave and wrote.\n"
        "Agreement is Cohen's kappa for two raters and Krippendorff's alpha for more.",
        "assay label show latest",
        (
            SET,
            flag("--labels", "also show raters' labels and comments; label your items first"),
            "--db",
            "--project",
        ),
    ),
}
