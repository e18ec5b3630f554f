"""What an evaluator submits: an envelope with the answers to the questions of one area.

What an answer lacks (weight, grader, time) must be in the envelope or in a catalogue of questions:
nothing is defaulted. Several envelopes must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from assay.canon import time_of, time_text
from assay.errors import InputError
from assay.families.tools.catalogue import TERMS, dimension, refuse_slips
from assay.families.tools.names import (
    BASE_PERSONAS,
    DETERMINISTIC,
    GROUP_BOUND,
    NEUTRAL,
    NON_DETERMINISTIC,
    SKEW,
    Area,
    area_of,
    segment,
)
from assay.families.tools.records import GradedAnswer, Persona
from assay.records.systems import Systems
from assay.records.typed import convert

PLACE = ("namespace", "schema", "tool", "skill", "selection")
_BINDING = ("categoricalVeto", "schemaHash", "scoringSystem", "answers", "gradings", "blocker")
"""Keys of an envelope that must not get lost by a slip of the pen."""
_AGREE = "Envelopes and options must agree."


def http_score(status: object) -> str:
    """The score of an HTTP answer: only 200 passes; 401 and 403 are not proof that a key would
    work.

    >>> http_score(200), http_score(403)
    ('pass', 'fail')
    """
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status <= 599:
        raise InputError("SCO-021", f"{status!r} is not an HTTP status.")
    return "pass" if status == 200 else "fail"


def terms_score(status: object) -> str:
    """The score of a link to terms: one that does not answer says nothing about the terms, so it is
    stale, never fail.

    >>> terms_score(200), terms_score(404)
    ('pass', 'stale')
    """
    return "pass" if http_score(status) == "pass" else "stale"


def http_fault(answer: GradedAnswer) -> str | None:
    """How a stored answer contradicts the HTTP status in its own evidence; None if it doesn't."""
    status = answer.evidence.get("httpStatus") if isinstance(answer.evidence, dict) else None
    if str(status) in ("None", "200") or answer.score in ("fail", "stale", 1):
        return None
    return f"{answer.question_id}: HTTP {status} is scored {answer.score}, and only 200 passes."


# --- answers


def complete_answers(
    envelope: Mapping[str, Any],
    catalogue: Mapping[str, Any],
    *,
    area: str,
    now: datetime | None = None,
) -> list[dict[str, Any]]:
    """The answers of an envelope with everything an entry needs, or the first thing that is
    missing.
    """
    answers = agreed_value((envelope.get(key) for key in ("answers", "gradings")), "answers")
    if (
        not isinstance(answers, list)
        or not answers
        or not all(isinstance(item, dict) for item in answers)
    ):
        raise InputError(
            "FMC-012",
            "the envelope has no answers.",
            fix="No answer is n/a with its reason, never an empty list.",
        )
    return [_complete(answer, envelope, catalogue, area_of(area), now) for answer in answers]


def _complete(
    answer: Mapping[str, Any],
    envelope: Mapping[str, Any],
    catalogue: Mapping[str, Any],
    area: Area,
    now: datetime | None,
) -> dict[str, Any]:
    question = str(answer.get("questionId"))
    if answer.get("isVeto") or answer.get("categoricalVeto"):
        # Other programs mark a veto so and leave the answer out of the mean. Read as a plain score,
        # the veto would be lost.
        raise InputError(
            "VET-002",
            f"{question} is marked as a veto, and an answer is not a veto.",
            fix="Give `categoricalVeto` next to the answers, with its evidence.",
        )
    known = catalogue.get(question, {})
    shared = ("graderIdentity", "llmModel", "selectionContext", "timestamp")
    whole = {
        **{key: answer.get(key) for key in ("questionId", "score", "naReason")},
        "weight": answer.get("weight", known.get("weight")),
        "determinism": answer.get(
            "determinism", known.get("determinism", envelope.get("determinism"))
        ),
        **{key: answer.get(key, envelope.get(key)) for key in shared},
        **{key: answer.get(key) for key in ("evidence", "reasoning")},
    }
    evidence = whole["evidence"]
    if isinstance(evidence, dict) and "httpStatus" in evidence:
        of_terms = dimension(question, catalogue) in TERMS
        due = (terms_score if of_terms else http_score)(evidence["httpStatus"])
        if whole["score"] is None:
            whole["score"] = due
        elif due != "pass" and whole["score"] not in ("fail", due, 1):
            raise InputError(
                "SCO-021",
                f"{question}: HTTP {evidence['httpStatus']} is scored {whole['score']}.",
                fix=f"Only 200 passes. Score it {due}, or leave out the score.",
            )
    for key in ("weight", "determinism", "graderIdentity", "timestamp"):
        if whole[key] is None:
            options = " or in --questions" if key in ("weight", "determinism") else ""
            raise InputError(
                "FMC-012",
                f"{question}: no {key}.",
                fix=f"Give it in the answer, in the envelope{options}; it is never guessed.",
            )
    moment = time_of(whole["timestamp"])
    if moment is None:
        raise InputError(
            "FMC-012", f"{question}: {whole['timestamp']!r} is not a time with a zone."
        )
    if now is not None and moment > now + SKEW:
        raise InputError(
            "FMC-013",
            f"{question} was answered at {whole['timestamp']}, in the future (now:"
            f" {time_text(now)}).",
            fix="Correct the clock, or pass --now.",
        )
    if whole["determinism"] == DETERMINISTIC:
        whole["selectionContext"] = answer.get("selectionContext")
    elif (
        whole["determinism"] == NON_DETERMINISTIC
        and whole["selectionContext"] is None
        and not area.persona
    ):
        whole["selectionContext"] = {"groupId": area.name, "personaIds": [NEUTRAL]}
    elif (
        area.persona
        and isinstance(whole["selectionContext"], dict)
        and whole["selectionContext"].get("personaIds") == [NEUTRAL]
    ):
        raise InputError(
            "GRD-005",
            f"{question} answers for the persona {NEUTRAL}, and {area.name} is bound to a persona.",
            fix=f"Name one of {', '.join(BASE_PERSONAS)} in selectionContext.personaIds.",
        )
    return {key: value for key, value in whole.items() if value is not None}


