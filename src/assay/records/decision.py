"""The release decision: `assay.decision/1`. It carries every number and the summary of both sides,
so that a page can show it without any rule.
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
    """The rule."""
    holds: bool | None
    """None if it could not be judged."""
    violated: bool
    """Shown to be violated; a rule may fail to hold without that."""
    reason: str
    """Why, in a sentence."""
    evidence: dict[str, Any]
    """The numbers that it rests on."""


class Difference(Struct, frozen=True, kw_only=True):
    """Candidate minus baseline, in points of 100, with its interval."""

    estimate: float | None
    """The mean difference."""
    low: float | None
    """The lower end of the interval."""
    high: float | None
    """The upper end of the interval."""
    level: float
    """The confidence level of the interval."""
    method: str
    """How the interval was computed."""
    reason: str | UnsetType = UNSET
    """Why there is no interval."""


class ComparisonRecord(Struct, frozen=True, kw_only=True):
    """The numbers of a comparison, on 0..100."""

    n_candidate: int
    """Samples of the candidate."""
    n_baseline: int
    """Samples of the baseline."""
    n_paired: int
    """Samples that both sides have."""
    difference: Difference
    """Candidate minus baseline, in points."""
    adjusted_difference: float | None
    """The same on adjusted scores."""
    margin: float
    """By how many points the candidate may be worse and still count as not worse."""
    non_inferior: bool | None
    """Whether the candidate is shown to be not worse by more than the margin."""
    superior: bool | None
    """Whether the candidate is shown to be better."""
    equivalent: bool | None
    """Whether the difference is shown to lie within the margin on both sides."""
    p: dict[str, float | None]
    """The p-values of the tests, by question."""
    mcnemar_p: float | None
    """The p-value of the change in passing, sample by sample."""
    minimum_detectable_effect: float | None
    """The smallest difference that this many samples show reliably."""
    wins: int | None
    """Samples on which the candidate is better."""
    losses: int | None
    """Samples on which the candidate is worse."""
    ties: int | None
    """Samples on which both are equal."""
    sd: float | None
    """The standard deviation of the paired differences."""
    clusters: int | None
    """The number of groups, where samples are grouped."""


class MissingSamples(Struct, frozen=True, kw_only=True):
    """Samples that a side lacks, and those that were left out by name."""

    candidate: list[str]
    """Samples that the candidate lacks. They count against it."""
    baseline: list[str]
    """Samples that the baseline lacks."""
    quarantined: list[str]
    """Samples that were left out by name."""
    candidate_total: int | UnsetType = UNSET
    """How many there are, where the list has only the first of them."""
    baseline_total: int | UnsetType = UNSET
    """The same for the baseline."""

    def total(self, side: str) -> int:
        """How many samples a side lacks."""
        counted = getattr(self, f"{side}_total", UNSET)
        return len(getattr(self, side)) if counted is UNSET else counted


class WorseSample(Struct, frozen=True, kw_only=True):
    """A sample on which the candidate lost."""

    sample: str
    """The sample."""
    difference: float
    """Candidate minus baseline, in points."""
    candidate: float | None
    """The candidate's score."""
    baseline: float | None
    """The baseline's score."""
    newly_failed_gates: list[str]
    """Gates that the baseline passed and the candidate failed."""


class FlakySample(Struct, frozen=True, kw_only=True):
    """A sample whose repeats disagree on passing."""

    sample: str
    """The sample."""
    side: str
    """The side whose repeats disagree."""
    repeats: int
    """How often it ran."""
    passed: int
    """How often it passed."""
    rate: ValueInterval
    """The share of repeats that passed, with its interval."""
    quarantined: bool
    """Whether it was left out of the comparison."""
    leave_out: str
    """The option that leaves it out."""


class SliceComparison(Struct, frozen=True, kw_only=True):
    """The difference in one slice; `worse` goes by the corrected p-value."""

    slice: str
    """The slice, as `tag:NAME`."""
    n: int
    """Pairs in the slice."""
    missing: int
    """Samples of the slice that the candidate lacks."""
    difference: ValueInterval
    """Candidate minus baseline, in points, with its interval."""
    p_worse: float | None
    """The p-value for being worse."""
    p_worse_corrected: float | None
    """The same, corrected for the number of slices."""
    worse: bool | None
    """Whether the slice is shown to be worse."""


