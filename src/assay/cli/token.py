"""`assay token`: make, list and revoke the tokens of a ledger's server."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.frame import Command, arg, repeated
from assay.cli.ledger import extra, open_for
from assay.errors import ExitCode, UsageError, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    with extra():
        from assay.store.access import Token
    from assay.store.databases import Database


@contextmanager
def _database(options: argparse.Namespace) -> Iterator[Database]:
    database = open_for(options.db).database
    try:
        yield database
    finally:
        database.engine.dispose()


def _shown(token: Token) -> dict[str, Any]:
    return {**token._asdict(), "scopes": list(token.scopes)}


def _create(options: argparse.Namespace) -> int:
    with extra():
        from assay.store.access import check_scopes, create_token

    scopes = check_scopes(options.scope or ["read"])
    if len(options.name) > 200:
        raise UsageError("CLI-001", "--name has at most 200 characters.")
    if options.days is not None and not 0 < options.days < 36_500:
        raise UsageError("CLI-001", f"--days {options.days:g} is not between 0 and 36,500 days.")
    ends = (
        None
        if options.days is None
        else (datetime.now(UTC) + timedelta(days=options.days))
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
    with _database(options) as database:
        new = create_token(
            database, project=options.project, name=options.name, scopes=scopes, expires_at=ends
        )
    if options.json:
        opt.print_json({**_shown(new.token), "token": new.text})
    else:
        sys.stderr.write(
            f"assay: created a token for {new.token.project} with the scope"
            f" {', '.join(new.token.scopes)}."
            " It is shown only once.\n"
        )
        sys.stdout.write(f"{new.text}\n")
    return ExitCode.PASSED


def _list(options: argparse.Namespace) -> int:
    with extra():
        from assay.store.access import list_tokens

    with _database(options) as database:
        found = list_tokens(database, project=options.project)
    if options.json:
        opt.print_json({"tokens": [_shown(token) for token in found]})
        return ExitCode.PASSED
    for token in found:
        state = (
            f"revoked {token.revoked_at}"
            if token.revoked_at
            else f"until {token.expires_at}"
            if token.expires_at
            else "in use"
        )
        sys.stdout.write(
            f"{token.id}  {token.project:<20}  {','.join(token.scopes):<24}  {state:<34} "
            f" {printable(token.name)}\n"
        )
    if not found:
        sys.stdout.write("No tokens. `assay token create` makes one.\n")
    return ExitCode.PASSED


def _revoke(options: argparse.Namespace) -> int:
    with extra():
        from assay.store.access import revoke_token

    with _database(options) as database:
        token = revoke_token(database, options.id)
    if options.json:
        opt.print_json(_shown(token))
    else:
        sys.stdout.write(f"{token.id} ended {token.revoked_at}\n")
    return ExitCode.PASSED


COMMANDS = {
    "token create": Command(
        _create,
        "Make a token. Its text is printed once; only its hash is kept.",
        "assay token create --project support --scope read --scope write",
        (
            "--db",
            arg(
                "--project",
                metavar="NAME",
                default="default",
                help="the one project it is for (default: default)",
            ),
            repeated(
                "--scope", "SCOPE", "read, write, judge or admin; may be repeated (default: read)"
            ),
            arg(
                "--name",
                metavar="TEXT",
                default="",
                help="what it is for, shown in the list",
            ),
            arg(
                "--days",
                metavar="N",
                type=float,
                help="expire it after N days (default: never)",
            ),
        ),
    ),
    "token list": Command(
        _list,
        "The tokens there are.",
        "assay token list --project support",
        ("--db", arg("--project", metavar="NAME", help="only those of this project")),
    ),
    "token revoke": Command(
        _revoke,
        "End a token. Servers refuse it within seconds.",
        "assay token revoke 0123456789ab",
        ("--db", arg("id", metavar="ID", help="as `assay token list` shows it")),
    ),
}
