"""The stored check of one tool schema: its tools in readable form, their legibility scores, and
every finding.

A legibility score is not a grade: see `tool_legibility`. Texts that contain a secret are removed
before a record is made.
"""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct, to_builtins

from assay.records.tool_finding import SchemaFinding
from assay.records.tool_legibility import SYSTEM, RuleCost

TOOL_CHECK = "assay.tool-check/1"


class _Check(Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of a check. A newer program may add keys."""


class CheckedParameter(_Check, frozen=True, kw_only=True):
    """A parameter as a person reads it."""

    name: str
    """With the names of its parents, as `filter.city` or `hives[].name`."""
    path: str
    type: str = ""
    required: bool = False
    description: str = ""
    limits: str = ""


class CheckedTool(_Check, frozen=True, kw_only=True):
    """A tool as a model is shown it, and its score."""

    name: str
    path: str
    title: str = ""
    description: str = ""
    parameters: list[CheckedParameter] = []
    more_parameters: int = 0
    """How many parameters are left out."""
    hints: dict[str, bool] = {}
    """The effects that it declares, by hint."""
    score: int
    tokens: int = 0
    unassessed: str = ""
    costs: list[RuleCost] = []


class VetoOutcome(_Check, frozen=True, kw_only=True):
    """The outcome of one veto check."""

    id: str
    outcome: str
    reason: str = ""


class ToolCheck(_Check, frozen=True, kw_only=True):
    """The check of one schema or server."""

    schema: str = TOOL_CHECK
    schema_id: str
    namespace: str
    base: str
    kind: str
    """`flowmcp` or `mcp`."""
    file: str
    source_hash: str
    checked_at: str
    version: str = ""
    description: str = ""
    system: str = SYSTEM
    score: int
    mean: int
    cap_reason: str = ""
    costs: list[RuleCost] = []
    """The cost of findings that belong to no tool."""
    tools: list[CheckedTool] = []
    findings: list[SchemaFinding] = []
    checks: list[VetoOutcome] = []


def below(path: str, place: str) -> bool:
    """Whether a finding's path is a place or lies within it.

    >>> below("tools[1].inputSchema", "tools[1]"), below("tools[12]", "tools[1]")
    (True, False)
    """
    return path.startswith(place) and path[len(place) : len(place) + 1] in ("", ".", "[")


def findings_of(check: ToolCheck, tool: CheckedTool) -> list[SchemaFinding]:
    """The findings that belong to a tool, in their order."""
    return [finding for finding in check.findings if below(finding.path, tool.path)]


def own_findings(check: ToolCheck) -> list[SchemaFinding]:
    """The findings that belong to no tool."""
    return [
        finding
        for finding in check.findings
        if not any(below(finding.path, tool.path) for tool in check.tools)
    ]


def plain_check(check: ToolCheck) -> dict[str, Any]:
    """The record as plain data, with the keys of its JSON."""
    return cast("dict[str, Any]", to_builtins(check))
