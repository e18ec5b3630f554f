"""DuckDB, embedded: the engine of a batch unless another is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from assay.batch.engine import Column
from assay.batch.quoting import identifier, text
from assay.errors import InputError, UsageError
from assay.installing import install_hint

if TYPE_CHECKING:
    import duckdb

READERS = {
    ".parquet": "read_parquet",
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
    ".json": "read_json",
}
"""By the extension of a file, perhaps before `.gz` or `.zst`."""
FORMATS = {"parquet": "FORMAT PARQUET", "csv": "FORMAT CSV, HEADER", "jsonl": "FORMAT JSON"}
_names = count(1)


class DuckDBEngine:
    """A connection to DuckDB: one that was given, or one of its own."""

    name = "duckdb"
    dialect = "duckdb"

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection | None = None,
        *,
        threads: int | None = None,
        memory: str | None = None,
    ) -> None:
        module = _duckdb()
        self.version: str = module.__version__
        self._own = connection is None
        self._error: type[Exception] = module.Error
        if connection is None:
            config: dict[str, Any] = {"autoinstall_known_extensions": "false"}
            if threads is not None:
                config["threads"] = threads
            if memory is not None:
                config["memory_limit"] = memory
            connection = module.connect(config=config)
            # the order of runs means nothing, and keeping it holds rows in memory
            connection.execute("SET preserve_insertion_order = false")
        self.connection = connection

    def attach(self, sources: Sequence[str]) -> str:
        """Files as one view, columns matched by name."""
        parts = [f"SELECT * FROM {self._reader(source)}" for source in sources]
        view = f"assay_batch_{next(_names)}"
        made = " UNION ALL BY NAME ".join(parts)
        self._run(f"CREATE TEMP VIEW {identifier(view)} AS {made}")
        return view

    def attach_relation(self, relation: Any) -> str:
        """A relation or table of the caller's own connection as a view."""
        view = f"assay_batch_{next(_names)}"
        if isinstance(relation, str):
            self._run(f"CREATE TEMP VIEW {identifier(view)} AS SELECT * FROM {relation}")
        else:
            relation.create_view(view, replace=True)
        return view

    def columns(self, view: str) -> list[Column]:
        """The columns of a view."""
        found = self._run(f"DESCRIBE {identifier(view)}").fetchall()
        return [Column(row[0], row[1].upper()) for row in found]

    def relation(self, sql: str) -> duckdb.DuckDBPyRelation:
        """A query as a lazy relation."""
        try:
            return self.connection.sql(sql)
        except self._error as error:
            raise _failed(error) from None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        found: list[tuple[Any, ...]] = self._run(sql).fetchall()
        return found

    def write(
        self, sql: str, path: str, *, kind: str, progress: Callable[[float], None] | None = None
    ) -> int:
        """Write a query to a file that doesn't exist yet; the number of rows."""
        if os.path.exists(path):
            raise UsageError("BAT-006", f"{path} exists already.", fix="Write to another path.")
        found = self._run(f"COPY ({sql}) TO {text(path)} ({FORMATS[kind]})").fetchone()
        if progress is not None:
            progress(1.0)
        assert found is not None
        return int(found[0])

    def close(self) -> None:
        """Close the connection, unless it was given."""
        if self._own:
            self.connection.close()

    def _reader(self, source: str) -> str:
        path = source
        for packed in (".gz", ".zst"):
            path = path.removesuffix(packed)
        reader = READERS.get(os.path.splitext(path)[1].lower())
        if reader is None and os.path.isdir(source):
            reader, source = "read_parquet", os.path.join(source, "**", "*.parquet")
        if reader is None:
            raise InputError(
                "BAT-007",
                f"can't tell what {source} is.",
                fix=f"A batch reads files that end in {', '.join(READERS)}.",
            )
        more = ", union_by_name = true" if reader == "read_parquet" else ""
        return f"{reader}({text(source)}{more})"

    def _run(self, sql: str) -> duckdb.DuckDBPyConnection:
        try:
            return self.connection.execute(sql)
        except self._error as error:
            raise _failed(error) from None


def _failed(error: Exception) -> InputError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return InputError("BAT-008", f"DuckDB refused: {lines[0]}")


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise UsageError(
            "RUN-004", "a batch needs duckdb and sqlglot.", fix=install_hint("batch")
        ) from None
    return duckdb
