"""The checks of the tools of a FlowMCP schema: what is called, with what, and what comes back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.tools.rules.flowmcp_table import LOCATIONS, MAX_DEPTH, METHODS, MIME_TYPES
from assay.tools.rules.main_block import PLACEHOLDER, placeholders, server_params

if TYPE_CHECKING:
    from assay.tools.rules.rule import Findings
    from assay.tools.source import ToolSchema

_NAME = re.compile(r"[a-z][a-zA-Z0-9]*\Z")
_COLON = re.compile(r"(?<=/):([A-Za-z_]\w*)", re.ASCII)
_PRIMITIVE = re.compile(r"(string|number|boolean|array|object)\(.*\)\Z|enum\((.*)\)\Z", re.DOTALL)
_OPTION = re.compile(r"(min|max|length|optional|default)\(.*\)\Z", re.DOTALL)
_META = {
    "isReadOnly": ("meta-read-only", bool),
    "isConcurrencySafe": ("meta-concurrency", bool),
    "isDestructive": ("meta-destructive", bool),
    "searchHint": ("meta-search-hint", str),
    "aliases": ("meta-aliases", list),
    "alwaysLoad": ("meta-always-load", bool),
}
_JSON_TYPES = ("string", "number", "boolean", "object", "array")
_TYPES_OF = {
    "application/json": ("object", "array"),
    "image/png": ("string",),
    "text/plain": ("string",),
}


class Parameter(NamedTuple):
    """One parameter of a tool, as far as it can be read."""

    path: str
    key: str
    value: str
    location: str
    primitive: str
    options: tuple[str, ...]

    @property
    def given(self) -> bool:
        """Whether the caller gives it."""
        return "{{USER_PARAM}}" in self.value

    @property
    def required(self) -> bool:
        """Whether a call without it is refused."""
        return not any(option.startswith(("optional(", "default(")) for option in self.options)

    @property
    def values(self) -> tuple[str, ...] | None:
        """What an enum allows; None where it is no enum, or where a shared list decides."""
        match = _PRIMITIVE.match(self.primitive)
        if match is None or match[2] is None or "{{" in match[2]:
            return None
        return tuple(value.strip() for value in match[2].split(",") if value.strip())


def parameters_of(tool: dict[str, Any], path: str) -> list[Parameter]:
    """The parameters of a tool that have a key, whatever else is wrong with them."""
    listed = tool.get("parameters")
    known = []
    for index, item in enumerate(listed if isinstance(listed, list) else []):
        position, z = (
            (item.get("position"), item.get("z")) if isinstance(item, dict) else (None, None)
        )
        if isinstance(position, dict) and isinstance(position.get("key"), str):
            z = z if isinstance(z, dict) else {}
            options = z.get("options")
            texts = (
                tuple(option for option in options if isinstance(option, str))
                if isinstance(options, list)
                else ()
            )
            where, value, location = (
                f"{path}.parameters[{index}]",
                str(position.get("value", "")),
                str(position.get("location", "")),
            )
            known.append(
                Parameter(
                    where, position["key"], value, location, str(z.get("primitive", "")), texts
                )
            )
    return known


def check(schema: ToolSchema, name: str, tool: object, path: str, found: Findings) -> None:
    """Check one tool but for its tests."""
    if not _NAME.match(name):
        found.add("tool-name-pattern", path, f"is named {name!r}.")
    if not isinstance(tool, dict):
        found.add("tool-type", path, "is no object.")
        return
    method, route = tool.get("method"), tool.get("path")
    if method not in METHODS:
        found.add(
            "method-unknown",
            f"{path}.method",
            "is missing." if method is None else f"is {method!r}.",
        )
    if not isinstance(route, str) or not route:
        found.add("path-missing", f"{path}.path", "is missing." if not route else "is no text.")
    elif not route.startswith("/"):
        found.add("path-start", f"{path}.path", f"begins with {route[0]!r}.")
    description = tool.get("description")
    if not isinstance(description, str) or not description.strip():
        found.add(
            "tool-description-missing",
            f"{path}.description",
            "is missing." if not description else "is no text.",
        )
    if not isinstance(tool.get("parameters"), list):
        found.add(
            "parameters-missing",
            f"{path}.parameters",
            "is missing." if tool.get("parameters") is None else "is no list.",
        )
    else:
        for index, item in enumerate(tool["parameters"]):
            _check_parameter(schema.main, item, f"{path}.parameters[{index}]", found)
    _check_request(schema, name, tool, path, found)
    _check_meta(schema.main, tool, path, found)
    _check_output(tool, f"{path}.output", found)


def check_server_params(schema: ToolSchema, tools: dict[str, Any], found: Findings) -> None:
    """Check the headers of all tools, and that what users must provide is used."""
    known = server_params(schema.main)
    used: set[str] = set(placeholders(str(schema.main.get("root", ""))))
    named: list[tuple[str, object]] = [("headers", schema.main.get("headers"))]
    for key, group in tools.items():
        for name, tool in group.items():
            if isinstance(tool, dict):
                named.append((f"{key}.{name}.headers", tool.get("headers")))
                used |= set(placeholders(str(tool.get("path", ""))))
                used |= {
                    used_name
                    for parameter in parameters_of(tool, "")
                    for used_name in placeholders(parameter.value)
                }
    for path, headers in named:
        for header, value in headers.items() if isinstance(headers, dict) else ():
            for name in placeholders(str(value)):
                used.add(name)
                if name not in known:
                    found.add(
                        "server-param-undeclared",
                        f"{path}.{header}",
                        f"asks for {{{{{name}}}}}, which `requiredServerParams` does not name.",
                    )
    for name in sorted(known - used) if not schema.handlers else ():
        found.add(
            "server-param-unused", "requiredServerParams", f"names {name}, which nothing uses."
        )


def _check_parameter(main: dict[str, Any], item: object, path: str, found: Findings) -> None:
    position, z = (item.get("position"), item.get("z")) if isinstance(item, dict) else (None, None)
    if not isinstance(position, dict):
        found.add("position-missing", f"{path}.position", "is missing.")
    else:
        if not isinstance(position.get("key"), str) or not position["key"]:
            found.add("key-missing", f"{path}.position.key", "is missing or no text.")
        if not isinstance(position.get("value"), str):
            found.add("value-missing", f"{path}.position.value", "is missing or no text.")
        if position.get("location") not in LOCATIONS:
            found.add(
                "location-unknown",
                f"{path}.position.location",
                (
                    "is missing."
                    if position.get("location") is None
                    else f"is {position['location']!r}."
                ),
            )
        else:
            _check_value(main, position, path, found)
    if not isinstance(z, dict):
        found.add("z-missing", f"{path}.z", "is missing.")
        return
    _check_type(main, z, path, found)


def _check_value(
    main: dict[str, Any], position: dict[str, Any], path: str, found: Findings
) -> None:
    value = position.get("value")
    if not isinstance(value, str):
        return
    for name in PLACEHOLDER.findall(value):
        if name != "USER_PARAM" and name.removeprefix("SERVER_PARAM:") not in server_params(main):
            fix = (
                "Name it in `requiredServerParams`, or write '{{USER_PARAM}}': the key is what the"
                " caller gives."
            )
            found.add(
                "server-param-undeclared",
                f"{path}.position.value",
                f"asks for {{{{{name}}}}}, which nobody fills.",
                fix=fix,
            )


def _check_type(main: dict[str, Any], z: dict[str, Any], path: str, found: Findings) -> None:
    primitive, options = z.get("primitive"), z.get("options")
    if not isinstance(primitive, str) or not primitive:
        found.add("primitive-missing", f"{path}.z.primitive", "is missing or no text.")
    elif (match := _PRIMITIVE.match(primitive)) is None:
        found.add("primitive-unknown", f"{path}.z.primitive", f"is {primitive!r}.")
    elif match[2] is not None and not match[2].strip(" ,"):
        found.add("enum-empty", f"{path}.z.primitive", "names no value: no call can pass.")
    else:
        lists = main.get("sharedLists")
        declared = (
            {entry.get("ref") for entry in lists if isinstance(entry, dict)}
            if isinstance(lists, list)
            else set()
        )
        for name in PLACEHOLDER.findall(primitive):
            if match[2] is None:
                found.add(
                    "list-outside-enum",
                    f"{path}.z.primitive",
                    f"uses {{{{{name}}}}} in {match[1]}().",
                )
            elif name.partition(":")[0] not in declared:
                found.add(
                    "list-undeclared",
                    f"{path}.z.primitive",
                    f"uses the list {name.partition(':')[0]!r}.",
                )
    if options is None:
        return
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        found.add("options-type", f"{path}.z.options", "is not a list of texts.")
        return
    for option in options:
        if not _OPTION.match(option):
            found.add("option-unknown", f"{path}.z.options", f"holds {option.partition('(')[0]!r}.")


def _check_request(
    schema: ToolSchema, name: str, tool: dict[str, Any], path: str, found: Findings
) -> None:
    """Check that every value finds its way into the request, and every gap in the request its
    value.
    """
    route = tool["path"] if isinstance(tool.get("path"), str) else ""
    address = f"{schema.main.get('root', '')}{route}"
    known = parameters_of(tool, path)
    inserts = {parameter.key for parameter in known if parameter.location == "insert"}
    handled = name in schema.handlers
    old_form = False
    for parameter in known:
        if parameter.location == "insert":
            old_form |= (
                colon := f":{parameter.key}" in address
            ) and f"{{{{{parameter.key}}}}}" not in address
            if not colon and parameter.key not in placeholders(address):
                rule = "parameter-left-to-handler" if handled else "insert-without-placeholder"
                found.add(
                    rule, parameter.path, f"{parameter.key!r} has no place in the path {route!r}."
                )
        elif parameter.location == "body" and tool.get("method") not in ("POST", "PUT", None):
            rule = "parameter-left-to-handler" if handled else "body-without-body"
            found.add(
                rule, parameter.path, f"{parameter.key!r} stands in the body of a {tool['method']}."
            )
    if old_form:
        found.add("placeholder-form", f"{path}.path", f"is {route!r}.")
    _check_gaps(schema, route, inserts, path, found, handled=handled)
    seen: dict[str, Parameter] = {}
    for parameter in known:
        first = seen.setdefault(parameter.key, parameter)
        if first is parameter:
            continue
        fixed = {first.location, parameter.location} == {"query"} and not (
            first.given and parameter.given
        )
        found.add(
            "query-key-twice" if fixed else "parameter-twice",
            parameter.path,
            f"{parameter.key!r} stands twice.",
        )


def _check_gaps(
    schema: ToolSchema, route: str, inserts: set[str], path: str, found: Findings, *, handled: bool
) -> None:
    known = server_params(schema.main)
    unfilled = "parameter-left-to-handler" if handled else "placeholder-without-insert"
    for name in placeholders(route):
        if name in known or name in inserts:
            continue
        if name.isupper():
            found.add(
                "server-param-undeclared",
                f"{path}.path",
                f"asks for {{{{{name}}}}}, which nobody fills.",
            )
        else:
            found.add(
                unfilled, f"{path}.path", f"asks for {{{{{name}}}}}, which no parameter fills."
            )
    for name in _COLON.findall(route.partition("?")[0]):
        if not any(name.startswith(key) for key in inserts):
            found.add(unfilled, f"{path}.path", f"asks for :{name}, which no parameter fills.")


def _check_meta(main: dict[str, Any], tool: dict[str, Any], path: str, found: Findings) -> None:
    meta = tool.get("meta") if tool.get("meta") is not None else main.get("meta")
    if not isinstance(meta, dict):
        found.add(
            "meta-missing", f"{path}.meta", "is missing." if meta is None else "is no object."
        )
        return
    for field, (rule, kind) in _META.items():
        value = meta.get(field)
        if (
            not isinstance(value, kind)
            or value == ""
            or (isinstance(value, list) and not all(isinstance(alias, str) for alias in value))
        ):
            found.add(
                rule,
                f"{path}.meta.{field}",
                "is missing." if value is None else "is of another type.",
            )


def _check_output(tool: dict[str, Any], path: str, found: Findings) -> None:
    output = tool.get("output")
    if output is None:
        found.add("output-missing", path, "is missing.")
        return
    if not isinstance(output, dict):
        found.add("output-type", path, "is no object.")
        return
    mime_type, schema = output.get("mimeType"), output.get("schema")
    if mime_type not in MIME_TYPES:
        found.add(
            "mime-type-unknown",
            f"{path}.mimeType",
            "is missing." if mime_type is None else f"is {mime_type!r}.",
        )
    if not isinstance(schema, dict) or schema.get("type") not in _JSON_TYPES:
        what = (
            f"has the type {schema.get('type')!r}."
            if isinstance(schema, dict)
            else "is missing or no object."
        )
        found.add("output-schema-missing", f"{path}.schema", what)
        return
    if mime_type in _TYPES_OF and schema["type"] not in _TYPES_OF[mime_type]:
        found.add(
            "output-type-mismatch", f"{path}.schema.type", f"is {schema['type']!r} for {mime_type}."
        )
    elif mime_type == "image/png" and schema.get("format") != "base64":
        found.add(
            "output-type-mismatch",
            f"{path}.schema.format",
            f"is {schema.get('format')!r} for image/png.",
        )
    stack: list[tuple[dict[str, Any], str, int]] = [(schema, f"{path}.schema", 1)]
    while stack:
        node, where, depth = stack.pop()
        if depth == MAX_DEPTH + 1:
            found.add("output-depth", where, f"is level {depth}.")
        if "properties" in node and node.get("type") not in ("object", None):
            found.add("properties-misplaced", where, f"is {node.get('type')!r} and has properties.")
        if "items" in node and node.get("type") not in ("array", None):
            found.add("items-misplaced", where, f"is {node.get('type')!r} and has items.")
        properties = node.get("properties")
        children = (
            [(child, f"{where}.properties.{key}", depth + 1) for key, child in properties.items()]
            if isinstance(properties, dict)
            else []
        )
        children.append(
            (node.get("items"), f"{where}.items", depth)
        )  # the members of a list are no level of their own
        stack += [
            (child, place, level)
            for child, place, level in reversed(children)
            if isinstance(child, dict)
        ]
