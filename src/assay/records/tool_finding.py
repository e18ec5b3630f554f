"""Rules of tool schemas, and what a check found."""

from __future__ import annotations

from typing import NamedTuple

LEVELS = ("error", "warning", "note")
"""What a finding can be, the gravest first. Only an error fails a validation."""


class SchemaRule(NamedTuple):
    """One rule of a tool schema. A rule has one level: the same break never weighs differently from
    file to file.
    """

    id: str
    level: str
    holds: str
    """One sentence: what is so where nothing is wrong."""
    fix: str
    spec: str | None = None
    """The id of the public FlowMCP specification with this meaning; None if there is none."""


class SchemaFinding(NamedTuple):
    """One rule that a schema breaks: where, what, and what to do."""

    rule: str
    level: str
    """`error`, `warning` or `note`; only an error fails the validation."""
    path: str
    """The place in the schema, as `tools.getPrice.parameters[0].z`."""
    message: str
    fix: str
    line: int | None = None

    def text(self) -> str:
        """One line for `validationErrors`."""
        where = f"{self.path}: " if self.path else ""
        return f"{self.rule} {where}{self.message} {self.fix}".rstrip()
