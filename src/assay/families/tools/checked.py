"""A check of a tool schema as a record: what a model is shown of each tool, in words, with its
score and its findings.

Everything is bounded, because a hostile schema may have any depth and width. Texts that contain a
secret are left out; the finding reports that there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from assay.canon import time_text
from assay.errors import few
from assay.families.tools.checks import VetoCheck
from assay.families.tools.legibility import ShownTool, fields_of, tool_paths, tools_of
from assay.families.tools.records import (
    CheckedParameter,
    CheckedTool,
    SchemaFinding,
    SchemaLegibility,
    ToolCheck,
    VetoOutcome,
)
from assay.families.tools.source import ToolSchema
from assay.secrets import secret_in

MAX_TOOLS = 2000
MAX_PARAMETERS = 200
MAX_FINDINGS = 5000
MAX_DEPTH = 4
MAX_TEXT = 4000
MAX_VALUES = 12
WITHHELD = "(withheld: it contains what looks like a key)"
_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "format": "format {}",
    "pattern": "matches {}",
    "default": "default {}",
}


class _Field(NamedTuple):
    name: str
    path: str
    schema: Mapping[str, Any]
    required: bool
    depth: int


def tool_check(
    schema: ToolSchema,
    score: SchemaLegibility,
    findings: Sequence[SchemaFinding],
    checks: Sequence[VetoCheck],
    *,
    file: str,
    now: datetime,
) -> ToolCheck:
    """The record of a check; `file` is where the schema is, as people write it."""
    shown: dict[str, ShownTool] = {}
    for tool in tools_of(schema):
        shown.setdefault(tool.name, tool)
    paths = {name: path for path, name in reversed(tool_paths(schema).items())}
    main = schema.main
    return ToolCheck(
        schema_id=schema.schema_id,
        namespace=schema.namespace,
        base=schema.base,
        kind=schema.kind,
        file=_text(file),
        source_hash=schema.file_sha256,
        checked_at=time_text(now),
        version=_text(main.get("version")),
        description=_text(main.get("description")),
        score=score.score,
        mean=score.mean,
        cap_reason=score.cap_reason,
        costs=list(score.costs),
        tools=[
            _tool(
                shown.get(tool.name),
                name=tool.name,
                path=paths[tool.name],
                score=tool.score,
                tokens=tool.tokens,
                unassessed=tool.unassessed,
                costs=list(tool.costs),
            )
            for tool in score.tools[:MAX_TOOLS]
        ],
        findings=list(findings[:MAX_FINDINGS]),
        checks=[
            VetoOutcome(id=check.id, outcome=check.outcome, reason=check.reason) for check in checks
        ],
    )


def _tool(tool: ShownTool | None, **scored: Any) -> CheckedTool:
    if tool is None:
        return CheckedTool(**scored)
    parameters = list(islice(_parameters(tool), MAX_PARAMETERS + 1))
    properties = tool.schema.get("properties") if isinstance(tool.schema, dict) else None
    more = max(0, len(properties) - MAX_PARAMETERS) if isinstance(properties, dict) else 0
    return CheckedTool(
        title=_text(tool.shown.get("title") or tool.annotations.get("title")),
        description=_text(tool.description),
        parameters=parameters[:MAX_PARAMETERS],
        more_parameters=max(more, len(parameters) - MAX_PARAMETERS, 0),
        hints={key: value for key, value in tool.annotations.items() if isinstance(value, bool)},
        **scored,
    )


def _parameters(tool: ShownTool) -> Iterator[CheckedParameter]:
    """The parameters in their order, each before those within it."""
    required = _required(tool.schema)
    stack = [
        _Field(name, path, field, name in required, 0) for name, path, field in fields_of(tool)
    ][::-1]
    while stack:
        field = stack.pop()
        schema = field.schema
        yield CheckedParameter(
            name=_text(field.name, 200),
            path=field.path,
            type=_type(schema),
            required=field.required,
            description=_text(schema.get("description") or schema.get("title")),
            limits=_limits(schema),
        )
        if field.depth < MAX_DEPTH:
            stack += reversed(list(_inner(field)))


def _inner(field: _Field) -> Iterator[_Field]:
    schema, path, name = field.schema, field.path, field.name
    items = schema.get("items")
    if isinstance(items, Mapping) and "properties" in items:
        schema, path, name = items, f"{path}.items", f"{name}[]"
    properties = schema.get("properties")
    required = _required(schema)
    for key, inner in islice(
        properties.items() if isinstance(properties, Mapping) else (), MAX_PARAMETERS + 1
    ):
        yield _Field(
            f"{name}.{key}",
            f"{path}.properties.{key}",
            inner if isinstance(inner, Mapping) else {},
            key in required,
            field.depth + 1,
        )


def _required(schema: Any) -> set[str]:
    listed = schema.get("required") if isinstance(schema, Mapping) else None
    return {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()


def _type(schema: Mapping[str, Any], depth: int = 0) -> str:
    """The type of a parameter in words; empty if it has none.

    >>> _type({"type": ["string", "null"]}), _type({"type": "array", "items": {"type": "number"}})
    ('string or null', 'list of number')
    >>> _type({"enum": ["a", "b"]}), _type({"anyOf": [{"type": "string"}, {"type": "number"}]})
    ('one of a, b', 'string or number')
    """
    values = schema.get("enum")
    if isinstance(values, list) and values:
        return f"one of {few([_text(value, 60) for value in values], MAX_VALUES)}"
    if "const" in schema:
        return f"always {_text(schema['const'], 60)}"
    kinds = schema.get("type")
    if kinds == "array" and isinstance(schema.get("items"), Mapping) and depth < MAX_DEPTH:
        inner = _type(schema["items"], depth + 1)
        return f"list of {inner}" if inner else "list"
    if isinstance(kinds, list):
        return " or ".join(_text(kind, 20) for kind in kinds[:MAX_VALUES])
    if isinstance(kinds, str):
        return _text(kinds, 20)
    for key in ("anyOf", "oneOf"):
        parts = schema.get(key)
        if isinstance(parts, list) and depth < MAX_DEPTH:
            inner_types = [
                _type(part, depth + 1) for part in parts[:MAX_VALUES] if isinstance(part, Mapping)
            ]
            return " or ".join(dict.fromkeys(filter(None, inner_types)))
    return _text(schema.get("$ref"), 100)


def _limits(schema: Mapping[str, Any]) -> str:
    """The constraints on a value, as text."""
    return ", ".join(
        phrase.format(_text(schema[key], 100)) for key, phrase in _LIMITS.items() if key in schema
    )


def _text(value: Any, most: int = MAX_TEXT) -> str:
    if value is None or isinstance(value, dict | list):
        return ""
    text = value if isinstance(value, str) else str(value)
    if secret_in(text[:MAX_TEXT]) is not None:
        return WITHHELD
    return text if len(text) <= most else f"{text[:most]}…"
