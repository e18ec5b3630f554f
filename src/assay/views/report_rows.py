"""The rows of a report: what is kept of each result for the table of runs and for the counts, and
the line it becomes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.views import grade_line
from assay.views.blocks import Column
from assay.views.pieces import code, letter, line, link, phrase, points, shown
from assay.views.run import SYSTEMS, workflow_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Result = dict[str, Any]
COLUMNS = (
    "Run",
    "Workflow",
    "Grade",
    Column("Score", "n"),
    "Verdict",
    Column("Why", "wide"),
    "Gates that fail",
)
_ROW = (
    *(
        "run_id",
        "passed",
        "grade",
        "weighted_score",
        "pass_threshold",
        "hard_gate_failures",
        "workflow",
        "bands",
    ),
    *SYSTEMS,
)


def row_of(result: Mapping[str, Any]) -> Result:
    """What the table and the counts need of a result."""
    found = grade_line.as_line(result)
    return {
        **{key: result.get(key) for key in _ROW},
        "because": found.because,
        "causes": found.counted,
    }


def line_of(row: Result, place: int, sections: int) -> list[str]:
    """A row in the table, with a link to the section of its run where there is one."""
    name = shown(row.get("run_id"))
    gates = row.get("hard_gate_failures") or ()
    more = f"and {len(gates) - 3} more" if len(gates) > 3 else ""
    return [
        link(name, f"#run-{place}") if place <= sections else name,
        workflow_of(row),
        letter(row.get("grade"), row.get("policy")),
        points(row.get("weighted_score")),
        grade_line.outcome(row.get("passed")),
        row["because"],
        phrase(*(line(code(gate)) for gate in gates[:3]), more) if gates else shown(None, "none"),
    ]
