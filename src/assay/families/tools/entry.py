"""Builds and checks grading entries, the permanent record of a grading.

An entry is written in the strict published form wherever that form can express the truth. For
everything else (another harness than the one it knows, an unpublished policy, answers of which none
counts, a blocked node) there is our extended form, which names itself in `form`. Entries of older
programs are read too. Where entries are stored: `tree`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import msgspec

from assay.canon import time_text
from assay.errors import Fault, InputError, raise_faults
from assay.families.tools.aggregate import Aggregate, aggregate_answers
from assay.families.tools.answers import (
    LEGAL_DISCLAIMER,
    NA_REASONS,
    http_fault,
    lacks_disclaimer,
    read_answers,
    shown,
)
from assay.families.tools.names import (
    AREAS,
    AUTONOMOUS,
    FULL,
    GROUP_BOUND,
    NON_DETERMINISTIC,
    REJECTED,
    Area,
    area_of,
    id_moment,
    is_hash8,
    stamp,
)
from assay.families.tools.policy import CURRENT, GRADING_SYSTEM, SCORING_SYSTEM, SchemaRules
from assay.families.tools.records import (
    CategoricalVeto,
    GradedAnswer,
    GradingEntry,
    Persona,
    RegradingTrigger,
    document,
)
from assay.families.tools.status import order_fault
from assay.families.tools.veto import evidence_text
from assay.records.schemas import engine
from assay.records.systems import GRADING_PATTERN, SCORING_PATTERN, Systems
from assay.records.typed import convert
from assay.registry import near_miss

STRICT_HARNESS = "claude-code"
"""The only harness that the strict form knows; any other is written in the extended form, never
disguised.
"""
TRIGGERS = ("user-report", "scheduled", "scoring-system-bump", "grading-system-bump")


# --- checking


def semantic_faults(entry: GradingEntry) -> list[str]:
    """What the form allows but the rules don't: five gaps in the published schema."""
    faults = []
    grade, veto, area = entry.aggregate_grade, entry.categorical_veto, AREAS[entry.area]
    if (grade == REJECTED) != (veto is not None):
        faults.append(
            f"aggregateGrade is {grade} and there is {'no' if veto is None else 'a'} veto: a grade"
            " is REJECTED exactly when there is one."
        )
    if grade == "A" and entry.grading_tier == AUTONOMOUS:
        faults.append("aggregateGrade is A on the tier autonomous, whose best is B.")
    if entry.grading_tier != area.tier:
        faults.append(f"the area {area.name} is of the tier {area.tier}, not {entry.grading_tier}.")
    seen: dict[tuple[Any, ...], int] = {}
    for index, answer in enumerate(entry.gradings):
        if answer.na_reason is not None and answer.score != "n/a":
            faults.append(f"gradings[{index}]: a reason for n/a with the score {answer.score}.")
        first = seen.setdefault((answer.question_id, answer.grader_identity), index)
        if first != index:
            faults.append(
                f"gradings[{index}]: {answer.question_id} was answered by the same grader in"
                f" gradings[{first}]."
            )
    return faults


def recomputed(entry: GradingEntry, rules: SchemaRules) -> Aggregate | None:
    """What an entry's own answers come to under these rules; None for a partial entry, one of
    another grading system, or one without answers.
    """
    if (
        entry.grading_mode != FULL
        or entry.grading_system != rules.systems.grading
        or not entry.gradings
    ):
        return None
    return aggregate_answers(entry.gradings, entry.grading_tier, rules, veto=entry.categorical_veto)


