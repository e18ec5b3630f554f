"""The policy of tool-schema grading: worth of words, bands, tier caps, selection sizes. Every
number is a field, none stands in code.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from assay import exact
from assay.canon import digest
from assay.errors import EvidenceError, Fault, ShelfError
from assay.files.json_files import show_path
from assay.records.evidence import Number
from assay.records.reading import read_record
from assay.records.systems import FIRST, Version, is_published, system_of
from assay.tools.names import LETTERS, TIERS
from assay.tools.versions import CURRENT, GRADING_SYSTEM

if TYPE_CHECKING:
    from assay.files.json_files import Document, Path

FAMILY = "flowmcp"
Text = Annotated[str, Meta(min_length=1)]


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class BandSpec(_Part, frozen=True):
    """A letter and the mean from which it holds."""

    grade: Text
    min: Number


class Worth(_Part, frozen=True):
    """What the two words of a binary outcome are worth on the scale."""

    passed: Number
    failed: Number


class SelectionSizes(_Part, frozen=True):
    """How many namespaces a selection needs to be graded at all, and to reach its best grade."""

    graded_from: int
    uncapped_from: int
    capped_at: Text


class SchemaPolicy(_Part, frozen=True):
    """How the scores of tool schemas become letters."""

    policy: Text
    version: int | str
    title: Text
    family: Text
    worth: Worth
    bands: Annotated[list[BandSpec], Meta(min_length=2)]
    tier_caps: dict[str, str]
    group_bound_from: Text
    """The best letter; it needs a contribution that is bound to a group."""
    judged_from: Text
    """From this letter on an entry should hold at least one judged answer."""
    stable_from: Text
    production_from: Text
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
        self.bands = tuple((band.grade, _fraction(band.min)) for band in policy.bands)
        self.caps = dict(policy.tier_caps)
        self.reproducible_within = _fraction(policy.reproducible_within)
        self._words = {
            "pass": exact.ratio(policy.worth.passed),
            "fail": exact.ratio(policy.worth.failed),
        }

    def worth(self, score: object) -> exact.Ratio:
        """What a score that counts is worth."""
        return self._words[score] if isinstance(score, str) else exact.ratio(score)

    def letter(self, mean: Fraction) -> str:
        """The band of a mean, compared unrounded; the lower edge belongs to the band."""
        return next(grade for grade, edge in self.bands if mean >= edge)


def _fraction(value: object) -> Fraction:
    return Fraction(*exact.ratio(value))


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
        policy = read_record(document, SchemaPolicy, "LIB-002")
    except EvidenceError as error:
        for fault in error.faults:
            fault.line = fault.line or next(
                (line for path, line in lines.items() if show_path(path) == fault.path),
                lines.get(()),
            )
        raise ShelfError(
            "LIB-002", error.message, where=document.file, faults=error.faults
        ) from None

    def number(path: Path, value: Any) -> Fraction | None:
        try:
            return _fraction(value)
        except ValueError as error:
            add(path, f"must be a number; {error}.")
            return None

    for name in ("passed", "failed"):
        worth = number(("worth", name), getattr(policy.worth, name))
        if worth is not None and not 1 <= worth <= 5:
            add(("worth", name), "lies outside 1 to 5.")
    edges = [number(("bands", index, "min"), band.min) for index, band in enumerate(policy.bands)]
    letters = [band.grade for band in policy.bands]
    if letters != list(LETTERS):
        add(
            ("bands",),
            f"the bands are those of {', '.join(LETTERS)}, in this order, not"
            f" {', '.join(letters)}.",
        )
    for index in range(1, len(edges)):
        upper, lower = edges[index - 1], edges[index]
        if upper is not None and lower is not None and lower >= upper:
            add(("bands", index, "min"), "each band begins below the one before it.")
    if edges[-1] is not None and edges[-1] > 1:
        add(
            ("bands", len(edges) - 1, "min"),
            "the last band begins at 1 or below, so that every mean has a letter.",
        )
    if set(policy.tier_caps) != set(TIERS):
        add(("tier_caps",), f"there is one cap for each of {', '.join(TIERS)}.")
    for name in ("group_bound_from", "judged_from", "stable_from", "production_from"):
        if getattr(policy, name) not in LETTERS:
            add((name,), f"'{getattr(policy, name)}' is none of the letters {', '.join(LETTERS)}.")
    for tier, cap in policy.tier_caps.items():
        if cap not in LETTERS:
            add(("tier_caps", tier), f"'{cap}' is none of the letters {', '.join(LETTERS)}.")
    if (
        policy.selection.capped_at not in LETTERS
        or not 0 < policy.selection.graded_from <= policy.selection.uncapped_from
    ):
        add(
            ("selection",),
            "a selection is graded from some number of namespaces on, and uncapped from the same or"
            " a higher one.",
        )
    number(("reproducible_within",), policy.reproducible_within)
    if policy.family != FAMILY:
        add(("family",), f"a policy of this shape belongs to the family '{FAMILY}'.")
    if faults:
        raise ShelfError("LIB-002", faults[0].message, where=document.file, faults=faults)
    return policy
