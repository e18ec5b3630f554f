"""JSON Schemas of the documents that leave Assay: `assay.grades/1` and the summary block.

Schemas of input documents are generated from the records that read them. Output documents are
described here, and tests check real output against them.
"""

from __future__ import annotations

from typing import Any

from assay.records.systems import GRADING_PATTERN, SCORING_PATTERN

# --- what each field means

GRADES_FIELDS = {
    "schema": "The kind and version of this document.",
    "results": "One grade for each run, in the order of the input.",
    "faults": "Documents that could not be graded, and why.",
    "counts": (
        "How many documents were read, graded, passed, failed and refused, with letters, policy and"
        " versions. `bar` is the result of `--min-pass-rate`."
    ),
}
GRADE_FIELDS = {
    "run_id": "The id of the run or scorecard.",
    "passed": "Whether every gate passes, every floor is met and the score is high enough.",
    "grade": "The letter. A failed gate makes it an F, a missed floor caps it.",
    "provisional_grade": "The letter of `weighted_score` alone, without gates and floors.",
    "weighted_score": "The weighted mean of the norms, from 0 to 100, rounded to cents.",
    "weighted_score_adjusted": "The same on adjusted norms, which allow for small samples.",
    "pass_threshold": "The score that the run had to reach.",
    "reason": "Why it passed or failed, as a code.",
    "grade_reason": "What decided the letter: its band, a missed floor, or a failed gate.",
    "hard_gates": "Every gate with its status and reason. Undetermined fails.",
    "hard_gate_failures": "The gates that did not pass.",
    "criteria": "Every criterion with its score and the points it adds.",
    "floor_failures": "The criteria below their critical floor.",
    "layers": "The points of each layer: 1 objective, 2 rubric or judge, 3 operations.",
    "placement": "How far the score is from other letters, and the smallest change that moves it.",
    "explanation": "The grade in sentences.",
    "findings": "Every rule that was applied, and whether it fired.",
    "notes": "What scoring noticed, such as a score that was ignored.",
    "bands": "The letters of the policy, each with its lowest score.",
    "policy": "The policy, as name@version.",
    "profile": "The profile, as name@version; null for a bare scorecard.",
    "rubric": "The rubric, as name@version.",
    "selection": "Why this profile and rubric were used.",
    "workflow": "The workflow that ran.",
    "dataset": "The dataset that it ran on, with version and sample.",
    "sample_id": "The sample's id in its dataset.",
    "group": "The group of the sample; samples of one group are not independent.",
    "tags": "Labels for slicing results.",
    "status": "How the run ended.",
    "attempt": "Which attempt at the sample this is, from 1.",
    "attempts": "How many attempts at the sample were announced.",
    "cause": "What ended a run that did not succeed, where the run states it.",
    "judge": "The judge that the run names, with model and versions.",
    "operations": "Latency, cost, tokens and retries.",
    "step_scores": "What each step did, and its scores.",
    "agent_scores": "What each agent did over all its steps.",
    "scoringSystem": "The version of the scoring system.",
    "gradingSystem": "The version of the grading system.",
    "digests": "Digests of the run, scorecard, profile, rubric, policy and plugins behind it.",
}
CRITERION_FIELDS = {
    "name": "The criterion's id in the profile.",
    "label": "The name that people see.",
    "role": "What it stands for, such as `correctness`; the policy has floors by role.",
    "layer": "1 objective, 2 rubric or judge, 3 operations.",
    "raw_score": "The score on its own scale; null where there is none.",
    "formula_id": "The formula that brought it onto 0..1.",
    "params": "The parameters of the formula.",
    "norm": "The score on 0..1.",
    "adjusted_norm": "The norm, drawn towards the prior where few samples are behind it.",
    "n": "The number of samples behind the score.",
    "weight": "Its weight, relative to the other weights.",
    "contribution": "The points that it adds to the weighted score.",
    "maximum": "The points that it would add with a norm of 1.",
    "critical_floor": "The floor, and where it comes from.",
    "floor_failed": "Whether the floor is missed: by the score, or because the judge may not gate.",
    "missing": "Why there is no score; it counts as 0.",
    "source": "Who gave the score.",
    "disagreement": "How far those who scored it disagreed.",
    "judge_fault": "Why the judge's score may not pass the floor.",
}
LAYERS_FIELDS = {
    "1": "Points of objective criteria; null where there are none.",
    "2": "Points of criteria that a rubric or judge scores.",
    "3": "Points of operations: time and cost.",
    "none": "Points of criteria without a layer.",
}
PLACEMENT_FIELDS = {
    "notes": "How comfortable the score is, in sentences.",
    "margin_to_next_grade": "Points to the next letter by the score alone; null for the best.",
    "to_lose_grade": "Points whose loss costs the letter; null for the last.",
    "smallest_gain": "The smallest change of one criterion that gains a letter; null without one.",
    "smallest_loss": "The smallest change of one criterion that loses it; null without one.",
}
FINDING_FIELDS = {
    "rule": "The rule, such as `hard_gates` or `critical_floors`.",
    "fired": "Whether it changed anything; false shows that it was checked.",
    "subject": "The gate or criterion that it is about; empty for all of them.",
    "text": "What was found, in a sentence.",
}
BAND_FIELDS = {"grade": "The letter.", "min": "The lowest score of the letter."}
OPERATIONS_FIELDS = {
    "latency_ms": "How long the run took, in milliseconds; null if it is not reported.",
    "cost_usd": "What it cost, in US dollars.",
    "tokens": "The tokens of its models.",
    "retries": "How often steps were tried again.",
}
FAULT_FIELDS = {
    "file": "The file, as it was given.",
    "line": "The line of the document; null where the file has none.",
    "code": "The error code.",
    "path": "The key within the document, such as `criteria[1].weight`.",
    "message": "What is wrong, and what to do.",
}
INTERVAL_FIELDS = {
    "value": "The value; null if there is none.",
    "low": "The lower end of the interval.",
    "high": "The upper end of the interval.",
    "level": "The confidence level, such as 0.95.",
    "method": "How the interval was computed, such as `wilson` or `student-t`.",
    "reason": "Why there is no interval.",
}
DISTRIBUTION_FIELDS = {
    "mean": "The mean, with its interval.",
    "sd": "The standard deviation.",
    "quantiles": "The quantiles `p5`, `p25`, `p50`, `p75` and `p95`.",
}
COVERAGE_FIELDS = {
    "scored": "Runs with a verdict for every gate and a score for every criterion.",
    "failed": "Runs with the status `failed`.",
    "inconclusive": "Runs with an undetermined gate or a missing score.",
    "errored": "Runs with the status `error`, `timeout` or `cancelled`.",
    "not_applicable": "Always 0: every run is graded.",
}
FAILURE_FIELDS = {
    "reason": "A gate, a missed floor, a missing score, or a score below the threshold.",
    "count": "Runs with this reason. A run can have several.",
    "example": "The id of the first such run, in the order of ids.",
}
SUMMARY_FIELDS = {
    "n": "How many runs there are.",
    "coverage": "Each run once, by the worst that applies.",
    "pass_rate": "The share that passed, with its interval.",
    "weighted_score": "The distribution of the weighted scores, from 0 to 100.",
    "gates": "How often each gate failed.",
    "criteria": "The distribution of each criterion's norms.",
    "slices": "Count, coverage, pass rate and score of the runs of each family, tag and group.",
    "grades": "Runs by letter.",
    "top_failure_reasons": "The most frequent reasons for failures.",
    "operations": "Latency, cost, tokens and retries.",
    "policies": "The policies that graded the runs.",
    "profiles": "The profiles that scored the runs.",
    "scoringSystem": "The version of the scoring system.",
    "gradingSystem": "The version of the grading system.",
}


