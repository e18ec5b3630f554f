"""Samples whose repeats disagree on passing. They are named, with the option that leaves one out;
nothing is left out here.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.records.decision import FlakySample
from assay.records.summary import value_interval
from assay.release.sides import Side
from assay.stats.flaky import find_flaky


def flaky_samples(
    candidate: Side, baseline: Side, *, quarantined: Sequence[str] = (), level: float = 0.95
) -> list[FlakySample]:
    """The samples of either side that passed in some repeats and failed in others, in the order of
    their names.
    """
    out = frozenset(quarantined)
    found = []
    for side, name in ((candidate, "candidate"), (baseline, "baseline")):
        repeats = {
            sample: [repeat.passed for repeat in repeats]
            for sample, repeats in side.repeats.items()
        }
        for item in find_flaky(repeats, level=level).items:
            found.append(
                FlakySample(
                    sample=item.name,
                    side=name,
                    repeats=item.n,
                    passed=item.passed,
                    rate=value_interval(item.rate),
                    quarantined=item.name in out,
                    leave_out=f"--quarantine {item.name}",
                )
            )
    return sorted(found, key=lambda item: (item.sample, item.side))
