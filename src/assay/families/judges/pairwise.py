"""Pairwise comparison: every pair in both orders; if the orders disagree, both are asked once more;
if they still disagree, it is a tie.

The seed decides which order is asked first. The rate of inconsistent pairs is that of the first
pass. A pair with an unusable answer has no winner: it is counted as unusable, never as a tie.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from assay.errors import count
from assay.grading.policy import disagrees_too_often
from assay.judging.client import JudgeAnswer, Usage
from assay.judging.items import AnswerPair
from assay.judging.questions import PAIRWISE_PROMPT, Order, PairQuestion
from assay.judging.rubric_task import OUTCOMES, Asker, spread
from assay.records.grade import ENGINE
from assay.stats.intervals import wilson

DEFINITION = (
    "The better answer does what the task asks: it is correct, complete, and says nothing that is"
    " not so."
)
Winner = Literal["a", "b", "tie"]


class Look(NamedTuple):
    """One answer about a pair, in one order."""

    order: Order
    round: int
    answer: JudgeAnswer

    @property
    def winner(self) -> Winner | None:
        """Who won, by name."""
        return None if self.answer.verdict is None else self.answer.verdict.winner


class Compared(NamedTuple):
    """One pair with all its answers."""

    pair: AnswerPair
    looks: tuple[Look, ...]
    winner: Winner | None
    decided: str
    """How: consistent, consistent on the second pass, inconsistent, or why there is no verdict."""

    @property
    def consistent(self) -> bool | None:
        """Whether both orders of the first pass agree; None if one of them has no verdict."""
        first = [look.winner for look in self.looks if look.round == 0]
        return None if None in first else first[0] == first[1]

    def shown(self) -> dict[str, Any]:
        """As it appears in `assay.comparisons/1`."""
        runs = zip(("a_run", "b_run"), self.pair.runs, strict=True)
        return {
            "id": self.pair.id,
            **{side: run for side, run in runs if run is not None},
            "winner": self.winner,
            "decided": self.decided,
            "consistent": self.consistent,
            "label": self.pair.label,
            "group": self.pair.group,
            "looks": [
                {
                    "order": look.order,
                    "round": look.round,
                    "outcome": look.answer.outcome,
                    "winner": look.winner,
                    "reason": look.answer.reason,
                    "repaired": look.answer.repaired,
                    "cached": look.answer.cached,
                    "key": look.answer.key,
                }
                for look in self.looks
            ],
        }

    def verdicts(self) -> list[dict[str, str | None]]:
        """The first pass, one line for each order, as `assay measure pairwise` reads them."""
        return [
            {
                "id": self.pair.id,
                "order": look.order,
                "winner": look.winner,
                "label": self.pair.label,
            }
            for look in self.looks
            if look.round == 0
        ]


def first_order(pair_id: str, seed: int) -> Order:
    """Which order of a pair is asked first: at random, but always the same for the same seed.

    >>> first_order("p-1", 0) == first_order("p-1", 0)
    True
    """
    return "ab" if random.Random(f"{seed}:{pair_id}").random() < 0.5 else "ba"  # noqa: S311


async def compare(
    client: Asker,
    pairs: Sequence[AnswerPair],
    *,
    seed: int = 0,
    definition: str = DEFINITION,
) -> list[Compared]:
    """Compare every pair."""
    return await spread(
        lambda pair: compare_pair(client, pair, seed=seed, definition=definition),
        pairs,
        width=client.width,
    )


def pair_questions(pair: AnswerPair, seed: int, definition: str) -> list[PairQuestion]:
    """The question about a pair in both orders; the seed draws which comes first."""
    first = first_order(pair.id, seed)
    orders: tuple[Order, Order] = (first, "ba" if first == "ab" else "ab")
    return [
        PairQuestion(definition, pair.task, pair.a, pair.b, order, pair.reference)
        for order in orders
    ]


async def compare_pair(client: Asker, pair: AnswerPair, *, seed: int, definition: str) -> Compared:
    """One pair: both orders, and both again where they disagree."""
    questions = pair_questions(pair, seed, definition)
    looks: list[Look] = []
    for round_ in (0, 1):
        answers = await asyncio.gather(
            *(client.ask(question, sample=round_) for question in questions)
        )
        now = [
            Look(question.order, round_, answer)
            for question, answer in zip(questions, answers, strict=True)
        ]
        looks += now
        lost = next((look.answer for look in now if look.winner is None), None)
        if lost is not None:
            return Compared(pair, tuple(looks), None, f"{lost.outcome}: {lost.reason}")
        if now[0].winner == now[1].winner:
            return Compared(
                pair,
                tuple(looks),
                now[0].winner,
                "consistent" if round_ == 0 else "consistent on the second pass",
            )
    return Compared(pair, tuple(looks), "tie", "inconsistent in both passes, so a tie")


def tally(compared: Sequence[Compared]) -> dict[str, int]:
    """Wins, losses and ties of candidate a after re-runs, and the pairs without a verdict."""
    winners = [pair.winner for pair in compared]
    return {
        "wins": winners.count("a"),
        "losses": winners.count("b"),
        "ties": winners.count("tie"),
        "without_verdict": winners.count(None),
    }


def comparisons_document(
    compared: Sequence[Compared],
    *,
    judge: dict[str, Any],
    scorer: Mapping[str, str | None],
    counts: dict[str, int],
    usage: Usage | None,
    limit: float,
    seed: int,
) -> dict[str, Any]:
    """`assay.comparisons/1`: the tally after re-runs, the consistency of the first pass, and every
    pair; `score` is ready to be put into a run.
    """
    counted = tally(compared)
    looked = [pair.consistent for pair in compared if pair.consistent is not None]
    inconsistent = looked.count(False)
    rate = wilson(inconsistent, len(looked))
    is_above = bool(looked) and disagrees_too_often(
        Fraction(inconsistent, len(looked)), Fraction(str(limit))
    )
    decided = counted["wins"] + counted["losses"] + counted["ties"]
    win_rate = (counted["wins"] + counted["ties"] / 2) / decided if decided else None
    raw_score = {name: counted[name] for name in ("wins", "losses", "ties")}
    apart = {"between": "orders", "n": len(looked), "inconsistent": inconsistent}
    score = {
        "raw": raw_score,
        "n": decided,
        "source": {key: value for key, value in scorer.items() if value is not None},
        **({"disagreement": apart} if looked else {}),
    }
    sentences = [
        f"candidate a: {count(counted['wins'], 'win')},"
        f" {count(counted['losses'], 'loss', 'losses')}, {count(counted['ties'], 'tie')}"
        + (f"; win rate {win_rate:.3f}, ties as half" if win_rate is not None else "")
        + (
            f"; {count(counted['without_verdict'], 'pair')} without a verdict"
            if counted["without_verdict"]
            else ""
        ),
    ]
    if looked:
        sentences.append(
            f"the two orders disagree on {inconsistent} of {len(looked)} pairs:"
            f" {rate.value:.3f} ({rate.low:.3f} to {rate.high:.3f})"
        )
        if is_above:
            sentences.append(
                f"warning: that is above {limit:g}. Order moves this judge; it should not gate."
            )
    return {
        "schema": "assay.comparisons/1",
        "judge": judge,
        "scorer": scorer,
        "warnings": [] if usage is None else usage.warnings,
        "prompt_version": PAIRWISE_PROMPT,
        "seed": seed,
        "pairs": len(compared),
        **counted,
        "raw_score": raw_score,
        "score": score,
        "win_rate": win_rate,
        "inconsistency_rate": rate.shown(),
        "inconsistency_warning": is_above,
        "items": [pair.shown() for pair in compared],
        "counts": {name: counts[name] for name in OUTCOMES},
        "usage": usage,
        "sentences": sentences,
        **ENGINE,
    }
