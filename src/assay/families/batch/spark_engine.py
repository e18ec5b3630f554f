"""A batch on Apache Spark.

A path without a scheme is a file of this machine. On a cluster, name inputs by URIs that all its
machines reach (`hdfs://`, `s3a://`), or as `table:NAME` of its catalog. As on DuckDB, nothing is
guessed from rows: CSV and JSON Lines give text with every digit that was written, and a line that
can't be parsed stops the batch. Spark writes a folder of files, which get their names when all of
them are complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from assay.errors import AssayError, InputError, UsageError, count
from assay.families.batch.engine import SourceColumn
from assay.families.batch.evidence import mixed_columns
from assay.families.batch.layout import IN_QUOTES
from assay.families.batch.line_keys import MAX_COLUMNS, line_keys, long_numbers
from assay.families.batch.quoting import in_dialect, text
from assay.families.batch.sources import LOGGED, BatchSource, csv_head, find_sources, is_uri
from assay.families.batch.spark_session import (
    SparkSource,
    condition_of,
    import_spark,
    open_session,
    spark_faults,
)
from assay.grouping import grouped

_FORMATS = {
    "parquet": "parquet",
    "csv": "csv",
    "jsonl": "json",
}
_WRITING: dict[str, dict[str, Any]] = {
    "parquet": {},
    "csv": {"header": True, "escape": '"'},
    "jsonl": {"ignoreNullFields": False},
}
_POLL_SECONDS = 0.2
_FILE_ENDS = (".parquet", ".csv", ".jsonl")
"""An output whose name ends so is one file; any other is a folder."""
_CSV = {"header": True, "multiLine": True, "escape": '"', "emptyValue": "", "mode": "FAILFAST"}
_VALUES = "assay_values"
_LONG = "assay_long"
_NOT_BLANK = "trim(value) <> ''"


class SparkEngine:
    """A Spark session as the engine of a batch."""

    name = "spark"
    dialect = "spark"

    def __init__(self, source: SparkSource) -> None:
        self.session, self._made, self._is_remote = open_session(source)
        self._views: list[str] = []
        with spark_faults("start"):
            self.version = str(self.session.version)

    def attach(self, sources: Sequence[str | BatchSource]) -> str:
        """Files, folders, URIs and tables as one view, columns matched by name."""
        resolved = [
            source
            for given in sources
            for source in ([given] if isinstance(given, BatchSource) else find_sources([given]))
        ]
        with spark_faults("read", where=", ".join(source.name for source in resolved)):
            frames = (_uncollated(_read_source(self.session, source)) for source in resolved)
            return self._view(reduce(_united, frames))

    def attach_relation(self, relation: Any) -> str:
        """A DataFrame, or the name of a table, as a view."""
        with spark_faults("read", where=relation if isinstance(relation, str) else ""):
            frame = self.session.table(relation) if isinstance(relation, str) else relation
            return self._view(_uncollated(frame))

    def reading_sql(self, sources: Sequence[BatchSource]) -> list[str]:
        """None: Spark reads with its own readers."""
        return []

    def define(self, sql: str) -> str:
        """A query as a view."""
        with spark_faults("run"):
            return self._view(self.session.sql(sql))

    def columns(self, view: str) -> list[SourceColumn]:
        """The columns of a view, in order."""
        with spark_faults("read", where=view):
            fields = self.session.table(view).schema.fields
        return [SourceColumn(field.name, field.dataType.simpleString().upper()) for field in fields]

    def relation(self, sql: str) -> Any:
        """A query as a DataFrame."""
        with spark_faults("run"):
            return self.session.sql(sql)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query, for small results."""
        with spark_faults("run"):
            return [tuple(row) for row in self.session.sql(sql).collect()]

    def write(
        self, sql: str, path: str, *, kind: str, progress: Callable[[float], None] | None = None
    ) -> int:
        """Write a query to a path that doesn't exist yet: one file where the name ends like one,
        else a folder of files.
        """
        package = "pyspark.sql.connect" if self._is_remote else "pyspark.sql"
        written = import_spark(f"{package}.observation").Observation()
        count = import_spark(f"{package}.functions").expr("count(1)").alias("rows")
        if kind == "csv" and _escaped(path) != path:
            raise UsageError(
                "BAT-021",
                "Spark can't read CSV back from a path with * ? [ { or a backslash.",
                where=path,
                fix="Write to another path, or write Parquet.",
            )
        folder = f"{path}.part"
        try:
            with spark_faults("run", where=path):
                frame = self.session.sql(sql).observe(written, count)
                if kind == "csv":  # it has no lists
                    lists = {
                        name.lower() for name, type in frame.dtypes if type.startswith("array")
                    }
                    frame = _as_text(frame, lists, "to_json({})")
                if path.lower().endswith(_FILE_ENDS):
                    frame = frame.repartition(1)
                writer = frame.write.format(_FORMATS[kind]).options(**_WRITING[kind])
                with self._watched(progress):
                    writer.save(_spark_path(folder))
                rows = int(written.get["rows"])
                self._check_whole(folder, kind, rows)
            _keep_output(folder, path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return rows

    def close(self) -> None:
        """Drop the views; stop the session if it was made here."""
        with suppress(Exception):  # Spark may be gone
            for name in self._views:
                self.session.catalog.dropTempView(name)
        for _ in range(2 if self._made else 0):
            with suppress(Exception):  # the first forgets a Java that is gone, the next its session
                self.session.stop()

    def _view(self, frame: Any) -> str:
        name = f"assay_{uuid4().hex}"
        frame.createOrReplaceTempView(name)
        self._views.append(name)
        return name

    def _check_whole(self, folder: str, kind: str, rows: int) -> None:
        """Check the written rows: workers that don't share a file system with this machine write to
        their local disks, and Spark reports success.
        """
        reader = self.session.read.format(_FORMATS[kind])
        options = {"header": True, "multiLine": True, "escape": '"'} if kind == "csv" else {}
        found = reader.options(**options).load(_escaped(_spark_path(folder))).count()
        if found != rows:
            raise AssayError(
                "BAT-033",
                f"Spark wrote {count(rows, 'row')}, and {found} of them can be read back.",
                where=folder,
                fix="Its workers may have other disks than this machine: give -o a folder that they"
                " share.",
            )

    @contextmanager
    def _watched(self, progress: Callable[[float], None] | None) -> Iterator[None]:
        """Report the share of tasks that are done, as Spark gets to know them."""
        if progress is None:
            yield
        elif self._is_remote:
            report = _Share(progress)

            def handle(stages: Any, **_: Any) -> None:
                for number, stage in enumerate(stages or ()):
                    report.stage(number, stage.num_completed_tasks, stage.num_tasks)

            self.session.registerProgressHandler(handle)
            try:
                yield
            finally:
                self.session.removeProgressHandler(handle)
        else:
            ended = Event()
            watcher = Thread(target=self._watch, args=(_Share(progress), ended), daemon=True)
            watcher.start()
            try:
                yield
            finally:
                ended.set()
                watcher.join()

    def _watch(self, report: _Share, ended: Event) -> None:
        tracker = self.session.sparkContext.statusTracker()
        with suppress(Exception):  # if Java is gone, the query itself fails
            while not ended.wait(_POLL_SECONDS):
                for number in tracker.getActiveStageIds():
                    stage = tracker.getStageInfo(number)
                    if stage is not None:
                        report.stage(number, stage.numCompletedTasks, stage.numTasks)


class _Share:
    """The progress of a batch: one stage reads rows, and one grades runs. It never goes back, and
    stays below 1: only the caller knows when all is done.
    """

    def __init__(self, progress: Callable[[float], None]) -> None:
        self._progress = progress
        self._stages: dict[int, float] = {}
        self._reached = 0.0

    def stage(self, number: int, done: int, tasks: int) -> None:
        """Note how many tasks of a stage are done."""
        self._stages[number] = done / tasks if tasks else 0.0
        earlier = len(self._stages) - 1
        share = min(0.99, (earlier + self._stages[max(self._stages)]) / max(2, earlier + 1))
        if share > self._reached:
            self._reached = share
            self._progress(share)


def _united(left: Any, right: Any) -> Any:
    """Both frames, columns matched by name. If only one has text in a column, the column is text,
    as on DuckDB: Spark would turn the text into numbers, or stop at the first that isn't one. So is
    a column with verdicts in one and numbers in the other.
    """
    types = {name.lower(): type for name, type in left.dtypes}
    texts = {
        name.lower()
        for name, type in right.dtypes
        if type != types.get(name.lower(), type) and "string" in (type, types[name.lower()])
    }
    mixed = texts | mixed_columns(
        SourceColumn(name, type.upper()) for name, type in (*left.dtypes, *right.dtypes)
    )
    return _as_text(left, mixed).unionByName(_as_text(right, mixed), allowMissingColumns=True)


def _uncollated(frame: Any) -> Any:
    """A frame whose texts are compared by their characters. A table may say that 'a' and 'A' are
    equal, and then two runs would be one.
    """
    collated = {name.lower() for name, type in frame.dtypes if " collate " in type}
    return _as_text(frame, collated, "{} COLLATE UTF8_BINARY")


def _as_text(frame: Any, names: set[str], how: str = "CAST({} AS STRING)") -> Any:
    """A frame with some columns, given in lower case, turned into text."""
    if not names:
        return frame
    return frame.selectExpr(
        *(
            f"{how.format(_quoted(name))} AS {_quoted(name)}"
            if name.lower() in names
            else _quoted(name)
            for name in frame.columns
        )
    )


# --- reading


def _read_source(session: Any, source: BatchSource) -> Any:
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
        return session.read.format(source.kind).load(_spark_path(source.files[0]))
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
            place = f"{scheme}://{_escaped(folder)}/{log}"
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
    paths = [_escaped(_spark_path(file)) for file in files or source.files]
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
    return reader.option("basePath", _escaped(_spark_path(source.folder))).load(paths)


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
    lines = session.read.text([_escaped(_spark_path(file)) for file in source.files])
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
    lines = session.read.text([_escaped(_spark_path(file)) for file in source.files])
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
    columns = [f"{_json_text(name)} AS {_quoted(name)}" for name in names]
    columns += [
        f"schema_of_variant({_value(name)}) = 'STRING' AS {_quoted(IN_QUOTES + name)}"
        for name in names
    ]
    columns += [_quoted(name) for name in lines.columns if name != "value"]
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
    return ", ".join(f"{_quoted(name)} STRING" for name in names)


def _quoted(name: str) -> str:
    """A column's name in an expression.

    >>> _quoted("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


# --- paths and files


def _spark_path(path: str) -> str:
    """A path as Spark writes to it. Without a scheme it is a file of this machine, even if Spark's
    default file system is another.

    >>> _spark_path("/data/scores"), _spark_path("s3a://lake/scores")
    ('file:/data/scores', 's3a://lake/scores')
    """
    return path if is_uri(path) else f"file:{os.path.abspath(path)}"


def _escaped(path: str) -> str:
    r"""A path as Spark reads it, where some characters are a pattern.

    >>> print(_escaped("file:/data/a[1].csv"))
    file:/data/a\[1].csv
    """
    return "".join(f"\\{character}" if character in "*?[{\\" else character for character in path)


def _keep_output(folder: str, path: str) -> None:
    """Give what Spark wrote its name: the one file in a folder, or all files of data."""
    if not os.path.isdir(folder):
        raise AssayError(
            "BAT-033",
            "Spark wrote it on another machine, where this path is not the same folder.",
            where=path,
            fix="Give -o a folder that Spark and this machine share.",
        )
    names = sorted(name for name in os.listdir(folder) if name.startswith("part-"))
    if not path.lower().endswith(_FILE_ENDS):
        os.mkdir(path)
        for place, name in enumerate(names):
            end = "jsonl" if name.endswith(".json") else name.rpartition(".")[2]
            os.rename(os.path.join(folder, name), os.path.join(path, f"part-{place}.{end}"))
    elif len(names) == 1:
        os.rename(os.path.join(folder, names[0]), path)
    else:
        raise AssayError("BAT-033", f"Spark wrote {len(names)} files.", where=path)
