"""The definition of a measure, the exception for missing evidence, and what measures share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from assay import exact
from assay.records.evidence import Run, Tally


class Undetermined(Exception):
    """Raised by a measure or a gate that the evidence doesn't decide; the message is the reason."""

    @property
    def reason(self) -> str:
        """What the evidence lacks."""
        return str(self)


def shown(value: exact.Ratio) -> float:
    """A share as a raw score, rounded like a norm."""
    return exact.shown(exact.norm_of(value), exact.NORM_DIGITS)


def tally(run: Run, name: str) -> Tally:
    """The run's count of tests of one kind."""
    counted: Tally | None = getattr(run.tests, name, None)
    if counted is None:
        raise Undetermined(f"the run has no `tests.{name}`")
    if counted.passed > counted.total:
        raise Undetermined(f"`tests.{name}` says {counted.passed} passed of {counted.total}")
    return counted


def some_tests(run: Run, name: str) -> Tally:
    """The run's count of tests of one kind, if there are any."""
    counted = tally(run, name)
    if not counted.total:
        raise Undetermined(f"`tests.{name}` counts no tests")
    return counted


def fields_text(evidence: tuple[tuple[str, ...], ...]) -> str:
    """The fields that a data sheet names, as people read them.

    >>> fields_text((("handoffs", "expected.handoffs"), ("handoffs[].expected",)))
    'handoffs, expected.handoffs; without it, handoffs[].expected'
    """
    return "; without it, ".join(", ".join(fields) for fields in evidence)


class Measure(NamedTuple):
    """A raw score computed from a run's evidence, with its data sheet."""

    id: str
    version: str
    title: str
    unit: str
    direction: str
    formula: str
    """The formula that maps the raw score to 0..1."""
    evidence: tuple[tuple[str, ...], ...]
    """The fields of a run that it reads; what it reads without them, if there are alternatives."""
    absence: str
    """Its result without them."""
    read: Callable[[Run, Mapping[str, Any]], Any]
    """Returns the raw score or raises `Undetermined`. The second argument is `params` with the
    criterion's overrides.
    """
    range: str = "0..1"
    params: Mapping[str, Any] = {}
    """Its parameters with their defaults."""
    citation: str = ""
    """Where the definition comes from."""
    determinism: str = "deterministic"
    limits: str = ""
    """What it can't see."""
    reads_verdicts: bool = False
    """Whether it only counts verdicts of a judge or a person in the evidence; then the score is
    theirs, not measured.
    """

    def take(self, run: Run, params: Mapping[str, Any]) -> Any:
        """The raw score of a run, or the `Undetermined` that was raised."""
        try:
            return self.read(run, params)
        except Undetermined as error:
            return error

    def sheet(self) -> dict[str, Any]:
        """The data sheet, as `assay library show measure ID` prints it."""
        from assay.scoring.metrics.examples import EXAMPLES  # only a data sheet needs them

        example = EXAMPLES.get(self.id)
        shown = {name: getattr(self, name) for name in self._fields if name != "read"}
        shown["evidence"] = fields_text(self.evidence)
        return {**shown, "example": None if example is None else example.document()}
