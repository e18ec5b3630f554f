"""Whether a model can tell what the tools are for, call them correctly, and read them without harm.
Applies to FlowMCP and to any MCP server.

For an MCP server this is the whole deterministic validation; for FlowMCP it comes after
`validation`. It judges the form: whether a description is true is for judges. The cost of a
tool is estimated from its text alone, the same on every machine.
"""

from __future__ import annotations

import re
from typing import Any

from assay.families.tools.records import SchemaFinding
from assay.families.tools.rules import alike, contradictions, effects
from assay.families.tools.rules.injection import orders_in
from assay.families.tools.rules.rule import SchemaFindings, rules_of
from assay.families.tools.rules.shown import ShownTool, fields_of, tools_of
from assay.families.tools.source import ToolSchema
from assay.secrets import secret_in, texts

BYTES_PER_TOKEN = 4
"""The usual measure for English and JSON; a tokenizer gives 20% more or less."""
TOOL_TOKENS = 1000
"""A limit for one tool, because a model reads every tool with every question."""
SET_TOKENS = 10_000
"""A larger set takes up a noticeable part of a context window before the first question."""
SET_TOOLS = 40
"""Beyond it models choose the wrong tool more often."""
MAX_DESCRIPTION = 1024
"""Some model interfaces refuse a longer description of a function."""

