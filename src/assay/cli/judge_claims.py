"""`assay judge claims` and `judge passages`: groundedness, and what was retrieved, through a
judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.cli import judge as common
from assay.cli.frame import STORE, Command, Options, arg, flag
from assay.cli.judge_specs import specs_of
from assay.errors import NotEnoughEvidence
from assay.judging.claims_task import claims_of, judge_parts, judged_runs
from assay.judging.items import read_items
from assay.judging.passages_task import passages_of, weighed_runs
from assay.judging.questions import CLAIM_PROMPT, PASSAGE_PROMPT
from assay.judging.rubric_task import counts_of
from assay.records.grade import ENGINE

if TYPE_CHECKING:
    from assay.archive.store import Store


class _Work(NamedTuple):
    """What one of the two actions asks about, and what it makes of the answers."""

    action: str
    noun: str
    collect: Callable[..., list[Any]]
    prompt: str
    row: Callable[[Any], dict[str, Any]]
    verdict: str
    """The key of the verdict in a row."""
    decided: Callable[..., Iterable[Any]]
    sentences: dict[str, str]
    """For each kind of thing that is asked about, the sentence of those that hold."""
    hint: str = ""


_CLAIMS = _Work(
    "claims",
    "claim",
    claims_of,
    CLAIM_PROMPT,
    lambda part: {"claim": part.question.texts[0]},
    "supported",
    judged_runs,
    {"claim": "claims are supported"},
)
_PASSAGES = _Work(
    "passages",
    "passage",
    passages_of,
    PASSAGE_PROMPT,
    lambda part: {"kind": part.what, "text": part.question.texts[0]},
    "verdict",
    weighed_runs,
    {
        "passage": "passages are relevant",
        "statement": "statements of the expected answers are in the passages",
    },
    " Runs whose dataset gives `expected.relevant_ids` need no judge for this.",
)


def _decide(work: _Work, options: Options, store: Store | None) -> int:
    specs = specs_of(options, only=work.action)
    items = read_items(options.files)
    parts = work.collect(items, again=options.again)
    if not parts:
        raise NotEnoughEvidence(
            "JDG-010",
            f"there is no undecided {work.noun} in these runs.",
            fix=f"--again asks about decided ones too.{work.hint}",
        )
    if options.dry_run:
        return common.dry_run(options, specs, [(part.question, 0) for part in parts])

    answers, usages = common.ask(
        options, specs, lambda clients: judge_parts(clients[0], parts), total=len(parts)
    )
    counts = counts_of(answers)
    verdicts = [
        None if answer.verdict is None else bool(answer.verdict.score) for answer in answers
    ]
    rows = [
        {
            "run": part.run,
            **work.row(part),
            "outcome": answer.outcome,
            work.verdict: verdict,
            "quotes": [] if answer.verdict is None else list(answer.verdict.quotes),
            "reason": answer.reason,
            "key": answer.key,
        }
        for part, answer, verdict in zip(parts, answers, verdicts, strict=True)
    ]
    document = {
        "schema": f"assay.{work.action}/1",
        "judge": common.judge_shown(specs[0]),
        "warnings": common.warnings_in(usages),
        "prompt_version": work.prompt,
        work.action: rows,
        "counts": counts,
        "usage": usages[0],
        **ENGINE,
    }
    lines = []
    for kind, holds in work.sentences.items():
        own = [row[work.verdict] for row in rows if row.get("kind", kind) == kind]
        if own:
            lines.append(
                f"{own.count(True)} of {len(own)} {holds},"
                f" {own.count(False)} are not, {own.count(None)} have no verdict"
            )
    common.note_usage(usages, counts)
    return common.finish(
        options,
        store,
        document,
        lines,
        rows=lambda: work.decided(
            items, parts, answers, model=specs[0].model, version=specs[0].whole_version
        ),
        whole=None not in verdicts,
    )


COMMANDS = {
    "judge claims": Command(
        common.stored(partial(_decide, _CLAIMS)),
        "Decide whether the retrieved context supports each claim: a yes needs a quote from the"
        " context. Writes the runs with `supported` decided.",
        "assay judge claims runs.jsonl --judge judge.yaml -o grounded.jsonl",
        (
            arg(
                "files",
                metavar="FILE",
                nargs="+",
                help=(
                    "runs (assay.run/1) with claims and retrieval, or an evaluation's name or"
                    " latest"
                ),
            ).of_runs(),
            flag("--again", "also ask about claims that are already decided"),
            *common.JUDGE,
            *STORE,
        ),
        formats=(".json", ".jsonl"),
    ),
    "judge passages": Command(
        common.stored(partial(_decide, _PASSAGES)),
        "Decide whether each retrieved passage helps to answer the question, and which statements"
        " of the expected answer the passages contain. Writes the runs with `relevant` and"
        " `expected_claims` decided, for context precision and recall.",
        "assay judge passages runs.jsonl --judge judge.yaml -o judged.jsonl",
        (
            arg(
                "files",
                metavar="FILE",
                nargs="+",
                help=(
                    "runs (assay.run/1) with retrieval, and an expected answer for recall, or an"
                    " evaluation's name or latest"
                ),
            ).of_runs(),
            flag("--again", "also ask about passages that are already decided"),
            *common.JUDGE,
            *STORE,
        ),
        formats=(".json", ".jsonl"),
    ),
}
