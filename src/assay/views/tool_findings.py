"""Findings of tool schemas in words: what is wrong, and the fix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.records.tool_finding import SchemaFinding
from assay.records.tool_legibility import RuleCost
from assay.views.blocks import Column, Table
from assay.views.pieces import clip, code, coded, line, phrase, small, verdict

MAX_ROWS = 500
_SIGNS = {"error": "fails", "warning": "stale", "note": "none"}


def finding_of(stored: Mapping[str, Any]) -> SchemaFinding:
    """A finding of a report, also of another program's."""
    line_number = stored.get("line")
    return SchemaFinding(
        **{key: str(stored.get(key) or "") for key in ("rule", "level", "path", "message", "fix")},
        line=line_number if isinstance(line_number, int) else None,
    )


def level(word: str) -> str:
    """The level of a finding as a verdict."""
    return verdict(_SIGNS.get(word, "fails"), word)


def finding_words(finding: SchemaFinding, *, alone: bool = False) -> str:
    """One finding in a cell or a list: the level, what is wrong, and the fix below it. `alone` says
    that it is not next to what it is about, so that it names it.
    """
    about = finding.path.rpartition(".")[2]
    text = f"{about}: {finding.message}" if alone and about else _sentence(finding.message)
    return phrase(
        level(finding.level),
        " ",
        coded(clip(text, 600)),
        line(small("Fix: ", coded(clip(finding.fix, 600)))),
    )


def cell(findings: Sequence[SchemaFinding], absent_as: str = "") -> str:
    """Findings below each other in a cell."""
    return (
        phrase(*(line(finding_words(finding)) for finding in findings)) if findings else absent_as
    )


def finding_table(
    caption: str,
    findings: Sequence[SchemaFinding],
    costs: Sequence[RuleCost] = (),
    *,
    most: int = MAX_ROWS,
) -> Table:
    """Findings with their fixes, the gravest first."""
    points = {cost.rule: cost.points for cost in costs}
    columns = [
        Column("Where"),
        Column("Level"),
        Column("What is wrong", "wide"),
        Column("Fix", "wide"),
        Column("Rule"),
        *([Column("Points", "n")] if costs else []),
    ]
    rows = [
        [
            _where(finding),
            level(finding.level),
            clip(_sentence(finding.message), 600),
            coded(clip(finding.fix, 600)),
            code(finding.rule),
            *([f"−{points[finding.rule]}" if finding.rule in points else "0"] if costs else []),
        ]
        for finding in findings[:most]
    ]
    return Table(caption, columns, rows, absent="No findings.", kind="stack")


def _where(finding: SchemaFinding) -> str:
    at = f" (line {finding.line})" if finding.line is not None else ""
    return clip(f"{finding.path or 'the whole schema'}{at}", 200)


def _sentence(text: str) -> str:
    """A message as a sentence: it follows a path in other places."""
    return f"{text[:1].upper()}{text[1:]}"
