"""What a measure is, and what it says when it cannot tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.records.evidence import Run


class Undetermined(NamedTuple):
    """A measure that could not be taken, and why."""

    reason: str


class Measure(NamedTuple):
    """A raw score read off a run's evidence, with its data sheet."""

    id: str
    version: str
    title: str
    unit: str
    direction: str
    formula: str
    evidence: str
    absence: str
    take: Callable[[Run], Any]
    """The raw score, or `Undetermined`."""

    def sheet(self) -> dict[str, Any]:
        """The data sheet, as `assay library show measure ID` prints it."""
        return {name: getattr(self, name) for name in self._fields if name != "take"}
