"""Finds the owner of an API key from its name, the domains that a schema calls, and the owners in
`data/owners.json`.

The answer is clean, veto or undetermined. A veto needs a known owner: a name that speaks of nobody
known may belong to anyone, also to the owner of the host. Such a key is clean only for the domain
whose name it has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, ValidationError, json

from assay.errors import InputError
from assay.families.tools.entry import DATA
from assay.families.tools.manifest import tools_of
from assay.families.tools.validation import parameters_of
from assay.families.tools.veto import CLEAN, UNDETERMINED, VETO
from assay.installing import import_extra
from assay.records.typed import convert


class _Owner(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose keys carry a word, and which domains are theirs."""

    domains: frozenset[str]
    reason: str
    suffixes: tuple[str, ...] = ()
    """Whole registries that only the owner gives names in, as `gov`."""
    shared: bool = False
    """Others use the word too: it clears a key for these domains, and gives no ground for a veto
    elsewhere.
    """

    def has(self, domain: str) -> bool:
        return domain in self.domains or any(
            domain.endswith(f".{suffix}") for suffix in self.suffixes
        )


class _KeyWords(Struct, frozen=True):
    """What the words in a key's name mean."""

    generic: frozenset[str]
    """They say what a key is for, not whose it is."""
    credential: frozenset[str]
    """They make a parameter a secret: only a secret of another company is a veto."""
    known: dict[str, _Owner]
    """Words whose owner is known. Only the owner's domains get the key."""


@cache
def key_words() -> _KeyWords:
    """The words in names of keys: those with a known owner, and those that many use."""
    with open(os.path.join(DATA, "owners.json"), "rb") as stream:
        return json.decode(stream.read(), type=_KeyWords)


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+[A-Za-z]*")


def registrable_domain(host: str, *, only_icann: bool = False) -> str | None:
    """The domain that its owner registered, by the public suffix list that ships offline; None for
    an address or a bare suffix.

    A guest on a platform counts as an owner (`me.github.io`), unless only the suffixes of
    registries are asked for.

    >>> registrable_domain("pro-api.coinmarketcap.com"), registrable_domain("data.gov.uk")
    ('coinmarketcap.com', 'data.gov.uk')
    """
    if re.fullmatch(r"[\d.]+|\[?[0-9a-fA-F:]+\]?", host):
        return None
    domain = _suffix_list(only_icann).privatesuffix(host.lower().rstrip("."))
    return str(domain) if domain else None


@cache
def _suffix_list(only_icann: bool) -> Any:
    suffixes = import_extra(  # 0.2 s; only keys need it
        "publicsuffixlist",
        "flowmcp",
        "the list of public suffixes is not installed.",
        code="FMC-006",
        kind=InputError,
    )
    return suffixes.PublicSuffixList(only_icann=only_icann)


