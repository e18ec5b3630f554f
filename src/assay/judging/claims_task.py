"""Groundedness through a judge: for each claim of a run, whether the retrieved passages support it.

Only undecided claims are asked about, and only the judge's `no` or a quoted `yes` counts. A claim
without a verdict stays undecided, and the gate on groundedness then fails closed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import msgspec

from assay.errors import InputError
from assay.grouping import grouped
from assay.judging.client import JudgeAnswer
from assay.judging.items import JudgedItem
from assay.judging.questions import CLAIM_PROMPT, PASSAGE_PROMPT, ClaimQuestion, PassageQuestion
from assay.judging.rubric_task import Asker, spread
from assay.records.evidence import Run


class AskedPart(NamedTuple):
    """A claim or a passage of a run, or a statement of its expected answer, put to a judge."""

    run: str
    what: Literal["claim", "passage", "statement"]
    place: int
    question: ClaimQuestion | PassageQuestion


def claims_of(items: Sequence[JudgedItem], *, again: bool = False) -> list[AskedPart]:
    """The claims to ask about: those that are undecided, or all of them with `again`."""
    claims = []
    for item in items:
        if item.run is None:
            raise InputError(
                "JDG-005",
                f"the item {item.id!r} is not a run; claims need a run.",
            )
        context = context_of(item.run)
        for index, claim in enumerate(item.run.claims or ()):
            if again or claim.supported is None:
                question = ClaimQuestion(claim.text, context)
                claims.append(AskedPart(item.id, "claim", index, question))
    return claims


def context_of(run: Run) -> str:
    """The retrieved passages with their ids, in the order of their ranks."""
    passages = sorted(
        enumerate(run.retrieval or ()),
        key=lambda pair: (pair[1].rank is None, pair[1].rank or 0, pair[0]),
    )
    return "\n\n".join(f"[{passage.id}] {passage.text}" for _, passage in passages if passage.text)


async def judge_parts(client: Asker, parts: Sequence[AskedPart]) -> list[JudgeAnswer]:
    """Ask about every part, even about a claim without any context: nothing supports it, which the
    judge should find.
    """
    return await spread(lambda part: client.ask(part.question), parts, width=client.width)


def judged_runs(
    items: Sequence[JudgedItem],
    parts: Sequence[AskedPart],
    answers: Sequence[JudgeAnswer],
    *,
    model: str,
    version: str | None,
) -> list[dict[str, Any]]:
    """The runs with the judge's verdicts on their parts."""
    by_run = grouped(
        (one.run, (one, None if answer.verdict is None else bool(answer.verdict.score)))
        for one, answer in zip(parts, answers, strict=True)
    )
    runs = []
    for item in items:
        tree: dict[str, Any] = msgspec.to_builtins(item.run, builtin_types=(Decimal,))
        judged = by_run.get(item.id, [])
        for one, verdict in judged:
            if one.what == "claim":
                tree["claims"][one.place]["supported"] = verdict
            elif one.what == "passage":
                tree["retrieval"][one.place]["relevant"] = verdict
        statements = [
            {"text": part.question.texts[0], "supported": verdict}
            for part, verdict in judged
            if part.what == "statement"
        ]
        if statements:
            tree["expected_claims"] = statements
        if judged:
            tree["judge"] = {
                "model": model,
                "prompt_version": CLAIM_PROMPT if judged[0][0].what == "claim" else PASSAGE_PROMPT,
                **({} if version is None else {"version": version}),
            }
        runs.append(tree)
    return runs


MAX_STATEMENTS = 40
"""Statements of one expected answer that are asked about; the rest of it is left out."""
_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")


def passages_of(items: Sequence[JudgedItem], *, again: bool = False) -> list[AskedPart]:
    """What to ask: the undecided passages, or all of them with `again`, and the statements of each
    expected answer. Nothing if the dataset names the relevant passages.
    """
    passages: list[AskedPart] = []
    for item in items:
        run = item.run
        if run is None:
            raise InputError(
                "JDG-005", f"the item {item.id!r} is not a run; passages are part of a run."
            )
        if not run.retrieval or _names_relevant(run):
            continue
        statements = statements_of(run)
        reference = " ".join(statements) or None
        passages += [
            AskedPart(
                item.id, "passage", place, PassageQuestion(item.task, passage.text, reference)
            )
            for place, passage in enumerate(run.retrieval)
            if passage.text and (again or passage.relevant is None)
        ]
        claims = run.expected_claims or ()
        if again or not claims or any(claim.supported is None for claim in claims):
            context = context_of(run)
            passages += [
                AskedPart(item.id, "statement", place, ClaimQuestion(text, context))
                for place, text in enumerate(statements)
            ]
    return passages


def _names_relevant(run: Run) -> bool:
    return isinstance(run.expected, dict) and "relevant_ids" in run.expected


def statements_of(run: Run) -> list[str]:
    """The sentences of the expected answer: of the outputs that the workflow must give, of `answer`
    where it declares none, or of a plain text.

    >>> from assay.records.evidence import Dataset, Run, Workflow
    >>> run = Run(
    ...     schema="assay.run/1",
    ...     run_id="r",
    ...     status="success",
    ...     workflow=Workflow(id="w", version="1"),
    ...     dataset=Dataset(id="d", version="1", sample_id="s"),
    ...     expected="It is open. It closes at 9.",
    ... )
    >>> statements_of(run)
    ['It is open.', 'It closes at 9.']
    """
    if isinstance(run.expected, dict):
        names = run.required_outputs or ["answer"]
        given = [run.expected.get(name) for name in names]
    else:
        given = [run.expected]
    texts = [
        text
        for value in given
        for text in (value if isinstance(value, list) else [value])
        if isinstance(text, str)
    ]
    sentences = [part.strip() for text in texts for part in _END.split(text)]
    return [part for part in sentences if any(map(str.isalnum, part))][:MAX_STATEMENTS]


def weighed_runs(
    items: Sequence[JudgedItem],
    parts: Sequence[AskedPart],
    answers: Sequence[JudgeAnswer],
    *,
    model: str,
    version: str | None,
) -> list[dict[str, Any]]:
    """The runs with the judge's verdicts on their passages and expected answers."""
    runs = judged_runs(items, parts, answers, model=model, version=version)
    for item, tree in zip(items, runs, strict=True):
        if item.run is not None and item.run.retrieval == [] and not _names_relevant(item.run):
            # nothing was retrieved, so no statement is supported, without asking
            nothing = [{"text": text, "supported": False} for text in statements_of(item.run)]
            tree.update({"expected_claims": nothing} if nothing else {})
    return runs
