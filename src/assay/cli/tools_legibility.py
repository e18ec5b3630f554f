"""The legibility scores of `assay tools check`: printed, written as pages, and held against
`--min-score`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli import tools_input as inp
from assay.cli.frame import Bounds, Options, arg
from assay.errors import UsageError, count, printable
from assay.files.atomic import write_file
from assay.records.tool_legibility import LegibilityReport, SchemaLegibility
from assay.families.tools.legibility_score import BEST, report_of, scale, score_schema
from assay.views import tool_legibility as view

if TYPE_CHECKING:
    from assay.store.drafts import Draft

FORMATS = (".html", ".md", ".svg")
"""The formats that show the scores."""
MIN_SCORE = arg(
    "--min-score",
    within=Bounds(1, BEST),
    metavar="N",
    type=int,
    help="exit 1 unless every schema and every tool has a legibility score of N or more (1 to 100)",
)
_NAMED = 10


def legibility_of(
    assessed: Sequence[inp.Assessed], sources: inp.Sources, minimum: int | None
) -> LegibilityReport:
    """The score of every schema, and of all together."""
    scores = [
        score_schema(item.schema, item.findings, item.checks)._replace(
            path=inp.shown_source(item.schema.path)
        )
        for item in assessed
    ]
    return report_of(scores, [error.where for error in sources.unread], minimum=minimum)


def check_drafts(
    assessed: Sequence[inp.Assessed], scores: Sequence[SchemaLegibility], *, now: datetime
) -> list[Draft]:
    """What a ledger keeps of a check: one record per schema."""
    from assay.records.tool_check import plain_check  # only where a check is stored
    from assay.store.drafts import draft
    from assay.families.tools.checked import tool_check

    return [
        draft(
            plain_check(
                tool_check(item.schema, score, item.findings, item.checks, file=score.path, now=now)
            ),
            kind="check",
        )
        for item, score in zip(assessed, scores, strict=True)
    ]


def document(report: LegibilityReport) -> dict[str, Any]:
    """All scores, as `-o findings.json` has them."""
    schemas = [
        {"schemaId": schema.subject, "file": schema.path, **schema.document()}
        for schema in report.schemas
    ]
    return {**report.document(), "schemas": schemas}


def refuse_scores(options: Options, outputs: list[str], what: str) -> None:
    """Refuse to score what has no tools."""
    refused = [f"-o {path}" for path in outputs if path.endswith(FORMATS)]
    refused += ["--min-score"] if options.min_score is not None else []
    refused += ["--store"] if options.store is not None else []
    if refused:
        raise UsageError(
            "CLI-001",
            f"{what} has no legibility score.",
            fix=f"Leave out {' and '.join(refused)}.",
        )


def write_scores(outputs: Sequence[str], report: LegibilityReport) -> None:
    """Write the page, the table or the badge to each output file."""
    for path in outputs:
        if path.endswith(".svg"):
            data = view.badge(report)
        else:
            page = view.page(report, scale()) if path.endswith(".html") else view.markdown(report)
            data = page.encode("utf-8", "replace")
        write_file(path, data)


def score_lines(score: SchemaLegibility) -> Iterator[str]:
    """The score of one schema, and the tools that lost most."""
    first, *tools = map(printable, view.lines(score))
    colour = "green" if score.score == BEST else "yellow" if not score.cap_reason else "red"
    yield f"  {opt.paint(first, colour)}"
    yield from (f"  {line}" for line in tools)


def whole_lines(report: LegibilityReport, below: Sequence[str]) -> Iterator[str]:
    """The score of everything, what falls short, and what the score is not."""
    if len(report.schemas) + len(report.unread) > 1:
        unread = f", {len(report.unread):,} unread as 0" if report.unread else ""
        yield f"legibility {report.score}/{BEST} ({count(len(report.schemas), 'schema')}{unread})"
    if below:
        shown = "; ".join(map(printable, below[:_NAMED]))
        more = f"; and {len(below) - _NAMED:,} more" if len(below) > _NAMED else ""
        yield f"below --min-score {report.minimum}: {shown}{more}"
    if report.schemas:
        yield opt.paint("Legibility is not a grade; `assay tools grade` makes grades.", "dim")
