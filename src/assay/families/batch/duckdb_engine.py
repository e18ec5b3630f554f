"""DuckDB, embedded: the default engine of a batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from assay.errors import InputError, UsageError
from assay.families.batch.duckdb_views import uncollated_sql, values_sql, views_sql
from assay.families.batch.engine import SourceColumn
from assay.families.batch.quoting import identifier, text
from assay.families.batch.sources import BatchSource
from assay.installing import import_extra

if TYPE_CHECKING:
    import duckdb

FORMATS = {"parquet": "FORMAT PARQUET", "csv": "FORMAT CSV, HEADER", "jsonl": "FORMAT JSON"}
FILE_ENDS = tuple(f".{kind}" for kind in FORMATS)
"""A path with another ending is a folder of files."""
_POLL_SECONDS = 0.2
_ROWS = 4096
_names = count(1)


class DuckDBEngine:
    """A connection to DuckDB: one that was given, or a new one."""

    name = "duckdb"
    dialect = "duckdb"

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection | None = None,
        *,
        threads: int | None = None,
        memory_mib: int | None = None,
        scratch: str | None = None,
    ) -> None:
        module = import_extra("duckdb", "batch", "a batch needs duckdb and sqlglot.")
        self.version: str = module.__version__
        self._own = connection is None
        self._error: type[Exception] = module.Error
        if connection is None:
            memory = None if memory_mib is None else f"{memory_mib}MiB"
            limits = {"threads": threads, "memory_limit": memory, "temp_directory": scratch}
            connection = module.connect(
                config={
                    "autoinstall_known_extensions": "false",
                    **{name: value for name, value in limits.items() if value is not None},
                }
            )
            # the order of runs means nothing, and keeping it needs memory
            connection.execute("SET preserve_insertion_order = false")
        self.connection = connection
        [(collation,)] = self.rows("SELECT current_setting('default_collation')")
        if collation:
            raise UsageError(
                "BAT-031",
                f"this connection compares texts by {collation!r}, so two runs could count as one.",
                fix="Set it back: connection.execute(\"SET default_collation = ''\")",
            )

    def attach(self, sources: Sequence[str | BatchSource]) -> str:
        """Files and tables as one view, columns matched by name."""
        try:
            return self._view(views_sql(self.connection, sources))
        except self._error as error:
            names = [source if isinstance(source, str) else source.name for source in sources]
            raise InputError(
                "BAT-022",
                f"DuckDB can't read it: {_first_lines(error)}",
                where=", ".join(dict.fromkeys(names)),
                fix="Nothing was written.",
            ) from None

    def reading_sql(self, sources: Sequence[BatchSource]) -> list[str]:
        """The statements that read sources; none for Arrow files, which pyarrow reads."""
        if any(source.kind == "arrow" for source in sources):
            return []
        select = views_sql(self.connection, sources)
        loaded = {source.kind for source in sources} & {"delta", "iceberg"}
        return [*(f"LOAD {kind}" for kind in sorted(loaded)), select]

    def define(self, sql: str) -> str:
        """A query as a view."""
        try:
            return self._view(sql)
        except self._error as error:
            raise _failed(error) from None

    def _view(self, sql: str) -> str:
        view = f"assay_batch_{next(_names)}"
        self.connection.execute(f"CREATE TEMP VIEW {identifier(view)} AS {sql}")
        return view

    def attach_relation(self, relation: Any) -> str:
        """A relation or table of the caller's own connection as a view."""
        view = f"assay_batch_{next(_names)}"
        if isinstance(relation, str):
            self._run(f"CREATE TEMP VIEW {identifier(view)} AS SELECT * FROM {relation}")
        elif hasattr(type(relation), "create_view"):
            relation.create_view(view, replace=True)
        else:
            raise UsageError(
                "BAT-009",
                f"the engine 'duckdb' can't read a {type(relation).__name__}.",
                fix="Pass a relation of DuckDB, or engine='spark' for a DataFrame of Spark.",
            )
        try:
            plain = uncollated_sql(self.connection, f"SELECT * FROM {identifier(view)}")
        except self._error as error:
            raise _failed(error) from None
        return self.define(values_sql(plain))

    def columns(self, view: str) -> list[SourceColumn]:
        """The columns of a view."""
        rows = self._run(f"DESCRIBE {identifier(view)}").fetchall()
        return [SourceColumn(row[0], row[1].upper()) for row in rows]

    def relation(self, sql: str) -> duckdb.DuckDBPyRelation:
        """A query as a lazy relation."""
        try:
            return self.connection.sql(sql)
        except self._error as error:
            raise _failed(error) from None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self._run(sql).fetchall()

    def stream(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, without holding all of them."""
        result = self._run(sql)
        while rows := result.fetchmany(_ROWS):
            yield from rows

    def write(
        self, sql: str, path: str, *, kind: str, progress: Callable[[float], None] | None = None
    ) -> int:
        """Write a query to a file, or into a folder, that doesn't exist yet; the number of rows."""
        if kind == "csv":  # it has no lists
            described = self._run(f"DESCRIBE {sql}").fetchall()
            lists = [
                f"to_json({identifier(name)}) AS {identifier(name)}"
                for name, type, *_ in described
                if type.endswith("[]")
            ]
            if lists:
                sql = f"SELECT * REPLACE ({', '.join(lists)}) FROM ({sql})"
        if not path.endswith(FILE_ENDS):
            os.mkdir(path)
            path = os.path.join(path, f"part-0.{kind}")
        with self._watched(progress):
            row = self._run(f"COPY ({sql}) TO {text(path)} ({FORMATS[kind]})").fetchone()
        assert row is not None
        return int(row[0])

    @contextmanager
    def _watched(self, progress: Callable[[float], None] | None) -> Iterator[None]:
        """Report the progress of the query, from another thread."""
        if progress is None:
            yield
            return
        self._run("SET enable_progress_bar = true")
        self._run("SET enable_progress_bar_print = false")
        ended = Event()

        def watch() -> None:
            while not ended.wait(_POLL_SECONDS):
                share = self.connection.query_progress()
                if share > 0:
                    progress(min(share / 100, 1.0))

        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
        progress(1.0)

    def close(self) -> None:
        """Close the connection, unless it was given."""
        if self._own:
            self.connection.close()

    def _run(self, sql: str) -> duckdb.DuckDBPyConnection:
        try:
            return self.connection.execute(sql)
        except self._error as error:
            raise _failed(error) from None


def _failed(error: Exception) -> InputError:
    return InputError("BAT-008", f"DuckDB refused: {_first_lines(error)}")


def _first_lines(error: Exception) -> str:
    """What is wrong, without the query and the settings that DuckDB prints after it."""
    lines: list[str] = []
    for line in str(error).strip().splitlines():
        if not line.strip() or line.startswith(("LINE ", "Possible", "Try setting")):
            break
        lines.append(line.strip())
    return ". ".join(lines)[:500].rstrip(".") + "."
