"""The versions of the two systems for exams. They are independent of each other and of those of
other families.

`scoringSystem` moves when the marks of the same answer change; `gradingSystem` when the same marks
open another gate.
"""

from __future__ import annotations

from assay.records.systems import Systems

SCORING_SYSTEM = "scoringSystem/1.0.0"
GRADING_SYSTEM = "gradingSystem/1.0.0"
CURRENT = Systems(SCORING_SYSTEM, GRADING_SYSTEM)
"""What this code implements; a result is made under what its rubric and policy state."""
