"""JSON Schemas of the documents that leave Assay: `assay.grades/1` and the summary block.

Schemas of input documents are generated from the records that read them. Output documents are
described here, and tests check real output against them.
"""

from __future__ import annotations

from typing import Any

from assay.records.systems import GRADING_PATTERN, SCORING_PATTERN
from assay.views import grade_fields
from assay.views.grade_fields import described

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_NUMBER_OR_NULL = {"type": ["number", "null"]}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_SCORING = {"type": "string", "pattern": SCORING_PATTERN}
_GRADING = {"type": "string", "pattern": GRADING_PATTERN}
_LETTER = {"enum": ["A", "B", "C", "D", "F"]}
_NAMES = {"type": "array", "items": {"type": "string"}}
_NORM = {"type": "number", "minimum": 0, "maximum": 1}
_SCORE = {"type": "number", "minimum": 0, "maximum": 100}


def _closed(properties: dict[str, Any], *, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


_CRITERION = _closed(
    {
        "name": {"type": "string"},
        "label": _TEXT_OR_NULL,
        "role": _TEXT_OR_NULL,
        "layer": {"enum": [1, 2, 3, None]},
        "raw_score": {"type": ["number", "object", "null"]},
        "formula_id": {"type": "string"},
        "params": {"type": "object"},
        "norm": _NORM,
        "adjusted_norm": _NORM,
        "n": {"type": "integer", "minimum": 0},
        "weight": {"type": "number", "minimum": 0},
        "contribution": _SCORE,
        "maximum": _SCORE,
        "critical_floor": {
            "anyOf": [
                {"type": "null"},
                _closed(
                    {
                        "raw": _NUMBER_OR_NULL,
                        "norm": _NORM,
                        "from": {"enum": ["criterion", "role", "override"]},
                    }
                ),
            ]
        },
        "floor_failed": {"type": "boolean"},
        "missing": _TEXT_OR_NULL,
        "source": {"type": "object"},
        "disagreement": {"type": "object"},
        "judge_fault": {"type": "string"},
    },
    optional=("source", "disagreement", "judge_fault"),
)
_CRITERION = described(_CRITERION, grade_fields.CRITERION)
_MOVE = {
    "anyOf": [
        {"type": "null"},
        _closed(
            {
                "criterion": {"type": "string"},
                "grade": _LETTER,
                "norm": _NORM,
                "needed_norm": _NORM,
                "needed_raw": {},
            }
        ),
    ]
}
_GRADE = _closed(
    {
        "run_id": {"type": "string"},
        "passed": {"type": "boolean"},
        "grade": _LETTER,
        "provisional_grade": _LETTER,
        "weighted_score": _SCORE,
        "weighted_score_adjusted": _SCORE,
        "pass_threshold": _SCORE,
        "reason": {
            "enum": [
                "passed",
                "hard_gate_failure",
                "critical_floor_failure",
                "below_pass_threshold",
                "below_passing_grade",
                "no_hard_gates",
            ]
        },
        "grade_reason": {"enum": ["band", "floor_cap", "hard_gate_failure"]},
        "hard_gates": {
            "type": "object",
            "additionalProperties": _closed(
                {
                    "status": {"enum": ["pass", "fail", "undetermined"]},
                    "reason": {"type": "string", "minLength": 1},
                }
            ),
        },
        "hard_gate_failures": _NAMES,
        "criteria": {"type": "array", "items": _CRITERION, "minItems": 1},
        "floor_failures": _NAMES,
        "layers": described(
            _closed(
                {
                    "1": _NUMBER_OR_NULL,
                    "2": _NUMBER_OR_NULL,
                    "3": _NUMBER_OR_NULL,
                    "none": _NUMBER_OR_NULL,
                },
                optional=("none",),
            ),
            grade_fields.LAYERS,
        ),
        "placement": described(
            _closed(
                {
                    "notes": _NAMES,
                    "margin_to_next_grade": _NUMBER_OR_NULL,
                    "to_lose_grade": _NUMBER_OR_NULL,
                    "smallest_gain": _MOVE,
                    "smallest_loss": _MOVE,
                }
            ),
            grade_fields.PLACEMENT,
        ),
        "explanation": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
        },
        "findings": {
            "type": "array",
            "items": described(
                _closed(
                    {
                        "rule": {"type": "string"},
                        "fired": {"type": "boolean"},
                        "subject": {"type": "string"},
                        "text": {"type": "string"},
                    }
                ),
                grade_fields.FINDING,
            ),
        },
        "notes": _NAMES,
        "bands": {
            "type": "array",
            "items": described(_closed({"grade": _LETTER, "min": _SCORE}), grade_fields.BAND),
        },
        "policy": {"type": "string"},
        "profile": _TEXT_OR_NULL,
        "rubric": _TEXT_OR_NULL,
        "selection": {"type": "object"},
        "workflow": {"type": ["object", "null"]},
        "dataset": {"type": ["object", "null"]},
        "sample_id": _TEXT_OR_NULL,
        "group": _TEXT_OR_NULL,
        "tags": _NAMES,
        "status": _TEXT_OR_NULL,
        "attempt": {"type": "integer", "minimum": 1},
        "attempts": {"type": "integer", "minimum": 1},
        "cause": {"type": "string"},
        "judge": {"type": ["object", "null"]},
        "operations": described(
            _closed(
                {
                    "latency_ms": _NUMBER_OR_NULL,
                    "cost_usd": _NUMBER_OR_NULL,
                    "tokens": _NUMBER_OR_NULL,
                    "retries": _NUMBER_OR_NULL,
                }
            ),
            grade_fields.OPERATIONS,
        ),
        "step_scores": {"type": "array", "items": {"type": "object"}},
        "agent_scores": {"type": "array", "items": {"type": "object"}},
        "scoringSystem": _SCORING,
        "gradingSystem": _GRADING,
        "digests": {
            "type": "object",
            "additionalProperties": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
        },
    },
    optional=("attempt", "attempts", "cause"),
)
_GRADE = described(_GRADE, grade_fields.GRADE)
_INTERVAL = described(
    _closed(
        {
            "value": _NUMBER_OR_NULL,
            "low": _NUMBER_OR_NULL,
            "high": _NUMBER_OR_NULL,
            "level": _NORM,
            "method": {"type": "string"},
            "reason": {"type": "string"},
        },
        optional=("reason",),
    ),
    grade_fields.INTERVAL,
)
_DISTRIBUTION = {
    "mean": _INTERVAL,
    "sd": _NUMBER_OR_NULL,
    "quantiles": {"type": "object", "additionalProperties": _NUMBER_OR_NULL},
}
_COUNT = {"type": "integer", "minimum": 0}

