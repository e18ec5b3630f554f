"""Which version the tables of a database have, and upgrading them to the one this program knows.

Opening a ledger normally only reads the version; Alembic is loaded only for an upgrade. A step runs
in one transaction, and if two programs open a new ledger at the same time, one of them creates it.
"""

from __future__ import annotations

import os
import re

from sqlalchemy import Connection, column, func, inspect, select, table

from assay.errors import InputError, UsageError
from assay.store.databases import Database
from assay.store.tables import VERSION_TABLE, metadata

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "migrations")
VERSIONS = tuple(
    sorted(
        name.partition("_")[0]
        for name in os.listdir(os.path.join(_FOLDER, "versions"))
        if re.fullmatch(r"v\d{4}_\w+\.py", name)
    )
)
"""Every version of the tables, the newest last; each is a file in `migrations/versions`."""
_LOCK = 4_151_541_977_218  # any number that no other program uses for an advisory lock


def ensure(database: Database, *, read_only: bool = False) -> None:
    """Create or upgrade the tables if necessary. A database of a newer version of Assay, or of
    another program, is refused.
    """
    if database.read(lambda connection: _is_newest(connection, database.where, read_only)):
        return

    def work(connection: Connection) -> None:
        _lock(connection)
        if not _is_newest(connection, database.where, read_only):
            run_alembic(connection)

    database.write(work)


def current(connection: Connection) -> str | None:
    """The version of the tables; None if Assay has no tables."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(
        select(column("version_num")).select_from(table(VERSION_TABLE))
    ).scalar()


def _is_newest(connection: Connection, where: str, read_only: bool) -> bool:
    version = current(connection)
    if version == VERSIONS[-1]:
        return True
    if version is not None and version not in VERSIONS:
        raise UsageError(
            "STO-004",
            f"this ledger has tables of version {version}; this version of Assay supports up to"
            f" {VERSIONS[-1]}.",
            where=where,
            fix="Install a newer version of Assay.",
        )
    if version is None:
        others = set(inspect(connection).get_table_names()) - {VERSION_TABLE}
        taken = others & set(metadata.tables) if connection.dialect.name == "postgresql" else others
        if taken:
            raise InputError(
                "STO-003",
                f"this database belongs to another program: it has a table '{min(taken)}'.",
                where=where,
                fix="Give the ledger its own database.",
            )
    if read_only:
        raise InputError(
            "STO-004",
            "there is no ledger in this database."
            if version is None
            else f"this ledger has tables of the older version {version}.",
            where=where,
            fix="Run a command that stores something: it creates or upgrades the ledger.",
        )
    return False


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))


def run_alembic(connection: Connection) -> None:
    """Upgrade to the newest version, inside a transaction."""
    from alembic import command  # slow to load, and needed only for an upgrade
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _FOLDER.replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
