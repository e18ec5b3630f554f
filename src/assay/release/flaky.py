"""Samples whose repeats disagree on passing. They are named, with the option that leaves one out;
nothing is left out here.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from assay.records.decision import FlakySample
from assay.records.summary import value_interval
from assay.release.sides import Side
from assay.stats.flaky import FlakyItem, find_flaky


def flaky_samples(
    candidate: Side, baseline: Side, *, quarantined: Sequence[str] = (), level: float = 0.95
) -> list[FlakySample]:
    """The samples of either side that passed in some repeats and failed in others, in the order of
    their names.
    """
    ours, theirs = (
        find_flaky(
            {
                sample: [repeat.passed for repeat in repeats]
                for sample, repeats in side.repeats.items()
            },
            level=level,
        )
        for side in (candidate, baseline)
    )
    return flaky_records(ours, theirs, quarantined=quarantined)


def flaky_records(
    candidate: Sequence[FlakyItem],
    baseline: Sequence[FlakyItem],
    *,
    quarantined: Sequence[str] = (),
) -> list[FlakySample]:
    """The flaky samples of both sides as a decision lists them."""
    samples = [
        FlakySample(
            sample=item.name,
            side=side,
            repeats=item.n,
            passed=item.passed,
            rate=value_interval(item.rate),
            quarantined=item.name in quarantined,
            leave_out=f"--quarantine {shlex.quote(item.name)}",
        )
        for side, items in (("candidate", candidate), ("baseline", baseline))
        for item in items
    ]
    return sorted(samples, key=lambda item: (item.sample, item.side))
