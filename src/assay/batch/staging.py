"""A copy of a PostgreSQL table, for engines that don't reach the database themselves.

The table is streamed as CSV by one COPY, which sees one moment, into the workplace of the batch;
memory stays small, and numbers keep the digits that the database has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from assay.batch.sources import BatchSource
from assay.errors import InputError, UsageError
from assay.installing import install_hint

_CONNECT_SECONDS = 10


def stage_tables(sources: Iterable[BatchSource], scratch: str) -> list[BatchSource]:
    """The same sources, with the tables of PostgreSQL replaced by copies in a folder."""
    return [
        _copied(source, os.path.join(scratch, f"table-{index}.csv"))
        if source.kind == "postgresql"
        else source
        for index, source in enumerate(sources)
    ]


def _copied(source: BatchSource, path: str) -> BatchSource:
    try:
        import psycopg
        from psycopg import sql
    except ImportError:
        raise UsageError(
            "RUN-004", "reading PostgreSQL needs psycopg.", fix=install_hint("postgres")
        ) from None
    table = sql.Identifier(*source.table.split("."))
    query = sql.SQL("COPY (SELECT * FROM {}) TO STDOUT (FORMAT csv, HEADER)").format(table)
    try:
        with (
            psycopg.connect(source.url, connect_timeout=_CONNECT_SECONDS) as connection,
            connection.cursor() as cursor,
            open(path, "wb") as stream,
        ):
            connection.read_only = True
            cursor.execute("SET LOCAL extra_float_digits = 1; SET LOCAL client_encoding = 'UTF8'")
            with cursor.copy(query) as rows:
                for block in rows:
                    stream.write(block)
    except psycopg.Error as error:
        reason = " ".join((str(error).strip() or type(error).__name__).splitlines()[:1])
        if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
            reason = "the URL is malformed"  # it would be quoted with parts of the password
        raise InputError(
            "BAT-022",
            f"PostgreSQL says: {reason}.".replace("..", "."),
            where=source.name,
            fix="Check the host, the user and the table: postgresql://USER@HOST/DATABASE#TABLE.",
        ) from None
    return BatchSource(source.name, "csv", (path,))
