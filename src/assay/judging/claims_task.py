"""Groundedness through a judge: for each claim of a run, whether the retrieved passages support it.

Only undecided claims are asked about, and only the judge's `no` or a quoted `yes` counts. A claim
without a verdict stays undecided, and the gate on groundedness then fails closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import msgspec

from assay.errors import InputError
from assay.grouping import grouped
from assay.judging.client import JudgeAnswer
from assay.judging.items import JudgedItem
from assay.judging.questions import (
    CLAIM_PROMPT,
    PASSAGE_PROMPT,
    ClaimQuestion,
    PassageQuestion,
)
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
