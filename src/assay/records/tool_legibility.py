"""Legibility scores of tools: 0 to 100, from deterministic rules alone.

A score has no letter. The grade of the scoring protocol, which judges give, is another number: see
`tool_entry`. `assay.families.tools.legibility_score` defines what each finding costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct, to_builtins

from assay.records.tool_finding import SchemaFinding

SYSTEM = "legibility/1"
"""Scores of different systems are not comparable."""


class RuleCost(Struct, frozen=True):
    """The points that one broken rule costs a tool, or a schema as a whole."""

    rule: str
    level: str
    findings: int
    points: int


class ToolLegibility(NamedTuple):
    """The score of one tool."""

    name: str
    score: int
    costs: tuple[RuleCost, ...] = ()
    tokens: int = 0
    """About how many tokens its definition takes in a model's context."""
    unassessed: str = ""
    """Why it could not be assessed, in which case its score is 0; empty if it was."""

    def document(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "name": self.name,
            "score": self.score,
            "tokens": self.tokens,
            "costs": to_builtins(self.costs),
            "unassessed": self.unassessed or None,
        }


class SchemaLegibility(NamedTuple):
    """The score of a schema or server, and those of its tools."""

    subject: str
    path: str
    score: int
    mean: int
    """The mean of its tools, rounded down, before `costs` and `cap`."""
    tools: tuple[ToolLegibility, ...]
    costs: tuple[RuleCost, ...]
    """The cost of findings that belong to no tool."""
    cap: int
    """The highest possible score; 100 if nothing limits it."""
    cap_reason: str
    findings: Sequence[SchemaFinding] = ()

    @property
    def lowest(self) -> ToolLegibility | None:
        """The tool with the lowest score, the first by name among equals; None without tools."""
        return min(self.tools, key=lambda tool: (tool.score, tool.name), default=None)

    @property
    def tokens(self) -> int:
        """About how many tokens all its tools take in a model's context."""
        return sum(tool.tokens for tool in self.tools)

    def document(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "score": self.score,
            "mean": self.mean,
            "lowest": self.lowest.score if self.lowest else None,
            "cap": self.cap,
            "capReason": self.cap_reason or None,
            "tokens": self.tokens,
            "costs": to_builtins(self.costs),
            "tools": [tool.document() for tool in self.tools],
            "system": SYSTEM,
        }


class LegibilityReport(NamedTuple):
    """Every schema of one check, and the files that could not be read."""

    schemas: tuple[SchemaLegibility, ...]
    unread: tuple[str, ...]
    """Files that could not be read. Each counts as 0."""
    score: int
    minimum: int | None = None
    """The score that every schema and every tool must reach; None if there is no minimum."""

    def below(self) -> list[str]:
        """What falls short of the minimum, in words; empty without a minimum."""
        if self.minimum is None:
            return []
        short = [f"{path} could not be read" for path in self.unread]
        for schema in self.schemas:
            if schema.score < self.minimum:
                short.append(f"{schema.subject} {schema.score}")
            short += [
                f"{schema.subject} {tool.name} {tool.score}"
                for tool in schema.tools
                if tool.score < self.minimum
            ]
        return short if self.schemas or short else ["nothing was scored"]

    def document(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "score": self.score,
            "minimum": self.minimum,
            "below": self.below(),
            "system": SYSTEM,
        }
