"""The grade report of the file protocol: the grade from two scores and a validation, and its
document. Bands, tier cap and veto come from the policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from msgspec import structs

from assay.canon import time_text
from assay.families.tools.aggregate import aggregate
from assay.families.tools.answers import EXCLUDED, shown
from assay.families.tools.names import AUTONOMOUS, slug
from assay.families.tools.policy import SCORING_PROTOCOL, SchemaRules
from assay.families.tools.records import CategoricalVeto, SchemaFinding, document
from assay.families.tools.source import ToolSchema


class ReportVerdict(NamedTuple):
    """The grade from two scores and a validation."""

    grade: str
    raw_grade: str | None
    score: Fraction
    reason: str


def grade_scores(
    scores: Sequence[int | float | Decimal | str],
    rules: SchemaRules,
    *,
    validation_passed: bool,
    veto: CategoricalVeto | None = None,
) -> ReportVerdict:
    """The grade of a report: the plain mean of what applies, banded and capped by the tier. A
    failed validation is F, a veto REJECTED; the score stays.
    """
    aggregated = aggregate([(score, 1) for score in scores], AUTONOMOUS, rules)
    mean = aggregated.mean
    assert mean is not None
    assert aggregated.grade is not None
    if veto is not None:
        return ReportVerdict("REJECTED", aggregated.raw_grade, mean, f"veto: {veto.triggered_by}")
    if not validation_passed:
        return ReportVerdict(
            "F", aggregated.raw_grade, mean, "the schema does not pass its validation"
        )
    return ReportVerdict(
        aggregated.grade,
        aggregated.raw_grade,
        mean,
        (
            aggregated.notes[0]
            if aggregated.notes
            else f"the mean {shown_text_of(shown(mean))} is in the band of {aggregated.grade}"
        ),
    )


def shown_text_of(value: Any) -> str:
    """A number of a report as people read it: all its digits if it ends, else four."""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def report_document(
    schema: ToolSchema,
    scores: dict[str, Any],
    findings: Sequence[SchemaFinding],
    rules: SchemaRules,
    *,
    now: datetime,
    started_at: str | None,
    hash8: str | None,
    veto: CategoricalVeto | None = None,
    checks: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """The grade report: the keys of the protocol first, then what a reader needs to trust the
    grade.
    """
    errors = [finding for finding in findings if finding.level == "error"]
    verdict = grade_scores(
        [item["score"] for item in scores["scores"]], rules, validation_passed=not errors, veto=veto
    )
    moment = time_text(now)
    moot = [item["dimension"] for item in scores["scores"] if item["score"] in EXCLUDED]
    reason = (
        f"{verdict.reason}; {', '.join(moot)} does not apply: the server gives no instructions"
        if moot
        else verdict.reason
    )
    return {
        "schemaId": schema.schema_id,
        "schemaIdSlug": slug(schema.schema_id),
        "schemaPath": schema.path,
        "schemaHash": schema.file_sha256,
        "date": moment[:10],
        "grade": verdict.grade,
        "score": shown(verdict.score),
        "scoringProtocol": SCORING_PROTOCOL,
        "creator": scores["creator"],
        "harness": scores["harness"],
        "timestamps": {
            "startedAt": started_at,
            "scoredAt": scores["timestamp"],
            "gradedAt": moment,
            "reportedAt": moment,
        },
        "dimensions": scores["scores"],
        "validationPassed": not errors,
        "validationErrors": [finding.text() for finding in errors],
        "rawGrade": verdict.raw_grade,
        "reason": reason,
        "gradingTier": AUTONOMOUS,
        "maxAttainableGrade": rules.caps[AUTONOMOUS],
        "canonicalHash8": hash8,
        "categoricalVeto": document(veto),
        "checks": list(checks),
        "findings": [structs.asdict(finding) for finding in findings if finding.level != "error"],
        "policy": rules.id,
        **rules.systems.document(),
    }
