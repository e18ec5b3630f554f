"""Why a row doesn't count, as numbers that an engine can group by.

A norm is a whole number from 0; what has none is negative: `NO_SCORE` for a row without a score,
anything lower for a row that a scorecard would refuse.
"""

from __future__ import annotations

from typing import NamedTuple

NO_SCORE = -1


class RowFault(NamedTuple):
    """One reason to refuse a row: its number in the plan, its code and its text."""

    number: int
    code: str
    reason: str


NOT_A_NUMBER = RowFault(-2, "SCO-003", "the score is not a finite number")
OFF_SCALE = RowFault(-3, "SCO-001", "the score is outside the scale of its formula")
NOT_WHOLE = RowFault(-4, "SCO-003", "a count is not a whole number")
BELOW_ZERO = RowFault(-5, "SCO-007", "a count is below zero")
NOTHING_COUNTED = RowFault(-6, "SCO-006", "the counts add up to 0")
CONTRADICTION = RowFault(-7, "SCO-007", "more passed than there are")
TOO_PRECISE = RowFault(-8, "BAT-010", "the number has more digits than a batch computes exactly")
BAD_N = RowFault(-9, "BAT-011", "n is not a whole number from 0 up to what fits into 64 bits")
PARTIAL_COUNTS = RowFault(-10, "SCO-003", "some of the counts are missing")
NOT_COUNTS = RowFault(-11, "SCO-003", "the formula takes counts, and the row has a number")
BAD_VERDICT = RowFault(-12, "BAT-025", "the verdict is not true or false")
UNKNOWN_CRITERION = RowFault(-20, "BAT-012", "the profile has no such criterion")
BAD_GATE_NAME = RowFault(-21, "SCO-013", "the gate's name is not an identifier")
NO_RUN = RowFault(-30, "BAT-013", "the run has no id, or one of more than 500 characters")
STRAY = RowFault(-31, "BAT-014", "a score without a criterion, or a verdict without a gate")
TWICE = RowFault(-40, "GRD-102", "the run has this more than once")
WIDE_TWICE = RowFault(
    -42, "GRD-102", "several rows have columns of scores for this run; one may, or use long rows"
)
TWO_VALUES = RowFault(-41, "BAT-015", "the run has several values in a column to keep")

ROW_FAULTS: tuple[RowFault, ...] = (
    NOT_A_NUMBER,
    OFF_SCALE,
    NOT_WHOLE,
    BELOW_ZERO,
    NOTHING_COUNTED,
    CONTRADICTION,
    TOO_PRECISE,
    BAD_N,
    PARTIAL_COUNTS,
    NOT_COUNTS,
    BAD_VERDICT,
    UNKNOWN_CRITERION,
    BAD_GATE_NAME,
    NO_RUN,
    STRAY,
    TWICE,
    WIDE_TWICE,
    TWO_VALUES,
)
