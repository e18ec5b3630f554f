"""Whether a model can tell what the tools are for, call them right, and read them without harm.
Holds for FlowMCP and for any MCP server.

For an MCP server this is the whole deterministic validation; for FlowMCP it comes after
`validation`. It judges the form: whether a description is true is for those who are asked. What a
tool costs is estimated from its text alone, the same on every machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from assay.tools.rules import alike
from assay.tools.rules.injection import orders_in
from assay.tools.rules.rule import Findings, Rule, table
from assay.tools.rules.secrets import texts
from assay.tools.rules.shown import Shown, fields_of, tools_of

if TYPE_CHECKING:
    from assay.tools.source import SchemaFinding, ToolSchema

__all__ = [
    "BYTES_PER_TOKEN",
    "MAX_DESCRIPTION",
    "RULES",
    "SET_TOKENS",
    "SET_TOOLS",
    "TOOL_TOKENS",
    "findings",
    "token_cost",
]

BYTES_PER_TOKEN = 4
"""The usual measure for English and JSON; a tokenizer gives 20% more or less."""
TOOL_TOKENS = 1000
"""A tool beyond it is read with every question, wanted or not."""
SET_TOKENS = 10_000
"""A set beyond it takes a visible part of a context window before the first question."""
SET_TOOLS = 40
"""Beyond it models choose the wrong tool more often."""
MAX_DESCRIPTION = 1024
"""Some model interfaces refuse a longer description of a function."""

_E, _W, _N = "error", "warning", "note"
RULES: dict[str, Rule] = table(
    [
        Rule(
            "tools-absent",
            _E,
            "A server offers at least one tool.",
            "Ask again with the rights of its users; a server without tools cannot be graded.",
        ),
        Rule(
            "description-absent",
            _E,
            "A tool says what it does.",
            "Describe what it returns, for what input, and when to use it.",
        ),
        Rule(
            "description-vague",
            _W,
            "A description says more than the name.",
            "Say what comes back, for what input, and what the tool does not do.",
        ),
        Rule(
            "description-long",
            _W,
            f"A description has at most {MAX_DESCRIPTION} signs.",
            "Move the details to the parameters.",
        ),
        Rule(
            "description-injects",
            _E,
            "A description gives no orders and hides nothing.",
            "Remove it; until you know why it is there, trust nothing of it.",
        ),
        Rule(
            "parameter-undocumented",
            _W,
            "A parameter is described.",
            "Say what it means, in what form, with an example.",
        ),
        Rule("parameter-untyped", _W, "A parameter has a type.", "Add `type`, or `enum`."),
        Rule(
            "parameter-free-form",
            _W,
            "An object names its properties and an array its items.",
            "Add `properties` or `items`.",
        ),
        Rule(
            "enum-in-text",
            _N,
            "Values that a description lists stand in an `enum`.",
            "Add them as `enum`: then a wrong value is refused instead of sent.",
        ),
        Rule(
            "required-unknown",
            _E,
            "`required` names only parameters that there are.",
            "Add the parameter, or drop its name.",
        ),
        Rule(
            "input-schema-invalid",
            _E,
            "The input's schema is a JSON Schema 2020-12 of an object.",
            'Correct it; `{"type": "object"}` is the least.',
        ),
        Rule(
            "tool-name-twice",
            _E,
            "A tool's name stands once.",
            "Rename one: a model can call only one of them.",
        ),
        Rule(
            "tool-names-alike",
            _W,
            "Two tools differ by more than case, separators or one letter.",
            "Rename one after what it does differently.",
        ),
        Rule(
            "parameter-names-alike",
            _W,
            "Two parameters differ by more than case, separators or one letter.",
            "Rename one.",
        ),
        Rule(
            "tool-name-refused",
            _E,
            "A tool's name matches ^[a-zA-Z0-9_-]{1,64}$.",
            "Use letters, digits, underscore and hyphen, at most 64.",
        ),
        Rule(
            "parameter-name-refused",
            _W,
            "A parameter's name matches ^[a-zA-Z0-9_.-]{1,64}$.",
            "Use letters, digits, '.', '_' and '-', at most 64.",
        ),
        Rule(
            "tool-heavy",
            _W,
            f"A tool costs at most about {TOOL_TOKENS} tokens.",
            "Shorten the description and the schema, or split the tool.",
        ),
        Rule(
            "set-heavy",
            _W,
            f"All tools cost at most about {SET_TOKENS} tokens.",
            "Offer fewer tools at once.",
        ),
        Rule(
            "set-large", _N, f"A server offers at most {SET_TOOLS} tools.", "Split it by subject."
        ),
        Rule(
            "effects-unsaid",
            _N,
            "A tool that changes something says so.",
            "Add the annotations readOnlyHint and destructiveHint (`meta` in FlowMCP).",
        ),
        Rule(
            "instructions-absent",
            _N,
            "A server says how its tools belong together.",
            "Send `instructions` with the handshake.",
        ),
    ]
)
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
_CHANGES = re.compile(
    r"delete|remove|drop|destroy|purge|erase|wipe|truncate|overwrite|reset|kill|terminate|revoke|cancel|send|write|update|create|insert|transfer|pay|execute|run|commit|push|merge"
)


def findings(schema: ToolSchema) -> list[SchemaFinding]:
    """What makes the tools of a schema hard or dangerous to read, the gravest first."""
    found = Findings(RULES, source=schema.source, lines=schema.kind == "flowmcp")
    tools = tools_of(schema)
    _check_server(schema, found)
    for tool in tools:
        _check_description(schema, tool, found)
        _check_input(tool, found)
        _check_effects(tool, found)
    _check_names(tools, found)
    _check_cost(schema, tools, found)
    return found.all()


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


def _check_server(schema: ToolSchema, found: Findings) -> None:
    description = schema.main.get("description")
    if schema.kind == "mcp" and not schema.main["tools"]:  # of FlowMCP `tools-missing` says so
        found.add("tools-absent", "tools", "is empty.")
    if schema.kind == "mcp" and not (isinstance(description, str) and description.strip()):
        found.add("instructions-absent", "description", "the server sends no instructions.")
    for field in ("description", "name"):
        if isinstance(text := schema.main.get(field), str) and (why := orders_in(text)) is not None:
            found.add("description-injects", field, f"{why}.")


def _check_description(schema: ToolSchema, tool: Shown, found: Findings) -> None:
    path = f"{tool.path}.description"
    text = tool.description.strip()
    for value, where, name in [
        (tool.name, tool.path, ""),
        (tool.description, path, ""),
        (tool.title, f"{tool.path}.title", ""),
        *_schema_texts(tool),
    ]:
        if (why := orders_in(value)) is not None:
            found.add("description-injects", where, f"{f'{name} ' if name else ''}{why}.")
    if not text:
        if schema.kind == "mcp":  # of FlowMCP `tool-description-missing` says so
            found.add("description-absent", path, "is missing.")
        return
    if (why := _vague(tool.name, text)) is not None:
        found.add("description-vague", path, f"{why}: {text[:60]!r}.")
    if len(text) > MAX_DESCRIPTION:
        found.add("description-long", path, f"has {len(text):,} signs.")


def _schema_texts(tool: Shown) -> list[tuple[str, str, str]]:
    return [(text, where, "") for text, where, _ in texts(tool.schema, f"{tool.path}.inputSchema")]


def _vague(name: str, text: str) -> str | None:
    if _FILLER.search(text, 0, 2000):
        return "is filler"
    words = [word.casefold() for word in _WORDS.findall(text[:2000])]
    if len(words) < 3:
        return "is too short"
    known = {
        word.casefold() for word in _WORDS.findall(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name))
    } | _EMPTY_WORDS
    return (
        "only repeats the name"
        if all(word in known or word.rstrip("s") in known or f"{word}s" in known for word in words)
        else None
    )


def _check_input(tool: Shown, found: Findings) -> None:
    place = f"{tool.path}.inputSchema"
    if (why := _invalid(tool.schema)) is not None:
        found.add("input-schema-invalid", place, why)
    if not isinstance(tool.schema, dict):
        return
    known = {name: where for name, where, _ in fields_of(tool)}
    required = tool.schema.get("required")
    for name in required if isinstance(required, list) else ():
        # Patterns and combined schemas may bring the parameter in; only where nothing can is the
        # name wrong.
        if (
            isinstance(name, str)
            and name not in known
            and not {"patternProperties", "allOf", "anyOf", "oneOf", "$ref"} & tool.schema.keys()
        ):
            found.add("required-unknown", f"{place}.required", f"names {name!r}.")
    for name, where, field in fields_of(tool):
        _check_field(name, where, field, found)
    for pair in alike.pairs(list(known)):
        found.add(
            "parameter-names-alike",
            known[pair.second],
            f"{pair.first!r} and {pair.second!r} are alike.",
        )


def _check_field(name: str, where: str, field: dict[str, Any], found: Findings) -> None:
    description = field.get("description")
    if not (isinstance(description, str) and description.strip()) and not (
        isinstance(field.get("title"), str) and "const" in field
    ):
        found.add("parameter-undocumented", where, f"{name!r} has no description.")
    if not _PARAMETER.match(name):
        found.add("parameter-name-refused", where, f"{name[:80]!r} is refused by model interfaces.")
    combined = {"enum", "const", "$ref", "anyOf", "oneOf", "allOf"} & field.keys()
    kind = field.get("type")
    if kind is None and not combined:
        found.add("parameter-untyped", where, f"{name!r} has no type.")
    kinds = kind if isinstance(kind, list) else [kind]
    if (
        "object" in kinds
        and not combined
        and not {"properties", "additionalProperties", "patternProperties"} & field.keys()
    ):
        found.add("parameter-free-form", where, f"{name!r} is an object of anything.")
    if "array" in kinds and not combined and not {"items", "prefixItems"} & field.keys():
        found.add("parameter-free-form", where, f"{name!r} is a list of anything.")
    if (
        isinstance(description, str)
        and "string" in kinds
        and not combined
        and "pattern" not in field
        and (listed := _LISTED.search(description, 0, 2000)) is not None
    ):
        found.add("enum-in-text", where, f"{name!r} lists its values in words: {listed[1][:60]!r}.")


def _invalid(schema: Any) -> str | None:
    """Why a schema is no JSON Schema of an object; None if it is one. References to other addresses
    are refused, never fetched.
    """
    if not isinstance(schema, dict):
        return "is missing." if schema is None else "is no object."
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


def _check_effects(tool: Shown, found: Findings) -> None:
    if {"readOnlyHint", "destructiveHint"} & tool.annotations.keys():
        return
    words = [
        word.casefold()
        for word in _WORDS.findall(
            re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", tool.name.replace("_", " "))
        )
    ]
    verb = next((word for word in words[:2] if _CHANGES.fullmatch(word)), None)
    if verb is not None or tool.writes:
        found.add(
            "effects-unsaid",
            tool.path,
            f"{tool.name!r} looks as if it changed something ({verb or 'PUT or DELETE'}) and does"
            " not say so.",
        )


def _check_names(tools: list[Shown], found: Findings) -> None:
    paths: dict[str, str] = {}
    for tool in tools:
        if tool.name in paths:
            found.add("tool-name-twice", tool.path, f"{tool.name[:80]!r} stands twice.")
        paths.setdefault(tool.name, tool.path)
        if not _NAME.match(tool.name):
            found.add(
                "tool-name-refused",
                tool.path,
                f"{tool.name[:80]!r} is refused by model interfaces.",
            )
    for pair in alike.pairs(list(paths)):
        found.add(
            "tool-names-alike", paths[pair.second], f"{pair.first!r} and {pair.second!r} are alike."
        )


def _check_cost(schema: ToolSchema, tools: list[Shown], found: Findings) -> None:
    cost = token_cost(schema)
    paths = {tool.name: tool.path for tool in tools}
    for name, tokens in cost["tools"].items():
        if tokens > TOOL_TOKENS:
            found.add("tool-heavy", paths[name], f"costs about {tokens:,} tokens.")
    if cost["total"] > SET_TOKENS:
        found.add("set-heavy", "tools", f"all tools cost about {cost['total']:,} tokens.")
    if len(tools) > SET_TOOLS:
        found.add("set-large", "tools", f"there are {len(tools):,} tools.")