def consistency_faults(
    entry: GradingEntry, rules: SchemaRules, again: Aggregate | None
) -> list[str]:
    """What does not add up in an entry of the right form: its id, scores that their own evidence
    denies, and the grade that its answers give (`again`). This detects an entry that was edited by
    hand.
    """
    faults = []
    if not entry.grading_id.startswith(f"{entry.schema_hash}--"):
        faults.append(
            f"gradingId is {entry.grading_id} and does not begin with the schemaHash"
            f" {entry.schema_hash}."
        )
    if id_moment(entry.grading_id) is None:
        faults.append(f"gradingId is {entry.grading_id} and does not end with a time.")
    if (
        entry.grading_system != rules.systems.grading
        and entry.grading_system.partition("+")[0] != GRADING_SYSTEM
    ):
        faults.append(f"it was graded under {entry.grading_system}, an unknown grading system.")
    if entry.scoring_system == SCORING_SYSTEM:
        faults += filter(None, map(http_fault, entry.gradings))
    if any(map(lacks_disclaimer, entry.gradings)):
        faults.append(f'an opinion on terms lacks "{LEGAL_DISCLAIMER}".')
    if again is not None:
        stored = entry.aggregate_grade
        lower = (
            stored in rules.caps.values()
            and again.grade == "A"
            and entry.grading_tier == GROUP_BOUND
        )  # a small selection is capped further
        if again.grade != stored and not lower:
            faults.append(
                f"aggregateGrade is {stored}, but the answers give {again.grade or 'no grade'}: it"
                " was changed after it was written, or made by other rules."
            )
    return faults


def _sound(entry: GradingEntry) -> GradingEntry:
    """The entry, or an error with everything that breaks its form or the rules."""
    faults = schema_faults(document(entry)) or semantic_faults(entry)
    raise_faults([Fault(text, code="GRD-020") for text in faults])
    return entry


# --- building


class EntrySubject(NamedTuple):
    """What an entry grades."""

    schema_id: str
    """`<namespace>.<tool>` or `<namespace>.<schema>`."""
    area: str
    schema_hash: str
    version: str
    """`flowmcp/4.x.y`."""
    about_hash: str | None = None
    selection_id: str | None = None
    persona: Persona | None = None
    skill_id: str | None = None


def build_entry(
    subject: EntrySubject,
    given: Sequence[Mapping[str, Any]],
    rules: SchemaRules,
    *,
    now: datetime,
    harness: str,
    mode: str = FULL,
    veto: CategoricalVeto | None = None,
    trigger: RegradingTrigger | None = None,
    last_full: GradingEntry | None = None,
    cap: str | None = None,
) -> tuple[GradingEntry, Aggregate]:
    """A new entry from its answers, and what led to its grade. A partial one keeps the grade of the
    last full one, whatever its answers say.
    """
    area = area_of(subject.area)
    _check_subject(subject, area)
    answers = read_answers(given)
    if (
        mode == FULL
        and veto is None
        and not any(answer.determinism == NON_DETERMINISTIC for answer in answers)
    ):
        raise InputError(
            "GRD-014",
            f"the area {area.name} has questions of judgement and none was answered.",
            fix="Deterministic answers alone do not grade an area: add the judged ones.",
        )
    if mode == FULL:
        result = aggregate_answers(answers, area.tier, rules, veto=veto, cap=cap)
    else:
        result = aggregate_partial(answers, area.tier, rules, mode=mode, last_full=last_full)
        if veto is not None:
            raise InputError(
                "PRT-005", "a partial grading has a veto.", fix="Write a veto as a full grading."
            )
    entry = GradingEntry(
        **_common(subject, area, now=now, harness=harness, systems=rules.systems),
        grading_mode=mode,
        gradings=answers,
        categorical_veto=veto,
        regrading_trigger=trigger,
        aggregate_grade=result.grade,
        max_attainable_grade=result.max_attainable,
    )
    if (
        harness != STRICT_HARNESS
        or result.grade is None
        or not subject.version.startswith("flowmcp/4.")
        or "+" in rules.systems.scoring + rules.systems.grading
    ):
        entry = msgspec.structs.replace(
            entry,
            form=EXTENDED_FORM,
            raw_grade=result.raw_grade,
            normalized_score=shown(result.mean),
            notes=[*result.notes, *result.warnings] if result.notes else None,
        )
    return _sound(entry), result


