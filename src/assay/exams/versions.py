"""The versions of the two systems for exams. They are independent of each other and of those of
other families.

`scoringSystem` moves when the marks of the same answer change; `gradingSystem` when the same marks
open another gate.
"""

from __future__ import annotations

from typing import NamedTuple

SCORING_SYSTEM = "scoringSystem/1.0.0"
GRADING_SYSTEM = "gradingSystem/1.0.0"


class Systems(NamedTuple):
    """The two versions that an exam is graded under."""

    scoring: str = SCORING_SYSTEM
    grading: str = GRADING_SYSTEM

    def document(self) -> dict[str, str]:
        """As every result carries them."""
        return {"scoringSystem": self.scoring, "gradingSystem": self.grading}


CURRENT = Systems()
"""What this code implements; a result is made under what its rubric and policy state."""
