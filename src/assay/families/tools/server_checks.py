"""The veto checks of any schema; of an MCP server they are made on what its declaration says.

Without a declaration they are undetermined, because tools don't show what a server loads or which
keys it needs. Checks that its declaration calls not applicable are answered so, with the reason. A
key that the tools name and the declaration leaves out keeps the check undetermined, and may be a
veto.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from assay.families.tools import checks
from assay.families.tools.checks import ModuleLists, VetoCheck
from assay.families.tools.declaration import Declaration, declaration_of
from assay.families.tools.key_owners import named_keys
from assay.families.tools.source import Module, ToolSchema, split_version
from assay.families.tools.veto import CLEAN, NOT_APPLICABLE, UNDETERMINED, VETO
from assay.secrets import texts

MODULES, KEYS, TERMS = "malicious-module", "api-key-domain-mismatch", "tos-attached"
_ASK = "declare them with --declare FILE when you check, import or grade the server"


def run_checks(
    schema: ToolSchema, *, lists: ModuleLists, aliases: Mapping[str, Iterable[str]] | None = None
) -> list[VetoCheck]:
    """Every check of a schema or of the tools of a server."""
    if schema.kind != "mcp":
        return [
            checks.check_modules(schema, lists),
            checks.check_key_domain(schema, aliases),
            checks.check_terms(schema),
        ]
    declared = declaration_of(schema)
    if declared is None:
        return [
            VetoCheck(name, UNDETERMINED, f"an MCP server does not show its {what}; {_ASK}", {})
            for name, what in ((MODULES, "modules"), (KEYS, "keys and hosts"))
        ]
    return [
        _modules(schema, declared, lists),
        _keys(schema, declared, aliases),
        _terms(schema, declared),
    ]


def _modules(schema: ToolSchema, declared: Declaration, lists: ModuleLists) -> VetoCheck:
    if (reason := declared.reason("modules")) is not None:
        return _not_applicable(MODULES, reason)
    if not isinstance(declared.modules, list):
        return _undeclared(MODULES, "modules")
    modules = tuple(
        Module(*split_version(text), "declaration", None, True) for text in declared.modules
    )
    return _by_declaration(checks.check_modules(schema._replace(modules=modules), lists))


def _keys(
    schema: ToolSchema, declared: Declaration, aliases: Mapping[str, Iterable[str]] | None
) -> VetoCheck:
    keys = declared.keys if isinstance(declared.keys, list) else []
    evident = _evident_keys(schema)
    hidden = {name: where for name, where in evident.items() if name not in keys}
    made = _stated(schema, declared, [*keys, *hidden])
    check = checks.check_key_domain(made, aliases)
    if check.outcome == VETO:
        return _by_declaration(check)
    if hidden:
        name, where = next(iter(hidden.items()))
        return VetoCheck(
            KEYS,
            UNDETERMINED,
            f"{where} names the key {name}, and the declaration does not",
            {**check.evidence, "undeclared": hidden},
        )
    if (reason := declared.reason("keys")) is not None:
        return _not_applicable(KEYS, reason)
    if not isinstance(declared.keys, list):
        return _undeclared(KEYS, "keys")
    if keys and not isinstance(declared.hosts, list):
        return _undeclared(KEYS, "hosts")
    return _by_declaration(check)


def _evident_keys(schema: ToolSchema) -> dict[str, str]:
    """The keys that the tools of a server name in their texts, each with the first place."""
    main = {key: schema.main.get(key) for key in ("description", "tools")}
    keys: dict[str, str] = {}
    for text, where, _ in texts(main, ""):
        for name in named_keys(text):
            keys.setdefault(name, "the instructions" if where == "description" else where)
    return keys


def _terms(schema: ToolSchema, declared: Declaration) -> VetoCheck:
    if (reason := declared.reason("terms")) is not None:
        return _not_applicable(TERMS, reason)
    return checks.check_terms(_stated(schema, declared, []))


def _stated(schema: ToolSchema, declared: Declaration, keys: list[str]) -> ToolSchema:
    """A schema that states what the declaration does, for the checks that read schemas."""
    hosts = declared.hosts if isinstance(declared.hosts, list) else []
    main: dict[str, Any] = {
        "requiredServerParams": keys,
        "tools": {host: {"root": f"https://{host.lower()}"} for host in hosts},
    }
    if isinstance(declared.terms, str):
        main["termsOfService"] = declared.terms
    return schema._replace(main=main)


def _by_declaration(check: VetoCheck) -> VetoCheck:
    reason = check.reason.replace("the schema", "the server")
    return check._replace(
        reason=f"by its declaration, {reason}" if check.outcome == CLEAN else reason
    )


def _not_applicable(name: str, reason: str) -> VetoCheck:
    return VetoCheck(name, NOT_APPLICABLE, f"by its declaration: {reason}", {"reason": reason})


def _undeclared(name: str, what: str) -> VetoCheck:
    return VetoCheck(name, UNDETERMINED, f"its declaration does not name its {what}", {})
