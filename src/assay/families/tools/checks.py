"""The two vetoes that a program can raise by itself: a known bad module, and an API key of another
company.

Each check answers clean, veto or undetermined, with its evidence. Undetermined is never clean:
without a list of known bad modules, a schema that requests any module has not been cleared. The
other two triggers, illegal content and a model's alarm, come in by record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from msgspec import Struct, ValidationError

from assay.canon import canonical
from assay.errors import InputError
from assay.families.tools import checks
from assay.families.tools.declaration import Declaration, declaration_of
from assay.families.tools.key_owners import hosts_of, named_keys, owner_verdict, registrable_domain
from assay.families.tools.records import CategoricalVeto, GraderIdentity, document
from assay.families.tools.source import Module, ToolSchema, split_version
from assay.families.tools.veto import CLEAN, NOT_APPLICABLE, UNDETERMINED, VETO, make_veto
from assay.grouping import grouped
from assay.records.typed import convert
from assay.secrets import texts

NOT_ATTACHED = "not attached"
GRADER = GraderIdentity(kind="script", name="assay-schema-checks", version="1.0.0")
_KEYS = "api-key-domain-mismatch"


class VetoCheck(NamedTuple):
    """One check of a schema: its answer, and what it saw."""

    id: str
    outcome: str
    reason: str
    evidence: dict[str, Any]


# --- modules


class ModuleLists(NamedTuple):
    """What is known about modules. `bad` maps a module's name to why; None means that nobody has
    given a list.
    """

    bad: Mapping[str, str] | None = None
    telemetry: frozenset[str] = frozenset()
    """Modules that report usage and take nothing: they cost points, but don't veto."""


def package_name(specifier: str) -> str:
    """The package that a module specifier asks for.

    >>> [
    ...     package_name(text)
    ...     for text in (
    ...         "node:fs",
    ...         "@scope/pkg/deep.js",
    ...         "npm:left-pad@1.3.0",
    ...         "https://esm.sh/v135/ethers@6.1.0/x",
    ...     )
    ... ]
    ['fs', '@scope/pkg', 'left-pad', 'ethers']
    """
    text = unquote(specifier).removeprefix("node:").removeprefix("npm:").removeprefix("jsr:")
    if "://" in text:
        parts = [part for part in text.split("://", 1)[1].split("/")[1:] if part]
        while len(parts) > 1 and _SERVER_PATH.fullmatch(parts[0]):
            parts.pop(0)
        text = "/".join(parts) or text
    parts = text.lstrip("*").split("/")
    name = "/".join(parts[:2]) if text.startswith("@") else parts[0]
    return name[:1] + name[1:].split("@")[0]


def same_package(name: str) -> str:
    """A name by which two spellings of a package are known to be the same: indexes of packages
    ignore case, and some take `-`, `_` and `.` for one another.

    >>> same_package("Event_Streamer@3")
    'event-streamer'
    """
    return _folded(package_name(name))


def _folded(name: str) -> str:
    return name if "://" in name else re.sub(r"[-_.]+", "-", name).lower()


_EXACT = re.compile(r"[v=]*(\d+(?:\.\d+)*(?:-[\w.-]+)?)(?:\+[\w.-]+)?")


def _may_be_same(mine: str | None, other: str | None) -> bool:
    """Whether two versions may be the same one. No version, a range (`^3.3.0`) and a word
    (`latest`) may be any; `3` may be every version that begins with it.
    """
    exact = [
        f"{known[1]}." for version in (mine, other) if (known := _EXACT.fullmatch(version or ""))
    ]
    return len(exact) < 2 or exact[0].startswith(exact[1]) or exact[1].startswith(exact[0])


def _pin(listed: str | None, version: str | None) -> str:
    """What to do if one version is listed, and it is not known whether that is the one in use."""
    bad, used = (_EXACT.fullmatch(text or "") for text in (listed, version))
    if bad is None or (used is not None and f"{used[1]}.".startswith(f"{bad[1]}.")):
        return ""
    return f"; the list has version {bad[1]}, so name the exact version in use"


