"""`assay judge claims`: groundedness through a judge."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from assay.cli import judge as common
from assay.cli import options as opt
from assay.cli.ledger import add_store, storing
from assay.errors import ExitCode, NotEnoughEvidence
from assay.judging.claims_task import claims_of, decided_runs, judge_claims
from assay.judging.items import read_items
from assay.judging.questions import CLAIM_PROMPT
from assay.judging.rubric_task import counts_of
from assay.records.grade import ENGINE
from assay.views.documents import encode

if TYPE_CHECKING:
    import argparse

    from assay.archive.store import Store
    from assay.judging.client import Answer, Client


def claims(argv: list[str]) -> int:
    """Decide the claims of runs by what they retrieved."""
    made = opt.parser(
        "judge claims",
        "Whether the retrieved context bears each claim out: a yes needs a quote from the context."
        " Writes the runs with `supported` decided.",
        "assay judge claims runs.jsonl --judge judge.yaml -o grounded.jsonl",
    )
    made.add_argument(
        "files", metavar="FILE", nargs="+", help="runs (assay.run/1) with claims and retrieval"
    )
    made.add_argument(
        "--again", action="store_true", help="ask about claims that are already decided too"
    )
    common.add_judge(made)
    opt.add_output(made, (".json", ".jsonl"))
    add_store(made)
    options = made.parse_args(argv)
    with storing(options) as store:
        return _claims(options, store)


def _claims(options: argparse.Namespace, store: Store | None) -> int:
    specs = common.specs_of(options)[:1]
    items = read_items(options.files)
    asked = claims_of(items, again=options.again)
    if not asked:
        raise NotEnoughEvidence(
            "JDG-010",
            "there is no undecided claim in these runs.",
            fix="--again asks about decided ones too.",
        )
    if options.dry_run:
        return common.dry_run(options, specs, [(one.question, 0) for one in asked])
    with common.journal_of(options) as journal:

        async def ask(clients: list[Client]) -> list[Answer]:
            return await judge_claims(clients[0], asked)

        answers, usages = common.work(specs, journal, ask, seed=options.seed, total=len(asked))
    counts = counts_of(answers)
    rows = [
        {
            "run": one.run,
            "claim": one.question.claim,
            "outcome": answer.outcome,
            "supported": None if answer.verdict is None else bool(answer.verdict.score),
            "quotes": [] if answer.verdict is None else list(answer.verdict.quotes),
            "reason": answer.reason,
            "key": answer.key,
        }
        for one, answer in zip(asked, answers, strict=True)
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
    common.keep(store, document)
    trees = decided_runs(items, asked, answers, model=specs[0].model, version=specs[0].version)
    common.write_outputs(
        options, {".jsonl": lambda: b"".join(encode(tree) + b"\n" for tree in trees)}, document
    )
    if options.json:
        opt.print_json(document)
    else:
        said = [row["supported"] for row in rows]
        sys.stdout.write(
            f"{said.count(True)} of {len(said)} claims are borne out, {said.count(False)} are not,"
            f" {said.count(None)} have no verdict\n"
        )
    common.note_usage(usages, counts)
    return (
        ExitCode.PASSED
        if all(answer.verdict is not None for answer in answers)
        else ExitCode.NOT_ENOUGH
    )
