"""JSON Schemas (2020-12) of the files of the scoring protocol, which its specification promises and
never published.

They say no more than a schema can: that a slug belongs to its id, that scores belong to this
schema, is checked by `protocol`.
"""

from __future__ import annotations

from typing import Any

from assay.records.systems import GRADING_PATTERN, SCORING_PATTERN
from assay.tools.answers import HIGHEST, LOWEST, MOOT, NA_REASONS, TRANSPORT_DIMENSIONS
from assay.tools.entry import extended_schema, published_schema
from assay.tools.versions import SCORING_PROTOCOL
from assay.tools.veto import TRIGGERS

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEXT = {"type": "string", "minLength": 1}
_TIME = {"type": "string", "format": "date-time"}
_ID = {"type": "string", "pattern": "^[^/]+/[^/]+$"}
_SLUG = {"type": "string", "pattern": "^[^/]+_[^/]+$"}
_PROTOCOL = {"const": SCORING_PROTOCOL}
_WHO = {"type": "object", "minProperties": 1}
_GRADE = {"enum": ["A", "B", "C", "D", "F", "REJECTED"]}


def _object(
    properties: dict[str, Any], *, optional: tuple[str, ...] = (), closed: bool = False
) -> dict[str, Any]:
    made = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }
    return {**made, "additionalProperties": False} if closed else made


def _one_of_each(items: dict[str, Any], *, moot: str | None = None) -> dict[str, Any]:
    """A list with exactly one item for each dimension, in any order; the moot one may be left
    out.
    """
    each = [
        {
            "contains": {"properties": {"dimension": {"const": name}}, "required": ["dimension"]},
            "minContains": int(name != moot),
            "maxContains": 1,
        }
        for name in TRANSPORT_DIMENSIONS
    ]
    return {
        "type": "array",
        "items": items,
        "minItems": len(each) - (moot is not None),
        "maxItems": len(each),
        "allOf": each,
    }


_NUMBER = {"type": "number", "minimum": LOWEST, "maximum": HIGHEST}
_REASONED = {"score": _NUMBER, "reasoning": {"type": "string"}}
_SCORE = _object(
    {"dimension": {"enum": list(TRANSPORT_DIMENSIONS)}, **_REASONED}, optional=("reasoning",)
)
_MOOT = _object(
    {
        "dimension": {"const": MOOT},
        "score": {"const": "n/a"},
        "naReason": {"const": NA_REASONS[0]},
        "reasoning": {"type": "string"},
    }
)
_UNNAMED = {**_object(_REASONED, optional=("reasoning",)), "not": {"required": ["dimension"]}}
_SCORES = {
    "anyOf": [
        _one_of_each({"anyOf": [_SCORE, {**_MOOT, "required": ["dimension", "score"]}]}, moot=MOOT),
        {"type": "array", "items": _UNNAMED, "minItems": 1, "maxItems": len(TRANSPORT_DIMENSIONS)},
    ]
}
"""With the dimension of each, in any order; or in the order of the prompts, without any."""


def _asked(dimensions: tuple[str, ...]) -> dict[str, Any]:
    each = [
        _object({"dimension": {"const": name}, "prompt": _TEXT}, closed=True) for name in dimensions
    ]
    return {"type": "array", "prefixItems": each, "items": False, "minItems": len(each)}


_PROMPTS = {
    "anyOf": [
        _asked(TRANSPORT_DIMENSIONS),
        _asked(tuple(name for name in TRANSPORT_DIMENSIONS if name != MOOT)),
    ]
}
"""One for each dimension; a server without instructions is not asked when to use it."""
_FINDING = _object(
    {
        "rule": _TEXT,
        "level": {"enum": ["error", "warning", "note"]},
        "path": {"type": "string"},
        "message": _TEXT,
        "fix": {"type": "string"},
        "line": {"type": ["integer", "null"], "minimum": 1},
    },
    closed=True,
)
_CHECK = _object(
    {
        "id": {"enum": [*TRIGGERS, "tos-attached"]},
        "outcome": {"enum": ["clean", "veto", "undetermined", "not attached"]},
        "reason": _TEXT,
        "evidence": {"type": "object"},
    },
    closed=True,
)


def _titled(title: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": _DRAFT, "title": title, **schema}


def _all() -> dict[str, dict[str, Any]]:
    prompts = _object(
        {
            "schemaId": _ID,
            "schemaIdSlug": _SLUG,
            "schemaPath": _TEXT,
            "scoringProtocol": _PROTOCOL,
            "scoringInstructions": _TEXT,
            "prompts": _PROMPTS,
        },
        closed=True,
    )
    scores = _object(
        {
            "schemaIdSlug": _SLUG,
            "scoringProtocol": _PROTOCOL,
            "creator": _WHO,
            "harness": _WHO,
            "timestamp": _TIME,
            "scores": _SCORES,
        }
    )
    report = _object(
        {
            "schemaId": _ID,
            "schemaIdSlug": _SLUG,
            "schemaPath": _TEXT,
            "schemaHash": {"type": "string", "pattern": "^sha256:[a-f0-9]{64}$"},
            "date": {"type": "string", "format": "date"},
            "grade": _GRADE,
            "score": {"type": "number", "minimum": LOWEST, "maximum": HIGHEST},
            "scoringProtocol": _PROTOCOL,
            "creator": _WHO,
            "harness": _WHO,
            "timestamps": _object(
                {
                    "startedAt": {"anyOf": [_TIME, {"type": "null"}]},
                    "scoredAt": _TIME,
                    "gradedAt": _TIME,
                    "reportedAt": _TIME,
                }
            ),
            "dimensions": _one_of_each({"anyOf": [_SCORE, _MOOT]}),
            "validationPassed": {"type": "boolean"},
            "validationErrors": {"type": "array", "items": {"type": "string"}},
            "rawGrade": {"enum": ["A", "B", "C", "D", "F", None]},
            "reason": _TEXT,
            "gradingTier": {"const": "autonomous"},
            "maxAttainableGrade": {"const": "B"},
            "canonicalHash8": {"type": ["string", "null"], "pattern": "^[a-f0-9]{8}$"},
            "categoricalVeto": {"type": ["object", "null"]},
            "checks": {"type": "array", "items": _CHECK},
            "findings": {"type": "array", "items": _FINDING},
            "policy": _TEXT,
            "scoringSystem": {"type": "string", "pattern": SCORING_PATTERN},
            "gradingSystem": {"type": "string", "pattern": GRADING_PATTERN},
        },
        optional=(
            "rawGrade",
            "reason",
            "gradingTier",
            "maxAttainableGrade",
            "canonicalHash8",
            "categoricalVeto",
            "checks",
            "findings",
            "policy",
            "scoringSystem",
            "gradingSystem",
        ),
    )
    return {
        "prompts": _titled("prompts.json of scoring protocol v1", prompts),
        "scores": _titled("scores.json of scoring protocol v1", scores),
        "grade-report": _titled("Grade report of scoring protocol v1", report),
        "grading-entry": published_schema("grading-entry"),
        "grading-entry-extended": extended_schema(),
        "index": published_schema("index"),
    }


SCHEMAS = _all()