_SERVER_PATH = re.compile(r"npm|gh|jsr|stable|dev|x|v[0-9]+|-")
"""The parts of a module server's path that come before the package."""


def _spellings(specifier: str) -> set[str]:
    """Every name by which a list may know what a specifier asks for: if one were left out, a bad
    module would get through under another address.
    """
    text = unquote(specifier)
    if "://" not in text:
        return {specifier, text, package_name(specifier)}
    parts = [part.lstrip("*") for part in re.split(r"[/?#]", text.split("://", 1)[-1]) if part]
    names = {specifier, text, package_name(specifier)}
    for index, part in enumerate(parts):
        names.add(part[:1] + part[1:].split("@")[0])
        if part.startswith("@") and index + 1 < len(parts):
            names.add(f"{part}/{parts[index + 1].split('@')[0]}")
    return names


def check_modules(schema: ToolSchema, lists: ModuleLists) -> VetoCheck:
    """Whether a schema asks for a module that is known to be bad. The evidence lists every external
    module by name, version and source.
    """
    outside = [module for module in schema.modules if module.external]
    evidence: dict[str, Any] = {
        "modules": [
            {
                "name": module.name,
                "package": package_name(module.name),
                "version": module.version,
                "source": module.source,
                "line": module.line,
            }
            for module in outside
        ]
    }
    if not outside:
        return VetoCheck(
            "malicious-module", CLEAN, "the schema asks for no module from outside", evidence
        )
    if lists.bad is None:
        return VetoCheck(
            "malicious-module",
            UNDETERMINED,
            f"there is no list of known bad modules to check {len(outside)} against; give one with"
            " --bad-modules",
            evidence,
        )
    bad = [(*split_version(name), why) for name, why in lists.bad.items()]
    listed = grouped((_folded(name), (version, why)) for name, version, why in bad)
    hits = {
        module.name: why + _pin(version, module.version)
        for module in outside
        for name in sorted(_spellings(module.name))
        for version, why in listed.get(_folded(name), ())
        if _may_be_same(version, module.version)
    }
    if hits:
        named = "; ".join(f"{name}: {why}" for name, why in sorted(hits.items()))
        return VetoCheck(
            "malicious-module",
            VETO,
            f"asks for a module that is known to be bad ({named})",
            {**evidence, "hits": hits},
        )
    computed = [f"{module.name} (line {module.line})" for module in outside if module.computed]
    if computed:
        return VetoCheck(
            "malicious-module",
            UNDETERMINED,
            f"a module's name is computed, so no list can clear it: {'; '.join(computed)}",
            evidence,
        )
    reporting = sorted(
        {module.name for module in outside if package_name(module.name) in lists.telemetry}
    )
    reason = f"none of {len(outside)} modules is on the list of {len(lists.bad)}"
    if reporting:
        reason += f"; {', '.join(reporting)} reports usage, which costs points but is not a veto"
    return VetoCheck("malicious-module", CLEAN, reason, {**evidence, "telemetry": reporting})


class _ModuleFile(Struct):
    bad: dict[str, str] | list[str]
    telemetry: list[str] = []


def read_module_lists(tree: Any, where: str = "") -> ModuleLists:
    """Lists of modules from a document `{"bad": {name: reason} or [names], "telemetry":
    [names]}`.
    """
    try:
        lists = convert(tree, _ModuleFile)
    except ValidationError as error:
        raise InputError(
            "FMC-012",
            f"is not a list of modules: {error}.",
            where=where,
            fix='Write {"bad": {"name": "why"}, "telemetry": ["name"]}.',
        ) from None
    bad = lists.bad
    if isinstance(bad, list):
        bad = dict.fromkeys(bad, "on the list of known bad modules")
    return ModuleLists(bad, frozenset(lists.telemetry))


# --- keys and terms


