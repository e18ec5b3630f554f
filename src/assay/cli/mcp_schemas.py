"""The tools of `assay mcp` that check the tools of another server."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from assay.cli.mcp_answers import LIMIT, ToolAnswer
from assay.cli.tools_input import assess_all, lists_of, read_sources, rules_of
from assay.errors import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.cli.mcp_project import ServedProject


def check_tools(project: ServedProject, given: Mapping[str, Any]) -> ToolAnswer:
    """The findings on the tools of a server, from a snapshot of its listing."""
    return _checked(project, f"--snapshot={project.file(given['snapshot'])}")


def check_command(project: ServedProject, given: Mapping[str, Any]) -> ToolAnswer:
    """The findings on the tools of a server that is started for it."""
    return _checked(project, f"--mcp={shlex.join(given['command'])}")


def _checked(project: ServedProject, source: str) -> ToolAnswer:
    options = project.options("tools check", source)
    rules = rules_of(options)
    (item,) = assess_all(read_sources(options), lists_of(options))
    order = {"error": 0, "warning": 1, "note": 2}
    findings = sorted(item.findings, key=lambda one: order.get(one.level, 3))
    vetoes = [check.document() for check in item.checks if check.outcome == "veto"]
    counts = {level: sum(one.level == level for one in findings) for level in order}
    document = {
        "server": item.schema.schema_id,
        "passed": not counts["error"] and not vetoes,
        "counts": counts,
        "findings": [finding._asdict() for finding in findings],
        "vetoes": vetoes,
        **rules.systems.document(),
    }
    lines = [
        f"{one.level:<7} {one.path}: {one.message} {one.fix} [{one.rule}]"
        for one in findings[:LIMIT]
    ]
    verdict = "passed" if document["passed"] else "not passed"
    head = f"{item.schema.schema_id}: {verdict}; " + ", ".join(
        f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items()
    )
    return ToolAnswer(document, "\n".join(map(printable, [head, *lines])))
