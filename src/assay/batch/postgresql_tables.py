"""Tables of PostgreSQL: copying one to read it, and writing the grades of a batch as another.

COPY moves rows as CSV in one transaction: a read is a snapshot, a write is complete or absent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from assay.batch.quoting import identifier, text
from assay.batch.sources import BatchSource
from assay.batch.table_output import check_names, opened_duckdb, refuse_table
from assay.errors import InputError
from assay.installing import import_extra
from assay.records.batch import BATCH_SCHEMA

_CONNECT_SECONDS = 10
_BLOCK = 1 << 20
_SAME = ["BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "DATE", "TIMESTAMP"]
_TYPES = dict(zip(_SAME, _SAME, strict=True)) | {
    "TINYINT": "smallint",
    "HUGEINT": "numeric",
    "UTINYINT": "smallint",
    "USMALLINT": "integer",
    "UINTEGER": "bigint",
    "UBIGINT": "numeric",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "VARCHAR[]": "text[]",
}
"""What a column of DuckDB is called in PostgreSQL; any other becomes text."""
_DECIMAL = re.compile(r"DECIMAL(\(\d+,\d+\))")


def stage_tables(sources: Iterable[BatchSource], scratch: str) -> list[BatchSource]:
    """The sources, with PostgreSQL tables copied to a folder, because no engine reads them."""
    return [
        _copied(source, os.path.join(scratch, f"table-{index}.csv"))
        if source.kind == "postgresql"
        else source
        for index, source in enumerate(sources)
    ]


def _copied(source: BatchSource, path: str) -> BatchSource:
    with _connected(source.url, source.name) as connection, open(path, "wb") as stream:
        connection.read_only = True
        cursor = connection.cursor()
        cursor.execute("SET LOCAL extra_float_digits = 1; SET LOCAL client_encoding = 'UTF8'")
        table = _quoted(source.table)
        described = cursor.execute(f"SELECT * FROM {table} LIMIT 0").description
        lowered = [column.name.lower() for column in described]
        twice = [column.name for column in described if lowered.count(column.name.lower()) > 1]
        if twice:
            raise InputError(
                "BAT-020",
                f"the columns '{twice[0]}' and '{twice[1]}' differ only in case, and engines can't"
                " tell them apart.",
                where=source.name,
                fix="Grade a view in which one of them has another name.",
            )
        with cursor.copy(f"COPY (SELECT * FROM {table}) TO STDOUT (FORMAT csv, HEADER)") as rows:
            for block in rows:
                stream.write(block)
    return BatchSource(source.name, "csv", (path,))


def check_postgresql(url: str, tables: list[str], *, where: str, overwrite: bool) -> None:
    """Refuse tables that exist, unless they are a batch's and may be overwritten."""
    check_names([part for table in tables for part in table.split(".", 1)], where)
    with _connected(url, where) as connection:
        _check_free(connection, tables, where, overwrite=overwrite)


def _check_free(connection: Any, tables: Iterable[str], where: str, *, overwrite: bool) -> None:
    for table in tables:
        comment, exists = connection.execute(
            "SELECT obj_description(to_regclass(%s), 'pg_class'), to_regclass(%s) IS NOT NULL",
            [_quoted(table)] * 2,
        ).fetchone()
        if exists:
            refuse_table(table, comment, where, overwrite=overwrite)


def load_postgresql(
    url: str, files: Mapping[str, str], *, where: str, overwrite: bool, scratch: str
) -> None:
    """Load Parquet files as tables, all or none. `overwrite` first drops every table named."""
    with _connected(url, where) as connection:
        connection.execute("SET LOCAL client_encoding = 'UTF8'")
        _check_free(connection, files, where, overwrite=overwrite)  # hours after the first time
        for table, file in files.items():
            name = _quoted(table)
            if overwrite:
                connection.execute(f"DROP TABLE IF EXISTS {name}")
            if os.path.exists(file):
                rows = os.path.join(scratch, "rows.csv")
                columns = _as_csv(file, rows)
                connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
                connection.execute(f"COMMENT ON TABLE {name} IS {text(BATCH_SCHEMA)}")
                copy = f"COPY {name} FROM STDIN (FORMAT csv, NULL '\\N')"
                with connection.cursor().copy(copy) as sink, open(rows, "rb") as stream:
                    while block := stream.read(_BLOCK):
                        sink.write(block)
                os.unlink(rows)


def _as_csv(file: str, path: str) -> list[str]:
    """Write a Parquet file as CSV for COPY; its columns, with the types of PostgreSQL."""
    read = f"read_parquet({text(file)})"
    with opened_duckdb(":memory:") as connection:
        described = connection.execute(f"DESCRIBE FROM {read}").fetchall()
        arrays = [
            f"'{{' || array_to_string(list_transform({identifier(name)}, lambda item: '\"' ||"
            " replace(replace(item, '\\', '\\\\'), '\"', '\\\"') || '\"'), ',') || '}'"
            f" AS {identifier(name)}"
            for name, kind, *_ in described
            if kind == "VARCHAR[]"
        ]
        replaced = f" REPLACE ({', '.join(arrays)})" if arrays else ""
        connection.execute(
            f"COPY (SELECT *{replaced} FROM {read}) TO {text(path)}"
            " (FORMAT csv, HEADER false, NULLSTR '\\N')"
        )
    return [f"{identifier(name)} {_type(kind)}" for name, kind, *_ in described]


def _type(kind: str) -> str:
    decimal = _DECIMAL.fullmatch(kind)
    return f"numeric{decimal[1]}" if decimal else _TYPES.get(kind, "text")


def _quoted(table: str) -> str:
    """A table, or a schema and a table: standard SQL quotes as DuckDB does."""
    return ".".join(map(identifier, table.split(".", 1)))


@contextmanager
def _connected(url: str, where: str) -> Iterator[Any]:
    """A connection in a transaction, which is committed at the end. No error shows the password."""
    psycopg = import_extra("psycopg", "postgres", "a table of PostgreSQL needs psycopg.")
    try:
        with psycopg.connect(url, connect_timeout=_CONNECT_SECONDS) as connection:
            yield connection
    except psycopg.Error as error:
        reason = " ".join((str(error).strip() or type(error).__name__).splitlines()[:1])
        if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
            reason = "the URL is malformed"  # it would be quoted with parts of the password
        raise InputError(
            "BAT-022",
            f"PostgreSQL reports: {reason.rstrip('.')}.",
            where=where,
            fix="Check the host, the user and the table: postgresql://USER@HOST/DATABASE#TABLE.",
        ) from None
