"""The two vetoes that a program can raise by itself: a known bad module, and an API key of another company.

Each check answers clean, veto or undetermined, with its evidence. Undetermined is never clean: without a list of known bad modules, a schema that asks for
any has not been cleared. The other two triggers, illegal content and a model's alarm, come in by record.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from assay.errors import InputError
from assay.flowmcp.veto import make_veto

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from assay.flowmcp.source import ToolSchema

CLEAN, VETO, UNDETERMINED = "clean", "veto", "undetermined"
NOT_ATTACHED = "not attached"
GRADER = {"kind": "script", "name": "assay-schema-checks", "version": "1.0.0"}


class Check(NamedTuple):
    """One check of a schema: its answer, and what it saw."""

    id: str
    outcome: str
    reason: str
    evidence: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """As a report shows it."""
        return self._asdict()


# --- modules ------------------------------------------------------------------------------------------------------------------------------


class ModuleLists(NamedTuple):
    """What is known about modules. `bad` maps a module's name to why; None means that nobody has given a list."""

    bad: Mapping[str, str] | None = None
    telemetry: frozenset[str] = frozenset()
    """Modules that report usage and take nothing: they cost points, they are no veto."""


def package_name(specifier: str) -> str:
    """The package that a module specifier asks for.

    >>> [package_name(text) for text in ("node:fs", "@scope/pkg/deep.js", "npm:left-pad@1.3.0", "https://esm.sh/ethers@6.1.0/x")]
    ['fs', '@scope/pkg', 'left-pad', 'ethers']
    """
    text = specifier.removeprefix("node:").removeprefix("npm:").removeprefix("jsr:")
    if "://" in text:
        path = [part for part in urlsplit(text).path.split("/") if part]
        text = "/".join(path[:2]) if path and path[0].startswith("@") else (path[0] if path else text)
    parts = text.split("/")
    name = "/".join(parts[:2]) if text.startswith("@") else parts[0]
    return name[:1] + name[1:].split("@")[0]


def check_modules(schema: ToolSchema, lists: ModuleLists) -> Check:
    """Whether a schema asks for a module that is known to be bad. The evidence lists every external module by name, version and source."""
    outside = [module for module in schema.modules if module.external]
    evidence: dict[str, Any] = {
        "modules": [
            {"name": module.name, "package": package_name(module.name), "version": module.version, "source": module.source, "line": module.line}
            for module in outside
        ]
    }
    if not outside:
        return Check("malicious-module", CLEAN, "the schema asks for no module from outside", evidence)
    if lists.bad is None:
        return Check(
            "malicious-module", UNDETERMINED, f"there is no list of known bad modules to hold {len(outside)} against; give one with --bad-modules", evidence
        )
    hits = {module.name: lists.bad[name] for module in outside for name in (module.name, package_name(module.name)) if name in lists.bad}
    if hits:
        named = "; ".join(f"{name}: {why}" for name, why in sorted(hits.items()))
        return Check("malicious-module", VETO, f"asks for a module that is known to be bad ({named})", {**evidence, "hits": hits})
    reporting = sorted({module.name for module in outside if package_name(module.name) in lists.telemetry})
    reason = f"none of {len(outside)} modules is on the list of {len(lists.bad)}"
    if reporting:
        reason += f"; {', '.join(reporting)} reports usage, which costs points and is no veto"
    return Check("malicious-module", CLEAN, reason, {**evidence, "telemetry": reporting})


def read_module_lists(tree: Any, where: str = "") -> ModuleLists:
    """Lists of modules from a document `{"bad": {name: reason} or [names], "telemetry": [names]}`."""
    if not isinstance(tree, dict) or "bad" not in tree:
        raise InputError("FMC-012", "is no list of modules.", where=where, fix='Write {"bad": {"name": "why"}, "telemetry": ["name"]}.')
    bad = tree["bad"]
    if isinstance(bad, list):
        bad = dict.fromkeys(bad, "on the list of known bad modules")
    if not isinstance(bad, dict) or not all(isinstance(name, str) and isinstance(why, str) for name, why in bad.items()):
        raise InputError("FMC-012", "'bad' must map names of modules to reasons.", where=where)
    telemetry = tree.get("telemetry", [])
    if not isinstance(telemetry, list):
        raise InputError("FMC-012", "'telemetry' must be a list of names.", where=where)
    return ModuleLists(bad, frozenset(map(str, telemetry)))


