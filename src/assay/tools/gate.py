"""The production gate of a tool schema: grade B or better, stable, no veto, a clean validation, and
no failing primitive left in it.

A rule holds, does not hold, or cannot be told (None). Only a gate of which every rule holds opens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay.tools.checks import CLEAN, VETO
from assay.tools.policy import at_least
from assay.tools.status import NODE_REJECTED, STABLE
from assay.tools.veto import TRIGGERS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from assay.tools.checks import Check
    from assay.tools.policy import SchemaRules
    from assay.tools.source import SchemaFinding


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
        return {
            "subject": self.subject,
            "passed": self.passed,
            "rules": [rule._asdict() for rule in self.rules],
        }


def schema_gate(
    name: str,
    node: dict[str, Any] | None,
    rules: SchemaRules,
    *,
    findings: Sequence[SchemaFinding] | None,
    checks: Sequence[Check] | None,
    tools: Collection[str] | None = None,
    rejected: Sequence[str] = (),
    unread: str | None = None,
) -> GateResult:
    """The gate of one schema, from its node in the index, its validation and its checks.

    `findings` None means that its source could not be read; `tools` are those in the source;
    `rejected` names what else speaks for it and is vetoed.
    """
    wanted = rules.policy.production_from
    if node is None:
        return GateResult(name, (Rule("graded", None, "the tree does not hold it"),))
    grade, status = node.get("grade"), node["status"]
    found = [
        Rule(
            "grade",
            at_least(grade, wanted) if grade is not None else None,
            f"grade {grade or 'none'}, needs {wanted} or better",
        ),
        Rule(
            "stable",
            status == STABLE,
            f"status {status}{': ' + node['reason'] if node.get('reason') else ''}",
        ),
    ]
    found.append(_primitives(node.get("tools", {}), tools))
    if findings is None or checks is None:
        why = unread or "the tree holds no source of it"
        found += [
            Rule("validation", None, why),
            Rule("no_veto", False if status == NODE_REJECTED else None, why),
        ]
        return GateResult(name, tuple(found))
    errors = [finding for finding in findings if finding.level == "error"]
    found.append(Rule("validation", not errors, errors[0].text() if errors else "no errors"))
    vetoes = [check for check in checks if check.outcome == VETO]
    checks = [check for check in checks if check.id in TRIGGERS]
    unclear = [check for check in checks if check.outcome not in (CLEAN, VETO)]
    if vetoes or rejected or status == NODE_REJECTED:
        found.append(
            Rule(
                "no_veto",
                False,
                (
                    vetoes[0].reason
                    if vetoes
                    else (
                        f"{rejected[0]} is rejected" if rejected else node.get("reason", "rejected")
                    )
                ),
            )
        )
    elif unclear:
        found.append(
            Rule("no_veto", None, "; ".join(f"{check.id}: {check.reason}" for check in unclear))
        )
    else:
        found.append(
            Rule("no_veto", True, "; ".join(f"{check.id}: {check.reason}" for check in checks))
        )
    return GateResult(name, tuple(found))


def _primitives(graded: dict[str, Any], tools: Collection[str] | None) -> Rule:
    """Whether every tool of the source is stable, and every graded one is in it."""
    if tools is None or not tools:
        return Rule(
            "primitives",
            None,
            "its tools could not be read" if tools is None else "it has no tools",
        )
    open_ = [
        f"{tool} is {graded[tool]['status'] if tool in graded else 'not graded'}"
        for tool in tools
        if graded.get(tool, {}).get("status") != STABLE
    ]
    return Rule(
        "primitives", not open_, "; ".join(open_[:10]) or f"every tool is stable ({len(tools)})"
    )


def rejected_beside(index: dict[str, Any], schema: str | None) -> list[str]:
    """The vetoed nodes of a namespace that speak for a schema, or for the whole: its About page,
    description, skills and aggregate.
    """
    found = [
        key
        for key in ("about", "description", "namespaceAggregate")
        if index.get(key, {}).get("status") == NODE_REJECTED
    ]
    found += [
        f"skill {name}"
        for name, node in index.get("skills", {}).items()
        if node["status"] == NODE_REJECTED and (schema is None or name.startswith(f"{schema}."))
    ]
    return found


def namespace_gate(name: str, index: dict[str, Any], rules: SchemaRules) -> GateResult:
    """The gate of a whole namespace: the grading that sums up its tools is good enough and
    stands.
    """
    node = index.get("namespaceAggregate", {"status": "pending"})
    rejected = rejected_beside(index, None)
    spoiled = [
        f"{item['node']}: {item['reason']}"
        for item in index.get("blockers", [])
        if ".json" in item["reason"]
    ]
    veto = Rule(
        "no_veto",
        False if rejected else None if spoiled else True,
        (
            f"{rejected[0]} is rejected"
            if rejected
            else spoiled[0]
            if spoiled
            else "nothing in it is rejected"
        ),
    )
    grade, wanted = node.get("grade"), rules.policy.production_from
    return GateResult(
        f"{name} (namespaceAggregate)",
        (
            Rule(
                "grade",
                at_least(grade, wanted) if grade is not None else None,
                f"namespaceAggregate {grade or 'none'}, needs {wanted} or better",
            ),
            Rule(
                "stable",
                node["status"] == STABLE,
                "namespaceAggregate"
                f" {node['status']}{': ' + node['reason'] if node.get('reason') else ''}",
            ),
            veto,
        ),
    )
