"""A graded exam, `assay.exam/1`, and what its gate decides, `assay.exam-gate/1`.

Keys that a later version adds are let through when a result is read; nothing here is decided by
them. Whether the numbers of a result add up is checked in `exams.document`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from assay.records.evidence import Number, OptionalNumber

EXAM_SCHEMA = "assay.exam/1"
GATE_SCHEMA = "assay.exam-gate/1"
ExamSet = Literal["capstone", "regression"]
AxisNumbers = dict[str, Number]
"""A number for each axis, in the order of the rubric."""


class _ExamPart(Struct, frozen=True):
    pass


class ExamFileCount(_ExamPart, frozen=True, kw_only=True):
    """A file of the exam, and how many items it has."""

    exam: str
    version: int | str
    items: int


class ItemResult(_ExamPart, frozen=True, kw_only=True):
    """One item in the shape of the rubric chapter."""

    item: str
    prompt: str
    expected: list[str]
    got: str | None
    score: Number
    breakdown: AxisNumbers
    weighted: AxisNumbers

    @property
    def lost(self) -> list[str]:
        """The axes without a mark."""
        return [axis for axis, mark in self.breakdown.items() if mark != 1]


class AxisResult(_ExamPart, frozen=True, kw_only=True):
    """One axis over all items."""

    mean: Number
    lost: Number
    zero_items: int


class LostMark(_ExamPart, frozen=True, kw_only=True):
    """An axis that an item lost: what would have earned the mark, and what was given instead."""

    item: str
    axis: str
    expected: str
    given: str
    """Empty where nothing was given."""


AxisResults = dict[str, AxisResult]
"""Every axis over all items, in the order of the rubric."""


class ScoreCount(_ExamPart, frozen=True, kw_only=True):
    """How many items have a score."""

    score: Number
    items: int


class PatternSeen(_ExamPart, frozen=True, kw_only=True):
    """A pattern across the items, what was seen of it, and where to look."""

    kind: str
    evidence: dict[str, Any]
    hint: str


class LatencyResult(_ExamPart, frozen=True, kw_only=True):
    """How long the answers took."""

    p50_ms: OptionalNumber = None
    n: int = 0


class ExamDigests(_ExamPart, frozen=True, kw_only=True):
    """What a result was made of."""

    exam: str
    rubric: str
    policy: str = ""
    items: dict[str, str]
    """What each item of the exam asks and expects, by its id."""


class PassLine(_ExamPart, frozen=True, kw_only=True):
    """The least score of a pass, where the exam or the command names one."""

    holds: bool
    limit: Number


class ExamResult(_ExamPart, frozen=True, kw_only=True):
    """A graded exam."""

    schema: Literal["assay.exam/1"] = "assay.exam/1"
    exams: list[ExamFileCount] = []
    set: ExamSet = "capstone"
    rubric: str
    policy: str = ""
    score: Number
    n: Annotated[int, Meta(ge=1)]
    missing: list[str]
    missing_reasons: dict[str, str] = {}
    unknown: list[str] = []
    items: Annotated[list[ItemResult], Meta(min_length=1)]
    axes: AxisResults | None = None
    distribution: list[ScoreCount] = []
    patterns: list[PatternSeen] = []
    diagnosis: list[str] = []
    latency: LatencyResult
    faults: list[Any] = []
    notes: list[str] = []
    digests: ExamDigests
    scoring_system: str = field(name="scoringSystem")
    grading_system: str = field(name="gradingSystem")
    broken: list[Any] | UnsetType = UNSET
    """What leaving a step of normalisation out would have done, where that was asked for."""
    recalibrated_from: str | UnsetType | None = UNSET
    looked_for: dict[str, str] | UnsetType = UNSET
    """The patterns that the rubric names, and what each means."""
    axis_names: list[str] | UnsetType = UNSET
    """The axes in the rubric's order, where they are not the tutor's four."""
    pass_line: PassLine | UnsetType = UNSET


class HardGate(_ExamPart, frozen=True, kw_only=True):
    """The hard gate on the capstone exam."""

    holds: bool
    score: Number
    limit: Number
    n: int


class TargetCheck(_ExamPart, frozen=True, kw_only=True):
    """The production target, which does not block."""

    holds: bool
    score: Number
    limit: Number


class AxisDrop(_ExamPart, frozen=True, kw_only=True):
    """One axis of the regression set against its baseline, item by item."""

    holds: bool
    drop: Number
    """How far the mean fell; below zero where it rose."""
    limit: Number
    lost: int
    """Items that had the mark and lost it."""
    gained: int
    lost_limit: OptionalNumber = None
    """The largest share of the items that may lose the mark, whatever others gain."""
    lost_items: list[str] = []


class DropCheck(_ExamPart, frozen=True, kw_only=True):
    """The regression set against its baseline."""

    holds: bool
    drop: Number
    limit: Number
    baseline: Number
    candidate: Number
    axes: AxisNumbers
    """How the mean of each axis moved."""
    by_axis: dict[str, AxisDrop] | UnsetType = UNSET
    """Each axis against its own limits, where the policy has such limits."""


class SoftGate(_ExamPart, frozen=True, kw_only=True):
    """A soft gate. `warn` is None where there was nothing to judge."""

    id: str
    warn: bool | None
    value: OptionalNumber
    limit: Number
    reason: str = ""
    blocks: Literal[False] = False


class RubricCheck(_ExamPart, frozen=True, kw_only=True):
    """A rise that is large enough to be a fault of the rubric, and the rubric's own test."""

    rise: Number
    limit: Number
    self_test: dict[str, Any]

    @property
    def holds(self) -> bool:
        """Whether the rubric passes its own test."""
        return self.self_test["passed"] is True


class ExamGateDigests(_ExamPart, frozen=True, kw_only=True):
    """What a gate decided by."""

    rubric: str
    policy: str
    exam: str


class ExamGate(_ExamPart, frozen=True, kw_only=True):
    """What the gates on graded exams decide."""

    schema: Literal["assay.exam-gate/1"] = "assay.exam-gate/1"
    passed: bool
    capstone: HardGate
    target: TargetCheck
    regression: DropCheck | None
    soft: list[SoftGate]
    verify_rubric: RubricCheck | None
    reasons: list[str]
    notes: list[str]
    rubric: str
    policy: str
    digests: ExamGateDigests
    scoring_system: str = field(name="scoringSystem")
    grading_system: str = field(name="gradingSystem")
    baseline_written: str | UnsetType = UNSET
