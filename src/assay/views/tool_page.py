"""One tool: what a model is shown, with each finding next to what it is about; the legibility score
and the grade as the two things they are.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from assay.errors import count
from assay.records.tool_check import (
    CheckedParameter,
    CheckedTool,
    ToolCheck,
    below,
)
from assay.records.tool_entry import GradingEntry
from assay.records.tool_finding import SchemaFinding
from assay.views.blocks import (
    Column,
    Details,
    Empty,
    Facts,
    Paragraph,
    Part,
    Section,
    Sentences,
    Table,
    section,
)
from assay.views.pieces import (
    absent,
    address,
    clip,
    code,
    link,
    moment,
    number,
    phrase,
    sentence,
    short_digest,
    shown,
    small,
    strong,
    verdict,
)
from assay.views.tool_entry import HISTORY, graded, history_row, provenance
from assay.views.tool_findings import cell, finding_table, finding_words
from assay.views.tool_legibility import NOT_A_GRADE
from assay.views.tool_rows import ToolRow, counted

MAX_HISTORY = 20
MAX_ENTRIES = 30


class StoredCheck(NamedTuple):
    """A check in the ledger."""

    check: ToolCheck
    digest: str
    stored: str
    author: str | None = None


def tool_parts(
    row: ToolRow,
    stored: StoredCheck | None,
    *,
    entries: Sequence[tuple[GradingEntry, str]] = (),
    past: Sequence[StoredCheck] = (),
    scale: Sequence[tuple[str, str]] = (),
) -> list[Part]:
    """The page of one tool. `entries` are its gradings, `past` the checks of its schema, the newest
    first; `scale` says what costs what.
    """
    tool = row.tool
    graded = _grading(row, entries, _source(row.check))
    if tool is None or stored is None:
        command = "assay tools check schemas/ --store"
        nothing = Empty("The schema of this tool was never checked here:", command)
        return [_figures(row), nothing, graded]
    placed = {
        place: [finding for finding in row.findings if below(finding.path, place)]
        for place in (_described(tool), *(parameter.path for parameter in tool.parameters))
    }
    return [
        _figures(row),
        Paragraph(absent(NOT_A_GRADE), "hint"),
        _description(tool, placed[_described(tool)]),
        _parameters(tool, placed),
        _rest(row, placed),
        graded,
        _scores(tool, past),
        check_record(stored, scale),
    ]


def _figures(row: ToolRow) -> Facts:
    tool = row.tool
    return Facts(
        [
            ("Legibility", legibility(row.tool)),
            ("Grade by the protocol", letter_of(row)),
            ("Findings", counted(row.findings) if tool else absent("not checked")),
            (
                "Tokens in context",
                number(tool.tokens if tool else None, digits=0, absent_as="not known"),
            ),
            (
                "Belongs to",
                link(clip(row.schema_id, 120), address("schemas", row.schema_id)),
            ),
        ],
        "figures",
    )


def legibility(tool: CheckedTool | None) -> str:
    """The legibility score of a tool; never a letter."""
    if tool is not None and tool.unassessed:
        return phrase(
            number(0, digits=0, unit="of 100"), small(f" not assessed: {tool.unassessed}")
        )
    score = None if tool is None else tool.score
    return number(score, digits=0, unit="of 100", absent_as="not checked")


def letter_of(row: ToolRow) -> str:
    """The grade of a tool by the protocol."""
    if row.node is None:
        return absent("not graded")
    return graded(row.node.grade, row.system, row.node.raw_grade, why=", capped")


# --- what a model is shown


def _described(tool: CheckedTool) -> str:
    return f"{tool.path}.description"


def _description(tool: CheckedTool, findings: Sequence[SchemaFinding]) -> Section:
    hints = ", ".join(f"{key} {'yes' if value else 'no'}" for key, value in tool.hints.items())
    parts: list[Part] = [
        *([Paragraph(strong(tool.title))] if tool.title else []),
        Paragraph(tool.description, "prose")
        if tool.description
        else Paragraph("It has no description.", "absent"),
        *([Paragraph(f"Its hints: {hints}.", "hint")] if hints else []),
        Sentences([finding_words(finding) for finding in findings]),
    ]
    return section("Description", *parts, id="description")


_PARAMETERS = (
    Column("Parameter"),
    Column("Type"),
    Column("Required"),
    Column("Description", "wide"),
    Column("Findings", "wide"),
)


def _parameters(tool: CheckedTool, placed: dict[str, list[SchemaFinding]]) -> Section:
    rows = [
        [
            code(clip(parameter.name, 200)),
            _type(parameter),
            "yes" if parameter.required else "no",
            clip(parameter.description, 1000, absent_as="none"),
            cell(_own(parameter, tool.parameters, placed), absent("none")),
        ]
        for parameter in tool.parameters
    ]
    more = f"{tool.more_parameters:,} more are not shown." if tool.more_parameters else ""
    table = Table(
        "Parameters", _PARAMETERS, rows, absent="It takes no parameters.", kind="stack parameters"
    )
    return section("Parameters", table, id="parameters", hint=more)


def _own(
    parameter: CheckedParameter,
    parameters: Sequence[CheckedParameter],
    placed: dict[str, list[SchemaFinding]],
) -> list[SchemaFinding]:
    """The findings of a parameter without those of the parameters within it."""
    inner = {
        finding
        for other in parameters
        if other.path != parameter.path and below(other.path, parameter.path)
        for finding in placed[other.path]
    }
    return [finding for finding in placed[parameter.path] if finding not in inner]


def _type(parameter: CheckedParameter) -> str:
    kind = clip(parameter.type, 300, absent_as="no type")
    return phrase(kind, small(f", {parameter.limits}")) if parameter.limits else kind


def _rest(row: ToolRow, placed: dict[str, list[SchemaFinding]]) -> Section:
    """The findings that are about neither the description nor a parameter."""
    placed_findings = {finding for findings in placed.values() for finding in findings}
    rest = [finding for finding in row.findings if finding not in placed_findings]
    costs = row.tool.costs if row.tool else []
    lost = [
        phrase(f"{count(cost.points, 'point')} to ", code(cost.rule), small(f" {cost.findings:,}×"))
        for cost in costs
    ]
    title = "Findings about the tool as a whole"
    nothing = Paragraph("Nothing was found, and no points were lost.", "absent")
    return section(
        title if rest else "Points",
        finding_table(title, rest) if rest else None,
        Sentences(lost, "Where the points went") if lost else None,
        None if rest or lost else nothing,
        id="findings",
    )


# --- how it was graded and scored


def _source(check: ToolCheck | None) -> str:
    """The arguments of a command that reads the schema again."""
    file = "schemas/" if check is None or check.file.startswith("(") else check.file
    if file.startswith("stdio://"):
        return f"--mcp {shlex.quote(file.removeprefix('stdio://'))}"
    return f"--mcp-url {shlex.quote(file)}" if "://" in file else shlex.quote(file)


def _grading(row: ToolRow, entries: Sequence[tuple[GradingEntry, str]], source: str) -> Section:
    node = row.node
    if node is None:
        nothing = "It was never graded: judges answer the questions of the scoring protocol."
        command = f"assay tools import {source} --store\nassay tools grade {source} --emit-prompts"
        return section("Grade by the protocol", Empty(nothing, command), id="grade")
    reason = node.blocked_reason.replace("-", " ") if node.blocked_reason else node.reason
    reason = reason or node.note
    return section(
        "Grade by the protocol",
        Paragraph(phrase(verdict(node.status), " ", letter_of(row))),
        *([Paragraph(sentence(reason))] if reason else []),
        Table(
            "Gradings, the newest first",
            HISTORY,
            [history_row(entry, own) for entry, own in entries[:MAX_ENTRIES]],
            absent="No grading of this tool is stored.",
            kind="stack",
        ),
        id="grade",
    )


def _scores(tool: CheckedTool, past: Sequence[StoredCheck]) -> Section:
    rows = []
    for checked in past[:MAX_HISTORY]:
        then = next((other for other in checked.check.tools if other.name == tool.name), None)
        rows.append(
            [
                link(moment(checked.check.checked_at), address("schemas", checked.digest)),
                legibility(then) if then else absent("was not there"),
                shown(checked.check.version, "no version"),
                short_digest(checked.check.source_hash),
            ]
        )
    return section(
        "Checks over time",
        Table(
            "Checks over time",
            ("Checked", Column("Legibility", "n"), "Version", "Source"),
            rows,
            kind="stack",
        ),
        id="checks",
    )


def check_record(stored: StoredCheck, scale: Sequence[tuple[str, str]]) -> Section:
    """Where a check comes from, and how its scores are made."""
    check = stored.check
    facts = [
        ("Source", clip(check.file)),
        ("Hash of the source", short_digest(check.source_hash)),
        ("Kind", "MCP server" if check.kind == "mcp" else "FlowMCP schema"),
        ("Scored by", code(check.system)),
        *provenance(stored.digest, stored.stored, stored.author),
    ]
    table = Table("Points lost per fault", ("What", Column("Effect", "wide")), scale)
    return section(
        "Record",
        *([Details("How the legibility score is calculated", [table])] if scale else []),
        Facts(facts, "small"),
        id="record",
    )
