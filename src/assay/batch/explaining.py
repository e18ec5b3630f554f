"""A batch as SQL to run by hand: the statements that read the input, and the two queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay.batch.earlier import earlier_grades
from assay.batch.engine import BatchEngine
from assay.batch.quoting import identifier, in_dialect, pretty
from assay.batch.sources import find_sources
from assay.batch.task import VIEW, BatchTask, graded_view

_SOURCE = "batch_source"
"""What was read, before text becomes numbers and norms become scores."""


class ExplainedBatch(NamedTuple):
    """The statements of a batch, in the dialect of its engine."""

    reading: tuple[str, ...]
    """Statements that define the view `batch_input`; none if SQL alone can't read the input."""
    grades: str
    rejects: str


def explain_batch(task: BatchTask, engine: BatchEngine, names: Sequence[str]) -> ExplainedBatch:
    """The statements of a batch over the inputs that were named. Nothing is graded."""
    sources = find_sources(names) if task.earlier is None else earlier_grades(task.earlier)[0]
    attached = engine.attach(sources)
    view = graded_view(task, engine, attached)
    queries = task.queries(VIEW, engine.columns(view))
    evidence = task.evidence(_SOURCE, engine.columns(attached))
    reading = engine.reading_sql(sources)
    if reading:
        *before, select = reading
        made = evidence or f"SELECT * FROM {identifier(_SOURCE)}"
        reading = [
            *before,
            f"CREATE OR REPLACE TEMP VIEW {identifier(_SOURCE)} AS {select}",
            f"CREATE OR REPLACE TEMP VIEW {identifier(VIEW)} AS {in_dialect(made, engine.dialect)}",
        ]
    grades, rejects = (
        pretty(in_dialect(sql, engine.dialect), engine.dialect)
        for sql in (queries.grades, queries.rejects)
    )
    return ExplainedBatch(tuple(reading), grades, rejects)