def aggregate_partial(
    answers: Sequence[GradedAnswer],
    tier: str,
    rules: SchemaRules,
    *,
    mode: str,
    last_full: GradingEntry | None,
) -> Aggregate:
    """What a partial grading comes to: the grade of the last full one, whatever its answers say."""
    held = last_full.aggregate_grade if last_full is not None else None
    fault = order_fault(mode, held, first=last_full is None, before=held)
    if fault is not None:
        raise fault
    return aggregate_answers(answers, tier, rules)._replace(
        grade=held, notes=("partial: the grade of the last full grading applies",)
    )


def blocked_entry(
    subject: EntrySubject,
    reason: str,
    *,
    now: datetime,
    harness: str,
    systems: Systems = CURRENT,
    note: str = "",
) -> GradingEntry:
    """A status record: the node cannot be graded, and why. It is of the extended form, because the
    strict one has no room for it.
    """
    if reason not in BLOCKED_REASONS:
        raise InputError(
            "GRD-039",
            f"{reason!r} is not a reason for a block.{near_miss(reason, BLOCKED_REASONS)}",
            fix=f"The reasons are {', '.join(BLOCKED_REASONS)}.",
        )
    area = area_of(subject.area)
    return _sound(
        GradingEntry(
            **_common(subject, area, now=now, harness=harness, systems=systems),
            grading_mode=FULL,
            gradings=[],
            categorical_veto=None,
            aggregate_grade=None,
            max_attainable_grade="B" if area.tier == AUTONOMOUS else "A",
            form=EXTENDED_FORM,
            blocked=True,
            blocked_reason=reason,
            notes=[note] if note else None,
        )
    )


def _common(
    subject: EntrySubject, area: Area, *, now: datetime, harness: str, systems: Systems
) -> dict[str, Any]:
    """The fields that every entry of a subject has."""
    return {
        "grading_id": f"{subject.schema_hash}--{stamp(now)}",
        "schema_id": subject.schema_id,
        "area": area.name,
        "version": subject.version,
        "schema_hash": subject.schema_hash,
        "about_hash": subject.about_hash,
        "grading_tier": area.tier,
        "selection_id": subject.selection_id,
        "harness": harness,
        "persona": subject.persona,
        "skill_id": subject.skill_id,
        "scoring_system": systems.scoring,
        "grading_system": systems.grading,
    }


def _check_subject(subject: EntrySubject, area: Area) -> None:
    """Refuse a subject that lacks what its area is bound to."""
    bound = {
        "GRD-004": (area.tier == GROUP_BOUND, subject.selection_id, "a group", "selectionId"),
        "GRD-042": (area.persona, subject.persona, "a persona", "persona"),
        "GRD-015": (area.skill, subject.skill_id, "a skill", "skillId"),
    }
    for code, (needed, given, what, key) in bound.items():
        if needed and not given:
            raise InputError(
                code,
                f"the area {subject.area} is bound to {what}, and none is named.",
                fix=f"Give {key}.",
            )
    if not is_hash8(subject.schema_hash):
        raise InputError(
            "GRD-016",
            f"{subject.schema_hash!r} is not a hash of a schema.",
            fix="It is eight lower-case hexadecimal digits.",
        )


class Trigger(NamedTuple):
    """Why a node is graded again."""

    kind: str
    issue: str | None = None
    requested_by: str | None = None