def _tokens(name: str) -> list[str]:
    """The words of a key's name that can say whose it is."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return [word for word in words if word not in key_words().generic and not word.isdigit()]


def brand_of(name: str) -> str:
    """The words of a key's name that say whose it is, joined; empty if it says nobody's.

    >>> brand_of("CMC_API_KEY"), brand_of("API_KEY_V2"), brand_of("coinGeckoApiKey")
    ('cmc', '', 'coingecko')
    """
    return "".join(_tokens(name))


def is_credential(name: str) -> bool:
    """Whether the name of a variable says that it holds a secret.

    >>> is_credential("ACME_API_KEY"), is_credential("TZ")
    (True, False)
    """
    return any(word.lower() in key_words().credential for word in _WORDS.findall(name))


_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", re.ASCII)
_KEY_ENDING = re.compile(
    r"_(API|ACCESS|AUTH|SECRET|CLIENT|BEARER)_?(KEY|TOKEN|SECRET)\Z|_PASSWORD\Z", re.ASCII
)


def named_keys(text: str) -> list[str]:
    """The keys that a text names: variables that end as keys do, or that speak of a known owner.
    `PRIMARY_KEY` is none.

    >>> named_keys("Needs OPENAI_KEY or ACME_API_KEY; sorts by PRIMARY_KEY.")
    ['OPENAI_KEY', 'ACME_API_KEY']
    """
    named = dict.fromkeys(_VARIABLE.findall(text))
    return [
        name
        for name in named
        if _KEY_ENDING.search(name) or (is_credential(name) and _owners_in(_tokens(name)))
    ]


def _owners_in(tokens: list[str]) -> dict[str, _Owner]:
    """The known owners that a key's name speaks of: by the whole name, by one of its words, or by
    adjacent words.
    """
    runs = {
        "".join(tokens[start:end])
        for start in range(len(tokens))
        for end in range(start + 1, len(tokens) + 1)
    }
    return {word: owner for word, owner in key_words().known.items() if word in runs}


def owner_verdict(name: str, host: str, aliases: Mapping[str, Iterable[str]]) -> tuple[str, str]:
    """Whether a server parameter belongs to the owner of a host: clean, veto or undetermined, and
    why.
    """
    domain = registrable_domain(host) or host
    tokens = _tokens(name)
    brand = "".join(tokens)
    if domain in aliases.get(brand or name.lower(), ()):
        return CLEAN, "the list of aliases says so"
    if not brand:
        return UNDETERMINED, "its name does not say whose key it is"
    label = re.sub(r"[^a-z0-9]", "", domain.split(".")[0])
    owners = _owners_in(tokens)
    if owners:
        return _known_owner(name, domain, label, owners, whole=brand in owners)
    if brand in (label, domain.replace(".", "")):
        return CLEAN, f"it has the name of {domain}"
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
    if not whole and not is_credential(name):
        return UNDETERMINED, f"{theirs}, and the name does not say that it is a key"
    return VETO, f"{theirs}; {domain} is not"


_SCHEME = re.compile(r"://|\A\s*https?:", re.IGNORECASE)
_OPEN_END = re.compile(r"[^/]*//[^/?#]*\}\}(?::\d+)?(?:[/?#]|\Z)")
"""A host that ends in a placeholder: what fills it names the domain."""
_ADDRESS = re.compile(r".*//|\s*https?:", re.IGNORECASE | re.DOTALL)
"""What may be an address. A browser reads `https:other.host` as `https://other.host`."""


def hosts_of(main: dict[str, Any], in_handlers: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """The hosts that a schema calls, its root, any tool's own and those of its handlers; and the
    addresses that a browser reads otherwise than we do.
    """
    found = [main.get("root"), *in_handlers]
    for name, tool in tools_of(main).items():
        if isinstance(tool, dict):
            base, path = (
                _filled(address, tool, name)
                for address in (tool.get("root") or main.get("root"), tool.get("path"))
            )
            found += [base, path]
            if isinstance(path, str) and "://" not in path and path[:1] not in ("/", "?", "#"):
                found.append(f"{base}{path}")  # `@other.host` and `.other.host` change the host
    hosts: list[str] = []
    odd = []
    for url in found:
        if not isinstance(url, str) or not _ADDRESS.match(url):
            continue
        plain = url.replace("{{", "").replace("}}", "")
        try:
            parts = urlsplit(plain)
            host = parts.hostname
        except ValueError:
            host, parts = None, urlsplit("")
        if (
            "\\" in url
            or any(ord(character) <= 32 or ord(character) == 127 for character in url)
            or (host is None and _SCHEME.search(url))
            or _OPEN_END.match(url)
        ):
            odd.append(url)
        elif host and host not in hosts:
            hosts.append(host)
    return hosts, odd


def _filled(address: object, tool: dict[str, Any], name: str) -> object:
    """An address with the values that the schema itself fills in: `{{x}}` may name another host."""
    if isinstance(address, str):
        for parameter in parameters_of(tool, name):
            if parameter.location == "insert" and "{{" not in parameter.value:
                address = address.replace(f"{{{{{parameter.key}}}}}", parameter.value)
    return address


def read_aliases(tree: Any, where: str = "") -> dict[str, list[str]]:
    """Company aliases from a document `{"brand": ["domain", ...]}`; a key without a brand in its
    name, as `API_KEY`, goes by its whole name.
    """
    try:
        aliases = convert(tree, dict[str, list[str]])
    except ValidationError:
        raise InputError(
            "FMC-012",
            "is not a list of company aliases.",
            where=where,
            fix='Write {"brand": ["domain.example"]}.',
        ) from None
    return {
        brand_of(brand) or brand.lower(): [domain.lower() for domain in domains]
        for brand, domains in aliases.items()
    }
