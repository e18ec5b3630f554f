"""The rules of tool schemas, from `data/rules.json`, and the list in which a check records what it
found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from decimal import Decimal

import msgspec

from assay.families.tools.records import LEVELS, SchemaFinding, SchemaRule


def rules_of(family: str) -> dict[str, SchemaRule]:
    """The rules of a family by their id, in their order, from `data/rules.json`."""
    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "rules.json")
    with open(path, "rb") as stream:
        rows = msgspec.json.decode(stream.read())[family]
    return {row["id"]: SchemaRule(**row) for row in rows}


class SchemaFindings:
    """What the checks of one schema found, in the order of the checks."""

    def __init__(
        self, rules: Mapping[str, SchemaRule], *, source: bytes = b"", lines: bool = False
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

    def need(self, holds: object, rule: str, path: str, message: str, *, fix: str = "") -> bool:
        """Note that a rule is broken unless it holds; whether it does."""
        if not holds:
            self.add(rule, path, message, fix=fix)
        return bool(holds)

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
    counts, because a wrong line number is worse than none.
    """
    start = 0
    for name in names:
        match = re.compile(rf"""^[ \t]*(["']?){re.escape(name)}\1[ \t]*:""", re.MULTILINE).search(
            text, start
        )
        if match is None:
            return None
        start = match.start()
    return text.count("\n", 0, start) + 1


def shown(value: object) -> str:
    """A value in a sentence, cut where it is long."""
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
