"""The release policy: when a candidate may replace a baseline. Every number of the promotion rules
is a field here; none is hard-coded.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from assay import exact
from assay.canon import digest
from assay.errors import UsageError
from assay.files.json_files import Document
from assay.records.decision import EASED, PolicyOverride
from assay.records.evidence import ClosedRecord, Count, Number, OptionalNumber
from assay.records.shape import Faults, Text, read_shelf_record
from assay.records.systems import FIRST, Version, is_published, marked
from assay.release.pass_rate import PassBar

FAMILY = "release"
DEFAULT = "release@1"
"""The published policy under which a decision carries the string of its grading policy alone."""


class Scores(ClosedRecord, frozen=True):
    """How the scores of two sides are compared: points on 0..100."""

    margin: Number
    """How many points the candidate may lose and still count as not worse."""
    level: Number
    """The confidence level of the interval."""
    power: Number
    """The chance of showing a true difference that a plan aims for."""
    interval: Literal["student", "bounded"]
    """`student`: t on the paired differences. `bounded`: an interval that assumes nothing but the
    range, and asks for hundreds of pairs.
    """


class Severe(ClosedRecord, frozen=True):
    """What counts as a severe failure, and how many more of them there may be."""

    gates: list[Text]
    """Gates whose failure is severe."""
    roles: list[Text]
    """Roles whose missed floor is severe."""
    increase: Count
    """How many more severe failures the candidate may have."""


class BaselineTerms(ClosedRecord, frozen=True):
    """How old a stored baseline may be."""

    max_age_days: Number
    """How old a stored baseline may be, in days."""


class ReleasePolicy(ClosedRecord, frozen=True):
    """When a candidate may replace a baseline."""

    policy: Text
    """The policy's name."""
    version: int | str
    """Its version. A published version never changes."""
    title: Text
    """The name that people see."""
    family: Literal["release"]
    """Always `release`."""
    min_pairs: Annotated[int, Meta(ge=2)]
    """The fewest pairs for a decision."""
    gate_failure_increase: Number
    """How much the share of gate failures may rise."""
    scores: Scores
    """How scores are compared."""
    new_floor_failures: Count
    """How many more missed floors the candidate may have."""
    severe: Severe
    """What counts as a severe failure."""
    baseline: BaselineTerms
    """How old a stored baseline may be."""
    min_pass_rate: OptionalNumber = None
    """The minimum share of the candidate's samples that must pass."""
    confidence: OptionalNumber = None
    """The confidence level: the lower end of the pass rate's interval must reach the minimum."""
    min_overlap: Number = 1
    """On two versions of a dataset: the share of the baseline's samples that must be equal before
    changed ones are set aside; 1 never sets any aside.
    """
    grading_system: Version = FIRST
    """The version of the grading system that it needs."""
    description: str | None = None
    """What it is for."""

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.policy}@{self.version}"


class ReleaseRules(NamedTuple):
    """A release policy with its numbers as the rules compare them."""

    policy: str
    digest: str
    min_pairs: int
    gate_failure_increase: exact.Ratio
    margin: float
    level: float
    power: float
    guaranteed: bool
    new_floor_failures: int
    severe_gates: frozenset[str]
    severe_roles: frozenset[str]
    severe_increase: int
    max_age_days: Any
    bar: PassBar | None = None
    min_overlap: Fraction = Fraction(1)
    overrides: tuple[PolicyOverride, ...] = ()
    """The numbers that were set for this one decision and differ from the policy's."""

    def grading_system(self, grading: str) -> str:
        """The string of a decision on grades of this system: a release policy other than the
        published default marks it as a different system.
        """
        return (
            grading
            if self.policy == DEFAULT and is_published(self.digest)
            else marked(grading, self.digest)
        )

    def declared(self) -> dict[str, Any]:
        """The numbers that a plan declares before anything is evaluated."""
        return {
            "policy": self.policy,
            "policy_digest": self.digest,
            "margin": self.margin,
            "level": self.level,
            "min_pairs": self.min_pairs,
            "interval": "bounded" if self.guaranteed else "student",
        }


def eased(rules: ReleaseRules, usual: ReleaseRules) -> str:
    """A note on what a release policy allows and the usual one doesn't; empty if that is nothing.
    Numbers that were eased for one decision are among its overrides.
    """
    numbers = [
        (
            ("min_pairs", -one.min_pairs),
            ("gate_failure_increase", Fraction(*one.gate_failure_increase)),
            ("margin", one.margin),
            ("level", -one.level),
            ("new_floor_failures", one.new_floor_failures),
            ("severe.increase", one.severe_increase),
            ("max_age_days", one.max_age_days),
            ("min_overlap", -one.min_overlap),
        )
        for one in (rules, usual)
    ]
    shown = {override.field for override in rules.overrides if override.eases}
    found = [
        f"{name} {abs(float(own)):g} instead of {abs(float(other)):g}"
        for (name, own), (_, other) in zip(*numbers, strict=True)
        if own > other and name not in shown
    ]
    severe = [*usual.severe_gates - rules.severe_gates, *usual.severe_roles - rules.severe_roles]
    if severe:
        found.append(f"not severe: {', '.join(sorted(severe))}")
    if not found:
        return ""
    return f"{EASED}: the release policy {rules.policy} allows more than {usual.policy}: " + (
        "; ".join(found)
    )


