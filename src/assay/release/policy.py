"""The release policy: when a candidate may replace a baseline. Every number of the rules is a field
here; none is hard-coded.
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
from assay.release.pass_rate import PassBar, PassedBy

FAMILY = "release"
DEFAULT = "release@1"
"""The published policy under which a decision carries the string of its grading policy alone."""
MOST_REJECTED = 0.5
"""The largest share of equal versions that a policy may reject."""
OPERATIONS_LEVEL = 0.005
"""What a limit on cost or latency takes from the level of the score."""
TURNING = 10**-9
"""What rounding may add to a sum of levels."""


class Scores(ClosedRecord, frozen=True):
    """How the scores of two sides are compared: points on 0..100."""

    level: Number
    """The confidence level of the interval that is shown."""
    power: Number
    """The chance of showing a true difference that a plan aims for."""
    interval: Literal["student", "bounded"]
    """`student`: t on the paired differences. `bounded`: an interval that assumes nothing but the
    range, and asks for hundreds of pairs.
    """
    margin: OptionalNumber = None
    """How many points the candidate may lose and still count as not worse; by default 3, and 1
    where the policy is deterministic.
    """


class Severe(ClosedRecord, frozen=True):
    """What counts as a severe failure, and how one that may be chance is settled."""

    gates: list[Text]
    """Gates whose failure is severe."""
    roles: list[Text]
    """Roles whose missed floor is severe."""
    fresh_runs: Annotated[int, Meta(ge=4)] = 20
    """Fresh runs of each side that settle a sample that failed severely."""


class Budget(ClosedRecord, frozen=True):
    """How often a version that is the same as its baseline may be rejected, in all and by rule."""

    reject_at_most: Number = 0.05
    """By all rules together."""
    confirmed: Number = 0.01
    """By a new failure that fresh runs confirm."""
    exchange: Number = 0.01
    """By runs that fail more often over all samples."""
    gates: Number = 0.01
    """By gates that fail more often."""
    score: Number = 0.01
    """By the mean score."""
    criteria: Number = 0.005
    """By criteria, floors and slices together."""
    severe_exchange: Number = 0.004
    """By severe failures over all samples."""
    severe_confirmed: Number = 0.001
    """By a severe failure that fresh runs confirm."""

    def levels(self) -> dict[str, float]:
        """The level of each rule."""
        names = (name for name in self.__struct_fields__ if name != "reject_at_most")
        return {name: float(getattr(self, name)) for name in names}


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
    scores: Scores
    """How scores are compared."""
    severe: Severe
    """What counts as a severe failure."""
    baseline: BaselineTerms
    """How old a stored baseline may be."""
    burden: Literal["not_worse", "not_shown_worse"] = "not_worse"
    """`not_worse`: the candidate must be shown not to be worse. `not_shown_worse`: it passes unless
    it is shown to be worse, if the suite could have shown a loss of `detect` points.
    """
    deterministic: bool = False
    """Whether the system always gives the same result: then one new failure is a regression, and
    nothing is run again. Refused where stored repeats of a sample disagree.
    """
    confirm: Literal["fresh", "never"] = "fresh"
    """`fresh`: fresh runs tell a new failure from chance. `never`: nothing can be run again."""
    looks: Annotated[int, Meta(ge=1)] = 2
    """How many times a decision may be made on growing evidence. Each is made at the levels of the
    budget divided by this number.
    """
    sample_passes: PassedBy = "all"
    """What a sample with repeats counts as in the pass rate: as passed if `all` of them pass, if
    `any` does, or as the share of them that pass (`mean`).
    """
    new_failures: Count = 0
    """How many confirmed new failures are allowed."""
    gate_failure_increase: Number = 0
    """How much the share of runs that fail a gate may rise."""
    gate_margin: Number = 0.05
    """How much beyond that it must be shown not to have risen."""
    criterion_margin: Number = 5
    """How many points of 100 a criterion may be shown to have lost."""
    guardrails: list[Text] = []
    """Criteria that must be shown not to have lost that much."""
    cost_increase: OptionalNumber = None
    """How much the cost of a run may rise, as a share; not limited by default."""
    latency_increase: OptionalNumber = None
    """How much the latency of a run may rise, as a share; not limited by default."""
    detect: Number = 5
    """The loss in points that a suite must be able to show, where the burden is
    `not_shown_worse`.
    """
    errors: Budget = Budget()
    """How often a version that is the same as its baseline may be rejected."""
    approvers: list[Text] = []
    """Who may accept a new failure, by name."""
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

    @property
    def margin(self) -> Any:
        """How many points the candidate may lose."""
        return (
            (1 if self.deterministic else 3) if self.scores.margin is None else self.scores.margin
        )


class Errors(NamedTuple):
    """How often each rule may reject a version that is the same as its baseline."""

    confirmed: float = 0.01
    exchange: float = 0.01
    gates: float = 0.01
    score: float = 0.01
    criteria: float = 0.005
    """Criteria, floors and slices together."""
    severe_exchange: float = 0.004
    severe_confirmed: float = 0.001
    operations: float = 0.0

    @property
    def total(self) -> float:
        """How often any of them may."""
        return sum(self)

    def at_each_of(self, looks: int) -> Errors:
        """The levels of one of several looks. Confirmation uses fresh runs once, so its level is
        not divided.
        """
        divided = Errors(*(level / looks for level in self))
        return divided._replace(confirmed=self.confirmed, severe_confirmed=self.severe_confirmed)


class Limits(NamedTuple):
    """What a release policy allows, as the rules read it."""

    margin: float = 3.0
    min_pairs: int = 30
    new_failures: int = 0
    gate_increase: float = 0.0
    gate_margin: float = 0.05
    criterion_margin: float = 5.0
    guardrails: frozenset[str] = frozenset()
    deterministic: bool = False
    confirm: bool = True
    """Whether suspects can be run again."""
    severe_turns: int = 20
    """Fresh runs of each side that settle what is severe and was not shown."""
    cost_increase: float | None = None
    latency_increase: float | None = None
    bounded: bool = False
    """Whether the score's interval assumes nothing but the range."""
    errors: Errors = Errors()
    level: float = 0.95
    """The level of the interval that is shown; its lower end is what must be above minus the
    margin.
    """
    power: float = 0.8
    lenient: bool = False
    """Whether the candidate passes unless it is shown to be worse."""
    detect: float = 5.0
    """The loss that a suite must be able to show, where the limits are lenient."""


