"""What a measure is, and what it says when it cannot tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assay.records.evidence import Run


class Undetermined(Exception):
    """Raised by a measure that the evidence does not allow to take; the message says why."""

    @property
    def reason(self) -> str:
        """What the evidence lacks."""
        return str(self)


class Measure(NamedTuple):
    """A raw score read off a run's evidence, with its data sheet."""

    id: str
    version: str
    title: str
    unit: str
    direction: str
    formula: str
    """The formula that brings the raw score onto 0..1."""
    evidence: str
    """What it looks at in a run."""
    absence: str
    """What it says when that is not there."""
    read: Callable[[Run, Mapping[str, Any]], Any]
    """The raw score; raises `Undetermined`. The second argument is `params` with what the criterion
    overrides.
    """
    range: str = "0..1"
    params: Mapping[str, Any] = {}
    """Its parameters with their defaults."""
    citation: str = ""
    """Where the definition comes from."""
    determinism: str = "deterministic"
    limits: str = ""
    """What it cannot see."""
    reads_verdicts: bool = False
    """Whether it only counts verdicts that a judge or a person put into the evidence: then the
    score is theirs, not measured.
    """

    def take(self, run: Run, params: Mapping[str, Any]) -> Any:
        """The raw score of a run, or the `Undetermined` that was raised."""
        try:
            return self.read(run, params)
        except Undetermined as error:
            return error

    def sheet(self) -> dict[str, Any]:
        """The data sheet, as `assay library show measure ID` prints it."""
        from assay.scoring.metrics.examples import EXAMPLES  # nothing but a sheet needs them

        example = EXAMPLES.get(self.id)
        shown = {name: getattr(self, name) for name in self._fields if name != "read"}
        return {**shown, "example": None if example is None else example.document()}
