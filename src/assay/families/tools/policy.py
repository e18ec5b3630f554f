"""The policy of tool-schema grading: every number is a field, none is hard-coded. And the versions
of the two systems for tool schemas, which are independent of those for workflows.
"""

from __future__ import annotations

from copy import copy
from fractions import Fraction
from typing import Annotated, Literal

from msgspec import Meta

from assay import exact
from assay.canon import digest
from assay.families.tools.names import LETTERS
from assay.files.json_files import Document
from assay.records.evidence import Number
from assay.records.shape import Faults, ShelfPart, Text, read_shelf_record
from assay.records.systems import FIRST, Systems, Version, is_published, system_of

SCORING_SYSTEM = "scoringSystem/1.0.0"
GRADING_SYSTEM = "gradingSystem/1.0.0"
GRADING_SPEC = "gradingSpec/2.0.1"
SCORING_PROTOCOL = "v1"

CURRENT = Systems(SCORING_SYSTEM, GRADING_SYSTEM)
"""What this code implements; the grading system of a result is the one that its policy states."""

Letter = Literal["A", "B", "C", "D", "F"]
Tier = Literal["autonomous", "group-bound"]


class MeanBand(ShelfPart, frozen=True):
    """A letter and the mean from which it holds."""

    grade: Letter
    min: Number


class Worth(ShelfPart, frozen=True):
    """What the two words of a binary outcome are worth on the scale."""

    passed: Number
    failed: Number


class SelectionSizes(ShelfPart, frozen=True):
    """How many namespaces a selection needs to be graded at all, and to reach its best grade."""

    graded_from: int
    uncapped_from: int
    capped_at: Letter


class SchemaPolicy(ShelfPart, frozen=True):
    """How the scores of tool schemas become letters."""

    policy: Text
    version: int | str
    title: Text
    family: Literal["flowmcp"]
    worth: Worth
    bands: Annotated[list[MeanBand], Meta(min_length=2)]
    tier_caps: Annotated[dict[Tier, Letter], Meta(min_length=2)]
    group_bound_from: Letter
    """The best letter; it needs a contribution that is bound to a group."""
    judged_from: Letter
    """From this letter on an entry should hold at least one judged answer."""
    stable_from: Letter
    production_from: Letter
    selection: SelectionSizes
    reproducible_within: Number
    """How far repeated scores of one dimension may lie apart before a warning."""
    grading_system: Version = FIRST
    description: str | None = None

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.policy}@{self.version}"


class SchemaRules:
    """A policy with its numbers exact."""

    def __init__(self, policy: SchemaPolicy) -> None:
        self.policy = policy
        self.id = policy.id
        self.digest = digest(policy)
        self.systems = CURRENT._replace(
            grading=system_of(
                GRADING_SYSTEM,
                policy.grading_system,
                self.digest,
                published=is_published(self.digest),
            )
        )
        self.bands = tuple((band.grade, Fraction(*exact.ratio(band.min))) for band in policy.bands)
        self.caps: dict[str, str] = {str(tier): str(cap) for tier, cap in policy.tier_caps.items()}
        self.reproducible_within = Fraction(*exact.ratio(policy.reproducible_within))
        self._words = {
            "pass": exact.ratio(policy.worth.passed),
            "fail": exact.ratio(policy.worth.failed),
        }

    def under(self, systems: Systems) -> SchemaRules:
        """The same rules, writing and reading under other versions."""
        made = copy(self)
        made.systems = systems
        return made

    def worth(self, score: object) -> exact.Ratio:
        """What a score that counts is worth."""
        return self._words[score] if isinstance(score, str) else exact.ratio(score)

    def letter(self, mean: Fraction) -> str:
        """The band of a mean, compared unrounded; the lower edge belongs to the band."""
        return next(grade for grade, edge in self.bands if mean >= edge)


def better(letter: str, than: str) -> bool:
    """Whether a letter is better than another."""
    return LETTERS.index(letter) < LETTERS.index(than)


def at_least(letter: str | None, wanted: str) -> bool:
    """Whether a letter is as good as another or better; a missing one, or REJECTED, never is.

    >>> at_least("B", "B"), at_least("REJECTED", "F"), at_least(None, "F")
    (True, False, False)
    """
    return letter in LETTERS and LETTERS.index(letter) <= LETTERS.index(wanted)


def capped(letter: str, at: str) -> str:
    """A letter, no better than the cap. A cap never raises a letter."""
    return at if better(letter, at) else letter


def load_schema_policy(document: Document) -> SchemaPolicy:
    """A policy of this family from its file, or an error with every fault and its line."""
    faults = Faults(document)
    policy = read_shelf_record(document, SchemaPolicy, faults)
    faults.number(("worth", "passed"), policy.worth.passed, low=1, high=5)
    faults.number(("worth", "failed"), policy.worth.failed, low=1, high=5)
    faults.number(("reproducible_within",), policy.reproducible_within)
    letters = [band.grade for band in policy.bands]
    if letters != list(LETTERS):
        faults.add(
            ("bands",),
            f"the bands are {', '.join(LETTERS)} in this order, not {', '.join(letters)}.",
        )
    edges = [
        faults.number(("bands", index, "min"), band.min) for index, band in enumerate(policy.bands)
    ]
    faults.check_edges(edges)
    if edges[-1] is not None and edges[-1] > 1:
        faults.add(
            ("bands", len(edges) - 1, "min"),
            "the last band begins at 1 or below, so that every mean has a letter.",
        )
    if not 0 < policy.selection.graded_from <= policy.selection.uncapped_from:
        faults.add(
            ("selection",),
            "`graded_from` is at least 1, and `uncapped_from` is at least `graded_from`.",
        )
    faults.raise_if_any()
    return policy