# --- the envelope


def agreed_value(values: Iterable[Any], what: str) -> Any:
    """The one value that all who give it agree on; None if nobody gives it. Two answers to one
    question are refused, not chosen from.
    """
    given: list[Any] = []
    for value in values:
        if value is not None and value not in given:
            given.append(value)
    if len(given) > 1:
        raise InputError("FMC-016", f"the {what} is {' and '.join(map(repr, given))}.", fix=_AGREE)
    return given[0] if given else None


def place_of(
    envelopes: Sequence[Mapping[str, Any]], given: Mapping[str, str], area: Area
) -> dict[str, str]:
    """The names of the node, from the options and the envelopes, which must agree."""
    also = {"skill": "skillId", "selection": "selectionId"}
    names = {}
    for key in PLACE:
        spellings = {key, also.get(key, key)}
        value = agreed_value(
            [given.get(key), *(item.get(name) for name in spellings for item in envelopes)], key
        )
        if value is not None:
            names[key] = segment(value, key)
    schema_id = agreed_value([item.get("schemaId") for item in envelopes], "schemaId")
    if area.tier != GROUP_BOUND and isinstance(schema_id, str):
        namespace, _, tail = schema_id.partition(".")
        for key, value in (
            ("namespace", namespace),
            ("tool", tail if area.name == "single-test" else None),
        ):
            if value and names.setdefault(key, segment(value, key)) != value:
                raise InputError(
                    "FMC-016",
                    f"the {key} is {names[key]!r} and the schemaId says {value!r}.",
                    fix=_AGREE,
                )
    needed = [part[1:-1] for part in area.folder.split("/") if part.startswith("{")]
    missing = [key for key in needed if key not in names]
    if missing:
        raise InputError(
            "FMC-012",
            f"the area {area.name} needs a {' and a '.join(missing)}.",
            fix=f"Give {', '.join('--' + key for key in missing)}, or name it in the envelope.",
        )
    return names


def check_envelope(envelope: Mapping[str, Any], systems: Systems) -> None:
    """Refuse an envelope with a misspelt key, a wrong count, wrong hints, or scores of another
    version.
    """
    given = [key for key, value in envelope.items() if value not in (None, [], {}, "")]
    refuse_slips(given, _BINDING, "the envelope")
    iteration = envelope.get("iteration", 0)
    if (
        not isinstance(iteration, int | None)
        or isinstance(iteration, bool)
        or not 0 <= (iteration or 0) <= 10
    ):
        raise InputError(
            "GRD-030",
            f"iteration is {iteration!r}.",
            fix="It counts from 1 to 5; older programs wrote up to 10.",
        )
    hints = envelope.get("improvementHints", [])
    if not isinstance(hints, list) or not all(
        isinstance(hint, dict) and hint.get("priority") in ("low", "medium", "high")
        for hint in hints
    ):
        raise InputError(
            "FMC-012",
            "improvementHints must be a list of hints with the priority low, medium or high.",
        )
    if envelope.get("scoringSystem") not in (None, systems.scoring):
        raise InputError(
            "SCO-022",
            f"the answers were scored under {envelope['scoringSystem']}, and this is"
            f" {systems.scoring}.",
            fix="Scores of two versions are never mixed: score again.",
        )


def persona_of(envelopes: Sequence[Mapping[str, Any]]) -> Persona | None:
    """The persona that the envelopes name."""
    given = [item["persona"] for item in envelopes if isinstance(item.get("persona"), dict)]
    persona = agreed_value(given, "persona")
    try:
        return None if persona is None else convert(persona, Persona)
    except msgspec.ValidationError as error:
        raise InputError("GRD-020", f"persona: {error}.") from None


def harness_of(envelopes: Sequence[Mapping[str, Any]], given: str | None) -> str:
    """What drove the evaluation."""
    stated = [item.get("harness") for item in envelopes]
    names = [item.get("name") if isinstance(item, dict) else item for item in stated]
    harness = agreed_value([given, *names], "harness")
    if not isinstance(harness, str) or not harness:
        raise InputError(
            "FMC-012",
            "the envelope names no harness.",
            fix="Name what drove the evaluation: harness in the envelope, or --harness.",
        )
    return harness
