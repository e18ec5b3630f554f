"""`assay judge rubric`, `pairwise` and `panel`: texts in, judgements out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from assay.canon import digest
from assay.cli import judge as common
from assay.cli import options as opt
from assay.cli.ledger import add_store, storing
from assay.errors import ExitCode, UsageError, printable
from assay.judging.identity import rubric_name, scorer_of
from assay.judging.items import pair_up, read_examples, read_items, read_pairs
from assay.judging.pairwise_task import DEFINITION, Compared, compare, first_order, tally
from assay.judging.panel import convene
from assay.judging.questions import PAIRWISE_PROMPT, RUBRIC_PROMPT, PairQuestion
from assay.judging.rubric_task import (
    OUTCOMES,
    Judged,
    apart,
    counts_of,
    judge_rubric,
    questions_of,
    scored_runs,
)
from assay.records.grade import ENGINE
from assay.views.documents import encode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from assay.archive.store import Store
    from assay.judging.client import Client
    from assay.judging.items import Item, Pair
    from assay.judging.questions import Question
    from assay.scoring.rubric import Rubric


def _rubric_parser(
    action: str, what: str, example: str, *, several: bool
) -> argparse.ArgumentParser:
    made = opt.parser(f"judge {action}", what, example)
    made.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help='runs (assay.run/1), or lines of {"id", "input", "output", "reference"}',
    )
    made.add_argument(
        "--rubric", metavar="R", required=True, help="rubric by name, name@version or YAML file"
    )
    made.add_argument(
        "--criterion",
        metavar="NAME",
        action="append",
        default=[],
        help="only this criterion of the rubric; may be repeated",
    )
    made.add_argument(
        "--output-field",
        metavar="NAME",
        help="which of a run's outputs is judged (default: all of them)",
    )
    made.add_argument(
        "--with-reference", action="store_true", help="show the judge what was expected of each run"
    )
    made.add_argument(
        "--examples",
        metavar="FILE",
        help=(
            'judged cases to show first: lines of {"input", "output", "score", "reason",'
            ' "criterion"}'
        ),
    )
    made.add_argument(
        "--samples", metavar="N", type=int, default=1, help="draws of each question (default: 1)"
    )
    made.add_argument(
        "--replace",
        action="store_true",
        help="put the judge's score in the place of one that a run already has",
    )
    common.add_judge(made, several=several)
    opt.add_library(made)
    opt.add_output(made, (".json", ".jsonl"))
    add_store(made)
    return made


class _RubricJob:
    """What `rubric` and `panel` are asked to do."""

    def __init__(self, options: argparse.Namespace) -> None:
        if options.samples < 1:
            raise UsageError("CLI-001", f"--samples is {options.samples}; it must be at least 1.")
        self.options = options
        self.rubric: Rubric = opt.shelf_of(options).rubric(options.rubric)
        self.items: list[Item] = read_items(
            options.files, output=options.output_field, with_reference=options.with_reference
        )
        examples = (
            {item.name: read_examples(options.examples, item) for item in self.rubric.criteria}
            if options.examples
            else None
        )
        self.questions = questions_of(
            self.items, self.rubric, only=options.criterion, examples=examples
        )
        if any(
            path.endswith(".jsonl") for path in opt.outputs(options)
        ):  # what cannot be written is said before anything is paid
            unjudged = [
                Judged(item.id, criterion.name, None, None, ())
                for item, criterion, _ in self.questions
            ]
            scored_runs(
                self.items, unjudged, self.rubric, scorer={"name": ""}, replace=options.replace
            )

    def how(self) -> dict[str, Any]:
        """What besides the judge's own settings decides its answers."""
        shots = {
            question.criterion.name: list(map(list, question.examples))
            for _, _, question in self.questions
            if question.examples
        }
        return {
            "samples": self.options.samples,
            "with_reference": self.options.with_reference,
            "examples": digest(shots) if shots else None,
        }

    def asked(self) -> list[tuple[Question, int]]:
        return [
            (question, sample)
            for item, _, question in self.questions
            if item.missing is None
            for sample in range(self.options.samples)
        ]