class Bars(NamedTuple):
    """The numbers of a release policy that a person may set for one decision."""

    margin: Any = None
    min_pass_rate: Any = None
    confidence: Any = None
    min_overlap: Any = None


def overridden(policy: ReleasePolicy, bars: Bars) -> tuple[ReleasePolicy, list[PolicyOverride]]:
    """The policy with these numbers, under a version that ends in its digest, and what is different
    in it; the policy itself if nothing is. Raises `UsageError` for a value that is not a number
    within its range.
    """
    before = Bars(policy.scores.margin, policy.min_pass_rate, policy.confidence, policy.min_overlap)
    overrides: list[PolicyOverride] = []
    for name, own, used in zip(Bars._fields, before, bars, strict=True):
        if used is None or (own is not None and exact.ratio(own) == _checked(name, used)):
            continue
        value = _checked(name, used)
        is_higher = own is None or Fraction(*value) > Fraction(*exact.ratio(own))
        overrides.append(
            PolicyOverride(
                field=name,
                policy=None if own is None else float(own),
                used=float(used),
                eases=is_higher if name == "margin" else not is_higher,
            )
        )
    if not overrides:
        return policy, []
    changed = {override.field: override.used for override in overrides}
    changed_policy = policy
    if "margin" in changed:
        changed_policy = replace(
            changed_policy, scores=replace(policy.scores, margin=changed.pop("margin"))
        )
    changed_policy = replace(changed_policy, **changed)
    mark = digest(changed_policy).removeprefix("sha256:")[:12]
    return replace(changed_policy, version=f"{policy.version}+{mark}"), overrides


_RANGES = {
    "margin": (0, 100),
    "min_pass_rate": (0, 1),
    "confidence": (0.5, 1),
    "min_overlap": (0, 1),
}


def _checked(name: str, value: Any) -> exact.Ratio:
    low, high = _RANGES[name]
    option = f"--{name.replace('_', '-')}"
    if not exact.is_number(value) or not low <= value <= high:
        raise UsageError("CLI-001", f"{option} is {value}; it must be from {low} to {high}.")
    return exact.ratio(value)


def make_release_rules(policy: ReleasePolicy, bars: Bars | None = None) -> ReleaseRules:
    """The numbers of a release policy that `load_release_policy` has checked; `bars` are those that
    the user set for this decision.
    """
    policy, overrides = overridden(policy, bars or Bars())
    return ReleaseRules(
        policy.id,
        digest(policy),
        policy.min_pairs,
        exact.ratio(policy.gate_failure_increase),
        float(policy.scores.margin),
        float(policy.scores.level),
        float(policy.scores.power),
        policy.scores.interval == "bounded",
        policy.new_floor_failures,
        frozenset(policy.severe.gates),
        frozenset(policy.severe.roles),
        policy.severe.increase,
        policy.baseline.max_age_days,
        PassBar.of(policy.min_pass_rate, policy.confidence),
        Fraction(*exact.ratio(policy.min_overlap)),
        tuple(overrides),
    )


def load_release_policy(document: Document) -> ReleasePolicy:
    """A release policy from its file, or an error with every fault and its line."""
    faults = Faults(document)
    policy = read_shelf_record(document, ReleasePolicy, faults)
    faults.number(("gate_failure_increase",), policy.gate_failure_increase, high=1)
    faults.number(("scores", "margin"), policy.scores.margin, high=100)
    for name in ("level", "power"):
        value = getattr(policy.scores, name)
        faults.number(("scores", name), value, low=0.5, high=1, open_ends=True)
    faults.number(("baseline", "max_age_days"), policy.baseline.max_age_days, high=36500)
    faults.number(("min_overlap",), policy.min_overlap, high=1)
    rate, confidence = policy.min_pass_rate, policy.confidence
    if rate is not None:
        faults.number(("min_pass_rate",), rate, high=1, open_ends=rate != 1)
    if confidence is not None:
        is_open = confidence != 0.5
        faults.number(("confidence",), confidence, low=0.5, high=1, open_ends=is_open)
        if policy.min_pass_rate is None:
            faults.add(("confidence",), "it needs `min_pass_rate`.")
    faults.raise_if_any()
    return policy