# --- keys and domains ---------------------------------------------------------------------------------------------------------------------

_GENERIC = frozenset(
    [
        "access",
        "account",
        "api",
        "app",
        "appid",
        "application",
        "auth",
        "base",
        "bearer",
        "bot",
        "client",
        "code",
        "credential",
        "credentials",
        "dev",
        "developer",
        "email",
        "env",
        "free",
        "host",
        "id",
        "identifier",
        "jwt",
        "key",
        "keys",
        "login",
        "mainnet",
        "oauth",
        "org",
        "organization",
        "password",
        "personal",
        "pin",
        "premium",
        "private",
        "prod",
        "production",
        "project",
        "public",
        "pwd",
        "refresh",
        "rpc",
        "sandbox",
        "secret",
        "server",
        "session",
        "sid",
        "sign",
        "signature",
        "staging",
        "subscription",
        "tenant",
        "test",
        "testnet",
        "token",
        "url",
        "user",
        "username",
        "v1",
        "v2",
        "v3",
        "version",
    ]
)
"""Words of a key's name that say what it is for, not whose it is."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+[A-Za-z]*")


def registrable_domain(host: str) -> str | None:
    """The domain that its owner registered, by the public suffix list that ships offline; None for an address or a bare suffix.

    >>> registrable_domain("pro-api.coinmarketcap.com"), registrable_domain("data.gov.uk")
    ('coinmarketcap.com', 'data.gov.uk')
    """
    try:
        from publicsuffixlist import PublicSuffixList  # 0.2 s and an extra; only this check needs it
    except ImportError:
        raise InputError("FMC-006", "the list of public suffixes is not installed.", fix="pip install 'assay[flowmcp]'") from None
    if re.fullmatch(r"[\d.]+|\[?[0-9a-fA-F:]+\]?", host):
        return None
    found = _suffixes(PublicSuffixList).privatesuffix(host.lower().rstrip("."))
    return str(found) if found else None


_LISTS: list[Any] = []


def _suffixes(kind: Any) -> Any:
    if not _LISTS:
        _LISTS.append(kind())
    return _LISTS[0]


def brand_of(name: str) -> str:
    """The words of a key's name that say whose it is, joined; empty where it says nobody's.

    >>> brand_of("CMC_API_KEY"), brand_of("API_KEY"), brand_of("coinGeckoApiKey")
    ('cmc', '', 'coingecko')
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    return "".join(word for word in words if word not in _GENERIC and not word.isdigit())


def _belongs(brand: str, label: str) -> bool:
    """Whether a brand is written in a domain's label, whole, in part or by its letters in order from the first."""
    label = re.sub(r"[^a-z0-9]", "", label.lower())
    if len(brand) < 2 or not label:
        return brand == label
    if brand in label or (len(label) >= 3 and label in brand):
        return True
    if brand[0] != label[0]:
        return False
    letters = iter(label)
    return all(sign in letters for sign in brand)


