"""One checked schema or server: its legibility score, its tools, and what was found about it as a
whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.records.tool_check import ToolCheck, below, own_findings
from assay.views.blocks import Column, Facts, Note, Paragraph, Part, Table, parts_of, section
from assay.views.pieces import (
    absent,
    address,
    clip,
    link,
    moment,
    number,
    phrase,
    shown,
    verdict,
    words,
)
from assay.views.tool_findings import finding_table
from assay.views.tool_legibility import NOT_A_GRADE
from assay.views.tool_page import MAX_HISTORY, StoredCheck, check_record, legibility
from assay.views.tool_rows import ToolRow, counted

_TOOLS = (
    Column("Tool"),
    Column("Legibility", "n"),
    Column("Findings"),
    Column("Tokens", "n"),
    Column("Description", "wide"),
)


def check_parts(
    stored: StoredCheck,
    *,
    past: Sequence[StoredCheck],
    newer: bool = False,
    scale: Sequence[tuple[str, str]] = (),
    namespace: str = "",
) -> list[Part]:
    """The page of one checked schema or server. `namespace` is the address of its gradings."""
    check = stored.check
    tools = sorted(check.tools, key=lambda tool: (tool.score, tool.name))
    here = address("schemas", check.schema_id)
    rows = []
    for tool in tools:
        row = ToolRow(check.namespace, check.base, tool.name)
        findings = [finding for finding in check.findings if below(finding.path, tool.path)]
        rows.append(
            [
                link(clip(tool.name, 120), row.href),
                legibility(tool),
                counted(findings),
                number(tool.tokens, digits=0),
                clip(tool.description, 200, absent_as="no description"),
            ]
        )
    vetoes = [check for check in check.checks if check.outcome == "veto"]
    older = Note(phrase("This is an older check; ", link("the newest is here", here), "."))
    protocol = phrase("How it is graded by the protocol: ", link("its namespace", namespace), ".")
    return parts_of(
        older if newer else None,
        *(Note(f"Veto {veto.id}: {veto.reason}", "bad") for veto in vetoes),
        Facts(
            [
                ("Legibility", number(check.score, digits=0, unit="of 100")),
                ("Mean of its tools", number(check.mean, digits=0)),
                ("Limited by", check.cap_reason or absent("nothing")),
                ("Tools", f"{len(check.tools):,}"),
                ("Findings", counted(check.findings)),
                ("Checked", moment(check.checked_at)),
            ],
            "figures",
        ),
        Paragraph(absent(NOT_A_GRADE), "hint"),
        Paragraph(check.description, "prose") if check.description else None,
        section(
            "Tools",
            Table(
                "Tools, the lowest score first",
                _TOOLS,
                rows,
                absent="It has no tools.",
                kind="stack runs",
            ),
            id="tools",
        ),
        section(
            "Findings about the schema as a whole",
            finding_table("Findings about the schema", own_findings(check), check.costs),
            id="findings",
        ),
        section("Veto checks", _veto_table(check), id="vetoes"),
        section("Checks over time", _history(past), id="checks"),
        Paragraph(protocol) if namespace else None,
        check_record(stored, scale),
    )


def _veto_table(check: ToolCheck) -> Table:
    outcomes = {"clean": verdict("passed", "clean"), "veto": verdict("fails", "veto")}
    return Table(
        "Checks for a veto",
        ("Check", "Outcome", Column("Why", "wide")),
        [
            [
                words(check.id.replace("-", "_")),
                outcomes.get(check.outcome)
                or verdict(
                    "undetermined" if check.outcome == "undetermined" else "none", check.outcome
                ),
                clip(check.reason, 600),
            ]
            for check in check.checks
        ],
        absent="No check was made.",
        kind="stack",
    )


def _history(past: Sequence[StoredCheck]) -> Table:
    rows = [
        [
            link(moment(checked.check.checked_at), address("schemas", checked.digest)),
            number(checked.check.score, digits=0),
            f"{len(checked.check.tools):,}",
            counted(checked.check.findings),
            shown(checked.check.version, "none"),
        ]
        for checked in past[:MAX_HISTORY]
    ]
    columns = ("Checked", Column("Legibility", "n"), Column("Tools", "n"), "Findings", "Version")
    return Table("Checks over time", columns, rows, kind="stack")
