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


class Flakiness(NamedTuple):
    """What repeats show about the stability of items."""

    items: tuple[FlakyItem, ...]
    """In the order of their names."""
    repeated: int
    """Items with two repeats or more: only those can disagree."""
    single: tuple[str, ...]
    """Items that ran once, or not at all: nothing is known of them."""
    rate: Interval
    """The share of flaky items among the repeated ones, as far as these repeats show it; more
    repeats find more.
    """


def find_flaky(repeats: Mapping[str, Sequence[bool]], *, level: float = 0.95) -> Flakiness:
    """The items whose repeats disagree.

    >>> found = find_flaky({"a": [True, True], "b": [True, False, True], "c": [True]})
    >>> [item.name for item in found.items], found.repeated, found.single
    (['b'], 2, ('c',))
    """
    repeated = {name: verdicts for name, verdicts in sorted(repeats.items()) if len(verdicts) > 1}
    items = []
    for name, verdicts in repeated.items():
        passed = sum(map(bool, verdicts))
        if 0 < passed < len(verdicts):
            items.append(
                FlakyItem(name, len(verdicts), passed, wilson(passed, len(verdicts), level=level))
            )
    rate = wilson(len(items), len(repeated), level=level)
    if not repeated:
        rate = rate._replace(reason="no item was repeated")
    return Flakiness(
        tuple(items),
        len(repeated),
        tuple(sorted(name for name in repeats if name not in repeated)),
        rate,
    )
