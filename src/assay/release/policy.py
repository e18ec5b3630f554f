"""The release policy: when a candidate may replace a baseline. Every number of the promotion rules
is a field here, none stands in code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from assay import exact
from assay.canon import digest
from assay.records.evidence import Number
from assay.records.shape import Faults, read_shelf_record
from assay.records.systems import FIRST, Version, is_published, marked

if TYPE_CHECKING:
    from assay.files.json_files import Document, Path

FAMILY = "release"
DEFAULT = "release@1"
"""The published policy under which a decision carries the string of its grading policy alone."""
Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]


class _ReleasePart(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    pass


class Scores(_ReleasePart, frozen=True):
    """How the scores of two sides are compared: points on 0..100."""

    margin: Number
    level: Number
    power: Number
    interval: Literal["student", "bounded"]
    """`student`: t on the paired differences. `bounded`: an interval that assumes nothing but the
    range, and asks for hundreds of pairs.
    """


class Severe(_ReleasePart, frozen=True):
    """What counts as a severe failure, and how many more of them there may be."""

    gates: list[Text]
    roles: list[Text]
    increase: Count


class BaselineTerms(_ReleasePart, frozen=True):
    """How old a stored baseline may be."""

    max_age_days: Number


class ReleasePolicy(_ReleasePart, frozen=True):
    """When a candidate may replace a baseline."""

    policy: Text
    version: int | str
    title: Text
    family: Literal["release"]
    min_pairs: Annotated[int, Meta(ge=2)]
    gate_failure_increase: Number
    scores: Scores
    new_floor_failures: Count
    severe: Severe
    baseline: BaselineTerms
    grading_system: Version = FIRST
    description: str | None = None

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

    def grading_system(self, grading: str) -> str:
        """The string of a decision on grades of this system: any other release policy than the
        published default is a system of its own.
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


def make_release_rules(policy: ReleasePolicy) -> ReleaseRules:
    """The numbers of a release policy. It has been checked by `load_release_policy`."""
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
    )


def load_release_policy(document: Document) -> ReleasePolicy:
    """A release policy from its file, or an error with every fault and its line."""
    faults = Faults(document)
    policy = read_shelf_record(document, ReleasePolicy, faults)

    def number(path: Path, value: Any, low: float, high: float, *, open_ends: bool = False) -> None:
        if not exact.is_number(value):
            faults.add(path, f"is {value!r}; it must be a number.")
        elif not (low < value < high if open_ends else low <= value <= high):
            faults.add(
                path,
                f"is {value}; it must be"
                f" {'between' if open_ends else 'from'} {low} {'and' if open_ends else 'to'} {high}.",  # noqa: E501
            )

    number(("gate_failure_increase",), policy.gate_failure_increase, 0, 1)
    number(("scores", "margin"), policy.scores.margin, 0, 100)
    number(("scores", "level"), policy.scores.level, 0.5, 1, open_ends=True)
    number(("scores", "power"), policy.scores.power, 0.5, 1, open_ends=True)
    number(("baseline", "max_age_days"), policy.baseline.max_age_days, 0, 36500)
    faults.raise_if_any()
    return policy
