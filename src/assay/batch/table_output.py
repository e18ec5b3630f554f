"""The grades of a batch as a table of a DuckDB file: `-o lake.duckdb#grades`.

Grades and rejected rows are loaded from the files that a batch wrote, in one transaction, so a kill
leaves the database as it was. A comment marks the tables as a batch's: only those are replaced.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from assay.batch.quoting import identifier, text
from assay.errors import UsageError
from assay.installing import import_extra
from assay.records.batch import BATCH_SCHEMA

if TYPE_CHECKING:
    import duckdb

MAX_NAME = 55
"""PostgreSQL cuts names at 63 characters, and `_rejects` is added to the table's."""
_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME + len('_rejects') - 1}}}")


def check_names(names: Iterable[str], where: str) -> None:
    """Refuse a name that would need quotes in SQL."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(
                "CLI-001",
                f"-o '{where}' names a table that a batch can't write.",
                fix=f"Write letters, digits and underscores, {MAX_NAME} at most, such as #grades.",
            )


def refuse_table(name: str, comment: str | None, where: str, *, overwrite: bool) -> None:
    """Refuse a table that exists, unless it is a batch's and may be overwritten."""
    if not (comment or "").startswith(BATCH_SCHEMA):
        raise UsageError(
            "BAT-021",
            f"already has '{name}', which isn't the output of a batch, so it is never overwritten.",
            where=where,
            fix="Write to another table.",
        )
    if not overwrite:
        raise UsageError(
            "BAT-021",
            f"already has a table '{name}'.",
            where=where,
            fix="Choose another -o, or replace it with --overwrite.",
        )


def check_tables(database: str, tables: list[str], *, overwrite: bool) -> None:
    """Refuse tables that exist, unless they are a batch's and may be overwritten."""
    check_names(tables, f"{database}#{tables[0]}")
    if not os.path.lexists(database):
        return
    with opened_duckdb(database, read_only=True) as connection:
        rows = connection.execute(
            "SELECT table_name, comment FROM duckdb_tables() WHERE schema_name = 'main'"
            " UNION ALL SELECT view_name, NULL FROM duckdb_views()"
            " WHERE schema_name = 'main' AND NOT internal"
        ).fetchall()
    comments = {name.lower(): comment for name, comment in rows}
    for name in tables:
        if name.lower() in comments:
            refuse_table(name, comments[name.lower()], database, overwrite=overwrite)


def load_tables(database: str, files: Mapping[str, str], *, overwrite: bool) -> None:
    """Make tables of the rows of Parquet files, all of them or none. With `overwrite`, tables of
    these names are replaced, and dropped where there is no file for them.
    """
    check_tables(database, list(files), overwrite=overwrite)  # hours after the first time
    with opened_duckdb(database) as connection:
        connection.begin()
        for table, file in files.items():
            name = identifier(table)
            if overwrite:
                connection.execute(f"DROP TABLE IF EXISTS {name}")
            if os.path.exists(file):
                connection.execute(f"CREATE TABLE {name} AS FROM read_parquet({text(file)})")
                connection.execute(f"COMMENT ON TABLE {name} IS {text(BATCH_SCHEMA)}")
        connection.commit()


@contextmanager
def opened_duckdb(database: str, *, read_only: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection, closed at the end; a transaction that wasn't committed is rolled back."""
    duckdb = import_extra("duckdb", "batch", "writing a table needs duckdb.")
    config = {"autoinstall_known_extensions": "false"}
    try:
        with duckdb.connect(database, read_only=read_only, config=config) as connection:
            yield connection
    except duckdb.Error as error:
        raise UsageError(
            "FIL-008",
            f"DuckDB refused: {str(error).splitlines()[0].rstrip('.')}.",
            where=database,
            fix="Close other programs that use the database, or write to another file.",
        ) from None
