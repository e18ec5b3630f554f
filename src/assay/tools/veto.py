"""Vetoes: four triggers, a closed list. A veto ends the matter: the grade is REJECTED and nothing
is aggregated.

A veto is never undone by editing; only a whole new evaluation that names the rejected entry lifts
it, and both stay. Which schemas earn a veto: `checks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.registry import near_miss
from assay.tools.answers import GRADER_KINDS
from assay.tools.names import iso

if TYPE_CHECKING:
    from datetime import datetime

TRIGGERS = ("malicious-module", "api-key-domain-mismatch", "illegal-content", "ai-security-veto")
REASONED = "ai-security-veto"
"""The trigger that needs a reasoning: a model's alarm without its reason is no evidence."""


def make_veto(
    triggered_by: object,
    *,
    evidence: object,
    grader: object,
    now: datetime,
    reasoning: object = None,
) -> dict[str, Any]:
    """A veto as an entry holds it, or the first thing that is missing: trigger, evidence,
    reasoning, grader.
    """
    if triggered_by not in TRIGGERS:
        raise InputError(
            "VET-001",
            f"{triggered_by!r} triggers no veto.{near_miss(str(triggered_by), TRIGGERS)}",
            fix=f"The triggers are {', '.join(TRIGGERS)}.",
        )
    if not isinstance(evidence, str | dict) or not (
        evidence.strip() if isinstance(evidence, str) else evidence
    ):
        raise InputError(
            "VET-002", "a veto stands without evidence.", fix="Say what was found and where."
        )
    if triggered_by == REASONED and (not isinstance(reasoning, str) or not reasoning.strip()):
        raise InputError(
            "VET-003",
            f"a veto by {REASONED} stands without a reasoning.",
            fix="Say why what was found is a danger.",
        )
    if not is_grader(grader):
        raise InputError(
            "VET-004",
            "a veto names no grader.",
            fix="Give graderIdentity with kind (llm, human or script), name and version.",
        )
    made = {
        "triggeredBy": triggered_by,
        "graderIdentity": grader,
        "evidence": evidence_text(evidence),
        "timestamp": iso(now),
    }
    return {**made, "reasoning": reasoning} if isinstance(reasoning, str) and reasoning else made


def is_grader(value: object) -> bool:
    """Whether a value says who graded: a known kind, a name and a version."""
    return (
        isinstance(value, dict)
        and value.get("kind") in GRADER_KINDS
        and all(isinstance(value.get(key), str) and value[key] for key in ("name", "version"))
    )


def evidence_text(evidence: str | dict[str, Any]) -> str:
    """Evidence as the text an entry holds; an object, as older programs gave it, becomes its
    canonical JSON.
    """
    if isinstance(evidence, str):
        return evidence
    from assay.canon import canonical  # only for the older form

    return canonical(evidence).decode()
