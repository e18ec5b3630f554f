"""A rehearsal of a release policy: `assay.rehearsal/1`, with how often it would reject, hold and
promote a version against itself, and what it would find of planted regressions.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType, field

from assay.records.summary import ValueInterval

REHEARSAL_SCHEMA: Final = "assay.rehearsal/1"


class RehearsedSide(Struct, frozen=True, kw_only=True):
    """An evaluation that releases were drawn from."""

    name: str
    """How it was named."""
    samples: int
    """Samples with two repeats or more."""
    runs: int
    """Their runs."""
    fewest_repeats: int
    """The fewest repeats of a sample."""
    most_repeats: int
    """The most repeats of a sample."""
    versions: dict[str, list[str]]
    """The version of each workflow."""


class RuleShare(Struct, frozen=True, kw_only=True):
    """How often a rule was violated or open."""

    violated: float
    """The share of releases in which it was violated."""
    open: float
    """The share of releases in which it was undecided."""


class FreshCost(Struct, frozen=True, kw_only=True):
    """The fresh runs that confirmation took, on both sides together."""

    mean: float
    """The mean over all releases."""
    p95: int
    """In 95% of the releases it took no more."""
    drawn: int
    """Turns that used further repeats of the sample."""
    modelled: int
    """Turns that were modelled from the sample's own failing share, because its repeats were used
    up.
    """


class Outcomes(Struct, frozen=True, kw_only=True):
    """The outcomes of simulated releases."""

    releases: int
    """How many were simulated."""
    promote: ValueInterval
    """The share that was promoted. The interval is that of the simulation alone."""
    hold: ValueInterval
    """The share that was held."""
    reject: ValueInterval
    """The share that was rejected."""
    not_enough_evidence: ValueInterval
    """The share in which the samples could not show what the policy asks."""
    rules: dict[str, RuleShare]
    """How often each rule was violated or open."""
    fresh_runs: FreshCost
    """What confirmation cost."""


class Planted(Struct, frozen=True, kw_only=True):
    """A regression that was planted in one side, and what became of it."""

    kind: Literal["broken", "drop", "severe"]
    """`broken`: samples fail for good. `drop`: every score falls. `severe`: samples fail severely
    for good.
    """
    size: float
    """The share of samples, or for `drop` the points of the mean score."""
    samples: int
    """How many samples it is planted in."""
    title: str
    """In words."""
    outcomes: Outcomes
    """What the policy made of it."""


class Spread(Struct, frozen=True, kw_only=True):
    """How much the promoted share differs between suites like this one, from half-samples."""

    promote: tuple[float, float] | None
    """From the 5th to the 95th percentile; null where the policy doesn't hold noisy versions."""
    smallest_loss: tuple[float, float]
    """The same of the smallest loss in points that is shown."""
    halves: int
    """Halves of the samples that were drawn."""
    method: str
    """How it was worked out."""


class FlakyGate(Struct, frozen=True, kw_only=True):
    """A severe check that this version fails at random."""

    check: str
    """The gate, or the floor."""
    samples: int
    """Samples that fail it in some repeats and not in others."""
    failing_runs: float
    """The share of runs that fail it."""


class RunsOption(Struct, frozen=True, kw_only=True):
    """So many runs of each sample, and what they would do."""

    candidate_runs: int
    """Runs of each sample of the candidate."""
    baseline_runs: int
    """Runs of each sample of the baseline."""
    banked: bool
    """Whether the baseline has these runs already."""
    runs: int
    """Runs that a release takes, without confirmation."""
    promoted: float
    """The share of comparisons of a version with itself that would be promoted."""
    rehearsed: bool
    """Whether that was drawn from the repeats; otherwise it follows from their variance."""
    smallest_loss: float
    """The smallest loss in points that would be shown, at the policy's power."""


class Recommendation(Struct, frozen=True, kw_only=True):
    """How a version that is the same would be promoted often enough."""

    wanted: float
    """The share that should be promoted."""
    burden: Literal["not_worse", "not_shown_worse"]
    """`not_worse`, as in `release@1`, or `not_shown_worse`, as in `regression@1`."""
    policy: str
    """The policy with that burden."""
    margin: float | None
    """The smallest tolerance in whole points with which one run of each sample is enough; null if
    none up to 20 is.
    """
    options: list[RunsOption]
    """Numbers of runs, the fewest first."""
    sentences: list[str]
    """The recommendation in words."""
    commands: list[str]
    """What to run."""


class Rehearsal(Struct, frozen=True, kw_only=True):
    """What a release policy makes of one version compared with itself."""

    schema: Literal["assay.rehearsal/1"] = REHEARSAL_SCHEMA
    """The kind and version of this document."""
    policy: str
    """The release policy."""
    margin: float
    """How many points a candidate may lose."""
    evaluation: RehearsedSide
    """The version that both sides were drawn from."""
    other: RehearsedSide | UnsetType = UNSET
    """Another version, where one is compared."""
    seed: int
    """The seed of the draws."""
    same_version: Outcomes
    """The version against itself: what is not promoted here is a false alarm."""
    other_version: Outcomes | UnsetType = UNSET
    """The other version as the candidate, against this one."""
    power: list[Planted]
    """Planted regressions: what is promoted here was missed."""
    spread: Spread
    """How much another suite like this one would differ."""
    turns: int
    """Fresh turns that confirm a new failure."""
    severe_by_chance: list[FlakyGate]
    """Severe checks that this version fails at random: they belong among the ordinary ones."""
    warnings: list[str]
    """What makes these numbers doubtful."""
    unseen: list[str]
    """What no rehearsal can see."""
    recommendation: Recommendation | UnsetType = UNSET
    """How to be promoted often enough, where that was asked for."""
    digests: dict[str, str]
    """Of the policy, of the evidence, and of this document."""
    scoring_system: str = field(name="scoringSystem")
    """The version of the scoring system."""
    grading_system: str = field(name="gradingSystem")
    """The version of the grading system."""
