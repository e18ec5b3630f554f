"""Policies, which define how scores become letters. Every number of the grading algorithm is a
field here; none is in code.

`Rules` is a policy with its numbers as the integers that grading compares.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, structs

from assay import exact
from assay.canon import digest
from assay.files.json_files import Document, Path
from assay.records.evidence import Number
from assay.records.grade import GRADING_SYSTEM, LETTERS, Band
from assay.records.scorecard import ROLES
from assay.records.shape import Faults, ShelfPart, Text, read_shelf_record
from assay.records.systems import FIRST, Version, is_published, system_of
from assay.registry import near_miss


class PolicyBand(ShelfPart, frozen=True):
    """A letter and its lowest score."""

    grade: Text
    """The letter."""
    min: Number
    """The lowest score of the letter."""


class Shrinkage(ShelfPart, frozen=True):
    """The reliability adjustment for small samples."""

    prior: Number
    """The norm that scores from small samples are drawn towards."""
    k: Number
    """How many samples it takes to move halfway from the prior to the score."""


class Placement(ShelfPart, frozen=True):
    """What the placement notes call comfortable. It decides nothing."""

    comfortable_margin: Number
    """The distance to a floor, on 0..1, from which a note calls it comfortable."""


class Ranking(ShelfPart, frozen=True):
    """When two scores are a tie."""

    tie_window: Number
    """Scores closer than this many points are a tie."""


class JudgeTerms(ShelfPart, frozen=True):
    """What a judge needs in order to gate: a fresh card with enough labels, enough agreement, and
    biases within limits.
    """

    max_age_days: Number
    """How old the card may be, in days."""
    min_labels: Number
    """The smallest number of human labels behind it."""
    min_kappa: Number
    """The smallest kappa at the lower end of the interval, so that few labels are not rewarded."""
    min_items: Number
    """The smallest number of items with a verdict behind each bias."""
    max_lost: Number
    """The largest share of answers without a verdict, in the worst probe of the audit."""
    max_inconsistency: Number
    """The largest share of pairs that come out differently in the two orders."""
    max_position_bias: Number
    """The largest preference for a position."""
    max_padding_bias: Number
    """The largest preference for padded answers."""
    max_injection_rate: Number
    """The largest share of injected instructions that it follows."""


class JudgeLimits(ShelfPart, frozen=True, omit_defaults=True):
    """When a judge's rate of inconsistent pairs causes a warning, and what a judge needs to gate,
    if the policy requires anything.
    """

    inconsistency_warning: Number
    """The share of inconsistent pairs from which a note warns."""
    gate: JudgeTerms | None = None
    """What a judge needs before its scores pass a floor; without it, any judge may."""


class CardTerms(ShelfPart, frozen=True):
    """What a scorecard without a profile may decide for itself. By default nothing: the judged side
    doesn't set the bar.
    """

    without_gates: bool = False
    """Whether a card without any hard gate may pass."""
    lower_threshold: bool = False
    """Whether a card's `pass_threshold` may be below the policy's."""
    floor_override: bool = False
    """Whether a card's `floor_override` counts."""


class Policy(ShelfPart, frozen=True):
    """How the scores of a family become letters."""

    policy: Text
    """The policy's name."""
    version: int | str
    """Its version. A published version never changes."""
    title: Text
    """The name that people see."""
    family: Text
    """What it grades: workflows, exams or tools."""
    pass_threshold: Number
    """The score from 0 to 100 that a run must reach."""
    bands: Annotated[list[PolicyBand], Meta(min_length=2)]
    """The letters with their lowest scores, best first."""
    role_floors: dict[str, Number]
    """The norm that criteria of a role must reach, by role."""
    floor_cap: Text
    """The best letter of a run that misses a floor."""
    shrinkage: Shrinkage
    """How scores of small samples are adjusted."""
    placement: Placement
    """What the placement notes call comfortable."""
    ranking: Ranking
    """When two scores are a tie."""
    judge: JudgeLimits
    """What is required of judges."""
    grading_system: Version = FIRST
    """The version of the grading system that it needs."""
    scorecards: CardTerms = CardTerms()
    """What a scorecard without a profile may decide for itself."""
    description: str | None = None
    """What it is for."""

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.policy}@{self.version}"


