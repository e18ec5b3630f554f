"""`published.lock`: what a library has published, with the digest of each file.

The lock of the package also contains the fingerprints of systems and measures, and the parsed
content of each file.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import msgspec

from assay.errors import ShelfError
from assay.files.atomic import atomic_write
from assay.files.json_files import parse_json
from assay.records.typed import convert

BUILTIN = os.path.dirname(os.path.abspath(__file__))
LOCK = "published.lock"


class RecordedSystem(msgspec.Struct, frozen=True):
    """A system as it was published."""

    version: str
    fingerprint: str


Recorded = dict[str, dict[str, RecordedSystem]]  # by family and name


class Lock(msgspec.Struct, frozen=True):
    """The content of a lock."""

    published: dict[str, str]
    """`kind/name@version` to the digest of its file."""
    systems: Recorded = {}
    """The version and the behaviour fingerprint of each system."""
    measures: dict[str, str] = {}
    """The behaviour fingerprint of each measure, by `id@version`, and of each profile, by
    `profiles/id`.
    """
    content: dict[str, Any] = {}
    """The parsed content of each file."""

    def write(self, root: str) -> None:
        """Replace the lock of a library."""
        document = {
            "published": dict(sorted(self.published.items())),
            "systems": self.systems,
            "measures": dict(sorted(self.measures.items())),
            "content": dict(sorted(self.content.items())),
        }
        data = msgspec.json.Encoder(decimal_format="number").encode(document)
        with atomic_write(os.path.join(root, LOCK)) as stream:
            stream.write(msgspec.json.format(data, indent=2) + b"\n")
        _shipped.cache_clear()


def lock_of(root: str = BUILTIN) -> Lock:
    """The lock of a library; an empty one if nothing was published. Only that of the package is
    kept: another may grow while this process runs.
    """
    return _shipped() if root == BUILTIN else _read(root)


@lru_cache(maxsize=1)
def _shipped() -> Lock:
    return _read(BUILTIN)


def _read(root: str) -> Lock:
    path = os.path.join(root, LOCK)
    if not os.path.exists(path):
        return Lock({})
    with open(path, "rb") as stream:
        return parse_lock(stream.read(), path)


@lru_cache(maxsize=8)
def parse_lock(data: bytes, path: str) -> Lock:
    """The bytes of a lock as its record."""
    try:
        return convert(parse_json(data), Lock)
    except ValueError as error:
        raise ShelfError(
            "LIB-002",
            f"the lock cannot be read: {error}.",
            where=path,
            fix="Restore it: it lists what is published.",
        ) from None
