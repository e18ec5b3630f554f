"""The summary of a batch: what `release.summary` makes of grades, counted by an engine."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from assay.batch.engine import BatchEngine
from assay.batch.plan import BatchPlan
from assay.batch.run_query import BatchRunQuery, extra_gate_names
from assay.batch.side_sums import side_sums
from assay.batch.slice_sums import slice_sums
from assay.pipeline.batch_gate import BatchSide, check_plan, check_slices, view_of
from assay.records.summary import SummaryBlock


def summarise_batch(
    engine: BatchEngine, side: BatchSide, plan: BatchPlan, *, slices: Sequence[str] = ()
) -> SummaryBlock:
    """The summary of a batch and of each slice of it by the kept columns that `slices` names.
    `plan` is what the shelf makes of its profile and policy.
    """
    check_plan(plan, side)
    check_slices(side, slices)
    view = view_of(engine, side)
    query = BatchRunQuery(plan, extra_gates=extra_gate_names(engine, plan, view))
    block = side_sums(engine, query, view, where=side.path, name="batch").summary
    return structs.replace(
        block,
        slices={
            **block.slices,
            **{column: slice_sums(engine, query, view, column) for column in dict.fromkeys(slices)},
        },
    )
