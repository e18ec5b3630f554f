"""The definition of a gate and its result. The gates themselves are in `gates`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from assay.records.evidence import Run
from assay.scoring.metrics.measure import Undetermined, fields_text


class GateResult(NamedTuple):
    """Whether a gate passed, None for undetermined, and why."""

    passed: bool | None
    reason: str


ABSENT = {
    "forbidden_tools": "the run has no list of `forbidden_tools` (an empty list means none)",
    "handoff_rules": "the run has no `handoff_rules`",
    "handoffs": "the run has no list of `handoffs` (an empty list means there were none)",
    "output_schema": "the run has no `output_schema` (an empty one accepts everything)",
    "outputs": "the run has no `outputs`",
    "patch_applies": "the run doesn't state whether its patch applies (`patch_applies`)",
    "required_inputs": "the run has no list of `required_inputs` (an empty list means none)",
    "required_outputs": "the run has no list of `required_outputs` (an empty list means none)",
    "steps": "the run has no list of `steps` (an empty list means there were none)",
    "tool_calls": "the run has no list of `tool_calls` (an empty list means there were none)",
}
"""Why a gate is undetermined, by the field that the run lacks."""

_GUIDE = "Workflow Scoring & Evaluation Reference Guide, sections 3 and 6"


class Gate(NamedTuple):
    """A hard gate with its data sheet."""

    id: str
    title: str
    group: str
    """`required` (every run), `optional` (if a profile or a run names it) or `profile`."""
    evidence: tuple[tuple[str, ...], ...]
    """The fields it reads; none for a verdict gate."""
    rule: Callable[[Run, Mapping[str, Any]], GateResult] | None
    """None for a verdict gate. It may raise `Undetermined`."""
    needs: tuple[str, ...] = ()
    """Fields of the run without which there is no evidence."""
    params: Mapping[str, Any] = {}
    source: str = _GUIDE

    @property
    def is_computed(self) -> bool:
        """Whether it reads evidence, unlike a verdict gate."""
        return self.rule is not None

    def check(self, run: Run, params: Mapping[str, Any]) -> GateResult:
        """The result for the evidence of a run; undetermined if it is missing."""
        assert self.rule is not None
        try:
            for name in self.needs:
                if getattr(run, name) is None:
                    raise Undetermined(ABSENT.get(name, f"the run has no `{name}`"))
            return self.rule(run, params)
        except Undetermined as error:
            return GateResult(None, f"no evidence: {error.reason}")

    def sheet(self) -> dict[str, Any]:
        """The data sheet, as `assay library show gate ID` prints it."""
        from assay.scoring.gate_examples import EXAMPLES  # only a data sheet needs them

        example = EXAMPLES.get(self.id)
        return {
            "id": self.id,
            "title": self.title,
            "group": self.group,
            "kind": "computed" if self.is_computed else "verdict",
            "evidence": fields_text(self.evidence) or "a verdict that comes with the run (`gates`)",
            "params": dict(self.params),
            # a plugin's gate, whose name has a dot, is not from the guide
            "source": "a plugin" if "." in self.id and self.source == _GUIDE else self.source,
            "example": None if example is None else example._asdict(),
        }
