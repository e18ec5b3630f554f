"""What a batch needs from an engine. SQL is written in DuckDB's dialect; `sqlglot` translates
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from assay.families.batch.quoting import in_dialect
from assay.families.batch.sources import BatchSource


class SourceColumn(NamedTuple):
    """A column of a source: its name, and its type as the engine writes it, in upper case."""

    name: str
    type: str


class BatchEngine(Protocol):
    """DuckDB or Spark."""

    name: str
    dialect: str
    """What `sqlglot` calls it."""
    version: str

    def attach(self, sources: Sequence[str | BatchSource]) -> str:
        """Make files or a table readable as one relation, columns matched by name; the name of
        the view.
        """

    def reading_sql(self, sources: Sequence[BatchSource]) -> list[str]:
        """The statements that read sources, the last of them a SELECT of all rows; empty if SQL
        alone can't read them.
        """

    def define(self, sql: str) -> str:
        """A query as a view; its name."""

    def columns(self, view: str) -> list[SourceColumn]:
        """The columns of a view, in order."""

    def relation(self, sql: str) -> Any:
        """A query as the engine's own lazy relation."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query, for small results."""

    def write(
        self, sql: str, path: str, *, kind: str, progress: Callable[[float], None] | None = None
    ) -> int:
        """Write a query to a path that doesn't exist yet, as `parquet`, `csv` or `jsonl`; the
        number of rows.
        """

    def close(self) -> None:
        """Release what the engine created. A session passed in by the caller stays open."""


def ask(engine: BatchEngine, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query that is written in DuckDB's dialect."""
    return engine.rows(in_dialect(sql, engine.dialect))
