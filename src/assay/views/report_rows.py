"""What a report counts of each result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.views import grade_line
from assay.views.run import SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Mapping

Result = dict[str, Any]
_ROW = (
    *("run_id", "passed", "grade", "weighted_score", "pass_threshold", "hard_gate_failures"),
    *("workflow", "bands"),
    *SYSTEMS,
)
_DATASET = ("id", "version")


def row_of(result: Mapping[str, Any]) -> Result:
    """What the counts need of a result: its causes, and the points that each criterion lost."""
    dataset = result.get("dataset") or {}
    return {
        **{key: result.get(key) for key in _ROW},
        "dataset": [dataset.get(key) for key in _DATASET],
        "causes": grade_line.as_line(result).counted,
        "lost": {
            str(one.get("name")): (
                one.get("label") or one.get("name"),
                float(one.get("maximum") or 0) - float(one.get("contribution") or 0),
            )
            for one in result.get("criteria") or ()
        },
    }
