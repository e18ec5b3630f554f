"""The versions of the two systems for tool schemas. They are independent of each other and of those
of other families.

`scoringSystem` moves when the score for the same input changes; `gradingSystem` when the grade for
the same scores changes.
"""

from __future__ import annotations

from assay.records.systems import Systems

SCORING_SYSTEM = "scoringSystem/1.0.0"
GRADING_SYSTEM = "gradingSystem/1.0.0"
GRADING_SPEC = "gradingSpec/2.0.1"
SCORING_PROTOCOL = "v1"

CURRENT = Systems(SCORING_SYSTEM, GRADING_SYSTEM)
"""What this code implements; the grading system of a result is the one that its policy states."""
