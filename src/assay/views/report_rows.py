"""What a report keeps of each result: what is counted, and the row of its run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import structs

from assay.records.evidence import Run
from assay.records.grade_line import as_line
from assay.records.samples import SampleRow, SampleRun, fold_samples, sample_evidence, sample_grade
from assay.views.run import SYSTEMS

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
        "causes": as_line(result).counted,
        "lost": {
            str(criterion.get("name")): (
                criterion.get("label") or criterion.get("name"),
                float(criterion.get("maximum") or 0) - float(criterion.get("contribution") or 0),
            )
            for criterion in result.get("criteria") or ()
        },
    }


ROW_TEXT = 2_000
"""Characters of a question, an answer or an expected value that are kept for a row."""


class KeptRow(msgspec.Struct):
    """The row of one run, and its workflow."""

    row: SampleRow
    workflow: str


read_row = msgspec.json.Decoder(KeptRow).decode


def kept_row(result: Mapping[str, Any], run: Run | None) -> KeptRow:
    """The row of one run; without the run it has no texts."""
    grade = sample_grade({"weighted_score": 0, **result})
    evidence = None if run is None else sample_evidence(run)
    (row,) = fold_samples([(SampleRun(str(result.get("run_id")), "", grade), evidence)])
    texts = {name: getattr(row, name)[:ROW_TEXT] for name in ("question", "answer", "expected")}
    return KeptRow(structs.replace(row, **texts), workflow_name(result))


def workflow_name(result: Mapping[str, Any]) -> str:
    """The workflow of a result and its version, on one line."""
    workflow = result.get("workflow")
    if not isinstance(workflow, dict):
        return "none, a bare scorecard"
    return f"{workflow.get('id')}@{workflow.get('version')}"