def regrading_trigger(trigger: Trigger, *, previous: str, now: datetime) -> RegradingTrigger:
    """Why a node is graded again, and which entry is superseded; that entry stays."""
    kind, issue, requested_by = trigger
    if kind not in TRIGGERS:
        raise InputError(
            "GRD-017",
            f"{kind!r} triggers no re-grading.{near_miss(kind, TRIGGERS)}",
            fix=f"The triggers are {', '.join(TRIGGERS)}.",
        )
    if not previous:
        raise InputError(
            "GRD-018",
            "a re-grading names no entry that it supersedes.",
            fix="Give previousGradingId.",
        )
    if kind == "user-report" and not (issue and requested_by):
        given = {"what was reported (--issue)": issue, "by whom (--by)": requested_by}
        missing = " and ".join(name for name, value in given.items() if not value)
        raise InputError("GRD-019", f"a re-grading by user report lacks {missing}.")
    return RegradingTrigger(
        triggered_by=kind,
        previous_grading_id=previous,
        timestamp=time_text(now),
        reported_issue=issue or None,
        requested_by=requested_by or None,
    )


# --- forms: the published JSON Schemas, our extended form, and older entries

EXTENDED_FORM = "assay.grading-entry/1"
VALIDATION_FAILED, FEW_TESTS, NO_ABOUT = (
    "validation-failed",
    "fewer-than-three-tests",
    "no-about",
)
BLOCKED_REASONS = (
    VALIDATION_FAILED,
    FEW_TESTS,
    "fewer-than-two-tests",
    NO_ABOUT,
    "api-down",
    "all-schemas-unparseable",
    "not-imported",
)
_OLDER_KEYS = frozenset({"grader", "createdAt", "grade", "dimension", "recordedAt", "isVeto"})
"""Keys of entries and answers by the reference program, which the published form doesn't have."""
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


@cache
def published_schema(name: str) -> dict[str, Any]:
    """A JSON Schema that ships with the product, as `grading-entry` or `index`."""
    with open(os.path.join(DATA, f"{name}.schema.json"), encoding="utf-8") as stream:
        schema: dict[str, Any] = json.load(stream)
    return schema


@cache
def extended_schema() -> dict[str, Any]:
    """The JSON Schema of our extended form: the published one, relaxed where it can't express the
    facts.
    """
    strict = published_schema("grading-entry")
    known = strict["properties"]
    text = {"type": "string", "minLength": 1}
    return {
        **strict,
        "$id": "urn:assay:grading-entry:1",
        "title": "Grading entry, extended form",
        "description": (
            "The published grading entry, for what that has no room for: another harness, an"
            " unpublished policy, no grade yet, a blocked node."
        ),
        "required": [*strict["required"], "form"],
        "properties": {
            **known,
            "form": {"const": EXTENDED_FORM},
            "harness": text,
            "version": text,
            "scoringSystem": {"type": "string", "pattern": SCORING_PATTERN},
            "gradingSystem": {"type": "string", "pattern": GRADING_PATTERN},
            "aggregateGrade": {"enum": [*known["aggregateGrade"]["enum"], None]},
            "gradings": {**known["gradings"], "minItems": 0},
            "rawGrade": {"enum": ["A", "B", "C", "D", "F", None]},
            "normalizedScore": {"type": ["number", "null"]},
            "blocked": {"type": "boolean"},
            "blockedReason": {"enum": list(BLOCKED_REASONS)},
            "notes": {"type": "array", "items": {"type": "string"}},
        },
    }


@cache
def extended_index_schema() -> dict[str, Any]:
    """The JSON Schema of an index as a tree has it: the published one with the two versions at the
    top.
    """
    strict = published_schema("index")
    return {
        **strict,
        "$id": "urn:assay:index:1",
        "title": "Index of graded tools, extended form",
        "description": "The published index with the scoring and the grading system at the top.",
        "properties": {
            **strict["properties"],
            "scoringSystem": {"type": "string", "pattern": SCORING_PATTERN},
            "gradingSystem": {"type": "string", "pattern": GRADING_PATTERN},
        },
    }


def all_schemas() -> dict[str, dict[str, Any]]:
    """Every schema of this family, as `assay schema-of` prints them."""
    names = ("prompts", "scores", "grade-report", "grading-entry")
    return {
        **{name: published_schema(name) for name in names},
        "grading-entry-extended": extended_schema(),
        "index": published_schema("index"),
        "index-extended": extended_index_schema(),
    }


