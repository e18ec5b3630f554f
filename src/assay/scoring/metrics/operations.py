"""What a run cost: time and money, against a service level that the profile names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.scoring.metrics.measure import Measure, Undetermined

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.records.evidence import Run


def _latency(run: Run, _params: Mapping[str, Any]) -> Any:
    return Undetermined("the run carries no `latency_ms`") if run.latency_ms is None else run.latency_ms


def _cost(run: Run, _params: Mapping[str, Any]) -> Any:
    return Undetermined("the run carries no `cost_usd`") if run.cost_usd is None else run.cost_usd


OPERATIONS = (
    Measure("latency", "1", "Wall time of the run", "ms", "lower is better", "lower_is_better", "latency_ms", "undetermined", _latency),
    Measure("cost", "1", "Cost of the run", "usd", "lower is better", "lower_is_better", "cost_usd", "undetermined", _cost),
)
