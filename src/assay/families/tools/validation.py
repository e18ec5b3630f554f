"""Deterministic validation of a tool schema: what must hold before a judge is asked.

A schema passes when no finding is an error; warnings do not fail it. The same bytes give the same
findings: nothing here uses the network, the clock or a model. `validate` checks the rules of
FlowMCP 4, `legibility` those of the tools of any server, `assess` both. Nothing here grades: see
`aggregate`.
"""

from __future__ import annotations

from assay.families.tools import legibility
from assay.families.tools.records import LEVELS, SchemaFinding
from assay.families.tools.rules import cases, main_block, tools
from assay.families.tools.rules.rule import SchemaFindings, rules_of
from assay.families.tools.source import ToolSchema

RULES = rules_of("flowmcp")
"""Every rule of a FlowMCP schema by its id. An error is what a tool cannot be called without; the
rest of the specification warns.
"""
ALL_RULES = {**RULES, **legibility.RULES}


def assess(schema: ToolSchema) -> list[SchemaFinding]:
    """Every finding of a schema, the gravest first."""
    findings = [*validate(schema), *legibility.findings(schema)]
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


def validate(schema: ToolSchema) -> list[SchemaFinding]:
    """What breaks the rules of FlowMCP, the gravest first. The tools of an MCP server have no such
    rules: the list is empty.

    Every fault is found at once. A tool that cannot be read is left out of the further checks,
    never out of the findings.
    """
    if schema.kind != "flowmcp":
        return []
    findings = SchemaFindings(RULES, source=schema.source, lines=True)
    groups = main_block.check(schema, findings)
    names = set()
    for key, group in groups.items():
        for name, tool in group.items():
            names.add(name)
            path = f"{key}.{name}"
            tools.check(schema, name, tool, path, findings)
            if isinstance(tool, dict):
                cases.check(tool, path, findings)
    tools.check_server_params(schema, groups, findings)
    resources = schema.main.get("resources")
    names |= set(resources) if isinstance(resources, dict) else set()
    for handler in schema.handlers:
        if names and handler not in names:
            findings.add("handler-unknown", "", f"the handler {handler!r} belongs to no tool.")
    return findings.all()