def _json_lines(trees: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(encode(tree) + b"\n" for tree in trees)


def rubric(argv: list[str]) -> int:
    """Score texts against a rubric with one judge."""
    made = _rubric_parser(
        "rubric",
        "Score texts against the criteria of a rubric: one question for each criterion, the reason"
        " before the score, quotes that must stand in the text.",
        "assay judge rubric runs.jsonl --rubric rag --judge judge.yaml -o judged.jsonl -o"
        " judgements.json",
        several=False,
    )
    options = made.parse_args(argv)
    with storing(options) as store:
        return _rubric(options, store)


def _rubric(options: argparse.Namespace, store: Store | None) -> int:
    specs = common.specs_of(options)
    spec = common.only(specs, "rubric")
    job = _RubricJob(options)
    if options.dry_run:
        return common.dry_run(
            options,
            specs,
            job.asked(),
            more="A reply that cannot be used is asked to be mended once, which is one call more.",
        )
    with common.journal_of(options) as journal:

        async def ask(clients: list[Client]) -> list[Judged]:
            return await judge_rubric(clients[0], job.questions, samples=options.samples)

        judged, usages = common.work(specs, journal, ask, seed=options.seed, total=len(job.asked()))
    counts = counts_of(answer for one in judged for answer in one.answers)
    scorer = scorer_of(
        spec,
        prompt_version=RUBRIC_PROMPT,
        rubric=rubric_name(job.rubric),
        answered=usages[0]["answered_by"],
        **job.how(),
    )
    document = {
        "schema": "assay.judgements/1",
        "judge": common.judge_shown(spec),
        "scorer": scorer,
        "warnings": common.warnings_in(usages),
        "rubric": job.rubric.id,
        "prompt_version": RUBRIC_PROMPT,
        "samples": options.samples,
        "items": [one.shown() for one in judged],
        "counts": counts,
        "usage": usages[0],
        **ENGINE,
    }
    common.keep(store, document)
    common.write_outputs(
        options,
        {
            ".jsonl": lambda: _json_lines(
                scored_runs(job.items, judged, job.rubric, scorer=scorer, replace=options.replace)
            )
        },
        document,
    )
    _show_scores(options, document, [(one.item, one.criterion, one.raw, one.why) for one in judged])
    common.note_usage(usages, counts)
    return ExitCode.PASSED if all(one.raw is not None for one in judged) else ExitCode.NOT_ENOUGH


def panel(argv: list[str]) -> int:
    """Score texts against a rubric with several judges."""
    made = _rubric_parser(
        "panel",
        "Several judges, best of different families, on one rubric: their mean or their majority,"
        " and how far they disagree.",
        "assay judge panel runs.jsonl --rubric rag --judge a.yaml --judge b.yaml --judge c.yaml"
        " --vote majority -o judged.jsonl",
        several=True,
    )
    made.add_argument(
        "--vote",
        choices=("mean", "majority"),
        default="mean",
        help="how the scores become one (default: mean)",
    )
    options = made.parse_args(argv)
    with storing(options) as store:
        return _panel(options, store)


def _panel(options: argparse.Namespace, store: Store | None) -> int:
    specs = common.specs_of(options)
    names = [spec.judge for spec in specs]
    if len(specs) < 2 or len(set(names)) != len(names):
        raise UsageError(
            "CLI-001",
            "a panel has at least two judges with names of their own.",
            fix="Give --judge once for each.",
        )
    job = _RubricJob(options)
    if options.dry_run:
        return common.dry_run(options, specs, job.asked())
    with common.journal_of(options) as journal:

        async def ask(clients: list[Client]) -> dict[str, list[Judged]]:
            import asyncio

            found = await asyncio.gather(
                *(
                    judge_rubric(client, job.questions, samples=options.samples)
                    for client in clients
                )
            )
            return dict(zip(names, found, strict=True))

        members, usages = common.work(
            specs, journal, ask, seed=options.seed, total=len(job.asked()) * len(specs)
        )
    voted = convene(members, by=options.vote)
    counts = counts_of(
        answer for judged in members.values() for one in judged for answer in one.answers
    )
    document = {
        "schema": "assay.judgements/1",
        "panel": [common.judge_shown(spec) for spec in specs],
        "warnings": common.warnings_in(usages),
        "vote": options.vote,
        "rubric": job.rubric.id,
        "prompt_version": RUBRIC_PROMPT,
        "samples": options.samples,
        "items": [one.shown() for one in voted],
        "members": {name: [one.shown() for one in judged] for name, judged in members.items()},
        "disagreement": _disagreement(members),
        "counts": counts,
        "usage": usages,
        **ENGINE,
    }
    as_one = {
        "kind": "llm",
        "name": "panel:" + "+".join(spec.model for spec in specs),
        "version": options.vote,
        "prompt_version": RUBRIC_PROMPT,
        "rubric": rubric_name(job.rubric),
    }
    first = next(iter(members.values()))
    combined = [
        one._replace(
            raw=vote.raw,
            why=vote.why,
            disagreement=apart("judges", [seat.raw for seat in vote.seats if seat.raw is not None]),
        )
        for one, vote in zip(first, voted, strict=True)
    ]
    common.keep(store, document)
    common.write_outputs(
        options,
        {
            ".jsonl": lambda: _json_lines(
                scored_runs(job.items, combined, job.rubric, scorer=as_one, replace=options.replace)
            )
        },
        document,
    )
    _show_scores(options, document, [(one.item, one.criterion, one.raw, one.why) for one in voted])
    if not options.json:
        found = document["disagreement"]
        sys.stdout.write(
            f"unanimous on {found['unanimous']:,} of {found['judged_by_all']:,}; Krippendorff's"
            f" alpha {_number(found['krippendorff_alpha'])}\n"
        )
    common.note_usage(usages, counts)
    return ExitCode.PASSED if all(one.raw is not None for one in voted) else ExitCode.NOT_ENOUGH


def _disagreement(members: dict[str, list[Judged]]) -> dict[str, Any]:
    from assay.stats.agreement import krippendorff_alpha

    rows = [[one.raw for one in rows] for rows in zip(*members.values(), strict=True)]
    whole = [row for row in rows if None not in row]
    spreads = [max(row) - min(row) for row in whole]
    return {
        "judged_by_all": len(whole),
        "unanimous": sum(1 for spread in spreads if spread == 0),
        "largest_spread": max(spreads, default=None),
        "mean_spread": float(sum(spreads)) / len(spreads) if spreads else None,
        "krippendorff_alpha": (
            krippendorff_alpha(
                [[None if raw is None else float(raw) for raw in row] for row in rows],
                level="interval",
            ).shown()
        ),
    }


def _number(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("value")
    return "is not defined here" if value is None else f"{value:.3f}"


def _show_scores(
    options: argparse.Namespace,
    document: dict[str, Any],
    rows: Sequence[tuple[str, str, Any, str | None]],
) -> None:
    if options.json:
        opt.print_json(document)
        return
    shown = rows[:40]
    width = max((len(row[0]) for row in shown), default=1)
    wide = max((len(row[1]) for row in shown), default=1)
    for item, criterion, raw, why in shown:
        sys.stdout.write(
            printable(
                f"{item[:40]:<{min(width, 40)}}  {criterion:<{wide}} "
                f" {raw if raw is not None else f'none: {why}'}"
            )
            + "\n"
        )
    if len(rows) > len(shown):
        sys.stdout.write(
            f"... and {len(rows) - len(shown):,} more; -o judgements.json has them all\n"
        )


def pairwise(argv: list[str]) -> int:
    """Compare two answers to each task."""
    made = opt.parser(
        "judge pairwise",
        "Compare two answers to each task in both orders; orders that disagree are asked once more,"
        " then it is a tie.",
        "assay judge pairwise pairs.jsonl --judge judge.yaml -o comparisons.json -o verdicts.jsonl",
    )
    made.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help=(
            'lines of {"id", "input", "a", "b", "reference", "label"}; or two files of runs,'
            " candidate a and b"
        ),
    )
    made.add_argument(
        "--definition", metavar="TEXT", default=DEFINITION, help="what counts as better"
    )
    made.add_argument(
        "--limit",
        metavar="X",
        type=float,
        default=0.10,
        help="rate of inconsistent pairs above which the judge is warned of (default: 0.10)",
    )
    common.add_judge(made)
    opt.add_output(made, (".json", ".jsonl"))
    add_store(made)
    options = made.parse_args(argv)
    with storing(options) as store:
        return _pairwise(options, store)


def _pairwise(options: argparse.Namespace, store: Store | None) -> int:
    specs = common.specs_of(options)
    spec = common.only(specs, "pairwise")
    if not 0 <= options.limit <= 1:
        raise UsageError("CLI-001", f"--limit is {options.limit}; it is a rate from 0 to 1.")
    opt.outputs(options)
    pairs = pairs_of(options.files)
    asked: list[tuple[Question, int]] = []
    for pair in pairs:
        order = first_order(pair.id, options.seed)
        asked += [
            (PairQuestion(options.definition, pair.task, pair.a, pair.b, each, pair.reference), 0)
            for each in (order, "ba" if order == "ab" else "ab")
        ]
    if options.dry_run:
        return common.dry_run(
            options, specs, asked, more="Each pair whose orders disagree takes two calls more."
        )
    with common.journal_of(options) as journal:

        async def ask(clients: list[Client]) -> list[Compared]:
            return await compare(
                clients[0], pairs, seed=options.seed, definition=options.definition
            )

        compared, usages = common.work(specs, journal, ask, seed=options.seed, total=len(asked))
    counts = counts_of(look.answer for one in compared for look in one.looks)
    defined = digest(options.definition)
    scorer = scorer_of(
        spec,
        prompt_version=PAIRWISE_PROMPT,
        rubric=f"definition+{defined[7:19]}",
        answered=usages[0]["answered_by"],
    )
    document = comparisons_document(
        compared,
        judge=common.judge_shown(spec),
        scorer=scorer,
        counts=counts,
        usage=usages[0],
        limit=options.limit,
        seed=options.seed,
    )
    common.keep(store, document)
    common.write_outputs(
        options,
        {".jsonl": lambda: _json_lines([line for one in compared for line in one.verdicts()])},
        document,
    )
    if options.json:
        opt.print_json(document)
    else:
        sys.stdout.writelines(f"{line}\n" for line in document["sentences"])
    common.note_usage(usages, counts)
    return ExitCode.PASSED if document["without_verdict"] == 0 else ExitCode.NOT_ENOUGH


def pairs_of(files: Sequence[str]) -> list[Pair]:
    """The pairs of a file; or of two files of runs, candidate a and candidate b."""
    if len(files) == 2:
        from assay.files.json_files import Document, stream_documents

        heads = [
            next((one for one in stream_documents(path) if isinstance(one, Document)), None)
            for path in files
        ]
        if all(
            head is not None and isinstance(head.tree, dict) and "a" not in head.tree
            for head in heads
        ):
            return pair_up(read_items(files[:1]), read_items(files[1:]))
    return read_pairs(files)


def comparisons_document(
    compared: Sequence[Compared],
    *,
    judge: dict[str, Any],
    scorer: dict[str, Any],
    counts: dict[str, int],
    usage: Any,
    limit: float,
    seed: int,
) -> dict[str, Any]:
    """`assay.comparisons/1`: the tally after re-runs, the consistency of the first pass, and every
    pair; `score` is ready to be put into a run.
    """
    from assay.stats.intervals import wilson

    found = tally(compared)
    looked = [one.consistent for one in compared if one.consistent is not None]
    inconsistent = looked.count(False)
    rate = wilson(inconsistent, len(looked))
    decided = found["wins"] + found["losses"] + found["ties"]
    win_rate = (found["wins"] + found["ties"] / 2) / decided if decided else None
    raw_score = {name: found[name] for name in ("wins", "losses", "ties")}
    score: dict[str, Any] = {
        "raw": raw_score,
        "n": decided,
        "source": {key: value for key, value in scorer.items() if value is not None},
    }
    if looked:
        score["disagreement"] = {
            "between": "orders",
            "n": len(looked),
            "inconsistent": inconsistent,
        }
    sentences = [
        f"candidate a: {found['wins']} wins, {found['losses']} losses, {found['ties']} ties"
        + (f"; win rate {win_rate:.3f}, ties as half" if win_rate is not None else "")
        + (
            f"; {found['without_verdict']} pairs without a verdict"
            if found["without_verdict"]
            else ""
        ),
    ]
    if looked:
        sentences.append(
            f"the two orders disagree on {inconsistent} of {len(looked)} pairs:"
            f" {rate.value:.3f} ({rate.low:.3f} to {rate.high:.3f})"
        )
        if inconsistent > limit * len(looked):
            sentences.append(
                f"warning: that is above {limit:g}. What stands first moves this judge; it should"
                " not gate."
            )
    return {
        "schema": "assay.comparisons/1",
        "judge": judge,
        "scorer": scorer,
        "warnings": [] if usage is None else usage["warnings"],
        "prompt_version": PAIRWISE_PROMPT,
        "seed": seed,
        "pairs": len(compared),
        **found,
        "raw_score": raw_score,
        "score": score,
        "win_rate": win_rate,
        "inconsistency_rate": rate.shown(),
        "inconsistency_warning": bool(looked) and rate.value is not None and rate.value > limit,
        "items": [one.shown() for one in compared],
        "counts": {name: counts[name] for name in OUTCOMES},
        "usage": usage,
        "sentences": sentences,
        **ENGINE,
    }
