"""The legibility score: 0 to 100 for each tool and for its schema or server, from findings alone.

A tool starts at 100. Each finding takes points off by its level; one rule takes at most
`MOST_PER_RULE`, unless it is an error. A schema has the mean of its tools, rounded down, less what
its own findings cost. Some things can't be outweighed: with an error the score is at most
`ERROR_CAP`, with a veto it is 0, without tools it is 0.

More findings never mean a higher score, and every number is an integer. The score has no letter: it
is not the grade of the scoring protocol, and no gate of that protocol reads it. What is found:
`validation` and `legibility`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from assay.families.tools import legibility
from assay.families.tools.checks import VetoCheck
from assay.families.tools.legibility import ALL_RULES, tool_paths
from assay.families.tools.records import (
    LegibilityReport,
    RuleCost,
    SchemaFinding,
    SchemaLegibility,
    ToolLegibility,
)
from assay.families.tools.source import ToolSchema
from assay.families.tools.veto import VETO

BEST = 100
ERROR_CAP = 40
"""A tool with an error can't be called correctly, or must not be read."""
MOST_PER_RULE = 40
"""What one rule takes off a tool, however often it is broken: 50 undocumented parameters are one
flaw. An error has no such limit.
"""
READ_BY_MODELS = {"error": BEST - ERROR_CAP, "warning": 10, "note": 3}
"""What a finding costs by its level, where the rule is about what a model reads."""
OF_THE_FORMAT = {"error": BEST - ERROR_CAP, "warning": 4, "note": 1}
"""The same where the rule is about the FlowMCP format."""
SPECIAL = {"description-vague": 25}
"""Rules with a special cost: a model chooses a tool by its description."""


def rule_cost(rule: str) -> int:
    """What one finding of a rule costs.

    >>> (
    ...     rule_cost("description-vague"),
    ...     rule_cost("parameter-undocumented"),
    ...     rule_cost("docs-missing"),
    ... )
    (25, 10, 4)
    """
    table = READ_BY_MODELS if rule in legibility.RULES else OF_THE_FORMAT
    return SPECIAL.get(rule, table[ALL_RULES[rule].level])


def scale() -> list[tuple[str, str]]:
    """What costs how much, in words: rows of a table."""
    special = [f"`{rule}` takes {points}" for rule, points in SPECIAL.items()]

    def levels(table: dict[str, int]) -> str:
        return ", ".join(
            f"a {level} {points}" for level, points in table.items() if level != "error"
        )

    return [
        ("A tool", f"starts at {BEST} and loses points for each finding"),
        ("An error", f"takes {READ_BY_MODELS['error']}"),
        ("Rules on what a model reads", f"{levels(READ_BY_MODELS)}; {'; '.join(special)}"),
        ("Rules of the FlowMCP format", levels(OF_THE_FORMAT)),
        ("One rule", f"takes at most {MOST_PER_RULE} from a tool, unless it is an error"),
        ("A tool that can't be assessed", "scores 0"),
        (
            "A schema or server",
            "scores the mean of its tools, rounded down, less what its own findings cost",
        ),
        ("With any error", f"a schema or server scores at most {ERROR_CAP}"),
        ("With a veto, or without tools", "it scores 0"),
        ("Several schemas", "score their mean, but no more than the lowest limit of any of them"),
        ("A file that can't be read", "counts as a schema that scores 0"),
    ]


def score_schema(
    schema: ToolSchema, findings: Sequence[SchemaFinding], checks: Iterable[VetoCheck] = ()
) -> SchemaLegibility:
    """The score of a schema or server from its findings and its veto checks."""
    paths = tool_paths(schema)
    owned: dict[str, list[SchemaFinding]] = defaultdict(list)
    own: list[SchemaFinding] = []
    longest = max(map(len, paths), default=0)
    for finding in findings:
        owners = [paths[prefix] for prefix in _prefixes(finding.path, longest) if prefix in paths]
        for name in owners:
            owned[name].append(finding)
        if not owners:
            own.append(finding)
    tokens = legibility.token_cost(schema)["tools"]
    tools = tuple(
        _tool(name, owned[name], tokens.get(name), "" if name in tokens else "it is not an object")
        for name in dict.fromkeys(paths.values())
    )
    costs = costs_of(own)
    mean = sum(tool.score for tool in tools) // len(tools) if tools else 0
    cap, reason = _cap(findings, checks, tools)
    points = sum(cost.points for cost in costs)
    return SchemaLegibility(
        schema.schema_id,
        schema.path,
        max(0, min(cap, mean - points)),
        mean,
        tools,
        costs,
        cap,
        reason,
        tuple(findings),
    )


def report_of(
    schemas: Sequence[SchemaLegibility], unread: Sequence[str] = (), *, minimum: int | None = None
) -> LegibilityReport:
    """All schemas of one check. Their score is the mean, rounded down, where a file that can't be
    read counts as 0; it is never above the cap of any schema in it.

    >>> report_of([]).score
    0
    """
    scores = [schema.score for schema in schemas] + [0] * len(unread)
    cap = min((schema.cap for schema in schemas), default=0)
    mean = sum(scores) // len(scores) if scores else 0
    return LegibilityReport(tuple(schemas), tuple(unread), min(mean, cap), minimum)


def costs_of(findings: Iterable[SchemaFinding]) -> tuple[RuleCost, ...]:
    """What findings cost, rule by rule, most expensive first."""
    counted = Counter((finding.rule, finding.level) for finding in findings)
    costs = []
    for (rule, level), count in counted.items():
        points = rule_cost(rule) * count
        costs.append(
            RuleCost(rule, level, count, points if level == "error" else min(points, MOST_PER_RULE))
        )
    return tuple(sorted(costs, key=lambda cost: (-cost.points, cost.rule)))


def _tool(
    name: str, findings: list[SchemaFinding], tokens: int | None, unassessed: str
) -> ToolLegibility:
    costs = costs_of(findings)
    score = 0 if unassessed else max(0, BEST - sum(cost.points for cost in costs))
    return ToolLegibility(name, score, costs, tokens or 0, unassessed)


def _cap(
    findings: Sequence[SchemaFinding],
    checks: Iterable[VetoCheck],
    tools: Sequence[ToolLegibility],
) -> tuple[int, str]:
    """The most that a schema can score, and why."""
    vetoes = [check for check in checks if check.outcome == VETO]
    errors = sum(finding.level == "error" for finding in findings)
    if vetoes:
        return 0, f"a veto ({vetoes[0].id}) makes it 0"
    if not tools:
        return 0, "it has no tools to score"
    if errors or any(tool.unassessed for tool in tools):
        what = f"{errors:,} error{'s' if errors != 1 else ''}" if errors else "an unassessed tool"
        return ERROR_CAP, f"{what}, so at most {ERROR_CAP}"
    return BEST, ""


_STEP = re.compile(r"[.\[]")


def _prefixes(path: str, longest: int) -> Iterator[str]:
    """A path and every path above it, up to a length: a hostile path may have any depth.

    Names of tools may hold dots, so one path can lie below two tools. Both pay: otherwise the name
    of one tool could take the costs off another.

    >>> list(_prefixes("tools[0].inputSchema", 8))
    ['tools', 'tools[0]']
    """
    for match in _STEP.finditer(path):
        if match.start() > longest:
            return
        yield path[: match.start()]
    if len(path) <= longest:
        yield path
