"""Rubric scoring: each item, each criterion, each sample is one question; an item's raw score is
the exact mean of its samples.

A criterion has a raw score only when every sample of it was scored. If the others were left out, a
judge that refuses bad answers would raise their mean.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from assay import exact
from assay.errors import InputError
from assay.grouping import grouped
from assay.judging.client import JudgeAnswer
from assay.judging.items import JudgedItem
from assay.judging.questions import LONGEST_REASON, Example, Question, RubricQuestion
from assay.scoring.rubric import Rubric, RubricCriterion

T = TypeVar("T")
R = TypeVar("R")
OUTCOMES = ("scored", "tie", "unparsable", "refused", "errored")
RAW_DIGITS = 6


class Asker(Protocol):
    """A source of answers: a client, or a file."""

    @property
    def width(self) -> int:
        """How many items to work on at once."""

    async def ask(self, question: Question, *, sample: int = 0) -> JudgeAnswer:
        """The answer to a question."""


class Judged(NamedTuple):
    """One criterion of one item, with all its samples."""

    item: str
    criterion: str
    raw: Any
    """The exact mean of the samples, or None."""
    why: str | None
    """Why there is no raw score."""
    answers: tuple[JudgeAnswer, ...]
    group: str | None = None
    disagreement: dict[str, Any] | None = None
    """How far the scores of several samples or judges differ, as it appears in a score; None if
    there was only one.
    """
    run: str | None = None
    """The digest of the run, where the item is one."""

    @property
    def reason(self) -> str:
        """Why the judge gave the score; with several samples, every reason once."""
        if self.raw is None:
            return ""
        return " / ".join({answer.reason[:LONGEST_REASON]: None for answer in self.answers})

    def shown(self) -> dict[str, Any]:
        """As it appears in `assay.judgements/1`."""
        samples = [
            {
                "outcome": answer.outcome,
                "score": None if answer.verdict is None else answer.verdict.score,
                "reason": answer.reason,
                "quotes": [] if answer.verdict is None else list(answer.verdict.quotes),
                "repaired": answer.repaired,
                "cached": answer.cached,
                "key": answer.key,
            }
            for answer in self.answers
        ]
        return {
            "id": self.item,
            "criterion": self.criterion,
            "raw": self.raw,
            "n": len(samples),
            "why": self.why,
            "group": self.group,
            "samples": samples,
            **({} if self.run is None else {"run": self.run}),
            **({} if self.disagreement is None else {"disagreement": self.disagreement}),
        }


async def spread(work: Callable[[T], Awaitable[R]], items: Iterable[T], *, width: int) -> list[R]:
    """Work on items, `width` at a time; the results are in the order of the items. The first error
    ends all work.
    """
    results: dict[int, R] = {}
    queue = iter(enumerate(items))

    async def worker() -> None:
        for index, item in queue:
            results[index] = await work(item)

    tasks = [asyncio.ensure_future(worker()) for _ in range(width)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [results[index] for index in range(len(results))]


def questions_of(
    items: Sequence[JudgedItem],
    rubric: Rubric,
    *,
    only: Sequence[str] = (),
    examples: Mapping[str, tuple[Example, ...]] | None = None,
) -> list[tuple[JudgedItem, RubricCriterion, RubricQuestion]]:
    """Every question that a rubric asks about every item."""
    criteria = [criterion for criterion in rubric.criteria if not only or criterion.name in only]
    if only and len(criteria) != len(set(only)):
        lost = sorted(set(only) - {criterion.name for criterion in criteria})
        raise InputError(
            "JDG-011",
            f"the rubric {rubric.id} has no criterion '{lost[0]}'.",
            fix=f"It has {', '.join(item.name for item in rubric.criteria)}.",
        )
    shots = examples or {}
    judged = {(example.task, example.candidate) for some in shots.values() for example in some}
    known = next((item.id for item in items if (item.task, item.candidate) in judged), None)
    if known is not None:  # a judge that repeats what it was shown would look well calibrated
        raise InputError(
            "JDG-005",
            f"the item {known!r} is also one of the examples, so the judge would be shown its"
            " score.",
            fix="Take it out of the examples.",
        )
    return [
        (
            item,
            criterion,
            RubricQuestion(
                criterion, item.task, item.candidate, item.reference, shots.get(criterion.name, ())
            ),
        )
        for item in items
        for criterion in criteria
    ]


async def judge_rubric(
    client: Asker,
    questions: Sequence[tuple[JudgedItem, RubricCriterion, RubricQuestion]],
    *,
    samples: int = 1,
) -> list[Judged]:
    """Ask every question `samples` times."""

    async def judge(work: tuple[JudgedItem, RubricCriterion, RubricQuestion]) -> Judged:
        item, criterion, question = work
        if item.missing is not None:
            return Judged(
                item.id, criterion.name, None, item.missing, (), item.group, run=item.run_digest
            )
        answers = tuple([await client.ask(question, sample=sample) for sample in range(samples)])
        raw, why = mean_of(answers)
        scores = [answer.verdict.score for answer in answers if answer.verdict is not None]
        return Judged(
            item.id,
            criterion.name,
            raw,
            why,
            answers,
            item.group,
            apart("samples", scores),
            item.run_digest,
        )

    return await spread(judge, questions, width=client.width)


def apart(between: str, scores: Sequence[Any]) -> dict[str, Any] | None:
    """How far scores of the same thing differ; None if there are fewer than two."""
    return (
        {"between": between, "n": len(scores), "low": min(scores), "high": max(scores)}
        if len(scores) > 1
        else None
    )


def mean_of(answers: Sequence[JudgeAnswer]) -> tuple[Any, str | None]:
    """The mean score of answers, or why there is none."""
    scores = [
        answer.verdict.score
        for answer in answers
        if answer.verdict is not None and answer.verdict.score is not None
    ]
    if len(scores) != len(answers):
        first = next(answer for answer in answers if answer.verdict is None)
        rest = (
            f"{len(answers) - len(scores):,} of {len(answers):,} samples have no verdict; the first"
            " is"
            if len(answers) > 1
            else "the judge's answer is"
        )
        return None, f"{rest} {first.outcome}: {first.reason}"
    return exact_mean(scores), None


def exact_mean(scores: Sequence[Any]) -> Any:
    """The mean as a decimal that is exact to six places.

    >>> exact_mean([4, 5]), exact_mean([4, 4]), exact_mean([4, 4, 5])
    (Decimal('4.5'), 4, Decimal('4.333333'))
    """
    mean = sum(map(Fraction, scores), Fraction(0)) / len(scores)
    if mean.denominator == 1:
        return int(mean)
    return (
        Decimal(exact.quantise(mean.numerator, mean.denominator, RAW_DIGITS))
        .scaleb(-RAW_DIGITS)
        .normalize()
    )


def counts_of(answers: Iterable[JudgeAnswer]) -> dict[str, int]:
    """How many answers had each outcome; every outcome is listed, even with a count of 0."""
    counts = Counter(answer.outcome for answer in answers)
    return {name: counts[name] for name in OUTCOMES}  # type: ignore[index]


def scored_runs(
    items: Sequence[JudgedItem],
    judged: Sequence[Judged],
    rubric: Rubric,
    *,
    scorer: Mapping[str, str | None],
    replace: bool,
) -> list[dict[str, Any]]:
    """The runs with the judge's scores in them, ready to be graded. `scorer` is the judge, as it
    goes into the source of each score.

    The rubric's name goes into the run, so that the scores are read on the rubric's scale wherever
    the run is graded. A run that names another rubric and a score that is already there are
    refused: a criterion has one source.
    """
    source = {key: value for key, value in scorer.items() if value is not None}
    judge: dict[str, str] = {
        "model": source["name"],
        **{key: source[key] for key in ("version", "prompt_version") if key in source},
    }
    by_item = grouped((one.item, one) for one in judged)
    runs = []
    for item in items:
        if item.run is None:
            raise InputError(
                "JDG-005",
                f"the item {item.id!r} is not a run, so there is no run to write.",
                fix="Write the judgements with -o FILE.json instead.",
            )
        tree: dict[str, Any] = msgspec.to_builtins(item.run, builtin_types=(Decimal,))
        named = tree["workflow"].get("rubric")
        if named not in (None, rubric.id, rubric.rubric_id):
            raise InputError(
                "JDG-005",
                f"the run {item.id!r} is to be graded by the rubric {named}, and was judged by"
                f" {rubric.id}.",
            )
        tree["workflow"]["rubric"] = rubric.id
        scores = tree.setdefault("scores", {})
        for one in by_item.get(item.id, ()):
            if one.criterion in scores and not replace:
                raise InputError(
                    "JDG-005",
                    f"the run {item.id!r} already has a score '{one.criterion}'.",
                    fix=(
                        "Use --replace to put the judge's in its place, or judge others with"
                        " --criterion."
                    ),
                )
            scores[one.criterion] = {
                "raw": one.raw,
                "n": len(one.answers) if one.raw is not None else 0,
                "source": source,
            }
            if one.disagreement is not None and one.raw is not None:
                scores[one.criterion]["disagreement"] = one.disagreement
        reasons = {
            judgement.criterion: judgement.reason
            for judgement in by_item.get(item.id, ())
            if judgement.reason
        }
        if reasons:
            metadata = tree.setdefault("metadata", {})
            before = metadata.get("judge_reasons")
            metadata["judge_reasons"] = {**(before if isinstance(before, dict) else {}), **reasons}
        tree["judge"] = judge
        runs.append(tree)
    return runs


Vote = Literal["mean", "majority"]


class Seat(NamedTuple):
    """One member's verdict on one criterion of one item."""

    judge: str
    raw: Any
    why: str | None