def check_key_domain(schema: ToolSchema, aliases: Mapping[str, Iterable[str]] | None = None) -> Check:
    """Whether each server parameter of a schema belongs to the API it calls, by its registrable domain, or to the same company.

    `aliases` maps a brand, as `brand_of` gives it, to the registrable domains of the same company.
    """
    names = schema.main.get("requiredServerParams")
    names = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    hosts = _hosts(schema.main)
    if not names:
        return Check("api-key-domain-mismatch", CLEAN, "the schema asks for no key", {"params": [], "domains": hosts})
    try:
        domains = sorted({domain for host in hosts if (domain := registrable_domain(host)) is not None})
    except InputError as error:
        return Check("api-key-domain-mismatch", UNDETERMINED, f"{error.message} {error.fix}", {"params": names, "domains": hosts})
    evidence: dict[str, Any] = {"params": names, "domains": domains}
    if not domains:
        return Check("api-key-domain-mismatch", UNDETERMINED, "the schema names no domain to which a key could belong", evidence)
    labels = [domain.split(".")[0] for domain in domains]
    known = {brand: set(found) for brand, found in (aliases or {}).items()}
    foreign, unclear = [], []
    for name in names:
        brand = brand_of(name)
        if not brand:
            unclear.append(name)
        elif not any(_belongs(brand, label) for label in labels) and not known.get(brand, set()) & set(domains):
            foreign.append(name)
    if foreign:
        reason = f"{', '.join(foreign)} belongs neither to {', '.join(domains)} nor, by any alias given, to the same company"
        return Check("api-key-domain-mismatch", VETO, reason, {**evidence, "foreign": foreign})
    if unclear:
        return Check("api-key-domain-mismatch", UNDETERMINED, f"{', '.join(unclear)} does not say whose key it is", {**evidence, "unclear": unclear})
    return Check("api-key-domain-mismatch", CLEAN, f"every key belongs to {', '.join(domains)}", evidence)


def _hosts(main: Mapping[str, Any]) -> list[str]:
    """The hosts that a schema calls: its root, and any tool's own."""
    found = [main.get("root")]
    tools = main.get("tools")
    for tool in tools.values() if isinstance(tools, dict) else ():
        if isinstance(tool, dict):
            found += [tool.get("root"), tool.get("path")]
    hosts = []
    for url in found:
        if isinstance(url, str) and "://" in url:
            try:
                host = urlsplit(url).hostname
            except ValueError:
                host = None
            if host and host not in hosts:
                hosts.append(host)
    return hosts


def check_terms(schema: ToolSchema) -> Check:
    """Whether terms of service are attached to the API: a link on the same registrable domain. It costs points where they are not; it is no veto."""
    link = schema.main.get("termsOfService")
    if not isinstance(link, str) or "://" not in link:
        return Check("tos-attached", NOT_ATTACHED, "the schema links no terms of service", {"link": link if isinstance(link, str) else None})
    try:
        own = {domain for host in _hosts(schema.main) if (domain := registrable_domain(host)) is not None}
        theirs = registrable_domain(urlsplit(link).hostname or "")
    except (InputError, ValueError) as error:
        return Check("tos-attached", UNDETERMINED, str(error), {"link": link})
    evidence = {"link": link, "domains": sorted(own)}
    if theirs is None or theirs not in own:
        return Check(
            "tos-attached", NOT_ATTACHED, f"the terms lie on {theirs or 'no registrable domain'}, the API on {', '.join(sorted(own)) or 'none'}", evidence
        )
    return Check("tos-attached", CLEAN, f"the terms lie on {theirs}, as the API does", evidence)


def read_aliases(tree: Any, where: str = "") -> dict[str, list[str]]:
    """Company aliases from a document `{"brand": ["domain", ...]}`."""
    if not isinstance(tree, dict) or not all(isinstance(found, list) and all(isinstance(domain, str) for domain in found) for found in tree.values()):
        raise InputError("FMC-012", "is no list of company aliases.", where=where, fix='Write {"brand": ["domain.example"]}.')
    return {brand_of(brand) or brand.lower(): [domain.lower() for domain in found] for brand, found in tree.items()}


def run_checks(schema: ToolSchema, *, lists: ModuleLists, aliases: Mapping[str, Iterable[str]] | None = None) -> list[Check]:
    """Both checks of a schema. A server of the MCP family states neither modules nor keys: both are beyond what can be seen from outside."""
    if schema.kind == "mcp":
        return [Check(name, UNDETERMINED, "the tools of a server do not show it", {}) for name in ("malicious-module", "api-key-domain-mismatch")]
    return [check_modules(schema, lists), check_key_domain(schema, aliases), check_terms(schema)]


def veto_of(checks: Iterable[Check], *, now: datetime) -> dict[str, Any] | None:
    """The first veto among checks, as an entry holds it."""
    from assay.canon import canonical

    for check in checks:
        if check.outcome == VETO:
            return make_veto(check.id, evidence=f"{check.reason}. {canonical(check.evidence).decode()}", grader=GRADER, now=now)
    return None
