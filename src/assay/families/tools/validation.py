"""Deterministic validation of a tool schema: what must hold before a judge is asked.

A schema passes when no finding is an error; warnings do not fail it. The same bytes give the same
findings: nothing here uses the network, the clock or a model. These are the rules of FlowMCP 4;
`legibility` has those of the tools of any server. Nothing here grades: see `aggregate`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec

from assay.families.tools.records import LEVELS, SchemaFinding, SchemaRule
from assay.families.tools.source import ToolSchema
from assay.secrets import secret_in, texts

# --- findings


def rules_of(family: str) -> dict[str, SchemaRule]:
    """The rules of a family by their id, in their order, from `data/rules.json`."""
    path = os.path.join(os.path.dirname(__file__), "data", "rules.json")
    with open(path, "rb") as stream:
        rows = msgspec.json.decode(stream.read())[family]
    return {row["id"]: SchemaRule(**row) for row in rows}


class SchemaFindings:
    """What the checks of one schema found, in the order of the checks."""

    def __init__(
        self, rules: Mapping[str, SchemaRule], *, source: bytes = b"", lines: bool = False
    ) -> None:
        self._rules = rules
        self._text = source.decode("utf-8", "replace") if lines else ""
        self._found: list[SchemaFinding] = []
        self._lines: dict[str, int | None] = {}

    def add(
        self, rule: str, path: str, message: str, *, fix: str = "", line: int | None = None
    ) -> None:
        """Note that a rule is broken at a path. A finding that was already made is not made
        again.
        """
        known = self._rules[rule]
        finding = SchemaFinding(
            rule,
            known.level,
            path,
            message,
            fix or known.fix,
            line if line is not None else self._line(path),
        )
        if (
            finding not in self._found[-200:]
        ):  # a rule may look at one place twice; looking further back would cost the square
            self._found.append(finding)

    def need(self, holds: object, rule: str, path: str, message: str, *, fix: str = "") -> bool:
        """Note that a rule is broken unless it holds; whether it does."""
        if not holds:
            self.add(rule, path, message, fix=fix)
        return bool(holds)

    def all(self) -> list[SchemaFinding]:
        """The findings, the gravest first, each level in the order in which it was found."""
        return sorted(self._found, key=lambda finding: LEVELS.index(finding.level))

    def _line(self, path: str) -> int | None:
        if not self._text or not path:
            return None
        names = re.split(r"[.\[]", path)
        keep = 2 if names[0] in ("tools", "routes", "resources", "headers") else 1
        key = ".".join(names[:keep])
        if key not in self._lines:
            self._lines[key] = _line_of(self._text, names[:keep])
        return self._lines[key]


def _line_of(text: str, names: list[str]) -> int | None:
    """The line on which the last of some nested keys begins. Only a key at the start of a line
    counts, because a wrong line number is worse than none.
    """
    start = 0
    for name in names:
        match = re.compile(rf"""^[ \t]*(["']?){re.escape(name)}\1[ \t]*:""", re.MULTILINE).search(
            text, start
        )
        if match is None:
            return None
        start = match.start()
    return text.count("\n", 0, start) + 1


def shown(value: object) -> str:
    """A value in a sentence, cut where it is long."""
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


RULES = rules_of("flowmcp")
"""Every rule of a FlowMCP schema by its id. An error is what a tool cannot be called without; the
rest of the specification warns.
"""


def validate(schema: ToolSchema) -> list[SchemaFinding]:
    """What breaks the rules of FlowMCP, the gravest first. The tools of an MCP server have no such
    rules: the list is empty.

    Every fault is found at once. A tool that cannot be read is left out of the further checks,
    never out of the findings.
    """
    if schema.kind != "flowmcp":
        return []
    findings = SchemaFindings(RULES, source=schema.source, lines=True)
    groups = _check_main(schema, findings)
    names = set()
    for key, group in groups.items():
        for name, tool in group.items():
            names.add(name)
            path = f"{key}.{name}"
            _check_tool(schema, name, tool, path, findings)
            if isinstance(tool, dict):
                _check_tests(tool, path, findings)
    _check_server_params(schema, groups, findings)
    resources = schema.main.get("resources")
    names |= set(resources) if isinstance(resources, dict) else set()
    for handler in schema.handlers:
        if names and handler not in names:
            findings.add("handler-unknown", "", f"the handler {handler!r} belongs to no tool.")
    return findings.all()


# --- the block `main`

MIME_TYPES = ("application/json", "image/png", "text/plain")
METHODS = ("GET", "POST", "PUT", "DELETE")
LOCATIONS = ("insert", "query", "body")
MAX_TOOLS = 8
MIN_TESTS = 3
MAX_DEPTH = 4
"""How deep the schema of an answer may nest."""
MAX_RESOURCES = 2
_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")

_NAMESPACE = re.compile(r"[a-z][a-z0-9-]*\Z")
_VERSION = re.compile(r"4\.\d+\.\d+\Z", re.ASCII)
_OLD_VERSION = re.compile(r"[23]\.\d+\.\d+\Z", re.ASCII)
_THREE_NUMBERS = re.compile(r"\d+\.\d+\.\d+", re.ASCII)
_NEUTRAL = ("schemaHash", "aboutHash", "selectionHash", "schemaVersion", "selectionVersion")
_LISTS = {
    "docs": "VAL020",
    "tags": "VAL021",
    "requiredServerParams": "VAL022",
    "requiredLibraries": "VAL025",
}
_FIELDS = {
    *(
        "namespace",
        "name",
        "description",
        "version",
        "root",
        "tools",
        "routes",
        "resources",
        "prompts",
        "skills",
        "meta",
        "docs",
        "tags",
        "headers",
    ),
    *(
        "termsOfService",
        "termsOfServiceCheckedAt",
        "termsOfServiceLanguage",
        "dataLicense",
        "dataLicenseName",
    ),
    *("requiredServerParams", "requiredLibraries", "sharedLists"),
    *_NEUTRAL,
}


def server_params(main: dict[str, Any]) -> frozenset[str]:
    """The keys that the runtime fills from its environment."""
    names = main.get("requiredServerParams")
    return (
        frozenset(name for name in names if isinstance(name, str))
        if isinstance(names, list)
        else frozenset()
    )


def in_braces(text: str) -> list[str]:
    """What is between double braces.

    >>> in_braces("/a/{{ id }}?key={{SERVER_PARAM:API_KEY}}")
    ['id', 'SERVER_PARAM:API_KEY']
    """
    return [name.strip() for name in _PLACEHOLDER.findall(text)]


def placeholders(text: str) -> list[str]:
    """The names between double braces, without the mark of a server parameter.

    >>> placeholders("/a/{{id}}?key={{SERVER_PARAM:API_KEY}}")
    ['id', 'API_KEY']
    """
    return [name.removeprefix("SERVER_PARAM:") for name in in_braces(text)]


def _check_main(schema: ToolSchema, findings: SchemaFindings) -> dict[str, Any]:
    """Check everything but the tools; return the tools under their key, empty if there are none to
    look at.
    """
    main = schema.main
    for place in schema.not_data:
        findings.add(
            "not-data", place.path.removeprefix("main."), f"is not plain data: {place.kind}."
        )
    for module in schema.modules:
        if module.source != "requiredLibraries":
            findings.add(
                "module-imported",
                "",
                f"the file asks for {module.name!r} ({module.source}).",
                line=module.line,
            )
    _check_identity(schema, findings)
    tools = _tools_of(main, findings)
    _check_root(schema, tools, findings)
    _check_fields(main, findings)
    _check_lists(main, findings)
    _check_resources(main, findings)
    _check_secrets(main, findings)
    return tools


def _check_identity(schema: ToolSchema, findings: SchemaFindings) -> None:
    main = schema.main
    for field in ("namespace", "name", "description", "version"):
        value = main.get(field)
        if not isinstance(value, str) or not value.strip():
            findings.add(
                f"{field}-missing",
                field,
                (
                    "is missing."
                    if value is None or value == ""
                    else f"is {_kind(value)}, not a string."
                ),
            )
    namespace, version = main.get("namespace"), main.get("version")
    if isinstance(namespace, str) and namespace.strip():
        if not _NAMESPACE.match(namespace):
            findings.add("namespace-pattern", "namespace", f"is {namespace!r}.")
        folders = PurePosixPath(schema.path).parts
        if "providers" in folders[:-2]:
            folder = folders[len(folders) - 1 - folders[::-1].index("providers") + 1]
            if folder != namespace:
                findings.add(
                    "namespace-folder", "namespace", f"is {namespace!r}, the folder is {folder!r}."
                )
    if isinstance(version, str) and version.strip() and not _VERSION.match(version):
        findings.add(
            "version-superseded" if _OLD_VERSION.match(version) else "version-pattern",
            "version",
            f"is {version!r}.",
        )


def _tools_of(main: dict[str, Any], findings: SchemaFindings) -> dict[str, Any]:
    if main.get("tools") is not None and main.get("routes") is not None:
        findings.add("tools-and-routes", "routes", "is next to `tools`.")
    if main.get("skills") is not None:
        findings.add("skills-in-schema", "skills", "is in the schema.")
    key = "tools" if main.get("tools") is not None else "routes"
    tools = main.get(key)
    if key == "routes" and tools is not None:
        findings.add("routes-deprecated", "routes", "contains the tools.")
    resources = main.get("resources")
    if tools is None or tools == {}:
        if not (isinstance(resources, dict) and resources):
            findings.add(
                "tools-missing",
                "tools",
                "is missing." if tools is None else "is empty, and there are no resources.",
            )
        return {}
    if not isinstance(tools, dict):
        findings.add("tools-missing", key, f"is {_kind(tools)}, not an object.")
        return {}
    if len(tools) > MAX_TOOLS:
        findings.add("tool-limit", key, f"there are {len(tools)} tools.")
    return {key: tools}


def _check_root(schema: ToolSchema, tools: dict[str, Any], findings: SchemaFindings) -> None:
    main = schema.main
    root = main.get("root")
    names = [name for group in tools.values() for name in group]
    if not isinstance(root, str) or not root.strip():
        if root is not None and not isinstance(root, str):
            findings.add("root-missing", "root", f"is {_kind(root)}, not a string.")
        elif names and root == "" and all(name in schema.handlers for name in names):
            findings.add("root-empty", "root", "is empty: handlers make every call.")
        elif names:
            findings.add(
                "root-missing",
                "root",
                "is missing." if root is None else "is empty, and not every tool has a handler.",
            )
        return
    if not root.startswith("https://"):
        findings.add(
            "root-pattern",
            "root",
            f"begins with {root.partition('://')[0] + '://' if '://' in root else root[:8]!r}.",
        )
    elif root.endswith("/"):
        findings.add("root-pattern", "root", "ends with a slash.")
    known = server_params(main) | {
        key for group in tools.values() for tool in group.values() for key in _insert_keys(tool)
    }
    for name in placeholders(root):
        if name not in known:
            findings.add(
                "server-param-undeclared",
                "root",
                f"asks for {{{{{name}}}}}, which nothing fills in.",
            )


def _insert_keys(tool: object) -> list[str]:
    parameters = tool.get("parameters") if isinstance(tool, dict) else None
    positions = (
        [item.get("position") for item in parameters if isinstance(item, dict)]
        if isinstance(parameters, list)
        else []
    )
    return [
        str(position.get("key"))
        for position in positions
        if isinstance(position, dict) and position.get("location") == "insert"
    ]


def _check_fields(main: dict[str, Any], findings: SchemaFindings) -> None:
    for field in main:
        if field not in _FIELDS:
            findings.add("field-unknown", field, "is not a field of the specification.")
        elif field in _NEUTRAL:
            findings.add("source-neutral", field, "does not belong in the source.")
    for field, spec in _LISTS.items():
        value = main.get(field, [])
        findings.need(
            value is None
            or (isinstance(value, list) and all(isinstance(item, str) for item in value)),
            "field-type",
            field,
            "is not a list of strings.",
            fix=f"Write it as a list of strings ({spec}).",
        )
    headers, terms = main.get("headers"), main.get("termsOfService")
    findings.need(
        isinstance(headers, dict | None),
        "field-type",
        "headers",
        f"is {_kind(headers)}, not an object.",
        fix="Write it as an object of strings (VAL023).",
    )
    findings.need(main.get("docs"), "docs-missing", "docs", "is missing or empty.")
    findings.need(
        isinstance(terms, str) and re.fullmatch(r"no-tos-found|https?://\S+", terms),
        "terms-missing",
        "termsOfService",
        "is missing." if terms is None else "is neither an address nor 'no-tos-found'.",
    )


def _check_lists(main: dict[str, Any], findings: SchemaFindings) -> None:
    lists = main.get("sharedLists")
    findings.need(
        isinstance(lists, list | None),
        "field-type",
        "sharedLists",
        f"is {_kind(lists)}, not a list.",
        fix="Write it as a list of objects (VAL024).",
    )
    for index, entry in enumerate(lists if isinstance(lists, list) else ()):
        path = f"sharedLists[{index}]"
        message = f"is {_kind(entry)}, not an object."
        fix = "Write { ref, version } (VAL024)."
        if findings.need(isinstance(entry, dict), "field-type", path, message, fix=fix):
            ref, version = entry.get("ref"), entry.get("version")
            named = isinstance(ref, str) and ref
            findings.need(named, "list-ref-missing", f"{path}.ref", "is missing.")
            findings.need(
                isinstance(version, str) and _THREE_NUMBERS.search(version),
                "list-version-missing",
                f"{path}.version",
                "is missing or not three numbers.",
            )


def _check_resources(main: dict[str, Any], findings: SchemaFindings) -> None:
    resources = main.get("resources", {})
    if resources is None:
        return
    if not isinstance(resources, dict) or not all(
        isinstance(item, dict) for item in resources.values()
    ):
        findings.add("resources-type", "resources", "is not an object of objects.")
        return
    many = f"there are {len(resources)}."
    findings.need(len(resources) <= MAX_RESOURCES, "resource-limit", "resources", many)
    for name, resource in resources.items():
        description = resource.get("description")
        findings.need(
            isinstance(description, str) and description.strip(),
            "resource-description-missing",
            f"resources.{name}.description",
            "is missing.",
        )
        source, origin = resource.get("source"), resource.get("origin", "inline")
        findings.need(
            name != "about" or (source == "markdown" and origin == "inline"),
            "about-form",
            "resources.about",
            f"is source {source!r}, origin {resource.get('origin')!r}.",
        )


def _check_secrets(main: dict[str, Any], findings: SchemaFindings) -> None:
    for text, path, name in texts(main, ""):
        field = name
        if path.endswith(".position.value"):
            field = _sibling_key(main, path) or name
        if (secret := secret_in(text, name=field)) is not None:
            findings.add("secret-in-source", path, f"holds {secret.phrase()}.")


def _sibling_key(main: dict[str, Any], path: str) -> str:
    """The key of the parameter whose value is at a path: it says what the value is for."""
    node: Any = main
    for step in re.findall(r"[^.\[\]]+", path)[:-1]:
        if isinstance(node, list):
            node = node[int(step)] if step.isdigit() and int(step) < len(node) else None
        else:
            node = node.get(step) if isinstance(node, dict) else None
    return str(node.get("key", "")) if isinstance(node, dict) else ""


def _kind(value: object) -> str:
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
    return names.get(type(value), f"a {type(value).__name__}")


# --- tools and their parameters

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


def _check_tool(
    schema: ToolSchema, name: str, tool: object, path: str, findings: SchemaFindings
) -> None:
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


def _check_server_params(
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


# --- tests

_BOUND = re.compile(r"(min|max|length)\((-?\d+(?:\.\d+)?)\)\Z")


def count_tests(tool: object) -> int:
    """How many tests a tool has. What is not an object is not a test."""
    tests = tool.get("tests") if isinstance(tool, dict) else None
    return sum(isinstance(test, dict) for test in tests) if isinstance(tests, list) else 0


def _check_tests(tool: dict[str, Any], path: str, findings: SchemaFindings) -> None:
    """Check the tests of one tool."""
    number = count_tests(tool)
    if number < MIN_TESTS:
        findings.add(
            "tests-few", f"{path}.tests", f"there {'is 1' if number == 1 else f'are {number}'}."
        )
    listed = tool.get("tests")
    known = parameters_of(tool, path)
    given = {parameter.key: parameter for parameter in known if parameter.given}
    # A value such as {{CITY}} is a separate error; the tests that give CITY are not wrong as
    # well.
    others = {name for parameter in known for name in placeholders(parameter.value)}
    seen: list[dict[str, Any]] = []
    for index, test in enumerate(listed if isinstance(listed, list) else []):
        where = f"{path}.tests[{index}]"
        if not isinstance(test, dict):
            findings.add("test-type", where, "is not an object.")
            continue
        if not isinstance(test.get("_description"), str) or not test["_description"].strip():
            findings.add("test-description-missing", f"{where}._description", "is missing.")
        values = {key: value for key, value in test.items() if key != "_description"}
        for key, value in values.items():
            if key not in given:
                if key not in others:
                    findings.add(
                        "test-key-unknown",
                        f"{where}.{key}",
                        "is not a parameter of this tool.",
                    )
            elif (why := refusal(given[key], value)) is not None:
                findings.add("test-value-refused", f"{where}.{key}", why)
        for key, parameter in given.items():
            if parameter.required and key not in test:
                findings.add("test-value-missing", where, f"{key!r} is required.")
        if values and values in seen:
            findings.add("test-repeated", where, "gives the values of an earlier test.")
        seen.append(values)


def refusal(parameter: Parameter, value: object) -> str | None:
    """Why a parameter refuses a value; None if it takes it. A shared list is not at hand: its
    values are taken.
    """
    kind = parameter.primitive.partition("(")[0]
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if kind == "number" and not number:
        return f"is {shown(value)}, not a number."
    if kind == "string" and not isinstance(value, str):
        return f"is {shown(value)}, not a string."
    if kind == "boolean" and not isinstance(value, bool):
        return f"is {shown(value)}, not true or false."
    if kind == "array" and not isinstance(value, list):
        return f"is {shown(value)}, not a list."
    if kind == "object" and not isinstance(value, dict):
        return f"is {shown(value)}, not an object."
    if kind == "enum":
        allowed = parameter.values
        return (
            None
            if not allowed or str(value) in allowed
            else (
                f"is {shown(value)}, not one of"
                f" {', '.join(allowed[:8])}{' …' if len(allowed) > 8 else ''}."
            )
        )
    for option in parameter.options:
        bound = _BOUND.match(option)
        if (
            bound is None
            or not isinstance(value, int | float | Decimal | str | list)
            or (number and bound[1] == "length")
        ):
            continue
        size, limit = (
            (value if isinstance(value, int | float | Decimal) else len(value)),
            float(bound[2]),
        )
        if (
            (bound[1] == "min" and size < limit)
            or (bound[1] == "max" and size > limit)
            or (bound[1] == "length" and size != limit)
        ):
            return f"is {'' if number else 'of length '}{size}, beyond {option}."
    return None
