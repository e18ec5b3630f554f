"""The decision of the production gate of tool schemas, `assay.schema-gate/1`: the rules for each
schema or namespace, and what they came to.
"""

from __future__ import annotations

from msgspec import Struct, field

SCHEMA_GATE = "assay.schema-gate/1"


class GateRule(Struct, frozen=True):
    """One condition of the gate. It holds, does not hold, or is undetermined (None)."""

    id: str
    holds: bool | None
    reason: str


class ToolGateResult(Struct, frozen=True):
    """The gate for one schema or namespace. It passes if every rule holds."""

    subject: str
    passed: bool
    rules: tuple[GateRule, ...]

    @property
    def violated(self) -> bool:
        """Whether a rule does not hold; without one, a gate that doesn't pass is undetermined."""
        return any(rule.holds is False for rule in self.rules)


class ToolGate(Struct, frozen=True):
    """The gate for everything that was asked about."""

    passed: bool
    results: tuple[ToolGateResult, ...]
    policy: str = ""
    scoring_system: str = field(name="scoringSystem", default="")
    grading_system: str = field(name="gradingSystem", default="")

    @property
    def violated(self) -> bool:
        """Whether a rule does not hold for any of them."""
        return any(result.violated for result in self.results)
