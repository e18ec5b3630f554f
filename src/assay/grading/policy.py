"""Policies: how scores become letters. Every number of the grading algorithm is a field here, none
stands in code.

`Rules` is a policy with its numbers brought onto the integers that grading compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from assay import exact
from assay.canon import digest
from assay.errors import EvidenceError, Fault, ShelfError
from assay.files.json_files import show_path
from assay.records.evidence import Number
from assay.records.grade import GRADING_SYSTEM, LETTERS, Band
from assay.records.reading import read_record
from assay.records.scorecard import ROLES
from assay.records.systems import FIRST, Version, is_published, system_of
from assay.registry import near_miss

if TYPE_CHECKING:
    from assay.files.json_files import Document, Path

Text = Annotated[str, Meta(min_length=1)]


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class BandSpec(_Part, frozen=True):
    """A letter and the score from which it holds."""

    grade: Text
    min: Number


class Shrinkage(_Part, frozen=True):
    """The reliability adjustment for small samples: how strong, and towards what."""

    prior: Number
    k: Number


class Placement(_Part, frozen=True):
    """What the placement notes call comfortable. Explains, never decides."""

    comfortable_margin: Number


class Ranking(_Part, frozen=True):
    """Scores closer than the window are a tie, to be broken."""

    tie_window: Number


class JudgeTerms(_Part, frozen=True):
    """What a judge needs in order to gate: a fresh card with enough labels, enough agreement, and
    biases within limits.
    """

    max_age_days: Number
    min_labels: Number
    min_kappa: Number
    """For the lower end of the interval, so that few labels are not rewarded."""
    min_items: Number
    """Pairs behind the biases."""
    max_lost: Number
    """The share of audit answers without a verdict."""
    max_inconsistency: Number
    max_position_bias: Number
    max_padding_bias: Number
    max_injection_rate: Number


class JudgeLimits(_Part, frozen=True, omit_defaults=True):
    """When a judge's rate of inconsistent pairs is worth a warning; and what a judge needs to gate,
    where the policy asks for it.
    """

    inconsistency_warning: Number
    gate: JudgeTerms | None = None


class CardTerms(_Part, frozen=True):
    """What a scorecard without a profile may decide for itself. By default nothing: the judged side
    does not set its own bar.
    """

    without_gates: bool = False
    """Whether a card without any hard gate may pass."""
    lower_threshold: bool = False
    """Whether a card's `pass_threshold` may lie below the policy's."""
    floor_override: bool = False
    """Whether a card's own `floor_override` counts."""


class Policy(_Part, frozen=True):
    """How the scores of a family become letters."""

    policy: Text
    version: int | str
    title: Text
    family: Text
    pass_threshold: Number
    bands: Annotated[list[BandSpec], Meta(min_length=2)]
    role_floors: dict[str, Number]
    floor_cap: Text
    shrinkage: Shrinkage
    placement: Placement
    ranking: Ranking
    judge: JudgeLimits
    grading_system: Version = FIRST
    scorecards: CardTerms = CardTerms()
    description: str | None = None

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.policy}@{self.version}"


class Rules(NamedTuple):
    """A policy on the integers that grading compares."""

    policy: str
    digest: str
    grading_system: str
    pass_threshold: Any
    """As the policy writes it."""
    threshold: int
    """The hundredths that a score must reach."""
    bands: tuple[Band, ...]
    role_floors: dict[str, int]
    cap: str
    shrinkage: exact.Shrinkage
    comfortable_margin: int
    tie_window: int
    inconsistency_warning: exact.Ratio
    judge_terms: JudgeTerms | None = None
    """None where any judge may gate."""
    cards: CardTerms = CardTerms()

    @property
    def lowest_passing(self) -> str:
        """The lowest letter that passes: the threshold's own band. F never passes."""
        letter = next(band.grade for band in self.bands if self.threshold >= band.edge)
        return self.bands[-2].grade if letter == self.bands[-1].grade else letter


