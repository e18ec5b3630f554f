"""Legibility scores as blocks: one page, a Markdown table, lines for a terminal, and a badge.

No letter is ever shown: the score is not the grade of the scoring protocol, and every form states
that. Tools and findings are untrusted text. Pages are bounded; the worst comes first.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.errors import count
from assay.records.tool_finding import LEVELS
from assay.records.tool_legibility import (
    SYSTEM,
    LegibilityReport,
    RuleCost,
    SchemaLegibility,
    ToolLegibility,
)
from assay.views.blocks import (
    Column,
    Details,
    Facts,
    Paragraph,
    Part,
    Section,
    Sentences,
    Table,
    section,
    stated,
)
from assay.views.markdown import ROWS as MARKDOWN_ROWS
from assay.views.markdown import view
from assay.views.pieces import absent, clip, code, link, number, verdict
from assay.views.tool_findings import finding_table

NOT_A_GRADE = (
    "A legibility score from fixed rules, not a grade: it shows whether a model can read and call"
    " the tools, not whether they work."
)
MAX_ROWS = 1000
"""Tools, and findings, on a page; schemas share them."""
LEAST_ROWS = 10
"""Of each schema, however many there are."""
MAX_SCHEMAS = 100
MAX_UNREAD = 20
MAX_BELOW = 20
LOWEST = 5
_TOOLS = (
    Column("Tool"),
    Column("Score", "n"),
    Column("Tokens", "n"),
    Column("Points lost to", "wide"),
)


def page(report: LegibilityReport, scale: Sequence[tuple[str, str]]) -> str:
    """A self-contained page. `scale` lists what each fault costs."""
    from assay.views.render import report as standalone

    subjects = [schema.subject for schema in report.schemas]
    heading = f"Tool legibility: {clip(subjects[0], 120)}" if len(subjects) == 1 else ""
    schemas = _worst_first(report)
    shown = schemas[:MAX_SCHEMAS]
    most = max(LEAST_ROWS, MAX_ROWS // max(1, len(shown)))
    return standalone(
        "Assay tool legibility",
        *_head(report),
        *(_schemas(schemas, MAX_SCHEMAS, linked=True) if len(schemas) > 1 else []),
        *(_schema(schema, place, most) for place, schema in enumerate(shown)),
        section(
            "How the score is calculated",
            Table("Points lost per fault", ("What", Column("Effect", "wide")), scale),
            id="scale",
        ),
        heading=heading or "Tool legibility",
    )


def markdown(report: LegibilityReport) -> str:
    """The verdict and a table of tools, the lowest score first."""
    scored = [(schema, tool) for schema in report.schemas for tool in schema.tools]
    scored.sort(key=lambda pair: (pair[1].score, pair[0].subject, pair[1].name))
    several = len(report.schemas) > 1
    named = [Column("Schema")] if several else []
    rows = [[*([schema.subject] if several else []), *_tool_row(tool)] for schema, tool in scored]
    parts: list[Part] = [*_head(report)]
    if several:
        parts += _schemas(_worst_first(report), MARKDOWN_ROWS)
    parts.append(Table("Tools", [*named, *_TOOLS], rows[:MARKDOWN_ROWS]))
    parts += _more(len(rows) - MARKDOWN_ROWS, "tool")
    findings = [(finding, schema) for schema in report.schemas for finding in schema.findings]
    findings.sort(key=lambda pair: LEVELS.index(pair[0].level))
    if findings:
        table = finding_table("Findings", [finding for finding, _ in findings[:MARKDOWN_ROWS]])
        subjects = [[schema.subject] if several else [] for _, schema in findings]
        rows = [[*subject, *row] for subject, row in zip(subjects, table.rows, strict=False)]
        parts.append(Table("Findings", [*named, *table.heads], rows))
        parts += _more(len(findings) - MARKDOWN_ROWS, "finding")
    return view("tool legibility", parts)


def lines(schema: SchemaLegibility) -> list[str]:
    """The score of one schema for a terminal: the number, and the tools that lost points."""
    low = sorted(
        (tool for tool in schema.tools if tool.score < 100),
        key=lambda tool: (tool.score, tool.name),
    )
    made = [f"legibility {schema.score}/100 ({_summary(schema)})"]
    made += [f"{tool.score:>5}  {tool.name}: {_lost(tool)}" for tool in low[:LOWEST]]
    if len(low) > LOWEST:
        made.append(f"       … and {count(len(low) - LOWEST, 'more tool')} below 100")
    return made


def badge(report: LegibilityReport) -> bytes:
    """An SVG of one line: the word, and the score of all that was checked."""
    from assay.views.render import html

    score = report.score
    fill = "#1a7f37" if score >= 80 else "#9a6700" if score >= 50 else "#b42318"
    text = html("badge.svg", label="tool legibility", value=f"{score}/100", fill=fill)
    return text.encode()


def _summary(schema: SchemaLegibility) -> str:
    lowest = schema.lowest
    parts = (
        count(len(schema.tools), "tool"),
        "" if lowest is None else f"mean {schema.mean}; lowest {lowest.score}",
        schema.cap_reason,
        f"overall {_costs(schema.costs)}" if schema.costs else "",
    )
    return "; ".join(filter(None, parts))


def _costs(costs: Sequence[RuleCost]) -> str:
    return ", ".join(
        f"{cost.rule} −{cost.points}" + (f" ({cost.findings:,}×)" if cost.findings > 1 else "")
        for cost in costs
    )


def _lost(tool: ToolLegibility) -> str:
    if tool.unassessed:
        return f"not assessed: {tool.unassessed}"
    return _costs(tool.costs) or "nothing"


def _head(report: LegibilityReport) -> list[Part]:
    tools = [tool for schema in report.schemas for tool in schema.tools]
    below = report.below()
    reached = verdict("fails", "no") if below else verdict("holds", "yes")
    least = None if report.minimum is None else number(report.minimum, digits=0)
    facts = stated(
        ("Legibility", number(report.score, digits=0, unit="of 100")),
        ("Tools", number(len(tools), digits=0)),
        (
            "Lowest tool",
            number(min(tool.score for tool in tools), digits=0) if tools else absent("no tools"),
        ),
        ("Tokens in context", number(sum(tool.tokens for tool in tools), digits=0)),
        ("System", code(SYSTEM)),
        ("Minimum", least or ""),
        ("Minimum reached", reached if least else ""),
    )
    many = f"{count(len(report.unread), 'file')} could not be read and count as 0:"
    return [
        Paragraph(absent(NOT_A_GRADE), "lead"),
        Facts(facts, "figures"),
        *_first(many, [clip(path) for path in report.unread], MAX_UNREAD, "file"),
        *_first(
            f"Below the minimum of {report.minimum}:",
            [clip(text, 120) for text in below],
            MAX_BELOW,
            "item",
        ),
    ]


def _first(title: str, texts: Sequence[str], most: int, noun: str) -> list[Part]:
    """The first of some texts under a title; nothing if there are none."""
    if not texts:
        return []
    head = Paragraph(absent(title), "verdict")
    return [head, Sentences(texts[:most]), *_more(len(texts) - most, noun)]


def _worst_first(report: LegibilityReport) -> list[SchemaLegibility]:
    return sorted(report.schemas, key=lambda schema: (schema.score, schema.subject))


def _schemas(schemas: Sequence[SchemaLegibility], most: int, *, linked: bool = False) -> list[Part]:
    heads = (Column("Schema"), Column("Score", "n"), Column("Tools", "n"), Column("Limited by"))
    rows = []
    for place, schema in enumerate(schemas[:most]):
        name = clip(schema.subject, 120)
        rows.append(
            [
                link(name, f"#schema-{place}") if linked else name,
                number(schema.score, digits=0),
                number(len(schema.tools), digits=0),
                schema.cap_reason or absent("nothing"),
            ]
        )
    return [Table("Schemas", heads, rows), *_more(len(schemas) - most, "schema")]


def _schema(schema: SchemaLegibility, place: int, most: int) -> Section:
    tools = sorted(schema.tools, key=lambda tool: (tool.score, tool.name))
    findings = schema.findings
    facts = [
        ("Score", number(schema.score, digits=0, unit="of 100")),
        ("Mean of its tools", number(schema.mean, digits=0)),
        ("Limited by", schema.cap_reason or absent("nothing")),
        ("Points lost by the schema", _costs(schema.costs) or absent("none")),
        ("Source", clip(schema.path)),
    ]
    parts: list[Part] = [
        Facts(facts),
        Table(
            f"Tools: {schema.subject}",
            _TOOLS,
            [_tool_row(tool) for tool in tools[:most]],
            absent="It has no tools.",
            kind="stack",
        ),
        *_more(len(tools) - most, "tool"),
    ]
    if findings:
        table = finding_table(f"Findings: {schema.subject}", findings, most=most)
        inside = [table, *_more(len(findings) - most, "finding")]
        parts.append(Details(count(len(findings), "finding"), inside, opened=len(findings) <= 50))
    return section(clip(schema.subject, 120), *parts, id=f"schema-{place}")


def _more(left: int, noun: str) -> list[Part]:
    text = f"… and {count(left, f'more {noun}')}: -o findings.json has all of them."
    return [Paragraph(absent(text), "hint")] if left > 0 else []


def _tool_row(tool: ToolLegibility) -> list[str]:
    return [
        clip(tool.name, 120),
        number(tool.score, digits=0),
        number(tool.tokens, digits=0),
        _lost(tool) if tool.costs or tool.unassessed else absent("nothing"),
    ]
