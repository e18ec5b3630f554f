"""The rows of a dataset and where each is: JSON lines, JSON, CSV, Excel, Parquet, or a database
table.
"""

from __future__ import annotations

import csv
import io
import os
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from assay.errors import InputError
from assay.files.json_files import Unread, open_input, read_json, stream_documents
from assay.installing import install_hint

if TYPE_CHECKING:
    from collections.abc import Iterator

    Rows = Iterator[tuple[Any, str]]


class TableSource(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a database: its URL as SQLAlchemy writes it, and its name."""

    url: str
    name: str


def file_rows(path: str, *, sheet: str | None = None) -> Rows:
    """The rows of a data file; `sheet` names the one of a workbook."""
    extension = os.path.splitext(path)[1].lower()
    if extension == ".xlsx":
        from assay.running.excel import excel_rows

        return excel_rows(path, sheet)
    if sheet is not None:
        raise InputError("RUN-002", "only an .xlsx workbook has a `sheet`.", where=path)
    if extension not in READERS:
        raise InputError(
            "RUN-002",
            f"Can't read {extension or 'a file without an extension'} as a dataset.",
            where=path,
            fix="Save it as .jsonl, .json, .csv, .xlsx or .parquet, or describe it in a .yaml.",
        )
    return READERS[extension](path)


def _line_rows(path: str) -> Rows:
    for document in stream_documents(path):
        if isinstance(document, Unread):
            fault = document.fault
            raise InputError(fault.code, fault.message, where=path, fix=fault.fix, faults=[fault])
        yield document.tree, f"line {document.line}"


def _json_rows(path: str) -> Rows:
    tree = read_json(path).tree
    rows = tree.get("samples") if isinstance(tree, dict) else tree
    if not isinstance(rows, list):
        raise InputError(
            "RUN-002",
            "is neither a list of samples nor an object with a list `samples`.",
            where=path,
        )
    for index, row in enumerate(rows):
        yield row, f"[{index}]"


def _csv_rows(path: str) -> Rows:
    with open_input(path) as stream:
        try:
            text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
            reader = csv.DictReader(text, strict=True)
            names = reader.fieldnames or []
            if len(set(names)) != len(names):
                raise InputError("RUN-002", "two columns have the same name.", where=path)
            for row in reader:
                if None in row or None in row.values():
                    raise InputError(
                        "RUN-002",
                        f"line {reader.line_num} has another number of columns than the first.",
                        where=path,
                    )
                yield dict(row), f"line {reader.line_num}"
            text.detach()
        except UnicodeDecodeError:
            raise InputError("FIL-002", "is not UTF-8 text.", where=path) from None
        except csv.Error as error:
            raise InputError("FIL-002", f"is not CSV: {error}.", where=path) from None


def _parquet_rows(path: str) -> Rows:
    try:
        import duckdb
    except ImportError:
        raise InputError(
            "RUN-004",
            "reading Parquet needs duckdb.",
            where=path,
            fix=install_hint("parquet"),
        ) from None
    with open_input(path):  # the same error for a missing file as elsewhere
        pass
    connection = duckdb.connect(
        config={"enable_external_access": "true", "autoinstall_known_extensions": "false"}
    )
    try:
        cursor = connection.execute("select * from read_parquet(?)", [path])
        names = [column[0] for column in cursor.description or ()]
        for number, row in enumerate(iter(cursor.fetchone, None), 1):
            yield _plain(dict(zip(names, row, strict=True))), f"row {number}"
    except duckdb.Error as error:
        raise InputError(
            "FIL-002", f"can't be read as Parquet: {str(error).splitlines()[0]}.", where=path
        ) from None
    finally:
        connection.close()


def table_rows(table: TableSource, where: str) -> Rows:
    """The rows of a database table, in the order of its key."""
    try:
        import sqlalchemy
    except ImportError:
        raise InputError(
            "RUN-004",
            "reading a table needs SQLAlchemy.",
            where=where,
            fix=install_hint("store"),
        ) from None
    try:
        engine = sqlalchemy.create_engine(table.url)
        with engine.connect() as connection:
            source = sqlalchemy.Table(table.name, sqlalchemy.MetaData(), autoload_with=connection)
            order = list(source.primary_key.columns) or [next(iter(source.columns))]
            rows = connection.execute(sqlalchemy.select(source).order_by(*order)).mappings()
            for number, row in enumerate(rows, 1):
                yield _plain(dict(row)), f"row {number}"
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        words = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise InputError(
            "RUN-002",
            f"the table {table.name!r} cannot be read: {type(error).__name__}: {words[:200]}.",
            where=where,
        ) from None


def _plain(value: Any) -> Any:
    """A value of a database as JSON has it: dates as text, NaN as null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or value != value:
        return None
    if isinstance(value, str | int | float | Decimal):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


READERS = {
    ".jsonl": _line_rows,
    ".json": _json_rows,
    ".csv": _csv_rows,
    ".parquet": _parquet_rows,
}
"""The data files that can be read."""
