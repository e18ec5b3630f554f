"""Two lists of scores of the same samples, compared as a release compares their differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from assay.stats.clusters import gather
from assay.stats.comparison import Comparison, compare_differences
from assay.stats.estimate import DIFFERENCES, SCORES, checked


def compare_paired(
    candidate: Sequence[float],
    baseline: Sequence[float],
    *,
    margin: float,
    groups: Sequence[Hashable | None] | None = None,
    **how: Any,
) -> Comparison:
    pairs = zip(checked(candidate, SCORES), checked(baseline, SCORES), strict=True)
    differences = checked((ours - theirs for ours, theirs in pairs), DIFFERENCES)
    gathered = None if groups is None else gather(differences, groups)
    return compare_differences(Counter(differences), margin=margin, groups=gathered, **how)
