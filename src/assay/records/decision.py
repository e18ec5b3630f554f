"""The release decision: `assay.decision/1`. It carries every number and the summary of both sides,
so that whoever shows it needs no rule.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from assay.records.summary import SummaryBlock, ValueInterval

DECISION_SCHEMA: Final = "assay.decision/1"
SIDES = ("candidate", "baseline")
SAME_EVIDENCE = "SAME EVIDENCE"
"""How the note begins that says of two sides that they are one."""
Outcome = Literal["promote", "hold", "reject", "not_enough_evidence"]


class RuleResult(Struct, frozen=True, kw_only=True):
    """One promotion rule, and what it rests on."""

    id: str
    holds: bool | None
    """None where it could not be judged."""
    violated: bool
    """Shown to be violated; a rule may fail to hold without that."""
    reason: str
    evidence: dict[str, Any]


class Difference(Struct, frozen=True, kw_only=True):
    """Candidate minus baseline, in points of 100, with its interval."""

    estimate: float | None
    low: float | None
    high: float | None
    level: float
    method: str
    reason: str | UnsetType = UNSET


class ComparisonRecord(Struct, frozen=True, kw_only=True):
    """The numbers of a comparison, on 0..100."""

    n_candidate: int
    n_baseline: int
    n_paired: int
    difference: Difference
    adjusted_difference: float | None
    margin: float
    non_inferior: bool | None
    superior: bool | None
    equivalent: bool | None
    p: dict[str, float | None]
    mcnemar_p: float | None
    minimum_detectable_effect: float | None
    wins: int | None
    losses: int | None
    ties: int | None
    sd: float | None
    clusters: int | None


class MissingSamples(Struct, frozen=True, kw_only=True):
    """Samples that a side lacks, and those that were left out by name."""

    candidate: list[str]
    baseline: list[str]
    quarantined: list[str]
    candidate_total: int | UnsetType = UNSET
    """How many there are, where the list has only the first of them."""
    baseline_total: int | UnsetType = UNSET

    def total(self, side: str) -> int:
        """How many samples a side lacks."""
        counted = getattr(self, f"{side}_total", UNSET)
        return len(getattr(self, side)) if counted is UNSET else counted


class WorseSample(Struct, frozen=True, kw_only=True):
    """A sample on which the candidate lost."""

    sample: str
    difference: float
    candidate: float | None
    baseline: float | None
    newly_failed_gates: list[str]


class FlakySample(Struct, frozen=True, kw_only=True):
    """A sample whose repeats disagree on passing."""

    sample: str
    side: str
    repeats: int
    passed: int
    rate: ValueInterval
    quarantined: bool
    leave_out: str
    """The option that leaves it out."""


class SliceComparison(Struct, frozen=True, kw_only=True):
    """The difference in one slice; `worse` goes by the corrected p-value."""

    slice: str
    n: int
    missing: int
    difference: ValueInterval
    p_worse: float | None
    p_worse_corrected: float | None
    worse: bool | None


class SliceComparisons(Struct, frozen=True, kw_only=True):
    """The differences in every slice that was asked for."""

    kinds: list[str]
    correction: str
    limit: float
    slices: list[SliceComparison]
    violated: list[str]
    open: list[str]


class Fingerprint(Struct, frozen=True, kw_only=True):
    """What both sides were made with."""

    digest: str
    fields: dict[str, Any]


class PolicyOverride(Struct, frozen=True, kw_only=True):
    """A number of the release policy that was set otherwise for this decision."""

    field: str
    policy: float | None
    """What the policy says; None where it says nothing."""
    used: float
    eases: bool
    """Whether that makes the decision easier to pass."""


class SampleOverlap(Struct, frozen=True, kw_only=True):
    """What two versions of a dataset share, where the sides ran on different ones."""

    candidate_dataset: list[str]
    baseline_dataset: list[str]
    equal: int
    """Samples with equal content on both sides: those that are compared."""
    changed: list[str]
    """On both sides, with different content."""
    new: list[str]
    """On the candidate's side alone: not compared."""
    dropped: list[str]
    """On the baseline's side alone: they count against the candidate."""
    new_failing: list[str]
    """New samples that fail a gate."""
    share: float
    """The equal ones, of the baseline's samples."""
    required: float
    changed_set_aside: bool
    """Whether the policy's overlap leaves the changed ones out; else they count against the
    candidate.
    """


class Decision(Struct, frozen=True, kw_only=True):
    """Whether the candidate may replace the baseline, and why."""

    schema: Literal["assay.decision/1"] = DECISION_SCHEMA
    outcome: Outcome
    reason: str
    rules: list[RuleResult]
    comparison: ComparisonRecord
    would_change: list[str]
    missing: MissingSamples
    worse: list[WorseSample]
    paired: bool
    mismatches: list[str] | UnsetType = UNSET
    candidate: SummaryBlock
    baseline: SummaryBlock
    fingerprint: Fingerprint
    plan: dict[str, Any]
    """As it was declared, and what changed since; see `assay.plan/1`."""
    policy: str
    scoring_system: str = field(name="scoringSystem")
    grading_system: str = field(name="gradingSystem")
    digests: dict[str, str]
    looks: int | UnsetType = UNSET
    flaky: list[FlakySample] | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET
    unplanned: list[str] | UnsetType = UNSET
    slices: SliceComparisons | UnsetType = UNSET
    overrides: list[PolicyOverride] | UnsetType = UNSET
    overlap: SampleOverlap | UnsetType = UNSET
    decidable_margin: float | UnsetType = UNSET
    """The margin that these samples could decide, where the policy's would need thousands."""

    def tree(self) -> dict[str, Any]:
        """The decision as a reader of its JSON gets it."""
        made: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(Decimal,))
        return made


read_decision = msgspec.json.Decoder(Decision).decode
"""A stored decision from its JSON."""
