"""The scorecard: `assay.scorecard/1`, what scoring hands to grading and what a team may write by
hand.

Raw scores, formulas, weights, floors and gate verdicts; no norm, no letter. The version of the
scoring system stands in it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from assay.records.evidence import (
    ClosedRecord,
    Count,
    Dataset,
    Disagreement,
    Judge,
    Number,
    OptionalNumber,
    Source,
    StepStatus,
    Workflow,
)
from assay.records.systems import SCORING_PATTERN

ROLES = ("correctness", "safety")
"""The roles that have a meaning; a criterion may have another, but none that is a slip of these: it
would lose their floor.
"""
SCORECARD_SCHEMA: Literal["assay.scorecard/1"] = "assay.scorecard/1"
SCORING_SYSTEM = "scoringSystem/1.0.0"

Floor = Annotated[
    Any,
    Meta(
        description=(
            '{"raw": x} on the formula\'s own scale, {"norm": x} on 0..1, or a bare number that can'
            " only be read one way"
        ),
        extra_json_schema={
            "anyOf": [
                {"type": ["number", "null"]},
                {
                    "type": "object",
                    "properties": {"raw": {"type": "number"}},
                    "required": ["raw"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {"norm": {"type": "number"}},
                    "required": ["norm"],
                    "additionalProperties": False,
                },
            ]
        },
    ),
]


class FloorOverride(ClosedRecord, frozen=True):
    """A floor below the one a role demands, with the reason that the report shows. On a card
    without a profile it counts only where the policy says so.
    """

    value: Floor
    reason: Annotated[str, Meta(pattern=r"\S")]


class Criterion(ClosedRecord, frozen=True):
    """One criterion with its raw score. `raw_score` is null only when `missing` says why."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    raw_score: Any
    formula_id: str
    weight: Number
    params: dict[str, Any] = {}
    critical_floor: Floor = None
    floor_override: FloorOverride | None = None
    role: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    layer: Literal[1, 2, 3] | None = None
    n: Count = 1
    label: str | None = None
    source: Source | None = None
    disagreement: Disagreement | None = None
    missing: Annotated[str, Meta(min_length=1)] | None = None


class StepScore(ClosedRecord, frozen=True):
    """What one step did, and the scores given to it."""

    name: str
    status: StepStatus
    critical: bool
    agent: str | None = None
    duration_ms: OptionalNumber = None
    retries: int | None = None
    model: str | None = None
    tier: str | None = None
    tokens: int | None = None
    cost_usd: OptionalNumber = None
    scores: dict[str, Any] = {}


class AgentScore(ClosedRecord, frozen=True):
    """What one agent did over all its steps. A sum is null when a step did not report its part, and
    `unreported` says how many.
    """

    agent: str
    steps: int
    succeeded: int
    failed: int
    skipped: int
    success_rate: float
    duration_ms: OptionalNumber = None
    retries: int | None = None
    tokens: int | None = None
    cost_usd: OptionalNumber = None
    unreported: dict[str, int] = {}
    scores: dict[str, Any] = {}


class Selection(ClosedRecord, frozen=True):
    """Which profile or rubric was used, and why that one."""

    id: str
    why: str


class Scorecard(ClosedRecord, frozen=True):
    """Gates and criteria of one run, ready to be graded."""

    schema: Literal["assay.scorecard/1"]
    run_id: Annotated[str, Meta(min_length=1, max_length=500)]
    hard_gates: dict[str, bool | None]
    criteria: list[Criterion]
    pass_threshold: OptionalNumber = None
    sample_id: str | None = None
    group: str | None = None
    tags: list[str] = []
    gate_reasons: dict[str, str] = {}
    notes: list[str] = []
    profile: Selection | None = None
    rubric: Selection | None = None
    workflow: Workflow | None = None
    dataset: Dataset | None = None
    status: str | None = None
    judge: Judge | None = None
    latency_ms: OptionalNumber = None
    cost_usd: OptionalNumber = None
    tokens: int | None = None
    retries: int | None = None
    step_scores: list[StepScore] = []
    agent_scores: list[AgentScore] = []
    scoring_system: Annotated[str, Meta(pattern=SCORING_PATTERN)] = field(
        name="scoringSystem", default=SCORING_SYSTEM
    )
    digests: dict[str, Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")]] = {}
