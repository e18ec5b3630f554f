"""A catalogue of questions: what a grading of an area must answer, with which values and weights,
and what may stay unanswered.

The catalogue decides this, never the entry: `n/a` and `stale` leave the mean, so an entry that
chose them for itself could leave out every bad answer. A node isn't stable if its grade would fall
below the limit once unproven answers counted as the worst (no evidence, an `n/a` that the catalogue
doesn't allow), weights that only the entry states as equal, or stale answers as they were before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from assay.errors import InputError
from assay.families.tools.aggregate import aggregate_answers, latest_answers
from assay.families.tools.aging import LIMITS
from assay.families.tools.answers import (
    DIMENSIONS,
    EXCLUDED,
    LOWEST,
    MOOT,
    NA_REASONS,
    check_weight,
    dimension_of,
)
from assay.families.tools.names import DETERMINISTIC, FULL, area_of
from assay.families.tools.policy import SchemaRules, at_least
from assay.families.tools.records import GradedAnswer, GradingEntry
from assay.files.json_files import parse_json
from assay.records.typed import convert
from assay.registry import nearest

Catalogue = Mapping[str, Mapping[str, Any]]

QUESTIONS = "questions.json"
FIELDS = ("area", "dimension", "weight", "determinism", "scoreType", "naReasons")
BOOLEAN, SCALE = "boolean", "scale-1-5"
TERMS = ("tosMatch", "legalAssessment")
"""Dimensions where a dead link is stale; everywhere else, a failed request is a failure."""


def read_catalogue(root: str) -> dict[str, dict[str, Any]]:
    """The catalogue that a tree keeps; empty if nobody has given one."""
    try:
        with open(os.path.join(root, QUESTIONS), "rb") as stream:
            return stated(convert(parse_json(stream.read()), dict[str, Any]))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise InputError(
            "FMC-012",
            f"the catalogue cannot be read: {error}.",
            where=os.path.join(root, QUESTIONS),
            fix="Restore it.",
        ) from None


def stated(questions: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What a catalogue states about each question; a bare text is its dimension."""
    made = {}
    for question, known in questions.items():
        if isinstance(known, str):
            known = {"dimension": known}
        if not isinstance(known, dict):
            raise InputError(
                "FMC-012",
                f"{question}: the catalogue has no object for it.",
                fix='Write {"weight": 1, "determinism": "..."}.',
            )
        if known.get("scoreType") not in (None, BOOLEAN, SCALE):
            raise InputError(
                "FMC-012",
                f"{question}: scoreType is {known['scoreType']!r}.",
                fix=f"It is {BOOLEAN} or {SCALE}.",
            )
        if not isinstance(known.get("naReasons", []), list):
            raise InputError(
                "FMC-012",
                f"{question}: naReasons must be a list.",
                fix="List the reasons for which this question may go unanswered.",
            )
        made[question] = {key: known[key] for key in FIELDS if known.get(key) is not None}
    return made