def check_key_domain(
    schema: ToolSchema, aliases: Mapping[str, Iterable[str]] | None = None
) -> VetoCheck:
    """Whether each server parameter of a schema belongs to every API it calls, by registrable
    domain, or to the same company.

    `aliases` maps a brand, as `brand_of` gives it, to the registrable domains of the same company.
    """
    params = schema.main.get("requiredServerParams")
    hosts, odd = hosts_of(schema.main, schema.addresses)
    if params is None or params == []:
        return VetoCheck(
            _KEYS, CLEAN, "the schema asks for no key", {"params": [], "domains": hosts}
        )
    if not isinstance(params, list) or not all(isinstance(name, str) for name in params):
        return VetoCheck(
            _KEYS,
            UNDETERMINED,
            "requiredServerParams is not a list of names",
            {"params": params, "domains": hosts},
        )
    try:
        domains = sorted(
            {domain for host in hosts if (domain := registrable_domain(host)) is not None}
        )
    except InputError as error:
        return VetoCheck(
            _KEYS,
            UNDETERMINED,
            f"{error.message} {error.fix}",
            {"params": params, "domains": hosts},
        )
    evidence: dict[str, Any] = {"params": params, "domains": domains}
    if odd or not domains or any(registrable_domain(host) is None for host in hosts):
        why = (
            f"{odd[0]!r} does not name one host"
            if odd
            else "the schema names no domain to which a key could belong"
        )
        return VetoCheck(_KEYS, UNDETERMINED, why, evidence)
    foreign, unclear = {}, {}
    for name in params:
        verdicts = [owner_verdict(name, host, aliases or {}) for host in hosts]
        outcomes = {outcome for outcome, _ in verdicts}
        why = next(
            (
                f"{name}: {reason}"
                for outcome, reason in verdicts
                if outcome == (VETO if VETO in outcomes else UNDETERMINED)
            ),
            "",
        )
        if VETO in outcomes and CLEAN not in outcomes:
            foreign[name] = why
        elif outcomes != {CLEAN}:
            unclear[name] = why
    if foreign:
        return VetoCheck(
            _KEYS, VETO, "; ".join(foreign.values()), {**evidence, "foreign": list(foreign)}
        )
    if unclear:
        reason = f"{'; '.join(unclear.values())}. If you know the owner, give it with --aliases"
        return VetoCheck(_KEYS, UNDETERMINED, reason, {**evidence, "unclear": list(unclear)})
    return VetoCheck(_KEYS, CLEAN, f"every key belongs to {', '.join(domains)}", evidence)


def check_terms(schema: ToolSchema) -> VetoCheck:
    """Whether terms of service are attached to the API: a link on the same registrable domain. It
    costs points where they are not, but doesn't veto.
    """
    link = schema.main.get("termsOfService")
    if not isinstance(link, str) or "://" not in link:
        return VetoCheck(
            "tos-attached",
            NOT_ATTACHED,
            "the schema links no terms of service",
            {"link": link if isinstance(link, str) else None},
        )
    try:
        own = {
            domain
            for host in hosts_of(schema.main)[0]
            if (domain := registrable_domain(host)) is not None
        }
        theirs = registrable_domain(urlsplit(link).hostname or "")
    except (InputError, ValueError) as error:
        return VetoCheck("tos-attached", UNDETERMINED, str(error), {"link": link})
    evidence = {"link": link, "domains": sorted(own)}
    if theirs is None or theirs not in own:
        return VetoCheck(
            "tos-attached",
            NOT_ATTACHED,
            f"the terms are on {theirs or 'no registrable domain'}, the API on"
            f" {', '.join(sorted(own)) or 'none'}",
            evidence,
        )
    return VetoCheck("tos-attached", CLEAN, f"the terms and the API are both on {theirs}", evidence)


def veto_of(checks: Iterable[VetoCheck], *, now: datetime) -> CategoricalVeto | None:
    """The first veto among checks, as an entry holds it."""
    for check in checks:
        if check.outcome == VETO:
            return make_veto(
                check.id,
                evidence=f"{check.reason}. {canonical(check.evidence).decode()}",
                grader=document(GRADER),
                now=now,
            )
    return None


# --- the checks of any schema; those of an MCP server rest on its declaration

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
