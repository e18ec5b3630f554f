"""What a page of a decision needs besides the decision: the score of every pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.release.pairs import pair_up
from assay.views.charts.decisions import ScorePair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.release.sides import Side


def score_pairs(
    candidate: Side, baseline: Side, *, planned: Sequence[str] | None = None
) -> list[ScorePair]:
    """The score of every sample on both sides; None where a side lost one."""
    return [
        ScorePair(
            pair.sample,
            None if pair.candidate is None else pair.ours,
            None if pair.baseline is None else pair.theirs,
        )
        for pair in pair_up(candidate, baseline, planned=planned)
    ]
