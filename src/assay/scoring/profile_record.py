"""The record of a profile's YAML file. `profile` checks it and makes a plan from it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from assay.records.evidence import ClosedRecord, Number
from assay.records.scorecard import Criterion, Floor, FloorOverride
from assay.records.systems import FIRST, Version

Text = Annotated[str, Meta(min_length=1)]


class GateRef(ClosedRecord, frozen=True):
    """A gate that a profile requires."""

    id: str
    """The gate."""
    params: dict[str, Any] = {}
    """Parameters that differ from the gate's defaults."""
    verdict: bool = False
    """Whether its verdict always comes with the run."""
    title: str | None = None
    """The name that people see."""


class ProfileCriterion(ClosedRecord, frozen=True):
    """One weighted criterion of a profile."""

    id: str
    """The criterion's name."""
    label: Text
    """The name that people see."""
    weight: Number
    """Its share of the weighted score, relative to the other weights."""
    layer: Literal[1, 2, 3]
    """1 objective, 2 rubric or judge, 3 operations."""
    formula: str
    """The formula that maps the raw score to 0..1."""
    params: dict[str, Any] = {}
    """The parameters of the formula."""
    measure: str | None = None
    """The measure that computes the raw score from the evidence; without one, the score comes with
    the run.
    """
    measure_params: dict[str, Any] = {}
    """The parameters of the measure."""
    role: str | None = None
    """What it measures, such as `correctness`; policies set floors by role."""
    critical_floor: Floor = None
    """The score below which the run fails, as `{raw: x}` or `{norm: x}`."""
    floor_override: FloorOverride | None = None
    """A floor below the one that the role demands, with its reason."""

    def scored(self, raw_score: Any, **known: Any) -> Criterion:
        """The criterion on a scorecard, with its raw score and what is known of it."""
        return Criterion(
            name=self.id,
            raw_score=raw_score,
            formula_id=self.formula,
            params=self.params,
            weight=self.weight,
            critical_floor=self.critical_floor,
            floor_override=self.floor_override,
            role=self.role,
            layer=self.layer,
            label=self.label,
            **known,
        )


class ProfileJudgeTerms(ClosedRecord, frozen=True):
    """What is required of the judges behind scores that the profile doesn't measure.

    With `calibration: required`, no score passes a floor without an admitted card of its judge,
    under any policy; `by_policy` leaves that to the policy's terms. With `order: both`, a pairwise
    score passes no floor unless the evidence has how often the two orders disagreed.
    """

    calibration: Literal["required", "by_policy"]
    """Whether every judge needs a card, or the policy decides."""
    order: Literal["both"] | None = None
    """`both`: pairs must be judged in both orders."""


class Profile(ClosedRecord, frozen=True):
    """How one family of workflows is scored."""

    profile: Text
    """The profile's name."""
    version: int | str
    """Its version. A published version never changes."""
    title: Text
    """The name that people see."""
    family: Text
    """The workflow family that it serves."""
    gates: list[GateRef]
    """The gates besides the five that every run must pass."""
    criteria: Annotated[list[ProfileCriterion], Meta(min_length=1)]
    """The criteria, each with its weight."""
    alias: str | None = None
    """A short name, such as `A`."""
    rubric: str | None = None
    """The rubric that a judge scores by."""
    judge: ProfileJudgeTerms | None = None
    """What is required of judges."""
    scoring_system: Version = FIRST
    """The version of the scoring system that it needs."""
    description: str | None = None
    """What it is for."""
    made_from: str | None = None
    """What Assay made the profile from, such as the metrics of a result file; null if somebody
    wrote it.
    """
    not_graded: list[str] = []
    """The metrics that a made profile leaves out, because their scale or direction is unknown."""

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.profile}@{self.version}"
