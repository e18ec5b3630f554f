"""The scorecard: `assay.scorecard/1`, the output of scoring and the input of grading. A team may
also write one by hand.

It has raw scores, formulas, weights, floors, gate verdicts and the version of the scoring system,
but no norms and no letter.
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
"""The roles that policies know. A criterion may have another role, but not a misspelling of one of
these: it would lose its floor.
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
    """A floor below the one that the role demands. On a scorecard without a profile it counts only
    if the policy allows it.
    """

    value: Floor
    """The floor that applies instead."""
    reason: Annotated[str, Meta(pattern=r"\S")]
    """Why it is lower; shown in the report."""


class Criterion(ClosedRecord, frozen=True):
    """One criterion with its raw score."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    """The criterion's name."""
    raw_score: Any
    """The score on its own scale; null only where `missing` gives the reason."""
    formula_id: str
    """The formula that maps the raw score to 0..1."""
    weight: Number
    """Its share of the weighted score, relative to the other weights."""
    params: dict[str, Any] = {}
    """The parameters of the formula."""
    critical_floor: Floor = None
    """The score below which the run fails, as `{"raw": x}` or `{"norm": x}`."""
    floor_override: FloorOverride | None = None
    """A floor below the one that the role demands, with its reason."""
    role: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """What the criterion measures, such as `correctness` or `safety`; policies set floors by role.
    """
    layer: Literal[1, 2, 3] | None = None
    """1 objective, 2 rubric or judge, 3 operations."""
    n: Count = 1
    """The number of samples behind the score; few samples shrink the adjusted score."""
    label: str | None = None
    """The name that people see."""
    source: Source | None = None
    """Who gave the score."""
    disagreement: Disagreement | None = None
    """How far those who scored it disagreed."""
    missing: Annotated[str, Meta(min_length=1)] | None = None
    """Why there is no score. It counts as 0."""


class StepScore(ClosedRecord, frozen=True):
    """What one step did, and the scores given to it."""

    name: str
    """The step's name."""
    status: StepStatus
    """How the step ended."""
    critical: bool
    """Whether a failure of this step fails the run."""
    agent: str | None = None
    """The agent that did the step."""
    duration_ms: OptionalNumber = None
    """How long it took, in milliseconds."""
    retries: int | None = None
    """How often it was tried again."""
    model: str | None = None
    """The model it used."""
    tier: str | None = None
    """The size or price class of the model."""
    tokens: int | None = None
    """Tokens it used."""
    cost_usd: OptionalNumber = None
    """What it cost, in US dollars."""
    scores: dict[str, Any] = {}
    """Scores given to this step, by criterion."""


class AgentScore(ClosedRecord, frozen=True):
    """What one agent did over all its steps. A sum is null if a step did not report its part;
    `unreported` counts such steps.
    """

    agent: str
    """The agent."""
    steps: int
    """How many steps it did."""
    succeeded: int
    """Steps that succeeded."""
    failed: int
    """Steps that failed."""
    skipped: int
    """Steps that were skipped."""
    success_rate: float
    """The share of its steps that succeeded."""
    duration_ms: OptionalNumber = None
    """The time of all its steps, in milliseconds."""
    retries: int | None = None
    """Retries of all its steps."""
    tokens: int | None = None
    """Tokens of all its steps."""
    cost_usd: OptionalNumber = None
    """The cost of all its steps, in US dollars."""
    unreported: dict[str, int] = {}
    """Steps that did not report a value, by field."""
    scores: dict[str, Any] = {}
    """The mean of its steps' scores, by criterion."""


class Selection(ClosedRecord, frozen=True):
    """Which profile or rubric was used, and why that one."""

    id: str
    """The profile or rubric, as name@version."""
    why: str
    """Why this one was used."""


STATUS_GATE = "overall_status_success"
"""The gate that a run opens by its success."""


class Scorecard(ClosedRecord, frozen=True):
    """Gates and criteria of one run, ready to be graded."""

    schema: Literal["assay.scorecard/1"]
    """The kind and version of this document."""
    run_id: Annotated[str, Meta(min_length=1, max_length=500)]
    """The run that it is about."""
    hard_gates: dict[str, bool | None]
    """The verdict of every gate: true, false, or null, which fails."""
    criteria: list[Criterion]
    """The criteria with their raw scores and weights."""
    pass_threshold: OptionalNumber = None
    """The score from 0 to 100 that the run must reach, instead of the policy's."""
    sample_id: str | None = None
    """The sample that the run is about."""
    group: str | None = None
    """The group of the sample; samples of one group are not independent."""
    tags: list[str] = []
    """Labels for slicing results."""
    gate_reasons: dict[str, str] = {}
    """Why each gate has its verdict."""
    notes: list[str] = []
    """What scoring noticed."""
    profile: Selection | None = None
    """The profile that made it."""
    rubric: Selection | None = None
    """The rubric that overrode criteria."""
    workflow: Workflow | None = None
    """The workflow that ran."""
    dataset: Dataset | None = None
    """The sample it ran on."""
    status: str | None = None
    """How the run ended."""
    attempt: Annotated[int, Meta(ge=1)] | None = None
    """Which attempt at the sample this is, from 1."""
    attempts: Annotated[int, Meta(ge=1)] | None = None
    """How many attempts at the sample were announced."""
    ended_by: str | None = None
    """What ended a run that did not succeed, such as an error of the provider."""
    judge: Judge | None = None
    """The judge that gave the scores."""
    latency_ms: OptionalNumber = None
    """How long the run took, in milliseconds."""
    cost_usd: OptionalNumber = None
    """What the run cost, in US dollars."""
    tokens: int | None = None
    """Tokens of the run."""
    retries: int | None = None
    """Retries of the run."""
    step_scores: list[StepScore] = []
    """What each step did, and its scores."""
    agent_scores: list[AgentScore] = []
    """What each agent did over all its steps."""
    scoring_system: Annotated[str, Meta(pattern=SCORING_PATTERN)] = field(
        name="scoringSystem", default=SCORING_SYSTEM
    )
    """The version of the scoring system that made it."""
    digests: dict[str, Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")]] = {}
    """Digests of the run, the profile and the rubric."""