class Rules(NamedTuple):
    """A policy with its numbers as the integers that grading compares."""

    policy: str
    digest: str
    grading_system: str
    pass_threshold: Any
    """The passing score as the policy writes it."""
    threshold: int
    """The passing score in hundredths."""
    bands: tuple[Band, ...]
    role_floors: dict[str, int]
    cap: str
    shrinkage: exact.Pull
    comfortable_margin: int
    tie_window: int
    disagreement_limit: int
    judge_terms: JudgeTerms | None = None
    """None if any judge may gate."""
    cards: CardTerms = CardTerms()

    @property
    def lowest_passing(self) -> str:
        """The lowest letter that passes: that of the threshold. F never passes."""
        letter = next(band.grade for band in self.bands if self.threshold >= band.edge)
        return self.bands[-2].grade if letter == self.bands[-1].grade else letter


def make_rules(policy: Policy) -> Rules:
    """The rules of a policy that `load_policy` has checked."""
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
        disagreement_limit=exact.scaled(policy.judge.inconsistency_warning, exact.NORM_DIGITS),
        judge_terms=policy.judge.gate,
        cards=policy.scorecards,
    )


def disagrees_too_often(rate: Fraction, limit: Fraction) -> bool:
    """Whether judges disagree more often than the limit allows; the limit itself is allowed."""
    return rate > limit


def load_policy(document: Document) -> Policy:
    """A policy from its file. Raises an error that lists every fault with its line."""
    faults = Faults(document)
    policy = read_shelf_record(document, Policy, faults)
    limits: dict[Path, tuple[Any, int]] = {
        ("shrinkage", "prior"): (policy.shrinkage.prior, 1),
        ("placement", "comfortable_margin"): (policy.placement.comfortable_margin, 1),
        ("ranking", "tie_window"): (policy.ranking.tie_window, 100),
        ("judge", "inconsistency_warning"): (policy.judge.inconsistency_warning, 1),
        **{("role_floors", role): (floor, 1) for role, floor in policy.role_floors.items()},
    }
    for path, (value, high) in limits.items():
        faults.number(path, value, high=high)
    _points(faults, ("pass_threshold",), policy.pass_threshold)
    if faults.number(("shrinkage", "k"), policy.shrinkage.k) == 0:
        faults.add(("shrinkage", "k"), "must be greater than 0.")
    terms = {} if policy.judge.gate is None else structs.asdict(policy.judge.gate)
    for name, value in terms.items():
        faults.number(("judge", "gate", name), value, high=None if name in _COUNTS else 1)
    for role in policy.role_floors:
        if role not in ROLES and near_miss(role, ROLES):
            faults.add(("role_floors", role), f"there is no role '{role}'.{near_miss(role, ROLES)}")
    _check_bands(policy, faults)
    faults.raise_if_any()
    return policy


_COUNTS = ("max_age_days", "min_labels", "min_items")
"""The terms for judges that are not shares."""


def _points(faults: Faults, path: Path, value: Any) -> Any:
    """The points of a threshold or a band. A share is a fault: nearly every score reaches 0.7."""
    points = faults.number(path, value, high=100)
    if points is not None and 0 < points < 1:
        meant = f"{float(100 * points):g}"
        faults.add(path, f"is {value} of 100 points, not a share. Did you mean {meant}?")
    return points


def _check_bands(policy: Policy, faults: Faults) -> None:
    edges = [
        _points(faults, ("bands", index, "min"), band.min)
        for index, band in enumerate(policy.bands)
    ]
    letters = [band.grade for band in policy.bands]
    if letters != [letter for letter in LETTERS if letter in letters] or letters[-1] != LETTERS[-1]:
        faults.add(
            ("bands",),
            f"the bands go from the best letter of {', '.join(LETTERS)} down to F, not"
            f" {', '.join(letters)}.",
        )
    faults.check_edges(edges)
    if edges[-1] is not None and edges[-1] != 0:
        faults.add(
            ("bands", len(edges) - 1, "min"),
            "the last band begins at 0, so that every score has a letter.",
        )
    if policy.floor_cap not in letters:
        faults.add(
            ("floor_cap",), f"'{policy.floor_cap}' is not one of the letters {', '.join(letters)}."
        )
