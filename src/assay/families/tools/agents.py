"""The tools of `assay mcp` that check the tools of another server."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from assay.errors import printable
from assay.families.tools.records import LEVELS
from assay.families.tools.verbs import assess_all, legibility_of, lists_of, read_sources, rules_of
from assay.families.tools.views import legibility_lines as lines
from assay.mcp.project import LIMIT, ServedProject, ToolAnswer
from assay.mcp.tools import AgentTool, text_argument
from assay.views.grade_line import passed_word


def check_tools(project: ServedProject, given: Mapping[str, Any]) -> ToolAnswer:
    """The findings on the tools of a server, from a snapshot of its listing."""
    return _checked(project, f"--snapshot={project.file(given['snapshot'])}")


def check_command(project: ServedProject, given: Mapping[str, Any]) -> ToolAnswer:
    """The findings on the tools of a server that is started for it."""
    return _checked(project, f"--mcp={shlex.join(given['command'])}")


def _checked(project: ServedProject, source: str) -> ToolAnswer:
    options = project.options("tools check", source)
    rules, lists = rules_of(options), lists_of(options)
    sources = read_sources(options)
    (item,) = assess_all(sources, lists)
    report = legibility_of([item], sources, options.min_score)
    (score,) = report.schemas
    findings = sorted(item.findings, key=lambda finding: LEVELS.index(finding.level))
    vetoes = [check._asdict() for check in item.checks if check.outcome == "veto"]
    counts = Counter(finding.level for finding in findings)
    below = report.below()
    document = {
        "server": item.schema.schema_id,
        "passed": not counts["error"] and not vetoes and not below,
        "legibility": score.document(),
        "below_minimum": below,
        "counts": {level: counts[level] for level in LEVELS},
        "findings": to_builtins(findings),
        "vetoes": vetoes,
        **rules.systems.document(),
    }
    head = f"{item.schema.schema_id}: {passed_word(document['passed'])}"
    shown = [
        f"{finding.level:<7} {finding.path}: {finding.message} {finding.fix} [{finding.rule}]"
        for finding in findings[:LIMIT]
    ]
    return ToolAnswer(document, "\n".join(map(printable, [head, *lines(score), *shown])))


TOOLS = {
    "check_tools": AgentTool(
        "check_tools",
        "Check the tools of a server",
        "Checks the tools of another MCP server for what makes them hard or dangerous for a model"
        " to use, from a saved listing: a legibility score of 0 to 100 for each tool, and findings"
        " with their fixes. Asks no model.",
        {
            "snapshot": text_argument(
                "Path in the project folder of a JSON file with what the server answered to"
                " tools/list.",
                pattern=r"\.json$",
            )
        },
        ("snapshot",),
        check_tools,
    ),
    "check_running_server": AgentTool(
        "check_running_server",
        "Start a server and check its tools",
        "Starts an MCP server as a child process, lists its tools without calling any, stops it,"
        " and returns the findings that check_tools returns.",
        {
            "command": {
                "type": "array",
                "description": "The program and its arguments, such as python and server.py.",
                "items": {"type": "string", "maxLength": 1000},
                "minItems": 1,
                "maxItems": 50,
            }
        },
        ("command",),
        check_command,
        "commands",
    ),
}
"""These tools, by name."""
