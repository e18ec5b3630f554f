"""`assay token`: make, list and revoke the tokens of a ledger's server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from assay.canon import time_text
from assay.cli import options as opt
from assay.cli.frame import Bounds, Command, Options, arg, repeated
from assay.errors import UsageError, count, printable
from assay.project.ledger import open_for
from assay.store.access import Token, check_scopes, create_token, list_tokens, revoke_token
from assay.store.databases import Database


@contextmanager
def _database(options: Options) -> Iterator[Database]:
    database = open_for(options.db).database
    try:
        yield database
    finally:
        database.engine.dispose()


def _shown(token: Token) -> dict[str, Any]:
    return {**token._asdict(), "scopes": list(token.scopes)}


def _create(options: Options) -> int:
    scopes = check_scopes(options.scope or ["read"])
    if len(options.name) > 200:
        raise UsageError("CLI-001", "--name has at most 200 characters.")
    ends = (
        None
        if options.days is None
        else time_text(datetime.now(UTC) + timedelta(days=options.days), "milliseconds")
    )
    with _database(options) as database:
        new = create_token(
            database, project=options.project, name=options.name, scopes=scopes, expires_at=ends
        )
    if not options.json:
        opt.note(
            f"created a token for the project {new.token.project!r}, with"
            f" {count(len(scopes), 'scope')}: {', '.join(new.token.scopes)}. It is shown only once."
        )
    return opt.give(options, {**_shown(new.token), "token": new.text}, [new.text])


def _list(options: Options) -> int:
    with _database(options) as database:
        tokens = list_tokens(database, project=options.project)
    document = {"tokens": [_shown(token) for token in tokens]}
    return opt.give(options, document, _lines(tokens))


def _lines(tokens: Sequence[Token]) -> Iterator[str]:
    if tokens:
        yield _line("id", "project", "scopes", "state", "name")
    now = time_text(datetime.now(UTC), "milliseconds")
    for token in tokens:
        state = _state(token, now)
        yield _line(token.id, token.project, ",".join(token.scopes), state, printable(token.name))
    if not tokens:
        yield "No tokens. `assay token create` makes one."


def _state(token: Token, now: str) -> str:
    if token.revoked_at:
        return f"revoked {token.revoked_at}"
    if token.expires_at is None:
        return "in use"
    return f"{'until' if token.good(now) else 'expired'} {token.expires_at}"


def _line(token: str, project: str, scopes: str, state: str, name: str) -> str:
    return f"{token:<12}  {project:<20}  {scopes:<24}  {state:<34}  {name}"


def _revoke(options: Options) -> int:
    with _database(options) as database:
        token = revoke_token(database, options.id)
    return opt.give(options, _shown(token), [f"{token.id} ended {token.revoked_at}"])


COMMANDS = {
    "token create": Command(
        _create,
        "Make a token. Its text is printed once; only its hash is kept.",
        "assay token create --project support --scope read --scope write",
        (
            "--db",
            arg(
                "--project",
                heading="ledger",
                kind="text",
                trust="freely",
                key="project",
                metavar="NAME",
                default="default",
                help="the one project it is for (default: default)",
            ),
            repeated(
                "--scope",
                "SCOPE",
                "read, write, judge, baseline or admin; may be repeated (default: read)",
                kind="text",
                trust="trusted",
            ),
            arg(
                "--name",
                kind="text",
                trust="freely",
                metavar="TEXT",
                default="",
                help="what it is for, shown in the list",
            ),
            arg(
                "--days",
                trust="trusted",
                within=Bounds(above=0, below=36_500),
                metavar="N",
                type=float,
                help="expire it after N days (default: never)",
            ),
        ),
    ),
    "token list": Command(
        _list,
        "List the tokens, without their secrets.",
        "assay token list --project support",
        (
            "--db",
            arg(
                "--project",
                heading="ledger",
                kind="text",
                trust="freely",
                key="project",
                metavar="NAME",
                help="only those of this project",
            ),
        ),
    ),
    "token revoke": Command(
        _revoke,
        "Revoke a token. Servers refuse it within seconds.",
        "assay token revoke 0123456789ab",
        ("--db", arg("id", kind="text", metavar="ID", help="as `assay token list` shows it")),
    ),
}
