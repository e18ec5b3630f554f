"""Tools as rows: each with its legibility score, its grade by the scoring protocol, and what was
found; narrowed down and sorted by what an address asks for.

The two numbers are never mixed: legibility comes from fixed rules, a grade from judges. A tool that
has only one of them says so about the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from assay.errors import count
from assay.records.grade import LETTERS
from assay.records.tool_check import CheckedTool, ToolCheck, findings_of
from assay.records.tool_entry import IndexNode, StoredIndex
from assay.records.tool_finding import LEVELS, SchemaFinding
from assay.views.pieces import address

UNCHECKED, UNGRADED, CLEAN = "unchecked", "ungraded", "clean"
STATES = {
    "error": "With errors",
    "warning": "With warnings",
    CLEAN: "No findings",
    UNCHECKED: "Not checked",
    UNGRADED: "Not graded",
}
"""What a list of tools can be narrowed down to."""
_LAST = 1_000_000


class ToolRow(NamedTuple):
    """One tool."""

    namespace: str
    base: str
    name: str
    check: ToolCheck | None = None
    tool: CheckedTool | None = None
    findings: Sequence[SchemaFinding] = ()
    node: IndexNode | None = None
    system: str | None = None
    """The grading system of the node's letter."""

    @property
    def schema_id(self) -> str:
        """The schema or server that it belongs to."""
        return f"{self.namespace}/{self.base}"

    @property
    def href(self) -> str:
        """Its page."""
        return address("schemas", self.schema_id, tool=self.name)

    @property
    def grade(self) -> str | None:
        """Its letter by the scoring protocol."""
        grade = None if self.node is None else self.node.grade
        return None if grade == "n/a" else grade

    def is_in(self, state: str) -> bool:
        """Whether it belongs to one of `STATES`."""
        if state == UNCHECKED:
            return self.tool is None
        if state == UNGRADED:
            return not self.grade
        if state == CLEAN:
            return self.tool is not None and not self.findings and not self.tool.unassessed
        return any(finding.level == state for finding in self.findings)


class ToolQuery(NamedTuple):
    """What an address asks of the list."""

    q: str = ""
    of: str = ""
    state: str = ""
    sort: str = ""
    order: str = ""

    def href(self, **changes: str) -> str:
        """The address of the list with these changes."""
        query = self._replace(**changes)
        return address("schemas", **query._asdict())


def tool_rows(indexes: Iterable[StoredIndex], checks: Iterable[ToolCheck]) -> list[ToolRow]:
    """Every tool of the newest indexes and checks, once."""
    rows: dict[tuple[str, str, str], ToolRow] = {}
    for check in checks:
        for tool in check.tools:
            row = ToolRow(
                check.namespace, check.base, tool.name, check, tool, findings_of(check, tool)
            )
            rows[row[:3]] = row
    for index in indexes:
        for base, schema in index.schemas.items():
            for name, node in schema.tools.items():
                key = (index.name, base, name)
                row = rows.get(key, ToolRow(*key))
                system = node.grading_system or index.grading_system
                rows[key] = row._replace(node=node, system=system)
    return list(rows.values())


SORTS: dict[str, Callable[[ToolRow], Any]] = {
    "legibility": lambda row: _LAST if row.tool is None else row.tool.score,
    "grade": lambda row: _grade_order(row.grade),
    "findings": lambda row: tuple(
        -sum(finding.level == level for finding in row.findings) for level in LEVELS
    ),
    "tokens": lambda row: _LAST if row.tool is None else -row.tool.tokens,
    "tool": lambda row: row.name.casefold(),
}
"""What the rows can be sorted by: the first click puts first what needs work."""
DEFAULT_SORT = "legibility"


def _grade_order(grade: str | None) -> int:
    """Grades without a letter first, then the worst letter, no grade last."""
    if not grade:
        return _LAST
    return -LETTERS.index(grade) if grade in LETTERS else -len(LETTERS)


def chosen_rows(rows: Sequence[ToolRow], query: ToolQuery) -> list[ToolRow]:
    """The rows that a query asks for, in its order."""
    words = query.q.casefold().split()
    chosen = [
        row
        for row in rows
        if (not query.of or query.of in (row.schema_id, row.namespace))
        and (query.state not in STATES or row.is_in(query.state))
        and (not words or all(word in _searched(row) for word in words))
    ]
    by_name = sorted(chosen, key=lambda row: (row.name.casefold(), row.schema_id))
    sort = SORTS.get(query.sort, SORTS[DEFAULT_SORT])
    return sorted(by_name, key=sort, reverse=query.order == "desc")


def _searched(row: ToolRow) -> str:
    texts = [row.name, row.schema_id]
    texts += [row.tool.title, row.tool.description] if row.tool else []
    texts += [f"{finding.rule} {finding.message}" for finding in row.findings]
    return " ".join(texts).casefold()


def counted(findings: Sequence[SchemaFinding]) -> str:
    """Findings by their level, in words.

    >>> counted([])
    'none'
    """
    levels = [finding.level for finding in findings]
    parts = [count(levels.count(level), level) for level in LEVELS if level in levels]
    return ", ".join(parts) or "none"
