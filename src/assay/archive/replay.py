"""Recomputes a stored grade from its stored evidence and recorded versions, and compares the bytes.
Decisions: `replay_decisions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from assay.archive.grades import Traced, cards_of, stored_evidence, trace
from assay.canon import canonical
from assay.errors import InputError, ShelfError
from assay.files.json_files import Document, parse_json
from assay.files.yaml_files import is_yaml_name
from assay.library.shelf import Shelf
from assay.pipeline.grading import Graded, Grader
from assay.scoring.profile import ScoringPlan, make_plan
from assay.store.drafts import Item
from assay.store.ledger import DEFAULT_PROJECT, Ledger

_FIRST = ("gradingSystem", "scoringSystem", "policy", "profile", "rubric", "digests")
"""Fields that explain other differences and are compared first."""


class FirstDifference(NamedTuple):
    """The first place where two documents differ."""

    path: str
    stored: Any
    recomputed: Any


class Replayed(NamedTuple):
    """Whether recomputing a stored record gave the same bytes, and if not, where they first
    differ.
    """

    item: Item
    stored: dict[str, Any]
    same: bool
    difference: FirstDifference | None


class _RecordedGrader(Grader):
    """A grader with the versions that a stored grade names, not the newest ones."""

    def __init__(
        self,
        shelf: Shelf,
        stored: Mapping[str, Any],
        cards: Sequence[Mapping[str, Any]],
        now: datetime | None,
    ) -> None:
        self._selection = stored["selection"]
        super().__init__(shelf, policy=on_shelf(stored["policy"]), cards=cards, now=now)
        if self._selection["profile"] is not None:
            self._required = self._planned(None, None, None)

    def _plan(
        self, family: str | None, profile: str | None, rubric: str | None, *, named_by: str
    ) -> ScoringPlan:
        chosen, over = self._selection["profile"], self._selection["rubric"]
        if chosen is None:
            raise ShelfError(
                "LIB-001", "a stored grade of a run names no profile, so it can't be recomputed."
            )
        return make_plan(
            self.shelf.profile(on_shelf(chosen["id"])),
            why=chosen["why"],
            rubric=None if over is None else self.shelf.rubric(on_shelf(over["id"])),
            rubric_why="" if over is None else over["why"],
        )


def on_shelf(name: Any, *, of: str = "grade") -> str:
    """A name with its version, never a path: a stored record may come from anywhere."""
    if (
        not isinstance(name, str)
        or "@" not in name
        or "/" in name
        or "\\" in name
        or is_yaml_name(name)
    ):
        raise ShelfError(
            "LIB-001", f"a stored {of} names what it was made with as name@version, not {name!r}."
        )
    return name


def replay(
    ledger: Ledger, grade: Item, shelf: Shelf, *, project: str = DEFAULT_PROJECT
) -> Replayed:
    """Recompute a stored grade from its stored evidence, with its recorded profile, rubric and
    policy versions, and compare the bytes.
    """
    stored = _replayable(grade)
    graded = Remaker(shelf).remake(trace(ledger, [grade], project=project)[0])
    return compared(grade, stored, graded.payload())


def compared(item: Item, stored: dict[str, Any], recomputed: Any) -> Replayed:
    """A stored record, and whether the recomputed one has the same bytes."""
    again = canonical(recomputed)
    if again == item.body:
        return Replayed(item, stored, True, None)
    return Replayed(item, stored, False, first_difference(stored, parse_json(again)))


def _replayable(grade: Item) -> dict[str, Any]:
    """A stored grade, if it names what it was made with; else an error."""
    stored: dict[str, Any] = grade.tree()
    if grade.kind != "grade" or not isinstance(stored.get("selection"), dict):
        raise InputError(
            "STO-017",
            f"this record is of kind '{grade.kind}'; only a grade can be replayed.",
            where=grade.digest,
        )
    return stored


class Remaker:
    """Recomputes stored grades, each from its stored evidence with its recorded versions.

    Grades that name the same policy, profile, rubric, cards and moment share a grader: it is
    created only once.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._graders: dict[tuple[str, bytes, tuple[str, ...]], Grader] = {}

    def remake(self, traced: Traced) -> Graded:
        """Recompute a stored grade."""
        evidence = stored_evidence(traced.evidence, traced.grade)
        return self.grader(traced).grade(Document(evidence.tree(), evidence.digest))

    def grader(self, traced: Traced) -> Grader:
        """The grader that a stored grade was made by."""
        stored = _replayable(traced.grade)
        basis = tuple(item.digest for item in traced.basis)  # the cards and the moment
        key = (on_shelf(stored.get("policy")), canonical(stored["selection"]), basis)
        grader = self._graders.get(key)
        if grader is None:
            cards, now = cards_of(traced)
            grader = self._graders[key] = _RecordedGrader(self._shelf, stored, cards, now)
        return grader


def first_difference(stored: Any, again: Any, path: str = "") -> FirstDifference | None:
    """The first place where two documents differ; fields that explain others come first.

    >>> first_difference({"a": 1, "policy": "x@1"}, {"a": 2, "policy": "x@2"})
    FirstDifference(path='policy', stored='x@1', recomputed='x@2')
    """
    if isinstance(stored, dict) and isinstance(again, dict):
        names = [
            *(name for name in _FIRST if not path and (name in stored or name in again)),
            *sorted({*stored, *again}),
        ]
        for name in names:
            difference = first_difference(
                stored.get(name), again.get(name), f"{path}.{name}" if path else str(name)
            )
            if difference is not None:
                return difference
            if (name in stored) is not (name in again):
                return FirstDifference(
                    f"{path}.{name}" if path else str(name),
                    stored.get(name, "absent"),
                    again.get(name, "absent"),
                )
        return None
    if isinstance(stored, list) and isinstance(again, list):
        for index, (here, there) in enumerate(zip(stored, again, strict=False)):
            difference = first_difference(here, there, f"{path}[{index}]")
            if difference is not None:
                return difference
        return (
            None
            if len(stored) == len(again)
            else FirstDifference(path, f"{len(stored)} of them", f"{len(again)} of them")
        )
    return (
        None
        if type(stored) is type(again) and stored == again
        else FirstDifference(path, stored, again)
    )
