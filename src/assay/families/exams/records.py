"""A graded exam, `assay.exam/1`, and the decision of its gate, `assay.exam-gate/1`.

Reading a result ignores unknown keys, which a later version may have added. `exams.results` checks
whether the numbers of a result add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from assay.files.json_files import read_json
from assay.records.evidence import Number, OptionalNumber

EXAM_SCHEMA = "assay.exam/1"
EXAM_GATE = "assay.exam-gate/1"
ExamSet = Literal["capstone", "regression"]
AxisNumbers = dict[str, Number]
"""A number for each axis, in the order of the rubric."""


class _ExamPart(Struct, frozen=True):
    pass


class ExamFileCount(_ExamPart, frozen=True, kw_only=True):
    """A file of the exam, and how many items it has."""

    exam: str
    """The `exam` key of the file."""
    version: int | str
    """Its version."""
    items: int
    """How many items it has."""


class ItemResult(_ExamPart, frozen=True, kw_only=True):
    """One item with its marks."""

    item: str
    """The item's id."""
    prompt: str
    """The question."""
    expected: list[str]
    """What the rubric's main axis expects."""
    got: str | None
    """What the main axis read in the answer; null if it could read nothing."""
    score: Number
    """The item's score, from 0 to 1."""
    breakdown: AxisNumbers
    """The mark of each axis, 0 or 1."""
    weighted: AxisNumbers
    """Each mark times its axis's weight; the sum is `score`."""

    @property
    def lost(self) -> list[str]:
        """The axes without a mark."""
        return [axis for axis, mark in self.breakdown.items() if mark != 1]


class AxisResult(_ExamPart, frozen=True, kw_only=True):
    """One axis over all items."""

    mean: Number
    """The share of items that have the mark."""
    lost: Number
    """What this axis costs the exam's score: its weight times the share of items without the mark.
    """
    zero_items: int
    """How many items have a mark of 0."""


class LostMark(_ExamPart, frozen=True, kw_only=True):
    """A mark that an item lost: what would have earned it, and the answer instead."""

    item: str
    """The item's id."""
    axis: str
    """The axis."""
    expected: str
    """What would have earned the mark."""
    given: str
    """The answer; empty if there was none."""


AxisResults = dict[str, AxisResult]
"""Every axis over all items, in the order of the rubric."""


class ScoreCount(_ExamPart, frozen=True, kw_only=True):
    """How many items have a score."""

    score: Number
    """A score that items have."""
    items: int
    """How many items have it."""


class PatternSeen(_ExamPart, frozen=True, kw_only=True):
    """A pattern across the items, its evidence, and where to look for the cause."""

    kind: str
    """The pattern's id in the rubric."""
    evidence: dict[str, Any]
    """The items and numbers that show it."""
    hint: str
    """Where to look for the cause."""


class LatencyResult(_ExamPart, frozen=True, kw_only=True):
    """How long the answers took."""

    p50_ms: OptionalNumber = None
    """The median time of an answer, in milliseconds."""
    n: int = 0
    """How many answers state their time."""


class ExamDigests(_ExamPart, frozen=True, kw_only=True):
    """The digests of what a result was made from."""

    exam: str
    """The digest of the set and of every item."""
    rubric: str
    """The digest of the rubric."""
    policy: str = ""
    """The digest of the policy."""
    items: dict[str, str]
    """The digest of what each item asks and expects, by its id."""


class PassLine(_ExamPart, frozen=True, kw_only=True):
    """The passing score, if the exam or the command sets one."""

    holds: bool
    """Whether the score reaches it."""
    limit: Number
    """The lowest score that passes."""


class ExamResult(_ExamPart, frozen=True, kw_only=True):
    """A graded exam."""

    schema: Literal["assay.exam/1"] = "assay.exam/1"
    """The kind and version of this document."""
    exams: list[ExamFileCount] = []
    """The files that the exam consists of."""
    set: ExamSet = "capstone"
    """Whether the exam is a capstone or a regression set; each has its own gate."""
    rubric: str
    """The rubric, as name@version."""
    policy: str = ""
    """The policy, as name@version."""
    score: Number
    """The mean of the items' scores, from 0 to 1."""
    n: Annotated[int, Meta(ge=1)]
    """How many items the exam has."""
    missing: list[str]
    """Items without an answer. They score 0."""
    missing_reasons: dict[str, str] = {}
    """Why the tutor gave no answer, by the item's id. Items for which it doesn't say are absent."""
    unknown: list[str] = []
    """Ids in the answers that the exam doesn't have; they are ignored."""
    items: Annotated[list[ItemResult], Meta(min_length=1)]
    """Each item with its marks, in the order of the exam."""
    axes: AxisResults | None = None
    """Each axis over all items, in the order of the rubric."""
    distribution: list[ScoreCount] = []
    """How many items have which score, highest first."""
    patterns: list[PatternSeen] = []
    """The patterns that were found across the items."""
    diagnosis: list[str] = []
    """Which axes cost the points and what those items share, in sentences."""
    latency: LatencyResult
    """How long the answers took."""
    looked_for: dict[str, str]
    """The patterns that the rubric defines, found or not, and what each means."""
    axis_names: list[str]
    """The axes in the rubric's order."""
    faults: list[Any] = []
    """Lines of the answers that couldn't be read, each with file, line and message."""
    notes: list[str] = []
    """What else was noticed."""
    digests: ExamDigests
    """The digests of what the result was made from."""
    scoring_system: str = field(name="scoringSystem")
    """The version of the scoring system."""
    grading_system: str = field(name="gradingSystem")
    """The version of the grading system."""
    broken: list[Any] | UnsetType = UNSET
    """For each normalisation step that was left out, the marks that are lost; only where a step was
    named.
    """
    recalibrated_from: str | UnsetType | None = UNSET
    """The rubric that the exam was first graded by; only after `assay exam recalibrate`."""
    pass_line: PassLine | UnsetType = UNSET
    """The passing score; only where the exam or the command sets one."""


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
    """A soft gate. `warn` is None if there was nothing to judge."""

    id: str
    warn: bool | None
    value: OptionalNumber
    limit: Number
    reason: str = ""
    blocks: Literal[False] = False


class RubricCheck(_ExamPart, frozen=True, kw_only=True):
    """A rise so large that the rubric may be at fault, and the result of the rubric's self-test."""

    rise: Number
    limit: Number
    self_test: dict[str, Any]

    @property
    def holds(self) -> bool:
        """Whether the rubric passes its self-test."""
        return self.self_test["passed"] is True


class ExamGateDigests(_ExamPart, frozen=True, kw_only=True):
    """The digests of what a gate decided by."""

    rubric: str
    policy: str
    exam: str


class ExamGate(_ExamPart, frozen=True, kw_only=True):
    """The decision of the gates on graded exams."""

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
    unchecked: bool | UnsetType = UNSET
    """True if the gate was not given the exam itself."""
    baseline_written: str | UnsetType = UNSET


def is_graded_exam(names: Sequence[str]) -> bool:
    """Whether these inputs are one file with a graded exam."""
    if len(names) != 1 or not names[0].endswith(".json"):
        return False
    tree = read_json(names[0]).tree
    return isinstance(tree, dict) and tree.get("schema") == EXAM_SCHEMA
