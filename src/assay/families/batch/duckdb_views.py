"""Sources as DuckDB reads them: one SELECT for each, united by column name.

Nothing is guessed from a sample of rows: CSV and JSON Lines give text, which the plan turns into
numbers or rejects row by row, so a number keeps the digits it was written with. No line counts as a
comment, and none is skipped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from assay.errors import InputError, UsageError
from assay.families.batch.engine import SourceColumn
from assay.families.batch.evidence import mixed_columns
from assay.families.batch.layout import IN_QUOTES
from assay.families.batch.line_keys import MAX_COLUMNS, in_pattern, line_keys, long_numbers
from assay.families.batch.quoting import identifier, text
from assay.families.batch.sources import BatchSource, csv_head, find_sources, is_uri
from assay.grouping import grouped
from assay.installing import import_extra

MAX_LINE = 16 * 1024 * 1024
_EXTENSIONS = {"delta": "delta_scan", "iceberg": "iceberg_scan"}
_EXPORT = "Export the table to Parquet and grade that."
_FILE = "assay_file"
_FILENAME = f"filename = '{_FILE}'"


def views_sql(connection: Any, sources: Sequence[str | BatchSource]) -> str:
    """One query over all sources."""
    selects = [
        select
        for given in sources
        for source in ([given] if isinstance(given, BatchSource) else find_sources([given]))
        for select in _selects(connection, source)
    ]
    return values_sql(" UNION ALL BY NAME ".join(_mixed_as_text(connection, selects)))


def values_sql(select: str) -> str:
    """A query without what DuckDB knows of its columns. It would answer comparisons from the
    statistics of a Parquet file, which leave out NaN and may be wrong.
    """
    return f"SELECT TRY(COLUMNS(*)) FROM ({select})"


def uncollated_sql(connection: Any, select: str) -> str:
    """A query whose texts are compared by their characters. A table may say that 'a' and 'A' are
    equal, and then two runs would be one.
    """
    texts = [identifier(name) for name, type in _columns(connection, select) if type == "VARCHAR"]
    plain = ", ".join(f"{name} COLLATE C AS {name}" for name in texts)
    return f"SELECT * REPLACE ({plain}) FROM ({select})" if texts else select


def _mixed_as_text(connection: Any, selects: list[str]) -> list[str]:
    """Queries to unite. Columns of verdicts and numbers are text: `true` must not count as 1."""
    if len(selects) == 1:
        return selects
    tables = [_columns(connection, select) for select in selects]
    mixed = mixed_columns(chain.from_iterable(tables))
    made = []
    for select, columns in zip(selects, tables, strict=True):
        own = [identifier(column.name) for column in columns if column.name.lower() in mixed]
        texts = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in own)
        made.append(f"SELECT * REPLACE ({texts}) FROM ({select})" if own else select)
    return made


def _columns(connection: Any, select: str) -> list[SourceColumn]:
    rows = connection.execute(f"DESCRIBE {select}").fetchall()
    return [SourceColumn(row[0], row[1].upper()) for row in rows]


def _selects(connection: Any, source: BatchSource) -> list[str]:
    if source.kind == "table" or any(map(is_uri, source.files)):
        raise UsageError(
            "BAT-020",
            f"DuckDB doesn't read '{source.name}' here: only Spark reads URIs and tables of a"
            " catalog.",
            fix="Add --engine spark, or copy it to a file of this machine.",
        )
    if source.kind == "parquet":
        return [
            _with_partitions(connection, source._replace(files=tuple(files)), _parquet(files))
            for files in _by_types(connection, source)
        ]
    if source.kind == "csv":
        return [
            _with_partitions(connection, source, _csv(files)) for files in _by_head(source.files)
        ]
    if source.kind == "jsonl":
        return [_with_partitions(connection, source, _jsonl(connection, source))]
    if source.kind == "arrow":
        return [f"SELECT * FROM {identifier(_registered(connection, source))}"]
    if source.kind in _EXTENSIONS:
        return [_extension_scan(connection, source)]
    raise UsageError(
        "BAT-020",
        f"DuckDB can't read {source.kind.title()} tables.",
        where=source.name,
        fix=_EXPORT,
    )


# --- files


def _parquet(files: Sequence[str]) -> str:
    return f"SELECT * FROM read_parquet({_names(files)}, union_by_name = true, {_FILENAME})"


def _by_types(connection: Any, source: BatchSource) -> list[list[str]]:
    """Parquet files with the same columns of the same types. Raises `InputError` for a decimal that
    DuckDB would read as a double.
    """
    shapes = connection.execute(
        "WITH files AS (SELECT file_name, MIN(CASE WHEN precision > 38 THEN name END) AS long,"
        " LIST_SORT(LIST(CONCAT_WS(' ', name, type, precision))) AS types"
        f" FROM parquet_schema({_names(source.files)}) GROUP BY file_name)"
        " SELECT LIST_SORT(LIST(file_name)), MIN(long) FROM files GROUP BY types ORDER BY 1"
    ).fetchall()
    for files, long in shapes:
        if long is not None:
            raise InputError(
                "BAT-010",
                f"the column '{long}' is a decimal of more than 38 digits, which DuckDB rounds.",
                where=files[0],
                fix="Leave the column out, or write it with fewer digits, where the rows are made.",
            )
    return [files for files, _ in shapes]


def _csv(files: Sequence[str]) -> str:
    head, delimiter = csv_head(files[0])
    columns = ", ".join(f"{text(name)}: 'VARCHAR'" for name in head)
    return (
        f"SELECT * FROM read_csv({_names(files)}, auto_detect = false, header = true, skip = 0,"
        f" delim = {text(delimiter)}, quote = '\"', escape = '\"', comment = '', nullstr = '',"
        f" strict_mode = true, null_padding = false, ignore_errors = false,"
        f" max_line_size = {MAX_LINE}, columns = {{{columns}}}, {_FILENAME})"
    )


def _by_head(files: Iterable[str]) -> list[list[str]]:
    """Files with the same columns in the same order."""
    return list(grouped((csv_head(file), file) for file in files).values())


def _jsonl(connection: Any, source: BatchSource) -> str:
    """Every value as text. The keys come from all lines, not from a sample of them."""
    lines = (
        f"read_json_objects({_names(source.files)}, format = 'newline_delimited',"
        f" maximum_object_size = {MAX_LINE}, {_FILENAME})"
    )
    shapes = connection.execute(
        "SELECT json_type(json) = 'OBJECT', json_keys(json), count(*)"
        f" FROM {lines} GROUP BY ALL ORDER BY ALL LIMIT {MAX_COLUMNS + 1}"
    ).fetchall()
    shapes_seen = [(keys if is_object else None, count) for is_object, keys, count in shapes]
    names = line_keys(shapes_seen, source, engine="DuckDB")
    columns = [f"{_json_text(name)} AS {identifier(name)}" for name in names]
    columns += [
        f"json_type(json, {_pointer(name)}) = 'VARCHAR' AS {identifier(IN_QUOTES + name)}"
        for name in names
    ]
    return f"SELECT {', '.join([*columns, _FILE])} FROM {lines}"


def _json_text(name: str) -> str:
    """The value under a key as text, with every digit that was written."""
    plain, number = f"json_extract_string(json, {_pointer(name)})", long_numbers(name)
    same = f"lambda x: TRY_CAST(x AS DOUBLE) = TRY_CAST({plain} AS DOUBLE)"
    texts = f"list_filter(regexp_extract_all(json, {text(number)}, 1), {same})"
    longer = "lambda a, b: CASE WHEN length(a) < length(b) THEN b ELSE a END"
    return f"CASE WHEN len({texts}) > 0 THEN list_reduce({texts}, {longer}) ELSE {plain} END"


def _pointer(name: str) -> str:
    """A key as a JSON pointer."""
    return text("/" + name.replace("~", "~0").replace("/", "~1"))


def _with_partitions(connection: Any, source: BatchSource, select: str) -> str:
    """A query over files, without the column of the file's name, and with a column for each
    `key=value` in the path below the folder.
    """
    columns = {name.lower() for name, _ in _columns(connection, select)}
    if source.kind == "parquet":
        _check_distinct(connection, source, columns)
    if len(columns) > MAX_COLUMNS:
        raise InputError("FIL-004", f"has more than {MAX_COLUMNS:,} columns.", where=source.name)
    keys: dict[str, None] = {}
    for file in source.files if source.folder else ():
        path = os.path.relpath(os.path.dirname(file), source.folder)
        keys |= dict.fromkeys(part.partition("=")[0] for part in path.split(os.sep) if "=" in part)
    below = f"substr({_FILE}, {len(source.folder) + 1})"
    values = {
        key: f"url_decode(regexp_extract({below}, {text(f'/{in_pattern(key)}=([^/]*)/')}, 1))"
        for key in keys
    }
    made = [
        f", {value} AS {identifier(key)}"
        for key, value in values.items()
        if key.lower() not in columns
    ]
    filled = [  # a line of JSON without the key
        f"COALESCE({identifier(key)}, {value}) AS {identifier(key)}"
        for key, value in values.items()
        if key.lower() in columns and source.kind == "jsonl"
    ]
    replaced = f" REPLACE ({', '.join(filled)})" if filled else ""
    return f"SELECT * EXCLUDE ({_FILE}){replaced}{''.join(made)} FROM ({select})"


def _check_distinct(connection: Any, source: BatchSource, columns: set[str]) -> None:
    """Refuse Parquet files with a column twice: DuckDB calls the second one `NAME_1`, and only the
    first would count.
    """
    if not any(columns.intersection({re.sub(r"_\d+\Z", "", name)} - {name}) for name in columns):
        return
    sql = f"SELECT name, COALESCE(num_children, 0) FROM parquet_schema({_names(source.files)})"
    nodes = iter(connection.execute(sql).fetchall())
    for _, width in nodes:  # the root of the next file
        seen: set[str] = set()
        for _ in range(width):
            name, inside = next(nodes)
            while inside:  # fields of a nested column
                inside += next(nodes)[1] - 1
            if name.lower() in seen:
                raise InputError(
                    "BAT-020",
                    f"a file has the column '{name}' twice.",
                    where=source.name,
                    fix="Give each column its own name.",
                )
            seen.add(name.lower())


def _names(files: Iterable[str]) -> str:
    return f"[{', '.join(map(text, files))}]"


# --- tables


def _registered(connection: Any, source: BatchSource) -> str:
    """Arrow files as one relation, read in batches."""
    arrow = import_extra("pyarrow", "arrow", "reading Arrow files needs pyarrow.")
    datasets = import_extra("pyarrow.dataset", "arrow", "reading Arrow files needs pyarrow.")
    try:
        parts = [datasets.dataset(file, format="ipc") for file in source.files]
        whole = parts[0] if len(parts) == 1 else datasets.dataset(parts)
    except (arrow.ArrowException, OSError) as error:
        raise InputError(
            "BAT-022",
            f"isn't an Arrow IPC file, or is damaged: {str(error).splitlines()[0]}",
            where=source.name,
        ) from None
    name = f"assay_arrow_{abs(hash(source.files)):x}"
    connection.register(name, whole)
    return name


def _extension_scan(connection: Any, source: BatchSource) -> str:
    """A Delta or Iceberg table. Extensions are never downloaded here: that is up to the user."""
    import duckdb

    try:
        connection.execute(f"LOAD {source.kind}")
    except duckdb.Error:
        raise UsageError(
            "BAT-020",
            f"it is {'a Delta' if source.kind == 'delta' else 'an Iceberg'} table, and DuckDB"
            f" reads it with the extension `{source.kind}`, which isn't installed.",
            where=source.name,
            fix="Install it once: python -c"
            f" \"import duckdb; duckdb.sql('INSTALL {source.kind}')\". Or export the table to"
            " Parquet and grade that.",
        ) from None
    path = source.files[0]
    hint = os.path.join(path, "metadata", "version-hint.text")
    if source.kind == "iceberg" and os.path.isdir(path) and not os.path.exists(hint):
        raise UsageError(
            "BAT-020",
            "this Iceberg table has no version-hint.text, so only its catalog knows which version"
            " is current.",
            where=source.name,
            fix="Name the metadata file of the version, as the catalog does:"
            f" {os.path.join(source.name, 'metadata', 'VERSION.metadata.json')}.",
        )
    return f"SELECT * FROM {_EXTENSIONS[source.kind]}({text(path)})"
