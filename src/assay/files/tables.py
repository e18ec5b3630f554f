"""Tables that other programs wrote, row by row: CSV, JSON in the layouts that pandas writes, JSON
Lines, Parquet.

The content shows which of them a file is. A row is an object by column, with its place in the file.
Every value of CSV is text, and every file is UTF-8. Memory stays at one row, except for JSON that
is written column by column, which has no rows until it is whole.

Parquet is also written here, from lines of JSON.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from decimal import Decimal
from itertools import chain
from typing import IO, Any

from assay.canon import encode_any
from assay.errors import InputError, UsageError, count
from assay.files.inputs import open_input
from assay.files.json_files import MAX_LINE
from assay.files.json_stream import loads, stream_json, stream_lines
from assay.installing import import_extra

Rows = Iterator[tuple[Any, str]]

MAX_FIELD = 16 * 1024 * 1024
"""Characters in one field of CSV."""
MAX_COLUMNS = 10_000
PARQUET = b"PAR1"
_BATCH = 256
_PEEK = 64 * 1024
_SEPARATORS = ",\t;"
_SPLIT = re.compile(r'\{\s*"(?:columns|schema|index)"\s*:')
_COLUMNS = re.compile(r'"columns"\s*:\s*')


def table_rows(path: str) -> Rows:
    """The rows of a table in any of the formats."""
    with open_input(path) as stream:
        start = _peeked(stream)
        if start[:4] == PARQUET:
            yield from parquet_rows(path)
        elif start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
            yield from _json_rows(path, stream, start)
        else:
            yield from csv_rows(path, opened=stream)


def line_of(place: str) -> int | None:
    """The line in the place of a row; None if rows are not on lines.

    >>> line_of("line 12"), line_of("[3]")
    (12, None)
    """
    return int(place[5:]) if place.startswith("line ") else None


def table_columns(start: bytes, path: str) -> list[str]:
    """The names of a table's columns by the beginning of its file; empty if it isn't a table. The
    names in a Parquet file are at its end, so the file itself is opened.
    """
    if start[:4] == PARQUET:
        with _parquet(path, "describe select *") as cursor:  # which reads no row group
            return [row[0] for row in cursor.fetchall()]
    text = start.decode("utf-8-sig", "replace").lstrip()
    if _SPLIT.match(text):
        return _listed_columns(text)
    if text[:1] in ("{", "[", "<", ""):
        return []
    line = text.partition("\n")[0].rstrip("\r")
    if "\x00" in line or len(line) >= _PEEK:
        return []
    try:
        return next(csv.reader([line], delimiter=_separator(line), strict=True), [])
    except csv.Error:
        return []


def _listed_columns(text: str) -> list[str]:
    match = _COLUMNS.search(text)
    try:
        names = json.JSONDecoder().raw_decode(text, match.end())[0] if match else []
    except (ValueError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _peeked(stream: IO[bytes]) -> bytes:
    peek = getattr(stream, "peek", None)
    return peek(_PEEK)[: 1024 * 1024] if peek is not None else b""


# --- JSON


def _json_rows(path: str, stream: IO[bytes], start: bytes) -> Rows:
    text = start.decode("utf-8-sig", "replace").lstrip()
    if text[0] == "[":
        for place, row in stream_json(path, [()], opened=stream):
            yield row, f"[{place[0]}]"
    elif path.endswith((".jsonl", ".ndjson")) or _is_line(text):
        for number, row in stream_lines(path, opened=stream):
            yield row, f"line {number}"
    elif _SPLIT.match(text):
        yield from _split_rows(path, stream)
    else:
        yield from _column_rows(path, _whole(path, stream))


def _is_line(text: str) -> bool:
    line, end, _ = text.partition("\n")
    try:
        return bool(end) and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _split_rows(path: str, stream: IO[bytes]) -> Rows:
    """Rows under `data`, after the names of their columns."""
    names: list[str] | None = None
    for place, value in stream_json(path, [("data",)], opened=stream):
        if place == ("columns",):
            if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
                raise InputError("FIL-006", "`columns` is not a list of names.", where=path)
            names = _distinct(value, path)
        elif len(place) == 2 and place[0] == "data":
            at = f"data[{place[1]}]"
            if isinstance(value, dict):
                yield value, at
            elif names is not None and isinstance(value, list) and len(value) == len(names):
                yield dict(zip(names, value, strict=True)), at
            else:
                what = "comes before `columns`" if names is None else "has other columns"
                raise InputError("FIL-006", f"{at} {what}.", where=path)
        elif place == ("data",):
            raise InputError("FIL-006", "`data` is not a list of rows.", where=path)


def _column_rows(path: str, tree: Any) -> Rows:
    """Rows of an object of columns, each an object by row; anything else is one row."""
    columns = tree if isinstance(tree, dict) else {}
    by_row = [column for column in columns.values() if isinstance(column, dict)]
    if not columns or len(by_row) != len(columns) or "0" not in by_row[0]:
        yield tree, "row 1"
        return
    for name, column in columns.items():
        if column.keys() != by_row[0].keys():
            raise InputError(
                "FIL-006", f"the column {name!r} has other rows than the first.", where=path
            )
    for index in by_row[0]:
        yield {name: column[index] for name, column in columns.items()}, f"row {index}"


def _whole(path: str, stream: IO[bytes]) -> Any:
    data = stream.read(MAX_LINE + 1)
    if len(data) > MAX_LINE:
        raise InputError(
            "FIL-004",
            f"is larger than {MAX_LINE // 2**20} MiB, and JSON in this layout can't be read row by"
            " row.",
            where=path,
            fix="Write it as JSON Lines or CSV.",
        )
    return loads(data, path)


# --- CSV


def csv_rows(path: str, *, opened: IO[bytes] | None = None) -> Rows:
    """The rows of a CSV file by the names in its first line. Fields are separated by commas, tabs
    or semicolons, whichever the first line has.
    """
    with open_input(path) if opened is None else nullcontext(opened) as stream:
        records = csv_records(path, opened=stream)
        names = _distinct(next(records, ([], 0))[0], path)
        for fields, line in records:
            if len(fields) != len(names):
                raise InputError(
                    "FIL-006",
                    f"the row that ends on line {line} has {len(fields)} instead of"
                    f" {count(len(names), 'column')}.",
                    where=path,
                    fix="Add or remove cells, or quote the values that contain a separator.",
                )
            yield dict(zip(names, fields, strict=True)), f"line {line}"


def csv_records(path: str, *, opened: IO[bytes]) -> Iterator[tuple[list[str], int]]:
    """The records of a CSV file, including the first, each with the line it ends on."""
    lines = _text_lines(opened, path)
    first = next(lines, None)
    if first is None:
        raise InputError("FIL-005", "the file is empty.", where=path)
    limit = csv.field_size_limit(MAX_FIELD)
    try:
        reader = csv.reader(chain([first], lines), delimiter=_separator(first), strict=True)
        for fields in reader:
            if fields:
                yield fields, reader.line_num
    except csv.Error as error:
        fix = "The file may be cut off." if next(lines, None) is None else ""
        raise InputError(
            "FIL-002", f"is not CSV: line {reader.line_num}: {error}.", where=path, fix=fix
        ) from None
    finally:
        csv.field_size_limit(limit)


def _separator(line: str) -> str:
    return max(_SEPARATORS, key=re.sub(r'"[^"]*"', "", line).count)


def _distinct(names: list[str], path: str) -> list[str]:
    if len(names) > MAX_COLUMNS:
        raise InputError("FIL-004", f"has more than {MAX_COLUMNS:,} columns.", where=path)
    if len(set(names)) != len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        same = f"have the same name, {twice!r}" if twice else "have no name"
        raise InputError(
            "FIL-006", f"two columns {same}.", where=path, fix="Rename one, or remove it."
        )
    return names


def _text_lines(stream: IO[bytes], path: str) -> Iterator[str]:
    number = 0
    while line := stream.readline(MAX_FIELD + 1):
        number += 1
        if len(line) > MAX_FIELD:
            raise InputError(
                "FIL-004",
                f"line {number} is longer than {MAX_FIELD // 2**20} MiB.",
                where=path,
            )
        if number == 1 and line[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InputError("FIL-002", "is UTF-16 text.", where=path, fix="Save it as UTF-8.")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                "FIL-002",
                f"line {number} is not UTF-8 text (byte 0x{line[error.start]:02x}).",
                where=path,
                fix="Save the whole file as UTF-8.",
            ) from None


# --- Parquet


def parquet_rows(path: str) -> Rows:
    """The rows of a Parquet file, a few at a time."""
    with _parquet(path, "select *") as cursor:
        names = [column[0] for column in cursor.description or ()]
        number = 0
        while batch := cursor.fetchmany(_BATCH):
            for row in batch:
                number += 1
                yield plain_cell(dict(zip(names, row, strict=True))), f"row {number}"


@contextmanager
def _parquet(path: str, query: str) -> Iterator[Any]:
    duckdb = import_extra(
        "duckdb", "parquet", "reading Parquet needs duckdb.", where=path, kind=InputError
    )
    with open_input(path):  # the same error for a missing file as elsewhere
        pass
    file = str(getattr(path, "file", path))
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "threads": 1})
    try:
        # this file is all that the query can open, whatever its name looks like
        connection.execute("set allowed_paths = ?", [[file]])
        connection.execute("set enable_external_access = false")
        connection.execute("set streaming_buffer_size = '256KB'")
        yield connection.execute(f"{query} from read_parquet(?, hive_partitioning = false)", [file])
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise InputError(
            "FIL-002",
            f"can't be read as Parquet: {str(error).splitlines()[0]}.",
            where=path,
            fix="The file may be cut off.",
        ) from None
    finally:
        connection.close()


def plain_cell(value: Any) -> Any:
    """A value of a database as JSON has it: dates as text, NaN as null."""
    if isinstance(value, dict):
        return {str(key): plain_cell(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_cell(item) for item in value]
    if value is None or value != value:
        return None
    if isinstance(value, str | int | float | Decimal):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def encode_row(row: Any) -> bytes:
    """A row as a line of JSON, every number as it is."""
    return encode_any(row) + b"\n"


def write_parquet(
    lines: str,
    columns: Mapping[str, str],
    path: str,
    *,
    projection: str = "*",
    partitions: Sequence[str] = (),
) -> None:
    """Write a file of JSON lines as Parquet, in the same order. `columns` are those of the lines;
    `projection` is what becomes of them, in SQL. With `partitions`, the path is a folder, with a
    subfolder for each value of these columns.
    """
    duckdb = load_duckdb()
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    try:
        connection.execute("set preserve_insertion_order = true")
        connection.read_json(
            lines, columns=columns, format="newline_delimited", maximum_object_size=MAX_LINE
        ).project(projection).write_parquet(
            path,
            compression="zstd",
            partition_by=list(partitions) or None,
            write_partition_columns=bool(partitions) or None,
        )
    except duckdb.IOException as error:
        raise UsageError("FIL-008", f"cannot be written: {error}.", where=path) from None
    finally:
        connection.close()


def load_duckdb() -> Any:
    """DuckDB, which writes Parquet; or how to install it."""
    return import_extra("duckdb", "parquet", "writing Parquet needs duckdb.")
