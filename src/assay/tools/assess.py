"""All that can be said about a schema without asking anybody: its validation and its legibility,
gravest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.tools import legibility, validation

if TYPE_CHECKING:
    from assay.tools.source import SchemaFinding, ToolSchema

RULES = {**validation.RULES, **legibility.RULES}


def assess(schema: ToolSchema) -> list[SchemaFinding]:
    """Every finding of a schema, the gravest first."""
    found = [*validation.validate(schema), *legibility.findings(schema)]
    return sorted(found, key=lambda finding: validation.LEVELS.index(finding.level))
