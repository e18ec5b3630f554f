"""Groundedness through a judge: for each claim of a run, whether the retrieved passages support it.

Only undecided claims are asked about, and only the judge's `no` or a quoted `yes` counts. A claim
without a verdict stays undecided, and the gate on groundedness then fails closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from assay.errors import InputError
from assay.judging.client import Answer
from assay.judging.items import Item
from assay.judging.questions import CLAIM_PROMPT, ClaimQuestion
from assay.judging.rubric_task import Asker, spread
from assay.records.evidence import Run


class AskedClaim(NamedTuple):
    """One claim of one run, put to a judge."""

    run: str
    place: int
    question: ClaimQuestion


def claims_of(items: Sequence[Item], *, again: bool = False) -> list[AskedClaim]:
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
                claims.append(AskedClaim(item.id, index, ClaimQuestion(claim.text, context)))
    return claims


def context_of(run: Run) -> str:
    """The retrieved passages with their ids, in the order of their ranks."""
    passages = sorted(
        enumerate(run.retrieval or ()),
        key=lambda pair: (pair[1].rank is None, pair[1].rank or 0, pair[0]),
    )
    return "\n\n".join(f"[{passage.id}] {passage.text}" for _, passage in passages if passage.text)


async def judge_claims(client: Asker, asked: Sequence[AskedClaim]) -> list[Answer]:
    """Ask about every claim, even one without any context: nothing supports it, which the judge
    should find.
    """
    return await spread(lambda claim: client.ask(claim.question), asked, width=client.width)


def decided_runs(
    items: Sequence[Item],
    asked: Sequence[AskedClaim],
    answers: Sequence[Answer],
    *,
    model: str,
    version: str | None,
) -> list[dict[str, Any]]:
    """The runs with the judge's verdicts on their claims."""
    verdicts: dict[tuple[str, int], bool | None] = {
        (one.run, one.place): None if answer.verdict is None else bool(answer.verdict.score)
        for one, answer in zip(asked, answers, strict=True)
    }
    runs = []
    for item in items:
        tree: dict[str, Any] = msgspec.to_builtins(item.run, builtin_types=(Decimal,))
        touched = False
        for index, claim in enumerate(tree.get("claims") or ()):
            if (item.id, index) in verdicts:
                claim["supported"] = verdicts[item.id, index]
                touched = True
        if touched:
            tree["judge"] = {
                "model": model,
                "prompt_version": CLAIM_PROMPT,
                **({} if version is None else {"version": version}),
            }
        runs.append(tree)
    return runs
