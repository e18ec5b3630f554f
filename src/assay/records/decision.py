"""The release decision: `assay.decision/1`, with every number and the summary of both sides, so
that a page can show it without computing anything.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from assay.records.summary import SummaryBlock, ValueInterval

DECISION_SCHEMA: Final = "assay.decision/1"
SIDES = ("candidate", "baseline")
SAME_EVIDENCE = "SAME EVIDENCE"
"""The first words of the note that both sides have the same evidence."""
MIXED_VERSIONS = "MIXED VERSIONS"
"""The first words of the note that the candidate's runs are of several versions."""
EASED = "EASED"
"""The first word of the note that the release policy allows more than the published one."""
LOUD = (SAME_EVIDENCE, MIXED_VERSIONS, EASED)
"""How the notes begin that no reader may miss."""
Outcome = Literal["promote", "hold", "reject", "not_enough_evidence"]


class RuleResult(Struct, frozen=True, kw_only=True):
    """One promotion rule and its evidence."""

    id: str
    """The rule: `gate_failure_rate`, `score_non_inferiority`, `floor_regression`,
    `severe_failures`, and `pass_rate` where a minimum is set.
    """
    holds: bool | None
    """Whether it holds; null where the evidence doesn't decide it. Only true lets the candidate
    pass.
    """
    violated: bool
    """Whether a violation is shown. A rule can fail to hold without that: the evidence is then too
    weak.
    """
    reason: str
    """Why, in a sentence."""
    evidence: dict[str, Any]
    """The numbers behind it; each rule has its own keys."""


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
    """How many samples the candidate has; repeats of a sample count once."""
    n_baseline: int
    """How many samples the baseline has, counted the same way."""
    n_paired: int
    """Samples that both sides have."""
    difference: Difference
    """The mean of candidate minus baseline, with its interval."""
    adjusted_difference: float | None
    """The same on adjusted scores, which count scores from few samples less; null where no sample
    is paired.
    """
    margin: float
    """How many points the candidate may lose and still count as not worse."""
    non_inferior: bool | None
    """Whether the candidate is shown to be not worse by more than the margin."""
    superior: bool | None
    """Whether the whole interval is above 0: the candidate is shown to be better."""
    equivalent: bool | None
    """Whether the difference is shown to lie within the margin on both sides."""
    p: dict[str, float | None]
    """The p-values for `non_inferior`, `superior` and `equivalent`; null with several looks, where
    only the interval counts.
    """
    mcnemar_p: float | None
    """The exact two-sided p-value of McNemar's test: whether one side passes samples that the other
    fails more often than the reverse. Null without pairs.
    """
    minimum_detectable_effect: float | None
    """The smallest difference in points that this many samples would show, at the policy's power.
    """
    wins: int | None
    """Paired samples on which the candidate scores higher."""
    losses: int | None
    """Paired samples on which it scores lower."""
    ties: int | None
    """Paired samples with equal scores."""
    sd: float | None
    """The standard deviation of the paired differences."""
    clusters: int | None
    """The number of groups that samples share; null where none is shared."""


class MissingSamples(Struct, frozen=True, kw_only=True):
    """Samples that a side lacks, and those that were left out by name."""

    candidate: list[str]
    """Samples that only the baseline has. They count as 0 for the candidate."""
    baseline: list[str]
    """Samples that only the candidate has. They count as 100 for the baseline, and only
    against the candidate.
    """
    quarantined: list[str]
    """Samples that `--quarantine` left out."""
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
    """The sample, as `dataset/sample_id`."""
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
    """The sample, as `dataset/sample_id`."""
    side: str
    """`candidate` or `baseline`: the side whose repeats disagree."""
    repeats: int
    """How often it ran."""
    passed: int
    """How often it passed."""
    rate: ValueInterval
    """The share of repeats that passed, with its interval."""
    quarantined: bool
    """Whether `--quarantine` left it out of this comparison."""
    leave_out: str
    """The option that would leave it out, ready to paste."""


class SliceComparison(Struct, frozen=True, kw_only=True):
    """The difference in one slice; `worse` goes by the corrected p-value."""

    slice: str
    """The slice, such as `tag: night`."""
    n: int
    """Samples of either side in the slice."""
    missing: int
    """Of these, samples with something lost: a side that lacks them, or a score that is unknown."""
    difference: ValueInterval
    """Candidate minus baseline, in points, with its interval."""
    p_worse: float | None
    """The one-sided p-value against `not worse by the margin or more`."""
    p_worse_corrected: float | None
    """The same, corrected for the number of slices."""
    worse: bool | None
    """Whether the corrected p-value shows that the slice is worse; null where there is none."""


