"""The two vetoes that a program can raise by itself: a known bad module, and an API key of another
company.

Each check answers clean, veto or undetermined, with its evidence. Undetermined is never clean:
without a list of known bad modules, a schema that asks for any has not been cleared. The other two
triggers, illegal content and a model's alarm, come in by record.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from assay.errors import InputError
from assay.files.json_files import parse_json
from assay.tools.manifest import tools_of
from assay.tools.veto import make_veto

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from assay.tools.source import ToolSchema

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


# --- modules


class ModuleLists(NamedTuple):
    """What is known about modules. `bad` maps a module's name to why; None means that nobody has
    given a list.
    """

    bad: Mapping[str, str] | None = None
    telemetry: frozenset[str] = frozenset()
    """Modules that report usage and take nothing: they cost points, they are no veto."""


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


_SERVER_PATH = re.compile(r"npm|gh|jsr|stable|dev|x|v[0-9]+|-")
"""The parts of a module server's path that come before the package."""


def _spellings(specifier: str) -> set[str]:
    """Every name by which a list may know what a specifier asks for: were one left out, a bad
    module would get through by another address.
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


def check_modules(schema: ToolSchema, lists: ModuleLists) -> Check:
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
        return Check(
            "malicious-module", CLEAN, "the schema asks for no module from outside", evidence
        )
    if lists.bad is None:
        return Check(
            "malicious-module",
            UNDETERMINED,
            f"there is no list of known bad modules to hold {len(outside)} against; give one with"
            " --bad-modules",
            evidence,
        )
    hits = {
        module.name: lists.bad[name]
        for module in outside
        for name in sorted(_spellings(module.name))
        if name in lists.bad
    }
    if hits:
        named = "; ".join(f"{name}: {why}" for name, why in sorted(hits.items()))
        return Check(
            "malicious-module",
            VETO,
            f"asks for a module that is known to be bad ({named})",
            {**evidence, "hits": hits},
        )
    reporting = sorted(
        {module.name for module in outside if package_name(module.name) in lists.telemetry}
    )
    reason = f"none of {len(outside)} modules is on the list of {len(lists.bad)}"
    if reporting:
        reason += f"; {', '.join(reporting)} reports usage, which costs points and is no veto"
    return Check("malicious-module", CLEAN, reason, {**evidence, "telemetry": reporting})


def read_module_lists(tree: Any, where: str = "") -> ModuleLists:
    """Lists of modules from a document `{"bad": {name: reason} or [names], "telemetry":
    [names]}`.
    """
    if not isinstance(tree, dict) or "bad" not in tree:
        raise InputError(
            "FMC-012",
            "is no list of modules.",
            where=where,
            fix='Write {"bad": {"name": "why"}, "telemetry": ["name"]}.',
        )
    bad = tree["bad"]
    if isinstance(bad, list) and all(isinstance(name, str) for name in bad):
        bad = dict.fromkeys(bad, "on the list of known bad modules")
    if not isinstance(bad, dict) or not all(
        isinstance(name, str) and isinstance(why, str) for name, why in bad.items()
    ):
        raise InputError("FMC-012", "'bad' must map names of modules to reasons.", where=where)
    telemetry = tree.get("telemetry", [])
    if not isinstance(telemetry, list) or not all(isinstance(name, str) for name in telemetry):
        raise InputError("FMC-012", "'telemetry' must be a list of names.", where=where)
    return ModuleLists(bad, frozenset(telemetry))


# --- keys and domains


class _Owner(NamedTuple):
    """Whose keys carry a word, and which domains are theirs."""

    domains: frozenset[str]
    suffixes: tuple[str, ...]
    """Whole registries that only the owner gives names in, as `gov`."""
    shared: bool
    """Others use the word too: it clears a key for these domains, and is no ground for a veto
    elsewhere.
    """
    reason: str

    def has(self, domain: str) -> bool:
        return domain in self.domains or any(
            domain.endswith(f".{suffix}") for suffix in self.suffixes
        )


class _Words(NamedTuple):
    """What the words in a key's name mean; `data/owners.json` holds them."""

    generic: frozenset[str]
    """They say what a key is for, not whose it is."""
    credential: frozenset[str]
    """They make a parameter a secret: only a secret of another company is a veto."""
    related: frozenset[str]
    """They may stand beside a brand in the name of its own domain."""
    known: dict[str, _Owner]
    """Words whose owner is known. For these no likeness counts: only the owner's domains get the
    key.
    """


