"""Tokens and idempotency keys.

A token reads `assay_<id>_<secret>`. The id finds its row, the secret is compared in constant time
with the hash. It is shown once, when it is made.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import insert, select, update

from assay.errors import UsageError
from assay.registry import near_miss
from assay.store.serving import answers, insert_new, now_text, tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy.engine import Connection, Row

    from assay.store.databases import Database

SCOPES = ("read", "write", "judge", "admin")
_TOKEN = re.compile(r"assay_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
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
    """Scopes in their order, each once."""
    given = list(names)
    for name in given:
        if name not in SCOPES:
            raise UsageError(
                "STO-014",
                f"there is no scope {name!r}.{near_miss(name, SCOPES)}",
                fix=f"Scopes: {', '.join(SCOPES)}.",
            )
    if not given:
        raise UsageError(
            "STO-014", "a token needs at least one scope.", fix=f"Scopes: {', '.join(SCOPES)}."
        )
    return tuple(scope for scope in SCOPES if scope in given)


def create_token(
    database: Database,
    *,
    project: str,
    name: str,
    scopes: Iterable[str],
    expires_at: str | None = None,
) -> NewToken:
    """Make a token."""
    if not PROJECT.fullmatch(project):
        raise UsageError(
            "STO-013",
            f"{project!r} is not a name for a project.",
            fix="Letters, digits, dots, dashes and underscores, at most 100.",
        )
    secret = secrets.token_urlsafe(32)
    made = Token(
        secrets.token_hex(6), project, name, check_scopes(scopes), now_text(), expires_at, None
    )
    row = {**made._asdict(), "scopes": ",".join(made.scopes), "hash": _hash(secret)}
    database.write(lambda connection: connection.execute(insert(tokens).values(row)))
    return NewToken(made, f"assay_{made.id}_{secret}")


def list_tokens(database: Database, *, project: str | None = None) -> list[Token]:
    """Every token, or those of a project, oldest first."""
    query = select(tokens).order_by(tokens.c.created_at, tokens.c.id)
    if project is not None:
        query = query.where(tokens.c.project == project)
    return database.read(lambda connection: [_token(row) for row in connection.execute(query)])


def revoke_token(database: Database, token_id: str) -> Token:
    """End a token. One that has ended stays as it is."""

    def work(connection: Connection) -> Token:
        connection.execute(
            update(tokens)
            .where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
            .values(revoked_at=now_text())
        )
        row = connection.execute(select(tokens).where(tokens.c.id == token_id)).first()
        if row is None:
            known = [found.id for found in connection.execute(select(tokens.c.id))]
            raise UsageError(
                "STO-012",
                f"there is no token {token_id!r}.{near_miss(token_id, known)}",
                fix="`assay token list` shows them.",
            )
        return _token(row)

    return database.write(work)


def find_token(database: Database, text: str) -> Token | None:
    """The token with this text, if there is one that may still be used."""
    found = _TOKEN.fullmatch(text)
    if found is None:
        return None
    query = select(tokens).where(tokens.c.id == found[1])
    row = database.read(lambda connection: connection.execute(query).first())
    # One comparison in every case: its duration doesn't reveal whether an id exists.
    same = hmac.compare_digest(
        row._mapping["hash"] if row is not None else _NOBODY, _hash(found[2])
    )
    if row is None or not same:
        return None
    token = _token(row)
    return token if token.good(now_text()) else None


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


# --- answers that are given again


class StoredAnswer(NamedTuple):
    """What was answered to the first request with a key."""

    request: str
    status: int
    location: str | None
    body: bytes


def find_answer(database: Database, project: str, key: str) -> StoredAnswer | None:
    """The stored answer for a key."""
    query = select(answers.c.request, answers.c.status, answers.c.location, answers.c.body).where(
        answers.c.project == project, answers.c.key == key
    )
    row = database.read(lambda connection: connection.execute(query).first())
    return None if row is None else StoredAnswer(row[0], row[1], row[2], bytes(row[3]))


def keep_answer(database: Database, project: str, key: str, answer: StoredAnswer) -> StoredAnswer:
    """Store the answer for a key. If another request with the key was quicker, its answer
    counts.
    """
    row = {"project": project, "key": key, "created_at": now_text(), **answer._asdict()}
    if database.write(lambda connection: insert_new(connection, answers, row)):
        return answer
    return find_answer(database, project, key) or answer