def given_catalogue(questions: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What a catalogue states that somebody gives now: a misspelt key, area or dimension is
    refused, because the catalogue would ask for less than it says.
    """
    for question, known in questions.items():
        fields = known if isinstance(known, dict) else {"dimension": known}
        refuse_slips(fields, FIELDS, question, cutoff=0.8)
        if fields.get("area") is not None:
            area_of(fields["area"])
        if isinstance(fields.get("dimension"), str):
            refuse_slips([fields["dimension"]], DIMENSIONS, f"the dimension of {question}")
    return stated(questions)


def refuse_slips(
    names: Iterable[str], known: Sequence[str], where: str, *, cutoff: float = 0.85
) -> None:
    """Refuse a name that is almost a known one."""
    for name in names:
        meant = None if name in known else nearest(name, known, cutoff=cutoff)
        if meant is not None:
            raise InputError(
                "FMC-012", f"{where}: '{name}' is not known.", fix=f"Did you mean '{meant}'?"
            )


def joined(held: Catalogue, given: Catalogue, where: str) -> dict[str, dict[str, Any]]:
    """The catalogue of a tree with the questions of another. A question never changes its text or
    its weight.
    """
    made = {question: dict(known) for question, known in held.items()}
    for question, known in given.items():
        mine = made.setdefault(question, {})
        for key, value in known.items():
            if mine.setdefault(key, value) != value:
                raise InputError(
                    "SCO-020",
                    f"{question}: {key} is {mine[key]}, not {value}.",
                    where=where,
                    fix="Give a changed question a new id.",
                )
    return made


def of_server(catalogue: Catalogue) -> dict[str, Any]:
    """The catalogue for the tools of a server, which may come without a text that says when to use
    them: what is not there is not scored.
    """
    return {
        **catalogue,
        _WHEN_TO_USE: {**catalogue.get(_WHEN_TO_USE, {}), "naReasons": [NA_REASONS[0]]},
    }


_WHEN_TO_USE = f"Q-{MOOT}"


def questions_of(catalogue: Catalogue, area: str) -> list[str]:
    """The questions of an area: those that say so, or whose id begins with its name."""
    return [
        question
        for question, known in catalogue.items()
        if known.get("area", area if question.startswith(f"Q-{area}-") else None) == area
    ]


def dimension(question: str, catalogue: Catalogue) -> str | None:
    """What a question asks about, by the catalogue or by its id."""
    dimension_stated = catalogue.get(question, {}).get("dimension")
    return str(dimension_stated) if dimension_stated is not None else dimension_of(question)


def answer_faults(
    answers: Sequence[GradedAnswer], area: str, catalogue: Catalogue, *, mode: str = FULL
) -> list[str]:
    """What the answers to an area may not be: in words that the question does not take, of another
    weight, too few, or to questions that are not asked.
    """
    faults = []
    for answer in answers:
        question, score = answer.question_id, answer.score
        known = catalogue.get(question, {})
        if score == "stale" and dimension(question, catalogue) not in LIMITS:
            faults.append(
                f"{question} is stale, and asks about nothing that ages ({', '.join(LIMITS)} do)."
            )
        if score in ("pass", "fail") and (
            answer.determinism != DETERMINISTIC or known.get("scoreType") == SCALE
        ):
            faults.append(
                f"{question} is scored {score}, which is for a deterministic yes or no; this one"
                " takes a number from 1 to 5."
            )
        if known.get("scoreType") == BOOLEAN and score not in ("pass", "fail", *EXCLUDED):
            faults.append(f"{question} is scored {score}, and the catalogue asks for pass or fail.")
        if known.get("determinism", answer.determinism) != answer.determinism:
            faults.append(
                f"{question} is {answer.determinism}, and the catalogue says"
                f" {known['determinism']}."
            )
        if "weight" in known and check_weight(answer.weight) != check_weight(known["weight"]):
            faults.append(
                f"{question} weighs {answer.weight}, and the catalogue says {known['weight']}."
            )
    required = questions_of(catalogue, area)
    if required and mode == FULL:
        given = {answer.question_id for answer in answers}
        faults += [
            f"{question} is not answered, and the catalogue asks it of {area}."
            for question in required
            if question not in given
        ]
        faults += [
            f"{question} is not a question that the catalogue asks of {area}."
            for question in sorted(given - {*required})
        ]
    return faults


def has_evidence(answer: GradedAnswer) -> bool:
    """Whether an answer gives its basis: evidence, or reasoning."""
    return any(
        bool(value.strip() if isinstance(value, str) else value)
        for value in (answer.evidence, answer.reasoning)
    )


def _unproven(
    answer: GradedAnswer, catalogue: Catalogue, before: Mapping[tuple[str, str], Any]
) -> str | None:
    """Why an answer, or its absence, cannot be relied on; None if it can."""
    question = answer.question_id
    if answer.score == "n/a":
        allowed = answer.na_reason in catalogue.get(question, {}).get("naReasons", ())
        return None if allowed else f"{question} is n/a, and no catalogue allows that"
    if answer.score == "stale":
        status = answer.evidence.get("httpStatus") if isinstance(answer.evidence, dict) else None
        dead = status not in (None, 200) and dimension(question, catalogue) in TERMS
        known = dead or (question, answer.timestamp) in before
        return None if known else f"{question} is stale, and was never answered before"
    return None if has_evidence(answer) else f"{question} has no evidence"


def shortfall(
    entry: GradingEntry,
    older: Sequence[GradingEntry],
    catalogue: Catalogue,
    rules: SchemaRules,
) -> str | None:
    """Why the grade of an entry makes no node stable; None if it does. `older` are the entries
    before it.
    """
    faults = answer_faults(entry.gradings, entry.area, catalogue)
    if faults:
        return faults[0]
    before: dict[tuple[str, str], Any] = {}
    for answer in (answer for entry in older for answer in entry.gradings):
        if answer.score not in EXCLUDED:
            key = (answer.question_id, answer.timestamp)
            both = (answer.score, before.get(key, answer.score))
            before[key] = min(both, key=lambda score: Fraction(*rules.worth(score)))
    reasons: list[str] = []
    worst: list[GradedAnswer] = []
    held, aged = [], []
    for answer in latest_answers(entry.gradings):
        reason = _unproven(answer, catalogue, before)
        reasons += [reason] if reason else []
        worst.append(replace(answer, score=LOWEST) if reason else answer)
        earlier = before.get((answer.question_id, answer.timestamp))
        if answer.score == "stale" and earlier is not None:
            # a bad answer must not help by growing old
            held.append(replace(answer, score=earlier))
            aged.append(f"{answer.question_id} was {earlier} before it was stale")
        else:
            held.append(worst[-1])
    for answers, why in ((worst, reasons), (held, reasons + aged)):
        alike = [
            answer
            if "weight" in catalogue.get(answer.question_id, {})
            else replace(answer, weight=1)
            for answer in answers
        ]
        for weighed, what in ((answers, why), (alike, [*why, "no catalogue states the weights"])):
            grade = aggregate_answers(weighed, entry.grading_tier, rules).grade
            if not at_least(grade, rules.policy.stable_from):
                return f"{'; '.join(what)}: at worst the grade is {grade or 'none'}"
    return None
