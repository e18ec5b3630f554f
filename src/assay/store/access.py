"""Tokens: who may do what in which project.

A token has the form `assay_<id>_<secret>`. The id finds its row; the hash of the secret is compared
in constant time. The token is shown once, when it is created.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import insert, select, update
from sqlalchemy.engine import Connection, Row

from assay.errors import UsageError
from assay.registry import near_miss
from assay.store.databases import Database
from assay.store.drafts import note
from assay.store.ledger import known_project
from assay.store.tables import now_text, tokens

SCOPES = ("read", "write", "judge", "baseline", "admin")
"""`write` is for a runner's own results. Judge cards and baselines, by which they are judged, need
scopes that such a token lacks.
"""
_TOKEN = re.compile(r"assay_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


class Token(NamedTuple):
    """What is known about a token, without its secret."""

    id: str
    project: str
    name: str
    scopes: tuple[str, ...]
    created_at: str
    expires_at: str | None
    revoked_at: str | None

    def good(self, now: str) -> bool:
        """Whether it may still be used."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class NewToken(NamedTuple):
    """A token and its text, which is shown only once."""

    token: Token
    text: str


def _token(row: Row[Any]) -> Token:
    values = {name: row._mapping[name] for name in Token._fields}
    return Token(**{**values, "scopes": tuple(row.scopes.split(","))})


def check_scopes(names: Iterable[str]) -> tuple[str, ...]:
    """The scopes, each once, in the order of `SCOPES`."""
    requested = list(names)
    for name in requested:
        if name not in SCOPES:
            raise UsageError(
                "STO-014",
                f"there is no scope {name!r}.{near_miss(name, SCOPES)}",
                fix=f"Scopes: {', '.join(SCOPES)}. Repeat --scope to give several.",
            )
    if not requested:
        raise UsageError(
            "STO-014", "a token needs at least one scope.", fix=f"Scopes: {', '.join(SCOPES)}."
        )
    return tuple(scope for scope in SCOPES if scope in requested)


def create_token(
    database: Database,
    *,
    project: str,
    name: str,
    scopes: Iterable[str],
    expires_at: str | None = None,
) -> NewToken:
    """Create a token."""
    known_project(project)
    name = note("name", name) or ""
    secret = secrets.token_urlsafe(32)
    token = Token(
        secrets.token_hex(6), project, name, check_scopes(scopes), now_text(), expires_at, None
    )
    row = {**token._asdict(), "scopes": ",".join(token.scopes), "hash": _hash(secret)}
    database.write(lambda connection: connection.execute(insert(tokens).values(row)))
    return NewToken(token, f"assay_{token.id}_{secret}")


def list_tokens(database: Database, *, project: str | None = None) -> list[Token]:
    """Every token, or those of a project, oldest first."""
    query = select(tokens).order_by(tokens.c.created_at, tokens.c.id)
    if project is not None:
        query = query.where(tokens.c.project == known_project(project))
    return database.read(lambda connection: [_token(row) for row in connection.execute(query)])


def revoke_token(database: Database, token_id: str) -> Token:
    """Revoke a token. One that was revoked before keeps its date."""
    here = tokens.c.id == (token_id if token_id.isascii() else "")

    def work(connection: Connection) -> Token:
        connection.execute(
            update(tokens).where(here, tokens.c.revoked_at.is_(None)).values(revoked_at=now_text())
        )
        row = connection.execute(select(tokens).where(here)).first()
        if row is None:
            known = list(connection.execute(select(tokens.c.id)).scalars())
            raise UsageError(
                "STO-012",
                f"there is no token {token_id!r}.{near_miss(token_id, known)}",
                fix="`assay token list` shows them.",
            )
        return _token(row)

    return database.write(work)


def find_token(database: Database, text: str) -> Token | None:
    """The token with this text; None if there is none or it is no longer valid."""
    match = _TOKEN.fullmatch(text)
    if match is None:
        return None
    query = select(tokens).where(tokens.c.id == match[1])
    row = database.read(lambda connection: connection.execute(query).first())
    # One comparison in every case: its duration doesn't reveal whether an id exists.
    same = hmac.compare_digest(
        row._mapping["hash"] if row is not None else _NOBODY, _hash(match[2])
    )
    if row is None or not same:
        return None
    token = _token(row)
    return token if token.good(now_text()) else None


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
