"""What a batch computes, and the view that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from assay.families.batch.earlier import Earlier
from assay.families.batch.engine import BatchEngine, SourceColumn
from assay.families.batch.plan import BatchPlan
from assay.families.batch.quoting import in_dialect

VIEW = "batch_input"
"""What the source is called in the SQL that a record names and `--explain-sql` prints."""


class Queries(NamedTuple):
    """What a plan makes of a view, in DuckDB's dialect."""

    grades: str
    """One row for each run."""
    rejects: str
    """One row for each entry that was refused; worth running only where `faults` is above 0."""
    unused: tuple[str, ...]
    """The columns that mean nothing to the plan."""


class BatchTask(NamedTuple):
    """What to compute."""

    plan: BatchPlan
    queries: Callable[[str, Sequence[SourceColumn]], Queries]
    """The queries over a view with these columns."""
    evidence: Callable[[str, Sequence[SourceColumn]], str | None]
    """A query in DuckDB's dialect that is graded in the place of a view; None for the view itself.
    """
    names: Mapping[str, str] = {}
    keep: tuple[str, ...] = ()
    earlier: Earlier | None = None
    """The output that is graded again from its norms."""


def graded_view(task: BatchTask, engine: BatchEngine, view: str) -> str:
    """The view that is graded."""
    columns = engine.columns(view)
    sql = task.evidence(view, columns)
    return view if sql is None else engine.define(in_dialect(sql, engine.dialect))
