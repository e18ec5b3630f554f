"""The rows of a dataset and where each is: JSON lines, JSON, CSV, Excel, Parquet, or a database
table.
"""

from __future__ import annotations

import os

from msgspec import Struct

from assay.errors import InputError
from assay.files.json_files import read_documents, read_json
from assay.files.tables import Rows, csv_rows, parquet_rows, plain_cell
from assay.installing import import_extra


class TableSource(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a database: its URL as SQLAlchemy writes it, and its name."""

    url: str
    """The database, as SQLAlchemy writes it."""
    name: str
    """The table's name."""


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
    for document in read_documents(path):
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


def table_rows(table: TableSource, where: str) -> Rows:
    """The rows of a database table, in the order of its key."""
    sqlalchemy = import_extra(
        "sqlalchemy", "store", "reading a table needs SQLAlchemy.", where=where, kind=InputError
    )
    try:
        engine = sqlalchemy.create_engine(table.url)
        with engine.connect() as connection:
            source = sqlalchemy.Table(table.name, sqlalchemy.MetaData(), autoload_with=connection)
            order = list(source.primary_key.columns) or [next(iter(source.columns))]
            rows = connection.execute(sqlalchemy.select(source).order_by(*order)).mappings()
            for number, row in enumerate(rows, 1):
                yield plain_cell(dict(row)), f"row {number}"
    except (sqlalchemy.exc.SQLAlchemyError, ImportError, ValueError) as error:
        words = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise InputError(
            "RUN-002",
            f"the table {table.name!r} cannot be read: {type(error).__name__}: {words[:200]}.",
            where=where,
        ) from None


READERS = {
    ".jsonl": _line_rows,
    ".json": _json_rows,
    ".csv": csv_rows,
    ".parquet": parquet_rows,
}
"""The data files that can be read."""
