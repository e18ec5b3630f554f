"""`assay label`: sets of samples for people to label, and the results of their labels. The
labelling itself is a page: see `label_pages`.
"""

from __future__ import annotations

import getpass
import sys
from contextlib import suppress
from typing import Any

from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.frame import Command, Options, arg, flag, repeated
from assay.cli.ledger import ledger_options, open_for
from assay.errors import AssayError, NotEnoughEvidence, UsageError, count, printable
from assay.families.judges.label_views import LabelResults, results_view, sets_table
from assay.families.judges.labelling import (
    CHOICE,
    SetRequest,
    labelled_rows,
    labels_of_run,
    labels_of_set,
    list_sets,
    make_set,
    need_set,
    override_label,
    people_say,
    results_of,
    run_named,
    saving,
    set_draft,
    unjudged_rows,
)
from assay.families.judges.records import DRAWS, Rater
from assay.families.judges.verbs import read_judgements
from assay.running.config_trust import rules
from assay.services.evaluations import need_evaluation
from assay.store.ledger import Ledger
from assay.views.blocks import Section

SET = arg("set", metavar="SET", help="a set's name or id, or latest; `assay label list` lists them")


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
            arg("run", metavar="RUN", help="a run's id, or its digest"),
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