RULES = rules_of("legibility")
"""Every rule of legibility by its id."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z", re.ASCII)
_PARAMETER = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z", re.ASCII)
_FILLER = re.compile(
    r"\b(does? (stuff|things?|something)|todo|tbd|fixme|lorem ipsum|no description|description"
    r" (here|goes here|missing)|placeholder|xxx+|n/a)\b",
    re.I,
)
_EMPTY_WORDS = frozenset(
    (
        "a",
        "an",
        "the",
        "this",
        "that",
        "is",
        "are",
        "of",
        "to",
        "for",
        "in",
        "on",
        "with",
        "and",
        "or",
        "tool",
        "function",
        "it",
        "all",
        "via",
        "by",
    )
)
_WORDS = re.compile(r"[^\W_]+")
_LISTED = re.compile(
    r"\b(?:one of|either|must be|allowed(?: values?)?|valid values?|possible"
    r" values?|options?|values?)\b\W{0,4}"
    r"((?:[`'\"][\w.-]{1,40}[`'\"]\s*(?:,\s*(?:or\s+)?|\||/|\s+or\s+)\s*)+[`'\"][\w.-]{1,40}[`'\"]|[\w-]{2,40}(?:\s*\|\s*[\w-]{2,40}){1,20})",
    re.I,
)


def findings(schema: ToolSchema) -> list[SchemaFinding]:
    """What makes the tools of a schema hard or dangerous to read, most serious first."""
    findings = SchemaFindings(RULES, source=schema.source, lines=schema.kind == "flowmcp")
    tools = tools_of(schema)
    _check_server(schema, findings)
    for tool in tools:
        _check_description(schema, tool, findings)
        if schema.kind == "mcp":  # of FlowMCP `secret-in-source` says so
            _check_secrets(tool, findings)
        _check_input(tool, findings)
        effects.check(tool, findings)
    _check_names(tools, findings)
    _check_cost(schema, tools, findings)
    return findings.all()


def token_cost(schema: ToolSchema) -> dict[str, Any]:
    """About how many tokens the tools take in a model's context: `{"total", "tools": {name:
    tokens}, "method"}`.

    Counted are name, description and input schema of each tool in the spelling of `JSON.stringify`,
    one token for four bytes of UTF-8, rounded up. Nothing else is shown to a model: tests and
    answers of a FlowMCP schema cost nothing.
    """
    per_tool: dict[str, int] = {}
    for tool in tools_of(schema):
        cost = -(-len(tool.text().encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)
        per_tool[tool.name] = per_tool.get(tool.name, 0) + cost
    return {
        "total": sum(per_tool.values()),
        "tools": per_tool,
        "method": f"UTF-8 bytes / {BYTES_PER_TOKEN}, rounded up",
    }


def _check_server(schema: ToolSchema, findings: SchemaFindings) -> None:
    description = schema.main.get("description")
    if schema.kind == "mcp" and not schema.main["tools"]:  # of FlowMCP `tools-missing` says so
        findings.add("tools-absent", "tools", "is empty.")
    if schema.kind == "mcp" and not (isinstance(description, str) and description.strip()):
        findings.add("instructions-absent", "description", "the server sends no instructions.")
    for field in ("description", "name"):
        text = schema.main.get(field)
        if not isinstance(text, str):
            continue
        if (why := orders_in(text)) is not None:
            findings.add("description-injects", field, f"{why}.")
        if schema.kind == "mcp" and (secret := secret_in(text)) is not None:
            findings.add("secret-shown", field, f"contains {secret.phrase()}.")


def _check_description(schema: ToolSchema, tool: ShownTool, findings: SchemaFindings) -> None:
    path = f"{tool.path}.description"
    text = tool.description.strip()
    for value, where, _ in [
        (tool.name, tool.path, ""),
        (tool.description, path, ""),
        *texts(tool.shown, tool.path, with_names=True),
        *texts(tool.schema, f"{tool.path}.inputSchema", with_names=True),
    ]:
        if (why := orders_in(value)) is not None:
            findings.add("description-injects", where, f"{why}.")
    if not text:
        # of FlowMCP `tool-description-missing` says so
        findings.need(schema.kind != "mcp", "description-absent", path, "is missing.")
        return
    vague = _vague(tool.name, text)
    findings.need(vague is None, "description-vague", path, f"{text[:60]!r} {vague}.")
    short = len(text) <= MAX_DESCRIPTION
    findings.need(short, "description-long", path, f"has {len(text):,} characters.")


def _check_secrets(tool: ShownTool, findings: SchemaFindings) -> None:
    shown = {"description": tool.description, **tool.shown, "inputSchema": tool.schema}
    for text, where, name in texts(shown, tool.path):
        if (secret := secret_in(text, name=name)) is not None:
            findings.add("secret-shown", where, f"contains {secret.phrase()}.")


def _vague(name: str, text: str) -> str | None:
    if _FILLER.search(text, 0, 2000):
        return "is filler"
    words = [word.casefold() for word in _WORDS.findall(text[:2000])]
    if len(words) < 3:
        return "is shorter than three words"
    known = {
        word.casefold() for word in _WORDS.findall(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name))
    } | _EMPTY_WORDS
    return (
        "only repeats the name"
        if all(word in known or word.rstrip("s") in known or f"{word}s" in known for word in words)
        else None
    )


def _check_input(tool: ShownTool, findings: SchemaFindings) -> None:
    place = f"{tool.path}.inputSchema"
    if (why := schema_fault(tool.schema)) is not None:
        findings.add("input-schema-invalid", place, why)
    if not isinstance(tool.schema, dict):
        return
    known = {name: where for name, where, _ in fields_of(tool)}
    required = tool.schema.get("required")
    # Patterns and combined schemas may bring the parameter in; only where nothing can is the name
    # wrong.
    brings_in = {"patternProperties"}
    if tool.schema.get("additionalProperties") is not False:
        brings_in |= {"allOf", "anyOf", "oneOf", "$ref"}
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in known and not brings_in & tool.schema.keys():
            findings.add("required-unknown", f"{place}.required", f"{name!r} is not a parameter.")
    for name, where, field in fields_of(tool):
        _check_field(name, where, field, findings)
    for first, second in alike.pairs(list(known)):
        message = f"{first!r} and {second!r} are alike."
        findings.add("parameter-names-alike", known[second], message)
    contradictions.check(tool.schema, place, findings)


def _check_field(name: str, where: str, field: dict[str, Any], findings: SchemaFindings) -> None:
    description, kind = field.get("description"), field.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    combined = {"enum", "const", "$ref", "anyOf", "oneOf", "allOf"} & field.keys()
    findings.need(
        (isinstance(description, str) and description.strip())
        or (isinstance(field.get("title"), str) and "const" in field),
        "parameter-undocumented",
        where,
        f"{name!r} has no description.",
    )
    findings.need(
        _PARAMETER.match(name),
        "parameter-name-refused",
        where,
        f"{name[:80]!r} is refused by model interfaces.",
    )
    if combined:
        return
    findings.need(kind is not None, "parameter-untyped", where, f"{name!r} has no type.")
    for holder, keys, what in _FREE_FORM:
        findings.need(
            holder not in kinds or keys & field.keys(),
            "parameter-free-form",
            where,
            f"{name!r} is {what} whose contents aren't described.",
        )
    if isinstance(description, str) and "string" in kinds and "pattern" not in field:
        listed = _LISTED.search(description, 0, 2000)
        if listed is not None:
            message = f"{name!r} lists its values in words: {listed[1][:60]!r}."
            findings.add("enum-in-text", where, message)


_FREE_FORM = (
    ("object", {"properties", "additionalProperties", "patternProperties"}, "an object"),
    ("array", {"items", "prefixItems"}, "a list"),
)
"""The types that hold others, and the keys of which one says what."""


def schema_fault(schema: Any) -> str | None:
    """Why a schema is not the JSON Schema of an object; None if it is one. References to other
    addresses are refused, never fetched.
    """
    if not isinstance(schema, dict):
        return "is missing." if schema is None else "is not an object."
    if schema.get("type") != "object":
        return f"has the type {schema.get('type')!r}, not 'object'."
    from assay.records.contract import (
        contract_of,
        encode,
    )  # here and not above: it takes longer to load than most schemas to check

    plain = {
        key: value for key, value in schema.items() if key != "$schema"
    }  # another dialect named there would be fetched
    try:
        problem = contract_of(encode(plain)).problem
    except (ValueError, RecursionError, TypeError, OverflowError) as error:
        return f"cannot be read: {str(error)[:200]}."
    return f"{problem}." if problem else None


def _check_names(tools: list[ShownTool], findings: SchemaFindings) -> None:
    paths: dict[str, str] = {}
    for tool in tools:
        if tool.name in paths:
            findings.add("tool-name-twice", tool.path, f"{tool.name[:80]!r} appears twice.")
        paths.setdefault(tool.name, tool.path)
        if not _NAME.match(tool.name):
            findings.add(
                "tool-name-refused",
                tool.path,
                f"{tool.name[:80]!r} is refused by model interfaces.",
            )
    for first, second in alike.pairs(list(paths)):
        findings.add("tool-names-alike", paths[second], f"{first!r} and {second!r} are alike.")


def _check_cost(schema: ToolSchema, tools: list[ShownTool], findings: SchemaFindings) -> None:
    cost = token_cost(schema)
    paths = {tool.name: tool.path for tool in tools}
    for name, tokens in cost["tools"].items():
        if tokens > TOOL_TOKENS:
            findings.add("tool-heavy", paths[name], f"costs about {tokens:,} tokens.")
    if cost["total"] > SET_TOKENS:
        findings.add("set-heavy", "tools", f"all tools cost about {cost['total']:,} tokens.")
    if len(tools) > SET_TOOLS:
        findings.add("set-large", "tools", f"there are {len(tools):,} tools.")
