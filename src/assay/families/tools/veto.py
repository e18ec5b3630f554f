"""Vetoes: four triggers, a closed list. A veto overrides everything else: the grade is REJECTED and
nothing is aggregated.

A veto is never undone by editing; only a whole new evaluation that names the rejected entry lifts
it, and both stay. Which schemas earn a veto: `checks`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import ValidationError

from assay.canon import canonical, time_text
from assay.errors import InputError
from assay.families.tools.answers import GRADER_KINDS
from assay.families.tools.records import CategoricalVeto, GraderIdentity
from assay.records.typed import convert
from assay.registry import near_miss

CLEAN, VETO, UNDETERMINED = "clean", "veto", "undetermined"
NOT_APPLICABLE = "not applicable"
"""What a check for a veto can find. Only a declaration makes one not applicable, with a reason."""
TRIGGERS = ("malicious-module", "api-key-domain-mismatch", "illegal-content", "ai-security-veto")
REASONED = "ai-security-veto"
"""The trigger that needs reasoning: a model's alarm without a reason is not evidence."""


def check_trigger(trigger: object) -> str:
    """A trigger of the list, or the error with the near miss."""
    if trigger not in TRIGGERS:
        raise InputError(
            "VET-001",
            f"{trigger!r} triggers no veto.{near_miss(str(trigger), TRIGGERS)}",
            fix=f"The triggers are {', '.join(TRIGGERS)}.",
        )
    return str(trigger)


def make_veto(
    triggered_by: object,
    *,
    evidence: object,
    grader: object,
    now: datetime,
    reasoning: object = None,
) -> CategoricalVeto:
    """A veto as an entry holds it, or the first thing that is missing: trigger, evidence,
    reasoning, grader.
    """
    trigger = check_trigger(triggered_by)
    if not isinstance(evidence, str | dict) or not (
        evidence.strip() if isinstance(evidence, str) else evidence
    ):
        raise InputError("VET-002", "a veto lacks evidence.", fix="Say what was found and where.")
    if trigger == REASONED and (not isinstance(reasoning, str) or not reasoning.strip()):
        raise InputError(
            "VET-003",
            f"a veto by {REASONED} lacks a reasoning.",
            fix="Say why what was found is a danger.",
        )
    try:
        identity = convert(grader, GraderIdentity)
    except ValidationError:
        identity = None
    if (
        identity is None
        or identity.kind not in GRADER_KINDS
        or not (identity.name and identity.version)
    ):
        raise InputError(
            "VET-004",
            "a veto names no grader.",
            fix="Give graderIdentity with kind (llm, human or script), name and version.",
        )
    return CategoricalVeto(
        triggered_by=trigger,
        grader_identity=identity,
        evidence=evidence_text(evidence),
        timestamp=time_text(now),
        reasoning=reasoning if isinstance(reasoning, str) and reasoning else None,
    )


def evidence_text(evidence: str | dict[str, Any]) -> str:
    """Evidence as the text an entry holds; an object, as older programs gave it, becomes its
    canonical JSON.
    """
    return evidence if isinstance(evidence, str) else canonical(evidence).decode()