@cache
def _words() -> _Words:
    with open(
        os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "owners.json"), "rb"
    ) as stream:
        found = parse_json(stream.read())
    known = {
        word: _Owner(
            frozenset(owner["domains"]),
            tuple(owner.get("suffixes", ())),
            owner.get("shared", False),
            owner["reason"],
        )
        for word, owner in found["known"].items()
    }
    return _Words(
        frozenset(found["generic"]),
        frozenset(found["credential"]),
        frozenset(found["related"]),
        known,
    )


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+[A-Za-z]*")


def registrable_domain(host: str, *, only_icann: bool = False) -> str | None:
    """The domain that its owner registered, by the public suffix list that ships offline; None for
    an address or a bare suffix.

    A guest on a platform counts as an owner (`me.github.io`), unless only the suffixes of
    registries are asked for.

    >>> registrable_domain("pro-api.coinmarketcap.com"), registrable_domain("data.gov.uk")
    ('coinmarketcap.com', 'data.gov.uk')
    """
    try:
        from publicsuffixlist import (
            PublicSuffixList,
        )  # 0.2 s and an extra; only this check needs it
    except ImportError:
        raise InputError(
            "FMC-006",
            "the list of public suffixes is not installed.",
            fix="pip install 'assay[flowmcp]'",
        ) from None
    if re.fullmatch(r"[\d.]+|\[?[0-9a-fA-F:]+\]?", host):
        return None
    lists = _suffixes(PublicSuffixList)
    found = lists[only_icann].privatesuffix(host.lower().rstrip("."))
    return str(found) if found else None


_LISTS: list[Any] = []


def _suffixes(kind: Any) -> list[Any]:
    if not _LISTS:
        _LISTS.extend((kind(), kind(only_icann=True)))
    return _LISTS


