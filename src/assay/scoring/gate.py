"""What a gate is and what it answers. The gates themselves are in `gates`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assay.records.evidence import Run


class GateResult(NamedTuple):
    """A verdict: True, False, or None for undetermined; and why."""

    passed: bool | None
    reason: str


class Gate(NamedTuple):
    """A hard gate with its data sheet."""

    id: str
    title: str
    group: str
    """`required` (every run), `optional` (where a profile or a run names it) or `profile`."""
    evidence: str
    """What it looks at; for a verdict gate, that the verdict comes with the run."""
    check: Callable[[Run, Mapping[str, Any]], GateResult] | None
    """None for a verdict gate."""
    params: Mapping[str, Any] = {}
    source: str = "Workflow Scoring & Evaluation Reference Guide, sections 3 and 6"

    def sheet(self) -> dict[str, Any]:
        """The data sheet, as `assay library show gate ID` prints it."""
        return {
            "id": self.id,
            "title": self.title,
            "group": self.group,
            "kind": "verdict" if self.check is None else "computed",
            "evidence": self.evidence,
            "params": dict(self.params),
            "source": self.source,
        }
