"""What a rule is, and the book in which a check writes down what it found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from assay.tools.source import SchemaFinding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LEVELS = ("error", "warning", "note")
"""What a finding can be, the gravest first. Only an error fails a validation."""


class Rule(NamedTuple):
    """One rule of a tool schema. A rule has one level: the same break never weighs differently from
    file to file.
    """

    id: str
    level: str
    holds: str
    """One sentence: what is so where nothing is wrong."""
    fix: str
    spec: str | None = None
    """The id of the public FlowMCP specification with this meaning; None where there is none."""


def table(rules: Iterable[Rule]) -> dict[str, Rule]:
    """Rules by their id, in their order. Two of one id would hide each other."""
    known: dict[str, Rule] = {}
    for rule in rules:
        if rule.id in known or rule.level not in LEVELS:
            raise ValueError(
                f"the rule {rule.id!r} stands twice, or its level {rule.level!r} is none of"
                f" {', '.join(LEVELS)}"
            )
        known[rule.id] = rule
    return known


class Findings:
    """What the checks of one schema found, in the order of the checks."""

    def __init__(
        self, rules: Mapping[str, Rule], *, source: bytes = b"", lines: bool = False
    ) -> None:
        self._rules = rules
        self._text = source.decode("utf-8", "replace") if lines else ""
        self._found: list[SchemaFinding] = []
        self._lines: dict[str, int | None] = {}

    def add(
        self, rule: str, path: str, message: str, *, fix: str = "", line: int | None = None
    ) -> None:
        """Note that a rule is broken at a path. A finding that was already made is not made
        again.
        """
        known = self._rules[rule]
        finding = SchemaFinding(
            rule,
            known.level,
            path,
            message,
            fix or known.fix,
            line if line is not None else self._line(path),
        )
        if (
            finding not in self._found[-200:]
        ):  # a rule may look at one place twice; looking further back would cost the square
            self._found.append(finding)

    def all(self) -> list[SchemaFinding]:
        """The findings, the gravest first, each level in the order in which it was found."""
        return sorted(self._found, key=lambda finding: LEVELS.index(finding.level))

    def _line(self, path: str) -> int | None:
        if not self._text or not path:
            return None
        names = re.split(r"[.\[]", path)
        keep = 2 if names[0] in ("tools", "routes", "resources", "headers") else 1
        key = ".".join(names[:keep])
        if key not in self._lines:
            self._lines[key] = _line_of(self._text, names[:keep])
        return self._lines[key]


def _line_of(text: str, names: list[str]) -> int | None:
    """The line on which the last of some nested keys begins. Only a key at the start of a line
    counts: a wrong line is worse than none.
    """
    start = 0
    for name in names:
        found = re.compile(rf"""^[ \t]*(["']?){re.escape(name)}\1[ \t]*:""", re.MULTILINE).search(
            text, start
        )
        if found is None:
            return None
        start = found.start()
    return text.count("\n", 0, start) + 1
