"""A batch on Apache Spark.

A path without a scheme is a file of this machine. On a cluster, name inputs by URIs that all its
machines reach (`hdfs://`, `s3a://`), or as `table:NAME` of its catalog.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from assay.batch.engine import SourceColumn
from assay.batch.evidence import mixed_columns
from assay.batch.sources import BatchSource, find_sources
from assay.batch.spark_output import FILE_ENDS, escaped, keep_output, spark_path
from assay.batch.spark_reading import quoted, read_source
from assay.batch.spark_session import SparkSource, import_spark, open_session, spark_faults
from assay.errors import AssayError, UsageError, count

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
            frames = (_uncollated(read_source(self.session, source)) for source in resolved)
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

    def materialise(self, sql: str) -> str:
        """A query as a view that Spark keeps once it is worked out."""
        with spark_faults("run"):
            return self._view(self.session.sql(sql).cache())

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
        if kind == "csv" and escaped(path) != path:
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
                if path.lower().endswith(FILE_ENDS):
                    frame = frame.repartition(1)
                writer = frame.write.format(_FORMATS[kind]).options(**_WRITING[kind])
                with self._watched(progress):
                    writer.save(spark_path(folder))
                rows = int(written.get["rows"])
                self._check_whole(folder, kind, rows)
            keep_output(folder, path)
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
        found = reader.options(**options).load(escaped(spark_path(folder))).count()
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
            f"{how.format(quoted(name))} AS {quoted(name)}"
            if name.lower() in names
            else quoted(name)
            for name in frame.columns
        )
    )
