"""What is measured of a run once it is over, in order: first what its repository says of a patch,
then the team's own scorers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.running.scorers import scorers_of

if TYPE_CHECKING:
    from assay.running.runner import After
    from assay.running.workflow import Workflow


def after_of(workflow: Workflow) -> list[After]:
    """Everything that a workflow file asks to be measured after a run."""
    found: list[After] = []
    if workflow.spec.repository is not None:
        from assay.running.repair import repair_of

        found.append(repair_of(workflow))
    return found + scorers_of(workflow)
