"""The production gate of a tool schema: grade B or better, stable, no veto, a clean validation, and no failing primitive left in it.

A rule holds, does not hold, or cannot be told (None). Only a gate of which every rule holds opens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay.flowmcp.checks import CLEAN, VETO
from assay.flowmcp.policy import at_least
from assay.flowmcp.status import NODE_REJECTED, STABLE
from assay.flowmcp.veto import TRIGGERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.flowmcp.checks import Check
    from assay.flowmcp.policy import SchemaRules
    from assay.flowmcp.source import SchemaFinding


class Rule(NamedTuple):
    """One condition of the gate."""

    id: str
    holds: bool | None
    reason: str


class GateResult(NamedTuple):
    """The gate for one schema or namespace."""

    subject: str
    rules: tuple[Rule, ...]

    @property
    def passed(self) -> bool:
        """Whether every rule holds."""
        return all(rule.holds is True for rule in self.rules)

    @property
    def undetermined(self) -> bool:
        """Whether nothing is shown violated, and something could not be told."""
        return not self.passed and not any(rule.holds is False for rule in self.rules)

    def document(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {"subject": self.subject, "passed": self.passed, "rules": [rule._asdict() for rule in self.rules]}


def schema_gate(
    name: str,
    node: dict[str, Any] | None,
    rules: SchemaRules,
    *,
    findings: Sequence[SchemaFinding] | None,
    checks: Sequence[Check] | None,
    unread: str | None = None,
) -> GateResult:
    """The gate of one schema, from its node in the index, its validation and its checks; `findings` None means that its source could not be read."""
    wanted = rules.policy.production_from
    if node is None:
        return GateResult(name, (Rule("graded", None, "the tree does not hold it"),))
    grade, status = node.get("grade"), node["status"]
    found = [
        Rule("grade", at_least(grade, wanted) if grade is not None else None, f"grade {grade or 'none'}, needs {wanted} or better"),
        Rule("stable", status == STABLE, f"status {status}{': ' + node['reason'] if node.get('reason') else ''}"),
    ]
    open_ = [f"{tool} is {inner['status']}" for tool, inner in node.get("tools", {}).items() if inner["status"] != STABLE]
    found.append(Rule("primitives", not open_, "; ".join(open_[:10]) or f"all {len(node.get('tools', {}))} tools are stable"))
    if findings is None or checks is None:
        why = unread or "the tree holds no source of it"
        found += [Rule("validation", None, why), Rule("no_veto", False if status == NODE_REJECTED else None, why)]
        return GateResult(name, tuple(found))
    errors = [finding for finding in findings if finding.level == "error"]
    found.append(Rule("validation", not errors, errors[0].text() if errors else "no errors"))
    vetoes = [check for check in checks if check.outcome == VETO]
    checks = [check for check in checks if check.id in TRIGGERS]
    unclear = [check for check in checks if check.outcome not in (CLEAN, VETO)]
    if vetoes or status == NODE_REJECTED:
        found.append(Rule("no_veto", False, vetoes[0].reason if vetoes else node.get("reason", "rejected")))
    elif unclear:
        found.append(Rule("no_veto", None, "; ".join(f"{check.id}: {check.reason}" for check in unclear)))
    else:
        found.append(Rule("no_veto", True, "; ".join(f"{check.id}: {check.reason}" for check in checks)))
    return GateResult(name, tuple(found))


def namespace_gate(name: str, index: dict[str, Any], rules: SchemaRules) -> GateResult:
    """The gate of a whole namespace: the grading that sums up its tools is good enough and stands."""
    node = index.get("namespaceAggregate", {"status": "pending"})
    grade, wanted = node.get("grade"), rules.policy.production_from
    return GateResult(
        name,
        (
            Rule("grade", at_least(grade, wanted) if grade is not None else None, f"namespaceAggregate {grade or 'none'}, needs {wanted} or better"),
            Rule("stable", node["status"] == STABLE, f"namespaceAggregate {node['status']}{': ' + node['reason'] if node.get('reason') else ''}"),
        ),
    )
