"""The chain: each record of a project carries a hash of itself and of the chain before it, so that
removing, inserting or moving a record breaks it.

The chain covers the digest of the body and what is stored with it: kind, schema, moment, author,
reason, and the links that came with the record. Anyone who notes the head of a chain elsewhere
can also detect that the newest records were cut off.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

import msgspec

_encode = msgspec.json.encode


class ChainLink(NamedTuple):
    """A link between two digests."""

    source: bytes
    relation: str
    target: bytes


def genesis(project: str) -> bytes:
    """The first value of a project's chain."""
    return sha256(b"assay.ledger/1\n" + project.encode()).digest()


def next_chain(
    before: bytes,
    digest: bytes,
    kind: str,
    schema: str | None,
    created_at: str,
    author: str | None,
    reason: str | None,
    edges: Iterable[ChainLink],
) -> bytes:
    """The chain after one more record."""
    stamp = _encode([kind, schema, created_at, author, reason, []])
    hashed = sha256(before + digest + stamp[:-2])  # one by one: there may be very many edges
    joint = b""
    for edge in edges:
        hashed.update(joint + _encode([edge.source.hex(), edge.relation, edge.target.hex()]))
        joint = b","
    hashed.update(stamp[-2:])
    return hashed.digest()
