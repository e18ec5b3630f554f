"""Validating outputs against the JSON Schema that a run carries. How: see `records.contract`, which
evidence of tool calls is checked by too.
"""

from __future__ import annotations

from typing import Any

from assay.files.json_files import parse_json
from assay.records.contract import check
from assay.scoring.gate import GateResult


def contract_fault(schema: dict[str, Any] | bool, outputs: dict[str, Any]) -> GateResult:
    """Whether the outputs keep the schema, and the first places where they do not."""
    return GateResult(*check(schema, outputs))


def parses_as(text: str, kind: Any) -> bool:
    """Whether a text is JSON of that Python type. True is no number."""
    try:
        value = parse_json(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return False
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind)
