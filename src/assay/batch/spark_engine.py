"""A batch on Apache Spark.

A path without a scheme is a file of this machine. On a cluster, name inputs and outputs by URIs
that all its machines reach (`hdfs://`, `s3a://`), and inputs also as `table:NAME` of its catalog.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from assay.batch.engine import Column
from assay.batch.sources import kind_of
from assay.batch.spark_output import FILE_ENDS, is_uri, make_output, spark_path
from assay.batch.spark_session import SparkSource, open_session, spark_faults
from assay.errors import AssayError, UsageError

TABLE = "table:"
_FORMATS = {"parquet": "parquet", "csv": "csv", "jsonl": "json"}
_READING: dict[str, dict[str, Any]] = {
    # A column that only some files of a folder have must not be lost, nor be misread where its
    # place differs; a line that can't be parsed must not become a row without values.
    "parquet": {"mergeSchema": True},
    "csv": {
        "header": True,
        "inferSchema": True,
        "enforceSchema": False,
        "multiLine": True,
        "escape": '"',
        "mode": "FAILFAST",
    },
    "jsonl": {"mode": "FAILFAST"},
}
_WRITING: dict[str, dict[str, Any]] = {
    "parquet": {},
    "csv": {"header": True, "escape": '"'},
    "jsonl": {"ignoreNullFields": False},
}
_POLL_SECONDS = 0.2


class SparkEngine:
    """Spark as a batch needs it."""

    name = "spark"
    dialect = "spark"

    def __init__(self, source: SparkSource) -> None:
        self.session, self._made, self._is_remote = open_session(source)
        self._views: list[str] = []
        with spark_faults("start"):
            self.version = str(self.session.version)

    def attach(self, sources: Sequence[str]) -> str:
        """Files, folders, URIs and tables as one view."""
        with spark_faults("read", where=", ".join(sources)):
            frame = reduce(_united, map(self._read, sources))
            name = f"assay_{uuid4().hex}"
            frame.createOrReplaceTempView(name)
        self._views.append(name)
        return name

    def columns(self, view: str) -> list[Column]:
        """The columns of a view, in order."""
        with spark_faults("read", where=view):
            fields = self.session.table(view).schema.fields
        return [Column(field.name, field.dataType.simpleString().upper()) for field in fields]

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
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        output = make_output(path, self.session, is_remote=self._is_remote)
        written = Observation()
        try:
            with spark_faults("run", where=path):
                frame = self.session.sql(sql).observe(written, f.count(f.lit(1)).alias("rows"))
                if kind == "csv":  # it has no lists
                    lists = [name for name, type in frame.dtypes if type.startswith("array")]
                    frame = frame.withColumns(
                        {name: frame[_quoted(name)].cast("string") for name in lists}
                    )
                if path.lower().endswith(FILE_ENDS):
                    frame = frame.repartition(1)
                writer = frame.write.format(_FORMATS[kind]).options(**_WRITING[kind])
                with self._watched(progress):
                    writer.save(output.part)
                rows = int(written.get["rows"])
                self._check_whole(output.part, kind, rows)
            output.keep()
        except BaseException:
            with suppress(Exception):  # the first error counts
                output.discard()
            raise
        return rows

    def close(self) -> None:
        """Drop the views; stop the session if it was made here."""
        with suppress(Exception):  # Spark may be gone
            for name in self._views:
                self.session.catalog.dropTempView(name)
            if self._made:
                self.session.stop()

    def _read(self, source: str) -> Any:
        if source.startswith(TABLE):
            return self.session.table(source.removeprefix(TABLE))
        kind = kind_of(source) or ("parquet" if is_uri(source) or os.path.isdir(source) else None)
        if kind not in _FORMATS:
            raise UsageError(
                "BAT-010",
                f"Spark can't read '{source}'.",
                fix="It reads .parquet, .csv and .jsonl, folders of Parquet files, and table:NAME.",
            )
        return (
            self.session.read.format(_FORMATS[kind])
            .options(**_READING[kind])
            .load(spark_path(source))
        )

    def _check_whole(self, part: str, kind: str, rows: int) -> None:
        """Workers that don't share a file system with this machine write to disks of their own, and
        Spark calls that a success.
        """
        reader = self.session.read.format(_FORMATS[kind])
        options = {"header": True, "multiLine": True, "escape": '"'} if kind == "csv" else {}
        found = reader.options(**options).load(spark_path(part)).count()
        if found != rows:
            raise AssayError(
                "BAT-023",
                f"Spark wrote {rows} rows, and {found} of them can be read back.",
                where=part,
                fix="Its workers may have other disks than this machine: write to a URI that all of"
                " them reach.",
            )

    @contextmanager
    def _watched(self, progress: Callable[[float], None] | None) -> Iterator[None]:
        """Report how far the tasks are. A batch has two stages: rows to runs, and runs to grades;
        later stages don't move the bar.
        """
        if progress is None:
            yield
            return
        ended = Event()
        watcher = Thread(target=self._watch, args=(progress, ended), daemon=True)
        if self._is_remote:
            ...
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
        progress(1.0)
