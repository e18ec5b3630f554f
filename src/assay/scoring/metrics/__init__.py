"""Measures: raw scores read off the evidence itself, one file per family.

A measure says what it looks at and which formula reads its raw value. What it cannot tell is `Undetermined` with the reason, never 0 and never NaN.
It runs no code and asks no model.
"""

from __future__ import annotations

from assay.registry import Registry
from assay.scoring.metrics.counts import COUNTS
from assay.scoring.metrics.measure import Measure
from assay.scoring.metrics.operations import OPERATIONS

MEASURES: Registry[Measure] = Registry("measure")
for _measure in (*COUNTS, *OPERATIONS):
    MEASURES.add(_measure.id, _measure)
