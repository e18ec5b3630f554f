"""Hashes of the grading specification: eight hexadecimal digits over canonical JSON, as ECMAScript
writes it.

They live in entries, file names and the index, never in a source schema. The other hash, `sha256:`
over a file's bytes, belongs to grade reports: see `source.ToolSchema.file_sha256`.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.tools.ecma import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN_HASHES = ("schemaHash", "selectionHash")
"""Top-level keys that a source must not carry and that its hash leaves out."""


def canonical_text(value: Any) -> str:
    """The canonical text that is hashed: top-level hash keys removed, keys in UTF-16 order, numbers
    as a JavaScript engine prints them.
    """
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if key not in OWN_HASHES}
    try:
        return canonical(value)
    except (ValueError, TypeError) as error:
        raise InputError("HSH-003", f"there is no hash of it: {error}.") from None


def hash8(value: Any) -> str:
    """The first eight hexadecimal digits of sha256 over the canonical text.

    >>> hash8({}), hash8({"a": 1.0}) == hash8({"a": 1})
    ('44136fa3', True)
    """
    return sha256(canonical_text(value).encode("utf-8")).hexdigest()[:8]


def about_hash(data: bytes) -> str:
    """The hash of an About page: over its bytes as they are."""
    return sha256(data).hexdigest()[:8]


def namespace_hash(members: Mapping[str, str], about: str | None) -> str:
    """The hash of a namespace: its schemas with their hashes, and its About page."""
    return hash8({"members": dict(members), "aboutHash": about})
