"""`assay judge rubric` and `panel`: texts scored by a rubric, by one judge or by several."""

from __future__ import annotations

import asyncio
from itertools import combinations
from typing import TYPE_CHECKING, Any

from assay.canon import digest
from assay.cli import judge as common
from assay.cli import options as opt
from assay.cli.frame import STORE, Argument, Bounds, Command, Options, arg, flag, repeated
from assay.cli.judge_specs import specs_of
from assay.errors import UsageError
from assay.judging.identity import member_name, prompt_name, rubric_name, scorer_of
from assay.judging.items import JudgedItem, read_examples, read_items
from assay.judging.panel import Voted, convene
from assay.judging.questions import RUBRIC_PROMPT, Question
from assay.judging.rubric_task import (
    Judged,
    apart,
    counts_of,
    judge_rubric,
    questions_of,
    scored_runs,
)
from assay.records.grade import ENGINE
from assay.stats.agreement import krippendorff_alpha

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from assay.archive.store import Store
    from assay.judging.client import Client
    from assay.scoring.rubric import Rubric

MAX_LINES = 40


class RubricJob:
    """The questions that `rubric` and `panel` ask."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.rubric: Rubric = opt.shelf_of(options).rubric(options.rubric)
        self.items: list[JudgedItem] = read_items(
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
        if any(path.endswith(".jsonl") for path in opt.outputs(options)):
            # runs that cannot be written are an error before anything is paid
            unjudged = [
                Judged(item.id, criterion.name, None, None, ())
                for item, criterion, _ in self.questions
            ]
            self.runs(unjudged, {"name": ""})

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
        """Every question with the number of its draw."""
        return [
            (question, sample)
            for item, _, question in self.questions
            if item.missing is None
            for sample in range(self.options.samples)
        ]

    def runs(
        self, judged: Sequence[Judged], scorer: Mapping[str, str | None]
    ) -> list[dict[str, Any]]:
        """The runs with these scores in them."""
        return scored_runs(
            self.items, judged, self.rubric, scorer=scorer, replace=self.options.replace
        )


def _rubric(options: Options, store: Store | None) -> int:
    specs = specs_of(options, only="rubric")
    job = RubricJob(options)
    if options.dry_run:
        more = "An unusable reply is sent back once for repair, which takes one more call."
        return common.dry_run(options, specs, job.asked(), more=more)

    judged, usages = common.ask(
        options,
        specs,
        lambda clients: judge_rubric(clients[0], job.questions, samples=options.samples),
        total=len(job.asked()),
    )
    counts = counts_of(answer for item in judged for answer in item.answers)
    scorer = scorer_of(
        specs[0],
        prompt_version=RUBRIC_PROMPT,
        rubric=rubric_name(job.rubric),
        answered=usages[0].answered_by,
        **job.how(),
    )
    document = {
        "schema": "assay.judgements/1",
        "judge": common.judge_shown(specs[0]),
        "scorer": scorer,
        "warnings": common.warnings_in(usages),
        "rubric": job.rubric.id,
        "prompt_version": RUBRIC_PROMPT,
        "samples": options.samples,
        "items": [item.shown() for item in judged],
        "counts": counts,
        "usage": usages[0],
        **ENGINE,
    }
    common.note_usage(usages, counts)
    common.note_age(usages[0])
    return common.finish(
        options,
        store,
        document,
        _lines(judged),
        rows=lambda: job.runs(judged, scorer),
        whole=all(item.raw is not None for item in judged),
    )


def _panel(options: Options, store: Store | None) -> int:
    specs = specs_of(options)
    names = [spec.judge for spec in specs]
    if len(specs) < 2 or len(set(names)) != len(names):
        raise UsageError(
            "CLI-001",
            "a panel has at least two judges with different names.",
            fix="Give --judge once for each.",
        )
    for spec, other in combinations(specs, 2):
        if spec.digest == other.digest:
            raise UsageError(
                "CLI-001",
                f"{spec.judge} and {other.judge} are the same judge, and its vote would count"
                " twice.",
                fix="Leave one out; --samples asks a judge more than once.",
            )
    job = RubricJob(options)
    if options.dry_run:
        return common.dry_run(options, specs, job.asked())

    async def ask(clients: list[Client]) -> dict[str, list[Judged]]:
        judged = await asyncio.gather(
            *(judge_rubric(client, job.questions, samples=options.samples) for client in clients)
        )
        return dict(zip(names, judged, strict=True))

    members, usages = common.ask(options, specs, ask, total=len(job.asked()) * len(specs))
    voted = convene(members, by=options.vote)
    counts = counts_of(
        answer for judged in members.values() for item in judged for answer in item.answers
    )
    disagreement = _disagreement(members)
    document = {
        "schema": "assay.judgements/1",
        "panel": [common.judge_shown(spec) for spec in specs],
        "warnings": common.warnings_in(usages),
        "vote": options.vote,
        "rubric": job.rubric.id,
        "prompt_version": RUBRIC_PROMPT,
        "samples": options.samples,
        "items": [item.shown() for item in voted],
        "members": {name: [item.shown() for item in judged] for name, judged in members.items()},
        "disagreement": disagreement,
        "counts": counts,
        "usage": usages,
        **ENGINE,
    }
    as_one = {
        "kind": "llm",
        "name": "panel:" + "+".join(map(member_name, specs)),
        "version": options.vote,
        "prompt_version": prompt_name(RUBRIC_PROMPT, **job.how()),
        "rubric": rubric_name(job.rubric),
    }
    combined = [
        item._replace(
            raw=vote.raw,
            why=vote.why,
            disagreement=apart("judges", [seat.raw for seat in vote.seats if seat.raw is not None]),
        )
        for item, vote in zip(members[names[0]], voted, strict=True)
    ]
    alpha = disagreement["krippendorff_alpha"]["value"]
    shown_alpha = "is not defined here" if alpha is None else f"{alpha:.3f}"
    unanimous = (
        f"unanimous on {disagreement['unanimous']:,} of {disagreement['judged_by_all']:,};"
        f" Krippendorff's alpha {shown_alpha}"
    )
    common.note_usage(usages, counts)
    return common.finish(
        options,
        store,
        document,
        [*_lines(voted), unanimous],
        rows=lambda: job.runs(combined, as_one),
        whole=all(item.raw is not None for item in voted),
    )


def _disagreement(members: dict[str, list[Judged]]) -> dict[str, Any]:
    rows = [[item.raw for item in rows] for rows in zip(*members.values(), strict=True)]
    whole = [row for row in rows if None not in row]
    spreads = [max(row) - min(row) for row in whole]
    numbers = [[None if raw is None else float(raw) for raw in row] for row in rows]
    return {
        "judged_by_all": len(whole),
        "unanimous": spreads.count(0),
        "largest_spread": max(spreads, default=None),
        "mean_spread": float(sum(spreads)) / len(spreads) if spreads else None,
        "krippendorff_alpha": krippendorff_alpha(numbers, level="interval").shown(),
    }


def _lines(rows: Sequence[Judged] | Sequence[Voted]) -> Iterator[str]:
    """The first scores, one on each line."""
    shown: Iterable[Any] = rows[:MAX_LINES]
    width = min(40, max((len(row.item) for row in rows[:MAX_LINES]), default=1))
    wide = max((len(row.criterion) for row in rows[:MAX_LINES]), default=1)
    for row in shown:
        score = row.raw if row.raw is not None else f"none: {row.why}"
        yield f"{row.item[:40]:<{width}}  {row.criterion:<{wide}}  {score}"
    if len(rows) > MAX_LINES:
        yield f"... and {len(rows) - MAX_LINES:,} more; -o judgements.json has them all"


_WORK: tuple[Argument | str, ...] = (
    arg(
        "files",
        metavar="FILE",
        nargs="+",
        help=(
            'runs (assay.run/1), lines of {"id", "input", "output", "reference"}, or an'
            " evaluation's name or latest"
        ),
    ).of_runs(items=True),
    arg(
        "--rubric",
        heading="grading",
        offers="rubrics",
        key="rubric",
        kind="name",
        metavar="R",
        required=True,
        help="rubric by name, name@version or YAML file",
    ),
    repeated(
        "--criterion",
        "NAME",
        "only this criterion of the rubric; may be repeated",
        kind="text",
        trust="freely",
    ),
    arg(
        "--output-field",
        kind="text",
        trust="freely",
        metavar="NAME",
        help="which of a run's outputs is judged (default: all of them)",
    ),
    flag("--with-reference", "show the judge what was expected of each run"),
    arg(
        "--samples",
        within=Bounds(least=1),
        metavar="N",
        type=int,
        default=1,
        help="draws of each question (default: 1)",
    ),
    arg(
        "--examples",
        kind="path",
        metavar="FILE",
        help=(
            'judged cases to show first: lines of {"input", "output", "score", "reason",'
            ' "criterion"}'
        ),
    ),
    flag("--replace", "replace scores that a run already has"),
    "--library",
    *STORE,
)

COMMANDS = {
    "judge rubric": Command(
        common.stored(_rubric),
        "Score texts against the criteria of a rubric: one question for each criterion, the reason"
        " before the score, quotes that must appear in the text.",
        "assay judge rubric runs.jsonl --rubric rag --judge judge.yaml -o judged.jsonl -o"
        " judgements.json",
        (*_WORK, *common.JUDGE),
        formats=(".json", ".jsonl"),
    ),
    "judge panel": Command(
        common.stored(_panel),
        "Ask several judges, ideally of different families, by one rubric: their mean or majority,"
        " and how far they disagree.",
        "assay judge panel runs.jsonl --rubric rag --judge a.yaml --judge b.yaml --judge c.yaml"
        " --vote majority -o judged.jsonl",
        (
            *_WORK,
            *common.JUDGES,
            arg(
                "--vote",
                choices=("mean", "majority"),
                default="mean",
                help="how the scores become one (default: mean)",
            ),
        ),
        formats=(".json", ".jsonl"),
    ),
}