class Voted(NamedTuple):
    """One criterion of one item after the vote."""

    item: str
    criterion: str
    raw: Any
    why: str | None
    seats: tuple[Seat, ...]
    spread: Any
    """Highest minus lowest; None below two verdicts."""
    unanimous: bool | None

    def shown(self) -> dict[str, Any]:
        """As it appears in `assay.judgements/1`."""
        return {
            "id": self.item,
            "criterion": self.criterion,
            "raw": self.raw,
            "why": self.why,
            "spread": self.spread,
            "unanimous": self.unanimous,
            "judges": {seat.judge: {"raw": seat.raw, "why": seat.why} for seat in self.seats},
        }


def vote(item: str, criterion: str, seats: Sequence[Seat], *, by: Vote) -> Voted:
    """The panel's score of one criterion.

    >>> seats = [Seat("x", 4, None), Seat("y", 4, None), Seat("z", None, "refused")]
    >>> vote("i", "c", seats, by="majority").raw, vote("i", "c", seats, by="mean").raw
    (4, None)
    """
    present = [seat.raw for seat in seats if seat.raw is not None]
    spread = max(present) - min(present) if len(present) > 1 else None
    unanimous = None if len(present) < 2 else len(set(present)) == 1 and len(present) == len(seats)
    raw, why = _mean(seats, present) if by == "mean" else _majority(seats, present)
    return Voted(item, criterion, raw, why, tuple(seats), spread, unanimous)


def _mean(seats: Sequence[Seat], present: list[Any]) -> tuple[Any, str | None]:
    if len(present) < len(seats):
        absent = next(seat for seat in seats if seat.raw is None)
        return (
            None,
            (
                f"{len(seats) - len(present)} of {len(seats)} judges gave no score; {absent.judge}:"
                f" {absent.why}"
            ),
        )
    return exact_mean(present), None


def _majority(seats: Sequence[Seat], present: list[Any]) -> tuple[Any, str | None]:
    score, votes = Counter(present).most_common(1)[0] if present else (None, 0)
    if 2 * votes > len(seats):
        return score, None
    cast = ", ".join(f"{seat.judge}: {'none' if seat.raw is None else seat.raw}" for seat in seats)
    return None, f"no score has more than half of the {len(seats)} judges ({cast})"


def convene(members: Mapping[str, Sequence[Judged]], *, by: Vote) -> list[Voted]:
    """The votes on everything that the members judged; all were asked the same questions."""
    names = list(members)
    return [
        vote(
            rows[0].item,
            rows[0].criterion,
            [Seat(name, row.raw, row.why) for name, row in zip(names, rows, strict=True)],
            by=by,
        )
        for rows in zip(*members.values(), strict=True)
    ]