class ReleaseRules(NamedTuple):
    """A release policy with its numbers as the rules compare them."""

    policy: str
    digest: str
    limits: Limits
    looks: int
    severe_gates: frozenset[str]
    severe_roles: frozenset[str]
    max_age_days: Any
    reject_at_most: float
    passed_by: PassedBy = "all"
    approvers: frozenset[str] = frozenset()
    bar: PassBar | None = None
    min_overlap: Fraction = Fraction(1)
    overrides: tuple[PolicyOverride, ...] = ()
    """The numbers that were set for this one decision and differ from the policy's."""

    @property
    def min_pairs(self) -> int:
        """The fewest pairs for a decision."""
        return self.limits.min_pairs

    @property
    def margin(self) -> float:
        """How many points the candidate may lose."""
        return self.limits.margin

    @property
    def level(self) -> float:
        """The level of the interval that is shown."""
        return self.limits.level

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
            "margin": self.limits.margin,
            "level": self.limits.level,
            "min_pairs": self.limits.min_pairs,
            "interval": "bounded" if self.limits.bounded else "student",
            "looks": self.looks,
        }


def eased(rules: ReleaseRules, usual: ReleaseRules) -> str:
    """A note on what a release policy allows and the usual one doesn't; empty if that is nothing.
    Numbers that were eased for one decision are among its overrides.
    """
    numbers = [
        (
            ("min_pairs", -one.limits.min_pairs),
            ("new_failures", one.limits.new_failures),
            ("gate_failure_increase", one.limits.gate_increase),
            ("gate_margin", one.limits.gate_margin),
            ("margin", one.limits.margin),
            ("criterion_margin", one.limits.criterion_margin),
            ("level", -one.limits.level),
            ("severe.fresh_runs", -one.limits.severe_turns),
            ("max_age_days", one.max_age_days),
            ("min_overlap", -one.min_overlap),
        )
        for one in (rules, usual)
    ]
    replaced = {override.field for override in rules.overrides if override.eases}
    shown = {*replaced, *(TOLERATED if "tolerance" in replaced else ())}
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


TOLERATED = ("margin", "criterion_margin", "gate_margin")
"""What `tolerance` sets of a policy: points of the scores, percentage points of rates."""


class Bars(NamedTuple):
    """The numbers of a release policy that a person may set for one decision."""

    tolerance: Any = None
    min_pass_rate: Any = None
    confidence: Any = None
    min_overlap: Any = None


def overridden(policy: ReleasePolicy, bars: Bars) -> tuple[ReleasePolicy, list[PolicyOverride]]:
    """The policy with these numbers, under a version that ends in its digest, and what is different
    in it; the policy itself if nothing is. Raises `UsageError` for a value that is not a number
    within its range.
    """
    before = Bars(policy.margin, policy.min_pass_rate, policy.confidence, policy.min_overlap)
    overrides: list[PolicyOverride] = []
    for name, own, used in zip(Bars._fields, before, bars, strict=True):
        if used is None:
            continue
        value = _checked(name, used)
        if own is not None and exact.ratio(own) == value and not _is_tolerated(name, policy, value):
            continue
        is_higher = own is None or Fraction(*value) > Fraction(*exact.ratio(own))
        overrides.append(
            PolicyOverride(
                field=name,
                policy=None if own is None else float(own),
                used=float(used),
                eases=is_higher if name == "tolerance" else not is_higher,
            )
        )
    if not overrides:
        return policy, []
    changed: dict[str, Any] = {override.field: override.used for override in overrides}
    if "tolerance" in changed:
        points = changed.pop("tolerance")
        changed["scores"] = replace(policy.scores, margin=points)
        changed |= {"criterion_margin": points, "gate_margin": points / 100}
    changed_policy = replace(policy, **changed)
    mark = digest(changed_policy).removeprefix("sha256:")[:12]
    return replace(changed_policy, version=f"{policy.version}+{mark}"), overrides


