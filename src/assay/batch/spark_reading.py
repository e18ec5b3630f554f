"""Sources as Spark reads them. As on DuckDB, nothing is guessed from rows: CSV and JSON Lines give
text with every digit that was written, and a line that can't be parsed stops the batch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import reduce
from typing import Any

from assay.batch.layout import IN_QUOTES
from assay.batch.line_keys import MAX_COLUMNS, line_keys, long_numbers
from assay.batch.quoting import in_dialect, text
from assay.batch.sources import LOGGED, BatchSource, csv_head, is_uri
from assay.batch.spark_output import escaped, spark_path
from assay.batch.spark_session import condition_of
from assay.errors import InputError, UsageError
from assay.grouping import grouped

_CSV = {"header": True, "multiLine": True, "escape": '"', "emptyValue": "", "mode": "FAILFAST"}
_VALUES = "assay_values"
_LONG = "assay_long"
_NOT_BLANK = "trim(value) <> ''"


def read_source(session: Any, source: BatchSource) -> Any:
    """A source as a DataFrame."""
    if source.kind == "table":
        return session.table(source.table)
    for file in source.files:
        if file.rpartition("/")[2].startswith((".", "_")):
            raise UsageError(
                "BAT-020",
                f"Spark skips '{file}', because its name begins with '.' or '_'.",
                fix="Rename it.",
            )
    if source.kind == "csv":
        return _csv(session, source)
    if source.kind == "jsonl":
        return _jsonl(session, source)
    for file in source.files:
        if is_uri(file):
            _check_plain(session, file)
    if source.kind == "parquet":  # a column that only some of the files have must not be lost
        return _loaded(session.read.format("parquet").option("mergeSchema", True), source)
    if source.kind in LOGGED:
        return session.read.format(source.kind).load(spark_path(source.files[0]))
    raise UsageError(
        "BAT-020",
        f"Spark can't read '{source.name}'.",
        fix="It reads Parquet, CSV and JSON Lines, Delta and Iceberg with their connectors, and"
        " tables of its catalog as table:NAME. Or use --engine duckdb.",
    )


_LOGS = ("_delta_log", "metadata/*.metadata.json", ".hoodie")


def _check_plain(session: Any, uri: str) -> None:
    """Refuse a table whose log says which of its rows count, and any part of one: read as files,
    deleted rows would count. This user may lack access to folders above the one that was named.
    """
    scheme, _, named = uri.rstrip("/").partition("://")
    folder = named
    while folder:
        for log in _LOGS:
            place = f"{scheme}://{escaped(folder)}/{log}"
            try:
                _ = session.read.text(place).schema  # asks where the files are
            except Exception as error:
                if condition_of(error) == "PATH_NOT_FOUND" or folder != named:
                    continue
                raise
            raise InputError(
                "BAT-020",
                f"is {'' if folder == named else 'part of '}a table with a log ({log}), and its"
                " files may contain deleted rows.",
                where=uri,
                fix="Name it as table:NAME of Spark's catalog, or export it to Parquet.",
            )
        folder = folder.rpartition("/")[0]


def _loaded(
    reader: Any,
    source: BatchSource,
    files: Sequence[str] = (),
    *,
    columns: Sequence[str] | None = None,
) -> Any:
    """The files of a source, with a column for each `key=value` in their paths. `columns` are those
    of the files where the reader doesn't know them.
    """
    paths = [escaped(spark_path(file)) for file in files or source.files]
    frame = reader.load(paths)
    keys = _partition_keys(source)
    if not keys:
        return frame
    own = frame.columns if columns is None else columns
    twice = next((name for name in own if name.lower() in keys), None)
    if twice is not None:
        raise InputError(
            "BAT-020",
            f"'{twice}' is a column of its files and of their paths, and Spark would take the"
            " paths.",
            where=source.name,
            fix="Rename one of them, or use --engine duckdb, which takes the files.",
        )
    return reader.option("basePath", escaped(spark_path(source.folder))).load(paths)


def _partition_keys(source: BatchSource) -> set[str]:
    parts = [
        part
        for file in (source.files if source.folder else ())
        for part in os.path.relpath(os.path.dirname(file), source.folder).split(os.sep)
    ]
    return {part.partition("=")[0].lower() for part in parts if "=" in part}


def _csv(session: Any, source: BatchSource) -> Any:
    """Files of this machine by their own first lines; on a cluster Spark compares these lines."""
    # the reader of CSV replaces what isn't UTF-8, and two names could become one
    lines = session.read.text([escaped(spark_path(file)) for file in source.files])
    if lines.where("NOT is_valid_utf8(value)").limit(1).count():
        raise InputError("FIL-001", "is not UTF-8.", where=source.name, fix="Convert it to UTF-8.")
    reader = session.read.format("csv").options(**_CSV)
    if is_uri(source.files[0]):
        tab = "\t" if source.files[0].lower().endswith((".tsv", ".tsv.gz")) else ","
        return _loaded(reader.options(sep=tab, enforceSchema=False), source)
    by_head = grouped((csv_head(file), file) for file in source.files)
    return reduce(
        lambda left, right: left.unionByName(right, allowMissingColumns=True),
        (
            _loaded(reader.schema(_texts(head.names)).option("sep", head.delimiter), source, files)
            for head, files in by_head.items()
        ),
    )


def _jsonl(session: Any, source: BatchSource) -> Any:
    """Every value as text. The keys come from all lines, not from a sample of them."""
    lines = session.read.text([escaped(spark_path(file)) for file in source.files])
    shapes = (
        lines.where(_NOT_BLANK)
        .selectExpr(
            "CASE WHEN is_valid_utf8(value) AND json_array_length(concat('[', value, ']')) = 1"
            " THEN json_object_keys(value) END AS keys"
        )
        .groupBy("keys")
        .count()
        .limit(MAX_COLUMNS + 1)
        .collect()
    )
    ordered = sorted(shapes, key=lambda shape: shape[0] or [])
    names = line_keys([(keys, count) for keys, count in ordered], source, engine="Spark")
    lines = _loaded(session.read.format("text"), source, columns=[*names, "value"])
    parsed = f"CAST(parse_json(value) AS MAP<STRING, VARIANT>) AS {_VALUES}"
    is_long = f"value RLIKE '[0-9.]{{16}}|[0-9.][eE]' AS {_LONG}"  # else no number was rounded
    columns = [f"{_json_text(name)} AS {quoted(name)}" for name in names]
    columns += [
        f"schema_of_variant({_value(name)}) = 'STRING' AS {quoted(IN_QUOTES + name)}"
        for name in names
    ]
    columns += [quoted(name) for name in lines.columns if name != "value"]
    return lines.where(_NOT_BLANK).selectExpr("*", parsed, is_long).selectExpr(*columns)


def _json_text(name: str) -> str:
    """The value under a key as text, with every digit that was written."""
    value, number = _value(name), in_dialect(text(long_numbers(name)), "spark")
    plain, type_ = f"CAST({value} AS STRING)", f"schema_of_variant({value})"
    shown = f"if({type_} LIKE 'DECIMAL(%,0)', {plain} || '.0', {plain})"  # 1.0 became 1
    same = f"x -> try_cast(x AS DOUBLE) = try_cast({plain} AS DOUBLE)"
    texts = f"filter(regexp_extract_all(value, {number}, 1), {same})"
    longest = "(a, b) -> if(length(a) < length(b), b, a)"
    written = f"aggregate({texts}, '', {longest}, a -> if(a = '', {shown}, a))"
    return (
        f"CASE WHEN NOT {type_} LIKE 'D%' THEN {plain} WHEN {_LONG} THEN {written} ELSE {shown} END"
    )


def _value(name: str) -> str:
    return f"{_VALUES}[{in_dialect(text(name), 'spark')}]"


def _texts(names: Sequence[str]) -> str:
    """A schema in which every column is text."""
    return ", ".join(f"{quoted(name)} STRING" for name in names)


def quoted(name: str) -> str:
    """A column's name in an expression.

    >>> quoted("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"
