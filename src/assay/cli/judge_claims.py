"""`assay judge claims` and `judge passages`: groundedness, and what was retrieved, through a
judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.cli import judge as common
from assay.cli.frame import STORE, Command, Options, arg, flag
from assay.cli.judge_specs import only, specs_of
from assay.errors import NotEnoughEvidence
from assay.judging.claims_task import claims_of, judge_parts, judged_runs
from assay.judging.items import read_items
from assay.judging.passages_task import passages_of, weighed_runs
from assay.judging.questions import CLAIM_PROMPT, PASSAGE_PROMPT
from assay.judging.rubric_task import counts_of
from assay.records.grade import ENGINE

if TYPE_CHECKING:
    from assay.archive.store import Store
    from assay.judging.client import Answer, Client


def _claims(options: Options, store: Store | None) -> int:
    specs = specs_of(options)
    only(specs, "claims")
    items = read_items(options.files)
    claims = claims_of(items, again=options.again)
    if not claims:
        raise NotEnoughEvidence(
            "JDG-010",
            "there is no undecided claim in these runs.",
            fix="--again asks about decided ones too.",
        )
    if options.dry_run:
        return common.dry_run(options, specs, [(one.question, 0) for one in claims])

    async def ask(clients: list[Client]) -> list[Answer]:
        return await judge_parts(clients[0], claims)

    answers, usages = common.ask(options, specs, ask, total=len(claims))
    counts = counts_of(answers)
    verdicts = [
        None if answer.verdict is None else bool(answer.verdict.score) for answer in answers
    ]
    rows = [
        {
            "run": one.run,
            "claim": one.question.texts[0],
            "outcome": answer.outcome,
            "supported": verdict,
            "quotes": [] if answer.verdict is None else list(answer.verdict.quotes),
            "reason": answer.reason,
            "key": answer.key,
        }
        for one, answer, verdict in zip(claims, answers, verdicts, strict=True)
    ]
    document = {
        "schema": "assay.claims/1",
        "judge": common.judge_shown(specs[0]),
        "warnings": common.warnings_in(usages),
        "prompt_version": CLAIM_PROMPT,
        "claims": rows,
        "counts": counts,
        "usage": usages[0],
        **ENGINE,
    }
    sentence = (
        f"{verdicts.count(True)} of {len(verdicts)} claims are supported,"
        f" {verdicts.count(False)} are not, {verdicts.count(None)} have no verdict"
    )
    common.note_usage(usages, counts)
    return common.finish(
        options,
        store,
        document,
        [sentence],
        rows=lambda: judged_runs(
            items, claims, answers, model=specs[0].model, version=specs[0].version
        ),
        whole=None not in verdicts,
    )


def _passages(options: Options, store: Store | None) -> int:
    specs = specs_of(options)
    only(specs, "passages")
    items = read_items(options.files)
    asked = passages_of(items, again=options.again)
    if not asked:
        raise NotEnoughEvidence(
            "JDG-010",
            "there is no undecided passage in these runs.",
            fix="--again asks about decided ones too. Runs whose dataset gives"
            " `expected.relevant_ids` need no judge for this.",
        )
    if options.dry_run:
        return common.dry_run(options, specs, [(one.question, 0) for one in asked])

    async def ask(clients: list[Client]) -> list[Answer]:
        return await judge_parts(clients[0], asked)

    answers, usages = common.ask(options, specs, ask, total=len(asked))
    counts = counts_of(answers)
    rows: list[dict[str, Any]] = [
        {
            "run": one.run,
            "kind": one.what,
            "text": one.question.texts[0],
            "outcome": answer.outcome,
            "verdict": None if answer.verdict is None else bool(answer.verdict.score),
            "quotes": [] if answer.verdict is None else list(answer.verdict.quotes),
            "reason": answer.reason,
            "key": answer.key,
        }
        for one, answer in zip(asked, answers, strict=True)
    ]
    document = {
        "schema": "assay.passages/1",
        "judge": common.judge_shown(specs[0]),
        "warnings": common.warnings_in(usages),
        "prompt_version": PASSAGE_PROMPT,
        "passages": rows,
        "counts": counts,
        "usage": usages[0],
        **ENGINE,
    }
    lines = []
    for kind, holds in (
        ("passage", "passages are relevant"),
        ("statement", "statements of the expected answers are in the passages"),
    ):
        verdicts = [row["verdict"] for row in rows if row["kind"] == kind]
        if verdicts:
            lines.append(
                f"{verdicts.count(True)} of {len(verdicts)} {holds},"
                f" {verdicts.count(False)} are not, {verdicts.count(None)} have no verdict"
            )
    common.note_usage(usages, counts)
    return common.finish(
        options,
        store,
        document,
        lines,
        rows=lambda: weighed_runs(
            items, asked, answers, model=specs[0].model, version=specs[0].version
        ),
        whole=all(row["verdict"] is not None for row in rows),
    )


COMMANDS = {
    "judge claims": Command(
        common.stored(_claims),
        "Decide whether the retrieved context supports each claim: a yes needs a quote from the"
        " context. Writes the runs with `supported` decided.",
        "assay judge claims runs.jsonl --judge judge.yaml -o grounded.jsonl",
        (
            arg(
                "files",
                metavar="FILE",
                nargs="+",
                help="runs (assay.run/1) with claims and retrieval, or an evaluation's name",
            ).of_runs(),
            flag("--again", "also ask about claims that are already decided"),
            *common.JUDGE,
            *STORE,
        ),
        formats=(".json", ".jsonl"),
    ),
    "judge passages": Command(
        common.stored(_passages),
        "Decide whether each retrieved passage helps to answer the question, and which statements"
        " of the expected answer the passages contain. Writes the runs with `relevant` and"
        " `expected_claims` decided, for context precision and recall.",
        "assay judge passages runs.jsonl --judge judge.yaml -o judged.jsonl",
        (
            arg(
                "files",
                metavar="FILE",
                nargs="+",
                help="runs (assay.run/1) with retrieval, and an expected answer for recall",
            ),
            flag("--again", "also ask about passages that are already decided"),
            *common.JUDGE,
            *STORE,
        ),
        formats=(".json", ".jsonl"),
    ),
}
