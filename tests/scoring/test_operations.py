"""Operations as measures with budgets, and anchored scales: the statements of the scoring guide on
both.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from assay.files.json_files import Document
from assay.formulas import normalise
from assay.library.shelf import Shelf
from assay.records.reading import read_run
from assay.scoring.metrics import MEASURES
from assay.scoring.metrics.measure import Undetermined
from assay.scoring.rubric import Rubric
from documents import run

STEPS = [
    {
        "name": "plan",
        "status": "success",
        "duration_ms": 100,
        "retries": 0,
        "tokens": 200,
        "cost_usd": 0.001,
    },
    {
        "name": "call",
        "status": "success",
        "duration_ms": 300,
        "retries": 2,
        "tokens": 500,
        "cost_usd": 0.002,
    },
    {
        "name": "wait",
        "status": "timeout",
        "duration_ms": 9000,
        "retries": 1,
        "tokens": 0,
        "cost_usd": 0,
        "critical": False,
    },
    {
        "name": "write",
        "status": "success",
        "duration_ms": 200,
        "retries": 0,
        "tokens": 300,
        "cost_usd": 0.004,
    },
]


def _taken(name: str, **changes: Any) -> Any:
    return MEASURES[name].take(
        read_run(Document({**run("dag-review"), "steps": STEPS, **changes}, "r.json")),
        MEASURES[name].params,
    )


@pytest.mark.req("W-023")
def test_time_tokens_cost_retries_and_stability_are_measured_from_the_steps_and_held_against_a_budget() -> (
    None
):
    assert _taken("step_duration_p50") == 200
    assert _taken("step_duration_p95") == 9000
    assert _taken("tokens", tokens=None) == 1000
    assert _taken("cost", cost_usd=Decimal("0.007")) == Decimal("0.007")
    assert _taken("retry_amplification", retries=None) == Decimal("1.75")
    assert _taken("infrastructure_stability") == {"passed": 3, "total": 4}
    assert _taken("step_failure_rate") == 0.25
    for name, good, bad in (
        ("step_duration_p95", 1000, 17000),
        ("tokens", 500, 1500),
        ("retry_amplification", 1, 3),
    ):
        raw = _taken(name, tokens=None, retries=None)
        assert (
            0 < normalise(raw, MEASURES[name].formula, {"slo_good": good, "slo_bad": bad}) < 10**9
        )


@pytest.mark.req("W-023")
def test_an_operation_that_nobody_counted_is_undetermined_and_never_free() -> None:
    for name in (
        "tokens",
        "retries",
        "retry_amplification",
        "step_duration_p50",
        "step_duration_p95",
        "infrastructure_stability",
        "step_failure_rate",
    ):
        assert isinstance(_taken(name, steps=[], tokens=None, retries=None), Undetermined), name
    assert isinstance(_taken("cost", cost_usd=None), Undetermined)
    assert isinstance(_taken("latency", latency_ms=None), Undetermined)


@pytest.mark.req("W-022")
@pytest.mark.parametrize(("formula", "low", "high"), [("likert_1_5", 1, 5), ("likert_0_5", 0, 5)])
def test_an_anchored_score_is_normalised_from_its_own_scale_and_nothing_off_it(
    formula: str, low: int, high: int
) -> None:
    from assay.errors import FormulaError

    assert (normalise(low, formula, {}), normalise(high, formula, {})) == (0, 10**9)
    for raw in (low - 1, high + 1):
        with pytest.raises(FormulaError):
            normalise(raw, formula, {})


@pytest.mark.req("W-022")
def test_every_rubric_on_the_shelf_anchors_each_point_of_its_scales() -> None:
    shelf = Shelf()
    found = [shelf.load("rubrics", entry.id) for entry in shelf.entries("rubrics")]
    rubrics = [rubric for rubric in found if isinstance(rubric, Rubric)]
    assert rubrics
    for rubric in rubrics:
        for criterion in rubric.criteria:
            low, high = criterion.scale
            assert set(criterion.anchors) == {
                str(point) for point in range(int(low), int(high) + 1)
            }, (rubric.id, criterion.name)
            assert all(text.strip() for text in criterion.anchors.values())
