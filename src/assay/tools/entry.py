"""Grading entries: built, validated, read. The one durable thing a grader leaves.

An entry is written in the strict published form wherever that form can say the truth. What it has
no room for (another harness than the one it knows, an unpublished policy, a set of answers of which
none counts, a blocked node) is written in our extended form, which says so in `form`. Where they
lie: `tree`.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import Fault, InputError
from assay.records.systems import GRADING_PATTERN, SCORING_PATTERN
from assay.registry import near_miss
from assay.tools.aggregate import Aggregate, aggregate_answers
from assay.tools.answers import (
    EXCLUDED,
    LEGAL_DISCLAIMER,
    NA_REASONS,
    check_answer,
    dimension_of,
    shown,
)
from assay.tools.names import (
    AREAS,
    AUTONOMOUS,
    FULL,
    GROUP_BOUND,
    NON_DETERMINISTIC,
    PARTIAL,
    REJECTED,
    area_of,
    is_hash8,
    iso,
    stamp,
)
from assay.tools.versions import CURRENT, KNOWN_GRADING, Systems
from assay.tools.veto import evidence_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import jsonschema_rs

    from assay.tools.policy import SchemaRules

STRICT_HARNESS = "claude-code"
"""The only harness that the strict form knows; any other is written in the extended form, never
disguised.
"""
EXTENDED_FORM = "assay.grading-entry/1"
TRIGGERS = ("user-report", "scheduled", "scoring-system-bump", "grading-system-bump")
BLOCKED_REASONS = (
    "validation-failed",
    "fewer-than-three-tests",
    "fewer-than-two-tests",
    "no-about",
    "api-down",
    "all-schemas-unparseable",
    "not-imported",
)
_DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


# --- the two forms


@cache
def published_schema(name: str) -> dict[str, Any]:
    """A published JSON Schema that ships with the product: `grading-entry` or `index`."""
    import json  # a few milliseconds, and only where a schema is needed

    with open(os.path.join(_DATA, f"{name}.schema.json"), encoding="utf-8") as stream:
        schema: dict[str, Any] = json.load(stream)
    return schema


@cache
def extended_schema() -> dict[str, Any]:
    """The JSON Schema of our extended form: the published one, opened where the truth does not fit
    into it.
    """
    strict = published_schema("grading-entry")
    properties = dict(strict["properties"])
    properties["form"] = {"const": EXTENDED_FORM}
    properties["harness"] = {"type": "string", "minLength": 1}
    properties["version"] = {"type": "string", "minLength": 1}
    properties["scoringSystem"] = {"type": "string", "pattern": SCORING_PATTERN}
    properties["gradingSystem"] = {"type": "string", "pattern": GRADING_PATTERN}
    properties["aggregateGrade"] = {"enum": [*strict["properties"]["aggregateGrade"]["enum"], None]}
    properties["gradings"] = {**strict["properties"]["gradings"], "minItems": 0}
    properties["rawGrade"] = {"enum": ["A", "B", "C", "D", "F", None]}
    properties["normalizedScore"] = {"type": ["number", "null"]}
    properties["blocked"] = {"type": "boolean"}
    properties["blockedReason"] = {"enum": list(BLOCKED_REASONS)}
    properties["notes"] = {"type": "array", "items": {"type": "string"}}
    return {
        **strict,
        "$id": "urn:assay:grading-entry:1",
        "title": "Grading entry, extended form",
        "description": (
            "The published grading entry, for what that has no room for: another harness, an"
            " unpublished policy, no grade yet, a blocked node."
        ),
        "required": [*strict["required"], "form"],
        "properties": properties,
    }


@cache
def _validator(extended: bool) -> jsonschema_rs.Draft202012Validator:
    import jsonschema_rs

    schema = extended_schema() if extended else published_schema("grading-entry")
    return jsonschema_rs.Draft202012Validator(schema, offline=True, validate_formats=True)


def is_extended(entry: object) -> bool:
    """Whether an entry says that it is of the extended form."""
    return isinstance(entry, dict) and entry.get("form") == EXTENDED_FORM


def schema_valid(entry: Any) -> bool:
    """Whether an entry is of the form it says it is of."""
    return bool(_validator(is_extended(entry)).is_valid(entry))


def schema_faults(entry: Any) -> list[str]:
    """What breaks the form, place by place."""
    found = []
    for error in _validator(is_extended(entry)).iter_errors(entry):
        path = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path
        ).lstrip(".")
        found.append(f"{path or 'the entry'}: {error.message}")
    return found


def semantic_faults(entry: dict[str, Any]) -> list[str]:
    """What the form allows and the rules do not: five gaps of the published schema."""
    found = []
    grade, veto, area = (
        entry.get("aggregateGrade"),
        entry.get("categoricalVeto"),
        AREAS.get(str(entry.get("area"))),
    )
    if (grade == REJECTED) != (veto is not None):
        found.append(
            f"aggregateGrade is {grade} and there is {'a' if veto is not None else 'no'} veto: a"
            " grade is REJECTED exactly when there is one."
        )
    if grade == "A" and entry.get("gradingTier") == AUTONOMOUS:
        found.append("aggregateGrade is A on the tier autonomous, whose best is B.")
    if area is not None and entry.get("gradingTier") != area.tier:
        found.append(
            f"the area {area.name} is of the tier {area.tier}, not {entry.get('gradingTier')}."
        )
    seen: dict[tuple[Any, ...], int] = {}
    for index, answer in enumerate(entry.get("gradings", ())):
        if not isinstance(answer, dict):
            continue
        if "naReason" in answer and answer.get("score") != "n/a":
            found.append(
                f"gradings[{index}]: a reason for n/a stands with the score {answer.get('score')}."
            )
        grader = answer.get("graderIdentity")
        identity = tuple(sorted(grader.items())) if isinstance(grader, dict) else ()
        key = (answer.get("questionId"), identity)
        if key in seen:
            found.append(
                f"gradings[{index}]: {key[0]} was answered by the same grader in"
                f" gradings[{seen[key]}]."
            )
        seen.setdefault(key, index)
    return found


def recomputed(
    entry: dict[str, Any], rules: SchemaRules, systems: Systems | None = None
) -> Aggregate | None:
    """What an entry's own answers come to under these rules; None for a partial entry, one of
    another grading system, or one without answers.
    """
    if (
        entry.get("gradingMode") != FULL
        or entry.get("gradingSystem") != (systems or rules.systems).grading
        or not entry.get("gradings")
    ):
        return None
    return aggregate_answers(
        entry["gradings"], entry.get("gradingTier"), rules, veto=entry.get("categoricalVeto")
    )


def consistency_faults(
    entry: dict[str, Any],
    rules: SchemaRules,
    again: Aggregate | None,
    systems: Systems | None = None,
) -> list[str]:
    """What does not add up in an entry of the right form: its id, and the grade that its own
    answers give. An entry edited by hand shows here.
    """
    found = []
    if not str(entry.get("gradingId")).startswith(f"{entry.get('schemaHash')}--"):
        found.append(
            f"gradingId is {entry.get('gradingId')} and does not begin with the schemaHash"
            f" {entry.get('schemaHash')}."
        )
    if (
        entry.get("gradingSystem") != (systems or rules.systems).grading
        and str(entry.get("gradingSystem")).partition("+")[0] not in KNOWN_GRADING
    ):
        found.append(f"it was graded under {entry.get('gradingSystem')}, which nobody here knows.")
    if any(_lacks_disclaimer(answer) for answer in entry.get("gradings", ())):
        found.append(f'an opinion on terms stands without "{LEGAL_DISCLAIMER}".')
    if again is not None:
        stored = entry.get("aggregateGrade")
        lower = (
            stored in rules.caps.values()
            and again.grade == "A"
            and entry.get("gradingTier") == GROUP_BOUND
        )  # a small selection is capped further
        if again.grade != stored and not lower:
            found.append(
                f"aggregateGrade is {stored}, but the answers give {again.grade or 'no grade'}: it"
                " was changed after it was written, or made by other rules."
            )
    return found


# --- building


class Subject(NamedTuple):
    """What an entry grades."""

    schema_id: str
    """`<namespace>.<tool>` or `<namespace>.<schema>`."""
    area: str
    schema_hash: str
    version: str
    """`flowmcp/4.x.y`."""
    about_hash: str | None = None
    selection_id: str | None = None
    persona: dict[str, str] | None = None
    skill_id: str | None = None


class Built(NamedTuple):
    """A new entry and what led to its grade."""

    entry: dict[str, Any]
    result: Aggregate


def build_entry(
    subject: Subject,
    answers: Sequence[dict[str, Any]],
    rules: SchemaRules,
    *,
    now: datetime,
    harness: str,
    mode: str = FULL,
    veto: dict[str, Any] | None = None,
    trigger: dict[str, Any] | None = None,
    last_full: dict[str, Any] | None = None,
    systems: Systems | None = None,
    cap: str | None = None,
) -> Built:
    """A new entry from its answers. A partial one keeps the grade of the last full one, whatever
    its answers say.
    """
    systems = systems or rules.systems
    area = area_of(subject.area)
    _check_subject(subject, area.persona, area.skill, area.tier)
    _check_answers(answers, area.name, mode, veto)
    if mode == PARTIAL:
        if last_full is None:
            raise InputError(
                "PRT-003", "the first grading is partial.", fix="Begin with a full one."
            )
        if veto is not None:
            raise InputError(
                "PRT-005",
                "a veto stands in a partial grading.",
                fix="A veto ends the matter: write it as a full grading.",
            )
        result = aggregate_answers(answers, area.tier, rules)._replace(
            grade=last_full.get("aggregateGrade"),
            notes=("partial: the grade of the last full grading stands",),
        )
    elif mode == FULL:
        result = aggregate_answers(answers, area.tier, rules, veto=veto, cap=cap)
    else:
        raise InputError("PRT-002", f"{mode!r} is no grading mode.", fix="It is full or partial.")
    entry: dict[str, Any] = {
        "gradingId": f"{subject.schema_hash}--{stamp(now)}",
        "schemaId": subject.schema_id,
        "area": area.name,
        "version": subject.version,
        "schemaHash": subject.schema_hash,
        "aboutHash": subject.about_hash,
        "gradingMode": mode,
        "gradingTier": area.tier,
        "selectionId": subject.selection_id,
        "harness": harness,
        "persona": subject.persona,
        "skillId": subject.skill_id,
        "scoringSystem": systems.scoring,
        "gradingSystem": systems.grading,
        "gradings": [dict(answer) for answer in answers],
        "categoricalVeto": veto,
        "regradingTrigger": trigger,
        "aggregateGrade": result.grade,
        "maxAttainableGrade": result.max_attainable,
    }
    entry = {
        key: value
        for key, value in entry.items()
        if value is not None or key in ("categoricalVeto", "aggregateGrade")
    }
    if (
        harness != STRICT_HARNESS
        or result.grade is None
        or not subject.version.startswith("flowmcp/4.")
        or "+" in systems.scoring + systems.grading
    ):
        entry |= {
            "form": EXTENDED_FORM,
            "rawGrade": result.raw_grade,
            "normalizedScore": shown(result.mean),
        }
        if result.notes:
            entry["notes"] = [*result.notes, *result.warnings]
    faults = schema_faults(entry) or semantic_faults(entry)
    if faults:
        raise InputError(
            "GRD-020", faults[0], faults=[Fault(text, code="GRD-020") for text in faults]
        )
    return Built(entry, result)


def _check_subject(subject: Subject, persona: bool, skill: bool, tier: str) -> None:
    if tier == GROUP_BOUND and not subject.selection_id:
        raise InputError(
            "GRD-004",
            f"the area {subject.area} is bound to a group and no selection is named.",
            fix="Give selectionId.",
        )
    if persona and subject.persona is None:
        raise InputError(
            "GRD-042",
            f"the area {subject.area} is bound to a persona and none is named.",
            fix="Give persona with basePersonaId and lensId.",
        )
    if skill and not subject.skill_id:
        raise InputError(
            "GRD-015",
            f"the area {subject.area} grades a skill and none is named.",
            fix="Give skillId.",
        )
    if not is_hash8(subject.schema_hash):
        raise InputError(
            "GRD-016",
            f"{subject.schema_hash!r} is no hash of a schema.",
            fix="It is eight lower-case hexadecimal digits.",
        )


def _check_answers(answers: Sequence[dict[str, Any]], area: str, mode: str, veto: object) -> None:
    for answer in answers:
        where = f"{answer.get('questionId')}"
        try:
            check_answer(answer)
        except InputError as error:
            raise InputError(error.code, f"{where}: {error.message}", fix=error.fix) from None
        if _lacks_disclaimer(answer):
            raise InputError(
                "GRD-021",
                f"{where}: an opinion on terms stands without its disclaimer.",
                fix=f'Say "{LEGAL_DISCLAIMER}" in its reasoning.',
            )
        grader = answer.get("graderIdentity")
        if isinstance(grader, dict) and grader.get("kind") == "llm" and not answer.get("llmModel"):
            raise InputError(
                "GRD-007", f"{where}: a model answered and is not named.", fix="Give llmModel."
            )
    if (
        mode == FULL
        and veto is None
        and not any(answer.get("determinism") == NON_DETERMINISTIC for answer in answers)
    ):
        raise InputError(
            "GRD-014",
            f"the area {area} has questions of judgement and none was answered.",
            fix="Deterministic answers alone are no grading of an area: add the judged ones.",
        )


def _lacks_disclaimer(answer: dict[str, Any]) -> bool:
    """Whether an answer gives an opinion on terms without saying that it binds nobody."""
    legal = (
        dimension_of(str(answer.get("questionId"))) == "legalAssessment"
        and answer.get("score") != "n/a"
    )
    return legal and LEGAL_DISCLAIMER not in f"{answer.get('reasoning')} {answer.get('evidence')}"


def regrading_trigger(
    kind: object,
    *,
    previous: object,
    now: datetime,
    issue: object = None,
    requested_by: object = None,
) -> dict[str, Any]:
    """Why a node is graded again, and which entry is superseded; that entry stays."""
    if kind not in TRIGGERS:
        raise InputError(
            "GRD-017",
            f"{kind!r} triggers no re-grading.{near_miss(str(kind), TRIGGERS)}",
            fix=f"The triggers are {', '.join(TRIGGERS)}.",
        )
    if not isinstance(previous, str) or not previous:
        raise InputError(
            "GRD-018",
            "a re-grading names no entry that it supersedes.",
            fix="Give previousGradingId.",
        )
    made: dict[str, Any] = {
        "triggeredBy": kind,
        "previousGradingId": previous,
        "timestamp": iso(now),
    }
    if kind == "user-report" and not (issue and requested_by):
        missing = " and ".join(
            name
            for name, given in (
                ("what was reported (--issue)", issue),
                ("by whom (--by)", requested_by),
            )
            if not given
        )
        raise InputError("GRD-019", f"a re-grading by user report does not say {missing}.")
    if issue:
        made["reportedIssue"] = issue
    if requested_by:
        made["requestedBy"] = requested_by
    return made


def blocked_entry(
    subject: Subject,
    reason: str,
    *,
    now: datetime,
    harness: str,
    systems: Systems = CURRENT,
    note: str = "",
) -> dict[str, Any]:
    """A status record: the node cannot be graded, and why. It is of the extended form, because the
    strict one has no room for it.
    """
    if reason not in BLOCKED_REASONS:
        raise InputError(
            "GRD-039",
            f"{reason!r} is no reason for a block.{near_miss(reason, BLOCKED_REASONS)}",
            fix=f"The reasons are {', '.join(BLOCKED_REASONS)}.",
        )
    area = area_of(subject.area)
    entry: dict[str, Any] = {
        "form": EXTENDED_FORM,
        "gradingId": f"{subject.schema_hash}--{stamp(now)}",
        "schemaId": subject.schema_id,
        "area": area.name,
        "version": subject.version,
        "schemaHash": subject.schema_hash,
        "gradingMode": FULL,
        "gradingTier": area.tier,
        "harness": harness,
        "scoringSystem": systems.scoring,
        "gradingSystem": systems.grading,
        "gradings": [],
        "categoricalVeto": None,
        "aggregateGrade": None,
        "maxAttainableGrade": "B" if area.tier == AUTONOMOUS else "A",
        "blocked": True,
        "blockedReason": reason,
    }
    named = {
        "aboutHash": subject.about_hash,
        "selectionId": subject.selection_id,
        "persona": subject.persona,
        "skillId": subject.skill_id,
    }
    entry |= {key: value for key, value in named.items() if value is not None}
    return {**entry, "notes": [note]} if note else entry


# --- what other programs wrote

_STRICT_ANSWER = (
    "questionId",
    "score",
    "naReason",
    "weight",
    "determinism",
    "graderIdentity",
    "llmModel",
    "selectionContext",
    "timestamp",
    "evidence",
    "reasoning",
)


def upgrade(entry: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """An entry as the reference program writes it, in the published form as far as it goes, and
    what was changed. One of the published form stays as it is.
    """
    if schema_valid(entry):
        return entry, []
    made, notes = dict(entry), []
    grader = made.pop("grader", None)
    created = made.pop("createdAt", None)
    known = published_schema("grading-entry")["properties"]
    if "aggregateGrade" not in made and "grade" in made:
        made["aggregateGrade"] = made["grade"]
        notes.append("`grade` was read as aggregateGrade")
    for key in [key for key in made if key not in known]:
        notes.append(f"`{key}` was dropped: the published form has no such key")
        del made[key]
    if isinstance(made.get("persona"), str):
        notes.append(f"the persona {made['persona']!r} was dropped: it names no lens")
        del made["persona"]
    if isinstance(made.get("regradingTrigger"), str):
        notes.append("regradingTrigger was dropped: it names no superseded entry")
        del made["regradingTrigger"]
    answers = []
    for answer in made.get("gradings", []) if isinstance(made.get("gradings"), list) else []:
        if not isinstance(answer, dict):
            continue
        changed = dict(answer)
        if "recordedAt" in changed:
            changed.setdefault("timestamp", changed.pop("recordedAt"))
        elif created is not None:
            changed.setdefault("timestamp", created)
        if "graderIdentity" not in changed and isinstance(grader, dict):
            changed["graderIdentity"] = {
                key: grader[key] for key in ("kind", "name", "version") if key in grader
            }
            if grader.get("llmModel"):
                changed.setdefault("llmModel", grader["llmModel"])
        if "questionId" not in changed and isinstance(changed.get("dimension"), str):
            changed["questionId"] = f"Q-{changed['dimension']}"
        if changed.get("score") == "n/a" and "naReason" not in changed:
            changed["naReason"] = NA_REASONS[0]
            notes.append(
                f"{changed.get('questionId')}: n/a without a reason was read as {NA_REASONS[0]}"
            )
        answers.append({key: value for key, value in changed.items() if key in _STRICT_ANSWER})
    made["gradings"] = answers
    made.setdefault("categoricalVeto", None)
    veto = made["categoricalVeto"]
    if isinstance(veto, dict) and isinstance(veto.get("evidence"), dict):
        made["categoricalVeto"] = {**veto, "evidence": evidence_text(veto["evidence"])}
        notes.append("the evidence of the veto was an object; it is its text now")
    return made, notes


def counts(entry: dict[str, Any]) -> dict[str, int]:
    """How many of an entry's answers count, and how many do not."""
    answers = entry.get("gradings", [])
    left_out = sum(answer.get("score") in EXCLUDED for answer in answers)
    return {"scored": len(answers) - left_out, "excluded": left_out}
