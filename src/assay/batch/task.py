"""What a batch computes, whichever family its policy is of, and the view that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from assay.batch.earlier import Earlier
from assay.batch.engine import BatchEngine, SourceColumn
from assay.batch.evidence import bad_verdicts
from assay.batch.quoting import in_dialect
from assay.errors import InputError

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


def _as_it_is(view: str, columns: Sequence[SourceColumn]) -> str | None:
    return None


class BatchTask(NamedTuple):
    """What to compute, whichever family it is of."""

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
    verdicts: frozenset[str] = frozenset()
    """The columns that are true, false or empty."""
    earlier: Earlier | None = None
    """The output that is graded again from its norms."""
    key: str = "run"
    """The column of the ids, unless `names` calls it something else."""
    noun: str = "runs"
    """What has a grade each."""


def graded_view(task: BatchTask, engine: BatchEngine, view: str) -> str:
    """The view that is graded."""
    columns = engine.columns(view)
    check = bad_verdicts(view, columns, task.verdicts)
    if check is not None:
        for name, value in engine.rows(in_dialect(check, engine.dialect)):
            if value is not None:
                raise InputError(
                    "BAT-025",
                    f"the column '{name}' has '{value[:80]}', which isn't a verdict.",
                    fix="Write true or false, and leave it empty where there is no verdict.",
                )
    sql = task.evidence(view, columns)
    return view if sql is None else engine.define(in_dialect(sql, engine.dialect))
