"""What a model is shown of a tool: its name, what it says about itself, and the schema of its
input. One view for FlowMCP and MCP.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from assay.families.tools import ecma
from assay.families.tools.rules.tools import parameters_of
from assay.families.tools.source import ToolSchema

_DEFAULT = re.compile(r"default\((.*)\)\Z", re.DOTALL)
_TYPES = {
    "string": "string",
    "number": "number",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
    "enum": "string",
}


class ShownTool(NamedTuple):
    """One tool as a model sees it."""

    name: str
    path: str
    description: str
    shown: dict[str, Any]
    """What else of it a client may show: its title, its annotations, the schema of its output."""
    schema: Any
    """The JSON Schema of its input, as it is: it need not be an object."""
    fields: dict[str, str]
    """Where each parameter is in the file."""
    annotations: dict[str, Any]
    """What it says about its effects, in the words of MCP; empty if it says nothing."""
    writes: bool
    """Whether it is called with PUT or DELETE. False if nobody says."""

    def text(self) -> str:
        """The definition as a client puts it before a model, in the spelling of
        `JSON.stringify`.
        """
        shown: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.schema,
        }
        try:
            return ecma.stringify(shown)
        except (
            RecursionError,
            ValueError,
            TypeError,
        ):  # a tree that JSON can't express; `input-schema-invalid` reports it
            return f"{self.name}{self.description}"


def tools_of(schema: ToolSchema) -> list[ShownTool]:
    """The tools of a schema in their order. What is not an object is left out: `validation` reports
    it.
    """
    make = _from_flowmcp if schema.kind == "flowmcp" else _from_mcp
    return [make(name, tool, path) for name, tool, path in _named(schema) if isinstance(tool, dict)]


def tool_paths(schema: ToolSchema) -> dict[str, str]:
    """The name of every tool by its path, also of what is not an object."""
    return {path: name for name, _, path in _named(schema)}


def _named(schema: ToolSchema) -> list[tuple[str, Any, str]]:
    """Every tool of a schema: name, definition, path."""
    key = "tools" if schema.main.get("tools") is not None else "routes"
    group = schema.main.get(key)
    if isinstance(group, dict):
        return [(str(name), tool, f"{key}.{name}") for name, tool in group.items()]
    if isinstance(group, list):
        return [
            (str(tool.get("name", index)) if isinstance(tool, dict) else str(index), tool, path)
            for index, tool in enumerate(group)
            for path in [f"{key}[{index}]"]
        ]
    return []


def _from_mcp(name: str, tool: dict[str, Any], path: str) -> ShownTool:
    schema, annotations = tool.get("inputSchema"), tool.get("annotations")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    fields = (
        {str(key): f"{path}.inputSchema.properties.{key}" for key in properties}
        if isinstance(properties, dict)
        else {}
    )
    return ShownTool(
        name,
        path,
        _text(tool.get("description")),
        {key: tool.get(key) for key in ("title", "annotations", "outputSchema")},
        schema,
        fields,
        annotations if isinstance(annotations, dict) else {},
        writes=False,
    )


def _from_flowmcp(name: str, tool: dict[str, Any], path: str) -> ShownTool:
    """A FlowMCP tool as the server that serves it would show it: the caller's parameters only, with
    the types and values of `z`.
    """
    properties: dict[str, Any] = {}
    required: list[str] = []
    fields: dict[str, str] = {}
    listed = tool.get("parameters")
    raw = (
        {f"{path}.parameters[{index}]": item for index, item in enumerate(listed)}
        if isinstance(listed, list)
        else {}
    )
    for parameter in parameters_of(tool, path):
        if not parameter.given:
            continue
        item = raw[parameter.path]
        z = item["z"] if isinstance(item.get("z"), dict) else {}
        field: dict[str, Any] = {}
        if (kind := _TYPES.get(parameter.primitive.partition("(")[0])) is not None:
            field["type"] = kind
        if kind == "array":
            field["items"] = {"type": "string"}  # the reference reads array() so
        if parameter.values:
            field["enum"] = list(parameter.values)
        if description := _text(item.get("description")) or _text(z.get("description")):
            field["description"] = description
        for option in parameter.options:
            if (default := _DEFAULT.match(option)) is not None:
                field["default"] = default[1]
        properties[parameter.key] = field
        fields[parameter.key] = parameter.path
        if parameter.required:
            required.append(parameter.key)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    meta = tool.get("meta")
    hints = (
        {"readOnlyHint": meta.get("isReadOnly"), "destructiveHint": meta.get("isDestructive")}
        if isinstance(meta, dict)
        else {}
    )
    annotations = {key: value for key, value in hints.items() if isinstance(value, bool)}
    return ShownTool(
        name,
        path,
        _text(tool.get("description")),
        {},
        schema,
        fields,
        annotations,
        writes=tool.get("method") in ("PUT", "DELETE"),
    )


def fields_of(tool: ShownTool) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The parameters of a tool: name, place, schema. One that is not an object is given as an empty
    one.
    """
    properties = tool.schema.get("properties") if isinstance(tool.schema, dict) else None
    for name, field in properties.items() if isinstance(properties, dict) else ():
        yield (
            str(name),
            tool.fields.get(str(name), tool.path),
            field if isinstance(field, dict) else {},
        )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
