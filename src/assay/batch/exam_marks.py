"""Marks of exams as one relational plan: the marks of each sitting are counted by axis, and the
counts decide every gate.

The exam is part of the plan: an item that a sitting leaves out has no marks, so that no sitting
passes by skipping the hard ones. As the number of items is known, every limit is a whole number of
billionths, or of items, that a sum must reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import to_builtins

from assay.canon import digest

MAX_ITEMS = 100_000


class BatchAxis(NamedTuple):
    """One axis of the rubric and its weight in billionths."""

    name: str
    weight: int


class BatchRegression(NamedTuple):
    """The regression set with the marks of its baseline, and how far a sitting may fall."""

    items: Mapping[str, int]
    """The baseline's marks of each item; the first axis is the lowest bit."""
    units: int
    """The sum of the baseline's scores in billionths."""
    marks: tuple[int, ...]
    """How many items of the baseline have the mark of each axis."""
    max_drop: int
    """How far the sum of the scores may fall."""
    axis_drops: tuple[int, ...]
    """How many items' worth the mean of each axis may fall; empty if the policy has no such limits.
    """
    max_lost: int | None
    """How many items may lose the mark of an axis, whatever others gain."""
    verify_above: int
    """A rise of the sum beyond this asks whether the rubric is at fault."""
    rubric_passes: bool
    """Whether the rubric passes its own test."""
    warn_below: int
    """The sum of the scores below which the regression score is a warning."""
    schema_axis: int | None
    """The place of the axis that checks the schema."""
    schema_failures: int
    """More failures than this are a warning."""


class ExamBatchPlan(NamedTuple):
    """An exam, its rubric and a policy as the numbers that an engine compares."""

    policy: str
    rubric: str
    axes: tuple[BatchAxis, ...]
    capstone: tuple[str, ...]
    """The items of the exam that the hard gate is on."""
    sets: tuple[str, str]
    """What the two sets are called: the capstone exam, and the regression set."""
    hard_gate: int
    """The sum of the scores that opens the gate, in billionths."""
    target: int
    regression: BatchRegression | None
    scoring_system: str
    grading_system: str
    digests: Mapping[str, str]

    @property
    def digest(self) -> str:
        """The plan as one digest: equal plans decide alike."""
        return digest(to_builtins(self._asdict()))
