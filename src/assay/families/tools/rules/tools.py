"""The checks of the tools of a FlowMCP schema: what is called, with what, and what comes back."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from assay.families.tools.rules.main_block import (
    LOCATIONS,
    MAX_DEPTH,
    METHODS,
    MIME_TYPES,
    in_braces,
    placeholders,
    server_params,
)
from assay.families.tools.rules.rule import SchemaFindings
from assay.families.tools.source import ToolSchema

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
        """What an enum allows; None if it is not an enum, or if a shared list decides."""
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


def check(schema: ToolSchema, name: str, tool: object, path: str, findings: SchemaFindings) -> None:
    """Check one tool but for its tests."""
    findings.need(_NAME.match(name), "tool-name-pattern", path, f"is named {name!r}.")
    if not isinstance(tool, dict):
        findings.add("tool-type", path, "is not an object.")
        return
    method, route, description = tool.get("method"), tool.get("path"), tool.get("description")
    findings.need(method in METHODS, "method-unknown", f"{path}.method", _is(method))
    if not isinstance(route, str) or not route:
        findings.add("path-missing", f"{path}.path", "is not a string." if route else "is missing.")
    else:
        begins = f"begins with {route[0]!r}."
        findings.need(route.startswith("/"), "path-start", f"{path}.path", begins)
    findings.need(
        isinstance(description, str) and description.strip(),
        "tool-description-missing",
        f"{path}.description",
        "is not a string." if description else "is missing.",
    )
    parameters = tool.get("parameters")
    findings.need(
        isinstance(parameters, list),
        "parameters-missing",
        f"{path}.parameters",
        "is missing." if parameters is None else "is not a list.",
    )
    for index, item in enumerate(parameters if isinstance(parameters, list) else ()):
        _check_parameter(schema.main, item, f"{path}.parameters[{index}]", findings)
    _check_request(schema, name, tool, path, findings)
    _check_meta(schema.main, tool, path, findings)
    _check_output(tool.get("output"), f"{path}.output", findings)


def _is(value: object) -> str:
    return "is missing." if value is None else f"is {value!r}."


def check_server_params(
    schema: ToolSchema, tools: dict[str, Any], findings: SchemaFindings
) -> None:
    """Check the headers of all tools, and that what users must provide is used."""
    known = server_params(schema.main)
    used: set[str] = set(placeholders(str(schema.main.get("root", ""))))
    named: list[tuple[str, object]] = [("headers", schema.main.get("headers"))]
    for key, group in tools.items():
        for name, tool in group.items():
            if isinstance(tool, dict):
                named.append((f"{key}.{name}.headers", tool.get("headers")))
                texts = [str(tool.get("path", "")), *(p.value for p in parameters_of(tool, ""))]
                used.update(name for text in texts for name in placeholders(text))
    for path, headers in named:
        for header, value in headers.items() if isinstance(headers, dict) else ():
            for name in placeholders(str(value)):
                used.add(name)
                findings.need(
                    name in known,
                    "server-param-undeclared",
                    f"{path}.{header}",
                    f"asks for {{{{{name}}}}}, which `requiredServerParams` does not name.",
                )
    for name in sorted(known - used) if not schema.handlers else ():
        message = f"names {name}, which nothing uses."
        findings.add("server-param-unused", "requiredServerParams", message)


def _check_parameter(
    main: dict[str, Any], item: object, path: str, findings: SchemaFindings
) -> None:
    position, z = (item.get("position"), item.get("z")) if isinstance(item, dict) else (None, None)
    where = f"{path}.position"
    if findings.need(isinstance(position, dict), "position-missing", where, "is missing."):
        assert isinstance(position, dict)
        key, value, location = (position.get(name) for name in ("key", "value", "location"))
        lacks = "is missing or not a string."
        findings.need(isinstance(key, str) and key, "key-missing", f"{where}.key", lacks)
        findings.need(isinstance(value, str), "value-missing", f"{where}.value", lacks)
        known = location in LOCATIONS
        findings.need(known, "location-unknown", f"{where}.location", _is(location))
        for name in in_braces(value) if known and isinstance(value, str) else ():
            findings.need(
                name == "USER_PARAM" or name.removeprefix("SERVER_PARAM:") in server_params(main),
                "server-param-undeclared",
                f"{where}.value",
                f"asks for {{{{{name}}}}}, which nothing fills in.",
                fix=(
                    "Name it in `requiredServerParams`, or write '{{USER_PARAM}}': the key is what"
                    " the caller gives."
                ),
            )
    if findings.need(isinstance(z, dict), "z-missing", f"{path}.z", "is missing."):
        assert isinstance(z, dict)
        _check_type(main, z, path, findings)


def _check_type(
    main: dict[str, Any], z: dict[str, Any], path: str, findings: SchemaFindings
) -> None:
    primitive, options, where = z.get("primitive"), z.get("options"), f"{path}.z.primitive"
    if not isinstance(primitive, str) or not primitive:
        findings.add("primitive-missing", where, "is missing or not a string.")
    elif (match := _PRIMITIVE.match(primitive)) is None:
        findings.add("primitive-unknown", where, f"is {primitive!r}.")
    elif match[2] is not None and not match[2].strip(" ,"):
        findings.add("enum-empty", where, "names no value: no call can pass.")
    else:
        lists = main.get("sharedLists")
        declared = {
            entry.get("ref")
            for entry in (lists if isinstance(lists, list) else ())
            if isinstance(entry, dict)
        }
        for name in in_braces(primitive):
            shared = name.partition(":")[0]
            if match[2] is None:
                message = f"uses {{{{{name}}}}} in {match[1]}()."
                findings.add("list-outside-enum", where, message)
            else:
                message = f"uses the list {shared!r}."
                findings.need(shared in declared, "list-undeclared", where, message)
    where = f"{path}.z.options"
    if options is None:
        return
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        findings.add("options-type", where, "is not a list of strings.")
        return
    for option in options:
        message = f"holds {option.partition('(')[0]!r}."
        findings.need(_OPTION.match(option), "option-unknown", where, message)


def _check_request(
    schema: ToolSchema, name: str, tool: dict[str, Any], path: str, findings: SchemaFindings
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
                findings.add(
                    rule, parameter.path, f"{parameter.key!r} has no place in the path {route!r}."
                )
        elif parameter.location == "body" and tool.get("method") not in ("POST", "PUT", None):
            rule = "parameter-left-to-handler" if handled else "body-without-body"
            findings.add(
                rule, parameter.path, f"{parameter.key!r} is in the body of a {tool['method']}."
            )
    if old_form:
        findings.add("placeholder-form", f"{path}.path", f"is {route!r}.")
    _check_gaps(schema, route, inserts, path, findings, handled=handled)
    seen: dict[str, Parameter] = {}
    for parameter in known:
        first = seen.setdefault(parameter.key, parameter)
        if first is parameter:
            continue
        fixed = {first.location, parameter.location} == {"query"} and not (
            first.given and parameter.given
        )
        findings.add(
            "query-key-twice" if fixed else "parameter-twice",
            parameter.path,
            f"{parameter.key!r} appears twice.",
        )


def _check_gaps(
    schema: ToolSchema,
    route: str,
    inserts: set[str],
    path: str,
    findings: SchemaFindings,
    *,
    handled: bool,
) -> None:
    known = server_params(schema.main)
    unfilled = "parameter-left-to-handler" if handled else "placeholder-without-insert"
    for name in placeholders(route):
        if name in known or name in inserts:
            continue
        if name.isupper():
            findings.add(
                "server-param-undeclared",
                f"{path}.path",
                f"asks for {{{{{name}}}}}, which nothing fills in.",
            )
        else:
            findings.add(
                unfilled, f"{path}.path", f"asks for {{{{{name}}}}}, which no parameter fills in."
            )
    for name in _COLON.findall(route.partition("?")[0]):
        if not any(name.startswith(key) for key in inserts):
            findings.add(
                unfilled, f"{path}.path", f"asks for :{name}, which no parameter fills in."
            )


def _check_meta(
    main: dict[str, Any], tool: dict[str, Any], path: str, findings: SchemaFindings
) -> None:
    meta = tool.get("meta") if tool.get("meta") is not None else main.get("meta")
    if not isinstance(meta, dict):
        message = "is missing." if meta is None else "is not an object."
        findings.add("meta-missing", f"{path}.meta", message)
        return
    for field, (rule, kind) in _META.items():
        value = meta.get(field)
        findings.need(
            isinstance(value, kind)
            and value != ""
            and (not isinstance(value, list) or all(isinstance(alias, str) for alias in value)),
            rule,
            f"{path}.meta.{field}",
            "is missing." if value is None else "is of another type.",
        )


def _check_output(output: object, path: str, findings: SchemaFindings) -> None:
    if not isinstance(output, dict):
        missing = output is None
        findings.add(
            "output-missing" if missing else "output-type",
            path,
            "is missing." if missing else "is not an object.",
        )
        return
    mime_type, schema = output.get("mimeType"), output.get("schema")
    findings.need(mime_type in MIME_TYPES, "mime-type-unknown", f"{path}.mimeType", _is(mime_type))
    if not isinstance(schema, dict) or schema.get("type") not in _JSON_TYPES:
        what = "is missing or not an object."
        if isinstance(schema, dict):
            what = f"has the type {schema.get('type')!r}."
        findings.add("output-schema-missing", f"{path}.schema", what)
        return
    if mime_type in _TYPES_OF and schema["type"] not in _TYPES_OF[mime_type]:
        message = f"is {schema['type']!r} for {mime_type}."
        findings.add("output-type-mismatch", f"{path}.schema.type", message)
    elif mime_type == "image/png":
        form = schema.get("format")
        message = f"is {form!r} for image/png."
        findings.need(form == "base64", "output-type-mismatch", f"{path}.schema.format", message)
    stack: list[tuple[dict[str, Any], str, int]] = [(schema, f"{path}.schema", 1)]
    while stack:
        node, where, depth = stack.pop()
        kind, properties = node.get("type"), node.get("properties")
        findings.need(depth != MAX_DEPTH + 1, "output-depth", where, f"is level {depth}.")
        for key, holder, rule in _HOLDERS:
            findings.need(
                key not in node or kind in (holder, None),
                rule,
                where,
                f"is {kind!r} and has {key}.",
            )
        inner = properties if isinstance(properties, dict) else {}
        children = [
            *((child, f"{where}.properties.{key}", depth + 1) for key, child in inner.items()),
            # the members of a list don't add a level
            (node.get("items"), f"{where}.items", depth),
        ]
        stack += [child for child in reversed(children) if isinstance(child[0], dict)]


_HOLDERS = (
    ("properties", "object", "properties-misplaced"),
    ("items", "array", "items-misplaced"),
)
"""What a schema may have only where its type holds it."""
