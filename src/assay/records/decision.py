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
Outcome = Literal["promote", "hold", "reject", "not_enough_evidence"]


class RuleResult(Struct, frozen=True, kw_only=True):
    """One promotion rule and its evidence."""

    id: str
    """The rule: `complete`, `new_failures`, `gate_failure_rate`, `score_non_inferiority`,
    `criterion_regression`, `floor_regression`, `severe_failures`; and `slices`, `operations` and
    `pass_rate` where the policy or the user asks for them.
    """
    holds: bool | None
    """Whether it holds; null where the evidence doesn't decide it yet."""
    violated: bool
    """Whether a violation is shown."""
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
    """The p-values for `non_inferior`, `superior` and `equivalent`."""
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
    """Samples that the candidate lacks, or lacks announced attempts of. What is missing fails."""
    baseline: list[str]
    """Samples that the baseline lacks, or lacks announced attempts of. What is missing passes."""
    quarantined: list[str]
    """Samples that `--quarantine` left out."""
    only_candidate: list[str] = []
    """Samples that only the candidate has. They take no part in any rule on pairs."""
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


class SliceComparison(Struct, frozen=True, kw_only=True):
    """The difference in one slice."""

    slice: str
    """The slice, such as `tag: night`."""
    n: int
    """Paired samples in the slice."""
    difference: ValueInterval
    """Candidate minus baseline, in points, with its interval."""
    worse: bool
    """Whether it is shown to be worse by more than the margin, corrected for everything that was
    tested.
    """


class Counted(Struct, frozen=True, kw_only=True):
    """Passed runs of so many."""

    passed: int
    """How many passed."""
    runs: int
    """How many there are."""


class SidesCounted(Struct, frozen=True, kw_only=True):
    """Passed runs of both sides."""

    candidate: Counted
    """The candidate's."""
    baseline: Counted
    """The baseline's."""


class SuspectRecord(Struct, frozen=True, kw_only=True):
    """A check that a sample seems to fail newly, and what fresh runs say of it."""

    sample: str
    """The sample, as `dataset/sample_id`."""
    check: str
    """What it fails: `pass`, `gate NAME` or `floor CRITERION`."""
    first: SidesCounted
    """The runs that made it suspect."""
    fresh: SidesCounted | None
    """Its fresh runs; null if there are none."""
    verdict: Literal["confirmed", "flaky", "baseline_fails_too", "open"]
    """What the fresh runs say; `open` until they say something."""
    accepted: str | None = None
    """Why it was accepted; null if it was not."""


class Confirmation(Struct, frozen=True, kw_only=True):
    """What seems to fail newly, and whether fresh runs confirm it."""

    needed: bool
    """Whether fresh runs are still needed."""
    repeats: int
    """How many fresh turns confirm a suspect; 0 where one new failure is a regression at once."""
    alpha: float
    """The chance that the policy allows of confirming anything of a version that is the same."""
    false_alarm_at_most: float
    """That chance for these samples, at most."""
    runs: dict[str, int]
    """Fresh runs that were made, by side."""
    suspects: list[SuspectRecord]
    """Every suspect, in the order of sample ids."""
    severe: list[str] = []
    """Samples that failed severely more often than before, and need fresh runs."""


class ErrorBudget(Struct, frozen=True, kw_only=True):
    """How often these rules reject a version that is the same as its baseline."""

    reject_at_most: float
    """By all rules together."""
    by_rule: dict[str, float]
    """By each of them, in each of the looks."""


class CriterionDifference(Struct, frozen=True, kw_only=True):
    """One criterion on both sides, in points of 100."""

    n: int
    """Paired samples that have it on both sides."""
    candidate: float
    """The candidate's mean."""
    baseline: float
    """The baseline's mean."""
    difference: ValueInterval
    """Candidate minus baseline, with its interval."""
    guardrail: bool = False
    """Whether the policy guards it."""


class OperationDifference(Struct, frozen=True, kw_only=True):
    """Cost, latency or tokens on both sides."""

    n: int
    """Paired samples in which both are known."""
    candidate: float
    """The candidate's mean for a run."""
    baseline: float
    """The baseline's mean for a run."""
    ratio: float
    """Candidate over baseline: the geometric mean over samples."""


class Expectation(Struct, frozen=True, kw_only=True):
    """What these samples could show, from the baseline alone."""

    sd: float | None
    """The standard deviation of the paired differences, in points; null if it is not known."""
    source: str
    """How it is known."""
    assumed: bool
    """Whether it is assumed, because the baseline has no repeats."""
    same_version_promoted: float | None
    """The share of comparisons of a version with itself that these rules would promote."""
    repeats_for: dict[str, int | None]
    """How many runs of each sample a side needs for that share to reach 0.8."""
    smallest_loss: float | None
    """The smallest loss in points that these samples would show, at the policy's power."""


class ContractChange(Struct, frozen=True, kw_only=True):
    """Samples in which the two sides were asked different things."""

    samples: int
    """How many there are."""
    parts: dict[str, int]
    """In which parts of the contract they differ, and in how many samples."""
    examples: list[str]
    """Some of them."""
    own_outcome: Outcome | UnsetType = UNSET
    """The outcome under the candidate's own contract."""


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
    """Samples of both sides whose inputs differ."""
    corrected: list[str]
    """Samples whose row has another expected value now: both sides are scored with it."""
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
    confirmation: Confirmation
    """What seems to fail newly, and whether fresh runs confirm it."""
    errors: ErrorBudget
    """How often these rules reject a version that is the same as its baseline."""
    criteria: dict[str, CriterionDifference]
    """Every criterion that both sides have."""
    operations: dict[str, OperationDifference]
    """Cost, latency and tokens, as far as both sides state them."""
    expectation: Expectation
    """What these samples could show."""
    candidate: SummaryBlock
    """The summary of the candidate."""
    baseline: SummaryBlock
    """The summary of the baseline."""
    fingerprint: Fingerprint
    """What both sides were graded with, on which dataset."""
    looks: int
    """How many decisions on growing evidence the policy announces."""
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
    titles: dict[str, str] | UnsetType = UNSET
    """What the tool that made them calls the samples that are named here, where it calls them
    anything.
    """
    contracts: ContractChange | UnsetType = UNSET
    """Where the two sides were asked different things."""
    flaky: list[FlakySample] | UnsetType = UNSET
    """Samples of either side that passed in some repeats and failed in others."""
    notes: list[str] | UnsetType = UNSET
    """Warnings that decide nothing, such as equal evidence on both sides."""
    loud: list[str] | UnsetType = UNSET
    """Those of the notes that no reader may miss."""
    regraded: list[str] | UnsetType = UNSET
    """Sides that were graded by something else when they were stored."""
    unplanned: list[str] | UnsetType = UNSET
    """Samples that the declared plan doesn't name; they were left out."""
    slices: list[SliceComparison] | UnsetType = UNSET
    """The comparison in each slice that `--slice` asked for."""
    overrides: list[PolicyOverride] | UnsetType = UNSET
    """Numbers of the release policy that an option or `assay.yaml` replaced."""
    overlap: SampleOverlap | UnsetType = UNSET
    """Which samples are still the same; only where the dataset's version or content differs."""

    def tree(self) -> dict[str, Any]:
        """The decision as plain data, with the keys of its JSON."""
        return cast("dict[str, Any]", msgspec.to_builtins(self, builtin_types=(Decimal,)))


read_decision = msgspec.json.Decoder(Decision).decode
"""A stored decision from its JSON."""