class SliceComparisons(Struct, frozen=True, kw_only=True):
    """The differences in every slice that was asked for."""

    kinds: list[str]
    """What the samples were sliced by."""
    correction: str
    """How p-values were corrected for the number of slices."""
    limit: float
    """The largest corrected p-value that counts as worse."""
    slices: list[SliceComparison]
    """Each slice."""
    violated: list[str]
    """Slices that are shown to be worse."""
    open: list[str]
    """Slices with too few samples to tell."""


class Fingerprint(Struct, frozen=True, kw_only=True):
    """What both sides were made with."""

    digest: str
    """Equal on both sides, or the sides cannot be compared."""
    fields: dict[str, Any]
    """What it is made of: dataset, profile, policy, rubric, judge."""


class PolicyOverride(Struct, frozen=True, kw_only=True):
    """A number of the release policy that was set otherwise for this decision."""

    field: str
    """The number that was set."""
    policy: float | None
    """What the policy says; None if it says nothing."""
    used: float
    """The value that was used."""
    eases: bool
    """Whether that makes the decision easier to pass."""


class SampleOverlap(Struct, frozen=True, kw_only=True):
    """What two versions of a dataset share, where the sides ran on different ones."""

    candidate_dataset: list[str]
    """The versions of the dataset that the candidate ran on."""
    baseline_dataset: list[str]
    """The versions of the dataset that the baseline ran on."""
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
    """The share that the policy requires."""
    changed_set_aside: bool
    """Whether the policy's overlap leaves the changed ones out; else they count against the
    candidate.
    """


class Decision(Struct, frozen=True, kw_only=True):
    """Whether the candidate may replace the baseline, and why."""

    schema: Literal["assay.decision/1"] = DECISION_SCHEMA
    """The kind and version of this document."""
    outcome: Outcome
    """The decision. Only `promote` opens the gate."""
    reason: str
    """Why, in a sentence."""
    rules: list[RuleResult]
    """Every promotion rule, and whether it holds."""
    comparison: ComparisonRecord
    """The statistics of the comparison."""
    would_change: list[str]
    """What would have to change for another outcome."""
    missing: MissingSamples
    """Samples that one side lacks."""
    worse: list[WorseSample]
    """The samples on which the candidate lost the most."""
    paired: bool
    """Whether the comparison is sample by sample."""
    mismatches: list[str] | UnsetType = UNSET
    """Settings in which the sides differ."""
    candidate: SummaryBlock
    """The summary of the candidate."""
    baseline: SummaryBlock
    """The summary of the baseline."""
    fingerprint: Fingerprint
    """What both sides were made with."""
    plan: dict[str, Any]
    """As it was declared, and what changed since; see `assay.plan/1`."""
    policy: str
    """The release policy, as name@version."""
    scoring_system: str = field(name="scoringSystem")
    """The version of the scoring system."""
    grading_system: str = field(name="gradingSystem")
    """The version of the grading system."""
    digests: dict[str, str]
    """Digests of the policies, the profile and both sides."""
    looks: int | UnsetType = UNSET
    """How often the results were to be looked at."""
    flaky: list[FlakySample] | UnsetType = UNSET
    """Samples whose repeats disagree."""
    notes: list[str] | UnsetType = UNSET
    """What else was noticed."""
    unplanned: list[str] | UnsetType = UNSET
    """What differs from the declared plan."""
    slices: SliceComparisons | UnsetType = UNSET
    """The comparison by tag, group or family."""
    overrides: list[PolicyOverride] | UnsetType = UNSET
    """Numbers of the policy that were set otherwise."""
    overlap: SampleOverlap | UnsetType = UNSET
    """What two versions of the dataset share."""
    decidable_margin: float | UnsetType = UNSET
    """The margin that these samples could decide, where the policy's would need thousands."""

    def tree(self) -> dict[str, Any]:
        """The decision as a reader of its JSON gets it."""
        made: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(Decimal,))
        return made


read_decision = msgspec.json.Decoder(Decision).decode
"""A stored decision from its JSON."""
