"""Finds secrets in plain text. A finding reports where one is and how long it is, never its
content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote_plus, urlsplit

_SHAPES = re.compile(
    r"\bsk-[\w-]{20,}|\b[sr]k_live_\w{16,}|\bgh[pousr]_\w{30,}|\bgithub_pat_\w{30,}|\bglpat-[\w-]{20,}|\bxox[abprs]-[\w-]{10,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{35}|(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
"""What keys of well-known services look like, whatever they are called."""

_NAMES = re.compile(
    r"api[-_ ]?key|access[-_ ]?(key|token)|auth[-_"
    r" ]?(token|key)|^authorization$|secret|passw|private[-_ ]?key|subscription[-_"
    r" ]?key|bearer|^x-.*token$",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"demo|test|your|example|sample|public|dummy|placeholder|changeme|x{4,}", re.IGNORECASE
)


class Secret(NamedTuple):
    """Where a text gives a secret away."""

    start: int
    end: int

    def phrase(self) -> str:
        """What may be said about it."""
        return f"a literal of {self.end - self.start} characters that looks like a key"


def names_a_secret(name: str) -> bool:
    """Whether a header, a parameter or an option of this name usually carries a secret."""
    return _NAMES.search(name) is not None


def secret_in(text: str, *, name: str = "") -> Secret | None:
    """The first secret in a text, None if there is none. The name of the field makes a plain
    literal suspect.

    >>> secret_in("Bearer {{API_KEY}}", name="Authorization") is None
    True
    >>> secret_in("Bearer a1b2c3d4e5f6a7b8c9d0", name="Authorization").phrase()
    'a literal of 20 characters that looks like a key'
    """
    if known := _SHAPES.search(text):
        return Secret(known.start(), known.end())
    if name and names_a_secret(name):
        body = re.sub(r"^(bearer|basic|token|apikey)\s+", "", text.strip(), flags=re.IGNORECASE)
        if _opaque(body):
            start = text.rindex(body)
            return Secret(start, start + len(body))
    return _in_address(text) if "://" in text or "?" in text else None


def _opaque(text: str) -> bool:
    """Whether a literal can be a key: long, one word, letters and digits. An address of a chain
    (0x…) and a word in plain language are none.
    """
    if (
        len(text) < 12
        or "{{" in text
        or re.search(r"\s", text)
        or text.startswith("0x")
        or _HARMLESS.search(text)
    ):
        return False
    return re.search(r"[A-Za-z]", text) is not None and re.search(r"\d", text) is not None


def _in_address(text: str) -> Secret | None:
    try:
        parts = urlsplit(text)
        password = parts.password
    except ValueError:
        return None
    if password and "{{" not in password:
        return _span(text, f":{password}@", 1, 1 + len(password))
    for field in parts.query.split("&"):
        key, _, value = field.partition("=")
        if names_a_secret(unquote_plus(key)) and _opaque(unquote_plus(value)):
            return _span(text, field, len(field) - len(value), len(field))
    return None


def _span(text: str, part: str, start: int, end: int) -> Secret:
    """A secret within a part of a text; the whole text where `urlsplit` changed that part."""
    at = text.find(part)
    return Secret(0, len(text)) if at < 0 else Secret(at + start, at + end)


def texts(value: object, path: str, *, with_names: bool = False) -> Iterator[tuple[str, str, str]]:
    """Every text in a tree with its path and the name of its field, and `with_names` the names
    themselves. Without recursion: a hostile tree may have any depth.
    """
    stack: list[tuple[object, str, str]] = [(value, path, "")]
    while stack:
        item, where, name = stack.pop()
        if isinstance(item, str):
            yield item, where, name
        elif isinstance(item, dict):
            yield from ((str(key), where, "") for key in item if with_names)
            stack += [
                (child, f"{where}.{key}" if where else str(key), str(key))
                for key, child in reversed(item.items())
            ]
        elif isinstance(item, list | tuple):
            stack += [
                (child, f"{where}[{index}]", name)
                for index, child in reversed(list(enumerate(item)))
            ]
