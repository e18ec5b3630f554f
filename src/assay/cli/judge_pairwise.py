"""`assay judge pairwise`: two answers to each task compared, in both orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.cli import judge as common
from assay.cli import options as opt
from assay.cli.frame import STORE, Bounds, Command, Options, arg
from assay.cli.judge_specs import specs_of
from assay.files.json_files import Document, stream_documents
from assay.judging.identity import definition_name, scorer_of
from assay.judging.items import AnswerPair, pair_up, read_items, read_pairs
from assay.judging.pairwise_task import (
    DEFINITION,
    compare,
    comparisons_document,
    pair_questions,
)
from assay.judging.questions import PAIRWISE_PROMPT
from assay.judging.rubric_task import counts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.archive.store import Store


def _pairwise(options: Options, store: Store | None) -> int:
    specs = specs_of(options, only="pairwise")
    opt.outputs(options)
    pairs = pairs_of(options.files)
    questions = [
        (question, 0)
        for pair in pairs
        for question in pair_questions(pair, options.seed, options.definition)
    ]
    if options.dry_run:
        more = "Each pair whose orders disagree takes two more calls."
        return common.dry_run(options, specs, questions, more=more)

    compared, usages = common.ask(
        options,
        specs,
        lambda clients: compare(
            clients[0], pairs, seed=options.seed, definition=options.definition
        ),
        total=len(questions),
    )
    counts = counts_of(look.answer for pair in compared for look in pair.looks)
    scorer = scorer_of(
        specs[0],
        prompt_version=PAIRWISE_PROMPT,
        rubric=definition_name(options.definition),
        answered=usages[0].answered_by,
    )
    document = comparisons_document(
        compared,
        judge=common.judge_shown(specs[0]),
        scorer=scorer,
        counts=counts,
        usage=usages[0],
        limit=options.limit,
        seed=options.seed,
    )
    common.note_usage(usages, counts)
    common.note_age(usages[0])
    return common.finish(
        options,
        store,
        document,
        document["sentences"],
        rows=lambda: [line for pair in compared for line in pair.verdicts()],
        whole=document["without_verdict"] == 0,
    )


def pairs_of(files: Sequence[str]) -> list[AnswerPair]:
    """The pairs of a file; or of two files of runs, candidate a and candidate b."""
    if len(files) == 2:
        heads = [
            next(
                (document for document in stream_documents(path) if isinstance(document, Document)),
                None,
            )
            for path in files
        ]
        if all(
            head is not None and isinstance(head.tree, dict) and "a" not in head.tree
            for head in heads
        ):
            return pair_up(read_items(files[:1]), read_items(files[1:]))
    return read_pairs(files)


COMMANDS = {
    "judge pairwise": Command(
        common.stored(_pairwise),
        "Compare two answers to each task in both orders; if the orders disagree, it asks"
        " once more, then calls a tie.",
        "assay judge pairwise pairs.jsonl --judge judge.yaml -o comparisons.json -o verdicts.jsonl",
        (
            arg(
                "files",
                metavar="FILE",
                nargs="+",
                help=(
                    'lines of {"id", "input", "a", "b", "reference", "label"}; or two files of'
                    " runs, candidate a and b"
                ),
            ),
            arg(
                "--definition",
                kind="text",
                trust="freely",
                metavar="TEXT",
                default=DEFINITION,
                help="what counts as better",
            ),
            arg(
                "--limit",
                within=Bounds(0, 1),
                metavar="X",
                type=float,
                default=0.10,
                help="warn above this rate of inconsistent pairs (default: 0.10)",
            ),
            *common.JUDGE,
            *STORE,
        ),
        formats=(".json", ".jsonl"),
    ),
}
