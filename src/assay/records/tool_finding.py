"""Rules for tool schemas, and the findings of a check."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

LEVELS = ("error", "warning", "note")
"""The levels of a finding, most severe first. Only an error fails a validation."""


class SchemaRule(NamedTuple):
    """One rule for tool schemas. It has one level, so that breaking it weighs the same in every
    file.
    """

    id: str
    level: str
    holds: str
    """One sentence: what is true of a schema that keeps the rule."""
    fix: str
    spec: str | None = None
    """The id of the same rule in the public FlowMCP specification; None if it has none."""


class SchemaFinding(Struct, frozen=True):
    """One rule that a schema breaks: where, what, and what to do."""

    rule: str
    level: str
    """One of `LEVELS`."""
    path: str
    """The place in the schema, as `tools.getPrice.parameters[0].z`."""
    message: str
    fix: str
    line: int | None = None

    def text(self) -> str:
        """One line for `validationErrors`."""
        where = f"{self.path}: " if self.path else ""
        return f"{self.rule} {where}{self.message} {self.fix}".rstrip()
