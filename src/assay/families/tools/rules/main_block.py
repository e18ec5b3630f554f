"""The checks of the exported object as a whole, and the numbers of the FlowMCP 4 specification. Its
tools: `tools`. The rules: `data/rules.json`.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from assay.families.tools.rules.rule import SchemaFindings
from assay.families.tools.source import ToolSchema
from assay.secrets import secret_in, texts

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


def check(schema: ToolSchema, findings: SchemaFindings) -> dict[str, Any]:
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
