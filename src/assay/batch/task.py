"""What a batch computes, for a policy of any family, and the view that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from assay.batch.earlier import Earlier
from assay.batch.engine import BatchEngine, SourceColumn
from assay.batch.quoting import in_dialect

VIEW = "batch_input"
"""What the source is called in the SQL that a record names and `--explain-sql` prints."""


class Queries(Protocol):
    """What a plan makes of a view."""

    @property
    def grades(self) -> str:
        """One row for each run."""

    @property
    def rejects(self) -> str:
        """One row for each entry that was refused."""

    @property
    def unused(self) -> tuple[str, ...]:
        """The columns that mean nothing to the plan."""


def _as_it_is(view: str, columns: Sequence[SourceColumn]) -> str | None:
    return None


class BatchTask(NamedTuple):
    """What to compute, for a policy of any family."""

    family: str
    profile: str | None
    policy: str
    scoring_system: str
    grading_system: str
    plan: str
    """The digest of the plan."""
    digests: Mapping[str, str]
    queries: Callable[[str, Sequence[SourceColumn], str], Queries]
    """The queries over a view with these columns, in a dialect."""
    names: Mapping[str, str] = {}
    keep: tuple[str, ...] = ()
    evidence: Callable[[str, Sequence[SourceColumn]], str | None] = _as_it_is
    """A query in DuckDB's dialect that is graded in the place of a view."""
    earlier: Earlier | None = None
    """The output that is graded again from its norms."""
    key: str = "run"
    """The column of the ids, unless `names` calls it something else."""
    noun: str = "runs"
    """What the graded things are called."""


def graded_view(task: BatchTask, engine: BatchEngine, view: str) -> str:
    """The view that is graded."""
    columns = engine.columns(view)
    sql = task.evidence(view, columns)
    return view if sql is None else engine.define(in_dialect(sql, engine.dialect))