def described(schema: dict[str, Any], texts: dict[str, str]) -> dict[str, Any]:
    """A schema with the meaning of each of its fields. A field without a text is an error."""
    fields = {
        name: {"description": texts[name], **field} for name, field in schema["properties"].items()
    }
    return {**schema, "properties": fields}


# --- the schemas

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
_CRITERION = described(_CRITERION, CRITERION_FIELDS)
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
            LAYERS_FIELDS,
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
            PLACEMENT_FIELDS,
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
                FINDING_FIELDS,
            ),
        },
        "notes": _NAMES,
        "bands": {
            "type": "array",
            "items": described(_closed({"grade": _LETTER, "min": _SCORE}), BAND_FIELDS),
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
            OPERATIONS_FIELDS,
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
_GRADE = described(_GRADE, GRADE_FIELDS)
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
    INTERVAL_FIELDS,
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
                        FAULT_FIELDS,
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
                    COVERAGE_FIELDS,
                ),
                "pass_rate": _INTERVAL,
                "weighted_score": described(_closed(_DISTRIBUTION), DISTRIBUTION_FIELDS),
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
                        FAILURE_FIELDS,
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
SCHEMAS["grades"] = described(SCHEMAS["grades"], GRADES_FIELDS)
SCHEMAS["summary"] = described(SCHEMAS["summary"], SUMMARY_FIELDS)
