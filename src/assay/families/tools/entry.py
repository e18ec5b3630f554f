"""Builds and checks grading entries, the permanent record of a grading.

An entry is written in the strict published form wherever that form can express the truth. For
everything else (another harness than the one it knows, an unpublished policy, answers of which none
counts, a blocked node) there is our extended form, which names itself in `form`. Reading entries:
`forms`. Where they are stored: `tree`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from assay.canon import time_text
from assay.errors import Fault, InputError, raise_faults
from assay.families.tools.aggregate import Aggregate, aggregate_answers
from assay.families.tools.answers import LEGAL_DISCLAIMER, lacks_disclaimer, read_answers, shown
from assay.families.tools.envelope import http_fault
from assay.families.tools.forms import BLOCKED_REASONS, EXTENDED_FORM, schema_faults
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
from assay.families.tools.policy import SchemaRules
from assay.families.tools.records import (
    CategoricalVeto,
    GradedAnswer,
    GradingEntry,
    Persona,
    RegradingTrigger,
    document,
)
from assay.families.tools.status import order_fault
from assay.families.tools.versions import CURRENT, GRADING_SYSTEM, SCORING_SYSTEM
from assay.records.systems import Systems
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
