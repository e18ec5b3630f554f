"""Aging: an answer about the outside world goes stale; an answer about the schema itself never
does.

An old answer becomes `stale`, never `fail`: nothing was found wrong, the answer is just old. The
clock is passed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from assay import exact
from assay.canon import time_of, time_text
from assay.errors import InputError
from assay.families.tools.answers import check_score, dimension_of
from assay.families.tools.records import GradedAnswer

API_DAYS = 14
TOS_DAYS = 30
RETENTION_DAYS = 180
ABOUT_DAYS = 90
"""The limit for domain knowledge; a group may state another number, which is then recorded."""

LIMITS: dict[str, int] = {
    "apiAvailability": API_DAYS,
    "tosMatch": TOS_DAYS,
    "legalAssessment": TOS_DAYS,
}
"""The dimensions that age. Every other one, also one that nobody knows, is about the schema and
keeps its score.
"""

RETENTION_WARNING = "GRD-WARN-001"


def age_score(dimension: object, age_days: object, score: object) -> tuple[Any, str | None]:
    """A score at a certain age, and the warning about that, if any. Exactly at the limit it still
    holds.

    >>> age_score("apiAvailability", 14, "pass"), age_score("apiAvailability", 15, "pass")
    (('pass', None), ('stale', None))
    """
    check_score(score)
    try:
        age = exact.ratio(age_days)
    except ValueError as error:
        raise InputError("FMC-012", f"the age must be a number of days; {error}.") from None
    if age.num < 0:
        raise InputError(
            "FMC-013",
            f"the answer is {age_days} days old: it is dated in the future.",
            fix="Correct the clock, or pass --now.",
        )
    limit = LIMITS.get(dimension) if isinstance(dimension, str) else None
    over = limit is not None and age.num > limit * age.den
    warning = RETENTION_WARNING if age.num > RETENTION_DAYS * age.den else None
    return "stale" if over else score, warning


def stale_answers(
    answers: Sequence[GradedAnswer], now: datetime, *, dimensions: Mapping[str, str]
) -> list[str]:
    """The answers that are stale by now. Their days are shown, not their ages, which change."""
    warnings = []
    for answer, as_of_now in zip(
        answers, age_answers(answers, now, dimensions=dimensions)[0], strict=True
    ):
        question = answer.question_id
        if as_of_now.score == "stale" and answer.score != "stale":
            limit = LIMITS[str(dimensions.get(question) or dimension_of(question))]
            day = answer.timestamp[:10]
            warnings.append(f"{question} is stale: answered on {day}, limit {limit} days")
        elif answer.score == "stale":
            warnings.append(f"{question} is stale")
    return warnings


def age_answers(
    answers: Sequence[GradedAnswer],
    now: datetime,
    *,
    dimensions: Mapping[str, str] | None = None,
) -> tuple[list[GradedAnswer], list[str]]:
    """The answers as they are now, and what changed. n/a is not an answer and does not age.

    `dimensions` gives what a question asks about where its id does not.
    """
    aged, notes = [], []
    for answer in answers:
        question = answer.question_id
        moment = time_of(answer.timestamp)
        if moment is None:
            raise InputError(
                "FMC-012",
                f"{question}: {answer.timestamp!r} is not a time.",
                fix="An answer needs its time to age.",
            )
        if moment > now:
            raise InputError(
                "FMC-013",
                f"{question} was answered at {answer.timestamp}, in the future (now:"
                f" {time_text(now)}).",
                fix="Correct the clock, or pass --now.",
            )
        days = (now - moment) / timedelta(days=1)
        limit_of = (dimensions or {}).get(question) or dimension_of(question)
        score, warning = age_score(limit_of if answer.score != "n/a" else None, days, answer.score)
        if score != answer.score:
            notes.append(
                f"{question}: {answer.score} is stale, answered {days:.0f} days ago (limit"
                f" {LIMITS[str(limit_of)]})"
            )
            answer = replace(answer, score=score)
        if warning:
            notes.append(
                f"{warning} {question}: answered {days:.0f} days ago, beyond the"
                f" {RETENTION_DAYS} days for which answers are kept in use"
            )
        aged.append(answer)
    return aged, notes
