"""The part of the demo with tool schemas, graded from recorded scores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from assay.cli import options as opt
from assay.cli.demo import EXAMPLES, DemoPart
from assay.errors import InputError, count
from assay.families.tools.checks import ModuleLists, run_checks, veto_of
from assay.families.tools.ecma import document_bytes, hash8
from assay.families.tools.legibility import assess
from assay.families.tools.names import slug
from assay.families.tools.policy import SchemaRules
from assay.families.tools.protocol import check_scores
from assay.families.tools.reading import read_schema
from assay.families.tools.report import report_document, shown_text_of
from assay.files.json_files import read_json
from assay.installing import install_hint
from assay.library.shelf import Shelf


def part(_folder: str) -> DemoPart:
    """The bundled tool schemas."""
    tools = graded_tools()
    files = {"tool-reports.json": document_bytes({"reports": tools})} if tools else {}
    return DemoPart(10, {"tools": tools}, _tool_lines(tools), files)


def graded_tools() -> list[dict[str, Any]]:
    """The bundled tool schemas and MCP snapshot, graded from recorded scores; nothing if the engine
    that reads modules is not installed.
    """
    rules = SchemaRules(Shelf().policy_of("flowmcp", "flowmcp"))
    scores = read_json(os.path.join(EXAMPLES, "tools", "scores.json")).tree
    moment = datetime(2026, 11, 1, 10, 0, tzinfo=UTC)
    graded = []
    for name in ("harbours.mjs", "alarms.mjs", "ferries.json"):
        try:
            schema = read_schema(os.path.join(EXAMPLES, "tools", name))
        except InputError as error:
            if error.code != "FMC-006":
                raise
            return []
        findings, checks = assess(schema), run_checks(schema, lists=ModuleLists({}))
        given = check_scores(scores[slug(schema.schema_id)], expected_slug=slug(schema.schema_id))
        report = report_document(
            schema,
            given,
            findings,
            rules,
            now=moment,
            started_at=None,
            hash8=hash8(schema.main),
            veto=veto_of(checks, now=moment),
            checks=[check._asdict() for check in checks],
        )
        graded.append({**report, "schemaPath": f"examples/tools/{name}"})
    return graded


def _tool_lines(tools: list[dict[str, Any]]) -> Iterator[str]:
    yield opt.paint(
        "\nTool schemas: can a model use these tools? (a model's recorded scores, and"
        " Assay's own checks)",
        "bold",
    )
    if not tools:
        yield f"  The engine that reads schema modules is not installed: {install_hint('flowmcp')}"
    for report in tools:
        good = report["grade"] in ("A", "B")
        raw = f" (raw {report['rawGrade']})" if report["rawGrade"] != report["grade"] else ""
        head = (
            f"  {report['grade']}{raw}  {shown_text_of(report['score'])}  {report['schemaId']}:"
            f" {report['reason']}"
        )
        yield opt.paint(head, "green" if good else "red")
        for check in report["checks"]:
            if check["outcome"] == "veto":
                yield f"       {check['reason']}."
        listed = [
            *report["validationErrors"],
            *(
                f"{item['rule']} {item['path']}: {item['message']} {item['fix']}"
                for item in report["findings"]
                if item["level"] == "warning"
            ),
        ]
        yield from (f"       {text}" for text in listed[:4])
        if len(listed) > 4:
            yield f"       ... and {count(len(listed) - 4, 'more finding')}"
    if tools:
        yield (
            f"  policy {tools[0]['policy']} · {tools[0]['scoringSystem']} ·"
            f" {tools[0]['gradingSystem']} (of this family)"
        )