def make_rules(policy: Policy) -> Rules:
    """The policy's numbers as integers. The policy has been checked by `load_policy`."""
    own = digest(policy)
    return Rules(
        policy=policy.id,
        digest=own,
        grading_system=system_of(
            GRADING_SYSTEM, policy.grading_system, own, published=is_published(own)
        ),
        pass_threshold=policy.pass_threshold,
        threshold=exact.reach(policy.pass_threshold, exact.SCORE_DIGITS),
        bands=tuple(
            Band(band.grade, exact.reach(band.min, exact.SCORE_DIGITS)) for band in policy.bands
        ),
        role_floors={
            role: exact.scaled(floor, exact.NORM_DIGITS)
            for role, floor in policy.role_floors.items()
        },
        cap=policy.floor_cap,
        shrinkage=exact.shrinkage(
            exact.ratio(policy.shrinkage.prior), exact.ratio(policy.shrinkage.k)
        ),
        comfortable_margin=exact.scaled(policy.placement.comfortable_margin, exact.NORM_DIGITS),
        tie_window=exact.reach(policy.ranking.tie_window, exact.SCORE_DIGITS),
        inconsistency_warning=exact.ratio(policy.judge.inconsistency_warning),
        judge_terms=policy.judge.gate,
        cards=policy.scorecards,
    )


def load_policy(document: Document) -> Policy:
    """A policy from its file, or an error with every fault and its line."""
    lines = document.lines or {}
    faults: list[Fault] = []

    def add(path: Path, message: str) -> None:
        faults.append(
            Fault(
                message,
                code="LIB-002",
                file=document.file,
                line=lines.get(path, lines.get(path[:1])),
                path=show_path(path),
            )
        )

    try:
        policy = read_record(document, Policy, "LIB-002")
    except EvidenceError as error:
        for fault in error.faults:
            fault.line = fault.line or next(
                (line for path, line in lines.items() if show_path(path) == fault.path),
                lines.get(()),
            )
        raise ShelfError(
            "LIB-002", error.message, where=document.file, faults=error.faults
        ) from None

    def number(path: Path, value: Any, low: int, high: int | None) -> exact.Ratio | None:
        try:
            found = exact.ratio(value)
        except ValueError as error:
            add(path, f"must be a number; {error}.")
            return None
        if found.num < low * found.den or (high is not None and found.num > high * found.den):
            add(path, f"is {value}, outside {low}..{'' if high is None else high}.")
            return None
        return found

    number(("pass_threshold",), policy.pass_threshold, 0, 100)
    number(("shrinkage", "prior"), policy.shrinkage.prior, 0, 1)
    k = number(("shrinkage", "k"), policy.shrinkage.k, 0, None)
    if k is not None and k.num == 0:
        add(("shrinkage", "k"), "must be greater than 0.")
    number(("placement", "comfortable_margin"), policy.placement.comfortable_margin, 0, 1)
    number(("ranking", "tie_window"), policy.ranking.tie_window, 0, 100)
    number(("judge", "inconsistency_warning"), policy.judge.inconsistency_warning, 0, 1)
    if policy.judge.gate is not None:
        for name in policy.judge.gate.__struct_fields__:
            number(
                ("judge", "gate", name),
                getattr(policy.judge.gate, name),
                0,
                None if name in ("max_age_days", "min_labels", "min_items") else 1,
            )
    for role, floor in policy.role_floors.items():
        if role not in ROLES and near_miss(role, ROLES):
            add(("role_floors", role), f"there is no role '{role}'.{near_miss(role, ROLES)}")
        number(("role_floors", role), floor, 0, 1)
    edges = [
        number(("bands", index, "min"), band.min, 0, 100) for index, band in enumerate(policy.bands)
    ]
    letters = [band.grade for band in policy.bands]
    if letters != [letter for letter in LETTERS if letter in letters] or letters[-1] != LETTERS[-1]:
        add(
            ("bands",),
            f"the bands go from the best letter of {', '.join(LETTERS)} down to F, not"
            f" {', '.join(letters)}.",
        )
    for index in range(1, len(edges)):
        upper, lower = edges[index - 1], edges[index]
        if (
            upper is not None
            and lower is not None
            and lower.num * upper.den >= upper.num * lower.den
        ):
            add(("bands", index, "min"), "each band begins below the one before it.")
    if edges[-1] is not None and edges[-1].num != 0:
        add(
            ("bands", len(edges) - 1, "min"),
            "the last band begins at 0, so that every score has a letter.",
        )
    if policy.floor_cap not in letters:
        add(("floor_cap",), f"'{policy.floor_cap}' is none of the letters {', '.join(letters)}.")
    if faults:
        raise ShelfError("LIB-002", faults[0].message, where=document.file, faults=faults)
    return policy
