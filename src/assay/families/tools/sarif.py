"""Findings on tool schemas as SARIF."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.families.tools.records import SchemaFinding, SchemaRule
from assay.views.sarif import (
    FINGERPRINT,
    NO_FILE,
    SCHEMA_URI,
    VERSION,
    checked_level,
    descriptor,
    file_place,
    fingerprint,
    is_file,
    message,
    tool,
)


def sarif(
    findings_by_file: Sequence[tuple[str, Iterable[SchemaFinding]]],
    rules: Mapping[str, SchemaRule],
    *,
    tool_version: str,
    systems: Mapping[str, str],
) -> dict[str, Any]:
    """A SARIF document with one run: a result for each finding, in the order given, and every rule
    that could have been broken.

    A file is named relative to the root of the repository, with `/`; an address or the command of a
    server is not a file. A finding whose rule is not in the table is refused: a reader could not
    look it up. The same findings give the same document. `systems` names the systems they were made
    under.

    >>> sarif([], {}, tool_version="1.0", systems={})["runs"][0]["results"]
    []
    """
    index = {rule: position for position, rule in enumerate(rules)}
    seen: dict[str, int] = {}
    results = []
    for source, findings in findings_by_file:
        for finding in findings:
            if finding.rule not in index:
                raise ValueError(f"no rule is named {finding.rule!r}")
            results.append(_result(source, finding, index[finding.rule], seen))
    run = {
        "tool": tool([_descriptor(name, rule) for name, rule in rules.items()], tool_version),
        "columnKind": "utf16CodeUnits",
        "properties": dict(systems),
        "results": results,
    }
    return {"$schema": SCHEMA_URI, "version": VERSION, "runs": [run]}


def _descriptor(name: str, rule: SchemaRule) -> dict[str, Any]:
    made = descriptor(name, rule.holds, rule.fix, rule.level)
    return {**made, "properties": {"tags": [rule.spec]}} if rule.spec else made


def _result(
    source: str, finding: SchemaFinding, index: int, seen: dict[str, int]
) -> dict[str, Any]:
    place = file_place(source, finding.line) if is_file(source) else file_place(NO_FILE, 1)
    names = [part for part in (source if not is_file(source) else "", finding.path) if part]
    if names:
        place["logicalLocations"] = [
            {"fullyQualifiedName": "#".join(names), "kind": "member" if finding.path else "module"}
        ]
    parts = (f"{finding.path}:" if finding.path else "", finding.message, finding.fix)
    key = fingerprint(source.replace("\\", "/"), finding.rule, finding.path)
    seen[key] = seen.get(key, 0) + 1
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": checked_level(finding.level),
        "message": message(" ".join(filter(None, parts))),
        "locations": [place],
        "partialFingerprints": {FINGERPRINT: f"{key}:{seen[key]}"},
    }
