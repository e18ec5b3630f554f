"""Items whose repeats disagree. They are found and named here, never left out: that is the user's
decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assay.stats.intervals import Interval, wilson


class FlakyItem(NamedTuple):
    """An item that passed in some repeats and failed in others."""

    name: str
    n: int
    passed: int
    rate: Interval
    """Of passing."""


def find_flaky(repeats: Mapping[str, Sequence[bool]], *, level: float = 0.95) -> list[FlakyItem]:
    """The items whose repeats disagree, in the order of their names.

    >>> [item.name for item in find_flaky({"a": [True, True], "b": [True, False], "c": [True]})]
    ['b']
    """
    flaky_items = []
    for name, verdicts in sorted(repeats.items()):
        n, passed = len(verdicts), sum(verdicts)
        if 0 < passed < n:
            flaky_items.append(FlakyItem(name, n, passed, wilson(passed, n, level=level)))
    return flaky_items