def _tokens(name: str) -> list[str]:
    """The words of a key's name that can say whose it is."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return [word for word in words if word not in _words().generic and not word.isdigit()]


def brand_of(name: str) -> str:
    """The words of a key's name that say whose it is, joined; empty where it says nobody's.

    >>> brand_of("CMC_API_KEY"), brand_of("API_KEY_V2"), brand_of("coinGeckoApiKey")
    ('cmc', '', 'coingecko')
    """
    return "".join(_tokens(name))


def _only_related(text: str) -> bool:
    """Whether a text is made of words that stand beside a brand, as `apidata`."""
    return not text or any(
        text.startswith(word) and _only_related(text[len(word) :]) for word in _words().related
    )


def _owners_in(tokens: list[str]) -> dict[str, _Owner]:
    """The known owners that a key's name speaks of: by the whole name, by one of its words, or by
    words that stand next to each other.
    """
    runs = {
        "".join(tokens[start:end])
        for start in range(len(tokens))
        for end in range(start + 1, len(tokens) + 1)
    }
    return {word: owner for word, owner in _words().known.items() if word in runs}


def _owner(name: str, host: str, aliases: Mapping[str, Iterable[str]]) -> tuple[str, str]:
    """Whether a server parameter belongs to the owner of a host: clean, veto or undetermined, and
    why.

    A veto needs a known owner: a name that speaks of nobody known may belong to anyone, also to the
    owner of the host.
    """
    domain = registrable_domain(host) or host
    tokens = _tokens(name)
    brand = "".join(tokens)
    if not brand:
        return UNDETERMINED, "its name does not say whose key it is"
    if domain in aliases.get(brand, ()):
        return CLEAN, "the list of aliases says so"
    label = re.sub(r"[^a-z0-9]", "", domain.split(".")[0])
    owners = _owners_in(tokens)
    if owners:
        return _known_owner(name, domain, label, owners, whole=brand in owners)
    short, long = sorted((brand, label), key=len)
    if (
        brand == domain.replace(".", "")
        or (len(short) >= 3 and long.startswith(short) and _only_related(long[len(short) :]))
        or brand == label
    ):
        return CLEAN, f"it is named after {domain}"
    labels = {part for text in host.lower().split(".") for part in (text, *text.split("-"))}
    if (
        len(label) >= 3
        and label in tokens
        and all(word in labels or word in _words().related for word in tokens)
    ):
        return CLEAN, f"it is named after {host}"
    return UNDETERMINED, f"nothing shows whether '{brand}' belongs to the owner of {domain}"


def _known_owner(
    name: str, domain: str, label: str, owners: Mapping[str, _Owner], *, whole: bool
) -> tuple[str, str]:
    others = {word: owner for word, owner in owners.items() if not owner.has(domain)}
    if not others:
        return CLEAN, f"{domain} belongs to {next(iter(owners.values())).reason}"
    word, owner = min(
        others.items(), key=lambda pair: (pair[1].shared or label.startswith(pair[0]), pair[0])
    )
    theirs = f"'{word}' is {owner.reason} ({', '.join(sorted(owner.domains))})"
    registered = registrable_domain(domain, only_icann=True) or domain
    if len(others) < len(owners) or owner.has(
        registered
    ):  # a guest on its owner's platform may be anybody
        return UNDETERMINED, f"{theirs}, and {domain} may or may not be"
    if owner.shared or label.startswith(word):
        return UNDETERMINED, f"{theirs}, and nothing shows whether {domain} is"
    secret = any(part.lower() in _words().credential for part in _WORDS.findall(name))
    if not whole and not secret:
        return UNDETERMINED, f"{theirs}, and the name does not say that it is a key"
    return VETO, f"{theirs}; {domain} is not"


def check_key_domain(
    schema: ToolSchema, aliases: Mapping[str, Iterable[str]] | None = None
) -> Check:
    """Whether each server parameter of a schema belongs to every API it calls, by registrable
    domain, or to the same company.

    `aliases` maps a brand, as `brand_of` gives it, to the registrable domains of the same company.
    """
    asked = schema.main.get("requiredServerParams")
    hosts, odd = _hosts(schema.main)
    if asked is None or asked == []:
        return Check(_KEYS, CLEAN, "the schema asks for no key", {"params": [], "domains": hosts})
    if not isinstance(asked, list) or not all(isinstance(name, str) for name in asked):
        return Check(
            _KEYS,
            UNDETERMINED,
            "requiredServerParams is no list of names",
            {"params": asked, "domains": hosts},
        )
    try:
        domains = sorted(
            {domain for host in hosts if (domain := registrable_domain(host)) is not None}
        )
    except InputError as error:
        return Check(
            _KEYS, UNDETERMINED, f"{error.message} {error.fix}", {"params": asked, "domains": hosts}
        )
    evidence: dict[str, Any] = {"params": asked, "domains": domains}
    if odd or not domains or any(registrable_domain(host) is None for host in hosts):
        why = (
            f"{odd[0]!r} can be read as two addresses"
            if odd
            else "the schema names no domain to which a key could belong"
        )
        return Check(_KEYS, UNDETERMINED, why, evidence)
    foreign, unclear = {}, {}
    for name in asked:
        found = [_owner(name, host, aliases or {}) for host in hosts]
        outcomes = {outcome for outcome, _ in found}
        why = next(
            (
                f"{name}: {reason}"
                for outcome, reason in found
                if outcome == (VETO if VETO in outcomes else UNDETERMINED)
            ),
            "",
        )
        if VETO in outcomes and CLEAN not in outcomes:
            foreign[name] = why
        elif outcomes != {CLEAN}:
            unclear[name] = why
    if foreign:
        return Check(
            _KEYS, VETO, "; ".join(foreign.values()), {**evidence, "foreign": list(foreign)}
        )
    if unclear:
        reason = f"{'; '.join(unclear.values())}. If you know the owner, say so with --aliases"
        return Check(_KEYS, UNDETERMINED, reason, {**evidence, "unclear": list(unclear)})
    return Check(_KEYS, CLEAN, f"every key belongs to {', '.join(domains)}", evidence)


_KEYS = "api-key-domain-mismatch"


def _hosts(main: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The hosts that a schema calls, its root and any tool's own; and the addresses that a browser
    reads otherwise than we do.
    """
    found = [main.get("root")]
    for tool in tools_of(dict(main)).values():
        if isinstance(tool, dict):
            found += [tool.get("root"), tool.get("path")]
    hosts: list[str] = []
    odd = []
    for url in found:
        if not isinstance(url, str) or "//" not in url:
            continue
        plain = url.replace("{{", "").replace("}}", "")
        try:
            parts = urlsplit(plain)
            host = parts.hostname
        except ValueError:
            host, parts = None, urlsplit("")
        if (
            "\\" in url
            or any(ord(sign) <= 32 or ord(sign) == 127 for sign in url)
            or (host is None and "://" in url)
        ):
            odd.append(url)
        elif host and host not in hosts:
            hosts.append(host)
    return hosts, odd