class SliceComparisons(Struct, frozen=True, kw_only=True):
    """The differences in every slice that was asked for."""

    kinds: list[str]
    """What the samples were sliced by: `tag`, `group` or `family`."""
    correction: str
    """How p-values were corrected for the number of slices."""
    limit: float
    """The largest corrected p-value that counts as worse."""
    slices: list[SliceComparison]
    """Each slice."""
    violated: list[str]
    """Slices that are shown to be worse."""
    open: list[str]
    """Slices that may be worse: samples in them were lost, and their mean is at or below the
    margin.
    """


class Fingerprint(Struct, frozen=True, kw_only=True):
    """What both sides were made with."""

    digest: str
    """The digest of `fields`, equal on both sides: otherwise they can't be compared."""
    fields: dict[str, Any]
    """What the digest is made of: dataset, profile, policy, rubric, scorers and versions."""


class PolicyOverride(Struct, frozen=True, kw_only=True):
    """A number of the release policy that was replaced for this decision."""

    field: str
    """The key of the release policy, such as `margin`."""
    policy: float | None
    """The policy's value; null if it has none."""
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
    """Samples of both sides whose inputs or expected values differ."""
    new: list[str]
    """On the candidate's side alone: not compared."""
    dropped: list[str]
    """On the baseline's side alone: they count against the candidate."""
    new_failing: list[str]
    """New samples that fail a gate."""
    share: float
    """The equal samples as a share of the baseline's."""
    required: float
    """The share from which changed samples are left out: `min_overlap`."""
    changed_set_aside: bool
    """Whether the changed samples were left out, because `share` reaches `required`; otherwise they
    count against the candidate.
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
    """Every rule of the release policy, and whether it holds."""
    comparison: ComparisonRecord
    """The statistics of the comparison."""
    would_change: list[str]
    """What would have to change for another outcome."""
    missing: MissingSamples
    """Samples that one side lacks."""
    worse: list[WorseSample]
    """The samples of both sides on which the candidate lost the most points, worst first."""
    paired: bool
    """Whether samples were compared one by one; false only under `--allow-unpaired`."""
    mismatches: list[str] | UnsetType = UNSET
    """Fields of the fingerprint in which the sides differ, in sentences; only in an unpaired
    decision.
    """
    candidate: SummaryBlock
    """The summary of the candidate."""
    baseline: SummaryBlock
    """The summary of the baseline."""
    fingerprint: Fingerprint
    """What both sides were graded with, on which dataset."""
    plan: dict[str, Any]
    """The plan that was declared before the run, or the policy's own terms; see `assay gate
    --plan`.
    """
    policy: str
    """The release policy, as name@version."""
    scoring_system: str = field(name="scoringSystem")
    """The version of the scoring system."""
    grading_system: str = field(name="gradingSystem")
    """The version of the grading system."""
    digests: dict[str, str]
    """`policy`: of the release policy; `candidate` and `baseline`: of each side's evidence;
    `decision`: of the rest of this document.
    """
    looks: int | UnsetType = UNSET
    """How many looks at growing results were declared; the intervals hold at each of them."""
    flaky: list[FlakySample] | UnsetType = UNSET
    """Samples of either side that passed in some repeats and failed in others."""
    notes: list[str] | UnsetType = UNSET
    """Warnings that decide nothing, such as equal evidence on both sides."""
    loud: list[str] | UnsetType = UNSET
    """Those of the notes that no reader may miss."""
    unplanned: list[str] | UnsetType = UNSET
    """Samples that the declared plan doesn't name; they were left out."""
    slices: SliceComparisons | UnsetType = UNSET
    """The comparison in each slice that `--slice` asked for."""
    overrides: list[PolicyOverride] | UnsetType = UNSET
    """Numbers of the release policy that an option or `assay.yaml` replaced."""
    overlap: SampleOverlap | UnsetType = UNSET
    """Which samples are still the same; only where the dataset's version or content differs."""
    decidable_margin: float | UnsetType = UNSET
    """The smallest margin in points under which the score rule would hold; only where the policy's
    margin would need thousands of samples.
    """

    def tree(self) -> dict[str, Any]:
        """The decision as plain data, with the keys of its JSON."""
        return cast("dict[str, Any]", msgspec.to_builtins(self, builtin_types=(Decimal,)))


read_decision = msgspec.json.Decoder(Decision).decode
"""A stored decision from its JSON."""
