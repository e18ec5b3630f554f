"""Grade a table where it lives: the answer is the engine's own relation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import UsageError
from assay.families.batch.batching import grading_task, plan_batch
from assay.families.batch.duckdb_engine import DuckDBEngine
from assay.families.batch.quoting import in_dialect
from assay.families.batch.spark_engine import SparkEngine
from assay.families.batch.spark_session import SparkSource
from assay.families.batch.task import graded_view
from assay.library.shelf import Shelf
from assay.services.grading import DEFAULT_POLICY

ENGINES = ("duckdb", "spark")


def grade_table(
    source: Any,
    *,
    profile: str,
    policy: str = DEFAULT_POLICY,
    rubric: str | None = None,
    library: str | None = None,
    engine: str = "duckdb",
    connection: Any = None,
    session: Any = None,
    columns: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
    rejects: bool = False,
) -> Any:
    """Grade the rows of a table: one row for each run, as a relation of the engine.

    `source` is a path, a list of paths (united by column name), or a relation of `connection`; on
    Spark, a DataFrame of `session`. Without a `session`, the active one is used, or a new one is
    started. It stays open, because the result is read later: `grades.sparkSession.stop()` ends it.
    `columns` says what the source calls the columns: `{"run": "run_id", "raw": "value"}`. `keep`
    names columns to carry through. With `rejects`, the rows that were refused come back in place of
    the grades; a run with such rows has `faults` above 0. The relation is lazy: nothing runs until
    it is read.

    >>> import assay, duckdb
    >>> scores = duckdb.sql("SELECT 'r-1' AS run, 'correctness' AS criterion, 4 AS raw")
    >>> grades = assay.grade_table(scores, profile="dag-review@1", connection=duckdb)
    >>> grades.select("run", "grade", "reason", "norm_correctness").fetchall()
    [('r-1', 'F', 'hard_gate_failure', 0.75)]
    """
    if engine not in ENGINES:
        raise UsageError(
            "BAT-009", f"no engine is named {engine!r}.", fix="Use 'duckdb' or 'spark'."
        )
    shelf = Shelf(*filter(None, [library]))
    plan = plan_batch(shelf, profile=profile, policy=policy, rubric=rubric)
    runner = SparkEngine(SparkSource(session)) if engine == "spark" else DuckDBEngine(connection)
    if isinstance(source, str):
        view = runner.attach([source])
    elif isinstance(source, Sequence):
        view = runner.attach(list(source))
    else:
        view = runner.attach_relation(source)
    task = grading_task(plan, columns or {}, keep)
    view = graded_view(task, runner, view)
    queries = task.queries(view, runner.columns(view))
    return runner.relation(
        in_dialect(queries.rejects if rejects else queries.grades, runner.dialect)
    )