def check_terms(schema: ToolSchema) -> Check:
    """Whether terms of service are attached to the API: a link on the same registrable domain. It
    costs points where they are not; it is no veto.
    """
    link = schema.main.get("termsOfService")
    if not isinstance(link, str) or "://" not in link:
        return Check(
            "tos-attached",
            NOT_ATTACHED,
            "the schema links no terms of service",
            {"link": link if isinstance(link, str) else None},
        )
    try:
        own = {
            domain
            for host in _hosts(schema.main)[0]
            if (domain := registrable_domain(host)) is not None
        }
        theirs = registrable_domain(urlsplit(link).hostname or "")
    except (InputError, ValueError) as error:
        return Check("tos-attached", UNDETERMINED, str(error), {"link": link})
    evidence = {"link": link, "domains": sorted(own)}
    if theirs is None or theirs not in own:
        return Check(
            "tos-attached",
            NOT_ATTACHED,
            f"the terms lie on {theirs or 'no registrable domain'}, the API on"
            f" {', '.join(sorted(own)) or 'none'}",
            evidence,
        )
    return Check("tos-attached", CLEAN, f"the terms lie on {theirs}, as the API does", evidence)


def read_aliases(tree: Any, where: str = "") -> dict[str, list[str]]:
    """Company aliases from a document `{"brand": ["domain", ...]}`."""
    if not isinstance(tree, dict) or not all(
        isinstance(found, list) and all(isinstance(domain, str) for domain in found)
        for found in tree.values()
    ):
        raise InputError(
            "FMC-012",
            "is no list of company aliases.",
            where=where,
            fix='Write {"brand": ["domain.example"]}.',
        )
    return {
        brand_of(brand) or brand.lower(): [domain.lower() for domain in found]
        for brand, found in tree.items()
    }


def run_checks(
    schema: ToolSchema, *, lists: ModuleLists, aliases: Mapping[str, Iterable[str]] | None = None
) -> list[Check]:
    """Both checks of a schema. A server of the MCP family states neither modules nor keys: both are
    beyond what can be seen from outside.
    """
    if schema.kind == "mcp":
        return [
            Check(name, UNDETERMINED, "the tools of a server do not show it", {})
            for name in ("malicious-module", "api-key-domain-mismatch")
        ]
    return [check_modules(schema, lists), check_key_domain(schema, aliases), check_terms(schema)]


def veto_of(checks: Iterable[Check], *, now: datetime) -> dict[str, Any] | None:
    """The first veto among checks, as an entry holds it."""
    from assay.canon import canonical

    for check in checks:
        if check.outcome == VETO:
            return make_veto(
                check.id,
                evidence=f"{check.reason}. {canonical(check.evidence).decode()}",
                grader=GRADER,
                now=now,
            )
    return None
