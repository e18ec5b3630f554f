"""`assay token`: make, list and revoke the tokens of a ledger's server."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.ledger import add_db, extra, open_for
from assay.errors import ExitCode, UsageError, printable

if TYPE_CHECKING:
    import argparse

    with extra():
        from assay.store.access import Token
    from assay.store.databases import Database

ACTIONS = {
    "create": "make a token for a project; its text is printed once and kept nowhere",
    "list": "the tokens there are, without their secrets",
    "revoke": "end a token",
}


def run(verb: str, argv: list[str]) -> int:
    """Run one of the actions."""
    action = opt.choose(
        "token",
        argv,
        ACTIONS,
        what="The tokens that let clients into a server.",
        example="assay token create --project support --scope read --scope write",
    )
    if isinstance(action, ExitCode):
        return action
    return {"create": _create, "list": _list, "revoke": _revoke}[action](argv[1:])


def _parser(action: str, what: str, example: str) -> argparse.ArgumentParser:
    made = opt.parser(f"token {action}", what, example)
    add_db(made)
    return made


def _database(options: argparse.Namespace) -> Database:
    return open_for(options.db).database


def _shown(token: Token) -> dict[str, Any]:
    return {**token._asdict(), "scopes": list(token.scopes)}


def _create(argv: list[str]) -> int:
    made = _parser(
        "create",
        "Make a token. Its text is printed once; only its hash is kept.",
        "assay token create --project support --scope read --scope write",
    )
    made.add_argument(
        "--project",
        metavar="NAME",
        default="default",
        help="the one project it is for (default: default)",
    )
    made.add_argument(
        "--scope",
        metavar="SCOPE",
        action="append",
        default=[],
        help="read, write, judge or admin; may be repeated (default: read)",
    )
    made.add_argument(
        "--name", metavar="TEXT", default="", help="what it is for, to be found again in the list"
    )
    made.add_argument(
        "--days", metavar="N", type=float, help="end it after so many days (default: never)"
    )
    options = made.parse_args(argv)
    with extra():
        from assay.store.access import check_scopes, create_token

    scopes = check_scopes(options.scope or ["read"])
    if len(options.name) > 200:
        raise UsageError("CLI-001", "--name has at most 200 signs.")
    if options.days is not None and not 0 < options.days < 36_500:
        raise UsageError(
            "CLI-001", f"--days {options.days:g} is no number of days up to a hundred years."
        )
    ends = (
        None
        if options.days is None
        else (datetime.now(UTC) + timedelta(days=options.days))
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
    database = _database(options)
    try:
        new = create_token(
            database, project=options.project, name=options.name, scopes=scopes, expires_at=ends
        )
    finally:
        database.engine.dispose()
    if options.json:
        opt.print_json({**_shown(new.token), "token": new.text})
    else:
        sys.stderr.write(
            f"assay: a token for project {new.token.project} with {', '.join(new.token.scopes)}. It"
            " is shown this once.\n"
        )
        sys.stdout.write(f"{new.text}\n")
    return ExitCode.PASSED


def _list(argv: list[str]) -> int:
    made = _parser("list", "The tokens there are.", "assay token list --project support")
    made.add_argument("--project", metavar="NAME", help="only those of this project")
    options = made.parse_args(argv)
    with extra():
        from assay.store.access import list_tokens

    database = _database(options)
    try:
        found = list_tokens(database, project=options.project)
    finally:
        database.engine.dispose()
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
        sys.stdout.write("there are no tokens.\n")
    return ExitCode.PASSED


def _revoke(argv: list[str]) -> int:
    made = _parser(
        "revoke",
        "End a token. Servers refuse it within seconds.",
        "assay token revoke 0123456789ab",
    )
    made.add_argument("id", metavar="ID", help="as `assay token list` shows it")
    options = made.parse_args(argv)
    with extra():
        from assay.store.access import revoke_token

    database = _database(options)
    try:
        token = revoke_token(database, options.id)
    finally:
        database.engine.dispose()
    if options.json:
        opt.print_json(_shown(token))
    else:
        sys.stdout.write(f"{token.id} ended {token.revoked_at}\n")
    return ExitCode.PASSED