@cache
def _validator(name: str) -> Any:
    # The times of an index are those of file names, which no format of JSON Schema describes.
    return engine().Draft202012Validator(
        all_schemas()[name], offline=True, validate_formats=not name.startswith("index")
    )


def is_extended(entry: object) -> bool:
    """Whether an entry states the extended form."""
    return isinstance(entry, dict) and entry.get("form") == EXTENDED_FORM


def schema_valid(entry: Any) -> bool:
    """Whether an entry has the form that it states."""
    return bool(_validator(_form(entry)).is_valid(entry))


def schema_faults(entry: Any) -> list[str]:
    """What breaks the form of an entry, place by place."""
    return faults_by(_form(entry), entry, "the entry")


def faults_by(name: str, document: Any, whole: str) -> list[str]:
    """What breaks the schema of that name, place by place."""
    faults = []
    for error in _validator(name).iter_errors(document):
        path = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path
        ).lstrip(".")
        faults.append(f"{path or whole}: {error.message}")
    return faults


def _form(entry: object) -> str:
    return "grading-entry-extended" if is_extended(entry) else "grading-entry"


# --- reading entries


def read_form(tree: dict[str, Any]) -> GradingEntry | None:
    """An entry of the published form, of the extended one, or of the older form of the reference
    program; None for anything else.
    """
    if tree.get("blocked") is True and "form" not in tree:
        # as newer versions of the specification write it
        tree = {"notes": [], **tree, "form": EXTENDED_FORM}
    tree = upgrade(tree)
    return convert(tree, GradingEntry) if schema_valid(tree) else None


def upgrade(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry as the reference program writes it, in the published form as far as it goes. Any
    other stays as it is: with a key or a form that a newer version may have added, it isn't read.
    """
    if schema_valid(entry) or not _is_older(entry):
        return entry
    made = dict(entry)
    grader, created = made.pop("grader", None), made.pop("createdAt", None)
    known = published_schema("grading-entry")["properties"]
    if "aggregateGrade" not in made and "grade" in made:
        made["aggregateGrade"] = made["grade"]
    made = {key: value for key, value in made.items() if key in known or _marks_veto(key, value)}
    for key in ("persona", "regradingTrigger"):  # they name no lens and no superseded entry
        if isinstance(made.get(key), str):
            del made[key]
    answers = made.get("gradings")
    made["gradings"] = [
        _upgraded(answer, grader, created) if isinstance(answer, dict) else answer
        for answer in (answers if isinstance(answers, list) else [answers])
    ]
    veto = made.setdefault("categoricalVeto", None)
    if isinstance(veto, dict) and isinstance(veto.get("evidence"), dict):
        made["categoricalVeto"] = {**veto, "evidence": evidence_text(veto["evidence"])}
    return made


def _is_older(entry: Mapping[str, Any]) -> bool:
    """Whether an entry has keys that only the reference program writes, and names no form."""
    answers = entry.get("gradings")
    listed = answers if isinstance(answers, list) else []
    parts = [entry, *(item for item in listed if isinstance(item, dict))]
    return "form" not in entry and any(not _OLDER_KEYS.isdisjoint(part) for part in parts)


def _upgraded(answer: dict[str, Any], grader: object, created: object) -> dict[str, Any]:
    changed = dict(answer)
    when = changed.pop("recordedAt", created)
    if when is not None:
        changed.setdefault("timestamp", when)
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
    known = published_schema("grading-entry")["properties"]["gradings"]["items"]["properties"]
    return {key: value for key, value in changed.items() if key in known or _marks_veto(key, value)}


def _marks_veto(key: str, value: object) -> bool:
    """Whether a key of another form speaks of a veto. It is not dropped: without it the veto would
    be read as a plain score; with it the entry has no form that is known.
    """
    return bool(value) and "veto" in key.lower()