def _is_tolerated(name: str, policy: ReleasePolicy, value: exact.Ratio) -> bool:
    """Whether a tolerance that is the policy's margin changes one of its other numbers."""
    points = Fraction(*value)
    rates = Fraction(*exact.ratio(policy.gate_margin)) * 100
    return name == "tolerance" and not (
        points == rates == Fraction(*exact.ratio(policy.criterion_margin))
    )


_RANGES = {
    "tolerance": (0, 100),
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
    limited = policy.cost_increase is not None or policy.latency_increase is not None
    return ReleaseRules(
        policy.id,
        digest(policy),
        Limits(
            margin=float(policy.margin),
            min_pairs=policy.min_pairs,
            new_failures=policy.new_failures,
            gate_increase=float(policy.gate_failure_increase),
            gate_margin=float(policy.gate_margin),
            criterion_margin=float(policy.criterion_margin),
            guardrails=frozenset(policy.guardrails),
            deterministic=policy.deterministic,
            confirm=policy.confirm == "fresh",
            severe_turns=policy.severe.fresh_runs,
            cost_increase=_number(policy.cost_increase),
            latency_increase=_number(policy.latency_increase),
            bounded=policy.scores.interval == "bounded",
            errors=_errors(policy.errors, limited=limited).at_each_of(policy.looks),
            level=float(policy.scores.level),
            power=float(policy.scores.power),
            lenient=policy.burden == "not_shown_worse",
            detect=float(policy.detect),
        ),
        policy.looks,
        frozenset(policy.severe.gates),
        frozenset(policy.severe.roles),
        policy.baseline.max_age_days,
        float(policy.errors.reject_at_most),
        policy.sample_passes,
        frozenset(policy.approvers),
        PassBar.of(policy.min_pass_rate, policy.confidence),
        Fraction(*exact.ratio(policy.min_overlap)),
        tuple(overrides),
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _errors(budget: Budget, *, limited: bool) -> Errors:
    levels = Errors(**budget.levels())
    if not limited:
        return levels
    taken = min(OPERATIONS_LEVEL, levels.score / 2)
    return levels._replace(score=levels.score - taken, operations=taken)


def load_release_policy(document: Document) -> ReleasePolicy:
    """A release policy from its file, or an error with every fault and its line."""
    faults = Faults(document)
    policy = read_shelf_record(document, ReleasePolicy, faults)
    for name in ("gate_failure_increase", "gate_margin", "min_overlap"):
        faults.number((name,), getattr(policy, name), high=1)
    for name in ("criterion_margin", "detect"):
        faults.number((name,), getattr(policy, name), high=100)
    for name in ("cost_increase", "latency_increase"):
        if getattr(policy, name) is not None:
            faults.number((name,), getattr(policy, name), high=1000)
    if policy.scores.margin is not None:
        faults.number(("scores", "margin"), policy.scores.margin, high=100)
    for name in ("level", "power"):
        value = getattr(policy.scores, name)
        faults.number(("scores", name), value, low=0.5, high=1, open_ends=True)
    faults.number(("baseline", "max_age_days"), policy.baseline.max_age_days, high=36500)
    rate, confidence = policy.min_pass_rate, policy.confidence
    if rate is not None:
        faults.number(("min_pass_rate",), rate, high=1, open_ends=rate != 1)
    if confidence is not None:
        is_open = confidence != 0.5
        faults.number(("confidence",), confidence, low=0.5, high=1, open_ends=is_open)
        if policy.min_pass_rate is None:
            faults.add(("confidence",), "it needs `min_pass_rate`.")
    _check_budget(policy, faults)
    faults.raise_if_any()
    return policy


def _check_budget(policy: ReleasePolicy, faults: Faults) -> None:
    budget = policy.errors
    faults.number(("errors", "reject_at_most"), budget.reject_at_most, high=MOST_REJECTED)
    levels = {name: getattr(budget, name) for name in budget.levels()}
    for name, level in levels.items():
        faults.number(("errors", name), level, high=MOST_REJECTED)
    if not all(map(exact.is_number, (budget.reject_at_most, *levels.values()))):
        return
    total = sum(map(float, levels.values()))
    if total > float(budget.reject_at_most) + TURNING:
        faults.add(
            ("errors",),
            f"the levels of the rules sum to {total:g}, and `reject_at_most` is"
            f" {float(budget.reject_at_most):g}.",
        )
    if policy.deterministic and policy.confirm == "never":
        faults.add(
            ("confirm",),
            "a deterministic system is never run again; leave `confirm` out.",
        )