SCHEMAS: dict[str, dict[str, Any]] = {
    "grades": {
        "$schema": _DRAFT,
        "title": "assay.grades/1",
        **_closed(
            {
                "schema": {"const": "assay.grades/1"},
                "results": {"type": "array", "items": _GRADE},
                "faults": {
                    "type": "array",
                    "items": described(
                        _closed(
                            {
                                "file": {"type": "string"},
                                "line": {"type": ["integer", "null"]},
                                "code": {"type": "string"},
                                "path": {"type": "string"},
                                "message": {"type": "string"},
                            }
                        ),
                        grade_fields.FAULT,
                    ),
                },
                "counts": {"type": "object"},
            }
        ),
    },
    "summary": {
        "$schema": _DRAFT,
        "title": "assay summary",
        **_closed(
            {
                "n": _COUNT,
                "coverage": described(
                    _closed(
                        dict.fromkeys(
                            ("scored", "failed", "inconclusive", "errored", "not_applicable"),
                            _COUNT,
                        )
                    ),
                    grade_fields.COVERAGE,
                ),
                "pass_rate": _INTERVAL,
                "weighted_score": described(_closed(_DISTRIBUTION), grade_fields.DISTRIBUTION),
                "gates": {
                    "type": "object",
                    "additionalProperties": _closed(
                        {"failed": _COUNT, "undetermined": _COUNT, "n": _COUNT, "rate": _INTERVAL}
                    ),
                },
                "criteria": {
                    "type": "object",
                    "additionalProperties": _closed(
                        {
                            "n": _COUNT,
                            **_DISTRIBUTION,
                            "histogram": {"type": "array"},
                            "floor_failures": _COUNT,
                            "missing": _COUNT,
                        }
                    ),
                },
                "slices": {"type": "object"},
                "grades": {"type": "object", "additionalProperties": _COUNT},
                "top_failure_reasons": {
                    "type": "array",
                    "items": described(
                        _closed(
                            {
                                "reason": {"type": "string"},
                                "count": _COUNT,
                                "example": {"type": "string"},
                            }
                        ),
                        grade_fields.FAILURE,
                    ),
                },
                "operations": {"type": "object"},
                "policies": _NAMES,
                "profiles": _NAMES,
                "scoringSystem": {"type": "string"},
                "gradingSystem": {"type": "string"},
            }
        ),
    },
}
SCHEMAS["grades"] = described(SCHEMAS["grades"], grade_fields.GRADES)
SCHEMAS["summary"] = described(SCHEMAS["summary"], grade_fields.SUMMARY)
